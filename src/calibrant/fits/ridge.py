"""Fit softmax maps with many slopes: regressions with ridge penalties in units of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.fits.softmax import LogRows, row_blocks
from calibrant.maps import SoftmaxMap
from calibrant.numerics import Floats
from calibrant.solvers import Derivatives, damped_newton

CONJUGATE_STEPS = 200
"""Maximum number of conjugate gradient steps."""

MAX_DENSE_PARAMETERS = 300
"""Up to this many parameters the Hessian is computed as a matrix; beyond, only products with it."""

NEWTON_TOLERANCE = 1e-13
"""Newton's method stops if its next step would lower the mean loss by less than this."""


@dataclass(frozen=True)
class Ridge:
    """Penalties of a softmax regression, each half its value times a sum of squares, in units of rows.

    ``slopes`` shrinks the diagonal of W toward its own mean, ``level`` that mean toward the temperature's slope,
    ``others`` the off-diagonal entries toward 0 (None: there are none), and ``intercepts`` b toward 0. All are in units
    of logits after temperature scaling: a slope of 1 does not change them.
    """

    slopes: float
    others: float | None
    intercepts: float
    level: float = 1.0


class Affine(NamedTuple):
    """Parameters: W (its diagonal, or all of it) in units of the temperature's slope, with b as last column."""

    numbers: Floats
    slope: float

    def to_map(self, rows: LogRows) -> SoftmaxMap:
        """The softmax map with these parameters."""
        return rows.to_map(self.slope * self.numbers[:, :-1], self.numbers[:, -1])


def fit_affine(
    rows: LogRows, ridge: Ridge, slope: float, start: Affine | None = None, settled: float = NEWTON_TOLERANCE
) -> Affine:
    r"""Softmax regression with ridge penalties around a temperature of slope t, by Newton's method.

    .. math:: \min_{V, b}\ \sum_i w_i \ell\bigl(t V z_i + b,\ y_i\bigr)
              + \tfrac{\lambda_d}{2} \sum_k (v_{kk} - \bar v)^2 + \tfrac{\lambda_c}{2} (\bar v - 1)^2
              + \tfrac{\lambda_o}{2} \sum_{j \ne k} v_{jk}^2 + \tfrac{\lambda_b}{2} \sum_k b_k^2

    with :math:`\ell` the log loss of a softmax, :math:`\bar v` the mean of the diagonal of V, and the four penalties of
    :class:`Ridge`. The problem is strictly convex with penalties above 0, so there is a solution also for separable
    classes. A class without rows keeps the row of V of the pure temperature; its intercept is determined by the
    penalty.

    Notes
    -----
    Beyond 300 parameters steps are computed by conjugate gradients, without a matrix of K^2 by K^2.
    Cost: about eight Newton steps, or some hundred products of rows with V; memory for the probabilities.
    """
    problem = _Regression(rows, ridge, slope)
    numbers = problem.identity() if start is None else start.numbers
    limit = settled * float(rows.weights.sum())
    one_step = _dense_step if numbers.size <= MAX_DENSE_PARAMETERS else _conjugate_step
    found = damped_newton(
        problem.evaluate, lambda _, there: one_step(problem, there.gradient), numbers, lambda _: limit
    )
    return Affine(found.point, slope)


def _dense_step(problem: _Regression, gradient: Floats) -> Floats:
    """Newton step with the full Hessian."""
    bent = problem.curvature()
    bent[np.diag_indices(len(bent))] += 1e-12 * (1.0 + np.trace(bent) / len(bent))  # for parameters without a penalty
    return np.asarray(-np.linalg.solve(bent, gradient.reshape(-1)).reshape(gradient.shape))


def _conjugate_step(problem: _Regression, gradient: Floats) -> Floats:
    """Newton step by conjugate gradients; more accurate near the solution."""
    scale = problem.diagonal()
    step = np.zeros_like(gradient)
    rest = -gradient
    towards = rest / scale
    size = first = float((rest * towards).sum())
    if size <= 0.0:
        return step
    direction = towards
    goal = first * min(0.01, first / problem.total)
    for _ in range(CONJUGATE_STEPS):
        bent = problem.curved(direction)
        length = size / float((direction * bent).sum())
        step += length * direction
        rest = rest - length * bent
        towards = rest / scale
        new = float((rest * towards).sum())
        if new <= goal:
            break
        direction = towards + (new / size) * direction
        size = new
    return step


