"""Small optimisers on cells: isotonic pooling and logistic regression in a few parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics import Floats

NEWTON_STEPS = 100
STEP_HALVINGS = 40
NEAR, SETTLED = 1e-10, 1e-20
"""Newton decrements, relative to the loss, from which on steps are trusted unseen, and the search ends."""

ROUNDING = 1e-12
"""Rates of weighted rows that differ by less, relatively, are equal, whatever the unit of the weights."""


def pool_adjacent(n: NDArray[Any], events: NDArray[Any]) -> NDArray[np.intp]:
    r"""Where each block of the isotonic regression of ``events / n`` begins.

    Pool-adjacent-violators is scipy's; block sums are then taken again from the counts and blocks whose rates do not
    rise strictly are joined, so the blocks do not depend on how cells were pooled beforehand. Cost: linear.

    Examples
    --------
    >>> pool_adjacent(np.array([1, 1, 1, 1]), np.array([0, 1, 0, 1])).tolist()
    [0, 1, 3]
    """
    from scipy.optimize import isotonic_regression  # here: slow to import, and a small check pools nothing

    if not len(n):
        return np.zeros(0, dtype=np.intp)
    starts = np.asarray(isotonic_regression(events / n, weights=n.astype(np.float64)).blocks[:-1], dtype=np.intp)
    equal = 1.0 if np.issubdtype(events.dtype, np.integer) else 1.0 + ROUNDING
    while True:
        rates = np.add.reduceat(events, starts) / np.add.reduceat(n, starts)
        rising = np.append(True, rates[1:] > rates[:-1] * equal)
        if rising.all():
            return starts
        starts = starts[rising]


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients of a logistic regression and whether Newton's method settled."""

    coefficients: Floats
    converged: bool


Pieces = Callable[[], Iterable[tuple[Floats, Floats, Floats]]]
"""A fresh pass over the data: features (parameters by cells), weights and (possibly soft) events of some cells each."""


def fit_logistic(
    pieces: Pieces, size: int, *, non_negative: tuple[int, ...] = (), start: Floats | None = None
) -> LogisticFit:
    r"""Weighted logistic regression in ``size`` parameters by Newton's method with step halving.

    Minimises :math:`\sum_c n_c \log(1 + e^{x_c\beta}) - e_c\, x_c\beta` over :math:`\beta`, with
    :math:`\beta_j \ge 0` for the listed parameters. Negative values are excluded by solving the faces of the
    constraint set, which for one or two parameters are at most four problems; the loss is convex, so the best face is
    the solution. Cost: one pass over the pieces per step.

    Examples
    --------
    >>> cells = (np.array([[-1.0, 1.0], [1.0, 1.0]]), np.array([4.0, 4.0]), np.array([1.0, 3.0]))
    >>> fit_logistic(lambda: [cells], 2).coefficients.round(6)[0].item()
    1.098612
    """
    free, _ = _newton(pieces, size, range(size), start)
    if all(free.coefficients[j] >= 0.0 for j in non_negative):
        return free
    faces = []
    for count in range(1, len(non_negative) + 1):
        for fixed in combinations(non_negative, count):
            face, loss = _newton(pieces, size, [j for j in range(size) if j not in fixed], None)
            if all(face.coefficients[j] >= 0.0 for j in non_negative):
                faces.append((loss, count, face))
    return min(faces, key=lambda candidate: candidate[:2])[2]


def _newton(pieces: Pieces, size: int, kept: Sequence[int], start: Floats | None) -> tuple[LogisticFit, float]:
    free = np.asarray(kept, dtype=np.intp)
    beta = np.zeros(size) if start is None else start.copy()
    loss, gradient, hessian = _derivatives(pieces, beta)
    for _ in range(NEWTON_STEPS):
        step = np.zeros(size)
        step[free] = np.linalg.lstsq(hessian[np.ix_(free, free)], gradient[free], rcond=1e-14)[0]
        decrement = float(gradient @ step)
        if decrement <= SETTLED * loss:
            return LogisticFit(beta - step, True), loss
        for halving in range(STEP_HALVINGS):
            trial = beta - step * 0.5**halving
            result = _derivatives(pieces, trial)
            if result[0] < loss or decrement <= NEAR * loss:  # so near, rounding hides the descent
                break
        else:
            return LogisticFit(beta, False), loss
        beta, (loss, gradient, hessian) = trial, result
    return LogisticFit(beta, False), loss


def _derivatives(pieces: Pieces, beta: Floats) -> tuple[float, Floats, Floats]:
    """Mean loss, its gradient and its curvature at ``beta``, in one pass.

    Sums go through einsum and not through BLAS, whose threads would make the last bits depend on the machine.
    """
    total, loss = 0.0, 0.0
    gradient, hessian = np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
    for x, n, events in pieces():
        z = np.einsum("j,jc->c", beta, x)
        decay = np.exp(-np.abs(z))
        p = np.where(z >= 0.0, 1.0, decay) / (1.0 + decay)
        loss += float((n * (np.maximum(z, 0.0) + np.log1p(decay)) - events * z).sum())
        gradient += np.einsum("jc,c->j", x, n * p - events)
        hessian += np.einsum("jc,kc->jk", x * (n * (p * (1.0 - p))), x)
        total += float(n.sum())
    return loss / total, gradient / total, hessian / total
