r"""Decision trees on features: growth, cost-complexity pruning and cross-validation, for maps that differ by region.

Features are binned first, so that a split costs one pass over the rows of its node. Pruning minimizes RMSE +
:math:`\alpha |T|` (Torabian 2023, section 3.1.6), where :math:`|T|` is the number of nodes. Every tree that is best for
some :math:`\alpha` is among those that weakest-link pruning finds for the squared error (Breiman et al. 1984). Let the
best tree with k nodes have RMSE :math:`r_k`. If :math:`r_k + \alpha k \le r_j + \alpha j` for all j, then
:math:`r_j^2 \ge r_k^2 + 2 r_k (r_j - r_k) \ge r_k^2 + 2 r_k \alpha (k - j)`, so the same tree is best for the squared
error with the penalty :math:`2 r_k \alpha`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from calibrant.fits.trees.features import MISSING, Features, bin_sums
from calibrant.fits.trees.leaves import LeafModel, Means
from calibrant.maps import LARGEST, ClassAxis, ClassTreeMap, Map, MulticlassMap, TreeMap
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree of splits; children come after their parents.

    Attributes
    ----------
    feature
        Index of the feature that splits a node, -1 in a leaf.
    cut
        Index of the cut: rows up to it, or of this level, go left.
    left, right
        Children of a node, -1 in a leaf.
    missing_left
        Whether rows without a value go left.
    value
        Mean of the targets in a node, a line for each node.
    """

    feature: Ints
    cut: Ints
    left: Ints
    right: Ints
    missing_left: NDArray[np.bool_]
    value: Floats

    @property
    def leaves(self) -> Ints:
        """The nodes without children, from left to right."""
        return self.ends(self.left < 0)

    def route(self, features: Features) -> Ints:
        """The leaf of each row."""
        at = np.zeros(len(features.codes), dtype=np.int64)
        for node in range(len(self.feature)):
            if self.left[node] >= 0:
                rows = np.flatnonzero(at == node)
                left = self._goes_left(node, features.codes[rows, self.feature[node]], features)
                at[rows] = np.where(left, self.left[node], self.right[node])
        return at

    def _goes_left(self, node: int, codes: NDArray[np.uint8], features: Features) -> NDArray[np.bool_]:
        cut = self.cut[node]
        left = codes == cut if features.is_text(int(self.feature[node])) else codes <= cut
        return np.asarray(np.where(codes == MISSING, self.missing_left[node], left))

    def reached(self, features: Features) -> list[Ints]:
        """The rows that reach each node."""
        found: list[Ints] = [np.empty(0, dtype=np.int64)] * len(self.left)
        found[0] = np.arange(len(features.codes))
        for node in np.flatnonzero(self.left >= 0).tolist():
            rows = found[node]
            left = self._goes_left(node, features.codes[rows, self.feature[node]], features)
            found[int(self.left[node])], found[int(self.right[node])] = rows[left], rows[~left]
        return found

    def ends(self, leaf: NDArray[np.bool_]) -> Ints:
        """The marked nodes that no marked node is above: the leaves of the pruned tree."""
        found, waiting = [], [0]
        while waiting:
            node = waiting.pop()
            if leaf[node] or self.left[node] < 0:
                found.append(node)
            else:
                waiting += [int(self.right[node]), int(self.left[node])]
        return np.array(found)

    def cropped(self, leaf: NDArray[np.bool_]) -> Tree:
        """The tree that ends at the marked nodes, its nodes numbered anew breadth first."""
        order, place = [0], {0: 0}
        for node in order:
            if not leaf[node] and self.left[node] >= 0:
                for child in (int(self.left[node]), int(self.right[node])):
                    place[child] = len(order)
                    order.append(child)
        kept = np.array(order)
        ends = leaf[kept] | (self.left[kept] < 0)
        renumber = np.vectorize(lambda node: place.get(int(node), -1), otypes=[np.int64])
        return Tree(
            np.where(ends, -1, self.feature[kept]),
            np.where(ends, -1, self.cut[kept]),
            np.where(ends, -1, renumber(self.left[kept])),
            np.where(ends, -1, renumber(self.right[kept])),
            self.missing_left[kept] & ~ends,
            self.value[kept],
        )


@dataclass(frozen=True)
class Split:
    """The best split of a node: by how much it lowers the squared error, and which rows go left."""

    gain: float
    feature: int
    cut: int
    missing_left: bool


