"""What methods with one interval for each old row share: which values many of these intervals hold."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from calibrant.arrays.columns import check_option
from calibrant.conformal.base import ConformalRegressor, Floats
from calibrant.conformal.depth import held_by, plus_interval
from calibrant.conformal.quantiles import votes_needed
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


class Aggregated(ConformalRegressor):
    """Base class of methods that aggregate one interval for each old row."""

    aggregate: Aggregate
    scores_: Floats

    @abstractmethod
    def intervals(self, X: Any) -> tuple[Floats, Floats]:
        """Lower and upper ends of the intervals that the sets are made of: one for each new and each old row."""

    def _calibration_rows(self) -> int:
        return int(self.scores_.size)

    def _sets(self, X: Any, alpha: float) -> PredictionSets:
        return aggregate_intervals(*self.intervals(X), votes_needed(self.scores_.size, alpha), self.aggregate)
