"""Check rows (scores, labels, weights) and scores alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import (
    check_length,
    check_option,
    read_column,
    read_floats,
    refuse_empty,
    refuse_infinite,
    refuse_not_finite,
    refuse_other_order,
    value_range,
    width,
    without_negative_zero,
)
from calibrant.arrays.labels import LabelType, encode_labels, label_column, warn_about_labels
from calibrant.arrays.score_types import ScoreType, settled, within
from calibrant.arrays.sides import Ratio, RatioWeights, check_time, check_weights, integer_weights, side_column
from calibrant.messages import Advice, Argument, InputError, Note, Phrase, Setting, note

labels_as_fractions = note(
    "labels-as-fractions",
    "labels are fractions: each {nouns.row} counts as an event and a non-event, which share its weight",
)
rows_without_weight = note("rows-without-weight", "{dropped} of {n} {nouns.rows} have weight zero and were dropped")


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows, as :func:`check_rows` returns them; rows of weight zero are dropped.

    Attributes
    ----------
    scores : ndarray of float64
        Contiguous and finite; a negative zero is stored as 0.0. Shares memory with the caller's array where possible.
    labels : ndarray of uint8
        0 or 1.
    weights : ndarray of int64 or float64, or None
        int64 for frequency weights, otherwise float64 above zero; None means that every row counts once.
    counts : bool
        True when `weights` is None or frequency weights: only then do finite-sample guarantees hold.
    groups, time : ndarray or None
        One value per row, none of them missing.
    score_type : {"probability", "logit", "real"}
        What the scores are.
    ratio : Ratio or None
        If the weights are a density ratio: its upper bound, and whether it is known.
    fractional : bool
        Whether labels were fractions: each row is then here as an event and as a non-event, in one group.
    column, columns
        Place of the event's column and names of both, if scores had two columns.
    other_notes, kind_notes : tuple of Note
        What was guessed or converted; ``kind_notes`` are about the type of the scores.
    """

    scores: NDArray[np.float64]
    labels: NDArray[np.uint8]
    weights: NDArray[np.int64] | NDArray[np.float64] | None
    counts: bool
    groups: NDArray[Any] | None
    time: NDArray[Any] | None
    score_type: ScoreType
    other_notes: tuple[Note, ...]
    kind_notes: tuple[Note, ...] = ()
    ratio: Ratio | None = None
    fractional: bool = False
    column: int = 1
    columns: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """All that was guessed or converted."""
        return (*self.kind_notes, *self.other_notes)

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some of the rows, by index or boolean mask."""

        def part(a: Any) -> Any:
            return None if a is None else a[rows]

        return replace(
            self,
            scores=self.scores[rows],
            labels=self.labels[rows],
            weights=part(self.weights),
            groups=part(self.groups),
            time=part(self.time),
        )


def check_rows(
    scores: object,
    y: object,
    sample_weight: object = None,
    *,
    weight_type: Literal["importance", "frequency"] = "importance",
    groups: object = None,
    time: object = None,
    positive: object = None,
    classes: Sequence[Any] | None = None,
    score_type: ScoreType | None = None,
    label_type: LabelType = "class",
) -> Rows:
    """Check one score column and its labels, and whatever else describes the rows.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, 1)
        Finite numbers, in any real dtype; or two columns, of probabilities that sum to 1 or of logits, of which that of
        the event is read (:func:`~calibrant.arrays.multiclass.event.event_column`).
    y : array-like of shape (n,)
        0/1, bool, -1/1, or any two values together with `positive`.
    sample_weight : array-like of shape (n,), optional
        Finite and not negative; a row of weight zero is dropped from every array.
    weight_type : {"importance", "frequency"}, default="importance"
        What `sample_weight` means. Frequency weights are repetitions of a row and must be integers below 2**53.
    groups : array-like of shape (n,), optional
        The cluster or segment of each row.
    time : array-like of shape (n,), optional
        Numbers, dates, or ISO 8601 text, which is read as UTC dates.
    positive : object, optional
        The label that counts as the event.
    classes : sequence, optional
        The labels of two columns, in their order.
    score_type : {"probability", "logit", "real"}, optional
        What the scores are. Guessed by :func:`sniff_kind` when not given.
    label_type : {"class", "fraction"}, default="class"
        ``"fraction"``: labels are numbers in [0, 1]. A row with label q becomes an event of weight q and a non-event of
        weight 1 - q, of one group.

    Returns
    -------
    Rows
        The checked arrays. The caller's arrays are never written to.

    Raises
    ------
    InputError
        When the input cannot be used; the message says how to fix it.

    Warns
    -----
    CalibrantWarning
        When the type of the scores was guessed and is not probability, when there is only one class, and when the
        scores equal the labels.

    Notes
    -----
    Missing values and infinities are looked for in all rows, those of weight zero included. Classes and the range of
    the scores are judged afterwards, so that a row of weight zero is the same as no row.

    Cost: a few passes over the data; about a fifth of sorting the scores when they are float64 and `y` is 0/1.

    Examples
    --------
    >>> from calibrant.arrays import check_rows
    >>> rows = check_rows([0.1, 0.4, 0.8], [-1, 1, 1])
    >>> rows.labels
    array([0, 1, 1], dtype=uint8)
    >>> print(*rows.notes, sep="; ")
    scores read as probabilities (all in [0, 1]); labels -1/1 read as 0/1
    """
    check_option("score_type", score_type, (*get_args(ScoreType), None))
    check_option("weight_type", weight_type, ("importance", "frequency"))
    if isinstance(sample_weight, RatioWeights) and weight_type == "frequency":
        raise InputError("sample_weight", "is a density ratio, which does not count rows", "leave weight_type out")
    check_option("label_type", label_type, get_args(LabelType))
    if label_type == "fraction":
        return _fraction_rows(scores, y, sample_weight, weight_type, groups, time, positive, score_type)
    event = event_of(scores, y, positive=positive, classes=classes, score_type=score_type)
    if event is not None:
        positive, score_type = event.positive, event.score_type
    s = read_floats(scores if event is None else event.scores, "scores")
    n = s.size
    if n == 0:
        refuse_empty("scores")
    target = label_column(y, "y")
    check_length(target, "y", n)
    refuse_other_order(scores, y)
    low, high = value_range(s)
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(s, "scores", Advice.DROP_OR_REPAIR_SCORES)
    s = without_negative_zero(s, low)
    w, weight_notes = (None, ()) if sample_weight is None else check_weights(sample_weight, weight_type, n)
    group = None if groups is None else side_column(groups, "groups", n)
    when, time_notes = (None, ()) if time is None else check_time(time, n)

    if w is not None and np.count_nonzero(w) < n:
        keep = w != 0
        s, target, w = s[keep], target[keep], w[keep]
        group = None if group is None else group[keep]
        when = None if when is None else when[keep]
        low, high = value_range(s)
        weight_notes = (*weight_notes, rows_without_weight(n - s.size, n))

    if score_type is None and not within(low, high):
        _refuse_predicted_classes(s, target)
    s, found, kind_notes = settled(s, score_type, low, high)
    labels, label_notes = encode_labels(target, positive, "y", scores=s)
    warn_about_labels(s, labels)
    return Rows(
        scores=s,
        labels=labels,
        weights=w,
        counts=w is None or weight_type == "frequency",
        groups=group,
        time=when,
        score_type=found,
        other_notes=(*(() if event is None else event.said), *label_notes, *weight_notes, *time_notes),
        kind_notes=kind_notes if event is None else event.guessed,
        ratio=sample_weight.meaning if isinstance(sample_weight, RatioWeights) else None,
        column=1 if event is None else event.column,
        columns=() if event is None else event.columns,
    )


def event_of(scores: Any, y: Any = None, **given: Any) -> Any:
    """What :func:`~calibrant.arrays.multiclass.event.event_column` finds in two columns; None for one column."""
    if width(scores) != 2:
        return None
    from calibrant.arrays.multiclass.event import event_column  # here: few calls have two columns

    return event_column(scores, y, **given)


def _refuse_predicted_classes(s: NDArray[np.float64], target: NDArray[Any]) -> None:
    """Refuse scores that are all labels of ``y``, such as 1 to 7."""
    if target.dtype.kind not in "iuf" or not np.equal(s, np.floor(s)).all():
        return
    classes = np.unique(target)
    if np.isin(np.unique(s), classes).all():
        problem = Phrase("holds labels of {y}: predicted classes, not probabilities", y=Argument("y"))
        matrix = "pass probabilities, such as model.predict_proba(X), with a column for each class"
        raise InputError("scores", problem, matrix if len(classes) > 2 else Advice.PASS_PROBABILITIES)


def _fraction_rows(
    scores: object,
    y: object,
    sample_weight: object,
    weight_type: Literal["importance", "frequency"],
    groups: object,
    time: object,
    positive: object,
    score_type: ScoreType | None,
) -> Rows:
    """Checked rows whose labels are fractions."""
    from calibrant.arrays.fractions import half_rows, twice  # here: few fits have fractions

    fraction = Setting("label_type", "fraction")
    if positive is not None:
        raise InputError("positive", Phrase("cannot be combined with {fraction}", fraction=fraction), "leave it out")
    if weight_type == "frequency":
        fix = "repeat the rows instead, or leave weight_type out"
        raise InputError("weight_type", Phrase("of counts cannot be combined with {fraction}", fraction=fraction), fix)
    if isinstance(sample_weight, RatioWeights):
        problem = Phrase("is a density ratio, which cannot be combined with {fraction}", fraction=fraction)
        raise InputError("sample_weight", problem, "pass the weights as an array")
    event = event_of(scores, score_type=score_type)
    if event is not None:
        scores, score_type = event.scores, event.score_type
    halves = half_rows(scores, y, sample_weight, groups)
    when = None if time is None else twice(read_column(time, "time"))
    sides: dict[str, Any] = {"groups": halves.groups, "time": when}
    given = check_rows(halves.scores, halves.labels, halves.weights, score_type=score_type, **sides)
    refused = {rows_without_weight.code, integer_weights.code}  # about halves of rows; counts are refused above
    kept = tuple(note for note in given.other_notes if note.code not in refused)
    kinds = given.kind_notes if event is None else (*event.guessed, *event.said)
    return replace(given, other_notes=(*kept, labels_as_fractions()), kind_notes=kinds, fractional=True)


def check_scores(
    scores: object,
    score_type: ScoreType,
    *,
    name: str = "scores",
) -> NDArray[np.float32] | NDArray[np.float64]:
    """Check scores that a fitted map is about to be applied to.

    Parameters
    ----------
    scores : array-like of shape (n,), (n, 1) or (n, 2)
        Numbers; may be empty. Of two columns the second is read. float32 stays float32, every other dtype becomes
        float64.
    score_type : {"probability", "logit", "real"}
        What the map was fitted on.
    name : str, default="scores"
        The argument's name in errors.

    Returns
    -------
    ndarray of float32 or float64
        Contiguous; shares memory with the caller's array where possible.

    Raises
    ------
    InputError
        On infinities, on masked arrays, and on probabilities outside [0, 1] by more than 1e-6; less is rounding, and
        is clipped.

    Notes
    -----
    NaN passes through, and a null (None, ``pd.NA``, a polars or pyarrow null) becomes NaN: a missing score has a
    missing probability.

    Examples
    --------
    >>> from calibrant.arrays import check_scores
    >>> check_scores([0.25, None], "probability")
    array([0.25,  nan])
    """
    check_option("score_type", score_type, get_args(ScoreType))
    event = event_of(scores, score_type=score_type, fitted=(1, ()))
    s = read_floats(scores if event is None else event.scores, name, keep_float32=True)
    if s.size == 0:
        return s
    low, high = value_range(s)
    if math.isnan(low):  # the range of the scores that are there; NaN again when none is
        low, high = float(np.fmin.reduce(s)), float(np.fmax.reduce(s))
    if math.isinf(low) or math.isinf(high):
        refuse_infinite(s, name, Advice.DROP_OR_REPAIR_SCORES)
    return without_negative_zero(settled(s, score_type, low, high, name, fitted=True)[0], low)