class _Regression:
    """Penalized loss of an affine map of logits, its gradient, and products with its Hessian, block by block."""

    def __init__(self, rows: LogRows, ridge: Ridge, slope: float) -> None:
        self.rows, self.ridge, self.slope = rows, ridge, slope
        self.size = len(rows.classes)
        self.full = ridge.others is not None
        self.total = float(rows.weights.sum())
        self.absent = np.bincount(rows.labels, rows.weights, minlength=self.size) == 0.0
        self.p = np.empty_like(rows.logs)
        """Probabilities at the parameters that were evaluated last."""

    def identity(self) -> Floats:
        """The parameters of pure temperature scaling."""
        columns = np.eye(self.size) if self.full else np.ones((self.size, 1))
        return np.column_stack([columns, np.zeros(self.size)])

    def evaluate(self, numbers: Floats) -> Derivatives:
        """Loss and gradient; stores the probabilities, which the step needs for the Hessian."""
        away = numbers - self.identity()
        drawn = self._penalty_gradient(away)
        value, gradient = 0.5 * float((away * drawn).sum()), drawn
        for part in row_blocks(self.p):
            z, labels, weights = self._part(part)
            a = self._affine(z, numbers)
            places = np.arange(len(a)), labels
            a -= a.max(axis=1, keepdims=True)
            own = a[places]
            e = np.exp(a)
            sums = e.sum(axis=1)
            value += float((weights * (np.log(sums) - own)).sum())
            p = e / sums[:, None]
            self.p[part] = p
            p *= weights[:, None]
            p[places] -= weights
            gradient = gradient + self._gathered(p, z)
        return Derivatives(value, self._free(gradient), np.empty((0, 0)))

    def curved(self, direction: Floats) -> Floats:
        """Product of the Hessian with a direction."""
        product = self._penalty_gradient(direction)
        for part in row_blocks(self.p):
            z, _, weights = self._part(part)
            p = self.p[part].astype(np.float64, copy=False)
            u = self._affine(z, direction)
            u -= np.einsum("nk,nk->n", p, u)[:, None]
            u *= p
            u *= weights[:, None]
            product = product + self._gathered(u, z)
        return self._free(product)

    def curvature(self) -> Floats:
        """The Hessian."""
        shape = self.identity().shape
        count = shape[0] * shape[1]
        bent = self._penalty_hessian.copy()
        add = self._full_terms if self.full else self._own_terms
        for part in row_blocks(self.p):
            z, _, weights = self._part(part)
            bent += add(self.p[part].astype(np.float64, copy=False), self.slope * z, weights).reshape(count, count)
        fixed = np.zeros(shape, dtype=bool)
        fixed[self.absent, :-1] = True
        bent[fixed.reshape(-1)] = 0.0
        bent[:, fixed.reshape(-1)] = 0.0
        bent[fixed.reshape(-1), fixed.reshape(-1)] = 1.0
        return bent

    @cached_property
    def _penalty_hessian(self) -> Floats:
        """Second derivatives of the penalties."""
        units = np.eye(self.identity().size).reshape(-1, *self.identity().shape)
        return np.stack([self._penalty_gradient(unit).reshape(-1) for unit in units])

    def _own_terms(self, p: Floats, z: Floats, weights: Floats) -> Floats:
        """Second derivatives if a class depends on its own logit and the intercept."""
        own = np.stack([z, np.ones_like(z)], axis=2)
        flat = (p[:, :, None] * own).reshape(len(p), -1)
        bent = -(flat.T @ (flat * weights[:, None])).reshape(self.size, 2, self.size, 2)
        each = np.arange(self.size)
        bent[each, :, each, :] += np.einsum("nk,nka,nkb->kab", p * weights[:, None], own, own)
        return np.asarray(bent)

    def _full_terms(self, p: Floats, z: Floats, weights: Floats) -> Floats:
        """Second derivatives if a class depends on all logits and the intercept: products of pairs, each pair once."""
        columns = np.column_stack([z, np.ones(len(z))])
        ones, others = np.triu_indices(self.size)
        left, right = np.triu_indices(self.size + 1)
        pairs = columns[:, left] * columns[:, right]
        among = np.empty((self.size, self.size, len(left)))
        among[ones, others] = among[others, ones] = -(p[:, ones] * p[:, others] * weights[:, None]).T @ pairs
        among[np.diag_indices(self.size)] += (p * weights[:, None]).T @ pairs
        bent = np.empty((self.size, self.size + 1, self.size, self.size + 1))
        bent[:, left, :, right] = bent[:, right, :, left] = np.moveaxis(among, 2, 0)
        return bent

    def diagonal(self) -> Floats:
        """Approximate diagonal of the Hessian, by which conjugate gradients are scaled."""
        ridge = self.ridge
        found = np.full(self.identity().shape, ridge.slopes if ridge.others is None else ridge.others, dtype=np.float64)
        if self.full:
            np.fill_diagonal(found[:, :-1], ridge.slopes)
        found[:, -1] = ridge.intercepts
        found += 1e-9
        for part in row_blocks(self.p):
            z, _, weights = self._part(part)
            p = self.p[part].astype(np.float64, copy=False)
            spread = p * (1.0 - p) * weights[:, None]
            found[:, :-1] += self.slope * self._gathered(spread, z * z)[:, :-1]
            found[:, -1] += spread.sum(axis=0)
        return found

    def _part(self, part: slice) -> tuple[Floats, NDArray[np.intp], Floats]:
        rows = self.rows
        return rows.logs[part].astype(np.float64, copy=False), rows.labels[part], rows.weights[part]

    def _affine(self, z: Floats, numbers: Floats) -> Floats:
        if self.full:  # a matrix product is much faster than einsum; results need not be bit-equal here
            return np.asarray((z @ (self.slope * numbers[:, :-1]).T) + numbers[:, -1])
        return np.asarray(z * (self.slope * numbers[:, 0]) + numbers[:, -1])

    def _gathered(self, g: Floats, z: Floats) -> Floats:
        """Sums over rows: of g times z for the slopes, of g for the intercepts."""
        slopes: NDArray[Any] = g.T @ z if self.full else np.einsum("nk,nk->k", g, z)[:, None]
        return np.column_stack([self.slope * slopes, g.sum(axis=0)])

    def _penalty_gradient(self, away: Floats) -> Floats:
        """Gradient of the penalties at a difference from pure temperature scaling."""
        ridge = self.ridge
        drawn = np.empty_like(away)
        drawn[:, -1] = ridge.intercepts * away[:, -1]
        slopes = away[:, :-1]
        own = slopes.diagonal() if self.full else slopes[:, 0]
        mean = own.mean()
        pulled = ridge.slopes * (own - mean) + ridge.level * mean / self.size
        if ridge.others is None:
            drawn[:, 0] = pulled
        else:
            drawn[:, :-1] = ridge.others * slopes
            np.fill_diagonal(drawn[:, :-1], pulled)
        return drawn

    def _free(self, gradient: Floats) -> Floats:
        """The gradient with the slopes of classes without rows fixed."""
        gradient[self.absent, :-1] = 0.0
        return gradient
