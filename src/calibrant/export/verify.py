"""Repeat the verification of an export."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.arrays.paths import local_path
from calibrant.export.documents import read
from calibrant.export.errors import DocumentError, ExportMismatchError, own_errors
from calibrant.export.files import read_bounded
from calibrant.export.kinds import samples
from calibrant.export.onnx.model import document_in, prove_model, session_of
from calibrant.export.proof import Proof
from calibrant.export.sql.file import SqlFile, checked_engine, engine_at_hand
from calibrant.messages import PYTHON, InputError, MissingPackage, Phrase, Setting

if TYPE_CHECKING:
    import onnx


LARGEST_EXPORT = 1 << 27
"""Bytes of a file that is read."""

MOST_MEMORY, WALL = 1 << 30, 6.0
"""Bytes of the process that verifies a file, and how many times its processor time it may take on a busy machine."""

CHILD = """
import json, sys
given = json.load(sys.stdin)
sys.path[:] = given["folders"]
from calibrant.export.verify import answer
print(answer(given))
"""
"""Run by a Python of its own."""

ERRORS: dict[str, type[Exception]] = {
    each.__name__: each for each in (InputError, DocumentError, ExportMismatchError, MissingPackage)
}
"""Errors that the limited process hands on."""

EXTERNAL = b"\n\x08location"
"""How a tensor of ONNX names the file that holds its numbers."""


def verify(export: str | PathLike[str] | onnx.ModelProto, connection: Any = None, *, seconds: float = 10.0) -> Proof:
    """Verify that an export gives the same results as its map, on your own engine or on the local one.

    The scores are the edges, both neighbors of every knot, NaN, NULL and 10^5 random ones, or 10^4 random rows for maps
    of several classes. Without a connection, a process of its own verifies, with at most 1 GB of memory (not on
    Windows). On your connection one SELECT runs, in PostgreSQL in a read-only transaction. The text of a ``.sql`` file
    is executed there unchanged, so verify only files that you would run.

    Parameters
    ----------
    export
        A file written by ``export_sql`` or ``export_onnx``, or a model returned by ``to_onnx``.
    connection
        For SQL, a connection of DuckDB, sqlite3, psycopg, psycopg2, pg8000 or SQLAlchemy, or a Spark session. For
        ONNX, an ``onnxruntime.InferenceSession`` of the same model, with the provider that you deploy to. By default
        DuckDB and SQLite in memory, onnxruntime on the CPU, and for other dialects the text as parsed by sqlglot and
        evaluated in numpy.
    seconds
        Most processor time without a connection. A map of 50 classes takes DuckDB half a minute.

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
        if connection is not None:
            return _verify_model(export.SerializeToString(), connection)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "map.onnx"
            file.write_bytes(export.SerializeToString())
            return _limited(file, seconds)
    path = local_path(export, "export")
    return _limited(path, seconds) if connection is None else _verified(path, connection)


def _verified(path: Path, connection: Any) -> Proof:
    """Verify a file, here."""
    data = read_bounded(path, LARGEST_EXPORT)
    if path.suffix.lower() == ".onnx":
        return _verify_model(data, connection)
    file = SqlFile.parse(_as_text(data, path.name))
    if connection is not None:
        return file.prove(read(file.document), checked_engine(file.dialect, connection))
    with own_errors("the text of the file"):
        return file.prove(read(file.document), engine_at_hand(file.dialect))


def _limited(path: Path, seconds: float) -> Proof:
    """Verify a file in a process of its own: what its text or its model asks for is not known before it runs."""
    with path.open("rb"):  # errors of the system are raised here
        pass
    folders = [os.path.abspath(each) for each in sys.path]
    sizes = {name: getattr(samples, name) for name in ("RANDOM_SCORES", "RANDOM_ROWS")}
    given = {"folders": folders, "path": str(path.resolve()), "seconds": seconds, "sizes": sizes}
    with tempfile.TemporaryDirectory() as empty:  # where no model finds external data
        command = [sys.executable, "-c", CHILD]
        wall = seconds * WALL
        try:
            done = subprocess.run(
                command, input=json.dumps(given), capture_output=True, text=True, cwd=empty, timeout=wall, check=True
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            what = f"takes more than {seconds:g} seconds or {MOST_MEMORY >> 30} GB to verify"
            fix = Phrase("pass {more} if you trust it, or verify it on your own engine", more=Setting("seconds", 60))
            raise InputError("export", what, fix) from None
    kind, found = json.loads(done.stdout.splitlines()[-1])
    if kind in ERRORS:
        raise ERRORS[kind](*found)
    return Proof.from_dict(found)


def answer(given: dict[str, Any]) -> str:
    """What the limited process tells: the proof, or the kind of an error and what it holds."""
    vars(samples).update(given["sizes"])
    _limit(given["seconds"])
    found: tuple[str, Any]
    try:
        found = "proof", asdict(_verified(Path(given["path"]), None))
    except tuple(ERRORS.values()) as problem:
        found = next(name for name, kind in ERRORS.items() if isinstance(problem, kind)), problem.args
    return json.dumps(found, default=lambda value: str(PYTHON.say(value)))


def _limit(seconds: float) -> None:
    """Bound the memory and the processor time of this process, where the system can."""
    if sys.platform != "win32":
        import resource

        for what, most in ((resource.RLIMIT_DATA, MOST_MEMORY), (resource.RLIMIT_CPU, math.ceil(seconds))):
            resource.setrlimit(what, (most, most))


def _verify_model(data: bytes, session: Any) -> Proof:
    if EXTERNAL in data:
        raise DocumentError("the model", "reads further files, which an export never does")
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


def _as_text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")  # line endings inside a name stay unchanged
    except UnicodeDecodeError:
        raise DocumentError(name, "was not written by export_sql: it is not text") from None
