"""Out-of-fold calibrated scores, to evaluate a calibrator on the rows that it is fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold

from calibrant.arrays import Rows, ScoreType, check_rows
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
    weight_type: Literal["importance", "frequency"] = "importance",
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    positive: Any = None,
    score_type: ScoreType | None = None,
    random_state: int = 0,
) -> Floats:
    """Out-of-fold calibrated scores: each row is mapped by a fit to other rows.

    Rows are split into ``cv`` random stratified folds, or by whole ``groups``. With ``time``, the rows are cut into
    ``cv + 1`` periods and every period is mapped by a fit to the periods before it; the first has no past and is NaN.
    Rows with the same timestamp stay together. Scores of exactly 0 and 1 are read in the same way in every fold, from
    the scores of all rows.

    Use the result to evaluate losses and calibration, not ranking: every fold has its own map, so the AUC of pooled
    folds can differ from that of the scores although no map changes the order.

    Parameters
    ----------
    calibrator
        Any binary calibrator; it is cloned for each fold.
    scores, y, sample_weight, weight_type, positive, score_type
        The rows, as in :meth:`BinaryCalibrator.fit`.
    cv
        Number of folds.
    groups, time
        Group or timestamp of each row; pass at most one of them.
    random_state
        Seed of random folds.

    Returns
    -------
    ndarray
        One probability per row; NaN for rows without a map or with weight 0.

    Notes
    -----
    Guarantee: no finite-sample guarantee; a loss computed from the result is that of fits to (cv - 1) / cv of the rows.

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
    rows = check_rows(
        scores,
        y,
        sample_weight,
        weight_type=weight_type,
        groups=groups,
        time=time,
        positive=positive,
        score_type=score_type,
    )
    out = np.full(len(rows.scores), np.nan)
    for train, test in _folds(rows, cv, random_state):
        fold = clone(calibrator)
        fold._whole_ends = ends_of_rows(rows)
        fold.fit(
            rows.scores[train],
            rows.labels[train],
            None if rows.weights is None else rows.weights[train],
            weight_type="frequency" if rows.counts else "importance",
            score_type=rows.score_type,
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
            f"asks for more folds than there are minority-class rows, {smallest}",
            "lower it, or collect more labels",
        )
    return iter(StratifiedKFold(cv, shuffle=True, random_state=random_state).split(rows.scores, rows.labels))


def _forward(time: NDArray[Any], cv: int) -> Folds:
    moments, when = np.unique(time, return_inverse=True)
    if len(moments) < cv + 1:
        raise InputError(
            Setting("cv", cv), f"asks for {cv + 1} periods, but there are {len(moments)} distinct times", "lower it"
        )
    counts = np.cumsum(np.bincount(when))
    ends = np.searchsorted(counts, counts[-1] * np.arange(1, cv + 1) / (cv + 1), side="left")
    ends = np.unique(np.clip(ends, 0, len(moments) - 2))
    for start, stop in zip(ends, np.append(ends[1:], len(moments) - 1), strict=True):
        yield np.flatnonzero(when <= start), np.flatnonzero((when > start) & (when <= stop))


def _spread(out: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Results in the order of the caller's rows; rows with weight 0 are NaN."""
    full = np.full(len(kept), np.nan)
    full[kept] = out
    return full
