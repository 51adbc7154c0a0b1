"""Fits of maps of several classes."""
