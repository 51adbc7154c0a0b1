"""Whether a stored certificate follows from its own counts: a document may hold any numbers.

An interval is accepted where it is at least as wide as its bound makes it (:mod:`calibrant.guarantees.bounds`). Needs
numpy alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.guarantees.about.regions import MOST_CLASSES, Regions, by_one_bound, class_sets
from calibrant.guarantees.bounds import BOUNDS, Bound
from calibrant.guarantees.certificate import Certificate
from calibrant.numerics import Floats, chunks

ROUNDING = 2.0**-51
"""How far an end may be off by its own rounding."""

BLOCK = 1 << 14
"""Intervals that are looked at together."""


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
    if BOUNDS[promise.bound].any_time and not about.stays:
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
    supports, filled, level = BOUNDS[bound].supports, np.flatnonzero(n > 0), np.broadcast_to(alpha, n.shape)
    for part in chunks(len(filled), BLOCK):
        at = filled[part]
        for hits, end in ((k[at], lower[at]), (n[at] - k[at], 1.0 - upper[at])):
            if (end > hits / n[at] + ROUNDING).any():
                return False
            if not ((end <= 0.0) | supports(hits, n[at], level[at], np.maximum(end - ROUNDING, 0.0))).all():
                return False
    return True


# ------------------------------------------------------------------------------------- All classes of a region together


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
