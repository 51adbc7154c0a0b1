"""Calibration error, log loss, accuracy and depth of forecasts along the paths of a taxonomy."""

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

NEEDS_TREE = "pass taxonomy=, or the result of forecast()"


def path_calibration_error(
    forecast: Any, y: ArrayLike, sample_weight: Column = None, *, taxonomy: Any = None, n_bins: int | None = None
) -> Estimate:
    r"""Path calibration error: distance of node probabilities along predicted paths from observed frequencies.

    .. math:: \mathrm{PCE} = \sum_i \frac{w_i}{W} \frac{1}{|a(c_i)|} \sum_{v \in a(c_i)}
              \Bigl| \hat P\bigl(v \in a(Y) \mid \text{cell}_v(i)\bigr) - \bar h_v(\text{cell}_v(i)) \Bigr|

    with :math:`c_i` the predicted leaf of row i, :math:`a(c_i)` the nodes of its path, :math:`w_i` the weights and W
    their sum, :math:`\bar h_v` the mean probability of v in the cell. It estimates how far
    :math:`P(v \in a(Y) \mid c(X), h(X)) = h_v(X)` is violated (Gupta 2022, eq. 4.3).

    Parameters
    ----------
    forecast : PathForecast, or matrix or frame of one column per node
        The result of ``forecast`` of a :class:`calibrant.multiclass.PathCalibrator`; or that of its ``transform``, with
        NaN for nodes off the path, and ``taxonomy``.
    y : array-like
        The narrowest node of each row.
    n_bins : int, optional
        By default cells are rows of the same leaf with the same probabilities along the path, as in eq. 4.3. That suits
        maps with few distinct outputs; for others pass a number, such as 15: cells are then, for each node, rows of the
        same leaf whose probability for the node is in the same one of ``n_bins`` bins of equal width.
    sample_weight : array-like, optional
        Weight of each row.
    taxonomy : Taxonomy, optional
        The tree of classes; needed unless a :class:`PathForecast` is given.

    Returns
    -------
    Estimate
        Value and null value.

    Notes
    -----
    Edges: a row without a forecast is refused. ``null`` is the expected value of a calibrated forecast for this many
    rows, by a normal approximation in each cell, somewhat too large where cells are small.
    Guarantee: no finite-sample guarantee; biased upward, so compare it with ``null``.
    Cost: a sort of the rows. Reference: Gupta (2022), section 4.3.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> given = np.array([[0.9, np.nan, 0.5, np.nan]] * 4)  # animal, ship, cat, dog
    >>> round(float(path_calibration_error(given, ["cat", "cat", "dog", "ship"], taxonomy=tree)), 3)
    0.075
    """
    given, right, w = _judged(forecast, y, sample_weight, taxonomy)
    there = given.nodes >= 0
    index = _cells(given, n_bins)
    size = int(index.max(initial=0)) + 1
    error, null = np.zeros(there.shape), np.zeros(there.shape)
    for level in range(there.shape[1]):
        p = np.where(there[:, level], given.probabilities[:, level], 0.0)
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
    r"""Log loss of the node probabilities along predicted paths, averaged over the nodes of each row.

    .. math:: -\sum_i \frac{w_i}{W} \frac{1}{|a(c_i)|} \sum_{v \in a(c_i)}
              \log\bigl(h_v \text{ if } v \in a(y_i) \text{ else } 1 - h_v\bigr)

    with symbols and parameters as in :func:`path_calibration_error`.

    Parameters
    ----------
    forecast, y, sample_weight, taxonomy
        As in :func:`path_calibration_error`.

    Returns
    -------
    Estimate
        Value, standard error and interval.

    Notes
    -----
    Edges: infinite where a probability of 0 or 1 was wrong; no interval for one row, nor where all rows are equal.
    Guarantee: no finite-sample guarantee; normal interval. Cost: one pass. Reference: the log score of binary
    statements, Gupta (2023), section 1.2.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> given = np.array([[0.9, np.nan, 0.5, np.nan]] * 2)
    >>> round(float(path_log_loss(given, ["cat", "dog"], taxonomy=tree)), 4)  # (log(1 / 0.9) + log 2) / 2
    0.3993
    """
    given, right, w = _judged(forecast, y, sample_weight, taxonomy)
    there = given.nodes >= 0
    p = np.where(there, given.probabilities, 1.0)
    with np.errstate(divide="ignore"):
        loss = -np.log(np.where(right | ~there, p, 1.0 - p)).sum(axis=1) / there.sum(axis=1)
    found = mean_estimate("path log loss", loss, w, math.inf, {}, ())
    return found if math.isfinite(found.value) else replace(found, notes=(wrong_certainty(),))


