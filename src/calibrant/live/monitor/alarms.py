"""Alarms: since when the evidence against calibration holds, what part it came from, and until when."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from calibrant.live.monitor.evidence import Band
from calibrant.messages import Shown, plural

Part = Literal["level", "slope", "bins"]
EndedBy = Literal["restart", "within"]

FIRST_CHECK = 512
"""Rows after which an alarm is first asked whether it has ended; then at four looks for each doubling of the rows."""


def rows_to_check(since: int) -> int:
    """Rows until an alarm is asked the next time, ``since`` rows after its confirmation; the same in any batches."""
    step = 1 << (max(since, FIRST_CHECK).bit_length() - 3)
    return max(FIRST_CHECK, (since // step + 1) * step) - since


@dataclass(frozen=True)
class Alarm(Shown):
    """An alarm: a state that begins when the e-value of a run reaches one over its level, and holds until it ends.

    Attributes
    ----------
    number, start, at
        Its number, the row at which it began, counted from the first one, and the time of that row (NaN without times).
    kind
        The part with the largest share of the evidence: ``"level"``, ``"slope"`` or ``"bins"``.
    log_e
        Logarithm of the e-value.
    onset_row, onset_at
        Estimated first row after the change, and its time; an estimate without a guarantee.
    shift
        Estimated shift in log-odds from the onset to the start; an estimate without a guarantee.
    confirmed
        Later runs that reached their level while it held.
    end, end_at
        The row at which it ended, and the time of that row; None (NaN) while it holds.
    ended_by
        ``"restart"``, or ``"within"`` if the rows since it was last confirmed are shown to be within the tolerance.
    band
        What was seen when it began: observed minus predicted up to its row, since the evidence began. None for an alarm
        from a state that was written without it.
    """

    number: int
    start: int
    at: float
    kind: Part
    log_e: float
    onset_row: int
    onset_at: float
    shift: float
    confirmed: int = 0
    end: int | None = None
    end_at: float = math.nan
    ended_by: EndedBy | None = None
    band: Band | None = None

    @property
    def holds(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    def __str__(self) -> str:
        """One sentence."""
        when = f"since row {self.start:,}, still (confirmed {plural(self.confirmed, 'time')})"
        if self.end is not None:
            by = "a restart" if self.ended_by == "restart" else "evidence that later rows are within the tolerance"
            when = f"from row {self.start:,} to row {self.end:,}, ended by {by}"
        return (
            f"alarm {self.number} ({self.kind}) {when}; the change began at about row {self.onset_row:,}, with a shift "
            f"of about {self.shift:+.2f} in log-odds (estimates)"
        )
