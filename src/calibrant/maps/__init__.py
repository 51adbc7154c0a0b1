"""Map: a fitted calibration as frozen data.

A map contains numbers and no code. It is applied to arrays here; `export` and `engine` turn the same numbers into JSON,
SQL and dataframe expressions. Maps need only numpy, so that applying a stored map starts fast.
"""

from calibrant.maps import classes, scores
from calibrant.maps.base import KINDS, Columns, Direction, Map, ScoreMap
from calibrant.maps.classes import *  # noqa: F403
from calibrant.maps.compose import ComposeMap
from calibrant.maps.groups import ByGroupMap, GroupedSoftmaxMap
from calibrant.maps.paths import PathForecast, PathMap
from calibrant.maps.scores import *  # noqa: F403
from calibrant.maps.simplex import SimplexBinsMap, SimplexScheme
from calibrant.maps.taxonomy import Taxonomy
from calibrant.maps.trees import ClassTreeMap, TreeMap
from calibrant.messages import public_names

__all__ = [
    "KINDS",
    "ByGroupMap",
    "ClassTreeMap",
    "Columns",
    "ComposeMap",
    "Direction",
    "GroupedSoftmaxMap",
    "Map",
    "PathForecast",
    "PathMap",
    "ScoreMap",
    "SimplexBinsMap",
    "SimplexScheme",
    "Taxonomy",
    "TreeMap",
]
__all__ += classes.__all__
__all__ += scores.__all__

__dir__ = public_names(__all__)
