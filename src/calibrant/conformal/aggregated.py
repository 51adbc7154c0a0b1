"""What methods with one interval for each old row share: which values many of these intervals hold."""

from __future__ import annotations

from typing import Literal

from calibrant.arrays.columns import check_option
from calibrant.conformal.base import Floats
from calibrant.conformal.depth import held_by, plus_interval
from calibrant.conformal.sets import PredictionSets

Aggregate = Literal["set", "hull", "plus"]
AGGREGATES: tuple[Aggregate, ...] = ("set", "hull", "plus")


def aggregate_intervals(lower: Floats, upper: Floats, votes: int, how: Aggregate) -> PredictionSets:
    """The set of all values that ``votes`` intervals hold, the smallest interval around it, or the jackknife+ interval.

    Examples
    --------
    >>> import numpy as np
    >>> ends = np.array([[0.0, 1.0, 4.0]]), np.array([[2.0, 5.0, 6.0]])
    >>> [aggregate_intervals(*ends, 2, how).width.tolist() for how in ("set", "hull", "plus")]
    [[2.0], [4.0], [4.0]]
    """
    check_option("aggregate", how, AGGREGATES)
    if how == "plus":
        return plus_interval(lower, upper, votes)
    found = held_by(lower, upper, votes)
    return found.hull if how == "hull" else found
