"""Predictive distributions, one per row: Gaussian, quantiles, samples, or a cumulative distribution function."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import is_whole, read_floats
from calibrant.messages import InputError, note, warn
from calibrant.numerics import Floats
from calibrant.online.parity.panels import check_rows, index_of, same_order

LARGEST = 1e150
"""Largest value; beyond it, differences and ratios could overflow."""

ROUNDING = 1e-9
"""How far a cumulative distribution function may leave [0, 1] by rounding."""

DISTRIBUTIONS = (
    "pass GaussianForecast(mean, sd), QuantileForecast(levels, values) for quantiles, "
    "SampleForecast(samples) for samples, or CdfForecast(cdf, n_rows)"
)
"""Accepted forecasts, as the end of a sentence."""


class Predictive:
    """Base class of predictive distributions, one per row.

    A row with missing numbers (NaN) has no forecast, and its results are NaN.
    A subclass defines :meth:`cdf`, :meth:`quantile` and ``n_rows``, which ``len`` returns. ``index`` is the index of
    the pandas columns it was made from, if any, so that rows in another order are detected.
    """

    index: Any = None
    n_rows: int

    def __len__(self) -> int:
        """Number of rows."""
        return self.n_rows

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a value of at most ``x[t]`` in each row t; one number applies to all rows."""
        raise NotImplementedError

    def quantile(self, level: float) -> Floats:
        """Quantile of each row at this level; infinite if there is none."""
        raise NotImplementedError

    def _points(self, x: ArrayLike) -> Floats:
        same_order(forecast=self, x=x)
        found = np.asarray(read_floats([x] if np.ndim(x) == 0 else x, "x"), dtype=np.float64)
        if np.ndim(x) == 0:
            return np.full(len(self), found[0])
        if len(found) != len(self):
            raise InputError(
                "x", f"has {len(found)} values but there are {len(self)} forecasts", "pass one value per forecast"
            )
        return found


