"""``calibrant grades``: test the defaults of rating grades against their PDs, by segment and year."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.exits import Exit

if TYPE_CHECKING:
    from calibrant.credit import GradePanel

SUFFIXES = [".csv", ".xlsx", ".html", ".json"]
EXITS = {"green": Exit.CALIBRATED, "yellow": Exit.OFF, "red": Exit.MISCALIBRATED, "none": Exit.CANNOT_TELL}
STYLES = {"green": "bold green", "yellow": "bold yellow", "red": "bold red", "none": "bold"}


class Decimal(StrEnum):
    """Decimal marks."""

    comma = ","
    point = "."


class FailOn(StrEnum):
    """Parts of the data that can make the command fail."""

    grades = "grades"
    parts = "parts"


def grades(
    files: options.Files,
    grade: Annotated[str, options.text("--grade", "COL", "Column with the grade. [default: grade]")] = "grade",
    pd: Annotated[str | None, options.text("--pd", "COL", "Column of PDs. [default: pd]")] = None,
    n: Annotated[str | None, options.text("--n", "COL", "Column with the number of borrowers. [default: n]")] = None,
    defaults: Annotated[
        str | None, options.text("--defaults", "COL", "Column with the number of defaults. [default: defaults]")
    ] = None,
    score: Annotated[
        str | None, options.text("--score", "COL", "One line for each borrower: column of PDs; needs --label.")
    ] = None,
    label: Annotated[
        str | None, options.text("--label", "COL", "One line for each borrower: column of defaults.")
    ] = None,
    positive: options.Positive = None,
    by: options.By = None,
    time: Annotated[str | None, options.text("--time", "COL", "Column with the year.")] = None,
    correlation: Annotated[
        float | None,
        typer.Option("--correlation", metavar="R", help="Asset correlation; adds tests for correlated defaults."),
    ] = None,
    year_correlation: Annotated[
        float | None,
        typer.Option(
            "--year-correlation",
            metavar="R",
            help="With --correlation: each year has its own factor; correlation of those of neighboring years. "
            "[default: 0, independent]",
        ),
    ] = None,
    decimal: Annotated[
        Decimal | None, typer.Option("--decimal", show_default=False, help="Decimal mark of a CSV. [default: detected]")
    ] = None,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option("--fail-on", help="Exit with 13 if a grade, or a segment or year (parts), has too many defaults."),
    ] = None,
    where: options.Where = None,
    out: Annotated[str | None, options.out("Output file: .csv, .xlsx, .html or .json.")] = None,
    title: Annotated[str | None, options.text("--title", "TEXT", "Title of the HTML page.")] = None,
    meta: options.Meta = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test the defaults of rating grades against their PDs.

    The file has a line for each grade (and year, and segment) with borrowers, defaults and PD; or a line for each
    borrower (--score, --label). CSV may have decimal commas, percent signs and semicolons. The output has exact
    binomial and Jeffreys tests, Holm's correction and traffic lights by grade, segment (--by) and year (--time), and a
    test of the portfolio. --correlation adds tests for correlated defaults, in which years are independent of each
    other, or correlated by --year-correlation. If there is no default, upper bounds of the PDs are shown. The HTML page
    (--title, --meta) prints on A4.

    Exit code, by the light of the portfolio (for correlated defaults if --correlation is given): 0 green, 12 yellow,
    10 red, 11 no borrowers, 1 input error, 2 usage error. With --fail-on it is 13 if the portfolio is green but a part
    has too many defaults, at 5 % after Holm's correction.

    Example:
      calibrant grades grades.csv --defaults d --time year --out lights.html
      calibrant grades loans.csv --score pd --label default --grade grade
    """
    from calibrant.cli.input.files import check_output, find_files
    from calibrant.cli.voice import Mistake
    from calibrant.credit import grade_panel

    found = find_files(files)
    if out is not None:
        check_output(out, SUFFIXES, inputs=found, force=force)
    about = options.pairs(meta)
    if year_correlation is not None and correlation is None:
        raise Mistake("--year-correlation", "needs --correlation", "pass both, or leave it out")
    if (title or about) and not (out or "").lower().endswith(".html"):
        raise Mistake("--title or --meta", "needs a page to stand on", "pass --out PAGE.html, or leave them out")
    rows = score is not None or label is not None
    taken = [option for option, name in (("--pd", pd), ("--n", n), ("--defaults", defaults)) if name is not None]
    if rows and taken:
        problem = "is for lines with counts, and --score and --label are for single borrowers"
        raise Mistake(taken[0], problem, "leave one out")
    names = {"--grade": grade, "--time": time} | {f"--by ({each})": each for each in by or ()}
    if rows:
        cells = _from_rows(found, score or "score", label or "label", positive, names, where, decimal)
    else:
        given = {"--pd": pd or "pd", "--n": n or "n", "--defaults": defaults or "defaults"}
        cells = _from_counts(found, given, names, where, decimal)
    segments = [", ".join(each) for each in zip(*(cells[f"--by ({name})"] for name in by), strict=True)] if by else None
    panel = grade_panel(
        cells["--n"],
        cells["--defaults"],
        cells["--pd"],
        grade=cells["--grade"],
        year=cells["--time"] if time is not None else None,
        segment=segments,
        correlation=correlation,
        year_correlation=year_correlation or 0.0,
    )
    if out is not None:
        files_read = {"file": ", ".join(os.path.basename(path) for path in found)}
        _write(panel, out, title or "Rating grades", about | files_read)
    if as_json:
        console.show_json(panel.to_dict())
    else:
        _show(panel)
        if out is not None:
            console.say(f"Wrote {out}.")
    raise typer.Exit(_exit(panel, fail_on or ()))


