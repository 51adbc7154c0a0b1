"""What alarms of the monitor saw, kept when the monitor goes on or is replaced."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from calibrant.live import Monitor
from calibrant.service.learning.figures import Rows, moment
from calibrant.service.store.log import SECOND

MOST = 100
"""Alarms that are kept."""


@dataclass
class Findings:
    """The latest alarms as JSON values, the oldest first."""

    kept: list[dict[str, Any]] = field(default_factory=list)

    def add(self, monitor: Monitor, rows: Rows, time: int, served: int) -> None:
        """Keep the alarm that began last.

        Parameters
        ----------
        monitor
            The monitor right after it.
        rows
            The rows since the estimated onset of the change.
        time
            Stream time in microseconds.
        served
            The version that was served.
        """
        alarm, advice = monitor.alarms[-1], monitor.advice
        predicted = {"since": alarm.at, "onset": alarm.onset_at}
        found: dict[str, Any] = {name: None if math.isnan(at) else moment(at) for name, at in predicted.items()}
        found |= {"at": moment(time / SECOND), "until": None, "ended_by": None}
        found |= {"kind": alarm.kind, "shift": alarm.shift, "served": served}
        found |= {"advice": {"code": advice.code, "text": str(advice)}}
        found |= {"band": asdict(alarm.band) if alarm.band else None, "rows": len(rows)}
        found |= {"predicted": float(rows.served.mean()), "observed": float(rows.labels.mean())}
        self.kept = [*self.kept, found][-MOST:]

    def follow(self, monitor: Monitor, time: int) -> None:
        """Note whether the last alarm has ended; what is found within one horizon of it opens it again."""
        holds = monitor.alarm is not None
        if self.kept and holds == (self.kept[-1]["ended_by"] is not None):
            by = None if holds else monitor.alarms[-1].ended_by if monitor.alarms else "settings"
            ended = {"ended_by": by, "until": None if holds else moment(time / SECOND)}
            self.kept = [*self.kept[:-1], self.kept[-1] | ended]
