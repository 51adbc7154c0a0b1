"""Pictures: each display computes first, holds plain numbers in ``data`` and draws them in ``plot``."""

from calibrant.displays.class_error import ClassErrorDisplay
from calibrant.displays.class_panels import ClassWiseDisplay
from calibrant.displays.class_reliability import TopLabelBinDisplay, TopLabelDisplay
from calibrant.displays.map import MapDisplay
from calibrant.displays.plan import PlanDisplay
from calibrant.displays.reliability import ReliabilityDisplay
from calibrant.displays.simplex import CanonicalValidityDisplay, SimplexDisplay
from calibrant.displays.validity import ValidityDisplay

__all__ = [
    "CanonicalValidityDisplay",
    "ClassErrorDisplay",
    "ClassWiseDisplay",
    "MapDisplay",
    "PlanDisplay",
    "ReliabilityDisplay",
    "SimplexDisplay",
    "TopLabelBinDisplay",
    "TopLabelDisplay",
    "ValidityDisplay",
]
