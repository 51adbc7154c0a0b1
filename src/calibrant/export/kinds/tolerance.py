"""Tolerance of an export: exact if a map only compares and copies, else the last bits of ln and exp."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import read_keys
from calibrant.export.kinds.samples import Rows, parts_of, path_of
from calibrant.export.languages.sql.pieces import NEGLIGIBLE
from calibrant.export.languages.sql.text import SMALL
from calibrant.maps import (
    ByGroupMap,
    ComposeMap,
    GroupedSoftmaxMap,
    Map,
    MulticlassMap,
    PerClassMap,
    SimplexBinsMap,
    SoftmaxMap,
    TopMap,
)
from calibrant.maps.classes import softmax
from calibrant.numerics import Floats

TOLERANCE = 1e-12
"""Relative difference allowed for a smooth map, from the last bits of an engine's ln and exp."""

MAX_LOGIT_ERROR = 100.0
"""If the rounding error of a raw logit may exceed this, any probability agrees: logits of 1e17 and more."""

SHAKES = 16
"""Number of perturbations of a row within an engine's rounding error, to find which results are possible."""


@singledispatch
def allowed(map_: Map, rows: Rows) -> tuple[Floats, Floats]:
    """The smallest and the largest result that agree with ``apply``.

    A map that only compares and copies must give identical doubles. Any other may be off by 1e-12 of its result, and by
    a negligible amount (small terms are left out for engines that raise errors on underflow). In a composition this
    tolerance passes through the parts that follow: after a curve, a step map may take the step on either side if the
    curve is that close to a knot.
    """
    low, high = np.full(len(rows.scores), np.nan), np.full(len(rows.scores), np.nan)
    for path, chosen in _paths(map_, rows):
        if path is not None:
            scores = rows.scores[chosen].astype(np.float64)
            low[chosen], high[chosen] = allowed_on_path(path, scores, scores, scores)
    return low, high


def allowed_on_path(path: Map, low: Floats, exact: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Range of results that agree with a map of the score alone, if the score itself may be off."""
    for part in parts_of(path):
        exact = part.apply(exact)
        images = np.stack([part.apply(low), exact, part.apply(high), *_between(part, low, high)])
        low, high = images.min(axis=0), images.max(axis=0)
        if not part.exact:
            low, high = low - TOLERANCE * np.abs(low) - NEGLIGIBLE, high + TOLERANCE * np.abs(high) + NEGLIGIBLE
    return low, high


def _paths(map_: Map, rows: Rows) -> Iterator[tuple[Map | None, NDArray[Any] | slice]]:
    """Maps of the score alone, and the rows to which each applies."""
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


@singledispatch
def only_copies(map_: Map) -> bool:
    """Whether the map only compares and copies, in all parts, groups and classes."""
    if isinstance(map_, ComposeMap):
        return all(map(only_copies, map_.maps))
    if isinstance(map_, ByGroupMap):
        return all(map(only_copies, map_.maps)) and (map_.default is None or only_copies(map_.default))
    if not isinstance(map_, MulticlassMap):
        return map_.exact
    if map_.on == "logit" or isinstance(map_, SoftmaxMap | GroupedSoftmaxMap):
        return False
    parts: tuple[Map, ...] = getattr(map_, "maps", ())
    return all(map(only_copies, parts)) and not getattr(map_, "normalized", False)


def _between(table: Map, low: Floats, high: Floats) -> Floats:
    """The smallest and the largest value of a table at its knots between two scores; empty for curves."""
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
def _(map_: MulticlassMap, rows: Rows) -> tuple[Floats, Floats]:
    """For a table: if a perturbation within rounding error moves a row to another region, both results agree."""
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


def _first_computes(map_: MulticlassMap) -> bool:
    """Whether an engine may have rounding errors before the region is found: exponentials, or small terms set to 0."""
    small = isinstance(map_, SimplexBinsMap) and map_.scheme == "projection"
    return map_.on == "logit" or small


def _on_probabilities(map_: MulticlassMap, p: Floats) -> NDArray[Any]:
    if map_.on == "probability":
        return map_.apply(p)
    with np.errstate(divide="ignore"):
        return map_.apply(np.log(np.maximum(p, 0.0)))


@allowed.register
def _(map_: SoftmaxMap, rows: Rows) -> tuple[Floats, Floats]:
    """The rounding error of a logit grows with the terms of its sum."""
    s = rows.scores.astype(np.float64)
    size, z = len(map_.classes), np.abs(map_.logits(s))
    slope = np.abs(map_.slope)
    terms = z * slope if len(slope) in (1, size) else np.einsum("nk,jk->nj", z, slope.reshape(size, size))
    scale = (terms + np.abs(map_.intercept) if len(map_.intercept) else terms).max(axis=1, keepdims=True)
    error = TOLERANCE + 4.0 * 2.0**-52 * np.sqrt(size) * scale
    away = np.expm1(np.minimum(error, MAX_LOGIT_ERROR))
    images = map_.apply(s)
    low, high = images / (1.0 + away) - NEGLIGIBLE, images * (1.0 + away) + NEGLIGIBLE
    unknown = (error >= MAX_LOGIT_ERROR) & map_.raw & ~np.isnan(images)
    return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


@allowed.register
def _(map_: GroupedSoftmaxMap, rows: Rows) -> tuple[Floats, Floats]:
    """As the softmax map of each row's group."""
    codes = read_keys(rows.groups[map_.by]).among(map_.groups)
    low, high = np.empty(rows.scores.shape), np.empty(rows.scores.shape)
    for code in np.unique(codes).tolist():
        own = codes == code
        ends = [allowed(part, Rows(rows.scores[own])) for part in (map_.whole, _own(map_, code))]
        images = map_.apply(rows.scores[own].astype(np.float64), rows.groups[map_.by][own])
        away = np.maximum(*(end[1] - end[0] for end in ends)) + 1e-12 * images
        low[own], high[own] = images - away, images + away
    return low, high


def _own(map_: GroupedSoftmaxMap, code: int) -> SoftmaxMap:
    return map_.whole if code < 0 else map_.of_group(map_.groups[code])


@allowed.register
def _(map_: PerClassMap, rows: Rows) -> tuple[Floats, Floats]:
    s = rows.scores.astype(np.float64)
    least, exact, most = _probability_range(map_, s)
    low, high = np.empty_like(exact), np.empty_like(exact)
    for j, part in enumerate(map_.maps):
        low[:, j], high[:, j] = allowed_on_path(part, least[:, j], exact[:, j], most[:, j])
    if map_.normalized:
        low, high = _normalized(low, high)
    missing = np.isnan(s).any(axis=1)
    low[missing] = high[missing] = np.nan
    return low, high


def _normalized(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Shares of a sum; equal shares if the sum is 0."""
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


def _probability_range(map_: MulticlassMap, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Range of probabilities in an engine: unchanged, or after its own exponentials."""
    if map_.on == "probability":
        return s, s, s
    p = softmax(s)
    return p * (1.0 - TOLERANCE) - NEGLIGIBLE, p, p * (1.0 + TOLERANCE) + NEGLIGIBLE
