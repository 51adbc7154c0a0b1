"""``calibrant apply``: calibrated probabilities beside the scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.export.document import Calibration


@dataclass(frozen=True)
class Written:
    """What was written."""

    out: str
    name: str
    rows: int
    missing: int
    mean_score: float | None
    mean_calibrated: float | None

    def __str__(self) -> str:
        """A sentence or two."""
        missing = f" {self.missing:,} rows without a score have none." if self.missing else ""
        means = ""
        if self.mean_score is not None and self.mean_calibrated is not None:
            means = f", mean {self.mean_score:.4g} before and {self.mean_calibrated:.4g} after"
        return f"Wrote {self.rows:,} rows to {self.out} with the column {self.name!r}{means}.{missing}"


def apply(
    files: options.Files,
    map_: Annotated[str, typer.Option("--map", "-m", metavar="MAP.json", help="The map that calibrant fit saved.")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where to write: .parquet or .csv.")],
    score: options.Score = None,
    name: Annotated[str, typer.Option("--name", metavar="COL", help="Name of the new column.")] = "calibrated",
    where: options.Where = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Add a column of calibrated probabilities, with a stored map.

    Rows stream through DuckDB: files may be larger than memory, and keep their order and their other columns. A missing
    score gets no probability; a score that the map was not made for is a mistake, and nothing is then written.

    Example:
      calibrant apply new.parquet --map map.json --score p --out scored.parquet
    """
    from calibrant.cli import files as disk
    from calibrant.cli.numbers import refuse_text
    from calibrant.engine import apply as with_map

    inputs = disk.find_files(files)
    disk.check_output(out, list(disk.KINDS), inputs=inputs, force=force)
    calibration = disk.load_map(map_)
    connection, column = disk.connect(), "score" if score is None else score

    def run() -> Written:
        as_text = "Parquet" not in (disk.kind_of(inputs[0]), disk.kind_of(out))  # as written: 007 stays 007
        numbers = [] if as_text else [column]
        rows = disk.read_rows(connection, inputs, {"--score": column}, numbers=numbers, where=where, as_text=as_text)
        if as_text:
            mapped = _over_text(calibration, rows, column, name)
        else:
            refuse_text(rows, column, "--score")
            mapped = with_map(calibration, rows, column, name=name)
        with disk.written(mapped, out) as path:
            return _inspect(connection, path, out, column, name, calibration.kind)

    written = console.work(run, connection, words="Writing rows", quiet=quiet or as_json)
    if as_json:
        console.show_json(asdict(written))
    else:
        console.say(str(written))


def _over_text(calibration: Calibration, rows: Any, score: str, name: str) -> Any:
    """The map over scores that stay as they are written."""
    from calibrant.engine import apply as with_map
    from calibrant.engine.columns import fresh_name
    from calibrant.export.sql import quote

    number = fresh_name(rows, "score as a number")
    read = rows.project(f"*, TRY_CAST({quote(score, 'duckdb')} AS DOUBLE) AS {quote(number, 'duckdb')}")
    return with_map(calibration, read, number, name=name).project(f"* EXCLUDE ({quote(number, 'duckdb')})")


def _inspect(connection: Any, path: str, out: str, score: str, name: str, kind: str) -> Written:
    """Look at what was written; refuse scores that the map was not made for, which SQL holds at its ends in silence."""
    from calibrant.cli.files import kind_of, read_rows
    from calibrant.cli.numbers import text_found
    from calibrant.cli.wording import Mistake
    from calibrant.export.sql import quote

    rows = read_rows(connection, [path], {}, as_text=kind_of(path) != "Parquet")
    s, p = (f"TRY_CAST({quote(column, 'duckdb')} AS DOUBLE)" for column in (score, name))
    text = f"any_value({quote(score, 'duckdb')}) FILTER (WHERE {s} IS NULL)"  # of what is not NULL itself
    outside = f"NOT isnan({s}) AND ({s} < 0 OR {s} > 1)" if kind == "probability" else f"isinf({s})"
    finite = f"FILTER (WHERE isfinite({s}))"
    sums = f"count(*), count({p}), avg({s}) {finite}, avg({p}), count(*) FILTER (WHERE {outside}), min({s}), max({s})"
    ((total, mapped, before, after, bad, low, high, word),) = rows.aggregate(f"{sums}, {text}").fetchall()
    if word is not None:
        raise text_found(score, "--score", word)
    if bad:
        raise Mistake(
            f"{bad:,} of {total:,} scores in {score!r} are outside what the map was fitted on, {kind} scores (they "
            f"reach from {low:g} to {high:g}): name the right column with --score, or leave rows out with --where"
        )
    return Written(out, name, total, total - mapped, before, after)
