"""The policy that refits on alarm: a monitor watches what is served, and a map is fitted when it raises an alarm."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from calibrant.live.monitor import Monitor
from calibrant.live.replay.history import History, Usable, line_tally
from calibrant.live.replay.policies import Refitting, Served, serve_maps
from calibrant.maps import IdentityMap, Map
from calibrant.messages import InputError
from calibrant.tallies import SEGMENT_GRID

WINDOW = 28
"""Days of labels to which a map is fitted after an alarm, by default."""


@dataclass(frozen=True)
class OnAlarm(Refitting):
    """Fit a new map when a :class:`Monitor` of what is served raises an alarm.

    Each day the monitor takes the labels that became known, with the probabilities that were served, if the map in use
    served them. After an alarm a map is fitted as soon as there are enough labels, and the monitor restarts.

    Parameters
    ----------
    monitor
        A new monitor, of which each back-test uses a copy; by default one with level 0.05 against calibration.
    calibrator, min_events
        As in :class:`Every`.
    window
        Fit to the labels that became known in this many days, 28 by default: older ones are from before the change.

    Notes
    -----
    Guarantee: that of the monitor. While what is served is calibrated, a map is ever replaced with probability at most
    its level. Assumption: labels are independent given what was known at their predictions; see :class:`Monitor`.
    Edges: scores are served as they are until the first alarm. Cost: one look of the monitor a day, and a fit to about
    1,000 cells for each alarm. Reference: that of :class:`Monitor`.

    Examples
    --------
    >>> from calibrant import live
    >>> live.OnAlarm().name
    'on alarm'
    """

    monitor: Monitor | None = None
    window: int | None = field(default=WINDOW, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse settings that cannot be used."""
        super().__post_init__()
        if self.monitor is not None and (not isinstance(self.monitor, Monitor) or self.monitor.rows):
            raise InputError("monitor", "must be a Monitor without rows", "pass Monitor()")

    @property
    def name(self) -> str:
        """Name in tables."""
        return "on alarm" + ("" if self.window == WINDOW and self.calibrator is None else self.how)

    def serve(self, history: History) -> Served:
        """The scores, and after each alarm a new map."""
        monitor = Monitor() if self.monitor is None else copy.deepcopy(self.monitor)
        usable = Usable(history, self.window)
        made: list[tuple[int, Map]] = []
        order, starts = history.by_known
        since, due = 0, False
        current: Map = IdentityMap()
        for day in range(history.days):
            rows = order[starts[day] : starts[day + 1]]
            rows = rows[history.day[rows] >= since]
            if len(rows) and not due:
                before = monitor.run
                p = current.apply(history.scores[rows])
                counted = line_tally(p, history.n[rows], history.events[rows], SEGMENT_GRID)
                monitor.update_tally(counted, at=float(day))
                due = monitor.run > before
            found = self.fit(usable, day) if due else None
            if found is not None:
                made.append((day, found))
                since, current, due = day, found, False
                monitor.restart()
        return serve_maps(history, made)
