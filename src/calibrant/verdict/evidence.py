"""Everything a verdict looks at, as tallies: the whole, its folds, clusters, segments and periods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.calibrators.folds import FOLDS, joined, periods_of, random_folds, shuffled
from calibrant.numerics import Grid
from calibrant.tallies import CLUSTER_BUCKETS, SEGMENT_GRID, GroupedTally, Tally, cluster_buckets
from calibrant.verdict.inflation import between_buckets
from calibrant.verdict.segments import Spreads

Columns = Mapping[str, NDArray[Any]]

MOST_ROWS = 1 << 17
"""More rows than this are counted on the grid of 65,536 cells, where scores that agree to a thousandth share a cell;
segments and periods of them on about 1,000 cells."""


@dataclass(frozen=True)
class Seen:
    """What is known about judged rows and the map that they passed through.

    Attributes
    ----------
    share
        About which share of them the map was fitted to; None when that cannot be told.
    crossfitted
        Whether the map was fitted to all of them, and was therefore fitted anew without each part for that part.
    unseen
        What a reader must know where that cannot be told; else empty.
    """

    share: float | None = None
    crossfitted: bool = False
    unseen: str = ""


UNSEEN = "it cannot be seen whether the map was fitted to these rows ({}): judge it on rows that were set apart"
"""What is told where a map has an origin and rows cannot be compared with it, with the reason."""

NOT_SEEN = Seen()
"""Nothing is known, or no map was passed through."""


@dataclass(frozen=True)
class Evidence:
    """Tallies of probabilities: all rows, and the same rows cut in the ways that the questions need."""

    tally: Tally
    folds: tuple[Tally, ...] = ()
    forward: bool = False
    clusters: GroupedTally | None = None
    segments: Mapping[str, GroupedTally] = field(default_factory=dict)
    periods: GroupedTally | None = None
    period_ends: Mapping[Any, Any] = field(default_factory=dict)
    """Last moment of each period, by its first."""
    groups: int | None = None
    """Distinct groups behind the cluster buckets."""
    spreads: Spreads | None = None
    period_spreads: Spreads | None = None
    """With groups: how events vary between cluster buckets, by segment and by period."""
    notes: tuple[str, ...] = ()
    seen: Seen = NOT_SEEN
    """Whether the map that the scores passed through was fitted to these rows."""


def evidence_of_rows(
    rows: Rows, segments: Mapping[str, NDArray[Any]] | None = None, said: tuple[str, ...] = (), *, random_state: int = 0
) -> Evidence:
    """Tallies of checked rows of probabilities, by their groups, their time and the given segments."""
    rows = _in_effective_rows(rows)
    grid, part = (Grid(), SEGMENT_GRID) if len(rows.scores) > MOST_ROWS else (None, None)
    tally = Tally.from_rows(rows, grid)
    buckets = None if rows.groups is None else cluster_buckets(rows.groups)
    clusters = None if buckets is None else _grouped(rows, buckets, grid)
    starts, ends = (None, {}) if rows.time is None else periods_of(rows.time, rows.weights)
    periods = None if starts is None else _grouped(rows, starts, part)
    if periods is not None:
        folds, forward = tuple(periods.values()), True
    elif clusters is not None:
        folds, forward = joined(clusters), False
    elif tally.counts:
        folds, forward = random_folds(tally, random_state), False
    else:
        folds, forward = tuple(_grouped(rows, shuffled(rows, FOLDS, random_state), grid).values()), False
    by = {name: _grouped(rows, column, part) for name, column in (segments or {}).items()}
    groups = None if rows.groups is None else len(np.unique(rows.groups))
    spreads = period_spreads = None
    if buckets is not None:
        spreads = {name: _spreads(rows, column, buckets) for name, column in (segments or {}).items()}
        period_spreads = {} if starts is None else {"time": _spreads(rows, starts, buckets)}
    notes = (*rows.notes[1:], *said)
    return Evidence(tally, folds, forward, clusters, by, periods, ends, groups, spreads, period_spreads, notes)


def _in_effective_rows(rows: Rows) -> Rows:
    """Importance weights in the unit in which they add up to the effective size."""
    if rows.counts or rows.weights is None:
        return rows
    weights = rows.weights / float(rows.weights.max())  # so that squares neither overflow nor vanish
    return replace(rows, weights=weights * float(weights.sum() / (weights * weights).sum()))


def _spreads(rows: Rows, column: NDArray[Any], buckets: NDArray[np.int64]) -> dict[Any, tuple[float, int]]:
    """Variance of each value's events between cluster buckets, around its own ratio, and the buckets it has."""
    values, index = np.unique(column, return_inverse=True)
    place, size = index * CLUSTER_BUCKETS + buckets, len(values) * CLUSTER_BUCKETS
    w = np.ones(len(place)) if rows.weights is None else rows.weights.astype(np.float64)
    sums = [np.bincount(place, part, minlength=size) for part in (w, w * rows.labels, w * rows.scores)]
    total, events, predicted = (part.reshape(len(values), CLUSTER_BUCKETS) for part in sums)
    variance, filled = between_buckets(total, events, predicted)
    return dict(zip(values.tolist(), zip(variance.tolist(), filled.tolist(), strict=True), strict=True))


def _grouped(rows: Rows, keys: NDArray[Any], grid: Grid | None) -> GroupedTally:
    return GroupedTally.from_rows(replace(rows, groups=keys, time=None), grid)
