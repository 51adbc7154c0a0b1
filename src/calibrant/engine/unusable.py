"""Rows that cannot be counted: how many, in which columns and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.messages import Advice, InputError, Voice, note

Role = Literal["score", "label", "weight", "key"]
Why = tuple[Role, str, str, int]
"""Role and name of a column, what is wrong with its values, and in how many rows."""

MISSING = "missing"
"""The problem of a missing value; other problems are plain text."""


@dataclass(frozen=True)
class Unusable:
    """Rows that cannot be counted, of how many, and why; a row may have several problems."""

    rows: int
    total: int
    why: tuple[Why, ...]

    @property
    def all_missing(self) -> bool:
        """Whether these rows have missing values and no other problem."""
        return all(problem == MISSING for _, _, problem, _ in self.why)

    @property
    def reasons(self) -> str:
        """Columns and problems in words."""
        roles = {"score": "score ", "label": "label ", "weight": "weight ", "key": ""}
        return ", ".join(f"{roles[role]}{name!r} {problem} in {rows:,}" for role, name, problem, rows in self.why)


class UnusableRows(InputError):
    """Error: some rows cannot be counted; ``found`` has the numbers."""

    def __init__(self, found: Unusable) -> None:
        problem = f"has {found.rows:,} of {found.total:,} rows that cannot be counted ({found.reasons})"
        super().__init__("frame", problem, Advice.FILTER_ROWS)
        self.found = found
        self.args = (found,)


@note("rows-left-out")
def rows_left_out(voice: Voice, rows: int, total: int, why: tuple[Why, ...]) -> str:
    """Rows that cannot be counted were left out."""
    reasons = Unusable(rows, total, why).reasons
    return f"left out {rows:,} of {total:,} {voice.nouns.rows} that cannot be counted ({reasons})"
