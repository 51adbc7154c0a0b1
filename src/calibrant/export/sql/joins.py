"""A map by segment as a table of parameters and a query that joins it, verified before they are written.

An expression of 20,000 segments has a million characters, more than some warehouses accept. Here the text has the
global map alone, and the slope and intercept of each segment are rows of a table, which a LEFT JOIN finds.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays.paths import local_path
from calibrant.export.errors import own_errors
from calibrant.export.files import write_whole
from calibrant.export.kinds import lower, proof_rows
from calibrant.export.kinds.stages import lines_of, stages
from calibrant.export.languages.sql.dialects import dialect_named, fresh, quote
from calibrant.export.languages.sql.engines import Engine
from calibrant.export.languages.sql.pieces import NEGLIGIBLE
from calibrant.export.languages.sql.text import Text, text_literal, translated
from calibrant.export.proof import Proof, compare
from calibrant.export.sql.expressions import group_columns, score_columns, usable
from calibrant.export.sql.file import checked_engine, doubles, engine_at_hand, none_for
from calibrant.guarantees.provenance import library_version
from calibrant.maps import ByGroupMap, ComposeMap, Map
from calibrant.messages import InputError, MissingPackage, Setting, plural

COLUMNS = ("map_id", "step", "segment_column", "segment", "slope", "intercept")
"""Columns of the table of parameters. Their names are written without quotes, so that every warehouse folds them."""

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")

JINJA = re.compile(r"\{[{%#]")
"""What dbt would run, even inside quotes."""

MAX_PROVEN = 100
"""Segments of a column on whose scores the text is compared: the formula is the same for all of them."""

AT_ONCE = 1_000
"""Rows of one INSERT."""


@dataclass(frozen=True)
class SqlJoin:
    """A query that joins a table of parameters, the parameters, and the proof of the formula in it.

    Attributes
    ----------
    query
        A SELECT of all columns of the rows and the probability.
    parameters
        Rows of the table, by the names in :data:`COLUMNS`.
    proof
        Result of comparing the formula with the map.
    """

    query: str
    parameters: tuple[tuple[Any, ...], ...]
    proof: Proof

    @classmethod
    def proven(
        cls,
        map_: Map,
        document: str,
        column: str,
        dialect: str,
        table: str,
        rows: str,
        *,
        name: str = "calibrated",
        by: Mapping[str, str] | None = None,
        connection: Any = None,
        dbt: bool = False,
        may_be_empty: bool = False,
        bounded: bool,
    ) -> SqlJoin:
        """The query of a map by segment, or an :class:`~calibrant.ExportMismatchError`.

        With ``may_be_empty``, a map without segments gets a table without rows.
        """
        for option, given in (("table", table), ("rows", rows)):
            if not PLAIN_NAME.fullmatch(given) or (dbt and "." in given):
                raise InputError(Setting(option, given), "is not a plain name of a table", "use letters, digits and _")
        (score,) = score_columns(map_, column).values()
        keys = group_columns(map_, [score], by)
        joins = [] if may_be_empty and not map_.columns else _joins(map_)
        map_id = hashlib.sha256(document.encode()).hexdigest()[:16]
        parameters = tuple(line for join in joins for line in join.lines(map_id))
        text = _expression(map_, score, dialect, joins, bounded)
        if connection is None:
            with own_errors(Setting("dialect", dialect), InputError):
                proof = _prove(map_, text, score, joins, engine_at_hand(dialect), dialect, bounded)
        else:
            proof = _prove(map_, text, score, joins, checked_engine(dialect, connection), dialect, bounded)
        query = _query(text, dialect, joins, keys, map_id, len(parameters), (table, rows, name), dbt)
        others = "NULL" if any(join.part.default is None for join in joins) else "the global map"
        head = _head(dialect, table, len(parameters), proof, others, dbt, none_for(bounded))
        return cls(f"{head}{query}\n", parameters, proof)

    def parquet(self) -> bytes:
        """The parameters as a Parquet file."""
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise MissingPackage("a table in Parquet", "pyarrow", "pyarrow") from None
        kinds = (pa.string(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.float64())
        rows = [dict(zip(COLUMNS, line, strict=True)) for line in self.parameters]
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_pylist(rows, pa.schema(list(zip(COLUMNS, kinds, strict=True)))), sink)
        return bytes(sink.getvalue())

    def csv(self) -> str:
        """The parameters as CSV; numbers are the shortest text that is read as the same double."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS, *((*line[:-2], *map(repr, line[-2:])) for line in self.parameters)])
        return file.getvalue()

    def inserts(self, table: str, dialect: str) -> str:
        """The parameters as CREATE TABLE and INSERT statements."""
        written = dialect_named(dialect)
        lines = []
        for map_id, step, column, segment, slope, intercept in self.parameters:
            texts = [text_literal(each, dialect) for each in (map_id, column, segment)]
            numbers = [written.literal(each) for each in (slope, intercept)]
            lines.append(f"({texts[0]}, {step}, {texts[1]}, {texts[2]}, {numbers[0]}, {numbers[1]})")
        parts = [lines[start : start + AT_ONCE] for start in range(0, len(lines), AT_ONCE)]
        made = [f"INSERT INTO {table} ({', '.join(COLUMNS)}) VALUES\n" + ",\n".join(part) for part in parts]
        texts = [_create(table, dialect), *(each if written.executed else translated(each, dialect) for each in made)]
        return "".join(f"{each};\n" for each in texts)


