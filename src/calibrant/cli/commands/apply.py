"""``calibrant apply``: add a column of calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.renaming import Renamed
from calibrant.messages import listed

if TYPE_CHECKING:
    from calibrant.calibration import Calibration
    from calibrant.cli.input.groups import Unlisted


@dataclass(frozen=True)
class Written:
    """Summary of the file written."""

    out: str
    columns: list[str]
    rows: int
    missing: int
    mean_score: float | None
    mean_calibrated: float | None
    groups: list[str] = field(default_factory=list)
    unlisted: list[Unlisted] = field(default_factory=list)

    def __str__(self) -> str:
        """One or two sentences."""
        unknown = f" or a group of the map in {' and '.join(map(repr, self.groups))}" if self.groups else ""
        missing = f" {self.missing:,} rows without a score{unknown} have no probability." if self.missing else ""
        means = ""
        if self.mean_score is not None and self.mean_calibrated is not None:
            means = f", mean {self.mean_score:.4g} before and {self.mean_calibrated:.4g} after"
        other = "".join(f" {each}" for each in self.unlisted)
        names = [repr(each) for each in self.columns]
        added = f"column {names[0]}" if len(names) == 1 else f"columns {listed(names)}"
        return f"Wrote {self.rows:,} rows to {self.out} with the {added}{means}.{missing}{other}"


def apply(
    files: options.Files,
    map_: Annotated[str, options.path("--map", "-m", metavar="MAP.json", help_="Map saved by calibrant fit.")],
    out: Annotated[str, options.out("Output file: .parquet or .csv.")],
    score: options.Scores = None,
    name: Annotated[
        str, typer.Option("--name", metavar="COL", help="Name of the new column, or its start for several classes.")
    ] = "calibrated",
    by: Renamed = None,
    allow_unlisted: Annotated[
        bool, typer.Option("--allow-unlisted", help="Continue even if no row has a group that the map lists.")
    ] = False,
    where: options.Where = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Add a column of calibrated probabilities to a file.

    The map was saved by calibrant fit. Rows stream through DuckDB: files may be larger than memory, and rows keep their
    order and other columns. A missing score gets no probability. If a score is outside the range of the map, the
    command fails and nothing is written. A map by group finds its columns by name, and reports rows with a group that
    it does not list. A map of several classes finds its columns by the names that it was fitted with, or takes them
    from --score, repeated in the order of the classes. It adds a column for each class, such as calibrated_cat.

    Example:
      calibrant apply new.parquet --map map.json --score p --out scored.parquet
      calibrant apply new.csv --map map.json --by region=area --out scored.csv
    """
    from calibrant.cli.input import files as disk
    from calibrant.cli.input.groups import key_of, number_of, unlisted
    from calibrant.cli.input.numbers import refuse_text, type_of
    from calibrant.cli.renaming import groups_of
    from calibrant.export.languages.sql.dialects import quote

    inputs = disk.find_files(files)
    disk.check_output(out, list(disk.KINDS), inputs=inputs, force=force)
    calibration = disk.load_map(map_, several=True)
    connection, given = disk.connect(), score_columns(calibration, score)
    groups = groups_of(calibration, by)
    column = given[0]
    needed: dict[str, str | None] = {"--score" if j == 0 else f"--score ({each})": each for j, each in enumerate(given)}
    needed |= {f"--by {each}=COL": found for each, found in groups.items()}

    def run() -> Written:
        as_text = "Parquet" not in (disk.kind_of(inputs[0]), disk.kind_of(out))  # keep text unchanged: 007 stays 007
        numbers = [] if as_text else given
        whole = [groups[each] for each in calibration.map.numbers]
        rows = disk.read_rows(connection, inputs, needed, numbers=numbers, whole=whole, where=where, as_text=as_text)
        for each in [] if as_text else given:
            refuse_text(rows, each, "--score")
        typed = disk.read_rows(connection, inputs, {}) if as_text and groups else rows
        keys = {
            each: number_of(rows, each, f"--by {of}=COL")
            if of in calibration.map.numbers
            else key_of(rows, each, type_of(typed, each), f"--by {of}=COL")
            for of, each in groups.items()
        }
        others = unlisted(rows, calibration.map, groups, keys, allowed=allow_unlisted)
        read = keys | ({each: f"TRY_CAST({quote(each, 'duckdb')} AS DOUBLE)" for each in given} if as_text else {})
        if calibration.classes:
            _check_class_rows(rows, given, calibration.score_type)
            names = [f"{name}_{output}" for output in calibration.map.outputs]
            with disk.written(_mapped_classes(calibration, rows, given, names, groups, read), out):
                ((total, mapped),) = rows.aggregate(f"count(*), count(*) FILTER (WHERE {_complete(given)})").fetchall()
            return Written(out, names, total, total - mapped, None, None, list(groups.values()), others)
        with disk.written(_mapped(calibration, rows, column, name, groups, read), out) as path:
            written = _inspect(connection, path, out, column, name, calibration.score_type)
        return replace(written, groups=list(groups.values()), unlisted=others)

    written = console.work(run, connection, words="Writing rows", quiet=quiet or as_json)
    if as_json:
        console.show_json(asdict(written))
    else:
        console.say(str(written))


