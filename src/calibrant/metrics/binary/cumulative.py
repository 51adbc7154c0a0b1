"""Calibration without bins or kernels: cumulative differences between labels and scores, and their distributions."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from calibrant.arrays.columns import check_option
from calibrant.metrics.binary.bins import Scores, tally_of
from calibrant.metrics.chance import expected_squares
from calibrant.metrics.estimates import Estimate, Ideal, metric
from calibrant.numerics import Column, Floats
from calibrant.tallies import Tally

Statistic = Literal["max", "range"]

CROSSING = 1.5
"""Argument at which one series of a distribution replaces the other: here both converge in a few terms."""

TERMS = 12
"""Terms of each series on its side of ``CROSSING``; the first omitted term is below 1e-40."""

NULL_MEAN = {"max": math.sqrt(math.pi / 2.0), "range": math.sqrt(8.0 / math.pi)}
"""Means of max |W| and of max W - min W over [0, 1], for a Brownian motion W."""

NULL_HIGH = {"max": 2.2414027273321415, "range": 2.49767216104865}
"""Their 95 % quantiles."""


@metric(Ideal.ZERO)
def ecce(scores: Scores, y: Column = None, sample_weight: Column = None, *, statistic: Statistic = "max") -> Estimate:
    r"""Estimated cumulative calibration error (ECCE): largest cumulative difference of labels and scores.

    .. math:: C_k = \frac1n \sum_{i \le k} (y_{(i)} - s_{(i)}), \qquad
              \text{max} = \max_k |C_k|, \qquad \text{range} = \max_k C_k - \min_k C_k,

    where rows are ordered by score and :math:`C_0 = 0` counts in both. ``"max"`` is Kolmogorov and Smirnov's statistic,
    ``"range"`` is Kuiper's: the largest absolute sum of :math:`y - s` over any interval of scores, divided by n.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    statistic
        ``"max"`` or ``"range"``; the range lies between once and twice the maximum.

    Returns
    -------
    Estimate
        Value, and null values of a calibrated model.

    Notes
    -----
    Edges: tied scores have no order, so C is read only at the end of each distinct score. No choice of bins or kernel
    enters. Weights count as repetition.
    Null: for a calibrated model C is a random walk with variance
    :math:`\sigma^2 = \sum_i w_i^2 s_i (1 - s_i) / (\sum_i w_i)^2` at its end; ``null`` and ``null_high`` are the mean
    and the 95 % quantile for a Brownian motion of that variance. A walk is seen only at its distinct scores, so both
    are a little too high, and much too high for a handful of distinct scores.
    Guarantee: no finite-sample guarantee; the null distribution is asymptotic.
    Cost: O(cells).
    References: Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu (2022), Metrics of calibration for probabilistic
    predictions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < scores**1.5).astype(int)
    >>> print(ecce(scores, y))
    ECCE, largest cumulative difference: 0.1021 (a perfectly calibrated model would show 0.0114 here, and
    more than 0.0204 in one sample of twenty)
    """
    check_option("statistic", statistic, get_args(Statistic))
    tally = tally_of(scores, y, sample_weight)
    lowest, highest, variance = _walk(tally)
    value = max(highest, -lowest) if statistic == "max" else highest - lowest
    what = "largest cumulative difference" if statistic == "max" else "range of cumulative differences"
    sd = math.sqrt(variance)
    return Estimate(f"ECCE, {what}", value, null=NULL_MEAN[statistic] * sd, null_high=NULL_HIGH[statistic] * sd)


def brownian_max_sf(x: ArrayLike) -> Floats:
    r"""Probability that a Brownian motion leaves [-x, x] by time 1.

    .. math:: P(\max_{t \le 1} |W_t| > x) = 4 \sum_{k \ge 0} (-1)^k Q\bigl((2k+1)x\bigr)
              = 1 - \frac4\pi \sum_{k \ge 0} \frac{(-1)^k}{2k+1} e^{-\pi^2 (2k+1)^2 / (8x^2)},

    where Q is the upper tail of the standard normal distribution. The first series is used for large x, the second for
    small.

    Notes
    -----
    Edges: 1 for :math:`x \le 0`, 0 at infinity, NaN for NaN.
    Guarantee: accurate to 1e-14, and relatively so in the upper tail.
    Cost: 12 terms per value.
    References: Feller (1971), An Introduction to Probability Theory and Its Applications II, section X.5.

    Examples
    --------
    >>> brownian_max_sf([0.0, 2.2414027273321415]).round(12).tolist()
    [1.0, 0.05]
    """
    x = np.asarray(x, dtype=np.float64)
    odd = 2.0 * np.arange(TERMS) + 1.0
    sign = np.where(np.arange(TERMS) % 2, -1.0, 1.0)
    upper = 4.0 * (sign * ndtr(-odd * _far(x))).sum(axis=-1)
    lower = (4.0 / np.pi) * (sign / odd * np.exp(-((np.pi * odd / _near(x)) ** 2) / 8.0)).sum(axis=-1)
    return _joined(x, upper, lower)


def brownian_range_sf(x: ArrayLike) -> Floats:
    r"""Probability that the range of a Brownian motion on [0, 1] exceeds x.

    .. math:: P(\max W - \min W > x) = 8 \sum_{k \ge 1} (-1)^{k-1} k\, Q(kx)
              = 1 - 8 \sum_{k\ \text{odd}} \Bigl(\frac{1}{\pi^2 k^2} + \frac1{x^2}\Bigr) e^{-\pi^2 k^2 / (2x^2)},

    where Q is the upper tail of the standard normal distribution. The first series integrates Feller's density; the
    second comes from the probability of staying in an interval, integrated over the starting point.

    Notes
    -----
    Edges: 1 for :math:`x \le 0`, 0 at infinity, NaN for NaN.
    Guarantee: accurate to 1e-13, and relatively so in the upper tail.
    Cost: 12 terms per value.
    References: Feller (1951), The asymptotic distribution of the range of sums of independent random
    variables.

    Examples
    --------
    >>> brownian_range_sf([0.0, 2.49767216104865]).round(12).tolist()
    [1.0, 0.05]
    """
    x = np.asarray(x, dtype=np.float64)
    k, odd = np.arange(1.0, TERMS + 1.0), 2.0 * np.arange(TERMS) + 1.0
    near = _near(x)
    upper = 8.0 * (np.where(k % 2, k, -k) * ndtr(-k * _far(x))).sum(axis=-1)
    decay = np.exp(-((np.pi * odd / near) ** 2) / 2.0)
    lower = 8.0 * ((1.0 / (np.pi * odd) ** 2 + near**-2.0) * decay).sum(axis=-1)
    return _joined(x, upper, lower)


def _walk(tally: Tally) -> tuple[float, float, float]:
    """Lowest and highest point of the walk, 0 included, and its variance at the end if the model is calibrated."""
    lowest = highest = reached = variance = 0.0
    for scores, n, events in tally.pieces():
        path = reached + np.cumsum(events - n * scores)
        lowest, highest, reached = min(lowest, float(path.min())), max(highest, float(path.max())), float(path[-1])
        if tally.counts:
            variance += float((n * (scores * (1.0 - scores))).sum())
    if not tally.counts:
        variance = float((expected_squares(tally) * (tally.scores * (1.0 - tally.scores))).sum())
    total = float(tally.total)
    return lowest / total, highest / total, variance / total / total


def _far(x: Floats) -> Floats:
    """Arguments of the series for large x, with one more axis; ``CROSSING`` elsewhere."""
    return np.asarray(np.where(x >= CROSSING, x, CROSSING)[..., None])


def _near(x: Floats) -> Floats:
    """Arguments of the series for small x; below 0.01 the probability is 1 in double precision."""
    return np.asarray(np.clip(np.where(x < CROSSING, x, CROSSING), 0.01, None)[..., None])


def _joined(x: Floats, upper: Floats, lower: Floats) -> Floats:
    return np.asarray(np.where(np.isnan(x), np.nan, np.where(x >= CROSSING, upper, 1.0 - lower)))
