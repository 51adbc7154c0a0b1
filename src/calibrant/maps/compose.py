"""Composition of maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.maps.base import Columns, Direction, Map, freeze, needed_keys, register
from calibrant.numerics import to_float32


@register
@dataclass(frozen=True, eq=False)
class ComposeMap(Map):
    """A composition of maps, the first applied first; nested compositions are flattened.

    Maps by group may be among them, of one or several columns.

    Parameters
    ----------
    maps : tuple of Map
        The maps, the first applied first.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap, PiecewiseLinearMap
    >>> ComposeMap((LogitAffineMap(0.0, 9.0), PiecewiseLinearMap([0.1, 0.9], [0.1, 0.9]))).apply([0.5]).tolist()
    [0.9]
    """

    maps: tuple[Map, ...]

    kind: ClassVar[str] = "compose"

    def __post_init__(self) -> None:
        """Check the parts."""
        parts = tuple(self.maps)
        if not parts or not all(isinstance(part, Map) for part in parts):
            raise ValueError("a composition needs at least one map, and only maps")
        if any(part.numbers for part in parts) or any(part.kind == "tree" for part in parts):
            raise ValueError("a tree cannot be part of a composition: change the maps of its leaves instead")
        freeze(
            self,
            "maps",
            tuple(leaf for part in parts for leaf in (part.maps if isinstance(part, ComposeMap) else (part,))),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the parts, in the order of first use."""
        return tuple(dict.fromkeys(name for part in self.maps for name in part.columns))

    @property
    def direction(self) -> Direction:
        """Rising if no map decreases; otherwise mixed."""
        return Direction.RISING if all(part.direction.never_falls for part in self.maps) else Direction.MIXED

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities after the last map."""
        given = np.asarray(scores)
        keys = needed_keys(self, by, given.shape)
        single = given.dtype == np.float32
        out = given.astype(np.float64) if single else given
        for part in self.maps:
            out = part.apply(out, keys if part.columns else None)
        return to_float32(out) if single else out
