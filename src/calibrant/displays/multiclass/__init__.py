"""Displays for several classes."""
