"""Unbiased kernel calibration error over all pairs of rows, computed in one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from calibrant.messages import InputError, note
from calibrant.metrics.binary.bins import Scores, tally_of
from calibrant.metrics.draws import only_values
from calibrant.metrics.estimates import Estimate, Ideal, metric, upper_point
from calibrant.metrics.variance import squared_weights
from calibrant.numerics import Column, Floats
from calibrant.tallies import Tally

MIN_BANDWIDTH = 0.005
"""Smallest bandwidth: the running sums contain exp(2 score / bandwidth), which must not overflow."""


no_null_quantile_under_importance_weights = note(
    "no-null-quantile-under-importance-weights",
    "the 95 % quantile of a calibrated model is not known for importance weights",
)
no_pair_of_rows = note("no-pair-of-rows", "not defined: at least two {nouns.rows} are needed")


@metric(Ideal.ZERO)
def skce(scores: Scores, y: Column = None, sample_weight: Column = None, *, bandwidth: float = 0.1) -> Estimate:
    """Squared kernel calibration error of one column; see :func:`~calibrant.metrics.dispatch.skce`.

    Examples
    --------
    >>> round(skce([0.2, 0.3, 0.6, 0.9], [0, 1, 0, 1]).value, 4)
    -0.0122
    """
    if not isinstance(bandwidth, Real) or not bandwidth >= MIN_BANDWIDTH or math.isinf(bandwidth):
        raise InputError("bandwidth", f"must be finite and at least {MIN_BANDWIDTH}, got {bandwidth!r}")
    tally = tally_of(scores, y, sample_weight)
    name = f"SKCE, bandwidth {bandwidth:g}"
    cells = _Residuals.of(tally)
    if not cells.pairs > 0.0:
        return Estimate(name, math.nan, notes=(no_pair_of_rows(),))
    seen = _decayed(tally.scores, cells.sums, bandwidth)
    seen += _decayed(tally.scores, cells.sums, bandwidth, backwards=True) + cells.sums
    value = (float((cells.sums * seen).sum()) - float(cells.squares.sum())) / cells.pairs
    return Estimate(
        name,
        value,
        se=None if only_values() else _standard_error(tally, cells, seen, value),
        null=None if _repeats(tally) and not tally.counts else 0.0,
        null_high=_null_high(tally, cells.pairs, bandwidth) if tally.counts else None,
        notes=() if tally.counts else (no_null_quantile_under_importance_weights(),),
    )


@dataclass(frozen=True)
class _Residuals:
    """Sums by cell of the residuals and of their squares, and the number of ordered pairs of different rows."""

    sums: Floats
    squares: Floats
    pairs: float

    @classmethod
    def of(cls, tally: Tally) -> _Residuals:
        s, n, events = tally.scores, tally.n, tally.events
        squares = events * (1.0 - s) ** 2 + (n - events) * s**2
        total = float(tally.total)
        w2 = tally.cells.w2
        if w2 is None or _repeats(tally):
            return cls(events - n * s, squares, total * (total - 1.0))
        pairs = total**2 - float(w2.sum())
        alone = len(s) == 1 and pairs <= 1e-9 * total**2  # one row, up to the rounding of its squared weight
        w2, w2_events = squared_weights(tally)
        squares = w2_events * (1.0 - s) ** 2 + (w2 - w2_events) * s**2
        return cls(events - n * s, squares, 0.0 if alone else pairs)


def _repeats(tally: Tally) -> bool:
    """Whether weights can be read as repetition; all doubles of at least 2^53 are integers by rounding."""
    return tally.counts or (tally.whole and float(tally.total) < 2.0**53)


def _decayed(scores: Floats, values: Floats, bandwidth: float, backwards: bool = False) -> Floats:
    r"""For each cell, :math:`\sum v_b e^{-|s_b - s_c| / h}` over the cells b before it (or after it).

    The terms of the running sum, :math:`v_b e^{(s_b - m) / h}` about the middle m, stay below e^200 for the bandwidths
    allowed, and increase in the order of summation, so there is no overflow and no loss of precision.
    """
    if backwards:
        return np.asarray(_decayed(-scores[::-1], values[::-1], bandwidth)[::-1])
    middle = float(scores[0] + scores[-1]) / 2.0
    growth = np.exp((scores - middle) / bandwidth)
    running = np.cumsum(values * growth)
    return np.append(0.0, running[:-1]) / growth


def _standard_error(tally: Tally, cells: _Residuals, seen: Floats, value: float) -> float:
    r"""Twice the standard deviation of a row's mean product with all other rows, over the root of the sample size."""
    s, n, events, total = tally.scores, tally.n, tally.events, float(tally.total)
    own = 1.0 if _repeats(tally) else total / tally.effective_size
    others = total - own
    hit = (1.0 - s) * (seen - own * (1.0 - s)) / others - value
    miss = -s * (seen + own * s) / others - value
    variance = float((events * hit**2 + (n - events) * miss**2).sum()) / total
    return 2.0 * math.sqrt(variance / tally.effective_size)


def _null_high(tally: Tally, pairs: float, bandwidth: float) -> float:
    """95 % quantile if the model is calibrated, from the first three moments; for rows without weights."""
    s = tally.scores
    spread = s * (1.0 - s)
    noise = tally.n * spread
    scale = float(noise.sum())
    if scale <= 0.0:
        return 0.0
    mass = noise / scale  # cubes of large counts would overflow
    before = _decayed(s, mass, bandwidth / 2.0)
    # Rows of one cell form pairs with each other too, but not with themselves.
    pair_sum = 2.0 * float((mass * before).sum()) + float((mass**2 * (1.0 - 1.0 / tally.n)).sum())
    if pair_sum <= 0.0:
        return 0.0
    deviation = math.sqrt(2.0 * pair_sum) * (scale / pairs)
    skewness = 8.0 * _triples(s, mass, before, bandwidth) / (2.0 * pair_sum) ** 1.5
    return deviation * upper_point(skewness)


def _triples(scores: Floats, mass: Floats, before: Floats, bandwidth: float) -> float:
    r"""Sum of :math:`m_a m_b m_c k_{ab} k_{bc} k_{ca}` over all triples of cells.

    Of three sorted scores the kernels multiply to :math:`e^{-2(s_c - s_a)/h}`, whatever lies between.
    """
    upto = np.cumsum(mass)
    through = _decayed(scores, mass * upto, bandwidth / 2.0)
    distinct = float((mass * ((upto - mass) * before - through)).sum())
    squares_before = _decayed(scores, mass**2, bandwidth / 2.0)
    two_equal = float((mass**2 * before + mass * squares_before).sum())
    return 6.0 * distinct + 3.0 * two_equal + float((mass**3).sum())
