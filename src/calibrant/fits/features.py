"""Features of rows in bins: numbers, booleans and text, with missing values in a bin of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import read_column, read_numbers
from calibrant.arrays.keys import read_keys
from calibrant.messages import InputError
from calibrant.numerics import Floats, Ints

MAX_BINS = 254
"""Bins of one feature; with more distinct values, bins of about equal mass."""
MISSING = 255
"""Bin of missing values."""

Cuts = Floats | tuple[str, ...]
"""Where a feature can be split: after a number, or by a text."""


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
    else:
        ends = np.arange(len(distinct) - 1)
    low, high = distinct[ends], distinct[np.minimum(ends + 1, len(distinct) - 1)]
    with np.errstate(over="ignore", invalid="ignore"):
        middle = low + 0.5 * (high - low)
    inside = (low <= middle) & (middle < high)  # not so if they are neighbors, or infinite
    return np.where(inside, middle, low)


def _codes(numbers: Floats, cuts: Floats) -> NDArray[np.uint8]:
    codes = np.searchsorted(cuts, numbers).astype(np.uint8)
    codes[np.isnan(numbers)] = MISSING
    return codes


def bin_sums(codes: NDArray[Any], stats: Floats, bins: int) -> Floats:
    """Sums of each column of ``stats`` by bin."""
    return np.column_stack([np.bincount(codes, column, minlength=bins) for column in stats.T]).astype(np.float64)
