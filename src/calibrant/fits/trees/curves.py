r"""A logistic curve of the score in each node of a tree.

The curve of a node leans on that of its parent, as if the parent's fit were worth :data:`PRIOR_ROWS` further rows: with
:math:`\theta` its slope and intercept, it minimizes

.. math:: \sum_i w_i \bigl(\log(1 + e^{x_i'\theta}) - y_i x_i'\theta\bigr)
          + \tfrac{10}{2} (\theta - \theta_p)' I_p (\theta - \theta_p),

where :math:`\theta_p` is the parent's and :math:`I_p` the mean information of a row there. So a leaf of few rows, or of
one class, keeps close to its parent, and its curve is always finite. Probability calibration trees (Leathart et al.
2017) get the same effect from boosting steps that start at the parent's curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrant.arrays import Rows
from calibrant.fits.scaling import fit_platt, unlimited
from calibrant.maps import LogitAffineMap, Map
from calibrant.messages import InputError, Note
from calibrant.numerics import Ends, Floats, Ints, expit, logit
from calibrant.solvers import Derivatives, damped_newton, softplus
from calibrant.tallies import Tally

PRIOR_ROWS = 10.0
"""Rows that the fit of its parent is worth to a node."""

SETTLED = 1e-18
"""Decrement at which Newton's method ends, relative to the loss."""


@dataclass(frozen=True)
class Line:
    """Slope and intercept of a node on the centered axis, and the mean information of a row there."""

    theta: Floats
    information: Floats


@dataclass(frozen=True, eq=False)
class Curves:
    """Logistic curves of the score that do not fall; each leans on that of the node above.

    Attributes
    ----------
    x
        Log-odds of the scores, or the scores, centered and scaled.
    labels, weights
        Labels and weights of the rows.
    root
        The curve of all rows, which ``fit_platt`` gives.
    center, spread
        What was subtracted from the axis, and by what it was divided.
    """

    x: Floats
    labels: Floats
    weights: Floats | None
    root: LogitAffineMap
    center: float
    spread: float

    @classmethod
    def of(cls, rows: Rows) -> tuple[Curves, tuple[Note, ...]]:
        """The family for these rows, and notes on the curve of all of them."""
        found, notes = fit_platt(Tally.from_rows(replace(rows, groups=None, time=None)))
        scores, labels = rows.scores, rows.labels.astype(np.float64)
        weights = None if rows.weights is None else rows.weights.astype(np.float64)
        root = unlimited(found)
        if not isinstance(root, LogitAffineMap):
            raise InputError(
                "scores",
                "are all exactly 0 or 1, so no curve of them can be fitted in a leaf",
                "use CalibrationTree, whose leaves are rates",
            )
        x = logit(scores, Ends(root.low, root.high)) if root.on == "log-odds" else scores
        low, high = (float(x.min()), float(x.max())) if len(x) else (0.0, 1.0)
        center, spread = low / 2 + high / 2, high / 2 - low / 2
        spread = spread if spread > 0.0 else 1.0
        return cls((x - center) / spread, labels, weights, root, center, spread), notes

    def fit(self, rows: Ints, parent: Line | None) -> Line:
        """The curve of some rows; at the root that of all rows."""
        if parent is None:
            start = np.array([self.root.slope * self.spread, self.root.intercept + self.root.slope * self.center])
            return Line(start, self._information(start, rows))
        design = np.stack([self.x[rows], np.ones(len(rows))])
        w = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        prior, y = PRIOR_ROWS * parent.information, self.labels[rows]

        def evaluate(theta: Floats) -> Derivatives:
            z = np.einsum("j,jc->c", theta, design)
            value, p = softplus(z)
            away = theta - parent.theta
            pull = np.einsum("jk,k->j", prior, away)
            loss = float((w * (value - y * z)).sum()) + 0.5 * float((away * pull).sum())
            curvature = np.einsum("jc,kc->jk", design * (w * p * (1.0 - p)), design) + prior
            return Derivatives(loss, np.einsum("jc,c->j", design, w * (p - y)) + pull, curvature)

        def minimum(free: Sequence[int], start: Floats) -> Floats:
            kept = np.array(free)

            def step(_: Floats, there: Derivatives) -> Floats:
                move = np.zeros(2)
                part = there.curvature[np.ix_(kept, kept)]
                move[kept] = -np.linalg.lstsq(part, there.gradient[kept], rcond=1e-14)[0]
                return move

            return damped_newton(evaluate, step, start, lambda loss: SETTLED * max(loss, 1.0)).point

        theta = minimum((0, 1), parent.theta)
        if theta[0] < 0.0:  # the loss is convex, so the best curve that does not fall is flat
            theta = minimum((1,), np.array([0.0, parent.theta[1]]))
        return Line(theta, self._information(theta, rows) if len(rows) else parent.information)

    def _information(self, theta: Floats, rows: Ints) -> Floats:
        """Mean information of a row."""
        design = np.stack([self.x[rows], np.ones(len(rows))])
        w = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        p = expit(np.einsum("j,jc->c", theta, design))
        total = max(float(w.sum()), np.finfo(float).tiny)
        return np.asarray(np.einsum("jc,kc->jk", design * (w * p * (1.0 - p)), design) / total)

    def error(self, fitted: Line, rows: Ints) -> float:
        """Squared error of a curve."""
        p = expit(fitted.theta[0] * self.x[rows] + fitted.theta[1])
        squares = (self.labels[rows] - p) ** 2
        return float(squares.sum() if self.weights is None else (self.weights[rows] * squares).sum())

    def root_probabilities(self) -> Floats:
        """Probabilities by the curve of all rows, one column."""
        z = (self.root.slope * self.spread) * self.x + self.root.intercept + self.root.slope * self.center
        return np.asarray(expit(z))[:, None]

    def map(self, fitted: Line) -> Map:
        """The curve of a node as a map."""
        slope = float(fitted.theta[0] / self.spread)
        intercept = float(fitted.theta[1] - slope * self.center)
        return LogitAffineMap(slope, intercept, self.root.on, self.root.low, self.root.high)