def export_join(
    map_: Map,
    document: str,
    path: str | PathLike[str],
    column: str,
    dialect: str,
    table: str | PathLike[str],
    rows: str,
    **options: Any,
) -> Proof:
    """Write the query, and the table of parameters as ``.csv``, ``.parquet`` or INSERT statements (``.sql``).

    For dbt, the properties of the seed are written beside the table, with the extension ``.yml``.
    """
    target, parameters = local_path(path), local_path(table, "table")
    dbt, kind = bool(options.get("dbt")), parameters.suffix.lower()
    if kind not in ((".csv",) if dbt else (".csv", ".parquet", ".sql")):
        ends = ".csv, the seed of dbt" if dbt else ".csv, .parquet, or in .sql for INSERT statements"
        raise InputError(Setting("table", str(table)), "has an unknown type", f"pass a file name that ends in {ends}")
    if _same(target, parameters):
        raise InputError(Setting("table", str(table)), "is the file of the query", "pass another file")
    made = SqlJoin.proven(map_, document, column, dialect, parameters.stem, rows, **options)
    data: str | bytes = made.parquet() if kind == ".parquet" else made.csv()
    data = made.inserts(parameters.stem, dialect) if kind == ".sql" else data
    write_whole(parameters, data)
    if dbt:
        write_whole(parameters.with_suffix(".yml"), _properties(parameters.stem, dialect))
    write_whole(target, made.query)
    return made.proof


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


# ------------------------------------------------------------------------------------------------------ steps of a map


@dataclass(frozen=True)
class _Join:
    """One map by segment: the step of the map, its column, and the names of the joined numbers."""

    stage: int
    step: int
    part: ByGroupMap
    segment: str
    slope: str
    intercept: str

    @property
    def found(self) -> str:
        """Name of the number of segments that the table has."""
        return f"calibrant_segments_{self.step}"

    def lines(self, map_id: str) -> Iterator[tuple[Any, ...]]:
        for group, (slope, intercept) in self.numbers.items():
            yield map_id, self.step, self.part.by, group, slope, intercept

    @property
    def numbers(self) -> dict[str, tuple[float, float]]:
        """Slope and intercept of each segment; terms that change no probability are 0."""
        found = lines_of(self.part)
        assert found is not None
        columns = [np.where(np.abs(each) > NEGLIGIBLE, each, 0.0).tolist() for each in found[1:]]
        return dict(zip(self.part.groups, zip(*columns, strict=True), strict=True))


