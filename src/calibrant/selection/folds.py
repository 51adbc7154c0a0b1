"""Folds for cross-fitting, as tallies: at random on the counts, by whole clusters, or by periods of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.messages import Argument, InputError, Phrase
from calibrant.numerics import Ends, Floats, Grid, Ints
from calibrant.tallies import Clusters, GroupedTally, Tally, cluster_buckets, ends_of_rows, in_effective_rows
from calibrant.tallies.cells import Cells

if TYPE_CHECKING:
    from calibrant.arrays.multiclass.rows import MulticlassRows

FOLDS, PERIODS = 5, 8
SIDES: tuple[tuple[Literal["left", "right"], int], ...] = (("left", 0), ("right", 1))
"""How the first and the last timestamp of a period are found."""

MAX_EFFECTIVE_ROWS = 2.0**53
"""Largest number of effective rows that a cell of importance weights may count for."""


def forward_folds(
    period: NDArray[np.intp], groups: NDArray[Any] | None = None
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Row numbers to fit and to evaluate, forward in time: each period by the ones before it.

    Earlier rows of the groups of a period are left out of its fit. A period whose groups leave nothing to fit is an
    error.

    Examples
    --------
    >>> [(fit.tolist(), test.tolist()) for fit, test in forward_folds(np.array([0, 0, 1, 2]), np.array([7, 8, 7, 9]))]
    [([1], [2]), ([0, 1, 2], [3])]
    """
    for number in range(1, int(period.max()) + 1):
        test, past = np.flatnonzero(period == number), np.flatnonzero(period < number)
        if groups is not None:
            past = past[~np.isin(groups[past], groups[test])]
            if not len(past):
                raise no_other_groups(number)
        yield past, test


def no_other_groups(period: int) -> InputError:
    """The error of a period all of whose earlier rows belong to its own groups."""
    both = {"groups": Argument("groups"), "time": Argument("time")}
    return InputError(
        "groups",
        f"leave no earlier row to fit for period {period + 1}: all belong to groups of that period",
        Phrase("pass {groups} alone for new groups, or {time} alone for the future of known groups", **both),
    )


@dataclass(frozen=True)
class Folds:
    """Folds, in order of time when ``forward``; with clusters also the buckets that each fold is made of.

    A fold is evaluated by a fit to the other folds, or to those before it when ``forward``.
    """

    parts: tuple[Tally, ...]
    forward: bool = False
    clusters: tuple[tuple[Tally, ...], ...] = ()
    rows: Clusters | None = None
    """All rows by their groups, if there are groups; a bucket of a fold may contain several groups."""
    past: tuple[Tally | None, ...] = ()
    """With time and groups: the rows that each fold is evaluated by, which leave out its groups; the first has none."""
    names: tuple[tuple[int, ...], ...] = ()
    """With time and groups: the numbers of the buckets of each fold, since a bucket may be in several folds."""

    def with_ends(self, ends: Ends) -> Self:
        """The same folds, with scores of exactly 0 and 1 read as in all rows."""
        rows = None if self.rows is None else replace(self.rows, tally=self.rows.tally.with_ends(ends))
        past = tuple(None if each is None else each.with_ends(ends) for each in self.past)
        return replace(self, parts=tuple(part.with_ends(ends) for part in self.parts), rows=rows, past=past)

    @classmethod
    def at_random(cls, tally: Tally, count: int = FOLDS, random_state: int = 0) -> Self:
        """Random folds of a tally, drawn on its counts, or on the effective rows of its importance weights."""
        if tally.counts:
            return cls(random_folds(tally, random_state, count)).with_ends(tally.ends)
        counted, shares = _in_counts(tally)
        drawn = random_folds(counted, random_state, count)
        return cls(tuple(_weighted(tally, part, shares) for part in drawn)).with_ends(tally.ends)

    @classmethod
    def of_rows(
        cls,
        rows: Rows,
        count: int = FOLDS,
        grid: Grid | None = None,
        random_state: int = 0,
        tally: Tally | None = None,
    ) -> Self:
        """Folds of checked rows: by groups, forward in time, or else at random. A row is never cut.

        ``tally`` is the tally of these rows on the grid, if it already exists.
        """
        alike = rows.weights is None and rows.time is None and rows.groups is None
        if alike and tally is not None:
            return cls.at_random(tally, count, random_state).with_ends(ends_of_rows(rows))
        return cls._of_rows(in_effective_rows(rows), count, grid, random_state).with_ends(ends_of_rows(rows))

    @classmethod
    def _of_rows(cls, rows: Rows, count: int, grid: Grid | None, random_state: int) -> Self:
        if rows.time is None and rows.groups is None:
            if rows.weights is None or np.ptp(rows.weights) == 0.0:
                return cls.at_random(Tally.from_rows(rows, grid), count, random_state)
            return cls(tuple(_grouped(rows, shuffled(rows, count, random_state), grid).values()))
        if rows.time is not None:
            starts = periods_of(rows.time, rows.weights, count + 1)[0]
            if rows.groups is not None:
                return cls._forward_by_group(rows, np.unique(starts, return_inverse=True)[1], grid)
            return cls(tuple(_grouped(rows, starts, grid).values()), forward=True)
        buckets = _grouped(rows, cluster_buckets(cast(NDArray[Any], rows.groups)), grid)
        dealt = tuple(part for part in deal(tuple(buckets.values()), count) if part)
        return cls(tuple(_added(part) for part in dealt), clusters=dealt, rows=Clusters.of_rows(rows, grid))

    @classmethod
    def _forward_by_group(cls, rows: Rows, period: NDArray[np.intp], grid: Grid | None) -> Self:
        """Periods, each evaluated by earlier rows of other groups."""
        buckets = cluster_buckets(cast(NDArray[Any], rows.groups))
        numbers = [np.flatnonzero(period == number) for number in range(int(period.max()) + 1)]
        parts = [_grouped(take_rows(rows, own), buckets[own], grid) for own in numbers]
        past = (
            Tally.from_rows(replace(take_rows(rows, seen), groups=None, time=None), grid)
            for seen, _ in forward_folds(period, rows.groups)
        )
        return cls(
            tuple(_added(tuple(part.values())) for part in parts),
            forward=True,
            clusters=tuple(tuple(part.values()) for part in parts),
            rows=Clusters.of_rows(rows, grid),
            past=(None, *past),
            names=tuple(tuple(part) for part in parts),
        )


