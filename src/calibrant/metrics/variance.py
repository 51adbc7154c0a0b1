r"""Variance of a sum over rows: independent rows, importance weights, clusters.

Every estimate here equals its population value plus a sum over rows of influences, up to terms of higher order. The
influence of a row depends on its score and label. Dependence and weights only change the variance of that sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import note
from calibrant.numerics import Floats
from calibrant.tallies import Clusters, Tally

FEWEST_CLUSTERS = 10
"""Minimum number of clusters for intervals: with fewer, the variance between clusters is too uncertain."""


too_few_samples = note(
    "too-few-samples",
    "no interval: this confidence level needs at least {needed} bootstrap samples (repetitions), or more {nouns.rows}",
)
few_groups = note("few-groups", "no interval: at least {fewest} groups are needed")


@dataclass(frozen=True)
class Spread:
    """Variance of an estimate, and the degrees of freedom of Student's t distribution for its intervals."""

    variance: float
    df: float = np.inf

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(self.variance))

    def quantile(self, confidence: float) -> float:
        """Standard errors on either side of an interval.

        Examples
        --------
        >>> round(Spread(1.0).quantile(0.95), 3), round(Spread(1.0, 9.0).quantile(0.95), 3)
        (1.96, 2.262)
        """
        tail = (1.0 + confidence) / 2.0
        return float(special.ndtri(tail) if np.isinf(self.df) else special.stdtrit(self.df, tail))

    def p_value(self, errors: float) -> float:
        """Two-sided probability of a distance of at least this many standard errors."""
        far = -abs(errors)
        return float(2.0 * (special.ndtr(far) if np.isinf(self.df) else special.stdtr(self.df, far)))


def spread_of(data: Tally | Clusters, hit: Floats, miss: Floats, expected: Floats | None = None) -> Spread:
    r"""Variance of :math:`\sum_i \psi(s_i, y_i)`, where an event at a cell adds ``hit`` and another row ``miss``.

    - *Rows without importance weights*: :math:`\sum_i \psi_i^2`, or, with ``expected`` (the variance of one row of each
      cell under a model), the sum of these.
    - *Importance weights*: :math:`\sum_i w_i^2 \psi_i^2`, the weighted sandwich. The weights may depend on the label.
    - *Clusters*: :math:`\sum_g S_g^2 / (1 - b_g)^2` over clusters with sums :math:`S_g`, where :math:`b_g` is the share
      of cluster g in the ``expected`` variance of independent rows, or without it in the rows; clusters of one row add
      the variance of a row of their cell instead. It is the jackknife over clusters, to first order (the CR3
      correction, Bell and McCaffrey 2002, for one contrast). The degrees of freedom are Satterthwaite's, for a
      working model in which cluster sums have variance :math:`b_g + \tau b_g^2`, with :math:`\tau` from the observed
      variance (Imbens and Kolesar 2016).

    Notes
    -----
    Guarantee: no finite-sample guarantee; ``benchmarks/verdict.py`` has the coverage of 95 % intervals for 10 to 200
    unequal clusters. Cost: O(cells), with clusters O(lines).

    Examples
    --------
    >>> tally = Tally.from_arrays([0.2, 0.2, 0.7, 0.7], [0, 1, 1, 1])
    >>> spread_of(tally, np.array([0.8, 0.3]), np.array([-0.2, -0.7])).variance.__round__(3)
    0.86
    """
    if isinstance(data, Clusters):
        return _between(data, hit, miss, expected)
    n, events = np.asarray(data.n, dtype=np.float64), np.asarray(data.events, dtype=np.float64)
    if data.counts:
        if expected is not None:
            return Spread(float((n * expected).sum()))
        return Spread(float((events * hit**2 + (n - events) * miss**2).sum()))
    w2, w2_events = squared_weights(data)
    return Spread(float((w2_events * hit**2 + (w2 - w2_events) * miss**2).sum()))


def squared_weights(tally: Tally) -> tuple[Floats, Floats]:
    """Sums of squared weights by cell, of all rows and of events; counts are rows of weight one."""
    n, events = np.asarray(tally.n, dtype=np.float64), np.asarray(tally.events, dtype=np.float64)
    w2 = tally.cells.w2
    if tally.counts or w2 is None:
        return n, events
    return w2, w2 * (events / n) if tally.cells.w2_events is None else tally.cells.w2_events


