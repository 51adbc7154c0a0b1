"""Exports of maps of several classes that carry their proof, checked before they are written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import InputError
from calibrant.export.class_proof import compare_rows, proof_matrix
from calibrant.export.errors import DocumentError, ParityError
from calibrant.export.files import write_whole
from calibrant.export.onnx.classes import INPUT, LABEL, OUTPUT
from calibrant.export.onnx.regions import class_onnx
from calibrant.export.onnx.scores import Precision
from calibrant.export.proof import Proof
from calibrant.export.sql.columns import Columns, class_columns, class_sql, sql_outputs
from calibrant.export.sql.dialects import dialect_named
from calibrant.export.sql.engines import NO_GROUPS, Engine
from calibrant.export.sql.file import (
    DIALECT,
    DOCUMENT,
    MARK,
    PROOF,
    checked_engine,
    engine_at_hand,
    own_errors,
    session_of,
    split_file,
    with_proof,
)
from calibrant.export.sql.scores import quote
from calibrant.guarantees.provenance import library_version
from calibrant.maps import ClassMap, TopMap

if TYPE_CHECKING:
    import onnx

COLUMNS = "columns"


@dataclass(frozen=True)
class ClassSqlFile:
    """Expressions with their names, one a line, below comments that hold what is needed to prove them again."""

    document: str
    columns: dict[str, str]
    dialect: str
    items: tuple[str, ...]
    proof: Proof

    def __str__(self) -> str:
        """The file. JSON has no line breaks here, so nothing in it can end its comment."""
        held = {
            PROOF: asdict(self.proof),
            COLUMNS: self.columns,
            DIALECT: self.dialect,
            DOCUMENT: json.loads(self.document),
        }
        lines = [
            f"-- Calibrated probabilities of {len(self.columns)} classes, in the SQL of {self.dialect}, by Calibrant "
            f"{library_version()}: columns for a SELECT. NULL or NaN in a score gives NULL.",
            f"-- {self.proof}",
            *(f"{MARK}{name}: {json.dumps(value, allow_nan=False)}" for name, value in held.items()),
            ",\n".join(self.items),
        ]
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> ClassSqlFile:
        """Read a file; anything unexpected raises :class:`DocumentError`."""
        try:
            held, body = split_file(text, {PROOF, COLUMNS, DIALECT, DOCUMENT}, set())
            values = {name: json.loads(value) for name, value in held.items()}
            columns, dialect = values[COLUMNS], values[DIALECT]
            if not isinstance(columns, dict) or not all(isinstance(each, str) for each in (dialect, *columns.values())):
                raise DocumentError("columns and dialect must be text")
            dialect_named(dialect)
            return cls(held[DOCUMENT], columns, dialect, tuple(body.split(",\n")), Proof.from_dict(values[PROOF]))
        except DocumentError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as problem:
            raise DocumentError(f"this is no SQL file that export_sql wrote: {problem}") from None


def holds_classes(text: str) -> bool:
    """Whether the text is that of a file for a map of several classes."""
    return any(line.startswith(f"{MARK}{COLUMNS}: ") for line in text.split("\n")[:6])


def write_class_sql(
    map_: ClassMap, document: str, path: Path, columns: Columns, dialect: str, connection: Any = None
) -> Proof:
    """See :meth:`ClassCalibration.export_sql`."""
    names = class_columns(map_, columns)
    odd = [name for name in (*names.values(), *map_.outputs, *map_.classes) if "\n" in name or "\r" in name]
    if odd:
        raise InputError(f"a file has one expression a line, and {odd[0]!r} holds a line break: rename it")
    texts = class_sql(map_, names, dialect)
    items = tuple(f"{text} AS {quote(name, dialect)}" for name, text in texts.items())
    if connection is None:
        with own_errors(f"the expressions, in the SQL of {dialect},", InputError):
            proof = prove_class_sql(map_, items, names, engine_at_hand(dialect))
    else:
        proof = prove_class_sql(map_, items, names, checked_engine(dialect, connection))
    file = ClassSqlFile(document, names, dialect, items, proof)
    write_whole(path, str(file))
    return proof


def prove_class_sql(map_: ClassMap, items: tuple[str, ...], columns: dict[str, str], engine: Engine) -> Proof:
    """The proof that expressions give what the map gives, or a :class:`ParityError`."""
    outputs = sql_outputs(map_)
    if len(items) != len(outputs) or set(columns) != set(map_.classes):
        raise DocumentError(f"{len(outputs)} expressions over {len(map_.classes)} columns are due, one a line")
    rows = proof_matrix(map_)
    given = {columns[name]: rows[:, j].tolist() for j, name in enumerate(map_.classes)}
    for place, values in enumerate(given.values()):  # the last row is there for NULL: it is in rows of NaN too
        missing = [at for at, value in enumerate(values) if value != value]
        for at in missing[place % 2 :: 2]:
            values[at] = None
    found = dict(zip(outputs, engine.select(items, given, NO_GROUPS), strict=True))
    if any(len(values) != len(rows) for values in found.values()):
        raise ParityError(f"{engine.name} does not give {len(rows):,} results for {len(rows):,} rows")
    values = np.column_stack([_doubles(found[name], engine.name) for name in map_.outputs])
    return compare_rows(map_, rows, values, engine.name, _labels(map_, found, engine.name))


def _doubles(found: list[Any], engine: str) -> NDArray[np.float64]:
    for value in found:
        if value is not None and type(value) is not float:
            raise ParityError(f"{engine} gives {value!r} of type {type(value).__name__} where a double is due")
        if value is not None and value != value:
            raise ParityError(f"{engine} gives NaN where NULL is due")
    return np.array(found, dtype=np.float64)


def _labels(map_: ClassMap, found: dict[str, list[Any]], engine: str) -> NDArray[np.intp] | None:
    if not isinstance(map_, TopMap):
        return None
    codes = {name: code for code, name in enumerate(map_.classes)} | {None: -1}
    texts = [found[name] for name in sql_outputs(map_)[1::2]]
    unknown = [text for column in texts for text in column if text not in codes]
    if unknown:
        raise ParityError(f"{engine} gives {unknown[0]!r}, which is no class")
    return np.array([[codes[text] for text in column] for column in texts], dtype=np.intp).T


# --------------------------------------------------------------------------------------------------------------- ONNX


def proven_class_model(map_: ClassMap, document: str, dtype: Precision) -> onnx.ModelProto:
    """See :meth:`ClassCalibration.to_onnx`."""
    model = class_onnx(map_, dtype)
    return with_proof(model, prove_class_model(map_, session_of(model.SerializeToString())), document)


def prove_class_model(map_: ClassMap, session: Any) -> Proof:
    """The proof that a session of onnxruntime gives what the map gives, or a :class:`ParityError`."""
    import onnxruntime

    (scores,) = session.get_inputs()
    dtype = np.dtype(np.float32 if scores.type == "tensor(float)" else np.float64)
    with np.errstate(over="ignore", under="ignore"):
        rows = proof_matrix(map_).astype(dtype)
    rows = rows[~np.isinf(rows).any(axis=1)]
    wanted = [OUTPUT, LABEL][: 2 if isinstance(map_, TopMap) else 1]
    found, *labels = session.run(wanted, {INPUT: rows})
    name = f"onnxruntime {onnxruntime.__version__}, {session.get_providers()[0]}, {dtype}"
    return compare_rows(map_, rows, found, name, labels[0] if labels else None)
