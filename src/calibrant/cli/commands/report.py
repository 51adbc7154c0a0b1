"""``calibrant report``: write a calibration report."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from calibrant.cli import console, options


class Style(StrEnum):
    """Vocabulary of the report."""

    general = "general"
    credit = "credit"
    clinical = "clinical"
    llm = "llm"


def report(
    files: options.Inputs,
    out: Annotated[str, options.out("Output file: .html, .md or .json.")],
    style: Annotated[Style, typer.Option("--style", help="Vocabulary.")] = Style.general,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title of the report.")] = None,
    notion: options.Notion = None,
    event: options.Event = None,
    grade: Annotated[
        str | None, options.text("--grade", "COL", "Column of rating grades, for the traffic lights.")
    ] = None,
    map_: Annotated[
        str | None, options.path("--map", "-m", metavar="MAP.json", help_="Report on the scores after this map.")
    ] = None,
    meta: options.Meta = None,
    reference: Annotated[
        str | None,
        options.path("--reference", help_="Earlier sample with the same columns: adds PSI and the change of the Gini."),
    ] = None,
    borrower: Annotated[
        str | None, options.text("--borrower", "COL", "With --reference and --grade: borrower, for the migration.")
    ] = None,
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
      calibrant report loans.csv --style credit --grade grade --out pd.html
      calibrant report 2025.csv --style credit --reference 2020.csv --out pd.html
    """
    from calibrant.cli.input.files import check_output, load_map
    from calibrant.cli.input.source import Rows, open_source
    from calibrant.cli.voice import Mistake
    from calibrant.reporting import report as write

    limits = options.tolerance_of(tolerance)
    check_output(out, [".html", ".md", ".json"], force=force)
    facts = options.pairs(meta)
    calibration = None if map_ is None else load_map(map_)
    if grade is not None:
        columns = replace(columns, by=list(dict.fromkeys([*(columns.by or ()), grade])))
    source = open_source(files, columns, days, quiet=quiet or as_json)
    if grade is not None and not isinstance(source, Rows):
        raise Mistake("--grade", "needs rows, and this is a tally store", "leave it out")
    if reference is not None and not isinstance(source, Rows):
        raise Mistake("--reference", "needs rows, and this is a tally store", "leave it out")
    if borrower is not None and (reference is None or grade is None):
        raise Mistake("--borrower", "needs --reference and --grade", "pass both, or leave it out")
    earlier = None
    if reference is not None:
        alone = replace(columns, by=None if grade is None else [grade], time=None, groups=None)
        earlier = Rows([reference], alone, {"--borrower": borrower}, quiet=quiet or as_json).data

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
            event=event,
            calibration=calibration,
            grade=grade,
            meta=facts,
            reference=earlier,
            borrower=borrower,
            path=out,
        )
    )
    if as_json:
        console.show_json(made.to_dict())
    else:
        console.say(made.headline)
        console.say(f"Wrote {out}.")
