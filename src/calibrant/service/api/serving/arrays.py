"""Arrays in the binary form of PostgreSQL: made at once, which is several times faster than one value at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

HEAD = struct.Struct(">iiIii")
"""Dimensions, whether there are nulls, type of the elements, length, first index."""

NULL = b"\xff\xff\xff\xff"
LENGTH_16 = b"\0\0\0\x10"


class Array(bytes):
    """An array whose bytes are those of PostgreSQL's binary form."""

    element: ClassVar[int]
    """Type of the elements in PostgreSQL."""
    whole: ClassVar[int]
    """Type of the array."""
    form: ClassVar[struct.Struct]
    """Length and value of an element."""

    @classmethod
    def of(cls, values: Sequence[Any]) -> Array:
        """The array of some values; None is a null.

        Examples
        --------
        >>> Floats.of([0.5, None])[-16:].hex()
        '000000083fe0000000000000ffffffff'
        """
        nulls = values.count(None)
        if nulls == len(values):
            parts = NULL * nulls
        elif nulls:
            parts = b"".join([NULL if value is None else cls.one(value) for value in values])
        else:
            parts = cls.all(values)
        return cls(HEAD.pack(1, nulls > 0, cls.element, len(values), 1) + parts)

    @classmethod
    def one(cls, value: Any) -> bytes:
        """One element."""
        return cls.form.pack(cls.form.size - 4, value)

    @classmethod
    def all(cls, values: Sequence[Any]) -> bytes:
        """All elements, none of which is null."""
        pack, size = cls.form.pack, cls.form.size - 4
        return b"".join([pack(size, value) for value in values])


class Floats(Array):
    """``float8[]``."""

    element, whole, form = 701, 1022, struct.Struct(">id")


class Longs(Array):
    """``bigint[]``."""

    element, whole, form = 20, 1016, struct.Struct(">iq")


class Integers(Array):
    """``integer[]``."""

    element, whole, form = 23, 1007, struct.Struct(">ii")


class Smalls(Array):
    """``smallint[]``."""

    element, whole, form = 21, 1005, struct.Struct(">ih")


class Uuids(Array):
    """``uuid[]``, of 16 bytes each."""

    element, whole, form = 2950, 2951, struct.Struct(">i16s")

    @classmethod
    def all(cls, values: Sequence[bytes]) -> bytes:
        """All elements."""
        return LENGTH_16 + LENGTH_16.join(values)


class Texts(Array):
    """``text[]``."""

    element, whole = 25, 1009

    @classmethod
    def one(cls, value: str) -> bytes:
        """One element."""
        raw = value.encode()
        return len(raw).to_bytes(4, "big") + raw

    @classmethod
    def all(cls, values: Sequence[str]) -> bytes:
        """All elements, none of which is null."""
        return b"".join(map(cls.one, values))


def encoded(columns: Iterable[Sequence[Any]], kinds: Sequence[type[Array]]) -> list[Array]:
    """Columns as arrays."""
    return [kind.of(column) for kind, column in zip(kinds, columns, strict=True)]


def register(connection: psycopg.AsyncConnection) -> None:
    """Let a connection send these arrays as they are."""
    for kind in (Floats, Longs, Integers, Smalls, Uuids, Texts):
        connection.adapters.register_dumper(kind, _dumper(kind.whole))


def _dumper(type_: int) -> type[Dumper]:
    class Raw(Dumper):
        format = Format.BINARY
        oid = type_

        def dump(self, obj: Any) -> bytes:
            return bytes(obj)

    return Raw
