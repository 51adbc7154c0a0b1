"""The records of a bank: one for each key of each crossing, in contiguous memory that grows with the keys."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibrant.live.bank.keys import KeyTable, KeyValues
from calibrant.live.bank.steps import CHANGED, WIDTH
from calibrant.numerics import Floats, Ints

KeyColumns = Mapping[str, KeyValues]
"""The columns of keys by name."""


class Records:
    """Records by key, and the tables that find them.

    Parameters
    ----------
    crossings
        The columns of the keys, for each crossing.

    Attributes
    ----------
    tables
        The keys of each crossing.
    places
        For each crossing, the place of the record of each key.
    flat
        All records, one after the other, with room for more.
    used
        Number of records.
    """

    def __init__(self, crossings: tuple[tuple[str, ...], ...]) -> None:
        self.tables = tuple(KeyTable(crossing) for crossing in crossings)
        self.places: list[Ints] = [np.zeros(0, dtype=np.int64) for _ in crossings]
        self.flat = aligned_records(64)
        self.used = 0

    def admit(self, columns: KeyColumns) -> None:
        """Refuse keys that cannot be added."""
        for table in self.tables:
            table.admit(_columns_of(columns, table))

    def admit_kinds(self, columns: KeyColumns) -> None:
        """Refuse keys of another kind than those held."""
        for table in self.tables:
            table.admit_kinds(_columns_of(columns, table))

    def found(self, columns: KeyColumns) -> Ints:
        """The place of the record of each row and crossing; -1 if the key is not known."""
        found = []
        for table, places in zip(self.tables, self.places, strict=True):
            codes = table.find(_columns_of(columns, table))
            found.append(codes if len(self.tables) == 1 else np.append(places, -1)[codes])
        return found[0][:, None] if len(found) == 1 else np.column_stack(found)

    def added(self, columns: KeyColumns) -> Ints:
        """The same; new keys get a record."""
        found = []
        for level, table in enumerate(self.tables):
            codes = table.add(_columns_of(columns, table))
            self._make_room(level)
            found.append(codes if len(self.tables) == 1 else self.places[level][codes])
        return found[0][:, None] if len(found) == 1 else np.column_stack(found)

    def put(self, level: int, columns: list[KeyValues], records: Floats) -> None:
        """Write records of keys of a crossing."""
        codes = self.tables[level].add(columns)
        self._make_room(level)
        self._table[self.places[level][codes], :CHANGED] = records

    def mark(self, version: int) -> None:
        """State that all records changed at this version."""
        self._table[: self.used, CHANGED] = version

    def of(self, level: int, codes: Ints) -> Floats:
        """A copy of the records of keys of a crossing, by their numbers in its table."""
        return self._table[self.places[level][codes]]

    def column(self, level: int, which: int) -> Floats:
        """One number of each record of a crossing, as its keys were added."""
        return np.asarray(self._table[self.places[level], which])

    @property
    def _table(self) -> Floats:
        return self.flat.reshape(-1, WIDTH)

    def _make_room(self, level: int) -> None:
        """Records for the new keys of a crossing."""
        new = len(self.tables[level]) - len(self.places[level])
        if not new:
            return
        self.places[level] = np.append(self.places[level], np.arange(self.used, self.used + new))
        self.used += new
        if self.used * WIDTH > len(self.flat):
            grown = aligned_records(max(self.used, 2 * len(self.flat) // WIDTH))
            grown[: len(self.flat)] = self.flat
            self.flat = grown


def _columns_of(columns: KeyColumns, table: KeyTable) -> list[KeyValues]:
    return [columns[name] for name in table.columns]


def aligned_records(keys: int) -> Floats:
    """Zeros for the records of this many keys, of which each is in one line of the cache."""
    raw = np.zeros((keys + 1) * WIDTH)
    start = (-raw.ctypes.data // raw.itemsize) % WIDTH
    return raw[start : start + keys * WIDTH]
