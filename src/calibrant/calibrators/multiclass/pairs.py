"""One against one: a logistic curve for each pair of classes, and the log-odds of the pairs combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import cast

import numpy as np

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.scaling import SoftmaxCalibrator, check_ridge, scaled_together
from calibrant.fits.multiclass.softmax import LogRows, fit_slope, zero_notes
from calibrant.maps import SoftmaxMap
from calibrant.messages import InputError, Voice, note
from calibrant.numerics import Floats
from calibrant.solvers import Derivatives, damped_newton, softplus

SETTLED = 1e-18
"""Decrement at which Newton's method ends, relative to the loss."""

pairs_without_rows = note(
    "pairs-without-rows",
    "{count} of {pairs} pairs of classes have no {nouns.rows} of one of their classes: their curves are those of "
    "temperature scaling",
)


class PairCalibrator(SoftmaxCalibrator):
    """Base class of calibrators by pairs of classes: what they have after the fit."""

    pair_slopes_: Floats
    pair_intercepts_: Floats


@dataclass(eq=False, repr=False)
class OneAgainstOne(PairCalibrator):
    r"""One against one: Platt scaling of each pair of classes, combined into one row of probabilities.

    .. math:: \ell_{jk}(z) = a_{jk} (z_j - z_k) + b_{jk}, \qquad
              m(z) = \operatorname{softmax}(u), \qquad u_j = \frac{1}{K} \sum_{k \ne j} \ell_{jk}(z),

    with :math:`z = \log p`. For each pair, :math:`a_{jk} \ge 0` and :math:`b_{jk}` are fitted by logistic regression to
    the rows of the two classes, so that :math:`\ell_{jk}` is the log-odds of j against k. The u are the least-squares
    solution of :math:`u_j - u_k \approx \ell_{jk}`, exact if the pairs agree. They are linear in z, so the map is that
    of matrix scaling and is exported like it. A penalty of
    :math:`\tfrac{\lambda}{2} ((a_{jk} - t)^2 + b_{jk}^2)`, with t the slope of temperature scaling, keeps the curves of
    pairs with few rows near it.

    Parameters
    ----------
    ridge : float
        :math:`\lambda`, in rows.
    clamp : float, optional
        As in :class:`VectorScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature of pure temperature scaling.
    pair_slopes_, pair_intercepts_ : ndarray of shape (K, K)
        :math:`a_{jk}`, symmetric, and :math:`b_{jk}`, antisymmetric; 0 on the diagonal.

    Notes
    -----
    Edge cases: a pair of which one class has no rows has the curve of temperature scaling, with a note. With two
    classes this is Platt scaling, up to the penalty.
    Guarantee: no finite-sample guarantee. The row sums to 1, but its columns are not the fitted probabilities of the
    pairs where these disagree.
    Cost: a logistic regression with two parameters for each pair; every row is in K - 1 of them.
    Reference: Torabian (2023), section 3.1.1, for the reduction; Hastie and Tibshirani (1998) for coupling of pairs,
    here by least squares of the log-odds, as Crawford and Williams (1985) do for paired comparisons.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> tilted = p * [1, 1, 3]
    >>> y = [rng.choice(3, p=row / row.sum()) for row in tilted]
    >>> OneAgainstOne().fit(p, y).transform([[0.25, 0.25, 0.5]]).round(2).tolist()
    [[0.12, 0.13, 0.75]]
    """

    ridge: float = 1.0
    _: KW_ONLY
    clamp: float | None = None

    def _fit_classes(self, rows: MulticlassRows) -> Fit[SoftmaxMap]:
        check_ridge("ridge", self.ridge)
        if self.clamp is not None and not 0.0 < self.clamp < 1.0:
            raise InputError("clamp", f"must lie between 0 and 1, got {self.clamp!r}")
        logs = LogRows.of(rows, self.clamp)
        slope, notes = fit_slope(logs)
        size = len(rows.classes)
        plain = SoftmaxMap(rows.classes, np.ones(1), np.zeros(0), logs.on, logs.clamp)
        z = plain.logits(rows.scores.astype(np.float64, copy=False))
        a, b = np.zeros((size, size)), np.zeros((size, size))
        of = [np.flatnonzero(rows.labels == j) for j in range(size)]
        present = [bool(logs.weights[each].any()) for each in of]
        for j in range(size):
            for k in range(j):
                if present[j] and present[k]:
                    both = np.concatenate([of[j], of[k]])
                    y = np.repeat([1.0, 0.0], [len(of[j]), len(of[k])])
                    a[j, k], b[j, k] = fit_pair(z[both, j] - z[both, k], y, logs.weights[both], slope, self.ridge)
                else:  # rows of one class alone would push the intercept as far as the penalty lets them
                    a[j, k], b[j, k] = slope, 0.0
                a[k, j], b[k, j] = a[j, k], -b[j, k]
        matrix = (np.diag(a.sum(axis=1)) - a) / size
        pairs = size * (size - 1) // 2
        lost = pairs - sum(present) * (sum(present) - 1) // 2
        together = (scaled_together(),) if rows.score_type == "independent" else ()
        more = (pairs_without_rows(lost, pairs),) if lost else ()
        fitted = SoftmaxMap(rows.classes, matrix.reshape(-1), b.sum(axis=1) / size, logs.on, logs.clamp)
        found = {"temperature_": 1.0 / slope, "pair_slopes_": a, "pair_intercepts_": b}
        return Fit(fitted, (*zero_notes(rows, logs.clamp), *together, *notes, *more), found)

    def _describe(self, voice: Voice) -> str:
        above = np.tril_indices(len(cast(SoftmaxMap, self.map_).classes), -1)
        slopes, shifts = self.pair_slopes_[above], np.abs(self.pair_intercepts_[above])
        span = (
            f"slopes from {slopes.min():.4g} to {slopes.max():.4g} (temperature scaling: {1 / self.temperature_:.4g})"
        )
        return f"{len(slopes):,} pairs of classes, {span}, intercepts up to {shifts.max():.4g}"


