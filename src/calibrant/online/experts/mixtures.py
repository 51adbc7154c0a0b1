"""Mixtures of forecasters: weighted means, their rounding error, and joint learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calibrant.online.base import Forecaster
from calibrant.online.limits import LEAST_CLAMP

LARGEST_LOG_LOSS = -math.log(LEAST_CLAMP)
"""Largest log loss of a clipped forecast; also the most that a log-weight can fall in one row."""

LOST_A_ROW = 2.0**-21
"""Largest loss per row from rounding a mean: near 1 it is off by 2^-54, and then 1 - p by 2^-22 of itself."""


def held_inside(p: float) -> float:
    """The forecast clipped to at least 2^-32 from 0 and 1, so that the log loss is finite."""
    return LEAST_CLAMP if p < LEAST_CLAMP else 1.0 - LEAST_CLAMP if p > 1.0 - LEAST_CLAMP else p


def weighted_mean(forecasts: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted mean of forecasts; above 1/2 computed for 1 - p, for accuracy, and never outside their range.

    Examples
    --------
    >>> weighted_mean([0.25, 0.75], [3.0, 1.0]), 1.0 - weighted_mean([1.0 - 2.0**-30, 1.0 - 2.0**-32], [1.0, 2.0])
    (0.375, 4.656612873077393e-10)
    """
    total = math.fsum(weights)
    found = math.fsum([w * p for w, p in zip(weights, forecasts, strict=True)]) / total
    if found > 0.5:
        found = 1.0 - math.fsum([w * (1.0 - p) for w, p in zip(weights, forecasts, strict=True)]) / total
    return min(max(found, min(forecasts)), max(forecasts))


def lost_by_rounding(n_rows: int) -> float:
    r"""Most that rounding can add to the log loss of a mixture, beyond that of one member, over this many rows.

    A mean loses at most :data:`LOST_A_ROW`. A log-weight falls by at most :math:`c = 32 \log 2` per row, and each sum
    is rounded by :math:`2^{-53}` of itself, which is :math:`c\, n (n + 1) / 2 \cdot 2^{-53}` over n rows.

    Examples
    --------
    >>> [round(lost_by_rounding(n), 4) for n in (10**4, 10**6, 10**8)]
    [0.0048, 0.4781, 59.9965]
    """
    return n_rows * (LOST_A_ROW + 0.5 * (n_rows + 1) * LARGEST_LOG_LOSS * 2.0**-53)


def step_all(experts: Sequence[tuple[Forecaster, Any]], score: float, label: float) -> list[float]:
    """Let every expert learn a row, and return their forecasts; if one of them rejects the row, none learns it."""
    told = [math.nan if expert._never_refuses else expert._predict_one(score, features) for expert, features in experts]
    for i, (expert, features) in enumerate(experts):
        if expert._never_refuses:
            told[i] = expert._step(score, label, features)
        else:
            expert._learn_one(score, label, features)
    return told
