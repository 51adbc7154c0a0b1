"""Roughly how many more labels would settle the question, if the estimates are right."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from scipy import special

from calibrant.metrics.binary.curves.likelihood import Parameters
from calibrant.numerics import Floats, covariance_root
from calibrant.verdict.shape import Tolerance

DRAWS = 2_000
"""Simulated samples."""
SETTLED_SHARE = 0.87
"""Share of repeated samples, at the estimated intercept and slope, in which the number of labels should decide."""

FEWEST_ROWS = 20
"""With fewer rows no number of labels is estimated: intercept and slope are hardly known."""

MAX_RATIO = 200.0
"""Multiple of the present number of labels above which no realistic number is said to settle the question."""


@dataclass(frozen=True)
class Rule:
    """Confidence levels of the intervals that decide: within the tolerance, and intercept and slope beyond it."""

    inside: float
    outside_intercept: float
    outside_slope: float


def more_labels(parameters: Parameters, limits: Tolerance, rule: Rule, rows: float) -> int | None:
    r"""Labels to add so that a sample of that size decides in about nine of ten cases; None if none is known.

    The estimated intercept and slope are taken as the truth. In a sample of r times the present rows the estimates are
    normal around them, with the present covariance divided by r. The smallest r is chosen for which 87 % of such
    samples lie within or beyond the tolerance. Weights and clusters enter through their effect on the variances;
    ``rows`` is the present number of rows.
    """
    if parameters.level is None or rows < FEWEST_ROWS:
        return None
    center, covariance = _joint(parameters)
    half = np.array([limits.intercept, limits.slope])[: len(center)]
    noise = np.random.default_rng(0).standard_normal((DRAWS, len(center)))
    draws = np.einsum("ij,dj->di", covariance_root(covariance), noise)
    se = np.sqrt(np.diag(covariance))
    inside = float(special.ndtri((1.0 + rule.inside) / 2.0))
    outside = special.ndtri((1.0 + np.array([rule.outside_intercept, rule.outside_slope])) / 2.0)[: len(center)]
    ratios = np.geomspace(1.02, MAX_RATIO, 400)

    def settled(ratio: float) -> float:
        off, error = np.abs(center + draws / np.sqrt(ratio)), se / np.sqrt(ratio)
        within = (off + inside * error <= half).all(axis=1)
        beyond = (off - outside * error > half).any(axis=1)
        return float((within | beyond).mean())

    place = bisect_left(ratios, SETTLED_SHARE, key=settled)
    if place == len(ratios):
        return None
    return round_up((float(ratios[place]) - 1.0) * rows)


def _joint(parameters: Parameters) -> tuple[Floats, Floats]:
    """Distance of intercept and slope from perfect calibration, and their covariance."""
    level, slope, likelihood = parameters.level, parameters.slope, parameters.likelihood
    assert level is not None
    if slope is None or not np.isfinite(slope.value):
        return np.array([level.value]), np.array([[level.spread.variance]])
    p = likelihood.shifted(level.value, 0.0)
    v = likelihood.n * p * (1.0 - p)
    across = float((v * likelihood.distance).sum()) / float(np.sqrt(v.sum() * (v * likelihood.distance**2).sum()))
    cross = across * level.se * slope.se
    covariance = np.array([[level.spread.variance, cross], [cross, slope.spread.variance]])
    return np.array([level.value, slope.value - 1.0]), covariance


def round_up(labels: float) -> int:
    """Round up to two leading digits: more digits would suggest a precision that the estimate does not have."""
    unit = 10.0 ** max(np.floor(np.log10(max(labels, 1.0))) - 1.0, 0.0)
    return int(np.ceil(labels / unit) * unit)
