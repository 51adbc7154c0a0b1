"""Rows whose outcome is due: ``--as-of``, ``--horizon`` and ``--label-time``, in the engine that reads the files."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from calibrant.cli import console
from calibrant.cli.numbers import type_of
from calibrant.cli.options import Columns
from calibrant.cli.voice import Mistake
from calibrant.export.sql.dialects import quote
from calibrant.shift.maturity import months_of

WHOLE_DAYS = re.compile(r"\s*(\d{1,5})\s*(?:d|days?)?\s*")


def matured(rows: Any, of: Columns) -> Any:
    """The rows whose horizon is over at ``--as-of``; events after it count as none, and a note says how many."""
    if of.as_of is None and of.horizon is None and of.label_time is None:
        return rows
    day = _day(of)
    start = _date(rows, str(of.time), "--time")
    end = f"({start} + INTERVAL {_interval(str(of.horizon))})::DATE"
    limit = f"DATE '{day.isoformat()}'"
    counted = f"count(*), count(*) FILTER (WHERE {end} <= {limit}), count(*) FILTER (WHERE {start} IS NULL)"
    ((total, kept, undated),) = rows.aggregate(counted).fetchall()
    if undated:
        raise Mistake(f"the column {of.time!r} (--time)", f"has no date in {undated:,} rows", "fix or exclude them")
    if not kept:
        raise Mistake(f"--as-of {day}", "leaves no row whose horizon is over", "pass a later day or a shorter horizon")
    found = rows.filter(f"{end} <= {limit}")
    late = 0
    if of.label_time is not None:
        found, late = _without_late(found, of, end, limit)
    young = total - kept
    console.note(
        f"{kept:,} rows kept; {young:,} whose horizon of {of.horizon} is not over on {day} are left out"
        + (f"; {late:,} events after the horizon do not count" if late else "")
    )
    return found


def _without_late(rows: Any, of: Columns, end: str, limit: str) -> tuple[Any, int]:
    """Rows with label 0 where the event came after the horizon, and their number."""
    label = str(of.label)
    if of.positive is not None or type_of(rows, label) in ("VARCHAR", "BOOLEAN"):
        raise Mistake("--label-time", "needs labels 0 and 1", "create such a column, or leave --label-time out")
    place, event = quote(label, "duckdb"), _date(rows, str(of.label_time), "--label-time")
    after = f"{place} = 1 AND {event} IS NOT NULL AND ({event} > {end} OR {event} > {limit})"
    ((late,),) = rows.aggregate(f"count(*) FILTER (WHERE {after})").fetchall()
    return rows.project(f"* REPLACE (CASE WHEN {after} THEN 0 ELSE {place} END AS {place})"), int(late)


def _day(of: Columns) -> dt.date:
    for option, value in (("--as-of", of.as_of), ("--horizon", of.horizon), ("--time", of.time)):
        if value is None:
            fix = "pass --time with the date of the score, --horizon 12mo and --as-of 2026-12-31"
            raise Mistake(option, "is missing: a horizon needs all three", fix)
    try:
        return dt.date.fromisoformat(str(of.as_of))
    except ValueError:
        raise Mistake(f"--as-of {of.as_of}", "is not a day", "write it as 2026-12-31") from None


def _interval(text: str) -> str:
    days = WHOLE_DAYS.fullmatch(text.lower())
    if days is not None and int(days[1]) > 0:
        return f"{int(days[1])} DAY"
    return f"{months_of(text)} MONTH"


def _date(rows: Any, name: str, option: str) -> str:
    """The date in a column, as SQL; text may be 2025-12-31 or 31.12.2025."""
    place, kind = quote(name, "duckdb"), type_of(rows, name)
    if kind == "VARCHAR":
        return f"coalesce(TRY_CAST({place} AS DATE), TRY_CAST(try_strptime({place}, '%d.%m.%Y') AS DATE))"
    if kind.startswith(("DATE", "TIMESTAMP")):
        return f"{place}::DATE"
    raise Mistake(f"the column {name!r} ({option})", "has no dates", "write dates as 2025-12-31")
