"""Calibration by regression: unbiased on every group and test function."""
