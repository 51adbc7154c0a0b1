"""Folds of multiclass rows for cross-fitting: at random, by whole groups, or by periods of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.fits.multiclass.softmax import effective_weights
from calibrant.numerics import Floats, Ints, row_hashes
from calibrant.selection.folds import FOLDS, forward_folds, periods_of


@dataclass(frozen=True, eq=False)
class MulticlassFolds:
    """Folds of the rows, in order of time when ``forward``.

    A fold is evaluated by a fit to the other folds, or to those before it when ``forward``. ``shares`` has a line for
    each fold: the weight of each row that is in it; a row with a count above 1 may be in several. ``clusters`` numbers
    the groups.
    """

    shares: Floats
    forward: bool = False
    clusters: NDArray[np.intp] | None = None
    past: Floats | None = None
    """With time and groups: like ``shares``, the weights of the rows that each fold is evaluated by."""

    def __len__(self) -> int:
        """Number of folds."""
        return len(self.shares)

    @classmethod
    def of(cls, rows: MulticlassRows, count: int = FOLDS, random_state: int = 0) -> Self:
        """Folds of checked rows: by groups, forward in time, or else at random.

        The order of the rows does not matter, nor whether equal rows come once with a count or several times.
        """
        weights = effective_weights(rows)
        if rows.time is not None:
            starts = periods_of(rows.time, rows.weights, count + 1)[0]
            return cls._forward(np.unique(starts, return_inverse=True)[1], weights, rows.groups)
        if rows.groups is not None:
            names, codes = np.unique(rows.groups, return_inverse=True)
            dealt = np.random.default_rng([random_state, 1]).permutation(len(names)) % count
            return cls(_whole(dealt[codes], weights), clusters=codes)
        counts = rows.mass if rows.counts else np.ones(len(rows), dtype=np.int64)
        units = _dealt(rows, counts.astype(np.int64), count, random_state)
        kept = units[units.sum(axis=1) > 0]
        return cls(kept * (weights / counts))

    @classmethod
    def _forward(cls, period: NDArray[np.intp], weights: Floats, groups: NDArray[Any] | None) -> Self:
        """Periods of time; with groups, each is evaluated by earlier rows of other groups."""
        if groups is None:
            return cls(_whole(period, weights), forward=True)
        past = np.zeros((int(period.max()) + 1, len(period)))
        for number, (seen, _) in enumerate(forward_folds(period, groups), start=1):
            past[number, seen] = weights[seen]
        codes = np.unique(groups, return_inverse=True)[1]
        return cls(_whole(period, weights), forward=True, clusters=codes, past=past)

    def seen(self, *left_out: int) -> Floats:
        """Weights of the training rows when some folds are left out; when walking forward, those before the first."""
        if self.past is not None:
            return np.asarray(self.past[left_out[0]])
        if self.forward:
            return np.asarray(self.shares[: left_out[0]].sum(axis=0))
        kept = [part for part in range(len(self)) if part not in left_out]
        return np.asarray(self.shares[kept].sum(axis=0))


def some_rows(rows: MulticlassRows, numbers: int, random_state: int = 0) -> MulticlassRows:
    """All rows, or a subset with about this many scores: rows with a small hash, whatever their order."""
    share = numbers / rows.scores.size
    if share >= 1.0:
        return rows
    return rows.take(np.flatnonzero(_hashes(rows, random_state) <= np.uint64(share * 2.0**63) * np.uint64(2)))


def _hashes(rows: MulticlassRows, random_state: int) -> NDArray[np.uint64]:
    salt = np.random.default_rng([random_state, 0]).integers(1 << 62, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        return row_hashes(rows.scores, rows.labels) * salt


def _whole(part: NDArray[Any], weights: Floats) -> Floats:
    """Whole rows in numbered folds; folds without rows are left out."""
    codes = np.unique(part, return_inverse=True)[1]
    shares = np.zeros((int(codes.max()) + 1, len(weights)))
    shares[codes, np.arange(len(weights))] = weights
    return shares


def _dealt(rows: MulticlassRows, counts: Ints, parts: int, random_state: int) -> Floats:
    """How many of each row's counts go to each fold: rows, in the order of a hash, are dealt in turn.

    Folds are not stratified by class: class frequencies would then agree in every fold, and overfitting them would not
    show on the held-out rows.
    """
    order = np.lexsort((rows.mass, _hashes(rows, random_state)))
    ends = np.cumsum(counts[order])
    starts = ends - counts[order]
    dealt = np.empty((parts, len(counts)))
    for part in range(parts):  # integers below x with remainder part: (x - part + parts - 1) // parts
        dealt[part, order] = (ends - part + parts - 1) // parts - (starts - part + parts - 1) // parts
    return dealt
