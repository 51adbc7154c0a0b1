"""Maps of one score: identity, steps, piecewise linear maps, and functions of the log-odds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.maps.base import Columns, Direction, Map, ScoreMap, freeze, needed_keys, register
from calibrant.messages import plural
from calibrant.numerics import CLAMP, LARGEST_HIGH, LEAST_LOW, LOG_ODDS_LIMIT, Floats, Guide

__all__ = ["LARGEST", "Axis", "BetaMap", "IdentityMap", "LogitAffineMap", "PiecewiseLinearMap", "StepMap"]

Axis = Literal["log-odds", "score"]

LARGEST = 1e301
"""Largest absolute value of parameters and knots: products with log-odds and differences stay finite."""


@register
@dataclass(frozen=True, eq=False)
class IdentityMap(ScoreMap):
    """The identity: the scores of the original model.

    Examples
    --------
    >>> IdentityMap().apply([0.2, 0.7]).tolist()
    [0.2, 0.7]
    """

    kind: ClassVar[str] = "identity"
    exact: ClassVar[bool] = True

    @property
    def words(self) -> str:
        """The original scores."""
        return "original scores, unchanged"

    @property
    def direction(self) -> Direction:
        """Strictly rising."""
        return Direction.STRICTLY_RISING

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """A copy of ``scores``, as floats."""
        needed_keys(self, by, np.shape(scores))
        given = np.asarray(scores)
        return given.astype(np.float32 if given.dtype == np.float32 else np.float64)


@register
@dataclass(frozen=True, eq=False, repr=False)
class StepMap(ScoreMap):
    r"""A right-continuous step function.

    .. math:: m(s) = v_j \quad\text{for}\quad k_j \le s < k_{j+1},

    with inner knots :math:`k_1 < \dots < k_J` and :math:`J + 1` values. The first step extends to all lower scores and
    the last to all higher ones.

    Parameters
    ----------
    knots : array
        Inner knots, strictly increasing.
    values : array
        Probabilities, one more than knots.

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
        freeze(self, "knots", _increasing(self.knots, "knots"))
        freeze(self, "values", _probabilities(self.values, "values"))
        if len(self.values) != len(self.knots) + 1:
            raise ValueError(f"a step map of {len(self.knots)} inner knots needs {len(self.knots) + 1} values")

    @property
    def direction(self) -> Direction:
        """By its values; never strictly rising, because steps are flat."""
        return Direction.of(np.append(np.diff(self.values), 0.0))

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

    @property
    def words(self) -> str:
        """Number of steps and range of the values."""
        return f"{plural(len(self.values), 'step')}, {_values(self.values)}"

    def __repr__(self) -> str:
        """Size and range instead of thousands of numbers."""
        return f"StepMap({_span(self.knots, 'knots')}, {_span(self.values, 'values')})"


