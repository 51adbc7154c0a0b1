"""Counts by segment and score, for maps that differ by segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.keys import Keys, read_keys
from calibrant.maps import ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap, Map
from calibrant.messages import InputError, Setting
from calibrant.numerics import LOG_ODDS_LIMIT, OUTPUT_ENDS, Ends, Floats, Grid, Ints, expit, logit
from calibrant.reading import Given
from calibrant.tallies import SEGMENT_GRID, Cells, Counts, GroupedTally, Tally, ends_of_rows, in_effective_rows

MAX_EXACT_ROWS = 1 << 16
"""With more rows than this, segments are counted on a grid of about 1,000 cells. Log-odds of scores in one cell differ
by at most 0.06, with a negligible effect on intercepts and slopes."""

WEIGHT_CLASSES_PER_DOUBLING = 2.0
"""Importance weights are grouped in classes: rows of a cell then differ in weight by a factor of at most 1.42."""

By = ArrayLike | Mapping[str, Any]
"""Segments of the rows: one column, or columns by their names."""

Lines = dict[int, tuple[float, float]]
"""Slope and intercept on the log-odds by the code of a segment; segments that are not listed do not change."""

ALL_ROWS = ""
"""In place of a column, which always has a name: one line, under the code 0, for every row."""

Stages = tuple[tuple[str, Lines], ...]
"""Columns with the lines of their segments, the first applied first; :data:`ALL_ROWS` may stand among them."""


@dataclass(frozen=True, eq=False)
class SegmentCells:
    """Counts by the segments of every column and by score; a cell for each combination that has rows.

    Importance weights of different size are in separate cells, so that ``w2 / n`` is nearly the weight of each row.

    Attributes
    ----------
    columns
        Names of the segments by column.
    codes
        By column, the segment of each cell; -1 without a segment.
    axis
        The distinct scores, or mean scores of the cells of a grid, in ascending order.
    place
        Index of each cell on the axis.
    n, events
        Rows and events; importance weights are scaled to add up to the effective sample size.
    w2
        Sum of squared weights, or None if rows have equal weights.
    """

    columns: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, Ints]
    axis: Floats
    place: Ints
    n: Counts
    events: Counts
    w2: Floats | None
    score_type: ScoreType
    ends: Ends
    """How scores of exactly 0 and 1 are read, in the same way in every fold."""

    @classmethod
    def of(cls, rows: Rows, keys: Mapping[str, Keys]) -> SegmentCells:
        """Cells of checked rows; ``keys`` are the segments of the same rows."""
        rows = _counted_alike(in_effective_rows(rows))
        score, axis_of = _score_codes(rows)
        joint, size = np.zeros(len(score), dtype=np.int64), 1
        for each in keys.values():
            joint, size = joint * (len(each.names) + 1) + (each.codes + 1), size * (len(each.names) + 1)
            if size > 2 * len(joint):
                present, joint = np.unique(joint, return_inverse=True)
                size = len(present)
        if not rows.counts and rows.weights is not None:
            present, weighed = np.unique(
                np.floor(WEIGHT_CLASSES_PER_DOUBLING * np.log2(rows.weights)), return_inverse=True
            )
            joint, size = joint * len(present) + weighed, size * len(present)
        index, first = _compact(joint * len(axis_of) + score, size * len(axis_of))
        weight = None if rows.weights is None else rows.weights.astype(np.float64)
        labels = rows.labels.astype(np.float64)
        n, events = np.bincount(index, weight), np.bincount(index, labels if weight is None else labels * weight)
        if rows.counts:
            n, events = n.astype(np.int64), events.astype(np.int64)
        return cls(
            {name: each.names for name, each in keys.items()},
            {name: each.codes[first].astype(np.int64) for name, each in keys.items()},
            axis_of,
            score[first],
            n,
            events,
            None
            if rows.counts or weight is None
            else np.asarray(np.bincount(index, weight * weight), dtype=np.float64),
            rows.score_type,
            ends_of_rows(rows),
        )

    @classmethod
    def of_tallies(cls, tallies: GroupedTally, whole: Tally, names: Sequence[str]) -> SegmentCells:
        """Cells of tallies by segment, all on one grid or all exact; ``whole`` is their total.

        Keys with several columns are tuples, in the order of ``names``.
        """
        keys = [key if isinstance(key, tuple) else (key,) for key in tallies]
        if any(len(key) != len(names) for key in keys):
            raise InputError(
                "by",
                f"must name each column of the segments, which are {len(keys[0])}, got {len(names)}",
                "pass a name, or a list of names",
            )
        if not all(isinstance(name, str) and name for name in names):
            raise InputError("by", "must have text names", "pass the names of the columns of segments")
        read = {name: read_keys([key[j] for key in keys], Setting("by", name)) for j, name in enumerate(names)}
        parts = [tallies[key].cells for key in tallies]
        group = np.repeat(np.arange(len(parts)), [len(part.n) for part in parts])
        unit = 1.0 if whole.counts else whole.effective_size / float(whole.total)

        def joined(name: str, scale: float) -> NDArray[Any]:
            column = np.concatenate([getattr(part, name) for part in parts])
            return column if whole.counts else np.asarray(column * scale, dtype=np.float64)

        return cls(
            {name: each.names for name, each in read.items()},
            {name: each.codes[group].astype(np.int64) for name, each in read.items()},
            whole.scores,
            np.searchsorted(whole.cells.keys, np.concatenate([part.keys for part in parts])).astype(np.int64),
            joined("n", unit),
            joined("events", unit),
            None if whole.counts else joined("w2", unit * unit),
            whole.score_type,
            whole.ends,
        )

    def probabilities(self) -> Floats:
        """The scores themselves, cell by cell; NaN for real scores."""
        if self.score_type == "real":
            return np.full(len(self.place), np.nan)
        return (self.axis if self.score_type == "probability" else expit(self.axis))[self.place]

    def log_odds(self, fitted: Map) -> Floats:
        """Log-odds of a map of the score alone, cell by cell."""
        images = fitted.apply(self.axis)
        return logit(images, _output_ends(images))[self.place]

    def moved(self, x: Floats, column: str, lines: Lines) -> Floats:
        """Log-odds after the lines of some segments of a column, or after the line of all rows."""
        if column == ALL_ROWS:
            return np.asarray(np.clip(x * lines[0][0] + lines[0][1], -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))
        size = len(self.columns[column]) + 1  # the last is that of rows without a segment
        slopes, intercepts = np.ones(size), np.zeros(size)
        for segment, (slope, intercept) in lines.items():
            slopes[segment], intercepts[segment] = slope, intercept
        code = self.codes[column]
        return np.asarray(np.clip(x * slopes[code] + intercepts[code], -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))

    def after(self, x: Floats, stages: Stages) -> Floats:
        """Log-odds after all stages."""
        for column, lines in stages:
            x = self.moved(x, column, lines)
        return x

    def followed(self, first: Map, stages: Stages) -> Map:
        """The global map, followed by a map by group for each stage; a stage of all rows needs no group."""
        following: list[Map] = []
        for column, lines in stages:
            maps = tuple(LogitAffineMap(*line, "log-odds", *OUTPUT_ENDS) for line in lines.values())
            if column == ALL_ROWS:
                following.append(maps[0])
                continue
            names = tuple(self.columns[column][code] for code in lines)
            following.append(ByGroupMap(column, names, maps, IdentityMap()))
        if not following:
            return first
        ends = _output_ends(first.apply(self.axis))
        inside = () if ends == OUTPUT_ENDS else (LogitAffineMap(1.0, 0.0, "log-odds", *ends),)
        return ComposeMap((first, *inside, *following))

    def scores(self) -> Tally:
        """Tally of the scores of all segments together."""
        return self._tally(self.axis, self.place).with_ends(self.ends)

    def ranked(self, values: Floats) -> Tally:
        """Tally of the ranks, between 0 and 1, of other values of the cells; NaN values are left out."""
        known = np.flatnonzero(~np.isnan(values))
        distinct, place = np.unique(values[known], return_inverse=True)
        return self._taken(known)._tally(np.arange(len(distinct)) / len(distinct), place, "probability")

    def numbered(self) -> Tally:
        """Tally of each cell under its number, as if that were a score."""
        numbers = np.arange(len(self.n))
        return self._tally(numbers.astype(np.float64), numbers, "real")

    def without(self, cells: Ints, part: Tally) -> SegmentCells:
        """The rows that are not in a fold."""
        n: NDArray[Any] = self.n.copy()
        events: NDArray[Any] = self.events.copy()
        n[cells] -= part.n.astype(n.dtype)
        events[cells] -= part.events.astype(events.dtype)
        share = np.maximum(n, 0.0) / self.n
        keep = np.flatnonzero(n > (0 if self.w2 is None else 1e-9 * self.n))
        w2 = None if self.w2 is None else self.w2 * share
        return replace(self, n=np.maximum(n, 0), events=np.clip(events, 0, n), w2=w2)._taken(keep)

    def _taken(self, chosen: Ints) -> SegmentCells:
        return replace(
            self,
            codes={name: code[chosen] for name, code in self.codes.items()},
            place=self.place[chosen],
            n=self.n[chosen],
            events=self.events[chosen],
            w2=None if self.w2 is None else self.w2[chosen],
        )

    def _tally(self, scores: Floats, place: Ints, score_type: ScoreType | None = None) -> Tally:
        size = len(scores)
        n, events = np.bincount(place, self.n, size), np.bincount(place, self.events, size)
        there = np.flatnonzero(n > 0)
        kept: dict[str, Any] = {"n": n[there], "events": events[there]}
        if self.w2 is None:
            kept = {name: column.astype(np.int64) for name, column in kept.items()}
        else:
            share = self.events / self.n  # weights of a cell are nearly equal
            for name, column in {
                "w2": self.w2,
                "w2_events": self.w2 * share,
                "rows": np.rint(self.n**2 / self.w2),
                "row_events": np.rint(self.n**2 / self.w2 * share),
            }.items():
                summed = np.bincount(place, column, size)[there]
                kept[name] = summed.astype(np.int64) if name in ("rows", "row_events") else summed
        cells = Cells(scores[there], **kept)
        return Tally(cells, score_type=score_type or self.score_type, counts=self.w2 is None)


def _output_ends(images: Floats) -> Ends:
    """Ends for the log-odds of a map's outputs; the few maps with outputs of 0 or 1 are read as scores are."""
    certain = ((images == 0.0) | (images == 1.0)).any()
    return Ends.of(images) if certain else OUTPUT_ENDS


