"""Calibration: a fitted map with its provenance and certificate."""

from calibrant.calibration.calibration import BY_SEGMENT, Calibration, as_calibration, fitted_rows, load

__all__ = ["BY_SEGMENT", "Calibration", "as_calibration", "fitted_rows", "load"]
