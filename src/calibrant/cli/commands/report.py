"""``calibrant report``: write a calibration report."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from calibrant.cli import console, options


class Style(StrEnum):
    """Vocabulary of the report."""

    general = "general"
    credit = "credit"
    clinical = "clinical"


def report(
    files: options.Inputs,
    out: Annotated[str, options.out("Output file: .html, .md or .json.")],
    style: Annotated[Style, typer.Option("--style", help="Vocabulary.")] = Style.general,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title of the report.")] = None,
    notion: options.Notion = None,
    *,
    columns: options.Columns,
    days: options.DayRange,
    tolerance: options.Tolerance = "0.2",
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a calibration report on one page.

    It contains the verdict, a plot, tables by score, segment and period, losses, calibration errors and tests. HTML is
    self-contained; Markdown and JSON are also available. The numbers are the same in all styles. The plot in HTML needs
    matplotlib: pip install "calibrant[plot]".

    Example:
      calibrant report rows.parquet --score p --label bad --out report.html
      calibrant report rows.csv --score 'p_*' --label species --out report.html
    """
    from calibrant.cli.files import check_output
    from calibrant.cli.source import open_source
    from calibrant.reporting import report as write

    limits = options.tolerance_of(tolerance)
    check_output(out, [".html", ".md", ".json"], force=force)
    source = open_source(files, columns, days, quiet=quiet or as_json)

    made = source.run(
        lambda: write(
            source.data,
            **source.options,
            **source.by,
            tolerance=limits,
            random_state=seed,
            style=style.value,
            title=title,
            notion=None if notion is None else notion.value,
            path=out,
        )
    )
    if as_json:
        console.show_json(made.to_dict())
    else:
        console.say(made.numbers["verdict"]["headline"])
        console.say(f"Wrote {out}.")
