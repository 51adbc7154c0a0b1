"""How far off, how right and how narrow forecasts along the paths of a taxonomy are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, check_whole, refuse_empty
from calibrant.arrays.keys import read_keys
from calibrant.arrays.labels import label_column
from calibrant.arrays.multiclass.rows import read_matrix
from calibrant.arrays.sides import check_weights
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.maps.paths import PathForecast
from calibrant.maps.taxonomy import Taxonomy, as_taxonomy
from calibrant.messages import InputError, note
from calibrant.metrics.estimates import Estimate, mean_estimate
from calibrant.numerics import Column, Floats

NEEDS_TREE = "pass it, or what forecast() gives"


def path_calibration_error(
    forecast: Any, y: ArrayLike, sample_weight: Column = None, *, taxonomy: Any = None, n_bins: int | None = None
) -> Estimate:
    r"""How far the probabilities along predicted paths are from how often rows belong to the nodes.

    .. math:: \mathrm{PCE} = \sum_i \frac{w_i}{W} \frac{1}{|a(c_i)|} \sum_{v \in a(c_i)}
              \Bigl| \hat P\bigl(v \in a(Y) \mid \text{cell}_v(i)\bigr) - \bar h_v(\text{cell}_v(i)) \Bigr|

    with :math:`c_i` the predicted leaf of row i, :math:`a(c_i)` the nodes of its path, :math:`w_i` the weights and W
    their sum, :math:`\bar h_v` the mean probability of v in the cell. It estimates how far
    :math:`P(v \in a(Y) \mid c(X), h(X)) = h_v(X)` fails (000 eq. 4.3).

    Parameters
    ----------
    forecast : PathForecast, or matrix or frame of one column per node
        What ``forecast`` of a :class:`calibrant.PathCalibrator` gives, or what its ``transform``
        does, NaN for "abstains", with ``taxonomy``.
    y : array-like
        The narrowest node of each row.
    n_bins : int, optional
        Cells are rows of the same leaf with the same probabilities along the path, as (4.3) says it. That suits maps
        of few distinct outputs; for others pass a number, such as 15: cells are then, node by node, rows of the same
        leaf whose probability for the node lies in the same of so many bins of equal width.

    Notes
    -----
    Edges: a row without a forecast is refused. ``null`` is what a calibrated forecast would show at this size, by the
    normal law of each cell, somewhat too much where cells are small.
    Guarantee: no finite-sample guarantee; chance alone makes it positive, so read it next to ``null``.
    Cost: a sort of the rows.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> told = np.array([[0.9, np.nan, 0.5, np.nan]] * 4)  # animal, ship, cat, dog
    >>> round(float(path_calibration_error(told, ["cat", "cat", "dog", "ship"], taxonomy=tree)), 3)
    0.075
    """
    told, right, w = _judged(forecast, y, sample_weight, taxonomy)
    there = told.nodes >= 0
    index = _cells(told, n_bins)
    size = int(index.max(initial=0)) + 1
    error, null = np.zeros(there.shape), np.zeros(there.shape)
    for level in range(there.shape[1]):
        p = np.where(there[:, level], told.probabilities[:, level], 0.0)
        at = index[:, level]
        mass = np.bincount(at, w, minlength=size)
        gap = np.bincount(at, w * (right[:, level] - p), minlength=size)
        spread = np.bincount(at, w * w * p * (1.0 - p), minlength=size)
        full = np.where(mass > 0, mass, 1.0)
        error[:, level] = (np.abs(gap) / full)[at]
        null[:, level] = (np.sqrt(2.0 / np.pi * spread) / full)[at]
    share = np.where(there, (w / w.sum() / there.sum(axis=1))[:, None], 0.0)
    how = "by distinct forecast" if n_bins is None else f"{n_bins} bins of equal width"
    return Estimate(f"path calibration error, {how}", float((share * error).sum()), null=float((share * null).sum()))


def path_log_loss(forecast: Any, y: ArrayLike, sample_weight: Column = None, *, taxonomy: Any = None) -> Estimate:
    r"""Log loss of the statements along predicted paths, each row by the mean over its nodes.

    .. math:: -\sum_i \frac{w_i}{W} \frac{1}{|a(c_i)|} \sum_{v \in a(c_i)}
              \log\bigl(h_v \text{ if } v \in a(y_i) \text{ else } 1 - h_v\bigr)

    with symbols and parameters as in :func:`path_calibration_error`.

    Notes
    -----
    Edges: infinite where a probability of 0 or 1 was wrong; no interval at one row, nor where rows do not differ.
    Guarantee: the interval is the normal one, no finite-sample guarantee. Cost: one pass. Reference: the log score of
    each yes-or-no statement (002 section 1.2).

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> told = np.array([[0.9, np.nan, 0.5, np.nan]] * 2)
    >>> round(float(path_log_loss(told, ["cat", "dog"], taxonomy=tree)), 4)  # (log(1 / 0.9) + log 2) / 2
    0.3993
    """
    told, right, w = _judged(forecast, y, sample_weight, taxonomy)
    there = told.nodes >= 0
    p = np.where(there, told.probabilities, 1.0)
    with np.errstate(divide="ignore"):
        loss = -np.log(np.where(right | ~there, p, 1.0 - p)).sum(axis=1) / there.sum(axis=1)
    found = mean_estimate("path log loss", loss, w, math.inf, {}, ())
    return found if math.isfinite(found.value) else replace(found, notes=(wrong_certainty(),))


def hierarchical_accuracy(
    predicted: Any, y: ArrayLike, sample_weight: Column = None, *, taxonomy: Any = None
) -> Estimate:
    r"""Share of rows that belong to the predicted node.

    .. math:: P(c(X) \in a(Y))

    with c the predicted node, which may be an inner one, and :math:`a(Y)` the nodes that the label belongs to. 000
    eq. 4.2 prints the sides the other way round, which would count a label broader than the prediction as right.
    Predicting the root is always right: read it next to :func:`mean_depth`.

    Parameters
    ----------
    predicted : array-like of names of nodes, or PathForecast
        With names pass ``taxonomy`` as well. Of a forecast the predicted leaves are judged; for broader nodes that it
        is sure of, pass ``forecast.narrowest(least)``.

    Notes
    -----
    Edges: a row without a forecast is refused.
    Guarantee: the 95 % interval is exact for independent rows without weights. Cost: one pass.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> print(hierarchical_accuracy(["animal", "cat", "cat", "root"], ["cat", "animal", "cat", "ship"], taxonomy=tree))
    hierarchical accuracy: 0.7500 (95 % interval 0.1941 to 0.9937)
    """
    tree, nodes = _nodes(predicted, taxonomy)
    labels = tree.codes(y)
    check_length(labels, "y", len(nodes))
    w = _weights(sample_weight, len(nodes))
    value = float((w * tree.belongs(labels, nodes)).sum() / w.sum())
    rows = w.sum() ** 2 / np.square(w).sum()
    low, high = clopper_pearson(min(value, 1.0) * rows, rows, 0.05)
    return Estimate("hierarchical accuracy", value, low=float(low), high=float(high))


def mean_depth(predicted: Any, sample_weight: Column = None, *, taxonomy: Any = None) -> Estimate:
    r"""Mean level of the predicted nodes: 0 for the root, and the more the narrower they are (000 section 4.3).

    .. math:: \sum_i \frac{w_i}{W} \operatorname{depth}(c_i)

    with ``predicted`` as in :func:`hierarchical_accuracy`; no labels are needed.

    Notes
    -----
    Edges: no interval at one row, nor where rows do not differ. Guarantee: the interval is the normal one, no
    finite-sample guarantee. Cost: one pass.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> float(mean_depth(["animal", "cat", "cat", "root"], taxonomy=tree))
    1.25
    """
    tree, nodes = _nodes(predicted, taxonomy)
    w = _weights(sample_weight, len(nodes))
    depths, kept = np.where(nodes < 0, 0, tree.depths[nodes]), w > 0.0
    return mean_estimate("mean depth", depths[kept], w[kept], float(tree.depth), {}, ())


def _judged(forecast: Any, y: Any, sample_weight: Any, taxonomy: Any) -> tuple[PathForecast, NDArray[np.bool_], Floats]:
    """A forecast, which of its statements are right, and weights; without the rows whose weight is 0."""
    told = _as_forecast(forecast, taxonomy)
    w = _weights(sample_weight, len(told))
    right, kept = _right(told, y), w > 0.0
    if kept.all():
        return told, right, w
    parts = (told.leaves[kept], told.nodes[kept], told.probabilities[kept])
    return PathForecast(told.taxonomy, *parts), right[kept], w[kept]


def _cells(told: PathForecast, n_bins: int | None) -> NDArray[np.intp]:
    """Cell of each row and level."""
    if n_bins is None:
        key = np.column_stack([told.leaves, np.where(told.nodes >= 0, told.probabilities, -1.0)])
        cell = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        return np.repeat(cell[:, None], told.nodes.shape[1], axis=1)
    check_whole("n_bins", n_bins)
    p = np.where(told.nodes >= 0, told.probabilities, 0.0)
    return told.leaves[:, None] * int(n_bins) + np.minimum((p * n_bins).astype(np.intp), int(n_bins) - 1)


def _right(told: PathForecast, y: Any) -> NDArray[np.bool_]:
    """Whether each row belongs to each node of its path."""
    labels = told.taxonomy.codes(y)
    check_length(labels, "y", len(told))
    return told.taxonomy.belongs(labels[:, None], told.nodes) & (told.nodes >= 0)


def _as_forecast(forecast: Any, taxonomy: Any, name: str = "forecast") -> PathForecast:
    if isinstance(forecast, PathForecast):
        if taxonomy is not None and as_taxonomy(taxonomy) != forecast.taxonomy:
            raise InputError("taxonomy", f"is not that of {name}", "leave it out")
        told = forecast
    elif taxonomy is None:
        raise InputError("taxonomy", "is missing, and a matrix of node probabilities needs its tree", NEEDS_TREE)
    else:
        told = _from_matrix(forecast, as_taxonomy(taxonomy))
    if not len(told):
        refuse_empty(name)
    if (told.leaves < 0).any():
        bad = int((told.leaves < 0).argmax())
        raise InputError(name, f"is missing in row {bad}", "drop the rows whose scores are missing")
    return told


def _from_matrix(given: Any, tree: Taxonomy) -> PathForecast:
    """A forecast from one column per node, NaN for those that are not on the path."""
    matrix, columns = read_matrix(given)
    if columns and set(columns) >= set(tree.nodes):
        matrix = matrix[:, [columns.index(node) for node in tree.nodes]]
    elif columns or matrix.shape[1] != len(tree.nodes):
        raise InputError("forecast", f"must have one column for each of the {len(tree.nodes)} nodes, named as they are")
    there = ~np.isnan(matrix)
    ends = np.where(there, tree.depths, 0).argmax(axis=1)
    leaves = np.where(there.any(axis=1), ends, -1)
    paths = tree.paths[leaves]
    told = np.where(paths >= 0, np.take_along_axis(matrix, np.maximum(paths, 0), axis=1), np.nan).astype(np.float64)
    wrong = (there.sum(axis=1) != (paths >= 0).sum(axis=1)) | ((paths >= 0) & np.isnan(told)).any(axis=1)
    if wrong.any() or not ((told >= 0.0) & (told <= 1.0) | np.isnan(told)).all():
        bad = int(wrong.argmax())
        raise InputError("forecast", f"is not a path of probabilities in row {bad}", "pass NaN for every other node")
    return PathForecast(tree, leaves, paths, told)


def _nodes(predicted: Any, taxonomy: Any) -> tuple[Taxonomy, NDArray[np.intp]]:
    """The tree and the codes of predicted nodes: of names, or the leaves of a forecast."""
    if isinstance(predicted, PathForecast):
        told = _as_forecast(predicted, taxonomy, "predicted")
        return told.taxonomy, told.leaves
    if taxonomy is None:
        raise InputError("taxonomy", "is missing, and names of nodes need their tree", NEEDS_TREE)
    tree = as_taxonomy(taxonomy)
    keys = read_keys(label_column(predicted, "predicted"), "predicted")
    unknown = sorted(set(keys.names) - set(tree.nodes) - {tree.root})
    if unknown:
        raise InputError(
            "predicted", f"has {unknown[0]!r}, which is no node of the taxonomy", "pass names of its nodes"
        )
    codes = keys.among(tree.nodes)
    if not len(codes):
        raise InputError("predicted", "is empty", "pass at least one node")
    return tree, codes


def _weights(sample_weight: Any, n: int) -> Floats:
    return np.ones(n) if sample_weight is None else check_weights(sample_weight, "importance", n)[0].astype(np.float64)


wrong_certainty = note("wrong-certainty", "a probability of exactly 0 or 1 was wrong")
