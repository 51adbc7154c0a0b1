"""Which form scores have: one column, or a matrix of class scores with arguments of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arrays.columns import width
from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.messages import InputError
from calibrant.reading import Given


def one_event(scores: Any, y: Any, given: dict[str, Any], *, logits: bool = True) -> tuple[Any, Any, dict[str, Any]]:
    """The probability of the event in place of two columns, unless a notion or independent columns are asked for.

    ``logits``: also of two columns of logits, whose softmax may be rounded to 0.
    """
    asked = [given.get("notion"), given.get("named"), given.get("score_type") == "independent" or None]
    if width(scores) != 2 or y is None or any(each is not None for each in asked):
        return scores, y, given
    settings: dict[str, Any] = {"classes": given.get("classes"), "score_type": given.get("score_type")}
    with np.errstate(over="ignore"):
        found = Given("score", scores, y, **settings).one_event(probabilities=logits)
    if found.score_type == "logit":
        return scores, y, given
    return found.scores, found.y, {**given, "classes": None, "score_type": None}


def for_classes(scores: Any, given: dict[str, Any], column_only: dict[str, tuple[Any, Any]]) -> bool:
    """Whether these are scores of several classes; refuses arguments for the other form of scores."""
    matrix = is_matrix(scores) or given.get("named") is not None
    if matrix:
        for name, (value, default) in column_only.items():
            if value is not default:
                raise InputError(name, "is for one column of scores, and scores is a matrix", f"leave {name} out")
    else:
        for name, value in given.items():
            if value is not None:
                raise InputError(name, "is for a matrix of class scores, and scores is one column", f"leave {name} out")
    return matrix


def of_matrix(given: dict[str, Any]) -> dict[str, Any]:
    """Only the given arguments, so that the others keep their defaults."""
    return {name: value for name, value in given.items() if value is not None}
