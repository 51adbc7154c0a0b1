"""Each kind of map in pieces, on each of which it is monotone and has one formula."""

from __future__ import annotations

from functools import singledispatch
from itertools import pairwise

import numpy as np

from calibrant.export.sql.dialects import DIALECTS, Dialect
from calibrant.export.sql.formulas import line, of_log_odds, of_logarithms, of_score, of_steep_logarithms
from calibrant.export.sql.pieces import Formula, Leaf, Pieces, Template, chained
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.numerics import Floats

NEGLIGIBLE = 1e-290
"""Terms below this leave a probability as it is; in some engines it is an error when they underflow."""

STEEP = 100.0
"""Factors of log(1 - s) beyond which its rounding would show."""


def knots_of(map_: Map) -> Floats:
    """Scores at which the formula of the map changes.

    Examples
    --------
    >>> knots_of(ComposeMap((LogitAffineMap(-1.0, 0.0), StepMap([0.25], [0.1, 0.8])))).round(6).tolist()
    [0.75]
    """
    return cut(map_, DIALECTS["duckdb"]).merged().knots


@singledispatch
def cut(map_: Map, dialect: Dialect) -> Pieces:
    """The map in pieces, on each of which it is monotone, of a score that is neither NULL nor NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no SQL form")


@cut.register
def _(map_: IdentityMap, dialect: Dialect) -> Pieces:
    return _one_piece(Formula(()))


@cut.register
def _(map_: StepMap, dialect: Dialect) -> Pieces:
    return Pieces(map_.knots, map_.values.tolist())


@cut.register
def _(map_: PiecewiseLinearMap, dialect: Dialect) -> Pieces:
    knots: list[float] = []
    leaves: list[Leaf] = [map_.values[0].item()]
    for (k0, v0), (k1, v1) in pairwise(zip(map_.knots.tolist(), map_.values.tolist(), strict=True)):
        knots.append(k0)
        if v0 == v1:
            leaves.append(v0)
            continue
        near = k0 + NEGLIGIBLE / abs(v1 - v0) * (k1 - k0)
        if dialect.raises and near > k0:  # the knot is zero or next to it, where the rise may underflow
            leaves.append(v0)
            if near >= k1:
                continue
            knots.append(near)
        leaves.append(_formula(line, k0, k1 - k0, v1 - v0, v0, min(v0, v1), max(v0, v1)))
    return Pieces(np.append(knots, map_.knots[-1]), [*leaves, map_.values[-1].item()])


@cut.register
def _(map_: LogitAffineMap, dialect: Dialect) -> Pieces:
    if map_.slope == 0.0 or (map_.on == "log-odds" and abs(map_.slope) < NEGLIGIBLE):
        return _one_piece(map_.apply(0.5).item())
    if map_.on == "log-odds":
        return _one_piece(_formula(of_log_odds, map_.low, map_.high, map_.slope, map_.intercept))
    far = min(LARGEST, 1e307 / abs(map_.slope))  # beyond it the image is at its end anyway
    near = min(NEGLIGIBLE / abs(map_.slope), far)
    curve = _formula(of_score, -far, far, map_.slope, map_.intercept)
    if not dialect.raises:
        return _one_piece(curve)
    return Pieces(np.array([-near, near]), [curve, map_.apply(0.0).item(), curve])


@cut.register
def _(map_: BetaMap, dialect: Dialect) -> Pieces:
    a, b, c = (number if abs(number) > NEGLIGIBLE else 0.0 for number in (map_.a, map_.b, map_.c))
    template = of_logarithms if abs(b) <= STEEP else of_steep_logarithms
    curve = _formula(template, map_.low, map_.high, a, b, c)
    if min(a, b) < 0.0 < max(a, b):  # it turns where a / s + b / (1 - s) = 0
        return Pieces(np.array([a / (a - b)]), [curve, curve])
    return _one_piece(curve)


@cut.register
def _(map_: ComposeMap, dialect: Dialect) -> Pieces:
    done, pieces = map_.maps[0], cut(map_.maps[0], dialect)
    for part in map_.maps[1:]:  # not merged before the end: a curve must stay cut where it turns
        pieces = chained(pieces, done, cut(part, dialect), part)
        done = ComposeMap((done, part))
    return pieces


def _one_piece(leaf: Leaf) -> Pieces:
    return Pieces(np.empty(0), [leaf])


def _formula(template: Template, *numbers: float) -> Formula:
    return Formula(((template, numbers),))
