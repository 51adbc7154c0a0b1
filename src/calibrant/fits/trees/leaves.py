r"""What the nodes of a tree predict: the mean of the labels, or a logistic curve of the score.

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
from typing import Any, Protocol

import numpy as np

from calibrant.arrays import Rows
from calibrant.fits.scaling import fit_platt, unlimited
from calibrant.maps import LogitAffineMap, Map, StepMap
from calibrant.messages import InputError, Note
from calibrant.numerics import Ends, Floats, Ints, expit, logit
from calibrant.solvers import Derivatives, damped_newton, softplus
from calibrant.tallies import Tally

PRIOR_ROWS = 10.0
"""Rows that the fit of its parent is worth to a node."""

SETTLED = 1e-18
"""Decrement at which Newton's method ends, relative to the loss."""


class LeafModel(Protocol):
    """A family of fits, one for each node."""

    def fit(self, rows: Ints, parent: Any) -> Any:
        """The fit to some rows; ``parent`` is that of the node above, None at the root."""

    def error(self, fitted: Any, rows: Ints) -> float:
        """Squared error of a fit on some rows."""


@dataclass(frozen=True, eq=False)
class Means:
    """The mean of the targets, one column for each class."""

    targets: Floats
    weights: Floats | None = None

    def fit(self, rows: Ints, parent: Any) -> Floats:
        """The weighted mean of some rows; without rows that of the parent, and 0 if there is none."""
        w = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        total = float(w.sum())
        if total <= 0.0:
            return np.zeros(self.targets.shape[1]) if parent is None else np.asarray(parent)
        return np.asarray((w[:, None] * self.targets[rows]).sum(axis=0) / total)

    def error(self, fitted: Floats, rows: Ints) -> float:
        """Squared error of a mean."""
        squares = ((self.targets[rows] - fitted) ** 2).sum(axis=1)
        return float(squares.sum() if self.weights is None else (self.weights[rows] * squares).sum())


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


def rate_map(rate: float) -> Map:
    """The map of a leaf that has one probability, whatever the score."""
    return StepMap(np.empty(0), np.array([rate]))


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """What is in the leaves, in the order of ``map_.maps``, from the rows that fill them.

    Attributes
    ----------
    rows, events
        Rows and events of each leaf; sums of weights if rows have importance weights. Of several classes, ``events``
        has a column for each: the rows of the class.
    rates
        Mean label of each leaf, or shares of its classes; NaN without rows.
    low, middle, high
        The scores below which a tenth, a half and nine tenths of the leaf's rows lie; NaN without rows. Of several
        classes, ``middle`` holds the mean probability of each class by the model, and the others are NaN.
    chose
        Rows that chose the splits and are not among these; 0 unless the fit is honest.
    """

    rows: Floats
    events: Floats
    rates: Floats
    low: Floats
    middle: Floats
    high: Floats
    chose: int

    @classmethod
    def of(cls, leaf: Ints, size: int, rows: Rows, chose: int) -> LeafCounts:
        """Counted from the leaf of each row."""
        weights = np.ones(len(leaf)) if rows.weights is None else rows.weights.astype(np.float64)
        n, events = (
            np.bincount(leaf, each, minlength=size).astype(np.float64) for each in (weights, weights * rows.labels)
        )
        parts = [rows.scores[leaf == j] for j in range(size)]
        marks = np.array([np.quantile(each, [0.1, 0.5, 0.9]) if len(each) else [np.nan] * 3 for each in parts])
        with np.errstate(invalid="ignore", divide="ignore"):
            return cls(n, events, events / n, marks[:, 0], marks[:, 1], marks[:, 2], chose)

    @classmethod
    def of_classes(
        cls, leaf: Ints, size: int, p: Floats, targets: Floats, weights: Floats | None, chose: int
    ) -> LeafCounts:
        """Counted from the leaf of each row: ``p`` and ``targets`` have a column for each class."""
        w = np.ones(len(leaf)) if weights is None else weights
        n = np.bincount(leaf, w, minlength=size).astype(np.float64)
        sums = [
            np.column_stack([np.bincount(leaf, w * each, minlength=size) for each in side.T]).astype(np.float64)
            for side in (targets, p)
        ]
        nothing = np.full(size, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return cls(n, sums[0], sums[0] / n[:, None], nothing, sums[1] / n[:, None], nothing, chose)
