"""Text where numbers are expected: read as numbers where it can be, otherwise the value that cannot is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from calibrant.cli.shell import identifier, in_shell
from calibrant.cli.voice import Mistake
from calibrant.engine.unusable import Unusable
from calibrant.export.sql.dialects import quote

MISSING = {"", "-", ".", "?", "na", "n/a", "#n/a", "nan", "nil", "none", "null", "missing", "unknown"}
"""What people and programs write where a value is missing, in small letters."""


def type_of(rows: Any, name: str) -> str:
    """What DuckDB holds a column in."""
    return str(dict(zip(rows.columns, rows.types, strict=True))[name])


def with_numbers(rows: Any, names: Iterable[str]) -> Any:
    """Columns of a CSV that were taken for text as doubles, when no value that is left is anything else."""
    texts = [name for name in names if type_of(rows, name) == "VARCHAR" and _no_number(rows, name) is None]
    return with_type(rows, texts, "DOUBLE")


def with_type(rows: Any, names: Iterable[str], kind: str) -> Any:
    """Some columns in another type."""
    places = [quote(name, "duckdb") for name in dict.fromkeys(names)]
    casts = ", ".join(f"TRY_CAST({place} AS {kind}) AS {place}" for place in places)
    return rows.project(f"* REPLACE ({casts})") if casts else rows


def refuse_text(rows: Any, name: str, option: str) -> None:
    """Refuse a column of text where numbers are needed, with a value that is none."""
    if type_of(rows, name) == "VARCHAR":
        raise text_found(name, option, _no_number(rows, name))


def text_found(name: str, option: str, value: str | None) -> Mistake:
    """The sentence about a value that is no number."""
    column = f"the column {name!r} ({option})"
    if value is None:
        return Mistake(column, "holds numbers written as text", "write numbers into the file")
    if value.strip().lower() in MISSING:
        return Mistake(column, f"holds {value!r} among numbers", leave_out(name, value))
    if re.fullmatch(r"\s*-?\d*,\d+\s*", value):
        return Mistake(column, f"holds text such as {value!r}", "write decimals with a point")
    return Mistake(column, f"holds text such as {value!r}", f"name a column of numbers with {option}, or repair it")


def leave_out(name: str, value: str) -> str:
    """How to go on without the rows that have this text."""
    text = value.replace("'", "''")
    condition = in_shell(f"{identifier(name)} <> '{text}'")
    return f"know why, then leave these rows out with --where {condition}"


def uncounted(found: Unusable) -> Mistake:
    """Rows that cannot be counted, with the condition that leaves them out where all that they lack is a value."""
    names = [(role, identifier(name)) for role, name, _, _ in found.why]
    tests = [f"isfinite({name})" if role in ("score", "weight") else f"{name} IS NOT NULL" for role, name in names]
    condition = f" {in_shell(' AND '.join(tests))}" if found.all_missing else ""
    return Mistake(
        f"{found.rows:,} of {found.total:,} rows",
        f"cannot be counted ({found.reasons})",
        f"know why, then leave them out with --where{condition}",
    )


def _no_number(rows: Any, name: str) -> str | None:
    """The first text in a column that is no number."""
    place = quote(name, "duckdb")
    found = rows.filter(f"{place} IS NOT NULL AND TRY_CAST({place} AS DOUBLE) IS NULL").limit(1).project(place)
    return next((value for (value,) in found.fetchall()), None)
