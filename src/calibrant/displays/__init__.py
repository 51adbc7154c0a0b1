"""Pictures: each display computes first, holds plain numbers in ``data`` and draws them in ``plot``."""

from calibrant.displays.map import MapDisplay
from calibrant.displays.plan import PlanDisplay
from calibrant.displays.reliability import ReliabilityDisplay
from calibrant.displays.validity import ValidityDisplay

__all__ = ["MapDisplay", "PlanDisplay", "ReliabilityDisplay", "ValidityDisplay"]
