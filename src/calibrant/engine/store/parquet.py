"""Columns of one day of stored tallies: built from tallies, read from Parquet, checked and added."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import ScoreType
from calibrant.engine.store.conflicts import Size
from calibrant.messages import InputError
from calibrant.numerics import POSITION_BITS, Grid, Ints
from calibrant.tallies import Cells, GroupedTally, Tally
from calibrant.tallies.cells import distinct_starts

COLUMNS: Mapping[str, str] = {
    "code": "cell of the grid",
    "n": "rows, or sum of weights, in the cell",
    "events": "positive rows, or their sum of weights, in the cell",
    "offset": "sum of the positions inside the cell, times the weight",
    "rows": "physical rows, under importance weights only",
    "row_events": "positive rows among them, under importance weights only",
    "w2": "sum of squared weights, under importance weights only",
    "w2_events": "sum of squared weights of positive rows, under importance weights only",
    "whole": "whether every weight of the segment is an integer, under importance weights only",
}
COUNTED = ("code", "n", "events", "offset")
WEIGHTED = ("rows", "row_events", "w2", "w2_events")
ROW_GROUP = 1 << 14
"""Rows of a row group, which a reader of one segment decodes; about 40 segments of a few hundred cells."""
PENDING = 1 << 22
"""Cells of days that wait to be sorted together, at least."""
DENSE = 1 << 24
"""Segments times cells up to which days are added in one dense table, at most 128 MB per column."""

SEGMENT_TYPES: Mapping[type, str] = {str: "string", int: "int64", bool: "bool", date: "date32[day]"}
"""Arrow type for segments of each Python type."""

Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Content:
    """Tallies of one day as columns, segment after segment."""

    keys: list[Key]
    sizes: Ints
    columns: dict[str, NDArray[Any]]

    @classmethod
    def of(cls, segments: Mapping[Key, Tally]) -> Content:
        """Columns of the segments' cells, in the order given."""
        cells = [tally.cells for tally in segments.values()]
        sizes = np.array([len(part.n) for part in cells], dtype=np.int64)
        columns = {"code": np.concatenate([part.keys for part in cells]).astype(np.int32)}
        counts = all(tally.counts for tally in segments.values())
        for name in COUNTED[1:] if counts else (*COUNTED[1:], *WEIGHTED):
            dtype = np.int64 if counts or name in ("rows", "row_events") else np.float64
            columns[name] = np.concatenate([getattr(part, name) for part in cells]).astype(dtype)
        if not counts:
            columns["whole"] = np.repeat([tally.whole for tally in segments.values()], sizes)
        return cls(list(segments), sizes, columns)

    @classmethod
    def read(cls, table: Any, by: Sequence[str]) -> Content:
        """Columns of a Parquet table; types are checked here, numbers are not."""
        table = table.combine_chunks()
        for name in table.column_names:
            kind = _type_text(table.schema, name)
            allowed = SEGMENT_TYPES.values() if name in by else [_column_type(name, "w2" not in table.column_names)]
            if kind not in allowed:
                raise ValueError(f"the column {name!r} holds {kind}, not {' or '.join(allowed)}")
            if table.column(name).null_count:
                raise ValueError(f"the column {name!r} holds missing values")
        columns = {name: table.column(name).to_numpy() for name in table.column_names[len(by) :]}
        segments = [table.column(name).unify_dictionaries().combine_chunks().dictionary_encode() for name in by]
        first = np.zeros(table.num_rows, dtype=bool)
        first[:1] = True
        for column in segments:
            index = column.indices.to_numpy()
            first[1:] |= index[1:] != index[:-1]
        starts = np.flatnonzero(first)
        values = [column.take(starts).to_pylist() for column in segments]
        keys = list(zip(*values, strict=True)) if by else [()] * len(starts)
        return cls(keys, np.diff(starts, append=table.num_rows), columns)

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.columns["code"])

    @property
    def counts(self) -> bool:
        """Whether n counts rows."""
        return "w2" not in self.columns

    @property
    def rows(self) -> int:
        """Number of physical rows."""
        return sum(self.rows_by_segment.values())

    @property
    def size(self) -> Size:
        """Numbers of rows and segments."""
        return Size(self.rows, None if self.keys == [()] else len(self.keys))

    @property
    def rows_by_segment(self) -> dict[Key, int]:
        """Number of physical rows of each segment."""
        starts = np.cumsum(self.sizes) - self.sizes
        rows = np.add.reduceat(self.columns["n" if self.counts else "rows"], starts)
        return dict(zip(self.keys, rows.tolist(), strict=True))

    @property
    def run_of_row(self) -> Ints:
        """Number of the segment that each row belongs to."""
        return np.repeat(np.arange(len(self.keys)), self.sizes)

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal hash of segments and numbers."""
        names = [[[type(value).__name__, str(value)] for value in key] for key in self.keys]
        digest = hashlib.sha256(json.dumps([names, self.sizes.tolist(), list(self.columns)]).encode())
        for column in self.columns.values():
            digest.update(np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<"), copy=False).data)
        return digest.hexdigest()

    def same_as(self, other: Content) -> bool:
        """Whether both are equal, up to rounding for sums of real weights."""
        if self.counts or other.counts:
            return self.fingerprint == other.fingerprint
        if self.keys != other.keys or not np.array_equal(self.sizes, other.sizes):
            return False
        both = [(self.columns[name], other.columns[name]) for name in self.columns]
        return all(
            np.allclose(a, b, rtol=1e-9, atol=0.0) if a.dtype.kind == "f" else np.array_equal(a, b) for a, b in both
        )

    def problem(self, grid: Grid) -> str | None:
        """What is impossible for a tally on ``grid``; None if nothing is."""
        code, n, events, offset = (self.columns[name] for name in COUNTED)
        run, slack = self.run_of_row, 0.0 if self.counts else 1e-9  # engines may round sums differently
        rising = (code[1:] > code[:-1]) | (run[1:] != run[:-1])
        drop = np.where(np.abs(code) == grid.top - 1, POSITION_BITS, POSITION_BITS - grid.bits)
        checks = {
            "segments are not in ascending order": all(a < b for a, b in pairwise(self.keys)),
            "cells are not in ascending order": rising.all(),
            "a cell lies outside the grid": (np.abs(code.astype(np.int64)) <= grid.top).all(),
            "n is not positive": (n > 0).all(),
            "the sum of n is too large": n.sum(dtype=np.float64) < (2.0**62 if self.counts else np.inf),
            "events are negative or exceed n": (
                (events >= 0) & (events <= n * (1 + slack) if slack else events <= n)
            ).all(),
            "offsets lie outside their cells": (
                (offset >= 0) & (np.ldexp(offset.astype(float), -drop) <= n * (1 + slack))
            ).all(),
        }
        if not self.counts:
            rows, row_events, w2, w2_events = (self.columns[name] for name in WEIGHTED)
            possible = (rows > 0) & (row_events >= 0) & (row_events <= rows) & np.isfinite(w2)
            possible &= (w2_events >= 0) & (w2_events <= w2 * (1 + slack))
            checks["rows or squared weights are inconsistent"] = possible.all()
        return next((problem for problem, good in checks.items() if not good), None)

    def only(self, wanted: Collection[Key]) -> Content:
        """Only the wanted segments."""
        keep = np.array([key in wanted for key in self.keys], dtype=bool)
        rows = np.repeat(keep, self.sizes)
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Content([key for key in self.keys if key in wanted], self.sizes[keep], columns)

    def tallies(self, grid: Grid, score_type: ScoreType) -> GroupedTally:
        """One tally per segment, on slices of the columns."""
        ends = np.cumsum(self.sizes).tolist()
        parts: dict[Key, Tally] = {}
        for key, low, high in zip(self.keys, [0, *ends], ends, strict=False):
            part = {name: column[low:high] for name, column in self.columns.items()}
            codes, whole = part.pop("code"), bool(part.pop("whole", np.False_).all())
            parts[key] = Tally(
                Cells(codes, **part),
                score_type=score_type,
                grid=grid,
                resolution="grid",
                counts=self.counts,
                whole=whole,
            )
        return GroupedTally(parts)


class Sums:
    """Sum of the contents of days, in one dense table of (segment, cell) if it is small enough.

    Within a day every (segment, cell) occurs once, so plain indexed addition is exact and twice as fast as a sort of
    the rows. Days with more segments are sorted together.
    """

    def __init__(self, grid: Grid, score_type: ScoreType) -> None:
        self._grid, self._kind, self._width = grid, score_type, 2 * grid.top + 1
        self._index: dict[Key, int] = {}
        self._table: dict[str, NDArray[Any]] = {}
        self._late: list[Content] = []

    def add(self, content: Content) -> None:
        """Add one day."""
        new = [key for key in content.keys if key not in self._index]
        if (len(self._index) + len(new)) * self._width > DENSE:
            self._late.append(content)
            if sum(map(len, self._late[1:])) > max(len(self._late[0]), PENDING):
                self._late = [_added(self._late, self._grid)]
            return
        self._index |= {key: len(self._index) + place for place, key in enumerate(new)}
        segment = np.array([self._index[key] for key in content.keys], dtype=np.int64)
        place = np.repeat(segment * self._width + self._grid.top, content.sizes) + content.columns["code"]
        for name, column in content.columns.items():
            if name != "code":
                values = (~column).astype(np.int64) if name == "whole" else column
                self._grown(name, values.dtype)[place] += values

    def _grown(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The column of the table, enlarged to all segments."""
        room = len(self._index) * self._width
        old = self._table.get(name, np.zeros(0, dtype=dtype))
        if len(old) < room:
            self._table[name] = old = np.concatenate([old, np.zeros(room - len(old), dtype=dtype)])
        return old

    def tallies(self) -> GroupedTally:
        """One tally per segment."""
        contents = [*([self._dense()] if self._table else []), *self._late]
        if not contents:
            return GroupedTally({})
        whole = contents[0] if len(contents) == 1 else _added(contents, self._grid)
        return whole.tallies(self._grid, self._kind)

    def _dense(self) -> Content:
        filled = np.flatnonzero(self._table["n"])
        segment, code = np.divmod(filled, self._width)
        columns = {"code": (code - self._grid.top).astype(np.int32)}
        columns |= {name: column[filled] for name, column in self._table.items()}
        if "whole" in columns:
            columns["whole"] = columns["whole"] == 0
        return Content(list(self._index), np.bincount(segment, minlength=len(self._index)), columns)


