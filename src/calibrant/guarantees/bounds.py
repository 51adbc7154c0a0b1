r"""Confidence intervals for the event rate of one bin from (events, rows), and checks of stored intervals.

Every interval depends only on a bin's counts, so it is a function of a tally: the order of rows cannot matter. Scipy
is imported where it is needed, since stored certificates are read without it. The ends of stored intervals are not
recomputed: they are substituted into the inequality that defines them. The lower end :math:`\ell` of an exact interval
satisfies

.. math:: P_\ell(\text{Bin} \ge k) = \frac{n!}{(k - 1)!\,(n - k)!} \int_0^{\ell} t^{k-1} (1 - t)^{n-k} \, dt
          \le \frac{\alpha}{2},

and the integrand is smooth and falls off within a few standard deviations below :math:`\ell`, so 64 Gauss-Legendre
nodes give at least nine digits for any number of rows. The upper end is the lower end for the negatives, reflected.
Also here: the closed-form bounds of Gupta (2023), chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.numerics import Floats

Coverage = Literal["simultaneous", "marginal"]
IntervalName = Literal["clopper-pearson", "hoeffding", "bernstein", "always-valid", "betting", "weighted-hoeffding"]
"""Intervals of counts, :data:`BOUNDS`, and of weighted rows, :data:`calibrant.guarantees.weighted.WEIGHTED_BOUNDS`."""
Flags = NDArray[np.bool_]
Interval = tuple[Floats, Floats]
Radius = Callable[[Floats, Floats, float | Floats], Floats]
"""Half-width of an interval, from the observed rate, the number of rows and alpha."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
FAR = 40.0
"""Standard deviations below an end, or powers of e, beyond which the integral is negligible."""

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


