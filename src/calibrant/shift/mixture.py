"""Test of label shift: whether new scores are a mixture of old events and old non-events."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.messages import Shown
from calibrant.numerics import Floats
from calibrant.tallies import Tally

MAX_BINS, MIN_BINS, ROWS_PER_BIN = 10, 3, 8
"""Limits of the number of bins; per bin, the minority class of the old rows and the new rows have eight rows."""

ALPHA = 0.01
"""Significance level at which the assumption is rejected."""


@dataclass(frozen=True)
class MixtureFit(Shown):
    """Chi-square test that new scores are a mixture of the old classes.

    Attributes
    ----------
    statistic, df, p_value
        Chi-square statistic, its degrees of freedom (bins minus two) and its p-value.
    rate, se
        Share of old events in the best-fitting mixture, with its standard error: an estimate of the base rate from bins
        alone, without the map; NaN for several classes.
    about
        What is mixed, in words.
    """

    statistic: float
    df: int
    p_value: float
    rate: float
    se: float
    about: str = "old events and old non-events"

    @property
    def holds(self) -> bool:
        """Whether the test does not reject the assumption."""
        return self.p_value >= ALPHA

    def __str__(self) -> str:
        """One sentence."""
        how = (
            f"(mixture of {self.about}: chi-square {self.statistic:.1f} on {self.df} degrees of "
            f"freedom, p = {self.p_value:.2g})"
        )
        if self.holds:
            return f"The new scores are consistent with label shift {how}."
        return (
            f"The new scores contradict label shift {how}: more than the base rate changed, so do not use this "
            "correction."
        )


def fit_mixture(source: Tally, new: Tally, rate: float) -> MixtureFit | None:
    r"""Test of label shift on bins of the score.

    .. math::
        X^2 = \min_\pi\, d(\pi)^\top V^{-1} d(\pi), \qquad d(\pi) = q - \pi f_1 - (1 - \pi) f_0,

    where q are the shares of new rows by bin, :math:`f_1` and :math:`f_0` those of old events and of old non-events,
    and V is the covariance of d, which includes the sampling error of all three. Under label shift it is approximately
    chi-square with bins - 2 degrees of freedom.

    Notes
    -----
    Bins have equal mass when the two old classes have weight one half each, so rare events have bins too. The result is
    None if there would be fewer than three bins. Importance weights enter through the effective sample size.
    Guarantee: asymptotic significance level; a shift that keeps the mixture is not detected. Cost: O(cells).
    Reference: Neyman (1949), minimum chi-square; Lipton, Wang and Smola (2018) for the mixture.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> y = rng.random(2000) < 0.5
    >>> source = Tally.from_arrays(np.where(y, rng.beta(4, 2, 2000), rng.beta(2, 4, 2000)), y)
    >>> moved = Tally.from_arrays(rng.beta(20, 20, 1000), rng.random(1000) < 0.5)
    >>> fit_mixture(source, moved, 0.5).holds
    False
    """
    per_weight = source.effective_size / source.total
    events, others = source.positives * per_weight, (source.total - source.positives) * per_weight
    n_bins = min(MAX_BINS, int(min(events, others, new.effective_size) / ROWS_PER_BIN))
    if n_bins < MIN_BINS:
        return None
    starts, edges = _balanced(source, n_bins)
    if len(edges) + 1 < MIN_BINS:
        return None
    hits = np.add.reduceat(source.events, starts) / source.positives
    rest = np.add.reduceat(source.n - source.events, starts) / (source.total - source.positives)
    # A gridded score is truncated to 30 bits of its octave: tied scores on an edge must not fall below it.
    index = np.searchsorted(edges if new.grid is None else edges * (1.0 - 2.0**-29), new.scores, side="right")
    shares = np.bincount(index, new.n, minlength=len(hits)) / new.total
    return _minimum_chi_square(shares, hits, rest, (new.effective_size, events, others), rate)


def _balanced(source: Tally, n_bins: int) -> tuple[NDArray[np.intp], Floats]:
    """First cell and inner edges of bins of equal mass, both classes weighted alike; a cell is never split."""
    others = source.n - source.events
    mass = np.cumsum(source.events / source.positives + others / others.sum()) / 2.0
    ends = np.searchsorted(mass, np.arange(1, n_bins) / n_bins - 1e-12, side="left") + 1
    inner = np.unique(ends[ends < len(mass)])
    return np.append(0, inner), source.lower_edges[inner]


def _minimum_chi_square(
    shares: Floats, hits: Floats, rest: Floats, sizes: tuple[float, float, float], rate: float
) -> MixtureFit:
    """Three rounds of generalized least squares, with the covariance at the last rate; one bin is redundant."""
    for _ in range(3):
        mix = rate * hits + (1.0 - rate) * rest
        parts = zip((mix, hits, rest), sizes, (1.0, rate**2, (1.0 - rate) ** 2), strict=True)
        covariance = sum(weight * multinomial(part, size) for part, size, weight in parts)
        slope, level = (hits - rest)[:-1], (shares - rest)[:-1]
        inverse = np.linalg.pinv(np.asarray(covariance), hermitian=True)
        gain = float(np.einsum("i,ij,j->", slope, inverse, slope))
        best = float(np.einsum("i,ij,j->", slope, inverse, level)) / gain if gain > 0.0 else rate
        rate = min(max(best, 0.0), 1.0)
    gap = level - rate * slope
    statistic, df = float(np.einsum("i,ij,j->", gap, inverse, gap)), len(shares) - 2
    se = gain**-0.5 if gain > 0.0 else math.inf
    return MixtureFit(statistic, df, float(special.chdtrc(df, statistic)), rate, se)


def multinomial(shares: Floats, size: float) -> Floats:
    """Covariance of observed shares; half a row is added to each bin, so that no share is 0 or 1."""
    smooth = (shares * size + 0.5) / (size + 0.5 * len(shares))
    return np.asarray(np.diag(smooth) - np.multiply.outer(smooth, smooth))[:-1, :-1] / size
