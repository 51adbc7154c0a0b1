"""Map: a fitted calibration as frozen data.

A map holds numbers, no code: it applies itself to arrays here, and `export` and `engine` lower the same numbers to
JSON, SQL and dataframe expressions. Needs numpy alone, so that applying a stored map starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.numerics import CLAMP, LOG_ODDS_LIMIT, Floats, Guide, chunks, to_float32

Axis = Literal["log-odds", "score"]

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

    def apply(self, scores: ArrayLike) -> NDArray[Any]:
        """Probabilities for ``scores``; float32 in gives float32 out, NaN gives NaN."""
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

    def apply(self, scores: ArrayLike) -> NDArray[Any]:
        """Probabilities for ``scores``; float32 in gives float32 out, NaN gives NaN."""
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

    def apply(self, scores: ArrayLike) -> NDArray[Any]:
        """A copy of ``scores``, as floats."""
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
        if self.on == "score":
            with np.errstate(over="ignore"):  # an infinite argument is held at the limit below
                x = np.clip(s, -LARGEST, LARGEST) * self.slope
        else:
            x = np.maximum(s, self.clamp)
            np.minimum(x, 1.0 - self.clamp, out=x)
            np.divide(x, 1.0 - x, out=x)
            np.log(x, out=x)
            x *= self.slope
        x += self.intercept
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


@dataclass(frozen=True, eq=False)
class ComposeMap(Map):
    """Maps one after the other, the first applied first; compositions inside it are laid flat.

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

    def apply(self, scores: ArrayLike) -> NDArray[Any]:
        """Probabilities after the last map."""
        given = np.asarray(scores)
        single = given.dtype == np.float32
        out = given.astype(np.float64) if single else given
        for part in self.maps:
            out = part.apply(out)
        return to_float32(out) if single else out


KINDS: dict[str, type[Map]] = {
    cls.kind: cls for cls in (IdentityMap, StepMap, PiecewiseLinearMap, LogitAffineMap, BetaMap, ComposeMap)
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
