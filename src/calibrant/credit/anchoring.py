"""Anchor PDs to a central tendency: the long-run average of yearly default rates, with a margin of conservatism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.calibration import Calibration, as_calibration
from calibrant.credit.counts import (
    check_correlation,
    check_counts,
    check_events,
    check_shapes,
    check_share,
)
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.maps import IdentityMap
from calibrant.messages import InputError, Shown
from calibrant.metrics.estimates import plain
from calibrant.numerics import Floats, Ints
from calibrant.shift.intercept import match_mean
from calibrant.tallies import Tally

LARGEST_VARIANCE = 1.0
"""Variance of the logarithm of yearly rates that is thought possible, where a few years show less."""


@dataclass(frozen=True, eq=False)
class LongRunAverage(Shown):
    """The result of :func:`long_run_average`; ``float(average)`` is the rate.

    Attributes
    ----------
    rate
        Mean of the yearly default rates, each year with the same weight.
    low, high
        Interval at confidence level 1 - alpha.
    upper
        One-sided upper bound at confidence level 1 - alpha.
    n, events, rates
        Rows, defaults and default rate of each year.
    alpha, year_correlation
        Settings.
    """

    rate: float
    low: float
    high: float
    upper: float
    n: Ints
    events: Ints
    rates: Floats
    alpha: float
    year_correlation: float

    def __float__(self) -> float:
        """The rate."""
        return self.rate

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {key: plain(value) for key, value in vars(self).items()}

    def __str__(self) -> str:
        """The average with its interval, in a sentence."""
        years = f"{len(self.rates)} yearly rates from {100 * self.rates.min():.3g} to {100 * self.rates.max():.3g} %"
        level = f"{100 * (1 - self.alpha):g} %"
        return (
            f"Long-run average default rate {100 * self.rate:.3g} % ({level} CI {100 * self.low:.3g} to "
            f"{100 * self.high:.3g} %; one-sided upper bound {100 * self.upper:.3g} %), from {years}"
        )


def long_run_average(
    n: ArrayLike, events: ArrayLike, *, alpha: float = 0.05, year_correlation: float = 0.0
) -> LongRunAverage:
    r"""Long-run average of yearly default rates, with an interval that allows for good and bad years.

    .. math:: \bar r = \frac1T \sum_{t=1}^{T} \frac{k_t}{n_t}, \qquad
              \mathrm{low} = \bar r\, e^{-t_{T-1} c}, \qquad
              \mathrm{high} = \bar r \exp \sqrt{(t_{T-1} c)^2 + (V - v)^2 / 4}, \qquad
              c^2 = \frac{s^2}{T \bar r^2} \cdot \frac{1 + \theta}{1 - \theta},

    where year t has :math:`n_t` rows and :math:`k_t` defaults, :math:`s^2` is the variance of the yearly rates and
    :math:`\theta` the correlation of neighboring years. Yearly rates are skewed, and a few years need not have the
    downturn that moves their mean: v is the variance of their logarithm without the sampling of rows, and V its upper
    limit by the chi-squared distribution, but at most 1 or v. The interval is widened at each end to the
    Clopper-Pearson interval of all rows together, which matters with few defaults or equal rates.

    Parameters
    ----------
    n, events
        Rows and defaults of each year.
    alpha
        One minus the confidence level.
    year_correlation
        Assumed correlation of neighboring yearly rates; it widens the interval.

    Returns
    -------
    LongRunAverage
        Rate, interval and one-sided upper bound; prints itself as text.

    Notes
    -----
    Edges: years without rows are refused. With one year the interval is the Clopper-Pearson interval of its rows, which
    does not allow for good and bad years at all.
    Guarantee: no finite-sample guarantee. The interval treats the years as draws from one distribution that is roughly
    log-normal; a few years without a downturn do not show what a downturn would bring. In simulations with 3 to 25
    years and log-normal rates (standard deviation of the logarithm up to 0.5), upper bound and interval of 95 % covered
    in at least 93 %. In cycles as strong as an asset correlation of 0.15 (Vasicek 2002) the bound covered in 90 %.
    Cost: O(years).
    References: EBA (2017), Guidelines on PD estimation (EBA/GL/2017/16), on the average of one-year default rates;
    Zou, Taleban and Huo (2009), log-normal means, for the upper end; Clopper and Pearson (1934).

    Examples
    --------
    >>> print(long_run_average([5400, 5500, 5600, 5450], [80, 95, 150, 110]))
    Long-run average default rate 1.98 % (95 % CI 1.3 to 3.45 %; one-sided upper bound 2.88 %), from 4 yearly rates from
    1.48 to 2.68 %
    """
    m, k = check_counts(n, "n", unit="year"), check_counts(events, "events", unit="year")
    check_shapes(m, unit="year", events=k)
    check_events(m, k, "year")
    alpha, theta = check_share(alpha, "alpha"), check_correlation(year_correlation, "year_correlation")
    if (m == 0).any():
        raise InputError("n", f"is 0 in year {int(np.argmax(m == 0)) + 1}", "leave years without rows out")
    rates, total, hits = k / m, int(m.sum()), int(k.sum())
    rate = float(rates.mean())
    low, high = (float(end) for end in clopper_pearson(hits, total, alpha))
    upper = float(clopper_pearson(hits, total, 2.0 * alpha)[1])
    if len(rates) > 1 and hits:
        free, variance = len(rates) - 1, float(rates.var(ddof=1))
        se = math.sqrt(variance / len(rates) * (1.0 + theta) / (1.0 - theta)) / rate
        between = max(variance - float((rates * (1.0 - rates) / m).mean()), 0.0)
        v = math.log1p(between / rate**2)  # of the logarithm, if it is normal

        def end(share: float) -> float:
            most = min(v * free / special.chdtri(free, 1.0 - share), max(v, LARGEST_VARIANCE))
            return rate * math.exp(min(math.hypot(special.stdtrit(free, 1.0 - share) * se, (most - v) / 2.0), 700.0))

        low = min(low, rate * math.exp(special.stdtrit(free, alpha / 2.0) * se))
        high, upper = max(high, end(alpha / 2.0)), max(upper, end(alpha))
    return LongRunAverage(
        rate, max(min(low, rate), 0.0), min(max(high, rate), 1.0), min(max(upper, rate), 1.0), m, k, rates, alpha, theta
    )


@dataclass(frozen=True, eq=False)
class Anchored(Shown):
    """The result of :func:`anchor`: a calibration whose mean PD is the target.

    Attributes
    ----------
    calibration
        The map, which saves and exports like any other.
    central_tendency, margin, target
        Central tendency, margin of conservatism, and their sum: the mean PD after anchoring.
    mean_before
        Mean PD before anchoring.
    odds_factor
        Factor by which the odds of each PD were multiplied.
    """

    calibration: Calibration
    central_tendency: float
    margin: float
    target: float
    mean_before: float
    odds_factor: float

    def transform(self, scores: ArrayLike) -> NDArray[Any]:
        """Anchored PDs of scores."""
        return np.asarray(self.calibration.transform(scores))

    def to_dict(self) -> dict[str, Any]:
        """The numbers, without the map."""
        names = ("central_tendency", "margin", "target", "mean_before", "odds_factor")
        return {name: plain(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        """The numbers in two lines."""
        added = f" plus a margin of conservatism of {100 * self.margin:.3g} points" if self.margin else ""
        return (
            f"Mean PD {100 * self.mean_before:.4g} % before, {100 * self.target:.4g} % after: central tendency "
            f"{100 * self.central_tendency:.4g} %{added}.\n"
            f"  The odds of each PD are multiplied by {self.odds_factor:.4g}; the order of borrowers is unchanged."
        )


def anchor(
    scores: ArrayLike | Tally,
    *,
    mean: float | LongRunAverage,
    margin: float | str = 0.0,
    calibration: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Anchored:
    """Shift PDs to a central tendency plus a margin of conservatism, by one constant on the log-odds.

    Parameters
    ----------
    scores
        PDs of the portfolio, or raw scores if there is a ``calibration``; or a tally of them.
    mean
        Central tendency: a number such as 0.025, or the result of :func:`long_run_average`.
    margin
        Margin of conservatism: a number that is added to the central tendency, or ``"upper"`` for the distance to the
        one-sided upper bound of the long-run average.
    calibration
        A calibration, map or fitted calibrator that is applied first; none for PDs.
    sample_weight
        Weights of the scores.

    Returns
    -------
    Anchored
        With the new ``calibration``; prints what was changed.

    Notes
    -----
    Edges: PDs of exactly 0 and 1 are first moved to half the distance of the nearest other PD; there must be another.
    Guarantee: the mean PD of these scores equals the target up to rounding. Whether the target is right is not tested:
    no finite-sample guarantee. The shift is that of :func:`calibrant.shift.match_mean`.
    Cost: one sort of the scores.
    References: Tasche (2013), The art of probability-of-default curve calibration; EBA (2017), Guidelines on PD
    estimation, on the margin of conservatism.

    Examples
    --------
    >>> moved = anchor([0.002, 0.005, 0.02, 0.06], mean=0.025, margin=0.005)
    >>> print(moved)
    Mean PD 2.175 % before, 3 % after: central tendency 2.5 % plus a margin of conservatism of 0.5 points.
      The odds of each PD are multiplied by 1.405; the order of borrowers is unchanged.
    >>> moved.transform([0.002, 0.06]).round(4).tolist()
    [0.0028, 0.0823]
    """
    level = check_share(float(mean) if isinstance(mean, LongRunAverage) else mean, "mean")
    if isinstance(margin, str):
        if margin != "upper" or not isinstance(mean, LongRunAverage):
            fix = "pass a number, or margin='upper' with the result of long_run_average"
            raise InputError("margin", f"is {margin!r}, which needs a long-run average with an upper bound", fix)
        added = mean.upper - mean.rate
    else:
        number = isinstance(margin, int | float | np.number) and not isinstance(margin, bool)
        added = float(margin) if number else math.nan
    if not (added >= 0.0 and level + added < 1.0):
        raise InputError("margin", f"must be at least 0 and leave the mean below 1, got {margin!r}", "0.5 % is 0.005")
    start = IdentityMap() if calibration is None else calibration
    moved = match_mean(start, scores, mean=level + added, sample_weight=sample_weight)
    values, weights = _values(scores, sample_weight)
    first = _first(start, values)
    last = np.asarray(moved.transform(values), dtype=np.float64)
    inside = (first > 0.0) & (first < 1.0)
    if not inside.any():
        problem = "give only PDs of exactly 0 or 1, whose odds no factor changes"
        raise InputError("scores", problem, "pass PDs between 0 and 1")
    place = int(np.argmax(inside))
    factor = _odds(last[place]) / _odds(first[place])
    return Anchored(moved, level, added, level + added, float(np.average(first, weights=weights)), factor)


def _values(scores: ArrayLike | Tally, sample_weight: ArrayLike | None) -> tuple[Floats, Any]:
    if isinstance(scores, Tally):
        return scores.scores, scores.n
    return np.asarray(scores, dtype=np.float64).ravel(), sample_weight


def _first(start: Any, values: Floats) -> Floats:
    """Probabilities before the shift."""
    return np.asarray(as_calibration(start).transform(values), dtype=np.float64)


def _odds(p: float) -> float:
    return float(p / (1.0 - p))
