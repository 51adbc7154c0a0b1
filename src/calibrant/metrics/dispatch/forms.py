"""Which form scores have: one column, or a matrix of class scores with arguments of its own."""

from __future__ import annotations

from typing import Any

from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.messages import InputError


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
