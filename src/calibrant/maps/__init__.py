"""Map: a fitted calibration as frozen data.

A map holds numbers, no code: it applies itself to arrays here, and `export` and `engine` lower the same numbers to
JSON, SQL and dataframe expressions. Needs numpy alone, so that applying a stored map starts fast.
"""

from calibrant.maps.base import Columns, Map, ScoreMap
from calibrant.maps.compose import ComposeMap
from calibrant.maps.groups import ByGroupMap
from calibrant.maps.scores import (
    LARGEST,
    Axis,
    BetaMap,
    IdentityMap,
    LogitAffineMap,
    PiecewiseLinearMap,
    StepMap,
)

KINDS: dict[str, type[Map]] = {
    cls.kind: cls for cls in (IdentityMap, StepMap, PiecewiseLinearMap, LogitAffineMap, BetaMap, ByGroupMap, ComposeMap)
}
"""Every kind that a document may name; nothing else can be built from one."""

__all__ = [
    "KINDS",
    "LARGEST",
    "Axis",
    "BetaMap",
    "ByGroupMap",
    "Columns",
    "ComposeMap",
    "IdentityMap",
    "LogitAffineMap",
    "Map",
    "PiecewiseLinearMap",
    "ScoreMap",
    "StepMap",
]