# ------------------------------------------------------------------------------------------------------------ at random


def shuffled(rows: Rows | MulticlassRows, count: int, random_state: int) -> Ints:
    """A fold number for each row, drawn independently of the order of the rows and of rows without weight."""
    weights = np.ones(len(rows.scores)) if rows.weights is None else rows.weights
    order = np.lexsort((weights, rows.labels, *rows.scores.reshape(len(weights), -1).T[::-1]))
    order = order[weights[order] > 0]
    part = np.zeros(len(weights), dtype=np.int64)
    part[order] = np.random.default_rng(random_state).permutation(len(order)) % count
    return part


def random_folds(tally: Tally, random_state: int, count: int = FOLDS) -> tuple[Tally, ...]:
    """Random folds of a tally of counts, drawn on the counts, so that the order of rows does not matter."""
    folds, rest = [], tally
    for left in range(count, 1, -1):
        fold, rest = rest.split(int(rest.total) // left, random_state)
        folds.append(fold)
    return tuple(fold for fold in [*folds, rest] if fold.total > 0)


def _in_counts(tally: Tally) -> tuple[Tally, tuple[Ints, Ints]]:
    """A tally whose counts are the effective sample sizes of each cell, and these counts by label.

    The unit of a cell and label is its weighted mean weight. So equal weights give back the rows themselves, and a row
    that outweighs its cell counts as one row, which goes into one fold as a whole.
    """
    cells = tally.cells
    n, events = cells.n.astype(np.float64), cells.events.astype(np.float64)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        w2 = cast(Floats, cells.w2)
        w2_events = w2 * events / n if cells.w2_events is None else cells.w2_events
        units = (w2_events / events, (w2 - w2_events) / (n - events))
        worth = [
            np.where(unit > 0.0, np.minimum(part / unit, MAX_EFFECTIVE_ROWS), 1.0)
            for part, unit in zip((events, n - events), units, strict=True)
        ]
    present = (events > 0.0, n - events > 1e-9 * n)
    hits, others = (
        np.where(some, np.maximum(np.rint(part), 1.0), 0.0).astype(np.int64)
        for some, part in zip(present, worth, strict=True)
    )
    rows = hits + others
    offset = None if cells.offset is None else np.rint(cells.offset / n * rows).astype(np.int64)
    kept = Cells(cells.keys, rows, hits, offset=offset, scores=cells.scores)
    counted = Tally(kept, score_type=tally.score_type, grid=tally.grid, resolution=tally.resolution, edges=tally.edges)
    return counted, (hits, others)


def _weighted(tally: Tally, part: Tally, shares: tuple[Ints, Ints]) -> Tally:
    """The weights of a tally that belong to a fold of its effective rows."""
    cells = tally.cells
    place = np.searchsorted(cells.keys, part.cells.keys)
    hits, others = shares[0][place], shares[1][place]
    events = cells.events[place] * (part.events / np.maximum(hits, 1))
    misses = (cells.n - cells.events)[place] * ((part.n - part.events) / np.maximum(others, 1))
    n = events + misses
    share = n / cells.n[place]
    columns: dict[str, Any] = {"w2": cast(Floats, cells.w2)[place] * share, "rows": part.n.astype(np.int64)}
    columns["row_events"] = part.events.astype(np.int64)
    if cells.w2_events is not None:
        columns["w2_events"] = cells.w2_events[place] * (part.events / np.maximum(hits, 1))
    if cells.offset is not None:
        columns["offset"] = cells.offset[place] * share
    means = None if cells.scores is None else cells.scores[place]
    kept = Cells(part.cells.keys, n, events, scores=means, **columns)
    return Tally(
        kept, score_type=tally.score_type, grid=tally.grid, resolution=tally.resolution, counts=False, edges=tally.edges
    )


# ------------------------------------------------------------------------------------------------- by cluster and time


def deal(tallies: Sequence[Tally], count: int = FOLDS) -> tuple[tuple[Tally, ...], ...]:
    """Whole clusters, dealt in turn to ``count`` folds."""
    return tuple(tuple(tallies[place::count]) for place in range(count))


def joined(clusters: GroupedTally) -> tuple[Tally, ...]:
    """Whole clusters, dealt to five folds and added up there."""
    return tuple(_added(part) for part in deal(tuple(clusters.values())) if part)


def _added(parts: Sequence[Tally]) -> Tally:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def take_rows(rows: Rows, index: NDArray[Any]) -> Rows:
    """Some of the rows, by index or boolean mask."""
    sides = {name: getattr(rows, name) for name in ("weights", "groups", "time")}
    chosen: dict[str, Any] = {name: None if column is None else column[index] for name, column in sides.items()}
    return replace(rows, scores=rows.scores[index], labels=rows.labels[index], **chosen)


def dependent_folds(
    rows: Rows | MulticlassRows, count: int, random_state: int = 0
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Row numbers to fit and to evaluate: by whole groups, or forward in time."""
    if rows.time is not None:
        starts = periods_of(rows.time, rows.weights, count + 1)[0]
        yield from forward_folds(np.unique(starts, return_inverse=True)[1], rows.groups)
        return
    names, codes = np.unique(cast(NDArray[Any], rows.groups), return_inverse=True)
    dealt = (np.random.default_rng([random_state, 1]).permutation(len(names)) % count)[codes]
    for number in range(min(count, len(names)) if len(names) > 1 else 0):
        yield np.flatnonzero(dealt != number), np.flatnonzero(dealt == number)


def _grouped(rows: Rows, keys: NDArray[Any], grid: Grid | None) -> GroupedTally:
    return GroupedTally.from_rows(replace(rows, groups=keys, time=None), grid)


def periods_of(
    time: NDArray[Any], weights: NDArray[Any] | None, count: int = PERIODS
) -> tuple[NDArray[Any], dict[Any, Any]]:
    """First timestamp of each row's period, and the last timestamp of each period by its first."""
    if time.dtype.kind == "M":
        time = time.astype("datetime64[us]")  # tolist() turns nanoseconds into integers
    moments, when = np.unique(time, return_inverse=True)
    first, last, stretch = cut_time(moments, np.bincount(when, weights), count)
    return np.asarray(first[stretch][when]), dict(zip(first.tolist(), last.tolist(), strict=True))


def cut_time(
    moments: NDArray[Any], rows: NDArray[Any], count: int = PERIODS
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.intp]]:
    """First and last timestamps of at most ``count`` periods of about equally many rows; each timestamp's period.

    Rows with the same timestamp are never split.
    """
    counts = np.cumsum(rows)
    cuts = np.unique(np.searchsorted(counts, counts[-1] * np.arange(1, count) / count, side="left") + 1)
    stretch = np.searchsorted(cuts, np.arange(len(moments)), side="right")
    places = np.arange(stretch[-1] + 1)
    first, last = (moments[np.searchsorted(stretch, places, side=side) - after] for side, after in SIDES)
    return first, last, stretch
