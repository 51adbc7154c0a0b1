"""Columns of a series or panel: values, previous values, batches, and whether rows match."""

from __future__ import annotations

import re
from collections.abc import Sized
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import read_column, read_floats, refuse_other_order
from calibrant.arrays.keys import read_keys
from calibrant.messages import InputError
from calibrant.numerics import Floats

ISO = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?)?|-?W\d\d|-?Q[1-4])?")
"""Text whose alphabetical order is time order: dates, hours, weeks and quarters."""


def read_values(column: ArrayLike, name: str) -> Floats:
    """Values of a series, with NaN for missing ones; booleans and infinite values are errors."""
    raw = read_column(column, name)
    if raw.dtype.kind == "b" or (raw.dtype.kind == "O" and any(isinstance(x, bool | np.bool_) for x in raw)):
        raise InputError(name, "contains booleans", "pass the values of the series; decreases are computed from them")
    found = np.asarray(read_floats(raw, name), dtype=np.float64)
    if np.isinf(found).any():
        raise InputError(name, "contains an infinite value", "pass NaN for missing values")
    return found


def check_rows(found: Sized, name: str, n: int, against: str = "y") -> None:
    """Reject a column whose length differs from another one."""
    if len(found) != n:
        raise InputError(name, f"has {len(found)} rows but {against} has {n}", "pass one value per row")


def values_before(values: Floats, previous: Any, by: Any, batches: NDArray[np.intp] | None) -> Floats:
    """The value before each row, as given, or from the previous row of the same series; NaN if there is none."""
    if previous is not None:
        if by is not None:
            raise InputError(
                "by", "must be left out if previous is given", "pass one of them: both define the previous value"
            )
        found = read_values(previous, "previous")
        check_rows(found, "previous", len(values))
        return found
    series = np.zeros(len(values), dtype=np.intp) if by is None else _series(by, len(values))
    order = np.argsort(series, kind="stable")
    follows = np.diff(series[order]) == 0
    if batches is not None and (follows & (np.diff(batches[order]) == 0)).any():
        raise InputError(
            "batch",
            "has two rows of one series, so the first is not known when the second is forecast",
            "use smaller batches, pass the series of each row as by, or pass previous",
        )
    out = np.full(len(values), np.nan)
    out[order[1:][follows]] = values[order[:-1][follows]]
    return out


def numbered(batch: Any, n: int) -> NDArray[np.intp]:
    """Batch numbers, in order of appearance; any values are allowed, including dates."""
    items = read_column(batch, "batch").tolist()
    check_rows(items, "batch", n)
    places: dict[Any, int] = {}
    try:
        if any(
            item is None or item != item for item in items
        ):  # NaN is not equal to itself; pandas' NA raises an error
            raise TypeError
        codes = np.array([places.setdefault(item, len(places)) for item in items], dtype=np.intp)
    except TypeError:
        raise InputError(
            "batch", "has missing values or values that cannot be compared", "leave these rows out"
        ) from None
    if (np.diff(codes) < 0).any():
        raise InputError("batch", "has rows that are not adjacent", "sort the rows by time first")
    back = _goes_back(list(places))
    if back is not None:
        raise InputError(
            "batch",
            f"goes back in time at row {int(np.argmax(codes == back))} (counted from 0), from "
            f"{list(places)[back - 1]!r} to {list(places)[back]!r}",
            "sort the rows by time first",
        )
    return codes


def index_of(*columns: Any) -> Any:
    """The pandas index of the first column that has one; a list's ``index`` method is not one."""
    found = (getattr(column, "index", None) for column in columns)
    return next((index for index in found if hasattr(index, "equals")), None)


def same_order(**columns: Any) -> None:
    """Reject columns with the same index in another order: rows are matched by position."""
    indexed = [name for name, column in columns.items() if index_of(column) is not None]
    for name in indexed[1:]:
        try:
            refuse_other_order(columns[indexed[0]], columns[name])
        except InputError:
            raise InputError(
                name,
                f"has the same index as {indexed[0]} in another order, but rows are matched by position",
                "sort both in the same order first",
            ) from None


def refuse_newest_first(y: Any) -> None:
    """Reject a series whose dates run backwards: every rise would count as a fall."""
    index = index_of(y)
    dates = getattr(getattr(index, "dtype", None), "kind", None) == "M"
    if dates and index.is_monotonic_decreasing and not index.is_monotonic_increasing:
        raise InputError("y", "goes back in time by the dates of its index", "sort all columns by time first")


def _series(by: Any, n: int) -> NDArray[np.intp]:
    codes = read_keys(by, "by").codes
    if codes.ndim == 2 and codes.shape[1] == 1:
        codes = codes.reshape(-1)
    if codes.ndim == 0:
        raise InputError("by", f"must be the column with the series of each row, not {by!r}", f"pass by=frame[{by!r}]")
    if codes.ndim > 1:
        raise InputError("by", f"has {codes.shape[1]} columns", "pass one column, such as their values joined as text")
    check_rows(codes, "by", n)
    if (codes < 0).any():
        raise InputError("by", "has missing values", "leave these rows out, or name their series")
    return codes


def _goes_back(values: list[Any]) -> int | None:
    """Index of the first value below the previous one, if values are ordered in time."""
    texts = [str(value) for value in values]
    if any(isinstance(value, str) for value in values) and not (
        len(set(map(len, texts))) == 1 and all(map(ISO.fullmatch, texts))
    ):
        return None
    try:
        return next((i for i, (a, b) in enumerate(pairwise(values), start=1) if b < a), None)
    except TypeError:  # values that cannot be ordered
        return None
