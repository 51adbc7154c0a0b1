"""Quantile and threshold calibration errors of predictive distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import is_whole
from calibrant.messages import InputError, note
from calibrant.numerics import Floats
from calibrant.online.parity.panels import check_rows, read_values, same_order
from calibrant.online.parity.predictive import CdfForecast, Predictive, as_predictive

if TYPE_CHECKING:
    from calibrant.metrics import Estimate


def quantile_calibration_error(
    forecast: Predictive, y: ArrayLike, *, n_levels: int = 100, rows: ArrayLike | None = None
) -> Estimate:
    r"""Quantile calibration error: mean difference between nominal and observed coverage of forecast quantiles.

    .. math:: \mathrm{QCE} = \frac1L \sum_{i=1}^{L} \Bigl|\frac1T \sum_{t=1}^{T}
              \mathbf{1}[y_t \le F_t^{-1}(p_i)] - p_i\Bigr|, \qquad p_i = \frac{i - 1}{L - 1},

    with L = ``n_levels`` quantile levels from 0 to 1 and outcomes :math:`y_t`; :math:`F_t^{-1}(0)` is the lower end of
    the support.

    Parameters
    ----------
    forecast
        One distribution per row; for a :class:`CdfForecast` without inverse, :math:`F_t(y_t) \le p_i` is counted
        instead, which is the same for a continuous distribution.
    y
        Outcomes; NaN where one is missing.
    n_levels
        Number of quantile levels, including 0 and 1.
    rows
        Indices of the rows to use, or a boolean for each; by default all. Rows without outcome or forecast are left
        out.

    Returns
    -------
    Estimate
        The error, with the value expected for correct forecasts as ``null``.

    Notes
    -----
    Edge cases: without rows the result is NaN with a note. ``null`` is the expected value for correct forecasts, by the
    normal approximation, for one-step forecasts, whose coverage indicators are then independent.
    Guarantee: no finite-sample guarantee. Quantile calibration does not imply parity calibration.
    Cost: O(rows x levels). Reference: Gupta (2023), section 7.A.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast
    >>> rng = np.random.default_rng(0)
    >>> error = quantile_calibration_error(GaussianForecast(np.zeros(1000), 1.0), rng.normal(0.0, 2.0, 1000))
    >>> round(error.value, 2), round(error.null, 2)
    (0.1, 0.01)
    """
    from calibrant.metrics import Estimate  # here, so that a stream service starts without scipy

    if not is_whole(n_levels) or n_levels < 2:
        raise InputError("n_levels", f"must be an integer of at least 2, got {n_levels!r}")
    name = f"quantile calibration error, {n_levels} levels"
    forecast, outcome, at, chosen = _judged(forecast, y, rows)
    if not len(chosen):
        return Estimate(name, float("nan"), notes=(_no_row(),))
    levels = np.linspace(0.0, 1.0, n_levels)
    if isinstance(forecast, CdfForecast) and not forecast.has_quantiles:
        covered = np.searchsorted(np.sort(at[chosen]), levels, side="right") / len(chosen)
    else:
        covered = np.array([(outcome[chosen] <= forecast.quantile(float(p))[chosen]).mean() for p in levels])
    null = float(np.sqrt(2.0 * levels * (1.0 - levels) / (np.pi * len(chosen))).mean())
    return Estimate(name, float(np.abs(covered - levels).mean()), null=null)


def threshold_calibration_error(
    forecast: Predictive,
    y: ArrayLike,
    thresholds: ArrayLike | None = None,
    *,
    n_cutoffs: int = 10,
    n_levels: int = 20,
    rows: ArrayLike | None = None,
) -> Estimate:
    r"""Threshold calibration error: coverage of quantiles among rows that a threshold decision selects.

    .. math:: \mathrm{TCE} = \frac{1}{M J} \sum_{m=1}^{M} \sum_{j=1}^{J} \frac{N_{mj}}{T} \cdot
              \frac1L \sum_{i=1}^{L} \Bigl|\frac{1}{N_{mj}} \sum_{t \in S_{mj}}
              \mathbf{1}[y_t \le F_t^{-1}(p_i)] - p_i\Bigr|, \qquad
              S_{mj} = \bigl\{t: F_t(c_m) \le j / J\bigr\},

    with M thresholds :math:`c_m`, J = ``n_cutoffs`` cutoffs of the probability, L = ``n_levels`` quantile levels from 0
    to 1, and :math:`N_{mj}` of the T rows in :math:`S_{mj}`. It is small if the quantiles are right among the rows
    whose probability of at most :math:`c_m` is small, for every threshold: for whoever acts if the risk of exceeding a
    threshold is large enough. At the last cutoff the set contains all rows, as in
    :func:`quantile_calibration_error`.

    Parameters
    ----------
    forecast, y, rows
        As in :func:`quantile_calibration_error`.
    thresholds
        Values :math:`c_m` in units of y; by default the deciles of the outcomes. Choose them beforehand if you can.
    n_cutoffs, n_levels
        J and L.

    Returns
    -------
    Estimate
        The error, with the value expected for correct forecasts as ``null``.

    Notes
    -----
    Edge cases: an empty set adds nothing; without rows the result is NaN with a note. ``null`` is by the normal
    approximation, for one-step forecasts and thresholds chosen beforehand.
    Guarantee: no finite-sample guarantee. Threshold calibration does not imply parity calibration: the forecast of
    Gupta (2023), section 7.1.1, has the first and not the second.
    Cost: O(rows x (levels x cutoffs x thresholds)) additions.
    Reference: Sahoo, Zhao, Chen and Ermon 2021; Gupta (2023), section 7.1.1.

    Examples
    --------
    Half of the forecasts are too high and half too low, so that the quantiles are nearly right on average.

    >>> from calibrant.online import GaussianForecast
    >>> y = np.random.default_rng(0).normal(size=2000)
    >>> forecast = GaussianForecast(np.tile([0.7, -0.7], 1000), 1.0)
    >>> quantile, threshold = quantile_calibration_error(forecast, y), threshold_calibration_error(forecast, y)
    >>> round(quantile.value, 2), round(threshold.value, 2), round(threshold.null, 2)
    (0.03, 0.05, 0.0)
    """
    from calibrant.metrics import Estimate

    for name, value, least in (("n_cutoffs", n_cutoffs, 1), ("n_levels", n_levels, 2)):
        if not is_whole(value) or value < least:
            raise InputError(name, f"must be an integer of at least {least}, got {value!r}")
    forecast, outcome, at, chosen = _judged(forecast, y, rows)
    marks = np.quantile(outcome[chosen], np.arange(1, 10) / 10) if thresholds is None and len(chosen) else thresholds
    cuts = _thresholds(marks)
    name = f"threshold calibration error, {len(cuts)} thresholds, {n_cutoffs} cutoffs, {n_levels} levels"
    if not len(chosen):
        return Estimate(name, float("nan"), notes=(_no_row(),))
    levels = np.linspace(0.0, 1.0, n_levels)
    if isinstance(forecast, CdfForecast) and not forecast.has_quantiles:
        covered = at[chosen] <= levels[:, None]
    else:
        covered = np.array([outcome[chosen] <= forecast.quantile(float(p))[chosen] for p in levels])
    surplus = covered - levels[:, None]
    error = null = 0.0
    for cut in cuts:
        # the first cutoff j / J that selects each row, so that sums over sets are cumulative
        chance = forecast.cdf(np.full(len(outcome), cut))[chosen]
        first = np.clip(np.ceil(chance * n_cutoffs - 1e-12) - 1, 0, n_cutoffs - 1).astype(np.intp)
        sums = np.array([np.bincount(first, each, minlength=n_cutoffs) for each in surplus]).cumsum(axis=1)
        sizes = np.bincount(first, minlength=n_cutoffs).cumsum()
        error += float(np.abs(sums).mean())
        null += float(np.sqrt(2.0 * np.outer(levels * (1.0 - levels), sizes) / np.pi).mean())
    scale = len(cuts) * len(chosen)
    return Estimate(name, error / scale, null=null / scale)


def _judged(forecast: Any, y: ArrayLike, rows: ArrayLike | None) -> tuple[Predictive, Floats, Floats, NDArray[np.intp]]:
    """The forecast, the outcomes, the forecast's cdf at them, and the rows that have both."""
    outcome = read_values(y, "y")
    same_order(y=y, forecast=forecast)
    found = as_predictive(forecast, len(outcome))
    check_rows(outcome, "y", len(found), "forecast")
    chosen = np.arange(len(outcome)) if rows is None else _chosen(rows, len(outcome))
    at = found.cdf(np.where(np.isnan(outcome), 0.0, outcome))
    return found, outcome, at, chosen[~np.isnan(outcome[chosen]) & ~np.isnan(at[chosen])]


def _thresholds(thresholds: Any) -> Floats:
    if thresholds is None:
        return np.empty(0)
    try:
        found = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise InputError("thresholds", "must be one or more finite numbers, in units of y")
    return found


_no_row = note("no-forecast-with-outcome", "not defined: no {nouns.row} has both a forecast and an outcome")


def _chosen(rows: ArrayLike, n: int) -> NDArray[np.intp]:
    try:
        found = np.asarray(rows)
        return np.asarray(np.arange(n)[found if found.size else found.astype(np.intp)], dtype=np.intp)
    except (IndexError, ValueError):
        raise InputError("rows", f"must be row indices from 0 to {n - 1}, or one boolean for each row") from None
