"""Inductive Venn-Abers: isotonic regression with one more row of either label, for all scores together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.fits.bins import ROUNDING, both_sides
from calibrant.maps import PiecewiseLinearMap, StepMap
from calibrant.numerics import Floats, Grid
from calibrant.solvers import pool_adjacent
from calibrant.tallies import Tally

NODES, MAX_EXACT_CELLS = 128, 1 << 16
"""Nodes of the curve, and the number of distinct scores above which the grid is used."""


@dataclass(frozen=True, eq=False)
class VennMaps:
    """The two probabilities and the point prediction, as functions of the score."""

    p0: StepMap
    p1: StepMap
    point: StepMap


def fit_venn(tally: Tally) -> VennMaps:
    r"""Both probabilities of every score, and :math:`p = p_1 / (1 - p_0 + p_1)`.

    In every isotonic fit, a new row of label 1 between two cells is pooled with the upper one, and a row of label 0
    with the lower one. So :math:`p_1` is constant from just above one cell up to the next, and :math:`p_0` from one
    cell to just below the next. Cost: O(cells log blocks).

    Examples
    --------
    >>> both = fit_venn(Tally.from_arrays([0.2, 0.4], [0, 1]))
    >>> both.p0.apply([0.1, 0.2, 0.4]).tolist(), both.p1.apply([0.2, 0.4, 0.5]).tolist()
    ([0.0, 0.0, 0.5], [0.5, 1.0, 1.0])
    """
    n, events = tally.n, tally.events
    rise, run = with_one_event(n, events)
    p1 = np.append(rise / run, 1.0)
    rise, run = (part[::-1] for part in with_one_event(n[::-1], (n - events)[::-1]))
    p0 = np.append(0.0, (run - rise) / run)
    begins, ends = tally.lower_edges, tally.upper_edges
    lowest, knots = both_sides(tally, begins, ends)
    at = np.append(lowest, knots)
    lower = np.clip(p0[np.searchsorted(begins, at, side="right")], 0.0, 1.0)
    upper = np.clip(p1[np.searchsorted(ends, at, side="right")], lower, 1.0)
    point = np.maximum.accumulate(upper / (1.0 - lower + upper))  # rounding must not invert the ranking
    return VennMaps(*(StepMap(knots, values).merged() for values in (lower, upper, point)))


def with_one_event(n: NDArray[Any], events: NDArray[Any]) -> tuple[Floats, Floats]:
    r"""For each cell, events and rows of its isotonic block after adding one event to it.

    With :math:`N_j, E_j` the rows and events of the first j cells, the block's rate after an event in cell k is

    .. math:: p_1(k) = \max_{a < k} \min_{b \ge k} \frac{E_b - E_a + 1}{N_b - N_a + 1}
                     = \max_{a < k} \min_{b > a,\ b \in H} \frac{E_b - E_a + 1}{N_b - N_a + 1},

    where H is the set of ends of the blocks of the original rows, the corners of the greatest convex minorant of the
    points :math:`(N_j, E_j)`. The second form holds because only an a whose point, moved down and left by 1, lies below
    the line of the earlier ones raises the maximum; points above that line and left of its corner in H then lie above
    the new line as well. So only the tangent from each a to the corners on its right is needed, and these are found by
    one bisection for all a together.

    Returns
    -------
    rise, run
        Numerators and denominators, so that a caller can form the rate or its complement without cancellation.

    Examples
    --------
    >>> rise, run = with_one_event(np.array([1, 1, 1]), np.array([1, 0, 0]))
    >>> (rise / run).tolist()
    [0.5, 0.5, 0.5]
    """
    total, hits = (np.append(0.0, np.cumsum(column, dtype=np.float64)) for column in (n, events))
    corners = np.append(pool_adjacent(n, events)[1:], len(n))
    x, y = total[corners], hits[corners]
    starts = np.arange(len(n))
    left, top = total[:-1] - 1.0, hits[:-1] - 1.0
    low = np.searchsorted(corners, starts, side="right")
    high = np.full(len(n), len(corners) - 1)
    open_, middle = np.flatnonzero(low < high), low[low < high]  # most points touch the nearest corner: try it first
    while len(open_):  # the first corner whose own line to the next passes at or below the point
        here, after = x[middle], x[middle + 1]
        touches = (y[middle] - top[open_]) * (after - here) <= (y[middle + 1] - y[middle]) * (here - left[open_])
        high[open_[touches]], low[open_[~touches]] = middle[touches], middle[~touches] + 1
        open_ = open_[low[open_] < high[open_]]
        middle = (low[open_] + high[open_]) // 2
    rise, run = y[high] - top, x[high] - left
    slopes = rise / run
    best = np.maximum.accumulate(np.where(slopes >= np.maximum.accumulate(slopes), starts, 0))
    return rise[best], run[best]


def merged_pairs(p0: Floats, p1: Floats) -> tuple[Floats, Floats, Floats]:
    r"""Merge several pairs for the same rows, along the first axis, by geometric means into one pair and one point.

    .. math:: \bar p_0 = 1 - \prod_k (1 - p_{0,k})^{1/K}, \qquad \bar p_1 = \prod_k p_{1,k}^{1/K}, \qquad
              p = \frac{\bar p_1}{1 - \bar p_0 + \bar p_1}.

    Examples
    --------
    >>> p0, p1, point = merged_pairs(np.array([[0.2], [0.2]]), np.array([[0.4], [0.4]]))
    >>> p0.round(9).item(), p1.round(9).item(), point.round(9).item()  # 0.4 / (0.8 + 0.4)
    (0.2, 0.4, 0.333333333)
    """
    no, yes = np.exp(np.log1p(-p0).mean(axis=0)), np.exp(np.log(p1).mean(axis=0))
    return np.asarray(1.0 - no), np.asarray(yes), np.asarray(yes / (no + yes))


def fit_venn_curve(tally: Tally, nodes: int = NODES) -> PiecewiseLinearMap:
    """The point prediction at up to ``nodes`` scores of equal mass, with linear interpolation.

    Examples
    --------
    >>> curve = fit_venn_curve(Tally.from_arrays([0.2, 0.4], [0, 1]))
    >>> curve.apply([0.2, 0.3, 0.4]).round(3).tolist()
    [0.333, 0.5, 0.667]
    """
    if tally.resolution == "exact" and tally.score_type == "probability" and len(tally) > MAX_EXACT_CELLS:
        tally = tally.coarsen(Grid())
    mass = np.cumsum(tally.n)
    middles = (np.arange(nodes) + 0.5) * (float(mass[-1]) / nodes) * (1.0 - ROUNDING)
    places = np.unique(np.concatenate([[0], np.searchsorted(mass, middles), [len(tally) - 1]]))
    at = tally.scores[places]
    return PiecewiseLinearMap(at, np.maximum.accumulate(fit_venn(tally).point.apply(at)))
