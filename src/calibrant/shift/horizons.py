"""Times, delays and horizons: numbers or dates, windows of days or calendar months, one for all rows or one each."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, read_column, refuse_missing, refuse_not_finite
from calibrant.arrays.sides import check_time
from calibrant.messages import InputError
from calibrant.numerics import Floats

_DAY = 86_400_000_000  # microseconds


def timestamps(values: Any, name: str, n: int) -> tuple[Floats, bool]:
    """Numbers unchanged, dates as microseconds, and whether they are dates."""
    try:
        column, _ = check_time(values, n)
    except InputError as error:  # it refers to the column as "time"
        raise error.about(name) from None
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        if not np.isfinite(numbers).all():
            refuse_not_finite(numbers, name, "drop these rows or repair the time")
        return numbers, False
    try:
        if column.dtype.kind == "O":
            column = np.array([_naive(value) for value in column.tolist()], dtype="datetime64[us]")
        if column.dtype.kind != "M":
            raise ValueError
    except (ValueError, TypeError):
        raise InputError(name, f"has values of type {column.dtype}", "pass numbers, dates or ISO 8601 text") from None
    return column.astype("datetime64[us]").astype(np.int64).astype(np.float64), True


def _naive(value: Any) -> Any:
    """A timestamp with a time zone, converted to naive UTC: numpy has no time zones."""
    aware = isinstance(value, dt.datetime) and value.tzinfo is not None
    return value.astimezone(dt.UTC).replace(tzinfo=None) if aware else value


def delays(start: Floats, event: NDArray[np.bool_], label_time: Any, dated: bool) -> Floats:
    """Delay from score to event; NaN without an event."""
    column = read_column(label_time, "label_time")
    check_length(column, "label_time", len(start))
    delay = np.full(len(start), np.nan)
    if not event.any():
        return delay
    seen, also_dated = timestamps(column[event], "label_time", int(event.sum()))
    if dated != also_dated:
        raise InputError("label_time", "and score_time must both be dates or both be numbers")
    delay[event] = seen - start[event]
    if np.nanmin(delay) < 0.0:
        row = int(np.nanargmin(delay))
        raise InputError(
            "label_time", f"is before score_time, first at row {row} (counted from 0)", "are they swapped?"
        )
    return delay


def months_of(horizon: Any) -> int | None:
    """Calendar months in a text such as "12 months", "12mo" or "1 year"; None for anything else.

    Examples
    --------
    >>> months_of("12 months"), months_of("6mo"), months_of("1 year"), months_of(365)
    (12, 6, 12, None)
    """
    if not isinstance(horizon, str):
        return None
    found = re.fullmatch(r"\s*(\d{1,4})\s*(mo|months?|y|years?)\s*", horizon.lower())
    if found is None or int(found[1]) == 0:
        raise InputError(
            "horizon", f"is {horizon!r}, which is not a number of months", "pass '12 months', a timedelta or days"
        )
    return int(found[1]) * (12 if found[2].startswith("y") else 1)


def add_months(days: NDArray[np.datetime64], months: int) -> NDArray[np.datetime64]:
    """Days some calendar months later: the same day of the month, or its last day if it is shorter.

    Examples
    --------
    >>> add_months(np.array(["2024-01-31", "2023-12-31", "2024-02-29"], "datetime64[D]"), 1).astype(str).tolist()
    ['2024-02-29', '2024-01-31', '2024-03-29']
    """
    day = days.astype("datetime64[D]")
    month = day.astype("datetime64[M]")
    target = month + months
    first, next_first = target.astype("datetime64[D]"), (target + 1).astype("datetime64[D]")
    last = (next_first - first).astype(np.int64) - 1
    into = np.minimum((day - month.astype("datetime64[D]")).astype(np.int64), last)
    return np.asarray(first + into.astype("timedelta64[D]"))


def lengths(horizon: Any, start: Floats, dated: bool) -> tuple[Floats, Floats]:
    """Age at which each row is mature, and the longest delay of an event that counts; of one horizon or one per row."""
    if isinstance(horizon, str | int | float | dt.timedelta | np.generic) or horizon is None:
        return _of_one(horizon, start, dated)
    column = read_column(horizon, "horizon")
    check_length(column, "horizon", len(start))
    refuse_missing(column, "horizon", "drop these rows or fill in the horizon")
    mature, latest = np.empty(len(start)), np.empty(len(start))
    values = column.tolist() if column.dtype.kind != "m" else list(column)
    places: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(value, []).append(place)
    for value, these in places.items():
        mature[these], latest[these] = _of_one(value, start[these], dated)
    return mature, latest


def _of_one(horizon: Any, start: Floats, dated: bool) -> tuple[Floats, Floats]:
    """The same of rows with the same horizon."""
    months = months_of(horizon)
    if months is None:
        length = np.full(len(start), _length(horizon, dated))
        return length, length
    if not dated:
        raise InputError("horizon", "is in calendar months but score_time contains numbers", "pass dates, or a number")
    days = start.astype(np.int64).view("datetime64[us]").astype("datetime64[D]")
    end = add_months(days, months).astype("datetime64[us]").astype(np.int64).astype(np.float64)
    return end - start, end + (_DAY - 1) - start


def _length(horizon: Any, dated: bool) -> float:
    if isinstance(horizon, np.timedelta64):
        horizon = horizon.astype("timedelta64[us]").item()
    if isinstance(horizon, dt.timedelta):
        if not dated:
            raise InputError(
                "horizon", "is a timedelta but score_time contains numbers", "pass a number in the same unit"
            )
        length = horizon / dt.timedelta(microseconds=1)
    elif isinstance(horizon, int | float | np.number) and not isinstance(horizon, bool):
        length = float(horizon) * (_DAY if dated else 1)
    else:
        fix = "pass a number, a timedelta or '12 months'"
        raise InputError("horizon", f"is of type {type(horizon).__name__}", fix)
    if not 0.0 < length < math.inf:
        raise InputError("horizon", f"must be above 0 and finite, got {horizon!r}")
    return length
