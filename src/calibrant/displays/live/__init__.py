"""Displays of streams."""
