"""Names of groups as text: one rule for numpy, frames and engines.

Text is kept, an integer becomes its digits, True and False become ``true`` and ``false``. None, NaN and NULL mean that
a row has no group. Everything else (3.5, dates, bytes) has a text that differs between engines, and is refused.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import CHUNK, EXACT, is_missing, to_array
from calibrant.messages import InputError, Setting

LONGEST_KEY = 1_000
"""Characters that the name of a group may have."""


SPELLINGS = {
    "true": ("true", "True", "TRUE", "1", "1.0"),
    "false": ("false", "False", "FALSE", "0", "0.0"),
}
"""How files and databases write a boolean, by its own text."""


def plain_text(text: str) -> bool:
    """Whether every database and file format can store this text: no NUL character and no lone surrogate."""
    return not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in text)


@dataclass(frozen=True)
class Keys:
    """A column of groups: the sorted distinct names, and the index of each row's name.

    Attributes
    ----------
    codes
        Index into ``names`` of each row, in the shape of the column; -1 where there is no group.
    names
        Distinct names, sorted.
    """

    codes: NDArray[np.intp]
    names: tuple[str, ...]

    def among(self, groups: Sequence[str] | Mapping[str, int]) -> NDArray[np.intp]:
        """Index of each row's name in ``groups``, or its value there, -1 where it is not there."""
        place = groups if isinstance(groups, Mapping) else {group: j for j, group in enumerate(groups)}
        return np.array([*(place.get(name, -1) for name in self.names), -1], dtype=np.intp)[self.codes]

    def as_booleans(self) -> Keys:
        """The same column with every spelling of true and false as these words; other names stay.

        Examples
        --------
        >>> keys = read_keys([1, 0, None]).as_booleans()
        >>> keys.names, keys.codes.tolist()
        (('false', 'true'), [1, 0, -1])
        """
        words = [next((word for word, same in SPELLINGS.items() if name in same), name) for name in self.names]
        names = tuple(sorted(set(words)))
        return Keys(np.array([*map(names.index, words), -1], dtype=np.intp)[self.codes], names)


def read_keys(values: object, name: str | Setting = "groups") -> Keys:
    """Read groups of rows from a column of text, integers or booleans.

    Floats with integer values are read as integers, because pandas turns integers with missing values into floats.

    Cost: one hash table lookup per row.

    Examples
    --------
    >>> keys = read_keys([3.0, float("nan"), 12.0, 3.0])
    >>> keys.names, keys.codes.tolist()
    (('12', '3'), [1, -1, 0, 1])
    >>> read_keys([True, None, False]).names
    ('false', 'true')
    """
    if isinstance(values, Keys):
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(name, "is a masked array", "pass a plain array with None for rows without a group")
    given = np.asarray(values) if isinstance(values, np.ndarray) else to_array(values, name)
    flat, missing = given.reshape(-1), None
    if flat.dtype.kind == "f":
        flat, missing = _whole(flat, name)
    elif flat.dtype.kind not in "biuUOT":
        _refuse(flat.dtype if not flat.size else flat[0], name)
    codes, names = _coded(flat, name)
    if missing is not None:
        codes[missing] = -1
        names, codes = _kept(names, codes)
    return Keys(codes.reshape(given.shape), names)


def key_text(value: Any, name: str | Setting = "groups") -> str | None:
    """The name of one group; None for a missing value.

    Examples
    --------
    >>> key_text("north"), key_text(-7), key_text(2.0), key_text(True), key_text(None)
    ('north', '-7', '2', 'true', None)
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if is_missing(value):
        return None
    if isinstance(value, float | np.floating) and abs(float(value)) < EXACT and value == np.floor(value):
        return str(int(value))
    _refuse(value, name)


def _whole(a: NDArray[Any], name: str | Setting) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Floats with integer values as integers, and where values are missing."""
    missing = np.isnan(a)
    filled = np.where(missing, 0.0, a)
    wrong = (np.abs(filled) >= EXACT) | (np.floor(filled) != filled)
    if wrong.any():
        _refuse(float(a[int(wrong.argmax())]), name)
    return filled.astype(np.int64), missing


def _coded(flat: NDArray[Any], name: str | Setting) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Index of each row's name among the sorted names; in chunks, so that few Python objects exist at a time."""
    codes = np.empty(len(flat), dtype=np.intp)
    places: dict[str | None, int] = {None: 0}
    found: dict[Any, int] = {}
    kinds: set[bool] = set()
    for start in range(0, len(flat), CHUNK):
        items = flat[start : start + CHUNK].tolist()
        try:
            new = dict.fromkeys(items).keys() - found.keys()
        except TypeError:
            raise InputError(name, "holds values that cannot be compared", "pass one text per row") from None
        for value in new:
            found[value] = places.setdefault(key_text(value, name), len(places))
        kinds |= {kind in (bool, np.bool_) for kind in set(map(type, items)) if issubclass(kind, _NUMBERS)}
        codes[start : start + CHUNK] = np.fromiter(map(found.__getitem__, items), np.intp, len(items))
    if len(kinds) > 1:  # True equals 1 in Python, but is a different group
        raise InputError(name, "mixes booleans with numbers", "convert the column to text")
    names = sorted(each for each in places if each is not None)
    order = np.full(len(places), -1, dtype=np.intp)
    order[[places[each] for each in names]] = np.arange(len(names))
    return order[codes], tuple(names)


_NUMBERS = (numbers.Number, np.bool_)


def _kept(names: tuple[str, ...], codes: NDArray[np.intp]) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """The names that occur in some row, and the codes for them."""
    there = np.bincount(codes[codes >= 0], minlength=len(names)) > 0
    place = np.append(np.cumsum(there) - 1, -1)
    return tuple(each for each, kept in zip(names, there, strict=True) if kept), place[codes]


def _refuse(value: object, name: str | Setting) -> NoReturn:
    raise InputError(name, f"holds {value!r}", "groups must be text, integers or booleans: convert the column to text")
