"""Paired losses of several candidates on the same rows, for standard errors of their differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit, xlogy

from calibrant.maps import Map
from calibrant.metrics.binary.means import logarithmic_loss, squared_loss
from calibrant.metrics.estimates import TWO_SIDED
from calibrant.numerics import OUTPUT_ENDS, Ends, Floats, Ints
from calibrant.tallies import Tally

Loss = Literal["log", "brier"]

NAMES: dict[Loss, str] = {"log": "log loss", "brier": "Brier score"}

MIN_MINORITY_ROWS = 10
"""Minority-class rows below which no confidence interval is given: in simulations they were too short."""


def outputs_of(maps: Sequence[Map], part: Tally) -> Floats:
    """Probabilities at the cells of a fold, one line per map."""
    return np.array([np.asarray(each.apply(part.scores), dtype=np.float64) for each in maps])


@dataclass(frozen=True, eq=False)
class Losses:
    """Summed losses of several candidates on the same rows, with the sums for standard errors of differences."""

    total: float
    size: float
    """Number of rows, or the effective sample size of weights."""
    sums: Floats
    products: Floats
    clusters: Floats
    """By cluster bucket: rows, then the summed loss of each candidate; no lines without clusters."""
    classes: tuple[float, float] = (np.inf, np.inf)
    """Events and negatives, as effective sample sizes; infinite where they are not known."""
    names: Ints | None = None
    """Numbers of the clusters, if one may be in several folds: its lines are then added up."""

    @classmethod
    def of(
        cls,
        part: Tally,
        buckets: Sequence[Tally],
        outputs: Floats,
        loss: Loss,
        names: Sequence[int] | None = None,
        ends: Ends | None = None,
    ) -> Losses:
        """Losses on one fold; ``outputs`` has a line of probabilities per candidate, ``names`` number the buckets."""
        by_label = row_losses(outputs, loss, ends)
        n, events = part.n.astype(np.float64), part.events.astype(np.float64)
        sums, products = np.zeros(len(outputs)), np.zeros((len(outputs), len(outputs)))
        for weight, rows in zip((events, n - events), by_label, strict=True):
            weighted = rows * weight
            sums += weighted.sum(axis=1)
            products += np.einsum("jc,kc->jk", weighted, rows)
        lines = [_bucket_sums(part, bucket, by_label) for bucket in buckets]
        clusters = np.array(lines) if lines else np.zeros((0, 1 + len(outputs)))
        total, size, hits = float(n.sum()), part.effective_size, float(events.sum())
        unit = size / total if total else 0.0
        numbers = None if names is None else np.asarray(names, dtype=np.int64)
        return cls(total, size, sums, products, clusters, (hits * unit, (total - hits) * unit), numbers)

    @classmethod
    def of_rows(cls, losses: Floats, weights: Floats, clusters: NDArray[np.intp] | None) -> Losses:
        """Losses of single rows with their weights; ``losses`` has a line per candidate."""
        weighted, total = losses * weights, float(weights.sum())
        by_cluster, names = np.zeros((0, 1 + len(losses))), None
        if clusters is not None:
            names, codes = np.unique(clusters, return_inverse=True)
            by_cluster = np.stack([np.bincount(codes, line) for line in (weights, *weighted)], axis=1)
        products = np.einsum("jn,kn->jk", weighted, losses)
        return cls(total, total, weighted.sum(axis=1), products, by_cluster, names=names)

    def __add__(self, other: Losses) -> Losses:
        """Losses on both sets of rows."""
        clusters, names = np.concatenate([self.clusters, other.clusters]), None
        if self.names is not None and other.names is not None:
            names, codes = np.unique(np.concatenate([self.names, other.names]), return_inverse=True)
            clusters = np.stack([np.bincount(codes, column) for column in clusters.T], axis=1)
        return Losses(
            self.total + other.total,
            self.size + other.size,
            self.sums + other.sums,
            self.products + other.products,
            clusters,
            (self.classes[0] + other.classes[0], self.classes[1] + other.classes[1]),
            names,
        )

    @staticmethod
    def total_of(parts: Sequence[Losses]) -> Losses:
        """Losses on several folds together."""
        return reduce(Losses.__add__, parts)

    def only(self, columns: Sequence[int]) -> Losses:
        """The same for some of the candidates."""
        index = np.asarray(columns, dtype=np.intp)
        clusters = self.clusters[:, np.append(0, index + 1)]
        products = self.products[np.ix_(index, index)]
        return Losses(self.total, self.size, self.sums[index], products, clusters, self.classes, self.names)

    @property
    def means(self) -> Floats:
        """Mean loss of each candidate."""
        return self.sums / self.total

    def spread(self, weights: Floats) -> float:
        """Standard error of a linear combination of the mean losses, from clusters if there are any, else from rows."""
        mean = float((weights * self.means).sum())
        if len(self.clusters):
            excess = (self.clusters[:, 1:] * weights).sum(axis=1) - mean * self.clusters[:, 0]
            count = len(excess)
            return float(np.sqrt((excess**2).sum() * count / max(count - 1, 1))) / self.total
        square = float((weights[:, None] * weights * self.products).sum()) / self.total
        return float(np.sqrt(max(square - mean**2, 0.0) / self.size))

    @property
    def minority(self) -> float:
        """Minority-class rows."""
        return min(self.classes)

    @property
    def reach(self) -> float:
        """Half-width of a 95 % interval in standard errors: larger with few clusters or few minority-class rows."""
        fewest = min(self.minority, len(self.clusters) or np.inf)
        return float(stdtrit(max(fewest - 1.0, 1.0), 0.975)) if np.isfinite(fewest) else TWO_SIDED

    def interval(self, weights: Floats, loss: Loss, gap: float = 0.0) -> tuple[float, float, float, float]:
        r"""A linear combination of mean losses, its standard error, and the ends of a 95 % confidence interval.

        .. math:: v - t s - c\, t^2 / n \quad\text{to}\quad v + t s, \qquad s^2 = s_0^2 + g^2,

        with the value v, the standard error :math:`s_0` over paired rows, Student's quantile t for the number of
        minority-class rows, and the ``gap`` g between the cross-fitted change of the final choice and the nested
        change: where they differ, v does not describe the map in use. The loss of a fitted map is quadratic in its
        parameters u, :math:`v \approx -u^2 / 2` per row in nats with :math:`\operatorname{sd} u = n^{-1/2}`. So s is
        smallest where the gain is underestimated, and :math:`(|u| + t n^{-1/2})^2 / 2` adds :math:`t^2 / 2n` to
        :math:`v + t s`. The factor c is 1/2 for the log loss and :math:`p(1 - p)` for the Brier score.
        """
        value, se = float((weights * self.means).sum()), float(np.hypot(self.spread(weights), gap))
        fitted = se > 0.0 and bool(weights[1:].any())
        bend = (0.5 if loss == "log" else min(float(self.means.min()), 0.25)) / self.size if fitted else 0.0
        return value, se, value - self.reach * se - bend * self.reach**2, value + self.reach * se

    def difference(self, one: int, other: int) -> tuple[float, float]:
        """Mean loss of ``one`` minus that of ``other``, and the standard error of the difference."""
        weights = np.zeros(len(self.sums))
        weights[one] += 1.0
        weights[other] -= 1.0
        return float(self.means[one] - self.means[other]), self.spread(weights)


def constant_loss(rates: Floats, loss: Loss) -> float:
    """Mean loss of predicting the class frequencies for every row; the Brier score is summed over classes.

    Examples
    --------
    >>> round(constant_loss(np.array([0.5, 0.5]), "log"), 4), constant_loss(np.array([0.5, 0.5]), "brier")
    (0.6931, 0.5)
    """
    return float(1.0 - (rates**2).sum() if loss == "brier" else -xlogy(rates, rates).sum())


def row_losses(outputs: Floats, loss: Loss, ends: Ends | None = None) -> tuple[Floats, Floats]:
    """Loss of an event and of a negative at each output, clipped to ``ends``, or to log-odds of -36 and 36."""
    return squared_loss(outputs) if loss == "brier" else logarithmic_loss(np.clip(outputs, *(ends or OUTPUT_ENDS)))


def shared_ends(models: Iterable[tuple[Floats, NDArray[Any], NDArray[Any]]]) -> Ends | None:
    """Where all models are clipped for the log loss: nowhere (None) unless it is infinite for one of them.

    Each model has its outputs, and the events and other rows at each. The ends are those of all outputs together, so
    that no output inside (0, 1) is moved, and no model is clipped otherwise than another.

    Examples
    --------
    >>> sure, mild = np.array([0.9, 1.0]), np.array([0.9, 0.8])
    >>> shared_ends([(sure, np.array([1, 0]), np.array([0, 1])), (mild, np.array([1, 0]), np.array([0, 1]))])
    Ends(low=2.3283064365386963e-10, high=0.95)
    >>> shared_ends([(sure, np.array([1, 1]), np.array([0, 0]))])
    """
    every = list(models)
    infinite = any(((p == 0.0) & (hits > 0)).any() or ((p == 1.0) & (misses > 0)).any() for p, hits, misses in every)
    return Ends.of(np.concatenate([p.ravel() for p, _, _ in every])) if infinite else None


def _bucket_sums(part: Tally, bucket: Tally, by_label: tuple[Floats, Floats]) -> Floats:
    place = np.searchsorted(part.cells.keys, bucket.cells.keys)
    events, others = bucket.events.astype(np.float64), (bucket.n - bucket.events).astype(np.float64)
    sums = (by_label[0][:, place] * events).sum(axis=1) + (by_label[1][:, place] * others).sum(axis=1)
    return np.append(float(bucket.total), sums)
