"""Map: a fitted calibration as frozen data.

A map holds numbers, no code: it applies itself to arrays here, and `export` and `engine` lower the same numbers to
JSON, SQL and dataframe expressions. Needs numpy alone, so that applying a stored map starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.errors import InputError
from calibrant.arrays.keys import LONGEST_KEY, Keys, key_text, read_keys
from calibrant.numerics import CLAMP, LOG_ODDS_LIMIT, Floats, Guide, chunks, to_float32

Axis = Literal["log-odds", "score"]

Columns = ArrayLike | Mapping[str, Any]
"""Groups of the rows: the one column that a map needs, or columns by their names."""

LARGEST = 1e301
"""Parameters and knots stay below this, so that their products with log-odds and their differences stay finite."""


class Map:
    """Anything that turns a model's output into probabilities and is made of numbers alone.

    Subclasses are frozen dataclasses with a ``kind`` of their own; their fields are numbers, strings, float arrays or
    other maps, which is all that a stored document can hold. What goes in and comes out (one score, a row of class
    scores, a score with its group) is the subclass's matter.
    """

    kind: ClassVar[str]
    exact: ClassVar[bool] = False
    """Whether it only compares and copies, so that every place where it runs must give the same doubles."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of groups that it needs beside the score, without repeats."""
        return ()

    def apply(self, scores: ArrayLike, groups: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores``; float32 in gives float32 out, NaN gives NaN.

        A map that needs columns of groups takes them by name, or as one array when it needs one column; in a mapping,
        columns that it does not need are left alone.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Bit-equality of kind and every number."""
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are built anew from the numbers, so that they are checked and frozen too."""
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __hash__(self) -> int:
        """Hash of the numbers, consistent with equality."""
        return hash((self.kind, *(_hashable(getattr(self, f.name)) for f in fields(self))))  # type: ignore[arg-type]


class ScoreMap(Map):
    """A map of one score to one probability, evaluated chunk by chunk."""

    def apply(self, scores: ArrayLike, groups: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores``; float32 in gives float32 out, NaN gives NaN."""
        _columns(self, groups, np.shape(scores))
        given = np.asarray(scores)
        flat = given.reshape(-1)
        single = flat.dtype == np.float32
        out = np.empty(flat.shape, dtype=np.float32 if single else np.float64)
        for part in chunks(len(flat)):
            piece = self._evaluate(flat[part].astype(np.float64, copy=False))
            out[part] = to_float32(piece) if single else piece
        return out.reshape(given.shape)

    def _evaluate(self, s: Floats) -> Floats:
        """Image of one chunk of float64 scores; must not write into ``s`` and must keep NaN."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class IdentityMap(ScoreMap):
    """The score itself: the model is kept as it is.

    Examples
    --------
    >>> IdentityMap().apply([0.2, 0.7]).tolist()
    [0.2, 0.7]
    """

    kind: ClassVar[str] = "identity"
    exact: ClassVar[bool] = True

    def apply(self, scores: ArrayLike, groups: Columns | None = None) -> NDArray[Any]:
        """A copy of ``scores``, as floats."""
        _columns(self, groups, np.shape(scores))
        given = np.asarray(scores)
        return given.astype(np.float32 if given.dtype == np.float32 else np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class StepMap(ScoreMap):
    r"""A right-continuous step function.

    .. math:: m(s) = v_j \quad\text{for}\quad k_j \le s < k_{j+1},

    with inner knots :math:`k_1 < \dots < k_J` and :math:`J + 1` values; the first step reaches down to any score and
    the last up to any score, so no score is ever outside.

    Examples
    --------
    >>> StepMap([0.5], [0.1, 0.8]).apply([0.0, 0.49, 0.5, 1.0]).tolist()
    [0.1, 0.1, 0.8, 0.8]
    """

    knots: Floats
    values: Floats

    kind: ClassVar[str] = "step"
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check and freeze the arrays."""
        _freeze(self, "knots", _increasing(self.knots, "knots"))
        _freeze(self, "values", _probabilities(self.values, "values"))
        if len(self.values) != len(self.knots) + 1:
            raise ValueError(f"a step map of {len(self.knots)} inner knots needs {len(self.knots) + 1} values")

    @cached_property
    def _guide(self) -> Guide:
        return Guide(self.knots)

    def merged(self) -> StepMap:
        """The same function without knots between equal values."""
        changes = self.values[1:] != self.values[:-1]
        return StepMap(self.knots[changes], self.values[np.append(True, changes)])

    def _evaluate(self, s: Floats) -> Floats:
        out = self.values.take(self._guide.locate(s))
        missing = np.isnan(s)
        if missing.any():
            out[missing] = np.nan
        return out

    def __repr__(self) -> str:
        """Size and range instead of thousands of numbers."""
        return f"StepMap({_span(self.knots, 'knots')}, {_span(self.values, 'values')})"


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseLinearMap(ScoreMap):
    r"""Linear interpolation between knots, constant outside them.

    .. math:: m(s) = v_j + (v_{j+1} - v_j)\,\frac{s - k_j}{k_{j+1} - k_j} \quad\text{for}\quad k_j \le s \le k_{j+1}.

    Inside a piece the result is held between its two end values, so rounding cannot turn a monotone table into a map
    that inverts a ranking.

    Examples
    --------
    >>> PiecewiseLinearMap([0.0, 1.0], [0.2, 0.6]).apply([-1.0, 0.5, 2.0]).tolist()
    [0.2, 0.4, 0.6]
    """

    knots: Floats
    values: Floats

    kind: ClassVar[str] = "piecewise-linear"

    def __post_init__(self) -> None:
        """Check and freeze the arrays."""
        _freeze(self, "knots", _increasing(self.knots, "knots"))
        _freeze(self, "values", _probabilities(self.values, "values"))
        if len(self.values) != len(self.knots) or not len(self.knots):
            raise ValueError(f"a piecewise-linear map needs as many values as knots, got {len(self.values)}")

    @cached_property
    def _pieces(self) -> tuple[Guide, Floats, Floats, Floats]:
        """Guide, left knot, width and rise by the number of knots at or below the score (which is at least 1)."""
        left = np.append(self.knots[0], self.knots)
        width = np.concatenate([[1.0], np.diff(self.knots), [1.0]])
        rise = np.concatenate([[0.0], np.diff(self.values), [0.0]])
        return Guide(self.knots), left, width, rise

    def _evaluate(self, s: Floats) -> Floats:
        guide, left, width, rise = self._pieces
        x = np.clip(s, self.knots[0], self.knots[-1])
        piece = guide.locate(x)
        start = self.values.take(piece - 1, mode="clip")
        end = self.values.take(piece, mode="clip")
        x -= left.take(piece)
        x /= width.take(piece)
        x *= rise.take(piece)
        x += start
        return np.asarray(np.clip(x, np.minimum(start, end), np.maximum(start, end)))

    def __repr__(self) -> str:
        """Size and range instead of thousands of numbers."""
        return f"PiecewiseLinearMap({_span(self.knots, 'knots')}, {_span(self.values, 'values')})"


@dataclass(frozen=True, eq=False)
class LogitAffineMap(ScoreMap):
    r"""An affine map of the log-odds, or of the score itself.

    .. math:: m(s) = \operatorname{expit}(\text{slope} \cdot x + \text{intercept}),\qquad
              x = \operatorname{logit}(s) \text{ or } x = s,

    where scores are moved inside ``[clamp, 1 - clamp]`` before their log-odds are taken (002 eq. 1.7, read with the
    exponent a logit(z) + b). The identity is slope 1, intercept 0 on the log-odds.

    Examples
    --------
    >>> LogitAffineMap(1.0, 0.0).apply([0.25]).tolist()
    [0.25]
    """

    slope: float
    intercept: float
    on: Axis = "log-odds"
    clamp: float = CLAMP

    kind: ClassVar[str] = "logit-affine"

    def __post_init__(self) -> None:
        """Refuse numbers that would not give a probability."""
        _finite(self, "slope", "intercept")
        _clamp(self)
        if self.on not in ("log-odds", "score"):
            raise ValueError(f"on must be 'log-odds' or 'score', got {self.on!r}")

    def _evaluate(self, s: Floats) -> Floats:
        return self._evaluate_with(s, self.slope, self.intercept)

    def _evaluate_with(self, s: Floats, slope: float | Floats, intercept: float | Floats) -> Floats:
        """The map with another slope and intercept, or with those of each row."""
        if self.on == "score":
            with np.errstate(over="ignore"):  # an infinite argument is held at the limit below
                x = np.clip(s, -LARGEST, LARGEST) * slope
        else:
            x = np.maximum(s, self.clamp)
            np.minimum(x, 1.0 - self.clamp, out=x)
            np.divide(x, 1.0 - x, out=x)
            np.log(x, out=x)
            x *= slope
        x += intercept
        return _expit_in_place(x)


@dataclass(frozen=True, eq=False)
class BetaMap(ScoreMap):
    r"""The three-parameter beta map, in the sign of Kull et al.

    .. math:: m(s) = \operatorname{expit}\bigl(a \log s - b \log(1 - s) + c\bigr),

    with identity :math:`(a, b, c) = (1, 1, 0)`. 002 eq. 6.18 writes the second term with a plus; its b is our -b.

    Examples
    --------
    >>> BetaMap(1.0, 1.0, 0.0).apply([0.25]).round(12).tolist()
    [0.25]
    """

    a: float
    b: float
    c: float
    clamp: float = CLAMP

    kind: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        """Refuse numbers that would not give a probability."""
        _finite(self, "a", "b", "c")
        _clamp(self)

    def _evaluate(self, s: Floats) -> Floats:
        x = np.maximum(s, self.clamp)
        np.minimum(x, 1.0 - self.clamp, out=x)
        other = np.log1p(-x)
        other *= self.b
        np.log(x, out=x)
        x *= self.a
        x -= other
        x += self.c
        return _expit_in_place(x)


@dataclass(frozen=True, eq=False, repr=False)
class ByGroupMap(Map):
    r"""A map for each group of rows.

    .. math:: m(s, g) = m_j(s) \quad\text{where}\quad g = g_j,

    with groups :math:`g_1, \dots, g_J` in the column ``by`` and the map :math:`m_j` of each. A row whose group is not
    listed or is missing (None, NaN, NULL) goes through ``default``; a default of None says that no probability is
    known there: NaN, in SQL NULL.

    Groups are text. A whole number stands for its digits, also as a float (pandas makes floats of whole numbers with
    gaps), True and False for ``true`` and ``false``; other values are refused.

    Cost: one look into a hash table per row for its group, then that of the maps; maps of log-odds that differ in
    slope and intercept alone run as one.

    Examples
    --------
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
            raise ValueError("a map by group needs at least one group, no group twice, and one map for each")
        if any(group is None or (group and not _writable(group)) for group in groups):
            raise ValueError(f"a group is text of at most {LONGEST_KEY} characters, without zero characters")
        parts = maps if self.default is None else (*maps, self.default)
        if not all(isinstance(part, Map) and not part.columns for part in parts):
            raise ValueError("the maps of groups must be maps of the score alone: compose maps by group instead")
        _freeze(self, "groups", groups)
        _freeze(self, "maps", maps)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column ``by``."""
        return (self.by,)

    @cached_property
    def lines(self) -> tuple[LogitAffineMap, Floats, Floats] | None:
        """When all maps differ in slope and intercept alone: one of them, the slopes and the intercepts."""
        first = self.maps[0]
        parts = [part for part in self.maps if isinstance(part, LogitAffineMap)]
        if not isinstance(first, LogitAffineMap) or len(parts) < len(self.maps):
            return None
        if any((part.on, part.clamp) != (first.on, first.clamp) for part in parts):
            return None
        return first, np.array([part.slope for part in parts]), np.array([part.intercept for part in parts])

    def apply(self, scores: ArrayLike, groups: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores`` of rows in ``groups``; float32 in gives float32 out, NaN gives NaN."""
        given = np.asarray(scores)
        codes = _columns(self, groups, given.shape)[self.by].among(self.groups).reshape(-1)
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
        return f"ByGroupMap({self.by!r}, {len(self.groups)} groups: {named}, default={self.default!r})"


@dataclass(frozen=True, eq=False)
class ComposeMap(Map):
    """Maps one after the other, the first applied first; compositions inside it are laid flat.

    Maps by group may stand among them, of one column or of several.

    Examples
    --------
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
        _freeze(
            self,
            "maps",
            tuple(leaf for part in parts for leaf in (part.maps if isinstance(part, ComposeMap) else (part,))),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the parts, in the order of first need."""
        return tuple(dict.fromkeys(name for part in self.maps for name in part.columns))

    def apply(self, scores: ArrayLike, groups: Columns | None = None) -> NDArray[Any]:
        """Probabilities after the last map."""
        given = np.asarray(scores)
        keys = _columns(self, groups, given.shape)
        single = given.dtype == np.float32
        out = given.astype(np.float64) if single else given
        for part in self.maps:
            out = part.apply(out, keys if part.columns else None)
        return to_float32(out) if single else out


KINDS: dict[str, type[Map]] = {
    cls.kind: cls for cls in (IdentityMap, StepMap, PiecewiseLinearMap, LogitAffineMap, BetaMap, ByGroupMap, ComposeMap)
}
"""Every kind that a document may name; nothing else can be built from one."""


def _expit_in_place(x: Floats) -> Floats:
    np.maximum(x, -LOG_ODDS_LIMIT, out=x)
    np.minimum(x, LOG_ODDS_LIMIT, out=x)
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1.0
    np.reciprocal(x, out=x)
    return x


def _columns(owner: Map, groups: Columns | None, shape: tuple[int, ...]) -> dict[str, Keys]:
    """The groups that the map needs, by column, checked against the shape of the scores."""
    needed = owner.columns
    if not isinstance(groups, Mapping):
        if groups is None and needed:
            raise InputError(
                f"this map needs the column {' and '.join(map(repr, needed))} beside the scores: pass groups, or where "
                "only scores are taken, the map of one group"
            )
        if groups is not None and len(needed) != 1:
            fix = "by name, as {'name': values, ...}" if needed else "no groups"
            raise InputError(f"this map needs {len(needed)} columns of groups: pass {fix}")
        groups = dict.fromkeys(needed, groups)
    missing = [name for name in needed if name not in groups]
    if missing:
        raise InputError(
            f"groups has no column {missing[0]!r}, which this map needs: it has {', '.join(groups) or 'none'}"
        )
    keys = {name: read_keys(groups[name], f"the column {name!r}") for name in needed}
    for name, each in keys.items():
        if each.codes.shape != shape:
            raise InputError(
                f"the column {name!r} has shape {each.codes.shape} but scores has {shape}: pass one group per score"
            )
    return keys


def _writable(text: str) -> bool:
    """Whether every place that holds text can hold this: no zero character, no half of a character, not endless."""
    return 0 < len(text) <= LONGEST_KEY and not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in text)


def _freeze(owner: Map, name: str, value: object) -> None:
    object.__setattr__(owner, name, value)


def _vector(value: ArrayLike, name: str) -> Floats:
    array = np.array(value, dtype=np.float64, ndmin=1)
    if array.ndim != 1 or not (np.abs(array) <= LARGEST).all():
        raise ValueError(f"{name} must be a one-dimensional list of finite numbers")
    array += 0.0
    array.flags.writeable = False
    return array


def _increasing(value: ArrayLike, name: str) -> Floats:
    array = _vector(value, name)
    if not (array[1:] > array[:-1]).all():
        raise ValueError(f"{name} must be strictly increasing")
    return array


def _probabilities(value: ArrayLike, name: str) -> Floats:
    array = _vector(value, name)
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise ValueError(f"{name} must lie in [0, 1]")
    return array


def _finite(owner: Map, *names: str) -> None:
    for name in names:
        value = float(getattr(owner, name))
        if not abs(value) <= LARGEST:
            raise ValueError(f"{name} must be a finite number, got {value}")
        _freeze(owner, name, value)


def _clamp(owner: LogitAffineMap | BetaMap) -> None:
    _finite(owner, "clamp")
    if not 2.0**-52 <= owner.clamp < 0.5:
        raise ValueError(f"clamp must lie in [2^-52, 0.5), got {owner.clamp}")


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.tobytes() == b.tobytes()
    return a == b


def _hashable(value: object) -> object:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _span(values: Floats, name: str) -> str:
    if len(values) <= 6:
        return f"{name}=[{', '.join(f'{v:.6g}' for v in values)}]"
    return f"{len(values)} {name} from {values.min():.6g} to {values.max():.6g}"
