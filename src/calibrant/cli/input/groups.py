"""Group columns in files: read as the map expects them, and rows whose group the map does not list."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.cli.shell import in_shell
from calibrant.cli.voice import Mistake
from calibrant.export.languages.sql.dialects import quote
from calibrant.maps import ByGroupMap, ComposeMap, GroupedSoftmaxMap, Map
from calibrant.messages import plural

SHOWN = 3
EXACT = 2**53
"""Integers below this are exact as doubles."""


@dataclass(frozen=True)
class Unlisted:
    """Rows whose group in a column is not listed in the map, and whether they got a probability."""

    column: str
    rows: int
    examples: list[str]
    mapped: bool

    def __str__(self) -> str:
        """One sentence."""
        result = "the global map was used" if self.mapped else "no probability was written"
        have = plural(self.rows, "row has", "rows have")
        named = f"a group in {self.column!r} that the map does not list, such as {_some(self.examples)}"
        return f"{have} {named}: {result}."


def key_of(rows: Any, column: str, kind: str, option: str) -> str:
    """SQL that gives the values of a column as text, integers or booleans.

    pandas writes integers with missing values as 3.0; this is read as 3.
    """
    place = quote(column, "duckdb")
    if kind not in ("DOUBLE", "FLOAT") and not kind.startswith("DECIMAL"):
        return f"TRY_CAST({place} AS {kind})"
    number = f"TRY_CAST({place} AS DOUBLE)"
    wrong = f"NOT isnan({number}) AND NOT (abs({number}) < {EXACT} AND floor({number}) = {number})"
    found = rows.filter(wrong).limit(1).project(number).fetchall()
    if found:
        raise Mistake(
            f"the column {column!r} ({option})",
            f"contains {found[0][0]!r}",
            "groups must be text, integers or booleans",
        )
    return f"TRY_CAST({number} AS BIGINT)"


def number_of(rows: Any, column: str, option: str) -> str:
    """SQL that gives the values of a column of numbers; a text that is none is an error."""
    place = quote(column, "duckdb")
    number = f"TRY_CAST({place} AS DOUBLE)"
    found = rows.filter(f"{place} IS NOT NULL AND {number} IS NULL").limit(1).project(place).fetchall()
    if found:
        raise Mistake(
            f"the column {column!r} ({option})", f"contains {found[0][0]!r}", "the map needs numbers in this column"
        )
    return number


def unlisted(
    rows: Any, map_: Map, names: Mapping[str, str], keys: Mapping[str, str], *, allowed: bool
) -> list[Unlisted]:
    """Rows with a group that the map does not list, by column; an error if no row has a listed group.

    Parameters
    ----------
    names, keys
        Column of each group of the map, and the SQL expression of that column.
    allowed
        Whether it is allowed that no row has a listed group.
    """
    found = []
    for name, (listed, mapped) in _listed(map_).items():
        column, key = names[name], f"CAST({keys[names[name]]} AS VARCHAR)"
        there = ", ".join(_text(each) for each in listed)
        known, new = f"{key} IN ({there})", f"{key} NOT IN ({there})"
        ((hits, others),) = rows.aggregate(f"count(*) FILTER (WHERE {known}), count(*) FILTER (WHERE {new})").fetchall()
        some = (
            rows.filter(new).project(f"{key} AS k").distinct().order("k").limit(SHOWN + 1).fetchall() if others else []
        )
        groups = [value for (value,) in some]
        if not hits and not allowed:
            have = f"contains {_some(groups)}" if groups else "is empty"
            raise Mistake(
                f"the column {column!r}",
                f"has no group of the map, which lists {_some(listed)} in {name!r}: the column {have}",
                f"pass the right column with --by {in_shell(f'{name}=COL')}, or pass --allow-unlisted",
            )
        if others:
            found.append(Unlisted(column, others, groups, mapped))
    return found


def _listed(map_: Map) -> dict[str, tuple[list[str], bool]]:
    """Groups that a map lists, by its name of the column, and whether other rows get a probability."""
    parts = map_.maps if isinstance(map_, ComposeMap) else (map_,)
    found: dict[str, tuple[list[str], bool]] = {}
    for part in parts:
        if isinstance(part, ByGroupMap):
            before, mapped = found.get(part.by, ([], True))
            found[part.by] = (list(dict.fromkeys([*before, *part.groups])), mapped and part.default is not None)
        elif isinstance(part, GroupedSoftmaxMap):
            found[part.by] = (list(part.groups), True)
    return found


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")


def name_of(value: Any) -> str:
    """A value of a column of names as text: 3 for 3.0, and nothing if it is missing."""
    if value is None or value != value:
        return ""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value).strip()


def year_of(value: Any) -> str:
    """The year of a date; other values as they are."""
    if isinstance(value, dt.date):
        return str(value.year)
    text = name_of(value)
    iso, german = re.fullmatch(r"(\d{4})-\d{2}-\d{2}.*", text), re.fullmatch(r"\d{1,2}\.\d{1,2}\.(\d{4})", text)
    return iso[1] if iso else german[1] if german else text
