"""Corrections by segment of a multiclass map: a slope and intercepts for each segment, shrunk toward the global map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.maps.classes import softmax
from calibrant.numerics import Floats
from calibrant.solvers import Derivatives, damped_newton

MAX_SHIFTED_CLASSES = 128
"""With more classes than this, segments differ by their slope alone."""

SETTLED = 1e-7
"""Newton's method stops if its next step would lower the mean loss by less than this."""


def fit_correction(logits: Floats, labels: NDArray[np.intp], weights: Floats, strength: float) -> Floats:
    r"""Slope minus 1 and intercepts of one segment, by Newton's method.

    .. math:: \min_{s, a}\ \sum_i w_i \ell\bigl((1 + s) u_i + a,\ y_i\bigr) + \tfrac{\lambda}{2} (s^2 + \|a\|^2)

    with :math:`\ell` the log loss of a softmax, :math:`u_i` the log-probabilities of the global map and
    :math:`\lambda` the ``strength``, in rows. Strictly convex, also for a class without rows. With more than
    128 classes :math:`a = 0`.

    Returns
    -------
    ndarray
        s, then a.

    Examples
    --------
    >>> u = np.log([[0.8, 0.2]] * 40)
    >>> found = fit_correction(u, np.array([0, 1] * 20), np.ones(40), 1e-6)  # each class in half of the rows
    >>> float(softmax((1.0 + found[0]) * u[:1] + found[1:])[0, 0].round(4))
    0.5
    """
    size = logits.shape[1]
    free = size + 1 if size <= MAX_SHIFTED_CLASSES else 1
    own = logits[np.arange(len(logits)), labels]
    total = max(float(weights.sum()), 1.0)

    def evaluate(point: Floats) -> Derivatives:
        z = (1.0 + point[0]) * logits + point[1:]
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        mass = e.sum(axis=1, keepdims=True)
        p = e / mass
        shift = point[1:][labels]
        loss = float((weights * (np.log(mass[:, 0]) + top[:, 0] - (1.0 + point[0]) * own - shift)).sum())
        mean = np.einsum("nk,nk->n", p, logits)
        weighted = p * weights[:, None]
        gradient = np.empty(size + 1)
        gradient[0] = float((weights * (mean - own)).sum())
        gradient[1:] = weighted.sum(axis=0) - np.bincount(labels, weights, size)
        bent = np.empty((free, free))
        bent[0, 0] = float((weighted * (logits - mean[:, None]) ** 2).sum())
        if free > 1:
            bent[0, 1:] = bent[1:, 0] = (weighted * (logits - mean[:, None])).sum(axis=0)
            bent[1:, 1:] = np.diag(weighted.sum(axis=0)) - np.einsum("nj,nk->jk", weighted, p, optimize=True)
        loss += 0.5 * strength * float((point**2).sum())
        gradient += strength * point
        gradient[free:] = 0.0
        return Derivatives(loss, gradient, bent + strength * np.eye(free))

    def step(_: Floats, there: Derivatives) -> Floats:
        move = np.zeros(size + 1)
        move[:free] = -np.linalg.solve(there.curvature, there.gradient[:free])
        return move

    return damped_newton(evaluate, step, np.zeros(size + 1), lambda _: SETTLED * total).point


def corrected(logits: Floats, correction: Floats) -> Floats:
    """Probabilities after the correction of one segment."""
    return softmax((1.0 + correction[0]) * logits + correction[1:])
