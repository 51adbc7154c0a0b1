"""Exports that carry their proof: SQL files and ONNX models, checked before they are written."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import InputError
from calibrant.export.errors import DocumentError, ParityError
from calibrant.export.files import write_whole
from calibrant.export.onnx.scores import INPUT, OUTPUT, Precision, Shape, to_onnx
from calibrant.export.proof import Proof, Rows, compare, proof_rows, unlisted
from calibrant.export.reading import reader
from calibrant.export.sql.dialects import dialect_named
from calibrant.export.sql.engines import Engine, Values, engine_of
from calibrant.export.sql.scores import group_columns, to_sql
from calibrant.guarantees.provenance import library_version
from calibrant.maps import Map

if TYPE_CHECKING:
    import onnx

PROOF, COLUMN, BY, DIALECT, DOCUMENT = "proof", "column", "by", "dialect", "document"
MARK = "-- calibrant "
METADATA = "calibrant."

MOST_RUNS = 5_000
"""Runs of a model that takes a fixed number of scores; edges and neighbours of knots come first."""

QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""")
"""Text and names, in which anything may stand."""


@contextmanager
def own_errors(what: str, kind: type[ValueError] = DocumentError) -> Iterator[None]:
    """On the engine at hand, errors are about the export and nothing else."""
    try:
        yield
    except (ParityError, InputError, DocumentError):
        raise
    except Exception as problem:
        reason = str(problem).partition("\n")[0]
        raise kind(f"{what} cannot be run ({type(problem).__name__}: {reason})") from None


# ---------------------------------------------------------------------------------------------------------------- SQL


@dataclass(frozen=True)
class SqlFile:
    """An expression below comments that hold what is needed to prove it again."""

    document: str
    column: str
    dialect: str
    expression: str
    proof: Proof
    by: Mapping[str, str] = field(default_factory=dict)
    """What the columns of groups are called there."""

    def __str__(self) -> str:
        """The file. JSON has no line breaks here, so nothing in it can end its comment."""
        held = {
            PROOF: asdict(self.proof),
            COLUMN: self.column,
            **({BY: dict(self.by)} if self.by else {}),
            DIALECT: self.dialect,
            DOCUMENT: json.loads(self.document),
        }
        columns = " and ".join(json.dumps(name) for name in (self.column, *self.by.values()))
        lines = [
            f"-- Calibrated probability from the column{'s' if self.by else ''} {columns}, in the SQL of "
            f"{self.dialect}, by Calibrant {library_version()}. NULL and NaN give NULL.",
            f"-- {self.proof}",
            *(f"{MARK}{name}: {json.dumps(value, allow_nan=False)}" for name, value in held.items()),
            self.expression,
        ]
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> SqlFile:
        """Read a file; anything unexpected raises :class:`DocumentError`."""
        try:
            held, expression = split_file(text, {PROOF, COLUMN, DIALECT, DOCUMENT}, {BY})
            values = {name: json.loads(value) for name, value in held.items()}
            column, dialect = values[COLUMN], values[DIALECT]
            by = values.get(BY, {})
            if not all(isinstance(each, str) for each in (column, dialect, *dict(by).values())):
                raise DocumentError("columns and dialect must be text")
            dialect_named(dialect)
            return cls(held[DOCUMENT], column, dialect, expression, Proof.from_dict(values[PROOF]), by)
        except DocumentError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as problem:
            raise DocumentError(f"this is no SQL file that export_sql wrote: {problem}") from None


def split_file(text: str, needed: set[str], possible: set[str]) -> tuple[dict[str, str], str]:
    """What the comments of a file hold, as JSON by name, and the text below them."""
    lines = text.split("\n")
    head = list(takewhile(lambda line: line.startswith("-- "), lines))
    held = dict(line.removeprefix(MARK).split(": ", 1) for line in head if line.startswith(MARK))
    if set(held) - possible != needed or len(head) != len(held) + 2:
        raise DocumentError("this is no SQL file that export_sql wrote: its comments hold no map and proof")
    body = "\n".join(lines[len(head) :]).removesuffix("\n")
    if ";" in QUOTED.sub("", body):
        raise DocumentError("the file holds more than one expression a line: it was changed after export_sql wrote it")
    return held, body


def write_sql(
    map_: Map,
    document: str,
    path: Path,
    column: str,
    dialect: str,
    connection: Any = None,
    by: Mapping[str, str] | None = None,
) -> Proof:
    """See :meth:`Calibration.export_sql`."""
    expression, proof = proven_sql(map_, column, dialect, connection, by)
    file = SqlFile(document, column, dialect, expression, proof, group_columns(map_, column, by))
    write_whole(path, str(file))
    return proof


def checked_engine(dialect: str, connection: Any, said: str = "dialect is") -> Engine:
    """The engine of a connection, which must be one of the dialect; ``said`` is how the dialect was given."""
    engine = engine_of(connection)
    if engine.dialect != dialect:
        raise InputError(f"{said} {dialect}, the connection is one of {engine.dialect}")
    return engine