def _counted_alike(rows: Rows) -> Rows:
    """Rows with equal weights as counts, so that tests that are exact for counts are exact for them."""
    if rows.counts or rows.weights is None or rows.weights.min() < rows.weights.max():
        return rows
    return replace(rows, weights=None, counts=True)


def segment_keys(given: Given, size: int) -> dict[str, Keys]:
    """Segments by column, of the ``size`` rows with a weight above 0, without empty ones."""
    if not given.by or not all(given.by):
        raise InputError("by", "must have at least one column, each with a text name", "pass {'name': values}")
    kept, found = given.kept, {}
    for name, column in given.by.items():
        keys = read_keys(column, Setting("by", name))
        rows = size if kept is None else len(kept)
        if keys.codes.shape != (rows,):
            shown = keys.codes.shape[0] if keys.codes.ndim == 1 else keys.codes.shape
            raise InputError(Setting("by", name), f"has {shown} rows but scores has {rows}", "pass one segment per row")
        found[name] = keys if kept is None else _present(Keys(keys.codes[kept], keys.names))
    return found


def _present(keys: Keys) -> Keys:
    there = np.bincount(keys.codes[keys.codes >= 0], minlength=len(keys.names)) > 0
    place = np.append(np.cumsum(there) - 1, -1)
    return Keys(place[keys.codes], tuple(name for name, kept in zip(keys.names, there, strict=True) if kept))


