"""A map as one SQL expression.

The column is cast to double before anything else, so that float32 and whole numbers go the way of doubles. Literals are
written with an exponent, which DuckDB and Spark both read as the nearest double, where 0.1 would be a DECIMAL; a cast
around each literal takes Spark seven times as long to plan. Arguments of ln and exp are clamped first (some engines
raise where numpy overflows), and NaN is asked for by name, since SQL engines order it above every number.
"""

from __future__ import annotations

from functools import singledispatch
from itertools import pairwise

from calibrant.maps import LARGEST, BetaMap, ComposeMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.numerics import LOG_ODDS_LIMIT, Floats

QUOTES = {"duckdb": '"', "spark": "`"}
"""The mark around a name, doubled inside it; in everything else that a map needs the dialects agree."""

EXECUTED_DIALECTS = tuple(QUOTES)
"""Dialects whose text the tests run on the real engine."""


def to_sql(map_: Map, column: str, dialect: str = "duckdb") -> str:
    """The map over ``column`` as one expression; NULL and NaN give NULL.

    Step maps give the same doubles as :meth:`calibrant.maps.Map.apply`, smooth maps agree to 1e-12. Whether a score is
    a probability cannot be looked at here: a score outside [0, 1] is held at the end of the map.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> to_sql(IdentityMap(), "p", "spark")
    'CASE WHEN `p` IS NULL OR isnan(CAST(`p` AS DOUBLE)) THEN NULL ELSE CAST(`p` AS DOUBLE) END'
    """
    name = quote(column, dialect)
    x = f"CAST({name} AS DOUBLE)"
    return f"CASE WHEN {name} IS NULL OR isnan({x}) THEN NULL ELSE {_lower(map_, x)} END"


def quote(name: str, dialect: str) -> str:
    """The name of a column as an identifier.

    Examples
    --------
    >>> print(quote('12" pizza', "duckdb"), quote("a.b", "spark"))
    "12"" pizza" `a.b`
    """
    if dialect not in QUOTES:
        raise ValueError(f"dialect must be one of {', '.join(EXECUTED_DIALECTS)}, got {dialect!r}")
    if dialect == "spark" and "${" in name:
        raise ValueError(f"Spark reads ${{...}} as a variable wherever it stands: rename the column {name!r}")
    mark = QUOTES[dialect]
    return mark + name.replace(mark, mark * 2) + mark


@singledispatch
def _lower(map_: Map, x: str) -> str:
    """Expression of the map over the expression ``x``, which is neither NULL nor NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no SQL form")


@_lower.register
def _(map_: IdentityMap, x: str) -> str:
    return x


@_lower.register
def _(map_: StepMap, x: str) -> str:
    return _branch(x, map_.knots, [_literal(value) for value in map_.values.tolist()])


@_lower.register
def _(map_: PiecewiseLinearMap, x: str) -> str:
    ends = [_literal(map_.values[0].item()), _literal(map_.values[-1].item())]
    pieces = [_piece(x, *ends) for ends in pairwise(zip(map_.knots.tolist(), map_.values.tolist(), strict=True))]
    return _branch(x, map_.knots, [ends[0], *pieces, ends[1]])


def _piece(x: str, left: tuple[float, float], right: tuple[float, float]) -> str:
    """Interpolation between two knots, in the order of operations of the map, held between the end values."""
    (k0, v0), (k1, v1) = left, right
    line = f"({x} - {_literal(k0)}) / {_literal(k1 - k0)} * {_literal(v1 - v0)} + {_literal(v0)}"
    return f"greatest(least({line}, {_literal(max(v0, v1))}), {_literal(min(v0, v1))})"


def _branch(x: str, knots: Floats, leaves: list[str]) -> str:
    """A balanced CASE: leaf j where j knots are at or below ``x``; a chain would nest too deep for some engines."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    above, below = _branch(x, knots[middle:], leaves[middle:]), _branch(x, knots[: middle - 1], leaves[:middle])
    return f"CASE WHEN {x} >= {_literal(knots[middle - 1].item())} THEN {above} ELSE {below} END"


@_lower.register
def _(map_: LogitAffineMap, x: str) -> str:
    if map_.on == "log-odds":
        held = _held(x, map_.clamp, 1.0 - map_.clamp)
        x = f"ln({held} / ({_literal(1.0)} - {held}))"
    else:
        x = _held(x, -LARGEST, LARGEST)
    return _expit(f"{x} * {_literal(map_.slope)} + {_literal(map_.intercept)}")


@_lower.register
def _(map_: BetaMap, x: str) -> str:
    held = _held(x, map_.clamp, 1.0 - map_.clamp)
    rise = f"ln({held}) * {_literal(map_.a)}"
    return _expit(f"{rise} - ln({_literal(1.0)} - {held}) * {_literal(map_.b)} + {_literal(map_.c)}")


@_lower.register
def _(map_: ComposeMap, x: str) -> str:
    for part in map_.maps:
        x = f"({_lower(part, x)})"
    return x


def _expit(z: str) -> str:
    return f"{_literal(1.0)} / ({_literal(1.0)} + exp(-{_held(z, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)}))"


def _held(x: str, low: float, high: float) -> str:
    return f"greatest(least({x}, {_literal(high)}), {_literal(low)})"


def _literal(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"
