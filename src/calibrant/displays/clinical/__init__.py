"""Plots of the validation of clinical prediction models."""
