"""When to try again, and how long to wait before it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from calibrant.messages import InputError

BUSY = frozenset({429, 502, 503, 504})
"""Answers after which the same request may succeed."""

LONGEST_EXPONENT = 30


@dataclass(frozen=True)
class Retries:
    """Waiting times that grow, with random jitter so that many clients do not come back at once.

    The wait before the next try is uniform between 0 and ``first * 2**k`` seconds, at most ``longest``, after k tries.
    If the service says how long to wait (Retry-After), it is that time and the random one.

    Parameters
    ----------
    patience
        Seconds after which no new try begins; 0 means one try.
    first, longest
        Seconds of the first and of the longest wait.

    Examples
    --------
    >>> 0.0 <= Retries(first=0.1).wait(0) <= 0.1
    True
    >>> Retries().wait(0, "7") >= 7.0
    True
    """

    patience: float = 30.0
    first: float = 0.1
    longest: float = 5.0

    def __post_init__(self) -> None:
        if not self.patience >= 0.0:
            raise InputError("patience", f"must be at least 0, got {self.patience!r}")
        if not 0.0 < self.first <= self.longest:
            raise InputError("first", f"must be above 0 and at most longest, got {self.first!r}")

    def wait(self, tries: int, asked: str | None = None) -> float:
        """Seconds before the next try.

        Parameters
        ----------
        tries
            Number of earlier waits.
        asked
            The header Retry-After of the answer.

        Returns
        -------
        float
            A random time.
        """
        most = min(self.longest, self.first * 2.0 ** min(tries, LONGEST_EXPONENT))
        return _asked(asked) + random.uniform(0.0, most)


class Attempts:
    """The tries of one request."""

    def __init__(self, retries: Retries) -> None:
        self._retries, self._tries = retries, 0
        self._end = time.monotonic() + retries.patience

    def next_wait(self, asked: str | None = None) -> float | None:
        """Seconds to wait before the next try; None if it would begin too late."""
        seconds = self._retries.wait(self._tries, asked)
        self._tries += 1
        return seconds if time.monotonic() + seconds <= self._end else None


def _asked(text: str | None) -> float:
    """Seconds of the header Retry-After: a number, or a date; 0 if it is neither."""
    if text is None:
        return 0.0
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0
