"""Bins that keep a promise: chosen on some rows, filled and proved by the others."""

from __future__ import annotations

from functools import partial

import numpy as np

from calibrant.arrays import InputError
from calibrant.calibrators.binning import FIXED_SOURCE, SEED
from calibrant.calibrators.candidates import CANDIDATES, bin_edges, fit_bins
from calibrant.calibrators.choosing import Candidate, Selection, select
from calibrant.calibrators.cuts import counted, parted
from calibrant.calibrators.folds import Folds
from calibrant.calibrators.losses import Loss
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.issuing import Bins
from calibrant.guarantees.planning import MOST_LABELS, split_size
from calibrant.numerics import Floats
from calibrant.tallies import Tally

COUNTS = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)
"""Numbers of bins that are tried: one would keep any promise and say nothing."""

TYPICAL_BINS = 10
CAUTION = 2.0
"""Standard errors by which a bin is expected to hold fewer rows, and rates nearer to 1/2, than the part says."""


def promised_bins(
    tally: Tally, guarantee: tuple[float, float], loss: Loss, cv: int, random_state: int
) -> tuple[Selection, Bins]:
    r"""The best number of bins among those that will probably be within epsilon, and these bins filled by other rows.

    A random :math:`n^{2/3} 10^{1/3}` of the rows, at most half of them, choose: a number of bins B comes into question
    when exact intervals at :math:`\alpha / B` around the rates that they show would be within epsilon, with two
    standard errors to spare in rows and rates; of these the cross-fitted loss takes one, the fewest bins first. The
    other rows fill the bins and prove the promise, once.

    Raises
    ------
    InputError
        When no number of bins comes into question, and when the bins miss epsilon after all: a promise that was asked
        for and is not there must not pass unseen. The sentence says about how many more labels it takes.
    """
    epsilon, alpha = guarantee
    part, rest = _parted(tally, guarantee, random_state)
    counts = [count for count in COUNTS if _reach(part, count, float(rest.total), alpha) <= epsilon]
    if not counts:
        raise InputError(_missing(part, tally, guarantee, "cannot be kept"))
    candidates = [
        Candidate(f"{count} bin{'' if count == 1 else 's'}", partial(fit_bins, n_bins=count)) for count in counts
    ]
    keep = None if part.kind == "real" else CANDIDATES["identity"]
    selection = select(Folds.at_random(part, cv, random_state), candidates, part, loss, keep=keep)
    edges = bin_edges(part, counts[[each.name for each in candidates].index(selection.chosen.name)])
    rule = f"equal masses of a random part of {part.total:,.6g} rows"
    bins = counted(rest, edges, rule, FIXED_SOURCE, SEED)
    reached = _reached(bins, alpha)
    if reached > epsilon:
        raise InputError(_missing(part, tally, guarantee, f"was missed: the rows set aside reach {reached:.4f}"))
    return selection, bins


def _parted(tally: Tally, guarantee: tuple[float, float], random_state: int) -> tuple[Tally, Tally]:
    size = split_size(int(tally.total), TYPICAL_BINS)
    if size < 1 or not tally.total > size:
        raise InputError(_missing(tally, tally, guarantee, "cannot be kept"))
    return parted(tally, size, random_state)


def _reach(part: Tally, count: int, rows: float, alpha: float) -> float:
    """What the widest of so many bins will reach, cautiously."""
    n, events = part.partition(bin_edges(part, count))
    shares, rates = n / n.sum(), (events + 0.5) / (n + 1.0)
    noise = CAUTION * np.sqrt(rates * (1.0 - rates) / (n + 1.0))
    rates = rates + np.clip(0.5 - rates, -noise, noise)
    expected = np.floor(rows * shares - CAUTION * np.sqrt(rows * shares * (1.0 - shares)))
    return float(_half_widths(rates, np.maximum(expected, 1.0), alpha / len(n)).max())


def _half_widths(rates: Floats, rows: Floats, alpha: float) -> Floats:
    events = np.rint(rates * rows)
    low, high = clopper_pearson(events, rows, alpha)
    outputs = np.where((events == 0) | (events == rows), (events + 1.0) / (rows + 2.0), events / rows)
    return np.maximum(outputs - low, high - outputs)


def _reached(bins: Bins, alpha: float) -> float:
    filled = bins.n > 0
    low, high = clopper_pearson(bins.events[filled], bins.n[filled], alpha / int(filled.sum()))
    return float(np.maximum(bins.outputs[filled] - low, high - bins.outputs[filled]).max())


def _missing(part: Tally, tally: Tally, guarantee: tuple[float, float], what: str) -> str:
    epsilon, alpha = guarantee
    rate = (float(part.positives) + 0.5) / (float(part.total) + 1.0)
    low, high = 1, 1
    while not _two_bins(high, rate, alpha) <= epsilon and high < MOST_LABELS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _two_bins(middle, rate, alpha) <= epsilon else (middle, high)
    more = max(high - int(tally.total), int(0.25 * tally.total), 1)
    return (
        f"the guarantee of {epsilon:g} at confidence {100 * (1 - alpha):g} % {what} with {tally.total:,.6g} labels: "
        f"for two bins about {more:,} more are missing, or allow a larger epsilon; another seed would void the promise"
    )


def _two_bins(total: int, rate: float, alpha: float) -> float:
    rows = (total - split_size(total, TYPICAL_BINS)) / 2
    return float(_half_widths(np.array([rate]), np.array([max(np.floor(rows), 1.0)]), alpha / 2)[0])
