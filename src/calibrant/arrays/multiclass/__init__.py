"""Rows of several classes."""
