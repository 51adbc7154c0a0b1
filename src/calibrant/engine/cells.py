"""The grid inside an engine: every score in the same cell, at the same offset, as :class:`Grid` puts it.

Three ways, one result. Where an engine shows the bits of a double, the exponent and the leading mantissa bits are the
cell (DuckDB, Polars). Frames in memory go through :meth:`Grid.cells` itself (pandas, pyarrow). Spark finds the octave
by comparing with powers of two. All use exact IEEE operations only.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal, cast

import narwhals as nw
import numpy as np

from calibrant.engine.collecting import Rows
from calibrant.export.sql.scores import quote
from calibrant.messages import InputError
from calibrant.numerics import FIRST_OCTAVE, OCTAVES, POSITION_BITS, Grid, chunks

Way = Literal["bits", "numpy", "comparisons"]

HIDDEN_BITS = 52 - POSITION_BITS
"""Mantissa bits of a double that the position in an octave drops."""


def with_cells(rows: Rows, score: str, good: str, grid: Grid) -> Rows:
    """The frame with columns ``code`` and ``offset`` in place of ``score``, doubles, and ``good``, truth values.

    A row that is not good, or whose score is missing, NaN or outside the grid's range, has no code, or one beyond
    ``top`` on either side: by bits that comes out by itself, and costs nothing. The other columns must have none of the
    names used here.
    """
    way = how_cells_are_found(rows)
    if not grid.unit:
        rows = rows.with_columns(_on_unit(nw.col(score), grid).alias(score))
    if way == "numpy":
        return _in_memory(cast(nw.DataFrame[Any], rows), score, good, Grid(grid.bits))
    by_engine = {"duckdb": _in_duckdb, "polars": _in_polars}.get(rows.implementation.value, _in_spark)
    others = [name for name in rows.collect_schema().names() if name not in (score, good)]
    return cast(Rows, nw.from_native(by_engine(rows.to_native(), others, score, good, grid)))


def how_cells_are_found(rows: Rows) -> Way:
    """By the bits of a double, by numpy, or by comparisons."""
    engine = rows.implementation
    if engine.is_duckdb() or engine.is_polars():
        return "bits"
    if isinstance(rows, nw.DataFrame):
        return "numpy"
    if engine.is_pyspark() or engine.is_pyspark_connect():
        return "comparisons"
    raise InputError(
        "frame", f"is one of {engine}, which cannot be tallied", "pass a pandas, polars, pyarrow, DuckDB or Spark frame"
    )


def _on_unit(s: nw.Expr, grid: Grid) -> nw.Expr:
    unit = nw.when(s >= grid.high).then(1.0).otherwise((s - grid.low) * grid.scale)
    return nw.when(s.is_between(grid.low, grid.high)).then(unit)


# ---------------------------------------------------------------------------------------------------- by bits


def _in_duckdb(relation: Any, others: list[str], score: str, good: str, grid: Grid) -> Any:
    """As :meth:`Grid.cells`, on the bits that DuckDB shows as a BIT string."""
    drop, s, good = POSITION_BITS - grid.bits, quote(score, "duckdb"), quote(good, "duckdb")
    kept = "".join(f"{quote(name, 'duckdb')}, " for name in others)
    half = "0.5::DOUBLE"
    q = f"CASE WHEN {s} >= {half} THEN 1.0::DOUBLE - {s} ELSE {s} END"
    code = "CASE WHEN good IS NOT TRUE THEN NULL WHEN upper THEN cell ELSE -cell END"
    base = (OCTAVES << grid.bits) + (FIRST_OCTAVE >> drop)
    # NaN is above every number, and may have the sign bit of a negative one
    special = f"CASE WHEN q > 0 AND q < 1 THEN {grid.top - 1} WHEN q = 0 THEN {grid.top} END"
    cell = f"CASE WHEN t >= {FIRST_OCTAVE} THEN {base} - (t >> {drop}) ELSE {special} END"
    tiny = f"CASE WHEN q >= 0 AND q < 1 THEN floor(q * {2.0**62!r}::DOUBLE)::BIGINT END"
    offset = f"CASE WHEN t >= {FIRST_OCTAVE} THEN t & {(1 << drop) - 1} ELSE {tiny} END"
    return (
        relation.project(f"{kept}{good} AS good, {s} >= {half} AS upper, {q} AS q")
        .project(f"{kept}good, upper, q, (q::BIT)::BIGINT >> {HIDDEN_BITS} AS t")
        .project(f"{kept}good, upper, {cell} AS cell, {offset} AS away")
        .project(f'{kept}({code})::INTEGER AS code, away AS "offset"')
    )


def _in_polars(frame: Any, others: list[str], score: str, good: str, grid: Grid) -> Any:
    """As :meth:`Grid.cells`, on the bits that Polars reads as an integer; shifts are divisions by powers of two."""
    import polars as pl

    drop = POSITION_BITS - grid.bits
    s, upper, q, t, cell = (pl.col(name) for name in (score, "upper", "q", "t", "cell"))
    base = (OCTAVES << grid.bits) + (FIRST_OCTAVE >> drop)
    normal = t >= FIRST_OCTAVE
    # NaN is above every number, and may have the sign bit of a negative one
    special = pl.when((q > 0.0) & (q < 1.0)).then(grid.top - 1).when(q == 0.0).then(grid.top)
    tiny = pl.when((q >= 0.0) & (q < 1.0)).then(q * 2.0**62).cast(pl.Int64)
    return (
        frame.select(
            *others,
            pl.col(good).alias("good"),
            (s >= 0.5).alias("upper"),
            pl.when(s >= 0.5).then(1.0 - s).otherwise(s).alias("q"),
        )
        .with_columns((_bits_in_polars(q) // (1 << HIDDEN_BITS)).alias("t"))
        .select(
            *others,
            "good",
            "upper",
            pl.when(normal).then(base - t // (1 << drop)).otherwise(special).alias("cell"),
            pl.when(normal).then(t % (1 << drop)).otherwise(tiny).alias("offset"),
        )
        .select(
            *others,
            pl.when("good").then(pl.when(upper).then(cell).otherwise(-cell).cast(pl.Int32)).alias("code"),
            "offset",
        )
    )


def _bits_in_polars(q: Any) -> Any:
    """Bits of doubles as integers; through numpy in versions of Polars that cannot read them."""
    import polars as pl

    if "dtype" in inspect.signature(pl.Expr.reinterpret).parameters:
        return q.reinterpret(dtype=pl.Int64)
    return q.map_batches(_view_bits, return_dtype=pl.Int64, is_elementwise=True)


def _view_bits(q: Any) -> Any:
    return type(q)(q.name, q.fill_null(float("nan")).to_numpy().view(np.int64))


# -------------------------------------------------------------------------------------------------- in memory


def _in_memory(rows: nw.DataFrame[Any], score: str, good: str, grid: Grid) -> Rows:
    scores, fine = (np.asarray(rows[name].to_numpy(), dtype=dtype) for name, dtype in ((score, float), (good, bool)))
    code, offset = np.full(len(scores), grid.top + 1, dtype=np.int32), np.zeros(len(scores), dtype=np.int64)
    for part in chunks(len(scores)):
        inside = (scores[part] >= 0.0) & (scores[part] <= 1.0) & fine[part]
        code[part][inside], offset[part][inside] = grid.cells(scores[part][inside])
    made = [nw.new_series(n, values, backend=rows.implementation) for n, values in (("code", code), ("offset", offset))]
    return rows.drop(score, good).with_columns(*(_beside(rows, series) for series in made))


def _beside(rows: nw.DataFrame[Any], series: nw.Series[Any]) -> nw.Series[Any]:
    """The series with the index of the frame: pandas would otherwise match rows by their labels."""
    if not rows.implementation.is_pandas_like():
        return series
    native = series.to_native()
    native.index = rows.to_native().index
    return nw.from_native(native, series_only=True)


# ---------------------------------------------------------------------------------------------- by comparisons


def _in_spark(frame: Any, others: list[str], score: str, good: str, grid: Grid) -> Any:
    """The octave by a balanced CASE; ``place`` is octave and position in one integer, negative below 2^-32.

    The work is staged, one projection after another, because an expression that repeats its own parts in every branch
    takes Spark half a minute to plan.
    """
    drop, cells = POSITION_BITS - grid.bits, OCTAVES << grid.bits
    special = f"CASE WHEN q > 0 THEN {grid.top - 1} ELSE {grid.top} END"
    cell = f"CASE WHEN place >= 0 THEN {cells} - CAST(place >> {drop} AS INT) WHEN q >= 0 THEN {special} END"
    offset = f"CASE WHEN place >= 0 THEN place & {(1 << drop) - 1}L ELSE place + {1 << POSITION_BITS}L END"
    q = f"CASE WHEN `{score}` >= 0.5D THEN 1D - `{score}` ELSE `{score}` END"
    return (
        frame.selectExpr(
            *others,
            f"`{score}` >= 0.5D AS upper",
            f"CASE WHEN `{good}` AND `{score}` BETWEEN 0D AND 1D THEN {q} END AS q",
        )
        .selectExpr(*others, "upper", "q", f"{_place(1, 32)} AS place")
        .selectExpr(*others, "upper", f"{cell} AS cell", f"{offset} AS offset")
        .selectExpr(*others, "CASE WHEN upper THEN cell ELSE -cell END AS code", "offset")
    )


def _place(low: int, high: int) -> str:
    if low == high:
        return f"floor(q * {2.0 ** (low + POSITION_BITS)!r}D) + {(31 - low) << POSITION_BITS}L"
    middle = (low + high) // 2
    return f"CASE WHEN q >= {2.0**-middle!r}D THEN {_place(low, middle)} ELSE {_place(middle + 1, high)} END"
