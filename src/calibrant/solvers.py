"""Small optimizers: isotonic regression, Newton's method, L-BFGS, logistic regression in a few parameters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics import Floats

NEWTON_STEPS = 100
STEP_HALVINGS = 40
LBFGS_STEPS, LBFGS_PAIRS = 300, 6
NEAR, SETTLED = 1e-10, 1e-20
"""Newton decrements, relative to the loss. Below the first, a step is taken even if rounding hides the descent; below
the second, a logistic regression has converged."""

ROUNDING = 1e-12
"""Relative difference below which the event rates of weighted rows count as equal."""


def pool_adjacent(n: NDArray[Any], events: NDArray[Any]) -> NDArray[np.intp]:
    r"""First cell of each block of the isotonic regression of ``events / n``.

    The pool-adjacent-violators algorithm is scipy's. Block sums are then recomputed from the counts, and blocks whose
    rates do not strictly increase are joined, so the blocks do not depend on earlier pooling. Cost: linear.

    Examples
    --------
    >>> pool_adjacent(np.array([1, 1, 1, 1]), np.array([0, 1, 0, 1])).tolist()
    [0, 1, 3]
    """
    from scipy.optimize import isotonic_regression  # imported here because it is slow to load

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


class Derivatives(NamedTuple):
    """A convex loss at a point, its gradient, and its curvature (empty if the step does not need the matrix)."""

    loss: float
    gradient: Floats
    curvature: Floats


class Minimum(NamedTuple):
    """Where :func:`damped_newton` ended."""

    visited: Floats
    """The last point at which the loss was evaluated."""
    there: Derivatives
    point: Floats
    """The minimum: the visited point plus one last step, if the search converged."""
    settled: bool


def damped_newton(
    evaluate: Callable[[Floats], Derivatives],
    step: Callable[[Floats, Derivatives], Floats],
    start: Floats,
    settled: Callable[[float], float],
    bounded: Callable[[Floats], Floats] = lambda point: point,
) -> Minimum:
    """Minimize a convex loss by Newton's method; each step is halved until the loss decreases.

    Parameters
    ----------
    evaluate
        Loss, gradient and curvature at a point.
    step
        The Newton step at a point, given the derivatives there.
    start
        The first point.
    settled
        The decrement (gradient times step, twice the expected descent) at which the search ends, given the loss.
    bounded
        Projects a point onto the feasible region.

    Examples
    --------
    >>> def square(point):
    ...     return Derivatives(float(((point - 3.0) ** 2).sum()), 2.0 * (point - 3.0), 2.0 * np.eye(1))
    >>> damped_newton(square, lambda _, there: -there.gradient / 2.0, np.zeros(1), lambda loss: 1e-20).point.tolist()
    [3.0]
    """
    point, there = start, evaluate(start)
    for _ in range(NEWTON_STEPS):
        move = step(point, there)
        decrement = -float((there.gradient * move).sum())
        if decrement <= settled(there.loss):
            return Minimum(point, there, bounded(point + move), True)
        for halving in range(STEP_HALVINGS):
            trial = bounded(point + move * 0.5**halving)
            reached = evaluate(trial)
            if reached.loss < there.loss or decrement <= NEAR * abs(there.loss):
                break
        else:  # rounding hides any further descent
            break
        point, there = trial, reached
    return Minimum(point, there, point, False)


def lbfgs(
    evaluate: Callable[[Floats], tuple[float, Floats]],
    inverse: Callable[[Floats], Floats],
    start: Floats,
    settled: float,
    steps: int = LBFGS_STEPS,
    pairs: deque[_Pair] | None = None,
) -> Floats:
    """Minimize a convex loss by L-BFGS, from an approximate inverse of its curvature.

    Parameters
    ----------
    evaluate
        Loss and gradient at a point.
    inverse
        Product of a gradient with the approximate inverse, which must be symmetric and positive.
    start
        The first point.
    settled
        The decrement (gradient times step, about twice the expected descent) at which the search ends.
    steps
        Maximum number of steps.
    pairs
        What was learned of the curvature on the way, from :func:`new_pairs`; a second search of nearly the same loss
        with the same inverse begins with it.

    Notes
    -----
    Cost: one evaluation per step, rarely two, and memory for nine points.
    Reference: Nocedal and Wright (2006), algorithm 7.4, with the scale of their eq. 7.20.

    Examples
    --------
    >>> def square(point):
    ...     return float(((point - 3.0) ** 2).sum()), 2.0 * (point - 3.0)
    >>> lbfgs(square, lambda gradient: gradient / 3.0, np.zeros(2), 1e-20).round(9).tolist()
    [3.0, 3.0]
    """
    point, (loss, gradient) = start, evaluate(start)
    pairs = new_pairs() if pairs is None else pairs
    raw = inverse(gradient)  # the inverse is linear: one product per step
    scale = pairs[-1].scale if pairs else 1.0
    for _ in range(steps):
        move = -_two_loops(gradient, raw, scale, pairs)
        decrement = -float((gradient * move).sum())
        if not decrement > settled:
            break
        length = 1.0
        for _ in range(STEP_HALVINGS):
            trial = point + length * move
            reached, slope = evaluate(trial)
            fallen = loss - reached
            if fallen >= 1e-4 * length * decrement or decrement <= NEAR * abs(loss):
                break
            parabola = 0.5 * length * decrement / (decrement - fallen / length)
            length = min(max(parabola, 0.1 * length), 0.5 * length)
        else:  # rounding hides any further descent
            break
        change, turn = trial - point, slope - gradient
        turned, curved = inverse(turn), float((change * turn).sum())
        if curved > 0.0:
            scale = curved / float((turn * turned).sum())
            stored = [each.astype(np.float32) for each in (change, turn, turned)]
            pairs.append(_Pair(stored[0], stored[1], stored[2], curved, scale))
        point, loss, gradient, raw = trial, reached, slope, raw + turned
    return point


class _Pair(NamedTuple):
    """A change of the point, that of the gradient, the product of the inverse with the latter, and of the first two.

    ``scale`` is the factor by which this pair scales the inverse.
    """

    change: NDArray[np.float32]
    turn: NDArray[np.float32]
    inverse: NDArray[np.float32]
    curved: float
    scale: float


def new_pairs() -> deque[_Pair]:
    """An empty memory of :func:`lbfgs`."""
    return deque(maxlen=LBFGS_PAIRS)


def _two_loops(gradient: Floats, raw: Floats, scale: float, pairs: Sequence[_Pair]) -> Floats:
    """Product of a gradient with the inverse curvature, corrected by the pairs; ``raw`` is the product without them."""
    shares = []
    rest = gradient
    for pair in reversed(pairs):
        shares.append(float((pair.change * rest).sum()) / pair.curved)
        rest = rest - shares[-1] * pair.turn
        raw = raw - shares[-1] * pair.inverse
    found = scale * raw
    for pair, share in zip(pairs, reversed(shares), strict=True):
        found = found + (share - float((pair.turn * found).sum()) / pair.curved) * pair.change
    return found


def softplus(z: Floats) -> tuple[Floats, Floats]:
    """``log(1 + exp(z))`` and its derivative, the probability at log-odds z, from one exponential."""
    decay = np.exp(-np.abs(z))
    return np.maximum(z, 0.0) + np.log1p(decay), np.where(z >= 0.0, 1.0, decay) / (1.0 + decay)


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients of a logistic regression and whether Newton's method converged."""

    coefficients: Floats
    converged: bool