@dataclass(frozen=True)
class IntervalMethod:
    """A method that turns (events, rows) into a confidence interval; call it to compute one.

    Attributes
    ----------
    interval
        Function of events, rows and alpha that returns the interval.
    supports
        Function of events, rows, alpha and a lower end: whether the interval begins at that end or above it. Needs
        only numpy.
    any_time
        Whether the interval holds at all sample sizes simultaneously, for bins that do not change as rows arrive.
    """

    interval: Callable[[ArrayLike, ArrayLike, float], Interval]
    supports: Callable[[Floats, Floats, Floats, Floats], Flags]
    any_time: bool = False

    def __call__(self, events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
        """Confidence interval for the event rate, one for each entry of the counts."""
        return self.interval(events, n, alpha)


def hoeffding(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    r"""Hoeffding interval :math:`k/n \pm \sqrt{\ln(2/\alpha) / 2n}`, clipped to [0, 1] (Gupta 2023, eq. 4.17).

    Examples
    --------
    >>> [end.round(4).item() for end in hoeffding(30, 100, 0.1)]
    [0.1776, 0.4224]
    """
    return _around_the_mean(_hoeffding_radius, events, n, alpha)


def _hoeffding_radius(mean: Floats, n: Floats, alpha: float | Floats) -> Floats:
    return np.asarray(np.sqrt(np.log(2.0 / alpha) / (2.0 * n)))


def bernstein(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    r"""Empirical Bernstein interval, clipped to [0, 1].

    .. math:: k/n \pm \bigl(\sqrt{2 \hat V \ln(3/\alpha) / n} + 3 \ln(3/\alpha) / n\bigr)

    :math:`\hat V = (k/n)(1 - k/n)` is the variance of the labels (Gupta 2023, Theorem 3.4, with the second term
    outside the root as in its proof, 3.C.1).

    Examples
    --------
    >>> [end.round(4).item() for end in bernstein(1, 1000, 0.1)]
    [0.0, 0.0138]
    """
    return _around_the_mean(_bernstein_radius, events, n, alpha)


def _bernstein_radius(mean: Floats, n: Floats, alpha: float | Floats) -> Floats:
    log = np.log(3.0 / alpha)
    return np.asarray(np.sqrt(2.0 * mean * (1.0 - mean) * log / n) + 3.0 * log / n)


def clopper_pearson(events: ArrayLike, n: ArrayLike, alpha: float | Floats) -> Interval:
    """Exact binomial (Clopper-Pearson) interval, alpha / 2 on each side; never wider than Hoeffding's at equal alpha.

    Each end is where the binomial tail probability equals alpha / 2. Hoeffding's inequality bounds that same tail, so
    its end can only lie further out.

    Examples
    --------
    >>> [end.round(4).item() for end in clopper_pearson(0, 100, 0.1)]
    [0.0, 0.0295]
    """
    from scipy import special

    k, m = _counts(events, n)
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, special.betaincinv(np.where(k > 0, k, 1.0), np.maximum(m - k + 1.0, 1.0), alpha / 2), 0.0)
        high = np.where(k < m, special.betainccinv(k + 1.0, np.where(m > k, m - k, 1.0), alpha / 2), 1.0)
    return low, np.where(m > 0, high, 1.0)


def _supports_clopper_pearson(k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    return np.asarray((k > 0) & (log_tail(np.maximum(k, 1.0), n, end) <= np.log(alpha / 2.0) + _slack(n)))


def log_tail(k: Floats, n: Floats, p: Floats) -> Floats:
    """Logarithm of the probability of at least k events (k >= 1) in n rows with event rate p, for p <= k / n.

    Examples
    --------
    >>> np.exp(log_tail(np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.array([0.5, 0.5]))).round(12).tolist()
    [0.75, 0.25]
    """
    p = np.maximum(p, 1e-290)
    falls = (k - 1.0) / p - (n - k) / (1.0 - p)  # lower bound on the slope of the log-integrand, for p below its mode
    width = np.minimum(p, FAR * np.sqrt(k * (n - k + 1.0) / (n + 2.0)) / (n + 1.0))
    width = np.minimum(width, FAR / np.where(falls > 0.0, falls, FAR))
    back = 0.5 * width[:, None] * (1.0 - NODES)  # distance of each node below p
    shape = (k - 1.0)[:, None] * np.log1p(-back / p[:, None]) + (n - k)[:, None] * np.log1p(back / (1.0 - p[:, None]))
    integral = 0.5 * width * np.einsum("ij,j->i", np.exp(shape), WEIGHTS)
    density = (k - 1.0) * np.log(p) + (n - k) * np.log1p(-p)
    factor = _log_gamma(n + 1.0) - _log_gamma(k) - _log_gamma(n - k + 1.0)
    return np.asarray(factor + density + np.log(integral))


def always_valid(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    r"""Confidence sequence: an interval valid at all sample sizes simultaneously, so that looking early is allowed.

    .. math::
        \Bigl\{p : p^k (1-p)^{n-k} \ge \alpha\, \frac{B(k + \frac12,\, n - k + \frac12)}{B(\frac12, \frac12)}\Bigr\}

    The ratio of the beta-binomial mixture to the likelihood is a martingale that starts at 1; by Ville's inequality it
    ever exceeds :math:`1/\alpha` with probability at most alpha. It depends on (k, n) only, unlike Theorem 3.6 of
    Gupta (2023), whose variance term depends on the order of the labels.

    Examples
    --------
    >>> [end.round(4).item() for end in always_valid(30, 100, 0.1)]
    [0.1731, 0.4519]
    """
    from scipy import special

    k, m = _counts(events, n)
    target = np.log(alpha) + special.betaln(k + 0.5, m - k + 0.5) - special.betaln(0.5, 0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        peak = np.where(m > 0, k / m, 0.5)
    below = np.where(k > 0, _bisect(k, m, target, np.zeros_like(peak), peak), 0.0)
    above = np.where(k < m, _bisect(k, m, target, np.ones_like(peak), peak), 1.0)
    return np.where(m > 0, below, 0.0), np.where(m > 0, above, 1.0)


def _supports_always_valid(k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    p = np.maximum(end, np.finfo(np.float64).tiny)
    likelihood = k * np.log(p) + (n - k) * np.log1p(-p)
    mixture = _log_gamma(k + 0.5) + _log_gamma(n - k + 0.5) - _log_gamma(n + 1.0) - math.log(math.pi)
    return np.asarray(likelihood <= np.log(alpha) + mixture + _slack(n))


def _around_the_mean(radius: Radius, events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    """The observed rate plus or minus a radius, clipped to [0, 1]; [0, 1] without rows."""
    k, m = _counts(events, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, width = k / m, radius(k / m, m, alpha)
    low, high = np.clip(mean - width, 0.0, 1.0), np.clip(mean + width, 0.0, 1.0)
    return np.where(m > 0, low, 0.0), np.where(m > 0, high, 1.0)


def _supports_mean(radius: Radius, k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    return np.asarray(end <= k / n - radius(k / n, n, alpha))


BOUNDS: dict[IntervalName, IntervalMethod] = {
    "clopper-pearson": IntervalMethod(clopper_pearson, _supports_clopper_pearson),
    "hoeffding": IntervalMethod(hoeffding, partial(_supports_mean, _hoeffding_radius)),
    "bernstein": IntervalMethod(bernstein, partial(_supports_mean, _bernstein_radius)),
    "always-valid": IntervalMethod(always_valid, _supports_always_valid, any_time=True),
}
"""Every interval method of counts, by the name that a certificate prints; the default first."""


def any_time(interval: IntervalName) -> bool:
    """Whether an interval holds at all sample sizes simultaneously.

    Examples
    --------
    >>> any_time("always-valid"), any_time("betting")
    (True, False)
    """
    return interval in BOUNDS and BOUNDS[interval].any_time


def umd_epsilon(
    n: int, n_bins: int, alpha: float, coverage: Coverage = "simultaneous", *, original: bool = False
) -> float:
    r"""Worst-case epsilon of uniform-mass binning without sample splitting, before any label is seen.

    .. math:: \epsilon = \sqrt{\frac{\ln(2B/\alpha)}{2(\lfloor n/B \rfloor - 1)}}

    (Gupta 2023, eq. 4.8, Theorem 4.1). ``coverage="marginal"`` drops the union over bins (eq. 4.11, without its delta:
    the claim is stated for the bin). ``original`` adds :math:`1/\lfloor n/B \rfloor` for the boundary row that Zadrozny
    and Elkan average in (eq. 4.10, with the term outside the root as in 4.A.5). Infinite below n = 2B.

    Examples
    --------
    >>> round(umd_epsilon(2900, 10, 0.1, original=True), 4), round(umd_epsilon(1500, 10, 0.1, coverage="marginal"), 5)
    (0.0992, 0.10026)
    """
    if n < 2 * n_bins:
        return float("inf")
    union = n_bins if coverage == "simultaneous" else 1
    smallest = n // n_bins - 1
    epsilon = np.sqrt(np.log(2 * union / alpha) / (2 * smallest))
    return float(epsilon + (1.0 / (n // n_bins) if original else 0.0))


def expected_ece_bound(smallest_bin: int) -> float:
    r"""Bound on the expected :math:`\ell_p`-ECE of a binning, p <= 2: :math:`\sqrt{1 / (4 \min_b N_b)}`.

    It holds for given bins and counts. On average over these too, without ties, :math:`\sqrt{B/2n}` holds (Gupta 2023,
    Theorem 4.2 (b); docs/certificates/intervals.md proves it where its last step fails, for n/B in (2, 3)).

    Examples
    --------
    >>> round(expected_ece_bound(100), 3)
    0.05
    """
    return float(np.sqrt(0.25 / smallest_bin)) if smallest_bin > 0 else 1.0


def _counts(events: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    k, m = np.asarray(events, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if (k < 0).any() or (k > m).any():
        raise ValueError("events must lie between 0 and n")
    return k, m


def _slack(n: Floats) -> Floats:
    """Rounding error allowed in the logarithm of a probability; it grows with the factorials."""
    return 1e-6 + 1e-14 * n


def _bisect(k: Floats, m: Floats, target: Floats, outside: Floats, inside: Floats) -> Floats:
    """The root of the log-likelihood minus ``target``, rounded outward so that the interval is never too narrow."""
    from scipy import special

    outside, inside = np.broadcast_arrays(outside, inside)
    outside, inside = outside.copy(), inside.copy()
    for _ in range(60):
        middle = 0.5 * (outside + inside)
        value = special.xlogy(k, middle) + special.xlog1py(m - k, -middle)
        kept = value >= target
        inside = np.where(kept, middle, inside)
        outside = np.where(kept, outside, middle)
    return np.asarray(outside)
