"""How far an export may be off: not at all where a map only compares and copies, else by last bits of ln and exp."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import read_keys
from calibrant.export.samples import Rows, parts_of, path_of
from calibrant.export.sql.pieces import NEGLIGIBLE
from calibrant.export.sql.text import SMALL
from calibrant.maps import (
    ByGroupMap,
    ClassMap,
    ComposeMap,
    Map,
    PerClassMap,
    SimplexBinsMap,
    SoftmaxMap,
    TopMap,
)
from calibrant.maps.classes import softmax
from calibrant.numerics import Floats

TOLERANCE = 1e-12
"""Relative difference that a smooth map may show, from the last bits of an engine's ln and exp."""

SHAKES = 16
"""Ways in which a row is moved by the least that an engine may be off, to see which results are open."""


@singledispatch
def allowed(map_: Map, rows: Rows) -> tuple[Floats, Floats]:
    """The least and the largest result that agrees with ``apply``.

    A map that only compares and copies must give the same doubles; any other may be off by 1e-12 of its result, and by
    what is negligible (terms as small are left out where an engine raises when they underflow). In a
    composition this freedom passes through the parts that follow: after a curve, a step map may take the step on
    either side when the curve is that close to a knot.
    """
    low, high = np.full(len(rows.scores), np.nan), np.full(len(rows.scores), np.nan)
    for path, chosen in _paths(map_, rows):
        if path is not None:
            scores = rows.scores[chosen].astype(np.float64)
            low[chosen], high[chosen] = allowed_on_path(path, scores, scores, scores)
    return low, high


def allowed_on_path(path: Map, low: Floats, exact: Floats, high: Floats) -> tuple[Floats, Floats]:
    """What agrees with a map of the score alone, of a score that may be off itself."""
    for part in parts_of(path):
        exact = part.apply(exact)
        images = np.stack([part.apply(low), exact, part.apply(high), *_between(part, low, high)])
        low, high = images.min(axis=0), images.max(axis=0)
        if not part.exact:
            low, high = low - TOLERANCE * np.abs(low) - NEGLIGIBLE, high + TOLERANCE * np.abs(high) + NEGLIGIBLE
    return low, high


def _paths(map_: Map, rows: Rows) -> Iterator[tuple[Map | None, NDArray[Any] | slice]]:
    """Maps of the score alone, and the rows that go through each."""
    if not map_.columns:
        yield map_, slice(None)
        return
    keys = [read_keys(rows.groups[name]) for name in map_.columns]
    places, path = np.unique(np.stack([each.codes for each in keys]), axis=1, return_inverse=True)
    order = np.argsort(path.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(path.reshape(-1), minlength=places.shape[1]))
    for place, chosen in zip(places.T.tolist(), np.split(order, ends[:-1]), strict=True):
        names = [None if code < 0 else each.names[code] for code, each in zip(place, keys, strict=True)]
        yield path_of(map_, dict(zip(map_.columns, names, strict=True))), chosen


def only_copies(map_: Map) -> bool:
    """Whether it only compares and copies, part by part, group by group and class by class."""
    if isinstance(map_, ComposeMap):
        return all(map(only_copies, map_.maps))
    if isinstance(map_, ByGroupMap):
        return all(map(only_copies, map_.maps)) and (map_.default is None or only_copies(map_.default))
    if not isinstance(map_, ClassMap):
        return map_.exact
    if map_.on == "logit" or isinstance(map_, SoftmaxMap):
        return False
    parts: tuple[Map, ...] = getattr(map_, "maps", ())
    return all(map(only_copies, parts)) and not getattr(map_, "normalised", False)


def _between(table: Map, low: Floats, high: Floats) -> Floats:
    """The least and the largest value of a table at its knots between two scores; nothing for curves."""
    knots = getattr(table, "knots", None)
    if knots is None:
        return np.empty((0, len(low)))
    first, last = np.searchsorted(knots, low, side="left"), np.searchsorted(knots, high, side="right")
    at = table.apply(knots)
    out = np.stack([table.apply(low)] * 2)
    for row in np.flatnonzero((last > first) & (low < high)).tolist():
        inside = at[first[row] : last[row]]
        out[:, row] = inside.min(), inside.max()
    return out


