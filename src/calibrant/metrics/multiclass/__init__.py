"""Metrics of several classes."""