def _score_codes(rows: Rows) -> tuple[Ints, Floats]:
    """Index of each row on the axis of scores, and the axis."""
    if len(rows.scores) <= MAX_EXACT_ROWS:
        axis, place = np.unique(rows.scores, return_inverse=True)
        return place.astype(np.int64), axis
    grid = SEGMENT_GRID
    if rows.score_type != "probability":
        low, high = float(rows.scores.min()), float(rows.scores.max())
        if low == high:
            return np.zeros(len(rows.scores), dtype=np.int64), np.array([low])
        grid = Grid(SEGMENT_GRID.bits, low, high)
    code, offset = grid.cells(rows.scores)
    code += grid.top
    size = 2 * grid.top + 1
    weight = None if rows.weights is None else rows.weights.astype(np.float64)
    n, inside = np.bincount(code, weight, size), np.bincount(code, offset if weight is None else offset * weight, size)
    there = np.flatnonzero(n)
    place = np.cumsum(n > 0) - 1
    return place[code], grid.scores((there - grid.top).astype(np.int32), inside[there] / n[there])


def _compact(key: Ints, size: int) -> tuple[Ints, Ints]:
    """Index of each row's key among the distinct keys, and one row of each of them."""
    if size > 8 * len(key) + 1024:
        return cast("tuple[Ints, Ints]", _by_sorting(key))
    row = np.full(size, -1, dtype=np.int64)
    row[key] = np.arange(len(key))
    there = row >= 0
    return (np.cumsum(there) - 1)[key], row[there]


def _by_sorting(key: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    return index, first
