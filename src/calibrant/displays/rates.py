"""Event rates by score or bin, and where a perfect model would keep them: the numbers of a reliability diagram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.metrics.binary.bins import Bins
from calibrant.numerics import Floats, expit, logit
from calibrant.solvers import pool_adjacent
from calibrant.tallies import Tally

MOST_CELLS = 1_000
"""Cells from which on scores are put on a coarser grid: finer than a picture shows, and quick to simulate."""
DRAWS = 500
"""Simulated data sets behind the grey band."""
MOST_HEAPS, ROWS_PER_HEAP = 50, 5
"""Up to this many distinct scores, each worth so many rows on average that its own rate tells something, are points."""


@dataclass(frozen=True, eq=False)
class Points:
    """Event rates by score: rows, events, the rate shown, and where a perfect model would keep it.

    ``size`` is what the rows are worth: ``n`` itself, or the effective number of rows under importance weights.
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

        A perfect model has about 1 - level there, or fewer; under importance weights it can have more.
        """
        beyond = (self.rate < self.low - 1e-12) | (self.rate > self.high + 1e-12)
        return float(self.n[beyond].sum() / self.n.sum())

    def to_dict(self) -> dict[str, list[float]]:
        """Columns as lists."""
        return {name: getattr(self, name).tolist() for name in ("score", "n", "events", "rate", "low", "high")}


@dataclass(frozen=True, eq=False)
class Series:
    """One model's part of the picture.

    Attributes
    ----------
    cells
        By distinct score, or cell of a grid: rows, events, the isotonic regression and its consistency band; of heaped
        scores the rate itself, with its acceptance interval.
    bins
        By bin: rows, events, rate and acceptance interval; None when bins were not asked for.
    counted
        Whether ``n`` counts rows; otherwise it sums weights.
    heaped
        Whether the scores are so few that nothing should be drawn between them.
    """

    label: str
    cells: Points
    bins: Points | None
    rows: float
    events: float
    counted: bool
    heaped: bool


def isotonic_points(tally: Tally, level: float, random_state: int = 0) -> Points:
    """Isotonic regression by cell, and where it would lie at each cell in ``level`` of the data sets of a true model.

    Examples
    --------
    >>> points = isotonic_points(Tally.from_arrays([0.2, 0.4, 0.6], [1, 0, 1]), 0.9)
    >>> points.rate.tolist(), points.low.tolist()
    ([0.5, 0.5, 1.0], [0.0, 0.0, 0.0])
    """
    keep = tally.n > 0
    score, n, events = (np.asarray(a[keep], dtype=np.float64) for a in (tally.scores, tally.n, tally.events))
    size = n if tally.counts else n**2 / np.asarray(tally.cells.w2)[keep]
    trials = np.maximum(np.rint(size), 1.0).astype(np.int64)
    rng = np.random.default_rng([random_state, len(score)])
    shares = rng.binomial(trials, score, size=(DRAWS, len(score))) / trials
    fits = np.array([_isotonic(n, n * share) for share in shares])
    tail = (1.0 - level) / 2.0
    low = np.quantile(fits, tail, axis=0, method="lower")
    high = np.quantile(fits, 1.0 - tail, axis=0, method="higher")
    return Points(score, n, size, events, _isotonic(n, events), low, high)


def binned_points(bins: Bins, level: float) -> Points:
    """Rate of each bin that holds rows, with the region that a binomial at its mean score keeps with ``level``.

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
    tail = (1.0 - level) / 2.0
    from scipy import stats  # here, because it takes as long to load as all the rest

    low, high = (stats.binom.ppf(q, trials, score) / trials for q in (tail, 1.0 - tail))
    n, events = bins.n[keep].astype(np.float64), bins.events[keep].astype(np.float64)
    return Points(score, n, size, events, bins.rate[keep], low, high)


def _isotonic(n: Floats, events: Floats) -> Floats:
    starts = pool_adjacent(n, events)
    rates = np.add.reduceat(events, starts) / np.add.reduceat(n, starts)
    return np.repeat(np.clip(rates, 0.0, 1.0), np.diff(starts, append=len(n)))


def few_cells(tally: Tally) -> Tally:
    """The tally itself, or on the finest grid that leaves about a thousand cells."""
    if tally.resolution == "bins":
        return tally
    bits = 8
    while len(tally) > MOST_CELLS and bits >= 4:
        if tally.grid is None or tally.grid.bits > bits:
            tally = tally.coarsen(bits)
        bits -= 1
    return tally


def heaped(tally: Tally) -> bool:
    """Whether the scores are so few that nothing should be drawn between them."""
    distinct = len(tally)
    return distinct == 1 or (distinct <= MOST_HEAPS and tally.effective_size >= ROWS_PER_HEAP * distinct)


def telling_range(cells: Points) -> tuple[float, float]:
    """Scores between which there is something to see: below and above, less than one event or non-event is due."""
    happened = cells.size * cells.events / cells.n
    due = np.cumsum(cells.size * cells.score + happened)
    spared = np.cumsum((cells.size * (2.0 - cells.score) - happened)[::-1])[::-1]
    inside = (due >= 1.0) & (spared >= 1.0) & (cells.score > 0.0) & (cells.score < 1.0)
    if not inside.any():
        return 0.01, 0.99
    return float(cells.score[inside].min()), float(cells.score[inside].max())


def even_edges(cells: Points, n_bins: int) -> Floats:
    """Inner edges evenly in log-odds where there is something to see."""
    low, high = logit(np.array(telling_range(cells))).tolist()
    return np.unique(expit(np.linspace(low, high, n_bins + 1)[1:-1]))
