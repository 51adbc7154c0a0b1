"""Recalibrate predictive distributions by the ranks that past outcomes had in them, with a band."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from calibrant.arrays.columns import check_length, read_floats, refuse_not_finite
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.quantiles import check_alpha, exact
from calibrant.conformal.sets import PredictionSets
from calibrant.guarantees.online_certificate import rounded_down, rounded_up, without
from calibrant.maps import StepMap
from calibrant.messages import Drawn, InputError, Shown
from calibrant.numerics import Floats
from calibrant.online.parity.predictive import Predictive, as_predictive

OUTWARD = 1e-8
"""How far outside its level the end of an interval is taken: more than quantiles are off by rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class DistributionCalibration(Drawn, Shown):
    """The result of :func:`recalibrate_distributions`: the share of ranks F(y) up to each level.

    Attributes
    ----------
    ranks
        Sorted values :math:`F_i(y_i)` of past forecasts at their outcomes, also called PIT values.
    left
        The same just below the outcomes, sorted; lower where distributions jump.
    epsilon, alpha
        With confidence 1 - alpha, the map is at most epsilon away from the true share of ranks at every level at once.

    Notes
    -----
    Guarantee: finite-sample, if past rows are independent draws of one population; see
    :func:`recalibrate_distributions`. Reference: Massart (1990) for the band.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast
    >>> y = np.random.default_rng(0).normal(scale=2.0, size=500)  # twice as wide as forecast
    >>> found = recalibrate_distributions(GaussianForecast(np.zeros(500), 1.0), y)
    >>> found.map.apply([0.1, 0.5, 0.9]).tolist()
    [0.272, 0.524, 0.738]
    >>> found.apply(GaussianForecast([0.0], [1.0])).quantile(0.9).round(2).tolist()
    [2.61]
    """

    ranks: Floats
    left: Floats
    epsilon: float
    alpha: float

    @property
    def n(self) -> int:
        """Number of past forecasts."""
        return self.ranks.size

    @property
    def map(self) -> StepMap:
        """The map from a level to the share of past ranks at or below it."""
        knots, counts = np.unique(self.ranks, return_counts=True)
        return StepMap(knots, np.concatenate([[0.0], np.cumsum(counts) / self.n]))

    def band(self, levels: ArrayLike) -> tuple[Floats, Floats]:
        """Ends of the band for the true share of ranks at or below each level, simultaneously for all levels.

        Parameters
        ----------
        levels
            Levels of the forecast, in [0, 1].

        Returns
        -------
        lower, upper
            Within [0, 1].
        """
        at = self.map.apply(_levels(levels))
        return np.clip(at - self.epsilon, 0.0, 1.0), np.clip(at + self.epsilon, 0.0, 1.0)

    @property
    def rejects(self) -> bool:
        """Whether the forecasts are shown to be miscalibrated: a level lies outside the band, at confidence 1 - alpha.

        If the forecasts are right, a point between ``left`` and ``ranks``, drawn uniformly, is uniform. So too many
        ``ranks`` at or below a level, or too few of ``left``, speak against them, also if distributions jump.
        """
        steps = np.arange(1, self.n + 1) / self.n
        return bool(max((steps - self.ranks).max(), (self.left - steps).max() + 1.0 / self.n) > self.epsilon)

    def apply(self, forecast: Any) -> RecalibratedForecast:
        """Recalibrated distributions of new rows.

        Parameters
        ----------
        forecast
            Predictive distributions from the same forecaster, as in :func:`recalibrate_distributions`.

        Returns
        -------
        RecalibratedForecast
            With ``cdf`` and ``quantile``.
        """
        return RecalibratedForecast(as_predictive(forecast, _rows_of(forecast)), self)

    def intervals(self, forecast: Any, alpha: float = 0.1) -> PredictionSets:
        """Central intervals of new rows with a guaranteed coverage: from rank j to rank n + 1 - j.

        Parameters
        ----------
        forecast
            Predictive distributions of new rows; they need quantiles.
        alpha
            Probability that an interval may miss its outcome.

        Returns
        -------
        PredictionSets
            With their certificate.
        """
        level = check_alpha(alpha)
        low, high = self._outer_ranks(level)
        new = self.apply(forecast)
        lower, upper = new._end(low, -1.0), new._end(high, 1.0)
        theorem = "Vovk et al. (2005); docs/certificates/conformal-classes.md"
        return PredictionSets.from_intervals(lower, upper, Coverage(1.0 - level, level, theorem))

    def _outer_ranks(self, alpha: float) -> tuple[float, float]:
        """Levels of the forecasts between which a new rank lies with probability at least 1 - alpha."""
        j = floor(exact(alpha) / 2 * (self.n + 1))
        return (self.ranks[j - 1], self.ranks[self.n - j]) if j >= 1 else (0.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        numbers = {"ranks": self.ranks.tolist(), "left": self.left.tolist()}
        return numbers | {"epsilon": self.epsilon, "alpha": self.alpha, "rejects": self.rejects}

    def __repr__(self) -> str:
        """One line."""
        return f"DistributionCalibration({self.n:,} rows, epsilon={self.epsilon:.4g})"

    def __str__(self) -> str:
        """Whether the forecasts are calibrated, where they are furthest off, and how far the map can be off."""
        sure = rounded_down(without(self.alpha))
        levels = np.linspace(0.05, 0.95, 19)
        found, just_below = self.map.apply(levels), np.searchsorted(self.left, levels, side="right") / self.n
        off = np.maximum(found - levels, levels - just_below)  # a jump over a level is right at every height between
        worst = int(off.argmax())
        verdict = "The distributions may be calibrated: nothing in these rows speaks against it."
        if self.rejects:
            verdict = f"With confidence {sure}, the distributions are not calibrated."
        points = rounded_up(100 * self.epsilon, 3)
        lines = [verdict]
        if off[worst] > 0.0:
            lines.append(
                f"Furthest off: {100 * found[worst]:.1f} % of {self.n:,} outcomes have a rank F(y) of at most "
                f"{100 * levels[worst]:.0f} %."
            )
        lines.append(
            f"With confidence {sure}, the true share of ranks up to each level is within {points} points of the map, "
            "at all levels at once, if rows are independent draws of one population."
        )
        return "\n  ".join(lines)


class RecalibratedForecast(Predictive):
    """Predictive distributions after recalibration, as :meth:`DistributionCalibration.apply` returns them.

    Parameters
    ----------
    forecast
        The distributions as forecast.
    calibration
        The map and its ranks.

    Notes
    -----
    The distribution function is the map of that of the forecast, a step function. The quantile at level p is the
    quantile of the forecast at the k-th smallest rank, k = ceil(p (n + 1)), as in split conformal prediction; beyond
    the last rank it is infinite. Guarantee: that of the calibration. Reference: Kuleshov et al. (2018).

    Examples
    --------
    >>> from calibrant.online import GaussianForecast
    >>> past = recalibrate_distributions(GaussianForecast(np.zeros(9), 1.0), np.arange(9) - 4.0)
    >>> past.apply(GaussianForecast([10.0], 1.0)).quantile(0.8).round(3).tolist()  # the eighth of nine errors is 3
    [13.0]
    """

    def __init__(self, forecast: Predictive, calibration: DistributionCalibration) -> None:
        self.forecast, self.calibration = forecast, calibration
        self.n_rows, self.index = len(forecast), forecast.index

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a value of at most ``x[t]`` in each row t."""
        found = self.forecast.cdf(x)
        return np.where(np.isnan(found), np.nan, self.calibration.map.apply(np.where(np.isnan(found), 0.0, found)))

    def quantile(self, level: float) -> Floats:
        """Conformal quantile of each row: an outcome is at most this with probability at least ``level``."""
        p = check_alpha(level, "level")
        k = ceil(exact(p) * (self.calibration.n + 1))
        if k > self.calibration.n:
            return np.full(self.n_rows, np.inf)
        return self._end(float(self.calibration.ranks[k - 1]), 1.0)

    def _end(self, level: float, side: float) -> Floats:
        """Quantile of the forecast a little outside the level, so that every outcome of this rank is inside.

        Where a distribution is flat, many outcomes have one rank, and the quantile is only the first of them.
        """
        outer = level + side * OUTWARD
        if not 0.0 < outer < 1.0:
            return np.full(self.n_rows, side * np.inf)
        found = self.forecast.quantile(outer)
        return np.where(np.isnan(found), side * np.inf, found)


def recalibrate_distributions(forecast: Any, y: ArrayLike, *, alpha: float = 0.1) -> DistributionCalibration:
    r"""Recalibrate predictive distributions of a number by past outcomes, with a band for all levels.

    .. math:: \hat R(p) = \frac1n \#\{i : F_i(y_i) \le p\}, \qquad
              \sup_p |\hat R(p) - \Pr(F(Y) \le p)| \le \varepsilon
              \quad\text{with probability at least } 1 - \alpha,

    where :math:`F_i` is the distribution function forecast for row i, :math:`y_i` its outcome, and
    :math:`\varepsilon` the exact quantile of the two-sided Kolmogorov statistic of n rows.

    Parameters
    ----------
    forecast
        Predictive distributions of past rows: a forecast of :mod:`calibrant.online` (``GaussianForecast``,
        ``QuantileForecast``, ``SampleForecast``, ``CdfForecast``), or a frozen distribution of scipy. The forecaster
        must not have learned from these outcomes.
    y
        The outcomes.
    alpha
        One minus the confidence level of the band.

    Returns
    -------
    DistributionCalibration
        With ``map``, ``band``, ``apply`` to new forecasts, and ``intervals`` with a guaranteed coverage.

    Notes
    -----
    Edge cases: rows without a forecast (NaN) are refused; among new rows they have an interval without ends. Samples
    have mass beyond their ends by default, which no outcome can have: pass ``SampleForecast(samples, ends=0)``. Ties,
    as of outcomes among samples, keep the guarantee and make the band wider than needed.
    Guarantee: finite-sample. The band holds if past rows are independent draws of one population, whatever the
    forecasts. Intervals hold a new outcome with probability at least 1 - alpha if past and new rows are exchangeable.
    Both are about the population: single rows have none. docs/certificates/conformal-classes.md has the proofs.
    Cost: one sort. References: Kuleshov et al. (2018) for the map; Massart (1990) and Marsaglia et al. (2003) for the
    band; Gneiting et al. (2007) for the ranks.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast
    >>> y = np.random.default_rng(0).normal(scale=2.0, size=500)
    >>> found = recalibrate_distributions(GaussianForecast(np.zeros(500), 1.0), y)
    >>> print(found)
    With confidence 90 %, the distributions are not calibrated.
      Furthest off: 27.2 % of 500 outcomes have a rank F(y) of at most 10 %.
      With confidence 90 %, the true share of ranks up to each level is within 5.44 points of the map, at all levels
      at once, if rows are independent draws of one population.
    """
    level = check_alpha(alpha)
    outcomes: Floats = read_floats(y, "y")
    if not outcomes.size:
        raise InputError("y", "is empty", "pass at least one row")
    if not np.isfinite(outcomes).all():
        refuse_not_finite(outcomes, "y", "drop these rows")
    distributions = as_predictive(forecast, outcomes.size)
    check_length(outcomes, "y", len(distributions))
    ranks, left = distributions.cdf(y), distributions.cdf(np.nextafter(outcomes, -np.inf))
    if np.isnan(ranks).any():
        raise InputError(
            "forecast",
            f"is missing at row {int(np.isnan(ranks).argmax())} counted from 0",
            "drop rows without a forecast",
        )
    return DistributionCalibration(np.sort(ranks), np.sort(left), kolmogorov(outcomes.size, level), level)


@lru_cache(maxsize=256)
def kolmogorov(n: int, alpha: float) -> float:
    """The number that the two-sided Kolmogorov statistic of n rows exceeds with probability alpha, exactly.

    Examples
    --------
    >>> round(kolmogorov(10, 0.05), 5)  # the tables of Miller (1956)
    0.40925
    """
    return float(stats.kstwo.ppf(1.0 - alpha, n))


def _rows_of(forecast: Any) -> int:
    """Number of rows of a forecast; that of a frozen distribution of scipy from its parameters."""
    if isinstance(forecast, Predictive):
        return len(forecast)
    mean = getattr(forecast, "median", None)
    return int(np.size(mean())) if callable(mean) else 1


def _levels(levels: ArrayLike) -> Floats:
    found: Floats = read_floats(levels, "levels")
    if found.size and not ((found >= 0.0) & (found <= 1.0)).all():
        raise InputError("levels", "must lie in [0, 1]", "pass 0.9 for 90 %")
    return found
