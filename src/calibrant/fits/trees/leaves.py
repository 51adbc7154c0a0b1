"""What the leaves of a tree predict and hold: the mean of the labels, or any other fit of a node, and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calibrant.arrays import Rows
from calibrant.maps import Map, StepMap
from calibrant.numerics import Floats, Ints


class LeafModel(Protocol):
    """A family of fits, one for each node."""

    def fit(self, rows: Ints, parent: Any) -> Any:
        """The fit to some rows; ``parent`` is that of the node above, None at the root."""

    def error(self, fitted: Any, rows: Ints) -> float:
        """Squared error of a fit on some rows."""


@dataclass(frozen=True, eq=False)
class Means:
    """The mean of the targets, one column for each class."""

    targets: Floats
    weights: Floats | None = None

    def fit(self, rows: Ints, parent: Any) -> Floats:
        """The weighted mean of some rows; without rows that of the parent, and 0 if there is none."""
        w = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        total = float(w.sum())
        if total <= 0.0:
            return np.zeros(self.targets.shape[1]) if parent is None else np.asarray(parent)
        return np.asarray((w[:, None] * self.targets[rows]).sum(axis=0) / total)

    def error(self, fitted: Floats, rows: Ints) -> float:
        """Squared error of a mean."""
        squares = ((self.targets[rows] - fitted) ** 2).sum(axis=1)
        return float(squares.sum() if self.weights is None else (self.weights[rows] * squares).sum())


def rate_map(rate: float) -> Map:
    """The map of a leaf that has one probability, whatever the score."""
    return StepMap(np.empty(0), np.array([rate]))


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """What is in the leaves, in the order of ``map_.maps``, from the rows that fill them.

    Attributes
    ----------
    rows, events
        Rows and events of each leaf; sums of weights if rows have importance weights. Of several classes, ``events``
        has a column for each: the rows of the class.
    rates
        Mean label of each leaf, or shares of its classes; NaN without rows.
    low, middle, high
        The scores below which a tenth, a half and nine tenths of the leaf's rows lie; NaN without rows. Of several
        classes, ``middle`` holds the mean probability of each class by the model, and the others are NaN.
    chose
        Rows that chose the splits and are not among these; 0 unless the fit is honest.
    """

    rows: Floats
    events: Floats
    rates: Floats
    low: Floats
    middle: Floats
    high: Floats
    chose: int

    @classmethod
    def of(cls, leaf: Ints, size: int, rows: Rows, chose: int) -> LeafCounts:
        """Counted from the leaf of each row."""
        weights = np.ones(len(leaf)) if rows.weights is None else rows.weights.astype(np.float64)
        n, events = (
            np.bincount(leaf, each, minlength=size).astype(np.float64) for each in (weights, weights * rows.labels)
        )
        parts = [rows.scores[leaf == j] for j in range(size)]
        marks = np.array([np.quantile(each, [0.1, 0.5, 0.9]) if len(each) else [np.nan] * 3 for each in parts])
        with np.errstate(invalid="ignore", divide="ignore"):
            return cls(n, events, events / n, marks[:, 0], marks[:, 1], marks[:, 2], chose)

    @classmethod
    def of_classes(
        cls, leaf: Ints, size: int, p: Floats, targets: Floats, weights: Floats | None, chose: int
    ) -> LeafCounts:
        """Counted from the leaf of each row: ``p`` and ``targets`` have a column for each class."""
        w = np.ones(len(leaf)) if weights is None else weights
        n = np.bincount(leaf, w, minlength=size).astype(np.float64)
        sums = [
            np.column_stack([np.bincount(leaf, w * each, minlength=size) for each in side.T]).astype(np.float64)
            for side in (targets, p)
        ]
        nothing = np.full(size, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return cls(n, sums[0], sums[0] / n[:, None], nothing, sums[1] / n[:, None], nothing, chose)
