"""The limit within which a model counts as calibrated, shared by verdicts and monitors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.messages import InputError, Setting

LIMIT = 0.2
"""Default limit of the error of the curve, in log-odds: the odds are typically within a factor of 1.22."""

TOLERANCE = (LIMIT, LIMIT)
"""Default limits of intercept and slope where they are judged by themselves, as in a monitor."""

MOST = 3.0
"""Largest limit: what is larger was meant in percent, and would call nearly every model calibrated."""


@dataclass(frozen=True)
class Limits:
    """What is allowed: the error of the curve and, if given, the distances of intercept and slope from 0 and 1.

    Attributes
    ----------
    curve, intercept, slope
        Differences of log-odds; of the slope a difference from 1. None where none was given.
    """

    curve: float = LIMIT
    intercept: float | None = None
    slope: float | None = None

    @classmethod
    def of(cls, tolerance: float | tuple[float, float]) -> Limits:
        """From what was passed: a number is the limit of the curve; a pair is a further condition, taken literally.

        Examples
        --------
        >>> Limits.of(0.1), Limits.of((0.2, 0.3))
        (Limits(curve=0.1, intercept=None, slope=None), Limits(curve=0.2, intercept=0.2, slope=0.3))
        """
        if np.ndim(tolerance) == 0:
            number = np.asarray(tolerance, dtype=np.float64)
            if not (np.isfinite(number) and number > 0.0):
                problem = f"must be a positive number, the limit of the curve, got {tolerance!r}"
                raise InputError("tolerance", problem, "pass 0.2 for odds within a factor of 1.22")
            _refuse_large(number)
            return cls(float(number))
        return cls(LIMIT, *check_tolerance(tolerance))  # type: ignore[arg-type]


def check_tolerance(tolerance: tuple[float, float]) -> tuple[float, float]:
    """Two positive numbers; anything else raises an error."""
    pair = np.asarray(tolerance, dtype=np.float64)
    if pair.shape != (2,) or not (np.isfinite(pair).all() and (pair > 0.0).all()):
        problem = f"must be two positive numbers, for intercept and slope, got {tolerance!r}"
        raise InputError("tolerance", problem, f"pass {Setting('tolerance', TOLERANCE)}")
    _refuse_large(pair)
    return float(pair[0]), float(pair[1])


def _refuse_large(limits: np.ndarray) -> None:
    if (limits > MOST).any():
        problem = (
            f"is {limits.max():g}, but it is a difference of log-odds, where {MOST:g} is a factor of 20 in the odds"
        )
        raise InputError("tolerance", problem, "pass 0.2 for odds within a factor of 1.22")
