"""Fit softmax maps with many slopes: regressions with ridge penalties in units of rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.fits.multiclass.curvature import Inverse, class_inverse, dense_inverse, own_inverse
from calibrant.fits.multiclass.penalty import Ridge
from calibrant.fits.multiclass.softmax import LogRows
from calibrant.maps import SoftmaxMap
from calibrant.numerics import Floats
from calibrant.solvers import Derivatives, damped_newton, lbfgs, new_pairs

MAX_DENSE_CLASSES = 16
"""Up to this many classes steps are those of Newton's method; beyond, of L-BFGS with an approximate Hessian."""

MAX_DENSE_VECTOR = 150
"""Up to this many classes the approximate Hessian of slopes and intercepts is exact at the start."""

NEWTON_TOLERANCE, LBFGS_TOLERANCE, LBFGS_DECREMENT = 1e-13, 1e-8, 5e-4
"""Decrements (about twice what the next step would lower the loss by) at which a fit stops: the first two of the mean
loss, the last one of the sum over rows. L-BFGS stops at the larger of the second and the last.

The square root of the decrement of the sum is the distance of all parameters from the solution in standard errors: with
the last one 0.02 (up to 0.05, as the Hessian is approximate), while the fit itself is about :math:`\\sqrt{d}` from the
truth with d parameters. The second one is larger with more than 50,000 rows.
"""

SINGLE_TOLERANCE = 1e-6
"""L-BFGS is in single precision until its next step would lower the mean loss by less than this."""

SAFE = 60.0
"""Logits up to this can be exponentiated in single precision, and added up over classes."""

FIRST_STEPS, FIRST_VECTOR_STEPS = 4, 1
"""Steps of L-BFGS from pure temperature scaling after which the Hessian is approximated again: of a matrix, and of
slopes and intercepts alone, where the Hessian is exact."""


class Affine(NamedTuple):
    """Parameters: W (its diagonal, or all of it) in units of the temperature's slope, with b as last column."""

    numbers: Floats
    slope: float

    def to_map(self, rows: LogRows) -> SoftmaxMap:
        """The softmax map with these parameters."""
        return rows.to_map(self.slope * self.numbers[:, :-1], self.numbers[:, -1])


def fit_affine(
    rows: LogRows,
    ridge: Ridge,
    slope: float,
    start: Affine | None = None,
    settled: float = NEWTON_TOLERANCE,
    inverse: Inverse | None = None,
) -> Affine:
    r"""Softmax regression with ridge penalties around a temperature of slope t.

    .. math:: \min_{V, b}\ \sum_i w_i \ell\bigl(t V z_i + b,\ y_i\bigr)
              + \tfrac{\lambda_d}{2} \sum_k (v_{kk} - \bar v)^2 + \tfrac{\lambda_c}{2} (\bar v - 1)^2
              + \tfrac{\lambda_o}{2} \sum_{j \ne k} v_{jk}^2 + \tfrac{\lambda_b}{2} \sum_k b_k^2

    with :math:`\ell` the log loss of a softmax, :math:`\bar v` the mean of the diagonal of V, and the four penalties of
    :class:`Ridge`. The problem is strictly convex with penalties above 0, so there is a solution also for separable
    classes. A class without rows keeps the row of V of the pure temperature; its intercept is determined by the
    penalty. ``inverse`` is an approximate inverse of the Hessian; it affects the time, not the solution.

    Notes
    -----
    Up to 16 classes Newton's method, beyond that L-BFGS.
    L-BFGS is in single precision until its steps lower the mean loss by less than 1e-6, and ends in double precision.
    Cost: about eight Newton steps, or 10 to 30 passes of loss and gradient; memory for blocks of rows and K^3 / 2
    numbers in single precision.
    """
    problem = _Regression(rows, ridge, slope)
    numbers = problem.identity() if start is None else problem.embedded(start.numbers)
    limit = settled * problem.total
    if problem.size <= MAX_DENSE_CLASSES and inverse is None:
        found = damped_newton(
            problem.evaluate,
            lambda _, there: _newton_step(problem, there.gradient),
            numbers,
            lambda _: limit,
        )
        return Affine(found.point, slope)

    pairs = new_pairs()
    limit = max(limit, LBFGS_TOLERANCE * problem.total, LBFGS_DECREMENT)
    if inverse is None:
        if start is None:
            steps = FIRST_STEPS if problem.full else FIRST_VECTOR_STEPS
            numbers = lbfgs(problem.single, problem.inverse(numbers), numbers, limit, steps)
        inverse = problem.inverse(numbers)
    inverse = problem.held(inverse)
    if not rows.single:
        numbers = lbfgs(problem.single, inverse, numbers, max(limit, SINGLE_TOLERANCE * problem.total), pairs=pairs)
        return Affine(lbfgs(problem.double, inverse, numbers, limit, pairs=pairs), slope)
    return Affine(lbfgs(problem.single, inverse, numbers, limit, pairs=pairs), slope)


