"""Calibration curves of one probability: intercept and slope, flexible curves, and distances from the diagonal."""
