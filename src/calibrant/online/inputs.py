"""Scores, outcomes and features of a stream, one at a time or in columns, checked alike."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError
from calibrant.arrays.columns import CHUNK, read_column, read_floats, refuse_other_order
from calibrant.numerics import Floats


def one_score(score: Any) -> float:
    """A score as a float in [0, 1]."""
    x = _real(score)
    if x is None or not 0.0 <= x <= 1.0:
        raise InputError(f"score must be a probability in [0, 1], not {score!r}")
    return x


def one_label(label: Any, bounded: bool) -> float:
    """An outcome as 0.0 or 1.0, or as any float in [0, 1] where outcomes are bounded."""
    y = _outcome(label, bounded)
    if y is None:
        raise InputError(f"label must be {'a number in [0, 1]' if bounded else '0 or 1'}, not {label!r}")
    return y


def _outcome(label: Any, bounded: bool) -> float | None:
    """The same, or None for what is no outcome."""
    y = _real(label)
    return y if y is not None and (0.0 <= y <= 1.0 if bounded else y in (0.0, 1.0)) else None


def _real(value: Any) -> float | None:
    if isinstance(value, float):
        return float(value)
    if isinstance(value, numbers.Real | np.bool_):
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def many_scores(scores: ArrayLike) -> Floats:
    """Scores as an array of float64 in [0, 1]."""
    shape: tuple[int, ...] = getattr(scores, "shape", ())
    if len(shape) == 2 and shape[1] != 1:
        raise InputError(f"scores has shape {shape}: pass one column; for several classes use OnlineClasses")
    found: Floats = read_floats(scores, "scores")
    if found.size and not (found.min() >= 0.0 and found.max() <= 1.0):  # false for NaN too; no temporary arrays
        place = int(np.argmin((found >= 0.0) & (found <= 1.0)))
        raise InputError(
            f"scores must be probabilities in [0, 1], but row {place} has {found[place]}: leave rows without a score "
            "out, and pass margins through a sigmoid first"
        )
    return found


def many_labels(labels: ArrayLike, scores: ArrayLike, bounded: bool) -> Floats:
    """Outcomes, one for each score, as an array of 0.0 and 1.0, or of floats in [0, 1] where outcomes are bounded."""
    refuse_other_order(scores, labels)
    raw = read_column(labels, "labels")
    if not (raw.dtype.kind in "biuf" and _all_outcomes(raw, bounded)):
        what = "numbers in [0, 1]" if bounded else "0 or 1"
        raise InputError(
            f"labels must be {what} in every row, not {_wrong(raw, bounded)!r}: leave rows out whose outcome is not "
            "known yet"
        )
    if len(raw) != np.size(scores):
        raise InputError(f"labels has {len(raw)} rows but scores has {np.size(scores)}: pass one for each")
    return np.asarray(raw, dtype=np.float64)


def _all_outcomes(raw: NDArray[Any], bounded: bool) -> bool:
    for start in range(0, len(raw), CHUNK):
        part = raw[start : start + CHUNK]
        if bounded and not (part.min() >= 0 and part.max() <= 1):
            return False
        if not bounded and np.count_nonzero(part == 0) + np.count_nonzero(part == 1) != len(part):
            return False
    return True


def _wrong(raw: NDArray[Any], bounded: bool) -> Any:
    """The first value that is no outcome."""
    return next((x for x in raw.tolist() if _outcome(x, bounded) is None), raw[0])


def many_features(features: ArrayLike | None, n: int) -> Sequence[Any]:
    """One row of features for each score, or None for each."""
    if features is None:
        return [None] * n
    try:
        rows = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("features must be numbers, a row for each score and a column for each feature") from None
    if rows.ndim != 2:
        raise InputError(f"features must have a row for each score and a column for each feature, not {rows.ndim} axes")
    if len(rows) != n:
        raise InputError(f"features has {len(rows)} rows but scores has {n}: pass one for each")
    return list(rows)
