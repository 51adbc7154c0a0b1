"""``calibrant apply``: calibrated probabilities beside the scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.renaming import Renamed

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
    groups: list[str]

    def __str__(self) -> str:
        """A sentence or two."""
        unknown = f" or a group of the map in {' and '.join(map(repr, self.groups))}" if self.groups else ""
        missing = f" {self.missing:,} rows without a score{unknown} have none." if self.missing else ""
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
    by: Renamed = None,
    where: options.Where = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Add a column of calibrated probabilities, with a stored map.

    Rows stream through DuckDB: files may be larger than memory, and keep their order and their other columns. A missing
    score gets no probability; a score that the map was not made for is a mistake, and nothing is then written. A map
    by group finds its columns by their names.

    Example:
      calibrant apply new.parquet --map map.json --score p --out scored.parquet
      calibrant apply new.parquet --map map.json --score p --by region=area_code --out scored.parquet
    """
    from calibrant.cli import files as disk
    from calibrant.cli.numbers import refuse_text
    from calibrant.cli.renaming import group_names
    from calibrant.engine import apply as with_map

    inputs = disk.find_files(files)
    disk.check_output(out, list(disk.KINDS), inputs=inputs, force=force)
    calibration = disk.load_map(map_)
    connection, column = disk.connect(), "score" if score is None else score
    groups = group_names(calibration.map.columns, by)
    needed: dict[str, str | None] = {"--score": column}
    needed |= {f"--by {each}=COL": found for each, found in groups.items()}

    def run() -> Written:
        as_text = "Parquet" not in (disk.kind_of(inputs[0]), disk.kind_of(out))  # as written: 007 stays 007
        numbers = [] if as_text else [column]
        rows = disk.read_rows(connection, inputs, needed, numbers=numbers, where=where, as_text=as_text)
        if as_text:
            guessed = disk.read_rows(connection, inputs, {})
            mapped = _over_text(calibration, rows, guessed, column, name, groups)
        else:
            refuse_text(rows, column, "--score")
            mapped = with_map(calibration, rows, column, name=name, by=groups)
        with disk.written(mapped, out) as path:
            return _inspect(connection, path, out, column, name, calibration.kind, list(groups.values()))

    written = console.work(run, connection, words="Writing rows", quiet=quiet or as_json)
    if as_json:
        console.show_json(asdict(written))
    else:
        console.say(str(written))


def _over_text(calibration: Calibration, rows: Any, guessed: Any, score: str, name: str, groups: dict[str, str]) -> Any:
    """The map over scores that stay as they are written; groups as whole numbers where the file holds only those."""
    from calibrant.engine import apply as with_map
    from calibrant.engine.columns import fresh_name
    from calibrant.export.sql import quote

    types = dict(zip(guessed.columns, map(str, guessed.types), strict=True))
    sources = {score: "DOUBLE"} | {column: types[column] for column in groups.values()}
    plain = {column: fresh_name(rows, f"{column} as it is read") for column in sources}
    read = ", ".join(
        f"TRY_CAST({quote(column, 'duckdb')} AS {type_}) AS {quote(plain[column], 'duckdb')}"
        for column, type_ in sources.items()
    )
    by = {group: plain[column] for group, column in groups.items()}
    mapped = with_map(calibration, rows.project(f"*, {read}"), plain[score], name=name, by=by)
    return mapped.project(f"* EXCLUDE ({', '.join(quote(each, 'duckdb') for each in plain.values())})")


def _inspect(connection: Any, path: str, out: str, score: str, name: str, kind: str, groups: list[str]) -> Written:
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
    return Written(out, name, total, total - mapped, before, after, groups)
