"""Why tallies cannot be added to a day, with what would be lost or counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from calibrant.messages import Argument, InputError, Phrase, Setting, Shown, Text, Voice, note, plural

SHOWN = 5
"""Maximum number of segments or parts listed in a message."""

REPLACE, PART = Setting("replace", True), Argument("part")


@dataclass(frozen=True)
class Removal(Shown):
    """How to delete a day of a store: a call in Python, a command for its folder elsewhere."""

    folder: Path
    day: date

    def __str__(self) -> str:
        """The call."""
        return f"remove('{self.day}')"


@dataclass(frozen=True)
class Size(Shown):
    """Numbers of rows and segments; None segments in a store without segments."""

    rows: int
    segments: int | None

    def __str__(self) -> str:
        """Rows and segments."""
        if self.segments is None:
            return f"{self.rows:,} rows"
        return f"{self.rows:,} rows in {plural(self.segments, 'segment')}"


class Conflict(InputError):
    """Error: tallies cannot be added to a day without losing rows or counting them twice."""

    def __init__(self, removal: Removal, *given: Any, subject: str | Setting, problem: Text, fix: Text) -> None:
        """``given`` are the other arguments of the subclass, for pickling and copying."""
        super().__init__(subject, problem, fix)
        self.removal, self.day = removal, removal.day
        self.args = (removal, *given)


class OtherTallies(Conflict):
    """Error: the day is stored whole, with different numbers."""

    def __init__(self, removal: Removal, stored: Size, given: Size, lost: Mapping[Any, int]) -> None:
        self.stored, self.given, self.lost = stored, given, dict(lost)
        problem = "of {day} differ from those in the store. {replace} would replace {stored} by {given}"
        fix = (
            "pass {replace} if labels came late or rows were corrected{only}. If these are another part of the day, "
            "delete the {rows:,} rows with {remove}, and add every part under its own name with {part}"
        )
        if lost:
            problem += ", and segments that are missing from the new tallies would be lost: {lost}"
        super().__init__(
            removal,
            stored,
            given,
            lost,
            subject="tallies",
            problem=Phrase(
                problem, day=removal.day, replace=REPLACE, given=given, stored=stored, lost=_rows_by_name(lost)
            ),
            fix=Phrase(
                fix,
                replace=REPLACE,
                only=", and these segments should be deleted" if lost else "",
                part=PART,
                remove=removal,
                rows=stored.rows,
            ),
        )


class WholeDay(Conflict):
    """Error: a part of a day that is stored whole."""

    def __init__(self, removal: Removal, part: str, stored: Size) -> None:
        self.part, self.stored = part, stored
        fix = "add the whole day with {replace} and without {part}, or delete it with {remove} and add every part"
        super().__init__(
            removal,
            part,
            stored,
            subject=Setting("part", part),
            problem=f"may repeat rows of {removal.day}, which is stored whole ({stored})",
            fix=Phrase(fix, replace=REPLACE, part=PART, remove=removal),
        )


class DayInParts(Conflict):
    """Error: a whole day that is stored in parts."""

    def __init__(self, removal: Removal, rows: Mapping[str, int]) -> None:
        self.rows = dict(rows)
        fix = (
            "pass {part} with the name of one part to add or replace it, or delete all parts ({rows:,} rows) with "
            "{remove} and add the whole day"
        )
        super().__init__(
            removal,
            rows,
            subject="tallies",
            problem=f"of {removal.day} may repeat rows of the day, which is stored in parts: {_rows_by_name(rows)}",
            fix=Phrase(fix, part=PART, rows=sum(rows.values()), remove=removal),
        )


@note("segments-dropped")
def segments_dropped(voice: Voice, day: str, lost: Mapping[str, int]) -> str:
    """Segments of a day that was replaced are not in its new tallies."""
    return f"{day} was replaced, and segments that are not in the new tallies were dropped: {_rows_by_name(lost)}"


def _rows_by_name(rows: Mapping[Any, int]) -> str:
    """Names with their numbers of rows."""
    shown = [f"{name!r} ({count:,} rows)" for name, count in list(rows.items())[:SHOWN]]
    rest = list(rows.values())[SHOWN:]
    return ", ".join(shown) + (f" and {len(rest):,} more ({sum(rest):,} rows)" if rest else "")
