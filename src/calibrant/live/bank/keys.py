"""Keys of a bank: integers or text become codes 0, 1, 2, ... in the order in which they are first learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import LONGEST_KEY, plain_text
from calibrant.messages import InputError
from calibrant.numerics import Ints

KeyKind = Literal["integers", "text"]
KeyValues = Ints | list[str]

SMALL = 1 << 20
"""Integers from 0 up to here, or up to 8 times the number of keys, are found by a table without a search."""

PER_KEY = 8

UNUSABLE = "pass integers or text, and a name of its own for rows without a key"


class Codes:
    """The codes of the values of one column.

    Examples
    --------
    >>> codes = Codes()
    >>> codes.add(["b", "a", "b"]).tolist(), codes.find(["a", "c"]).tolist(), codes.names([1])
    ([0, 1, 0], [1, -1], ['a'])
    """

    def __init__(self) -> None:
        self.kind: KeyKind | None = None
        self._names: list[str] = []  # of text
        self._values: Ints = np.zeros(64, dtype=np.int64)  # of integers
        self._size = 0
        self._searched: dict[Any, int] = {}
        self._direct: NDArray[np.int32] = np.full(64, -1, dtype=np.int32)

    def __len__(self) -> int:
        return self._size

    def names(self, codes: Iterable[int]) -> list[Any]:
        """The values with these codes, as integers or text."""
        if self.kind == "text":
            return [self._names[code] for code in codes]
        return [int(self._values[code]) for code in codes]

    @property
    def values(self) -> KeyValues:
        """All values, in the order of their codes."""
        return self._names if self.kind == "text" else self._values[: self._size]

    def admit_kind(self, values: KeyValues, name: str) -> None:
        """Raise an error if the values are of another kind than those before."""
        kind = kind_of(values)
        if len(values) and self.kind is not None and kind != self.kind:
            raise InputError(name, f"holds {kind}, but its keys so far are {self.kind}", f"pass {self.kind}")

    def admit(self, values: KeyValues, name: str) -> None:
        """Raise an error if the values are of another kind than those before, or new ones cannot be stored."""
        self.admit_kind(values, name)
        if kind_of(values) == "text":
            for text in set(values).difference(self._searched):
                if len(text) > LONGEST_KEY or not plain_text(text):
                    raise InputError(
                        name,
                        f"holds a text that documents cannot store, {text[:20]!r}",
                        f"pass at most {LONGEST_KEY} characters, without NUL characters and lone surrogates",
                    )

    def find(self, values: KeyValues) -> Ints:
        """The code of each value; -1 if it is not here."""
        if self.kind is None or kind_of(values) != self.kind:
            return np.full(len(values), -1, dtype=np.int64)
        if isinstance(values, list):
            return np.fromiter(map(self._searched.get, values, repeat(-1)), np.int64, len(values))
        if not len(values) or (values.min() >= 0 and values.max() < len(self._direct)):
            found = self._direct[values].astype(np.int64)
        else:
            inside = (values >= 0) & (values < len(self._direct))
            found = np.where(inside, self._direct[np.where(inside, values, 0)], np.int64(-1))
        if self._searched:
            missing = np.flatnonzero(found < 0)
            found[missing] = [self._searched.get(value, -1) for value in values[missing].tolist()]
        return found

    def add(self, values: KeyValues) -> Ints:
        """The code of each value; new values get the next codes, in their order."""
        if len(values):
            self.kind = kind_of(values)
        found = self.find(values)
        if not len(found) or found.min() >= 0:
            return found
        missing = np.flatnonzero(found < 0)
        if isinstance(values, list):
            fresh = list(dict.fromkeys(values[place] for place in missing.tolist()))
            self._searched.update(zip(fresh, range(self._size, self._size + len(fresh)), strict=True))
            self._names += fresh
            self._size += len(fresh)
        else:
            self._add_integers(values[missing])
        found[missing] = self.find([values[k] for k in missing] if isinstance(values, list) else values[missing])
        return found

    def _add_integers(self, values: Ints) -> None:
        distinct, first = np.unique(values, return_index=True)
        fresh = distinct[np.argsort(first, kind="stable")]
        size = self._size + len(fresh)
        if size > len(self._values):
            self._values = np.concatenate([self._values, np.zeros(max(size, len(self._values)), dtype=np.int64)])
        self._values[self._size : size] = fresh
        codes = np.arange(self._size, size)
        small = (fresh >= 0) & (fresh < max(SMALL, PER_KEY * size))
        largest = int(fresh[small].max(initial=-1))
        if largest >= len(self._direct):
            more = np.full(max(largest + 1, 2 * len(self._direct)) - len(self._direct), -1, dtype=np.int32)
            self._direct = np.concatenate([self._direct, more])
        self._direct[fresh[small]] = codes[small]
        self._searched.update(zip(fresh[~small].tolist(), codes[~small].tolist(), strict=True))
        self._size = size


def kind_of(values: KeyValues) -> KeyKind:
    """What the values of a column are."""
    return "text" if isinstance(values, list) else "integers"


def read_key_column(values: Any, name: str) -> KeyValues:
    """A column of keys: integers as an array, text as a list.

    Examples
    --------
    >>> read_key_column(["a", "b"], "keys"), read_key_column((3, 4), "keys").tolist()
    (['a', 'b'], [3, 4])
    """
    if isinstance(values, str | bytes | int):
        raise InputError(name, "is a single key", "pass a list: [key]")
    array = values if isinstance(values, np.ndarray) else _array(values, name)
    if array.ndim != 1:
        raise InputError(name, f"must be one column, got {array.ndim} axes")
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise InputError(name, f"holds {array.max()}", "pass integers below 2**63, or text")
        return np.ascontiguousarray(array, dtype=np.int64)
    listed: list[Any] = array.tolist()
    kinds = set(map(type, listed))
    if all(issubclass(kind, str) for kind in kinds) and array.dtype.kind in "UTO":
        return listed if kinds <= {str} else [str(value) for value in listed]
    if array.dtype.kind == "O" and all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return np.array(listed, dtype=np.int64)
        except OverflowError:
            raise InputError(name, "holds integers beyond 64 bits", "pass text") from None
    odd = next(value for value in listed if not isinstance(value, str))
    raise InputError(name, f"holds {odd!r:.60}", UNUSABLE)


def _array(values: Any, name: str) -> NDArray[Any]:
    if hasattr(values, "__array__"):
        return np.asarray(values)
    try:
        listed = list(values)
    except TypeError:
        raise InputError(name, f"must be a list or an array, got {values!r:.60}", "pass one key per row") from None
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


# --------------------------------------------------------------------------------------------------------- crossings


class KeyTable:
    """Keys of one level: the values of a column, or combinations of the values of several.

    A combination is coded pair by pair, so that each row is searched once for each column.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.parts = tuple(Codes() for _ in columns)
        self._pairs = tuple(Codes() for _ in columns[1:])

    def __len__(self) -> int:
        return len(self._pairs[-1] if self._pairs else self.parts[0])

    def admit_kinds(self, values: list[KeyValues]) -> None:
        """Raise an error if the values are of another kind than the keys here."""
        for part, column, name in zip(self.parts, values, self.columns, strict=True):
            part.admit_kind(column, name)

    def admit(self, values: list[KeyValues]) -> None:
        """Raise an error if the values cannot be keys here."""
        for part, column, name in zip(self.parts, values, self.columns, strict=True):
            part.admit(column, name)

    def find(self, values: list[KeyValues]) -> Ints:
        """The code of the key of each row; -1 if it is not here."""
        codes = self.parts[0].find(values[0])
        for part, pairs, column in zip(self.parts[1:], self._pairs, values[1:], strict=True):
            other = part.find(column)
            codes = np.where((codes < 0) | (other < 0), -1, pairs.find(codes << 32 | other))
        return codes

    def add(self, values: list[KeyValues]) -> Ints:
        """The same; new keys get the next codes."""
        codes = self.parts[0].add(values[0])
        for part, pairs, column in zip(self.parts[1:], self._pairs, values[1:], strict=True):
            codes = pairs.add(codes << 32 | part.add(column))
        return codes

    def part_codes(self) -> list[Ints]:
        """For each column, the code of its value in each key."""
        codes, found = np.arange(len(self)), []
        for pairs in reversed(self._pairs):
            both = np.asarray(pairs.values)[codes]
            found.append(both & 0xFFFFFFFF)
            codes = both >> 32
        return [codes, *reversed(found)]

    def keys(self, codes: Ints) -> Iterator[tuple[Any, ...]]:
        """Keys by their codes, as tuples of integers and text."""
        parts = [part.names(its[codes].tolist()) for part, its in zip(self.parts, self.part_codes(), strict=True)]
        return zip(*parts, strict=True)

    def in_order(self) -> Ints:
        """Codes in the order of the keys, column by column."""
        ranks = []
        for part, its in zip(self.parts, self.part_codes(), strict=True):
            values = part.values
            if isinstance(values, list):
                order = np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
            else:
                order = np.argsort(values, kind="stable")
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.arange(len(order))
            ranks.append(rank[its])
        return np.lexsort(ranks[::-1])