def hierarchical_accuracy(
    predicted: Any, y: ArrayLike, sample_weight: Column = None, *, taxonomy: Any = None
) -> Estimate:
    r"""Hierarchical accuracy: share of rows that belong to the predicted node of a taxonomy.

    .. math:: P(c(X) \in a(Y))

    with c the predicted node, which may be an inner one, and :math:`a(Y)` the nodes that the label belongs to. Eq. 4.2
    of Gupta (2022) has the sides exchanged, which would count a label broader than the prediction as right. Predicting
    the root is always right: report it together with :func:`mean_depth`.

    Parameters
    ----------
    predicted : array-like of names of nodes, or PathForecast
        With names pass ``taxonomy`` as well. For a forecast the predicted leaves are used; for broader nodes of higher
        probability pass ``forecast.narrowest(least)``.
    y : array-like
        The narrowest node of each row.
    sample_weight : array-like, optional
        Weight of each row.
    taxonomy : Taxonomy, optional
        The tree of classes; needed unless a :class:`PathForecast` is given.

    Returns
    -------
    Estimate
        Value and interval.

    Notes
    -----
    Edges: a row without a forecast is refused.
    Guarantee: the 95 % interval is exact for independent rows without weights. Cost: one pass.
    Reference: Gupta (2022), section 4.3.

    Examples
    --------
    >>> tree = Taxonomy({"animal": None, "ship": None, "cat": "animal", "dog": "animal"})
    >>> print(hierarchical_accuracy(["animal", "cat", "cat", "root"], ["cat", "animal", "cat", "ship"], taxonomy=tree))
    hierarchical accuracy: 0.7500 (95 % CI 0.1941 to 0.9937)
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
    r"""Mean depth of the predicted nodes of a taxonomy: 0 for the root, larger for narrower nodes.

    .. math:: \sum_i \frac{w_i}{W} \operatorname{depth}(c_i)

    with ``predicted`` as in :func:`hierarchical_accuracy`; no labels are needed.

    Parameters
    ----------
    predicted, sample_weight, taxonomy
        As in :func:`hierarchical_accuracy`; labels are not needed.

    Returns
    -------
    Estimate
        Value, standard error and interval.

    Notes
    -----
    Edges: no interval for one row, nor where all rows are equal. Guarantee: no finite-sample guarantee; normal
    interval. Cost: one pass. Reference: Gupta (2022), section 4.3.

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
    """A forecast, whether each of its nodes is right, and weights; without the rows whose weight is 0."""
    given = _as_forecast(forecast, taxonomy)
    w = _weights(sample_weight, len(given))
    right, kept = _right(given, y), w > 0.0
    if kept.all():
        return given, right, w
    parts = (given.leaves[kept], given.nodes[kept], given.probabilities[kept])
    return PathForecast(given.taxonomy, *parts), right[kept], w[kept]


def _cells(given: PathForecast, n_bins: int | None) -> NDArray[np.intp]:
    """Cell of each row and level."""
    if n_bins is None:
        key = np.column_stack([given.leaves, np.where(given.nodes >= 0, given.probabilities, -1.0)])
        cell = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        return np.repeat(cell[:, None], given.nodes.shape[1], axis=1)
    check_whole("n_bins", n_bins)
    p = np.where(given.nodes >= 0, given.probabilities, 0.0)
    return given.leaves[:, None] * int(n_bins) + np.minimum((p * n_bins).astype(np.intp), int(n_bins) - 1)


def _right(given: PathForecast, y: Any) -> NDArray[np.bool_]:
    """Whether each row belongs to each node of its path."""
    labels = given.taxonomy.codes(y)
    check_length(labels, "y", len(given))
    return given.taxonomy.belongs(labels[:, None], given.nodes) & (given.nodes >= 0)


def _as_forecast(forecast: Any, taxonomy: Any, name: str = "forecast") -> PathForecast:
    if isinstance(forecast, PathForecast):
        if taxonomy is not None and as_taxonomy(taxonomy) != forecast.taxonomy:
            raise InputError("taxonomy", f"differs from that of {name}", "leave it out")
        given = forecast
    elif taxonomy is None:
        raise InputError("taxonomy", "is missing, and a matrix of node probabilities needs its tree", NEEDS_TREE)
    else:
        given = _from_matrix(forecast, as_taxonomy(taxonomy))
    if not len(given):
        refuse_empty(name)
    if (given.leaves < 0).any():
        bad = int((given.leaves < 0).argmax())
        raise InputError(name, f"is missing at row {bad} counted from 0", "drop the rows whose scores are missing")
    return given


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
    given = np.where(paths >= 0, np.take_along_axis(matrix, np.maximum(paths, 0), axis=1), np.nan).astype(np.float64)
    wrong = (there.sum(axis=1) != (paths >= 0).sum(axis=1)) | ((paths >= 0) & np.isnan(given)).any(axis=1)
    if wrong.any() or not ((given >= 0.0) & (given <= 1.0) | np.isnan(given)).all():
        bad = int(wrong.argmax())
        raise InputError(
            "forecast", f"has no valid path at row {bad} counted from 0", "pass NaN for every node off the path"
        )
    return PathForecast(tree, leaves, paths, given)


def _nodes(predicted: Any, taxonomy: Any) -> tuple[Taxonomy, NDArray[np.intp]]:
    """The tree and the codes of predicted nodes: of names, or the leaves of a forecast."""
    if isinstance(predicted, PathForecast):
        given = _as_forecast(predicted, taxonomy, "predicted")
        return given.taxonomy, given.leaves
    if taxonomy is None:
        raise InputError("taxonomy", "is missing, and names of nodes need their tree", NEEDS_TREE)
    tree = as_taxonomy(taxonomy)
    keys = read_keys(label_column(predicted, "predicted"), "predicted")
    unknown = sorted(set(keys.names) - set(tree.nodes) - {tree.root})
    if unknown:
        raise InputError(
            "predicted", f"has {unknown[0]!r}, which is not a node of the taxonomy", "pass names of its nodes"
        )
    codes = keys.among(tree.nodes)
    if not len(codes):
        raise InputError("predicted", "is empty", "pass at least one node")
    return tree, codes


def _weights(sample_weight: Any, n: int) -> Floats:
    return np.ones(n) if sample_weight is None else check_weights(sample_weight, "importance", n)[0].astype(np.float64)


wrong_certainty = note("wrong-certainty", "a probability of exactly 0 or 1 was wrong")
