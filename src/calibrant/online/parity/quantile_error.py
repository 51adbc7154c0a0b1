"""Quantile calibration error of predictive distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import is_whole
from calibrant.messages import InputError, note
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
    outcome = read_values(y, "y")
    same_order(y=y, forecast=forecast)
    forecast = as_predictive(forecast, len(outcome))
    check_rows(outcome, "y", len(forecast), "forecast")
    chosen = np.arange(len(outcome)) if rows is None else _chosen(rows, len(outcome))
    at = forecast.cdf(np.where(np.isnan(outcome), 0.0, outcome))
    chosen = chosen[~np.isnan(outcome[chosen]) & ~np.isnan(at[chosen])]
    if not len(chosen):
        return Estimate(name, float("nan"), notes=(_no_row(),))
    levels = np.linspace(0.0, 1.0, n_levels)
    if isinstance(forecast, CdfForecast) and not forecast.has_quantiles:
        covered = np.searchsorted(np.sort(at[chosen]), levels, side="right") / len(chosen)
    else:
        covered = np.array([(outcome[chosen] <= forecast.quantile(float(p))[chosen]).mean() for p in levels])
    null = float(np.sqrt(2.0 * levels * (1.0 - levels) / (np.pi * len(chosen))).mean())
    return Estimate(name, float(np.abs(covered - levels).mean()), null=null)


_no_row = note("no-forecast-with-outcome", "not defined: no {nouns.row} has both a forecast and an outcome")


def _chosen(rows: ArrayLike, n: int) -> NDArray[np.intp]:
    try:
        found = np.asarray(rows)
        return np.asarray(np.arange(n)[found if found.size else found.astype(np.intp)], dtype=np.intp)
    except (IndexError, ValueError):
        raise InputError("rows", f"must be row indices from 0 to {n - 1}, or one boolean for each row") from None
