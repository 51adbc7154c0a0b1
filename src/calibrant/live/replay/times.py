"""Time of a history: dates or numbers become days from 0, and delays become times at which labels are known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, read_floats
from calibrant.arrays.sides import check_time
from calibrant.messages import InputError, Note, Setting
from calibrant.numerics import Floats, Ints

DAY = 86_400_000_000.0
"""Microseconds of a day: times of dates are microseconds since the first midnight, which floats hold exactly."""

MOST_DAYS = 50_000
"""Longest history, about 137 years: a longer one is in another unit than days."""


@dataclass(frozen=True)
class Calendar:
    """What the days of a history are: dates, or multiples of a number.

    Attributes
    ----------
    day
        Length of a day in the unit of the times.
    first
        The first day: a date, or the number of the day.

    Examples
    --------
    >>> days = Calendar(DAY, np.datetime64("2026-03-01"))
    >>> days.name(1), days.starts("week", 10).tolist(), days.starts("month", 40).tolist()
    ('2026-03-02', [1, 8], [0, 31])
    >>> Calendar(1.0, 5).starts("week", 20).tolist()
    [0, 7, 14]
    """

    day: float
    first: np.datetime64 | int

    def name(self, day: int) -> str:
        """A day as text: its date, or its start in the unit of the times."""
        if isinstance(self.first, np.datetime64):
            return str(self.first + np.timedelta64(int(day), "D"))
        return f"{(self.first + int(day)) * self.day:g}"

    def starts(self, period: str | int, days: int) -> Ints:
        """Days among the first ``days`` at which a period begins: Mondays and first days of a month, if dated.

        Without dates a week is 7 days and a month is 30, both counted from the first day.
        """
        every = np.arange(days)
        if isinstance(period, str) and period != "day" and isinstance(self.first, np.datetime64):
            dates = self.first.astype("datetime64[D]") + every
            if period == "week":
                return np.asarray(every[(dates.astype(np.int64) + 3) % 7 == 0])
            return np.asarray(every[dates == dates.astype("datetime64[M]").astype("datetime64[D]")])
        length = {"day": 1, "week": 7, "month": 30}[period] if isinstance(period, str) else period
        return every[::length]


def read_times(time: Any, n: int, day: float | None) -> tuple[Floats, Calendar, tuple[Note, ...]]:
    """Times as floats, what the days are, and notes on what was converted."""
    values, notes = check_time(time, n)
    if values.dtype.kind == "O":
        try:
            values = values.astype("datetime64[us]")
        except (TypeError, ValueError):
            raise InputError("time", "holds values that are neither dates nor numbers", "convert them") from None
    if values.dtype.kind == "m":
        raise InputError("time", "holds durations", "add a date to them, or convert them to numbers")
    if values.dtype.kind == "M":
        if day is not None:
            raise InputError("day", "is the length of a day in numbers, and time has dates", "leave it out")
        exact = values.astype("datetime64[us]")
        first = exact.min().astype("datetime64[D]")
        at, calendar = (exact - first).astype(np.float64), Calendar(DAY, first)
    else:
        unit = 1.0 if day is None else float(day)
        if not 0.0 < unit < np.inf:
            raise InputError(Setting("day", day), "must be a positive number")
        at = values.astype(np.float64)
        if not np.isfinite(at).all():
            raise InputError("time", "holds values that are not finite", "repair or drop these rows")
        number = int(np.floor(at.min() / unit))
        at, calendar = at - number * unit, Calendar(unit, number)
    longest = float(at.max()) / calendar.day
    if longest >= MOST_DAYS:
        fix = "pass day=, such as day=86_400 for seconds" if values.dtype.kind != "M" else "check the dates"
        raise InputError("time", f"spans {longest:,.0f} days", fix)
    return at, calendar, notes


def read_delay(delay: Any, n: int, calendar: Calendar) -> Floats:
    """Delay of each label in the unit of the times.

    Examples
    --------
    >>> read_delay(timedelta(hours=12), 2, Calendar(1.0, 0)).tolist(), read_delay([0, 3], 2, Calendar(24.0, 0)).tolist()
    ([0.5, 0.5], [0.0, 72.0])
    """
    if isinstance(delay, timedelta | np.timedelta64):
        delay = np.timedelta64(delay) / np.timedelta64(1, "D")
    values: NDArray[Any] = np.asarray(delay)
    if values.dtype.kind == "m":
        values = values / np.timedelta64(1, "D")
    if values.ndim == 0:
        values = np.full(n, values)
    days = read_floats(values, "delay")
    check_length(days, "delay", n)
    if not (np.isfinite(days) & (days >= 0.0)).all():
        fix = "a label that never came is missing in y"
        raise InputError("delay", "must be zero or more days, or durations, and never missing", fix)
    return np.asarray(days, dtype=np.float64) * calendar.day
