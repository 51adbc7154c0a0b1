"""The likelihood of a shift and a stretch of the log-odds, and intervals for what recalibration would change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from calibrant.metrics.chance import Chance
from calibrant.metrics.variance import Spread, spread_of
from calibrant.numerics import Floats, Grid, logit
from calibrant.solvers import Derivatives, damped_newton, softplus
from calibrant.tallies import Clusters, Tally

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

    Scores of exactly 0 and 1 are read as :class:`~calibrant.numerics.Ends` has it. Cost: O(cells) for each Newton step.
    """

    def __init__(self, tally: Tally) -> None:
        ends = tally.ends
        self.log_odds = np.asarray(logit(tally.scores, ends))
        scores = tally.scores
        self.inside = slice(int(np.searchsorted(scores, 0.0, side="right")), int(np.searchsorted(scores, 1.0)))
        """Cells whose score lies strictly between 0 and 1."""
        self.n = np.asarray(tally.n, dtype=np.float64)
        self.events = np.asarray(tally.events, dtype=np.float64)
        scores = np.clip(scores, *ends)
        information = self.n * scores * (1.0 - scores)
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

    def covariance(self, point: Point) -> Floats:
        """Covariance of shift and stretch, if rows were independent and counted alike."""
        return np.asarray(np.linalg.pinv(self.information(point.shift, point.stretch)), dtype=np.float64)

    def best(self, *, shift: float | None = None, stretch: float | None = None) -> Point:
        """The most likely point, with one of the parameters held where it is given."""
        free = np.array([shift is None, stretch is None])
        start = np.array([0.0 if shift is None else shift, 0.0 if stretch is None else stretch])

        def step(_: Floats, there: Derivatives) -> Floats:
            inside = there.curvature[np.ix_(free, free)] + 1e-12 * np.eye(int(free.sum()))
            move = np.zeros(2)
            move[free] = -np.linalg.solve(inside, there.gradient[free])
            return move

        def bounded(theta: Floats) -> Floats:
            return np.where(free, np.clip(theta, -REACH, REACH), theta)

        found = damped_newton(self._derivatives, step, start, lambda loss: 1e-13 * (1.0 + abs(loss)), bounded)
        theta, loss = found.point, self._loss(found.point)
        if shift is None and stretch is not None and abs(theta[0]) >= REACH:
            theta[0] = self._matching_shift(stretch)
            loss = self._loss(theta)
        return Point(float(theta[0]), float(theta[1]), 2.0 * loss)

    def _matching_shift(self, stretch: float) -> float:
        """The shift at which as many events are expected as there are, however large it is; by bisection."""
        z = self.log_odds + stretch * self.distance
        low, high, events = -REACH - float(z.max()), REACH - float(z.min()), float(self.events.sum())
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            expected = float((self.n * self.shifted(middle, stretch)).sum())
            low, high = (middle, high) if expected < events else (low, middle)
        return 0.5 * (low + high)

    def log_separations(self, side: float) -> float | None:
        """Logarithm of the number of labelings with as many events whose classes the scores separate.

        Events are at the upper end for ``side`` above 0, else at the lower one. Several labelings do so where both
        classes share one score, at the border. None where the scores do not separate the classes.
        """
        n, events = (self.n, self.events) if side < 0.0 else (self.n[::-1], self.events[::-1])
        full = int(np.argmax(events < n)) if (events < n).any() else len(n)
        if (events[full + 1 :] > 0.0).any():
            return None
        rows, hits = (float(n[full]), float(events[full])) if full < len(n) else (0.0, 0.0)
        return float(special.gammaln(rows + 1.0) - special.gammaln(hits + 1.0) - special.gammaln(rows - hits + 1.0))

    def deviance(self, shift: float, stretch: float) -> float:
        """Twice the negative log-likelihood at a point."""
        return 2.0 * self._loss(np.array([shift, stretch]))

    def _loss(self, theta: Floats) -> float:
        z = self.log_odds + theta[0] + theta[1] * self.distance
        return float((self.n * (np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))) - self.events * z).sum())

    def _derivatives(self, theta: Floats) -> Derivatives:
        z = self.log_odds + theta[0] + theta[1] * self.distance
        value, p = softplus(z)
        loss = float((self.n * value - self.events * z).sum())
        residual, v = self.n * p - self.events, self.n * p * (1.0 - p)
        cross = float((v * self.distance).sum())
        gradient = np.array([float(residual.sum()), float((residual * self.distance).sum())])
        hessian = np.array([[float(v.sum()), cross], [cross, float((v * self.distance**2).sum())]])
        return Derivatives(loss, gradient, hessian)


# ---------------------------------------------------------------------------------------------------------- parameters

