"""Adaptive conformal intervals: the level of a quantile of recent errors moves with every hit and miss."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from typing import ClassVar

from calibrant.online.intervals.base import IntervalForecaster, level_of
from calibrant.online.limits import SLACK, changed, real, whole
from calibrant.online.settings import read_only


class AdaptiveIntervals(IntervalForecaster):
    r"""Intervals from quantiles of recent errors, at a level that rises with every hit and falls with every miss.

    .. math:: r_t = \hat Q_{1 - \alpha_t}(s_{t-w}, \dots, s_{t-1}), \qquad
              \alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathbf 1\{s_t > r_t\}),

    where the score :math:`s_t = |y_t - f_t|` is the error of forecast :math:`f_t` (for a pair, how far the outcome is
    outside), w the window and :math:`\hat Q` the conformal quantile, the :math:`\lceil (1 - \alpha_t)(n + 1)\rceil`-th
    smallest of n scores, infinite beyond the n-th and at :math:`\alpha_t \le 0`. At :math:`\alpha_t \ge 1` the interval
    is empty.

    Parameters
    ----------
    alpha
        Share of outcomes that may be outside their intervals, in the long run.
    step
        :math:`\gamma`. A larger step adapts faster, and intervals vary more.
    window
        Number of recent scores that are kept.

    Notes
    -----
    Edge cases: the first intervals are infinite, since there are no scores. After many misses intervals become
    infinite, and after many hits, for example on constant outcomes, empty: both are needed for the guarantee.
    Guarantee: on every sequence, also against an adversary who sees each interval, the number of misses among the first
    T rows is below :math:`\alpha T + \alpha / \gamma + 1 - \alpha` and above
    :math:`\alpha T - (1 - \alpha) / \gamma - \alpha`. It is about all intervals together; single ones have none. It
    assumes that each outcome is learned before the next forecast. Proof: docs/certificates/online-intervals.md.
    Cost: O(window) time per row at most, and ``window`` numbers. Reference: Gibbs and Candes (2021), Proposition 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.cumsum(rng.normal(size=2_000)) * np.repeat([1.0, 3.0], 1_000)
    >>> last = np.concatenate([[0.0], y[:-1]])
    >>> tracker = AdaptiveIntervals(alpha=0.1, step=0.02)
    >>> intervals = tracker.forecast_many(last, y)
    >>> tracker.missed, tracker.n_rows
    (202, 2000)
    >>> print(tracker.certificate())
    After its first 2,000 rows, the share of outcomes outside their intervals is at most 0.103, on every sequence.
      Basis: Gibbs and Candes (2021), Proposition 4.1; docs/certificates/online-intervals.md.
      Assumes: each outcome is learned before the next forecast.
    """

    alpha: float = read_only()
    step: float = read_only()
    window: int = read_only()

    _theorem: ClassVar[str] = "Gibbs and Candes (2021), Proposition 4.1"

    def __init__(self, alpha: float = 0.1, *, step: float = 0.01, window: int = 500) -> None:
        self.alpha = level_of(alpha)
        self.step = real("step", step, 1e-6, 1.0)
        self.window = whole("window", window, 1, 1_000_000)
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    @property
    def level(self) -> float:
        r"""The current :math:`\alpha_t`; it may lie a little outside [0, 1]."""
        return self.alpha + self.step * (self.alpha * self._seen - self._missed)

    def _radius(self) -> float:
        level = self.level
        if level >= 1.0:
            return -math.inf
        n = len(self._sorted)
        rank = math.ceil((1.0 - level) * (n + 1))
        return math.inf if level <= 0.0 or rank > n else self._sorted[max(rank, 1) - 1]

    def _learned(self, score: float) -> None:
        self._recent.append(score)
        insort(self._sorted, score)
        if len(self._recent) > self.window:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]

    def _most_missed(self, n: int) -> float:
        return self.alpha * n + self.alpha / self.step + 1.0 - self.alpha

    def _numbers(self) -> list[float]:
        return list(self._recent)

    def _resume(self, numbers: list[float]) -> None:
        if len(numbers) != min(self._seen, self.window):
            raise changed("list of scores")
        slack = self.step * (SLACK + 2.0**-50 * self.alpha * self._seen)
        if not -self.step * (1.0 - self.alpha) - slack <= self.level <= 1.0 + self.step * self.alpha + slack:
            raise changed("number of misses")
        self._recent, self._sorted = deque(numbers), sorted(numbers)
