"""Further columns of the rows: weights, groups and time."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import (
    EXACT,
    as_set,
    check_length,
    first_row,
    read_column,
    read_numbers,
    refuse_missing,
    refuse_not_finite,
    value_range,
)
from calibrant.messages import Advice, InputError, Note, Phrase, Setting, Voice, note


@note("integer-weights")
def integer_weights(voice: Voice) -> str:
    """Importance weights that may be meant as frequency weights."""
    counts = voice.setting("weight_type", "frequency")
    return f"weights are integers; if they are repetition counts, pass {counts} to keep the guarantees"


@note("time-from-text")
def time_from_text(voice: Voice) -> str:
    """Dates that were read from text."""
    return f"{voice.argument('time')} read as UTC dates from ISO 8601 text"


def check_weights(
    sample_weight: object, meaning: str, n: int
) -> tuple[NDArray[np.int64] | NDArray[np.float64], tuple[Note, ...]]:
    """Check that weights are finite, not negative and of the declared type; weights and notes."""
    name = "sample_weight"
    with np.errstate(over="ignore"):
        w = np.ascontiguousarray(read_numbers(sample_weight, name), dtype=np.float64)
    check_length(w, name, n)
    low, high = value_range(w)
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(w, name, "give these rows a weight, or weight 0 to leave them out")
    if low < 0:
        row = first_row(w, lambda part: part < 0)
        raise InputError(
            name,
            f"is negative, first at row {row} counted from 0",
            "pass weights of at least 0, where 0 leaves the row out",
        )
    if high == 0:
        raise InputError(name, "is zero on every row", "give at least one row a weight above 0")
    with np.errstate(over="ignore"):
        total = float(w.sum())
    if meaning == "frequency":
        row = first_row(w, lambda part: (part != np.trunc(part)) | (part >= EXACT))
        if row is not None:
            problem = Phrase(
                "is {value:.17g} at row {row} counted from 0, but {counts} takes integers below 2**53",
                value=w[row],
                row=row,
                counts=Setting("weight_type", "frequency"),
            )
            raise InputError(name, problem, Phrase("repair it, or {importance}", importance=Advice.IMPORTANCE_WEIGHTS))
        if total >= 2.0**63:
            raise InputError(name, f"sums to {total:.6g}, beyond the range of int64", "pass smaller counts")
        return w.astype(np.int64), ()
    if math.isinf(total):
        raise InputError(name, "sums to infinity", "divide the weights by their largest value")
    if not 1e-100 <= high <= 1e100:  # their squares, which the effective sample size needs, would overflow or underflow
        raise InputError(name, f"reaches {high:.6g}", "divide the weights by their largest value")
    smallest = low if low > 0 else float(w[w > 0].min())
    if smallest < 1e-150 * high:
        raise InputError(
            name, f"spans {smallest:.6g} to {high:.6g}", "give the lightest rows weight 0 to leave them out"
        )
    if first_row(w, lambda part: part != np.trunc(part)) is None:
        return w, (integer_weights(),)
    return w, ()


def side_column(values: object, name: str, n: int) -> NDArray[Any]:
    """Read a further column of the rows; missing values are refused."""
    a = read_column(values, name)
    check_length(a, name, n)
    if a.dtype.kind in "cV":
        raise InputError(name, f"holds values of type {a.dtype}", "pass numbers, text or dates")
    refuse_missing(a, name, Phrase("{drop} or give them a separate value", drop=Advice.DROP_ROWS))
    return a


def check_time(values: Any, n: int) -> tuple[NDArray[Any], tuple[Note, ...]]:
    """Read a column of times, which must be sortable."""
    if getattr(getattr(values, "dtype", None), "tz", None) is not None and hasattr(values, "to_numpy"):
        values = values.to_numpy(dtype="datetime64[ns]")  # pandas with a time zone: UTC, not one object per row
    a = side_column(values, "time", n)
    if a.dtype.kind in "biufmM":
        return a, ()
    distinct = as_set(a, "time")
    if all(isinstance(v, str) for v in distinct):
        return _dates_from_text(a, distinct), (time_from_text(),)
    try:
        if a.dtype.kind != "S":
            min(distinct)  # raises when two of them cannot be compared
            return a, ()
    except TypeError:
        pass
    raise InputError("time", "holds values that cannot be sorted", "pass numbers, dates or ISO 8601 text")


def _dates_from_text(a: NDArray[Any], distinct: set[str]) -> NDArray[Any]:
    example = ""
    dates = {}
    try:
        for example in distinct:
            dates[example] = _date(example)
    except ValueError as error:
        raise InputError(
            "time", f"holds text that is not an ISO 8601 date, such as {example!r}", "convert it to dates or numbers"
        ) from error
    if len({d.tzinfo is None for d in dates.values()}) > 1:
        raise InputError("time", "has a time zone in some rows only", "give all rows a time zone, or none")
    utc = {t: d if d.tzinfo is None else d.astimezone(dt.UTC).replace(tzinfo=None) for t, d in dates.items()}
    return np.array([utc[t] for t in a.tolist()], dtype="datetime64[us]")


def _date(text: str) -> dt.datetime:
    """Read a date from ISO 8601 text; also from a year or a month alone, which the standard library does not take."""
    if re.fullmatch(r"\d{4}(-\d{2})?", text):
        text += "-01-01"[: 10 - len(text)]
    return dt.datetime.fromisoformat(text)
