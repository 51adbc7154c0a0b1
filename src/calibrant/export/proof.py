"""Whether an export gives what ``apply`` gives: on edges, beside every knot, and on random scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.errors import ParityError
from calibrant.export.sql import NEGLIGIBLE, knots_of
from calibrant.maps import ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
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
    """

    engine: str
    scores: int
    equal: int
    worst: float
    tolerance: float

    @classmethod
    def from_dict(cls, given: Any) -> Proof:
        """The proof from plain data, each field of its type."""
        proof = cls(**given)
        whole = all(type(value) is int for value in (proof.scores, proof.equal))
        real = all(type(value) in (int, float) for value in (proof.worst, proof.tolerance))
        if type(proof.engine) is not str or not whole or not real:
            raise TypeError("a proof holds the name of an engine and four numbers")
        return proof

    def __str__(self) -> str:
        """One sentence."""
        if self.equal == self.scores:
            how = "all results are the same to the last bit"
        else:
            how = f"{self.equal:,} results are the same to the last bit, the others within {self.worst:.1e} relative"
        return f"Compared on {self.engine} with {self.scores:,} scores: {how}."


def proof_scores(map_: Map, random_state: int = 0) -> Floats:
    """Edges, both neighbours of every knot and scores around it, some outside [0, 1], NaN, and 10^5 random ones."""
    rng = np.random.default_rng([random_state, 20_261])
    knots = knots_of(map_)
    marks = rng.choice(knots, MOST_KNOTS, replace=False) if len(knots) > MOST_KNOTS else knots
    marks = np.concatenate([marks, [part.clamp for part in _parts(map_) if hasattr(part, "clamp")], [CLAMP]])
    marks = np.concatenate([marks, 1.0 - marks])
    near = np.concatenate([np.nextafter(marks, -np.inf), marks, np.nextafter(marks, np.inf), _around(knots)])
    share = RANDOM_SCORES // 4
    small = 2.0 ** -rng.uniform(0.0, 40.0, share)
    low, high = (knots.min(), knots.max()) if len(knots) else (0.0, 1.0)
    if any(isinstance(part, LogitAffineMap) and part.on == "score" for part in _parts(map_)):
        low, high = min(low, -40.0), max(high, 40.0)
    wide = low + (high - low) * rng.uniform(-0.05, 1.05, share)
    random = [rng.random(RANDOM_SCORES - 3 * share), small, 1.0 - small, wide]
    return np.concatenate([EDGES, OUTSIDE, [np.nan], near, *random])


def _around(knots: Floats) -> Floats:
    """Scores at shrinking distances from every knot: they find a knot that is off by a little."""
    gaps = np.diff(np.concatenate([knots[:1] - 1.0, knots, knots[-1:] + 1.0]))
    if not len(knots):
        return knots
    shares = 2.0 ** -np.arange(1.0, 1.0 + np.clip(AROUND // len(knots), 1, 40))
    return np.concatenate([(knots[:, None] + gap[:, None] * shares).ravel() for gap in (gaps[1:], -gaps[:-1])])


def _parts(map_: Map) -> Sequence[Map]:
    return map_.maps if isinstance(map_, ComposeMap) else (map_,)


def allowed(map_: Map, scores: NDArray[Any]) -> tuple[Floats, Floats]:
    """The least and the largest result that agrees with ``apply``.

    A map that only compares and copies must give the same doubles; any other may be off by 1e-12 of its result, and by
    what is negligible (terms as small are left out where an engine raises when they underflow). In a
    composition this freedom passes through the parts that follow: after a curve, a step map may take the step on
    either side when the curve is that close to a knot.
    """
    low = exact = high = scores.astype(np.float64)
    for part in _parts(map_):
        exact = part.apply(exact)
        images = np.stack([part.apply(low), exact, part.apply(high), *_between(part, low, high)])
        low, high = images.min(axis=0), images.max(axis=0)
        if not part.exact:
            low, high = low - TOLERANCE * np.abs(low) - NEGLIGIBLE, high + TOLERANCE * np.abs(high) + NEGLIGIBLE
    return low, high


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


def compare(map_: Map, scores: NDArray[Any], found: NDArray[Any], engine: str) -> Proof:
    """The proof, or a :class:`ParityError` with the first score that is off.

    ``found`` are the results of an export for ``scores``, NaN where the export gave NULL. In single precision a smooth
    map may also be off by one step of a float32.
    """
    expected, (low, high) = map_.apply(scores), allowed(map_, scores)
    exact = all(part.exact for part in _parts(map_))
    if expected.dtype == np.float32:
        slack = 0.0 if exact else np.spacing(np.abs(expected)).astype(np.float64)
        low, high = np.minimum(low, expected) - slack, np.maximum(high, expected) + slack
    missing = np.isnan(expected)
    with np.errstate(invalid="ignore"):
        good = np.where(missing, np.isnan(found), (found >= low) & (found <= high))
    if not good.all():
        first = int(np.argmin(good))
        raise ParityError(
            f"{engine} gives {found[first].item()!r} for the score {scores[first].item()!r} where the map gives "
            f"{expected[first].item()!r}; {int((~good).sum()):,} of {len(scores):,} scores are off: "
            "do not use this export"
        )
    equal = (found == expected) | missing
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(found.astype(np.float64) - expected) / np.maximum(np.abs(expected), NEGLIGIBLE)
    worst = float(apart[~equal].max(initial=0.0))
    return Proof(engine, len(scores), int(equal.sum()), worst, 0.0 if exact else TOLERANCE)