def score_columns(calibration: Calibration, score: list[str] | None) -> list[str]:
    """The columns of scores: as given, or by the names at the fit."""
    from calibrant.cli.voice import Mistake

    if not calibration.classes:
        if score is not None and len(score) > 1:
            raise Mistake("--score", "was given several times, and the map is of one score", "pass one column")
        return ["score"] if score is None else score
    at_fit = getattr(calibration.provenance, "columns", ()) or calibration.classes
    if score is not None and len(score) != len(calibration.classes):
        raise Mistake(
            "--score",
            f"was given {len(score)} times, and the map has {len(calibration.classes)} classes",
            f"pass a column for each of {', '.join(calibration.classes[:5])}, or leave it out",
        )
    return list(at_fit) if score is None else score


def _complete(scores: list[str]) -> str:
    """The condition that no score of a row is missing."""
    from calibrant.export.languages.sql.dialects import quote

    found = [f"TRY_CAST({quote(each, 'duckdb')} AS DOUBLE)" for each in scores]
    return " AND ".join(f"{each} IS NOT NULL AND NOT isnan({each})" for each in found)


def _check_class_rows(rows: Any, scores: list[str], kind: str) -> None:
    """Reject text, and scores outside the range that the map expects, for which SQL gives NULL."""
    from calibrant.cli.input.numbers import text_found
    from calibrant.cli.voice import Mistake
    from calibrant.export.languages.sql.dialects import quote

    for name in scores:
        place = quote(name, "duckdb")
        s = f"TRY_CAST({place} AS DOUBLE)"
        outside = f"isinf({s})" if kind == "logit" else beyond(s)
        text = f"any_value({place}) FILTER (WHERE {s} IS NULL)"
        ((bad, low, high, word),) = rows.aggregate(
            f"count(*) FILTER (WHERE {outside}), min({s}), max({s}), {text}"
        ).fetchall()
        if word is not None and str(word).strip():
            raise text_found(name, "--score", str(word))
        if bad:
            raise Mistake(
                f"the column {name!r}",
                f"has {bad:,} scores outside the range of {kind} scores that the map expects (they range from {low:g} "
                f"to {high:g})",
                "pass the right columns with --score, or exclude rows with --where",
            )
    if kind != "probability":
        return
    total = " + ".join(f"TRY_CAST({quote(each, 'duckdb')} AS DOUBLE)" for each in scores)
    off = f"count(*) FILTER (WHERE {_complete(scores)} AND abs({total} - 1) > 0.01)"
    ((wrong,),) = rows.aggregate(off).fetchall()
    if wrong:
        raise Mistake(
            "the columns of --score", f"do not sum to 1 in {wrong:,} rows", "pass the probability of every class"
        )


