"""``calibrant anchor``: shift PDs to a central tendency."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calibrant.cli import console, options


def anchor(
    files: options.Files,
    out: Annotated[str, options.out("Output file of the map: .json.")],
    mean: Annotated[
        float | None,
        typer.Option("--mean", metavar="P", show_default=False, help="Central tendency, such as 0.025 for 2.5 %."),
    ] = None,
    margin: Annotated[
        str,
        options.text("--margin", "P|upper", "Margin of conservatism, added to the mean; upper: to its upper bound."),
    ] = "0",
    score: options.Score = None,
    label: Annotated[
        str | None, options.text("--label", "COL", "Without --mean: column of defaults, for the long-run average.")
    ] = None,
    time: Annotated[
        str | None, options.text("--time", "COL", "Without --mean: column of the year, for the long-run average.")
    ] = None,
    positive: options.Positive = None,
    map_: Annotated[str | None, options.path("--map", "-m", metavar="MAP.json", help_="Apply this map first.")] = None,
    where: options.Where = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Shift PDs to a central tendency, and save the map.

    All log-odds are shifted by one constant. The central tendency is --mean, or with --label and --time the mean of the
    yearly default rates of these rows. The margin of conservatism is added to it. calibrant apply and calibrant export
    use the saved map.

    Example:
      calibrant anchor loans.csv --score pd --mean 0.025 --out anchored.json
      calibrant anchor loans.csv --label bad --time year --out anchored.json
    """
    from calibrant.cli.input.files import check_output, connect, find_files, load_map, read_rows
    from calibrant.cli.input.numbers import refuse_text, with_labels
    from calibrant.cli.voice import Mistake
    from calibrant.credit import anchor as move
    from calibrant.credit import long_run_average
    from calibrant.engine import collect
    from calibrant.export.languages.sql.dialects import quote

    inputs = find_files(files)
    check_output(out, [".json"], inputs=inputs, force=force)
    if (mean is None) == (label is None) or (label is None) != (time is None):
        raise Mistake("the central tendency", "is not defined", "pass --mean, or --label and --time, but not both")
    added = _margin(margin)
    calibration = None if map_ is None else load_map(map_)
    name = score or "score"
    connection = connect()
    named = {"--score": name, "--label": label, "--time": time}
    rows = read_rows(connection, inputs, named, numbers=(name, label), where=where)
    refuse_text(rows, name, "--score")
    place = quote(name, "duckdb")
    values = collect(rows.project(f"{place}::DOUBLE AS s"))["s"]
    target = mean
    average = None
    if label is not None and time is not None:
        rows = with_labels(rows, label, positive)
        average = long_run_average(*_by_year(rows, label, time))
    made = move(values, mean=average if average is not None else target, margin=added, calibration=calibration)  # type: ignore[arg-type]
    made.calibration.save(out)
    if as_json:
        console.show_json(made.to_dict() | {"long_run_average": None if average is None else average.to_dict()})
        return
    if average is not None:
        console.say(f"{average}.")
    console.say(str(made))
    console.say(f"Wrote {out}.")


def _by_year(rows: Any, label: str, time: str) -> tuple[list[int], list[int]]:
    """Rows and defaults of each year."""
    from calibrant.cli.input.groups import year_of
    from calibrant.cli.voice import Mistake
    from calibrant.export.languages.sql.dialects import quote

    y, t = quote(label, "duckdb"), quote(time, "duckdb")
    counted: dict[str, list[int]] = {}
    for value, n, k in rows.aggregate(f"{t} AS t, count(*) AS n, sum({y}::DOUBLE)::BIGINT AS k", t).fetchall():
        year = year_of(value)
        if not year:
            problem = f"has no year in {n:,} lines"
            raise Mistake(f"the column {time!r} (--time)", problem, "fill it in, or exclude them with --where")
        both = counted.setdefault(year, [0, 0])
        both[0], both[1] = both[0] + n, both[1] + k
    ordered = [counted[year] for year in sorted(counted)]
    return [n for n, _ in ordered], [k for _, k in ordered]


def _margin(text: str) -> float | str:
    from calibrant.cli.voice import Mistake

    if text == "upper":
        return text
    try:
        return float(text)
    except ValueError:
        raise Mistake(f"--margin {text}", "is not a number", "pass 0.002 for 0.2 points, or upper") from None
