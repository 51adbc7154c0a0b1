"""Regions of rows as bins of a calibration error: leaves of a tree, segments, or any other partition of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, check_whole, read_column, read_floats
from calibrant.arrays.keys import read_keys
from calibrant.maps import TreeMap
from calibrant.messages import Advice, InputError, listed
from calibrant.numerics import Column, Ints

Regions = Column
"""Region of each row: text or integers, such as the leaf ids of a tree; None for bins of the score."""


def region_codes(regions: Any, y: Any, sample_weight: Column = None) -> NDArray[np.intp]:
    """Regions as integers from 0, of the rows with a weight above 0.

    Parameters
    ----------
    regions
        Region of each row.
    y
        Labels of the rows, those of weight 0 included.
    sample_weight
        Weights of the rows, if there are any.

    Examples
    --------
    >>> region_codes(["old", "young", "old"], [0, 1, 1], [1.0, 1.0, 0.0]).tolist()
    [0, 1]
    """
    if isinstance(regions, str):
        raise InputError("regions", "is one text", "pass the region of each row as an array")
    codes = read_keys(regions, "regions").codes
    if codes.ndim != 1:
        raise InputError("regions", f"has shape {codes.shape}", "pass one region for each row")
    check_length(codes, "regions", len(read_column(y, "y")))
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        problem = f"has a missing value, the first at row {row} counted from 0"
        raise InputError("regions", problem, "drop these rows or give them a region of their own")
    if sample_weight is not None:
        codes = codes[np.asarray(read_column(sample_weight, "sample_weight"), dtype=np.float64) != 0.0]
    return np.asarray(np.unique(codes, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def tree_regions(tree: Any, X: Any, *, scores: Any = None, n_bins: int | None = None) -> Ints:
    r"""Regions of rows from a fitted tree: its leaves, or the leaves of its upper part (BFSL bins).

    With ``n_bins`` the tree is cut breadth first: beginning at the root, nodes are split in the order of their depth
    until there are as many leaves, and every row belongs to the one above its own leaf. The upper part stays a set of
    rules that people can read, with more rows in each region.

    Parameters
    ----------
    tree
        A fitted ``CalibrationTree`` or ``ProbabilityCalibrationTree``, its map, or a tree with ``apply(X)``, which
        returns the leaf of each row, as those of scikit-learn have it. With ``n_bins`` also with its children by node,
        as ``tree_.children_left`` and ``tree_.children_right``, or ``left`` and ``right``, below 0 in a leaf.
    X
        Features of the rows, as the tree takes them.
    scores : array-like, optional
        Scores of the rows before calibration, which calibration trees take as well.
    n_bins : int, optional
        Number of regions; all leaves by default, and if the tree has no more leaves.

    Returns
    -------
    ndarray of int
        The node of each row, to be passed as ``regions=`` to :func:`ece`, :func:`debiased_ece` and :func:`pde`.

    Notes
    -----
    Guarantee: none is needed for the regions themselves, which are exact; an error with these bins has no finite-sample
    guarantee. Regions must be chosen on other rows than those that are judged: a tree that was grown on the judged rows
    has seen their labels.
    Cost: one pass over the rows, one over the nodes. Reference: Torabian (2023), section 3.4.3.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 1, 0, 0, 0, 1])
    >>> tree = DecisionTreeClassifier(max_leaf_nodes=4, random_state=0).fit(X, y)
    >>> tree_regions(tree, X).tolist(), tree_regions(tree, X, n_bins=2).tolist()
    ([5, 5, 6, 6, 4, 4, 4, 2], [1, 1, 1, 1, 1, 1, 1, 2])
    """
    mapped = _mapped(tree)
    if not isinstance(mapped, TreeMap) and isinstance(_mapped(X), TreeMap):
        raise InputError("tree", "and X are the wrong way round", "pass tree_regions(tree, X)")
    if hasattr(tree, "fit_tally") and not hasattr(tree, "map_"):  # a calibrator
        raise InputError("tree", "is not fitted", "call fit first")
    leaves = _of_map(mapped, X, scores) if isinstance(mapped, TreeMap) else _applied(tree, X)
    if n_bins is None:
        return leaves
    check_whole("n_bins", n_bins)
    left, right = (mapped.left, mapped.right) if isinstance(mapped, TreeMap) else _children(tree)
    return np.asarray(_upper(left, right, int(n_bins))[leaves])


def _mapped(tree: Any) -> Any:
    """The map of a fitted calibrator or of a loaded calibration; anything else unchanged."""
    found = getattr(tree, "map_", getattr(tree, "map", tree))
    return found if isinstance(found, TreeMap) else tree


def _of_map(tree: TreeMap, X: Any, scores: Any) -> Ints:
    """The node of each row in a map."""
    if scores is None:
        raise InputError("scores", "are missing", "pass the scores of the rows before calibration")
    matrix = isinstance(X, np.ndarray) and X.ndim == 2
    given = {f"x{j}": column for j, column in enumerate(X.T)} if matrix else X
    try:
        place = tree.route(read_floats(scores, "scores"), given)
    except InputError as error:
        if error.subject != "by":
            raise
        fix = f"pass a frame with {listed([*map(repr, tree.columns)])}"
        raise InputError("X", error.problem, fix if tree.columns else error.fix) from None
    if (place < 0).any():
        raise InputError("scores", "holds values that are missing", Advice.DROP_ROWS)
    return np.asarray(tree.leaves[place], dtype=np.int64)


def _applied(tree: Any, X: Any) -> Ints:
    """The leaf of each row, by the tree itself."""
    apply = getattr(tree, "apply", getattr(tree, "route", None))
    if not callable(apply):
        raise InputError(
            "tree", f"is of type {type(tree).__name__}, which has no apply", "pass a fitted tree, or ids as regions="
        )
    leaves = np.asarray(apply(X))
    if leaves.ndim != 1 or leaves.dtype.kind not in "iu":
        problem = f"gives an array of shape {leaves.shape} and type {leaves.dtype}, not one leaf for each row"
        raise InputError("tree", problem, "pass a single tree, such as forest.estimators_[0]")
    return leaves.astype(np.int64)


def _children(tree: Any) -> tuple[Ints, Ints]:
    nodes = getattr(tree, "tree_", tree)
    for names in (("children_left", "children_right"), ("left", "right")):
        found = [getattr(nodes, name, None) for name in names]
        if all(isinstance(each, np.ndarray) for each in found):
            return np.asarray(found[0], dtype=np.int64), np.asarray(found[1], dtype=np.int64)
    raise InputError(
        "tree", f"of type {type(tree).__name__} does not list its nodes", "leave n_bins out to take its leaves"
    )


def _upper(left: Ints, right: Ints, n_bins: int) -> Ints:
    """Of each node, the leaf at or above it in the breadth-first part of the tree with this many leaves."""
    top, order, count = np.zeros(len(left), dtype=np.int64), [0], 1
    for node in order:  # grows while it is read
        if left[node] < 0:
            continue
        split = count < n_bins and top[node] == node
        count += split
        for child in (int(left[node]), int(right[node])):
            top[child] = child if split else top[node]
            order.append(child)
    return top
