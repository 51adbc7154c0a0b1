"""Checks of scores, outcomes and features of a stream, one row at a time or in columns."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from reprlib import Repr
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import CHUNK, is_missing, read_column, read_floats, refuse_other_order
from calibrant.arrays.keys import key_text
from calibrant.arrays.labels import refuse_swapped
from calibrant.arrays.score_types import PROBABILITY_ENDS, read_probabilities
from calibrant.messages import InputError
from calibrant.numerics import Floats

MARGINS = "leave out rows without a score, and convert margins with a sigmoid first"

UNKNOWN = "leave out rows whose outcome is not known yet"

BETWEEN = "0 or 1, or a number between them,"

MAX_TEXT = 80
"""Largest number of characters of a value shown in an error."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = MAX_TEXT  # of one entry


def one_score(score: Any) -> float:
    """A score as a float in [0, 1]; anything that ``float`` accepts as one number, except text."""
    x, (low, high) = _real(score), PROBABILITY_ENDS
    if x is None or not low <= x <= high:
        fix = "pass one number" if x is None else MARGINS
        raise InputError("score", f"must be a probability in [0, 1], not {shown(score)}", fix)
    return min(max(x, 0.0), 1.0)


def one_label(label: Any, bounded: bool) -> float:
    """An outcome as 0.0 or 1.0, or as a float in [0, 1] if ``bounded``."""
    y = _outcome(label, bounded)
    if y is None:
        what = BETWEEN if bounded else "0 or 1"
        raise InputError("label", f"must be {what.rstrip(',')}, not {shown(label)}", _remedy(label, bounded))
    return y


def _outcome(label: Any, bounded: bool) -> float | None:
    """The outcome, or None if the label is invalid."""
    y = _real(label)
    return y if y is not None and (0.0 <= y <= 1.0 if bounded else y in (0.0, 1.0)) else None


def _real(value: Any) -> float | None:
    """One number as a float; None for text, complex numbers, masked values and arrays with axes."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]  # the value inside, which may be text
    if isinstance(value, str | bytes | bytearray | complex | np.complexfloating | np.ma.MaskedArray):
        return None
    shape: Any = getattr(value, "shape", ())
    if shape:
        return None
    try:
        return float(value)
    except Exception:  # foreign objects may raise anything
        return None


def many_scores(scores: ArrayLike) -> Floats:
    """Scores as an array of float64 in [0, 1]."""
    shape: tuple[int, ...] = getattr(scores, "shape", ())
    if len(shape) == 2 and shape[1] != 1:
        raise InputError("scores", f"has shape {shape}", "pass one column, or use OnlineMulticlass for several classes")
    found: Floats = read_floats(scores, "scores")
    if found.size and not (found.min() >= 0.0 and found.max() <= 1.0):  # false for NaN too; no temporary arrays
        read = read_probabilities(found)
        if np.isnan(read).any():
            place = int(np.argmax(np.isnan(read)))
            raise InputError("scores", f"must be probabilities in [0, 1], but row {place} has {found[place]}", MARGINS)
        return read
    return found


def many_labels(labels: ArrayLike, scores: ArrayLike, bounded: bool) -> Floats:
    """Outcomes, one for each score, as an array of 0.0 and 1.0, or of floats in [0, 1] if ``bounded``."""
    refuse_unpaired(scores, labels, "labels")
    raw = read_column(labels, "labels")
    refuse_swapped(scores, raw, "labels")
    found = _as_outcomes(raw, bounded)
    if not _all_outcomes(found, bounded):
        right = (found >= 0.0) & (found <= 1.0) if bounded else (found == 0.0) | (found == 1.0)
        place = int(np.argmin(right))
        value = raw[place : place + 1].tolist()[0]
        what = BETWEEN if bounded else "0 or 1"
        raise InputError(
            "labels",
            f"must be {what} in every row, but row {place} has {shown(value)}",
            _remedy(value, bounded),
        )
    n = len(scores) if isinstance(scores, Sized) else np.size(scores)  # a list is not made an array again
    if len(raw) != n:
        raise InputError("labels", f"has {len(raw)} rows but scores has {n}", "pass one for each score")
    return np.asarray(found, dtype=np.float64)


def refuse_unpaired(scores: object, others: object, name: str) -> None:
    """Reject a column or frame whose index is that of the scores in another order."""
    try:
        refuse_other_order(scores, others)
    except InputError:
        raise InputError(
            name,
            "has the same index as scores in another order, but rows are matched by position",
            f"pass {name}.loc[scores.index]",
        ) from None


def _as_outcomes(raw: NDArray[Any], bounded: bool) -> NDArray[Any]:
    """Numbers unchanged; objects as outcomes; NaN for invalid ones."""
    if raw.dtype.kind in "biuf":
        return raw
    if raw.dtype.kind != "O":
        return np.full(len(raw), np.nan)
    found = (_outcome(value, bounded) for value in raw.tolist())
    return np.array([np.nan if y is None else y for y in found], dtype=np.float64)


def _all_outcomes(raw: NDArray[Any], bounded: bool) -> bool:
    for start in range(0, len(raw), CHUNK):
        part = raw[start : start + CHUNK]
        if bounded and not (part.min() >= 0 and part.max() <= 1):
            return False
        if not bounded and np.count_nonzero(part == 0) + np.count_nonzero(part == 1) != len(part):
            return False
    return True


def _remedy(value: Any, bounded: bool) -> str:
    """How to fix a value that is not an outcome."""
    if value is np.ma.masked or (not hasattr(value, "__len__") and is_missing(value)):
        return UNKNOWN
    if _real(value) is None and not isinstance(value, str | bytes):
        return "pass one value per row" if hasattr(value, "__len__") else "pass the outcome as a number"
    if not bounded and 0.0 < (_real(value) or 0.0) < 1.0:
        return "this forecaster counts events: for fractions use OnlinePlatt, Tracking or TwoChoices, among others"
    other = ", or scale it to [0, 1]" if bounded and _real(value) is not None else ""
    return f"pass 1 for each event and 0 for the others{other}"


def shown(value: Any) -> str:
    """A value in one short line; type and shape for arrays.

    Examples
    --------
    >>> shown("yes"), shown(np.zeros((2, 3))), shown(list(range(100)))
    ("'yes'", 'ndarray of shape (2, 3)', '[0, 1, 2, 3, 4, 5, ...]')
    """
    shape: Any = getattr(value, "shape", ())
    if shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    text = " ".join(_SHORT.repr(value).split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def many_features(features: ArrayLike | None, scores: ArrayLike, n: int) -> Sequence[Any]:
    """One row of features for each of the n scores, or None for each."""
    if features is None:
        return [None] * n
    refuse_unpaired(scores, features, "features")
    try:
        rows = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "features", "must be numbers, with a row for each score and a column for each feature"
        ) from None
    if rows.ndim != 2:
        raise InputError(
            "features", f"must have a row for each score and a column for each feature, got {rows.ndim} axes"
        )
    if len(rows) != n:
        raise InputError("features", f"has {len(rows)} rows but scores has {n}", "pass one for each score")
    return list(rows)


def name_text(name: Any) -> str:
    """The name of a column or entry as text."""
    try:
        return key_text(name, "name") or ""
    except InputError:  # not a valid name of a class or feature
        return str(name)
