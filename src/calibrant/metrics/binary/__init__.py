"""Metrics of one probability."""
