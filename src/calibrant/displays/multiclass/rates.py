"""Accuracy of each predicted class by bin of the confidence, and its distribution for a calibrated model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.displays.base import calibrated_scores
from calibrant.messages import InputError
from calibrant.metrics.binary.bins import even_edges
from calibrant.metrics.multiclass.bins import MulticlassBins
from calibrant.metrics.multiclass.claims import Claims, read_claims
from calibrant.notions import Notion
from calibrant.numerics import Floats


def claims_after(
    scores: Any, y: Any, sample_weight: Any, after: Any, *, notion: Notion | str, classes: Any, score_type: Any
) -> Claims:
    """Claims of the same rows after calibration.

    ``after`` is a fitted calibrator, a matrix of calibrated probabilities, or one column with the probability of the
    predicted class of ``scores``.
    """
    given = calibrated_scores(after, scores)
    calibrated = np.asarray(given)
    if calibrated.ndim > 1 and calibrated.shape[1] > 1:
        return read_claims(given, y, sample_weight, notion=notion, classes=classes)
    before = read_claims(scores, y, sample_weight, notion=notion, classes=classes, score_type=score_type)
    if before.named is None:
        problem = f"is one column, and the {notion} notion needs one for each class"
        raise InputError("after", problem, "pass a matrix of calibrated probabilities")
    kept = slice(None) if sample_weight is None else np.asarray(sample_weight) != 0
    weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
    named = np.array(before.classes)[before.named[:, 0]]
    column, labels = calibrated.reshape(-1)[kept], np.asarray(y)[kept]
    return read_claims(column, labels, weight, notion=notion, classes=before.classes, named=named)


DRAWS = 500
"""Simulated data sets of a calibrated model."""


@dataclass(frozen=True, eq=False)
class MulticlassCells:
    """Rows, events and sums of scores by class (row) and bin (column).

    ``size`` is the effective sample size: ``n`` itself, or less under importance weights.

    Examples
    --------
    >>> from calibrant.metrics.multiclass.claims import read_claims
    >>> claims = read_claims([[0.6, 0.4], [0.7, 0.3], [0.1, 0.9]], ["a", "b", "b"], notion="top-label")
    >>> cells = MulticlassCells.of(claims, edges=[0.5, 0.8])
    >>> cells.n.tolist(), cells.events.tolist()
    ([[0.0, 2.0, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """

    classes: tuple[str, ...]
    edges: Floats
    n: Floats
    size: Floats
    events: Floats
    score_sum: Floats
    counted: bool

    @classmethod
    def of(cls, claims: Claims, n_bins: int = 10, edges: ArrayLike | None = None) -> MulticlassCells:
        """Count the claims of :class:`TopLabel` or :class:`Classwise` by class and bin of equal width, or by edges."""
        bins = MulticlassBins.of(claims, n_bins=n_bins, edges=edges, keep=False)
        inner = even_edges(n_bins) if edges is None else np.asarray(edges, dtype=np.float64)
        parts = (bins.n, bins.effective_n, bins.events, bins.score_sum)
        n, size, events, score_sum = (part.reshape(-1, len(inner) + 1) for part in parts)
        return cls(claims.classes, inner, n, size, events, score_sum, claims.weights is None)

    @property
    def ends(self) -> Floats:
        """Both ends of every bin, from 0 to 1."""
        return np.concatenate([[0.0], self.edges, [1.0]]).round(15)

    def gap(self) -> Floats:
        """Number of rows times the distance of event rate and mean score, by class and bin."""
        return np.abs(self.events - self.score_sum)

    def errors(self, random_state: int) -> tuple[Floats, Floats]:
        """Mean distance over the rows of each class, and its mean for calibrated models; 0 without rows."""
        n = self.n.sum(axis=1)
        rows = np.where(n > 0, n, 1.0)
        simulation = self.simulated(random_state)
        chance = np.zeros(len(n))
        chance[np.unique(simulation.classes)] = simulation.by_class().mean(axis=0)
        return self.gap().sum(axis=1) / rows, chance / rows

    def simulated(self, random_state: int) -> Simulation:
        """Simulated event rates of calibrated models: binomial in each cell, at its mean score."""
        bins, classes = np.nonzero((self.n > 0).T)
        n, size = self.n[classes, bins], self.size[classes, bins]
        score = np.clip(self.score_sum[classes, bins] / n, 0.0, 1.0)
        trials = np.maximum(np.rint(size), 1.0).astype(np.int64)
        rng = np.random.default_rng([random_state, len(n)])
        rates = rng.binomial(trials, score, size=(DRAWS, len(n))) / trials
        return Simulation(classes, bins, n * (rates - score))


@dataclass(frozen=True, eq=False)
class Simulation:
    """Events minus expected events in each cell with rows, one row per simulated data set; cells are sorted by bin."""

    classes: NDArray[np.intp]
    bins: NDArray[np.intp]
    excess: Floats

    def by_bin(self, absolute: bool) -> Floats:
        """Sums over the classes of each bin with rows, of the excess or of its absolute value."""
        starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
        return np.asarray(np.add.reduceat(np.abs(self.excess) if absolute else self.excess, starts, axis=1))

    def by_class(self) -> Floats:
        """Sums over the bins of each predicted class, of the absolute value of the excess."""
        order = np.argsort(self.classes, kind="stable")
        starts = np.flatnonzero(np.diff(self.classes[order], prepend=-1))
        return np.asarray(np.add.reduceat(np.abs(self.excess[:, order]), starts, axis=1))


@dataclass(frozen=True, eq=False)
class TopBins:
    r"""The bins with rows of a top-label reliability diagram.

    Attributes
    ----------
    left, right
        Ends of the bin.
    n, mean_confidence, accuracy
        Rows, mean confidence and accuracy (share of rows of the predicted class).
    low, high
        Interval of the accuracy of calibrated models.
    delta
        :math:`\Delta_b`, the mean over rows of the distance of accuracy and confidence by predicted class.
    delta_chance
        Upper limit of :math:`\Delta_b` for calibrated models.
    """

    left: Floats
    right: Floats
    n: Floats
    mean_confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    delta: Floats
    delta_chance: Floats

    @property
    def direction(self) -> Floats:
        """1 where the accuracy is above the diagonal, else -1."""
        return np.where(self.accuracy > self.mean_confidence, 1.0, -1.0)

    @property
    def top_label(self) -> Floats:
        """Confidence plus or minus delta, on the side of the accuracy: the height of a plus in Gupta's Figure 5.1a."""
        return np.asarray(self.mean_confidence + self.direction * self.delta)

    def to_dict(self) -> dict[str, list[float]]:
        """Columns as lists."""
        names = (*self.__dataclass_fields__, "top_label")
        return {name: getattr(self, name).tolist() for name in names}


def top_bins(cells: MulticlassCells, simulation: Simulation, confidence: float) -> TopBins:
    """The bins with rows, with intervals that contain a share ``confidence`` of calibrated models.

    Examples
    --------
    >>> from calibrant.metrics.multiclass.claims import read_claims
    >>> scores = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]] * 2
    >>> cells = MulticlassCells.of(read_claims(scores, ["a", "c"] * 2, notion="top-label", classes="abc"))
    >>> bins = top_bins(cells, cells.simulated(0), 0.9)
    >>> bins.accuracy.tolist(), bins.delta.tolist(), bins.top_label.tolist()
    ([0.5], [0.5], [0.0])
    """
    total = cells.n.sum(axis=0)
    keep = total > 0
    n = total[keep]
    mean_confidence, accuracy = cells.score_sum.sum(axis=0)[keep] / n, cells.events.sum(axis=0)[keep] / n
    tail = (1.0 - confidence) / 2.0
    shift = simulation.by_bin(absolute=False) / n
    low = np.quantile(shift, tail, axis=0, method="lower") + mean_confidence
    high = np.quantile(shift, 1.0 - tail, axis=0, method="higher") + mean_confidence
    chance = np.quantile(simulation.by_bin(absolute=True) / n, confidence, axis=0, method="higher")
    delta = cells.gap().sum(axis=0)[keep] / n
    ends = cells.ends
    return TopBins(
        ends[:-1][keep], ends[1:][keep], n, mean_confidence, accuracy, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0),
        delta, chance,
    )  # fmt: skip


def worst(excess: Floats, max_classes: int) -> NDArray[np.intp]:
    """Positions of the ``max_classes`` largest values, in increasing order; of equal values the earlier.

    Examples
    --------
    >>> worst(np.array([0.1, 0.5, 0.3]), 2).tolist()
    [1, 2]
    """
    return np.sort(np.argsort(-excess, kind="stable")[:max_classes])
