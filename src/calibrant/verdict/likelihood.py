"""The likelihood of a shift and a stretch of the log-odds, and how it compares with a box of tolerated ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from calibrant.numerics import Floats, logit
from calibrant.tallies import Tally

REACH = 40.0
"""Parameters stay within this: far beyond what a model can be off by, near enough that separable data end a search."""

STEPS, HALVINGS = 60, 30

ALIKE = 0.05
"""Scores whose log-odds spread by less are treated as one: no slope between 0 and 2 moves a typical one by more."""


@dataclass(frozen=True)
class Point:
    """A shift, a stretch, and twice the negative log-likelihood there."""

    shift: float
    stretch: float
    deviance: float


class Likelihood:
    r"""Binomial likelihood of the log-odds :math:`x + a + d\,(x - c)`, where :math:`x` are the scores' log-odds.

    :math:`a` is the shift, :math:`d` the stretch (slope minus one) and :math:`c` the mean of the log-odds weighted by
    :math:`s(1-s)`, so that shift and stretch are uncorrelated for a calibrated model and the shift is what it is off by
    in the middle of its scores. A perfectly calibrated model has :math:`a = d = 0`.

    Cost: O(cells) for each Newton step.
    """

    def __init__(self, tally: Tally) -> None:
        scores = tally.scores
        self.log_odds = np.asarray(logit(scores))
        self.keys = tally.cells.keys
        self.n = np.asarray(tally.n, dtype=np.float64)
        self.w2 = self.n if tally.counts or tally.cells.w2 is None else tally.cells.w2
        self.events = np.asarray(tally.events, dtype=np.float64)
        information = self.n * scores * (1.0 - scores)
        information = np.maximum(information, self.n * 2.0**-33)  # scores of exactly 0 and 1 count a little
        self.center = float((information * self.log_odds).sum() / information.sum())
        self.distance = self.log_odds - self.center
        variance = float((self.n * self.distance**2).sum() / self.n.sum())
        self.spread = float(np.sqrt(variance)) if variance > ALIKE**2 else 0.0
        """Root mean square of the rows' distance from the center; 0 for scores that are all but constant."""

    def shifted(self, shift: float, stretch: float) -> Floats:
        """Probability of each cell after the shift and the stretch."""
        z = self.log_odds + shift + stretch * self.distance
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -700.0, 700.0))))

    def information(self, shift: float, stretch: float) -> Floats:
        """Expected information about (shift, stretch) in all rows, a 2 by 2 matrix."""
        p = self.shifted(shift, stretch)
        v = self.n * p * (1.0 - p)
        cross = float((v * self.distance).sum())
        return np.array([[float(v.sum()), cross], [cross, float((v * self.distance**2).sum())]])

    def best(self, *, shift: float | None = None, stretch: float | None = None) -> Point:
        """The most likely point, with one of the parameters held where it is given."""
        free = np.array([shift is None, stretch is None])
        theta = np.array([0.0 if shift is None else shift, 0.0 if stretch is None else stretch])
        loss, gradient, hessian = self._derivatives(theta)
        for _ in range(STEPS):
            if not free.any():
                break
            inside = hessian[np.ix_(free, free)] + 1e-12 * np.eye(int(free.sum()))
            step = np.zeros(2)
            step[free] = np.linalg.solve(inside, gradient[free])
            if float(gradient[free] @ step[free]) <= 1e-10 * (1.0 + abs(loss)):
                break
            for halving in range(HALVINGS):
                moved = theta - step * 0.5**halving
                trial = np.where(free, np.clip(moved, -REACH, REACH), theta)
                result = self._derivatives(trial)
                if result[0] < loss:
                    break
            else:
                break
            theta, (loss, gradient, hessian) = trial, result
        return Point(float(theta[0]), float(theta[1]), 2.0 * loss)

    def deviance(self, shift: float, stretch: float) -> float:
        """Twice the negative log-likelihood at a point."""
        return 2.0 * self._loss(np.array([shift, stretch]))

    def _loss(self, theta: Floats) -> float:
        z = self.log_odds + theta[0] + theta[1] * self.distance
        return float((self.n * (np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))) - self.events * z).sum())

    def _derivatives(self, theta: Floats) -> tuple[float, Floats, Floats]:
        z = self.log_odds + theta[0] + theta[1] * self.distance
        decay = np.exp(-np.abs(z))
        p = np.where(z >= 0.0, 1.0, decay) / (1.0 + decay)
        loss = float((self.n * (np.maximum(z, 0.0) + np.log1p(decay)) - self.events * z).sum())
        residual, v = self.n * p - self.events, self.n * p * (1.0 - p)
        cross = float((v * self.distance).sum())
        gradient = np.array([float(residual.sum()), float((residual * self.distance).sum())])
        hessian = np.array([[float(v.sum()), cross], [cross, float((v * self.distance**2).sum())]])
        return loss, gradient, hessian


@dataclass(frozen=True)
class Box:
    """Shifts and stretches that are tolerated: up to ``shift`` and ``stretch`` either way."""

    shift: float
    stretch: float

    def holds(self, point: Point) -> bool:
        """Whether a point is tolerated."""
        return abs(point.shift) <= self.shift and abs(point.stretch) <= self.stretch


@dataclass(frozen=True)
class Comparison:
    """Where the likelihood stands to the box.

    Attributes
    ----------
    best
        The most likely shift and stretch.
    to_box
        How much less likely the best tolerated point is, as a difference of deviances: 0 when ``best`` is tolerated.
    to_edge
        How much less likely the best point on the box's edge lines is.
    """

    best: Point
    to_box: float
    to_edge: float


def compare_with_box(likelihood: Likelihood, box: Box) -> Comparison:
    r"""Least deviance on the lines that bound the box, and on the box itself.

    The deviance is convex, so its region :math:`\{\theta : D(\theta) - D(\hat\theta) \le q\}` lies inside the box
    exactly when :math:`\hat\theta` does and no line reaches down to :math:`D(\hat\theta) + q`; and it misses the box
    exactly when the least value on the box's border does, which on each side is the line's minimum moved to the
    nearest end.
    """
    if likelihood.spread == 0.0:
        best = likelihood.best(stretch=0.0)
        ends = [likelihood.deviance(sign * box.shift, 0.0) - best.deviance for sign in (-1.0, 1.0)]
        to_box = 0.0 if box.holds(best) else max(min(ends), 0.0)
        return Comparison(best, to_box, max(min(ends), 0.0))
    best = likelihood.best()
    lines = [likelihood.best(shift=sign * box.shift) for sign in (-1.0, 1.0)]
    lines += [likelihood.best(stretch=sign * box.stretch) for sign in (-1.0, 1.0)]
    border = [
        likelihood.deviance(
            float(np.clip(line.shift, -box.shift, box.shift)), float(np.clip(line.stretch, -box.stretch, box.stretch))
        )
        for line in lines
    ]
    floor = min(best.deviance, *(line.deviance for line in lines))  # separable data have no minimum, only an approach
    to_edge = min(line.deviance for line in lines) - floor
    to_box = 0.0 if box.holds(best) else max(min(border) - floor, 0.0)
    return Comparison(best, to_box, max(to_edge, 0.0))


def critical_value(level: float, parameters: int, clusters: int | None = None) -> float:
    """Deviance difference that a region of this confidence reaches; wider when few clusters carry the evidence."""
    if clusters is None:
        return float(2.0 * special.gammaincinv(parameters / 2.0, level))  # chi-squared
    return float(parameters * special.fdtri(parameters, max(clusters - parameters, 1), level))
