"""Maps that differ by group of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.keys import LONGEST_KEY, key_text, plain_text
from calibrant.maps.base import Columns, Map, freeze, needed_keys, register
from calibrant.maps.classes import ClassAxis, MulticlassMap, SoftmaxMap, blocks, check_numbers, softmax
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
        groups = _checked_groups(self.by, self.groups)
        maps = tuple(self.maps)
        if len(groups) != len(maps):
            raise ValueError("a map by group needs one map for each group")
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
    def _places(self) -> dict[str, int]:
        """Index of each group: made once, since ``check`` applies the map to thousands of segments one by one."""
        return {group: place for place, group in enumerate(self.groups)}

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
        codes = needed_keys(self, by, given.shape)[self.by].among(self._places).reshape(-1)
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

    @property
    def words(self) -> str:
        """The column, the number of groups and the default map."""
        others = "no probability" if self.default is None else self.default.words
        return f"{plural(len(self.groups), 'group')} by {self.by!r}; others: {others}"

    def __repr__(self) -> str:
        """Number of groups instead of all of them."""
        named = ", ".join(map(repr, self.groups[:3])) + (", ..." if len(self.groups) > 3 else "")
        count = plural(len(self.groups), "group")
        return f"ByGroupMap({self.by!r}, {count}: {named}, default={self.default!r})"


@register
@dataclass(frozen=True, eq=False, repr=False)
class GroupedSoftmaxMap(MulticlassMap):
    r"""A softmax map, and for each group of rows a slope and intercepts that follow it.

    .. math:: m(z, g) = \operatorname{softmax}\bigl(t_g (W z + b) + a_g\bigr)

    with :math:`z`, W and b as in :class:`SoftmaxMap`. A row whose group is not listed or is missing has :math:`t = 1`
    and :math:`a = 0`: the softmax map alone. Groups are text, as in :class:`ByGroupMap`.

    Parameters
    ----------
    classes, slope, intercept, on, clamp
        As in :class:`SoftmaxMap`.
    by : str
        Name of the column of groups.
    groups : tuple of str
        The groups.
    scales : array
        :math:`t_g`, one number for each group.
    shifts : array
        :math:`a_g`, K numbers for each group, group by group.

    Examples
    --------
    >>> by_site = GroupedSoftmaxMap(("a", "b"), [1.0], [], "probability", 1e-9, "site", ("x",), [2.0], [0.0, 0.0])
    >>> by_site.apply([[0.25, 0.75]] * 2, ["x", "y"]).round(3).tolist()
    [[0.1, 0.9], [0.25, 0.75]]
    """

    classes: tuple[str, ...]
    slope: Floats
    intercept: Floats
    on: ClassAxis
    clamp: float
    by: str
    groups: tuple[str, ...]
    scales: Floats
    shifts: Floats

    kind: ClassVar[str] = "grouped-softmax"

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole = SoftmaxMap(self.classes, self.slope, self.intercept, self.on, self.clamp)
        for name in ("classes", "slope", "intercept"):
            freeze(self, name, getattr(whole, name))
        freeze(self, "groups", _checked_groups(self.by, self.groups))
        scales, shifts = check_numbers(self.scales), check_numbers(self.shifts)
        if len(scales) != len(self.groups) or len(shifts) != len(self.groups) * len(self.classes):
            raise ValueError("every group needs one scale, and one shift for each class")
        freeze(self, "scales", scales)
        freeze(self, "shifts", shifts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column ``by``."""
        return (self.by,)

    @property
    def whole(self) -> SoftmaxMap:
        """The map of rows without a group."""
        return SoftmaxMap(self.classes, self.slope, self.intercept, self.on, self.clamp)

    @property
    def keeps_zeros(self) -> bool:
        """Whether the softmax map of every group keeps them."""
        return self.whole.keeps_zeros and all(self.of_group(group).keeps_zeros for group in self.groups)

    @property
    def tables(self) -> tuple[Floats, Floats]:
        """Scales and shifts with a line for each group, and a last one for other rows."""
        size = len(self.classes)
        shifts = np.concatenate([self.shifts, np.zeros(size)]).reshape(-1, size)
        return np.append(self.scales, 1.0), shifts

    def of_group(self, group: str) -> SoftmaxMap:
        """The map of one group, which needs no column of groups."""
        if group not in self.groups:
            return self.whole
        place, size = self.groups.index(group), len(self.classes)
        scale, shift = self.scales[place], self.shifts[place * size : (place + 1) * size]
        intercept = scale * self.intercept + shift if len(self.intercept) else shift
        return SoftmaxMap(self.classes, scale * self.slope, intercept, self.on, self.clamp)

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for rows in the groups ``by``; without groups, those of the softmax map alone."""
        given = self._matrix(scores)
        codes = np.full(len(given), len(self.groups))
        if by is not None:
            found = needed_keys(self, by, given.shape[:1])[self.by].among(self.groups)
            codes = np.where(found < 0, len(self.groups), found)
        scales, shifts = self.tables
        single = given.dtype == np.float32
        out = np.empty(given.shape, dtype=np.float32 if single else np.float64)
        whole = self.whole
        for part in blocks(given):
            z = whole.affine(given[part].astype(np.float64, copy=False))
            piece = softmax(z * scales[codes[part], None] + shifts[codes[part]])
            out[part] = to_float32(piece) if single else piece
        return out

    def __repr__(self) -> str:
        """Numbers of groups and classes."""
        count = plural(len(self.groups), "group")
        return f"GroupedSoftmaxMap({self.by!r:.60}, {count}, {len(self.classes)} classes, on {self.on})"


def _checked_groups(by: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the groups as text; an error if a document cannot hold them."""
    if not isinstance(by, str) or not _writable(by):
        raise ValueError(f"by must be the name of the column of groups, got {by!r}")
    groups = [key_text(group) for group in given]
    if not groups or len(set(groups)) != len(groups):
        raise ValueError("a map by group needs at least one group, and distinct groups")
    if any(group is None or (group and not _writable(group)) for group in groups):
        raise ValueError(f"a group must be text of at most {LONGEST_KEY} characters, without zero characters")
    return tuple(str(group) for group in groups)


def _writable(text: str) -> bool:
    return 0 < len(text) <= LONGEST_KEY and plain_text(text)