# -------------------------------------------------------------------------------------------------------------- reading


def _from_counts(
    files: Sequence[str], given: dict[str, str], names: dict[str, str | None], where: str | None, decimal: str | None
) -> dict[str, list[Any]]:
    """Columns of lines with counts."""
    from calibrant.cli.input.decimals import read_localized
    from calibrant.cli.input.files import connect, kind_of, read_rows
    from calibrant.cli.input.numbers import refuse_text, type_of
    from calibrant.cli.input.sheets import is_total
    from calibrant.cli.voice import Mistake

    connection = connect()
    text = kind_of(files[0]) in ("CSV", "TSV")
    rows = read_rows(connection, files, {**given, **names}, where=where, as_text=text)
    whole = [given["--n"], given["--defaults"]]
    rows = read_localized(rows, given.values(), counts=whole, decimal=decimal)
    for option, name in given.items():
        if type_of(rows, name) == "VARCHAR":
            refuse_text(rows, name, option)
    found = _columns(rows, given, names)
    if is_total(found["--grade"][-1:]):
        console.note(f"the last line, {found['--grade'][-1]!r}, is a total, and is left out")
        found = {option: column[:-1] for option, column in found.items()}
    for option, name in given.items():
        missing = next((place for place, value in enumerate(found[option]) if value is None), None)
        if missing is not None:
            raise Mistake(
                f"the column {name!r} ({option})",
                f"is empty in line {missing + 1} of the table (grade {found['--grade'][missing]})",
                "fill it in, or exclude the line with --where",
            )
    for option in ("--n", "--defaults"):
        wrong = next((value for value in found[option] if value < 0 or value != int(value)), None)
        if wrong is not None:
            problem = f"contains {wrong:g}, which is not a count"
            raise Mistake(f"the column {given[option]!r}", problem, "write integers from 0 up")
    big = next((value for value in found["--pd"] if not 0.0 <= value <= 1.0), None)
    if big is not None:
        fix = "divide by 100, or write a percent sign"
        raise Mistake(f"the column {given['--pd']!r} (--pd)", f"contains {big:g}, outside 0 to 1", fix)
    over = next((j for j, (k, n) in enumerate(zip(found["--defaults"], found["--n"], strict=True)) if k > n), None)
    if over is not None:
        raise Mistake(
            f"grade {found['--grade'][over]}",
            f"has {found['--defaults'][over]:g} defaults and {found['--n'][over]:g} borrowers",
            "check --n and --defaults",
        )
    return found


