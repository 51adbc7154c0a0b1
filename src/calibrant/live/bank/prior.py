"""The prior of a bank: the map of a key before its first row, and how far keys differ from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np

from calibrant.calibration import Calibration
from calibrant.live.bank.steps import KEPT, LEAST, LEVEL, PAA, PAB, PBB
from calibrant.maps import IdentityMap, LogitAffineMap, Map
from calibrant.messages import InputError, Shown
from calibrant.numerics import Floats
from calibrant.online import Forecaster
from calibrant.online.limits import real

SMALLEST_SD, LARGEST_SD = 1e-3, 5.0
"""Range of the standard deviations between keys."""

MOST = 100.0
"""Largest slope and intercept of a prior."""


@dataclass(frozen=True)
class Prior(Shown):
    """What is assumed of a key before its first row: a Platt map, and how far keys differ from it.

    A key's log-odds at the score ``center`` differ from those of the map by N(0, level_sd^2), and its slope by
    N(0, slope_sd^2).

    Parameters
    ----------
    slope, intercept
        The map, on the log-odds of the score; by default the score as it is.
    level_sd, slope_sd
        Standard deviations between keys, in log-odds; for several crossings one for each, of a key around the key
        above it. Larger ones let keys leave the map sooner.
    center
        A typical score, such as the event rate. Level and slope of keys vary independently there.

    Notes
    -----
    Guarantee: no finite-sample guarantee. Edges: a slope below 0 reverses the order of scores, and is allowed. Cost:
    none. Reference: Efron and Morris (1975), Data analysis using Stein's estimator.

    Examples
    --------
    >>> print(Prior(0.9, -0.2, level_sd=0.3, center=0.02))
    slope 0.9, intercept -0.2; keys differ by 0.3 in log-odds at 0.02 and by 0.2 in slope
    """

    slope: float = 1.0
    intercept: float = 0.0
    level_sd: float | Sequence[float] = 0.5
    slope_sd: float | Sequence[float] = 0.2
    center: float = 0.5

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("slope", "intercept"):
            object.__setattr__(self, name, real(name, getattr(self, name), -MOST, MOST))
        object.__setattr__(self, "center", real("center", self.center, 1e-9, 1.0 - 1e-9))
        for name in ("level_sd", "slope_sd"):
            object.__setattr__(self, name, _sds(name, getattr(self, name)))

    @classmethod
    def of(cls, source: Map | Calibration | Forecaster | Prior, like: Prior | None = None) -> Prior:
        """The prior with the map of another object.

        Parameters
        ----------
        source
            A Platt map, a calibration with one, or a forecaster that freezes to one; a prior is returned as it is.
        like
            Where standard deviations and center come from; by default those of ``Prior()``.

        Returns
        -------
        Prior
            With slope and intercept of the map.
        """
        if isinstance(source, Prior):
            return source
        found = source.freeze() if isinstance(source, Forecaster) else getattr(source, "map", source)
        if isinstance(found, IdentityMap):
            found = LogitAffineMap(1.0, 0.0)
        if not isinstance(found, LogitAffineMap) or found.on != "log-odds":
            raise InputError(
                "prior", f"must be a Prior or a Platt map on the log-odds, got {type(source).__name__}",
                "pass Prior(slope, intercept), or fit PlattScaling or OnlinePlatt to all keys",
            )  # fmt: skip
        return replace(like or cls(), slope=found.slope, intercept=found.intercept)

    def sds(self, depth: int) -> Floats:
        """Standard deviations of level and slope, a line for each of ``depth`` crossings."""
        columns = []
        for name in ("level_sd", "slope_sd"):
            given = np.atleast_1d(getattr(self, name))
            if len(given) not in (1, depth):
                raise InputError(name, f"has {len(given)} numbers for {depth} crossings", "pass one for each")
            columns.append(np.broadcast_to(given, depth))
        return np.column_stack(columns)

    @property
    def center_log_odds(self) -> float:
        """The log-odds of the center."""
        return math.log(self.center / (1.0 - self.center))

    def levels(self, kept: Sequence[float]) -> Floats:
        """Precisions in slope and intercept, for the steps; ``kept`` has the weight of a row one row later."""
        found, c = np.zeros((len(kept), LEVEL)), self.center_log_odds
        for line, (level_sd, slope_sd), stays in zip(found, self.sds(len(kept)).tolist(), kept, strict=True):
            at, along = 1.0 / (level_sd * level_sd), 1.0 / (slope_sd * slope_sd)
            line[PAA], line[PAB], line[PBB] = along + c * c * at, c * at, at
            line[LEAST], line[KEPT] = along * at, stays
        return found.reshape(-1)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain JSON."""
        return {name: list(each) if isinstance(each, tuple) else each for name, each in asdict(self).items()}

    @classmethod
    def from_dict(cls, stored: Any) -> Self:
        """The prior that :meth:`to_dict` wrote."""
        if not isinstance(stored, dict) or stored.keys() != {field.name for field in fields(cls)}:
            raise InputError("state", "does not hold a prior")
        return cls(**stored)

    def __str__(self) -> str:
        level, along = (", ".join(f"{x:.3g}" for x in np.atleast_1d(each)) for each in (self.level_sd, self.slope_sd))
        return (
            f"slope {self.slope:.4g}, intercept {self.intercept:.4g}; keys differ by {level} in log-odds at "
            f"{self.center:.3g} and by {along} in slope"
        )


def _sds(name: str, value: Any) -> float | tuple[float, ...]:
    if isinstance(value, list | tuple | np.ndarray):
        if not len(value):
            raise InputError(name, "is empty", "pass one number, or one for each crossing")
        return tuple(real(name, each, SMALLEST_SD, LARGEST_SD) for each in value)
    return real(name, value, SMALLEST_SD, LARGEST_SD)
