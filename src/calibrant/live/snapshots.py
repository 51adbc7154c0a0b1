"""States as bytes: a JSON head and plain arrays in one file without compression, never pickled."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import InputError

VERSION = 1
"""Version of the layout."""


def damaged() -> InputError:
    """The error that a state is not whole."""
    return InputError("state", "is damaged or does not belong here", "pass the bytes that to_bytes() returned")


def pack(kind: str, head: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """A state as bytes; the same state gives the same bytes."""
    text = json.dumps({"kind": kind, "version": VERSION} | head, allow_nan=False, sort_keys=True)
    found = io.BytesIO()
    np.savez(found, head=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return found.getvalue()


def unpack(state: bytes, kind: str, arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Head and arrays of a state, which have the names and types given."""
    if not isinstance(state, bytes | bytearray | memoryview):
        raise damaged()
    try:
        with zipfile.ZipFile(io.BytesIO(state)) as packed:
            if any(each.file_size > len(state) for each in packed.infolist()):
                raise damaged()  # compressed, which states are not
        with np.load(io.BytesIO(state), allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
        head = json.loads(found.pop("head").tobytes())
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError, RecursionError, NotImplementedError):
        raise damaged() from None
    if not isinstance(head, dict) or head.pop("kind", None) != kind or found.keys() != arrays.keys():
        raise damaged()
    if head.pop("version", None) != VERSION:
        raise InputError("state", f"has another version than {VERSION}", "update calibrant")
    if any(found[name].dtype != np.dtype(of) for name, of in arrays.items()):
        raise damaged()
    return head, found
