"""``calibrant tally``: count rows by score, into a store or a table."""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.cli.tallying import Counted
    from calibrant.engine import TallyStore

MOST_SEGMENTS = 20
REVIEWED = 28
"""Number of days that are compared with each other after a day was added."""

PART = "With --store: name of this part of the day, such as a country or an hour; other parts are kept."


class Every(StrEnum):
    """Length of a time period."""

    second = "1s"
    minute = "1m"
    hour = "1h"
    day = "1d"
    month = "1mo"
    quarter = "1q"
    year = "1y"


def tally(
    files: options.Files,
    score: options.Score = None,
    label: options.Label = None,
    weight: options.Weight = None,
    frequency: options.Frequency = False,
    by: options.By = None,
    time: options.Time = None,
    every: Annotated[
        Every | None, typer.Option("--every", help="Length of the periods of --time.  [default: 1d]")
    ] = None,
    positive: options.Positive = None,
    score_type: options.ScoreType = None,
    where: options.Where = None,
    store: Annotated[str | None, options.path("--store", metavar="DIR", help_="Tally store to add to.")] = None,
    day: Annotated[str | None, typer.Option("--day", metavar="DAY", help="With --store: day of all rows.")] = None,
    part: Annotated[str | None, options.text("--part", "NAME", PART)] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --store: replace days that are already there.")
    ] = False,
    open_days: Annotated[
        int,
        typer.Option(
            "--open-days", metavar="N", min=0, help="With --store: replace the last N days, whose labels came late."
        ),
    ] = 0,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=1, help="With --store: delete days before the last N days."),
    ] = None,
    out: Annotated[str | None, options.out("File for the counts as a table: .csv or .parquet.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Count rows by score, to use the counts in place of the rows.

    Counts of days and segments add up exactly. A tally store keeps them, and check, fit and report accept its folder in
    place of files; --out writes them as a table. If several jobs write the same day, each needs a --part.

    Example:
      calibrant tally rows.parquet --by country --store tallies --day 2026-03-01
      calibrant tally eu.parquet --store tallies --day 2026-03-01 --part eu
    """
    from calibrant.cli.input import files as disk
    from calibrant.cli.input.source import Rows
    from calibrant.cli.tallying import Counted, open_store
    from calibrant.cli.voice import CommandLine, Mistake
    from calibrant.engine.store.days import days_missing
    from calibrant.engine.store.files import check_part

    if out is not None:
        disk.check_output(out, list(disk.KINDS), inputs=disk.find_files(files), force=force)
    elif force:
        raise Mistake("--force", "needs --out", "pass the file to overwrite")
    if store is None:
        beside = {"--replace": replace, "--day": day, "--part": part, "--open-days": open_days, "--keep": keep}
        alone = next((option for option, value in beside.items() if value), None)
        if alone is not None:
            raise Mistake(alone, "needs --store", "pass the folder of a tally store")
    if every is not None and time is None:
        raise Mistake("--every", "needs --time", "pass the time column")
    check_part(part)
    kept = None if store is None else open_store(store, by, score_type, day, time, every)
    columns = options.Columns(
        None if score is None else [score],
        label,
        weight,
        frequency,
        by or (list(kept.by) if kept else None),
        time,
        None,
        positive,
        score_type,
        where,
    )
    rows = Rows(files, columns, quiet=quiet or as_json)
    counted = rows.run(lambda: Counted.of(rows, "1d" if every is None else every.value, kept))
    days = None if kept is None else counted.add_to(kept, day, part, replace, open_days)
    if kept is not None and days is not None:
        if keep is not None:
            days["deleted"] = _expire(kept, keep)
        for remark in kept.review(max(kept.days[0], kept.days[-1] - timedelta(days=REVIEWED - 1))):
            if remark.code != days_missing.code:  # check and fit report them
                console.note(remark.say(CommandLine()))
    if out is not None:
        with disk.written(counted.table(rows.connection), out):
            pass
    if as_json:
        console.show_json(counted.summary() | ({} if days is None else {"store": store, "part": part, "days": days}))
        return
    _show(counted)
    for what, which in (days or {}).items():
        if which:
            span = ", ".join(which) if len(which) < 4 else f"{len(which)} days from {which[0]} to {which[-1]}"
            named = "" if part is None else f", part {part}"
            console.say(f"Store {store}, {what}{named}: {span}.")
    if out is not None:
        console.say(f"Wrote {out}.")


def _expire(store: TallyStore, keep: int) -> list[str]:
    """Delete days before the last ``keep`` days, and return them.

    They are counted back from the last day up to tomorrow: one wrong time in the future must not empty the store.
    """
    limit = date.today() + timedelta(days=1)  # tomorrow is today elsewhere
    past = [day for day in store.days if day <= limit]
    future = store.days[len(past) :]
    if future:
        those = f"{future[0]}" if len(future) == 1 else f"{len(future)} days from {future[0]} to {future[-1]}"
        counted = f"--keep counts back from {past[-1]}" if past else "--keep deletes nothing"
        console.note(f"the store has days in the future ({those}): {counted}; check the times of the rows")
    return list(map(str, store.drop_before(past[-1] - timedelta(days=keep - 1)))) if past else []


def _show(counted: Counted) -> None:
    """A line for all rows, and one for each segment if there are few."""
    summary = counted.summary()
    lines = [("all", summary)]
    if len(summary["segments"]) <= MOST_SEGMENTS:
        lines += [(", ".join(map(str, each["segment"].values())), each) for each in summary["segments"]]
    rows = [
        [
            name,
            f"{each['rows']:,.12g}",
            f"{each['events']:,.12g}",
            f"{each['events'] / each['rows']:.4g}" if each["rows"] else "",
            f"{each['mean_score']:.4g}" if each["mean_score"] is not None else "",
            f"{each['cells']:,}",
        ]
        for name, each in lines
    ]
    head = [", ".join(counted.names), "rows", "events", "event rate", "mean score", "cells"]
    console.table("", head, rows)
    if len(summary["segments"]) > MOST_SEGMENTS:
        console.say(f"  {len(summary['segments']):,} segments; --out writes them all.")
