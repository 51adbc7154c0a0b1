"""Misfit that intercept and slope do not show: events in the tails and in ranges of the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from calibrant.metrics.binary.curves.likelihood import Likelihood
from calibrant.metrics.chance import units_of
from calibrant.metrics.variance import FEWEST_CLUSTERS, Spread, spread_of
from calibrant.numerics import Floats
from calibrant.tallies import Clusters
from calibrant.verdict.input.evidence import Evidence

TAILS = (0.01, 0.05, 0.20)
"""Shares of the rows in the tails that are tested, on either side."""
MIDDLE_RANGES = ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8))
"""Quantiles between which the middle of the scores is tested."""


@dataclass(frozen=True)
class Tolerance:
    """Tolerated deviation of intercept and slope."""

    intercept: float
    slope: float


@dataclass(frozen=True)
class Range:
    """A range of the scores: a tail, an interval between two scores, or a single score that several rows share."""

    kind: Literal["lowest", "highest", "between", "single"]
    low: float
    high: float
    """The lowest and the highest score in the range."""
    share: float
    """Share of the rows."""


@dataclass(frozen=True)
class Misfit:
    """A score range with the p-value that its events are explained by a model within the tolerance."""

    where: Range
    rows: float
    events: float
    predicted: float
    p_value: float
    """Adjusted for the number of ranges and directions tested (Bonferroni)."""

    @property
    def too_low(self) -> bool:
        """Whether more events were observed than predicted."""
        return self.events > self.predicted


def worst_misfit(likelihood: Likelihood, tolerance: Tolerance, evidence: Evidence) -> Misfit | None:
    r"""The score range whose events are least compatible with any tolerated intercept and slope.

    A tolerated model moves the log-odds of a score at distance :math:`|x - c|` from the center by at most
    :math:`\tau_a + \tau_d |x - c|`. With every row moved that far, the number of events in a range is a sum of
    independent Bernoulli variables; beyond its mean by one, its tail is at most that of the binomial distribution with
    the same mean (Hoeffding 1956, Theorem 5), and one event is at most as likely as the sum of the probabilities.
    A Bonferroni correction accounts for testing tails of 1, 5 and 20 % on either side, three ranges between, and both
    directions. The ranges are chosen from the scores alone. Rows with a score of exactly 0 or 1 are left out: their
    scores before rounding are unknown, and a hint counts those that the labels contradict.

    Guarantee: each p-value is valid in finite samples, for every tolerated model and independent rows of equal weight.
    With importance weights, rows and events are divided by the design effect of the range; with clusters, Student's
    distribution over clusters replaces the binomial distribution. Both are approximate.
    """
    score = np.asarray(special.expit(likelihood.log_odds))
    inside = likelihood.inside
    if inside.start >= inside.stop:
        return None
    found = _ranges(likelihood.n[inside], score[inside])
    ranges = [(where, inside.start + start, inside.start + stop) for where, start, stop in found]
    if not ranges:
        return None
    reach = tolerance.intercept + (0.0 if likelihood.spread == 0.0 else tolerance.slope * np.abs(likelihood.distance))
    high, low = (special.expit(likelihood.log_odds + by) for by in (reach, -reach))
    units = None if evidence.tally.counts else units_of(evidence.tally)
    misfits = []
    for where, start, stop in ranges:
        part = slice(start, stop)
        n, s, events = likelihood.n[part], score[part], float(likelihood.events[part].sum())
        rows, most, least, due = (float((n * p).sum()) for p in (np.ones_like(s), high[part], low[part], s))
        if evidence.clusters is not None:
            spread = _spread(evidence.clusters, score, start, stop)
            p = 1.0 if spread is None else spread.p_value(max(events - most, least - events, 0.0) / spread.sd) / 2.0
        else:
            effect = 1.0 if units is None else _design_effect(n, s, *units)
            m, k = rows / effect, events / effect
            p = min(_at_least(k, m, most / rows), _at_least(m - k, m, 1.0 - least / rows))
        misfits.append(Misfit(where, rows, events, due, min(1.0, p * 2 * len(ranges))))
    return min(misfits, key=lambda misfit: misfit.p_value)


def _design_effect(n: Floats, s: Floats, hit: float, miss: float) -> float:
    """Factor by which weights increase the variance of the events of a calibrated model."""
    variance = n * s * (1.0 - s)
    whole = float(variance.sum())
    return float((variance * (hit * (1.0 - s) + miss * s)).sum()) / whole if whole > 0.0 else max(hit, miss)


def _spread(clusters: Clusters, score: Floats, start: int, stop: int) -> Spread | None:
    """Variance of the events of a range between clusters, around its own ratio; at least that of independent rows."""
    inside = np.zeros(len(score), dtype=bool)
    inside[start:stop] = True
    part = clusters.within(inside)
    predicted, events = float((part.n * score[part.cell]).sum()), float(part.events.sum())
    if part.size < FEWEST_CLUSTERS or not predicted > 0.0:
        return None
    ratio = events / predicted
    spread = spread_of(part, 1.0 - ratio * score, -ratio * score, score * (1.0 - score))
    independent = float((part.n * score[part.cell] * (1.0 - score[part.cell])).sum())
    return Spread(max(spread.variance, independent, 1e-12), spread.df)


def _at_least(k: float, m: float, p: float) -> float:
    """Upper bound on the probability of ``k`` or more events among ``m`` rows of mean probability ``p``."""
    if 0.0 < k <= 1.0:
        return min(1.0, m * p)
    if k < m * p + 1.0:
        return 1.0
    return float(special.betainc(k, m - k + 1.0, p))


def _ranges(n: Floats, scores: Floats) -> list[tuple[Range, int, int]]:
    """Tails and middle ranges of whole cells, each once, with the first cell and the cell after the last."""
    share = np.cumsum(n) / n.sum()
    found: dict[tuple[int, int], Literal["lowest", "highest", "between", "single"]] = {}
    for tail in TAILS:
        stop = int(np.searchsorted(share, tail - 1e-12)) + 1
        start = int(np.searchsorted(share, 1.0 - tail + 1e-12))
        found.setdefault((start, len(n)), "highest")
        found.setdefault((0, stop), "lowest")
    for low, high in MIDDLE_RANGES:
        start, stop = (int(np.searchsorted(share, end)) for end in (low, high))
        if stop > start:
            found.setdefault((start, stop), "between")
    for start, stop in found:
        if stop == start + 1 and n[start] > 1.0:  # tied rows: a single score
            found[start, stop] = "single"
    return [
        (Range(kind, float(scores[start]), float(scores[stop - 1]), _share_of(share, start, stop)), start, stop)
        for (start, stop), kind in found.items()
        if (start, stop) != (0, len(n))
    ]


def _share_of(share: Floats, start: int, stop: int) -> float:
    """Share of the rows in these cells; exact at the upper end despite rounding."""
    upper = 1.0 if stop == len(share) else float(share[stop - 1])
    return upper - (float(share[start - 1]) if start else 0.0)
