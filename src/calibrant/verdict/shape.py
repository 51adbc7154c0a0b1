"""Misfit that a shift and a stretch cannot show: events in the tails and in stretches of the scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.numerics import Floats
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict.inflation import FEWEST_IN_PART, between_buckets
from calibrant.verdict.likelihood import Box, Likelihood

TAILS = (0.01, 0.05, 0.20)
STRETCHES = ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8))


@dataclass(frozen=True)
class Misfit:
    """One stretch of the scores, and how surely its events are beyond what the tolerance allows."""

    where: str
    rows: float
    events: float
    predicted: float
    p_value: float
    """Adjusted for the number of stretches and sides looked at."""

    @property
    def too_low(self) -> bool:
        """Whether more happened than was predicted."""
        return self.events > self.predicted


def worst_misfit(likelihood: Likelihood, box: Box, clusters: GroupedTally | None = None) -> Misfit | None:
    r"""The stretch of scores whose events are hardest to explain by any tolerated shift and stretch.

    A tolerated model moves the log-odds of a score at distance :math:`|x - c|` from the centre by at most
    :math:`\tau_a + \tau_d |x - c|`. With every row moved that far, the number of events in a stretch is a sum of
    independent Bernoulli variables; beyond its mean by one, its tail is at most that of the binomial distribution with
    the same mean (Hoeffding 1956, Theorem 5), and one event is at most as likely as the sum of the probabilities.
    Bonferroni pays for looking at tails of 1, 5 and 20 % on either side, three stretches between, and both directions.
    The stretches are chosen from the scores alone.

    Guarantee: each p-value is valid in finite samples, for every tolerated model and independent rows that count alike.
    With weights, rows and events are divided by the stretch's own design effect; with clusters, Student's law over the
    buckets takes the place of the binomial one. Both are approximate.
    """
    score = np.asarray(special.expit(likelihood.log_odds))
    ranges = _ranges(likelihood.n, score)
    if not ranges:
        return None
    reach = box.shift + (0.0 if likelihood.spread == 0.0 else box.stretch * np.abs(likelihood.distance))
    high, low = (special.expit(likelihood.log_odds + by) for by in (reach, -reach))
    spreads = _cluster_spreads(likelihood, ranges, clusters)
    found = []
    for (where, start, stop), spread in zip(ranges, spreads, strict=True):
        part = slice(start, stop)
        n, events = likelihood.n[part], float(likelihood.events[part].sum())
        rows, most, least, due = (float((n * p[part]).sum()) for p in (np.ones_like(score), high, low, score))
        if spread is None:
            effect = max(1.0, float((likelihood.w2[part] * score[part]).sum()) / due) if due > 0.0 else 1.0
            m, k = rows / effect, events / effect
            p = min(_at_least(k, m, most / rows), _at_least(m - k, m, 1.0 - least / rows))
        else:
            p = spread.tail(max(events - most, least - events))
        found.append(Misfit(where, rows, events, due, min(1.0, p * 2 * len(ranges))))
    return min(found, key=lambda misfit: misfit.p_value)


def _at_least(k: float, m: float, p: float) -> float:
    """Bound on the probability of ``k`` or more events among ``m`` rows of mean probability ``p``."""
    if 0.0 < k <= 1.0:
        return min(1.0, m * p)
    if k < m * p + 1.0:
        return 1.0
    return float(special.betainc(k, m - k + 1.0, p))


Range = tuple[str, int, int]
"""Name, first cell and the cell after the last."""


@dataclass(frozen=True)
class Spread:
    """Standard deviation of a stretch's events, as cluster buckets show it, and how many buckets hold rows."""

    sd: float
    buckets: int

    def tail(self, excess: float) -> float:
        """Chance of an excess at least as large, by Student's law; 1 where too few buckets could say."""
        if self.buckets < FEWEST_IN_PART or not self.sd > 0.0:
            return 1.0
        return float(special.stdtr(self.buckets - 1, -excess / self.sd))


def _cluster_spreads(
    likelihood: Likelihood, ranges: list[Range], clusters: GroupedTally | None
) -> list[Spread] | list[None]:
    if clusters is None:
        return [None] * len(ranges)
    starts, stops = (np.array([each[end] for each in ranges]) for end in (1, 2))
    by_bucket = np.array([_range_sums(tally, likelihood.keys, starts, stops) for tally in clusters.values()])
    return [_between_buckets(*by_bucket[:, :, place].T) for place in range(len(ranges))]


def _range_sums(tally: Tally, keys: NDArray[Any], starts: NDArray[Any], stops: NDArray[Any]) -> Floats:
    """Rows, events and predictions of one bucket in each stretch."""
    place = np.searchsorted(keys, tally.cells.keys)
    columns = np.array([tally.n, tally.events, tally.n * tally.scores], dtype=np.float64)
    upto = np.concatenate([np.zeros((3, 1)), np.cumsum(columns, axis=1)], axis=1)
    return np.asarray(upto[:, np.searchsorted(place, stops)] - upto[:, np.searchsorted(place, starts)])


def _between_buckets(rows: Floats, events: Floats, predicted: Floats) -> Spread:
    """How events vary between buckets, around the stretch's own ratio; never less than independent rows would."""
    variance, filled = between_buckets(rows, events, predicted)
    total, hits = float(rows.sum()), float(events.sum())
    return Spread(float(np.sqrt(max(float(variance), hits * (1.0 - hits / total)))), int(filled))


def _ranges(n: Floats, scores: Floats) -> list[Range]:
    """Tails and stretches of whole cells, each once, in words that stand after "in the"."""
    share = np.cumsum(n) / n.sum()
    found: dict[tuple[int, int], str] = {}
    for tail in TAILS:
        stop = int(np.searchsorted(share, tail - 1e-12)) + 1
        start = int(np.searchsorted(share, 1.0 - tail + 1e-12))
        above = 1.0 - (share[start - 1] if start else 0.0)
        found.setdefault((start, len(n)), f"highest {_percent(above)} of the scores")
        found.setdefault((0, stop), f"lowest {_percent(share[stop - 1])} of the scores")
    for low, high in STRETCHES:
        start, stop = (int(np.searchsorted(share, end)) for end in (low, high))
        if stop > start:
            held = share[stop - 1] - (share[start - 1] if start else 0.0)
            ends = f"{_score(scores[start])} to {_score(scores[stop - 1])}"
            found.setdefault((start, stop), f"scores from {ends} ({_percent(held)} of the rows)")
    for start, stop in found:
        if stop == start + 1 and n[start] > 1.0:  # a heap is its score
            found[start, stop] = f"rows with score {_score(scores[start])}"
    return [(name, *cells) for cells, name in found.items() if cells != (0, len(n))]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else f"{100 * share:.1g} %"


def _score(score: float) -> str:
    """A score to three digits, counted from 1 where it is near 1."""
    near = min(score, 1.0 - score)
    digits = 2 - math.floor(math.log10(near)) if near > 1e-12 else 2
    return f"{score:.{digits}f}".rstrip("0").rstrip(".")