def grow(
    features: Features, targets: Floats, weights: Floats | None = None, *, min_rows: int, max_leaves: int
) -> tuple[Tree, list[Ints]]:
    """Grow a tree best first: the split that lowers the squared error of the targets most comes next.

    Parameters
    ----------
    features
        Features of the rows.
    targets
        Labels or residuals, one column for each class.
    weights
        Weights of the rows; None for equal ones.
    min_rows
        Rows that each leaf has at least.
    max_leaves
        Leaves at most.

    Returns
    -------
    tuple of Tree and list of arrays
        The tree, and the rows of each node.

    Examples
    --------
    >>> x = Features.of({"age": [30, 35, 50, 60, 70, 75]})
    >>> tree, rows = grow(x, np.array([[0.0], [0], [1], [1], [1], [1]]), min_rows=1, max_leaves=4)
    >>> tree.value.ravel().round(3).tolist(), [each.tolist() for each in rows[1:]]
    ([0.667, 0.0, 1.0], [[0, 1], [2, 3, 4, 5]])
    """
    w = np.ones(len(targets)) if weights is None else weights
    stats = np.column_stack([np.ones(len(targets)), w, w[:, None] * targets])
    rows = [np.arange(len(targets))]
    nodes: list[Split | None] = [None]
    children = [(-1, -1)]
    waiting: list[tuple[float, int, Split]] = []

    def consider(node: int) -> None:
        split = _best_split(features, stats, rows[node], min_rows)
        if split is not None:
            heapq.heappush(waiting, (-split.gain, node, split))

    consider(0)
    while waiting and 1 + sum(split is not None for split in nodes) < max_leaves:
        _, node, split = heapq.heappop(waiting)
        codes = features.codes[rows[node], split.feature]
        left = codes == split.cut if features.is_text(split.feature) else codes <= split.cut
        left = np.where(codes == MISSING, split.missing_left, left)
        nodes[node], children[node] = split, (len(nodes), len(nodes) + 1)
        for part in (left, ~left):
            nodes.append(None)
            children.append((-1, -1))
            rows.append(rows[node][part])
            consider(len(nodes) - 1)
    totals = np.array([stats[each].sum(axis=0) for each in rows])
    kids = np.array(children)
    return (
        Tree(
            np.array([-1 if split is None else split.feature for split in nodes]),
            np.array([-1 if split is None else split.cut for split in nodes]),
            kids[:, 0],
            kids[:, 1],
            np.array([split is not None and split.missing_left for split in nodes]),
            totals[:, 2:] / np.maximum(totals[:, 1:2], np.finfo(float).tiny),
        ),
        rows,
    )


def _best_split(features: Features, stats: Floats, rows: Ints, min_rows: int) -> Split | None:
    """The split of a node that lowers the squared error most; None if no split does."""
    total = stats[rows].sum(axis=0)
    if total[0] < 2 * min_rows:
        return None
    best: Split | None = None
    floor = 1e-12 * max(total[1], 1.0)
    for j in range(len(features.names)):
        codes = features.codes[rows, j]
        sums = bin_sums(codes, stats[rows], MISSING + 1)
        missing, sums = sums[MISSING], sums[:MISSING]
        left = sums if features.is_text(j) else np.cumsum(sums, axis=0)
        left = left[: len(features.cuts[j])]
        sides = (False, True) if missing[0] else (bool(left[:, 0].sum() > total[0]),)
        for goes_left in sides:
            gains = _gains(left + missing if goes_left else left, total, min_rows)
            if len(gains) and gains.max() > max(floor, best.gain if best else 0.0):
                cut = int(gains.argmax())
                if not missing[0]:  # rows without a value join the larger side
                    goes_left = bool(2.0 * left[cut, 0] >= total[0])
                best = Split(float(gains[cut]), j, cut, goes_left)
    return best


def _gains(left: Floats, total: Floats, min_rows: int) -> Floats:
    """How much each split lowers the squared error; -inf if a side has too few rows."""
    right = total - left
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = (left[:, 2:] ** 2).sum(axis=1) / left[:, 1] + (right[:, 2:] ** 2).sum(axis=1) / right[:, 1]
        gains = explained - (total[2:] ** 2).sum() / total[1]
    few = (left[:, 0] < min_rows) | (right[:, 0] < min_rows) | (left[:, 1] <= 0.0) | (right[:, 1] <= 0.0)
    return np.where(few, -np.inf, gains)


