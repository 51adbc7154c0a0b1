"""What engines say about a sum beyond 64 bits: they have no type or code in common."""

from __future__ import annotations


def says_overflow(problem: Exception) -> bool:
    """Whether an engine's own words say that a sum is too large."""
    return "out of range" in str(problem) or "overflow" in str(problem).lower()
