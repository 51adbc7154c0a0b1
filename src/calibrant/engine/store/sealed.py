"""Parquet files that hold the hash of their own bytes, which is checked before a decoder sees any of them.

A Parquet decoder trusts its footer: with one bit flipped there pyarrow may end the process, or skip rows that are
there. So a file's metadata hold SHA-256 of all its bytes, computed with zeros where the hash itself will stand, and a
file whose bytes give another hash is refused unread. This finds damage. It does not find forgery, since anyone can
compute a hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.export.errors import DocumentError
from calibrant.messages import InputError, MissingPackage

KEY = b"calibrant"
"""Name of the entry in a file's metadata."""
MARK = b'"sha256": "'
"""What precedes the hash in the footer. The last one counts: text in JSON cannot hold a bare quote."""
BLANK = b"0" * 64


def need_pyarrow() -> tuple[Any, Any]:
    """The package and its Parquet module, or one sentence that says what to install."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingPackage("the tally store", "pyarrow", "calibrant[store]") from None
    return pa, pq


def sealed(table: Any, about: Mapping[str, Any], **options: Any) -> bytes:
    """A table as the bytes of a Parquet file, with ``about`` and the hash in its metadata."""
    pa, pq = need_pyarrow()
    text = json.dumps({**about, "sha256": BLANK.decode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({KEY: text}), sink, **options)
    data: bytes = sink.getvalue().to_pybytes()
    start, digest = _hashed(data)
    return data[:start] + digest + data[start + len(BLANK) :]


def _hashed(data: bytes) -> tuple[int, bytes]:
    """Where the hash of a file stands, and what it must be."""
    start = data.rfind(MARK) + len(MARK)
    view = memoryview(data)
    digest = hashlib.sha256(view[:start])
    digest.update(BLANK)
    digest.update(view[start + len(BLANK) :])
    return start, digest.hexdigest().encode()


@contextmanager
def opened(path: Path, dictionaries: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A Parquet file with right bytes, and what it says it is; whatever goes wrong ends in one error."""
    pa, pq = need_pyarrow()
    try:
        data = path.read_bytes()
        start, digest = _hashed(data)
        if data[start : start + len(BLANK)] != digest:
            raise DocumentError(path, "is damaged, or not a file of this store: its bytes are not what was written")
        with pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(dictionaries)) as file:
            about = json_object((file.metadata.metadata or {}).get(KEY, b"null"), path)
            about.pop("sha256", None)
            yield file, about
    except (InputError, DocumentError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError) as problem:
        raise DocumentError(path, f"is damaged, or not a file of this store: {problem}") from None


def json_object(text: bytes, path: Path) -> dict[str, Any]:
    """An object of JSON, which everything in a store that describes itself is."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DocumentError(path, f"is damaged: {problem}") from None
    if not isinstance(body, dict):
        raise DocumentError(path, "does not say what it holds")
    return body
