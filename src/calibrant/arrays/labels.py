"""Read binary labels as 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import CHUNK, as_set, read_column, refuse_infinite, refuse_missing, value_range
from calibrant.messages import Advice, Argument, InputError, Note, Phrase, Setting, Voice, note, warn

_HEAD = 64  # rows that are looked at before a whole-array comparison is paid for


LabelType = Literal["class", "fraction"]
"""What labels are: one of two classes, or the share of an event."""

FRACTIONS = (
    "two classes are needed; fractions are taken only by functions with the argument label_type, such as "
    "PlattScaling().fit, calibrate and metrics.brier: pass label_type='fraction' there, in Python"
)

labels_minus_one = note("labels-minus-one", "labels -1/1 read as 0/1")


@note("labels-read")
def labels_read(voice: Voice, negative: str | float | None, positive: str | float | None) -> str:
    """Labels read with the ``positive`` class that the caller named; ``negative`` is None where no row has it."""
    return f"labels {positive!r} read as 1" if negative is None else f"labels {negative!r}/{positive!r} read as 0/1"


@note("one-class")
def one_class(voice: Voice, events: int, n: int) -> str:
    """Labels of one class only."""
    return (
        f"{voice.argument('y')} has only one class ({events} of {n} {voice.nouns.rows} are positive): check the label "
        f"column and how the {voice.nouns.rows} were selected"
    )


@note("scores-equal-labels")
def scores_equal_labels(voice: Voice, written: str) -> str:
    """Scores that equal the labels; ``written`` is how the labels are coded: 0/1, 1/0 or -1/1."""
    what = {"0/1": "the labels", "1/0": "1 - labels"}.get(written, f"the labels, written as {written},")
    return f"{voice.nouns.scores} equal {what} on every {voice.nouns.row}: a leak, or the wrong column?"


def check_labels(y: object, positive: object = None, *, name: str = "y") -> tuple[NDArray[np.uint8], tuple[Note, ...]]:
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
    notes : tuple of Note
        What was converted.

    Raises
    ------
    InputError
        When labels are missing, when there are more than two, or when it is not clear which one is the event.

    Examples
    --------
    >>> from calibrant.arrays import check_labels
    >>> labels, notes = check_labels(["good", "bad", "good"], positive="bad")
    >>> labels, *map(str, notes)
    (array([0, 1, 0], dtype=uint8), "labels 'good'/'bad' read as 0/1")
    """
    target = label_column(y, name)
    if target.size == 0:
        raise InputError(name, "is empty", "pass at least one label")
    return encode_labels(target, positive, name)


def label_column(y: object, name: str) -> NDArray[Any]:
    """Read the column of labels; missing labels are refused."""
    target = read_column(y, name)
    if target.dtype.kind in "cmMV":
        _refuse_not_labels(target.dtype, name)
    refuse_missing(target, name, Advice.DROP_UNLABELED)
    return target


def _refuse_not_labels(dtype: np.dtype[Any], name: str) -> NoReturn:
    what = "complex numbers (Complex data not supported)" if dtype.kind == "c" else f"values of type {dtype}"
    raise InputError(name, f"holds {what}", "pass labels such as 0 and 1")


def encode_labels(
    target: NDArray[Any], positive: object, name: str, scores: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.uint8], tuple[Note, ...]]:
    """Labels as 0 and 1, and a note on the conversion; `scores` only serve to recognize swapped arguments."""
    if positive is None and (plain := _zero_one(target)) is not None:
        return plain, ()
    if target.dtype.kind == "f" and np.isinf(value_range(target)).any():
        fix = Phrase("{drop}; labels are two values such as 0 and 1", drop=Advice.DROP_ROWS)
        refuse_infinite(target, name, fix)
    values = _distinct(target, name)
    if len(values) > 2:
        if scores is not None:
            refuse_swapped(scores, target, name)
        if target.dtype.kind == "f" and min(value_range(target)) >= 0.0 and max(value_range(target)) <= 1.0:
            raise InputError(
                name, f"has more than two distinct values in [0, 1] ({_first_three(values)}, ...)", FRACTIONS
            )
        raise InputError(
            name,
            f"has more than two distinct values ({_first_three(values)}, ...)",
            Advice.ONE_AGAINST_REST,
        )
    if positive is None:
        if not set(values) <= {-1, 1} and not set(values) <= {0, 1}:
            _ask_for_positive(values, name)
        return np.asarray(target == 1, dtype=np.uint8), ((labels_minus_one(),) if -1 in values else ())
    event = _event(values, positive, name)
    labels = np.asarray(target == event if event in values else np.zeros(target.size), dtype=np.uint8)
    other = next((v for v in values if v != event), None)
    if (other, event) == (0, 1) or values == [1]:
        return labels, ()
    return labels, (labels_read(_plain(other), _plain(event)),)


