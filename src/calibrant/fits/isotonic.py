"""Maps of isotonic regression: pooled blocks, as steps or joined to a strictly increasing curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.maps import PiecewiseLinearMap, StepMap
from calibrant.numerics import Floats
from calibrant.solvers import pool_adjacent
from calibrant.tallies import Tally

PSEUDO_ROWS, PSEUDO_EVENTS = 1.0, 0.5
"""Rows and events that are added to the lowest and the highest block."""

TILT = 1e-3
"""Rise of a plateau, as a share of the smaller adjacent step."""

TINY_SHARE = 1e-9
"""A share of a block's weight that is smaller than any of its rows."""


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of equal fitted value: where each begins, its rows and its value."""

    edges: Floats
    n: Floats
    values: Floats


def fit_steps(tally: Tally, *, shrink_ends: bool = True) -> StepMap:
    """The right-continuous step function of the pooled rates.

    Examples
    --------
    >>> fitted = fit_steps(Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]), shrink_ends=False)
    >>> fitted.apply(np.array([0.0, 0.25, 0.4])).tolist()
    [0.0, 0.5, 1.0]
    """
    blocks = _pooled(tally, shrink_ends)
    return StepMap(blocks.edges[1:], blocks.values)


def fit_curve(tally: Tally, *, shrink_ends: bool = True) -> PiecewiseLinearMap:
    """Plateaus joined by ramps; see :class:`~calibrant.calibrators.binary.isotonic.IsotonicCalibrator`.

    Examples
    --------
    >>> fitted = fit_curve(Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]))
    >>> fitted.apply(np.array([0.0, 0.25, 0.4])).round(3).tolist()
    [0.125, 0.5, 0.75]
    """
    blocks = _pooled(tally, shrink_ends)
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
    low, high = (0.0, 1.0) if tally.score_type == "probability" else (knots[0], knots[-1])
    if low < knots[0]:
        knots, heights = np.append(low, knots), np.append(values[0] - bottom, heights)
    if high > knots[-1]:
        knots, heights = np.append(knots, high), np.append(heights, values[-1] + top)
    return PiecewiseLinearMap(knots, heights)


def fit_centered(tally: Tally, *, shrink_ends: bool = True) -> PiecewiseLinearMap:
    """Linear interpolation between one point per block, its mean score and value; constant beyond the ends.

    Examples
    --------
    >>> fitted = fit_centered(Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]), shrink_ends=False)
    >>> fitted.apply(np.array([0.0, 0.175, 0.25, 0.4])).round(3).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    blocks = _pooled(tally, shrink_ends)
    scores, n = tally.scores, tally.n
    starts = np.searchsorted(tally.lower_edges, blocks.edges)
    share = n / np.repeat(np.add.reduceat(n, starts), np.diff(np.append(starts, len(n))))
    centers = np.add.reduceat(scores * share, starts)
    last = scores[np.append(starts[1:], len(n)) - 1]
    return PiecewiseLinearMap(np.clip(centers, scores[starts], last), blocks.values)  # rounding must not leave a block


def block_edges(tally: Tally, min_rows: float) -> Floats:
    """Inner edges of the blocks of isotonic regression, merged until each has at least ``min_rows`` rows.

    Blocks are merged from below; the rest above the last full block is merged with it.

    Examples
    --------
    >>> tally = Tally.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 0, 1, 1])
    >>> block_edges(tally, 1).tolist(), block_edges(tally, 2).tolist()
    ([0.2, 0.4], [0.4])
    """
    blocks = _pooled(tally, shrink_ends=False)
    reached = np.cumsum(blocks.n)
    edges: list[float] = []
    done = 0.0
    while True:
        last = int(np.searchsorted(reached, done + min_rows))
        if last >= len(reached) - 1 or reached[-1] - reached[last] < min_rows:
            return np.array(edges)
        edges.append(float(blocks.edges[last + 1]))
        done = float(reached[last])


def _pooled(tally: Tally, shrink_ends: bool) -> _Blocks:
    edges, n, events = tally.runs()
    starts = pool_adjacent(n, events)
    edges, n, events = edges[starts], np.add.reduceat(n, starts), np.add.reduceat(events, starts)
    n, events = n.astype(np.float64), events.astype(np.float64)
    if not shrink_ends:
        return _Blocks(edges, n, events / n)
    padded_n, padded_events = n.copy(), events.copy()
    for end in (0, -1):
        padded_n[end] += PSEUDO_ROWS
        padded_events[end] += PSEUDO_EVENTS
    starts = pool_adjacent(padded_n, padded_events)
    values = np.add.reduceat(padded_events, starts) / np.add.reduceat(padded_n, starts)
    return _Blocks(edges[starts], np.add.reduceat(n, starts), values)
