"""Out-of-fold calibrated scores: the honest way to see what a calibrator does to the rows at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold

from calibrant.arrays import Kind, Rows, check_rows
from calibrant.arrays.columns import read_numbers
from calibrant.calibrators.base import BinaryCalibrator, check_calibrator
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats
from calibrant.selection.folds import check_one_split
from calibrant.tallies import ends_of_rows

Folds = Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]


def crossfit(
    calibrator: BinaryCalibrator,
    scores: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    cv: int = 5,
    weights: Literal["importance", "counts"] = "importance",
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    positive: Any = None,
    kind: Kind | None = None,
    random_state: int = 0,
) -> Floats:
    """Calibrated score of each row by a map that did not see it.

    Rows are split into ``cv`` folds, by label at random, or by whole ``groups``. With ``time`` the rows are cut into
    ``cv + 1`` stretches of time and every stretch is mapped by the ones before it; the first has no past and is NaN.
    Rows of equal time stay together, so no map sees its own moment. Scores of exactly 0 and 1 are read alike in every
    fold, from the scores of all rows.

    Judge losses and calibration by the result, not its ranking: every fold has a map of its own, so the AUC of pooled
    folds can differ from that of the scores although no map changes an order.

    Examples
    --------
    >>> from calibrant.calibrators.binary.scaling import PlattScaling
    >>> crossfit(PlattScaling(), [0.1, 0.4, 0.5, 0.9], [0, 1, 0, 1], cv=2, time=[1, 2, 3, 4]).shape
    (4,)
    """
    check_calibrator(calibrator)
    check_one_split(groups, time)
    if cv < 2:
        raise InputError("cv", f"must be at least 2 folds, got {cv}")
    rows = check_rows(scores, y, sample_weight, weights=weights, groups=groups, time=time, positive=positive, kind=kind)
    out = np.full(len(rows.scores), np.nan)
    for train, test in _folds(rows, cv, random_state):
        fold = clone(calibrator)
        fold._whole_ends = ends_of_rows(rows)
        fold.fit(
            rows.scores[train],
            rows.labels[train],
            None if rows.weights is None else rows.weights[train],
            weights="counts" if rows.counts else "importance",
            kind=rows.kind,
        )
        out[test] = fold.transform(rows.scores[test])
    return out if sample_weight is None else _spread(out, read_numbers(sample_weight, "sample_weight") > 0)


def _folds(rows: Rows, cv: int, random_state: int) -> Folds:
    if rows.time is not None:
        return _forward(rows.time, cv)
    if rows.groups is not None:
        distinct = len(np.unique(rows.groups))
        if distinct < cv:
            raise InputError(Setting("cv", cv), f"asks for more folds than there are groups, {distinct}", "lower it")
        return iter(GroupKFold(cv).split(rows.scores, rows.labels, rows.groups))
    smallest = int(min(rows.labels.sum(), len(rows.labels) - rows.labels.sum()))
    if smallest < cv:
        raise InputError(
            Setting("cv", cv),
            f"asks for more folds than the rarer class has rows, {smallest}",
            "lower it, or collect more labels",
        )
    return iter(StratifiedKFold(cv, shuffle=True, random_state=random_state).split(rows.scores, rows.labels))


def _forward(time: NDArray[Any], cv: int) -> Folds:
    moments, when = np.unique(time, return_inverse=True)
    if len(moments) < cv + 1:
        raise InputError(
            Setting("cv", cv), f"asks for {cv + 1} periods, and there are {len(moments)} distinct times", "lower it"
        )
    counts = np.cumsum(np.bincount(when))
    ends = np.searchsorted(counts, counts[-1] * np.arange(1, cv + 1) / (cv + 1), side="left")
    ends = np.unique(np.clip(ends, 0, len(moments) - 2))
    for start, stop in zip(ends, np.append(ends[1:], len(moments) - 1), strict=True):
        yield np.flatnonzero(when <= start), np.flatnonzero((when > start) & (when <= stop))


def _spread(out: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Put results back to the caller's rows; those of weight 0 were not rows and stay NaN."""
    full = np.full(len(kept), np.nan)
    full[kept] = out
    return full
