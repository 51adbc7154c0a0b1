"""Limits of one process: requests per second of a token."""

from __future__ import annotations

import time
from collections.abc import Callable

BURST_SECONDS = 2.0
"""Requests of this time may come at once."""

MOST_KEPT = 10_000
"""Pairs of token and stream that are counted; beyond it those that have their full burst are dropped."""


class Rates:
    """A bucket for each token and stream: it fills at the rate, and each request takes one.

    Parameters
    ----------
    rate
        Requests per second; 0 for no limit.
    clock
        Seconds that never go back.

    Examples
    --------
    >>> seconds = iter([0.0, 0.0, 0.0, 0.5])
    >>> rates = Rates(1.0, clock=lambda: next(seconds))
    >>> [rates.wait(1, "clicks") for _ in range(4)]
    [0.0, 0.0, 1.0, 0.5]
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.clock = rate, clock
        self.burst = max(1.0, rate * BURST_SECONDS)
        self._left: dict[tuple[int, str], tuple[float, float]] = {}

    def wait(self, token: int, stream: str) -> float:
        """Take one; the seconds to wait if there is none, otherwise 0."""
        if self.rate == 0.0:
            return 0.0
        now = self.clock()
        left, at = self._left.get((token, stream), (self.burst, now))
        left = min(self.burst, left + (now - at) * self.rate)
        taken = left >= 1.0
        if len(self._left) >= MOST_KEPT:
            self._drop(now)
        self._left[token, stream] = (left - taken, now)
        return 0.0 if taken else (1.0 - left) / self.rate

    def _drop(self, now: float) -> None:
        full = [which for which, (left, at) in self._left.items() if left + (now - at) * self.rate >= self.burst]
        for which in full:
            del self._left[which]
