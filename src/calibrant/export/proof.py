"""Whether an export gives what ``apply`` gives: on edges, beside every knot, and on random scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import read_keys
from calibrant.export.errors import ParityError
from calibrant.export.sql.cuts import NEGLIGIBLE, knots_of
from calibrant.maps import BetaMap, ByGroupMap, ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.numerics import CLAMP, Floats

TOLERANCE = 1e-12
"""Relative difference that a smooth map may show, from the last bits of an engine's ln and exp."""

RANDOM_SCORES = 100_000
AROUND = 10_000
"""About so many scores on either side go at shrinking distances from the knots."""

MOST_KNOTS = 20_000
"""Beside more knots than this only a random choice of them is looked at."""

EDGES = (0.0, -0.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-17, 2.0**-53, 2.0**-32, 0.25, 0.5, 0.75, 1 - 2.0**-32, 1.0)
OUTSIDE = (-5e-324, -0.25, 1.0 + 2.0**-52, 1.5, 40.0, -745.0, 1e300, -1e300, np.inf, -np.inf)
EDGE_SCORES = np.array([*EDGES, *OUTSIDE, np.nan])


@dataclass(frozen=True)
class Proof:
    """What was compared, where, and how far apart the results were.

    Attributes
    ----------
    engine
        What ran the export, with its version.
    scores
        How many scores were compared: edges, neighbours of every knot, random ones, NaN and NULL.
    equal
        How many results were the same to the last bit.
    worst
        Largest relative difference.
    tolerance
        What was allowed: 0.0 demands the same doubles.
    unit
        What was counted: scores, or rows of class scores.
    """

    engine: str
    scores: int
    equal: int
    worst: float
    tolerance: float
    unit: str = "scores"

    @classmethod
    def from_dict(cls, given: Any) -> Proof:
        """The proof from plain data, each field of its type."""
        proof = cls(**given)
        whole = all(type(value) is int for value in (proof.scores, proof.equal))
        real = all(type(value) in (int, float) for value in (proof.worst, proof.tolerance))
        if type(proof.engine) is not str or proof.unit not in ("scores", "rows") or not whole or not real:
            raise TypeError("a proof holds the name of an engine and four numbers")
        return proof

    def __str__(self) -> str:
        """One sentence."""
        if self.equal == self.scores:
            how = "all results are the same to the last bit"
        else:
            how = f"{self.equal:,} results are the same to the last bit, the others within {self.worst:.1e} relative"
        return f"Compared on {self.engine} with {self.scores:,} {self.unit}: {how}."


@dataclass(frozen=True)
class Rows:
    """Scores with their groups: what an export is compared on."""

    scores: NDArray[Any]
    groups: dict[str, NDArray[np.object_]] = field(default_factory=dict)

    def take(self, rows: NDArray[Any] | slice) -> Rows:
        """Some of the rows."""
        return Rows(self.scores[rows], {name: values[rows] for name, values in self.groups.items()})


