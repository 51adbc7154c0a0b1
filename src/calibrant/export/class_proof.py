"""Whether an export of a map of several classes gives what ``apply`` gives: on ties, edges, and random rows."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.errors import ParityError
from calibrant.export.proof import TOLERANCE, Proof, allowed_on_path, ends_of, only_copies
from calibrant.export.sql.classes import SMALL
from calibrant.export.sql.cuts import NEGLIGIBLE, knots_of
from calibrant.maps import ClassMap, Map, PerClassMap, SoftmaxMap, TopMap
from calibrant.maps.classes import softmax
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import SimplexBinsMap
from calibrant.numerics import Floats

RANDOM_ROWS = 10_000
MOST_NUMBERS = 1_000_000
"""Numbers in all rows together: with many classes there are fewer rows."""

EDGES = (0.0, -0.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-17, 2.0**-53, 2.0**-32, 0.25, 0.5, 0.75, 1 - 2.0**-32, 1.0)
ABOVE = (1.0 + 2.0**-52, 1.0 + 1e-7, 1.5, 40.0)
LOGITS = (-745.0, -36.0, -1e-17, 1e-300, -1e-310, 5e-324, 36.0, 745.0, 1e5, -1e5, 1e99, -1e101, 1e300, -1e300)

SHAKES = 16
"""Ways in which a row is moved by the least that an engine may be off, to see which results are open."""


def proof_matrix(map_: ClassMap, random_state: int = 0) -> Floats:
    """Rows to compare on: corners, ties, edge values and neighbours of knots in random places, random rows and NaN.

    Examples
    --------
    >>> cooler = SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9)
    >>> proof_matrix(cooler).shape[1], bool(np.isnan(proof_matrix(cooler)).any())
    (2, True)
    """
    rng = np.random.default_rng([random_state, 20_263])
    size = len(map_.classes)
    count = min(RANDOM_ROWS, max(MOST_NUMBERS // size, 100))
    crowd = _random_rows(map_, rng, count)
    others = [LOGITS] if map_.on == "logit" else [ABOVE, _beside_knots(map_, rng, count // 10)]
    marks = np.concatenate([EDGES, *others])
    edges = crowd[rng.integers(0, count, 4 * len(marks))]
    edges[np.arange(len(edges)), rng.integers(0, size, len(edges))] = np.resize(marks, len(edges))
    tied = np.round(crowd[: count // 10], 1)
    top = tied.max(axis=1, keepdims=True)
    level = np.where(rng.random(tied.shape) < 0.5, top, tied)
    corners = np.eye(size)[:1000] * (1.0 if map_.on == "probability" else 30.0)
    flat = np.stack([np.zeros(size), np.full(size, 1.0 / size), np.full(size, 0.5), np.ones(size)])
    missing = crowd[: 2 * min(size, 100)].copy()
    missing[np.arange(len(missing)), np.arange(len(missing)) % size] = np.nan
    return np.concatenate([corners, flat, tied, level, edges, missing, np.full((1, size), np.nan), crowd])


def _random_rows(map_: ClassMap, rng: np.random.Generator, count: int) -> Floats:
    size = len(map_.classes)
    if map_.on == "logit":
        return np.asarray(rng.normal(size=(count, size)) * np.resize([0.3, 2.0, 8.0, 40.0], count)[:, None])
    spread = np.resize([0.05, 0.5, 1.0, 5.0], count)[:, None]
    draws = rng.gamma(np.broadcast_to(spread, (count, size))) + 1e-12
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))


def _beside_knots(map_: ClassMap, rng: np.random.Generator, most: int) -> Floats:
    """Scores at which a part changes its formula, so many at most, and both neighbours of each."""
    parts = set(getattr(map_, "maps", ()))
    marks = [_cuts(map_), [getattr(map_, "clamp", 0.5)], *(ends_of(part) for part in parts)]
    knots = np.concatenate([*(knots_of(part) for part in parts), *marks])
    inside = np.unique(knots[(knots >= 0.0) & (knots <= 2.0)])
    if len(inside) > most:
        inside = rng.choice(inside, most, replace=False)
    return np.concatenate([np.nextafter(inside, -1.0), inside, np.nextafter(inside, 3.0)]).clip(0.0)


def _cuts(map_: ClassMap) -> Floats:
    """Scores at which a row changes its region."""
    if isinstance(map_, PathMap):
        return map_.cuts
    if not isinstance(map_, SimplexBinsMap):
        return np.empty(0)
    if map_.scheme == "projection":
        return np.abs(map_.thresholds)
    pieces = 2**map_.size if map_.scheme == "sierpinski" else map_.size
    return np.arange(min(pieces, 64) + 1) / pieces


# ------------------------------------------------------------------------------------------------------ what is allowed


@singledispatch
def allowed_rows(map_: ClassMap, s: Floats) -> tuple[Floats, Floats]:
    """The least and the largest result that agrees with ``apply``, row by row and column by column.

    For maps that look a row up in a table: where moving it by as little as an engine may be off makes it change its
    region, both agree. Everything else must be the same.
    """
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


@allowed_rows.register
def _(map_: SoftmaxMap, s: Floats) -> tuple[Floats, Floats]:
    """Rounding of a logit grows with the terms that it is the sum of."""
    size, z = len(map_.classes), np.abs(map_.logits(s))
    slope = np.abs(map_.slope)
    terms = z * slope if len(slope) in (1, size) else np.einsum("nk,jk->nj", z, slope.reshape(size, size))
    scale = (terms + np.abs(map_.intercept) if len(map_.intercept) else terms).max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        away = np.expm1(np.minimum(TOLERANCE + 4.0 * 2.0**-52 * np.sqrt(size) * scale, 700.0))
    images = map_.apply(s)
    return images / (1.0 + away) - NEGLIGIBLE, images * (1.0 + away) + NEGLIGIBLE


@allowed_rows.register
def _(map_: PerClassMap, s: Floats) -> tuple[Floats, Floats]:
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


@allowed_rows.register
def _(map_: TopMap, s: Floats) -> tuple[Floats, Floats]:
    codes = map_.labels(s)
    least, exact, most = (np.take_along_axis(each, codes, axis=1) for each in _probability_range(map_, s))
    low, high = np.empty_like(exact), np.empty_like(exact)
    for k in range(map_.ranks):
        parts = map_.maps[k * len(map_.classes) :] if map_.by_label else (map_.maps[k],)
        which = codes[:, k] if map_.by_label else np.zeros(len(s), dtype=np.intp)
        for j in np.unique(which).tolist():
            rows = np.flatnonzero(which == j)
            low[rows, k], high[rows, k] = allowed_on_path(parts[j], least[rows, k], exact[rows, k], most[rows, k])
    missing = np.isnan(s).any(axis=1)
    low[missing] = high[missing] = np.nan
    return low, high


def _probability_range(map_: ClassMap, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Probabilities as an engine may find them: as they are, or after its own exponentials."""
    if map_.on == "probability":
        return s, s, s
    p = softmax(s)
    return p * (1.0 - TOLERANCE) - NEGLIGIBLE, p, p * (1.0 + TOLERANCE) + NEGLIGIBLE


