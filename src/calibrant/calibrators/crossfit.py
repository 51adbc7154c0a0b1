"""Out-of-fold calibrated scores, to evaluate a calibrator on the rows that it is fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.columns import check_whole, width
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.segments import SegmentCalibrator
from calibrant.fits.segments.counts import By, segment_keys
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats
from calibrant.reading import Given, read
from calibrant.selection.folds import forward_folds
from calibrant.tallies import ends_of_rows

Folds = Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]


def crossfit(
    calibrator: Calibrator | None,
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    by: By | None = None,
    cv: int = 5,
    weight_type: Literal["importance", "frequency"] = "importance",
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    score_type: ScoreType | MulticlassScoreType | None = None,
    random_state: int = 0,
) -> Floats:
    """Out-of-fold calibrated scores: each row is mapped by a fit to other rows.

    Rows are split into ``cv`` random folds, stratified if there are two classes, or by whole ``groups``. With ``time``,
    the rows are cut into ``cv + 1`` periods and every period is mapped by a fit to the periods before it; the first has
    no past and is NaN. Rows with the same timestamp stay together. With ``time`` and ``groups``, the fit also leaves
    out earlier rows of the groups that it is applied to. Scores of exactly 0 and 1 are read in the same way in every
    fold, from the scores of all rows.

    Use the result to evaluate losses and calibration, not ranking: every fold has its own map, so the AUC of pooled
    folds can differ from that of the scores although no map changes the order.

    Parameters
    ----------
    calibrator
        Any calibrator, which is cloned for each fold: of one score, or of several classes for a matrix. None for the
        automatic choice.
    scores, y, sample_weight, weight_type, positive, score_type
        The rows, as in :meth:`BinaryCalibrator.fit` or :meth:`MulticlassCalibrator.fit`. If ``y`` is a matrix of 0 and
        1 with one column per label, each label is a binary problem of its own, and the calibrator is of one score.
    by
        Segments of the rows, for a calibrator by segment.
    cv
        Number of folds.
    groups, time
        Group and timestamp of each row.
    classes
        For a matrix: the labels in the order of the columns, if they cannot be read from ``y`` or a frame.
    random_state
        Seed of random folds.

    Returns
    -------
    ndarray
        One probability per row, or one column per class or label; NaN for rows without a map or with weight 0.

    Notes
    -----
    Guarantee: no finite-sample guarantee; a loss computed from the result is that of fits to (cv - 1) / cv of the rows.

    Examples
    --------
    >>> from calibrant.calibrators.binary.scaling import PlattScaling
    >>> crossfit(PlattScaling(), [0.1, 0.4, 0.5, 0.9], [0, 1, 0, 1], cv=2, time=[1, 2, 3, 4]).shape
    (4,)
    >>> from calibrant.calibrators.temperature import TemperatureScaling
    >>> matrix = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]] * 4
    >>> crossfit(TemperatureScaling(), matrix, [0, 1, 2, 1, 1, 2, 0, 2, 0, 0, 1, 1], cv=2).shape
    (12, 3)
    """
    check_whole("cv", cv, 2)
    plan: dict[str, Any] = {"cv": cv, "random_state": random_state}
    settings: dict[str, Any] = {"weight_type": weight_type, "positive": positive, "classes": classes}
    sides: dict[str, Any] = {"by": by, "groups": groups, "time": time}
    given = read(scores, y, sample_weight, call="crossfit", most=None, **sides, score_type=score_type, **settings)
    if given.kind == "labels":
        one = AutoCalibrator(random_state=random_state) if calibrator is None else calibrator
        columns = [
            crossfit(one, s, label, given.sample_weight, by=given.by or None, **plan, weight_type=weight_type,
                     groups=given.groups, time=given.time, score_type=score_type)
            for s, label in zip(given.scores.T, given.y.T, strict=True)
        ]  # fmt: skip
        return np.column_stack(columns)
    if _of_classes(calibrator, given):
        chosen = MulticlassAutoCalibrator(random_state=random_state) if calibrator is None else calibrator
        _refuse_binary_options(by=by, positive=positive)
        rows: Any = chosen._checked_rows(given.scores, given.y, given.sample_weight, **given.described)
        out = _crossed(rows, lambda train, test: _classes(chosen, rows, train, test), plan)
    else:
        if classes is not None and width(given.scores) < 2:
            raise InputError("classes", "are for a matrix with one column per class", "pass that, or leave them out")
        out = _one_score(calibrator, given, plan)
    return out if given.kept is None else _spread(out, given.kept)


def _of_classes(calibrator: Calibrator | None, given: Given) -> bool:
    """Whether the rows are fitted as those of several classes; two columns are one score where the method takes one."""
    columns = width(given.scores)
    if isinstance(calibrator, MulticlassCalibrator) and not isinstance(calibrator, BinaryCalibrator):
        if columns < 2:
            raise InputError(
                "calibrator",
                f"must be a calibrator of one score, not {calibrator!r}, since scores is one column",
                "pass one such as PlattScaling(), or a matrix of class scores",
            )
        return True
    if given.kind != "classes" or calibrator is None or isinstance(calibrator, MulticlassCalibrator):
        return given.kind == "classes"
    raise InputError(
        "calibrator",
        f"must be a calibrator of several classes for a matrix, not {calibrator!r}",
        f'pass one such as TemperatureScaling(), or Reduction("class-wise", {calibrator!r})',
    )


def _refuse_binary_options(**given: object) -> None:
    instead = {
        "by": "call crossfit on the rows of each segment",
        "positive": "pass classes, the labels in the order of the columns",
    }
    for name, value in given.items():
        if value is not None:
            raise InputError(name, "cannot be combined with a matrix of class scores", instead[name])


def _one_score(calibrator: Calibrator | None, given: Given, plan: dict[str, Any]) -> Floats:
    if calibrator is None:
        calibrator = SegmentCalibrator() if given.by else AutoCalibrator()
    if not given.by:
        check_calibrator(calibrator)
    elif not isinstance(calibrator, SegmentCalibrator):
        raise InputError("by", f"needs a calibrator by segment, not {calibrator!r}", "pass SegmentCalibrator()")
    rows = given.rows()
    if not given.by:
        return _crossed(rows, lambda train, test: _scores(calibrator, rows, train, test), plan)
    keys = segment_keys(given, len(rows.scores))
    names = {name: np.array([*each.names, None], dtype=object)[each.codes] for name, each in keys.items()}

    def mapped(train: NDArray[np.intp], test: NDArray[np.intp]) -> Floats:
        fold = clone(calibrator).fit(
            rows.scores[train], rows.labels[train], {name: column[train] for name, column in names.items()},
            **_weights(rows, train), score_type=rows.score_type,
        )  # fmt: skip
        there = {name: column[test] for name, column in names.items()}
        return np.asarray(fold.transform(rows.scores[test], by=there))

    return _crossed(rows, mapped, plan)


def _weights(rows: Rows, part: NDArray[np.intp]) -> dict[str, Any]:
    weights = None if rows.weights is None else rows.weights[part]
    return {"sample_weight": weights, "weight_type": "frequency" if rows.counts else "importance"}


def _scores(calibrator: Any, rows: Rows, train: NDArray[np.intp], test: NDArray[np.intp]) -> Floats:
    fold = clone(calibrator)
    fold._whole_ends = ends_of_rows(rows)
    fold.fit(rows.scores[train], rows.labels[train], **_weights(rows, train), score_type=rows.score_type)
    return np.asarray(fold.transform(rows.scores[test]))


def _classes(calibrator: Any, rows: MulticlassRows, train: NDArray[np.intp], test: NDArray[np.intp]) -> Floats:
    return np.asarray(clone(calibrator)._fit_rows(rows.take(train)).map_.apply(rows.scores[test]))


Mapped = Callable[[NDArray[np.intp], NDArray[np.intp]], Floats]


def _crossed(rows: Rows | MulticlassRows, mapped: Mapped, plan: dict[str, Any]) -> Floats:
    """The results of all folds in the order of the rows."""
    out: Floats | None = None
    for train, test in _folds(rows, **plan):
        found = mapped(train, test)
        out = np.full((len(rows.labels), *found.shape[1:]), np.nan) if out is None else out
        out[test] = found
    assert out is not None
    return out


def _folds(rows: Rows | MulticlassRows, cv: int, random_state: int) -> Folds:
    if rows.time is not None:
        return _forward(rows, cv)
    if rows.groups is not None:
        distinct = len(np.unique(rows.groups))
        if distinct < cv:
            raise InputError(Setting("cv", cv), f"asks for more folds than there are groups, {distinct}", "lower it")
        return iter(GroupKFold(cv).split(rows.scores, rows.labels, rows.groups))
    if isinstance(rows, MulticlassRows):
        if len(rows) < cv:
            raise InputError(Setting("cv", cv), f"asks for more folds than there are rows, {len(rows)}", "lower it")
        return iter(KFold(cv, shuffle=True, random_state=random_state).split(rows.scores))
    smallest = int(min(rows.labels.sum(), len(rows.labels) - rows.labels.sum()))
    if smallest < cv:
        raise InputError(
            Setting("cv", cv),
            f"asks for more folds than there are minority-class rows, {smallest}",
            "lower it, or collect more labels",
        )
    return iter(StratifiedKFold(cv, shuffle=True, random_state=random_state).split(rows.scores, rows.labels))


def _forward(rows: Rows | MulticlassRows, cv: int) -> Folds:
    moments, when = np.unique(np.asarray(rows.time), return_inverse=True)
    if len(moments) < cv + 1:
        raise InputError(
            Setting("cv", cv), f"asks for {cv + 1} periods, but there are {len(moments)} distinct times", "lower it"
        )
    counts = np.cumsum(np.bincount(when))
    ends = np.searchsorted(counts, counts[-1] * np.arange(1, cv + 1) / (cv + 1), side="left")
    ends = np.unique(np.clip(ends, 0, len(moments) - 2))
    return forward_folds(np.searchsorted(ends, when, side="left"), rows.groups)


def _spread(out: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Results in the order of the caller's rows; rows with weight 0 are NaN."""
    full = np.full((len(kept), *out.shape[1:]), np.nan)
    full[kept] = out
    return full
