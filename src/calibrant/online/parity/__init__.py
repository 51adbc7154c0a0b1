"""Parity: will a series fall or rise, told from any predictive distribution, and how well that is calibrated."""