def _from_rows(
    files: Sequence[str],
    score: str,
    label: str,
    positive: str | None,
    names: dict[str, str | None],
    where: str | None,
    decimal: str | None,
) -> dict[str, list[Any]]:
    """Counts from lines of single borrowers: the PD of a grade is the mean over its borrowers."""
    from calibrant.cli.input.files import connect, read_rows
    from calibrant.cli.input.numbers import refuse_text, with_labels
    from calibrant.cli.voice import Mistake
    from calibrant.export.languages.sql.dialects import quote

    connection = connect()
    needed = {"--score": score, "--label": label} | names
    rows = read_rows(connection, files, needed, numbers=(score, label), where=where, decimal=decimal)
    refuse_text(rows, score, "--score")
    rows = with_labels(rows, label, positive)
    s, y = quote(score, "duckdb"), quote(label, "duckdb")
    wrong = f"{s} IS NULL OR NOT (isfinite({s}::DOUBLE) AND {s}::DOUBLE BETWEEN 0 AND 1)"
    ((bad,),) = rows.aggregate(f"count(*) FILTER (WHERE {wrong})").fetchall()
    if bad:
        problem = f"have no PD between 0 and 1 in the column {score!r}"
        raise Mistake(f"{bad:,} lines", problem, "fix them, or exclude them with --where")
    keys = ", ".join(dict.fromkeys(quote(name, "duckdb") for name in names.values() if name is not None))
    counted = rows.aggregate(
        f'{keys}, count(*)::DOUBLE AS "n ", sum({y}::DOUBLE) AS "defaults ", avg({s}::DOUBLE) AS "pd "', keys
    )
    return _columns(counted, {"--pd": "pd ", "--n": "n ", "--defaults": "defaults "}, names)


def _columns(rows: Any, numbers: Mapping[str, str], names: Mapping[str, str | None]) -> dict[str, list[Any]]:
    """Numbers as floats and names as text by option, in order of the lines; of a date in the time column, its year."""
    from calibrant.cli.input.groups import name_of, year_of
    from calibrant.export.languages.sql.dialects import quote

    wanted = list(numbers.values())
    texts = [name for name in dict.fromkeys(names.values()) if name is not None]
    parts = [f"{quote(name, 'duckdb')}::DOUBLE" for name in wanted] + [quote(name, "duckdb") for name in texts]
    lines = rows.project(", ".join(f"{part} AS c{place}" for place, part in enumerate(parts))).fetchall()
    columns = list(zip(*lines, strict=True))
    found: dict[str, list[Any]] = {key: list(columns[place]) for place, key in enumerate(numbers)}
    for option, name in names.items():
        if name is not None:
            read = year_of if option == "--time" else name_of
            found[option] = [read(value) for value in columns[len(wanted) + texts.index(name)]]
    return found


# -------------------------------------------------------------------------------------------------------------- results


def _show(panel: GradePanel) -> None:
    """Print the verdict in a line, and the tables."""
    console.say(panel.whole.sentence, STYLES[panel.whole.light])
    console.put(f"\n{panel}\n")


def _write(panel: GradePanel, out: str, title: str, about: dict[str, str]) -> None:
    import json

    from calibrant.cli.input.sheets import write_sheets
    from calibrant.export.files import write_whole

    kind = out.lower().rsplit(".", 1)[1]
    if kind == "csv":
        panel.to_csv(out)
    elif kind == "html":
        write_whole(out, panel.to_html(title, about))
    elif kind == "json":
        write_whole(out, json.dumps(panel.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        sheets: dict[str, Any] = {"grades": panel.records()}
        for segment in ("all", *panel.segments) if panel.years else ():
            lights = zip((*panel.grades, "portfolio"), panel.lights(segment), strict=True)
            sheets[f"lights {segment}"] = [
                {"grade": name} | dict(zip(panel.years, row, strict=True)) for name, row in lights
            ]
        write_sheets(out, sheets)


def _exit(panel: GradePanel, fail_on: Sequence[FailOn]) -> Exit:
    """The exit code of the portfolio's light, or that of a part that is off if the light is green."""
    from calibrant.metrics.multiplicity import holm

    whole = panel.whole
    code = EXITS[whole.light]
    adjusted = whole.holm_p if whole.correlated_p is None else holm(whole.correlated_p)
    off = {
        FailOn.grades: bool((adjusted <= 0.05).any()),
        FailOn.parts: bool(panel.off_parts),
    }
    return Exit.PART_OFF if code == Exit.CALIBRATED and any(off[part] for part in fail_on) else code
