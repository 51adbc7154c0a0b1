"""Labels in several columns: a multi-label target, or one-hot rows of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import BLOCK, read_matrix
from calibrant.arrays.multiclass.spread import Spread
from calibrant.messages import InputError


def indicator(y: Any) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """A matrix of 0 and 1 with one column per label, and the names of its columns, none for arrays.

    Examples
    --------
    >>> indicator([[0, 1], [1, 1]])[0].tolist()
    [[0, 1], [1, 1]]
    """
    try:
        target, names = read_matrix(y)
    except InputError as error:
        raise error.about("y") from None
    if not np.isin(target, (0.0, 1.0)).all():
        missing = bool(np.isnan(target).any())
        problem = "has missing labels" if missing else "has several columns, and they hold other values than 0 and 1"
        fix = "pass a matrix of 0 and 1 with one column per label, or one column of labels"
        raise InputError("y", problem, "drop these rows" if missing else fix)
    return target.astype(np.uint8), names


def one_hot_classes(scores: Any, y: Any) -> tuple[NDArray[np.intp], tuple[Any, ...]] | None:
    """The column of the class of each row, and all classes, if labels are one-hot rows; None for several labels.

    Every row of ``y`` must have exactly one 1, and the scores must be those of classes: rows that sum to 1, or logits.
    Classes are named by the columns of ``y``, or of ``scores``, or else by their numbers from 0.

    Examples
    --------
    >>> one_hot_classes([[2.0, -1.0], [0.5, 3.0]], [[1, 0], [0, 1]])
    (array([0, 1]), (0, 1))
    >>> one_hot_classes([[0.2, 0.9], [0.6, 0.7]], [[1, 0], [0, 1]]) is None
    True
    """
    target, names = indicator(y)
    matrix, columns = read_matrix(scores)
    if target.shape != matrix.shape or not len(target) or not (target.sum(axis=1) == 1).all():
        return None
    if (names and columns and names != columns) or not np.isfinite(matrix).all():
        return None
    spread = Spread.of(matrix, BLOCK)
    if spread.inside and not spread.probable:
        return None
    return target.argmax(axis=1), names or columns or tuple(range(matrix.shape[1]))
