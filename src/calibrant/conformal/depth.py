r"""Values that many of n intervals hold: the aggregation step of cross-conformal and out-of-bag sets.

A value y is in the set if at least v of the n closed intervals :math:`[l_i, u_i]` hold it. With the lower ends in
order, :math:`l_{(1)} \le l_{(2)} \le \dots`, and the upper ends in order as well,

.. math:: \{y : \#\{i : l_i \le y \le u_i\} \ge v\} = \bigcup_{j \ge 1} \bigl[l_{(j + v - 1)}, u_{(j)}\bigr],

where an interval whose lower end is above its upper end is empty. For if v intervals contain y and :math:`j - 1` of
the upper ends are below y, then :math:`y \le u_{(j)}`, and at least :math:`j - 1 + v` lower ends are at most y. The
other way round, y in the j-th interval has at least :math:`j + v - 1` lower ends at or below it, and at most
:math:`j - 1` upper ends below it. So two sorts and one comparison give the set of Gupta (2023), Algorithm 9.1, without
a sweep, for all rows at once and with ties of every kind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.conformal.quantiles import ROUNDING
from calibrant.conformal.sets import PredictionSets

Floats = NDArray[np.float64]


def held_by(lower: Floats, upper: Floats, votes: int) -> PredictionSets:
    """Values that at least ``votes`` of the intervals hold, for each line of two matrices (rows x intervals).

    Parameters
    ----------
    lower, upper
        Ends of intervals; an interval with its lower end above its upper end, or NaN, is empty.
    votes
        How many intervals must hold a value; for 0 every value is in the set.

    Returns
    -------
    PredictionSets
        Unions of disjoint intervals, without a certificate.

    Examples
    --------
    >>> print(held_by(np.array([[0.0, 1.0, 4.0]]), np.array([[2.0, 5.0, 6.0]]), 2))
    1 prediction set, mean width 2, 1 with more than one interval.
      row 0: 1 to 2, 4 to 5
    """
    rows, n = lower.shape
    if votes <= 0:
        return PredictionSets.from_intervals(np.full(rows, -np.inf), np.full(rows, np.inf))
    if votes > n:
        return PredictionSets.from_intervals(np.full(rows, np.inf), np.full(rows, -np.inf))
    low, high = _sorted_ends(lower, upper)
    begin, end = low[:, votes - 1 :], high[:, : n - votes + 1]
    valid = (begin <= end) & (begin < np.inf) & (end > -np.inf)
    starts, ends = valid.copy(), valid.copy()
    starts[:, 1:] &= end[:, :-1] < begin[:, 1:]
    ends[:, :-1] &= (end[:, :-1] < begin[:, 1:]) | ~valid[:, 1:]
    return PredictionSets.from_pieces(starts, ends, begin, end)


def plus_interval(lower: Floats, upper: Floats, votes: int) -> PredictionSets:
    """The jackknife+ or CV+ interval: from the v-th smallest lower end to the v-th largest upper end of each line.

    It contains the set of :func:`held_by`, and its hull. It is empty where fewer than v intervals are not empty.

    Parameters
    ----------
    lower, upper, votes
        See :func:`held_by`.

    Returns
    -------
    PredictionSets
        One interval for each line.

    Examples
    --------
    >>> print(plus_interval(np.array([[0.0, 1.0, 4.0]]), np.array([[2.0, 5.0, 6.0]]), 2))
    1 prediction set, mean width 4.
      row 0: 1 to 5
    """
    rows, n = lower.shape
    if votes <= 0:
        return PredictionSets.from_intervals(np.full(rows, -np.inf), np.full(rows, np.inf))
    if votes > n:
        return PredictionSets.from_intervals(np.full(rows, np.inf), np.full(rows, -np.inf))
    held = lower <= upper
    low = np.partition(np.where(held, lower, np.inf), votes - 1, axis=1)[:, votes - 1]
    high = np.partition(np.where(held, upper, -np.inf), n - votes, axis=1)[:, n - votes]
    return PredictionSets.from_intervals(low, high)


def held_by_weight(lower: Floats, upper: Floats, weights: Floats, least: float) -> PredictionSets:
    """Values whose intervals have a total weight above ``least``, for each line of two matrices.

    Sums of weights are compared with a relative tolerance of 1e-12, in favor of the larger set.

    Parameters
    ----------
    lower, upper
        See :func:`held_by`.
    weights
        Positive weight of each interval, the same in every line.
    least
        Total weight that must be exceeded.

    Returns
    -------
    PredictionSets
        Unions of disjoint intervals, without a certificate.

    Examples
    --------
    >>> print(held_by_weight(np.array([[0.0, 1.0]]), np.array([[2.0, 5.0]]), np.array([1.0, 2.0]), 1.5))
    1 prediction set, mean width 4.
      row 0: 1 to 5
    """
    rows = len(lower)
    tolerance = ROUNDING * (abs(least) + float(weights.sum()))
    if least < -tolerance:
        return PredictionSets.from_intervals(np.full(rows, -np.inf), np.full(rows, np.inf))
    held = lower <= upper
    events = np.concatenate([np.where(held, lower, np.inf), np.where(held, upper, np.inf)], axis=1)
    order = np.argsort(events, axis=1, kind="stable")  # lower ends first among equal values
    values = np.take_along_axis(events, order, axis=1)
    above = np.cumsum(np.concatenate([weights, -weights])[order], axis=1) > max(least - tolerance, weights.min() / 2.0)
    before = np.concatenate([np.zeros((rows, 1), dtype=bool), above[:, :-1]], axis=1)
    starts, ends = above & ~before & (values < np.inf), before & ~above
    ends &= np.cumsum(ends, axis=1) <= starts.sum(axis=1, keepdims=True)  # not those of empty intervals, at infinity
    return PredictionSets.from_pieces(starts, ends, values, values)


def _sorted_ends(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Lower and upper ends in order; those of empty intervals are last, at infinity, where they hold no value."""
    held = lower <= upper
    if held.all():
        return np.sort(lower, axis=1), np.sort(upper, axis=1)
    return np.sort(np.where(held, lower, np.inf), axis=1), np.sort(np.where(held, upper, np.inf), axis=1)
