"""Alarms: when the evidence against calibration reached the level, what part it came from, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.messages import Shown

Part = Literal["level", "slope", "bins"]


@dataclass(frozen=True)
class Alarm(Shown):
    """An alarm: the e-value of a run reached one over its level.

    Attributes
    ----------
    number, row, at
        Its number, the row at which it came, counted from the first one, and the time of that row (NaN without times).
    part
        The part with the largest share of the evidence: ``"level"``, ``"slope"`` or ``"bins"``.
    log_e
        Logarithm of the e-value.
    onset_row, onset_at
        Estimated first row after the change, and its time; an estimate without a guarantee.
    shift
        Estimated shift in log-odds since the onset; an estimate without a guarantee.
    """

    number: int
    row: int
    at: float
    part: Part
    log_e: float
    onset_row: int
    onset_at: float
    shift: float

    def __str__(self) -> str:
        """One sentence."""
        return (
            f"alarm {self.number} at row {self.row:,} ({self.part}); it began at about row {self.onset_row:,} (an "
            f"estimate), with a shift of about {self.shift:+.2f} in log-odds"
        )