def _added(contents: Sequence[Content], grid: Grid) -> Content:
    """The sum of contents with the same columns, by a sort of their cells."""
    index: dict[Key, int] = {}
    for key in (key for content in contents for key in content.keys):
        index.setdefault(key, len(index))
    width, places = 2 * grid.top + 1, []
    for content in contents:
        segment = np.array([index[key] for key in content.keys], dtype=np.int64)
        places.append(np.repeat(segment * width + grid.top, content.sizes) + content.columns["code"])
    place = np.concatenate(places)
    order = np.argsort(place, kind="stable")
    starts, distinct = distinct_starts(place[order])
    segment, code = np.divmod(distinct, width)
    columns: dict[str, NDArray[Any]] = {"code": (code - grid.top).astype(np.int32)}
    for name in contents[0].columns:
        if name != "code":
            column = np.concatenate([content.columns[name] for content in contents])[order]
            add = np.logical_and if name == "whole" else np.add
            columns[name] = np.asarray(add.reduceat(column, starts))
    return Content(list(index), np.bincount(segment, minlength=len(index)), columns)


def _type_text(schema: Any, name: str) -> str:
    kind = schema.field(name).type
    return str(getattr(kind, "value_type", kind))  # text is stored as a dictionary


def check_keys(keys: Iterable[Key], by: Sequence[str], file: Any) -> None:
    """Refuse segments whose type differs from that in the file: engines could not find or sort them."""
    for name, value in ((name, value) for key in keys for name, value in zip(by, key, strict=True)):
        stored = _type_text(file.schema_arrow, name)
        if stored != SEGMENT_TYPES[type(value)]:
            raise InputError(
                "by",
                f"names the column {name!r}, whose values are {stored} in the store, and {value!r} is not",
                "convert the column",
            )


def groups_with(file: Any, by: Sequence[str], wanted: Collection[Key] | None) -> list[int]:
    """Row groups that may hold a wanted segment, by their statistics."""
    groups = range(file.num_row_groups)
    if wanted is None:
        return list(groups)
    check_keys(wanted, by, file)
    values = [sorted(set(column)) for column in zip(*wanted, strict=True)]

    def may_hold(group: int) -> bool:
        for place, sought in enumerate(values):
            known = file.metadata.row_group(group).column(place).statistics
            if known is not None and known.has_min_max:
                after = bisect_left(sought, known.min)
                if after == len(sought) or sought[after] > known.max:
                    return False
        return bool(values)

    return [group for group in groups if may_hold(group)]


def _column_type(name: str, counts: bool) -> str:
    fixed = {"code": "int32", "rows": "int64", "row_events": "int64", "whole": "bool"}
    return fixed.get(name, "int64" if counts else "double")