def fit_pair(x: Floats, y: Floats, weights: Floats, slope: float, ridge: float) -> tuple[float, float]:
    """Slope, not negative, and intercept of a logistic regression with a penalty that holds them near (slope, 0).

    Parameters
    ----------
    x, y, weights
        Log-odds, labels and weights of the rows of two classes.
    slope, ridge
        The slope without rows, and the penalty.

    Examples
    --------
    >>> fit_pair(np.zeros(0), np.zeros(0), np.zeros(0), 0.7, 1.0)
    (0.7, 0.0)
    """
    prior = np.array([slope, 0.0])
    design = np.stack([x, np.ones(len(x))])

    def evaluate(theta: Floats) -> Derivatives:
        z = np.einsum("j,jc->c", theta, design)
        value, p = softplus(z)
        away = theta - prior
        loss = float((weights * (value - y * z)).sum()) + 0.5 * ridge * float((away * away).sum())
        curvature = np.einsum("jc,kc->jk", design * (weights * p * (1.0 - p)), design) + ridge * np.eye(2)
        return Derivatives(loss, np.einsum("jc,c->j", design, weights * (p - y)) + ridge * away, curvature)

    def minimum(free: Sequence[int], start: Floats) -> Floats:
        kept = np.array(free)

        def step(_: Floats, there: Derivatives) -> Floats:
            move = np.zeros(2)
            move[kept] = -np.linalg.solve(there.curvature[np.ix_(kept, kept)], there.gradient[kept])
            return move

        return damped_newton(evaluate, step, start, lambda loss: SETTLED * max(loss, 1.0)).point

    theta = minimum((0, 1), prior)
    if theta[0] < 0.0:  # the loss is convex, so the best curve that does not fall is flat
        theta = minimum((1,), np.array([0.0, 0.0]))
    return float(theta[0]), float(theta[1])
