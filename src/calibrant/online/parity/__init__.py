"""Parity: probabilities that a series falls or rises, from any predictive distribution, and their calibration."""
