"""What runs expressions over given scores: an engine, and the values that go in and come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Values = list[float | None]
"""Doubles as an engine takes and gives them; None for NULL."""

Groups = Mapping[str, Sequence[str | None]]
"""Columns of groups by name; None for NULL."""

NO_GROUPS: Groups = {}


Scores = Mapping[str, Values]
"""Columns of scores by name."""


class Select(Protocol):
    """One SELECT."""

    def __call__(self, items: Sequence[str], scores: Scores, groups: Groups, /) -> list[list[Any]]:
        """From expressions, columns of scores and columns of groups to the values of each expression, row by row."""


AT_ONCE = 10_000
"""Bound values in one statement of SQLite, which allows 32,766."""


@dataclass(frozen=True)
class Engine:
    """A place where SQL text of one dialect can be run."""

    dialect: str
    name: str
    select: Select

    def run(self, expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        """The values of one expression over one column of scores."""
        (found,) = self.select([expression], {column: scores}, groups)
        return found


def parts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    """The rows in batches of ``size``."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def by_item(rows: Sequence[Any], items: Sequence[str]) -> list[list[Any]]:
    """The values of each expression, whatever kind of row the user's connection makes."""
    plain = [_plain(row) for row in rows]
    return [[row[place] for row in plain] for place in range(len(items))]


def _plain(row: Any) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return list(row.values())
    return [row] if row is None or isinstance(row, str | int | float) else row