def proof_rows(map_: Map, random_state: int = 0) -> Rows:
    """The scores of :func:`proof_scores`; for a map by group, those of each group, and random ones in random groups.

    Besides the listed groups there are None and texts that look like a group and are none.
    """
    if not map_.columns:
        return Rows(proof_scores(map_, random_state))
    rng = np.random.default_rng([random_state, 20_262])
    stages = [part for part in _parts(map_) if isinstance(part, ByGroupMap)]
    texts = {name: _texts([part for part in stages if part.by == name]) for name in map_.columns}
    paths = max(map(len, texts.values()))
    scores, chosen = [], []
    for j in range(paths):
        groups = {name: each[j % len(each)] for name, each in texts.items()}
        path = path_of(map_, groups)
        near = EDGE_SCORES if path is None else _edge_scores(path, rng, AROUND // paths, MOST_KNOTS // paths)
        scores.append(near)
        chosen.append(np.full(len(near), j))
    first = ComposeMap(tuple(part.maps[0] if isinstance(part, ByGroupMap) else part for part in _parts(map_)))
    scores.append(_random_scores(first, rng))
    edges = np.concatenate(chosen)
    columns = {}
    for name, each in texts.items():
        place = np.concatenate([edges % len(each), rng.integers(0, len(each), RANDOM_SCORES)])
        columns[name] = np.array(each, dtype=object)[place]
    return Rows(np.concatenate(scores), columns)


def _texts(stages: Sequence[ByGroupMap]) -> list[str | None]:
    """Groups of a column, a missing one, and texts that are none of them but look alike."""
    listed = list(dict.fromkeys(group for part in stages for group in part.groups))
    alike = [other for group in listed[:3] for other in (group.swapcase(), f"{group} ", f"{group}.0", f"0{group}")]
    return [*listed, None, *dict.fromkeys(text for text in ("", "1", "true", *alike) if text not in listed)]


def unlisted(map_: Map, column: str) -> str:
    """A text that is no group of the column."""
    stages = [part for part in _parts(map_) if isinstance(part, ByGroupMap) and part.by == column]
    return max((group for part in stages for group in part.groups), key=len) + "_"


def path_of(map_: Map, groups: Mapping[str, str | None]) -> Map | None:
    """The map of the score alone that rows of these groups go through; None where no probability is known."""
    path = []
    for part in _parts(map_):
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
    """Edges, both neighbours of every knot and scores around it, some outside [0, 1], NaN, and 10^5 random ones."""
    rng = np.random.default_rng([random_state, 20_261])
    return np.concatenate([_edge_scores(map_, rng, AROUND, MOST_KNOTS), _random_scores(map_, rng)])


def _edge_scores(map_: Map, rng: np.random.Generator, around: int, most: int) -> Floats:
    knots = knots_of(map_)
    marks = rng.choice(knots, most, replace=False) if len(knots) > most else knots
    nearby = _around(np.sort(marks), around)
    marks = np.concatenate([marks, ends_of(map_), [CLAMP]])
    marks = np.concatenate([marks, 1.0 - marks])
    return np.concatenate([EDGE_SCORES, np.nextafter(marks, -np.inf), marks, np.nextafter(marks, np.inf), nearby])


def ends_of(map_: Map) -> Floats:
    """Where its curves clip the score."""
    curves = [part for part in _parts(map_) if isinstance(part, LogitAffineMap | BetaMap)]
    return np.array([end for part in curves for end in (part.low, part.high)])


def _random_scores(map_: Map, rng: np.random.Generator) -> Floats:
    knots, share = knots_of(map_), RANDOM_SCORES // 4
    small = 2.0 ** -rng.uniform(0.0, 40.0, share)
    low, high = (knots.min(), knots.max()) if len(knots) else (0.0, 1.0)
    if any(isinstance(part, LogitAffineMap) and part.on == "score" for part in _parts(map_)):
        low, high = min(low, -40.0), max(high, 40.0)
    wide = low + (high - low) * rng.uniform(-0.05, 1.05, share)
    return np.concatenate([rng.random(RANDOM_SCORES - 3 * share), small, 1.0 - small, wide])


def _around(knots: Floats, around: int) -> Floats:
    """Scores at shrinking distances from every knot: they find a knot that is off by a little."""
    gaps = np.diff(np.concatenate([knots[:1] - 1.0, knots, knots[-1:] + 1.0]))
    if not len(knots):
        return knots
    shares = 2.0 ** -np.arange(1.0, 1.0 + np.clip(around // len(knots), 1, 40))
    return np.concatenate([(knots[:, None] + gap[:, None] * shares).ravel() for gap in (gaps[1:], -gaps[:-1])])


def _parts(map_: Map) -> Sequence[Map]:
    return map_.maps if isinstance(map_, ComposeMap) else (map_,)


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
    for part in _parts(path):
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
    """Whether it only compares and copies, part by part and group by group."""
    if isinstance(map_, ComposeMap):
        return all(map(only_copies, map_.maps))
    if isinstance(map_, ByGroupMap):
        return all(map(only_copies, map_.maps)) and (map_.default is None or only_copies(map_.default))
    return map_.exact


def _between(table: Map, low: Floats, high: Floats) -> Floats:
    """The least and the largest value of a table at its knots between two scores; nothing for curves."""
    if not isinstance(table, StepMap | PiecewiseLinearMap):
        return np.empty((0, len(low)))
    first, last = np.searchsorted(table.knots, low, side="left"), np.searchsorted(table.knots, high, side="right")
    at = table.apply(table.knots)
    out = np.stack([table.apply(low)] * 2)
    for row in np.flatnonzero((last > first) & (low < high)).tolist():
        inside = at[first[row] : last[row]]
        out[:, row] = inside.min(), inside.max()
    return out


def compare(map_: Map, rows: Rows, found: NDArray[Any], engine: str) -> Proof:
    """The proof, or a :class:`ParityError` with the first row that is off.

    ``found`` are the results of an export for ``rows``, NaN where the export gave NULL. In single precision a smooth
    map may also be off by one step of a float32.
    """
    expected, (low, high) = map_.apply(rows.scores, rows.groups or None), allowed(map_, rows)
    exact = only_copies(map_)
    if expected.dtype == np.float32:
        slack = 0.0 if exact else np.spacing(np.abs(expected)).astype(np.float64)
        low, high = np.minimum(low, expected) - slack, np.maximum(high, expected) + slack
    missing = np.isnan(expected)
    with np.errstate(invalid="ignore"):
        good = np.where(missing, np.isnan(found), (found == expected) | ((found >= low) & (found <= high)))
    if not good.all():
        first = int(np.argmin(good))
        groups = "".join(f" with {name} {values[first]!r}" for name, values in rows.groups.items())
        raise ParityError(
            f"{engine} gives {found[first].item()!r} for the score {rows.scores[first].item()!r}{groups} where the map "
            f"gives {expected[first].item()!r}; {int((~good).sum()):,} of {len(good):,} scores are off: "
            "do not use this export"
        )
    equal = (found == expected) | missing
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(found.astype(np.float64) - expected) / np.maximum(np.abs(expected), NEGLIGIBLE)
    worst = float(apart[~equal].max(initial=0.0))
    return Proof(engine, len(found), int(equal.sum()), worst, 0.0 if exact else TOLERANCE)