MOST_CELLS = 1 << 16
"""More distinct scores than this are counted on the grid first: its cells are at most a thousandth wide."""

FARTHEST = 100.0
"""An interval that reaches beyond this is open."""

LEAST_INFORMATION = 1e-100
"""Less than that is none, and its square would underflow."""

NO_PEAK = 30.0
"""A standard error beyond this means that the likelihood has no peak."""


@dataclass(frozen=True)
class Parameter:
    r"""An estimate with its profile likelihood, scaled to the variance that weights or clusters give it.

    With :math:`D(\theta)` the profile deviance above its minimum, :math:`V_0` the variance of the estimate if rows were
    independent and counted alike, and V the one that they have, :math:`D(\theta) V_0 / V` is compared with the square
    of Student's distribution (Chandler and Bate 2007). For independent rows this is the likelihood-ratio test.

    Where the scores separate the classes, the estimate is infinite and D has no such distribution: one event at the
    highest score, which a calibrated model shows often, would count against it. Then the test is the conditional one
    (Cox 1970): with k events at the end of the scores, and :math:`p_\theta` fitted to have as many,

    .. math:: P_\theta(\text{separated} \mid k \text{ events})
              = \frac{\sum_{\text{separated}} \prod_i p_\theta^{y_i} (1 - p_\theta)^{1 - y_i}}
                     {P_\theta(k \text{ events})} ,

    doubled for both sides. It is exact for rows that count alike, and an approximation under importance weights.

    Attributes
    ----------
    value
        The estimate; infinite where the scores separate the classes.
    spread
        Its variance and the degrees of freedom.
    scale
        V over :math:`V_0`, the design effect.
    """

    value: float
    spread: Spread
    scale: float
    _excess: Callable[[float], float]
    _separation: Callable[[float], float] | None = None
    """Of an infinite estimate: the probability of separated classes, given the number of events, at a value."""

    @property
    def se(self) -> float:
        """Standard error."""
        return self.spread.sd

    def errors(self, at: float) -> float:
        """Distance of a value from the estimate in standard errors, by the likelihood, with its sign."""
        return self._root(at) if at >= self.value else -self._root(at)

    def _root(self, at: float) -> float:
        if self._separation is not None:
            return max(-float(special.ndtri(self._separation(at))), 0.0)
        return float(np.sqrt(max(self._excess(at), 0.0) / self.scale))

    def p_value(self, at: float) -> float:
        """Two-sided, for the hypothesis that the parameter has this value."""
        return self.spread.p_value(self.errors(at))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Values that a test at 1 - confidence does not reject; an end that the rows do not give is infinite."""
        limit = self.spread.quantile(confidence)
        return self._end(-1.0, limit), self._end(1.0, limit)

    def _end(self, side: float, limit: float) -> float:
        if np.isinf(self.value):
            if side == np.sign(self.value):
                return float(self.value)
            return self._search(float(np.copysign(REACH, self.value)), side, limit)
        return self._search(self.value, side * max(self.se, 1e-3), limit)

    def _search(self, start: float, step: float, limit: float) -> float:
        """Where the root of the scaled deviance passes ``limit``, walking from the estimate in growing steps."""

        def above(at: float) -> float:
            return self._root(at) - limit

        if np.isinf(self.value) and above(start) >= 0.0:
            return start
        near, far = start, start + 2.0 * step
        below, beyond = -limit, above(far)
        while beyond < 0.0:
            near, below, far, step = far, beyond, far + 2.0 * step, 2.0 * step
            if abs(near) > FARTHEST:
                return float(np.copysign(np.inf, step))
            beyond = above(far)
        if np.isinf(self.value):  # its exact test is flat where nothing is rejected, and steep elsewhere
            for _ in range(HALVINGS):
                middle = 0.5 * (near + far)
                near, far = (near, middle) if above(middle) >= 0.0 else (middle, far)
            return 0.5 * (near + far)
        for _ in range(5):  # the root of a profile deviance is nearly straight, so the secant lands at once
            middle = near + (far - near) * below / (below - beyond)
            there = above(middle)
            near, below, far, beyond = (near, below, middle, there) if there >= 0.0 else (middle, there, far, beyond)
        end = float(near + (far - near) * below / (below - beyond))
        return end if abs(end) <= FARTHEST else float(np.copysign(np.inf, step))


@dataclass(frozen=True)
class Parameters:
    """Level and slope of the log-odds, from one likelihood.

    Attributes
    ----------
    level
        Shift of all log-odds at which predicted and observed events agree (calibration in the large); 0 is ideal. None
        with one class.
    slope
        Slope on the log-odds with a free intercept; 1 is ideal. None with one class, for scores that are all but
        constant, and for clusters whose classes the scores separate.
    """

    data: Tally | Clusters
    """The rows, on a grid where there are many distinct scores."""
    likelihood: Likelihood
    level: Parameter | None
    slope: Parameter | None

    @classmethod
    def of(cls, data: Tally | Clusters) -> Parameters:
        """Estimates with what intervals need. Cost: O(cells) for each of about 30 Newton steps."""
        data = _coarse(data)
        likelihood = Likelihood(data.tally if isinstance(data, Clusters) else data)
        hits, total = float(likelihood.events.sum()), float(likelihood.n.sum())
        if not 0.0 < hits < total:
            return cls(data, likelihood, None, None)
        return cls(data, likelihood, _level(likelihood, data), _slope(likelihood, data))

    def variances(self, contrasts: tuple[tuple[float, float], tuple[float, float]]) -> tuple[float, float, float]:
        """Variances of two contrasts of (shift, stretch), and of their sum; NaN without a finite slope."""
        if self.slope is None or not np.isfinite(self.slope.value):
            return np.nan, np.nan, np.nan
        best = self.likelihood.best()
        covariance = self.likelihood.covariance(best)
        one, other = (np.asarray(each) for each in contrasts)
        first, second, both = (
            _spread_of_contrast(self.likelihood, self.data, best, covariance, each).variance
            for each in (one, other, one + other)
        )
        return first, second, both


def _coarse(data: Tally | Clusters) -> Tally | Clusters:
    """Not more cells than are useful, and importance weights in the unit of their effective size."""
    data = data.in_effective_rows()
    tally = data.tally if isinstance(data, Clusters) else data
    if tally.resolution != "exact" or len(tally) <= MOST_CELLS:
        return data
    coarse = tally.coarsen(Grid())
    if isinstance(data, Tally):
        return coarse
    place = np.searchsorted(coarse.cells.keys, Grid().cells(np.asarray(tally.cells.keys))[0])
    return replace(data, tally=coarse, cell=place[data.cell])


def _level(likelihood: Likelihood, data: Tally | Clusters) -> Parameter:
    best = likelihood.best(stretch=0.0)
    p = likelihood.shifted(best.shift, 0.0)
    v = p * (1.0 - p)
    information = max(float((likelihood.n * v).sum()), LEAST_INFORMATION)
    spread = spread_of(data, (1.0 - p) / information, -p / information, v / information**2)
    return Parameter(
        best.shift,
        spread,
        _scale(data, spread, 1.0 / information),
        lambda at: likelihood.deviance(at, 0.0) - best.deviance,
    )


def _slope(likelihood: Likelihood, data: Tally | Clusters) -> Parameter | None:
    if likelihood.spread == 0.0:
        return None
    best = likelihood.best()
    covariance = likelihood.covariance(best)
    if not covariance[1, 1] <= NO_PEAK**2:
        if isinstance(data, Clusters):
            return None
        side = float(np.copysign(np.inf, best.stretch))
        separation = _separation(likelihood, side)
        return Parameter(side, Spread(np.inf), 1.0, _profile_of_slope(likelihood, best.deviance), separation)
    spread = _spread_of_contrast(likelihood, data, best, covariance, np.array([0.0, 1.0]))
    scale = _scale(data, spread, float(covariance[1, 1]))
    return Parameter(1.0 + best.stretch, spread, scale, _profile_of_slope(likelihood, best.deviance))


def _spread_of_contrast(
    likelihood: Likelihood, data: Tally | Clusters, best: Point, covariance: Floats, contrast: Floats
) -> Spread:
    """The spread of a combination of shift and stretch, by what each row adds to it."""
    weights = np.einsum("i,ij->j", contrast, covariance)
    p = likelihood.shifted(best.shift, best.stretch)
    lever = weights[0] + weights[1] * likelihood.distance
    return spread_of(data, lever * (1.0 - p), -lever * p, lever**2 * p * (1.0 - p))


def _profile_of_slope(likelihood: Likelihood, least: float) -> Callable[[float], float]:
    return lambda at: likelihood.best(stretch=at - 1.0).deviance - least


def _separation(likelihood: Likelihood, side: float) -> Callable[[float], float] | None:
    """The probability of classes that the scores separate, given the number of events, by the slope."""
    ways = likelihood.log_separations(side)
    if ways is None:
        return None

    def probability(at: float) -> float:
        fitted = likelihood.best(stretch=at - 1.0)
        as_many = Chance(likelihood.shifted(fitted.shift, fitted.stretch), likelihood.n).at_mean()
        return min(float(np.exp(ways - 0.5 * fitted.deviance)) / as_many, 1.0)

    return probability


def _scale(data: Tally | Clusters, spread: Spread, independent: float) -> float:
    if isinstance(data, Tally) and data.counts:
        return 1.0
    return spread.variance / independent if spread.variance > 0.0 else 1.0
