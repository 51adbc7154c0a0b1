"""Check rows (scores, labels, weights) and scores alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import (
    check_length,
    check_option,
    read_floats,
    refuse_empty,
    refuse_infinite,
    refuse_not_finite,
    refuse_other_order,
    value_range,
    without_negative_zero,
)
from calibrant.arrays.labels import encode_labels, label_column, warn_about_labels
from calibrant.arrays.score_types import ScoreType, refuse_outside, settle_kind
from calibrant.arrays.sides import check_time, check_weights, side_column
from calibrant.messages import Advice, Note, note

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

    @property
    def notes(self) -> tuple[Note, ...]:
        """All that was guessed or converted."""
        return (*self.kind_notes, *self.other_notes)


def check_rows(
    scores: object,
    y: object,
    sample_weight: object = None,
    *,
    weight_type: Literal["importance", "frequency"] = "importance",
    groups: object = None,
    time: object = None,
    positive: object = None,
    score_type: ScoreType | None = None,
) -> Rows:
    """Check one score column and its labels, and whatever else describes the rows.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, 1)
        Finite numbers, in any real dtype.
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
    score_type : {"probability", "logit", "real"}, optional
        What the scores are. Guessed by :func:`sniff_kind` when not given.

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
    s = read_floats(scores, "scores")
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

    found, kind_notes = settle_kind(s, score_type, low, high)
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
        other_notes=(*label_notes, *weight_notes, *time_notes),
        kind_notes=kind_notes,
    )


def check_scores(
    scores: object, score_type: ScoreType, *, name: str = "scores"
) -> NDArray[np.float32] | NDArray[np.float64]:
    """Check scores that a fitted map is about to be applied to.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, 1)
        Numbers; may be empty. float32 stays float32, every other dtype becomes float64.
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
        On infinities, on masked arrays, and on probabilities outside [0, 1].

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
    s = read_floats(scores, name, keep_float32=True)
    if s.size == 0:
        return s
    low, high = value_range(s)
    if math.isnan(low):  # the range of the scores that are there; NaN again when none is
        low, high = float(np.fmin.reduce(s)), float(np.fmax.reduce(s))
    if math.isinf(low) or math.isinf(high):
        refuse_infinite(s, name, Advice.DROP_OR_REPAIR_SCORES)
    if score_type == "probability" and (low < 0 or high > 1):
        refuse_outside(s, low, high, name, fitted=True)
    return without_negative_zero(s, low)
