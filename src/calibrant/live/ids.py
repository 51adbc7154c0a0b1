"""Ids of predictions as 16 bytes, and a table that finds the row of an id."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import InputError
from calibrant.numerics import Ints

Ids = NDArray[np.uint64]
"""Two columns: the first and the last 8 bytes of each id, so that the order of pairs is that of the bytes."""

WIDTH = 16
"""Bytes of an id."""

EMPTY, REMOVED = -1, -2
FULLEST = 0.6
"""Share of the places of a table that may be in use before it grows."""


def read_ids(ids: Any) -> Ids:
    """Ids as pairs of 8 bytes.

    Integers keep their order. UUIDs and 16 bytes are taken as they are. Text and other bytes are replaced by the first
    16 bytes of their BLAKE2b digest: two of a billion share it with probability below 1e-20. Ids of one ledger must be
    of one kind, since 5 and ``UUID(int=5)`` are the same 16 bytes.

    Parameters
    ----------
    ids
        A sequence or an array of integers, text, bytes or UUIDs.

    Returns
    -------
    array of shape (n, 2)
        Pairs of unsigned integers.

    Notes
    -----
    Guarantee: none; the probability above is the birthday bound for a random function. Cost: about a microsecond for a
    text, less for numbers and bytes in arrays. Reference: Aumasson et al. (2013), BLAKE2.

    Examples
    --------
    >>> read_ids([3, 258]).tolist()
    [[0, 3], [0, 258]]
    >>> read_ids([bytes(range(16))]).tolist() == [[0x0001020304050607, 0x08090A0B0C0D0E0F]]
    True
    """
    if isinstance(ids, str | bytes | bytearray):
        raise InputError("ids", "is a single id", "pass a list: [id]")
    array = ids if isinstance(ids, np.ndarray) else _listed(ids)
    if array.ndim != 1:
        raise InputError("ids", "must be one column")
    if array.dtype.kind in "iu":
        if array.size and array.min() < 0:
            raise InputError("ids", "holds negative integers", "pass text, bytes, or integers from 0 on")
        return np.column_stack([np.zeros(len(array), dtype=np.uint64), array.astype(np.uint64)])
    if array.dtype.kind in "SV" and array.dtype.itemsize == WIDTH:
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(len(array), WIDTH)
    else:
        joined = b"".join(_sixteen(each) for each in array.tolist())
        raw = np.frombuffer(joined, dtype=np.uint8).reshape(-1, WIDTH)
    return raw.view(">u8").astype(np.uint64).reshape(-1, 2)


def _listed(ids: Any) -> NDArray[Any]:
    """Any sequence as an array of objects."""
    try:
        values = list(ids)
    except TypeError:
        raise InputError("ids", f"must be a list or an array, got {ids!r}", "pass one id for each row") from None
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _sixteen(value: Any) -> bytes:
    """One id as 16 bytes."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if not 0 <= value < 2**64:
            raise InputError("ids", f"holds {value!r}", "pass text, bytes, or integers from 0 up to 2**64 - 1")
        return int(value).to_bytes(WIDTH, "big")
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value if len(value) == WIDTH else hashlib.blake2b(value, digest_size=WIDTH).digest()
    raise InputError("ids", f"holds {value!r}", "pass text, bytes, UUIDs or integers")


class IdTable:
    """Rows by id: a hash table with open addressing, whose steps are taken for all ids of a batch at once.

    Rows are numbers that the table gives out; those of removed ids are used again. Ids are mixed with secret random
    numbers, so that nobody can choose ids that collide; what the table answers does not depend on them.
    """

    def __init__(self) -> None:
        self.ids: Ids = np.zeros((64, 2), dtype=np.uint64)
        self._places = np.full(128, EMPTY, dtype=np.int64)
        self._secret = np.array([secrets.randbits(64) for _ in range(2)], dtype=np.uint64)
        self._used = 0  # places that are not empty
        self._top = 0  # rows given out at most
        self._free: Ints = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._top - len(self._free)

    @property
    def rows(self) -> int:
        """How many rows were ever in use at once: columns beside the table need this length."""
        return len(self.ids)

    def find(self, ids: Ids) -> Ints:
        """The row of each id; -1 if it is not here."""
        return self._search(ids)[0]

    def add(self, ids: Ids) -> Ints:
        """Give a row to each id; they differ, and are not here yet."""
        rows = self._rows(len(ids))
        self.ids[rows] = ids
        self._make_room(len(ids))
        self._put(rows)
        return rows

    def remove(self, rows: Ints) -> None:
        """Forget ids by their rows, which are given out again."""
        places = self._search(self.ids[rows])[1]
        self._places[places] = REMOVED
        self._free = np.concatenate([self._free, rows])

    def _rows(self, n: int) -> Ints:
        again = self._free[len(self._free) - min(n, len(self._free)) :]
        self._free = self._free[: len(self._free) - len(again)]
        fresh = np.arange(self._top, self._top + n - len(again))
        self._top += len(fresh)
        if self._top > len(self.ids):
            grown = np.zeros((max(self._top, 2 * len(self.ids)), 2), dtype=np.uint64)
            grown[: len(self.ids)] = self.ids
            self.ids = grown
        return np.concatenate([again, fresh])

    def _search(self, ids: Ids) -> tuple[Ints, Ints]:
        """Row and place of each id."""
        rows, places = np.full(len(ids), -1, dtype=np.int64), self._start(ids)
        open_ = np.arange(len(ids))
        while len(open_):
            found = self._places[places[open_]]
            same = found >= 0
            same[same] = (self.ids[found[same]] == ids[open_[same]]).all(axis=1)
            rows[open_[same]] = found[same]
            open_ = open_[~same & (found != EMPTY)]
            places[open_] = (places[open_] + 1) & (len(self._places) - 1)
        return rows, places

    def _put(self, rows: Ints) -> None:
        """Write rows into free places; where two want the same place, one goes on."""
        places = self._start(self.ids[rows])
        open_ = np.arange(len(rows))
        while len(open_):
            found = self._places[places[open_]]
            free = open_[found < 0]
            held = self._places[places[free]]
            self._places[places[free]] = rows[free]
            won = self._places[places[free]] == rows[free]
            self._used += int((held[won] == EMPTY).sum())
            open_ = np.concatenate([open_[found >= 0], free[~won]])
            places[open_] = (places[open_] + 1) & (len(self._places) - 1)

    def _make_room(self, more: int) -> None:
        if self._used + more <= FULLEST * len(self._places):
            return
        size = len(self._places)
        while (len(self) + more) > 0.5 * FULLEST * size:
            size *= 2
        kept = self._places[self._places >= 0]
        self._places, self._used = np.full(size, EMPTY, dtype=np.int64), 0
        self._put(kept)

    def _start(self, ids: Ids) -> Ints:
        """Where the search for an id begins: its bits mixed, so that counters spread as random ids do."""
        mixed = np.zeros(len(ids), dtype=np.uint64)
        for part in (0, 1):
            mixed = (mixed ^ ids[:, part] ^ self._secret[part]) * np.uint64(0xD6E8FEB86659FD93)
            mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        return ((mixed ^ (mixed >> np.uint64(29))) & np.uint64(len(self._places) - 1)).astype(np.int64)
