"""Checks of what a bank is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import read_floats
from calibrant.live.bank.keys import KeyValues, read_key_column
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats
from calibrant.online.limits import real

HEAVIEST = 1e9
"""Largest weight of a row."""


def all_text(values: list[Any]) -> bool:
    """Whether all values are text."""
    return set(map(type, values)) == {str}


def key_columns(keys: Any, columns: tuple[str, ...], n: int) -> dict[str, KeyValues]:
    """The columns of keys by name, one value for each of ``n`` rows."""
    if len(columns) == 1 and not isinstance(keys, Mapping):
        given = {columns[0]: keys}
    else:
        given = {}
        for name in columns:
            try:
                given[name] = keys[name]
            except (KeyError, TypeError, IndexError, ValueError):
                fix = f"pass a mapping or a frame with {', '.join(map(repr, columns))}"
                raise InputError("keys", f"has no column {name!r}", fix) from None
    found = {}
    for name, column in given.items():
        label = "keys" if len(columns) == 1 else name
        found[name] = column if type(column) is list and all_text(column) else read_key_column(column, label)
        if len(found[name]) != n:
            raise InputError(label, f"has {len(found[name])} rows but scores has {n}", "pass one for each score")
    return found


def read_columns(columns: Any) -> tuple[str, ...]:
    """Names of the columns of keys, checked."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise InputError("columns", f"must be distinct names of columns, got {columns!r:.60}")
    return names


def read_crossings(crossings: Any, columns: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Keys from coarse to fine, each a tuple of columns; by default one of all columns."""
    if crossings is None:
        return (columns,)
    if isinstance(crossings, str):
        raise InputError("crossings", "is a single text", "pass a list of tuples of columns")
    found = tuple((each,) if isinstance(each, str) else tuple(each) for each in crossings)
    used = [name for each in found for name in each]
    unknown = sorted(set(used).difference(columns))
    if unknown or not found or not all(found) or len(set(map(frozenset, found))) != len(found):
        problem = f"names the unknown column {unknown[0]!r}" if unknown else "must be distinct and not empty"
        raise InputError("crossings", problem, f"use {', '.join(map(repr, columns))}")
    return found


def read_half_lives(given: Any, depth: int) -> tuple[float | None, ...]:
    """A half-life for each crossing, or None where rows do not fade."""
    each = tuple(given) if isinstance(given, list | tuple | np.ndarray) else (given,) * depth
    if len(each) != depth:
        raise InputError("half_life", f"has {len(each)} numbers for {plural(depth, 'crossing')}", "pass one for each")
    return tuple(None if one is None else real("half_life", one, 1.0, 1e15) for one in each)


def read_weights(weights: ArrayLike, n: int) -> Floats:
    """Weights of the rows, checked."""
    found: Floats = read_floats(weights, "weights")
    if len(found) != n:
        raise InputError("weights", f"has {len(found)} rows but scores has {n}", "pass one for each score")
    if found.size and not (found.min() >= 0.0 and found.max() <= HEAVIEST):
        raise InputError("weights", f"must be from 0 to {HEAVIEST:g}", "leave out rows that do not count")
    return found
