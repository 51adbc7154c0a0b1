"""Text columns where numbers are expected: converted if possible, otherwise an error that shows a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from calibrant.arrays import check_labels
from calibrant.cli import console
from calibrant.cli.input.groups import name_of
from calibrant.cli.shell import identifier, in_shell
from calibrant.cli.voice import CommandLine, Mistake
from calibrant.engine.unusable import Unusable
from calibrant.export.languages.sql.dialects import quote
from calibrant.messages import InputError

MISSING = {"", "-", ".", "?", "na", "n/a", "#n/a", "nan", "nil", "none", "null", "missing", "unknown"}
"""Common markers of missing values, in lower case."""


def type_of(rows: Any, name: str) -> str:
    """DuckDB type of a column."""
    return str(dict(zip(rows.columns, rows.types, strict=True))[name])


def with_numbers(rows: Any, names: Iterable[str]) -> Any:
    """Text columns of a CSV as doubles, if all remaining values are numbers."""
    texts = [name for name in names if type_of(rows, name) == "VARCHAR" and _no_number(rows, name) is None]
    return with_type(rows, texts, "DOUBLE")


def with_type(rows: Any, names: Iterable[str], kind: str) -> Any:
    """The relation with some columns cast to another type."""
    places = [quote(name, "duckdb") for name in dict.fromkeys(names)]
    casts = ", ".join(f"TRY_CAST({place} AS {kind}) AS {place}" for place in places)
    return rows.project(f"* REPLACE ({casts})") if casts else rows


def refuse_text(rows: Any, name: str, option: str) -> None:
    """Reject a text column where numbers are needed, showing a value that is not a number."""
    if type_of(rows, name) == "VARCHAR":
        raise text_found(name, option, _no_number(rows, name))


def with_labels(rows: Any, label: str, positive: str | None) -> Any:
    """The relation with labels as 1 and 0, read as in Python; missing ones are refused."""
    y = quote(label, "duckdb")
    ((missing,),) = rows.aggregate(f"count(*) FILTER (WHERE {y} IS NULL)").fetchall()
    if missing:
        fix = "exclude them with --where; a label that has not arrived is not a negative"
        raise Mistake(f"{missing:,} lines", f"have no label in the column {label!r}", fix)
    values = sorted((value for (value,) in rows.project(y).distinct().limit(4).fetchall()), key=repr)
    named = next((value for value in values if name_of(value) == positive), positive)
    try:
        codes, notes = check_labels(values, named)
    except InputError as error:
        raise Mistake.of(error, CommandLine(None, label)) from None
    for each in notes:
        console.note(str(each))
    event = next((value for value, code in zip(values, codes, strict=True) if code), None)
    written = "'" + event.replace("'", "''") + "'" if isinstance(event, str) else str(event)
    return rows.project(f"* REPLACE ({'0' if event is None else f'({y} = {written})::INTEGER'} AS {y})")


def text_found(name: str, option: str, value: str | None) -> Mistake:
    """The error about a value that is not a number."""
    column = f"the column {name!r} ({option})"
    if value is None:
        return Mistake(column, "contains numbers stored as text", "store it as numbers")
    if value.strip().lower() in MISSING:
        return Mistake(column, f"contains {value!r} among numbers", leave_out(name, value))
    if re.fullmatch(r"\s*-?\d*,\d+\s*", value):
        return Mistake(column, f"contains text such as {value!r}", "use a decimal point")
    return Mistake(column, f"contains text such as {value!r}", f"pass a numeric column with {option}, or fix it")


def leave_out(name: str, value: str) -> str:
    """How to exclude the rows with this text."""
    text = value.replace("'", "''")
    condition = in_shell(f"{identifier(name)} <> '{text}'")
    return f"find out why, then exclude these rows with --where {condition}"


def uncounted(found: Unusable) -> Mistake:
    """The error about rows that cannot be used, with the condition that excludes them if only values are missing."""
    names = [(role, identifier(name)) for role, name, _, _ in found.why]
    tests = [f"isfinite({name})" if role in ("score", "weight") else f"{name} IS NOT NULL" for role, name in names]
    condition = f" {in_shell(' AND '.join(tests))}" if found.all_missing else ""
    return Mistake(
        f"{found.rows:,} of {found.total:,} rows",
        f"cannot be used ({found.reasons})",
        f"find out why, then exclude them with --where{condition}",
    )


def _no_number(rows: Any, name: str) -> str | None:
    """The first text in a column that is not a number."""
    place = quote(name, "duckdb")
    found = rows.filter(f"{place} IS NOT NULL AND TRY_CAST({place} AS DOUBLE) IS NULL").limit(1).project(place)
    return next((value for (value,) in found.fetchall()), None)
