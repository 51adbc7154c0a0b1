"""Parity calibration: probabilities that a series falls or rises, from any predictive distribution."""
