"""States as bytes: a JSON head and plain arrays in one file without compression, never pickled."""

from __future__ import annotations

import io
import json
import math
import tokenize
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import InputError

VERSION = 1
"""Version of the layout."""

UNREADABLE = (
    *(zipfile.BadZipFile, tokenize.TokenError, LookupError, ValueError, OSError, EOFError, RuntimeError),
    *(OverflowError, SyntaxError, TypeError),
)
"""What reading a damaged archive, a damaged header of an array or damaged JSON can raise."""


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
        found = _arrays(bytes(state), arrays | {"head": np.uint8})
        head = json.loads(found.pop("head").tobytes())
    except UNREADABLE:
        raise damaged() from None
    if not isinstance(head, dict) or head.pop("kind", None) != kind:
        raise damaged()
    if head.pop("version", None) != VERSION:
        raise InputError("state", f"has another version than {VERSION}", "update calibrant")
    return head, found


def _arrays(state: bytes, kinds: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays; the size of each is known before it is read."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(state)) as packed:
        members = packed.infolist()
        if sorted(each.filename for each in members) != sorted(f"{name}.npy" for name in kinds):
            raise ValueError
        for each in members:
            if each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1:
                raise ValueError
            raw = io.BytesIO(packed.read(each))
            if np.lib.format.read_magic(raw) != (1, 0):
                raise ValueError
            shape, columnwise, dtype = np.lib.format.read_array_header_1_0(raw)
            kind = np.dtype(kinds[each.filename.removesuffix(".npy")])
            left = raw.read()
            if dtype != kind or columnwise or math.prod(shape) * kind.itemsize != len(left):
                raise ValueError
            found[each.filename.removesuffix(".npy")] = np.frombuffer(left, dtype=kind).reshape(shape)
    return found
