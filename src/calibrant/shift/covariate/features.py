"""Features of rows as a matrix of numbers, and where target rows lie outside the range of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.arrays.columns import columns_there, read_floats, refuse_empty, refuse_not_finite
from calibrant.arrays.frames import columns_of
from calibrant.messages import InputError
from calibrant.numerics import Floats


class Features(NamedTuple):
    """Features as a matrix, one row per case, and the names of the columns of a frame, else numbers as text."""

    matrix: Floats
    names: tuple[str, ...]


def read_features(given: Any, name: str, names: tuple[str, ...] | None = None) -> Features:
    """Features from a matrix, one column or a frame; columns of a frame are put into the order of ``names``.

    Examples
    --------
    >>> read_features([[1, 2], [3, 4], [5, 6]], "source").matrix.shape
    (3, 2)
    """
    if hasattr(given, "columns") or hasattr(given, "column_names"):
        there = [str(each) for each in getattr(given, "column_names", None) or given.columns]
        missing = [] if names is None else [each for each in names if each not in there]
        if missing:
            raise InputError(name, f"has no column {missing[0]!r}", columns_there(missing[0], there))
        wanted = tuple(there) if names is None else names
        taken = columns_of(given, wanted)
        columns = [read_floats(taken[each].to_numpy(), f"{name}[{each!r}]") for each in wanted]
        matrix = np.column_stack(columns) if columns else np.zeros((0, 0))
        return _checked(matrix, name, wanted)
    matrix = np.asarray(given)
    if matrix.ndim == 1:
        matrix = matrix.reshape(-1, 1)
    if matrix.ndim != 2:
        raise InputError(name, f"has shape {matrix.shape}", "pass one row per case and one column per feature")
    if names is not None and matrix.shape[1] != len(names):
        raise InputError(
            name, f"has {matrix.shape[1]} features, and the source has {len(names)}", "pass the same features"
        )
    columns = [read_floats(column, name) for column in matrix.T]
    numbered = names or tuple(map(str, range(matrix.shape[1])))
    return _checked(np.column_stack(columns) if columns else np.zeros((0, 0)), name, numbered)


def _checked(matrix: Floats, name: str, names: tuple[str, ...]) -> Features:
    if not matrix.size:
        refuse_empty(name)
    if not np.isfinite(matrix).all():
        column = int(np.argmax(~np.isfinite(matrix).all(axis=0)))
        refuse_not_finite(
            matrix[:, column], f"{name}[{names[column]!r}]", "fill in these values, or drop the feature or the rows"
        )
    return Features(matrix, names)


@dataclass(frozen=True)
class Outside:
    """Target rows outside the range of a feature in the source.

    ``share`` is the share of target rows outside the range of any feature, ``expected`` the largest share expected
    without shift. ``feature`` is the one with most such rows, from ``low`` to ``high`` in the source.
    """

    share: float
    expected: float
    feature: str
    low: float
    high: float


def outside_range(source: Features, target: Features) -> Outside:
    """Target rows outside the range of the source; with n source rows, 2 / (n + 1) by feature are expected.

    Examples
    --------
    >>> ages = np.arange(20.0, 60.0)[:, None]
    >>> outside_range(Features(ages, ("age",)), Features(ages + 10.0, ("age",))).share
    0.25
    """
    low, high = source.matrix.min(axis=0), source.matrix.max(axis=0)
    beyond = (target.matrix < low) | (target.matrix > high)
    worst = int(beyond.sum(axis=0).argmax())
    expected = min(2.0 * len(low) / (len(source.matrix) + 1.0), 1.0)
    share = float(beyond.any(axis=1).mean())
    return Outside(share, expected, source.names[worst], float(low[worst]), float(high[worst]))
