r"""Quantiles from the leaves of a forest, for all trees or for the trees that have not seen a row.

A row x falls into one leaf of each tree. The rows with which that tree was fitted, in the same leaf, have weights that
sum to one, by how often the tree has drawn them. The mean of these weights over trees is a distribution of outcomes
(Meinshausen 2006). Rows that a tree has not drawn are never in its leaves: otherwise the out-of-bag quantile of a row
would know the row's own outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from calibrant.conformal.forests.walk import walk_for
from calibrant.messages import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-9
"""Sums of weights are compared with this tolerance: they differ in their last digits by the order of summation."""

WINDOW = 0.1
"""Quantiles of groups are first searched where all trees together are within this of the level."""

FEW_GROUPS = 16
"""For fewer groups than this there is no first search."""

CELLS = 4_000_000
"""Old rows are scored in parts of this many pairs of a row and an outcome."""


def is_forest(model: Any) -> bool:
    """Whether leaves of this model can be read."""
    return isinstance(model, RandomForestRegressor | ExtraTreesRegressor)


def bag_counts(forest: Any, n: int) -> Floats:
    """How often each tree has drawn each row (trees x rows)."""
    if getattr(forest, "bootstrap", True) is False and is_forest(forest):
        return np.ones((len(forest.estimators_), n))
    return np.stack([np.bincount(drawn, minlength=n) for drawn in forest.estimators_samples_]).astype(np.float64)


class LeafDistribution:
    r"""Nested intervals between the quantiles of leaves of n rows: from level 1/2 - t to level 1/2 + t, t in [0, 1/2].

    The score of y is how far its rank is from the middle, :math:`\max(1/2 - F(y), F(y-) - 1/2, 0)`. Outside the
    outcomes in the leaves it is 1/2, and at t = 1/2 every value is in the set.
    """

    def __init__(self, leaves: LeafQuantiles, X: Any) -> None:
        self._leaves, self._rows = leaves, leaves.leaves(X)
        self._all = np.ones((1, leaves.first.size))

    def __len__(self) -> int:
        return len(self._rows)

    def score(self, y: Floats) -> Floats:
        """Score of each outcome."""
        pairs = zip(self._rows, y, strict=True)
        return np.array([self._leaves.rank_score(row, self._all[0], each) for row, each in pairs])

    def level(self, t: Floats) -> tuple[Floats, Floats]:
        """Ends of the sets at thresholds; see :class:`Nested`."""
        t = np.asarray(t, dtype=np.float64)
        shape = (len(self), *t.shape[1:]) if t.ndim else (len(self),)
        asked = np.broadcast_to(t, shape).reshape(len(self), -1)
        ends = [
            self._leaves.group_quantiles(row[None], np.repeat(self._all, each.size, axis=0), 0.5 - each, 0.5 + each)
            for row, each in zip(self._rows, np.minimum(asked, 0.5), strict=True)
        ]
        lower, upper = np.array([low for low, _ in ends]), np.array([high for _, high in ends])
        return lower.reshape(shape), upper.reshape(shape)


class LeafQuantiles:
    """The leaves of a fitted forest with the outcomes in them.

    Parameters
    ----------
    forest
        A fitted forest of scikit-learn.
    X, y
        The rows that it was fitted to, in the same order.

    Examples
    --------
    >>> X, y = np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0])
    >>> forest = RandomForestRegressor(5, bootstrap=False).fit(X, y)
    >>> LeafQuantiles(forest, X, y).quantiles(X[:1], (0.25, 0.75)).tolist()
    [[1.0], [3.0]]
    """

    def __init__(self, forest: Any, X: Any, y: Floats) -> None:
        if not is_forest(forest):
            raise InputError("model", f"is a {type(forest).__name__}", "pass a RandomForestRegressor")
        self.forest = forest
        self.counts = bag_counts(forest, y.size)
        self.order = np.argsort(y, kind="stable")
        self.values = y[self.order]
        place = np.empty(y.size, dtype=np.int64)
        place[self.order] = np.arange(y.size)
        nodes = np.array([tree.tree_.node_count for tree in forest.estimators_])
        self.first = np.concatenate([[0], np.cumsum(nodes)])[:-1]
        self.own_leaves: Ints = forest.apply(X) + self.first
        tree, row = np.nonzero(self.counts)
        leaf = self.own_leaves[row, tree]
        total = np.bincount(leaf, self.counts[tree, row], minlength=int(nodes.sum()))
        order = np.lexsort((place[row], leaf))
        self.leaf_start = np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=int(nodes.sum())))])
        self.place = place[row][order]
        self.weight = (self.counts[tree, row] / total[leaf])[order]

    def leaves(self, X: Any) -> Ints:
        """The leaf of each new row in each tree."""
        found: Ints = self.forest.apply(X) + self.first
        return found

    def curves(self, leaves: Ints) -> tuple[Ints, Floats]:
        """Of one row: places of the outcomes in its leaves, and the distribution function of each tree at them."""
        tree, entry = self._entries(leaves)
        places, at = np.unique(self.place[entry], return_inverse=True)
        weight = np.zeros((leaves.size, places.size))
        weight[tree, at] = self.weight[entry]
        return places, np.cumsum(weight, axis=1)

    def _entries(self, leaves: Ints) -> tuple[Ints, Ints]:
        """All outcomes in some leaves: which leaf of the list, and the entry in ``place`` and ``weight``."""
        start, size = self.leaf_start[leaves], self.leaf_start[leaves + 1] - self.leaf_start[leaves]
        entry = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        return np.repeat(np.arange(leaves.size), size), entry

    def own_curves(self, groups: Floats) -> Iterator[tuple[slice, Floats]]:
        """Of each old row: the sum of the distribution functions of its own group of trees, at all outcomes in order.

        Parameters
        ----------
        groups
            Old rows x trees, 1 where a tree belongs to the group of a row.

        Yields
        ------
        tuple
            A slice of the rows, and a line for each of them.
        """
        n, trees = groups.shape
        step = max(1, CELLS // n)
        for rows in (slice(first, min(first + step, n)) for first in range(0, n, step)):
            at, entry = self._entries(self.own_leaves[rows].ravel())
            weight = self.weight[entry] * groups[rows].ravel()[at]
            cell = at // trees * n + self.place[entry]
            jumps = np.bincount(cell, weight, minlength=(rows.stop - rows.start) * n)
            yield rows, np.cumsum(jumps.reshape(-1, n), axis=1)

    def own_quantiles(self, groups: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Two quantiles of each old row by its own group of trees; see :meth:`group_quantiles`."""
        size, values = groups.sum(axis=1), np.append(self.values, np.inf)
        found = np.empty((2, size.size))
        for rows, curves in self.own_curves(groups):
            for end, level in zip(found, (low - TOLERANCE, high + TOLERANCE), strict=True):
                end[rows] = values[(curves <= (level * size[rows])[:, None]).sum(axis=1)]
        found[0, (size == 0.0) | (low <= TOLERANCE)] = -np.inf
        found[1, size == 0.0] = np.inf
        return found[0], found[1]

    def own_rank_scores(self, groups: Floats, y: Floats) -> Floats:
        """How far the rank of the outcome of each old row is from the middle, by its own group of trees."""
        size, found = groups.sum(axis=1), np.full(y.size, np.inf)
        ends = np.stack([np.searchsorted(self.values, y, side) for side in ("left", "right")], axis=1)
        for rows, curves in self.own_curves(groups):
            sums = np.take_along_axis(np.pad(curves, ((0, 0), (1, 0))), ends[rows], axis=1)
            some = size[rows] > 0.0
            below, upto = (sums[some] / size[rows][some, None]).T
            found[rows][some] = np.maximum(np.maximum(0.5 - upto, below - 0.5), 0.0)
        return found

    def quantiles(self, X: Any, levels: tuple[float, ...]) -> Floats:
        """Quantiles by all trees: the smallest outcome at which the distribution function reaches the level.

        Returns one line for each level, with a number for each row.
        """
        found = []
        for leaves in self.leaves(X):
            places, curves = self.curves(leaves)
            mean = curves.mean(axis=0)
            at = np.searchsorted(mean, np.asarray(levels) - TOLERANCE, side="left")
            found.append(self.values[places[np.minimum(at, places.size - 1)]])
        return np.asarray(found).reshape(-1, len(levels)).T

    def rank_score(self, leaves: Ints, group: Floats, y: float) -> float:
        """How far the rank of y is from the middle, by the trees of a group."""
        if not group.any():
            return np.inf
        places, curves = self.curves(leaves)
        curve = np.concatenate([[0.0], group @ curves / group.sum()])
        values = self.values[places]
        upto, below = curve[np.searchsorted(values, y, "right")], curve[np.searchsorted(values, y, "left")]
        return float(max(0.5 - upto, below - 0.5, 0.0))

    def group_quantiles(self, leaves: Ints, groups: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Quantiles by several groups of trees, each at its own two levels.

        Parameters
        ----------
        leaves
            The leaf of each row in each tree.
        groups
            Groups x trees, 1 where a tree belongs to a group. An empty group has infinite quantiles.
        low, high
            Levels of each group. The lower quantile is the smallest outcome at which the distribution function is at
            least the level; the upper one the smallest at which it is above it, so that the interval is closed.

        Returns
        -------
        tuple of arrays
            Lower and upper quantile: rows x groups.
        """
        # "at least" and "above" differ by the sign of the tolerance
        levels = np.stack([low - TOLERANCE, high + TOLERANCE])
        found = np.empty((2, len(leaves), len(groups)))
        if (walk := walk_for(found[0].size)) is not None:
            of_leaves = self.leaf_start, self.place, self.weight, self.values
            # scikit-learn gives leaves by columns; numba would compile once more for them
            rows = np.ascontiguousarray(leaves)
            walk(rows, *of_leaves, groups.T.copy(), levels * groups.sum(axis=1), found)
        else:
            first_above = _FirstAbove(groups, levels)
            for at, row in enumerate(leaves):
                places, curves = self.curves(row)
                found[:, at] = np.append(self.values[places], np.inf)[first_above(curves)]
        none = ~groups.any(axis=1)
        found[0][:, (low <= TOLERANCE) | none] = -np.inf
        found[1][:, none] = np.inf
        return found[0], found[1]


class _FirstAbove:
    """The first column at which the sum of a group's curves is above a level; the number of columns if at none.

    Sums in float32 around the level of all trees decide for nearly all groups. Those that are within the rounding of a
    level, or outside these columns, are decided by sums in float64: the result is that of float64 for all.

    Parameters
    ----------
    groups
        Groups x trees, 1 where a tree belongs to a group.
    levels
        Lines of levels, with one level of the mean curve for each group.
    """

    def __init__(self, groups: Floats, levels: Floats) -> None:
        trees, size = groups.shape[1], groups.sum(axis=1)
        self.groups, self.lines = groups, levels * size
        self.spans = np.stack([levels.min(axis=1) - WINDOW, levels.max(axis=1) + WINDOW], axis=1)
        # a sum of at most ``size`` in float32, and the line itself, are off by less than half of this
        doubt = (trees + 4.0) * 2.0**-23 * size
        self.near = groups.T.astype(np.float32, order="C")
        self.under, self.over = ((self.lines + sign * doubt).astype(np.float32) for sign in (-1.0, 1.0))

    def __call__(self, curves: Floats) -> Ints:
        """For each line of levels and each group."""
        columns = curves.shape[1]
        found = np.zeros(self.lines.shape, dtype=np.int64)
        open_ = np.ones(self.lines.shape, dtype=bool)
        if len(self.groups) >= FEW_GROUPS:
            mean = curves.mean(axis=0)
            starts, stops = (np.searchsorted(mean, ends) for ends in self.spans.T)
            parts = [curves[:, start:stop] for start, stop in zip(starts, stops, strict=True)]
            sums = np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind").T @ self.near
            first = 0
            for at, (start, stop) in enumerate(zip(starts, stops, strict=True)):
                part = sums[first : first + stop - start]
                least, most = _count(part <= self.under[at]), _count(part <= self.over[at])
                open_[at] = (least != most) | ((least == 0) & (start > 0)) | ((most == stop - start) & (stop < columns))
                found[at] = start + least
                first += stop - start
        for at, each in enumerate(open_):
            if (group := np.flatnonzero(each)).size:
                found[at, group] = (self.groups[group] @ curves <= self.lines[at, group, None]).sum(axis=1)
        return found


def _count(inside: NDArray[np.bool_]) -> NDArray[Any]:
    """How many of each column are true; in the smallest integers, which is several times as fast."""
    kind = np.uint8 if len(inside) < 256 else np.int64
    found: NDArray[Any] = np.add.reduce(inside.view(np.uint8), axis=0, dtype=kind)
    return found
