"""Quantiles of groups of trees by a walk up and a walk down the outcomes in a row's leaves, compiled by numba.

The walk up adds the weight of one outcome after another to the sums of all groups that hold its tree, until every sum
is above the lower level; the walk down subtracts them from the whole until none is above the upper one. So a row costs
about the outcomes in its tails times the groups, without the matrix of curves. Sums are in float64; they and those of
:class:`~calibrant.conformal.forests.leaves.LeafQuantiles` differ by less than its tolerance, so both find the
same outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

ENOUGH_PAIRS = 4_000_000
"""Smallest number of pairs of a row and a group for which compiling, about five seconds, saves time."""

ENOUGH_COMPILED = 10_000
"""Smallest number of pairs for which the compiled walk is taken once it is there."""


@cache
def compiled_walk() -> Callable[..., None] | None:
    """The walk, compiled now; None if ``calibrant[fast]`` is not installed."""
    try:
        from numba import njit
    except ImportError:
        return None
    walk: Callable[..., None] = walk_of(njit(nogil=True))
    index, one = np.zeros((1, 1), dtype=np.int64), np.ones((1, 1))
    walk(index, np.array([0, 1]), index[0], one[0], one[0], one, np.ones((2, 1)), np.empty((2, 1, 1)))
    return walk


def walk_for(pairs: int) -> Callable[..., None] | None:
    """The compiled walk where it saves time for this many pairs of a row and a group, else None."""
    compiled = compiled_walk.cache_info().currsize > 0
    return compiled_walk() if pairs >= (ENOUGH_COMPILED if compiled else ENOUGH_PAIRS) else None


def walk_of(jit: Callable[..., Any]) -> Callable[..., None]:
    """The walk by the functions that a decorator returns: numba's, or the identity for plain Python."""

    @jit
    def fill(target: Any, value: Any) -> None:
        for i in range(target.size):
            target[i] = value

    @jit
    def add(total: Any, weight: float, members: Any, tree: int) -> None:
        for g in range(total.size):
            total[g] += weight * members[tree, g]

    @jit
    def up_to(total: Any, lines: Any, passed: Any) -> int:
        held = 0
        for g in range(total.size):
            yes = 1 if total[g] <= lines[0, g] else 0
            passed[g] += yes
            held += yes
        return held

    @jit
    def above(total: Any, lines: Any, passed: Any) -> int:
        held = 0
        for g in range(total.size):
            yes = 1 if total[g] > lines[1, g] else 0
            passed[g] += yes
            held += yes
        return held

    @jit
    def in_order(leaves: Any, r: int, leaf_start: Any, place: Any, weight: Any, n: int) -> Any:
        """Outcomes in the leaves of row r in order: place, tree and weight of each, and the distinct places."""
        first = np.zeros(n + 1, dtype=np.int64)
        for j in range(leaves.shape[1]):
            for e in range(leaf_start[leaves[r, j]], leaf_start[leaves[r, j] + 1]):
                first[place[e] + 1] += 1
        for p in range(n):
            first[p + 1] += first[p]
        entries = first[n]
        places, trees = np.empty(entries, dtype=np.int64), np.empty(entries, dtype=np.int64)
        weights, columns = np.empty(entries), np.empty(entries, dtype=np.int64)
        for j in range(leaves.shape[1]):
            for e in range(leaf_start[leaves[r, j]], leaf_start[leaves[r, j] + 1]):
                at = first[place[e]]
                first[place[e]] += 1
                places[at] = place[e]
                trees[at] = j
                weights[at] = weight[e]
        last = 0
        for e in range(entries):
            if e == 0 or places[e] != places[e - 1]:
                columns[last] = places[e]
                last += 1
        return places, trees, weights, columns, last

    @jit
    def walk(
        leaves: Any, leaf_start: Any, place: Any, weight: Any, values: Any, members: Any, lines: Any, found: Any
    ) -> None:
        groups = members.shape[1]
        total, passed = np.empty(groups), np.empty(groups, dtype=np.int64)
        for r in range(leaves.shape[0]):
            places, trees, weights, columns, last = in_order(leaves, r, leaf_start, place, weight, values.size)
            fill(total, 0.0)
            fill(passed, 0)
            e = 0
            for c in range(last):
                while e < places.size and places[e] == columns[c]:
                    add(total, weights[e], members, trees[e])
                    e += 1
                if up_to(total, lines, passed) == 0:
                    break
            for g in range(groups):
                found[0, r, g] = values[columns[passed[g]]] if passed[g] < last else np.inf
            fill(total, 0.0)
            fill(passed, 0)
            for j in range(members.shape[0]):
                add(total, 1.0, members, j)
            e = places.size
            for c in range(last - 1, -1, -1):
                if above(total, lines, passed) == 0:
                    break
                while e > 0 and places[e - 1] == columns[c]:
                    e -= 1
                    add(total, -weights[e], members, trees[e])
            for g in range(groups):
                found[1, r, g] = values[columns[last - passed[g]]] if passed[g] > 0 else np.inf

    found_by: Callable[..., None] = walk
    return found_by
