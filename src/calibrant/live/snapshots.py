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
    return unpack_any(state, {kind: arrays})[1:]


def unpack_any(state: bytes, kinds: dict[str, dict[str, Any]]) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
    """Kind, head and arrays of a state of one of several kinds, each with the names and types of its arrays."""
    if not isinstance(state, bytes | bytearray | memoryview):
        raise damaged()
    raw = bytes(state)
    try:
        head = json.loads(_arrays(raw, {"head": np.uint8}, all_of_them=False)["head"].tobytes())
    except UNREADABLE:
        raise damaged() from None
    kind = head.pop("kind", None) if isinstance(head, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise damaged()
    if head.pop("version", None) != VERSION:
        raise InputError("state", f"has another version than {VERSION}", "update calibrant")
    try:
        found = _arrays(raw, kinds[kind] | {"head": np.uint8})
    except UNREADABLE:
        raise damaged() from None
    del found["head"]
    return kind, head, found


def _arrays(state: bytes, kinds: dict[str, Any], all_of_them: bool = True) -> dict[str, NDArray[Any]]:
    """Arrays of a state, or some of them; the size of each is known before it is read."""
    found, wanted = {}, sorted(f"{name}.npy" for name in kinds)
    with zipfile.ZipFile(io.BytesIO(state)) as packed:
        members = packed.infolist()
        if not all_of_them:
            members = [each for each in members if each.filename in wanted]
        if sorted(each.filename for each in members) != wanted:
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