def _joins(map_: Map) -> list[_Join]:
    """The steps by segment of a map; an error if there are none, or if they are not lines on the log-odds."""
    if len(map_.inputs) > 1 or not map_.columns:
        what = "several classes" if len(map_.inputs) > 1 else "no segments"
        raise InputError("table", f"needs a map of one score by segment, and this one has {what}", "leave table out")
    found: list[_Join] = []
    for stage, part in enumerate(stages(map_)):
        if not isinstance(part, ByGroupMap):
            continue
        if lines_of(part) is None:
            raise InputError(
                "table",
                f"needs segments with a slope and an intercept each, and those of {part.by!r} have other maps",
                "leave table out",
            )
        if "" in part.groups:
            raise InputError("map", f"has an empty text among the segments of {part.by!r}", "rename that segment")
        step = len(found) + 1
        names = (f"calibrant_{word}_{step}" for word in ("segment", "slope", "intercept"))
        found.append(_Join(stage, step, part, *names))
    return found


def _expression(map_: Map, score: str, dialect: str, joins: Sequence[_Join], bounded: bool) -> str:
    """The probability over the score and the joined numbers, before a translation."""
    lacking = [f"{join.slope} IS NULL" for join in joins if join.part.default is None]
    x, (before, after) = usable(map_, [score], dialect, lacking, bounded)
    taken = (score, *(each for join in joins for each in (join.slope, join.intercept)))
    joined = {join.stage: (join.slope, join.intercept) for join in joins}
    return f"{before}{lower(map_, Text(dialect_named(dialect), dialect, taken, joined=joined), x, 0)}{after}"


# ------------------------------------------------------------------------------------------------------------ the proof


def _prove(
    map_: Map, text: str, score: str, joins: Sequence[_Join], engine: Engine, dialect: str, bounded: bool
) -> Proof:
    """Compare the text with the map, on the numbers that the join would find."""
    small = _with_few_segments(map_)
    rows = proof_rows(small).with_missing()
    values: list[float | None] = rows.scores.tolist()
    missing = [at for at, value in enumerate(values) if value != value]
    for at in {*missing[1::2], len(values) - 1}:
        values[at] = None
    scores: dict[str, list[float | None]] = {score: values}
    for join in joins:
        numbers = join.numbers
        found = [numbers.get(group, (None, None)) for group in rows.groups[join.part.by].tolist()]
        scores[join.slope], scores[join.intercept] = map(list, zip(*found, strict=True))
    item = text if dialect_named(dialect).executed else translated(text, dialect)
    (results,) = engine.select([item], scores, {})
    return compare(small, rows, doubles(results, engine.name), engine.name, bounded=bounded)


def _with_few_segments(map_: Map) -> Map:
    """The same map with at most :data:`MAX_PROVEN` segments by column: the extreme ones, and random ones."""
    parts = map_.maps if isinstance(map_, ComposeMap) else (map_,)
    return ComposeMap(tuple(_few(part) if isinstance(part, ByGroupMap) else part for part in parts))


def _few(part: ByGroupMap) -> ByGroupMap:
    found = lines_of(part)
    if found is None or len(part.groups) <= MAX_PROVEN:
        return part
    extreme = [int(pick(column)) for column in found[1:] for pick in (np.argmin, np.argmax)]
    drawn = np.random.default_rng(20_266).choice(len(part.groups), MAX_PROVEN - len(extreme), replace=False)
    chosen = sorted({*extreme, *drawn.tolist()})
    return replace(part, groups=tuple(part.groups[at] for at in chosen), maps=tuple(part.maps[at] for at in chosen))


# ------------------------------------------------------------------------------------------------------------- the text


