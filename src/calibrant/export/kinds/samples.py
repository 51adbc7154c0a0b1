"""Scores and rows on which an export is compared: edges, both sides of every knot, ties, random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.score_types import PROBABILITY_ENDS, read_probabilities
from calibrant.export.kinds.scores import knots_of
from calibrant.maps import ByGroupMap, ComposeMap, GroupedSoftmaxMap, Map, MulticlassMap, PathMap, SimplexBinsMap
from calibrant.numerics import CLAMP, Floats

RANDOM_SCORES = 100_000
AROUND = 10_000
"""Approximate number of scores on each side at decreasing distances from the knots."""

MAX_KNOTS = 20_000
"""If there are more knots than this, a random sample of them is used."""

EDGES = (0.0, -0.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-17, 2.0**-53, 2.0**-32, 0.25, 0.5, 0.75, 1 - 2.0**-32, 1.0)
OUTSIDE = (-5e-324, -0.25, 1.0 + 2.0**-52, 1.5, 40.0, -745.0, 1e300, -1e300, np.inf, -np.inf)
NEAR = (-5e-7, 1.0 + 5e-7, *(end for own in PROBABILITY_ENDS for end in np.nextafter(own, [-np.inf, own, np.inf])))
"""Scores about as far outside [0, 1] as a rounding error."""
FAR = (-0.1, 1.2, 55.0)
EDGE_SCORES = np.array([*EDGES, *OUTSIDE, *NEAR, *FAR, np.nan])


RANDOM_ROWS = 10_000
MAX_NUMBERS = 1_000_000
"""Largest number of scores in all rows together: with many classes there are fewer rows."""

ABOVE = (1.0 + 2.0**-52, 1.0 + 1e-7, 1.5, 40.0, *NEAR, *FAR)
LOGITS = (-745.0, -36.0, -1e-17, 1e-300, -1e-310, 5e-324, 36.0, 745.0, 1e5, -1e5, 1e99, -1e101, 1e300, -1e300)


@dataclass(frozen=True)
class Rows:
    """Scores, one or a row for each case, with their groups: text as objects, numbers as floats."""

    scores: NDArray[Any]
    groups: dict[str, NDArray[Any]] = field(default_factory=dict)

    def take(self, rows: NDArray[Any] | slice) -> Rows:
        """A subset of the rows."""
        return Rows(self.scores[rows], {name: values[rows] for name, values in self.groups.items()})

    def as_read(self) -> Rows:
        """The rows as a map of probabilities reads them: a score that is none is missing."""
        return replace(self, scores=read_probabilities(self.scores))

    def with_missing(self) -> Rows:
        """The rows, plus a copy of the first one without scores."""
        rows = self.take(np.append(np.arange(len(self.scores)), 0))
        rows.scores[-1] = np.nan
        return rows


@singledispatch
def proof_rows(map_: Map, random_state: int = 0) -> Rows:
    """The scores of :func:`proof_scores`, or the rows of :func:`proof_matrix` for several classes.

    For a map by group: the scores of each group, and random ones in random groups. Besides the listed groups there are
    None and texts that look like a group but are not one.
    """
    if isinstance(map_, MulticlassMap):
        matrix = proof_matrix(map_, random_state)
        if not isinstance(map_, GroupedSoftmaxMap):
            return Rows(matrix)
        named = np.array(_texts([map_]), dtype=object)
        drawn = np.random.default_rng([random_state, 20_265]).integers(0, len(named), len(matrix))
        return Rows(matrix, {map_.by: named[drawn]})
    if not map_.columns:
        return Rows(proof_scores(map_, random_state))
    rng = np.random.default_rng([random_state, 20_262])
    stages = [part for part in parts_of(map_) if isinstance(part, ByGroupMap)]
    texts = {name: _texts([part for part in stages if part.by == name]) for name in map_.columns}
    paths = max(map(len, texts.values()))
    scores, chosen = [], []
    for j in range(paths):
        groups = {name: each[j % len(each)] for name, each in texts.items()}
        path = path_of(map_, groups)
        near = EDGE_SCORES if path is None else _edge_scores(path, rng, AROUND // paths, MAX_KNOTS // paths)
        scores.append(near)
        chosen.append(np.full(len(near), j))
    first = ComposeMap(tuple(part.maps[0] if isinstance(part, ByGroupMap) else part for part in parts_of(map_)))
    scores.append(_random_scores(first, rng))
    edges = np.concatenate(chosen)
    columns = {}
    for name, each in texts.items():
        place = np.concatenate([edges % len(each), rng.integers(0, len(each), RANDOM_SCORES)])
        columns[name] = np.array(each, dtype=object)[place]
    return Rows(np.concatenate(scores), columns)


def parts_of(map_: Map) -> Sequence[Map]:
    """The maps of a composition, in order."""
    return map_.maps if isinstance(map_, ComposeMap) else (map_,)


def _texts(stages: Sequence[ByGroupMap | GroupedSoftmaxMap]) -> list[str | None]:
    """Groups of a column, a missing one, and texts that look similar but are not groups."""
    listed = list(dict.fromkeys(group for part in stages for group in part.groups))
    alike = [other for group in listed[:3] for other in (group.swapcase(), f"{group} ", f"{group}.0", f"0{group}")]
    return [*listed, None, *dict.fromkeys(text for text in ("", "1", "true", *alike) if text not in listed)]


def unlisted(map_: Map, column: str) -> str:
    """A text that is not a group of the column."""
    kinds = ByGroupMap | GroupedSoftmaxMap
    stages = [part for part in parts_of(map_) if isinstance(part, kinds) and part.by == column]
    return max((group for part in stages for group in part.groups), key=len) + "_"


def path_of(map_: Map, groups: Mapping[str, str | None]) -> Map | None:
    """The map of the score alone that applies to rows of these groups; None if they get no probability."""
    path = []
    for part in parts_of(map_):
        if isinstance(part, ByGroupMap):
            group = groups[part.by]
            chosen = part.maps[part.groups.index(group)] if group in part.groups else part.default
            if chosen is None:
                return None
            path.append(chosen)
        else:
            path.append(part)
    return ComposeMap(tuple(path))


def proof_scores(map_: Map, random_state: int = 0) -> Floats:
    """Edges, both neighbors of every knot and scores around it, scores outside [0, 1], NaN, and 10^5 random ones."""
    rng = np.random.default_rng([random_state, 20_261])
    return np.concatenate([_edge_scores(map_, rng, AROUND, MAX_KNOTS), _random_scores(map_, rng)])


def _edge_scores(map_: Map, rng: np.random.Generator, around: int, most: int) -> Floats:
    knots = knots_of(map_)
    marks = rng.choice(knots, most, replace=False) if len(knots) > most else knots
    nearby = _around(np.sort(marks), around)
    marks = np.concatenate([marks, ends_of(map_), [CLAMP]])
    marks = np.concatenate([marks, 1.0 - marks])
    return np.concatenate([EDGE_SCORES, np.nextafter(marks, -np.inf), marks, np.nextafter(marks, np.inf), nearby])


def ends_of(map_: Map) -> Floats:
    """Scores at which its curves are clipped."""
    return np.array([getattr(part, end) for part in parts_of(map_) for end in ("low", "high") if hasattr(part, end)])


def _random_scores(map_: Map, rng: np.random.Generator) -> Floats:
    knots, share = knots_of(map_), RANDOM_SCORES // 4
    small = 2.0 ** -rng.uniform(0.0, 40.0, share)
    low, high = (knots.min(), knots.max()) if len(knots) else (0.0, 1.0)
    if any(getattr(part, "on", "") == "score" for part in parts_of(map_)):
        low, high = min(low, -40.0), max(high, 40.0)
    wide = low + (high - low) * rng.uniform(-0.05, 1.05, share)
    return np.concatenate([rng.random(RANDOM_SCORES - 3 * share), small, 1.0 - small, wide])


def _around(knots: Floats, around: int) -> Floats:
    """Scores at decreasing distances from every knot, to detect a knot that is slightly off."""
    gaps = np.diff(np.concatenate([knots[:1] - 1.0, knots, knots[-1:] + 1.0]))
    if not len(knots):
        return knots
    shares = 2.0 ** -np.arange(1.0, 1.0 + np.clip(around // len(knots), 1, 40))
    return np.concatenate([(knots[:, None] + gap[:, None] * shares).ravel() for gap in (gaps[1:], -gaps[:-1])])


# ------------------------------------------------------------------------------------------------------ several classes


def proof_matrix(map_: MulticlassMap, random_state: int = 0) -> Floats:
    """Rows to compare on: corners, ties, edge values and neighbors of knots in random places, random rows and NaN.

    Examples
    --------
    >>> from calibrant.maps import SoftmaxMap
    >>> cooler = SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9)
    >>> proof_matrix(cooler).shape[1], bool(np.isnan(proof_matrix(cooler)).any())
    (2, True)
    """
    rng = np.random.default_rng([random_state, 20_263])
    size = len(map_.classes)
    count = min(RANDOM_ROWS, max(MAX_NUMBERS // size, 100))
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


def _random_rows(map_: MulticlassMap, rng: np.random.Generator, count: int) -> Floats:
    size = len(map_.classes)
    if map_.on == "logit":
        return np.asarray(rng.normal(size=(count, size)) * np.resize([0.3, 2.0, 8.0, 40.0], count)[:, None])
    spread = np.resize([0.05, 0.5, 1.0, 5.0], count)[:, None]
    draws = rng.gamma(np.broadcast_to(spread, (count, size))) + 1e-12
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))


def _beside_knots(map_: MulticlassMap, rng: np.random.Generator, most: int) -> Floats:
    """Scores at which a part changes its formula, at most ``most``, and both neighbors of each."""
    parts = set(getattr(map_, "maps", ()))
    marks = [_cuts(map_), [getattr(map_, "clamp", 0.5)], *(ends_of(part) for part in parts)]
    knots = np.concatenate([*(knots_of(part) for part in parts), *marks])
    inside = np.unique(knots[(knots >= 0.0) & (knots <= 2.0)])
    if len(inside) > most:
        inside = rng.choice(inside, most, replace=False)
    return np.concatenate([np.nextafter(inside, -1.0), inside, np.nextafter(inside, 3.0)]).clip(0.0)


def _cuts(map_: MulticlassMap) -> Floats:
    """Scores at which a row changes its region."""
    if isinstance(map_, PathMap):
        return map_.cuts
    if not isinstance(map_, SimplexBinsMap):
        return np.empty(0)
    if map_.scheme == "projection":
        return np.abs(map_.thresholds)
    pieces = 2**map_.size if map_.scheme == "sierpinski" else map_.size
    return np.arange(min(pieces, 64) + 1) / pieces
