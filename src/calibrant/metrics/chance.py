"""Distribution of the number of events if the model is calibrated: Poisson-binomial, including far tails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from calibrant.metrics.variance import Spread, spread_of, squared_weights
from calibrant.numerics import Floats, Ints
from calibrant.tallies import Clusters, Tally

MOST_WORK = 1 << 19
"""Maximum cells times points of an exact inversion: about twenty milliseconds, for some eight thousand cells. More
cells are merged first; where that is impossible, a normal distribution corrected for skewness is used (to 1e-4)."""

ROUNDING_TAIL = 1e-10
"""Tails below this use the saddlepoint: the inversion has an absolute error of about 1e-15."""

Units = tuple[float, float]
"""Weighted mean weight of an event and of a non-event."""


class Chance:
    r"""Number of events :math:`K = \sum_i w_i B_i` of a calibrated model, :math:`B_i \sim \mathrm{Bernoulli}(s_i)`.

    Without importance weights the distribution is inverted exactly from the characteristic function
    :math:`\prod_c (1 - s_c + s_c e^{it})^{n_c}` where the cost allows it, and is otherwise normal with a correction for
    skewness (Volkova 1996). Tails below 1e-10 come from the Lugannani-Rice saddlepoint for lattice variables (Daniels
    1987), with a relative error within 10 %, mostly within 1 %.

    Importance weights enter by the mean weight of each label (``units``), so that a calibrated population that was
    sampled by label has the right variance. Clusters enter by their own variance (``spread``), never below that of
    independent rows.

    Examples
    --------
    >>> Chance(np.array([0.5]), np.array([4])).interval(0.9)
    (0.0, 4.0)
    >>> round(math.log10(Chance(np.array([0.01]), np.array([10_000])).p_value(400)), 1)
    -113.8
    """

    def __init__(self, scores: Floats, n: Floats, *, units: Units | None = None, spread: Spread | None = None) -> None:
        s, n = np.asarray(scores, dtype=np.float64), np.asarray(n, dtype=np.float64)
        sums = [float(part.sum()) for part in _moments(s, n, units)]
        whole = units is None and spread is None and bool((n == np.floor(n)).all())
        self._set(s, n, sums, spread, whole)
        if whole and len(s) * len(_angles(self.variance)) <= MOST_WORK:
            self._first, self._cumulative = _invert(s, n, self.mean, self.variance)

    def _set(self, scores: Floats, n: Floats, sums: Sequence[float], spread: Spread | None, whole: bool) -> None:
        """Set all but the exact distribution; ``sums`` are those of the columns of :func:`_moments`."""
        self._scores, self._n, self._spread, self._whole = scores, n, spread, whole
        self.mean, self.total, self.variance, third = sums
        self._skew = third / self.variance**1.5 if self.variance > 1e-12 else 0.0
        if spread is not None:
            self.variance, self._skew = max(self.variance, spread.variance), 0.0
        self._first, self._cumulative = 0, np.zeros(0)

    @classmethod
    def by_part(cls, scores: Floats, n: Floats, starts: Ints) -> list[Chance]:
        """The distributions of many segments at once, without importance weights or clusters.

        Parameters
        ----------
        scores, n
            Score and number of rows of each cell, part after part; every part has at least one cell.
        starts
            Index of the first cell of each part.

        Examples
        --------
        >>> several = Chance.by_part(np.array([0.5, 0.1, 0.2]), np.array([4.0, 10.0, 5.0]), np.array([0, 1]))
        >>> [each.interval(0.9) for each in several]
        [(0.0, 4.0), (0.0, 4.0)]
        """
        sums = np.array([np.add.reduceat(part, starts) for part in _moments(scores, n, None)]).T
        ends = np.append(starts[1:], len(n))
        parts = []
        for low, high, line in zip(starts.tolist(), ends.tolist(), sums.tolist(), strict=True):
            part = cls.__new__(cls)
            part._set(scores[low:high], n[low:high], line, None, True)
            parts.append(part)
        sizes = 2 ** np.ceil(np.log2(40.0 + 20.0 * np.sqrt(sums[:, 2]))).astype(np.int64)
        for size in np.unique(sizes).tolist():
            together = np.flatnonzero(sizes == size)
            points = len(_angles(float(sums[together, 2].min())))
            work = (ends - starts)[together] * points
            exact = together[work <= MOST_WORK]
            for chunk in _batches(np.maximum(work[work <= MOST_WORK], size)):
                _invert_parts([parts[place] for place in exact[chunk].tolist()], size, points)
        return parts

    @classmethod
    def of(cls, data: Tally | Clusters, units: Units | None = None) -> Chance:
        """The distribution for the rows of a tally; for importance weights, ``units`` may come from all rows.

        Cells are merged at their exact means if there are too many for the exact distribution.
        """
        if isinstance(data, Clusters):
            return cls._clustered(data)
        small = data
        for bits in (6, 4, 2):
            cost = len(small) * len(_angles(float((small.n * small.scores * (1.0 - small.scores)).sum())))
            if cost <= MOST_WORK or data.resolution == "bins":
                break
            if data.grid is None or data.grid.bits > bits:
                small = data.coarsen(bits)
        if not data.counts and units is None:
            units = units_of(data)
        return cls(small.scores, np.asarray(small.n, dtype=np.float64), units=None if data.counts else units)

    @classmethod
    def _clustered(cls, data: Clusters) -> Chance:
        """Sums by cluster vary around the ratio of observed to predicted events."""
        scores = data.tally.scores
        n, events = (np.bincount(data.cell, column, len(scores)) for column in (data.n, data.events))
        mean = float((n * scores).sum())
        ratio = float(events.sum()) / mean if mean > 0.0 else 1.0
        spread = spread_of(data, 1.0 - ratio * scores, -ratio * scores, scores * (1.0 - scores))
        units = None if data.tally.counts else units_of(data.tally)
        there = n > 0.0
        return cls(scores[there], n[there].astype(np.float64), units=units, spread=spread)

    def interval(self, level: float) -> tuple[float, float]:
        """Central interval: at most a probability of ``(1 - level) / 2`` lies beyond either end."""
        tail = (1.0 - level) / 2.0
        if len(self._cumulative):
            low = int(np.searchsorted(self._cumulative, tail, side="right")) + self._first
            high = int(np.searchsorted(self._cumulative, 1.0 - tail, side="left")) + self._first
            return float(max(low, 0)), float(min(high, self.total))
        z = float(special.ndtri(1.0 - tail)) if self._spread is None else self._spread.quantile(level)
        sd, bend = math.sqrt(self.variance), self._skew * (z * z - 1.0) / 6.0
        low_end, high_end = self.mean + sd * (bend - z), self.mean + sd * (bend + z)
        if self._whole:
            low_end, high_end = math.ceil(low_end - 0.5), math.ceil(high_end - 0.5)
        return max(float(low_end), 0.0) + 0.0, min(float(high_end), self.total)

    def at_mean(self) -> float:
        r"""Probability of exactly as many events as expected, for an integer mean.

        Where the distribution is not inverted, the density of the local limit theorem with its first correction,

        .. math:: \frac{1}{\sqrt{2 \pi V}} \Bigl(1 + \frac{\kappa_4}{8 V^2} - \frac{5 \kappa_3^2}{24 V^3}\Bigr) ,

        which is within 1 % for a variance V of at least 1.

        Examples
        --------
        >>> Chance(np.array([0.5]), np.array([4])).at_mean()
        0.375
        """
        if len(self._cumulative):
            at = round(self.mean) - self._first
            return float(self._cumulative[at] - (self._cumulative[at - 1] if at else 0.0))
        s, n = self._scores, self._n
        v = n * s * (1.0 - s)
        second, third = float(v.sum()), float((v * (1.0 - 2.0 * s)).sum())
        fourth = float((v * (1.0 - 6.0 * s * (1.0 - s))).sum())
        if second <= 0.0:
            return 1.0
        bend = 1.0 + fourth / (8.0 * second**2) - 5.0 * third**2 / (24.0 * second**3)
        return min(bend / math.sqrt(2.0 * math.pi * second), 1.0) if bend > 0.0 else 1.0

    # -------------------------------------------------------------------------------------------------------- tails

    def cdf(self, k: float) -> float:
        """Probability of at most ``k`` events."""
        return math.exp(self.log_tails(k)[0])

    def at_least(self, k: float) -> float:
        """Probability of ``k`` events or more."""
        return math.exp(self.log_tails(k)[1])

    def p_value(self, k: float) -> float:
        """Two-sided: twice the smaller tail."""
        return math.exp(self.log_p_value(k))

    def log_p_value(self, k: float) -> float:
        """Logarithm of the two-sided p-value, also where the p-value itself is too small for a double."""
        return min(0.0, math.log(2.0) + min(self.log_tails(k)))

    def log_tails(self, k: float) -> tuple[float, float]:
        """Logarithms of the probabilities of at most ``k`` events, and of ``k`` or more."""
        if self._whole:
            return self._log_upper(math.floor(k), below=True), self._log_upper(math.ceil(k), below=False)
        if self.variance <= 0.0:
            return _log(float(k >= self.mean - 1e-9)), _log(float(k <= self.mean + 1e-9))
        x = (k - self.mean) / math.sqrt(self.variance)
        if self._spread is not None and np.isfinite(self._spread.df):
            below, above = (_log(float(special.stdtr(self._spread.df, end))) for end in (x, -x))
            return below, above
        return _edgeworth(x, self._skew), _edgeworth(-x, -self._skew)

    def _log_upper(self, k: int, *, below: bool) -> float:
        """Logarithm of P(K >= k), or of P(K <= k) when ``below``."""
        if len(self._cumulative):
            place = (k if below else k - 1) - self._first
            up_to = 0.0 if place < 0 else float(self._cumulative[min(place, len(self._cumulative) - 1)])
            tail = up_to if below else 1.0 - up_to
            if tail > ROUNDING_TAIL:
                return math.log(tail)
        scores, wanted = (1.0 - self._scores, self.total - k) if below else (self._scores, float(k))
        mean = self.total - self.mean if below else self.mean
        if wanted <= mean:  # not a far tail: one minus the other tail
            other = math.exp(_saddlepoint(1.0 - scores, self._n, self.total - wanted + 1.0))
            return math.log1p(-min(other, 1.0 - 1e-16))
        return _saddlepoint(scores, self._n, wanted)


def units_of(tally: Tally) -> Units:
    """Weighted mean weight of an event and of a non-event; of all rows if one of the labels is absent."""
    w2, w2_events = (float(column.sum()) for column in squared_weights(tally))
    total, events = float(tally.total), float(tally.positives)
    own = w2 / total
    return (w2_events / events if events > 0.0 else own), (
        (w2 - w2_events) / (total - events) if events < total else own
    )


def expected_squares(tally: Tally) -> Floats:
    """Expected sums of squared weights by cell if the scores were right; numbers of rows without importance weights."""
    n = np.asarray(tally.n, dtype=np.float64)
    if tally.counts or tally.cells.w2 is None:
        return n
    hit, miss = units_of(tally)
    return np.asarray(n * (hit * (1.0 - tally.scores) + miss * tally.scores))


def _log(p: float) -> float:
    return math.log(p) if p > 0.0 else -math.inf


def _edgeworth(x: float, skew: float) -> float:
    """Logarithm of the normal tail below x, corrected for skewness where the correction is relatively small."""
    plain = float(special.log_ndtr(x))
    bend = skew * (1.0 - x * x) / 6.0
    value = math.exp(plain) + bend * math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    return math.log(value) if 0.0 < value < 1.0 and abs(x) < 6.0 else plain


def _saddlepoint(scores: Floats, n: Floats, k: float) -> float:
    r"""Logarithm of :math:`P(K \ge k)` for k above the mean, by Lugannani and Rice's formula for integers.

    With :math:`\kappa(t) = \sum n \log(1 - s + s e^t)`, :math:`\kappa'(t) = k`, :math:`w = \sqrt{2 (t k - \kappa)}` and
    :math:`u = (1 - e^{-t}) \sqrt{\kappa''}`, the tail is :math:`\Phi(-w) + \varphi(w) (1/u - 1/w)`. For a single
    distinct score it is binomial, and exact.
    """
    inside = (scores > 0.0) & (n > 0.0)
    scores, n = scores[inside], n[inside]
    total, sure = float(n.sum()), float(n[scores == 1.0].sum())
    if k > total:
        return -math.inf
    if k <= sure:
        return 0.0
    if k == total:
        return float((n * np.log(scores)).sum())
    if len(scores) == 1 and (tail := float(special.betainc(k, total - k + 1.0, scores[0]))) > 0.0:
        return math.log(tail)  # binomial
    t = _tilt(scores, n, k)
    odds = scores * math.exp(t) if t < 0 else scores
    rest = 1.0 - scores if t < 0 else (1.0 - scores) * math.exp(-t)
    p = odds / (odds + rest)
    kappa = float((n * (np.log(odds + rest) + max(t, 0.0))).sum())
    w = math.sqrt(max(2.0 * (t * k - kappa), 0.0))
    u = -math.expm1(-t) * math.sqrt(float((n * p * (1.0 - p)).sum()))
    if not (w > 1e-6 and u > 1e-6):
        return math.log(0.5)
    mills = math.sqrt(math.pi / 2.0) * float(special.erfcx(w / math.sqrt(2.0)))
    return min(0.0, -w * w / 2.0 - 0.5 * math.log(2.0 * math.pi) + math.log(mills + 1.0 / u - 1.0 / w))


def _tilt(scores: Floats, n: Floats, k: float) -> float:
    """Where the tilted mean is ``k``, by Newton's method between narrowing bounds."""
    inner = scores[scores < 1.0]
    free = float(n[scores < 1.0].sum())
    share = (k - float(n[scores == 1.0].sum())) / free
    low, high = 0.0, math.log(share / (1.0 - share)) - float(special.logit(inner.min())) + 1.0
    t = min(max(math.log(share / (1.0 - share)) - float(special.logit(float((n * scores).sum() / n.sum()))), low), high)
    for _ in range(200):
        p = special.expit(special.logit(scores) + t)
        excess, slope = float((n * p).sum()) - k, float((n * p * (1.0 - p)).sum())
        if abs(excess) <= 1e-10 * k or high - low <= 1e-14 * max(1.0, high):
            break
        low, high = (low, t) if excess > 0.0 else (t, high)
        step = t - excess / slope if slope > 0.0 else np.nan
        t = step if low < step < high else (low + high) / 2.0
    return t