def proven_sql(
    map_: Map, column: str, dialect: str, connection: Any = None, by: Mapping[str, str] | None = None
) -> tuple[str, Proof]:
    """The expression with the proof that it gives what the map gives, or a :class:`ParityError`."""
    expression = to_sql(map_, column, dialect, by)
    if connection is None:
        with own_errors(f"the expression, in the SQL of {dialect},", InputError):
            return expression, prove_sql(map_, expression, column, engine_at_hand(dialect), by)
    return expression, prove_sql(map_, expression, column, checked_engine(dialect, connection), by)


def prove_sql(map_: Map, expression: str, column: str, engine: Engine, by: Mapping[str, str] | None = None) -> Proof:
    """The proof that an expression gives what the map gives, or a :class:`ParityError`."""
    rows = proof_rows(map_)
    rows = rows.take(np.append(np.arange(len(rows.scores)), 0))  # once more the first row, with NULL for its score
    rows.scores[-1] = np.nan
    given: Values = rows.scores.tolist()
    given[-1] = None
    names = group_columns(map_, column, by)
    found = engine.run(
        expression, column, given, {names[each]: values.tolist() for each, values in rows.groups.items()}
    )
    if len(found) != len(given):
        raise ParityError(f"{engine.name} gives {len(found):,} results for {len(given):,} scores")
    for value in found:
        if value is not None and type(value) is not float:
            raise ParityError(f"{engine.name} gives {value!r} of type {type(value).__name__} where a double is due")
        if value is not None and value != value:
            raise ParityError(f"{engine.name} gives NaN where NULL is due")
    return compare(map_, rows, np.array(found, dtype=np.float64), engine.name)


def engine_at_hand(dialect: str) -> Engine:
    """DuckDB or SQLite in memory; for other dialects the text as sqlglot reads it."""
    if dialect == "sqlite":
        return engine_of(sqlite3.connect(":memory:"))
    if dialect == "duckdb":
        try:
            import duckdb
        except ImportError:
            raise InputError("SQL for DuckDB is checked in DuckDB: pip install 'calibrant[duckdb]'") from None
        # A text from a file has no business outside.
        return engine_of(duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"}))
    return reader(dialect)


# --------------------------------------------------------------------------------------------------------------- ONNX


def proven_model(map_: Map, document: str, dtype: Precision, shape: Shape | None) -> onnx.ModelProto:
    """See :meth:`Calibration.to_onnx`."""
    model = to_onnx(map_, dtype, shape=shape)
    proof = prove_model(map_, session_of(model.SerializeToString()))
    return with_proof(model, proof, document)


def with_proof(model: onnx.ModelProto, proof: Proof, document: str) -> onnx.ModelProto:
    """The model with its proof and its document inside."""
    held = {PROOF: json.dumps(asdict(proof), allow_nan=False), DOCUMENT: document}
    for name, value in held.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = f"{METADATA}{name}", value
    return model


def write_model(model: onnx.ModelProto, path: Path) -> Proof:
    """Write a model that holds its proof, and give the proof."""
    write_whole(path, model.SerializeToString(deterministic=True))
    (proof,) = (entry.value for entry in model.metadata_props if entry.key == f"{METADATA}{PROOF}")
    return Proof.from_dict(json.loads(proof))


def prove_model(map_: Map, session: Any) -> Proof:
    """The proof that a session of onnxruntime gives what the map gives, or a :class:`ParityError`."""
    import onnxruntime

    score = next(each for each in session.get_inputs() if each.name == INPUT)
    dtype = np.dtype(np.float32 if score.type == "tensor(float)" else np.float64)
    rows = proof_rows(map_)
    with np.errstate(over="ignore"):
        rows = Rows(rows.scores.astype(dtype), {name: _without_gaps(map_, name, v) for name, v in rows.groups.items()})
    blocks = {name: _in_shape(values, score.shape) for name, values in {INPUT: rows.scores, **rows.groups}.items()}
    runs = (dict(zip(blocks, block, strict=True)) for block in zip(*blocks.values(), strict=True))
    found = np.concatenate([session.run([OUTPUT], run)[0].reshape(-1) for run in runs])
    name = f"onnxruntime {onnxruntime.__version__}, {session.get_providers()[0]}, {dtype}"
    seen = min(len(found), len(rows.scores))
    return compare(map_, rows.take(slice(seen)), found[:seen], name)


def _without_gaps(map_: Map, name: str, values: NDArray[Any]) -> NDArray[Any]:
    """A tensor has no NULL: a missing group is any text that the map does not list."""
    return np.array([unlisted(map_, name) if value is None else value for value in values], dtype=object)


def _in_shape(values: NDArray[Any], shape: Sequence[int | str | None]) -> list[NDArray[Any]]:
    """The values, some repeated at the end to fill it; where every size is fixed, as many as so many runs take."""
    if not shape:
        return [values]
    fixed = [size if isinstance(size, int) else 1 for size in shape]
    filled = np.resize(values, -(-len(values) // math.prod(fixed)) * math.prod(fixed))
    free = [place for place, size in enumerate(shape) if not isinstance(size, int)]
    if not free:
        return list(filled.reshape(-1, *fixed))[:MOST_RUNS]
    fixed[free[0]] = -1
    return [filled.reshape(fixed)]


def session_of(data: bytes) -> Any:
    """The model in onnxruntime, on the CPU."""
    try:
        import onnxruntime
    except ImportError:
        raise InputError("a model is checked in onnxruntime: pip install 'calibrant[onnx]'") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
