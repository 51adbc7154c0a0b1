"""One line to calibrate: for all rows, by segment, by the source of the scores, or of several classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from calibrant.arrays import Kind
from calibrant.arrays.columns import refuse_names
from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.base import refuse_places
from calibrant.calibrators.multiclass.auto import ClassAutoCalibrator
from calibrant.calibrators.segments import How, SegmentCalibrator
from calibrant.fits.prior_correction import BY_CLASS, IMPORTANCE, Weights
from calibrant.guarantees.provenance import Sampling
from calibrant.guarantees.refusal import Refusal
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.selection.losses import Loss
from calibrant.tallies import Tally


def calibrate(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | str | None = None,
    *,
    by: Any = None,
    source: Any = None,
    mode: How = "shrink",
    candidates: Sequence[Any] | None = None,
    loss: Loss = "log",
    cv: int = 5,
    guarantee: tuple[float, float] | None = None,
    clamp: float | None = None,
    look: int = 1,
    random_state: int = 0,
    score: str | None = None,
    label: str | None = None,
    weights: Weights = "importance",
    groups: ArrayLike | str | None = None,
    time: ArrayLike | str | None = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    kind: Kind | ClassKind | None = None,
    sampling: Sampling = "independent",
) -> Any:
    r"""The fitted :class:`AutoCalibrator`: what it chose, what that is worth on unseen rows, and the map.

    ``scores`` are arrays with labels ``y``, a frame with ``score=`` and ``label=``, or a :class:`Tally` alone. What is
    tried and how it is judged: see :class:`AutoCalibrator`; what describes the rows: see :meth:`BinaryCalibrator.fit`.

    With segments ``by``, a :class:`~calibrant.calibrators.segments.SegmentCalibrator` instead: the chosen map for all,
    then what each segment's rows support beyond it; ``mode="multicalibrate"`` changes only segments that are shown to
    be off from it. With ``source``, scores of different origin (``mode="separate"`` of ``by``): a map for each, chosen
    on its own rows, and no probability for a source with too few of them.

    For a matrix of scores, one column per class, a :class:`~calibrant.calibrators.multiclass.auto.ClassAutoCalibrator`
    instead; ``classes`` are the labels in the order of the columns, where they cannot be read from ``y`` or a frame.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(3)
    >>> scores = rng.beta(2, 5, 3000)
    >>> cal = calibrate(scores, rng.random(3000) < scores)
    >>> print("\n".join(str(cal).splitlines()[:2]))
    AutoCalibrator() fitted to 3,000 probability scores with 846 events
      Keep your model as it is: nothing that was tried is reliably better.
    >>> sharp = rng.dirichlet([1, 1, 1], 3000)
    >>> calm = sharp**0.5 / (sharp**0.5).sum(axis=1, keepdims=True)
    >>> cal = calibrate(sharp, [rng.choice(["cat", "dog", "fox"], p=row) for row in calm])
    >>> cal.choice_, cal.transform([[0.8, 0.1, 0.1]]).round(2).tolist()
    ('vector', [[0.6, 0.19, 0.21]])
    """
    if by is None and mode != "shrink" and not (source is not None and mode == "separate"):
        raise InputError(Setting("mode", mode), "is about segments", Phrase("pass them as {by}", by=Argument("by")))
    if score is None and label is None and is_matrix(scores):
        if isinstance(y, str) and isinstance(sample_weight, str):
            refuse_places("calibrate", scores, y, sample_weight)
        refused = {"by": by, "source": source, "guarantee": guarantee, "positive": positive, "clamp": clamp}
        _refuse_of_classes({name: value for name, value in refused.items() if value is not None})
        chooser = ClassAutoCalibrator(candidates, loss=loss, cv=cv, random_state=random_state)
        sides: dict[str, Any] = {"weights": weights, "groups": groups, "time": time, "kind": kind, "sampling": sampling}
        return chooser.fit(scores, **{"y": y, "sample_weight": sample_weight, "classes": classes, **sides})
    if classes is not None:
        raise InputError("classes", "are for a matrix with one column per class", "pass that, or leave them out")
    how: dict[str, Any] = {"loss": loss, "cv": cv, "guarantee": guarantee, "clamp": clamp, "look": look}
    cal = AutoCalibrator(candidates, **how, random_state=random_state)
    given = {"score": score, "label": label, "positive": positive, "kind": kind, "groups": groups, "time": time}
    if isinstance(scores, Tally):
        given |= {"y": y, "sample_weight": sample_weight, "by": by, "source": source}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise InputError(
                extra[0],
                "cannot be combined with a tally, which holds its labels and weights already",
                "pass the tally alone",
            )
        return _promised(cal.fit_tally(scores, sampling=sampling))
    if score is None and label is None:
        refuse_places("calibrate", scores, y, sample_weight)
        refuse_names("calibrate", source=source)
    if by is None and source is None:
        return _promised(cal.fit(scores, y, sample_weight, weights=weights, sampling=sampling, **given))
    if weights == "by-class":
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
    segmented = SegmentCalibrator(cal, mode=mode if source is None else "separate", random_state=random_state)
    known = {name: given[name] for name in ("score", "label", "positive", "kind")}
    where = by if source is None else _named(source, in_frame=score is not None)
    return segmented.fit(scores, y, where, sample_weight, weights=weights, sampling=sampling, **known)


def _refuse_of_classes(given: Mapping[str, Any]) -> None:
    """What a matrix of classes cannot be combined with."""
    instead = {
        "guarantee": "use TopLabelHistogramBinning or ClassWiseHistogramBinning for a promise about several classes",
        "positive": "pass classes, the labels in the order of the columns",
        "clamp": "it is chosen by cross-fitting",
    }
    for name in given:
        way = instead.get(name, "calibrate each part of the rows by itself")
        raise InputError(name, "cannot be combined with a matrix of scores of several classes", way)


def _promised(cal: AutoCalibrator) -> AutoCalibrator:
    """A promise that was asked for and is not there must not pass unseen."""
    promise = None if cal.guarantee is None else cal.certificate()
    if isinstance(promise, Refusal):
        raise InputError("guarantee", "cannot be kept", promise.reason)
    return cal


def _named(source: Any, *, in_frame: bool) -> Any:
    """The column of sources: a name in a frame; an array that has no name is called source."""
    if in_frame:
        if not isinstance(source, str):
            raise InputError("source", "must name a column when score= and label= do", "add it to the frame first")
        return source
    named = isinstance(source, Mapping) or hasattr(source, "columns") or isinstance(getattr(source, "name", None), str)
    return source if named else {"source": source}
