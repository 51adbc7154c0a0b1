"""Text keys of a ledger: each name has a code, and names that nothing uses any more are dropped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.live.bank.keys import Codes, read_key_column
from calibrant.live.inputs import column
from calibrant.live.snapshots import damaged
from calibrant.messages import InputError, plural
from calibrant.numerics import Ints

SLACK = 1_024
"""Names that may be kept beyond twice those that can be in use."""


def text_keys(keys: Any, n: int) -> list[str] | None:
    """Text keys of n rows, of which a single one is repeated; None if they are not text.

    Examples
    --------
    >>> text_keys("de", 2), text_keys(["de", "fr"], 2), text_keys([4, 5], 2)
    (['de', 'de'], ['de', 'fr'], None)
    """
    if isinstance(keys, str):
        return [str(keys)] * n
    array = np.asarray(keys)
    if array.ndim != 1 or array.dtype.kind not in "UTO" or not any(isinstance(each, str) for each in array.tolist()):
        return None
    found = read_key_column(keys, "keys")
    if len(found) != n:
        raise InputError("keys", f"has shape {array.shape}, and there are {plural(n, 'id')}", "pass one per id")
    return list(found)


class KeyNames:
    """Names and their codes, 0, 1, 2, ...

    Examples
    --------
    >>> names = KeyNames()
    >>> codes = names.add(["fr", "de", "fr"])
    >>> codes.tolist(), names.of(codes).tolist()
    ([0, 1, 0], ['fr', 'de', 'fr'])
    >>> names.keep(np.array([1])).tolist(), names.listed()
    ([-1, 0], ['de'])
    """

    def __init__(self) -> None:
        self._codes = Codes()

    def __len__(self) -> int:
        return len(self._codes)

    def listed(self) -> list[str]:
        """All names in the order of their codes."""
        return [str(name) for name in self._codes.values]

    def admit(self, keys: list[str]) -> None:
        """Raise an error if a text cannot be stored."""
        self._codes.admit(keys, "keys")

    def add(self, keys: list[str]) -> Ints:
        """The code of each key; new ones get the next codes."""
        return self._codes.add(keys)

    def of(self, codes: Ints) -> NDArray[Any]:
        """The names with these codes, as an array of objects."""
        found = np.empty(len(codes), dtype=object)
        found[:] = self._codes.names(codes.tolist())
        return found

    def keep(self, used: Ints) -> Ints:
        """Drop the names that are not used and sort the others; the new code of each old one is returned."""
        codes = np.unique(used)
        names = self._codes.names(codes.tolist())
        order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        found = np.full(len(self._codes), -1, dtype=np.int64)
        found[codes[order]] = np.arange(len(order))
        self._codes = Codes()
        self._codes.add([names[place] for place in order.tolist()])
        return found

    @classmethod
    def read(cls, stored: Any, used: Ints) -> KeyNames:
        """The names of a state, sorted; ``used`` are the codes of its rows, which use all of them."""
        texts = isinstance(stored, list) and all(type(each) is str for each in stored)
        if not texts or stored != sorted(set(stored)) or np.unique(used).tolist() != list(range(len(stored))):
            raise damaged()
        found = cls()
        found.admit(stored)
        found.add(stored)
        return found


def coded_keys(
    keys: ArrayLike, n: int, width: int, names: KeyNames | None, so_far: str | None
) -> tuple[Ints, KeyNames | None]:
    """Keys of n rows as integers in one column or several, text as codes; and the names with those of the text."""
    text = text_keys(keys, n) if width == 1 else None
    kind = "integers" if text is None else "text"
    if n and so_far is not None and kind != so_far:
        raise InputError("keys", f"holds {kind}, but the keys so far are {so_far}", f"pass {so_far}")
    if text is not None:
        found = KeyNames() if names is None else names
        found.admit(text)
        return found.add(text), found if text else names
    if width == 1:
        return column("keys", keys, n, np.int64), names
    given = np.asarray(keys)
    if given.ndim > 0 and given.shape != (n, width):
        problem = f"has shape {given.shape}, and there are {plural(n, 'id')}"
        raise InputError("keys", problem, f"pass {width} integers per id")
    shape = (n, width)
    return column("keys", given.reshape(-1) if given.ndim else given, math.prod(shape), np.int64).reshape(shape), names
