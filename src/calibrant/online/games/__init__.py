"""Calibeating and adversarially calibrated forecasters, and their bounds."""
