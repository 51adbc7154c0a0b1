"""How many events chance alone gives when every score is right: the Poisson-binomial distribution on cells."""

from __future__ import annotations

import numpy as np
from scipy import special

from calibrant.numerics import Floats
from calibrant.tallies import Tally

MOST_WORK = 1 << 19
"""Cells times points that an exact computation may cost: about twenty milliseconds, for some eight thousand cells. More
cells are joined first; where that cannot be done the normal law with its skewness stands in, good to about 1e-4."""


class Chance:
    r"""Number of events :math:`K = \sum_i B_i` of independent :math:`B_i \sim \mathrm{Bernoulli}(s_i)`.

    Where the cost allows it, the law is inverted exactly from the characteristic function
    :math:`\prod_c (1 - s_c + s_c e^{it})^{n_c}` on a window of at least twenty standard deviations; otherwise it
    is the normal distribution with a correction for skewness (Volkova 1996). ``w2`` are sums of
    squared importance weights; ``inflation`` multiplies the variance, for clusters.

    Examples
    --------
    >>> Chance(np.array([0.5]), np.array([4])).interval(0.9)
    (0.0, 4.0)
    """

    def __init__(self, scores: Floats, n: Floats, inflation: float = 1.0, w2: Floats | None = None) -> None:
        spread = scores * (1.0 - scores)
        self.mean = float((n * scores).sum())
        self.total = float(n.sum())
        self.variance = float(((n if w2 is None else w2) * spread).sum()) * inflation
        cubes = n if w2 is None else w2 * w2 / n  # sums of cubed weights, exact where a cell's weights are equal
        third = float((cubes * spread * (1.0 - 2.0 * scores)).sum()) * inflation**1.5
        self._skew = third / self.variance**1.5 if self.variance > 1e-12 else 0.0
        whole = w2 is None and inflation == 1.0 and bool((n == np.floor(n)).all())
        self._whole = whole
        self._first, self._cumulative = 0, np.zeros(0)
        if whole and len(scores) * len(_angles(self.variance)) <= MOST_WORK:
            self._first, self._cumulative = _invert(scores, n, self.mean, self.variance)

    @classmethod
    def of(cls, tally: Tally, inflation: float = 1.0) -> Chance:
        """For the rows of a tally; many cells are joined, at their exact means, until the exact law is cheap."""
        small = tally
        for bits in (6, 4, 2):
            cost = len(small) * len(_angles(float((small.n * small.scores * (1.0 - small.scores)).sum())))
            if cost <= MOST_WORK or tally.resolution == "bins":
                break
            if tally.grid is None or tally.grid.bits > bits:
                small = tally.coarsen(bits)
        w2 = None if small.counts else small.cells.w2
        return cls(small.scores, np.asarray(small.n, dtype=np.float64), inflation, w2)

    def cdf(self, k: float) -> float:
        """Probability of at most ``k`` events."""
        if len(self._cumulative):
            place = int(np.floor(k)) - self._first
            return 0.0 if place < 0 else float(self._cumulative[min(place, len(self._cumulative) - 1)])
        if self.variance <= 0.0:
            return float(k >= self.mean - 1e-9)
        x = (k + (0.5 if self._whole else 0.0) - self.mean) / np.sqrt(self.variance)
        density = np.exp(-x * x / 2.0) / np.sqrt(2.0 * np.pi)
        value = float(special.ndtr(x) + self._skew * (1.0 - x * x) * density / 6.0)
        return value if 0.0 < value < 1.0 else float(special.ndtr(x))

    def at_least(self, k: float) -> float:
        """Probability of ``k`` events or more."""
        return max(1.0 - self.cdf(k - (1.0 if self._whole else 0.0)), 0.0)

    def p_value(self, k: float) -> float:
        """Two-sided: twice the smaller tail."""
        return float(min(1.0, 2.0 * min(self.cdf(k), self.at_least(k))))

    def interval(self, level: float) -> tuple[float, float]:
        """Central range: at most ``(1 - level) / 2`` of chance lies beyond either end."""
        tail = (1.0 - level) / 2.0
        if len(self._cumulative):
            low = int(np.searchsorted(self._cumulative, tail, side="right")) + self._first
            high = int(np.searchsorted(self._cumulative, 1.0 - tail, side="left")) + self._first
            return float(max(low, 0)), float(min(high, self.total))
        z = float(special.ndtri(1.0 - tail))
        spread, bend = np.sqrt(self.variance), self._skew * (z * z - 1.0) / 6.0
        low_end, high_end = self.mean + spread * (bend - z), self.mean + spread * (bend + z)
        if self._whole:
            low_end, high_end = np.ceil(low_end - 0.5), np.ceil(high_end - 0.5)
        return max(float(low_end), 0.0) + 0.0, min(float(high_end), self.total)


def _invert(scores: Floats, n: Floats, mean: float, variance: float) -> tuple[int, Floats]:
    """First value of the window and the cumulative distribution from there on."""
    size, seen = _window(variance), _angles(variance)
    first = max(int(np.floor(mean)) - size // 2, 0)
    turn = np.exp(1j * seen) - 1.0
    log_phi = np.zeros(len(seen), dtype=np.complex128)
    for start in range(0, len(scores), 256):
        part = slice(start, start + 256)
        log_phi += (n[part, None] * np.log(1.0 + scores[part, None] * turn[None, :])).sum(axis=0)
    phi = np.zeros(size // 2 + 1, dtype=np.complex128)
    phi[: len(seen)] = np.exp(log_phi - 1j * seen * first)
    pmf = np.fft.irfft(np.conj(phi), size)
    return first, np.clip(np.maximum.accumulate(np.cumsum(pmf)), 0.0, 1.0)


def _window(variance: float) -> int:
    """A power of two, so many standard deviations that what lies beyond is below rounding."""
    return 1 << int(np.ceil(np.log2(40.0 + 20.0 * np.sqrt(variance))))


def _angles(variance: float) -> Floats:
    r"""Where the characteristic function is not negligible, about fifty points at most.

    Its modulus is at most :math:`e^{-V(1 - \cos t)}`, V being the variance, so beyond these it is below 6e-19.
    """
    size = _window(variance)
    t = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    return np.asarray(t[variance * (1.0 - np.cos(t)) <= 42.0])
