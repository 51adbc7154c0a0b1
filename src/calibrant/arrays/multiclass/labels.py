"""Multi-label targets: a matrix of 0 and 1 with one column per label, read as one binary problem per column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.frames import column_name
from calibrant.arrays.multiclass.rows import is_matrix, read_matrix
from calibrant.messages import Argument, InputError, Phrase

Problem = tuple[NDArray[Any], NDArray[np.uint8]]
"""Scores and labels, 0 or 1, of one label."""


def is_indicator(y: Any) -> bool:
    """Whether labels are a matrix with two columns or more.

    Examples
    --------
    >>> is_indicator([[0, 1], [1, 1]]), is_indicator([0, 1])
    (True, False)
    """
    return is_matrix(y)


def indicator_columns(scores: Any, y: Any) -> dict[str, Problem]:
    """Scores and labels of each binary problem, by the name of its label.

    Labels are named by the columns of ``y``, or of ``scores``, or else by their numbers from 0. Columns of two frames
    must have the same names in the same order.

    Examples
    --------
    >>> problems = indicator_columns([[0.2, 0.9], [0.6, 0.7]], [[0, 1], [1, 1]])
    >>> {name: (s.tolist(), label.tolist()) for name, (s, label) in problems.items()}
    {'0': ([0.2, 0.6], [0, 1]), '1': ([0.9, 0.7], [1, 1])}
    """
    if not is_matrix(scores):
        raise InputError(
            "y",
            Phrase("has several columns, and {scores} has one", scores=Argument("scores")),
            "pass a column of scores for each label, or one column of labels",
        )
    matrix, columns = read_matrix(scores)
    targets, names = _targets(y)
    if targets.shape != matrix.shape:
        problem = Phrase("has shape {found} but {scores} has {n}", found=targets.shape, scores=Argument("scores"),
                         n=matrix.shape)  # fmt: skip
        raise InputError("y", problem, "pass one column of scores for each label")
    if names and columns and names != columns:
        raise InputError("y", "has other columns than the scores", "pass both with the same columns in the same order")
    found = names or columns or tuple(map(str, range(matrix.shape[1])))
    one_hot = bool((targets.sum(axis=1) == 1).all()) and bool(
        np.allclose(matrix.sum(axis=1), 1.0, atol=1e-3) and matrix.min() >= 0.0
    )
    if one_hot:
        raise InputError(
            "y",
            "has exactly one 1 in every row, and the scores of a row sum to 1: these are classes, not several labels",
            "pass one label per row, such as y.argmax(axis=1)",
        )
    return {name: (np.ascontiguousarray(matrix[:, place]), targets[:, place]) for place, name in enumerate(found)}


def one_hot_classes(scores: Any, y: Any) -> tuple[NDArray[Any], tuple[Any, ...]] | None:
    """The class of each row and all classes, if labels are one-hot rows of classes; None for a multi-label target.

    Every row of ``y`` must have exactly one 1, and the scores must be those of classes: rows that sum to 1, or logits.
    Classes are named by the columns of ``y``, or of ``scores``, or else by their numbers from 0.

    Examples
    --------
    >>> one_hot_classes([[2.0, -1.0], [0.5, 3.0]], [[1, 0], [0, 1]])
    (array([0, 1]), (0, 1))
    >>> one_hot_classes([[0.2, 0.9], [0.6, 0.7]], [[1, 0], [0, 1]]) is None
    True
    """
    if not is_matrix(scores):
        return None
    matrix, columns = read_matrix(scores)
    targets, names = _targets(y)
    if targets.shape != matrix.shape or not len(targets) or not (targets.sum(axis=1) == 1).all():
        return None
    inside = bool(matrix.min() >= 0.0 and matrix.max() <= 1.0)
    if (inside and not np.allclose(matrix.sum(axis=1), 1.0, atol=1e-3)) or (names and columns and names != columns):
        return None
    classes: tuple[Any, ...] = names or columns or tuple(range(matrix.shape[1]))
    return np.array(classes)[targets.argmax(axis=1)], classes


def _targets(y: Any) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """A matrix of 0 and 1, and the names of its columns, none for arrays."""
    names: tuple[str, ...] = ()
    if hasattr(y, "column_names"):  # pyarrow
        names = tuple(y.column_names)
        raw = np.column_stack([np.asarray(column) for column in y.columns])
    elif hasattr(y, "columns") and hasattr(y, "to_numpy"):
        names, raw = tuple(column_name(column) for column in y.columns), np.asarray(y.to_numpy())
    else:
        raw = np.asarray(y)
    try:
        numbers = raw.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(raw.shape, np.nan)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise InputError(
            "y",
            "has several columns, and they hold other values than 0 and 1",
            "pass a matrix of 0 and 1 with one column per label, or one column of labels",
        )
    return numbers.astype(np.uint8), names