def shared_inverse(rows: LogRows, ridge: Ridge, slope: float, share: float) -> Inverse | None:
    """An approximate inverse Hessian for fits to about this share of the rows; None where fits need none.

    It is taken at pure temperature scaling, with the slope rounded to a power of two: it hardly depends on labels,
    which fits to some folds must not see.
    """
    problem = _Regression(rows.weighing(share * rows.weights), ridge, float(2.0 ** np.round(np.log2(slope))))
    problem.absent[:] = False
    return problem.inverse(problem.identity())


def _newton_step(problem: _Regression, gradient: Floats) -> Floats:
    """Newton step with the full Hessian."""
    bent = problem.curvature()
    bent[np.diag_indices(len(bent))] += 1e-12 * (1.0 + np.trace(bent) / len(bent))  # for parameters without a penalty
    return np.asarray(-np.linalg.solve(bent, gradient.reshape(-1)).reshape(gradient.shape))


class _Regression:
    """Penalized loss of an affine map of logits, its gradient and its Hessian, block by block."""

    def __init__(self, rows: LogRows, ridge: Ridge, slope: float) -> None:
        self.rows, self.ridge, self.slope = rows, ridge, slope
        self.size = len(rows.classes)
        self.kind: Any = np.float64 if self.size <= MAX_DENSE_CLASSES else np.float32
        """Precision of a Hessian: that of an approximate one does not matter."""
        self.full = ridge.others is not None
        self.total = float(rows.weights.sum())
        self.absent = np.bincount(rows.labels, rows.weights, minlength=self.size) == 0.0
        self.last = self.identity()
        """The parameters that were evaluated last."""

    def identity(self) -> Floats:
        """The parameters of pure temperature scaling."""
        columns = np.eye(self.size) if self.full else np.ones((self.size, 1))
        return np.column_stack([columns, np.zeros(self.size)])

    def embedded(self, numbers: Floats) -> Floats:
        """Parameters as a start of this fit: a diagonal becomes a matrix."""
        if self.full and numbers.shape[1] == 2:
            return np.column_stack([np.diag(numbers[:, 0]), numbers[:, 1]])
        return numbers

    def evaluate(self, numbers: Floats, kind: Any = None) -> Derivatives:
        """Loss and gradient; arithmetic on rows is in float64 unless another kind is asked for or the rows have one."""
        self.last = numbers
        away = numbers - self.identity()
        drawn = self._penalty_gradient(away)
        value, gradient = 0.5 * float((away * drawn).sum()), np.zeros_like(drawn)
        ones = np.ones(self.size, dtype=kind or self._kind)
        for part, z in self._parts(kind):
            weights = self.rows.weights[part]
            a = self._affine(z, numbers)
            places = np.arange(0, a.size, self.size) + self.rows.labels[part]
            if not -SAFE < a.min() <= a.max() < SAFE:  # the largest of each row takes longer
                a -= a.max(axis=1, keepdims=True)
            own = a.reshape(-1).take(places)
            sums = np.exp(a, out=a) @ ones
            value += float((weights * (np.log(sums) - own)).sum())
            a *= (weights / sums)[:, None].astype(a.dtype, copy=False)
            a.reshape(-1)[places] -= weights
            self._gather(a, z, gradient)
        gradient[:, :-1] *= self.slope
        return Derivatives(value, self._free(gradient + drawn), np.empty((0, 0)))

    def single(self, numbers: Floats) -> tuple[float, Floats]:
        """Loss and gradient, with arithmetic on rows in single precision and sums in double."""
        return self.evaluate(numbers, np.float32)[:2]

    def double(self, numbers: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""
        return self.evaluate(numbers)[:2]

    def probabilities(self, numbers: Floats) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Blocks of rows, of probabilities, of logits after temperature scaling, and of weights."""
        for part, z in self._parts():
            a = self._affine(z, numbers)
            a -= a.max(axis=1, keepdims=True)
            np.exp(a, out=a)
            a /= a.sum(axis=1, keepdims=True)
            yield part, a, z * z.dtype.type(self.slope), self.rows.weights[part]

    def curvature(self) -> Floats:
        """The Hessian at the parameters that were evaluated last."""
        shape = self.last.shape
        count = shape[0] * shape[1]
        add = self._full_terms if self.full else self._own_terms
        terms = np.zeros(shape + shape if self.full else shape[::-1] + shape[::-1])
        for _, p, x, weights in self.probabilities(self.last):
            terms += add(p, x, weights)
        bent = self._penalty_hessian + (terms if self.full else terms.transpose(1, 0, 3, 2)).reshape(count, count)
        fixed = np.zeros(shape, dtype=bool)
        fixed[self.absent, :-1] = True
        bent[fixed.reshape(-1)] = 0.0
        bent[:, fixed.reshape(-1)] = 0.0
        bent[fixed.reshape(-1), fixed.reshape(-1)] = 1.0
        return bent

    def inverse(self, numbers: Floats) -> Inverse:
        """An approximate inverse of the Hessian at these parameters."""
        if self.size <= (MAX_DENSE_CLASSES if self.full else MAX_DENSE_VECTOR):
            self.last = numbers
            return dense_inverse(self.curvature())
        if not self.full:
            return own_inverse(self.ridge, self.absent, lambda: self.probabilities(numbers))
        return class_inverse(
            self.ridge, self.absent, lambda: self.probabilities(numbers), lambda some: self.slope * self.rows.at(some)
        )

    def held(self, inverse: Inverse) -> Inverse:
        """The inverse of a Hessian whose steps leave the slopes of classes without rows where they are."""
        if not self.absent.any():
            return inverse

        def product(gradient: Floats) -> Floats:
            found = inverse(gradient)
            found[self.absent, :-1] = 0.0
            return found

        return product

    @cached_property
    def _penalty_hessian(self) -> Floats:
        """Second derivatives of the penalties."""
        units = np.eye(self.identity().size).reshape(-1, *self.identity().shape)
        return np.stack([self._penalty_gradient(unit).reshape(-1) for unit in units])

    def _own_terms(self, p: Floats, z: Floats, weights: Floats) -> Floats:
        """Second derivatives if a class depends on its own logit and the intercept."""
        size = self.size
        both: NDArray[Any] = np.concatenate([p * z, p], axis=1).astype(self.kind, copy=False)
        both *= np.sqrt(weights)[:, None].astype(self.kind)
        among = -(both.T @ both).astype(np.float64).reshape(2, size, 2, size)
        weighted = p * weights[:, None]
        each = np.arange(size)
        among[0, each, 0, each] += np.einsum("nk,nk,nk->k", weighted, z, z)
        among[0, each, 1, each] += (between := np.einsum("nk,nk->k", weighted, z))
        among[1, each, 0, each] += between
        among[1, each, 1, each] += weighted.sum(axis=0)
        return np.asarray(among)

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

    @property
    def _kind(self) -> Any:
        """Precision of arithmetic on rows."""
        return self.rows.logs.dtype if self.rows.single else np.float64

    def _parts(self, kind: Any = None) -> Iterator[tuple[slice, Floats]]:
        """Blocks of rows and of their log probabilities."""
        for part, z in self.rows.blocks():
            yield part, z.astype(kind or self._kind, copy=False)

    def _affine(self, z: Floats, numbers: Floats) -> Floats:
        if self.full:  # a matrix product is much faster than einsum; results need not be bit-equal here
            a = z @ (self.slope * numbers[:, :-1]).T.astype(z.dtype, copy=False)
        else:
            a = z * (self.slope * numbers[:, 0]).astype(z.dtype, copy=False)
        a += numbers[:, -1].astype(z.dtype, copy=False)
        return np.asarray(a)

    def _gather(self, g: Floats, z: Floats, gradient: Floats) -> None:
        """Add sums over rows to a gradient: of g times z for the slopes, of g for the intercepts."""
        if self.full:
            gradient[:, :-1] += g.T @ z
        else:
            gradient[:, 0] += np.einsum("nk,nk->k", g, z)
        gradient[:, -1] += np.ones(len(g), dtype=g.dtype) @ g

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
