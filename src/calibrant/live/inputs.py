"""Arguments of the ledger as checked columns: durations, times and one value for each id."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.live.ids import Ids
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats, Ints


def groups_of(ids: Ids) -> Ints:
    """A number for each id, the same for equal ids."""
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ordered = ids[order]
    starts = np.zeros(len(ids), dtype=np.int64)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    found = np.empty(len(ids), dtype=np.int64)
    found[order] = np.cumsum(starts)
    return found


def beside(mask: NDArray[np.bool_], column: NDArray[Any]) -> NDArray[np.bool_]:
    """A condition on rows, for a column or for rows of several."""
    return mask.reshape(-1, *(1,) * (column.ndim - 1))


def rows_of(column: NDArray[Any]) -> NDArray[Any]:
    """A column, or several, as rows."""
    return column.reshape(len(column), math.prod(column.shape[1:]))


def duration(name: str, value: Any, positive: bool = False) -> float:
    """A length of time."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0.0 or (positive and value == 0.0):
        least = "positive" if positive else "0 or more"
        fix = "silence means something only after a known time" if name == "horizon" else None
        raise InputError(name, f"must be a finite number, {least}, got {value!r}", fix)
    return float(value)


def column(name: str, values: ArrayLike, n: int, kind: Any) -> NDArray[Any]:
    """One value for each id; a single one is repeated."""
    what = "integers" if kind is np.int64 else "numbers"
    try:
        given = np.asarray(values)
        array = given.astype(kind, casting="same_kind") if given.size else given.astype(kind)
    except (TypeError, ValueError):
        raise InputError(name, f"must hold {what}") from None
    if given.dtype.kind == "u" and given.size and given.max() > np.iinfo(np.int64).max:
        raise InputError(name, f"holds {given.max()}", "pass integers below 2**63")
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n):
        raise InputError(name, f"has shape {array.shape}, and there are {plural(n, 'id')}", "pass one per id")
    return np.broadcast_to(array, n)


def times(name: str, values: ArrayLike, n: int, later: float = 0.0) -> Floats:
    """Times as numbers, to which ``later`` can be added."""
    found = column(name, values, n, np.float64)
    if not (np.abs(found) <= np.finfo(np.float64).max - later).all():
        raise InputError(name, "must hold finite numbers", "pass times as numbers, such as seconds")
    return found
