"""Why tallies cannot be added to a day, with what would be lost or counted twice; in words for Python or a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from calibrant.arrays import InputError

SHOWN = 5
"""Segments or parts that a sentence lists."""


class Words(NamedTuple):
    """What arguments are called where the sentence is shown."""

    replace: str
    part: str
    remove: Callable[[date], str]


PYTHON = Words("replace=True", "part=", lambda day: f"remove('{day}')")


@dataclass(frozen=True)
class Size:
    """How much is there; a store without segments has None of them."""

    rows: int
    segments: int | None

    def __str__(self) -> str:
        """Rows and segments."""
        if self.segments is None:
            return f"{self.rows:,} rows"
        return f"{self.rows:,} rows in {self.segments:,} {'segment' if self.segments == 1 else 'segments'}"


class Conflict(InputError):
    """Tallies that cannot be added to a day without losing rows or counting them twice."""

    def sentence(self, words: Words) -> str:
        """The sentence."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The sentence in terms of Python."""
        return self.sentence(PYTHON)


class OtherTallies(Conflict):
    """A whole day that is there with other numbers."""

    def __init__(self, day: date, stored: Size, given: Size, lost: Mapping[Any, int]) -> None:
        super().__init__(day, stored, given, lost)
        self.day, self.stored, self.given, self.lost = day, stored, given, dict(lost)

    def sentence(self, words: Words) -> str:
        """What replacing would do, and what else can be done."""
        gone = f", and segments that these lack would be lost: {_listed(self.lost)}" if self.lost else ""
        only = ", and those segments are to go" if self.lost else ""
        return (
            f"the store holds other tallies of {self.day}. {words.replace} would put {self.given} in place of "
            f"{self.stored}{gone}. Pass {words.replace} if labels came late or rows were corrected{only}. If these are "
            f"another part of the day, store every part under its own {words.part} name, after "
            f"{words.remove(self.day)}, which deletes the {self.stored.rows:,} rows"
        )


class WholeDay(Conflict):
    """A part of a day that is there as a whole."""

    def __init__(self, day: date, part: str, stored: Size) -> None:
        super().__init__(day, part, stored)
        self.day, self.part, self.stored = day, part, stored

    def sentence(self, words: Words) -> str:
        """Why no part can be added."""
        return (
            f"{self.day} is stored whole ({self.stored}), and rows of the part {self.part!r} may be among them: add "
            f"the whole day with {words.replace} and without {words.part}, or delete it with {words.remove(self.day)} "
            "and add every part"
        )


class DayInParts(Conflict):
    """A whole day that is there in parts."""

    def __init__(self, day: date, rows: Mapping[str, int]) -> None:
        super().__init__(day, rows)
        self.day, self.rows = day, dict(rows)

    def sentence(self, words: Words) -> str:
        """Why the day cannot be added."""
        return (
            f"{self.day} is stored in parts, {_listed(self.rows)}, and their rows may be among these: pass "
            f"{words.part} with the name of one part to add or replace it, or delete all of them, "
            f"{sum(self.rows.values()):,} rows, with {words.remove(self.day)} and add the whole day"
        )


def _listed(rows: Mapping[Any, int]) -> str:
    """Names with their rows."""
    shown = [f"{name!r} ({count:,} rows)" for name, count in list(rows.items())[:SHOWN]]
    rest = list(rows.values())[SHOWN:]
    return ", ".join(shown) + (f" and {len(rest):,} more ({sum(rest):,} rows)" if rest else "")