# ---------------------------------------------------------------------------------------------------------- comparison


def exact_rows(map_: ClassMap) -> bool:
    """Whether it only compares and copies."""
    if map_.on == "logit" or isinstance(map_, SoftmaxMap):
        return False
    parts: tuple[Map, ...] = getattr(map_, "maps", ())
    return all(map(only_copies, parts)) and not getattr(map_, "normalised", False)


def compare_rows(
    map_: ClassMap, rows: NDArray[Any], found: NDArray[Any], engine: str, labels: NDArray[Any] | None = None
) -> Proof:
    """The proof, or a :class:`ParityError` with the first row that is off.

    ``found`` are the results of an export for ``rows``, NaN where it gave NULL; ``labels`` are the classes that it
    found, as columns, -1 where it gave none: they must be those of the map.
    """
    expected = map_.apply(rows)
    low, high = allowed_rows(map_, rows.astype(np.float64))
    exact = exact_rows(map_)
    if expected.dtype == np.float32:
        slack = 0.0 if exact else np.spacing(np.abs(expected)).astype(np.float64)
        low, high = np.minimum(low, expected) - slack, np.maximum(high, expected) + slack
    missing = np.isnan(expected)
    with np.errstate(invalid="ignore"):
        good = np.where(missing, np.isnan(found), (found == expected) | ((found >= low) & (found <= high)))
    if labels is not None:
        good = np.column_stack([good, labels == expected_labels(map_, rows)])
    if not good.all():
        row, place = (int(each) for each in np.argwhere(~good)[0])
        _refuse(map_, rows, found, labels, expected, engine, (row, place), int((~good).any(axis=1).sum()))
    equal = (found == expected) | missing
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(found.astype(np.float64) - expected) / np.maximum(np.abs(expected), NEGLIGIBLE)
    worst = float(apart[~equal].max(initial=0.0))
    return Proof(engine, len(found), int(equal.all(axis=1).sum()), worst, 0.0 if exact else TOLERANCE, "rows")


def expected_labels(map_: ClassMap, rows: NDArray[Any]) -> NDArray[np.intp]:
    """Columns of the classes that the results are about; -1 where a score is missing."""
    if not isinstance(map_, TopMap):
        return np.empty((len(rows), 0), dtype=np.intp)
    return np.where(np.isnan(rows).any(axis=1, keepdims=True), -1, map_.labels(rows))


def _refuse(
    map_: ClassMap,
    rows: NDArray[Any],
    found: NDArray[Any],
    labels: NDArray[Any] | None,
    expected: NDArray[Any],
    engine: str,
    place: tuple[int, int],
    off: int,
) -> None:
    row, column = place
    width = len(map_.outputs)
    given: Any = found[row, column].item() if column < width else None
    wanted: Any = expected[row, column].item() if column < width else None
    if column >= width and labels is not None:
        given, wanted = (each[row, column - width].item() for each in (labels, expected_labels(map_, rows)))
    name = map_.outputs[column % width]
    scores = ", ".join(map(repr, rows[row].tolist()[:10])) + (", ..." if rows.shape[1] > 10 else "")
    raise ParityError(
        f"{engine} gives {given!r} for {'the class of ' if column >= width else ''}{name!r} of the scores {scores} "
        f"where the map gives {wanted!r}; {off:,} of {len(rows):,} rows are off: do not use this export"
    )
