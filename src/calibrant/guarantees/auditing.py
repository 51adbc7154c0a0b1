"""Audit of stored certificates: a document may hold any numbers, so intervals are checked against their counts.

An interval is accepted if it is at least as wide as its method makes it (:mod:`calibrant.guarantees.bounds`). Needs
only numpy.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.guarantees.about.regions import MOST_CLASSES, Regions, by_one_bound, class_sets
from calibrant.guarantees.about.scores import WeightedBins
from calibrant.guarantees.bounds import BOUNDS, IntervalName, any_time
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.weighted import WeightedIntervalName, weights_support
from calibrant.numerics import Floats, chunks

ROUNDING = 2.0**-51
"""Relative rounding error allowed at an end of an interval."""

BLOCK = 1 << 14
"""Number of intervals checked in one vectorized step."""


def follows(certificate: Certificate) -> bool:
    """Whether no interval of a certificate is narrower than its counts, alpha and interval method allow.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from calibrant import HistogramBinning
    >>> certificate = HistogramBinning(2).fit([0.1, 0.2, 0.3, 0.4, 0.7, 0.8], [0, 0, 1, 0, 1, 1]).certificate()
    >>> follows(certificate), follows(replace(certificate, alpha=0.05))
    (True, False)
    """
    about = certificate.about
    if any_time(certificate.interval) and not about.stays:
        return False  # rows chose the bins
    if isinstance(about, Regions) and not _distances_follow(certificate, about):
        return False
    if isinstance(about, Regions) and len(about.classes) > MOST_CLASSES:
        return _within_one_bound(certificate, about)
    if isinstance(about, WeightedBins):
        return weights_support(
            cast(WeightedIntervalName, certificate.interval), about.table, certificate.levels, certificate.lower,
            certificate.upper, ROUNDING,
        )  # fmt: skip
    ends = (about.as_sampled(end) for end in (certificate.lower, certificate.upper))
    return supported(certificate.interval, certificate.events, certificate.rows, certificate.levels, *ends)


def supported(
    interval: IntervalName, events: ArrayLike, rows: ArrayLike, alpha: float | Floats, lower: Floats, upper: Floats
) -> bool:
    """Whether no interval is narrower than its method gives for these counts; without rows it must be [0, 1].

    ``alpha`` is one number for all intervals, or one for each.

    Examples
    --------
    >>> low, high = np.array([0.0]), np.array([0.0295])  # exact 90 % interval for 0 of 100: 0 to 0.02951
    >>> supported("clopper-pearson", [0], [100], 0.1, low, high), supported("hoeffding", [0], [100], 0.1, low, high)
    (False, False)
    >>> supported("clopper-pearson", [0], [100], 0.1, low, np.array([0.0296]))
    True
    """
    k, n = np.asarray(events, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if ((lower > 0.0) | (upper < 1.0))[n == 0].any():
        return False
    supports, filled, level = BOUNDS[interval].supports, np.flatnonzero(n > 0), np.broadcast_to(alpha, n.shape)
    for part in chunks(len(filled), BLOCK):
        at = filled[part]
        for hits, end in ((k[at], lower[at]), (n[at] - k[at], 1.0 - upper[at])):
            if (end > hits / n[at] + ROUNDING).any():
                return False
            if not ((end <= 0.0) | supports(hits, n[at], level[at], np.maximum(end - ROUNDING, 0.0))).all():
                return False
    return True


# ------------------------------------------------------------------------------------- All classes of a region together


def _distances_follow(certificate: Certificate, about: Regions) -> bool:
    """Whether every set of classes of a region lies within half of the region's l1 distance."""
    counts, rows = about.by_region(certificate.events), about.by_region(certificate.rows)
    covered = rows[:, 0] > 0
    if counts.shape[1] > MOST_CLASSES:
        distances, _, _ = by_one_bound(about.map, counts, float(certificate.levels[0]))
        return bool((about.distances >= distances - ROUNDING)[covered].all())
    sets = class_sets(counts.shape[1])
    said = np.einsum("rk,sk->rs", about.map.outputs_by_region, sets)
    half = np.where(covered, about.distances / 2.0, 1.0)[:, None]
    ends = np.maximum(said - half, 0.0).ravel(), np.minimum(said + half, 1.0).ravel()
    of_each = np.repeat(rows[:, 0], len(sets))
    return supported(certificate.interval, (counts @ sets.T).ravel(), of_each, float(certificate.levels[0]), *ends)


def _within_one_bound(certificate: Certificate, about: Regions) -> bool:
    """Whether the intervals of the classes of a region follow from the one bound for all sets of classes."""
    _, lower, upper = by_one_bound(about.map, about.by_region(certificate.events), float(certificate.levels[0]))
    inside = (certificate.lower <= lower.ravel() + ROUNDING) & (certificate.upper >= upper.ravel() - ROUNDING)
    return certificate.interval == "hoeffding" and bool(inside[certificate.covered].all())
