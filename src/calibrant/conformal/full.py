"""Full conformal sets of ridge regression, exactly: every value is tried, without a grid."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.columns import read_array
from calibrant.conformal.base import ConformalRegressor, Floats, read_rows
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.depth import held_by
from calibrant.conformal.quantiles import check_alpha, votes_needed
from calibrant.conformal.sets import PredictionSets
from calibrant.messages import InputError

WIDENED = 1e-11
"""Rounding of an end, relative to the size of outcomes."""


@dataclass(eq=False, repr=False)
class RidgeConformal(ConformalRegressor):
    r"""Full conformal prediction sets of ridge regression: no row is held out.

    For each value v, ridge regression is fitted to all n rows and (x, v). Its residuals are linear in v, so the set

    .. math:: C(x) = \Bigl\{v : \frac{\#\{i \le n + 1 : \lvert e_i(v) \rvert \ge \lvert e_{n+1}(v) \rvert\}}{n + 1}
        > \alpha\Bigr\}

    is found from the roots of n quadratics.

    Parameters
    ----------
    penalty
        Penalty of the squared coefficients; the intercept has none. Columns should have similar scales.
    alpha
        Miscoverage level.

    Attributes
    ----------
    X_, y_
        The rows.

    Notes
    -----
    Guarantee: finite-sample. If old and new rows are exchangeable, a new outcome is in its set with probability at
    least 1 - alpha, and at most 1 - alpha + 1/(n + 1) if residuals have no ties. Cost: for each new row one
    decomposition of a matrix of the size of the columns, and one sort.
    References: Vovk et al. (2005), section 2.3; Gupta (2023), section 9.A.2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 2))
    >>> y = X[:, 0] + rng.normal(size=50)
    >>> sets = RidgeConformal(alpha=0.1).fit(X, y).predict_sets([[0.0, 0.0]])
    >>> sets.certificate.level, sets.pieces.tolist()
    (0.9, [1])
    """

    penalty: float = 1.0
    _: KW_ONLY
    alpha: float = 0.1

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Keep the rows: the regressions are fitted when new rows are given."""
        check_alpha(self.alpha)
        if not (isinstance(self.penalty, int | float | np.number) and 0.0 <= self.penalty < np.inf):
            raise InputError("penalty", f"must be at least 0, got {self.penalty!r}")
        _, self.y_ = read_rows(X, y)
        self.X_ = _matrix(X)
        return self

    def predict(self, X: Any) -> Floats:
        """Forecasts of the ridge regression of the old rows."""
        check_is_fitted(self)
        center, level = self.X_.mean(axis=0), float(self.y_.mean())
        u, d, vt = _decomposed(self.X_ - center)
        weights = u.T @ (self.y_ - level) * _shrunk(d, self.penalty) / d
        found: Floats = level + ((self._new(X) - center) @ vt.T) @ weights
        return found

    def _new(self, X: Any) -> Floats:
        rows = _matrix(X)
        if rows.shape[1] != self.X_.shape[1]:
            raise InputError("X", f"has {rows.shape[1]} columns", f"pass {self.X_.shape[1]}, as in fit")
        return rows

    def _calibration_rows(self) -> int:
        return int(self.y_.size)

    def _sets(self, X: Any, alpha: float) -> PredictionSets:
        votes = votes_needed(self.y_.size, alpha)
        ends = [self._intervals(row) for row in self._new(X)]
        return held_by(np.stack([low for low, _ in ends]), np.stack([high for _, high in ends]), votes)

    def _intervals(self, row: Floats) -> tuple[Floats, Floats]:
        """For each old row, the values at which its residual is at least as large as the new one: two intervals."""
        rows = np.vstack([self.X_, row])
        u, d, _ = _decomposed(rows - rows.mean(axis=0))  # centered, so that the intercept is exact at every scale
        shrunk = _shrunk(d, self.penalty)

        def residual(values: Floats) -> Floats:
            centered = values - values.mean()
            left: Floats = centered - u @ (shrunk * (u.T @ centered))
            return left

        center = float(self.y_.mean())  # the intercept is free, so outcomes may be shifted
        fixed = residual(np.append(self.y_ - center, 0.0))
        slope = residual(np.append(np.zeros(self.y_.size), 1.0))
        low, high = larger_residuals(fixed[:-1], slope[:-1], fixed[-1], slope[-1])
        slack = WIDENED * (np.abs(self.y_ - center).max(initial=0.0) + 1e-300)
        ends = []
        for end, sign in ((low, -1.0), (high, 1.0)):
            size = np.where(np.isinf(end), 0.0, np.abs(end))
            ends.append(end + sign * (slack + WIDENED * size) + center)  # that of an empty interval stays infinite
        return ends[0], ends[1]

    def _certificate(self, alpha: float) -> Coverage:
        upper = min(1.0 - alpha + 1.0 / (self.y_.size + 1.0), 1.0)
        return Coverage(1.0 - alpha, alpha, "Gupta (2023), section 9.A.2", upper=upper)


