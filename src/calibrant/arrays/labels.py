"""Labels of two classes as 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import CHUNK, as_set, read_column, refuse_infinite, refuse_missing, value_range
from calibrant.arrays.errors import InputError, warn

_HEAD = 64  # rows that are looked at before a whole-array comparison is paid for


def check_labels(y: object, positive: object = None, *, name: str = "y") -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Read binary labels as 0 and 1.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, 1)
        0/1 in any numeric dtype, bool, -1/1, or any two values together with `positive`.
    positive : object, optional
        The label that counts as the event.
    name : str, default="y"
        The argument's name in errors.

    Returns
    -------
    labels : ndarray of uint8
        0 or 1.
    notes : tuple of str
        What was converted, one sentence each.

    Raises
    ------
    InputError
        When labels are missing, when there are more than two, or when it is not clear which one is the event.

    Examples
    --------
    >>> from calibrant.arrays import check_labels
    >>> check_labels(["good", "bad", "good"], positive="bad")
    (array([0, 1, 0], dtype=uint8), ("labels 'good'/'bad' read as 0/1",))
    """
    target = label_column(y, name)
    if target.size == 0:
        raise InputError(f"{name} is empty: pass at least one label")
    return encode_labels(target, positive, name)


def label_column(y: object, name: str) -> NDArray[Any]:
    """Raw labels, none of them missing."""
    target = read_column(y, name)
    if target.dtype.kind in "cmMV":
        _refuse_not_labels(target.dtype, name)
    refuse_missing(target, name, "drop these rows; a label that has not arrived is not a negative")
    return target


def _refuse_not_labels(dtype: np.dtype[Any], name: str) -> NoReturn:
    what = "complex numbers (Complex data not supported)" if dtype.kind == "c" else f"values of type {dtype}"
    raise InputError(f"{name} holds {what}: pass labels such as 0 and 1")


def encode_labels(
    target: NDArray[Any], positive: object, name: str, scores: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Labels as 0 and 1, and the note on how; `scores` only serve to recognise swapped arguments."""
    if positive is None and (plain := _zero_one(target)) is not None:
        return plain, ()
    if target.dtype.kind == "f" and np.isinf(value_range(target)).any():
        refuse_infinite(target, name, "drop these rows; labels are two values such as 0 and 1")
    values = _distinct(target, name)
    if len(values) > 2:
        if scores is not None and _look_swapped(scores, target):
            raise InputError("scores and y look swapped: pass the scores first and the labels second")
        raise InputError(
            f"{name} has more than two distinct values ({', '.join(map(repr, values[:3]))}, ...): Calibrant's binary "
            "calibrators take two classes, so pass y == c for one class c against the rest"
        )
    if positive is None:
        if not set(values) <= {-1, 1} and not set(values) <= {0, 1}:
            _ask_for_positive(values, name)
        return np.asarray(target == 1, dtype=np.uint8), (("labels -1/1 read as 0/1",) if -1 in values else ())
    event = _event(values, positive, name)
    labels = np.asarray(target == event if event in values else np.zeros(target.size), dtype=np.uint8)
    other = next((v for v in values if v != event), None)
    if (other, event) == (0, 1) or values == [1]:
        return labels, ()
    return labels, (f"labels {event!r} read as 1" if other is None else f"labels {other!r}/{event!r} read as 0/1",)


def _zero_one(target: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Labels as uint8 when all of them are the numbers 0 and 1, otherwise None."""
    if target.dtype.kind == "b":
        return np.ascontiguousarray(target).view(np.uint8)
    if target.dtype.kind not in "iuf":
        return None
    labels = np.empty(target.size, dtype=np.uint8)
    for i in range(0, target.size, CHUNK):
        part = target[i : i + CHUNK]
        ones = part == 1
        if np.count_nonzero(ones) + np.count_nonzero(part == 0) < part.size:
            return None
        labels[i : i + CHUNK] = ones
    return labels


def _distinct(target: NDArray[Any], name: str) -> list[Any]:
    """Up to four distinct labels as Python values, in order; more are not needed to know that there are too many."""
    if target.dtype.kind == "O":
        values = list(as_set(target, name))
    else:
        values, rest = [], target
        while rest.size and len(values) < 4:
            values.append(rest[0].item())
            rest = rest[rest != rest[0]]
    try:
        return sorted(values)[:4]
    except TypeError:  # labels of two types, such as "no" and 0
        return sorted(values, key=repr)[:4]


def _event(values: list[Any], positive: object, name: str) -> object:
    """Find the label that `positive` names; with one distinct label it may be the absent one."""
    found = [v for v in values if v == positive]
    if not found and len(values) == 2:
        raise InputError(
            f"positive={positive!r} is not among the labels of {name}, which are {values[0]!r} and {values[1]!r}: "
            "pass one of these"
        )
    return found[0] if found else positive


def _ask_for_positive(values: list[Any], name: str) -> NoReturn:
    if len(values) == 1:
        raise InputError(
            f"{name} holds only the label {values[0]!r}: pass positive= with the label that counts as the event"
        )
    first, second = values
    raise InputError(
        f"{name} labels are {first!r} and {second!r}: pass positive={second!r} or positive={first!r}, "
        "whichever counts as the event"
    )


def _look_swapped(scores: NDArray[np.float64], target: NDArray[Any]) -> bool:
    if target.dtype.kind not in "fO":
        return False
    try:
        low, high = value_range(target)
    except (TypeError, ValueError):
        return False
    return low >= 0 and high <= 1 and _zero_one(scores) is not None


def warn_about_labels(s: NDArray[np.float64], labels: NDArray[np.uint8]) -> None:
    """Warn of one class only, and of scores that are the labels in disguise."""
    n, events = labels.size, int(np.count_nonzero(labels))
    if events in (0, n):
        warn(
            f"y has only one class ({events} of {n} rows are positive): nothing can be learned about the other, "
            "so check the label column and the rows that were selected"
        )
    elif n >= 3:
        for words, code in _LEAKS.items():
            if np.array_equal(s[:_HEAD], code(labels[:_HEAD])) and np.array_equal(s, code(labels)):
                warn(f"scores {words} on every row: a leak, or the wrong column?")


_LEAKS: dict[str, Callable[[NDArray[np.uint8]], NDArray[Any]]] = {
    "equal the labels": lambda labels: labels,
    "equal 1 - labels": lambda labels: 1 - labels,
    "equal the labels, written as -1/1,": lambda labels: 2.0 * labels - 1,
}
