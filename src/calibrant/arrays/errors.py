"""The one error and the one warning, and where a warning points."""

from __future__ import annotations

import sys
import warnings


class InputError(ValueError):
    """One sentence: the argument, the problem, the fix."""


class CalibrantWarning(UserWarning):
    """Something that Calibrant guessed, or that looks like a mistake but may be meant."""


def warn(message: str) -> None:
    """Warn at the first caller outside the package, so that the user sees a line of their own."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "calibrant":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, CalibrantWarning, stacklevel=level)
