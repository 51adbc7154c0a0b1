"""Recognize the errors of engines about a sum beyond 64 bits, which have no common type or code."""

from __future__ import annotations


def says_overflow(problem: Exception) -> bool:
    """Whether an engine's error message says that a sum is too large."""
    return "out of range" in str(problem) or "overflow" in str(problem).lower()
