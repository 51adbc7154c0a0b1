r"""Variance of a sum over rows: independent rows, importance weights, clusters.

Every estimate here equals its population value plus a sum over rows of influences, up to terms of higher order. The
influence of a row depends on its score and label. Dependence and weights only change the variance of that sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import note
from calibrant.numerics import Floats
from calibrant.tallies import Clusters, Tally, scores_of

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


FEW_EVENTS = 10
"""With fewer events or non-events than this, an interval is not shorter than that of as many rows alike."""


@dataclass(frozen=True)
class Rates:
    r"""Observed event rates of one or more sets of rows, with intervals that are right when the predictions are wrong.

    A rate errs as :math:`\sum_i (y_i - m_i)` does, where :math:`m_i` are predictions corrected to the observed rate.
    The squares :math:`\sum_i (y_i - m_i)^2` estimate its variance whatever the predictions are, and :math:`n^*` is the
    number of equal independent rows in which the rate has this variance. The interval is Clopper and Pearson's (1934)
    for :math:`n^*` rows, with the tails of Student's distribution: residuals near 0 and 1 have about twice as many
    degrees of freedom as their squares add up to.

    Attributes
    ----------
    rate, mean
        Observed rate, and mean prediction.
    size, df
        Effective sample size :math:`n^*`, and degrees of freedom.
    variance
        Variance of the number of events.
    """

    rate: Floats
    mean: Floats
    size: Floats
    df: Floats
    variance: Floats

    @classmethod
    def of(
        cls,
        rows: Floats,
        events: Floats,
        predicted: Floats,
        squares: Floats,
        model: Floats,
        df: Floats | float = np.inf,
        unit: Floats | float = 1.0,
        units: Floats | None = None,
    ) -> Rates:
        """From sums over each set: ``squares`` of the residuals, and the ``model`` variance of calibrated predictions.

        Sums of weights are divided by ``unit``, the sum of squared weights over that of the weights. ``units`` is the
        number of independent rows that dependent ones are worth, where there are no events or nothing else.

        Surprises of confident predictions are few, and may all be missing in a sample. So a variance of a few events is
        no less than the model's, in proportion to the events (or non-events) that are fewer than predicted.
        """
        rows, events, predicted = rows / unit, events / unit, predicted / unit
        squares, model = squares / np.square(unit), model / np.square(unit)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.fmin(np.fmin(events / predicted, (rows - events) / (rows - predicted)), 1.0)
            variance = np.fmax(squares, np.fmin(model * share, FEW_EVENTS))
            both = (events > 0.0) & (events < rows) & (variance > 0.0)
            size = np.where(both, events * (rows - events) / variance, rows if units is None else units)
            few = np.minimum(events, rows - events) < FEW_EVENTS
            degrees = np.minimum(df, np.where(few, np.inf, 2.0 * (variance + 1.0)))
            return cls(
                events / rows,
                predicted / rows,
                np.where(few, np.minimum(size, rows), size),
                degrees,
                variance * np.square(unit),
            )

    def ratios(self, confidence: float) -> tuple[Floats, Floats]:
        """Intervals of observed over predicted events; from 0 to infinity where none are predicted."""
        tail = (1.0 + confidence) / 2.0
        ends = self.within(np.where(np.isinf(self.df), special.ndtri(tail), special.stdtrit(self.df, tail)))
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (
                np.where(self.mean > 0.0, end / self.mean, none) for end, none in zip(ends, (0.0, np.inf), strict=True)
            )
        return low, high

    def within(self, errors: Floats | float) -> tuple[Floats, Floats]:
        """Rates at most this many standard errors from the observed ones."""
        low, high = clopper_pearson(self.rate * self.size, self.size, 2.0 * special.ndtr(-np.asarray(errors)))
        return np.minimum(low, self.rate), np.maximum(high, self.rate)

    def errors(self, at: Floats | float) -> Floats:
        """Distance of rates from the observed ones in standard errors, by the binomial tails; at least 0."""
        k, rest = self.rate * self.size, (1.0 - self.rate) * self.size
        with np.errstate(invalid="ignore"):
            above, below = special.betainc(k, rest + 1.0, at), special.betaincc(k + 1.0, rest, at)
            tail = np.nan_to_num(np.where(self.rate > at, above, below), nan=1.0)
        return np.asarray(np.maximum(-special.ndtri(np.clip(tail, 0.0, 1.0)), 0.0))

    @property
    def p_values(self) -> Floats:
        """Two-sided, for the hypothesis that the rate is the mean prediction."""
        return self._two_sided(self.mean)

    def p_within(self, limit: float) -> Floats:
        """Two-sided, for the hypothesis that the log-odds of rate and mean prediction differ by at most ``limit``."""
        with np.errstate(divide="ignore"):
            middle = special.logit(self.mean)
        nearer = special.expit(middle + np.where(self.rate > self.mean, limit, -limit))
        inside = np.where(self.rate > self.mean, self.rate <= nearer, self.rate >= nearer)
        return np.where(inside, 1.0, self._two_sided(nearer))

    def p_of_distance(self, limit: float) -> tuple[float, float]:
        """Of the first rate: p-values that the log-odds differ by at least, and by at most, ``limit``."""
        ends = special.expit(special.logit(self.mean[0]) + np.array([-limit, limit]))
        inside = ends[0] < self.rate[0] < ends[1]
        near = max(0.5 * float(self._two_sided(end)[0]) for end in ends) if inside else 1.0
        return near, float(self.p_within(limit)[0])

    def _two_sided(self, at: Floats | float) -> Floats:
        far = -self.errors(at)
        return np.asarray(2.0 * np.where(np.isinf(self.df), special.ndtr(far), special.stdtr(self.df, far)))


def ratio_rates(
    tallies: Sequence[Tally], spreads: Sequence[Spread] | None = None, units: Sequence[float] | None = None
) -> Rates:
    """Event rates of several tallies; for dependent rows with variances of the events, and numbers of clusters."""
    place, s = np.repeat(np.arange(len(tallies)), [len(tally) for tally in tallies]), scores_of(tallies)
    columns = [(tally.n, tally.events, *squared_weights(tally)) for tally in tallies]
    n, events, w2, w2_events = (np.concatenate([np.zeros(0), *each]) for each in zip(*columns, strict=True))

    def added(values: Floats) -> Floats:
        return np.bincount(place, values, len(tallies)).astype(np.float64)

    rows, hits, due, own, square = map(added, (n, events, n * s, w2 * s * (1.0 - s), w2))
    unit = np.divide(square, rows, out=np.ones_like(rows), where=rows > 0.0)
    m = s * np.divide(hits, due, out=np.ones_like(due), where=due > 0.0)[place]
    squares = added(w2_events * (1.0 - m) ** 2 + (w2 - w2_events) * m**2)
    if spreads is None:
        return Rates.of(rows, hits, due, squares, own, unit=unit)
    squares, df = (np.array([getattr(each, name) for each in spreads]) for name in ("variance", "df"))
    return Rates.of(rows, hits, due, squares, own, df, unit, None if units is None else np.array(units))


def ratio_rate(data: Tally | Clusters) -> Rates:
    """The event rate of rows that may be dependent."""
    if isinstance(data, Tally):
        return ratio_rates([data])
    tally = data.tally
    predicted = float((tally.n * tally.scores).sum())
    m = tally.scores * (float(tally.positives) / predicted if predicted > 0.0 else 1.0)
    sizes = np.bincount(data.cluster, data.n).astype(np.float64)
    return ratio_rates([tally], [spread_of(data, 1.0 - m, -m)], [kish(sizes)])


def kish(weights: Floats) -> float:
    """Number of equal weights with this sum and this sum of squares (Kish 1965).

    Examples
    --------
    >>> kish(np.array([1.0, 1.0, 2.0])).__round__(2)
    2.67
    """
    return float(weights.sum() ** 2 / np.square(weights).sum()) if weights.any() else 0.0


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
