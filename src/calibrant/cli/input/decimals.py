"""Numbers as people write them: decimal comma, percent sign, thousands separators; what is ambiguous is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from calibrant.cli.input.numbers import type_of
from calibrant.cli.voice import Mistake
from calibrant.export.languages.sql.dialects import quote

OTHER_MARK = {",": ".", ".": ","}
"""The thousands separator that goes with a decimal mark."""

_SPACES = r"[\s\x{00A0}\x{202F}\x{2009}\x{2019}'']"
"""Spaces and apostrophes, which separate thousands; in SQL, so that the apostrophe is doubled."""

_SURE = (
    r"[+-]?(\d*{d}\d{{1,2}}|\d*{d}\d{{4,}}|0?{d}\d+|\d{{4,}}{d}\d+|\d+{d}\d*[eE][+-]?\d+|\d{{1,3}}({t}\d{{3}})+{d}\d+"
    r"|\d{{1,3}}({t}\d{{3}}){{2,}})"
)
"""Numbers that fix the decimal mark ``d``: 0,25 or 1.234,5 or 1.234.567."""

_MAYBE = r"[+-]?[1-9]\d{{0,2}}{d}\d{{3}}"
"""Numbers such as 1,234: thousands, or three decimals."""

_PLAIN = r"[+-]?\d+([eE][+-]?\d+)?"


@dataclass(frozen=True)
class _Evidence:
    """What the texts of a column show; examples, or None where there is no such text."""

    name: str
    other: str | None
    comma: str | None
    point: str | None
    maybe_comma: str | None
    maybe_point: str | None
    percent: str | None
    bare: str | None

    @property
    def mark(self) -> str | None:
        """The decimal mark that the column shows; a column that shows both is refused."""
        if self.comma is not None and self.point is not None:
            raise Mistake(
                f"the column {self.name!r}",
                f"contains {self.comma!r} and {self.point!r}, with different decimal marks",
                "write all numbers in one way",
            )
        return "," if self.comma is not None else "." if self.point is not None else None

    def maybe(self, mark: str) -> str | None:
        """A number in which this mark separates either thousands or decimals."""
        return self.maybe_comma if mark == "," else self.maybe_point


def read_localized(
    rows: Any, names: Iterable[str | None], *, counts: Iterable[str | None] = (), decimal: str | None = None
) -> Any:
    """The relation with text columns of numbers as doubles; columns with other text are left as they are.

    Parameters
    ----------
    rows
        A DuckDB relation.
    names
        Columns to read.
    counts
        Those of them that hold integers, in which 1.234 can only mean 1234.
    decimal
        The decimal mark, if it is known.
    """
    texts = [name for name in dict.fromkeys(names) if name is not None and type_of(rows, name) == "VARCHAR"]
    found = [each for each in (_evidence(rows, name) for name in texts) if each.other is None]
    marks = {decimal} if decimal is not None else {each.mark for each in found} - {None}
    whole, shared = set(counts), next(iter(marks)) if len(marks) == 1 else None
    casts = []
    for each in found:
        _check_percent(each)
        if decimal is not None and each.mark not in (decimal, None):
            problem = f"contains {(each.comma or each.point)!r}, in which {each.mark!r} is the decimal mark"
            raise Mistake(f"the column {each.name!r}", problem, f"pass --decimal {each.mark}, or leave it out")
        place = quote(each.name, "duckdb")
        mark = decimal or each.mark or shared
        core = f"rtrim({_cleaned(place)}, '%')"
        if each.name in whole:
            mark = _mark_of_counts(each, mark)
        elif mark is None:
            mark = _mark_or_refuse(each)
        number = f"replace(replace({core}, '{OTHER_MARK[mark]}', ''), '{mark}', '.')"
        hundredth = " / 100.0" if each.percent is not None else ""
        casts.append(f"TRY_CAST(nullif({number}, '') AS DOUBLE){hundredth} AS {place}")
    return rows.project(f"* REPLACE ({', '.join(casts)})") if casts else rows


def shows_numbers(rows: Any, names: Iterable[str]) -> bool:
    """Whether a text column among these has numbers, written with separators or percent signs."""
    found = [_evidence(rows, name) for name in names if type_of(rows, name) == "VARCHAR"]
    return any(each.other is None and (each.bare is not None or each.percent is not None) for each in found)


def _cleaned(place: str) -> str:
    return f"regexp_replace({place}, '{_SPACES}', '', 'g')"


def _evidence(rows: Any, name: str) -> _Evidence:
    """One pass over the column, with an example of each form."""
    place = quote(name, "duckdb")
    clean = _cleaned(place)
    core = f"rtrim({clean}, '%')"
    comma, point = _SURE.format(d=",", t=r"\."), _SURE.format(d=r"\.", t=",")
    maybe_comma, maybe_point = _MAYBE.format(d=","), _MAYBE.format(d=r"\.")
    known = "|".join(f"({form})" for form in (comma, point, maybe_comma, maybe_point, _PLAIN))
    tests = {
        "other": f"{core} <> '' AND NOT regexp_full_match({core}, '{known}')",
        "comma": f"regexp_full_match({core}, '{comma}')",
        "point": f"regexp_full_match({core}, '{point}')",
        "maybe_comma": f"regexp_full_match({core}, '{maybe_comma}')",
        "maybe_point": f"regexp_full_match({core}, '{maybe_point}')",
        "percent": f"ends_with({clean}, '%')",
        "bare": f"{core} <> '' AND NOT ends_with({clean}, '%') AND NOT regexp_full_match({core}, '0*[.,]?0*')",
    }
    columns = ", ".join(f"min({place}) FILTER (WHERE {test}) AS {key}" for key, test in tests.items())
    (row,) = rows.aggregate(columns).fetchall()
    return _Evidence(name, *row)


def _check_percent(each: _Evidence) -> None:
    if each.percent is not None and each.bare is not None:
        raise Mistake(
            f"the column {each.name!r}",
            f"contains {each.percent!r} and {each.bare!r}, with and without a percent sign",
            "write all numbers in one way",
        )


def _mark_of_counts(each: _Evidence, mark: str | None) -> str:
    """The decimal mark of a column of integers: neither 1.234 nor 1,234 can be a decimal there."""
    for other in ",.":
        text = each.maybe(other)
        if text is not None and mark == other:
            raise Mistake(
                f"the column {each.name!r}",
                f"contains {text!r}, and {mark!r} is the decimal mark of this file",
                "write counts without a thousands separator",
            )
    if each.maybe_comma is not None and each.maybe_point is not None:
        raise Mistake(
            f"the column {each.name!r}",
            f"contains {each.maybe_comma!r} and {each.maybe_point!r}",
            "write all numbers in one way",
        )
    return mark or ("." if each.maybe_comma is not None else ",")


def _mark_or_refuse(each: _Evidence) -> str:
    text = each.maybe_comma or each.maybe_point
    if text is None:
        return "."
    digits = text.replace(",", "").replace(".", "")
    raise Mistake(
        f"the column {each.name!r}",
        f"contains {text!r}, which can mean {digits} or {text.replace(',', '.')}",
        "write it without a thousands separator, or with a decimal point and not exactly three decimals",
    )
