"""Parquet files that contain the hash of their own bytes, which is checked before they are decoded.

A Parquet decoder trusts the footer: with one bit flipped there, pyarrow may crash or skip rows. So the metadata of a
file contain the SHA-256 of all its bytes, computed with zeros in place of the hash, and a file with a wrong hash is
refused before it is decoded. This detects damage. It does not detect forgery, since anyone can compute a hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.export.errors import DocumentError
from calibrant.export.files import read_bounded
from calibrant.messages import InputError, MissingPackage

KEY = b"calibrant"
"""Name of the entry in a file's metadata."""
MARK = b'"sha256": "'
"""Bytes before the hash in the footer. The last occurrence counts: text in JSON cannot contain a bare quote."""
BLANK = b"0" * 64
LARGEST, MOST_BYTES, MOST_CELLS = 1 << 28, 1 << 30, 10_000_000
"""Bytes of a file, bytes of it decoded, and cells in it."""


def need_pyarrow() -> tuple[Any, Any]:
    """The package and its Parquet module, or an error that says what to install."""
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
    """Position of the hash in a file, and its correct value."""
    start = data.rfind(MARK) + len(MARK)
    view = memoryview(data)
    digest = hashlib.sha256(view[:start])
    digest.update(BLANK)
    digest.update(view[start + len(BLANK) :])
    return start, digest.hexdigest().encode()


@contextmanager
def opened(path: Path, dictionaries: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a Parquet file after checking its hash; the file and its description. Every problem is a DocumentError."""
    pa, pq = need_pyarrow()
    try:
        data = read_bounded(path, LARGEST)
        start, digest = _hashed(data)
        if data[start : start + len(BLANK)] != digest:
            raise DocumentError(path, "is damaged, or not a file of this store: its checksum is wrong")
        with pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(dictionaries)) as file:
            about = json_object((file.metadata.metadata or {}).get(KEY, b"null"), path)
            about.pop("sha256", None)
            _check_size(file.metadata, path)
            yield file, about
    except (InputError, DocumentError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError) as problem:
        raise DocumentError(path, f"is damaged, or not a file of this store: {problem}") from None


def _check_size(footer: Any, path: Path) -> None:
    """Refuse more rows or bytes than a file may have, before any is decoded: a few bytes can claim billions."""
    groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
    sizes = {group.column(place).num_values - group.num_rows for group in groups for place in range(group.num_columns)}
    rows = sum(group.num_rows for group in groups)
    if rows > MOST_CELLS or sizes - {0} or sum(group.total_byte_size for group in groups) > MOST_BYTES:
        raise DocumentError(path, f"claims {rows:,} cells, and at most {MOST_CELLS:,} of {MOST_BYTES:,} bytes are read")


def json_object(text: bytes, path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of the store."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DocumentError(path, f"is damaged: {problem}") from None
    if not isinstance(body, dict):
        raise DocumentError(path, "does not describe its content")
    return body
