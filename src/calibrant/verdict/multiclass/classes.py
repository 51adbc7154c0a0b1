"""Read class scores as binary problems: confidence, classes against the rest, and the labels of multi-label targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_option, width
from calibrant.arrays.multiclass.names import classes_from_labels
from calibrant.arrays.multiclass.rows import MulticlassRows, check_class_scores
from calibrant.arrays.score_types import settled
from calibrant.arrays.sides import check_time, check_weights, side_column
from calibrant.calibration import Calibration
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import Map, TopMap
from calibrant.maps.base import unwrapped
from calibrant.messages import InputError, Note, Setting
from calibrant.metrics.multiclass.scores import order_notes
from calibrant.notions import Classwise, Confidence
from calibrant.numerics import Ends, expit, row_fingerprint
from calibrant.reading import Given, Table, frame_of, read
from calibrant.tallies import SEGMENT_GRID, Clusters, Tally
from calibrant.verdict.input.evidence import (
    MAX_EXACT_ROWS,
    NOT_SEEN,
    Evidence,
    Seen,
    evidence_of_rows,
    in_event_rows,
    not_probabilities,
    without_single_groups,
)
from calibrant.verdict.input.reading import read_evidence, segments_of

Judged = Literal["confidence", "top-label", "class-wise", "multi-label"]
"""What a verdict on several classes is about."""

AskedNotion = Literal["confidence", "top-label", "class-wise"]
"""Notions that a caller can ask for."""

MAX_EXACT_PART_ROWS = 2_000
"""The problem of a class with more rows than this is counted on a grid of about 1,000 cells."""

Parts = Callable[[], Iterator[tuple[str, Evidence]]]


@dataclass(frozen=True, eq=False)
class Problems:
    """The binary problems behind a verdict.

    Attributes
    ----------
    main
        One score; or the confidence of the predicted class; or all labels of a multi-label target together.
    notion
        What is judged; None for one score.
    parts
        Makes the problems of the classes or labels, one after the other.
    rows, classes
        The rows of ``main``, where it has the confidences or all labels, and the rows of classes that they are from.
    names
        All classes, also those that are never predicted and so have no part.
    """

    main: Evidence
    notion: Judged | None = None
    parts: Parts = field(default=lambda: iter(()))
    rows: Rows | None = None
    classes: MulticlassRows | None = None
    names: tuple[str, ...] = ()

    def with_ends(self, ends: Ends) -> Problems:
        """The same rows, with scores clipped to these ends where log-odds are computed."""

        def parts() -> Iterator[tuple[str, Evidence]]:
            return ((name, each.with_ends(ends)) for name, each in self.parts())

        return replace(self, main=self.main.with_ends(ends), parts=parts)

    @property
    def joint(self) -> bool:
        """Whether the status is that of all classes together, and not that of ``main``."""
        return self.notion not in (None, "confidence")


def read_problems(
    scores: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    notion: AskedNotion | None = None,
    calibration: Any = None,
    random_state: int = 0,
    **asked: Any,
) -> Problems:
    """The problems of one score, of a matrix with one column per class, or of a multi-label target."""
    check_option("notion", notion, (*get_args(AskedNotion), None))
    found = None if calibration is None else _of_several(calibration)
    needed = () if found is None or found.classes else found.map.columns
    if needed and (asked.get("score") is not None or isinstance(y, str)):
        _refuse_missing(scores, needed)
    most = None if asked.get("label_type") == "fraction" else MAX_EXACT_ROWS
    given = read(scores, y, sample_weight, more=needed, most=most, **asked)
    return problems_of(given, notion=notion, calibration=calibration, random_state=random_state)


def problems_of(
    given: Given, *, notion: AskedNotion | None = None, calibration: Any = None, random_state: int = 0
) -> Problems:
    """The problems of what was read."""
    found = None if calibration is None else _of_several(calibration)
    if given.kind == "labels":
        if calibration is not None or notion is not None:
            argument = "calibration" if notion is None else "notion"
            raise InputError(argument, "is not for a multi-label target", "check one label at a time")
        return _of_labels(given, random_state)
    if given.kind == "classes" or (found is not None and found.classes and given.kind == "score"):
        return _of_classes(given, notion, found, random_state)
    pair = given.kind == "score" and width(given.scores) == 2
    if pair and notion is not None:
        raise InputError("notion", "is for three classes or more", "leave it out: two classes are one problem")
    for name, value in (("classes", None if pair else given.classes), ("notion", notion)):
        if value is not None:
            raise InputError(name, "is for a matrix of class scores, and this is one score", f"leave {name} out")
    return Problems(read_evidence(given, calibration, random_state))


def _refuse_missing(frame: Any, needed: Sequence[str]) -> None:
    """Raise an error if the frame lacks a column that the map needs."""
    from calibrant.arrays.frames import read_frame  # here, so that arrays load no narwhals

    there = read_frame(frame_of(frame)).collect_schema().names()
    missing = [name for name in needed if name not in there]
    if missing:
        raise InputError(
            "calibration",
            f"needs the column {missing[0]!r}, which the frame does not have",
            f"its columns are {', '.join(map(repr, there))}; rename one of them",
        )


# -------------------------------------------------------------------------------------------------------------- classes


def _of_classes(given: Given, notion: AskedNotion | None, found: Calibration | None, random_state: int) -> Problems:
    positive = given.positive
    if found is not None and found.classes:
        columns = getattr(found.provenance, "columns", ())
        matrix = check_class_scores(given.scores, found.classes, found.score_type, columns)[0]
        given = replace(given, scores=matrix, classes=list(found.classes), score_type=found.score_type)
    rows = given.class_rows()
    segments = segments_of(given)
    notes = (*given.notes, *(each for each in rows.notes if not _obvious(each, rows)))
    named, seen = None, NOT_SEEN
    if found is not None and found.classes:
        rows, named, seen = _calibrated(rows, found)
    if len(rows.classes) == 2 and named is None and rows.score_type != "independent":
        if notion is not None:
            raise InputError("notion", "is for three classes or more", "leave it out: two classes are one problem")
        assert found is not None  # without a map of classes, two columns are read as one score
        pair = Table(found.classes, np.asarray(found.map.apply(given.scores), dtype=np.float64))
        one = replace(given, scores=pair, classes=None, score_type="probability")
        return Problems(replace(read_evidence(one, None, random_state), seen=seen))
    if found is not None and not found.classes:
        raise InputError(
            "calibration",
            f"is for one score, and scores has {len(rows.classes)} classes",
            "pass a calibration of these classes, such as calibrate(scores, y)",
        )
    if positive is not None:
        raise InputError(
            Setting("positive", positive),
            f"is for two classes, and scores has {len(rows.classes)}",
            "leave it out; the verdict names every class",
        )
    confidence = _confidence(rows, named, (*notes, *order_notes(rows)))
    main = replace(evidence_of_rows(confidence, segments, random_state=random_state), seen=seen)
    asked: AskedNotion = notion or "confidence"
    if named is not None and notion == "class-wise":
        raise InputError(
            Setting("notion", notion), "does not apply: this map gives only the predicted class", "leave it out"
        )
    of = "top-label" if named is not None or asked == "top-label" else "class-wise"

    def parts() -> Iterator[tuple[str, Evidence]]:
        return _by_label(rows, confidence, named) if of == "top-label" else _by_class(rows)

    return Problems(main, asked, parts, confidence, None if named is not None else rows, rows.classes)


def _of_several(calibration: Any) -> Calibration:
    found = Calibration(calibration) if isinstance(calibration, Map) else unwrapped(calibration)
    if not isinstance(found, Calibration):
        kind = type(calibration).__name__
        raise InputError(
            "calibration", f"must be a Calibration, a map or a fitted calibrator, got {kind}", "pass one of them"
        )
    return found


def _calibrated(rows: MulticlassRows, found: Calibration) -> tuple[MulticlassRows, NDArray[np.intp] | None, Seen]:
    """Calibrated rows, the predicted classes if the map gives only these, and whether it was fitted to the rows."""
    seen, data = NOT_SEEN, found.provenance
    if isinstance(data, MulticlassProvenance):
        same = data.fingerprint == f"{row_fingerprint(rows.scores, rows.labels, rows.mass):016x}"
        seen = Seen(1.0) if same else NOT_SEEN
    out, named = np.asarray(found.map.apply(rows.scores), dtype=np.float64), None
    if isinstance(found.map, TopMap):
        out, named = out[:, :1], found.map.labels(rows.scores)[:, 0]
    elif found.map.outputs != found.classes:
        raise InputError(
            "calibration", "gives probabilities of nodes, not of classes", "check one level of the taxonomy at a time"
        )
    kept = np.isfinite(out).all(axis=1)
    if not kept.all():
        raise InputError("calibration", "gives some rows no probability", "drop the rows with missing scores")
    sums = np.einsum("nk->n", out)
    whole = named is not None or bool(np.abs(sums - 1.0).max() <= 2e-3)
    return replace(rows, scores=out, score_type="probability" if whole else "independent"), named, seen


def _obvious(each: Note, rows: MulticlassRows) -> bool:
    """Whether a note on the order of the classes says nothing: two classes, or classes that are column numbers."""
    numbered = rows.classes == tuple(map(str, range(len(rows.classes))))
    return each.code == classes_from_labels.code and (numbered or len(rows.classes) == 2)


def _confidence(rows: MulticlassRows, named: NDArray[np.intp] | None, notes: tuple[Note, ...]) -> Rows:
    """The binary problem of the predicted class: its probability, and whether it is right."""
    if named is None:
        problem = next(Confidence().row_problems(rows))
        return _binary(rows, problem.scores, problem.events(rows.labels), notes=notes)
    return _binary(rows, rows.scores[:, 0], rows.labels == named, notes=notes)


def _by_class(rows: MulticlassRows) -> Iterator[tuple[str, Evidence]]:
    """Each class against the rest."""
    for problem in Classwise().row_problems(rows):
        part = _binary(rows, problem.scores, problem.events(rows.labels))
        yield rows.classes[problem.column or 0], _evidence_of_part(part)


def _by_label(rows: MulticlassRows, confidence: Rows, named: NDArray[np.intp] | None) -> Iterator[tuple[str, Evidence]]:
    """The confidence among the rows of each predicted class."""
    if named is None:
        named = next(Confidence().row_problems(rows)).named
    for place, name in enumerate(rows.classes):
        there = np.flatnonzero(named == place)
        if len(there):
            yield name, _evidence_of_part(confidence.take(there))


def _binary(
    rows: MulticlassRows, scores: NDArray[Any], events: NDArray[np.bool_], notes: tuple[Note, ...] = ()
) -> Rows:
    return Rows(
        scores=np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0),
        labels=events.astype(np.uint8),
        weights=rows.weights,
        counts=rows.counts,
        groups=rows.groups,
        time=rows.time,
        score_type="probability",
        other_notes=notes,
    )


def _evidence_of_part(rows: Rows) -> Evidence:
    """The tally of one class, without folds and periods."""
    rows = in_event_rows(without_single_groups(rows))
    grid = SEGMENT_GRID if len(rows.scores) > MAX_EXACT_PART_ROWS else None
    clusters = None if rows.groups is None else Clusters.of_rows(rows, grid)
    tally = Tally.from_rows(rows, grid) if clusters is None else clusters.tally
    return Evidence(tally, clusters=clusters, n_groups=None if clusters is None else clusters.size)


# --------------------------------------------------------------------------------------------------------------- labels


def _of_labels(given: Given, random_state: int) -> Problems:
    """A multi-label target: each label is a binary problem."""
    if given.positive is not None:
        fix = "pass labels 0 and 1"
        raise InputError(Setting("positive", given.positive), "does not apply to a multi-label target", fix)
    target, weight_type = given.y, given.weight_type
    names = tuple(map(str, given.classes or (f"label {place}" for place in range(target.shape[1]))))
    p, notes = _label_probabilities(given.scores, given.score_type)
    n = len(p)
    weights, more = (None, ()) if given.sample_weight is None else check_weights(given.sample_weight, weight_type, n)
    group = None if given.groups is None else side_column(given.groups, "groups", n)
    when, later = (None, ()) if given.time is None else check_time(given.time, n)
    kept = np.arange(n) if weights is None else np.flatnonzero(weights != 0)
    if not len(kept):
        raise InputError("sample_weight", "is zero in every row", "give at least one row a weight above 0")
    segments = segments_of(given)
    counts = weights is None or weight_type == "frequency"

    def rows_of(place: int) -> Rows:
        s = np.ascontiguousarray(p[:, place])
        whole = Rows(s, target[:, place], weights, counts, group, when, "probability", ())
        return whole if len(kept) == n else whole.take(kept)

    def parts() -> Iterator[tuple[str, Evidence]]:
        for place, name in enumerate(names):
            yield name, evidence_of_rows(rows_of(place), random_state=random_state)

    every = [rows_of(place) for place in range(len(names))]
    pooled = _pooled(every, kept, (*notes, *more, *later))
    spread = {name: np.tile(column, len(names)) for name, column in segments.items()}
    return Problems(evidence_of_rows(pooled, spread, random_state=random_state), "multi-label", parts, pooled)


def _pooled(every: Sequence[Rows], rows: NDArray[np.intp], notes: tuple[Note, ...]) -> Rows:
    """All labels together; those of one row, or of one group, depend on each other."""

    def joined(name: str) -> Any:
        first = getattr(every[0], name)
        return None if first is None else np.concatenate([getattr(each, name) for each in every])

    groups = joined("groups")
    return replace(
        every[0],
        **{name: joined(name) for name in ("scores", "labels", "weights", "time")},
        groups=np.tile(rows, len(every)) if groups is None else groups,
        other_notes=notes,
    )


def _label_probabilities(matrix: NDArray[Any], score_type: Any) -> tuple[NDArray[np.float64], tuple[Note, ...]]:
    """Scores of labels as probabilities: log-odds and numbers outside [0, 1] are read as one score is."""
    p = matrix.astype(np.float64).ravel()
    if not np.isfinite(p).all():
        raise InputError("scores", "holds NaN or infinities", "drop these rows or repair the score")
    kind: Any = "probability" if score_type == "independent" else score_type
    s, found, notes = settled(p, kind, float(p.min()), float(p.max()))
    if found == "real":
        raise not_probabilities()
    told = tuple(each for each in notes if found != "probability")
    return (expit(s) if found == "logit" else s).reshape(matrix.shape), told