def larger_residuals(a: Floats, b: Floats, a_new: float, b_new: float) -> tuple[Floats, Floats]:
    r"""Values v with :math:`\lvert a + b v \rvert \ge \lvert a' + b' v \rvert`, as two intervals for each entry.

    The difference of the squares is a product of two lines. Between their roots it is positive if b is smaller than b'
    in absolute value, and outside if it is larger.

    Parameters
    ----------
    a, b
        Lines of old rows.
    a_new, b_new
        Line of the new row.

    Returns
    -------
    tuple of arrays
        Lower and upper ends of the first intervals, then of the second ones; an empty one is from inf to -inf.

    Examples
    --------
    >>> larger_residuals(np.array([2.0]), np.array([0.0]), 0.0, 1.0)
    (array([-2., inf]), array([  2., -inf]))
    """
    sign = np.where(b < 0.0, -1.0, 1.0)
    p, q = a * sign, np.abs(b)
    r, s = (-a_new, -b_new) if b_new < 0.0 else (a_new, b_new)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, two = -(p - r) / (q - s), -(p + r) / (q + s)
    first, last = np.minimum(one, two), np.maximum(one, two)
    n = a.size
    low, high = np.full((2, n), np.inf), np.full((2, n), -np.inf)
    inside, outside, equal = q < s, q > s, q == s
    low[0, inside], high[0, inside] = first[inside], last[inside]
    touching = outside & (first == last)
    low[0, outside], high[0, outside] = -np.inf, np.where(touching, np.inf, first)[outside]
    apart = outside & ~touching
    low[1, apart], high[1, apart] = last[apart], np.inf
    flat = equal & (s == 0.0)
    whole = (flat & (np.abs(p) >= abs(r))) | (equal & ~flat & (p == r))
    low[0, whole], high[0, whole] = -np.inf, np.inf
    right, left = equal & ~flat & (p > r), equal & ~flat & (p < r)
    low[0, right], high[0, right] = two[right], np.inf
    low[0, left], high[0, left] = -np.inf, two[left]
    return low.ravel(), high.ravel()


def _matrix(X: Any) -> Floats:
    rows = read_array(X, "X", "pass a matrix of numbers")
    if rows.ndim != 2:
        raise InputError("X", f"has shape {rows.shape}", "pass a matrix with one line for each row")
    if not np.isfinite(rows).all():
        raise InputError("X", "has values that are missing or infinite", "drop or repair these rows")
    return rows


def _decomposed(centered: Floats) -> tuple[Floats, Floats, Floats]:
    """Singular vectors and values of centered rows, without the values that are 0 up to rounding."""
    u, d, vt = np.linalg.svd(centered, full_matrices=False)
    kept = d > d.max(initial=0.0) * max(centered.shape) * np.finfo(np.float64).eps
    return u[:, kept], d[kept], vt[kept]


def _shrunk(d: Floats, penalty: float) -> Floats:
    """How much of each direction the penalty leaves, between 0 and 1."""
    with np.errstate(over="ignore"):
        found: Floats = 1.0 / (1.0 + float(penalty) / d / d)
    return found