class GaussianForecast(Predictive):
    r"""Normal predictive distribution for each row.

    .. math:: F_t(x) = \Phi\bigl((x - \mu_t) / \sigma_t\bigr)

    with mean :math:`\mu_t`, standard deviation :math:`\sigma_t` and the standard normal :math:`\Phi`.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of each row; ``sd`` may be one number for all rows.

    Notes
    -----
    Edge cases: an ``sd`` of 0 puts all mass on the mean; NaN in either is a row without forecast.
    Guarantee: no finite-sample guarantee; it is the forecaster's claim.
    Cost: O(rows). Reference: Gupta (2023), section 7.3.2.

    Examples
    --------
    >>> forecast = GaussianForecast([10.0, 12.0], [1.0, 2.0])
    >>> forecast.cdf([10.0, 10.0]).round(4).tolist()
    [0.5, 0.1587]
    """

    def __init__(self, mean: ArrayLike, sd: ArrayLike) -> None:
        if mean is None or sd is None:
            raise InputError(
                "mean" if mean is None else "sd",
                "must be given",
                "pass the mean and the standard deviation of each row, or one standard deviation for all",
            )
        same_order(mean=mean, sd=sd)
        self.index = index_of(mean, sd)
        self.mean = _finite(read_floats([mean] if np.ndim(mean) == 0 else mean, "mean"), "mean")
        self.n_rows = len(self.mean)
        given = _finite(read_floats([sd] if np.ndim(sd) == 0 else sd, "sd"), "sd")
        self.sd = np.full(self.n_rows, given[0]) if np.ndim(sd) == 0 else given
        check_rows(self.sd, "sd", self.n_rows, "mean")
        if (self.sd < 0.0).any():
            raise InputError(
                "sd", "must be a standard deviation of at least 0", "if it is a variance, pass its square root"
            )

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a value of at most ``x[t]`` in each row t."""
        return _normal_cdf(_ratio(self._points(x) - self.mean, self.sd))

    def quantile(self, level: float) -> Floats:
        """Quantile of each row at this level."""
        return np.asarray(self.mean + _times(_normal_score(level), self.sd))


class QuantileForecast(Predictive):
    r"""Predictive distribution for each row from a few quantiles, with Gaussian interpolation between them.

    .. math:: F_t(x) = \Phi\Bigl(z_k + (z_{k+1} - z_k) \frac{x - q_k}{q_{k+1} - q_k}\Bigr),
              \qquad q_k \le x < q_{k+1}, \quad z_k = \Phi^{-1}(\tau_k),

    where :math:`q_k` is the quantile of level :math:`\tau_k` of row t. Below the first and above the last quantile the
    nearest piece is extended.

    Parameters
    ----------
    levels
        At least two increasing quantile levels inside (0, 1).
    values
        Matrix of quantiles, one row per forecast and one column per level.

    Notes
    -----
    Edge cases: crossing quantiles are sorted within their row, which does not increase their overall distance from the
    true quantiles (Chernozhukov et al. 2010), and a :class:`CalibrantWarning` gives the number of rows. Equal quantiles
    are a point mass at that value; if the first or last two are equal, there is no mass beyond them. A row with a NaN
    has no forecast.
    Guarantee: no finite-sample guarantee. Cost: O(rows x levels). Reference: Gupta (2023), section 7.B.1.

    Examples
    --------
    >>> forecast = QuantileForecast([0.25, 0.5, 0.75], [[90, 100, 130]])
    >>> forecast.cdf([115]).round(4).tolist()  # half way between the normal scores 0 and 0.6745
    [0.632]
    >>> forecast.quantile(0.632).round(1).tolist()
    [115.0]
    """

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        self.levels = np.asarray(read_floats(levels, "levels"), dtype=np.float64)
        if len(self.levels) < 2 or not (np.diff(self.levels) > 0.0).all():
            raise InputError(
                "levels", "must be at least two increasing numbers", "a distribution needs at least two quantiles"
            )
        if self.levels[-1] > 1.0 and self.levels[-1] <= 100.0:
            raise InputError("levels", "must lie inside (0, 1), and these look like percentages", "divide them by 100")
        if not (self.levels[0] > 0.0 and self.levels[-1] < 1.0):
            raise InputError(
                "levels", "must lie inside (0, 1)", "drop the levels 0 and 1, the ends of the distribution"
            )
        self.index = index_of(values)
        rows = _matrix(values, "values")
        if rows.shape[1] != len(self.levels):
            raise InputError(
                "values", f"has {rows.shape[1]} columns for {len(self.levels)} levels", "pass one column per level"
            )
        rows[np.isnan(rows).any(axis=1)] = np.nan
        self.crossed = int((np.diff(rows, axis=1) < 0.0).any(axis=1).sum())
        if self.crossed:
            warn(_crossing(self.crossed, len(rows)))
        self.values, self.n_rows = np.sort(rows, axis=1), len(rows)

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a value of at most ``x[t]`` in each row t."""
        points = self._points(x)
        below = (self.values <= points[:, None]).sum(axis=1)
        left, right, z, step = self._piece(below)
        score = z + step * _ratio(points - left, right - left)
        found = _normal_cdf(np.where(np.isnan(left), np.nan, score))
        last = np.maximum(below - 1, 0)  # return the exact level at a quantile, which normal scores would round
        met = (below > 0) & (self.values[np.arange(len(self)), last] == points) & (left < right)
        return np.where(met, self.levels[last], found)

    def quantile(self, level: float) -> Floats:
        """Quantile of each row at this level."""
        score = _normal_score(level)
        left, right, z, step = self._piece(np.full(len(self), int((_normal_scores(self.levels) < score).sum())))
        return np.asarray(left + _times((score - z) / step, right - left))

    def _piece(self, below: NDArray[np.intp]) -> tuple[Floats, Floats, Floats, Floats]:
        """Ends of the piece above ``below`` quantiles, normal score of its left end, and step to its right end."""
        k = np.clip(below - 1, 0, len(self.levels) - 2)
        rows, scores = np.arange(len(self)), _normal_scores(self.levels)
        return self.values[rows, k], self.values[rows, k + 1], scores[k], scores[k + 1] - scores[k]


