"""About how many more labels settle the question."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics import Floats
from calibrant.verdict.likelihood import Box, Comparison, Likelihood, critical_value

DRAWS = 400
SETTLED = 0.9
"""Chance of a decision that the number of labels is chosen for; rounding and small samples cost some of it."""

MOST = 1e6
"""Times as many labels as there are now, beyond which the answer is "never"."""

FEW_EVENTS = 8
"""Below so many rows of either class the present estimate says nothing about where the next will be."""


def more_labels(
    likelihood: Likelihood, box: Box, comparison: Comparison | None, inside: float, outside: float, inflation: float
) -> int | None:
    r"""Labels to add until a decision is likely, whichever of the plausible truths holds; None if no number helps.

    The truths considered are a calibrated model and models off by twice the tolerance in shift or stretch, each kept
    if the present data do not exclude it at 99 %. For each, the estimate after r times as many new labels is normal:
    the present estimate and a new one, weighted by their information. The smallest r for which nine tenths of such
    estimates decide is taken. If all are excluded, the model is off by about the tolerance, and no number is given.
    """
    rows, events = float(likelihood.n.sum()), float(likelihood.events.sum())
    parameters = 1 if likelihood.spread == 0.0 else 2
    truths = [(0.0, 0.0), *((sign * 2 * box.shift, 0.0) for sign in (-1.0, 1.0))]
    if parameters == 2:
        truths += [(0.0, sign * 2 * box.stretch) for sign in (-1.0, 1.0)]
    now = None
    if comparison is not None and min(events, rows - events) >= FEW_EVENTS:
        limit = comparison.best.deviance + critical_value(0.99, parameters) * inflation
        plausible = [truth for truth in truths if likelihood.deviance(*truth) <= limit]
        if not plausible:
            return None
        truths = plausible
        now = np.array([comparison.best.shift, comparison.best.stretch])
    ratios = np.geomspace(0.05, MOST, 256)
    needed = 0
    for truth in truths:
        chance = _chance_of_decision(likelihood, box, truth, now, inside, outside, inflation, parameters)
        needed = bisect_left(ratios, SETTLED, lo=needed, key=chance)
        if needed == len(ratios):
            return None
    return round_up(float(ratios[needed]) * rows)


def _chance_of_decision(
    likelihood: Likelihood,
    box: Box,
    truth: tuple[float, float],
    now: Floats | None,
    inside: float,
    outside: float,
    inflation: float,
    parameters: int,
) -> Callable[[float], float]:
    """Chance of a decision, as a function of the ratio of new labels to present ones, under one truth."""
    keep = slice(0, parameters)
    noise = np.random.default_rng(0).standard_normal((DRAWS, parameters))
    half, target = np.array([box.shift, box.stretch])[keep], np.array(truth)[keep]
    fresh = likelihood.information(*truth)[keep, keep] / inflation
    draws = np.einsum("ij,dj->di", np.linalg.cholesky(np.linalg.inv(fresh)), noise)
    present = fresh if now is None else likelihood.information(now[0], now[1])[keep, keep] / inflation

    def chance(ratio: float) -> float:
        total = present + ratio * fresh
        if now is None:  # nothing is known yet: all labels count as new
            estimate = target + draws / np.sqrt(1.0 + ratio)
        else:
            pull = np.einsum("ij,j->i", present, now[keep])
            pull = pull + ratio * np.einsum("ij,dj->di", fresh, target + draws / np.sqrt(ratio))
            estimate = np.einsum("ij,dj->di", np.linalg.inv(total), pull)
        return float(_decides(estimate, total, half, inside, outside).mean())

    return chance


def _decides(estimate: Floats, information: Floats, half: Floats, inside: float, outside: float) -> NDArray[np.bool_]:
    """Whether each estimate's quadratic region lies inside the box of half-widths ``half`` or misses it."""
    margin = half - np.abs(estimate)
    variance = np.diag(np.linalg.inv(information))
    calibrated = (margin > np.sqrt(inside * variance)).all(axis=1)
    if len(half) == 1:
        return np.asarray(calibrated | (-margin[:, 0] > np.sqrt(outside * variance[0])))
    distance = np.full(len(estimate), np.inf)
    for j, other in ((0, 1), (1, 0)):
        for sign in (-1.0, 1.0):
            side = sign * half[j] - estimate[:, j]
            across = estimate[:, other] - information[j, other] / information[other, other] * side
            across = np.clip(across, -half[other], half[other]) - estimate[:, other]
            step = np.column_stack([side, across] if j == 0 else [across, side])
            distance = np.minimum(distance, np.einsum("di,ij,dj->d", step, information, step))
    return np.asarray(calibrated | ((margin < 0.0).any(axis=1) & (distance > outside)))


def round_up(labels: float) -> int:
    """Two leading digits: more would pretend to a precision that is not there."""
    unit = 10.0 ** max(np.floor(np.log10(max(labels, 1.0))) - 1.0, 0.0)
    return int(np.ceil(labels / unit) * unit)
