"""The numbers of a reliability diagram: event rates by score or bin, with intervals of a calibrated model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.curves.distances import fitted_model
from calibrant.metrics.smoothers import SMOOTHERS, LoessCurve, SplineCurve
from calibrant.numerics import Ends, Floats, Grid, expit, logit
from calibrant.solvers import pool_adjacent
from calibrant.tallies import Clusters, Tally

MAX_CELLS = 1_000
"""With more cells than this, scores are put on a coarser grid: still finer than a plot shows, and fast to simulate."""
MIN_END_ROWS = 10.0
"""Rows at each end of an isotonic curve that count as one score, if there are a hundred rows."""
OUTER_ROWS, PLACES, MAX_FIT_CELLS = 5.0, 201, 1 << 16
"""Rows beyond each end of a smooth curve; points at which it is evaluated; cells above which it is fitted on a grid."""
DRAWS = 500
"""Simulated data sets for the gray band."""
MAX_DISTINCT_SCORES, MIN_ROWS_PER_SCORE = 50, 5
"""Scores are drawn as points if there are at most this many, with at least this many effective rows each on average."""


@dataclass(frozen=True, eq=False)
class Points:
    """Event rates by score: rows, events, the rate shown, and its interval for a calibrated model.

    ``size`` is the effective sample size: ``n`` itself, or less under importance weights.
    """

    score: Floats
    n: Floats
    size: Floats
    events: Floats
    rate: Floats
    low: Floats
    high: Floats

    @property
    def outside(self) -> float:
        """Share of the rows whose rate lies outside [low, high].

        For a calibrated model about 1 - confidence, or less; under importance weights it can be more.
        """
        beyond = (self.rate < self.low - 1e-12) | (self.rate > self.high + 1e-12)
        return float(self.n[beyond].sum() / self.n.sum())

    def to_dict(self) -> dict[str, list[float]]:
        """Columns as lists."""
        return {name: getattr(self, name).tolist() for name in ("score", "n", "events", "rate", "low", "high")}


@dataclass(frozen=True, eq=False)
class Series:
    """The numbers of one model.

    Attributes
    ----------
    cells
        By distinct score, or cell of a grid: rows, events, the isotonic regression and its consistency band; for few
        tied scores the rate itself, with its acceptance interval.
    bins
        By bin: rows, events, rate and acceptance interval; None without bins.
    smooth
        The smooth curve with its confidence band; None without one.
    counted
        Whether ``n`` counts rows; otherwise it sums weights.
    few_distinct
        Whether there are only few distinct scores, which are drawn as separate points.
    """

    label: str
    cells: Points
    bins: Points | None
    rows: float
    events: float
    counted: bool
    few_distinct: bool
    smooth: Smooth | None = None

    @property
    def rate_bound(self) -> float | None:
        """If no row is an event: the exact upper 95 % confidence bound of the event rate; None under weights."""
        return 1.0 - 0.05 ** (1.0 / self.rows) if self.counted and self.events == 0 else None


@dataclass(frozen=True, eq=False)
class Smooth:
    """A smooth curve: scores, fitted rates and the ends of their confidence intervals.

    ``outside`` is the share of the rows at whose scores the interval excludes the score itself.
    """

    score: Floats
    rate: Floats
    low: Floats
    high: Floats
    outside: float

    def to_dict(self) -> dict[str, list[float]]:
        """Columns as lists."""
        return {name: getattr(self, name).tolist() for name in ("score", "rate", "low", "high")}


def smooth_curve(data: Tally | Clusters, confidence: float, method: str = "spline") -> Smooth | None:
    """Smooth curve with pointwise confidence intervals, where there are rows; None if it is not defined.

    Logistic regression on a spline of the log-odds, or local quadratics, as in
    :func:`calibrant.metrics.calibration_curve`, with Wald intervals on the log-odds, for clusters by their sandwich, or
    normal ones on the rates. The five outermost rows on each side are left out of the drawing, not of the fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> smooth = smooth_curve(Tally.from_arrays(scores, rng.random(2000) < scores), 0.95)
    >>> bool((smooth.low < smooth.rate).all() and (smooth.rate < smooth.high).all())
    True
    """
    from scipy import stats  # imported here: slow to import

    tally = data.tally if isinstance(data, Clusters) else data
    fitted = tally if tally.counts else tally.in_effective_rows()  # integer importance weights are not repetition
    if fitted.resolution == "exact" and len(fitted) > MAX_FIT_CELLS:
        fitted = fitted.coarsen(Grid())
    kept = fitted.n > 0
    scores, n, events = fitted.scores[kept], fitted.n[kept], fitted.events[kept]
    curve = SMOOTHERS[method](scores, n, events)
    quantile = float(stats.norm.ppf(0.5 + confidence / 2.0))
    if isinstance(data, Clusters):
        found = fitted_model(data)
        if found is None or not found[1] >= 2.0:
            return None
        model, units, covariance = found
        curve = replace(model.curve, covariance=covariance(model.fitted))
        quantile = float(stats.t.ppf(0.5 + confidence / 2.0, units - 1.0))
    if not isinstance(curve, SplineCurve | LoessCurve):
        return None
    upto = np.cumsum(n)
    spare = min(OUTER_ROWS, float(upto[-1]) / 20.0)
    ends = scores[np.searchsorted(upto, [spare, float(upto[-1]) - spare])]
    first, last = float(ends[0]), float(ends[1])
    even = logit(ends, Ends.of(scores))
    places = np.concatenate([expit(np.linspace(even[0], even[1], PLACES)), np.linspace(first, last, PLACES)])
    places = np.unique(np.clip(places, first, last))
    low, high = curve.band(scores, quantile)
    outside = float(n[(scores < low) | (scores > high)].sum() / n.sum())
    return Smooth(places, curve.at(places), *curve.band(places, quantile), outside)


def isotonic_points(tally: Tally, confidence: float, random_state: int = 0) -> Points:
    """Isotonic regression by cell, and its pointwise interval for a calibrated model, by simulation.

    The ten lowest rows count as one score, and so do the ten highest (a tenth of the rows if that is less), so that
    the curve does not end in a step of a few rows. The simulated curves are computed alike.

    Examples
    --------
    >>> points = isotonic_points(Tally.from_arrays([0.2, 0.4, 0.6], [1, 0, 1]), 0.9)
    >>> points.rate.tolist(), points.low.tolist()
    ([0.5, 0.5, 1.0], [0.0, 0.0, 0.0])
    >>> score = np.arange(1, 1001) / 1001
    >>> isotonic_points(Tally.from_arrays(score, score > 0.997), 0.9).rate[-11:].round(3).tolist()
    [0.0, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    """
    keep = tally.n > 0
    score, n, events = (np.asarray(a[keep], dtype=np.float64) for a in (tally.scores, tally.n, tally.events))
    size = n if tally.counts else n**2 / np.asarray(tally.cells.w2)[keep]
    trials = np.maximum(np.rint(size), 1.0).astype(np.int64)
    rng = np.random.default_rng([random_state, len(score)])
    shares = rng.binomial(trials, score, size=(DRAWS, len(score))) / trials
    fewest = float(n.sum()) * min(MIN_END_ROWS / float(size.sum()), 0.1)
    fits = np.array([_isotonic(n, n * share, fewest) for share in shares])
    tail = (1.0 - confidence) / 2.0
    low = np.quantile(fits, tail, axis=0, method="lower")
    high = np.quantile(fits, 1.0 - tail, axis=0, method="higher")
    return Points(score, n, size, events, _isotonic(n, events, fewest), low, high)


def binned_points(bins: Bins, confidence: float) -> Points:
    """Event rate of each bin with rows, with the binomial acceptance interval at its mean score.

    Examples
    --------
    >>> points = binned_points(Bins.of([0.5] * 10, [0, 1] * 5, n_bins=1), 0.9)
    >>> points.low.tolist(), points.high.tolist()
    ([0.2], [0.8])
    """
    keep = bins.n > 0
    score = np.clip(bins.mean_score[keep], 0.0, 1.0)
    size = bins.effective_n[keep]
    trials = np.maximum(np.rint(size), 1.0)
    tail = (1.0 - confidence) / 2.0
    from scipy import stats  # imported here: slow to import

    low, high = (stats.binom.ppf(q, trials, score) / trials for q in (tail, 1.0 - tail))
    n, events = bins.n[keep].astype(np.float64), bins.events[keep].astype(np.float64)
    return Points(score, n, size, events, bins.rate[keep], low, high)


def _isotonic(n: Floats, events: Floats, fewest: float = 0.0) -> Floats:
    """Isotonic regression in which the first cells with ``fewest`` rows count as one score, and so do the last."""
    units = _units(n, fewest)
    rows, hits = np.add.reduceat(n, units), np.add.reduceat(events, units)
    starts = units[pool_adjacent(rows, hits)]
    rates = np.add.reduceat(events, starts) / np.add.reduceat(n, starts)
    return np.repeat(np.clip(rates, 0.0, 1.0), np.diff(starts, append=len(n)))


def _units(n: Floats, fewest: float) -> NDArray[np.intp]:
    """First cell of each unit: single cells, but as many as have ``fewest`` rows at both ends.

    Examples
    --------
    >>> _units(np.ones(8), 3.0).tolist(), _units(np.ones(3), 0.3).tolist(), _units(np.ones(3), 2.0).tolist()
    ([0, 3, 4, 5], [0, 1, 2], [0])
    """
    upto = np.cumsum(n)
    total, rounding = float(upto[-1]), 1e-9 * fewest
    second = int(np.searchsorted(upto, fewest - rounding)) + 1
    last = int(np.searchsorted(upto, total - fewest + rounding, side="right"))
    return np.concatenate([[0], np.arange(second, last + 1)[: len(n) - second]]).astype(np.intp)


def few_cells(tally: Tally) -> Tally:
    """The tally itself, or on the finest grid with about a thousand cells."""
    if tally.resolution == "bins":
        return tally
    bits = 8
    while len(tally) > MAX_CELLS and bits >= 4:
        if tally.grid is None or tally.grid.bits > bits:
            tally = tally.coarsen(bits)
        bits -= 1
    return tally


def few_distinct(tally: Tally) -> bool:
    """Whether there are only few distinct scores, which are drawn as separate points."""
    distinct = len(tally)
    return distinct == 1 or (distinct <= MAX_DISTINCT_SCORES and tally.effective_size >= MIN_ROWS_PER_SCORE * distinct)


def informative_range(cells: Points) -> tuple[float, float]:
    """Range of scores with information: below and above, less than one event or non-event is expected or observed."""
    observed = cells.size * cells.events / cells.n
    events = np.cumsum(cells.size * cells.score + observed)
    others = np.cumsum((cells.size * (2.0 - cells.score) - observed)[::-1])[::-1]
    inside = (events >= 1.0) & (others >= 1.0) & (cells.score > 0.0) & (cells.score < 1.0)
    if not inside.any():
        inside = (cells.score > 0.0) & (cells.score < 1.0)
    if not inside.any():
        return 0.01, 0.99
    return float(cells.score[inside].min()), float(cells.score[inside].max())


def even_edges(cells: Points, n_bins: int) -> Floats:
    """Inner edges evenly spaced in log-odds over the informative range."""
    low, high = logit(np.array(informative_range(cells))).tolist()
    return np.unique(expit(np.linspace(low, high, n_bins + 1)[1:-1]))