@register
@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseLinearMap(ScoreMap):
    r"""Linear interpolation between knots, constant outside them.

    .. math:: m(s) = v_j + (v_{j+1} - v_j)\,\frac{s - k_j}{k_{j+1} - k_j} \quad\text{for}\quad k_j \le s \le k_{j+1}.

    Within a piece the result is clipped to its two end values, so that rounding cannot make a monotone table invert a
    ranking.

    Parameters
    ----------
    knots : array
        Knots, strictly increasing.
    values : array
        Probability at each knot.

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
        freeze(self, "knots", _increasing(self.knots, "knots"))
        freeze(self, "values", _probabilities(self.values, "values"))
        if len(self.values) != len(self.knots) or not len(self.knots):
            raise ValueError(f"a piecewise-linear map needs as many values as knots, got {len(self.values)}")

    @property
    def direction(self) -> Direction:
        """By its values."""
        return Direction.of(np.diff(self.values))

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

    @property
    def words(self) -> str:
        """Number of knots and range of the values."""
        return f"{plural(len(self.knots), 'knot')}, {_values(self.values)}"

    def __repr__(self) -> str:
        """Size and range instead of thousands of numbers."""
        return f"PiecewiseLinearMap({_span(self.knots, 'knots')}, {_span(self.values, 'values')})"


@register
@dataclass(frozen=True, eq=False)
class LogitAffineMap(ScoreMap):
    r"""An affine map of the log-odds, or of the score itself.

    .. math:: m(s) = \operatorname{expit}(\text{slope} \cdot x + \text{intercept}),\qquad
              x = \operatorname{logit}(s) \text{ or } x = s,

    where scores are clipped to ``[low, high]`` before their log-odds are taken (Gupta 2023, eq. 1.7, with the exponent
    a logit(z) + b). The identity is slope 1, intercept 0 on the log-odds.

    Parameters
    ----------
    slope, intercept : float
        Coefficients.
    on : {"log-odds", "score"}
        Whether x is the log-odds of the score or the score itself.
    low, high : float
        Ends to which scores are clipped before their log-odds are taken.

    Examples
    --------
    >>> LogitAffineMap(1.0, 0.0).apply([0.25]).tolist()
    [0.25]
    """

    slope: float
    intercept: float
    on: Axis = "log-odds"
    low: float = CLAMP
    high: float = 1.0 - CLAMP

    kind: ClassVar[str] = "logit-affine"

    def __post_init__(self) -> None:
        """Reject numbers that do not define a probability."""
        _finite(self, "slope", "intercept")
        _ends(self)
        if self.on not in ("log-odds", "score"):
            raise ValueError(f"on must be 'log-odds' or 'score', got {self.on!r}")

    @property
    def words(self) -> str:
        """Slope and intercept."""
        return f"slope {self.slope:.4g}, intercept {self.intercept:.4g} on the {self.on}"

    @property
    def direction(self) -> Direction:
        """By its slope."""
        return Direction.of(self.slope)

    def _evaluate(self, s: Floats) -> Floats:
        return self._evaluate_with(s, self.slope, self.intercept)

    def _evaluate_with(self, s: Floats, slope: float | Floats, intercept: float | Floats) -> Floats:
        """The map with another slope and intercept, or with one pair per row."""
        if self.on == "score":
            with np.errstate(over="ignore"):  # infinite values are clipped below
                x = np.clip(s, -LARGEST, LARGEST) * slope
        else:
            x = np.maximum(s, self.low)
            np.minimum(x, self.high, out=x)
            np.divide(x, 1.0 - x, out=x)
            np.log(x, out=x)
            x *= slope
        x += intercept
        return _expit_in_place(x)


@register
@dataclass(frozen=True, eq=False)
class BetaMap(ScoreMap):
    r"""The beta map with three parameters, with the signs of Kull, Silva Filho and Flach (2017).

    .. math:: m(s) = \operatorname{expit}\bigl(a \log s - b \log(1 - s) + c\bigr),

    with identity :math:`(a, b, c) = (1, 1, 0)`. In Gupta (2023), eq. 6.18, the second term has a plus, so its b is -b
    here. Scores are clipped to ``[low, high]`` first.

    Parameters
    ----------
    a, b, c : float
        Coefficients.
    low, high : float
        Ends to which scores are clipped.

    Examples
    --------
    >>> BetaMap(1.0, 1.0, 0.0).apply([0.25]).round(12).tolist()
    [0.25]
    """

    a: float
    b: float
    c: float
    low: float = CLAMP
    high: float = 1.0 - CLAMP

    kind: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        """Reject numbers that do not define a probability."""
        _finite(self, "a", "b", "c")
        _ends(self)

    @property
    def words(self) -> str:
        """The three coefficients."""
        return f"beta map: a {self.a:.4g}, b {self.b:.4g}, c {self.c:.4g}"

    @property
    def direction(self) -> Direction:
        """By a and b, whose terms of the log-odds both increase with the score."""
        return Direction.of([self.a, self.b])

    def _evaluate(self, s: Floats) -> Floats:
        x = np.maximum(s, self.low)
        np.minimum(x, self.high, out=x)
        other = np.log1p(-x)
        other *= self.b
        np.log(x, out=x)
        x *= self.a
        x -= other
        x += self.c
        return _expit_in_place(x)


def _expit_in_place(x: Floats) -> Floats:
    np.maximum(x, -LOG_ODDS_LIMIT, out=x)
    np.minimum(x, LOG_ODDS_LIMIT, out=x)
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1.0
    np.reciprocal(x, out=x)
    return x


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
        freeze(owner, name, value)


def _ends(owner: LogitAffineMap | BetaMap) -> None:
    _finite(owner, "low", "high")
    if not LEAST_LOW <= owner.low < owner.high <= LARGEST_HIGH:
        raise ValueError(f"1e-300 <= low < high <= 1 - 2^-53 must hold, got low {owner.low} and high {owner.high}")


def _values(values: Floats) -> str:
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return f"value {low}" if low == high else f"values from {low} to {high}"


def _span(values: Floats, name: str) -> str:
    if len(values) <= 6:
        return f"{name}=[{', '.join(f'{v:.6g}' for v in values)}]"
    return f"{len(values)} {name} from {values.min():.6g} to {values.max():.6g}"
