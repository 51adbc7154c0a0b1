"""Online calibration: forecasters that learn from each outcome, adaptive and safe against adversaries."""
