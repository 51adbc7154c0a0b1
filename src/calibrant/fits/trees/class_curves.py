r"""A softmax map of the class scores in each node of a tree, for several classes.

The map of a node is :math:`\operatorname{softmax}(t z + b)` with z the log-probabilities, and leans on that of the node
above: it is the correction of :func:`~calibrant.fits.multiclass.segments.fit_correction` to the parent's
log-probabilities, with a ridge penalty that is worth about 10 rows. So a leaf of few rows, or without some class, keeps
close to its parent. The global map leans on the model itself, by less than a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.fits.multiclass.segments import fit_correction
from calibrant.fits.multiclass.softmax import LogRows, effective_weights, zero_notes
from calibrant.maps import ClassAxis, SoftmaxMap
from calibrant.maps.classes import softmax
from calibrant.messages import Note
from calibrant.numerics import Floats, Ints

PARENT_STRENGTH = 2.5
"""Ridge penalty of a node: a row has at most an information of 1/4 on an intercept, so this is worth 10 rows."""

ROOT_STRENGTH = 0.1
"""Ridge penalty of the global map."""

LEAST = 1e-300
"""Least probability whose logarithm is taken."""


@dataclass(frozen=True)
class Affine:
    """Slope and intercepts of a node on the log-probabilities of the model."""

    slope: float
    intercept: Floats


@dataclass(frozen=True, eq=False)
class ClassCurves:
    """Softmax maps with one slope that is not negative; each leans on that of the node above.

    Attributes
    ----------
    logs
        Log-probabilities of the rows.
    labels, weights
        Column of each row's class, and its weight.
    classes, on, clamp
        Those of the maps.
    """

    logs: Floats
    labels: NDArray[np.intp]
    weights: Floats
    classes: tuple[str, ...]
    on: ClassAxis
    clamp: float

    @classmethod
    def of(cls, rows: MulticlassRows) -> tuple[ClassCurves, tuple[Note, ...]]:
        """The family for these rows, and a note on probabilities that have no logarithm."""
        found = LogRows.of(rows)
        logs = np.asarray(found.at(slice(None)), dtype=np.float64)
        family = cls(logs, rows.labels, effective_weights(rows), rows.classes, found.on, found.clamp)
        return family, zero_notes(rows, found.clamp)

    def fit(self, rows: Ints, parent: Affine | None) -> Affine:
        """The map of some rows; at the root it leans on the model itself."""
        above = Affine(1.0, np.zeros(len(self.classes))) if parent is None else parent
        u = np.log(np.maximum(self.apply(above, rows), LEAST))
        strength = ROOT_STRENGTH if parent is None else PARENT_STRENGTH
        change = fit_correction(u, self.labels[rows], self.weights[rows], strength)
        factor = 1.0 + float(change[0])
        if factor >= 0.0:
            return Affine(factor * above.slope, factor * above.intercept + change[1:])
        return self._flat(u, rows, strength)

    def _flat(self, u: Floats, rows: Ints, strength: float) -> Affine:
        """The best map of slope 0: the scores rank the classes the wrong way."""
        mean = np.log(np.maximum(np.exp(u).mean(axis=0), LEAST))
        change = fit_correction(np.tile(mean, (len(rows), 1)), self.labels[rows], self.weights[rows], strength)
        return Affine(0.0, (1.0 + change[0]) * mean + change[1:])

    def apply(self, fitted: Affine, rows: Ints) -> Floats:
        """Probabilities of some rows."""
        return softmax(fitted.slope * self.logs[rows] + fitted.intercept)

    def error(self, fitted: Affine, rows: Ints) -> float:
        """Squared error of a map, summed over the classes."""
        away = self.apply(fitted, rows)
        away[np.arange(len(rows)), self.labels[rows]] -= 1.0
        return float((self.weights[rows] * (away**2).sum(axis=1)).sum())

    def map(self, fitted: Affine) -> SoftmaxMap:
        """The map of a node."""
        return SoftmaxMap(self.classes, np.array([fitted.slope]), fitted.intercept, self.on, self.clamp)

    def root_probabilities(self) -> Floats:
        """Probabilities by the global map."""
        every = np.arange(len(self.labels))
        return self.apply(self.fit(every, None), every)