# -------------------------------------------------------------------------------------------------------------- Pruning


@dataclass(frozen=True, eq=False)
class Pruned:
    """One tree of the pruning path: which nodes are leaves, how many nodes it has, and its squared error."""

    leaf: NDArray[np.bool_]
    nodes: int
    error: float

    def penalized(self, alpha: float, rows: float) -> float:
        """RMSE + alpha |T|."""
        return float(np.sqrt(max(self.error, 0.0) / rows) + alpha * self.nodes)


def pruning_path(tree: Tree, costs: Floats) -> list[Pruned]:
    """The trees of weakest-link pruning, from the largest to the root alone.

    Parameters
    ----------
    tree
        The grown tree.
    costs
        Squared error of each node if it is a leaf.

    Returns
    -------
    list of Pruned
        A nested sequence of trees.
    """
    inner = np.flatnonzero(tree.left >= 0)
    leaf = tree.left < 0
    path = []
    while True:
        below, ends = _below(tree, costs, leaf)
        path.append(Pruned(leaf.copy(), int(2 * ends[0] - 1), float(below[0])))
        if leaf[0]:
            return path
        open_nodes = [node for node in inner if not leaf[node] and _reached(tree, leaf, int(node))]
        links = (costs[open_nodes] - below[open_nodes]) / (ends[open_nodes] - 1)
        weakest = links.min()
        for node in np.array(open_nodes)[links <= weakest + 1e-12 * abs(weakest)]:
            leaf[node] = True


