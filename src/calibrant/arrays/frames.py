"""Named columns of a frame of any library, through narwhals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import narwhals as nw

from calibrant.arrays.columns import columns_there, refuse_model
from calibrant.messages import InputError

Rows = nw.DataFrame[Any] | nw.LazyFrame[Any]
"""A narwhals frame, in memory or lazy."""


def collect_frame(rows: Rows) -> nw.DataFrame[Any]:
    """A frame in memory: Polars streams, so that memory does not grow with the rows; SQL engines answer in Arrow."""
    if isinstance(rows, nw.DataFrame):
        return rows
    return rows.collect(engine="streaming") if rows.implementation.is_polars() else rows.collect(backend="pyarrow")


def read_frame(frame: Any, *names: str) -> Rows:
    """The narwhals frame, after checking that it has the named columns; only the schema is read."""
    refuse_model(frame)
    try:
        rows: Rows = nw.from_native(frame)
    except TypeError:
        raise InputError(
            "frame",
            f"is of type {type(frame).__name__}",
            "pass a pandas, polars, pyarrow, DuckDB or Spark frame, or arrays without column names",
        ) from None
    there = rows.collect_schema().names()
    missing = [name for name in names if not isinstance(name, str) or name not in there]
    if missing:
        raise InputError("frame", f"has no column {missing[0]!r}", columns_there(missing[0], there))
    return rows


def plain_names(frame: Any, names: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """The frame and the names of its columns; columns are renamed in engines that read some names as syntax.

    Spark reads dots and backticks as syntax, Polars ``^...$`` and ``*``.
    """
    rows = read_frame(frame, *names)
    if rows.implementation.is_spark_like():
        places = {name: f"c{place}" for place, name in enumerate(frame.columns)}
        return frame.toDF(*places.values()), {name: places[name] for name in names}
    if rows.implementation.is_polars():
        taken = set(rows.collect_schema().names())
        fresh = (name for name in map("column {}".format, count()) if name not in taken)
        places = dict(zip(dict.fromkeys(names), fresh, strict=False))
        return frame.rename(places), places
    return frame, {name: name for name in names}


def columns_of(frame: Any, names: Sequence[str], most: int | None = None) -> dict[str, nw.Series[Any]]:
    """The named columns in memory; of the first ``most`` rows only, if that is given."""
    source, place = plain_names(frame, names)
    rows = read_frame(source).select(*dict.fromkeys(place.values()))
    taken = collect_frame(rows if most is None else rows.head(most))
    return {name: taken[place[name]] for name in names}
