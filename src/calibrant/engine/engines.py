"""Supported engines: how each finds the cell of a score, and how it adds a computed column.

There are three ways to compute the cells of :class:`Grid`, with one result. Where an engine can read the bits of a
double, the exponent and the leading mantissa bits are the cell (DuckDB, Polars). Frames in memory use
:meth:`Grid.cells` itself (pandas, pyarrow). Spark finds the octave by comparison with powers of two. All use exact IEEE
operations only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.frames import Rows, read_frame
from calibrant.export.languages.sql.dialects import quote
from calibrant.messages import InputError
from calibrant.numerics import FIRST_OCTAVE, OCTAVES, POSITION_BITS, Grid, chunks

Way = Literal["bits", "numpy", "comparisons"]
Function = Callable[..., NDArray[Any]]

HIDDEN_BITS = 52 - POSITION_BITS
"""Mantissa bits of a double that the position in an octave drops."""


def fresh_name(frame: Any, stem: str) -> str:
    """A name that no column of the frame has."""
    taken = {name.lower() for name in read_frame(frame).collect_schema().names()}
    while stem in taken:
        stem += "_"
    return stem


def _on_unit(s: nw.Expr, grid: Grid) -> nw.Expr:
    unit = nw.when(s >= grid.high).then(1.0).otherwise((s - grid.low) * grid.scale)
    return nw.when(s.is_between(grid.low, grid.high)).then(unit)


# ---------------------------------------------------------------------------------------------------- by bits


def _in_duckdb(relation: Any, others: list[str], score: str, good: str, grid: Grid) -> Any:
    """As :meth:`Grid.cells`, on the bits of a double, which DuckDB reads as a BIT string."""
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


# ---------------------------------------------------------------------------------------------- a computed column


def _column_in_duckdb(
    frame: Any, name: str, sources: Sequence[str], sql: Callable[..., str], function: Function, dtype: Any
) -> Any:
    return frame.project(f"*, {sql(sources[0], 'duckdb', *sources[1:])} AS {quote(name, 'duckdb')}")


def _column_in_pyarrow(
    frame: Any, name: str, sources: Sequence[str], sql: Callable[..., str], function: Function, dtype: Any
) -> Any:
    given, *others = (frame[source] for source in sources)
    return frame.append_column(name, _arrow(*_computed(given, function, dtype, others)))


def _column_in_pandas(
    frame: Any, name: str, sources: Sequence[str], sql: Callable[..., str], function: Function, dtype: Any
) -> Any:
    given, *others = (frame[source] for source in sources)
    extended = frame.copy(deep=False)
    extended[name] = _for_pandas(*_computed(given, function, dtype, others), given.dtype)
    return extended


def _column_in_spark(
    frame: Any, name: str, sources: Sequence[str], sql: Callable[..., str], function: Function, dtype: Any
) -> Any:
    """Over plain aliases, because Spark replaces ``${...}`` in any text that it parses, names included."""
    if read_frame(frame).implementation.is_pyspark_connect():
        from pyspark.sql.connect import functions
    else:
        from pyspark.sql import functions  # type: ignore[no-redef]
    stem = fresh_name(frame, "source" if not name.lower().startswith("source") else "given")
    plain = [stem, *(fresh_name(frame, f"{stem}{place}") for place in range(1, len(sources)))]
    columns = [
        functions.col("`" + source.replace("`", "``") + "`").alias(alias)
        for source, alias in zip(sources, plain, strict=True)
    ]
    expression = functions.expr(sql(plain[0], "spark", *plain[1:]))
    return frame.select("*", *columns).select("*", expression.alias(name)).drop(*plain)


def _column_in_polars(
    frame: Any, name: str, sources: Sequence[str], sql: Callable[..., str], function: Function, dtype: Any
) -> Any:
    """Batch by batch inside polars' own plan, so that a lazy frame stays lazy and streams."""
    import polars as pl
    from polars import selectors

    native = pl.Float64 if dtype is nw.Float64 else pl.Int64

    def batch(*columns: pl.Series) -> pl.Series:
        # under plain names, because methods of a series read some names as patterns too
        plain = [column.alias("source") for column in columns]
        values, missing = _computed(plain[0], function, dtype, plain[1:])
        out = pl.Series(name, values, dtype=native)
        return out if missing is None else out.set(pl.Series(missing), None)

    def of_struct(rows: pl.Series) -> pl.Series:
        columns = rows.struct.unnest()
        return batch(*(columns[source] for source in sources))

    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(batch(*(frame[source] for source in sources)).alias(name))
    # by_name, because col(...) reads some names as patterns
    chosen, one = selectors.by_name(*sources), len(sources) == 1
    given = chosen if one else pl.struct(chosen)
    column = given.map_batches(batch if one else of_struct, return_dtype=native, is_elementwise=True)
    return frame.with_columns(column.alias(name))