def _query(
    text: str,
    dialect: str,
    joins: Sequence[_Join],
    keys: Mapping[str, str],
    map_id: str,
    size: int,
    names: tuple[str, str, str],
    dbt: bool,
) -> str:
    written, (table, rows, name) = dialect_named(dialect), names
    scored = fresh("scored", *keys.values())
    this, segment = f"WHERE map_id = '{map_id}'", written.key.format("segment")
    whole = [f"calibrant_rows = {size}", *(f"{join.found} = {len(join.part.groups)}" for join in joins)]
    counts = [
        "COUNT(*) AS calibrant_rows",
        *(
            f"COUNT(DISTINCT CASE WHEN step = {join.step} AND slope IS NOT NULL AND intercept IS NOT NULL "
            f"THEN {segment} END) AS {join.found}"
            for join in joins
        ),
    ]
    lines = [
        f"SELECT {scored}.*, CASE WHEN {' AND '.join(whole)} THEN {text} END AS {quote(name, dialect)}",
        f"FROM {rows} AS {scored}",
        f"CROSS JOIN (SELECT {', '.join(counts)} FROM {table} {this}) AS calibrant_table",
    ]
    for join in joins:
        columns = [f"{segment} AS {join.segment}"]
        columns += [  # one line by segment, so that a table loaded twice repeats no row
            f"MAX(CAST({each} AS {written.real})) AS {own}"
            for each, own in (("slope", join.slope), ("intercept", join.intercept))
        ]
        key = written.key.format(f"{scored}.{quote(keys[join.part.by], dialect)}")
        lines.append(
            f"LEFT JOIN (SELECT {', '.join(columns)} FROM {table} {this} AND step = {join.step} "
            f"GROUP BY {segment}) AS calibrant_{join.step} ON {join.segment} = {key}"
        )
    query = "\n".join(lines)
    query = query if written.executed else translated(query, dialect)
    if not dbt:
        return query
    if found := JINJA.search(query):
        problem = f"must not have {found[0]} in the name of a column: dbt would run it as Jinja"
        raise InputError(Setting("dbt", True), problem, "rename the column")
    for each in (table, rows):
        query = re.sub(rf"(?<=FROM ){each}\b", f"{{{{ ref('{each}') }}}}", query)
    return query


def _head(dialect: str, table: str, size: int, proof: Proof, others: str, dbt: bool, unread: str) -> str:
    load = "it is a seed of dbt" if dbt else "create and load it first"
    held = [
        f"The table {table} holds {plural(size, 'segment')}: {load}.",
        "If it is incomplete, loaded twice or of another map, every probability is NULL.",
        f"{unread} Unseen and missing segments get {others}.",
    ]
    none = [f"No segment was found to differ, so the table {table} has no rows: {load}.", unread]
    lines = [
        f"Calibrated probability of each row, in {dialect} SQL, by Calibrant {library_version()}.",
        *(held if size else none),
        f"The formula, on the numbers that the join finds. {proof}",
    ]
    if not dbt:
        lines.append(_create(table, dialect))
    return "".join(f"-- {line}\n" for line in lines)


def _create(table: str, dialect: str) -> str:
    written = dialect_named(dialect)
    text = "TEXT" if not written.executed else TEXT_TYPES[dialect]
    types = (text, "INTEGER", text, text, written.real, written.real)
    made = f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in zip(COLUMNS, types, strict=True))})"
    return made if written.executed else translated(made, dialect)


TEXT_TYPES = {"duckdb": "VARCHAR", "postgres": "TEXT", "spark": "STRING", "sqlite": "TEXT"}
"""Type of text in each dialect that the tests run."""


def _properties(table: str, dialect: str) -> str:
    """Types of the seed's columns, so that dbt does not read segments such as 007 as numbers."""
    definition = _create(table, dialect).partition("(")[2].rpartition(")")[0]
    types = [entry.strip().partition(" ")[::2] for entry in definition.split(",")]
    listed = "".join(f"        {name}: {kind.lower()}\n" for name, kind in types)
    return f"version: 2\nseeds:\n  - name: {table}\n    config:\n      column_types:\n{listed}"
