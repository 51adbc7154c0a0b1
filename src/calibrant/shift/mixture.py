"""Do new scores look like a mix of old events and old others? The test behind label shift."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.numerics import Floats
from calibrant.tallies import Tally

MOST_BINS, FEWEST_BINS, ROWS_PER_BIN = 10, 3, 8
"""Bins are at most ten, and so few that the rarer old class and the new rows have eight rows for each."""

DOUBTFUL = 0.01
"""p-value below which the assumption is said not to hold."""


@dataclass(frozen=True)
class MixtureFit:
    """Chi-square test that new scores are a mix of the two old classes.

    Attributes
    ----------
    statistic, df, p_value
        Chi-square, its degrees of freedom (bins less two) and how often chance alone exceeds it.
    rate, se
        Share of old events in the mix that fits best, with its standard error: the base rate by bins alone, without the
        map.
    """

    statistic: float
    df: int
    p_value: float
    rate: float
    se: float

    @property
    def holds(self) -> bool:
        """Whether the test leaves the assumption standing."""
        return self.p_value >= DOUBTFUL

    def __str__(self) -> str:
        """One sentence."""
        how = f"(chi-square {self.statistic:.1f} on {self.df} degrees of freedom, p = {self.p_value:.2g})"
        if self.holds:
            return f"The new scores look like a mix of old events and old others {how}."
        return (
            f"The new scores are no mix of old events and old others {how}: "
            "something else than the base rate moved, so do not use this correction."
        )


def fit_mixture(source: Tally, new: Tally, rate: float) -> MixtureFit | None:
    r"""Test of label shift on bins of the score.

    .. math::
        X^2 = \min_\pi\, d(\pi)^\top V^{-1} d(\pi), \qquad d(\pi) = q - \pi f_1 - (1 - \pi) f_0,

    where q are the shares of new rows by bin, :math:`f_1` and :math:`f_0` those of old events and of old others, and V
    is the covariance of d, which counts the sampling error of all three. Under label shift it is about chi-square with
    bins - 2 degrees of freedom.

    Notes
    -----
    Bins hold equal parts of the two old classes, each counting for one half, so rare events have bins too. None when
    they would be fewer than three. Importance weights count by their effective size.
    Guarantee: asymptotic level; a shift that keeps the mix is not seen. Cost: O(cells).
    Reference: the minimum chi-square of Neyman 1949; Lipton, Wang and Smola 2018 for the mix.

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
    n_bins = min(MOST_BINS, int(min(events, others, new.effective_size) / ROWS_PER_BIN))
    if n_bins < FEWEST_BINS:
        return None
    starts, edges = _balanced(source, n_bins)
    if len(edges) + 1 < FEWEST_BINS:
        return None
    hits = np.add.reduceat(source.events, starts) / source.positives
    rest = np.add.reduceat(source.n - source.events, starts) / (source.total - source.positives)
    # A gridded score is cut off at 30 bits of its octave: a heap on an edge must not fall below it.
    index = np.searchsorted(edges if new.grid is None else edges * (1.0 - 2.0**-29), new.scores, side="right")
    shares = np.bincount(index, new.n, minlength=len(hits)) / new.total
    return _minimum_chi_square(shares, hits, rest, (new.effective_size, events, others), rate)


def _balanced(source: Tally, n_bins: int) -> tuple[NDArray[np.intp], Floats]:
    """First cell and inner edges of bins with equal parts of both classes; a cell is never split."""
    others = source.n - source.events
    mass = np.cumsum(source.events / source.positives + others / others.sum()) / 2.0
    ends = np.searchsorted(mass, np.arange(1, n_bins) / n_bins - 1e-12, side="left") + 1
    inner = np.unique(ends[ends < len(mass)])
    return np.append(0, inner), source.lower_edges[inner]


def _minimum_chi_square(
    shares: Floats, hits: Floats, rest: Floats, sizes: tuple[float, float, float], rate: float
) -> MixtureFit:
    """Three rounds of generalised least squares, the covariance taken at the last rate; one bin is redundant."""
    for _ in range(3):
        mix = rate * hits + (1.0 - rate) * rest
        parts = zip((mix, hits, rest), sizes, (1.0, rate**2, (1.0 - rate) ** 2), strict=True)
        covariance = sum(weight * _multinomial(part, size) for part, size, weight in parts)
        slope, level = (hits - rest)[:-1], (shares - rest)[:-1]
        inverse = np.linalg.pinv(np.asarray(covariance), hermitian=True)
        gain = float(np.einsum("i,ij,j->", slope, inverse, slope))
        best = float(np.einsum("i,ij,j->", slope, inverse, level)) / gain if gain > 0.0 else rate
        rate = min(max(best, 0.0), 1.0)
    gap = level - rate * slope
    statistic, df = float(np.einsum("i,ij,j->", gap, inverse, gap)), len(shares) - 2
    se = gain**-0.5 if gain > 0.0 else math.inf
    return MixtureFit(statistic, df, float(special.chdtrc(df, statistic)), rate, se)


def _multinomial(shares: Floats, size: float) -> Floats:
    """Covariance of observed shares; half a row is added to each bin, so that none is certain."""
    smooth = (shares * size + 0.5) / (size + 0.5 * len(shares))
    return np.asarray(np.diag(smooth) - np.multiply.outer(smooth, smooth))[:-1, :-1] / size
