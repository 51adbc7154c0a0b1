"""One implementation of the tally for every dataframe and SQL engine, on narwhals."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from calibrant.arrays import InputError, Kind
from calibrant.numerics import OCTAVES, POSITION_BITS, Grid
from calibrant.tallies import Cells, Tally

TINY = 2.0**-32


def tally(frame: Any, score: str, label: str, *, grid: Grid | None = None, kind: Kind = "probability") -> Tally:
    """Gridded tally of two columns of a frame, by one GROUP BY in the engine that holds it.

    Labels are 0/1 or booleans. Rows with a missing score or label, a label that is neither, or a score outside the
    grid's range are counted in the same pass and refused: a label that has not arrived is not a non-event.

    Examples
    --------
    >>> import duckdb
    >>> rows = duckdb.sql("SELECT * FROM (VALUES (0.2, 0), (0.2, 1), (0.7, 1)) AS t(s, y)")
    >>> tally(rows, "s", "y").events.tolist()
    [1, 1]
    """
    grid = Grid() if grid is None else grid
    if (kind == "probability") != grid.unit:
        raise InputError("probabilities go on the unit grid, and other kinds on grid=Grid(low=..., high=...)")
    frame, score_name, label_name = _plain_names(frame, score, label)
    s, y = (nw.col(name).cast(nw.Float64) for name in (score_name, label_name))
    bad_score = s.is_null() | s.is_nan() | ~s.is_between(grid.low, grid.high)
    bad_label = y.is_null() | y.is_nan() | ((y != 0.0) & (y != 1.0))
    rows = (
        nw.from_native(frame)
        .lazy()
        .select(s.alias("s"), y.alias("y"), _flag(bad_score).alias("bad_score"), _flag(bad_label).alias("bad_label"))
        .select(
            nw.when(nw.col("bad_score") == 1).then(grid.low).otherwise(nw.col("s")).alias("score"),
            nw.when(nw.col("bad_label") == 1).then(0.0).otherwise(nw.col("y")).cast(nw.Int64).alias("label"),
            "bad_score",
            "bad_label",
        )
    )
    sums = [nw.col(name).sum().alias(name) for name in ("label", "offset", "bad_score", "bad_label")]
    counted = (
        with_cells(rows, "score", grid)
        .group_by("code")
        .agg(nw.len().alias("n"), *sums)
        .sort("code")
        .collect(backend="pyarrow")
    )
    columns = {name: counted[name].to_numpy() for name in counted.columns}
    _refuse(int(columns["bad_score"].sum()), f"{score!r} is missing or outside [{grid.low:g}, {grid.high:g}]")
    _refuse(int(columns["bad_label"].sum()), f"{label!r} is missing or neither 0 nor 1")
    n, events, offsets = (columns[name].astype(np.int64) for name in ("n", "label", "offset"))
    cells = Cells(columns["code"].astype(np.int32), n, events, offset=offsets)
    return Tally(cells, kind=kind, grid=grid, resolution="grid")


def _flag(condition: nw.Expr) -> nw.Expr:
    return nw.when(condition).then(1).otherwise(0)


def _refuse(count: int, what: str) -> None:
    if count:
        raise InputError(f"the column {what} in {count:,} rows: filter them out first, and know why they are there")


def _plain_names(frame: Any, score: str, label: str) -> tuple[Any, str, str]:
    """Spark reads dots and backticks in a column's name as syntax: there, columns are renamed by their place."""
    wrapped = nw.from_native(frame)
    if not (wrapped.implementation.is_pyspark() or wrapped.implementation.is_pyspark_connect()):
        return frame, score, label
    places = {name: f"c{place}" for place, name in enumerate(frame.columns)}
    return frame.toDF(*places.values()), places[score], places[label]


def with_cells(rows: nw.LazyFrame[Any], score: str, grid: Grid) -> nw.LazyFrame[Any]:
    """The frame with the columns ``code`` and ``offset`` of :class:`Grid` in place of ``score``, by exact operations.

    The octave is found by a balanced CASE whose leaf for octave o is ``floor(q * 2^(o + 30)) + (31 - o) * 2^30``: the
    position in the octave and the octave in one integer below 2^53. The work is staged, one projection after another,
    because an expression that repeats its own parts in every branch takes Spark half a minute to plan.
    """
    others = [name for name in rows.collect_schema().names() if name != score]
    s, unit, upper, q, position, cell = (nw.col(name) for name in (score, "unit", "upper", "q", "position", "cell"))
    s = s.cast(nw.Float64)
    size = float(1 << (POSITION_BITS - grid.bits))
    on_unit = s if grid.unit else nw.when(s >= grid.high).then(1.0).otherwise((s - grid.low) * grid.scale)
    tiny = q < TINY
    distance = float(OCTAVES << grid.bits) - nw.when(tiny).then(nw.when(q > 0.0).then(-1.0).otherwise(-2.0)).otherwise(
        cell
    )
    offset = nw.when(tiny).then((q * 2.0**62).floor()).otherwise(position - cell * size)
    code = nw.when(upper).then(distance).otherwise(-distance)
    return (
        rows.select(*others, on_unit.alias("unit"))
        .select(*others, "unit", (unit >= 0.5).alias("upper"))
        .select(*others, "upper", nw.when(upper).then(1.0 - unit).otherwise(unit).alias("q"))
        .select(*others, "upper", "q", _pick_octave(q, 1, 32).alias("position"))
        .select(*others, "upper", "q", "position", (position / size).floor().alias("cell"))
        .select(*others, code.cast(nw.Int32).alias("code"), offset.cast(nw.Int64).alias("offset"))
    )


def _pick_octave(q: nw.Expr, low: int, high: int) -> nw.Expr:
    if low == high:
        return (q * 2.0 ** (low + POSITION_BITS)).floor() + (31.0 - low) * 2.0**POSITION_BITS
    middle = (low + high) // 2
    return nw.when(q >= 2.0**-middle).then(_pick_octave(q, low, middle)).otherwise(_pick_octave(q, middle + 1, high))
