"""E-processes: the evidence of rows against a hypothesis, as likelihood ratios mixed over alternatives and onsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrant.numerics import Floats, Ints

START = 0.5
"""Prior probability that a deviation is there from the first row; the rest is spread over later onsets."""


def unspent(row: Floats) -> Floats:
    """Prior probability that a deviation begins after this row."""
    return np.asarray((1.0 - START) / np.log2(row + 2.0))


def begins_at(row: Floats) -> Floats:
    """Logarithm of the prior probability that a deviation begins at this row, counted from 1."""
    after = row + 1.0
    grown = np.log1p(1.0 / after) / (np.log2(after) * np.log2(row + 2.0))
    return np.asarray(np.log(grown) + math.log((1.0 - START) / math.log(2.0)))


def log_ratios(p: Floats, y: Floats, tilts: Floats, reach: Floats | None = None) -> Floats:
    """Log-likelihood ratio of each row (first axis) for each alternative, which tilts the log-odds.

    ``reach`` is by how much the log-odds of a row may be off; the hypothesis is then the nearest probability.
    """
    null = p[:, None]
    if reach is not None:
        lift = np.expm1(np.copysign(reach[:, None], tilts))
        null = null * (1.0 + lift) / (1.0 + null * lift)
    return np.asarray(y[:, None] * tilts - np.log1p(null * np.expm1(tilts)))


def running(before: Floats, steps: Floats) -> Floats:
    """Sums after each row, added in order, so that batches and single rows give the same bits."""
    return np.asarray(np.add.accumulate(np.concatenate([before[None], steps]), axis=0))


def log_sum(terms: Floats) -> Floats:
    """Logarithm of the sum of exponentials along the last axis."""
    top = np.maximum.reduce(terms, axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.add.reduce(np.exp(terms - top), axis=-1)))


def log_add(terms: Floats) -> Floats:
    """The same for few terms, added in order, which is faster for few rows."""
    return np.asarray(np.logaddexp.reduce(terms, axis=-1))


def log_e_after(totals: Floats, opened: Floats, row: Floats) -> Floats:
    """Log e-value after a row, from the totals and the opened onsets of the alternatives along the last axis."""
    mixed = log_sum(totals + opened) - math.log(totals.shape[-1])
    return np.asarray(np.logaddexp(mixed, np.log(unspent(row))))


@dataclass
class Wealth:
    """An e-process over alternatives and onsets.

    ``totals`` is the log-likelihood ratio of each alternative since the first row. ``opened`` is the logarithm of the
    sum, over onsets so far, of their prior probability over the ratio before them.
    """

    totals: Floats
    opened: Floats = field(default_factory=lambda: np.zeros(0))
    rows: int = 0

    @classmethod
    def new(cls, alternatives: int) -> Wealth:
        """Without rows: the e-value is 1."""
        return cls(np.zeros(alternatives), np.full(alternatives, math.log(START)))

    def copy(self) -> Wealth:
        """A copy, whose arrays are its own."""
        return Wealth(self.totals.copy(), self.opened.copy(), self.rows)

    def advance(self, ratios: Floats, weights: Floats | None = None) -> Floats:
        """Take rows, given their log-likelihood ratios, and return the log e-value after each.

        ``weights`` are the rows that each entry stands for, when it sums up several; onsets lie before an entry.
        """
        n = len(ratios)
        if not n:
            return np.zeros(0)
        sizes = np.ones(n) if weights is None else weights
        ends = self.rows + np.cumsum(sizes)
        if weights is None:
            begins = begins_at(ends)
        else:
            begins = np.log(np.maximum(unspent(ends - sizes) - unspent(ends), np.finfo(np.float64).tiny))
        totals = running(self.totals, ratios)
        opened = np.logaddexp.accumulate(np.concatenate([self.opened[None], begins[:, None] - totals[:-1]]), axis=0)[1:]
        self.totals, self.opened, self.rows = totals[-1], opened[-1], int(ends[-1])
        return log_e_after(totals[1:], opened, ends)

    @property
    def log_e(self) -> float:
        """The log e-value now."""
        return float(log_e_after(self.totals, self.opened, np.array(float(self.rows))))


def advance_one(parts: Sequence[Wealth], ratios: Floats, layout: tuple[Ints, Ints, list[slice], Floats]) -> list[float]:
    """Take one row in several e-processes, and return their log e-values: the bits of :meth:`Wealth.advance`, at once.

    ``layout`` says how their alternatives lie in one array: the part of each, first places and places of the parts, and
    logarithms of their sizes.
    """
    own, first, places, counts = layout
    row = np.array([each.rows + 1.0 for each in parts])
    before = np.concatenate([each.totals for each in parts])
    opened = np.logaddexp(np.concatenate([each.opened for each in parts]), begins_at(row)[own] - before)
    totals = before + ratios
    terms = totals + opened
    tops = np.maximum.reduceat(terms, first)
    grown = np.exp(terms - tops[own])
    sums = np.array([np.add.reduce(grown[place]) for place in places])
    for each, place in zip(parts, places, strict=True):
        each.totals, each.opened, each.rows = totals[place], opened[place], each.rows + 1
    found: list[float] = np.logaddexp(tops + np.log(sums) - counts, np.log(unspent(row))).tolist()
    return found
