"""A map as a function of one float, in plain Python.

The arithmetic is that of :mod:`calibrant.maps` in the same order, on Python floats: a table gives the same doubles, and
a curve differs by the last bit of ``math.log`` and ``math.exp`` against numpy's.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, NamedTuple, NoReturn

import numpy as np

from calibrant.arrays.columns import EXACT, read_floats
from calibrant.arrays.keys import SPELLINGS, key_text
from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.export.kinds import as_table
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
    TreeMap,
)
from calibrant.maps.base import ScoreMap
from calibrant.messages import InputError, listed
from calibrant.numerics import LARGEST_DOUBLE, LOG_ODDS_LIMIT, Floats

Scorer = Callable[..., float]
"""A function of a score and, for a map by group, of one group for each of ``map.columns``."""

ABSENT: Any = object()
"""Stands for a group that was not passed."""

TOP, BOTTOM = LOG_ODDS_LIMIT, -LOG_ODDS_LIMIT


class Guard(NamedTuple):
    """What a function checks before it computes: floats from ``first`` to ``last`` pass, others go to ``read``."""

    first: float
    last: float
    read: Callable[[Any], float]
    """Returns a float that may pass, or NaN, or raises an error."""


INSIDE = Guard(-math.inf, math.inf, lambda s: s)
"""For results of an earlier map: only NaN needs attention."""


def scorer_of(map_: Map, bounded: bool, refuse: Callable[[Any], float]) -> Scorer:
    """The map as a function of one score; ``refuse`` reads or refuses anything but finite floats and integers.

    If scores are probabilities (``bounded``), other numbers give NaN.
    """
    first, last = (0.0, 1.0) if bounded else (-LARGEST_DOUBLE, LARGEST_DOUBLE)
    low, high = PROBABILITY_ENDS

    def read(s: Any) -> float:
        whole = isinstance(s, int | np.integer) and -EXACT <= s <= EXACT
        if whole or isinstance(s, float | np.floating):
            value = float(s)
            if first <= value <= last or value != value:
                return value
            if bounded:
                return min(max(value, 0.0), 1.0) if low <= value <= high else math.nan
        return refuse(s)

    return _function(map_, Guard(first, last, read))


@singledispatch
def _function(map_: Map, guard: Guard) -> Scorer:
    """A kind without a function of its own is applied to one score at a time: the same result, but slower."""
    if not isinstance(map_, ScoreMap):
        raise ValueError(f"a map of kind {map_.kind!r} has no function of one float")
    first, last, read = guard

    def score(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
        return float(map_.apply(s))

    return score


@_function.register
def _(map_: IdentityMap, guard: Guard) -> Scorer:
    first, last, read = guard

    def score(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
        return s + 0.0  # no -0.0

    return score


@_function.register
def _(map_: StepMap, guard: Guard) -> Scorer:
    first, last, read = guard
    knots: list[float] = map_.knots.tolist()
    values: list[float] = map_.values.tolist()

    def score(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        return values[bisect_right(knots, s)]

    return score


@_function.register
def _(map_: PiecewiseLinearMap, guard: Guard) -> Scorer:
    first, last, read = guard
    knots: list[float] = map_.knots.tolist()
    values: list[float] = map_.values.tolist()
    pieces = [
        (k, right - k, w - v, v, min(v, w), max(v, w))
        for k, right, v, w in zip(knots[:-1], knots[1:], values[:-1], values[1:], strict=True)
    ]
    start, end, bottom, top = knots[0], knots[-1], values[0], values[-1]

    def score(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        if s <= start:
            return bottom
        if s >= end:
            return top
        left, width, rise, base, low, high = pieces[bisect_right(knots, s) - 1]
        p = (s - left) / width * rise + base
        return low if p < low else high if p > high else p

    return score


@_function.register
def _(map_: LogitAffineMap, guard: Guard) -> Scorer:
    first, last, read = guard
    slope, intercept, low, high = map_.slope, map_.intercept, map_.low, map_.high
    log, exp = math.log, math.exp

    def of_log_odds(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        if s < low:
            s = low
        elif s > high:
            s = high
        u = log(s / (1.0 - s)) * slope + intercept
        if not BOTTOM <= u <= TOP:
            u = TOP if u > TOP else BOTTOM
        return 1.0 / (1.0 + exp(-u))

    def of_score(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        if not -LARGEST <= s <= LARGEST:
            s = LARGEST if s > LARGEST else -LARGEST
        u = s * slope + intercept
        if not BOTTOM <= u <= TOP:
            u = TOP if u > TOP else BOTTOM
        return 1.0 / (1.0 + exp(-u))

    return of_score if map_.on == "score" else of_log_odds


@_function.register
def _(map_: BetaMap, guard: Guard) -> Scorer:
    first, last, read = guard
    a, b, c, low, high = map_.a, map_.b, map_.c, map_.low, map_.high
    log, log1p, exp = math.log, math.log1p, math.exp

    def score(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        if s < low:
            s = low
        elif s > high:
            s = high
        u = log(s) * a - log1p(-s) * b + c
        if not BOTTOM <= u <= TOP:
            u = TOP if u > TOP else BOTTOM
        return 1.0 / (1.0 + exp(-u))

    return score


@_function.register
def _(map_: ComposeMap, guard: Guard) -> Scorer:
    if not map_.columns:
        return _composed(map_, guard)
    guards = [guard] + [INSIDE] * (len(map_.maps) - 1)
    places = {name: place for place, name in enumerate(map_.columns)}
    stages = [
        (_function(part, own), places[part.columns[0]] if part.columns else None)
        for part, own in zip(map_.maps, guards, strict=True)
    ]
    needed = len(places)

    def score(s: float, *groups: Any) -> float:
        if len(groups) != needed:
            _refuse_count(map_, groups)
        for stage, place in stages:
            s = stage(s) if place is None else stage(s, groups[place])
        return s

    return score


def _composed(map_: ComposeMap, guard: Guard) -> Scorer:
    """Maps of the score alone; with a step map among them, one table of the raw score, equal to ``apply`` at knots."""
    if len(map_.maps) == 1:
        return _function(map_.maps[0], guard)
    table = as_table(map_)
    if table is not None:
        return _function(table, guard)
    inner, *others = map_.maps
    start = _function(inner, guard)
    rest = [_function(part, INSIDE) for part in others]
    if len(rest) == 1:
        (then,) = rest
        return lambda s: then(start(s))

    def score(s: float) -> float:
        s = start(s)
        for stage in rest:
            s = stage(s)
        return s

    return score


@_function.register
def _(map_: ByGroupMap, guard: Guard) -> Scorer:
    if map_.lines is not None and map_.lines[0].on == "log-odds":
        return _by_line(map_, guard, *map_.lines)
    default = _default(map_, guard)
    parts: Mapping[Any, Scorer] = {
        name: _function(part, guard) for name, part in zip(map_.groups, map_.maps, strict=True)
    }

    def score(s: float, group: Any = ABSENT) -> float:
        try:
            part = parts[group]
        except (KeyError, TypeError):  # not listed, not text, or not even hashable
            part = parts.get(_name_of(map_, group), default)
        return part(s)

    return score


def _by_line(map_: ByGroupMap, guard: Guard, like: LogitAffineMap, slopes: Floats, intercepts: Floats) -> Scorer:
    """Groups that differ only in slope and intercept: one formula, without a second call."""
    first, last, read = guard
    low, high, log, exp = like.low, like.high, math.log, math.exp
    default = _default(map_, guard)
    lines: Mapping[Any, tuple[float, float]] = dict(
        zip(map_.groups, zip(slopes.tolist(), intercepts.tolist(), strict=True), strict=True)
    )

    def score(s: float, group: Any = ABSENT) -> float:
        try:
            slope, intercept = lines[group]
        except (KeyError, TypeError):  # not listed, not text, or not even hashable
            name = _name_of(map_, group)
            if name not in lines:
                return default(s)
            slope, intercept = lines[name]
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        if s < low:
            s = low
        elif s > high:
            s = high
        u = log(s / (1.0 - s)) * slope + intercept
        if not BOTTOM <= u <= TOP:
            u = TOP if u > TOP else BOTTOM
        return 1.0 / (1.0 + exp(-u))

    return score


def _default(map_: ByGroupMap, guard: Guard) -> Scorer:
    """The function of groups that are not listed; without a default, NaN for any score that is not refused."""
    first, last, read = guard

    def nothing(s: float) -> float:
        if s.__class__ is not float or not first <= s <= last:
            read(s)
        return math.nan

    return nothing if map_.default is None else _function(map_.default, guard)


def _name_of(map_: ByGroupMap, group: Any) -> str | None:
    """The name of a group that is not listed as it was passed: 7 is the group "7"."""
    if group is ABSENT:
        _refuse_count(map_, ())
    return key_text(group, "by")


def _refuse_count(map_: Map, groups: tuple[Any, ...]) -> NoReturn:
    names = listed([*map(repr, map_.columns)])
    raise InputError(
        "by", f"has {len(groups)} groups, but this map needs {len(map_.columns)}", f"pass {names} after the score"
    )


@_function.register
def _(map_: TreeMap, guard: Guard) -> Scorer:
    first, last, read = guard
    leaves = [_function(part, guard) for part in map_.maps]
    place = {int(leaf): j for j, leaf in enumerate(map_.leaves)}
    splits: list[tuple[int, Callable[[Any], bool] | None, int, int]] = []
    for node, column in enumerate(map_.columns_split.tolist()):
        test = None if node in place else _test(map_, node)
        splits.append((column - 1, test, int(map_.left[node]), int(map_.right[node])))

    def score(s: float, *columns: Any) -> float:
        if len(columns) != len(map_.columns):
            _refuse_count(map_, columns)
        if s.__class__ is not float or not first <= s <= last:
            s = read(s)
            if s != s:
                return s
        node = 0
        while True:
            column, test, left, right = splits[node]
            if test is None:
                return leaves[place[node]](s)
            node = left if test(s if column < 0 else columns[column]) else right

    return score


def _test(map_: TreeMap, node: int) -> Callable[[Any], bool]:
    """Whether a value goes left."""
    missing, cut = bool(map_.missing_left[node]), float(map_.thresholds[node])
    boolean = map_.is_text(node) and map_.names[int(map_.columns_split[node]) - 1] in map_.booleans
    levels = SPELLINGS[map_.levels[node]] if boolean else (map_.levels[node],)

    def same(value: Any) -> bool:
        name = value if value.__class__ is str else key_text(value, "by")
        return missing if name is None else name in levels

    if map_.is_text(node):
        return same
    column = int(map_.columns_split[node])
    where = f"the column {map_.names[column - 1]!r}" if column else "scores"

    def up_to(value: Any) -> bool:
        if value.__class__ is not float:
            value = _read_one(value, where)
        return missing if value != value else bool(value <= cut)

    return up_to


def _read_one(value: Any, where: str) -> float:
    """A number as ``apply`` reads it: a double, NaN if it is missing, or an error."""
    if value is None:
        return math.nan
    whole = value.__class__ is int and -EXACT <= value <= EXACT
    return float(value if whole or isinstance(value, float | np.floating) else read_floats([value], where)[0])
