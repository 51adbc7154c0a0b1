"""Rows of class scores set apart for cross-fitting: at random, by whole groups, or by stretches of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import ClassRows
from calibrant.fits.softmax import effective_weights
from calibrant.numerics import Floats, Ints, row_hashes
from calibrant.selection.folds import FOLDS, periods_of


@dataclass(frozen=True, eq=False)
class ClassFolds:
    """Parts of the rows, in order of time when ``forward``.

    A part is judged by what was fitted to the others, or to those before it. ``shares`` has a line for each part: what
    of each row's weight is in it; a row of several counts may be in several. ``clusters`` numbers the groups.
    """

    shares: Floats
    forward: bool = False
    clusters: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        """Number of parts."""
        return len(self.shares)

    @classmethod
    def of(cls, rows: ClassRows, count: int = FOLDS, random_state: int = 0) -> Self:
        """Parts of checked rows by their groups, walking forward by their time, or else at random.

        Neither the order of the rows nor whether equal rows come once with a count or several times matters.
        """
        weights = effective_weights(rows)
        if rows.time is not None:
            starts = periods_of(rows.time, rows.weights, count + 1)[0]
            return cls(_whole(np.unique(starts, return_inverse=True)[1], weights), forward=True)
        if rows.groups is not None:
            names, codes = np.unique(rows.groups, return_inverse=True)
            dealt = np.random.default_rng([random_state, 1]).permutation(len(names)) % count
            return cls(_whole(dealt[codes], weights), clusters=codes)
        counts = rows.mass if rows.counts else np.ones(len(rows), dtype=np.int64)
        units = _dealt(rows, counts.astype(np.int64), count, random_state)
        kept = units[units.sum(axis=1) > 0]
        return cls(kept * (weights / counts))

    def seen(self, *left_out: int) -> Floats:
        """Weights of what is fitted to when some parts are left out, or what is before the first of them."""
        if self.forward:
            return np.asarray(self.shares[: left_out[0]].sum(axis=0))
        kept = [part for part in range(len(self)) if part not in left_out]
        return np.asarray(self.shares[kept].sum(axis=0))


def some_rows(rows: ClassRows, numbers: int, random_state: int = 0) -> ClassRows:
    """All rows, or about as many as hold so many scores: those whose hash is small, wherever they stand."""
    share = numbers / rows.scores.size
    if share >= 1.0:
        return rows
    return rows.take(np.flatnonzero(_hashes(rows, random_state) <= np.uint64(share * 2.0**63) * np.uint64(2)))


def _hashes(rows: ClassRows, random_state: int) -> NDArray[np.uint64]:
    salt = np.random.default_rng([random_state, 0]).integers(1 << 62, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        return row_hashes(rows.scores, rows.labels) * salt


def _whole(part: NDArray[Any], weights: Floats) -> Floats:
    """Whole rows in parts that are numbered; parts without rows are left out."""
    codes = np.unique(part, return_inverse=True)[1]
    shares = np.zeros((int(codes.max()) + 1, len(weights)))
    shares[codes, np.arange(len(weights))] = weights
    return shares


def _dealt(rows: ClassRows, counts: Ints, parts: int, random_state: int) -> Floats:
    """How many of each row's counts go to each part: rows, in the order of a hash, are dealt in turn.

    Not class by class: the frequencies of classes would then be the same in every part, and fitting them to chance
    would look right on rows that are called unseen.
    """
    order = np.lexsort((rows.mass, _hashes(rows, random_state)))
    ends = np.cumsum(counts[order])
    starts = ends - counts[order]
    dealt = np.empty((parts, len(counts)))
    for part in range(parts):  # whole numbers below x that leave the remainder part: (x - part + parts - 1) // parts
        dealt[part, order] = (ends - part + parts - 1) // parts - (starts - part + parts - 1) // parts
    return dealt
