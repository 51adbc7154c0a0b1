"""calibrate(): one function for all rows, by segment, by source of the scores, or for several classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

from numpy.typing import ArrayLike

from calibrant.arrays import ScoreType
from calibrant.arrays.columns import refuse_names
from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.base import refuse_places
from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
from calibrant.calibrators.segments import SegmentCalibrator, SegmentMethod
from calibrant.fits.prior_correction import BY_CLASS, IMPORTANCE, WeightType
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import Sampling
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.selection.losses import Loss
from calibrant.tallies import Tally

Fitted = AutoCalibrator | SegmentCalibrator | MulticlassAutoCalibrator
"""Result of :func:`calibrate`: a SegmentCalibrator with segments, a MulticlassAutoCalibrator for a matrix, else an
AutoCalibrator."""

SeparateMethod = Literal["shrink", "separate"]
"""Values of ``segment_method`` together with ``source``, which is always ``"separate"``."""


class Choice(TypedDict, total=False):
    """Options of the choice: keywords of every form of :func:`calibrate`."""

    candidates: Sequence[Any] | None
    loss: Loss
    cv: int
    random_state: int
    sampling: Sampling


class OneScore(Choice, total=False):
    """Keywords of the forms with one column of scores."""

    clamp: float | None
    look: int


class RowOptions(OneScore, total=False):
    """Keywords that describe rows of one score."""

    weight_type: WeightType
    positive: Any
    score_type: ScoreType | None


@overload
def calibrate(
    scores: Tally, *, guarantee: tuple[float, float] | None = None, **options: Unpack[OneScore]
) -> AutoCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: None = None,
    sample_weight: str | None = None,
    *,
    score: str,
    label: str,
    by: None = None,
    source: None = None,
    groups: str | None = None,
    time: str | None = None,
    guarantee: tuple[float, float] | None = None,
    **options: Unpack[RowOptions],
) -> AutoCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: None = None,
    sample_weight: str | None = None,
    *,
    score: str,
    label: str,
    by: str | Sequence[str],
    segment_method: SegmentMethod = "shrink",
    **options: Unpack[RowOptions],
) -> SegmentCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: None = None,
    sample_weight: str | None = None,
    *,
    score: str,
    label: str,
    source: str,
    segment_method: SeparateMethod = "separate",
    **options: Unpack[RowOptions],
) -> SegmentCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    classes: Sequence[Any],
    weight_type: WeightType = "importance",
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    score_type: MulticlassScoreType | None = None,
    **options: Unpack[Choice],
) -> MulticlassAutoCalibrator: ...


@overload
def calibrate(
    scores: Sequence[float],
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    guarantee: tuple[float, float] | None = None,
    **options: Unpack[RowOptions],
) -> AutoCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    by: None = None,
    source: None = None,
    guarantee: tuple[float, float],
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    **options: Unpack[RowOptions],
) -> AutoCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    by: None = None,
    source: None = None,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    weight_type: WeightType = "importance",
    positive: Any = None,
    score_type: ScoreType | MulticlassScoreType | None = None,
    **options: Unpack[OneScore],
) -> AutoCalibrator | MulticlassAutoCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    by: Any = None,
    source: Any = None,
    segment_method: SegmentMethod = "shrink",
    **options: Unpack[RowOptions],
) -> SegmentCalibrator: ...


def calibrate(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | str | None = None,
    *,
    by: Any = None,
    source: Any = None,
    segment_method: SegmentMethod = "shrink",
    candidates: Sequence[Any] | None = None,
    loss: Loss = "log",
    cv: int = 5,
    guarantee: tuple[float, float] | None = None,
    clamp: float | None = None,
    look: int = 1,
    random_state: int = 0,
    score: str | None = None,
    label: str | None = None,
    weight_type: WeightType = "importance",
    groups: ArrayLike | str | None = None,
    time: ArrayLike | str | None = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    score_type: ScoreType | MulticlassScoreType | None = None,
    sampling: Sampling = "independent",
) -> Fitted:
    r"""Choose and fit a calibration method, with nested estimates of its loss.

    The method is chosen by cross-validation among several candidates, including the original model. ``print`` shows
    the choice, the change in loss and whether there is a certificate.

    Parameters
    ----------
    scores
        Probabilities, log-odds or any real score: a column; a frame, if ``score`` and ``label`` name its columns; a
        :class:`Tally` alone; or a matrix or a frame with one column of scores per class.
    y
        Labels: 0/1, booleans, -1/1, or two other values with ``positive``; for a matrix the classes.
    sample_weight
        Weight of each row; with a frame the name of its column.
    by
        Segments: a column, a mapping of names to columns, or names of columns of the frame. A global map is chosen on
        all rows; then each segment gets the correction that its rows support. Not for a matrix.
    source
        Source of each score (model, prompt, wording), if scores of different sources are not comparable: a column, or
        the name of one. Each source gets a separate map, chosen on its own rows; a source with too few rows gets no
        probabilities. The same as ``by`` with ``segment_method="separate"``.
    segment_method : {"shrink", "multicalibrate", "separate"}
        How segments are fitted, see :class:`~calibrant.calibrators.segments.SegmentCalibrator`: corrections shrunk
        toward the global map; corrections only for segments that differ significantly from it; or separate maps.
    candidates : sequence of str or calibrators, optional
        Candidates to try instead of the default, simplest first; see :class:`AutoCalibrator`.
    loss : {"log", "brier"}
        Loss by which candidates are compared.
    cv : int
        Number of folds.
    guarantee : (epsilon, alpha), optional
        Choose among numbers of bins, so that with confidence 1 - alpha every bin is within epsilon of its true rate.
        If that cannot be certified, an error is raised. Not with ``by`` or ``source``, and not for a matrix.
    clamp : float, optional
        Clip probabilities to [clamp, 1 - clamp] before their log-odds are taken; see :class:`AutoCalibrator`.
    look : int
        How often a guarantee was requested on these growing rows, this time included.
    random_state : int
        Seed of the folds.
    score, label : str
        Columns of scores and labels, if ``scores`` is a frame.
    weight_type : {"importance", "frequency", "by-class"}
        Meaning of the weights: importance; repetition, which keeps every guarantee; or rows sampled by class alone, one
        weight per class, which is verified.
    groups
        Group of each row, for dependent rows such as those of one patient: an array, or the name of a column. Rows of a
        group share a fold, and no certificate is issued. Not with ``by`` or ``source``.
    time
        Timestamp of each row: every fold is evaluated by a fit to earlier rows, and no certificate is issued. Not with
        ``by`` or ``source``.
    positive
        The label of an event, if labels are not 0/1. Not for a matrix.
    classes : sequence
        For a matrix: the labels in the order of the columns, if they cannot be read from ``y`` or a frame.
    score_type : {"probability", "logit", "real"}, optional
        Type of the scores. By default it is guessed from an array, with a note, and the scores of a frame are
        probabilities. For a matrix ``"probability"``, ``"logit"`` or ``"independent"``.
    sampling : {"independent", "grouped", "time-ordered", "out-of-fold", "selected"}
        How the rows were obtained; no certificate is issued unless they are independent.

    Returns
    -------
    AutoCalibrator, SegmentCalibrator or MulticlassAutoCalibrator
        The fitted calibrator: a SegmentCalibrator with ``by`` or ``source``, a MulticlassAutoCalibrator for a matrix.
        ``print`` shows the choice and its change in loss; ``transform`` applies it; ``save`` stores it.

    Notes
    -----
    Guarantee: no finite-sample guarantee without ``guarantee``; with it, every bin is within epsilon of its true rate
    with confidence 1 - alpha, under the assumptions that the certificate lists.
    Reference: Cawley and Talbot (2010) for nested cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(3)
    >>> scores = rng.beta(2, 5, 3000)
    >>> cal = calibrate(scores, rng.random(3000) < scores)
    >>> print("\n".join(str(cal).splitlines()[:2]))
    AutoCalibrator() fitted to 3,000 probability scores with 846 events
      Keep the original model: no candidate is reliably better.
    >>> sharp = rng.dirichlet([1, 1, 1], 3000)
    >>> calm = sharp**0.5 / (sharp**0.5).sum(axis=1, keepdims=True)
    >>> cal = calibrate(sharp, [rng.choice(["cat", "dog", "fox"], p=row) for row in calm])
    >>> cal.choice_, cal.transform([[0.8, 0.1, 0.1]]).round(2).tolist()
    ('vector', [[0.6, 0.19, 0.21]])
    """
    if by is None and segment_method != "shrink" and not (source is not None and segment_method == "separate"):
        raise InputError(
            Setting("segment_method", segment_method),
            "needs segments",
            Phrase("pass them as {by}", by=Argument("by")),
        )
    if score is None and label is None and is_matrix(scores):
        if isinstance(y, str) and isinstance(sample_weight, str):
            refuse_places("calibrate", scores, y, sample_weight)
        refused = {"by": by, "source": source, "guarantee": guarantee, "positive": positive, "clamp": clamp}
        _refuse_of_classes({name: value for name, value in refused.items() if value is not None})
        chooser = MulticlassAutoCalibrator(candidates, loss=loss, cv=cv, random_state=random_state)
        sides: dict[str, Any] = {
            "weight_type": weight_type,
            "groups": groups,
            "time": time,
            "score_type": score_type,
            "sampling": sampling,
        }
        return chooser.fit(scores, **{"y": y, "sample_weight": sample_weight, "classes": classes, **sides})
    if classes is not None:
        raise InputError("classes", "are for a matrix with one column per class", "pass that, or leave them out")
    how: dict[str, Any] = {"loss": loss, "cv": cv, "guarantee": guarantee, "clamp": clamp, "look": look}
    cal = AutoCalibrator(candidates, **how, random_state=random_state)
    given = {
        "score": score,
        "label": label,
        "positive": positive,
        "score_type": score_type,
        "groups": groups,
        "time": time,
    }
    if isinstance(scores, Tally):
        given |= {"y": y, "sample_weight": sample_weight, "by": by, "source": source}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise InputError(
                extra[0],
                "cannot be combined with a tally, which already contains labels and weights",
                "pass the tally alone",
            )
        return _with_guarantee(cal.fit_tally(scores, sampling=sampling))
    if score is None and label is None:
        refuse_places("calibrate", scores, y, sample_weight)
        refuse_names("calibrate", source=source)
    if by is None and source is None:
        return _with_guarantee(cal.fit(scores, y, sample_weight, weight_type=weight_type, sampling=sampling, **given))
    if weight_type == "by-class":
        raise InputError(
            BY_CLASS, "cannot be combined with by or source", Phrase("pass {importance}", importance=IMPORTANCE)
        )
    refused = {"groups": groups, "time": time, "guarantee": guarantee}
    extra = [name for name, value in refused.items() if value is not None]
    if by is not None and source is not None:
        extra = ["source"]
    if extra:
        other = Argument("by" if by is not None else "source")
        raise InputError(extra[0], Phrase("cannot be combined with {other}", other=other), "pass one of them")
    how_apart = segment_method if source is None else "separate"
    segmented = SegmentCalibrator(cal, segment_method=how_apart, random_state=random_state)
    known = {name: given[name] for name in ("score", "label", "positive", "score_type")}
    where = by if source is None else _named(source, in_frame=score is not None)
    return segmented.fit(scores, y, where, sample_weight, weight_type=weight_type, sampling=sampling, **known)


def _refuse_of_classes(given: Mapping[str, Any]) -> None:
    """Reject arguments that cannot be combined with a matrix."""
    instead = {
        "guarantee": "use TopLabelHistogramBinning or ClasswiseHistogramBinning for a guarantee for several classes",
        "positive": "pass classes, the labels in the order of the columns",
        "clamp": "leave it out; it is chosen by cross-validation",
    }
    for name in given:
        way = instead.get(name, "calibrate each subset of the rows separately")
        raise InputError(name, "cannot be combined with a matrix of scores of several classes", way)


def _with_guarantee(cal: AutoCalibrator) -> AutoCalibrator:
    """The calibrator; an error if a guarantee was requested and there is no certificate."""
    found = None if cal.guarantee is None else cal.certificate()
    if isinstance(found, NoCertificate):
        raise InputError("guarantee", "cannot be met", found.reason)
    return cal


def _named(source: Any, *, in_frame: bool) -> Any:
    """The column of sources: a name in a frame; an array without a name is called source."""
    if in_frame:
        if not isinstance(source, str):
            raise InputError("source", "must name a column when score= and label= do", "add it to the frame first")
        return source
    named = isinstance(source, Mapping) or hasattr(source, "columns") or isinstance(getattr(source, "name", None), str)
    return source if named else {"source": source}
