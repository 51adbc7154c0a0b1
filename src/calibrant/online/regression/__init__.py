"""Calibration by regression: right on average on every group and every test function."""