def _computed(
    column: Any, function: Function, dtype: type[nw.Float64] | type[nw.Int64], others: Sequence[Any] = ()
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """The function of the values that are not missing, zeros elsewhere, and where values are missing (or None)."""
    series: nw.Series[Any] = nw.from_native(column, series_only=True)
    beside = [_objects(other) for other in others]
    missing: NDArray[np.bool_] | None = None
    if series.null_count():
        missing = series.is_null().to_numpy()
        values = np.zeros(len(series), dtype=np.float64 if dtype is nw.Float64 else np.int64)
        there = series.filter(~series.is_null()).to_numpy()
        values[~missing] = function(there, *(other[~missing] for other in beside))
    else:
        values = function(series.to_numpy(), *beside)
    undefined = np.isnan(values)
    if undefined.any():
        missing = undefined if missing is None else missing | undefined
    return values, missing


def _objects(column: Any) -> NDArray[Any]:
    """A segment column as objects, None where a value is missing."""
    series: nw.Series[Any] = nw.from_native(column, series_only=True)
    if series.dtype in (nw.Categorical, nw.Enum):
        series = series.cast(nw.String)
    return np.array(series.to_list(), dtype=object)


def _arrow(values: NDArray[Any], missing: NDArray[np.bool_] | None) -> Any:
    import pyarrow as pa

    return pa.array(values, mask=missing)


def _for_pandas(values: NDArray[Any], missing: NDArray[np.bool_] | None, source: Any) -> Any:
    """The column in the storage of its source column: in arrow, with a mask, or as a plain array."""
    import pandas as pd

    if isinstance(source, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(_arrow(values, missing))
    if isinstance(source, pd.api.extensions.ExtensionDtype) and source.na_value is pd.NA:
        masked = pd.arrays.FloatingArray if values.dtype.kind == "f" else pd.arrays.IntegerArray
        return masked(values, np.zeros(len(values), dtype=bool) if missing is None else missing)
    return values if missing is None else np.where(missing, np.nan, values)


# --------------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Engine:
    """A dataframe library or database.

    Attributes
    ----------
    way
        How it finds the cell of a score: by the bits of a double, in numpy, or by comparisons.
    column
        From the frame, a name, the source columns, the text, the function and the type to the frame with one more
        column; see :func:`~calibrant.engine.columns.with_column`.
    cells
        From the native frame, the other columns, score, good and grid to the frame with the cell of each score; None
        where numpy finds it.
    dialect
        The SQL in which it runs a map; None where numpy does.
    hashed
        With a dialect: the first 8 hex digits of the md5 of a column's text (``{}``) as an integer, NULL for NULL.
    distributed
        Whether several machines may hold the frame.
    """

    way: Way
    column: Callable[..., Any]
    cells: Callable[[Any, list[str], str, str, Grid], Any] | None = None
    dialect: str | None = None
    hashed: str = ""
    distributed: bool = False


_SPARK = Engine(
    "comparisons",
    _column_in_spark,
    _in_spark,
    "spark",
    "CAST(conv(substr(md5(CAST({} AS STRING)), 1, 8), 16, 10) AS BIGINT)",
    distributed=True,
)

ENGINES: dict[str, Engine] = {
    "duckdb": Engine(
        "bits",
        _column_in_duckdb,
        _in_duckdb,
        "duckdb",
        "CAST('0x' || substr(md5(CAST({} AS VARCHAR)), 1, 8) AS BIGINT)",
    ),
    "pandas": Engine("numpy", _column_in_pandas),
    "polars": Engine("bits", _column_in_polars, _in_polars),
    "pyarrow": Engine("numpy", _column_in_pyarrow),
    "pyspark": _SPARK,
    "pyspark[connect]": _SPARK,
}
"""Engines by the name that narwhals gives them."""


def engine_of(rows: Rows) -> Engine | None:
    """The engine of a frame, or None if it cannot add computed columns."""
    return ENGINES.get(rows.implementation.value)


def tallied(rows: Rows) -> Engine:
    """The engine of a frame; any frame in memory can be tallied by numpy."""
    found = engine_of(rows) or (ENGINES["pandas"] if isinstance(rows, nw.DataFrame) else None)
    if found is None:
        raise InputError(
            "frame",
            f"is a {rows.implementation} frame, which cannot be tallied",
            "pass a pandas, polars, pyarrow, DuckDB or Spark frame",
        )
    return found


def dialect_of(frame: Any) -> str | None:
    """The SQL dialect of the frame's engine, or None where columns are computed in numpy."""
    engine = engine_of(read_frame(frame))
    return None if engine is None else engine.dialect


def with_cells(rows: Rows, score: str, good: str, grid: Grid) -> Rows:
    """The frame with columns ``code`` and ``offset`` in place of ``score``, doubles, and ``good``, booleans.

    A row that is not good, or whose score is missing, NaN or outside the grid's range, has no code, or one beyond
    ``top`` on either side. The other columns must not have the names used here.
    """
    engine = tallied(rows)
    if not grid.unit:
        rows = rows.with_columns(_on_unit(nw.col(score), grid).alias(score))
    if engine.cells is None:
        return _in_memory(cast(nw.DataFrame[Any], rows), score, good, Grid(grid.bits))
    others = [name for name in rows.collect_schema().names() if name not in (score, good)]
    return cast(Rows, nw.from_native(engine.cells(rows.to_native(), others, score, good, grid)))
