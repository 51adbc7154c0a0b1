"""Count rows and events by cell with one GROUP BY, and build tallies from the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import ScoreType
from calibrant.arrays.frames import Rows, collect_frame
from calibrant.arrays.sides import check_weights
from calibrant.engine.engines import with_cells
from calibrant.engine.overflow import says_overflow
from calibrant.engine.selection import Selection
from calibrant.messages import InputError
from calibrant.numerics import Floats, Grid
from calibrant.tallies import Cells, GroupedTally, Tally

MOST_DISTINCT = 1 << 16
"""Number of distinct scores up to which a tally keeps every one of them."""

PROBE_ROWS = 1 << 17
"""Rows that are read first: if they have too many distinct scores, no pass over all rows is needed."""

ENDS = ("least", "most")
"""Columns that are not summed by cell: the smallest weight above zero, and the largest."""

MOST_WEIGHT = 2.0**62
"""Sums of integer weights beyond this might have overflowed 64 bits."""

COLUMNS = ("n", "events", "offset", "rows", "row_events", "w2", "w2_events")


def few_scores(selection: Selection) -> bool:
    """Whether there are at most 65,536 distinct scores."""
    scores = _countable(selection).select("score")
    first = collect_frame(scores.head(PROBE_ROWS))["score"]
    found = _distinct(first)
    if found <= MOST_DISTINCT and len(first) == PROBE_ROWS:
        most = MOST_DISTINCT + 2  # one more than enough, for -0.0 beside 0.0
        found = _distinct(collect_frame(scores.unique().head(most))["score"])
    return found <= MOST_DISTINCT


def _countable(selection: Selection) -> Rows:
    return selection.rows.filter(nw.col("good"), nw.col("score").is_between(*selection.ends).fill_null(False))


def _distinct(scores: nw.Series[Any]) -> int:
    return len(np.unique(np.asarray(scores.to_numpy(), dtype=np.float64)))


@dataclass(frozen=True)
class Counted:
    """The engine's result: one entry per key and cell, sorted."""

    keys: tuple[NDArray[Any], ...]
    cells: Cells
    grid: Grid | None
    counts: bool
    integers: bool
    unusable: bool

    def whole(self, score_type: ScoreType) -> Tally:
        """All cells as one tally."""
        return self._tally(slice(None), score_type)

    def grouped(self, score_type: ScoreType, columns: Sequence[str] = ()) -> GroupedTally:
        """One tally per key; ``columns`` are the names of its parts."""
        fresh = np.zeros(len(self.cells.n), dtype=bool)
        fresh[:1] = True
        for column in self.keys:
            fresh[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(fresh)
        values = [column[starts].tolist() for column in self.keys]
        names = values[0] if len(values) == 1 else list(zip(*values, strict=True))
        parts = map(slice, starts.tolist(), np.append(starts[1:], len(fresh)).tolist())
        tallies = {name: self._tally(part, score_type) for name, part in zip(names, parts, strict=True)}
        return GroupedTally(tallies, columns)

    def _tally(self, part: slice, score_type: ScoreType) -> Tally:
        given: dict[str, Any] = {name: getattr(self.cells, name) for name in COLUMNS}
        cells = Cells(self.cells.keys[part], **{name: v[part] for name, v in given.items() if v is not None})
        resolution: Literal["exact", "grid"] = "exact" if self.grid is None else "grid"
        return Tally(
            cells, score_type=score_type, grid=self.grid, resolution=resolution, counts=self.counts, whole=self.integers
        )


def count_cells(selection: Selection, grid: Grid | None) -> Counted:
    """Rows and events by key and cell of ``grid``, or by key and score where there is none."""
    cell = "score" if grid is None else "code"
    if grid is None:
        rows = selection.rows.with_columns(nw.when(nw.col("good")).then(nw.col("score")).alias("score"))
    else:
        rows = with_cells(selection.rows, "score", "good", grid)
    values = _weights(selection.counts, grid) if selection.weighted else _labels(grid)
    rows = rows.select(*selection.keys, cell, *(value.alias(name) for name, value in values.items()))
    gathered = [nw.col(name).min() if name == "least" else nw.col(name).max() for name in values if name in ENDS]
    gathered += [nw.col(name).sum() for name in values if name not in ENDS]
    gathered.append(nw.len().alias("size" if selection.weighted else "n"))
    answer = rows.group_by(*selection.keys, cell).agg(*gathered)
    real = selection.weighted and not selection.counts
    types = {name: nw.Float64 if real and name not in ("rows", "row_events") else nw.Int64 for name in ("n", *values)}
    collected = _collect(answer.with_columns(nw.col(name).cast(dtype) for name, dtype in types.items()), selection)
    found = collected[cell]
    ends = selection.ends if grid is None else (-grid.top, grid.top)
    usable = collected.filter(found.is_between(*ends).fill_null(False))
    columns = {name: usable[name].to_numpy() for name in (cell, *types)}
    columns |= {name: _key_values(usable[name], name == selection.days) for name in selection.keys}
    if selection.weighted and not real:
        heaviest = usable["most"].cast(nw.Float64) * usable["size"].cast(nw.Float64)
        if (heaviest >= MOST_WEIGHT).any():
            raise _too_heavy()
    integers = _check_weights(columns) if real else True
    order = _order(columns, selection.keys, cell)
    return Counted(
        keys=tuple(columns[name][order] for name in selection.keys),
        cells=_cells(columns, cell, order),
        grid=grid,
        counts=not real,
        integers=integers,
        unusable=len(usable) < len(collected),
    )


def count_totals(selection: Selection) -> tuple[list[Any], Floats, Floats, Floats, Floats]:
    """By key: its name, rows (or sum of weights), events, the sum of scores s and that of s (1 - s), in doubles."""
    w = nw.col("weight") if selection.weighted else nw.lit(1.0)
    usable = _countable(selection)
    s = nw.col("score")
    sums = {"n": w, "events": w * nw.col("label"), "predicted": w * s, "variance": w * s * (1.0 - s)}
    products = usable.select(*selection.keys, *(each.cast(nw.Float64).alias(name) for name, each in sums.items()))
    answer = products.group_by(*selection.keys).agg(nw.col(*sums).sum())
    collected = collect_frame(answer)
    n, events, predicted, variance = (collected[name].to_numpy() for name in sums)
    keys = [_key_values(collected[name], name == selection.days).tolist() for name in selection.keys]
    return list(zip(*keys, strict=True)), n, events, predicted, variance


def _labels(grid: Grid | None) -> dict[str, nw.Expr]:
    """What is summed by cell when there are no weights."""
    values = {"events": nw.col("label")}
    return values if grid is None else values | {"offset": nw.col("offset")}


def _weights(counts: bool, grid: Grid | None) -> dict[str, nw.Expr]:
    """What is summed by cell with weights; for importance weights also rows, squares, smallest and largest weight."""
    w = nw.col("weight")
    values = {"n": w} | {name: w * value for name, value in _labels(grid).items()}
    if counts:
        return values | {"most": w}
    above, label = nw.when(w > 0.0), nw.col("label")
    parts = nw.when(w != w.floor()).then(1).otherwise(0)
    values |= {"rows": above.then(1).otherwise(0), "row_events": above.then(label).otherwise(0)}
    return values | {"w2": w * w, "w2_events": w * w * label, "parts": parts, "least": above.then(w), "most": w}


def _collect(answer: Rows, selection: Selection) -> nw.DataFrame[Any]:
    try:
        return collect_frame(answer)
    except Exception as problem:  # each engine has its own error for sums beyond 64 bits
        if selection.weighted and says_overflow(problem):
            raise _too_heavy() from None
        raise


def _too_heavy() -> InputError:
    return InputError(
        "sample_weight", "sums to more than fits into 64 bits", "divide the weights, or tally the rows in parts"
    )


def _check_weights(columns: dict[str, NDArray[Any]]) -> bool:
    """Refuse weights whose sums or squares overflow; whether all of them are integers."""
    ends = np.append(columns["least"], columns["most"])
    ends = ends[~np.isnan(ends)]  # a cell of zero weights has no least weight above zero
    if len(ends):
        check_weights(ends, "importance", len(ends))
    return not columns["parts"].any()


def _order(columns: dict[str, NDArray[Any]], keys: tuple[str, ...], cell: str) -> NDArray[np.intp]:
    """Entries of positive weight, sorted by key and cell."""
    ranks = [columns[cell], *(_ranks(columns[name]) for name in reversed(keys))]
    order = np.lexsort(ranks)
    return order[columns["n"][order] > 0]


def _ranks(keys: NDArray[Any]) -> NDArray[Any]:
    """Numbers in the same order as the keys; text is ranked by its distinct values."""
    if keys.dtype.kind != "O":
        return keys
    distinct = set(keys.tolist())
    try:
        places = {value: place for place, value in enumerate(sorted(distinct))}
    except TypeError:
        raise InputError("by", "names a column of mixed types", "turn its values into text first") from None
    return np.array([places[value] for value in keys.tolist()], dtype=np.int64)


def _key_values(keys: nw.Series[Any], whole_days: bool) -> NDArray[Any]:
    """Keys as numbers, dates, timestamps in microseconds, or objects: fixed-width text would lose trailing NULs."""
    if keys.dtype.is_numeric() or keys.dtype == nw.Boolean:
        return keys.to_numpy()
    if keys.dtype.is_temporal():
        dates = whole_days or keys.dtype == nw.Date
        return np.asarray(keys.to_numpy()).astype("datetime64[D]" if dates else "datetime64[us]")
    made = np.empty(len(keys), dtype=object)
    made[:] = keys.to_list()
    return made


def _cells(columns: dict[str, NDArray[Any]], cell: str, order: NDArray[np.intp]) -> Cells:
    keys = columns[cell][order]
    there = {name: columns[name][order] for name in COLUMNS if name in columns}
    if cell == "code":
        return Cells(keys.astype(np.int32), **there)
    made = Cells(np.asarray(keys, dtype=np.float64) + 0.0, **there)
    return made.merged(made.keys, None)  # -0.0 and 0.0 are one score
