"""Maps one after the other."""

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
    """Maps one after the other, the first applied first; compositions inside it are laid flat.

    Maps by group may stand among them, of one column or of several.

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
            raise ValueError("a composition needs at least one map, and maps only")
        freeze(
            self,
            "maps",
            tuple(leaf for part in parts for leaf in (part.maps if isinstance(part, ComposeMap) else (part,))),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the parts, in the order of first need."""
        return tuple(dict.fromkeys(name for part in self.maps for name in part.columns))

    @property
    def direction(self) -> Direction:
        """Rising, if no map falls; otherwise taken as mixed."""
        return Direction.RISING if all(part.direction.never_falls for part in self.maps) else Direction.MIXED

    def apply(self, scores: ArrayLike, groups: Columns | None = None) -> NDArray[Any]:
        """Probabilities after the last map."""
        given = np.asarray(scores)
        keys = needed_keys(self, groups, given.shape)
        single = given.dtype == np.float32
        out = given.astype(np.float64) if single else given
        for part in self.maps:
            out = part.apply(out, keys if part.columns else None)
        return to_float32(out) if single else out
