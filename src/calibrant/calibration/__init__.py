"""Calibration: a fitted map with its provenance and certificate."""

from calibrant.calibration.calibration import Calibration, as_calibration, both_classes, fitted_rows, load
from calibrant.calibration.exportable import BY_SEGMENT, ignores_groups

__all__ = ["BY_SEGMENT", "Calibration", "as_calibration", "both_classes", "fitted_rows", "ignores_groups", "load"]
