"""Rows whose outcome is due: ``--as-of``, ``--horizon`` and ``--label-time``, in the engine that reads the files.

With ``--young weight``, rows that are not due are kept with the weights of ``shift.select_mature``, in memory.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.cli import console
from calibrant.cli.input.numbers import type_of
from calibrant.cli.options import Columns, YoungRows
from calibrant.cli.voice import CommandLine, Mistake
from calibrant.engine import collect
from calibrant.export.languages.sql.dialects import quote
from calibrant.messages import InputError
from calibrant.shift.horizons import months_of
from calibrant.shift.maturity import select_mature

WHOLE_DAYS = re.compile(r"\s*(\d{1,5})\s*(?:d|days?)?\s*")

ZONED = r":\d{2}.*([+-]\d{2}(:?\d{2})?|Z)$"
"""Text of a time with its offset from UTC, which a cast to TIMESTAMP ignores."""


def matured(rows: Any, of: Columns, connection: Any) -> tuple[Any, Columns]:
    """The rows whose horizon is over at ``--as-of``, or all with weights, and their columns.

    Events after the horizon count as none. A note says how many rows are left out or weighted.
    """
    if of.as_of is None and of.horizon is None and of.label_time is None and of.young is None:
        return rows, of
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
    if of.young == YoungRows.weight:
        return _weighted(rows, of, connection, day, f"{end} <= {limit}")
    found = rows.filter(f"{end} <= {limit}")
    late = 0
    if of.label_time is not None:
        found, late = _without_late(found, of, window_end, limit)
    young = total - kept
    console.note(
        f"{kept:,} rows kept; {young:,} whose horizon of {of.horizon} is not over on {day} are left out"
        + (f"; {late:,} events after the horizon do not count" if late else "")
    )
    return found, of


def _weighted(rows: Any, of: Columns, connection: Any, day: dt.date, due: str) -> tuple[Any, Columns]:
    """All rows that can count, young ones weighted for events still to come, and the columns with these weights."""
    import pyarrow as pa

    if of.label_time is None:
        raise Mistake("--young weight", "needs the date of each event", "pass its column with --label-time")
    if of.frequency:
        problem = "does not go with --young weight, whose weights are not counts"
        raise Mistake("--frequency", problem, "leave one of them out")
    label, start = quote(str(of.label), "duckdb"), _moment(rows, str(of.time), "--time")
    if of.several:  # a class that is not known is missing
        known, outcome = f"{label} IS NOT NULL", label
    else:
        _need_numbers(rows, of)
        known, outcome = f"{label} = 1", f"CASE WHEN {label} IS NULL AND NOT ({due}) THEN 0 ELSE {label} END"
    event = _events(rows, of, known)
    ((undated,),) = rows.aggregate(f"count(*) FILTER (WHERE {known} AND {event} IS NULL)").fetchall()
    if undated:
        problem = f"has no date for {undated:,} outcomes that are known"
        raise Mistake(f"the column {of.label_time!r} (--label-time)", problem, "fill it in: weights need every delay")
    place, weight, kept = (_unused(rows, name) for name in ("place", "weight", "kept"))
    numbered = rows.project(f"*, row_number() OVER () AS {quote(place, 'duckdb')}")
    numbered.create("numbered")
    table = connection.table("numbered").order(quote(place, "duckdb"))
    taken = {f"score{k}": f"{quote(name, 'duckdb')}::DOUBLE" for k, name in enumerate(of.scores or ())}
    taken |= {"label": outcome, "start": f"epoch_us({start})", "event": f"coalesce(epoch_us({event}), 0)"}
    if of.weight is not None:
        taken["weight"] = f"{quote(of.weight, 'duckdb')}::DOUBLE"
    by_row = str(of.horizon) in rows.columns
    if by_row:
        taken["days"] = f"{quote(str(of.horizon), 'duckdb')}::DOUBLE"
    got = collect(table.project(", ".join(f"{text} AS {name}" for name, text in taken.items())))
    scores = np.column_stack([got[f"score{k}"] for k in range(len(of.scores or ()))])
    days, kind = WHOLE_DAYS.fullmatch(str(of.horizon).lower()), cast("ScoreType | None", of.score_type)
    try:
        found = select_mature(
            scores if of.several else scores[:, 0],
            got["label"],
            got.get("weight"),
            score_time=got["start"].astype("datetime64[us]"),
            as_of=day,
            horizon=got["days"] if by_row else int(days[1]) if days is not None else str(of.horizon),
            label_time=got["event"].astype("datetime64[us]"),
            how="weight",
            score_type=kind,
        )
    except InputError as problem:
        raise Mistake.of(problem, CommandLine(None if of.several else of.score, of.label)) from None
    console.note(str(found))
    columns = {place: np.flatnonzero(found.keep) + 1, weight: found.sample_weight}
    names = {name: quote(name, "duckdb") for name in rows.columns}
    if not of.several:
        columns[kept], names[str(of.label)] = found.labels, f"{quote(kept, 'duckdb')} AS {label}"
    connection.register("chosen", pa.table(columns))
    listed, by = ", ".join([*names.values(), quote(weight, "duckdb")]), quote(place, "duckdb")
    joined = connection.sql(f"SELECT {listed} FROM numbered JOIN chosen USING ({by}) ORDER BY {by}")
    return joined, replace(of, weight=weight)


def _unused(rows: Any, name: str) -> str:
    """A name that no column has."""
    found = f"calibrant {name}"
    while found in rows.columns:
        found += "_"
    return found


def _need_numbers(rows: Any, of: Columns) -> None:
    if of.positive is not None or type_of(rows, str(of.label)) in ("VARCHAR", "BOOLEAN"):
        raise Mistake("--label-time", "needs labels 0 and 1", "create such a column, or leave --label-time out")


def _events(rows: Any, of: Columns, known: str) -> str:
    """The time of the event, as SQL; each that is known is a date, or is missing."""
    name = str(of.label_time)
    event = _moment(rows, name, "--label-time")
    given = f"nullif(trim({quote(name, 'duckdb')}::VARCHAR), '')"
    unread = rows.filter(f"{known} AND {given} IS NOT NULL AND {event} IS NULL").limit(1).project(given).fetchall()
    if unread:
        problem = f"contains {unread[0][0]!r}, which is not a date"
        raise Mistake(f"the column {name!r} (--label-time)", problem, "write dates as 2025-12-31")
    return event


def _without_late(rows: Any, of: Columns, end: str, limit: str) -> tuple[Any, int]:
    """Rows with label 0 where the event came after the horizon, and their number."""
    _need_numbers(rows, of)
    place = quote(str(of.label), "duckdb")
    event = _events(rows, of, f"{place} = 1")
    after = f"{place} = 1 AND {event} IS NOT NULL AND ({event} > {end} OR {event} > {limit})"
    ((late,),) = rows.aggregate(f"count(*) FILTER (WHERE {after})").fetchall()
    return rows.project(f"* REPLACE (CASE WHEN {after} THEN 0 ELSE {place} END AS {place})"), int(late)


def _day(of: Columns) -> dt.date:
    for option, value in (("--as-of", of.as_of), ("--horizon", of.horizon), ("--time", of.time)):
        if value is None:
            fix = "pass --time with the date of the score, --horizon 12mo and --as-of 2026-12-31"
            raise Mistake(option, "is missing: a horizon needs all three", fix)
    for form in ("%Y-%m-%d", "%d.%m.%Y"):
        with suppress(ValueError):
            return dt.datetime.strptime(str(of.as_of).strip(), form).date()
    raise Mistake(f"--as-of {of.as_of}", "is not a day", "write it as 2026-12-31 or 31.12.2026")


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
    if kind == "DATE":  # DuckDB moves a plain cast into its CSV reader, which then cannot read 31.12.2025
        return f"({place} + INTERVAL 0 DAY)"
    if kind.startswith("TIMESTAMP"):
        return f"{place}::TIMESTAMP"
    raise Mistake(f"the column {name!r} ({option})", "has no dates", "write dates as 2025-12-31")
