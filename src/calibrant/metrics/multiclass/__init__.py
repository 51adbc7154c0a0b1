"""Metrics for several classes."""
