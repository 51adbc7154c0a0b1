"""Isotonic regression as a calibrator: steps, or a continuous strictly increasing curve through their centres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator
from calibrant.guarantees.certificates import IMPOSSIBLE, Bound, Certificate, Mode, Refusal
from calibrant.maps import Map, PiecewiseLinearMap, StepMap
from calibrant.numerics import Floats
from calibrant.solvers import pool_adjacent
from calibrant.tallies import Tally

PSEUDO_ROWS, PSEUDO_EVENTS = 1.0, 0.5
TILT = 1e-3
"""How far a plateau leans, as a share of the smaller step beside it."""
TINY_SHARE = 1e-9
"""A share of a block's weight that is less than any row of it."""


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of equal fitted value: where each begins, its rows and its value."""

    edges: Floats
    n: Floats
    values: Floats


class IsotonicCalibrator(BinaryCalibrator):
    r"""The best non-decreasing fit to the labels, in squared error and in log loss alike.

    Pool-adjacent-violators splits the scores into blocks whose event rates rise. With ``step=True`` the map is the
    right-continuous step function of 002 eq. 1.10 (below the smallest score, the first block's value). By default it is
    continuous and strictly increasing, so that no ties are made and a ranking survives:

    - between neighbouring blocks of :math:`n_j` and :math:`n_{j+1}` rows the map rises in a straight line over the last
      h rows of one and the first h rows of the other, :math:`h = \min(n_j, n_{j+1}) / 2`, so what the one gains the
      other loses, and a block of many rows keeps its value beside a block of few;
    - the rest of a block is a plateau at its value, tilted by a thousandth of the smaller step beside it;
    - outside the data the map goes on to the ends of [0, 1], one standard error of the end block's value further out,
      at most half way to 0 or 1. Real scores stay constant there.

    Both variants count one pseudo-row of half an event into the lowest and the highest block and pool again
    (``shrink_ends``), so no output is 0 or 1: a block of n rows without an event gets 0.5 / (n + 1).

    Parameters
    ----------
    step : bool
        Keep the steps. The Brier score on the fitted rows is then the least possible; the continuous curve costs about
        1 % there on 2,000 rows of a smooth truth, and gains 0.1 % on new ones (``tests/unit/test_isotonic.py``).
    shrink_ends : bool
        Keep outputs off 0 and 1.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the steps are chosen with the labels that fill them.
    Cost: one sort, then linear; ``scipy.optimize.isotonic_regression`` does the pooling.

    Examples
    --------
    >>> cal = IsotonicCalibrator(step=True, shrink_ends=False).fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> cal.transform([0.0, 0.25, 0.4]).tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, *, step: bool = False, shrink_ends: bool = True) -> None:
        self.step = step
        self.shrink_ends = shrink_ends

    def _fit_map(self, tally: Tally) -> Map:
        blocks = self._blocks(tally)
        if self.step:
            return StepMap(blocks.edges[1:], blocks.values)
        return _curve(blocks, tally)

    def _blocks(self, tally: Tally) -> _Blocks:
        edges, n, events = tally.runs()
        starts = pool_adjacent(n, events)
        edges, n, events = edges[starts], np.add.reduceat(n, starts), np.add.reduceat(events, starts)
        n, events = n.astype(np.float64), events.astype(np.float64)
        if not self.shrink_ends:
            return _Blocks(edges, n, events / n)
        padded_n, padded_events = n.copy(), events.copy()
        for end in (0, -1):
            padded_n[end] += PSEUDO_ROWS
            padded_events[end] += PSEUDO_EVENTS
        starts = pool_adjacent(padded_n, padded_events)
        values = np.add.reduceat(padded_events, starts) / np.add.reduceat(padded_n, starts)
        return _Blocks(edges[starts], np.add.reduceat(n, starts), values)

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        if not self.step:
            return Refusal(IMPOSSIBLE)
        return Refusal(
            "isotonic regression chooses its steps with the labels that fill them, which no theorem here covers: "
            "use HistogramBinning if you need a certificate"
        )

    def _describe(self) -> str:
        values = cast(StepMap | PiecewiseLinearMap, self.map_).values
        shape = "steps" if self.step else "knots, strictly increasing"
        return f"{len(values)} {shape}, values from {values[0]:.4g} to {values[-1]:.4g}"


def _curve(blocks: _Blocks, tally: Tally) -> PiecewiseLinearMap:
    """Plateaus joined by ramps; see the class for the construction."""
    values, n = blocks.values, blocks.n
    before = np.cumsum(n) - n
    ramp = np.minimum(n[:-1], n[1:]) / 2
    starts = tally.score_at(before + np.maximum(np.append(0.0, ramp), TINY_SHARE * n))
    ends = np.maximum(tally.score_at(before + n - np.append(ramp, 0.0)), starts)
    spread = np.sqrt(values * (1.0 - values) / (n + PSEUDO_ROWS))
    bottom = min(spread[0], values[0] / 2)
    top = min(spread[-1], (1.0 - values[-1]) / 2)
    gaps = np.concatenate([[bottom], np.diff(values), [top]])
    tilt = np.where(ends > starts, TILT * np.minimum(gaps[:-1], gaps[1:]), 0.0)
    knots = np.column_stack([starts, ends]).ravel()
    heights = np.column_stack([values - tilt, values + tilt]).ravel()
    single = np.append(False, knots[1:] == knots[:-1])  # a plateau of one score needs one knot
    knots, heights = knots[~single], heights[~single]
    low, high = (0.0, 1.0) if tally.kind == "probability" else (knots[0], knots[-1])
    if low < knots[0]:
        knots, heights = np.append(low, knots), np.append(values[0] - bottom, heights)
    if high > knots[-1]:
        knots, heights = np.append(knots, high), np.append(heights, values[-1] + top)
    return PiecewiseLinearMap(knots, heights)
