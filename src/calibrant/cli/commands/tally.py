"""``calibrant tally``: rows into counts, for a store or for people without Python."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.cli.tallying import Counted

MOST_SEGMENTS = 20
PART = "With --store: the rows are this part of each day, as a country or an hour; other parts stay."


class Every(StrEnum):
    """How long a stretch of time is."""

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
    counts: options.Counts = False,
    by: options.By = None,
    time: options.Time = None,
    every: Annotated[
        Every | None, typer.Option("--every", help="Length of the stretches of --time.  [default: 1d]")
    ] = None,
    positive: options.Positive = None,
    kind: options.Kind = None,
    where: options.Where = None,
    store: Annotated[str | None, options.path("--store", metavar="DIR", help_="Add to this tally store.")] = None,
    day: Annotated[str | None, typer.Option("--day", metavar="DAY", help="With --store: the day of all rows.")] = None,
    part: Annotated[str | None, options.text("--part", "NAME", PART)] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --store: put these rows in place of whole days that are there.")
    ] = False,
    out: Annotated[str | None, options.out("Write the counts as a table: .csv or .parquet.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Count rows by score, after which they are not needed any more.

    Counts of days and segments add up exactly. A tally store keeps them, and check, fit and report take its folder in
    place of files; --out writes them as a plain table. Several jobs that write one day give their rows a --part each.

    Example:
      calibrant tally rows.parquet --by country --store tallies --day 2026-03-01
      calibrant tally eu.parquet --store tallies --day 2026-03-01 --part eu
    """
    from calibrant.cli import files as disk
    from calibrant.cli.source import Rows
    from calibrant.cli.tallying import Counted, open_store
    from calibrant.cli.voice import Mistake
    from calibrant.engine.store.files import check_part

    if out is not None:
        disk.check_output(out, list(disk.KINDS), inputs=disk.find_files(files), force=force)
    elif force:
        raise Mistake("--force", "goes with --out", "name the file to overwrite")
    if store is None:
        beside = {"--replace": replace, "--day": day, "--part": part}
        alone = next((option for option, value in beside.items() if value), None)
        if alone is not None:
            raise Mistake(alone, "goes with --store", "name the folder of a tally store")
    if every is not None and time is None:
        raise Mistake("--every", "cuts the column of --time", "name it")
    check_part(part)
    kept = None if store is None else open_store(store, by, kind, day, time, every)
    columns = options.Columns(
        score, label, weight, counts, by or (list(kept.by) if kept else None), time, None, positive, kind, where
    )
    rows = Rows(files, columns, quiet=quiet or as_json)
    counted = rows.run(lambda: Counted.of(rows, "1d" if every is None else every.value, kept))
    days = None if kept is None else counted.add_to(kept, day, part, replace)
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


def _show(counted: Counted) -> None:
    """A line for everything, and one for each segment when they are few."""
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
