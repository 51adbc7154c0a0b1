"""Labels that are fractions in [0, 1]: a row as an event and a non-event, which share its weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, first_row, read_column, read_floats
from calibrant.arrays.labels import refuse_swapped
from calibrant.messages import InputError

NO_SHARE = 1e-12
"""Fractions that are nearer than this to 0 or 1 are 0 or 1."""


class HalfRows(NamedTuple):
    """Rows twice: first as events, then as non-events; rows of the same group depend on each other."""

    scores: NDArray[Any]
    labels: NDArray[Any]
    weights: NDArray[Any]
    groups: NDArray[Any]


def half_rows(scores: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> HalfRows:
    """Each row with label q as an event of weight q and a non-event of weight 1 - q, in one group.

    Examples
    --------
    >>> rows = half_rows([0.3, 0.6], [0.25, 1.0])
    >>> rows.labels.tolist(), rows.weights.tolist(), rows.groups.tolist()
    ([1, 1, 0, 0], [0.25, 1.0, 0.75, 0.0], [0, 1, 0, 1])
    """
    s, q = read_column(scores, "scores"), read_floats(y, "y")
    check_length(q, "y", len(s))
    row = first_row(q, lambda part: ~((part >= 0.0) & (part <= 1.0)))
    if row is not None:
        raise InputError("y", f"is {q[row]:g} at row {row} counted from 0", "pass fractions in [0, 1]")
    refuse_swapped(s, q, "y")
    q = np.where(q < NO_SHARE, 0.0, np.where(q > 1.0 - NO_SHARE, 1.0, q))  # halves of no weight would be refused
    weight = np.ones(len(q)) if sample_weight is None else read_floats(sample_weight, "sample_weight")
    check_length(weight, "sample_weight", len(q))
    group = np.arange(len(q)) if groups is None else read_column(groups, "groups")
    check_length(group, "groups", len(q))
    weights = np.concatenate([weight * q, weight * (1.0 - q)])
    return HalfRows(twice(s), np.repeat([1, 0], len(q)), weights, twice(group))


def twice(column: NDArray[Any]) -> NDArray[Any]:
    """A column, and then the same column again."""
    return np.concatenate([column, column])
