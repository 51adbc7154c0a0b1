"""Features of a row: memberships of groups, or other numbers in [-1, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arrays import InputError
from calibrant.arrays.columns import read_floats
from calibrant.numerics import Floats


def group_features(features: Any, n: int, d: int) -> list[list[float]]:
    """Rows of d features for n scores, in the order of the groups.

    Examples
    --------
    >>> group_features([[1, 0], [1, 1]], 2, 2)
    [[1.0, 0.0], [1.0, 1.0]]
    """
    if features is None and d == 0:
        return [[]] * n
    if features is None:
        raise InputError(f"features must be {d} numbers for each row, as n_features says; none were given")
    found = _matrix(features, d)
    if found.ndim == 2 and found.shape[1] == d and len(found) != n:
        raise InputError(f"features has {len(found):,} rows but scores has {n:,}: pass one for each")
    if found.shape != (n, d):
        raise InputError(f"features must be {d} numbers for each row, as n_features says; got {found.shape[1:]}")
    if np.isnan(found).any():
        raise InputError("features has missing values: say 0 for a row that is not in a group")
    if not (np.abs(found) <= 1.0).all():
        raise InputError("features must be in [-1, 1]: 1 in a group and 0 outside, say")
    rows: list[list[float]] = found.tolist()
    return rows


def _matrix(features: Any, d: int) -> Floats:
    """Numbers; missing ones, of any library, as NaN."""
    try:
        found = np.asarray(features)
        if found.dtype.kind not in "biuf":
            found = read_floats(found.reshape(-1), "features").reshape(found.shape)
    except (TypeError, ValueError, Warning):  # rows of unequal length (a warning before numpy 1.24), text, mappings
        raise InputError(
            f"features must be {d} numbers for each row, a list in the order of the groups, and are none"
        ) from None
    return np.asarray(found, dtype=np.float64)
