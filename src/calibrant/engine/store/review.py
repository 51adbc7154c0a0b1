"""What is unusual about the days of a store: too few or too many rows, the same rows twice, renamed segments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Any

import numpy as np

from calibrant.engine.store.files import Part
from calibrant.engine.store.parquet import COUNTED, Content, Key
from calibrant.messages import Note, Voice, note

USUAL_FACTOR = 2.0
"""A day with fewer rows than the median of the others divided by this, or more than it times this, is unusual."""

FEWEST_DAYS = 3
"""Number of other days that are needed to know what is usual."""

FEWEST_CELLS = 20
"""With fewer cells, equal or even counts may be coincidence."""

SHOWN = 5
"""Maximum number of days or segments listed in a note."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """One file of a store: its day and part, and what a review needs of its content."""

    day: date
    part: Part
    rows: int
    cells: int
    keys: tuple[Key, ...]
    fingerprint: str
    divisor: int
    """Largest number that divides every count of the file; 1 for importance weights."""

    @classmethod
    def of(cls, day: date, part: Part, content: Content) -> Stored:
        """From the content of the file."""
        counts = [content.columns[name] for name in COUNTED[1:]] if content.counts else [np.ones(1, dtype=np.int64)]
        divisor = int(np.gcd.reduce([int(np.gcd.reduce(column)) for column in counts]))
        return cls(day, part, content.rows, len(content), tuple(content.keys), content.fingerprint, divisor)

    @property
    def name(self) -> str:
        """The day, with the part if there is one."""
        return str(self.day) if self.part is None else f"{self.day} ({self.part})"


@note("unusual-rows")
def unusual_rows(voice: Voice, day: str, rows: int, usual: int) -> str:
    """A day with far fewer or far more rows than the others."""
    side = "fewer" if rows < usual else "more"
    said = f"{day} has {rows:,} {voice.nouns.rows}, far {side} than usual (median {usual:,})"
    return f"{said}: check that it was counted in full, and once"


@note("counted-repeatedly")
def counted_repeatedly(voice: Voice, day: str, times: int) -> str:
    """Every count of a day is a multiple of one number."""
    rows = voice.nouns.rows
    return f"every count of {day} is a multiple of {times}: the same {rows} were probably counted {times} times"


@note("same-content")
def same_content(voice: Voice, days: Words) -> str:
    """Files with identical counts."""
    rows = voice.nouns.rows
    return f"the counts of {_some(days)} are identical: the same {rows} are probably stored under several names"


@note("renamed-segments")
def renamed_segments(voice: Voice, names: Mapping[str, Words]) -> str:
    """Segments whose names differ only in upper and lower case or in spaces, each with its first and last day."""
    listed = [f"{name!r} ({first} to {last})" for name, (first, last) in names.items()]
    return f"segments differ only in upper and lower case or spaces: {_some(listed)}; each is a segment of its own"


def review_files(files: Sequence[Stored]) -> tuple[Note, ...]:
    """Notes on the files of a window, in the order of their days."""
    return (*_sizes(files), *_repeated(files), *_alike(files), *_renamed(files))


def _sizes(files: Sequence[Stored]) -> list[Note]:
    rows: dict[date, int] = defaultdict(int)
    for each in files:
        rows[each.day] += each.rows
    found = []
    for day, count in rows.items():
        others = [other for when, other in rows.items() if when != day]
        if len(others) < FEWEST_DAYS:
            continue
        usual = int(median(others))
        if not usual / USUAL_FACTOR <= count <= usual * USUAL_FACTOR:
            found.append(unusual_rows(str(day), count, usual))
    return found


def _repeated(files: Sequence[Stored]) -> list[Note]:
    return [
        counted_repeatedly(each.name, each.divisor) for each in files if each.divisor > 1 and each.cells >= FEWEST_CELLS
    ]


def _alike(files: Sequence[Stored]) -> list[Note]:
    names: dict[str, list[str]] = defaultdict(list)
    for each in files:
        if each.cells >= FEWEST_CELLS:
            names[each.fingerprint].append(each.name)
    return [same_content(tuple(same)) for same in names.values() if len(same) > 1]


def _renamed(files: Sequence[Stored]) -> list[Note]:
    days: dict[Key, list[date]] = defaultdict(list)
    for each in files:
        for key in each.keys:
            days[key].append(each.day)
    spelled: dict[Any, list[Key]] = defaultdict(list)
    for key in days:
        spelled[tuple(_folded(value) for value in key)].append(key)
    found = []
    for keys in spelled.values():
        if len(keys) > 1:
            periods = {_text(key): (str(min(days[key])), str(max(days[key]))) for key in keys}
            found.append(renamed_segments(periods))
    return found


def _folded(value: Any) -> Any:
    return " ".join(value.split()).casefold() if isinstance(value, str) else value


def _text(key: Key) -> str:
    return ", ".join(map(str, key))


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