def _first_three(values: list[Any]) -> str:
    return ", ".join(_short(_shown(value)) for value in values[:3])


def _short(value: Any) -> str:
    """A label in a sentence; a number with many digits to four."""
    text = repr(value)
    return f"{value:.4g}" if isinstance(value, float) and len(text) > 8 else text


def _plain(label: Any) -> str | float | None:
    """A label as it is stored in a note."""
    value = _shown(label)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _shown(label: Any) -> Any:
    """A label as a message shows it: a Python value, an integer where it is one, as in a column of 1.0 and 2.0."""
    value = label.item() if isinstance(label, np.generic) else label
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
    """Up to four distinct labels as Python values, sorted: enough to know that there are more than two."""
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
            Setting("positive", positive),
            Phrase(
                "is not among the labels of {y}, which are {first!r} and {second!r}",
                y=Argument(name),
                first=_shown(values[0]),
                second=_shown(values[1]),
            ),
            "pass one of these",
        )
    return found[0] if found else positive


def _ask_for_positive(values: list[Any], name: str) -> NoReturn:
    if len(values) == 1:
        raise InputError(
            name,
            f"holds only the label {_shown(values[0])!r}",
            Phrase("pass {positive} with the label that counts as the event", positive=Argument("positive")),
        )
    first, second = map(_shown, values)
    raise InputError(
        name,
        f"holds the labels {first!r} and {second!r}",
        Phrase(
            "pass {second} or {first}, whichever counts as the event",
            second=Setting("positive", second),
            first=Setting("positive", first),
        ),
    )


def without_positive(error: InputError) -> InputError:
    """The error for a function without the argument ``positive``: a fix that names it is replaced by another.

    Examples
    --------
    >>> fix = Phrase("pass {one} or {two}", one=Setting("positive", "yes"), two=Setting("positive", "no"))
    >>> print(without_positive(InputError("y", "holds the labels 'no' and 'yes'", fix)))
    y holds the labels 'no' and 'yes': pass 1 for each event and 0 for the others
    """
    values = error.fix.values.values() if isinstance(error.fix, Phrase) else ()
    if not any("positive" in (getattr(each, "argument", None), getattr(each, "name", None)) for each in values):
        return error
    return InputError(error.subject, error.problem, "pass 1 for each event and 0 for the others")


def refuse_swapped(scores: Any, target: NDArray[Any], name: str) -> None:
    """Refuse scores that are all 0 or 1 beside labels of which some are fractions: they are the labels.

    One row alone may be such a row.
    """
    if len(target) > 1 and target.dtype.kind in "fO" and _look_swapped(scores, target):
        raise InputError("scores", Phrase("and {y} look swapped", y=Argument(name)), Advice.SWAP_SCORES_AND_LABELS)


def _look_swapped(scores: Any, target: NDArray[Any]) -> bool:
    try:
        if _zero_one(np.asarray(scores[:_HEAD]).reshape(-1)) is None:
            return False
        low, high = value_range(target)
        between = bool(low >= 0 and high <= 1 and ((target > 0) & (target < 1)).any())
    except (TypeError, ValueError):
        return False
    return between and _zero_one(np.asarray(scores).reshape(-1)) is not None


def warn_about_labels(s: NDArray[np.float64], labels: NDArray[np.uint8]) -> None:
    """Warn if there is only one class, and if the scores equal the labels."""
    n, events = labels.size, int(np.count_nonzero(labels))
    if events in (0, n):
        warn(one_class(events, n))
    elif n >= 3:
        for written, code in _LEAKS.items():
            if np.array_equal(s[:_HEAD], code(labels[:_HEAD])) and np.array_equal(s, code(labels)):
                warn(scores_equal_labels(written))


_LEAKS: dict[str, Callable[[NDArray[np.uint8]], NDArray[Any]]] = {
    "0/1": lambda labels: labels,
    "1/0": lambda labels: 1 - labels,
    "-1/1": lambda labels: 2.0 * labels - 1,
}
