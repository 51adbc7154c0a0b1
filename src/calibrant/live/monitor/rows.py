"""Rows as a monitor reads them: probabilities, outcomes, log-odds, bins; counts of a tally are rows with a weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics import Floats, Ints, logit

EDGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Default inner edges of the bins: narrow where events are rare."""

FAR = 10.0
"""Log-odds are read within this distance of 0, so that a score of nearly 0 or 1 has no more leverage than that."""


@dataclass(frozen=True)
class Labeled:
    """Labeled rows in order. ``events`` is the sum of the outcomes of the ``n`` rows that an entry stands for."""

    p: Floats
    events: Floats
    x: Floats
    bins: Ints
    keys: Ints
    at: Floats
    n: Floats | None = None
    """Rows of each entry, for entries that are cells of a tally; None for single rows."""

    @classmethod
    def of(
        cls, p: Floats, events: Floats, edges: Floats, at: Floats, keys: Ints | None = None, n: Floats | None = None
    ) -> Labeled:
        """With log-odds and bins; key -1 is none."""
        x = np.minimum(np.maximum(logit(p), -FAR), FAR)
        bins = np.searchsorted(edges, p, side="right").astype(np.int64)
        return cls(p, events, x, bins, np.full(len(p), -1, dtype=np.int64) if keys is None else keys, at, n)

    def __len__(self) -> int:
        return len(self.p)

    def part(self, which: slice | Ints | NDArray[np.bool_]) -> Labeled:
        """Some of the rows."""
        n = None if self.n is None else self.n[which]
        p, events, x, at = self.p[which], self.events[which], self.x[which], self.at[which]
        return Labeled(p, events, x, self.bins[which], self.keys[which], at, n)

    @property
    def sizes(self) -> Floats:
        """Rows that each entry stands for."""
        return np.ones(len(self.p)) if self.n is None else self.n

    @property
    def errors(self) -> Floats:
        """Observed minus predicted, summed over the rows of each entry."""
        return np.asarray(self.events - self.sizes * self.p)

    @property
    def squares(self) -> Floats:
        """Squared errors, summed over the rows of each entry; single rows may have fractional outcomes."""
        if self.n is None:
            return np.asarray((self.events - self.p) ** 2)
        return np.asarray(self.events * (1.0 - self.p) ** 2 + (self.n - self.events) * self.p**2)