def _below(tree: Tree, costs: Floats, leaf: NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """Squared error and number of leaves below each node."""
    error, ends = costs.astype(np.float64).copy(), np.ones(len(costs), dtype=np.int64)
    for node in range(len(costs) - 1, -1, -1):
        if not leaf[node] and tree.left[node] >= 0:
            kids = [tree.left[node], tree.right[node]]
            error[node], ends[node] = error[kids].sum(), ends[kids].sum()
    return error, ends


def _reached(tree: Tree, leaf: NDArray[np.bool_], node: int) -> bool:
    """Whether no ancestor of a node is a leaf."""
    parents = np.flatnonzero((tree.left == node) | (tree.right == node))
    return True if not len(parents) else not leaf[parents[0]] and _reached(tree, leaf, int(parents[0]))


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree chosen by cross-validation: the tree, its alpha, and the RMSE on held-out rows by alpha."""

    tree: Tree
    alpha: float
    alphas: Floats
    errors: Floats


def cross_validated(
    features: Features,
    targets: Floats,
    weights: Floats | None = None,
    *,
    folds: Sequence[tuple[Ints, Ints]],
    min_rows: int,
    max_leaves: int,
    alpha: float | None = None,
    model: LeafModel | None = None,
) -> Grown:
    """Grow a tree and prune it by RMSE + alpha |T|, with the alpha that has the least error on held-out rows.

    Parameters
    ----------
    features, targets, weights, min_rows, max_leaves
        As in :func:`grow`.
    folds
        Rows to fit and rows held out, fold by fold.
    alpha
        The penalty, if it is given; else it is chosen.
    model
        What a node predicts, which pruning and cross-validation judge; by default the mean of its targets.

    Returns
    -------
    Grown
        The pruned tree and how it was chosen.
    """
    model = Means(targets, weights) if model is None else model
    tree, rows = grow(features, targets, weights, min_rows=min_rows, max_leaves=max_leaves)
    path = pruning_path(tree, errors_of(model, node_fits(model, tree, rows), rows))
    size = float(len(targets) if weights is None else weights.sum())
    if alpha is not None:
        best = min(path, key=lambda each: each.penalized(alpha, size))
        return Grown(tree.cropped(best.leaf), alpha, np.array([alpha]), np.array([np.nan]))
    alphas = _alphas(path, size)
    totals, held_out = np.zeros(len(alphas)), 0.0
    for fitted, held in folds:
        w = None if weights is None else weights[fitted]
        part, parts = grow(features.take(fitted), targets[fitted], w, min_rows=min_rows, max_leaves=max_leaves)
        fits = node_fits(model, part, [fitted[each] for each in parts])
        trees = pruning_path(part, errors_of(model, fits, [fitted[each] for each in parts]))
        beside = errors_of(model, fits, [held[each] for each in part.reached(features.take(held))])
        mass = float(len(fitted) if w is None else w.sum())
        held_out += float(len(held) if weights is None else weights[held].sum())
        for k, each in enumerate(alphas):
            chosen = min(trees, key=lambda pruned: pruned.penalized(each, mass))
            totals[k] += float(beside[part.ends(chosen.leaf)].sum())
    place = int(np.flatnonzero(totals <= totals.min() * (1.0 + 1e-12))[-1])
    best = min(path, key=lambda each: each.penalized(float(alphas[place]), size))
    errors = np.sqrt(totals / held_out) if held_out > 0.0 else np.full(len(alphas), np.nan)
    return Grown(tree.cropped(best.leaf), float(alphas[place]), alphas, errors)


def node_fits(model: LeafModel, tree: Tree, rows: Sequence[Ints]) -> list[Any]:
    """What each node predicts, from the root on: the fit of a node may lean on that of its parent."""
    found: list[Any] = [None] * len(tree.left)
    found[0] = model.fit(rows[0], None)
    for node in np.flatnonzero(tree.left >= 0).tolist():
        for child in (int(tree.left[node]), int(tree.right[node])):
            found[child] = model.fit(rows[child], found[node])
    return found


def errors_of(model: LeafModel, fits: Sequence[Any], rows: Sequence[Ints]) -> Floats:
    """Squared error of each node on these rows."""
    return np.array([model.error(fit, each) for fit, each in zip(fits, rows, strict=True)])


@overload
def to_map(tree: Tree, features: Features, maps: Sequence[Map]) -> TreeMap: ...


@overload
def to_map(
    tree: Tree, features: Features, maps: Sequence[Map], classes: tuple[str, ...], on: ClassAxis
) -> ClassTreeMap: ...


def to_map(
    tree: Tree,
    features: Features,
    maps: Sequence[Map],
    classes: tuple[str, ...] = (),
    on: ClassAxis = "probability",
) -> TreeMap | ClassTreeMap:
    """The tree with a map in each leaf, in the order of the nodes.

    The feature without a name is the score; with classes, those that begin with a zero character are their scores.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> x = Features.of({"": [0.1, 0.2, 0.3, 0.4], "age": [30, 35, 60, 70]})
    >>> tree, _ = grow(x, np.array([[0.0], [1.0], [0.0], [1.0]]), min_rows=2, max_leaves=2)
    >>> to_map(tree, x, [StepMap([], [0.5])] * len(tree.leaves))
    TreeMap(1 leaf)
    """
    scores = {j: int(name[1:] or 0) for j, name in enumerate(features.names) if not name or name[0] == "\0"}
    used = sorted(j for j in dict.fromkeys(tree.feature[tree.feature >= 0].tolist()) if j not in scores)
    first = len(classes) or 1
    place = {j: k + first for k, j in enumerate(used)} | scores
    thresholds, levels = np.zeros(len(tree.left)), [""] * len(tree.left)
    for node in np.flatnonzero(tree.left >= 0).tolist():
        cut = features.cuts[int(tree.feature[node])][int(tree.cut[node])]
        if isinstance(cut, str):
            levels[node] = cut
        else:
            thresholds[node] = np.clip(cut, -LARGEST, LARGEST)
    split = np.array([-1 if j < 0 else place[j] for j in tree.feature.tolist()])
    names, text = tuple(features.names[j] for j in used), np.array([features.is_text(j) for j in used], dtype=bool)
    nodes = split, thresholds, tuple(levels), tree.left, tree.right, tree.missing_left & (split >= first)
    if classes:
        return ClassTreeMap(names, text, *nodes, cast(tuple[MulticlassMap, ...], tuple(maps)), classes, on)
    return TreeMap(names, text, *nodes, tuple(maps))


def _alphas(path: Sequence[Pruned], size: float) -> Floats:
    """One alpha for each tree that is best for some: geometric means of the neighboring alphas at which it changes."""
    found, place = [0.0], 0
    rmse = [each.penalized(0.0, size) for each in path]
    while place < len(path) - 1:
        drops = [(rmse[j] - rmse[place]) / (path[place].nodes - path[j].nodes) for j in range(place + 1, len(path))]
        step = int(np.flatnonzero(np.array(drops) <= min(drops))[-1])
        found.append(max(drops[step], found[-1]))
        place += step + 1
    ends = np.array([*found, 2.0 * found[-1] + 1e-12])
    return np.asarray(np.sqrt(np.maximum(ends[:-1], 1e-12) * np.maximum(ends[1:], 1e-12)))
