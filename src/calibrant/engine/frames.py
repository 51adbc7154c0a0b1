"""Tallies where the data lives: one GROUP BY in the engine that holds the rows, on narwhals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args, overload

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Kind
from calibrant.arrays.columns import check_option
from calibrant.arrays.paths import local_path
from calibrant.engine.collecting import collect_frame
from calibrant.engine.counting import MOST_DISTINCT, count_cells, count_totals, few_scores
from calibrant.engine.engines import Way, dialect_of, read_frame, tallied
from calibrant.engine.store.identity import GRIDS
from calibrant.engine.store.selection import Selection, Weighting
from calibrant.engine.unusable import Unusable, UnusableRows, rows_left_out
from calibrant.messages import InputError, warn
from calibrant.numerics import Floats, Grid
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally

HowUnusable = Literal["refuse", "leave out"]


@overload
def tally(
    frame: Any,
    score: str,
    label: str,
    *,
    sample_weight: str | None = ...,
    weights: Weighting = ...,
    by: None = ...,
    time: None = ...,
    every: str = ...,
    groups: None = ...,
    positive: Any = ...,
    kind: Kind = ...,
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
    weights: Weighting = ...,
    by: str | Sequence[str] | None = ...,
    time: str | None = ...,
    every: str = ...,
    groups: str | None = ...,
    positive: Any = ...,
    kind: Kind = ...,
    grid: Grid | None = ...,
    unusable: HowUnusable = ...,
) -> GroupedTally: ...


def tally(
    frame: Any,
    score: str,
    label: str,
    *,
    sample_weight: str | None = None,
    weights: Weighting = "importance",
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    every: str = "1d",
    groups: str | None = None,
    positive: Any = None,
    kind: Kind = "probability",
    grid: Grid | None = None,
    unusable: HowUnusable = "refuse",
) -> Tally | GroupedTally:
    """Counts by score of the rows of a frame, made by the engine that holds it.

    Parameters
    ----------
    frame
        pandas, polars (eager or lazy), pyarrow, a DuckDB relation, or a Spark DataFrame (classic or Connect).
    score, label, sample_weight
        Names of columns. Labels are 0/1 or booleans, or two values with ``positive=``.
    weights
        What ``sample_weight`` means: ``"importance"``, or ``"counts"`` for repetition, in whole numbers.
    by, time, groups
        Columns to tally side by side: segments, days (``every="1h"``, ``"1d"``, ``"1mo"``, ... of a date or timestamp,
        by the clock of the column's time zone, in Spark the session's), and clusters (patient, customer) in 200 hash
        buckets.
    kind
        What the scores are; log-odds and other real scores need a ``grid`` of their range.
    grid
        By default every distinct score is kept when there are at most 65,536, else rows go to the 65,536 cells of
        ``Grid()``; tallies side by side go to about 1,000 cells.
    unusable
        Rows whose score, label, weight or key is missing or impossible are counted; ``"refuse"`` raises with the counts
        by reason, ``"leave out"`` goes on without them and warns with the counts.

    Returns
    -------
    Tally or GroupedTally
        Bit for bit the same from every engine, thread count and partitioning, unless weights are real numbers. The keys
        of a GroupedTally come in the order by, time, groups: a plain value when there is one, else a tuple.

    Notes
    -----
    Cost: one pass; memory by cell, not by row. When the first 131,072 rows hold at most 65,536 distinct scores, one
    more pass groups by the score itself; ``grid=Grid()`` says not to look. Labels of text or with ``positive=`` take
    one more pass over that column, and so does saying why rows cannot be counted. Decimals become doubles as each
    engine converts them.

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
    check_option("kind", kind, get_args(Kind))
    if grid is None and (by or time or groups):
        grid = SEGMENT_GRID
    if grid is not None and (not isinstance(grid, Grid) or (kind == "probability") != grid.unit):
        raise InputError("grid", f"{grid} is not one for {kind} scores", GRIDS)
    selection = Selection.of(
        frame,
        score,
        label,
        sample_weight=sample_weight,
        weights=weights,
        by=by,
        time=time,
        every=every,
        groups=groups,
        positive=positive,
        ends=_ends(kind, grid),
    )
    if grid is None and not few_scores(selection):
        grid = _default_grid(kind)
    counted = count_cells(selection, grid)
    if counted.unusable:
        _report(selection.unusable(), unusable)
    return counted.grouped(kind) if selection.keys else counted.whole(kind)


def totals(frame: Any, score: str, label: str, **options: Any) -> tuple[list[Any], Floats, Floats, Floats, Floats]:
    """Keys, rows (or sums of weights), events, sums of probabilities s and of s (1 - s); otherwise as :func:`tally`."""
    return count_totals(Selection.of(frame, score, label, ends=(0.0, 1.0), **options))


def _ends(kind: Kind, grid: Grid | None) -> tuple[float, float]:
    if grid is not None:
        return grid.low, grid.high
    largest = float(np.finfo(np.float64).max)
    return (0.0, 1.0) if kind == "probability" else (-largest, largest)


def _default_grid(kind: Kind) -> Grid:
    if kind != "probability":
        raise InputError(
            "grid",
            f"is needed for more than {MOST_DISTINCT:,} distinct {kind} scores",
            "count them with calibrant.tally(..., grid=Grid(low=..., high=...)), which is of their range",
        )
    return Grid()


def _report(found: Unusable, how: HowUnusable) -> None:
    if how == "refuse":
        raise UnusableRows(found)
    warn(rows_left_out(found.rows, found.total, found.why))


def collect(frame: Any) -> dict[str, NDArray[Any]]:
    """Columns of a frame as numpy arrays, by name; a lazy frame is run.

    Examples
    --------
    >>> import duckdb
    >>> collect(duckdb.sql("SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a"))
    {'a': array([1, 2], dtype=int32)}
    """
    collected = collect_frame(read_frame(frame))
    return {name: collected[name].to_numpy() for name in collected.columns}


def write(frame: Any, path: str | PathLike[str]) -> None:
    """Write a frame as Parquet without bringing it into memory where the engine can; Spark writes a directory of parts.

    What is there already is not overwritten by Spark and is by the others, as their own writers do. Spark gets the path
    as it is, which may be an address that the cluster knows.
    """
    rows = read_frame(frame)
    target = str(path) if rows.implementation.is_spark_like() else str(local_path(path))
    if isinstance(rows, nw.DataFrame):
        rows.write_parquet(target)
    else:
        rows.sink_parquet(target)


@dataclass(frozen=True)
class Capabilities:
    """What an engine does with a frame.

    Attributes
    ----------
    engine
        Its name, as narwhals has it.
    lazy
        Whether it waits until a result is asked for.
    dialect
        The SQL in which it runs a map; None where numpy does.
    cells
        How it finds the cell of a score: by the bits of a double, in numpy, or by comparisons.
    distributed
        Whether the rows may lie on several machines.
    """

    engine: str
    lazy: bool
    dialect: str | None
    cells: Way
    distributed: bool


def capabilities(frame: Any) -> Capabilities:
    """What the engine behind a frame can do.

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