class SampleForecast(Predictive):
    r"""Predictive distribution for each row from samples: ensemble members or simulated paths.

    .. math:: F_t(x) = \frac{e + \#\{j : x_{tj} \le x\}}{m_t + 2e}

    with :math:`m_t` samples :math:`x_{tj}` in row t and ``ends`` e, the mass beyond either end in units of samples.
    Without it a value outside the samples would have probability 0 or 1, which calibration of log-odds cannot correct.

    Parameters
    ----------
    samples
        Matrix of samples, one row per forecast; NaN in rows with fewer samples.
    ends
        Mass beyond either end, at least 0; 0 gives the empirical distribution.

    Notes
    -----
    Edge cases: one sample is enough (1/4 below it, 3/4 at and above it); a row without samples has no forecast.
    Guarantee: no finite-sample guarantee.
    Cost: O(rows x samples). Reference: Gupta (2023), eq. 7.1 with the distribution of the samples.

    Examples
    --------
    >>> SampleForecast([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]]).cdf([2.0, 9.0]).tolist()
    [0.625, 0.875]
    """

    def __init__(self, samples: ArrayLike, *, ends: float = 0.5) -> None:
        if not (isinstance(ends, int | float) and 0.0 <= ends < np.inf):
            raise InputError("ends", f"must be a number of at least 0, not {ends!r}")
        self.index = index_of(samples)
        self.samples, self.ends = np.sort(_matrix(samples, "samples"), axis=1), float(ends)
        self.draws, self.n_rows = (~np.isnan(self.samples)).sum(axis=1), len(self.samples)

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a value of at most ``x[t]`` in each row t."""
        points = self._points(x)
        below = (self.samples <= points[:, None]).sum(axis=1)
        known = (self.draws > 0) & ~np.isnan(points)
        return np.where(known, (below + self.ends) / np.maximum(self.draws + 2.0 * self.ends, 1e-300), np.nan)

    def quantile(self, level: float) -> Floats:
        """Quantile of each row at this level: the smallest sample that reaches it."""
        check_level(level)
        # Sample k reaches (k + ends) / (m + 2 ends); with slack for rounding, so that 0.5 of 4 samples is the second.
        k = np.ceil(level * (self.draws + 2.0 * self.ends) - self.ends - ROUNDING).astype(np.intp)
        inside = self.samples[np.arange(len(self)), np.clip(k - 1, 0, np.maximum(self.draws - 1, 0))]
        out = np.where(k < 1, -np.inf, np.where(k > self.draws, np.inf, inside))
        return np.where(self.draws > 0, out, np.nan)


class CdfForecast(Predictive):
    """Predictive distribution for each row from a user-defined cumulative distribution function.

    Parameters
    ----------
    cdf
        Function from an array of one value per row to the probabilities of at most these values, such as
        ``scipy.stats.norm(mean, sd).cdf``.
    n_rows
        Number of rows.
    quantile
        Its inverse, from one level to one value per row, if available.

    Notes
    -----
    Edge cases: a result outside [0, 1] by more than rounding is an error; NaN is a row without forecast.
    Guarantee: no finite-sample guarantee. Cost: that of the function.
    Reference: Gupta (2023), eq. 7.1.

    Examples
    --------
    >>> forecast = CdfForecast(lambda x: 1.0 - np.exp(-x / np.array([1.0, 2.0])), 2)
    >>> forecast.cdf([1.0, 1.0]).round(4).tolist()
    [0.6321, 0.3935]
    """

    def __init__(
        self,
        cdf: Callable[[Floats], ArrayLike],
        n_rows: int,
        quantile: Callable[[float], ArrayLike] | None = None,
    ) -> None:
        if not callable(cdf):
            raise InputError("cdf", f"must be a function of one value per row, not {cdf!r}")
        if not is_whole(n_rows) or n_rows < 0:
            raise InputError("n_rows", f"must be the number of rows, not {n_rows!r}")
        self._cdf, self.n_rows, self._inverse = cdf, int(n_rows), quantile

    @property
    def has_quantiles(self) -> bool:
        """Whether the inverse was given."""
        return self._inverse is not None

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a value of at most ``x[t]`` in each row t."""
        found = np.asarray(self._cdf(self._points(x)), dtype=np.float64)
        if found.shape != (self.n_rows,):
            raise self._other_shape("cdf", found)
        if (found < -ROUNDING).any() or (found > 1.0 + ROUNDING).any():
            raise InputError(
                "cdf", "returned numbers outside [0, 1]", "pass a cumulative distribution function, not a density"
            )
        return np.clip(found, 0.0, 1.0)

    def quantile(self, level: float) -> Floats:
        """Quantile of each row at this level, if the inverse was given."""
        if self._inverse is None:
            raise InputError(
                "quantile", "was not given", "pass CdfForecast(cdf, n_rows, quantile) if quantiles are needed"
            )
        check_level(level)
        found = np.asarray(self._inverse(level), dtype=np.float64)
        try:
            return np.broadcast_to(found, (self.n_rows,)).copy()
        except ValueError:
            raise self._other_shape("quantile", found) from None

    def _other_shape(self, name: str, found: NDArray[Any]) -> InputError:
        return InputError(
            name, f"returned the shape {found.shape} for {self.n_rows} rows", "it must return one number per row"
        )


