"""A map as one SQL expression.

Literals are cast to double (PostgreSQL reads 1e-1 as NUMERIC, DuckDB reads 0.1 as DECIMAL), arguments of ln and exp are
clamped first (some engines raise where numpy overflows), and NaN is asked for by name, since SQL engines order it above
every number.
"""

from __future__ import annotations

from functools import singledispatch
from itertools import pairwise

from calibrant.maps import BetaMap, ComposeMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.numerics import LOG_ODDS_LIMIT, Floats

EXECUTED_DIALECTS = ("duckdb",)
"""Dialects whose text the tests run on the real engine."""


def to_sql(map_: Map, column: str, dialect: str = "duckdb") -> str:
    """The map over ``column`` as one expression; NULL and NaN give NULL.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> to_sql(IdentityMap(), "score")
    'CASE WHEN "score" IS NULL OR isnan("score") THEN NULL ELSE "score" END'
    """
    if dialect not in EXECUTED_DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(EXECUTED_DIALECTS)}, got {dialect!r}")
    name = '"' + column.replace('"', '""') + '"'
    return f"CASE WHEN {name} IS NULL OR isnan({name}) THEN NULL ELSE {_lower(map_, name)} END"


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
    return f"CAST({value!r} AS DOUBLE)"