def rate_interval(
    data: Tally | Clusters, cells: NDArray[np.bool_], confidence: float = 0.95
) -> tuple[float | None, float | None]:
    r"""Interval for the event rate in some cells: Clopper-Pearson, at the effective sample size if rows are dependent.

    Clopper and Pearson's (1934) interval of :math:`n^* \hat p` events in :math:`n^*` rows. With weights and clusters
    :math:`n^*` is the number of independent rows for which the rate has the same variance, times
    :math:`(t_{n-1} / t_{df})^2` (Korn and Graubard 1998); for a rate of 0 or 1 the number of rows is used. Both ends
    are None if the cells have rows of fewer than ten clusters.

    Examples
    --------
    >>> tally = Tally.from_arrays([0.1, 0.1, 0.1, 0.1], [0, 0, 0, 1])
    >>> [round(end, 3) for end in rate_interval(tally, np.array([True]))]
    [0.006, 0.806]
    """
    tally = data.tally if isinstance(data, Clusters) else data
    n, events = float(tally.n[cells].sum()), float(tally.events[cells].sum())
    rate, size = events / n, n
    if isinstance(data, Clusters) or not tally.counts:
        part = data.within(cells) if isinstance(data, Clusters) else data
        if isinstance(part, Clusters) and part.size < FEWEST_CLUSTERS:
            return None, None
        inside = np.where(cells, 1.0 / n, 0.0)
        spread = spread_of(part, (1.0 - rate) * inside, -rate * inside, rate * (1.0 - rate) * inside**2)
        w2 = squared_weights(tally)[0][cells].sum()
        size = rate * (1.0 - rate) / spread.variance if spread.variance > 0.0 else n * n / float(w2)
        if np.isfinite(spread.df):
            size *= float(special.stdtrit(max(n - 1.0, 1.0), 0.975) / special.stdtrit(spread.df, 0.975)) ** 2
    low, high = clopper_pearson(np.array([rate * size]), np.array([size]), 1.0 - confidence)
    return min(float(low[0]), rate), max(float(high[0]), rate)  # without this, less than one event may exclude the rate


def _between(data: Clusters, hit: Floats, miss: Floats, expected: Floats | None) -> Spread:
    n, events = np.asarray(data.tally.n, dtype=np.float64), np.asarray(data.tally.events, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        own = (events * hit**2 + (n - events) * miss**2) / n if expected is None else expected
    parts = np.bincount(data.cluster, data.n * own[data.cell], data.size).astype(np.float64)
    rows = np.bincount(data.cluster, data.n, data.size).astype(np.float64) if expected is None else parts
    return between(data.sums(hit, miss), parts, data.alone, rows)


def between(sums: Floats, parts: Floats, alone: NDArray[np.bool_], weights: Floats | None = None) -> Spread:
    """The spread of a total from sums by cluster; ``parts`` are their variances if rows were independent.

    Clusters that are ``alone`` (single rows) add their ``parts``. ``weights`` are the contributions of the clusters to
    the estimate, ``parts`` by default. See :func:`spread_of`.
    """
    whole = float(parts.sum())
    if not whole > 0.0:
        return Spread(0.0, max(len(sums) - 1.0, 1.0))
    shares = parts / whole if weights is None else weights / float(weights.sum())
    b, squares = shares[~alone], sums[~alone] ** 2
    left = np.maximum(1.0 - b, 1e-9)
    shared = float((squares / left**2).sum())
    known = float(parts[alone].sum())
    excess = max((shared + known) / whole - 1.0, 0.0)
    tau = excess / float((b * b).sum()) if len(b) else 0.0
    return Spread(shared + known, _degrees(b, left, b + tau * b * b, 1.0 - float(b.sum())))


def _degrees(b: Floats, left: Floats, working: Floats, known: float) -> float:
    r"""Satterthwaite's degrees of freedom of the variance estimate.

    It is the quadratic form :math:`\sum_g q_g^2` of :math:`q_g = (S_g - b_g \sum_h S_h) / (1 - b_g)`, plus a part
    that is ``known``. With independent cluster sums of variance ``working`` its mean is the trace of the covariance P
    of q and its variance twice that of P squared; P is diagonal plus two outer products.
    """
    d, u, v, s = working / left**2, b / left, working / left, float(working.sum()) + known
    mean = float((d - 2.0 * u * v + s * u * u).sum())
    uu, vv, uv = (float((x * y).sum()) for x, y in ((u, u), (v, v), (u, v)))
    outer = 2.0 * (uu * vv + uv**2) - 4.0 * s * uu * uv + s * s * uu * uu
    square = float((d * d).sum()) + 2.0 * float((d * (s * u * u - 2.0 * u * v)).sum()) + outer
    return (mean + known) ** 2 / square if square > 0.0 else np.inf
