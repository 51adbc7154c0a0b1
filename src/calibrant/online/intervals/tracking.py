"""Quantile tracking: a radius that grows by a step after a miss and shrinks a little after a hit."""

from __future__ import annotations

from typing import ClassVar

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.online.intervals.base import IntervalForecaster, level_of
from calibrant.online.limits import SLACK, changed, real
from calibrant.online.settings import read_only

LARGEST = 1e100


class QuantileTracking(IntervalForecaster):
    r"""Intervals whose radius grows by ``step * (1 - alpha)`` after a miss and shrinks by ``step * alpha`` after a hit.

    .. math:: r_{t+1} = r_t + \eta (\mathbf 1\{s_t > r_t\} - \alpha) = r_1 + \eta (m_t - \alpha t),

    where the score :math:`s_t = |y_t - f_t|` is the error of forecast :math:`f_t` (for a pair, how far the outcome is
    outside) and :math:`m_t` the number of misses among the first t rows.

    Parameters
    ----------
    alpha
        Share of outcomes that may be outside their intervals, in the long run.
    step
        :math:`\eta`, in the unit of the outcomes; a tenth of a typical error is a start.
    start
        The first radius.
    largest
        A number that no score exceeds, for a guarantee about rows that are not seen yet. For the rows learned so far
        the largest score is known.

    Notes
    -----
    Edge cases: a negative radius gives an empty interval for one number, and a narrower one for a pair.
    Guarantee: on every sequence, also against an adversary who sees each interval, if scores are at most b, the number
    of misses among the first T rows is at most :math:`\alpha T + (b - r_1)^+ / \eta + 1 - \alpha`, and for forecasts of
    one number at least :math:`\alpha T - r_1 / \eta - \alpha`. It is about all intervals together; single
    ones have none. It assumes that each outcome is learned before the next forecast. Proof:
    docs/certificates/online-intervals.md.
    Cost: O(1) per row, two numbers. Reference: Angelopoulos, Candes and Tibshirani (2023), Proposition 1.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=2_000)
    >>> tracker = QuantileTracking(alpha=0.1, step=0.1, start=1.0, largest=6.0)
    >>> intervals = tracker.forecast_many(np.zeros(2_000), y)
    >>> tracker.missed, [round(end, 2) for end in tracker.predict_one(0.0)]
    (209, [-1.9, 1.9])
    >>> round(tracker.certificate(10_000).bound, 4)
    0.1051
    """

    alpha: float = read_only()
    step: float = read_only()
    start: float = read_only()
    largest: float | None = read_only()

    _theorem: ClassVar[str] = "Angelopoulos, Candes and Tibshirani (2023), Proposition 1"

    def __init__(self, alpha: float = 0.1, *, step: float, start: float = 0.0, largest: float | None = None) -> None:
        self.alpha = level_of(alpha)
        self.step = real("step", step, 1.0 / LARGEST, LARGEST)
        self.start = real("start", start, 0.0, LARGEST)
        self.largest = None if largest is None else real("largest", largest, 0.0, LARGEST)
        self._highest = 0.0

    def _radius(self) -> float:
        return self.start + self.step * (self._missed - self.alpha * self._seen)

    def _learned(self, score: float) -> None:
        self._highest = max(self._highest, score)

    def _most_missed(self, n: int) -> float | NoCertificate:
        if n > self._seen and (self.largest is None or self._highest > self.largest):
            seen = f"a score of {self._highest:.4g} exceeded it" if self.largest is not None else "none was given"
            return NoCertificate(
                NoCertificateCode.NO_THEOREM,
                f"a bound on later misses needs largest=, a number that no score exceeds, and {seen}: use "
                "AdaptiveIntervals, which needs none",
            )
        most = self._highest if n == self._seen else self.largest or 0.0
        rounded = 2.0**-50 * most  # more than the radius loses by rounding, if it is near the largest score
        return self.alpha * n + (max(most - self.start, 0.0) + rounded) / self.step + 1.0 - self.alpha

    def _numbers(self) -> list[float]:
        return [self._highest]

    def _resume(self, numbers: list[float]) -> None:
        if len(numbers) != 1 or numbers[0] < 0.0:
            raise changed("largest score")
        self._highest = numbers[0]
        most = self._most_missed(self._seen)
        if not isinstance(most, NoCertificate) and self._missed > most * (1.0 + SLACK):
            raise changed("number of misses")
