r"""Whether a stored certificate follows from its own counts: a document may hold any numbers.

An interval is accepted where it is no narrower than its bound makes it. Ends are not computed anew, which takes scipy,
but put into the inequality that defines them. The lower end :math:`\ell` of an exact interval has

.. math:: P_\ell(\text{Bin} \ge k) = \frac{n!}{(k - 1)!\,(n - k)!} \int_0^{\ell} t^{k-1} (1 - t)^{n-k} \, dt
          \le \frac{\alpha}{2},

and the integrand is smooth and falls off within a few standard deviations below :math:`\ell`, so 64 points of Gauss and
Legendre give nine digits and more, for any number of rows. The upper end is the lower one of the other rows. Needs
numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from calibrant.guarantees.about.regions import MOST_CLASSES, Regions, by_one_bound, class_sets
from calibrant.guarantees.bounds import bernstein_radius, hoeffding_radius
from calibrant.guarantees.certificate import Bound, Certificate, Flags
from calibrant.numerics import Floats, chunks

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
FAR = 40.0
"""Standard deviations below an end, or powers of e, beyond which nothing is left of the integral."""

ROUNDING = 2.0**-51
"""How far an end may be off by its own rounding."""

BLOCK = 1 << 14
"""Intervals that are looked at together."""

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def follows(promise: Certificate) -> bool:
    """Whether no interval of a certificate is narrower than its counts, its alpha and its bound allow.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from calibrant import HistogramBinning
    >>> promise = HistogramBinning(2).fit([0.1, 0.2, 0.3, 0.4, 0.7, 0.8], [0, 0, 1, 0, 1, 1]).certificate()
    >>> follows(promise), follows(replace(promise, alpha=0.05))
    (True, False)
    """
    about = promise.about
    if promise.bound == "always-valid" and not about.stays:
        return False  # its places are chosen by rows
    if isinstance(about, Regions) and not _distances_follow(promise, about):
        return False
    if isinstance(about, Regions) and len(about.classes) > MOST_CLASSES:
        return _within_one_bound(promise, about)
    ends = (about.as_sampled(end) for end in (promise.lower, promise.upper))
    return supported(promise.bound, promise.events, promise.rows, promise.levels, *ends)


def supported(
    bound: Bound, events: ArrayLike, rows: ArrayLike, alpha: float | Floats, lower: Floats, upper: Floats
) -> bool:
    """Whether no interval is narrower than the bound makes it from these counts; without rows it must be [0, 1].

    ``alpha`` is that of each interval, or of all alike.

    Examples
    --------
    >>> low, high = np.array([0.0]), np.array([0.0295])  # exact ones of 0 in 100 rows at 90 % are 0 and 0.02951
    >>> supported("clopper-pearson", [0], [100], 0.1, low, high), supported("hoeffding", [0], [100], 0.1, low, high)
    (False, False)
    >>> supported("clopper-pearson", [0], [100], 0.1, low, np.array([0.0296]))
    True
    """
    k, n = np.asarray(events, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if ((lower > 0.0) | (upper < 1.0))[n == 0].any():
        return False
    reaches, filled, level = _REACHES[bound], np.flatnonzero(n > 0), np.broadcast_to(alpha, n.shape)
    for part in chunks(len(filled), BLOCK):
        at = filled[part]
        for hits, end in ((k[at], lower[at]), (n[at] - k[at], 1.0 - upper[at])):
            if (end > hits / n[at] + ROUNDING).any():
                return False
            if not ((end <= 0.0) | reaches(hits, n[at], level[at], np.maximum(end - ROUNDING, 0.0))).all():
                return False
    return True


# ----------------------------------------------------------------------------------------------------------------------
# What each bound asks of a lower end
# ----------------------------------------------------------------------------------------------------------------------


def _hoeffding(k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    return np.asarray(end <= k / n - hoeffding_radius(n, alpha))


def _bernstein(k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    return np.asarray(end <= k / n - bernstein_radius(k / n, n, alpha))


def _clopper_pearson(k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    return np.asarray((k > 0) & (log_tail(np.maximum(k, 1.0), n, end) <= np.log(alpha / 2.0) + _slack(n)))


def _always_valid(k: Floats, n: Floats, alpha: Floats, end: Floats) -> Flags:
    p = np.maximum(end, np.finfo(np.float64).tiny)
    likelihood = k * np.log(p) + (n - k) * np.log1p(-p)
    mixture = _log_gamma(k + 0.5) + _log_gamma(n - k + 0.5) - _log_gamma(n + 1.0) - math.log(math.pi)
    return np.asarray(likelihood <= np.log(alpha) + mixture + _slack(n))


_REACHES: dict[Bound, Callable[[Floats, Floats, Floats, Floats], Flags]] = {
    "clopper-pearson": _clopper_pearson,
    "hoeffding": _hoeffding,
    "bernstein": _bernstein,
    "always-valid": _always_valid,
}


def log_tail(k: Floats, n: Floats, p: Floats) -> Floats:
    """Logarithm of the chance of k events or more, from 1 on, in n rows of rate p, for p up to k / n.

    Examples
    --------
    >>> np.exp(log_tail(np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.array([0.5, 0.5]))).round(12).tolist()
    [0.75, 0.25]
    """
    p = np.maximum(p, 1e-290)
    falls = (k - 1.0) / p - (n - k) / (1.0 - p)  # the integrand's logarithm, at least, where p is below its top
    width = np.minimum(p, FAR * np.sqrt(k * (n - k + 1.0) / (n + 2.0)) / (n + 1.0))
    width = np.minimum(width, FAR / np.where(falls > 0.0, falls, FAR))
    back = 0.5 * width[:, None] * (1.0 - NODES)  # how far below p each node lies
    shape = (k - 1.0)[:, None] * np.log1p(-back / p[:, None]) + (n - k)[:, None] * np.log1p(back / (1.0 - p[:, None]))
    integral = 0.5 * width * np.einsum("ij,j->i", np.exp(shape), WEIGHTS)
    density = (k - 1.0) * np.log(p) + (n - k) * np.log1p(-p)
    factor = _log_gamma(n + 1.0) - _log_gamma(k) - _log_gamma(n - k + 1.0)
    return np.asarray(factor + density + np.log(integral))


def _slack(n: Floats) -> Floats:
    """By how much rounding may move the logarithm of a chance; it grows with the factorials."""
    return 1e-6 + 1e-14 * n


# ----------------------------------------------------------------------------------------------------------------------
# All classes of a region together
# ----------------------------------------------------------------------------------------------------------------------


def _distances_follow(promise: Certificate, about: Regions) -> bool:
    """All classes of a region lie within its distance where every set of them does within half of that."""
    counts, rows = about.by_region(promise.events), about.by_region(promise.rows)
    promised = rows[:, 0] > 0
    if counts.shape[1] > MOST_CLASSES:
        distances, _, _ = by_one_bound(about.map, counts, float(promise.levels[0]))
        return bool((about.distances >= distances - ROUNDING)[promised].all())
    sets = class_sets(counts.shape[1])
    said = np.einsum("rk,sk->rs", about.map.outputs_by_region, sets)
    half = np.where(promised, about.distances / 2.0, 1.0)[:, None]
    ends = np.maximum(said - half, 0.0).ravel(), np.minimum(said + half, 1.0).ravel()
    of_each = np.repeat(rows[:, 0], len(sets))
    return supported(promise.bound, (counts @ sets.T).ravel(), of_each, float(promise.levels[0]), *ends)


def _within_one_bound(promise: Certificate, about: Regions) -> bool:
    """Intervals of the classes of a region from the bound for all of their sets."""
    _, lower, upper = by_one_bound(about.map, about.by_region(promise.events), float(promise.levels[0]))
    inside = (promise.lower <= lower.ravel() + ROUNDING) & (promise.upper >= upper.ravel() - ROUNDING)
    return promise.bound == "hoeffding" and bool(inside[promise.promised].all())
