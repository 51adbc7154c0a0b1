"""Days of a store: reading a day, the ends of a window, and missing days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from calibrant.engine.store.files import Part
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, Shown, Voice, note

Day = date | str
Words = tuple[str, ...]
SHOWN = 10
"""Maximum number of periods of missing days listed in a message."""


def as_day(value: Any, name: str) -> date:
    """Read a day from a date, ISO text, or a time at midnight."""
    plain = value.astype("datetime64[us]").item() if isinstance(value, np.datetime64) else value
    try:
        plain = datetime.fromisoformat(plain) if isinstance(plain, str) else plain
    except ValueError:
        plain = None
    if isinstance(plain, datetime):
        plain = plain.date() if plain == datetime.combine(plain, datetime.min.time(), plain.tzinfo) else None
    if not isinstance(plain, date):
        raise InputError(Setting(name, value), "is not a day", "pass a date, or text like '2026-03-01'")
    return plain


def span(days: Sequence[date], first: Day | None, last: Day | None) -> tuple[date, date]:
    """The ends of a window, by default those of the days that are there."""
    if not days and (first is None or last is None):
        fix = Phrase("pass {first} and {last}, or add a day", first=Argument("first"), last=Argument("last"))
        raise InputError("first", "has no default in an empty store", fix)
    low = days[0] if first is None else as_day(first, "first")
    high = days[-1] if last is None else as_day(last, "last")
    if low > high:
        raise InputError(
            Setting("first", str(low)), Phrase("is after {last}", last=Setting("last", str(high))), "swap them"
        )
    return low, high


@dataclass(frozen=True)
class Gaps(Shown):
    """Days and parts of days that are missing from a window.

    Attributes
    ----------
    first, last
        Ends of the window, both included.
    days
        Missing days.
    parts
        Missing parts, by day, of days that are stored in parts: names that another day of the window has.
    """

    first: date
    last: date
    days: tuple[date, ...]
    parts: Mapping[date, tuple[str, ...]]

    @classmethod
    def of(cls, listed: Mapping[date, Sequence[Part]], first: date, last: date) -> Gaps:
        """Compare the stored days and parts with the calendar, and with each other."""
        every = [first + timedelta(days=step) for step in range((last - first).days + 1)]
        in_parts = {day: set(listed[day]) for day in every if day in listed and listed[day] != [None]}
        names = set().union(*in_parts.values())
        lacking = {day: tuple(sorted(str(name) for name in names - has)) for day, has in in_parts.items()}
        return cls(
            first,
            last,
            tuple(day for day in every if day not in listed),
            {day: parts for day, parts in lacking.items() if parts},
        )

    def note(self, store: str) -> Note:
        """The same as a note about a store."""
        parts = {str(day): names for day, names in self.parts.items()}
        return days_missing(store, str(self.first), str(self.last), tuple(map(str, self.days)), parts)

    def __bool__(self) -> bool:
        """Whether anything is missing."""
        return bool(self.days or self.parts)

    def __str__(self) -> str:
        """What is missing, as part of a sentence."""
        clauses = []
        if self.days:
            total = (self.last - self.first).days + 1
            clauses.append(
                f"{len(self.days):,} of the {total:,} days from {self.first} to {self.last} "
                f"{'is' if len(self.days) == 1 else 'are'} missing ({_first(list(_periods(self.days)))})"
            )
        if self.parts:
            lacking = [f"{day}: {', '.join(map(repr, parts))}" for day, parts in self.parts.items()]
            clauses.append(f"some days have fewer parts than others ({_first(lacking)})")
        return ", and ".join(clauses)


def _periods(days: Sequence[date]) -> Iterator[str]:
    """Runs of days, each by its ends."""
    start = days[0]
    for day, after in zip(days, (*days[1:], None), strict=True):
        if after != day + timedelta(days=1):
            yield f"{start}" if start == day else f"{start} to {day}"
            start = after or day


def _first(clauses: Sequence[str]) -> str:
    more = len(clauses) - SHOWN
    return ", ".join(clauses[:SHOWN]) + (f", and {more:,} more" if more > 0 else "")


@note("days-missing")
def days_missing(voice: Voice, store: str, first: str, last: str, days: Words, parts: Mapping[str, Words]) -> str:
    """Days or parts of days are missing from a window."""
    gaps = Gaps(
        date.fromisoformat(first),
        date.fromisoformat(last),
        tuple(map(date.fromisoformat, days)),
        {date.fromisoformat(day): names for day, names in parts.items()},
    )
    return f"the store {store!r} is incomplete: {gaps}; the result has only the stored rows"


class MissingDays(InputError):
    """Error: days are missing from a window that must be complete."""

    def __init__(self, store: str, gaps: Gaps) -> None:
        required = Argument("require_all_days")
        super().__init__(
            Setting("require_all_days", True),
            f"does not hold for the store {store!r}: {gaps}",
            Phrase("add what is missing, or leave {required} out", required=required),
        )
        self.store, self.gaps = store, gaps
        self.args = (store, gaps)
