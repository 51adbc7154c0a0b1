"""Likelihood of an intercept and a slope on the log-odds, tests of calibration, and intervals for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from calibrant.metrics.chance import Chance
from calibrant.metrics.variance import Rates, Spread, spread_of, squared_weights
from calibrant.numerics import Floats, Grid, logit
from calibrant.solvers import Derivatives, damped_newton, softplus
from calibrant.tallies import Clusters, Tally

REACH = 40.0
"""Bound of the parameters: far beyond any realistic miscalibration, and it stops the search for separable data."""

STEPS, HALVINGS = 60, 30

MIN_LOG_ODDS_SPREAD = 0.05
"""Minimum standard deviation of the log-odds for a slope: below it, slopes from 0 to 2 hardly move a typical score."""


@dataclass(frozen=True)
class Point:
    """A shift, a slope change, and twice the negative log-likelihood there."""

    shift: float
    slope_change: float
    deviance: float


class Likelihood:
    r"""Binomial likelihood of the log-odds :math:`x + a + d\,(x - c)`, where :math:`x` are the scores' log-odds.

    :math:`a` is the shift, :math:`d` the slope change (slope minus one) and :math:`c` the mean of the log-odds weighted
    by :math:`s(1-s)`, so that both are uncorrelated for a calibrated model and the shift is the miscalibration in the
    middle of the scores. A perfectly calibrated model has :math:`a = d = 0`.

    Scores of exactly 0 and 1 are read as in :class:`~calibrant.numerics.Ends`. Cost: O(cells) for each Newton step.
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
        self.spread = float(np.sqrt(variance)) if variance > MIN_LOG_ODDS_SPREAD**2 else 0.0
        """Standard deviation of the log-odds about the center; 0 for nearly constant scores."""

    def shifted(self, shift: float, slope_change: float) -> Floats:
        """Probability of each cell after the shift and the slope change."""
        z = self.log_odds + shift + slope_change * self.distance
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -700.0, 700.0))))

    def information(self, shift: float, slope_change: float) -> Floats:
        """Expected information about (shift, slope change) in all rows, a 2 by 2 matrix."""
        p = self.shifted(shift, slope_change)
        v = self.n * p * (1.0 - p)
        cross = float((v * self.distance).sum())
        return np.array([[float(v.sum()), cross], [cross, float((v * self.distance**2).sum())]])

    def covariance(self, point: Point) -> Floats:
        """Covariance of shift and slope change, for independent rows without importance weights."""
        return np.asarray(np.linalg.pinv(self.information(point.shift, point.slope_change)), dtype=np.float64)

    def best(self, *, shift: float | None = None, slope_change: float | None = None) -> Point:
        """The maximum likelihood estimate, with one of the parameters fixed if it is given."""
        free = np.array([shift is None, slope_change is None])
        start = np.array([0.0 if shift is None else shift, 0.0 if slope_change is None else slope_change])

        def step(_: Floats, there: Derivatives) -> Floats:
            inside = there.curvature[np.ix_(free, free)] + 1e-12 * np.eye(int(free.sum()))
            move = np.zeros(2)
            move[free] = -np.linalg.solve(inside, there.gradient[free])
            return move

        def bounded(theta: Floats) -> Floats:
            return np.where(free, np.clip(theta, -REACH, REACH), theta)

        found = damped_newton(self._derivatives, step, start, lambda loss: 1e-13 * (1.0 + abs(loss)), bounded)
        theta, loss = found.point, self._loss(found.point)
        if shift is None and slope_change is not None and abs(theta[0]) >= REACH:
            theta[0] = self.shift_for(float(self.events.sum()), slope_change)
            loss = self._loss(theta)
        return Point(float(theta[0]), float(theta[1]), 2.0 * loss)

    def shift_for(self, events: float, slope_change: float = 0.0) -> float:
        """The shift at which this many events are expected, however large it is: Newton's steps, or halving.

        A step is taken in the log-odds of the mean, which are nearly linear in the shift.
        """
        total = float(self.n.sum())
        if not 0.0 < events < total:
            return float(np.copysign(np.inf, events - 0.5 * total))
        z, target = self.log_odds + slope_change * self.distance, float(np.log(events / (total - events)))
        low, high = -REACH - float(z.max()), REACH - float(z.min())
        at = min(max(target - float((self.n * z).sum()) / total, low), high)
        for _ in range(STEPS):
            p = self.shifted(at, slope_change)
            mean, v = float((self.n * p).sum()) / total, float((self.n * p * (1.0 - p)).sum()) / total
            low, high = (at, high) if mean * total < events else (low, at)
            odds = mean * (1.0 - mean)
            step = at + (target - float(np.log(mean / (1.0 - mean)))) * odds / v if min(v, odds) > 0.0 else low
            step = step if low < step < high else 0.5 * (low + high)
            if abs(step - at) <= 1e-10:
                break
            at = step
        return float(step)

    def log_separations(self, side: float) -> float | None:
        """Logarithm of the number of labelings with the same number of events whose classes the scores separate.

        Events are at the upper end for ``side`` above 0, else at the lower one. There are several such labelings if
        both classes share the score at the border. None if the scores do not separate the classes.
        """
        n, events = (self.n, self.events) if side < 0.0 else (self.n[::-1], self.events[::-1])
        full = int(np.argmax(events < n)) if (events < n).any() else len(n)
        if (events[full + 1 :] > 0.0).any():
            return None
        rows, hits = (float(n[full]), float(events[full])) if full < len(n) else (0.0, 0.0)
        return float(special.gammaln(rows + 1.0) - special.gammaln(hits + 1.0) - special.gammaln(rows - hits + 1.0))

    def deviance(self, shift: float, slope_change: float) -> float:
        """Twice the negative log-likelihood at a point."""
        return 2.0 * self._loss(np.array([shift, slope_change]))

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
"""With more distinct scores than this, rows are counted on a grid first, whose cells are at most 0.001 wide."""

