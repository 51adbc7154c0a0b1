"""SQL files that contain their map and proof, verified before they are written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.documents import read
from calibrant.export.errors import DocumentError, ExportMismatchError, own_errors
from calibrant.export.kinds import proof_rows
from calibrant.export.kinds.samples import parts_of
from calibrant.export.languages.sql.dialects import engine_of, is_expression, quote
from calibrant.export.languages.sql.engines import Engine
from calibrant.export.languages.sql.interpreter import reader
from calibrant.export.proof import Proof, compare
from calibrant.export.sql.expressions import Columns, expressions, group_columns, score_columns, sql_outputs
from calibrant.guarantees.content import Content
from calibrant.guarantees.provenance import library_version
from calibrant.maps import ByGroupMap, Map, TopMap
from calibrant.messages import InputError, Setting, Shown

MARK, DOCUMENT = "-- calibrant ", "/* calibrant document: "
STAR = "\\u002a"
"""A star in JSON."""
NEEDED, POSSIBLE = {"proof", "columns", "dialect", "document"}, {"by"}

LONG = 2_000
"""Characters of a document above which it is at the end of the file, behind the expression."""
MANY = 100
"""Segments of a map above which the file names the other way."""

BETWEEN = ",\n"
"""Separator of expressions, so that a file of several can be used in a SELECT."""


@dataclass(frozen=True)
class SqlFile(Shown):
    """SQL expressions below comments with everything needed to verify them again.

    Attributes
    ----------
    document
        The calibration as JSON.
    columns, by
        Names of the score and group columns, by the map's own names.
    dialect
        SQL dialect.
    text
        The expression of a map of one score; for several classes, one per line with its name.
    proof
        Result of comparing the text with the map.
    """

    document: str
    columns: Mapping[str, str]
    dialect: str
    text: str
    proof: Proof
    by: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def proven(
        cls,
        map_: Map,
        document: str,
        columns: Columns,
        dialect: str,
        by: Mapping[str, str] | None = None,
        connection: Any = None,
        *,
        bounded: bool,
    ) -> SqlFile:
        """The file of a map, or an :class:`ExportMismatchError`; see :meth:`calibrant.Calibration.export_sql`."""
        names = score_columns(map_, columns)
        groups = group_columns(map_, names.values(), by)
        several = len(names) > 1
        odd = [name for name in (*names.values(), *map_.outputs, *map_.inputs) if "\n" in name or "\r" in name]
        if several and odd:
            raise InputError("columns", f"must be names without line breaks, got {odd[0]!r}", "rename it")
        texts = expressions(map_, names, dialect, groups, bounded=bounded)
        text = BETWEEN.join(f"{each} AS {quote(name, dialect)}" if several else each for name, each in texts.items())
        if connection is None:
            with own_errors(Setting("dialect", dialect), InputError):
                proof = prove_sql(map_, text, names, engine_at_hand(dialect), groups, bounded=bounded)
        else:
            proof = prove_sql(map_, text, names, checked_engine(dialect, connection), groups, bounded=bounded)
        return cls(document, names, dialect, text, proof, groups)

    def __str__(self) -> str:
        """The content of the file. JSON has no line breaks here, so nothing in it can end its comment."""
        held = {
            "proof": asdict(self.proof),
            "columns": dict(self.columns),
            **({"by": dict(self.by)} if self.by else {}),
            "dialect": self.dialect,
        }
        document, last = json.dumps(json.loads(self.document), allow_nan=False), []
        if len(document) <= LONG:
            held["document"] = json.loads(document)
        else:  # without a star, nothing in it can begin or end a comment
            last = [f"{DOCUMENT}{document.replace('*', STAR)} */"]
        columns = " and ".join(json.dumps(name) for name in (*self.columns.values(), *self.by.values()))
        what = f"probability from {columns}"
        if len(self.columns) > 1:
            what = f"probabilities of {len(self.columns)} classes, as columns for a SELECT"
        content = read(self.document)
        unread = none_for(content.bounded)
        most = max((len(part.groups) for part in parts_of(content.map) if isinstance(part, ByGroupMap)), default=0)
        if most > MANY:
            unread += f" For {most:,} segments, export_sql(..., table=...) writes a table of parameters and a join."
        lines = [
            f"-- Calibrated {what}, in {self.dialect} SQL, by Calibrant {library_version()}. {unread}",
            f"-- {self.proof}",
            *(f"{MARK}{name}: {json.dumps(value, allow_nan=False)}" for name, value in held.items()),
            self.text,
            *last,
        ]
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> SqlFile:
        """Read a file; anything unexpected raises :class:`DocumentError`."""
        try:
            held, body = _split(text)
            values = {name: json.loads(value) for name, value in held.items()}
            columns, by, dialect = values["columns"], values.get("by", {}), values["dialect"]
            named = isinstance(columns, dict) and isinstance(by, dict)
            if not named or not all(isinstance(each, str) for each in (dialect, *columns.values(), *by.values())):
                raise DocumentError("columns and dialect", "must be text")
            if not is_expression(body, dialect):
                raise DocumentError("the file", "has more than its expressions: it was changed after export_sql")
            return cls(held["document"], columns, dialect, body, Proof.from_dict(values["proof"]), by)
        except DocumentError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as problem:
            raise DocumentError("the file", f"was not written by export_sql: {problem}") from None

    def prove(self, content: Content, engine: Engine) -> Proof:
        """Repeat the comparison on this engine, with the content of the document."""
        map_ = content.map
        if set(self.columns) != set(map_.inputs):
            raise DocumentError("the file", f"has columns of {', '.join(self.columns)}, which do not match its map")
        return prove_sql(map_, self.text, self.columns, engine, self.by, bounded=content.bounded)


def none_for(bounded: bool) -> str:
    """Which scores give NULL."""
    return f"NULL{', NaN and numbers that are not probabilities' if bounded else ' and NaN'} give NULL."


def _split(text: str) -> tuple[dict[str, str], str]:
    """The JSON in the comments of a file, by name, and the text below them."""
    lines = text.split("\n")
    head = list(takewhile(lambda line: line.startswith("-- "), lines))
    held = dict(line.removeprefix(MARK).split(": ", 1) for line in head if line.startswith(MARK))
    rest, named = lines[len(head) :], len(held)
    for line in [each for each in rest if each.startswith(DOCUMENT)][: "document" not in held]:
        held["document"] = line.removeprefix(DOCUMENT).removesuffix(" */")
        rest.remove(line)
    if set(held) - POSSIBLE != NEEDED or len(head) != named + 2:
        raise DocumentError("the file", "was not written by export_sql: its comments contain no map and proof")
    body = "\n".join(rest).removesuffix("\n")
    return held, body


def prove_sql(
    map_: Map,
    text: str,
    columns: Columns,
    engine: Engine,
    by: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> Proof:
    """The proof that the text of a file gives the results of the map, or an :class:`ExportMismatchError`."""
    outputs = sql_outputs(map_)
    items = [text] if len(outputs) == 1 else text.split(BETWEEN)
    if len(items) != len(outputs):
        raise DocumentError("the file", f"must have {len(outputs)} expressions, one per line, not {len(items)}")
    names = score_columns(map_, columns)
    group_names = group_columns(map_, names.values(), by)
    rows = proof_rows(map_).with_missing()
    matrix = rows.scores.reshape(len(rows.scores), -1)
    scores = {names[name]: matrix[:, place].tolist() for place, name in enumerate(map_.inputs)}
    for place, values in enumerate(scores.values()):  # half of the missing scores are NULL, and always the last row
        missing = [at for at, value in enumerate(values) if value != value]
        for at in {*missing[1 - place % 2 :: 2], len(values) - 1}:
            values[at] = None
    groups = {group_names[each]: rows.groups[each].tolist() for each in map_.columns if each not in map_.numbers}
    for name in map_.numbers:  # NULL and NaN take turns
        values = rows.groups[name].tolist()
        missing = [at for at, value in enumerate(values) if value != value]
        for at in missing[::2]:
            values[at] = None
        scores[group_names[name]] = values
    found = dict(zip(outputs, engine.select(items, scores, groups), strict=True))
    for values in found.values():
        if len(values) != len(matrix):
            raise ExportMismatchError(f"{engine.name} gives {len(values):,} results for {len(matrix):,} rows")
    results = np.column_stack([doubles(found[name], engine.name) for name in map_.outputs])
    return compare(map_, rows, results, engine.name, _labels(map_, found, engine.name), bounded=bounded)


def doubles(found: Sequence[Any], engine: str) -> NDArray[np.float64]:
    """Results of an engine, which must be doubles or NULL; NaN for NULL."""
    for value in found:
        if value is not None and type(value) is not float:
            raise ExportMismatchError(f"{engine} gives {value!r} of type {type(value).__name__}, expected a double")
        if value is not None and value != value:
            raise ExportMismatchError(f"{engine} gives NaN, expected NULL")
    return np.array(found, dtype=np.float64)


def _labels(map_: Map, found: Mapping[str, Sequence[Any]], engine: str) -> NDArray[np.intp] | None:
    if not isinstance(map_, TopMap):
        return None
    codes = {name: code for code, name in enumerate(map_.classes)} | {None: -1}
    texts = [found[name] for name in sql_outputs(map_)[1::2]]
    unknown = [text for column in texts for text in column if text not in codes]
    if unknown:
        raise ExportMismatchError(f"{engine} gives {unknown[0]!r}, which is not a class")
    return np.array([[codes[text] for text in column] for column in texts], dtype=np.intp).T


def checked_engine(dialect: str, connection: Any) -> Engine:
    """The engine of a connection, which must match the dialect."""
    engine = engine_of(connection)
    if engine.dialect != dialect:
        raise InputError(
            "connection", f"must match the dialect of the text, {dialect}, but is a connection of {engine.dialect}"
        )
    return engine


def engine_at_hand(dialect: str) -> Engine:
    """DuckDB or SQLite in memory; for other dialects the text as parsed by sqlglot and evaluated in numpy."""
    if dialect == "sqlite":
        return engine_of(sqlite3.connect(":memory:"))
    if dialect == "duckdb":
        try:
            import duckdb
        except ImportError:
            raise InputError(
                Setting("dialect", "duckdb"),
                "is verified in DuckDB, which is not installed",
                "pip install 'calibrant[duckdb]'",
            ) from None
        # Text from a file must not access anything outside.
        return engine_of(duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"}))
    return reader(dialect)
