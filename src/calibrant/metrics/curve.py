r"""The error of the calibration curve in log-odds: one number with limits, from counts in ranges of the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.metrics.chance import units_of
from calibrant.metrics.variance import Rates, ratio_rate
from calibrant.numerics import Floats
from calibrant.tallies import Clusters, Tally

FEWEST_RANGES, MOST_RANGES = 10, 50
"""Ranges into which scores are cut if there is information enough; dependent rows only into the former: their variance
is larger for errors that many ranges share, which noise in many ranges would hide."""

RANGE_INFORMATION, LEAST_RANGE_INFORMATION = 50.0, 30.0
"""Information (the sum of p (1 - p)) of a range that is aimed at, and the least with which a range is made."""

FEWEST_WORTH, CLUSTERS_OF_A_RANGE = 20.0, 20
"""Clusters of equal size (Kish 1965) that a range of dependent rows is worth at least, and clusters for each range:
fewer tell too little about the variance between them."""

LEVEL = 0.04
"""Level of each of the two one-sided tests. With 5 % the chi-square approximation lets a few rare worlds through in
more than 5 % of samples; with 4 % none was found (``benchmarks/verdict.py``)."""

LEAST_VARIANCE = 1e-3
"""Of dependent rows, beside that of independent ones: groups with the same rate in every range would have none."""

MANY_EVENTS = 40
"""From here on the log of a Poisson number has the variance of one over its mean, and no bias, within 2 %."""

FARTHEST = 20.0
"""Errors above this are not distinguished."""


@dataclass(frozen=True, eq=False)
class CurveError:
    r"""How far the calibration curve is from the diagonal, seen in ranges of the scores.

    The scores are cut into K ranges of about equal information :math:`\sum p (1 - p)`; ties are never split. With the
    mean score :math:`\bar p_b`, the mean of the true rates :math:`\bar q_b` and the rows :math:`n_b` of a range, the
    error is the root mean square of the log-odds between them,

    .. math:: \delta = \Bigl(\sum_b W_b d_b^2 \Big/ \sum_b W_b\Bigr)^{1/2}, \qquad
              d_b = \operatorname{logit} \bar q_b - \operatorname{logit} \bar p_b, \qquad
              W_b = n_b \bar p_b (1 - \bar p_b) .

    Each :math:`d_b` is estimated by :math:`\hat d_b`, from the log-odds of the :math:`O_b` events with half an
    event added to either class (Haldane 1956, Anscombe 1956), and :math:`T = \sum_b W_b \hat d_b^2`. An error
    :math:`\delta` is tested with the estimated shape, that is with rates :math:`\operatorname{logit} q_b =
    \operatorname{logit} \bar p_b + \delta \hat d_b (\sum W_b / T)^{1/2}`. With :math:`r_b = \min(q_b, 1 - q_b)`,
    and M a Poisson number of mean :math:`n_b r_b`,

    .. math:: \beta_b = E \log(M + 1/2) - \log(n_b r_b), \qquad
              v_b = \frac{\sum p (1 - p)}{W_b} \, \frac{\operatorname{Var} \log(M + 1/2)}{1 - r_b}

    are the bias and the variance of :math:`\hat d_b` in a model that is wrong by :math:`\delta`; a calibrated one
    may have others. So T has about the mean :math:`\Lambda + \sum w_b` and the variance :math:`2 \sum w_b^2 + 4
    \Lambda \rho`, where :math:`w_b = W_b v_b`, :math:`\Lambda` is the sum of :math:`W_b` times the square of the
    biased distance, and :math:`\rho` the mean of :math:`w_b` weighted by the terms of :math:`\Lambda`. With
    :math:`c = (\sum w_b^2 + 2 \Lambda \rho) / (\sum w_b + 2 \Lambda)`, a non-central chi-square variable of
    :math:`\sum w_b / c` degrees of freedom and non-centrality :math:`\Lambda / c`, times c, has the same mean and
    variance, and T is compared with it. Dependent rows change :math:`w_b` to the matrix of covariances between
    ranges.
    A single range is tested exactly, by the binomial distribution.

    Attributes
    ----------
    low_score, high_score
        Lowest and highest score of each range.
    rows, predicted, information, events
        Sums over the rows of each range; effective numbers for importance weights.
    covariance, rate
        For dependent rows: covariance of the events between ranges; of a single range its event rate.
    """

    low_score: Floats
    high_score: Floats
    rows: Floats
    predicted: Floats
    information: Floats
    events: Floats
    covariance: Floats | None = None
    rate: Rates | None = None

    @classmethod
    def of(cls, data: Tally | Clusters, limit: float) -> CurveError:
        """From a tally of probabilities, in ranges that can tell an error of ``limit`` from none."""
        tally = data.tally if isinstance(data, Clusters) else data
        scores = np.clip(tally.scores, *tally.ends)
        n, events = np.asarray(tally.n, dtype=np.float64), np.asarray(tally.events, dtype=np.float64)
        if not tally.counts and not isinstance(data, Clusters):
            hit, miss = units_of(tally)
            effect = hit * (1.0 - scores) + miss * scores
            n, events = n / effect, events / effect
        information = n * scores * (1.0 - scores)
        dependent = isinstance(data, Clusters)
        starts = _starts(scores, information, limit, FEWEST_RANGES if dependent else MOST_RANGES)
        if isinstance(data, Clusters):
            starts = _with_clusters(data, starts, scores * (1.0 - scores))
        rows, due, known, hits = (np.add.reduceat(each, starts) for each in (n, n * scores, information, events))
        ends = np.append(starts[1:], len(scores)) - 1
        found = cls(tally.scores[starts], tally.scores[ends], rows, due, known, hits)
        if not isinstance(data, Clusters):
            return found
        if len(found) == 1:
            return replace(found, rate=ratio_rate(data))
        place, size = np.searchsorted(starts, data.cell, side="right") - 1, (data.size, len(starts))
        sums_of = np.zeros(size)
        np.add.at(sums_of, (data.cluster, place), data.events - (found.events / found.rows)[place] * data.n)
        shares = _by_cluster(data, place, size, scores * (1.0 - scores))
        sums_of /= np.maximum(1.0 - shares / shares.sum(axis=0), 0.5)  # the jackknife, as in spread_of
        own = found.rows * (rate := found.events / found.rows) * (1.0 - rate)
        return replace(found, covariance=sums_of.T @ sums_of + np.diag(LEAST_VARIANCE * np.maximum(own, 1.0)))

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self.rows)

    @property
    def rarer(self) -> float:
        """Events or non-events, whichever are fewer."""
        return float(min(self.events.sum(), (self.rows - self.events).sum()))

    @cached_property
    def weights(self) -> Floats:
        """Weight of each range: its information at the mean score."""
        mean = self.predicted / self.rows
        return self.rows * mean * (1.0 - mean)

    @cached_property
    def distances(self) -> Floats:
        """Estimated log-odds between events and scores of each range."""
        mean = self.predicted / self.rows
        return np.asarray(np.log((self.events + 0.5) / (self.rows - self.events + 0.5)) - special.logit(mean))

    @cached_property
    def _statistic(self) -> float:
        return float((self.weights * self.distances**2).sum())

    def _moments(self, error: float) -> tuple[float, float, float, float]:
        """Under an error of the estimated shape: non-centrality, sum of w and of its squares, and w where the error is.

        For dependent rows the sums are traces, of the matrix of covariances and of its square.
        """
        weights = self.weights
        u = np.sqrt(weights) * self.distances
        u /= max(float(np.sqrt(u @ u)), 1e-300)
        shape = u * np.sqrt(float(weights.sum()) / weights)
        rate = special.expit(special.logit(self.predicted / self.rows) + error * shape)
        rare = np.minimum(rate, 1.0 - rate)
        bias, variance = _log_moments(self.rows * rare)
        each = variance / (1.0 - rare)
        away = np.sqrt(weights) * (error * shape + np.where(rate < 0.5, bias, -bias))
        far = float(away @ away)
        if self.covariance is None:
            w = each * self.information
            return far, float(w.sum()), float((w * w).sum()), float(away * away @ w) / max(far, 1e-300)
        lever = np.sqrt(weights) * each
        matrix = lever[:, None] * self.covariance * lever
        mean = float(np.trace(matrix))
        there = float(away @ matrix @ away) / max(far, 1e-300)
        return far, mean, float((matrix * matrix).sum()), max(there, mean / len(self))

    def p_values(self, error: float) -> tuple[float, float]:
        """Probabilities of a statistic as small, and as large, as the observed one, if this is the error."""
        if len(self) == 1:
            return self._exact(error) if self.rate is None else self.rate.p_of_distance(error)
        away, mean, square, there = self._moments(error)
        scale = (square + 2.0 * away * there) / (mean + 2.0 * away)
        return _tails(self._statistic / scale, mean / scale, away / scale)

    def _exact(self, error: float) -> tuple[float, float]:
        """The same for one range, whose events are at most as spread as binomial ones (Hoeffding 1956)."""
        n, events = float(self.rows[0]), float(self.events[0])
        middle = float(special.logit(self.predicted[0] / n))
        high, low = special.expit(middle + error), special.expit(middle - error)
        at_most = float(special.betainc(n - events, events + 1.0, 1.0 - high)) if events < n else 1.0
        at_least = float(special.betainc(events, n - events + 1.0, low)) if events > 0.0 else 1.0
        above = float(special.betainc(events, n - events + 1.0, high)) if events > 0.0 else 1.0
        below = float(special.betainc(n - events, events + 1.0, 1.0 - low)) if events < n else 1.0
        return max(at_most, at_least), min(2.0 * min(above, below), 1.0)

    @property
    def value(self) -> float:
        """The estimated error: the root of the statistic without what noise adds to it."""
        total, there = float(self.weights.sum()), self._statistic
        return float(np.sqrt(max(there - self._moments(np.sqrt(there / total))[1], 0.0) / total))

    @cached_property
    def interval(self) -> tuple[float, float]:
        """90 % interval: errors that neither one-sided test rejects."""
        low = 0.0 if self.p_values(0.0)[1] > LEVEL else self._crossing(lambda error: self.p_values(error)[1] - LEVEL)
        return low, self._crossing(lambda error: LEVEL - self.p_values(error)[0])

    def power(self, error: float, limit: float, ratio: float) -> float:
        """Probability that a sample ``ratio`` times as large shows that an ``error`` is within the limit."""
        total = float(self.information.sum()) * ratio
        df = float(min(_count(total, limit), max(len(self), 1) * ratio))
        allowed, there = limit**2 * total, error**2 * total
        low, high = 0.0, df + allowed
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _tails(middle, df, allowed)[0] < LEVEL else (low, middle)
        return _tails(high, df, there)[0]

    @property
    def points(self) -> float:
        """What an error of one in log-odds is in rates: the root mean square of p (1 - p)."""
        mean = self.predicted / self.rows
        return float(np.sqrt((self.rows * (mean * (1.0 - mean)) ** 2).sum() / self.rows.sum()))

    def _crossing(self, rising: object) -> float:
        """Where a rising function of the error crosses 0, by bisection."""
        low, high = 0.0, 0.1
        while rising(high) < 0.0 and high < FARTHEST:  # type: ignore[operator]
            low, high = high, 2.0 * high
        for _ in range(24):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)  # type: ignore[operator]
        return high


def _count(total: float, limit: float) -> int:
    """Ranges for this much information: the log-odds of each are then known to the limit over the root of 2."""
    return int(np.clip(total / max(RANGE_INFORMATION, 2.0 / limit**2), FEWEST_RANGES, MOST_RANGES))


def _starts(scores: Floats, information: Floats, limit: float, most: int) -> NDArray[np.intp]:
    """First cell of each range."""
    total = float(information.sum())
    count = min(_count(total, limit), most)
    if len(scores) <= most and total >= LEAST_RANGE_INFORMATION * len(scores):
        count = max(count, len(scores))
    count = max(min(count, int(total / LEAST_RANGE_INFORMATION), len(scores)), 1)
    if count == len(scores):
        code = np.arange(count)
    else:
        middle = (np.cumsum(information) - 0.5 * information) / max(total, 1e-300)
        code = np.minimum((middle * count).astype(np.intp), count - 1)
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    while len(starts) > 1:  # a range with less than half of the least joins its poorer neighbor
        each = np.add.reduceat(information, starts)
        if each.min() >= 0.5 * LEAST_RANGE_INFORMATION:
            break
        starts = _joined(starts, each)
    return starts


def _by_cluster(data: Clusters, place: NDArray[np.intp], size: tuple[int, int], variance: Floats) -> Floats:
    """Information of each cluster in each range."""
    found = np.zeros(size)
    np.add.at(found, (data.cluster, place), data.n * variance[data.cell])
    return found


def _with_clusters(data: Clusters, starts: NDArray[np.intp], variance: Floats) -> NDArray[np.intp]:
    """Starts of ranges whose information comes from enough clusters; others join their poorer neighbor."""
    while len(starts) > 1:
        place = np.searchsorted(starts, data.cell, side="right") - 1
        shares = _by_cluster(data, place, (data.size, len(starts)), variance)
        worth = shares.sum(axis=0) ** 2 / np.maximum((shares**2).sum(axis=0), 1e-300)
        if worth.min() >= FEWEST_WORTH and CLUSTERS_OF_A_RANGE * len(starts) <= data.size:
            break
        starts = _joined(starts, worth)
    return starts


def _joined(starts: NDArray[np.intp], worth: Floats) -> NDArray[np.intp]:
    """The poorest range joined with its poorer neighbor."""
    poor = int(worth.argmin())
    upward = poor == 0 or (poor < len(worth) - 1 and worth[poor + 1] < worth[poor - 1])
    return np.delete(starts, poor + 1 if upward else poor)


def _log_moments(mean: Floats) -> tuple[Floats, Floats]:
    """Bias and variance of log(M + 1/2) as an estimate of log(mean), for a Poisson number M."""
    few = np.clip(mean, 1e-3, MANY_EVENTS)[:, None]
    counts = np.arange(3 * MANY_EVENTS)
    mass = np.exp(counts * np.log(few) - few - special.gammaln(counts + 1.0))
    logs = np.log(counts + 0.5)
    first = mass @ logs
    variance = mass @ (logs * logs) - first * first
    many = mean > MANY_EVENTS
    return np.where(many, 0.0, first - np.log(few[:, 0])), np.where(many, 1.0 / np.maximum(mean, 1.0), variance)


def _tails(x: float, df: float, away: float) -> tuple[float, float]:
    """Both tails of the non-central chi-square distribution; Sankaran's (1963) normal approximation far out."""
    if df < 5.0 and away < 500.0:
        below = float(special.chndtr(x, df, away))
        return below, 1.0 - below
    h = 1.0 - 2.0 * (df + away) * (df + 3.0 * away) / (3.0 * (df + 2.0 * away) ** 2)
    v, m = (df + 2.0 * away) / (df + away) ** 2, (h - 1.0) * (1.0 - 3.0 * h)
    z = (x / (df + away)) ** h - 1.0 - h * v * (h - 1.0 - (2.0 - h) * m * v / 2.0)
    z /= h * np.sqrt(2.0 * v) * (1.0 + m * v / 2.0)
    return float(special.ndtr(z)), float(special.ndtr(-z))
