"""Calibrators of one score."""
