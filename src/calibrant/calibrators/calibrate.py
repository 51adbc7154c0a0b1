"""calibrate(): one function for all rows, by segment, by source of the scores, or for several classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

from numpy.typing import ArrayLike

from calibrant.arrays import ScoreType
from calibrant.arrays.columns import width
from calibrant.arrays.labels import LabelType
from calibrant.arrays.multiclass.rows import read_matrix
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
from calibrant.calibrators.multiclass.multilabel import MultilabelCalibrator
from calibrant.calibrators.multiclass.segments import MulticlassSegmentCalibrator
from calibrant.calibrators.segments import SegmentCalibrator, SegmentMethod
from calibrant.fits.prior_correction import BY_CLASS, IMPORTANCE, WeightType
from calibrant.guarantees.provenance import Sampling
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.reading import Table, read
from calibrant.selection.guarantee import Wish
from calibrant.selection.losses import Loss
from calibrant.tallies import GroupedTally, Tally

Fitted = (
    AutoCalibrator | SegmentCalibrator | MulticlassAutoCalibrator | MulticlassSegmentCalibrator | MultilabelCalibrator
)
"""Result of :func:`calibrate`: a SegmentCalibrator with segments, a MulticlassAutoCalibrator for a matrix, a
MulticlassSegmentCalibrator for a matrix with segments, a MultilabelCalibrator for several labels, else an
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
    label_type: LabelType
    positive: Any
    score_type: ScoreType | None


@overload
def calibrate(scores: Tally, *, guarantee: Wish | None = None, **options: Unpack[OneScore]) -> AutoCalibrator: ...


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
    guarantee: Wish | None = None,
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
    groups: str | None = None,
    time: str | None = None,
    guarantee: Wish | None = None,
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
    groups: str | None = None,
    time: str | None = None,
    guarantee: Wish | None = None,
    **options: Unpack[RowOptions],
) -> SegmentCalibrator: ...


@overload
def calibrate(
    scores: GroupedTally,
    *,
    by: str | Sequence[str] | None = None,
    segment_method: SegmentMethod = "shrink",
    guarantee: Wish | None = None,
    **options: Unpack[OneScore],
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
    guarantee: Wish | None = None,
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
    guarantee: Wish,
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
) -> AutoCalibrator | MulticlassAutoCalibrator | MultilabelCalibrator: ...


