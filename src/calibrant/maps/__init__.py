"""Map: a fitted calibration as frozen data.

A map holds numbers, no code: it applies itself to arrays here, and `export` and `engine` lower the same numbers to
JSON, SQL and dataframe expressions. Needs numpy alone, so that applying a stored map starts fast.
"""

from calibrant.maps.base import Columns, Map, ScoreMap
from calibrant.maps.classes import ClassAxis, ClassMap, PerClassMap, SoftmaxMap, TopMap
from calibrant.maps.compose import ComposeMap
from calibrant.maps.groups import ByGroupMap
from calibrant.maps.paths import PathForecast, PathMap
from calibrant.maps.scores import (
    LARGEST,
    Axis,
    BetaMap,
    IdentityMap,
    LogitAffineMap,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.maps.simplex import SimplexBinsMap, SimplexScheme
from calibrant.maps.taxonomy import Taxonomy

KINDS: dict[str, type[Map]] = {
    cls.kind: cls for cls in (IdentityMap, StepMap, PiecewiseLinearMap, LogitAffineMap, BetaMap, ByGroupMap, ComposeMap)
}
"""Every kind of map of one score; documents may name these and :data:`CLASS_KINDS`, and nothing else."""

CLASS_KINDS: dict[str, type[ClassMap]] = {
    cls.kind: cls for cls in (SoftmaxMap, PerClassMap, TopMap, SimplexBinsMap, PathMap)
}
"""Every kind of map of a row of class scores."""

__all__ = [
    "CLASS_KINDS",
    "KINDS",
    "LARGEST",
    "Axis",
    "BetaMap",
    "ByGroupMap",
    "ClassAxis",
    "ClassMap",
    "Columns",
    "ComposeMap",
    "IdentityMap",
    "LogitAffineMap",
    "Map",
    "PathForecast",
    "PathMap",
    "PerClassMap",
    "PiecewiseLinearMap",
    "ScoreMap",
    "SimplexBinsMap",
    "SimplexScheme",
    "SoftmaxMap",
    "StepMap",
    "Taxonomy",
    "TopMap",
]
