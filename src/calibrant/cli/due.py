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
from calibrant.shift.horizons import months_of

WHOLE_DAYS = re.compile(r"\s*(\d{1,5})\s*(?:d|days?)?\s*")

ZONED = r":\d{2}.*([+-]\d{2}(:?\d{2})?|Z)$"
"""Text of a time with its offset from UTC, which a cast to TIMESTAMP ignores."""


def matured(rows: Any, of: Columns) -> Any:
    """The rows whose horizon is over at ``--as-of``; events after it count as none, and a note says how many."""
    if of.as_of is None and of.horizon is None and of.label_time is None:
        return rows
    day = _day(of)
    start = _moment(rows, str(of.time), "--time")
    end, window_end = _ends_by_row(rows, start, of) or _ends(start, str(of.horizon))
    limit = f"TIMESTAMP '{day.isoformat()}'"
    counted = f"count(*), count(*) FILTER (WHERE {end} <= {limit}), count(*) FILTER (WHERE {start} IS NULL)"
    ((total, kept, undated),) = rows.aggregate(counted).fetchall()
    if undated:
        raise Mistake(f"the column {of.time!r} (--time)", f"has no date in {undated:,} rows", "fix or exclude them")
    if not kept:
        raise Mistake(f"--as-of {day}", "leaves no row whose horizon is over", "pass a later day or a shorter horizon")
    found = rows.filter(f"{end} <= {limit}")
    late = 0
    if of.label_time is not None:
        found, late = _without_late(found, of, window_end, limit)
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
    name = str(of.label_time)
    place, event = quote(label, "duckdb"), _moment(rows, name, "--label-time")
    given = f"nullif(trim({quote(name, 'duckdb')}::VARCHAR), '')"
    unread = rows.filter(f"{place} = 1 AND {given} IS NOT NULL AND {event} IS NULL").limit(1).project(given).fetchall()
    if unread:
        problem = f"contains {unread[0][0]!r}, which is not a date"
        raise Mistake(f"the column {name!r} (--label-time)", problem, "write dates as 2025-12-31")
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


def _ends(start: str, horizon: str) -> tuple[str, str]:
    """When a row is mature and the last time of an event that counts, as in ``shift.select_mature``.

    Days are exact periods of 24 hours. A window of calendar months includes all of its last day.
    """
    days = WHOLE_DAYS.fullmatch(horizon.lower())
    if days is not None and int(days[1]) > 0:
        end = f"({start} + INTERVAL {int(days[1])} DAY)"
        return end, end
    end = f"({start}::DATE + INTERVAL {months_of(horizon)} MONTH)"
    return end, f"({end} + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND)"


def _ends_by_row(rows: Any, start: str, of: Columns) -> tuple[str, str] | None:
    """The same with the days of each row in a column, if ``--horizon`` names one."""
    name = str(of.horizon)
    if name not in rows.columns:
        return None
    place = quote(name, "duckdb")
    days = f"TRY_CAST({place} AS DOUBLE)"
    wrong = rows.filter(f"NOT coalesce({days} > 0 AND {days} < 100000, false)").limit(1).project(place).fetchall()
    if wrong:
        problem = f"contains {wrong[0][0]!r}, which is not a number of days"
        raise Mistake(f"the column {name!r} (--horizon)", problem, "write days as 365, in every row")
    end = f"({start} + to_microseconds(CAST({days} * 86400000000 AS BIGINT)))"
    return end, end


def _moment(rows: Any, name: str, option: str) -> str:
    """The time in a column, as SQL, in UTC if it has a time zone; text may be 2025-12-31 or 31.12.2025."""
    place, kind = quote(name, "duckdb"), type_of(rows, name)
    if kind == "VARCHAR":
        text = f"trim({place})"
        zoned = f"CASE WHEN regexp_matches({text}, '{ZONED}') THEN epoch_us(TRY_CAST({text} AS TIMESTAMPTZ)) END"
        plain = f"TRY_CAST({text} AS TIMESTAMP), try_strptime({text}, '%d.%m.%Y')"
        return f"coalesce(make_timestamp({zoned}), {plain})"
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"make_timestamp(epoch_us({place}))"
    if kind.startswith(("DATE", "TIMESTAMP")):
        return f"{place}::TIMESTAMP"
    raise Mistake(f"the column {name!r} ({option})", "has no dates", "write dates as 2025-12-31")
