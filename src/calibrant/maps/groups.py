"""Maps that differ by group of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.keys import LONGEST_KEY, key_text, plain_text
from calibrant.maps.base import Columns, Map, freeze, needed_keys, register
from calibrant.maps.scores import LogitAffineMap
from calibrant.messages import plural
from calibrant.numerics import Floats, chunks, to_float32


@register
@dataclass(frozen=True, eq=False, repr=False)
class ByGroupMap(Map):
    r"""A separate map for each group of rows.

    .. math:: m(s, g) = m_j(s) \quad\text{where}\quad g = g_j,

    with groups :math:`g_1, \dots, g_J` in the column ``by`` and the map :math:`m_j` of each. A row whose group is not
    listed or is missing (None, NaN, NULL) goes through ``default``. If the default is None there is no probability:
    NaN, in SQL NULL.

    Groups are text. Integers are converted to their digits, also if they are floats (pandas stores integers with gaps
    as floats), and True and False to ``true`` and ``false``; other values are an error.

    Parameters
    ----------
    by : str
        Name of the column of groups.
    groups : tuple of str
        The groups.
    maps : tuple of Map
        The map of each group.
    default : Map or None
        Map of other and missing groups.

    Notes
    -----
    Guarantee: that of the calibrator that fitted it; a map alone has none.
    Cost: one hash lookup per row for its group, then that of the maps; maps of log-odds that differ only in slope and
    intercept are evaluated together.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap, StepMap
    >>> by_region = ByGroupMap("region", ("north", "south"), (StepMap([], [0.2]), StepMap([], [0.4])), IdentityMap())
    >>> by_region.apply([0.5, 0.5, 0.5], ["south", "north", "east"]).tolist()
    [0.4, 0.2, 0.5]
    >>> by_region.columns
    ('region',)
    """

    by: str
    groups: tuple[str, ...]
    maps: tuple[Map, ...]
    default: Map | None

    kind: ClassVar[str] = "by-group"

    def __post_init__(self) -> None:
        """Check the parts."""
        if not isinstance(self.by, str) or not _writable(self.by):
            raise ValueError(f"by must be the name of the column of groups, got {self.by!r}")
        groups = tuple(key_text(group) for group in self.groups)
        maps = tuple(self.maps)
        if not groups or len(set(groups)) != len(groups) or len(groups) != len(maps):
            raise ValueError("a map by group needs at least one group, distinct groups, and one map for each")
        if any(group is None or (group and not _writable(group)) for group in groups):
            raise ValueError(f"a group must be text of at most {LONGEST_KEY} characters, without zero characters")
        parts = maps if self.default is None else (*maps, self.default)
        if not all(isinstance(part, Map) and not part.columns for part in parts):
            raise ValueError("the maps of groups must not need columns of groups: use a ComposeMap instead")
        freeze(self, "groups", groups)
        freeze(self, "maps", maps)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column ``by``."""
        return (self.by,)

    @cached_property
    def lines(self) -> tuple[LogitAffineMap, Floats, Floats] | None:
        """If all maps differ only in slope and intercept: one of them, the slopes and the intercepts."""
        first = self.maps[0]
        parts = [part for part in self.maps if isinstance(part, LogitAffineMap)]
        if not isinstance(first, LogitAffineMap) or len(parts) < len(self.maps):
            return None
        if any((part.on, part.low, part.high) != (first.on, first.low, first.high) for part in parts):
            return None
        return first, np.array([part.slope for part in parts]), np.array([part.intercept for part in parts])

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores`` of rows in ``by``; float32 in gives float32 out, NaN gives NaN."""
        given = np.asarray(scores)
        codes = needed_keys(self, by, given.shape)[self.by].among(self.groups).reshape(-1)
        flat = given.reshape(-1).astype(np.float64, copy=False)
        out = np.empty(flat.shape)
        if self.lines is None:
            self._fill_by_group(out, flat, codes)
        else:
            self._fill_at_once(out, flat, codes, *self.lines)
        return (to_float32(out) if given.dtype == np.float32 else out).reshape(given.shape)

    def _fill_by_group(self, out: Floats, s: Floats, codes: NDArray[np.intp]) -> None:
        order = np.argsort(codes.astype(np.int16 if len(self.maps) < 2**15 else np.intp), kind="stable")
        ends = np.cumsum(np.bincount(codes + 1, minlength=len(self.maps) + 1)).tolist()
        for j, part in enumerate((self.default, *self.maps)):
            rows = order[ends[j - 1] if j else 0 : ends[j]]
            if len(rows):
                out[rows] = np.nan if part is None else part.apply(s[rows])

    def _fill_at_once(
        self, out: Floats, s: Floats, codes: NDArray[np.intp], like: LogitAffineMap, slopes: Floats, intercepts: Floats
    ) -> None:
        for part in chunks(len(s)):
            code = codes[part]
            out[part] = like._evaluate_with(s[part], slopes[code], intercepts[code])
            others = np.flatnonzero(code < 0)
            if len(others):
                out[part.start + others] = np.nan if self.default is None else self.default.apply(s[part][others])

    def __repr__(self) -> str:
        """Number of groups instead of all of them."""
        named = ", ".join(map(repr, self.groups[:3])) + (", ..." if len(self.groups) > 3 else "")
        count = plural(len(self.groups), "group")
        return f"ByGroupMap({self.by!r}, {count}: {named}, default={self.default!r})"


def _writable(text: str) -> bool:
    return 0 < len(text) <= LONGEST_KEY and plain_text(text)
