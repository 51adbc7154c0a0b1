"""The feed of outcomes: up to where silence may be learned, and a detector of a feed that is dead or trickles."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.live import Ledger
from calibrant.live.snapshots import damaged
from calibrant.numerics import Floats
from calibrant.service.store.log import SECOND

NEVER = -1.0
"""A time that has not come."""

LEVEL = 1e6
"""Where the detector holds the feed: a false alarm takes at least this number of expected arrivals on average."""

SHARE = 0.25
"""The detector looks for a feed that brings less than this share of the events that were predicted."""

FADE = 1.0 / 6.0
"""Each arrival divides the evidence by 6: of a dead feed, 59 expected arrivals pass until it is held."""

MOST_PAST_DUE = 5_000_000
"""Rows that may wait after they are due: half of what a ledger holds, so that there is room for new ones."""

WAS = ("silent", "lost")
"""What a gap of the feed was: there were no events, or outcomes were lost."""


@dataclass
class Feed:
    """What is known of the feed of a stream; times are in seconds.

    Rows are released once the feed has shown life later than they are due plus the grace, or says that all of their
    outcomes were sent. While it is held, the time up to which they are released stays, but for what the feed says.

    Attributes
    ----------
    until
        Rows due up to here are released.
    life
        The newest time of an outcome, which is at most that of its entry: what came before it has arrived, but for the
        grace.
    last
        Time of the last entry of an outcome.
    complete
        All outcomes of rows due up to here were sent, as the feed says.
    judged
        Rows due up to here were taken into the evidence, or left out.
    evidence
        Against the hypothesis that the feed brings at least :data:`SHARE` of the events that were predicted.
    held
        Since when the feed is held, or :data:`NEVER`.
    """

    until: float = NEVER
    life: float = NEVER
    last: float = NEVER
    complete: float = NEVER
    judged: float = NEVER
    evidence: float = 0.0
    held: float = NEVER

    @property
    def is_held(self) -> bool:
        """Whether rows wait for a person, or for the feed to say that it is complete."""
        return self.held != NEVER

    def came(self, at: Floats, times: Floats) -> None:
        """Outcomes came, with their own times and those of their entries."""
        self.last = float(times.max())
        self.life = max(self.life, float(np.minimum(at, times).max()))

    def says(self, until: float) -> None:
        """The feed says that all outcomes of rows due up to a time were sent."""
        self.complete, self.until = max(self.complete, until), max(self.until, until)
        if self.is_held and until >= self.held:
            self.restart()

    def reach(self, grace: float) -> float:
        """Rows due up to here can be released."""
        return self.until if self.is_held else max(self.until, before(self.life - grace))

    def look(self, ledger: Ledger, now: float, grace: float, trusted: list[int]) -> None:
        """Take rows into the evidence whose outcomes should have come by now, and move on if nothing is odd.

        Parameters
        ----------
        ledger
            Rows with the probability that was served, as the bits of the last column of their keys.
        now
            The time; outcomes of earlier entries are joined.
        grace
            Seconds that an outcome may take to arrive.
        trusted
            Versions whose probabilities may be compared with the arrivals.
        """
        start, end = max(self.judged, self.complete), before(now - grace)
        self.judged = max(self.judged, end)
        if not self.is_held and end > start:
            rows = ledger.waiting(start, end)
            counted = np.isin(rows.versions, trusted) & (rows.labels != 0)
            served = rows.keys[counted, -1].copy().view(np.float64)
            if self.add(served, rows.labels[counted] == 1):
                self.held = now
        self.until = self.reach(grace)

    def add(self, served: Floats, came: NDArray[np.bool_]) -> bool:
        """Take rows into the evidence, in order; true once it is enough.

        Parameters
        ----------
        served
            Probabilities that were served.
        came
            Whether an event has arrived.
        """
        factors = np.where(came, FADE, 1.0) / (1.0 - (1.0 - FADE) * SHARE * served)
        for p, factor in zip(served.tolist(), factors.tolist(), strict=True):
            self.evidence = (self.evidence + p) * factor
            if self.evidence >= LEVEL:
                return True
        return False

    def end(self, ledger: Ledger, document: dict[str, Any], now: float, grace: float) -> None:
        """A person says what a gap was; what makes no sense changes nothing.

        Parameters
        ----------
        ledger
            Rows that wait.
        document
            ``was``, one of :data:`WAS`, and the times ``from`` and ``until`` in microseconds; by default the last life
            before the hold, and now.
        now
            The time.
        grace
            Seconds that an outcome may take to arrive.
        """
        start, end = document.get("from"), document.get("until")
        if document.get("was") not in WAS or not all(each is None or is_time(each) for each in (start, end)):
            return
        stop = now if end is None else min(end / SECOND, now)
        if document["was"] == "lost":
            ledger.drop(after=self.until if start is None else before(start / SECOND - grace), before=stop)
        else:
            self.until = max(self.until, before(stop - grace))
        self.restart()

    def restart(self) -> None:
        """The hold ends, and the evidence begins anew."""
        self.evidence, self.held = 0.0, NEVER

    def stored(self) -> dict[str, float]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Any) -> Feed:
        """From :meth:`stored`; a state of before has nothing to say."""
        try:
            found = cls(**(stored or {}))
        except TypeError:
            raise damaged() from None
        if not all(is_time(each) and each >= NEVER for each in found.stored().values()):
            raise damaged()
        return found


def before(time: float) -> float:
    """The largest number below: rows that are due exactly at a time are not yet due before it."""
    return math.nextafter(time, -math.inf)


def is_time(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    return type(value) in (int, float) and math.isfinite(value)