Pieces = Callable[[], Iterable[tuple[Floats, Floats, Floats]]]
"""A fresh pass over the data: features (parameters by cells), weights and (possibly soft) events of some cells each."""


def fit_logistic(
    pieces: Pieces, size: int, *, non_negative: tuple[int, ...] = (), start: Floats | None = None
) -> LogisticFit:
    r"""Weighted logistic regression in ``size`` parameters by Newton's method with step halving.

    Minimizes :math:`\sum_c n_c \log(1 + e^{x_c\beta}) - e_c\, x_c\beta` over :math:`\beta`, with
    :math:`\beta_j \ge 0` for the listed parameters. The constraints are enforced by solving on every face of the
    constraint set, at most four problems for one or two parameters; the loss is convex, so the best face is the
    solution. Cost: one pass over the pieces per step.

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

    def step(_: Floats, there: Derivatives) -> Floats:
        move = np.zeros(size)
        move[free] = -np.linalg.lstsq(there.curvature[np.ix_(free, free)], there.gradient[free], rcond=1e-14)[0]
        return move

    beta = np.zeros(size) if start is None else start
    found = damped_newton(lambda at: _derivatives(pieces, at), step, beta, lambda loss: SETTLED * loss)
    return LogisticFit(found.point, found.settled), found.there.loss


def _derivatives(pieces: Pieces, beta: Floats) -> Derivatives:
    """Mean loss, its gradient and its curvature at ``beta``, in one pass.

    Sums go through einsum and not through BLAS, whose threads would make the last bits depend on the machine.
    """
    total, loss = 0.0, 0.0
    gradient, hessian = np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
    for x, n, events in pieces():
        z = np.einsum("j,jc->c", beta, x)
        value, p = softplus(z)
        loss += float((n * value - events * z).sum())
        gradient += np.einsum("jc,c->j", x, n * p - events)
        hessian += np.einsum("jc,kc->jk", x * (n * (p * (1.0 - p))), x)
        total += float(n.sum())
    return Derivatives(loss / total, gradient / total, hessian / total)
