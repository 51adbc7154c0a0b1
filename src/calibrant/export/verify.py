"""Repeat the verification of an export."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.arrays.paths import local_path
from calibrant.export.documents import read
from calibrant.export.errors import DocumentError, own_errors
from calibrant.export.onnx.model import document_in, prove_model, session_of
from calibrant.export.proof import Proof
from calibrant.export.sql.file import SqlFile, checked_engine, engine_at_hand
from calibrant.messages import InputError

if TYPE_CHECKING:
    import onnx


def verify(export: str | PathLike[str] | onnx.ModelProto, connection: Any = None) -> Proof:
    """Verify that an export gives the same results as its map, on your own engine or on the local one.

    The scores are the edges, both neighbors of every knot, NaN, NULL and 10^5 random ones, or 10^4 random rows for maps
    of several classes. One SELECT runs, nothing is written. The text of a ``.sql`` file is executed unchanged, so
    verify only files that you would run.

    Parameters
    ----------
    export
        A file written by ``export_sql`` or ``export_onnx``, or a model returned by ``to_onnx``.
    connection
        For SQL, a connection of DuckDB, sqlite3, psycopg, psycopg2, pg8000 or SQLAlchemy, or a Spark session. For
        ONNX, an ``onnxruntime.InferenceSession`` of the same model, with the provider that you deploy to. By default
        DuckDB and SQLite in memory, onnxruntime on the CPU, and for other dialects the text as parsed by sqlglot and
        evaluated in numpy.

    Returns
    -------
    Proof
        Prints as a sentence.

    Raises
    ------
    ExportMismatchError
        If a result differs: at all for maps that only compare and copy, by more than 1e-12 (relative) for smooth maps.

    Examples
    --------
    >>> import sqlite3
    >>> from calibrant import Calibration
    >>> from calibrant.maps import StepMap
    >>> _ = Calibration(StepMap([0.5], [0.1, 0.8])).export_sql("risk.sql", "score", dialect="sqlite")
    >>> print(verify("risk.sql", sqlite3.connect(":memory:")))
    Compared with the map on SQLite ... scores: all results are bit-identical.
    """
    if not isinstance(export, str | PathLike):
        if not hasattr(export, "SerializeToString"):
            raise InputError(
                "export",
                f"has the type {type(export).__name__}, which is not an export",
                "pass a file written by export_sql or export_onnx, or a model returned by to_onnx",
            )
        return _verify_model(export.SerializeToString(), connection)
    path = local_path(export, "export")
    if path.suffix.lower() == ".onnx":
        return _verify_model(path.read_bytes(), connection)
    file = SqlFile.parse(_read_text(path))
    if connection is not None:
        return file.prove(read(file.document), checked_engine(file.dialect, connection))
    with own_errors("the text of the file"):
        return file.prove(read(file.document), engine_at_hand(file.dialect))


def _verify_model(data: bytes, session: Any) -> Proof:
    with own_errors("the model"):
        stored = session_of(data)
        document = document_in(stored)
        held = read(document)
        if session is None:
            return prove_model(held.map, stored, bounded=held.bounded)
    if type(session).__module__.partition(".")[0] != "onnxruntime":
        raise InputError(
            "connection", "must be an onnxruntime.InferenceSession for an ONNX model", "pass one, or leave it out"
        )
    if document_in(session) != document:
        raise InputError("connection", "is a session of another model", "open it on the same file")
    return prove_model(held.map, session, bounded=held.bounded)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")  # line endings inside a name stay unchanged
    except UnicodeDecodeError:
        raise DocumentError(path.name, "was not written by export_sql: it is not text") from None
