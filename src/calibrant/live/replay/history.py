"""History of a back-test: scores and labels in order of time, and when each label could be used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows, check_scores
from calibrant.arrays.columns import as_set, check_length, is_missing, read_column
from calibrant.arrays.labels import encode_labels
from calibrant.arrays.sides import side_column
from calibrant.engine import TallyStore
from calibrant.live.replay.times import Calendar, read_delay, read_times
from calibrant.messages import InputError, Note, note
from calibrant.numerics import Floats, Grid, Ints
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally
from calibrant.tallies.cells import Cells, distinct_starts, segment_sums

QUANTILES = np.linspace(0.01, 0.99, 21)
"""Shares of the observed scores at which steps from map to map are measured."""

NEVER = np.iinfo(np.int64).max
"""Day at which a missing label is known."""

labels_missing = note("backtest-labels-missing", "{n:,} of {rows:,} {nouns.rows} have no label: they are not judged")


@dataclass(frozen=True, eq=False)
class Lines:
    """What is known of single rows, in order of time: needed by policies that learn row by row.

    Attributes
    ----------
    at
        When each row was predicted.
    known_at
        When its label is known; infinite for a missing one.
    keys
        Key of each row, or None.
    place
        Where each row was in the input.
    """

    at: Floats
    known_at: Floats
    keys: NDArray[Any] | None
    place: Ints


@dataclass(frozen=True, eq=False)
class History:
    """Scores and labels in order of time: one line per row, or per day and cell of a store.

    Attributes
    ----------
    scores, n, events
        Score of each line, its rows with a label, and events among them.
    day
        Day of the predictions, from 0.
    known
        Day at whose start the labels of a line may be used: all of them are known by then, and all predictions were
        made before.
    days
        Number of days.
    calendar
        What the days are.
    grid
        Grid of the tallies to which maps are fitted.
    lines
        Times and keys of single rows; None for a store.
    notes
        What to know about the input.
    """

    scores: Floats
    n: Ints
    events: Ints
    day: Ints
    known: Ints
    days: int
    calendar: Calendar
    grid: Grid
    lines: Lines | None
    notes: tuple[Note, ...] = ()

    @classmethod
    def of_rows(
        cls, scores: Any, y: Any, time: Any, *, delay: Any, keys: Any, positive: Any, day: float | None
    ) -> History:
        """The history of rows."""
        s = check_scores(scores, "probability").astype(np.float64)
        if not len(s):
            raise InputError("scores", "is empty", "pass at least one row")
        if np.isnan(s).any():
            raise InputError("scores", "has missing values", "drop these rows or repair the score")
        labels, missing, read = _labels(y, s, positive)
        at, calendar, converted = read_times(time, len(s), day)
        known_at = np.where(missing, np.inf, at + read_delay(delay, len(s), calendar))
        order = np.argsort(at, kind="stable")
        s, at, known_at = s[order], at[order], known_at[order]
        days = np.floor(at / calendar.day).astype(np.int64)
        known = np.where(missing[order], NEVER, np.maximum(days + 1, _first_start(known_at, calendar.day)))
        by = None if keys is None else side_column(keys, "keys", len(s))[order]
        gaps = (labels_missing(int(missing.sum()), len(s)),) if missing.any() else ()
        return cls(
            s,
            (~missing[order]).astype(np.int64),
            labels[order].astype(np.int64),
            days,
            known,
            int(days[-1]) + 1,
            calendar,
            SEGMENT_GRID,
            Lines(at, known_at, by, order),
            (*read, *converted, *gaps),
        )

    @classmethod
    def of_store(cls, store: TallyStore, *, delay: Any) -> History:
        """The history of a store, whose days are those of the predictions."""
        if store.score_type != "probability":
            raise InputError("scores", f"must be a store of probabilities, not of {store.score_type} scores")
        days = store.days
        if not days:
            raise InputError("scores", f"is a store without days, {str(store.path)!r}", "add some")
        tallies = [_whole(store.window(day, day)) for day in days]
        if not all(tally.counts for tally in tallies):
            raise InputError("scores", "is a store with importance weights", "count rows, or pass the rows themselves")
        first = np.datetime64(days[0], "D")
        number = (np.array(days, dtype="datetime64[D]") - first).astype(np.int64)
        calendar = Calendar(1.0, first)
        wait = math.ceil(float(read_delay(delay, 1, calendar)[0]))
        sizes = [len(tally) for tally in tallies]
        by_day = np.repeat(number, sizes)
        scores, n, events = (
            np.concatenate([getattr(tally, name) for tally in tallies]) for name in ("scores", "n", "events")
        )
        return cls(scores, n, events, by_day, by_day + 1 + wait, int(number[-1]) + 1, calendar, store.grid, None)

    def rows(self) -> Lines:
        """Times and keys of single rows; an error for a store."""
        if self.lines is None:
            raise InputError("policies", "has one that learns row by row, and a store has only counts", "pass the rows")
        return self.lines

    @cached_property
    def score_quantiles(self) -> Floats:
        """Distinct quantiles of the observed scores, at which steps from map to map are measured."""
        order = np.argsort(self.scores, kind="stable")
        mass = np.cumsum(np.maximum(self.n, 1)[order])
        return np.unique(self.scores[order][np.searchsorted(mass, QUANTILES * mass[-1])])

    @cached_property
    def released(self) -> dict[int, Cells]:
        """Counts by cell of the labels that become usable at the start of each day."""
        inside = np.flatnonzero(self.known < self.days)
        codes, offset = self.grid.cells(self.scores[inside])
        order = np.lexsort((codes, self.known[inside]))
        inside, codes, offset = inside[order], codes[order].astype(np.int64), offset[order]
        wide = np.int64(2 * self.grid.top + 1)
        starts, both = distinct_starts(self.known[inside] * wide + (codes + self.grid.top))
        known = both // wide
        columns = (self.n[inside], self.events[inside], offset * self.n[inside])
        n, events, offsets = (segment_sums(column, starts) for column in columns)
        keys = (both % wide - self.grid.top).astype(np.int32)
        first, released = distinct_starts(known)
        ends = np.append(first, len(known))[1:]
        return {
            day: Cells(keys[a:b], n[a:b], events[a:b], offset=offsets[a:b])
            for day, a, b in zip(released.tolist(), first.tolist(), ends.tolist(), strict=True)
        }

    @cached_property
    def by_known(self) -> tuple[Ints, Ints]:
        """Lines in the order of the day at which their labels are usable, and where each day of the history begins."""
        order = np.argsort(self.known, kind="stable")
        return order, np.searchsorted(self.known[order], np.arange(self.days + 1))


class Usable:
    """Counts of the labels that are usable at the start of a day: all of them, or those of a window of days.

    Examples
    --------
    >>> history = History.of_rows(
    ...     [0.2, 0.7, 0.9], [0, 1, 1], [0.5, 1.5, 2.5], delay=0, keys=None, positive=None, day=None)
    >>> usable = Usable(history, None)
    >>> usable.at(1).total, usable.at(2).total
    (1, 2)
    """

    def __init__(self, history: History, window: int | None) -> None:
        self._grid, self._window = history.grid, window
        self._days = iter(sorted(history.released.items()))
        self._next = next(self._days, None)
        self._inside: list[tuple[int, Cells]] = []
        self._sums = np.zeros((3, 2 * history.grid.top + 1), dtype=np.int64)

    def at(self, day: int) -> Tally:
        """The tally at the start of a day; days must not decrease from call to call."""
        while self._next is not None and self._next[0] <= day:
            self._add(self._next[1], 1)
            self._inside.append(self._next)
            self._next = next(self._days, None)
        while self._window is not None and self._inside and self._inside[0][0] <= day - self._window:
            self._add(self._inside.pop(0)[1], -1)
        kept = np.flatnonzero(self._sums[0])
        n, events, offset = self._sums[:, kept]
        cells = Cells((kept - self._grid.top).astype(np.int32), n, events, offset=offset)
        return Tally(cells, grid=self._grid, resolution="grid")

    def _add(self, cells: Cells, sign: int) -> None:
        where = cells.keys.astype(np.int64) + self._grid.top
        self._sums[:, where] += sign * np.array([cells.n, cells.events, cells.offset], dtype=np.int64)


def line_tally(p: Floats, n: Ints, events: Ints, grid: Grid | None = None) -> Tally:
    """Counts by probability of lines with some rows and events each; exact, or on a grid.

    Examples
    --------
    >>> line_tally(np.array([0.2, 0.7]), np.array([3, 1]), np.array([1, 1])).events.tolist()
    [1, 1]
    """
    counted = np.concatenate([events, n - events])
    kept = counted > 0
    labels = np.repeat(np.array([1, 0], dtype=np.uint8), len(p))[kept]
    rows = Rows(np.concatenate([p, p])[kept], labels, counted[kept], True, None, None, "probability", ())
    return Tally.from_rows(rows, grid)


def _first_start(known_at: Floats, day: float) -> Ints:
    """The first day that begins no earlier than the time; that of an infinite one is beyond every history."""
    return np.ceil(np.minimum(known_at / day, 2.0**53)).astype(np.int64)


def _whole(counted: Tally | GroupedTally) -> Tally:
    return counted.total() if isinstance(counted, GroupedTally) else counted


def _labels(y: Any, scores: Floats, positive: Any) -> tuple[NDArray[np.uint8], NDArray[np.bool_], tuple[Note, ...]]:
    """Labels as 0 and 1, which of them are missing, and what was converted."""
    column, n = read_column(y, "y"), len(scores)
    check_length(column, "y", n)
    missing = np.zeros(n, dtype=np.bool_)
    if column.dtype.kind == "f":
        missing = np.isnan(column)
    elif column.dtype.kind == "O" and any(map(is_missing, as_set(column, "y"))):
        missing = np.fromiter(map(is_missing, column), dtype=np.bool_, count=n)
    if missing.all():
        raise InputError("y", "has no label at all", "pass a history whose outcomes are known")
    labels = np.zeros(n, dtype=np.uint8)
    labels[~missing], notes = encode_labels(column[~missing], positive, "y", scores[~missing])
    return labels, missing, notes
