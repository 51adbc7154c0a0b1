"""Least squares of a logistic curve with a slope and an intercept."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.numerics import Floats, expit
from calibrant.solvers import Pieces

STEEPEST, FLATTEST = 200.0, 1e-4
"""Least squares take soft targets if a coefficient, for scores scaled to [-1, 1], would exceed the first, or if
p (1 - p) is below the second for all scores: then a step fits better than any curve."""

LAST_STEPS, LAST_MOVE = 6, 1e-3
"""Maximum number of Newton's steps that end a search for least squares, and the most that one may change."""


def least_squares(pieces: Pieces, start: Floats, non_negative: tuple[int, ...]) -> tuple[float, float]:
    r"""Slope and intercept with the least squares of :math:`\operatorname{expit}(a x + b)` from the targets.

    The sum is not convex: the search begins at ``start``, at the constant with the same intercept, and at a slope of
    five times that of ``start``, and the best of the three is returned. Newton's steps follow it, since a search that
    stops when the sum no longer changes knows the coefficients to half of the digits only.

    Examples
    --------
    >>> x = np.array([[-1.0, 1.0], [1.0, 1.0]])  # two scores, whose rates the curve attains
    >>> a, b = least_squares(lambda: [(x, np.array([4.0, 4.0]), np.array([1.0, 3.0]))], np.array([0.5, 0.0]), (0,))
    >>> expit(np.array([b - a, b + a])).round(6).tolist()
    [0.25, 0.75]
    """
    from scipy.optimize import minimize  # here: slow to load, and the likelihood does without

    total = sum(float(n.sum()) for _, n, _ in pieces())

    def loss(beta: Floats) -> tuple[float, Floats]:
        value, gradient = 0.0, np.zeros(2)
        for x, n, soft in pieces():
            p = expit(beta @ x)
            value += float((n * p * p - 2.0 * soft * p).sum())
            gradient += 2.0 * (x @ ((n * p - soft) * p * (1.0 - p)))
        return value / total, gradient / total

    bounds = [(0.0 if place in non_negative else -1e3, 1e3) for place in range(2)]
    starts = (start, np.array([0.0, start[1]]), np.array([5.0 * start[0], start[1]]))
    how: dict[str, Any] = {"jac": True, "bounds": bounds, "options": {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 1_000}}
    found = [minimize(loss, np.clip(at, -1e3, 1e3), method="L-BFGS-B", **how) for at in starts]
    best = min(found, key=lambda each: float(each.fun))
    return _last_digits(pieces, best.x, *np.array(bounds).T)


def _last_digits(pieces: Pieces, start: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """Newton's steps in the coefficients between their bounds, while they stay there and the gradient gets smaller."""
    free = (low < start) & (start < high)
    place, least, beta = start, np.inf, start
    for _ in range(LAST_STEPS):
        gradient, curvature = np.zeros(2), np.zeros((2, 2))
        for x, n, soft in pieces():
            p = expit(beta @ x)
            slope, error = p * (1.0 - p), n * p - soft
            gradient += x @ (error * slope)
            curvature += (x * (n * slope**2 + error * slope * (1.0 - 2.0 * p))) @ x.T
        size = float(np.abs(gradient[free]).max(initial=0.0))
        if not size < least:
            break
        place, least = beta, size
        inner = curvature[np.ix_(free, free)]
        if size == 0.0 or float(np.linalg.eigvalsh(inner)[0]) <= 0.0:
            break
        move = np.zeros(2)
        move[free] = np.linalg.solve(inner, gradient[free])
        beta = place - move
        if not float(np.abs(move).max()) <= LAST_MOVE or (beta < low).any() or (beta > high).any():
            break
    return float(place[0]), float(place[1])


def is_step(pieces: Pieces, a: float, b: float) -> bool:
    """Whether the curve is a step as far as the scores show.

    Examples
    --------
    >>> x = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> [is_step(lambda: [(x, np.ones(2), np.ones(2))], a, 0.0) for a in (2.0, 300.0)]
    [False, True]
    """
    if max(abs(a), abs(b)) > STEEPEST:
        return True
    outputs = (expit(np.array([a, b]) @ x) for x, _, _ in pieces())
    return max(float((p * (1.0 - p)).max()) for p in outputs) < FLATTEST
