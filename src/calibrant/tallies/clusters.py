"""Rows of a tally with the cluster that each belongs to: what sums over dependent rows need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.numerics import Floats, Grid, Ints
from calibrant.tallies.cells import Counts
from calibrant.tallies.grouped import GroupedTally
from calibrant.tallies.tally import Tally


@dataclass(frozen=True, eq=False)
class Clusters:
    """Counts by cluster and cell of a tally, one line for each combination or for each row.

    Attributes
    ----------
    tally
        All rows, without their clusters.
    cluster, cell
        Of each line: number of its cluster, from 0 on, and place of its score among the tally's cells.
    n, events
        Of each line: rows and events, or their sums of weights.
    size
        Number of clusters.

    Examples
    --------
    >>> from calibrant.arrays import check_rows
    >>> rows = check_rows([0.2, 0.7, 0.7, 0.9], [0, 1, 0, 1], groups=["a", "a", "b", "c"])
    >>> clusters = Clusters.of_rows(rows)
    >>> clusters.size, clusters.sums(np.ones(3), np.zeros(3)).tolist()  # events by cluster
    (3, [1.0, 0.0, 1.0])
    """

    tally: Tally
    cluster: Ints
    cell: Ints
    n: Counts
    events: Counts
    size: int

    @classmethod
    def of_rows(cls, rows: Rows, grid: Grid | None = None) -> Clusters:
        """Of rows whose groups are the clusters."""
        tally = Tally.from_rows(replace(rows, groups=None, time=None), grid)
        names, code = np.unique(cast(NDArray[Any], rows.groups), return_inverse=True)
        keys = rows.scores if grid is None else grid.cells(rows.scores)[0]
        n = np.ones(len(code), dtype=np.int64) if rows.weights is None else rows.weights
        return cls(tally, code, np.searchsorted(tally.cells.keys, keys), n, n * rows.labels, len(names))

    @classmethod
    def of_buckets(cls, buckets: GroupedTally) -> Clusters:
        """Of tallies by cluster, or by hash bucket of clusters; all on one grid, or all exact."""
        tally, parts = buckets.total(), [part.cells for part in buckets.values()]
        code = np.repeat(np.arange(len(parts)), [len(part.n) for part in parts])
        cell = np.searchsorted(tally.cells.keys, np.concatenate([part.keys for part in parts]))
        n, events = (np.concatenate([getattr(part, name) for part in parts]) for name in ("n", "events"))
        return cls(tally, code, cell, n, events, len(parts))

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Whether each cluster is a single row that counts once; unknown, and so False, under importance weights."""
        if not self.tally.counts:
            return np.zeros(self.size, dtype=bool)
        return np.asarray(np.bincount(self.cluster, self.n, self.size) == 1)

    def in_effective_rows(self) -> Clusters:
        """The same with importance weights in the unit in which they add up to the effective size."""
        if self.tally.counts:
            return self
        unit = self.tally.effective_size / float(self.tally.total)
        n, events = (np.asarray(column, dtype=np.float64) * unit for column in (self.n, self.events))
        return replace(self, tally=self.tally.scaled(unit), n=n, events=events)

    def sums(self, hit: Floats, miss: Floats) -> Floats:
        """By cluster: what its rows add up to, an event adding ``hit`` and another row ``miss`` of its cell."""
        hits = self.events * hit[self.cell]
        added = hits + (self.n - self.events) * miss[self.cell]
        return np.bincount(self.cluster, added, self.size).astype(np.float64)

    def within(self, chosen: NDArray[np.bool_]) -> Clusters:
        """The lines of some cells alone; clusters without a row there are left out."""
        kept = chosen[self.cell]
        there, code = np.unique(self.cluster[kept], return_inverse=True)
        return replace(
            self, cluster=code, cell=self.cell[kept], n=self.n[kept], events=self.events[kept], size=len(there)
        )
