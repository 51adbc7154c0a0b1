"""What stands around a forecaster of one score, whoever makes the scores."""

from __future__ import annotations

from typing import Any

from calibrant.arrays import InputError
from calibrant.online.base import Forecaster


def one_score_forecaster(forecaster: Any) -> Forecaster:
    """The forecaster, if a score alone is enough for it.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> one_score_forecaster(OnlinePlatt).n_rows
    Traceback (most recent call last):
        ...
    calibrant.arrays.errors.InputError: forecaster must be an object, and OnlinePlatt is a class: pass OnlinePlatt()
    """
    if isinstance(forecaster, type):
        name = forecaster.__name__
        raise InputError(f"forecaster must be an object, and {name} is a class: pass {name}()")
    if not isinstance(forecaster, Forecaster):
        raise InputError(f"forecaster must be one of calibrant.online, not {forecaster!r}")
    if forecaster.takes_rows or forecaster.takes_features:
        needs = "rows of classes" if forecaster.takes_rows else "features"
        raise InputError(f"forecaster must need one score alone, and {type(forecaster).__name__} needs {needs}")
    return forecaster