@allowed.register
def _(map_: ClassMap, rows: Rows) -> tuple[Floats, Floats]:
    """Of a table: where moving a row by as little as an engine may be off makes it change its region, both agree."""
    s = rows.scores.astype(np.float64)
    if not _first_computes(map_):
        images = map_.apply(s)
        return images, images
    rng = np.random.default_rng(20_264)
    away = TOLERANCE if map_.on == "logit" else 0.0
    p = softmax(s) if map_.on == "logit" else s
    low = high = map_.apply(s)
    for _ in range(SHAKES):
        turns = rng.choice([-1.0, 1.0], p.shape)
        moved = _on_probabilities(map_, p * (1.0 + away * turns) + SMALL * turns)
        low, high = np.minimum(low, moved), np.maximum(high, moved)
    return low, high


def _first_computes(map_: ClassMap) -> bool:
    """Whether an engine may be off on the way to the region: by its exponentials, or where terms as small are 0."""
    small = isinstance(map_, SimplexBinsMap) and map_.scheme == "projection"
    return map_.on == "logit" or small


def _on_probabilities(map_: ClassMap, p: Floats) -> NDArray[Any]:
    if map_.on == "probability":
        return map_.apply(p)
    with np.errstate(divide="ignore"):
        return map_.apply(np.log(np.maximum(p, 0.0)))


@allowed.register
def _(map_: SoftmaxMap, rows: Rows) -> tuple[Floats, Floats]:
    """Rounding of a logit grows with the terms that it is the sum of."""
    s = rows.scores.astype(np.float64)
    size, z = len(map_.classes), np.abs(map_.logits(s))
    slope = np.abs(map_.slope)
    terms = z * slope if len(slope) in (1, size) else np.einsum("nk,jk->nj", z, slope.reshape(size, size))
    scale = (terms + np.abs(map_.intercept) if len(map_.intercept) else terms).max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        away = np.expm1(np.minimum(TOLERANCE + 4.0 * 2.0**-52 * np.sqrt(size) * scale, 700.0))
    images = map_.apply(s)
    return images / (1.0 + away) - NEGLIGIBLE, images * (1.0 + away) + NEGLIGIBLE


@allowed.register
def _(map_: PerClassMap, rows: Rows) -> tuple[Floats, Floats]:
    s = rows.scores.astype(np.float64)
    least, exact, most = _probability_range(map_, s)
    low, high = np.empty_like(exact), np.empty_like(exact)
    for j, part in enumerate(map_.maps):
        low[:, j], high[:, j] = allowed_on_path(part, least[:, j], exact[:, j], most[:, j])
    if map_.normalised:
        low, high = _normalised(low, high)
    missing = np.isnan(s).any(axis=1)
    low[missing] = high[missing] = np.nan
    return low, high


def _normalised(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Shares of a sum; of a sum of 0, equal shares."""
    size = low.shape[1]
    least, most = low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.where(most > 0.0, low / most, 1.0 / size)
        up = np.where(least > 0.0, high / least, np.where(most > 0.0, 1.0, 1.0 / size))
    return down * (1.0 - TOLERANCE) - NEGLIGIBLE, up * (1.0 + TOLERANCE) + NEGLIGIBLE


@allowed.register
def _(map_: TopMap, rows: Rows) -> tuple[Floats, Floats]:
    s = rows.scores.astype(np.float64)
    codes = map_.labels(s)
    least, exact, most = (np.take_along_axis(each, codes, axis=1) for each in _probability_range(map_, s))
    low, high = np.empty_like(exact), np.empty_like(exact)
    for k in range(map_.ranks):
        parts = map_.maps[k * len(map_.classes) :] if map_.by_label else (map_.maps[k],)
        which = codes[:, k] if map_.by_label else np.zeros(len(s), dtype=np.intp)
        for j in np.unique(which).tolist():
            own = np.flatnonzero(which == j)
            low[own, k], high[own, k] = allowed_on_path(parts[j], least[own, k], exact[own, k], most[own, k])
    missing = np.isnan(s).any(axis=1)
    low[missing] = high[missing] = np.nan
    return low, high


def _probability_range(map_: ClassMap, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Probabilities as an engine may find them: as they are, or after its own exponentials."""
    if map_.on == "probability":
        return s, s, s
    p = softmax(s)
    return p * (1.0 - TOLERANCE) - NEGLIGIBLE, p, p * (1.0 + TOLERANCE) + NEGLIGIBLE
