"""Features of rows in bins: numbers, booleans and text, with missing values in a bin of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import read_column, read_floats, read_numbers
from calibrant.arrays.keys import SPELLINGS, Keys, read_keys
from calibrant.maps.base import by_name
from calibrant.messages import InputError
from calibrant.numerics import Floats, Ints

MAX_BINS = 254
"""Bins of one feature; with more distinct values, bins of about equal mass."""
MISSING = 255
"""Bin of missing values."""

Cuts = Floats | tuple[str, ...]
"""Where a feature can be split: after a number, or by a text."""

Table = Mapping[str, Any]
"""Feature columns by name: text and booleans as :class:`Keys`, numbers as an array."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of rows, binned.

    Attributes
    ----------
    names
        Name of each feature.
    cuts
        Of a feature of numbers the ascending places of its cuts: bin k holds the values above ``cuts[k - 1]`` and up to
        ``cuts[k]``. Of a feature of text its levels, one for each bin.
    codes
        Bin of each row and feature; :data:`MISSING` without a value.
    """

    names: tuple[str, ...]
    cuts: tuple[Cuts, ...]
    codes: NDArray[np.uint8]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Features:
        """Bin columns of numbers, booleans or text, by name.

        Examples
        --------
        >>> found = Features.of({"age": [30.0, 50.0, np.nan], "sex": ["f", "m", "f"]})
        >>> found.cuts[0].tolist(), found.cuts[1], found.codes.tolist()
        ([40.0], ('f', 'm'), [[0, 0], [1, 1], [255, 0]])
        """
        if not columns:
            raise InputError("features", "has no column", "pass at least one feature")
        made = [_binned(values, name) for name, values in columns.items()]
        lengths = {len(codes) for _, codes in made}
        if len(lengths) > 1:
            raise InputError(
                "features", f"has columns of {min(lengths):,} and {max(lengths):,} rows", "pass equal ones"
            )
        return cls(tuple(columns), tuple(cuts for cuts, _ in made), np.column_stack([codes for _, codes in made]))

    def take(self, rows: Ints) -> Features:
        """The same features of some rows."""
        return replace(self, codes=self.codes[rows])

    def is_text(self, feature: int) -> bool:
        """Whether a feature is text, and is split by one of its levels."""
        return isinstance(self.cuts[feature], tuple)


def _binned(values: Any, name: str) -> tuple[Cuts, NDArray[np.uint8]]:
    column = read_column(values, name)
    if column.dtype.kind in "OUT" and any(isinstance(value, str) for value in column.tolist()):
        keys = read_keys(column, name)
        counts = np.bincount(keys.codes[keys.codes >= 0], minlength=len(keys.names))
        kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_BINS])
        place = np.full(len(keys.names) + 1, MAX_BINS, dtype=np.uint8)
        place[kept], place[-1] = np.arange(len(kept)), MISSING
        return tuple(keys.names[j] for j in kept), place[keys.codes]
    numbers = read_numbers(column, name).astype(np.float64)
    cuts = _cuts(numbers[~np.isnan(numbers)])
    return cuts, _codes(numbers, cuts)


def _cuts(values: Floats) -> Floats:
    """Places between distinct values, at most as many as there are bins."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > MAX_BINS:
        ends = np.searchsorted(np.cumsum(counts), len(values) * np.arange(1, MAX_BINS) / MAX_BINS)
        ends = np.unique(np.minimum(ends, len(distinct) - 2))
        away = len(distinct) // (4 * MAX_BINS)  # bins are arbitrary, so a cut of few digits nearby is as good
        first = np.maximum(ends - away, np.append(0, (ends[:-1] + ends[1:]) // 2 + 1))
        last = np.minimum(ends + 1 + away, np.append((ends[:-1] + ends[1:]) // 2 + 1, len(distinct) - 1))
    else:
        first = np.arange(len(distinct) - 1)
        last = first + 1
    low, high = distinct[first], distinct[last]
    return np.array([_short_between(*pair) for pair in zip(low.tolist(), high.tolist(), strict=True)], dtype=np.float64)


def _short_between(low: float, high: float) -> float:
    """A number of few digits from ``low`` on and below ``high``, near their middle, so that a rule can be read.

    Examples
    --------
    >>> _short_between(30.0, 50.0), _short_between(41.0, 42.0), _short_between(1187.3, 1212.9)
    (40.0, 41.0, 1200.0)
    """
    if high - low == 1.0 and low == math.floor(low):  # neighbors among integers
        return low
    middle = low + 0.5 * (high - low)
    if not (math.isfinite(middle) and low <= middle < high):  # neighbors, or infinite
        return low
    for digits in range(16):
        near = float(f"{middle:.{digits}e}")
        step = 10.0 ** (math.floor(math.log10(abs(middle))) - digits) if middle else 1.0
        for short in (near, float(f"{near - step:.{digits}e}")):
            if low <= short < high:
                return short
    return middle


def _codes(numbers: Floats, cuts: Floats) -> NDArray[np.uint8]:
    codes = np.searchsorted(cuts, numbers).astype(np.uint8)
    codes[np.isnan(numbers)] = MISSING
    return codes


def bin_sums(codes: NDArray[Any], stats: Floats, bins: int) -> Floats:
    """Sums of each column of ``stats`` by bin."""
    return np.column_stack([np.bincount(codes, column, minlength=bins) for column in stats.T]).astype(np.float64)


# ------------------------------------------------------------------------------------------------------ Reading a table


def feature_columns(features: Any) -> dict[str, Any]:
    """Columns by name, of a frame, a mapping, a matrix or one column."""
    named = by_name(features)
    if isinstance(named, Mapping):
        return {str(name): column for name, column in named.items()}
    if isinstance(named, str):
        raise InputError("features", f"is {named!r}, and there is no frame", "pass the columns themselves")
    matrix = np.asarray(named)
    if matrix.ndim == 1:
        return {str(getattr(features, "name", None) or "x0"): named}
    if matrix.ndim != 2:
        raise InputError("features", f"has shape {matrix.shape}", "pass a frame, a mapping or a matrix")
    return {f"x{j}": matrix[:, j] for j in range(matrix.shape[1])}


def read_features(features: Any) -> dict[str, Any]:
    """Checked feature columns by name: text and booleans as :class:`Keys`, numbers as float64."""
    found: dict[str, Any] = {}
    for name, values in feature_columns(features).items():
        where = f"the column {name!r} of features"
        if not name:
            raise InputError("features", "has a column without a name", "name it")
        column = read_column(values, where)
        items = column.tolist() if column.dtype.kind in "OUT" else ()
        spoken = column.dtype.kind == "b" or any(isinstance(item, str | bool) for item in items)
        found[name] = _texts(read_keys(column, where)) if spoken else read_floats(column, where)
    if not found:
        raise InputError("features", "has no column", "pass at least one feature")
    lengths = {_size(column) for column in found.values()}
    if len(lengths) > 1:
        raise InputError("features", f"has columns of {min(lengths):,} and {max(lengths):,} rows", "pass equal ones")
    return found


def _texts(keys: Keys) -> Keys:
    """A column of text; one of nothing but true and false, in whatever letters, as booleans."""
    words = {name for same in SPELLINGS.values() for name in same}
    spoken = any(name.lower() in SPELLINGS for name in keys.names)
    return keys.as_booleans() if spoken and words.issuperset(keys.names) else keys


def booleans(table: Table) -> frozenset[str]:
    """Names of the columns with no other values than true and false."""
    return frozenset(
        name for name, column in table.items() if isinstance(column, Keys) and SPELLINGS.keys() >= {*column.names}
    )


def incomplete(table: Table) -> frozenset[str]:
    """Names of the columns with missing values."""
    return frozenset(
        name
        for name, column in table.items()
        if (column.codes < 0 if isinstance(column, Keys) else np.isnan(column)).any()
    )


def _size(column: Any) -> int:
    return len(column.codes) if isinstance(column, Keys) else len(column)


def as_objects(table: Table) -> dict[str, Any]:
    """The columns as :meth:`Features.of` reads them."""
    return {
        name: np.array([*column.names, None], dtype=object)[column.codes] if isinstance(column, Keys) else column
        for name, column in table.items()
    }


def take_columns(table: Table, rows: Ints) -> dict[str, Any]:
    """Some rows of each column."""
    return {
        name: Keys(column.codes[rows], column.names) if isinstance(column, Keys) else column[rows]
        for name, column in table.items()
    }


def matching(table: Table, weights: NDArray[Any] | None, rows: int) -> Table:
    """The features of rows with a weight above 0, after checking that there is one value per score."""
    given = rows if weights is None else len(weights)
    for name, column in table.items():
        if _size(column) != given:
            raise InputError(
                "features",
                f"has {_size(column):,} rows in {name!r}, but there are {given:,} scores",
                "pass one per score",
            )
    return table if weights is None else take_columns(table, np.flatnonzero(weights > 0))