def _invert(scores: Floats, n: Floats, mean: float, variance: float) -> tuple[int, Floats]:
    """First value of the window and the cumulative distribution from there on."""
    size, seen = _window(variance), _angles(variance)
    first = max(int(np.floor(mean)) - size // 2, 0)
    turn = np.exp(1j * seen) - 1.0
    log_phi = np.zeros(len(seen), dtype=np.complex128)
    single = n == 1.0
    for rows, cells in ((16, single), (1, ~single)):
        p, times = scores[cells], n[cells, None][::rows]
        for start in range(0, len(p), 256):
            factors = 1.0 + p[start : start + 256, None] * turn[None, :]
            if rows > 1:  # a product and one logarithm cost less than many logarithms
                factors = np.multiply.reduceat(factors, np.arange(0, len(factors), rows), axis=0)
            at = start // rows
            log_phi += (times[at : at + len(factors)] * np.log(factors)).sum(axis=0)
    phi = np.zeros(size // 2 + 1, dtype=np.complex128)
    phi[: len(seen)] = np.exp(log_phi - 1j * seen * first)
    pmf = np.fft.irfft(np.conj(phi), size)
    return first, np.clip(np.maximum.accumulate(np.cumsum(pmf)), 0.0, 1.0)


def _moments(s: Floats, n: Floats, units: Units | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, rows, variance and third central moment of the events of each cell."""
    hit, miss = units or (1.0, 1.0)
    each = n * s * (1.0 - s)
    return (
        n * s,
        n,
        each * (hit * (1.0 - s) + miss * s),
        each * ((hit * (1.0 - s)) ** 2 - (miss * s) ** 2),
    )


def _batches(work: Ints) -> Iterator[slice]:
    """Consecutive parts whose work together is at most about twice the most for one."""
    starts = np.flatnonzero(np.diff((np.cumsum(work) - 1) // MOST_WORK, prepend=-1))
    for low, high in zip(starts.tolist(), [*starts[1:].tolist(), len(work)], strict=True):
        yield slice(low, high)


def _invert_parts(parts: Sequence[Chance], size: int, points: int) -> None:
    """Set the cumulative distributions of parts with windows of one size, from ``points`` values of each transform."""
    seen = 2.0 * np.pi * np.arange(points) / size
    turn = np.exp(1j * seen) - 1.0
    s, n = np.concatenate([part._scores for part in parts]), np.concatenate([part._n for part in parts])
    cells = np.array([len(part._n) for part in parts])
    first = np.maximum(np.floor([part.mean for part in parts]).astype(np.int64) - size // 2, 0)
    factors = 1.0 + s[:, None] * turn[None, :]
    several = np.flatnonzero(n != 1.0)
    factors[several] = np.exp(n[several, None] * np.log(factors[several]))
    phi = np.zeros((len(parts), size // 2 + 1), dtype=np.complex128)
    phi[:, :points] = np.multiply.reduceat(factors, np.cumsum(cells) - cells, axis=0)
    phi[:, :points] *= np.exp(-1j * seen[None, :] * first[:, None])
    pmf = np.fft.irfft(np.conj(phi), size, axis=1)
    cumulative = np.clip(np.maximum.accumulate(np.cumsum(pmf, axis=1), axis=1), 0.0, 1.0)
    for part, start, row in zip(parts, first.tolist(), cumulative, strict=True):
        part._first, part._cumulative = start, row


def _window(variance: float) -> int:
    """Width of the window, a power of two: the probability beyond it is below the rounding error."""
    return 1 << int(np.ceil(np.log2(40.0 + 20.0 * np.sqrt(variance))))


def _angles(variance: float) -> Floats:
    r"""Where the characteristic function is not negligible, about fifty points at most.

    Its modulus is at most :math:`e^{-V(1 - \cos t)}`, V being the variance, so beyond these it is below 6e-19.
    """
    size = _window(variance)
    t = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    return np.asarray(t[variance * (1.0 - np.cos(t)) <= 42.0])
