"""Confidence intervals for the event rate of one bin from (events, rows), and the closed-form bounds of 002 chapter 4.

Every interval depends on a bin's counts alone, so it is a function of a tally: the order of rows cannot matter. Scipy
is imported where it is needed, since stored certificates are read without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.guarantees.certificate import Bound, Mode
from calibrant.numerics import Floats

Interval = tuple[Floats, Floats]


def hoeffding(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    r"""Hoeffding: :math:`k/n \pm \sqrt{\ln(2/\alpha) / 2n}`, cut to [0, 1] (002 eq. 4.17).

    Examples
    --------
    >>> [end.round(4).item() for end in hoeffding(30, 100, 0.1)]
    [0.1776, 0.4224]
    """
    k, m = _counts(events, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _around(k / m, hoeffding_radius(m, alpha), m)


def hoeffding_radius(n: Floats, alpha: float | Floats) -> Floats:
    """Half of the width of Hoeffding's interval."""
    return np.asarray(np.sqrt(np.log(2.0 / alpha) / (2.0 * n)))


def bernstein(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    r"""Empirical Bernstein: :math:`k/n \pm \bigl(\sqrt{2 \hat V \ln(3/\alpha) / n} + 3 \ln(3/\alpha) / n\bigr)`.

    :math:`\hat V = (k/n)(1 - k/n)` is the variance of the labels (002 Theorem 3.4, with the second term outside the
    root as in its proof, 3.C.1).

    Examples
    --------
    >>> [end.round(4).item() for end in bernstein(1, 1000, 0.1)]
    [0.0, 0.0138]
    """
    k, m = _counts(events, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _around(k / m, bernstein_radius(k / m, m, alpha), m)


def bernstein_radius(mean: Floats, n: Floats, alpha: float | Floats) -> Floats:
    """Half of the width of the empirical Bernstein interval."""
    log = np.log(3.0 / alpha)
    return np.asarray(np.sqrt(2.0 * mean * (1.0 - mean) * log / n) + 3.0 * log / n)


def clopper_pearson(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    """Exact binomial interval, alpha / 2 on each side; never wider than Hoeffding's at the same alpha.

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


def always_valid(events: ArrayLike, n: ArrayLike, alpha: float) -> Interval:
    r"""Interval that holds at every sample size at once, so one may look as often as one likes.

    .. math::
        \Bigl\{p : p^k (1-p)^{n-k} \ge \alpha\, \frac{B(k + \frac12,\, n - k + \frac12)}{B(\frac12, \frac12)}\Bigr\}

    The ratio of the beta-binomial mixture to the likelihood is a martingale that starts at 1; by Ville's inequality it
    ever exceeds :math:`1/\alpha` with probability at most alpha. It depends on (k, n) only, unlike 002 Theorem 3.6,
    whose variance term depends on the order of the labels.

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


BOUNDS: dict[Bound, Callable[[ArrayLike, ArrayLike, float], Interval]] = {
    "clopper-pearson": clopper_pearson,
    "hoeffding": hoeffding,
    "bernstein": bernstein,
    "always-valid": always_valid,
}
"""Ways to turn (events, rows) into an interval, by the name that a certificate prints."""


def umd_epsilon(n: int, n_bins: int, alpha: float, *, mode: Mode = "simultaneous", original: bool = False) -> float:
    r"""Worst-case epsilon of uniform-mass binning without sample splitting, known before any label is seen.

    .. math:: \epsilon = \sqrt{\frac{\ln(2B/\alpha)}{2(\lfloor n/B \rfloor - 1)}}

    (002 eq. 4.8, Theorem 4.1); ``mode="marginal"`` drops the union over bins (eq. 4.11, without its delta, the claim
    being stated on the bin); ``original`` adds :math:`1/\lfloor n/B \rfloor` for the boundary row that Zadrozny and
    Elkan average in (eq. 4.10, the term outside the root as in 4.A.5). Infinite below n = 2B.

    Examples
    --------
    >>> round(umd_epsilon(2900, 10, 0.1, original=True), 4), round(umd_epsilon(1500, 10, 0.1, mode="marginal"), 5)
    (0.0992, 0.10026)
    """
    if n < 2 * n_bins:
        return float("inf")
    union = n_bins if mode == "simultaneous" else 1
    smallest = n // n_bins - 1
    epsilon = np.sqrt(np.log(2 * union / alpha) / (2 * smallest))
    return float(epsilon + (1.0 / (n // n_bins) if original else 0.0))


def expected_ece_bound(smallest_bin: int) -> float:
    r"""Bound on the expected :math:`\ell_p`-ECE of a binning, p <= 2: :math:`\sqrt{1 / (4 \min_b N_b)}`.

    It is for given bins and counts. On average over these too, without ties, :math:`\sqrt{B/2n}` holds (002 Theorem 4.2
    (b); docs/certificates/intervals.md proves it where its last step fails, for n/B in (2, 3)).

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


def _around(mean: NDArray[Any], radius: NDArray[Any], m: Floats) -> Interval:
    low, high = np.clip(mean - radius, 0.0, 1.0), np.clip(mean + radius, 0.0, 1.0)
    return np.where(m > 0, low, 0.0), np.where(m > 0, high, 1.0)


def _bisect(k: Floats, m: Floats, target: Floats, outside: Floats, inside: Floats) -> Floats:
    """The end on the outer side of the root of the log-likelihood minus ``target``; rounding widens the interval."""
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