@overload
def calibrate(
    scores: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    by: Any = None,
    source: Any = None,
    segment_method: SegmentMethod = "shrink",
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    guarantee: Wish | None = None,
    classes: Sequence[Any] | None = None,
    **options: Unpack[RowOptions],
) -> SegmentCalibrator | MulticlassSegmentCalibrator: ...


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
    guarantee: Wish | None = None,
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
    label_type: LabelType = "class",
) -> Fitted:
    r"""Choose and fit a calibration method, with nested estimates of its loss.

    The method is chosen by cross-validation among several candidates, including the original model. ``print`` shows
    the choice, the change in loss and whether there is a certificate.

    Parameters
    ----------
    scores
        Probabilities, log-odds or any real score: a column; a frame, if ``score`` and ``label`` name its columns; a
        :class:`Tally` alone; tallies by segment (a :class:`GroupedTally`, such as a window of a tally store); or
        a matrix or a frame with one column of scores per class; two columns are one event, that of the second or of
        ``positive``.
    y
        Labels: 0/1, booleans, -1/1, or two other values with ``positive``; for a matrix the classes. A matrix of 0 and
        1 with one column per label is a multi-label target: each label is calibrated as a binary problem. It is read as
        one-hot rows of classes if each row has exactly one 1, and the scores of a row sum to 1 or are logits.
    sample_weight
        Weight of each row; with a frame the name of its column.
    by
        Segments: a column, a mapping of names to columns, or names of columns of the frame. A global map is chosen on
        all rows; then each segment gets the correction that its rows support. For a matrix one column, which is passed
        as such.
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
    guarantee : float or (epsilon, alpha), optional
        Choose among numbers of bins, so that with confidence 1 - alpha (95 % if only epsilon is given) every bin is
        within epsilon of its true rate. The map that is saved and exported is then the certified one. If no number of
        bins meets it, the error names the smallest epsilon that these rows allow, which may then be passed, and about
        how many labels the wish needs. With ``by`` or ``source`` each segment gets separate bins and an equal share of
        alpha; segments that cannot meet it get no probability, and the others hold simultaneously. Not for importance
        weights, ``groups``, ``time``, or a matrix of three columns or more.
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
        group share a fold, and no certificate is issued: the theorems are for exchangeable rows.
    time
        Timestamp of each row: every fold is evaluated by a fit to earlier rows, with ``groups`` to earlier rows of
        other groups, and no certificate is issued.
    positive
        The label of an event, if labels are not 0/1. Not for a matrix of three columns or more.
    classes : sequence
        For a matrix: the labels in the order of the columns, if they cannot be read from ``y`` or a frame.
    score_type : {"probability", "logit", "real"}, optional
        Type of the scores. By default it is guessed from an array, with a note, and the scores of a frame are
        probabilities. For a matrix ``"probability"``, ``"logit"`` or ``"independent"``.
    sampling : {"independent", "grouped", "time-ordered", "out-of-fold", "selected"}
        How the rows were obtained; no certificate is issued unless they are independent.
    label_type : {"class", "fraction"}
        ``"fraction"`` if labels of one score are numbers in [0, 1], as in :meth:`AutoCalibrator.fit`; not with ``by``
        or ``source``.

    Returns
    -------
    AutoCalibrator, SegmentCalibrator, MulticlassAutoCalibrator, MulticlassSegmentCalibrator or MultilabelCalibrator
        The fitted calibrator: a SegmentCalibrator with ``by`` or ``source``, a MulticlassAutoCalibrator for a matrix, a
        MulticlassSegmentCalibrator for a matrix with ``by``, a MultilabelCalibrator for several labels.
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
    if by is not None and source is not None:
        raise InputError(
            "source",
            Phrase("cannot be combined with {by}", by=Argument("by")),
            "join both into one column, and pass it as one of them",
        )
    settings: dict[str, Any] = {"positive": positive, "classes": classes, "score_type": score_type}
    sides: dict[str, Any] = {"score": score, "label": label, "groups": groups, "time": time}
    if source is not None and isinstance(scores, Tally):
        raise InputError("source", "cannot be combined with a tally of all rows", "pass a GroupedTally")
    where = by if source is None else _named(source, by_name=isinstance(source, str))
    try:
        given = read(
            scores, y, sample_weight, call="calibrate", by=None if isinstance(scores, GroupedTally) else where, **sides,
            **settings, weight_type=weight_type, label_type=label_type, most=0,
        )  # fmt: skip
    except InputError as error:
        asked = source is not None and error.argument == "by"
        named = Setting("source", source) if isinstance(source, str) else "source"
        raise (error.about(named) if asked else error) from None
    if given.kind == "tally":
        _refuse_with_tally({**settings, "label_type": None if label_type == "class" else label_type})
    cal = AutoCalibrator(
        candidates, loss=loss, cv=cv, guarantee=guarantee, clamp=clamp, look=look, random_state=random_state
    )
    segmented = _segmented(cal, segment_method if source is None else "separate")
    if isinstance(scores, GroupedTally):
        return segmented.fit_tally(scores, where, sampling=sampling)
    if given.kind == "tally":
        return cal.fit_tally(given.scores, sampling=sampling)
    described = {name: getattr(given, name) for name in ("sample_weight", "weight_type", "groups", "time")}
    if given.kind in ("classes", "labels"):
        fractions = None if label_type == "class" else label_type
        refused = {"source": source, "guarantee": guarantee, "positive": positive, "clamp": clamp}
        _refuse_of_classes({**refused, "label_type": fractions}, given.kind == "labels")
        matrix: dict[str, Any] = {"y": given.y, **described, "sampling": sampling}
        if given.kind == "labels":
            _refuse_of_labels({"by": by, "classes": classes, "score_type": score_type})
            each = AutoCalibrator(candidates, loss=loss, cv=cv, random_state=random_state)
            columns = Table.named(given.scores, given.classes)
            return MultilabelCalibrator(each).fit(columns, **matrix)
        chooser = MulticlassAutoCalibrator(candidates, loss=loss, cv=cv, random_state=random_state)
        matrix |= {"classes": given.classes, "score_type": score_type}
        if by is None:
            return chooser.fit(given.scores, **matrix)
        if segment_method != "shrink":
            raise InputError(
                Setting("segment_method", segment_method),
                "is for one score, not for a matrix of class scores",
                "leave it out: segments of a matrix are shrunk toward the global map",
            )
        return MulticlassSegmentCalibrator(chooser, random_state=random_state).fit(given.scores, by=given.by, **matrix)
    if classes is not None and width(given.scores) < 2:
        raise InputError("classes", "are for a matrix with one column per class", "pass that, or leave them out")
    known: dict[str, Any] = {"positive": positive, "score_type": score_type, "sampling": sampling, **described}
    known |= {"score": given.names["score"], "label": given.names["label"]} if given.kind == "frame" else {"y": given.y}
    one = given.scores if given.classes is None else Table.named(read_matrix(given.scores)[0], given.classes)
    if where is None:
        return cal.fit(one, **known, label_type=label_type)
    if label_type != "class":
        fix = "calibrate the rows of each segment alone"
        raise InputError("label_type", "of fractions cannot be combined with by or source", fix)
    if weight_type == "by-class":
        raise InputError(
            BY_CLASS,
            "cannot be combined with by or source",
            Phrase("pass {importance}, or calibrate the rows of each segment alone", importance=IMPORTANCE),
        )
    return segmented.fit(one, by=where if given.kind == "frame" else given.by, **known)


def _segmented(cal: AutoCalibrator, segment_method: SegmentMethod) -> SegmentCalibrator:
    """The calibrator by segment; a guarantee needs separate maps, which is therefore its default."""
    if cal.guarantee is not None and segment_method == "shrink":
        segment_method = "separate"
    return SegmentCalibrator(cal, segment_method=segment_method, random_state=cal.random_state)


def _refuse_with_tally(extra: Mapping[str, Any]) -> None:
    """Reject settings that cannot be combined with a tally."""
    for name, value in extra.items():
        if value is not None:
            problem = "cannot be combined with a tally, which already contains labels and weights"
            raise InputError(name, problem, "pass the tally alone")


def _refuse_of_classes(given: Mapping[str, Any], several: bool) -> None:
    """Reject arguments that cannot be combined with a matrix; ``several`` labels are columns of binary problems."""
    column = "calibrate each column of scores and labels separately"
    instead = {
        "source": "calibrate the rows of each source separately",
        "guarantee": "use TopLabelHistogramBinning, ClasswiseHistogramBinning or Reduction('confidence', "
        "HistogramBinning()) for a guarantee for several classes",
        "positive": "pass classes, the labels in the order of the columns",
        "clamp": "leave it out; it is chosen by cross-validation",
        "label_type": "give each row once for each class, with the fraction as its sample_weight, and one of groups",
    }
    for name in [name for name, value in given.items() if value is not None]:
        what = "several labels" if several else "scores of several classes"
        raise InputError(name, f"cannot be combined with a matrix of {what}", column if several else instead[name])


def _refuse_of_labels(given: Mapping[str, Any]) -> None:
    """Reject arguments that have no meaning for several labels."""
    instead = {
        "by": "calibrate each column of scores and labels with by",
        "classes": "name the columns of the scores or of y",
        "score_type": "pass probabilities, such as the sigmoid of logits, and leave it out",
    }
    for name, value in given.items():
        if value is not None:
            raise InputError(name, "cannot be combined with a matrix of several labels", instead[name])


def _named(source: Any, *, by_name: bool) -> Any:
    """The column of sources: a name in a frame; an array without a name is called source."""
    named = isinstance(source, Mapping) or hasattr(source, "columns") or isinstance(getattr(source, "name", None), str)
    return source if named or by_name else {"source": source}
