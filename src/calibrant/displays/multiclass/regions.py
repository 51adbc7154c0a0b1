"""Class shares and mean predictions by region of the simplex, for plots of canonical calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.multiclass.rows import read_matrix
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.messages import Argument, InputError, Phrase
from calibrant.metrics.binary.validity import ValidityCurve
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.numerics import Floats

DRAWS = 500
"""Simulated data sets for the gray band of a validity curve."""


class Binning(Protocol):
    """An object that divides rows of class scores into regions: a fitted map of simplex bins, or a user-defined one."""

    def regions(self, scores: Any, /) -> NDArray[Any]:
        """Index of the region of each row, from 0."""


@dataclass(frozen=True, eq=False)
class Regions:
    r"""Predictions and observed class shares in each region with rows.

    Attributes
    ----------
    classes
        Names of the classes, in the order of the columns.
    codes
        Indices of the regions in the binning.
    n
        Rows, or sum of weights, of each region.
    size
        Effective sample size: ``n`` itself, or less under importance weights.
    before, after, seen
        Mean prediction of the model, mean calibrated prediction, and observed class shares, by region and class.
    counted
        Whether ``n`` counts rows; otherwise it sums weights.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> halves = SimpleNamespace(regions=lambda p: (p[:, 0] < 0.5).astype(int))
    >>> scores = [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.2, 0.4, 0.4]]
    >>> found, _, _ = regions_of(scores, ["a", "b", "c"], binning=halves, after=scores)
    >>> found.n.tolist(), found.before.round(2).tolist(), found.seen.tolist()
    ([2.0, 1.0], [[0.7, 0.15, 0.15], [0.2, 0.4, 0.4]], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    """

    classes: tuple[str, ...]
    codes: NDArray[np.intp]
    n: Floats
    size: Floats
    before: Floats
    after: Floats
    seen: Floats
    counted: bool

    def distance(self, predicted: Floats) -> Floats:
        """The l1 distance between predictions and the class shares of each region, from 0 to 2."""
        return np.asarray(np.abs(predicted - self.seen).sum(axis=1))

    def error(self, predicted: Floats) -> float:
        """Mean of this distance over rows."""
        return float((self.n * self.distance(predicted)).sum() / self.n.sum())

    def validity(self, predicted: Floats) -> ValidityCurve:
        """Share of rows in regions whose distance is at most epsilon."""
        distance = self.distance(predicted)
        epsilon, index = np.unique(distance, return_inverse=True)
        share = np.cumsum(np.bincount(index, self.n)) / self.n.sum()
        share[-1] = 1.0  # remove rounding error
        parts = np.cumsum(np.bincount(index)) / len(distance)
        return ValidityCurve("l1 validity by region", epsilon, share, parts, 1.0 - self.error(predicted))

    def chance(self, predicted: Floats, epsilon: Floats, confidence: float, random_state: int) -> tuple[Floats, Floats]:
        """Pointwise interval of the curve at level ``confidence`` if the predictions are calibrated."""
        rng = np.random.default_rng([random_state, len(self.n)])
        trials = np.maximum(np.rint(self.size), 1.0).astype(np.int64)
        right = np.clip(predicted, 0.0, 1.0)
        right = right / np.maximum(right.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        share = self.n / self.n.sum()
        shares = np.empty((DRAWS, len(epsilon)))
        for draw in shares:
            seen = rng.multinomial(trials, right) / trials[:, None]
            distance = np.abs(seen - right).sum(axis=1)
            order = np.argsort(distance, kind="stable")
            steps = np.append(0.0, np.cumsum(share[order]))
            draw[:] = steps[np.searchsorted(distance[order], epsilon + 1e-12, side="right")]
        tail = (1.0 - confidence) / 2.0
        low, high = np.quantile(shares, [tail, 1.0 - tail], axis=0)
        return low, np.minimum(high, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Columns as lists."""
        names = ("codes", "n", "before", "after", "seen")
        return {name: getattr(self, name).tolist() for name in names}


def regions_of(
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    binning: Any,
    after: Any = None,
    classes: Sequence[Any] | None = None,
    score_type: MulticlassScoreType | None = None,
) -> tuple[Regions, Floats, NDArray[np.intp]]:
    """The regions with rows, the predictions of the rows, and the position of the region of each row."""
    if binning is None:
        raise InputError("binning", "is missing", "pass a fitted SimplexBinning, or its map")
    claims = read_claims(scores, y, sample_weight, notion="canonical", classes=classes, score_type=score_type)
    if not claims.exclusive:
        raise InputError(
            "scores", "must have rows that sum to 1 for canonical calibration", "pass probabilities or logits"
        )
    p = np.asarray(claims.scores, dtype=np.float64)
    fitted = getattr(binning, "map_", binning)
    if not hasattr(fitted, "regions"):
        raise InputError("binning", "has no method `regions`", "pass a fitted SimplexBinning, or its map")
    given = p
    if getattr(fitted, "on", "probability") == "logit":
        given = claims.given if claims.on == "logit" else np.log(np.maximum(p, np.finfo(float).tiny))
    codes, place = np.unique(np.asarray(fitted.regions(given)), return_inverse=True)
    if after is None and not hasattr(fitted, "apply"):
        raise InputError("after", "is missing", "pass the calibrated probabilities: binning has no method `apply`")
    kept = None if sample_weight is None else np.asarray(sample_weight) != 0
    q = np.asarray(fitted.apply(given), dtype=np.float64) if after is None else _matrix(after, kept, p.shape)
    mass = claims.mass
    n = np.bincount(place, mass).astype(np.float64)
    size = n if claims.weights is None else np.asarray(n**2 / np.bincount(place, mass * mass))
    seen = np.bincount(place * p.shape[1] + claims.labels, mass, minlength=len(codes) * p.shape[1])
    regions = Regions(
        claims.classes, codes.astype(np.intp), n, size, _means(p, place, mass, n), _means(q, place, mass, n),
        seen.reshape(len(codes), -1) / n[:, None], claims.weights is None,
    )  # fmt: skip
    return regions, p, place


def _matrix(after: Any, kept: NDArray[np.bool_] | None, shape: tuple[int, ...]) -> Floats:
    q, _ = read_matrix(after)
    q = np.asarray(q if kept is None or len(kept) != len(q) else q[kept], dtype=np.float64)
    if q.shape != shape:
        problem = Phrase(
            "has shape {found} but {scores} has {shape}", found=q.shape, scores=Argument("scores"), shape=shape
        )
        raise InputError("after", problem, "pass the same rows and classes")
    if not np.isfinite(q).all() or q.min() < 0.0 or q.max() > 1.0 + 1e-6:
        raise InputError("after", "must contain probabilities from 0 to 1 without missing values")
    return q


def _means(p: Floats, place: NDArray[np.intp], mass: Floats, n: Floats) -> Floats:
    return np.column_stack([np.bincount(place, mass * column) for column in p.T]) / n[:, None]
