"""Tallies by segment, day or cluster bucket, and counts of a tally by cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.messages import InputError
from calibrant.numerics import Column, Floats, Grid, Ints
from calibrant.tallies.cells import Counts
from calibrant.tallies.tally import Tally

SEGMENT_GRID = Grid(bits=4)
"""About 2^10 cells: the default for tallies by segment."""

CLUSTER_BUCKETS = 200
"""Number of hash buckets for clusters."""


class GroupedTally(Mapping[Any, Tally]):
    """Tallies by group, such as a segment, a day or a cluster; ``a + b`` merges them group by group.

    Parameters
    ----------
    tallies
        Mapping from the name of a group to its :class:`Tally`.
    columns
        Names of the columns of the groups, if known: one, or one for each place of a key that is a tuple.

    Examples
    --------
    >>> by = GroupedTally.from_arrays([0.2, 0.7, 0.9], [0, 1, 1], groups=["de", "fr", "de"], grid=None)
    >>> {key: tally.n.tolist() for key, tally in by.items()}
    {'de': [1, 1], 'fr': [1]}
    >>> GroupedTally(by, ["country"]).columns
    ('country',)
    """

    __slots__ = ("_tallies", "columns")

    def __init__(self, tallies: Mapping[Any, Tally], columns: Sequence[str] = ()) -> None:
        self._tallies: dict[Any, Tally] = dict(tallies)
        self.columns: tuple[str, ...] = tuple(columns)

    @classmethod
    def from_arrays(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        sample_weight: Column = None,
        *,
        groups: ArrayLike,
        weight_type: Literal["importance", "frequency"] = "importance",
        positive: Any = None,
        score_type: ScoreType | None = None,
        grid: Grid | None = SEGMENT_GRID,
    ) -> GroupedTally:
        """One tally per distinct value of ``groups``, on about 2^10 cells each.

        Parameters
        ----------
        scores, y, sample_weight, weight_type, positive, score_type
            As in :meth:`Tally.from_arrays`.
        groups
            The group of each row.
        grid
            Grid of the cells; None keeps every distinct score.
        """
        rows = check_rows(
            scores, y, sample_weight, weight_type=weight_type, groups=groups, positive=positive, score_type=score_type
        )
        return cls.from_rows(rows, grid)

    @classmethod
    def from_rows(cls, rows: Rows, grid: Grid | None = SEGMENT_GRID) -> GroupedTally:
        """One tally per distinct value of the groups of checked rows."""
        names, index = np.unique(cast(NDArray[Any], rows.groups), return_inverse=True)
        order = np.argsort(index, kind="stable")
        bounds = np.searchsorted(index[order], np.arange(len(names) + 1))
        return cls(
            {
                name: Tally.from_rows(_take(rows, order[bounds[j] : bounds[j + 1]]), grid)
                for j, name in enumerate(names.tolist())
            }
        )

    def __getitem__(self, key: Any) -> Tally:
        return self._tallies[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tallies)

    def __len__(self) -> int:
        return len(self._tallies)

    def __add__(self, other: GroupedTally) -> GroupedTally:
        """Groups of both; groups that are in both are merged."""
        if not isinstance(other, GroupedTally):
            return NotImplemented
        merged = dict(self._tallies)
        for key, tally in other.items():
            merged[key] = merged[key] + tally if key in merged else tally
        same = self.columns == other.columns or not other.columns
        return GroupedTally(merged, self.columns if same else () if self.columns else other.columns)

    def each(self, change: Callable[[Tally], Tally]) -> GroupedTally:
        """The same groups with every tally changed."""
        return GroupedTally({key: change(tally) for key, tally in self.items()}, self.columns)

    def keys_by_column(self) -> dict[str, list[Any]]:
        """For each column the part of every key that is its value, in the order of the groups."""
        parts = [key if len(self.columns) > 1 else (key,) for key in self]
        return {name: [part[place] for part in parts] for place, name in enumerate(self.columns)}

    def total(self) -> Tally:
        """Tally of all groups together."""
        parts = list(self._tallies.values())
        if not parts:
            raise InputError("tally", "has no groups", "add some rows first")
        return parts[0].merged(parts[1:]) if len(parts) > 1 else parts[0]

    def __repr__(self) -> str:
        return f"GroupedTally({len(self)} groups, {sum(tally.total for tally in self.values()):,} rows)"


def scores_of(tallies: Sequence[Tally]) -> Floats:
    """Scores of the cells of several tallies, one after the other, computed at once where they share a grid.

    Examples
    --------
    >>> parts = GroupedTally.from_arrays([0.2, 0.7, 0.9], [0, 1, 1], groups=["de", "fr", "de"])
    >>> scores_of(list(parts.values())).round(3).tolist()
    [0.2, 0.9, 0.7]
    """
    grid = tallies[0].grid if tallies else None
    if grid is None or any(each.grid != grid for each in tallies):
        return np.concatenate([np.zeros(0), *(each.scores for each in tallies)])
    cells = [each.cells for each in tallies]
    keys, n = (np.concatenate([getattr(part, name) for part in cells]) for name in ("keys", "n"))
    return grid.scores(keys, np.concatenate([cast(Counts, part.offset) for part in cells]) / n)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Counts by cluster and cell of a tally, one line for each combination or for each row.

    Attributes
    ----------
    tally
        All rows, without their clusters.
    cluster, cell
        Of each line: number of its cluster, from 0, and index of its score among the tally's cells.
    n, events
        Of each line: rows and events, or sums of their weights.
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
        """Counts of rows whose groups are the clusters."""
        tally = Tally.from_rows(replace(rows, groups=None, time=None), grid)
        names, code = np.unique(cast(NDArray[Any], rows.groups), return_inverse=True)
        keys = rows.scores if grid is None else grid.cells(rows.scores)[0]
        n = np.ones(len(code), dtype=np.int64) if rows.weights is None else rows.weights
        return cls(tally, code, np.searchsorted(tally.cells.keys, keys), n, n * rows.labels, len(names))

    @classmethod
    def of_buckets(cls, buckets: GroupedTally) -> Clusters:
        """Counts from tallies by cluster, or by hash bucket of clusters; all on one grid, or all exact."""
        tally, parts = buckets.total(), [part.cells for part in buckets.values()]
        code = np.repeat(np.arange(len(parts)), [len(part.n) for part in parts])
        cell = np.searchsorted(tally.cells.keys, np.concatenate([part.keys for part in parts]))
        n, events = (np.concatenate([getattr(part, name) for part in parts]) for name in ("n", "events"))
        return cls(tally, code, cell, n, events, len(parts))

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Whether each cluster is a single row of weight one; unknown under importance weights, and then False."""
        if not self.tally.counts:
            return np.zeros(self.size, dtype=bool)
        return np.asarray(np.bincount(self.cluster, self.n, self.size) == 1)

    def in_effective_rows(self) -> Clusters:
        """The same with importance weights rescaled to sum to the effective sample size."""
        if self.tally.counts:
            return self
        unit = self.tally.effective_size / float(self.tally.total)
        n, events = (np.asarray(column, dtype=np.float64) * unit for column in (self.n, self.events))
        return replace(self, tally=self.tally.scaled(unit), n=n, events=events)

    def sums(self, hit: Floats, miss: Floats) -> Floats:
        """Sum by cluster of ``hit`` over its events and ``miss`` over its non-events; one value of each per cell."""
        hits = self.events * hit[self.cell]
        added = hits + (self.n - self.events) * miss[self.cell]
        return np.bincount(self.cluster, added, self.size).astype(np.float64)

    def within(self, chosen: NDArray[np.bool_]) -> Clusters:
        """Only the lines of some cells; clusters without a row there are dropped."""
        kept = chosen[self.cell]
        there, code = np.unique(self.cluster[kept], return_inverse=True)
        return replace(
            self, cluster=code, cell=self.cell[kept], n=self.n[kept], events=self.events[kept], size=len(there)
        )


