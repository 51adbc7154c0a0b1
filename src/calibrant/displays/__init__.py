"""Pictures: each display computes first, holds plain numbers in ``data`` and draws them in ``plot``."""

from calibrant.displays.map import MapDisplay
from calibrant.displays.multiclass.error import ClassErrorDisplay
from calibrant.displays.multiclass.panels import ClassWiseDisplay
from calibrant.displays.multiclass.reliability import TopLabelBinDisplay, TopLabelDisplay
from calibrant.displays.multiclass.simplex import CanonicalValidityDisplay, SimplexDisplay
from calibrant.displays.plan import PlanDisplay
from calibrant.displays.reliability import ReliabilityDisplay
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
