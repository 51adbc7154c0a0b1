"""Monitoring of calibration on a stream, valid at every look."""

from calibrant.live.monitor.alarms import Alarm
from calibrant.live.monitor.evidence import Band
from calibrant.live.monitor.keys import KeyFinding
from calibrant.live.monitor.monitor import Monitor
from calibrant.live.monitor.sets import Range

__all__ = ["Alarm", "Band", "KeyFinding", "Monitor", "Range"]