def cluster_buckets(ids: ArrayLike) -> Ints:
    """Bucket 0 to 199 of each cluster id: the first 8 hex digits of the md5 of its text, modulo 200.

    The same in every engine, so that tallies by bucket can replace the clusters in a bootstrap. Ids are integers or
    strings, since the text of a float differs between engines.

    Examples
    --------
    >>> cluster_buckets(["patient-1", "patient-2", "patient-1"]).tolist()
    [62, 89, 62]
    """
    check_ids(np.asarray(ids))
    names, index = np.unique(np.asarray(ids), return_inverse=True)
    digests = [hashlib.md5(str(name).encode(), usedforsecurity=False).hexdigest() for name in names.tolist()]
    return np.array([int(digest[:8], 16) % CLUSTER_BUCKETS for digest in digests], dtype=np.int64)[index]


def check_ids(ids: NDArray[Any]) -> None:
    """Refuse cluster ids whose text differs between engines."""
    if ids.dtype.kind not in "iuUO":
        raise InputError("groups", f"must be integers or strings, got {ids.dtype}", "convert them to text first")


def _take(rows: Rows, index: NDArray[np.intp]) -> Rows:
    weights = None if rows.weights is None else rows.weights[index]
    return replace(rows, scores=rows.scores[index], labels=rows.labels[index], weights=weights, groups=None, time=None)
