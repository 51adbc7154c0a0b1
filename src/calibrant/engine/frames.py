"""Tally a dataframe or a table with one GROUP BY in its own engine, through narwhals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args, overload

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import ScoreType
from calibrant.arrays.columns import check_option
from calibrant.arrays.frames import collect_frame, read_frame
from calibrant.arrays.paths import local_path
from calibrant.engine.counting import MOST_DISTINCT, count_cells, count_totals, few_scores
from calibrant.engine.engines import Way, dialect_of, tallied
from calibrant.engine.selection import GRIDS, Selection, WeightType
from calibrant.engine.unusable import Unusable, UnusableRows, rows_left_out
from calibrant.messages import InputError, warn
from calibrant.numerics import Floats, Grid
from calibrant.reading import frame_of
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally

HowUnusable = Literal["refuse", "leave out"]


@overload
def tally(
    frame: Any,
    score: str,
    label: str,
    *,
    sample_weight: str | None = ...,
    weight_type: WeightType = ...,
    by: None = ...,
    time: None = ...,
    every: str = ...,
    groups: None = ...,
    positive: Any = ...,
    score_type: ScoreType = ...,
    grid: Grid | None = ...,
    unusable: HowUnusable = ...,
) -> Tally: ...


@overload
def tally(
    frame: Any,
    score: str,
    label: str,
    *,
    sample_weight: str | None = ...,
    weight_type: WeightType = ...,
    by: str | Sequence[str] | None = ...,
    time: str | None = ...,
    every: str = ...,
    groups: str | None = ...,
    positive: Any = ...,
    score_type: ScoreType = ...,
    grid: Grid | None = ...,
    unusable: HowUnusable = ...,
) -> GroupedTally: ...


def tally(
    frame: Any,
    score: str,
    label: str,
    *,
    sample_weight: str | None = None,
    weight_type: WeightType = "importance",
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    every: str = "1d",
    groups: str | None = None,
    positive: Any = None,
    score_type: ScoreType = "probability",
    grid: Grid | None = None,
    unusable: HowUnusable = "refuse",
) -> Tally | GroupedTally:
    """Count the rows and events of a dataframe or database table by score, in its own engine.

    Parameters
    ----------
    frame
        pandas, polars (eager or lazy), pyarrow, a DuckDB relation, or a Spark DataFrame (classic or Connect).
    score, label, sample_weight
        Names of columns. Labels are 0/1 or booleans, or two values with ``positive``.
    weight_type
        What ``sample_weight`` means: ``"importance"``, or ``"frequency"`` for integers that repeat a row.
    by, time, groups
        Columns that split the tally: segments, time periods (of a date or timestamp, in the column's time zone; in
        Spark, the session's), and clusters such as patients or customers, in 200 hash buckets.
    every
        Length of the time periods: ``"1s"``, ``"1m"``, ``"1h"``, ``"1d"``, ``"1mo"``, ``"1q"`` or ``"1y"``.
    positive
        The label that counts as the event.
    score_type
        What the scores are; log-odds and other real scores need a ``grid`` of their range.
    grid
        By default every distinct score is kept if there are at most 65,536, else rows go to the 65,536 cells of
        ``Grid()``; tallies split by columns use about 1,000 cells each.
    unusable
        What to do if the score, label, weight or key of a row is missing or invalid: ``"refuse"`` raises an error with
        the number of rows by reason, ``"leave out"`` drops them with a warning.

    Returns
    -------
    Tally or GroupedTally
        Bit for bit the same from every engine, thread count and partitioning, unless weights are real numbers. The keys
        of a GroupedTally come in the order by, time, groups: a plain value when there is one, else a tuple.

    Notes
    -----
    Cost: one pass; memory grows with the cells, not with the rows. When the first 131,072 rows have at most 65,536
    distinct scores, one more pass groups by the score itself; pass ``grid=Grid()`` to avoid this. Text labels and
    ``positive`` take one more pass over that column, and so does the report of invalid rows. Each engine converts
    decimals to doubles in its own way.

    Examples
    --------
    >>> import duckdb
    >>> rows = duckdb.sql("SELECT * FROM (VALUES (0.2, 0, 'de'), (0.2, 1, 'fr'), (0.7, 1, 'de')) AS t(s, y, land)")
    >>> tally(rows, "s", "y").events.tolist()
    [1, 1]
    >>> {land: part.n.tolist() for land, part in tally(rows, "s", "y", by="land").items()}
    {'de': [1, 1], 'fr': [1]}
    """
    check_option("unusable", unusable, get_args(HowUnusable))
    check_option("score_type", score_type, get_args(ScoreType))
    if grid is None and (by or time or groups):
        grid = SEGMENT_GRID
    if grid is not None and (not isinstance(grid, Grid) or (score_type == "probability") != grid.unit):
        raise InputError("grid", f"{grid} is not one for {score_type} scores", GRIDS)
    options: dict[str, Any] = {"sample_weight": sample_weight, "weight_type": weight_type, "by": by, "time": time}
    options |= {"every": every, "groups": groups, "positive": positive, "ends": _ends(score_type, grid)}
    frame = frame_of(frame)
    selection = Selection.of(frame, score, label, **options)
    if grid is None and not few_scores(selection):
        grid = _default_grid(score_type)
    counted = count_cells(selection, grid)
    if counted.unusable and score_type == "probability":  # perhaps by rounding, which costs a second pass
        selection = Selection.of(frame, score, label, rounding=True, **options)
        counted = count_cells(selection, grid)
    if counted.unusable:
        _report(selection.unusable(), unusable)
    columns = [*([by] if isinstance(by, str) else by or ()), *(each for each in (time, groups) if each is not None)]
    return counted.grouped(score_type, columns) if selection.keys else counted.whole(score_type)


def totals(frame: Any, score: str, label: str, **options: Any) -> tuple[list[Any], Floats, Floats, Floats, Floats]:
    """Keys, rows (or sums of weights), events, sums of probabilities s and of s (1 - s); otherwise as :func:`tally`."""
    return count_totals(Selection.of(frame, score, label, ends=(0.0, 1.0), rounding=True, **options))


def _ends(score_type: ScoreType, grid: Grid | None) -> tuple[float, float]:
    if grid is not None:
        return grid.low, grid.high
    largest = float(np.finfo(np.float64).max)
    return (0.0, 1.0) if score_type == "probability" else (-largest, largest)


def _default_grid(score_type: ScoreType) -> Grid:
    if score_type != "probability":
        raise InputError(
            "grid",
            f"is needed for more than {MOST_DISTINCT:,} distinct {score_type} scores",
            "use calibrant.tally(..., grid=Grid(low=..., high=...)) with the range of the scores",
        )
    return Grid()


def _report(found: Unusable, how: HowUnusable) -> None:
    if how == "refuse":
        raise UnusableRows(found)
    warn(rows_left_out(found.rows, found.total, found.why))


def collect(frame: Any) -> dict[str, NDArray[Any]]:
    """Read the columns of a frame into numpy arrays; a lazy frame is computed.

    Parameters
    ----------
    frame
        Any frame that :func:`tally` takes.

    Returns
    -------
    dict
        Arrays by the name of their column.

    Examples
    --------
    >>> import duckdb
    >>> collect(duckdb.sql("SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a"))
    {'a': array([1, 2], dtype=int32)}
    """
    collected = collect_frame(read_frame(frame))
    return {name: collected[name].to_numpy() for name in collected.columns}


def write(frame: Any, path: str | PathLike[str]) -> None:
    """Write a frame as Parquet, without reading it into memory where the engine supports this.

    Spark writes a directory and does not overwrite existing files; the other engines write one file and do.

    Parameters
    ----------
    frame
        Any frame that :func:`tally` takes.
    path
        A local path. For Spark, any path or URL that the cluster can write to.

    Examples
    --------
    >>> import polars as pl
    >>> write(pl.LazyFrame({"score": [0.2, 0.7]}), "scores.parquet")
    >>> collect(pl.scan_parquet("scores.parquet"))["score"].tolist()
    [0.2, 0.7]
    """
    rows = read_frame(frame)
    target = str(path) if rows.implementation.is_spark_like() else str(local_path(path))
    if isinstance(rows, nw.DataFrame):
        rows.write_parquet(target)
    else:
        rows.sink_parquet(target)


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do with a frame; returned by :func:`capabilities`.

    Attributes
    ----------
    engine
        Name of the engine in narwhals.
    lazy
        Whether the frame is lazy.
    dialect
        The SQL dialect in which it applies a map; None where numpy does.
    cells
        How it finds the cell of a score: by the bits of a double, in numpy, or by comparisons.
    distributed
        Whether the rows may be on several machines.
    """

    engine: str
    lazy: bool
    dialect: str | None
    cells: Way
    distributed: bool


def capabilities(frame: Any) -> Capabilities:
    """Describe what the engine of a frame can do.

    Parameters
    ----------
    frame
        Any frame that :func:`tally` takes.

    Returns
    -------
    Capabilities
        Name, laziness, SQL dialect, way to compute cells, and whether it is distributed.

    Examples
    --------
    >>> import polars as pl
    >>> capabilities(pl.LazyFrame({"s": [0.5]}))
    Capabilities(engine='polars', lazy=True, dialect=None, cells='bits', distributed=False)
    """
    rows = read_frame(frame)
    return Capabilities(
        engine=rows.implementation.value,
        lazy=isinstance(rows, nw.LazyFrame),
        dialect=dialect_of(frame),
        cells=tallied(rows).way,
        distributed=tallied(rows).distributed,
    )