_crossing = note(
    "quantiles-cross", "values has crossing quantiles in {crossed:,} of {n:,} {nouns.rows}, which were sorted"
)


def as_predictive(forecast: Any, n_rows: int) -> Predictive:
    """A predictive distribution, from a function or an object with a ``cdf`` such as ``scipy.stats.norm(0, 1)``."""
    if isinstance(forecast, Predictive):
        return forecast
    if not isinstance(forecast, type) and callable(getattr(forecast, "cdf", None)):
        inverse = getattr(forecast, "ppf", None)
        return CdfForecast(forecast.cdf, n_rows, inverse if callable(inverse) else None)
    if callable(forecast) and not isinstance(forecast, type):
        return CdfForecast(forecast, n_rows)
    given = "the class" if isinstance(forecast, type) else "an object of type"
    name = (forecast if isinstance(forecast, type) else type(forecast)).__name__
    raise InputError("forecast", f"must be a predictive distribution, not {given} {name}", DISTRIBUTIONS)


def check_level(level: float) -> float:
    """Validate a probability."""
    if not (isinstance(level, Real) and 0.0 <= level <= 1.0):
        raise InputError("level", f"must be a probability in [0, 1], not {level!r}")
    return float(level)


def _normal_cdf(z: Floats) -> Floats:
    from scipy.special import ndtr  # here, so that a stream service starts without scipy

    return np.asarray(ndtr(z), dtype=np.float64)


def _normal_scores(levels: Floats) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(levels), dtype=np.float64)


def _normal_score(level: float) -> float:
    return float(_normal_scores(np.array([check_level(level)]))[0])


def _ratio(gap: Floats, scale: Floats) -> Floats:
    """Gap divided by scale; for a scale of 0 an infinity of the sign of the gap, positive for a gap of 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = gap / scale
    return np.where(scale == 0.0, np.where(np.isnan(gap), np.nan, np.where(gap >= 0.0, np.inf, -np.inf)), found)


def _times(factor: Floats | float, scale: Floats) -> Floats:
    """Factor times scale, and 0 for a scale of 0 even if the factor is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(scale == 0.0, 0.0, factor * scale)


def _finite(values: NDArray[np.floating], name: str) -> Floats:
    if (np.abs(values) > LARGEST).any():
        raise InputError(
            name, "contains an infinite or very large number", "rescale it, or pass NaN for a row without forecast"
        )
    return np.asarray(values, dtype=np.float64)


def _matrix(values: Any, name: str) -> Floats:
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(name, "is a masked array", f"pass {name}.filled(np.nan)")
    try:
        if hasattr(values, "iloc"):  # pandas' missing values become NaN
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        rows = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "must be a matrix of numbers", "one row per forecast, all of the same length") from None
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(name, f"must be a matrix, one row per forecast, not of the shape {rows.shape}")
    return _finite(rows, name)
