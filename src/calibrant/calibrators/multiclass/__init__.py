"""Calibrators of several classes."""
