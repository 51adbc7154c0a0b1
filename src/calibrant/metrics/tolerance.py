"""The tolerated deviation of intercept and slope, shared by verdicts and monitors."""

from __future__ import annotations

import numpy as np

from calibrant.messages import InputError, Phrase, Setting

TOLERANCE = (0.2, 0.2)
"""Default tolerance of intercept and slope."""

MOST = 3.0
"""Largest tolerance: what is larger was meant in percent, and would call nearly every model calibrated."""


def check_tolerance(tolerance: tuple[float, float]) -> tuple[float, float]:
    """Two positive numbers; anything else raises an error."""
    pair = np.asarray(tolerance, dtype=np.float64)
    if pair.shape != (2,) or not (np.isfinite(pair).all() and (pair > 0.0).all()):
        problem = f"must be two positive numbers, for intercept and slope, got {tolerance!r}"
        both = (float(pair), float(pair)) if pair.shape == () and np.isfinite(pair) and pair > 0.0 else TOLERANCE
        raise InputError("tolerance", problem, Phrase("pass {both}", both=Setting("tolerance", both)))
    if (pair > MOST).any():
        problem = f"is {pair.max():g}, but it is a difference of log-odds, where {MOST:g} is a factor of 20 in the odds"
        raise InputError("tolerance", problem, "pass 0.2 for odds within a factor of 1.22")
    return float(pair[0]), float(pair[1])


def slope_room(tolerance: float, spread: float) -> float:
    """The tolerance of the slope for scores whose log-odds have this spread: wider below 1, unbounded without any."""
    return tolerance / min(spread, 1.0) if spread > 0.0 else float(np.inf)
