"""Online calibration: forecasters that learn from each outcome, adaptive and safe against adversaries."""

from calibrant.online.base import Forecaster, resume
from calibrant.online.newton import OnlinePlatt

__all__ = ["Forecaster", "OnlinePlatt", "resume"]
