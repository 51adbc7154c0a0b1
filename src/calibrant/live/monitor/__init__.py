"""Monitoring of calibration on a stream, valid at every look."""

from calibrant.live.monitor.alarms import Alarm
from calibrant.live.monitor.evidence import Band
from calibrant.live.monitor.monitor import Monitor

__all__ = ["Alarm", "Band", "Monitor"]
