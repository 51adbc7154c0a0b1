"""Normalized entropy: the log loss relative to that of the base rate."""

from __future__ import annotations

import math

import numpy as np

from calibrant.messages import note
from calibrant.metrics.binary.bins import Scores, tally_of
from calibrant.metrics.binary.means import logarithmic_loss
from calibrant.metrics.estimates import TWO_SIDED, Estimate
from calibrant.metrics.variance import spread_of
from calibrant.numerics import Column

one_class_entropy = note("one-class-entropy", "undefined with one class: its base rate has no entropy")


def normalized_entropy(scores: Scores, y: Column = None, sample_weight: Column = None) -> Estimate:
    r"""Log loss divided by the entropy of the base rate; below 1 is better than predicting the base rate.

    .. math:: \mathrm{NE} = \frac{\frac1n \sum_i -\log P_{s_i}(y_i)}{-r \log r - (1 - r) \log(1 - r)}, \qquad
              r = \frac1n \sum_i y_i .

    It allows comparing log losses across samples with different base rates, such as click logs of several days.

    Parameters
    ----------
    scores, y, sample_weight
        Probabilities, labels and weights; or a tally alone.

    Returns
    -------
    Estimate
        Value with standard error and 95 % interval; infinite if an event has the score 0 or a non-event the score 1,
        NaN with one class.

    Notes
    -----
    The standard error is by the delta method, with row contributions
    :math:`(\ell_i - L)/H - L H'(r) (y_i - r)/H^2`, where L is the mean loss, H the entropy and
    :math:`H'(r) = \log((1 - r)/r)`.
    Guarantee: no finite-sample guarantee.
    Cost: one pass over the cells.
    Reference: He et al. (2014), Practical lessons from predicting clicks on ads at Facebook.

    Examples
    --------
    >>> round(normalized_entropy([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1]).value, 6)
    1.0
    >>> round(normalized_entropy([0.1, 0.9, 0.2, 0.8], [0, 1, 0, 1]).value, 3)
    0.237
    """
    tally = tally_of(scores, y, sample_weight)
    name, total = "normalized entropy", float(tally.total)
    rate = float(tally.positives) / total
    if rate in (0.0, 1.0):
        return Estimate(name, math.nan, notes=(one_class_entropy(),))
    s = tally.scores
    hits, misses = np.asarray(tally.events, dtype=np.float64), np.asarray(tally.n - tally.events, dtype=np.float64)
    if hits[s == 0.0].sum() + misses[s == 1.0].sum() > 0.0:
        return Estimate(name, math.inf)
    hit, miss = logarithmic_loss(s)
    loss = float((hits * hit + misses * miss).sum()) / total
    entropy = -rate * math.log(rate) - (1.0 - rate) * math.log1p(-rate)
    bend = loss * math.log((1.0 - rate) / rate) / entropy**2
    parts = ((hit - loss) / entropy - bend * (1.0 - rate), (miss - loss) / entropy + bend * rate)
    se = math.sqrt(spread_of(tally, *parts).variance) / total
    value = loss / entropy
    return Estimate(name, value, se, max(value - TWO_SIDED * se, 0.0), value + TWO_SIDED * se)
