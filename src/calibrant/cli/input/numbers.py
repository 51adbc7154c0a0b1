"""Text columns where numbers are expected: converted if possible, otherwise an error that shows a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from calibrant.cli.shell import identifier, in_shell
from calibrant.cli.voice import Mistake
from calibrant.engine.unusable import Unusable
from calibrant.export.languages.sql.dialects import quote

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


def refuse_labels(rows: Any, label: str) -> None:
    """Reject labels that are missing, or other than 0 and 1, in a column of numbers."""
    y = quote(label, "duckdb")
    wrong = f"count(*) FILTER (WHERE {y}::DOUBLE NOT IN (0, 1))"
    ((missing, other),) = rows.aggregate(f"count(*) FILTER (WHERE {y} IS NULL), {wrong}").fetchall()
    if missing:
        fix = "exclude them with --where; a label that has not arrived is not a negative"
        raise Mistake(f"{missing:,} lines", f"have no label in the column {label!r}", fix)
    if other:
        problem = f"have a label in the column {label!r} other than 0 and 1"
        raise Mistake(f"{other:,} lines", problem, "fix them, or exclude them with --where")


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
