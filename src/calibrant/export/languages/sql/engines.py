"""Engines that run SQL expressions over given scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Values = list[float | None]
"""Doubles as an engine takes and returns them; None for NULL."""

Groups = Mapping[str, Sequence[str | None]]
"""Group columns by name; None for NULL."""

NO_GROUPS: Groups = {}


Scores = Mapping[str, Values]
"""Score columns by name."""


class Select(Protocol):
    """One SELECT."""

    def __call__(self, items: Sequence[str], scores: Scores, groups: Groups, /) -> list[list[Any]]:
        """The values of each expression over score and group columns, row by row."""


AT_ONCE = 10_000
"""Bound values in one statement of SQLite, which allows 32,766."""


@dataclass(frozen=True)
class Engine:
    """An engine that can run SQL text of one dialect."""

    dialect: str
    name: str
    select: Select

    def run(self, expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        """The values of one expression over one score column."""
        (found,) = self.select([expression], {column: scores}, groups)
        return found


def parts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    """The rows in batches of ``size``."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def by_item(rows: Sequence[Any], items: Sequence[str]) -> list[list[Any]]:
    """The values of each expression, for any row type of the user's connection."""
    plain = [_plain(row) for row in rows]
    return [[row[place] for row in plain] for place in range(len(items))]


def _plain(row: Any) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return list(row.values())
    return [row] if row is None or isinstance(row, str | int | float) else row