def beyond(s: str) -> str:
    """A number is not a probability, by more than rounding."""
    from calibrant.arrays.score_types import PROBABILITY_ENDS

    low, high = PROBABILITY_ENDS
    return f"NOT isnan({s}) AND ({s} < {low!r} OR {s} > {high!r})"


def _mapped_classes(
    calibration: Calibration,
    rows: Any,
    scores: list[str],
    names: list[str],
    groups: dict[str, str],
    read: Mapping[str, str],
) -> Any:
    """The map of several classes, as one SQL expression for each new column."""
    from calibrant.cli.voice import Mistake
    from calibrant.engine.columns import fresh_name
    from calibrant.export.languages.sql.dialects import quote

    taken = next((name for name in names if name in rows.columns), None)
    if taken is not None:
        raise Mistake("--name", f"would add the column {taken!r}, which exists", "pass another start with --name")
    plain = {column: fresh_name(rows, f"{column} as it is read") for column in read}
    more = ", ".join(f"{text} AS {quote(plain[column], 'duckdb')}" for column, text in read.items())
    given = rows.project(f"*, {more}") if read else rows
    by = {group: plain[column] for group, column in groups.items()}
    found = calibration.to_sql([plain.get(each, each) for each in scores], "duckdb", by=by)
    new = ", ".join(
        f"{found[output]} AS {quote(name, 'duckdb')}"
        for output, name in zip(calibration.map.outputs, names, strict=True)
    )
    mapped = given.project(f"*, {new}")
    hidden = ", ".join(quote(each, "duckdb") for each in plain.values())
    return mapped.project(f"* EXCLUDE ({hidden})") if read else mapped


def _mapped(
    calibration: Calibration, rows: Any, score: str, name: str, groups: dict[str, str], read: Mapping[str, str]
) -> Any:
    """The map applied to columns converted by ``read`` (SQL by column); the columns of the file stay unchanged."""
    from calibrant.engine import apply as with_map
    from calibrant.engine.columns import fresh_name
    from calibrant.export.languages.sql.dialects import quote

    plain = {column: fresh_name(rows, f"{column} as it is read") for column in read}
    more = ", ".join(f"{text} AS {quote(plain[column], 'duckdb')}" for column, text in read.items())
    by = {group: plain[column] for group, column in groups.items()}
    given = rows.project(f"*, {more}") if read else rows
    mapped = with_map(calibration, given, plain.get(score, score), name=name, by=by)
    return (
        mapped.project(f"* EXCLUDE ({', '.join(quote(each, 'duckdb') for each in plain.values())})") if read else mapped
    )


def _inspect(connection: Any, path: str, out: str, score: str, name: str, kind: str) -> Written:
    """Inspect the written file; reject scores outside the range of the map, for which SQL gives NULL."""
    from calibrant.cli.input.files import kind_of, read_rows
    from calibrant.cli.input.numbers import text_found
    from calibrant.cli.voice import Mistake
    from calibrant.export.languages.sql.dialects import quote

    rows = read_rows(connection, [path], {}, as_text=kind_of(path) != "Parquet")
    s, p = (f"TRY_CAST({quote(column, 'duckdb')} AS DOUBLE)" for column in (score, name))
    text = f"any_value({quote(score, 'duckdb')}) FILTER (WHERE {s} IS NULL)"  # a value that is not NULL itself
    outside = beyond(s) if kind == "probability" else f"isinf({s})"
    finite = f"FILTER (WHERE isfinite({s}))"
    sums = f"count(*), count({p}), avg({s}) {finite}, avg({p}), count(*) FILTER (WHERE {outside}), min({s}), max({s})"
    ((total, mapped, before, after, bad, low, high, word),) = rows.aggregate(f"{sums}, {text}").fetchall()
    if word is not None:
        raise text_found(score, "--score", word)
    if bad:
        raise Mistake(
            f"the column {score!r}",
            f"has {bad:,} of {total:,} scores outside the range of {kind} scores that the map expects (they range from "
            f"{low:g} to {high:g})",
            "pass the right column with --score, or exclude rows with --where",
        )
    return Written(out, [name], total, total - mapped, before, after)
