"""Verdicts on models of several classes."""
