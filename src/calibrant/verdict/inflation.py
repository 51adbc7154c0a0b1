"""By how much weights and clusters widen what rows of equal number would give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics import Floats, expit, logit
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict.likelihood import Likelihood, Point

FEWEST_CLUSTERS = 5
FEWEST_IN_PART = 10
"""A segment, a period or a stretch of the scores with rows from fewer cluster buckets is never said to be off."""


def weight_inflation(tally: Tally, likelihood: Likelihood) -> float:
    r"""Largest eigenvalue of :math:`H^{-1} J` for importance weights, 1 for counts.

    :math:`H = \sum w\, v\, x x^\top` is the information that the weights pretend to,
    :math:`J = \sum w^2 v\, x x^\top` the variance of the score; :math:`v = s(1 - s)` and :math:`x` is
    (1, distance from the centre). Weights in any unit give the same deviance divided by it.
    """
    w2 = tally.cells.w2
    if tally.counts or w2 is None:
        return 1.0
    p = likelihood.shifted(0.0, 0.0)
    return _largest(
        _moments(tally.n * p * (1.0 - p), likelihood), _moments(w2 * p * (1.0 - p), likelihood), likelihood.spread
    )


def cluster_inflation(clusters: GroupedTally, likelihood: Likelihood, best: Point) -> float:
    """Largest eigenvalue of the sandwich's middle against the information, from sums by cluster bucket; at least 1."""
    scores = np.array([_score_sums(tally, likelihood, best) for tally in clusters.values()])
    scores = scores - scores.mean(axis=0)
    middle = np.einsum("bi,bj->ij", scores, scores) * len(scores) / max(len(scores) - 1, 1)
    return max(_largest(likelihood.information(best.shift, best.stretch), middle, likelihood.spread), 1.0)


def between_buckets(
    rows: NDArray[Any], events: NDArray[Any], predicted: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Variance of the events between buckets, the last axis, around their own ratio; and how many hold rows."""
    ratio = events.sum(axis=-1, keepdims=True) / np.maximum(predicted.sum(axis=-1, keepdims=True), 1e-300)
    filled = np.asarray(np.count_nonzero(rows, axis=-1))
    return ((events - ratio * predicted) ** 2).sum(axis=-1) * filled / np.maximum(filled - 1, 1), filled


def _score_sums(tally: Tally, likelihood: Likelihood, best: Point) -> Floats:
    x = logit(tally.scores)
    distance = x - likelihood.center
    residual = tally.events - tally.n * expit(x + best.shift + best.stretch * distance)
    return np.array([float(residual.sum()), float((residual * distance).sum())])


def _moments(v: Floats, likelihood: Likelihood) -> Floats:
    cross = float((v * likelihood.distance).sum())
    return np.array([[float(v.sum()), cross], [cross, float((v * likelihood.distance**2).sum())]])


def _largest(information: Floats, variance: Floats, spread: float) -> float:
    if spread == 0.0:  # a constant score: the shift alone
        return float(variance[0, 0] / information[0, 0])
    return float(np.linalg.eigvals(np.linalg.solve(information, variance)).real.max())
