"""Tallies side by side: by segment, by day, by cluster bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Kind, Rows, check_rows
from calibrant.messages import InputError
from calibrant.numerics import Grid, Ints
from calibrant.tallies.tally import Tally

SEGMENT_GRID = Grid(bits=4)
"""About 2^10 cells: the default when many segments are tallied side by side."""

CLUSTER_BUCKETS = 200


class GroupedTally(Mapping[Any, Tally]):
    """Tallies by segment, day or cluster bucket; ``a + b`` merges group by group.

    Examples
    --------
    >>> by = GroupedTally.from_arrays([0.2, 0.7, 0.9], [0, 1, 1], groups=["de", "fr", "de"], grid=None)
    >>> {key: tally.n.tolist() for key, tally in by.items()}
    {'de': [1, 1], 'fr': [1]}
    """

    __slots__ = ("_tallies",)

    def __init__(self, tallies: Mapping[Any, Tally]) -> None:
        self._tallies: dict[Any, Tally] = dict(tallies)

    @classmethod
    def from_arrays(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike,
        weights: Literal["importance", "counts"] = "importance",
        positive: Any = None,
        kind: Kind | None = None,
        grid: Grid | None = SEGMENT_GRID,
    ) -> GroupedTally:
        """One tally per distinct value of ``groups``, on about 2^10 cells each; ``grid=None`` keeps them exact."""
        rows = check_rows(scores, y, sample_weight, weights=weights, groups=groups, positive=positive, kind=kind)
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
        """Tally of one group."""
        return self._tallies[key]

    def __iter__(self) -> Iterator[Any]:
        """Group keys."""
        return iter(self._tallies)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._tallies)

    def __add__(self, other: GroupedTally) -> GroupedTally:
        """Groups of both, merged where they meet."""
        if not isinstance(other, GroupedTally):
            return NotImplemented
        merged = dict(self._tallies)
        for key, tally in other.items():
            merged[key] = merged[key] + tally if key in merged else tally
        return GroupedTally(merged)

    def total(self) -> Tally:
        """Tally of all groups together."""
        parts = iter(self._tallies.values())
        first = next(parts, None)
        if first is None:
            raise InputError("tally", "has no group to add up", "count some rows first")
        return reduce(Tally.__add__, parts, first)

    def __repr__(self) -> str:
        """Number of groups and rows."""
        return f"GroupedTally({len(self)} groups, {sum(tally.total for tally in self.values()):,} rows)"


def cluster_buckets(ids: ArrayLike) -> Ints:
    """Bucket 0 to 199 of each cluster id: the first 8 hex digits of the md5 of its text, modulo 200.

    The same in every engine, so that a tally by bucket can stand in for the clusters in a bootstrap. Ids are integers
    or strings: the text of a float differs from engine to engine.

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
    """Refuse cluster ids whose text differs from engine to engine."""
    if ids.dtype.kind not in "iuUO":
        raise InputError("groups", f"must be integers or strings, got {ids.dtype}", "convert them to text first")


def _take(rows: Rows, index: NDArray[np.intp]) -> Rows:
    weights = None if rows.weights is None else rows.weights[index]
    return replace(rows, scores=rows.scores[index], labels=rows.labels[index], weights=weights, groups=None, time=None)
