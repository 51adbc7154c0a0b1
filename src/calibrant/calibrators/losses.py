"""Losses of several candidates on the same rows, paired, so that differences have honest standard errors.

Nothing here is an estimator, so that a choice can be made without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from calibrant.maps import Map
from calibrant.metrics.estimates import TWO_SIDED
from calibrant.numerics import OUTPUT_ENDS, Floats
from calibrant.tallies import Tally

Loss = Literal["log", "brier"]

NAMES: dict[Loss, str] = {"log": "log loss", "brier": "Brier score"}


def outputs_of(maps: Sequence[Map], part: Tally) -> Floats:
    """Probabilities at the cells of a part, one line by map."""
    return np.array([np.asarray(each.apply(part.scores), dtype=np.float64) for each in maps])


@dataclass(frozen=True, eq=False)
class Losses:
    """Summed losses of several candidates on the same rows, with what standard errors of differences need."""

    total: float
    size: float
    """Rows, or what weights are worth."""
    sums: Floats
    products: Floats
    clusters: Floats
    """By cluster bucket: rows, then each candidate's summed loss; no line without clusters."""

    @classmethod
    def of(cls, part: Tally, buckets: Sequence[Tally], outputs: Floats, loss: Loss) -> Losses:
        """Losses on one part of the rows; ``outputs`` holds a line of probabilities by candidate."""
        by_label = row_losses(outputs, loss)
        n, events = part.n.astype(np.float64), part.events.astype(np.float64)
        sums, products = np.zeros(len(outputs)), np.zeros((len(outputs), len(outputs)))
        for weight, rows in zip((events, n - events), by_label, strict=True):
            weighted = rows * weight
            sums += weighted.sum(axis=1)
            products += np.einsum("jc,kc->jk", weighted, rows)
        lines = [_bucket_sums(part, bucket, by_label) for bucket in buckets]
        clusters = np.array(lines) if lines else np.zeros((0, 1 + len(outputs)))
        return cls(float(n.sum()), part.effective_size, sums, products, clusters)

    def __add__(self, other: Losses) -> Losses:
        """Losses on both sets of rows."""
        return Losses(
            self.total + other.total,
            self.size + other.size,
            self.sums + other.sums,
            self.products + other.products,
            np.concatenate([self.clusters, other.clusters]),
        )

    def only(self, columns: Sequence[int]) -> Losses:
        """The same of some candidates."""
        index = np.asarray(columns, dtype=np.intp)
        clusters = self.clusters[:, np.append(0, index + 1)]
        return Losses(self.total, self.size, self.sums[index], self.products[np.ix_(index, index)], clusters)

    @property
    def means(self) -> Floats:
        """Mean loss by candidate."""
        return self.sums / self.total

    def spread(self, weights: Floats) -> float:
        """Standard error of a combination of the mean losses, from rows or, where there are any, from clusters."""
        mean = float((weights * self.means).sum())
        if len(self.clusters):
            excess = (self.clusters[:, 1:] * weights).sum(axis=1) - mean * self.clusters[:, 0]
            count = len(excess)
            return float(np.sqrt((excess**2).sum() * count / max(count - 1, 1))) / self.total
        square = float((weights[:, None] * weights * self.products).sum()) / self.total
        return float(np.sqrt(max(square - mean**2, 0.0) / self.size))

    @property
    def reach(self) -> float:
        """Standard errors on either side of a 95 % interval: more of them when clusters are few."""
        return float(stdtrit(max(len(self.clusters) - 1, 1), 0.975)) if len(self.clusters) else TWO_SIDED

    def difference(self, one: int, other: int) -> tuple[float, float]:
        """How much greater the mean loss of ``one`` is, and the standard error of that."""
        weights = np.zeros(len(self.sums))
        weights[one] += 1.0
        weights[other] -= 1.0
        return float(self.means[one] - self.means[other]), self.spread(weights)


def row_losses(outputs: Floats, loss: Loss) -> tuple[Floats, Floats]:
    """Loss of an event and of a non-event at each output; outputs of exactly 0 and 1 count as log-odds of 36 do."""
    if loss == "brier":
        return (1.0 - outputs) ** 2, outputs**2
    held = np.clip(outputs, *OUTPUT_ENDS)
    return -np.log(held), -np.log1p(-held)


def _bucket_sums(part: Tally, bucket: Tally, by_label: tuple[Floats, Floats]) -> Floats:
    place = np.searchsorted(part.cells.keys, bucket.cells.keys)
    events, others = bucket.events.astype(np.float64), (bucket.n - bucket.events).astype(np.float64)
    sums = (by_label[0][:, place] * events).sum(axis=1) + (by_label[1][:, place] * others).sum(axis=1)
    return np.append(float(bucket.total), sums)
