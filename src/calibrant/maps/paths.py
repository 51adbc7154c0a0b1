"""Probabilities along the path from a predicted leaf of a taxonomy to its root."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.maps.base import Columns, freeze, register
from calibrant.maps.classes import ClassAxis, MulticlassMap, blocks, softmax
from calibrant.maps.taxonomy import Taxonomy
from calibrant.messages import InputError, Shown
from calibrant.numerics import Floats, Ints, to_float32


@dataclass(frozen=True, eq=False)
class PathForecast(Shown):
    """Probabilities of the predicted leaf and of its ancestors, for each row; none for any other node.

    Attributes
    ----------
    taxonomy : Taxonomy
        The tree.
    leaves : ndarray of shape (n,)
        Code of the predicted leaf among ``taxonomy.nodes``; -1 for a row without scores.
    nodes : ndarray of shape (n, depth)
        Codes along the path, the broadest node first; -1 after the end of a shorter path.
    probabilities : ndarray of shape (n, depth)
        Probability that the row belongs to the node, non-increasing along the path; NaN where there is no node.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> found = PathForecast(tree, np.array([2, 1]), np.array([[0, 2], [1, -1]]), np.array([[0.9, 0.6], [0.8, np.nan]]))
    >>> print(found)
    cat: animal 0.900, cat 0.600
    ship: ship 0.800
    >>> found.narrowest(0.85)
    array(['animal', 'root'], dtype='<U6')
    """

    taxonomy: Taxonomy
    leaves: NDArray[np.intp]
    nodes: NDArray[np.intp]
    probabilities: Floats

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.leaves)

    @property
    def leaf_names(self) -> NDArray[Any]:
        """The predicted leaf of each row; the root if a row has no scores."""
        return self._names(self.leaves)

    def probability(self, node: Any) -> Floats:
        """Probability that each row belongs to ``node``; NaN if it is not on the path, 1 for the root."""
        code = self.taxonomy.code(node)
        if code < 0:
            return np.where(self.leaves < 0, np.nan, 1.0)
        level = int(self.taxonomy.depths[code]) - 1
        return np.where(self.nodes[:, level] == code, self.probabilities[:, level], np.nan)

    def narrowest(self, least: float) -> NDArray[Any]:
        """Name of the narrowest node whose probability is at least ``least``; the root if there is none.

        Probabilities never increase along a path, so each row gets the most specific node with this probability.
        """
        if not 0.0 <= least <= 1.0:
            raise InputError("least", f"must lie between 0 and 1, got {least}")
        sure = (self.probabilities >= least).sum(axis=1)  # NaN is not
        codes = np.where(sure > 0, np.take_along_axis(self.nodes, np.maximum(sure - 1, 0)[:, None], axis=1)[:, 0], -1)
        return self._names(codes)

    def _names(self, codes: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.array([*self.taxonomy.nodes, self.taxonomy.root])[codes])

    def __str__(self) -> str:
        """The first rows, one per line."""
        return "\n".join([*(f"{leaf}: {path}" for leaf, path in self._rows()), *self._more()])

    def _repr_html_(self) -> str:
        """For notebooks: the first rows as a table."""
        from calibrant.notebook import table_block

        head = ("predicted leaf", "probabilities along its path")
        return table_block(head, self._rows(), notes=self._more(), left=(0, 1))

    def _rows(self) -> list[tuple[str, str]]:
        """Leaf and path of the first ten rows, as text."""
        shown = []
        for leaf, nodes, values in zip(self.leaf_names[:10], self.nodes, self.probabilities, strict=False):
            there = nodes >= 0
            pairs = zip(self._names(nodes[there]), values[there], strict=True)
            shown.append((str(leaf), ", ".join(f"{name} {value:.3f}" for name, value in pairs)))
        return shown

    def _more(self) -> list[str]:
        return [f"... {len(self) - 10:,} more rows"] if len(self) > 10 else []


@register
@dataclass(frozen=True, eq=False, repr=False)
class PathMap(MulticlassMap):
    r"""A probability for the predicted leaf and for each of its ancestors; none for other nodes.

    .. math:: h_v(s) = \hat\pi_{v, b, l} \quad\text{for } v \in a(l),\qquad
              l = \arg\max_k s_k,\quad b = \text{bin of } s \text{ within } l

    (Gupta 2022, eq. 4.5). The predicted leaf is the one with the largest score, of tied scores the earlier column. Its
    bins are defined by a list of cuts, each on the score of a node of the path, which is the sum of the scores of the
    leaves beneath it: a row is in the bin of the first cut above its score, else in the last bin.

    Parameters
    ----------
    classes
        The leaves, in the order of the input columns.
    nodes, parents, root
        The taxonomy: all nodes except the root, the code of each node's parent (-1 for the root), the root's name.
    groups
        Number of the list of cuts of each class; pooled leaves share one and have the same depth.
    sizes
        Number of cuts in each list; a list of m cuts has m + 1 bins.
    levels, cuts
        List by list, cut by cut: level on the path of the node whose score is cut (0 is the broadest), and the cut.
    rates
        List by list, bin by bin: the probability of each node of the path, the broadest first; non-increasing.
    on
        Type of the scores: probabilities or logits.

    Notes
    -----
    Edge cases: :meth:`apply` returns a column for each of ``nodes``, with NaN for nodes without a probability;
    :meth:`forecast` returns the path alone. A row with a missing score has no probabilities. Scores are summed from
    left to right.
    Guarantee: see :class:`calibrant.multiclass.PathCalibrator`.
    Cost: O(rows x classes x levels that are cut).

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "cat": "animal", "dog": "animal", "ship": None})
    >>> lists = dict(groups=[0, 1, 2], sizes=[1, 0, 0], levels=[1], cuts=[0.6])
    >>> path = PathMap(tree.leaves, tree.nodes, tree.parents, tree.root, **lists,
    ...                rates=[0.8, 0.5, 0.9, 0.7, 0.6, 0.4, 0.95], on="probability")
    >>> path.apply([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]).tolist()
    [[0.8, 0.5, nan, nan], [nan, nan, nan, 0.95]]
    >>> print(path.forecast([[0.7, 0.2, 0.1]]))
    cat: animal 0.900, cat 0.700
    """

    classes: tuple[str, ...]
    nodes: tuple[str, ...]
    parents: Ints
    root: str
    groups: Ints
    sizes: Ints
    levels: Ints
    cuts: Floats
    rates: Floats
    on: ClassAxis

    kind: ClassVar[str] = "path"

    def __post_init__(self) -> None:
        """Check the tree, the lists and the numbers."""
        self._check_classes()
        freeze(self, "nodes", tuple(self.nodes))
        for name, dtype in {**dict.fromkeys(("parents", "groups", "sizes", "levels"), np.int64), **_FLOATS}.items():
            freeze(self, name, _column(getattr(self, name), dtype, name))
        _check_tree(self.nodes, self.parents)
        if set(self.classes) != set(self.taxonomy.leaves) or self.taxonomy.nodes != self.nodes:
            raise ValueError("the classes must be the leaves of the taxonomy")
        self._check_lists()
        self._check_rates()

    @cached_property
    def taxonomy(self) -> Taxonomy:
        """The tree."""
        above = [self.root if up < 0 else self.nodes[up] for up in self.parents.tolist()]
        return Taxonomy(dict(zip(self.nodes, above, strict=True)), self.root)

    @property
    def outputs(self) -> tuple[str, ...]:
        """All nodes except the root."""
        return self.nodes

    @cached_property
    def leaf_codes(self) -> NDArray[np.intp]:
        """Code of each class among the nodes."""
        return np.array([self.taxonomy.code(name) for name in self.classes], dtype=np.intp)

    @cached_property
    def list_depths(self) -> Ints:
        """Depth of the paths of each list."""
        out = np.zeros(len(self.sizes), dtype=np.int64)
        out[self.groups] = self.taxonomy.depths[self.leaf_codes]
        return out

    @cached_property
    def first_bins(self) -> Ints:
        """Index of the first bin of each list, and the total number of bins."""
        return np.append(0, np.cumsum(self.sizes + 1))

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """Whether each bin, among those of all lists, belongs to two leaves or more."""
        return np.repeat(np.bincount(self.groups) > 1, self.sizes + 1)

    @cached_property
    def bin_rates(self) -> Floats:
        """Probabilities by bin, one row each, NaN after the end of a path."""
        depths = np.repeat(self.list_depths, self.sizes + 1)
        out = np.full((len(depths), self.taxonomy.depth), np.nan)
        out[np.arange(self.taxonomy.depth) < depths[:, None]] = self.rates
        return out

    def labels(self, scores: ArrayLike) -> NDArray[np.intp]:
        """Column of the predicted leaf of each row, as a matrix of one column."""
        given = self._matrix(scores)
        out = np.empty((len(given), 1), dtype=np.intp)
        for part in blocks(given):
            out[part, 0] = given[part].argmax(axis=1)
        return out

    def bins(self, scores: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Predicted class and bin, among those of all lists, of each row; -1 and -1 if a score is missing."""
        given = self._matrix(scores)
        top, values = path_scores(self.taxonomy.paths[self.leaf_codes], given, np.unique(self.levels), self.on)
        found = np.full(len(given), -1, dtype=np.intp)
        order = np.argsort(top, kind="stable")
        ends = np.searchsorted(top[order], np.arange(len(self.classes) + 1))
        firsts = np.append(0, np.cumsum(self.sizes))
        for j, group in enumerate(self.groups.tolist()):
            rows, part = order[ends[j] : ends[j + 1]], slice(firsts[group], firsts[group + 1])
            found[rows] = self.first_bins[group] + first_above(values[rows], self.levels[part], self.cuts[part])
        return top, found

    def forecast(self, scores: ArrayLike) -> PathForecast:
        """Probabilities along the path of the predicted leaf, for each row."""
        top, found = self.bins(scores)
        leaves = np.append(self.leaf_codes, -1)[top]
        table = np.concatenate([self.bin_rates, np.full((1, self.taxonomy.depth), np.nan)])
        return PathForecast(self.taxonomy, leaves, self.taxonomy.paths[leaves], table[found])

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities by node, NaN for nodes without a probability; float32 in gives float32 out."""
        found = self.forecast(scores)
        single = np.asarray(scores).dtype == np.float32
        values = to_float32(found.probabilities) if single else found.probabilities
        return scattered(found.nodes, values, len(self.nodes))

    def _check_lists(self) -> None:
        if len(self.groups) != len(self.classes) or len(self.sizes) == 0 or (self.sizes < 0).any():
            raise ValueError("each class needs a list of cuts, and the length of a list must not be negative")
        if not np.array_equal(np.unique(self.groups), np.arange(len(self.sizes))):
            raise ValueError("every list of cuts needs a class, and every class an existing list")
        if (self.list_depths[self.groups] != self.taxonomy.depths[self.leaf_codes]).any():
            raise ValueError("leaves that share a list must have the same depth")
        if len(self.levels) != self.sizes.sum() or len(self.cuts) != len(self.levels):
            raise ValueError(f"{self.sizes.sum()} levels and cuts are needed")
        if (self.levels < 0).any() or (self.levels >= np.repeat(self.list_depths, self.sizes)).any():
            raise ValueError("a level must lie on the path")

    def _check_rates(self) -> None:
        if len(self.rates) != ((self.sizes + 1) * self.list_depths).sum():
            raise ValueError("each bin needs a rate for every node of its path")
        if not ((self.rates >= 0.0) & (self.rates <= 1.0)).all():
            raise ValueError("rates must lie in [0, 1]")
        if (self.bin_rates[:, 1:] > self.bin_rates[:, :-1]).any():
            raise ValueError("rates must not increase along a path")

    def __repr__(self) -> str:
        """Its size."""
        bins, lists = int(self.first_bins[-1]), len(self.sizes)
        shared = "" if lists == len(self.classes) else f" in {lists} lists"
        return f"PathMap({len(self.classes)} leaves, {len(self.nodes)} nodes, {bins} bins{shared}, on {self.on})"


_FLOATS: dict[str, Any] = {"cuts": np.float64, "rates": np.float64}


def path_scores(
    paths: NDArray[Any], scores: NDArray[Any], levels: NDArray[Any], on: ClassAxis
) -> tuple[NDArray[np.intp], Floats]:
    """Predicted class of each row, -1 if a score is missing, and the scores of the nodes of its path at ``levels``.

    ``paths`` has a row of node codes for each class. Other levels are 0.
    """
    top, values = np.empty(len(scores), dtype=np.intp), np.zeros((len(scores), paths.shape[1]))
    asked = [(level, _columns_beneath(paths[:, level])) for level in np.asarray(levels).tolist()]
    for part in blocks(scores):
        s = scores[part].astype(np.float64, copy=False)
        best, columns = s.argmax(axis=1), np.ascontiguousarray((softmax(s) if on == "logit" else s).T)
        for level, beneath in asked:
            node = paths[best, level]
            for code in np.unique(node[node >= 0]).tolist():
                rows = np.flatnonzero(node == code)
                values[part.start + rows, level] = _sum_of_rows(columns, beneath[code], rows)
        best[np.isnan(s).any(axis=1)] = -1
        top[part] = best
    return top, values


def scattered(nodes: NDArray[Any], values: NDArray[Any], width: int) -> NDArray[Any]:
    """Values along paths as a matrix of ``width`` columns, NaN elsewhere."""
    out = np.full((len(nodes), width + 1), np.nan, dtype=values.dtype)  # values without a node go to an extra column
    np.put_along_axis(out, np.where(nodes < 0, width, nodes), values, axis=1)
    return np.ascontiguousarray(out[:, :width])


def _columns_beneath(nodes: NDArray[Any]) -> dict[int, list[int]]:
    """The columns whose path goes through each node, in order."""
    out: dict[int, list[int]] = {}
    for column, code in enumerate(nodes.tolist()):
        out.setdefault(code, []).append(column)
    return out


def _sum_of_rows(columns: Floats, chosen: list[int], rows: NDArray[Any]) -> Floats:
    """Sum of some columns in a fixed order, so that rounding is reproducible."""
    total = columns[chosen[0], rows]
    for column in chosen[1:]:
        total = total + columns[column, rows]
    return np.asarray(total)


def first_above(values: Floats, levels: Ints, cuts: Floats) -> NDArray[np.intp]:
    """Index of the first cut above the score of its level; the number of cuts if there is none."""
    if len(levels) and (levels == levels[0]).all() and (cuts[1:] >= cuts[:-1]).all():
        return np.searchsorted(cuts, values[:, levels[0]], side="right")
    out = np.full(len(values), len(cuts), dtype=np.intp)
    for place in range(len(cuts) - 1, -1, -1):
        out[values[:, levels[place]] < cuts[place]] = place
    return out


def _column(values: Any, dtype: Any, name: str) -> NDArray[Any]:
    a = np.array(values, dtype=dtype).reshape(-1)
    if not np.isfinite(a).all():
        raise ValueError(f"{name} must be finite")
    a.setflags(write=False)
    return a


def _check_tree(nodes: tuple[str, ...], parents: Ints) -> None:
    if len(parents) != len(nodes) or len(set(nodes)) != len(nodes):
        raise ValueError("every node needs one parent, and names must be distinct")
    if (parents < -1).any() or (parents >= len(nodes)).any():
        raise ValueError("a parent must be a node, or -1 for the root")