FARTHEST = 100.0
"""An interval that extends beyond this has an infinite end."""

LEAST_INFORMATION = 1e-100
"""Information below this counts as none, and its square would underflow."""

LEAST_REST = 0.05
"""Least part of a residual that a row is taken to leave when the estimates follow its label."""

MAX_STANDARD_ERROR = 30.0
"""A standard error above this means that the likelihood has no maximum."""


@dataclass(frozen=True)
class Parameter:
    r"""An estimate with a test of calibration, and an interval that is right when the model is wrong.

    With :math:`D(\theta)` the profile deviance above its minimum, :math:`V_0` the variance of the estimate for
    independent rows without importance weights, and V its actual variance, :math:`D(\theta) V_0 / V` is compared with
    the square of Student's t distribution (Chandler and Bate 2007). For independent rows this is the likelihood-ratio
    test: right for a calibrated model, so :meth:`p_value` is for the ideal value alone.

    Labels of a wrong model vary otherwise than it says. So intervals, and tests of other values, use the variance of
    the observed residuals (the sandwich, for the slope with the HC3 correction of MacKinnon and White 1985), but none
    is shorter than that of a calibrated model. For the slope this variance takes the place of V. The level may be far
    from linear in the number of events: its interval is that of the event rate
    (:class:`~calibrant.metrics.variance.Rates`), whose ends are solved for the shift, or that by D where an end of it
    is further out.

    Where the scores separate the classes, the estimate is infinite and D does not have this distribution: one event at
    the highest score, which is common for a calibrated model, would count against it. Then the test is the conditional
    one (Cox 1970): with k events at the end of the scores, and :math:`p_\theta` fitted to the same number of events,

    .. math:: P_\theta(\text{separated} \mid k \text{ events})
              = \frac{\sum_{\text{separated}} \prod_i p_\theta^{y_i} (1 - p_\theta)^{1 - y_i}}
                     {P_\theta(k \text{ events})} ,

    doubled for both sides. It is exact for rows without importance weights, and an approximation with them.

    Attributes
    ----------
    value
        The estimate; infinite where the scores separate the classes.
    spread
        Its variance, the larger of the two, and the degrees of freedom.
    scale
        V over :math:`V_0` for a calibrated model, the design effect.
    widening
        The larger variance over that of a calibrated model; at least 1.
    """

    value: float
    spread: Spread
    scale: float
    widening: float
    _excess: Callable[[float], float]
    _level: Level | None = None
    """For the level: its relation to the event rate."""
    _separation: Callable[[float], float] | None = None
    """For an infinite estimate: the probability of separated classes, given the number of events, at a value."""

    @property
    def se(self) -> float:
        """Standard error."""
        return self.spread.sd

    def _errors(self, at: float, widening: float) -> float:
        """Distance of a value from the estimate in standard errors, by the likelihood."""
        if self._separation is not None:
            return max(-float(special.ndtri(self._separation(at))), 0.0)
        return float(np.sqrt(max(self._excess(at), 0.0) / (self.scale * widening)))

    def _root(self, at: float) -> float:
        return self._errors(at, 1.0 if self._level else self.widening)

    def p_value(self, ideal: float) -> float:
        """Two-sided, for the hypothesis that the model is calibrated."""
        return self.spread.p_value(self._errors(ideal, 1.0))

    def p_of_interval(self, at: float) -> float:
        """Two-sided, for the hypothesis that the parameter has this value; what the interval holds is not rejected."""
        errors = self._root(at)
        return self.spread.p_value(errors if self._level is None else min(errors, self._level.errors(at)))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Values that a test at level 1 - confidence does not reject; an end may be infinite."""
        limit = self.spread.quantile(confidence)
        low, high = self._end(-1.0, limit), self._end(1.0, limit)
        if self._level is not None:
            lower, upper = self._level.within(limit)
            low, high = min(low, lower), max(high, upper)
        return low, high

    def _end(self, side: float, limit: float) -> float:
        if np.isinf(self.value):
            if side == np.sign(self.value):
                return float(self.value)
            return self._search(float(np.copysign(REACH, self.value)), side, limit)
        return self._search(self.value, side * max(self.se, 1e-3), limit)

    def _search(self, start: float, step: float, limit: float) -> float:
        """Where the root of the scaled deviance exceeds ``limit``, searched from the estimate in growing steps."""

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
        if np.isinf(self.value):  # the exact test is flat where it does not reject, and steep elsewhere
            for _ in range(HALVINGS):
                middle = 0.5 * (near + far)
                near, far = (near, middle) if above(middle) >= 0.0 else (middle, far)
            return 0.5 * (near + far)
        for _ in range(5):  # the root of a profile deviance is nearly linear, so the secant method converges at once
            middle = near + (far - near) * below / (below - beyond)
            there = above(middle)
            near, below, far, beyond = (near, below, middle, there) if there >= 0.0 else (middle, there, far, beyond)
        end = float(near + (far - near) * below / (below - beyond))
        return end if abs(end) <= FARTHEST else float(np.copysign(np.inf, step))


@dataclass(frozen=True)
class Level:
    """The level as a function of the event rate."""

    likelihood: Likelihood
    rates: Rates

    def within(self, errors: float) -> tuple[float, float]:
        """Shifts whose event rates are at most this many standard errors from the observed one."""
        total = float(self.likelihood.n.sum())
        low, high = (self.likelihood.shift_for(float(rate[0]) * total) for rate in self.rates.within(errors))
        return (low if low >= -FARTHEST else -np.inf), (high if high <= FARTHEST else np.inf)

    def errors(self, at: float) -> float:
        """The same distance of a shift."""
        n = self.likelihood.n
        return float(self.rates.errors(float((n * self.likelihood.shifted(at, 0.0)).sum() / n.sum()))[0])


@dataclass(frozen=True)
class Parameters:
    """Intercept and slope on the log-odds, from one likelihood.

    Attributes
    ----------
    level
        Shift of all log-odds at which predicted and observed events agree (calibration in the large); 0 is ideal. None
        with one class.
    slope
        Slope on the log-odds with a free intercept; 1 is ideal. None with one class, for nearly constant scores, and
        for clusters whose classes the scores separate.
    """

    data: Tally | Clusters
    """The rows, on a grid where there are many distinct scores."""
    likelihood: Likelihood
    level: Parameter | None
    slope: Parameter | None

    @classmethod
    def of(cls, data: Tally | Clusters) -> Parameters:
        """Estimates and what their intervals need. Cost: O(cells) for each of about 30 Newton steps."""
        data = _coarse(data)
        likelihood = Likelihood(data.tally if isinstance(data, Clusters) else data)
        hits, total = float(likelihood.events.sum()), float(likelihood.n.sum())
        if not 0.0 < hits < total:
            return cls(data, likelihood, None, None)
        return cls(data, likelihood, _level(likelihood, data), _slope(likelihood, data))

    def variances(self, contrasts: tuple[tuple[float, float], tuple[float, float]]) -> tuple[float, float, float]:
        """Variances of two contrasts of (shift, slope change), and of their sum; NaN without a finite slope."""
        if self.slope is None or not np.isfinite(self.slope.value):
            return np.nan, np.nan, np.nan
        best = self.likelihood.best()
        covariance = self.likelihood.covariance(best)
        one, other = (np.asarray(each) for each in contrasts)
        first, second, both = (
            _spreads_of_contrast(self.likelihood, self.data, best, covariance, each)[1].variance
            for each in (one, other, one + other)
        )
        return first, second, both


def _coarse(data: Tally | Clusters) -> Tally | Clusters:
    """The data on a grid if there are many cells, with importance weights rescaled to the effective sample size."""
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
    best = likelihood.best(slope_change=0.0)
    p = likelihood.shifted(best.shift, 0.0)
    v = p * (1.0 - p)
    information = max(float((likelihood.n * v).sum()), LEAST_INFORMATION)
    spread = spread_of(data, (1.0 - p) / information, -p / information, v / information**2)
    scale, robust = _scale(data, spread, 1.0 / information), spread_of(data, 1.0 - p, -p).variance
    total, events = float(likelihood.n.sum()), float(likelihood.events.sum())
    tally = data.tally if isinstance(data, Clusters) else data
    unit = float(squared_weights(tally)[0].sum() / tally.n.sum())
    rows, hits, squares, none = (np.array([each]) for each in (total, events, robust, 0.0))
    rates = Rates.of(rows, hits, hits, squares, none, unit=unit)
    wider = max(spread.variance, robust / information**2)
    return Parameter(
        best.shift,
        Spread(wider, spread.df),
        scale,
        wider / spread.variance if spread.variance > 0.0 else 1.0,
        lambda at: likelihood.deviance(at, 0.0) - best.deviance,
        Level(likelihood, rates),
    )


def _slope(likelihood: Likelihood, data: Tally | Clusters) -> Parameter | None:
    if likelihood.spread == 0.0:
        return None
    best = likelihood.best()
    covariance = likelihood.covariance(best)
    if not covariance[1, 1] <= MAX_STANDARD_ERROR**2:
        if isinstance(data, Clusters):
            return None
        side = float(np.copysign(np.inf, best.slope_change))
        separation = _separation(likelihood, side)
        profile = _profile_of_slope(likelihood, best.deviance)
        return Parameter(side, Spread(np.inf), 1.0, 1.0, profile, _separation=separation)
    spread, wider = _spreads_of_contrast(likelihood, data, best, covariance, np.array([0.0, 1.0]))
    scale = _scale(data, spread, float(covariance[1, 1]))
    widening = wider.variance / spread.variance if spread.variance > 0.0 else 1.0
    return Parameter(1.0 + best.slope_change, wider, scale, widening, _profile_of_slope(likelihood, best.deviance))


def _spreads_of_contrast(
    likelihood: Likelihood, data: Tally | Clusters, best: Point, covariance: Floats, contrast: Floats
) -> tuple[Spread, Spread]:
    """Spread of a combination of shift and slope change for a calibrated model, and for any, which is no smaller."""
    weights = np.einsum("i,ij->j", contrast, covariance)
    p, away = likelihood.shifted(best.shift, best.slope_change), likelihood.distance
    lever, v = weights[0] + weights[1] * away, p * (1.0 - p)
    spread = spread_of(data, lever * (1.0 - p), -lever * p, lever**2 * v)
    own = v * (covariance[0, 0] + 2.0 * covariance[0, 1] * away + covariance[1, 1] * away**2)
    lever = lever / np.maximum(1.0 - own, LEAST_REST)
    robust = spread_of(data, lever * (1.0 - p), -lever * p)
    return spread, replace(spread, variance=max(spread.variance, robust.variance))


def _profile_of_slope(likelihood: Likelihood, least: float) -> Callable[[float], float]:
    return lambda at: likelihood.best(slope_change=at - 1.0).deviance - least


def _separation(likelihood: Likelihood, side: float) -> Callable[[float], float] | None:
    """The probability that the scores separate the classes, given the number of events, by the slope."""
    ways = likelihood.log_separations(side)
    if ways is None:
        return None

    def probability(at: float) -> float:
        fitted = likelihood.best(slope_change=at - 1.0)
        as_many = Chance(likelihood.shifted(fitted.shift, fitted.slope_change), likelihood.n).at_mean()
        return min(float(np.exp(ways - 0.5 * fitted.deviance)) / as_many, 1.0)

    return probability


def _scale(data: Tally | Clusters, spread: Spread, independent: float) -> float:
    if isinstance(data, Tally) and data.counts:
        return 1.0
    return spread.variance / independent if spread.variance > 0.0 else 1.0
