"""The proof of an export, repeated."""

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
    """Repeat the proof of an export: on your own engine, or on the one at hand.

    The scores are the edges, both neighbours of every knot, NaN, NULL and 10^5 random ones, or 10^4 random rows for
    maps of several classes; one SELECT runs, nothing is written. The text of a ``.sql`` file is run as it stands:
    verify what you would run.

    Parameters
    ----------
    export
        A file that ``export_sql`` or ``export_onnx`` wrote, or a model that ``to_onnx`` made.
    connection
        For SQL, a connection of DuckDB, sqlite3, psycopg, psycopg2, pg8000 or SQLAlchemy, or a Spark session. For
        ONNX, an ``onnxruntime.InferenceSession`` of the same model, with the provider that you deploy to. By default
        DuckDB and SQLite in memory, onnxruntime on the CPU, and for other dialects the text as sqlglot reads it.

    Returns
    -------
    Proof
        Prints itself as a sentence.

    Raises
    ------
    ParityError
        If a result is off: by one bit for maps that only compare and copy, by 1e-12 of itself for smooth ones.

    Examples
    --------
    >>> import sqlite3
    >>> from calibrant import Calibration
    >>> from calibrant.maps import StepMap
    >>> _ = Calibration(StepMap([0.5], [0.1, 0.8])).export_sql("risk.sql", "score", dialect="sqlite")
    >>> print(verify("risk.sql", sqlite3.connect(":memory:")))
    Compared on SQLite ... scores: all results are the same to the last bit.
    """
    if not isinstance(export, str | PathLike):
        if not hasattr(export, "SerializeToString"):
            raise InputError(
                "export",
                f"is a {type(export).__name__}, which holds no proof to repeat",
                "pass the file that export_sql or export_onnx wrote, or the model of to_onnx",
            )
        return _verify_model(export.SerializeToString(), connection)
    path = local_path(export, "export")
    if path.suffix.lower() == ".onnx":
        return _verify_model(path.read_bytes(), connection)
    file = SqlFile.parse(_read_text(path))
    if connection is not None:
        return file.prove(read(file.document).map, checked_engine(file.dialect, connection))
    with own_errors("the text of the file"):
        return file.prove(read(file.document).map, engine_at_hand(file.dialect))


def _verify_model(data: bytes, session: Any) -> Proof:
    with own_errors("the model"):
        stored = session_of(data)
        document = document_in(stored)
        map_ = read(document).map
        if session is None:
            return prove_model(map_, stored)
    if type(session).__module__.partition(".")[0] != "onnxruntime":
        raise InputError(
            "connection", "must be an onnxruntime.InferenceSession for an ONNX model", "pass one, or leave it out"
        )
    if document_in(session) != document:
        raise InputError("connection", "holds another model than the one to be verified", "open it on the same file")
    return prove_model(map_, session)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")  # line ends inside a name stay as they are
    except UnicodeDecodeError:
        raise DocumentError(path.name, "is no SQL file that export_sql wrote: it is not text") from None
