"""The table of metrics of one column of scores with one number, which :func:`~calibrant.metrics.interval` reads."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from calibrant.metrics.estimates import Estimate

F = TypeVar("F", bound=Callable[..., Estimate])


class Ideal(Enum):
    """The value of a metric for a calibrated model, which decides how its interval is made."""

    NONE = "none"
    """A loss, a ratio, a slope: it depends on the model. Its interval is a bootstrap."""
    ZERO = "zero"
    """A distance from calibration: 0 in the population, biased upward in a sample. Its interval inverts a test."""
    UNKNOWN = "unknown"
    """A distance that is not 0 for a calibrated model. It has no interval."""


class Metric(NamedTuple):
    """A function of a tally, and the value that it has for a calibrated model."""

    function: Callable[..., Estimate]
    ideal: Ideal


BINARY: dict[str, Metric] = {}
"""Metrics by the name that :func:`~calibrant.metrics.interval` takes."""


def metric(ideal: Ideal = Ideal.NONE, name: str | None = None) -> Callable[[F], F]:
    """Enter a function of ``(scores, y, sample_weight)`` or of a tally in the table, by its own name.

    Parameters
    ----------
    ideal : Ideal
        The value for a calibrated model.
    name : str, optional
        Another name than that of the function.

    Returns
    -------
    callable
        A decorator that returns the function itself.

    Examples
    --------
    >>> BINARY["ece"].ideal
    <Ideal.ZERO: 'zero'>
    """

    def enter(function: F) -> F:
        BINARY[name or _name(function)] = Metric(function, ideal)
        return function

    return enter


def _name(function: Any) -> str:
    return str(function.__name__)
