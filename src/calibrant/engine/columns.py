"""Add a computed column to any frame: as SQL in DuckDB and Spark, by numpy elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import ScoreType, check_scores
from calibrant.arrays.frames import Rows, columns_of, plain_names, read_frame
from calibrant.arrays.score_types import read_probabilities
from calibrant.engine.engines import Function, dialect_of, engine_of, fresh_name
from calibrant.export.languages.sql.dialects import quote
from calibrant.export.sql.expressions import group_columns, to_sql
from calibrant.maps import Map
from calibrant.maps.base import unwrapped
from calibrant.messages import Advice, InputError, Setting
from calibrant.reading import frame_of
from calibrant.tallies import CLUSTER_BUCKETS, cluster_buckets

__all__ = [
    "apply",
    "columns_of",
    "fresh_name",
    "on_local_clock",
    "plain_names",
    "read_frame",
    "with_cluster_bucket",
    "with_column",
]


def apply(
    map_: Any,
    frame: Any,
    score: str,
    *,
    name: str = "calibrated",
    score_type: ScoreType | None = None,
    by: Mapping[str, str] | None = None,
) -> Any:
    """Apply a map to a column of a frame and add the result as a new column, in double precision.

    Parameters
    ----------
    map_
        A map, a calibration as :func:`calibrant.load` returns it, or a fitted calibrator.
    frame
        A pandas, polars or pyarrow frame, a DuckDB relation or a Spark DataFrame. Lazy frames stay lazy: nothing is
        read or computed here.
    score
        Name of the column of scores: numbers of any type, read as doubles.
    name
        Name of the new column, which must not exist yet.
    score_type
        What the scores are; by default what the calibration was fitted on, and probabilities for a bare map.
    by
        Names of the segment columns in the frame, where they differ from those of the map:
        ``{"region": "area_code"}``.

    Returns
    -------
    frame
        A frame of the same type with the new column.

    Notes
    -----
    NULL and NaN give NULL, in numpy-backed pandas NaN. In a frame in memory, infinities and probabilities outside [0,
    1] are refused as in arrays. A lazy frame cannot be checked: there, they give NULL. Step maps give the same doubles
    everywhere, smooth maps agree to 1e-12.

    Segment columns hold text, integers or booleans. Floats with integer values are read as integers in memory; in
    DuckDB and Spark, where their text is 3.0 and not 3, they are refused.

    Cost: one pass, as part of the engine's query plan; DuckDB and Spark run the map as SQL, polars and the others run
    it in numpy.

    Examples
    --------
    >>> import duckdb
    >>> from calibrant.maps import StepMap
    >>> rows = duckdb.sql("SELECT * FROM (VALUES (0.2), (0.7), (NULL)) AS t(s)")
    >>> apply(StepMap([0.5], [0.1, 0.8]), rows, "s").project("calibrated").fetchall()
    [(0.1,), (0.8,), (None,)]
    """
    frame = frame_of(frame)
    numbers, fitted_on = _map_and_kind(map_)
    expected = score_type or fitted_on
    groups = group_columns(numbers, [score], by)
    rows = _extensible(frame, score, name)
    dtype = rows.collect_schema()[score]
    if not (dtype.is_numeric() or dtype == nw.Boolean or dtype == nw.Object):
        raise InputError(Setting("score", score), f"holds {dtype} and not numbers", Advice.NAME_SCORES)
    _check_groups(frame, numbers, groups)
    lazy, bounded = isinstance(rows, nw.LazyFrame), expected == "probability"

    def function(scores: NDArray[Any], *keys: NDArray[Any]) -> NDArray[Any]:
        if lazy:
            checked = read_probabilities(scores.astype(np.float64, copy=False)) if bounded else scores
        else:
            checked = check_scores(scores, expected, name=f"the column {score!r}")
        return numbers.apply(checked.astype(np.float64, copy=False), dict(zip(groups, keys, strict=True)))

    def text(column: str, dialect: str, *keys: str) -> str:
        return to_sql(numbers, column, dialect, dict(zip(groups, keys, strict=True)), bounded=bounded)

    others = tuple(groups.values())
    return with_column(frame, name, score, sql=text, function=function, dtype=nw.Float64, others=others)


def _map_and_kind(given: Any) -> tuple[Map, ScoreType]:
    """The map of one score, and its score type; probabilities for a bare map."""
    found = None if isinstance(given, Map) else unwrapped(given)
    map_ = given if found is None else getattr(found, "map", None)
    if not isinstance(map_, Map) or len(map_.inputs) > 1:
        raise InputError(
            "map_",
            f"must be a Calibration, a map or a fitted calibrator of one score, got {type(given).__name__}",
            "for several classes use Calibration.transform",
        )
    return map_, "probability" if found is None else found.score_type


def with_cluster_bucket(frame: Any, source: str, name: str) -> Any:
    """Add the bucket, 0 to 199, of each id in the column ``source``, as :func:`cluster_buckets` computes it.

    Ids are integers or strings; a missing id has a missing bucket. Lazy frames stay lazy.

    Examples
    --------
    >>> import duckdb
    >>> rows = duckdb.sql("SELECT * FROM (VALUES ('patient-1'), ('patient-2')) AS t(id)")
    >>> with_cluster_bucket(rows, "id", "bucket").project("bucket").fetchall()
    [(62,), (89,)]
    """
    rows = _extensible(frame, source, name)
    dtype, engine = rows.collect_schema()[source], engine_of(rows)
    bucket = "" if engine is None else engine.hashed
    if not (dtype.is_integer() or dtype in (nw.String, nw.Categorical, nw.Enum)):
        raise InputError(
            Setting("groups", source), f"must hold integers or strings, got {dtype}", "convert it to text first"
        )

    def text(column: str, dialect: str) -> str:
        return f"{bucket.format(quote(column, dialect))} % {CLUSTER_BUCKETS}"

    return with_column(frame, name, source, sql=text, function=cluster_buckets, dtype=nw.Int64)


def with_column(
    frame: Any,
    name: str,
    source: str,
    *,
    sql: Callable[..., str],
    function: Function,
    dtype: type[nw.Float64] | type[nw.Int64],
    others: Sequence[str] = (),
) -> Any:
    """The native frame with the column ``name``, computed row by row from the column ``source``.

    Parameters
    ----------
    sql
        From a column's name, a dialect and the names of other columns to the expression; NULL must give NULL.
    function
        The same for numpy arrays of the values that are not missing, and of those of the other columns; NaN in its
        result becomes NULL, where the frame supports it.
    dtype
        Type of the new column. In numpy-backed pandas, integers with missing values are floats with NaN.
    others
        Other columns that it is computed from: text, integers or booleans, as objects.
    """
    engine = engine_of(_extensible(frame, source, name))
    assert engine is not None
    return engine.column(frame, name, (source, *others), sql, function, dtype)


def on_local_clock(frame: Any, name: str) -> Any:
    """A pandas frame with timestamps in local time without a time zone; any other frame is returned unchanged.

    narwhals does not know every time zone of pandas, and strips the zone of Arrow-backed timestamps in UTC.
    """
    if not read_frame(frame).implementation.is_pandas_like():
        return frame
    column = frame[name]
    zone = getattr(getattr(column.dtype, "pyarrow_dtype", column.dtype), "tz", None)
    if zone is None:
        return frame
    return frame.assign(**{name: column.astype(f"datetime64[us, {zone}]").dt.tz_localize(None)})


def _extensible(frame: Any, source: str, name: str) -> Rows:
    """The narwhals frame, after checking that the column can be added."""
    rows = read_frame(frame, source)
    engine = engine_of(rows)
    if engine is None:
        raise InputError(
            "frame",
            f"is a {rows.implementation} frame, to which no column can be added",
            "convert it to pandas, polars or pyarrow",
        )
    there = rows.collect_schema().names()
    if engine.dialect is not None:  # SQL does not distinguish Score from score
        there, name = [column.lower() for column in there], name.lower()
    if name in there:
        raise InputError("name", f"is {name!r}, and the frame already has this column", "pass another name")
    return rows


def _check_groups(frame: Any, map_: Map, groups: Mapping[str, str]) -> None:
    """Refuse segment columns whose text differs between engines, and columns of numbers that hold none."""
    schema = read_frame(frame, *groups.values()).collect_schema()
    for needed, name in groups.items() if dialect_of(frame) is not None else ():
        dtype = schema[name]
        if needed in map_.numbers:
            if not dtype.is_numeric():
                raise InputError("by", f"names the column {name!r} of {dtype}, and the map needs numbers", "cast it")
            continue
        if not (dtype.is_integer() or dtype in (nw.String, nw.Categorical, nw.Enum, nw.Boolean)):
            raise InputError("by", f"names the column {name!r} of {dtype}", "cast it to text or to integers first")
