"""Read class scores as binary problems: confidence, classes against the rest, and the labels of multi-label targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_length, check_option, refuse_names, refuse_numbers, refuse_other_order
from calibrant.arrays.multiclass.names import classes_from_labels
from calibrant.arrays.multiclass.rows import (
    MulticlassRows,
    check_class_rows,
    check_class_scores,
    class_logits_guessed,
    is_matrix,
    read_matrix,
)
from calibrant.arrays.sides import check_time, check_weights, side_column
from calibrant.calibration import Calibration
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import Map, TopMap
from calibrant.maps.base import by_name, unwrapped
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, note
from calibrant.metrics.multiclass.scores import order_notes
from calibrant.notions import Classwise, Confidence
from calibrant.numerics import Ends, expit, row_fingerprint
from calibrant.tallies import SEGMENT_GRID, Clusters, Tally
from calibrant.verdict.input.evidence import (
    NOT_SEEN,
    Columns,
    Evidence,
    Seen,
    evidence_of_rows,
    in_event_rows,
    without_single_groups,
)
from calibrant.verdict.input.reading import read_evidence, segments_of

Judged = Literal["confidence", "top-label", "class-wise", "multi-label"]
"""What a verdict on several classes is about."""

AskedNotion = Literal["confidence", "top-label", "class-wise"]
"""Notions that a caller can ask for."""

MAX_EXACT_PART_ROWS = 2_000
"""The problem of a class with more rows than this is counted on a grid of about 1,000 cells."""

one_hot_labels = note("one-hot-labels", "labels are one-hot rows, read as the class of each of the {n:,} {nouns.rows}")

event_class = note("event-class", "the {nouns.event} is {name!r} (the {place} column)")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of class scores that were taken from a frame, with their names."""

    columns: tuple[str, ...]
    values: NDArray[Any]

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Table | NDArray[Any]:
        """The named columns; one of them alone is an array."""
        if len(names) == 1:
            return columns[names[0]]
        return cls(tuple(names), np.column_stack([columns[name] for name in names]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.values.shape

    def to_numpy(self) -> NDArray[Any]:
        """The matrix."""
        return self.values


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
    sample_weight: Any,
    *,
    score: Any,
    label: Any,
    classes: Sequence[Any] | None = None,
    notion: AskedNotion | None = None,
    calibration: Any = None,
    **given: Any,
) -> Problems:
    """The problems of one score, of a matrix with one column per class, or of a multi-label target."""
    check_option("notion", notion, (*get_args(AskedNotion), None))
    if isinstance(score, list | tuple) and len(score) == 1:
        score = score[0]
    if isinstance(label, list | tuple) and len(label) == 1:
        label = label[0]
    if isinstance(score, list | tuple):
        if y is not None or label is None:
            raise InputError(
                "label",
                "is missing" if y is None else "is needed, since y is given beside a frame",
                Phrase("pass the name of the column of labels in {label}", label=Argument("label")),
            )
        scores, y, sample_weight, given = from_frame(scores, list(score), label, sample_weight, given)
        score = label = None
    if not is_matrix(scores) or score is not None or label is not None:
        for name, value in (("classes", classes), ("notion", notion)):
            if value is not None:
                raise InputError(name, "is for a matrix of class scores, and this is one score", f"leave {name} out")
        one = {"score": score, "label": label, "calibration": calibration}
        return Problems(read_evidence(scores, y, sample_weight, **one, **given))
    if y is None:
        raise InputError("y", "is missing", "pass check(scores, y), or check(frame, score=[...], label=...)")
    refuse_names("check", y=y, sample_weight=sample_weight, **{key: given[key] for key in ("by", "time", "groups")})
    if is_matrix(y):
        codes = None if given["score_type"] == "independent" else _one_hot(y)
        if codes is None:
            if calibration is not None or notion is not None:
                argument = "calibration" if notion is None else "notion"
                raise InputError(argument, "is not for a multi-label target", "check one label at a time")
            return _of_labels(scores, y, sample_weight, classes, **given)
        if classes is None:
            classes = read_matrix(y)[1] or read_matrix(scores)[1] or range(codes.shape[0] and np.shape(y)[1])
        return _of_classes(
            scores,
            np.asarray(list(classes), dtype=object)[codes],
            sample_weight,
            classes,
            notion,
            calibration,
            notes=(one_hot_labels(len(codes)),),
            **given,
        )
    return _of_classes(scores, y, sample_weight, classes, notion, calibration, **given)


# -------------------------------------------------------------------------------------------------------------- classes


def _of_classes(
    scores: Any,
    y: Any,
    sample_weight: Any,
    classes: Sequence[Any] | None,
    notion: AskedNotion | None,
    calibration: Any,
    *,
    by: Any,
    time: Any,
    groups: Any,
    weight_type: Literal["importance", "frequency"],
    positive: Any,
    score_type: Any,
    random_state: int,
    notes: tuple[Note, ...] = (),
) -> Problems:
    found = None if calibration is None else _of_several(calibration)
    if found is not None and found.classes:
        classes = list(found.classes_)
        scores, score_type = (
            check_class_scores(scores, found.classes, found.score_type, getattr(found.provenance, "columns", ()))[0],
            found.score_type,
        )
    elif classes is None and np.shape(scores)[1] == 2:
        classes = pair_of(scores, y)
    plain = {"weight_type": weight_type, "groups": groups, "time": time, "score_type": score_type}
    rows = check_class_rows(scores, y, sample_weight, classes=classes, loose=True, **plain)
    kept = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64) != 0
    segments = {} if by is None else segments_of(by_name(by), len(np.asarray(y)), kept)
    notes = (*notes, *(each for each in rows.notes if not _obvious(each, rows)))
    named, seen = None, NOT_SEEN
    if found is not None and found.classes:
        rows, named, seen = _calibrated(rows, found)
    if len(rows.classes) == 2 and named is None and rows.score_type != "independent":
        if notion is not None:
            raise InputError("notion", "is for three classes or more", "leave it out: two classes are one problem")
        through = None if found is None or found.classes else calibration
        return _of_two(rows, segments, positive, through, seen, random_state, notes)
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


def pair_of(scores: Any, y: Any) -> list[Any] | None:
    """The classes of two columns without names, if labels are 0 and 1 or booleans; one of them may have no row."""
    if hasattr(scores, "columns") or hasattr(scores, "column_names"):
        return None
    labels = np.asarray(y)
    if labels.dtype == bool:
        return [False, True]
    whole = labels.dtype.kind in "iuf" and labels.ndim == 1 and bool(np.isin(labels, (0, 1)).all())
    return [0, 1] if whole else None


def _obvious(each: Note, rows: MulticlassRows) -> bool:
    """Whether a note on the order of the classes says nothing: two classes, or classes that are column numbers."""
    numbered = rows.classes == tuple(map(str, range(len(rows.classes))))
    return each.code == classes_from_labels.code and (numbered or len(rows.classes) == 2)


def _of_two(
    rows: MulticlassRows,
    segments: Columns,
    positive: Any,
    calibration: Any,
    seen: Seen,
    random_state: int,
    notes: tuple[Note, ...] = (),
) -> Problems:
    """Two classes are one problem: that of the second column, or of the column of ``positive``."""
    scores, events = as_one_score(rows, positive)
    evidence = read_evidence(
        scores,
        events,
        rows.weights,
        score=None,
        label=None,
        by=segments or None,
        time=rows.time,
        groups=rows.groups,
        weight_type="frequency" if rows.counts and rows.weights is not None else "importance",
        positive=None,
        score_type=rows.score_type if calibration is None else None,  # type: ignore[arg-type]
        random_state=random_state,
        calibration=calibration,
    )
    at = 1 if positive is None else rows.classes.index(str(positive))
    notes = tuple(each for each in notes if each.code == one_hot_labels.code)
    if at == 0 or rows.classes not in (("0", "1"), ("False", "True"), ("false", "true")):
        notes += (event_class(rows.classes[at], ("first", "second")[at]),)
    evidence = replace(evidence, notes=(*notes, *evidence.notes))
    return Problems(evidence if seen is NOT_SEEN else replace(evidence, seen=seen))


def as_one_score(rows: MulticlassRows, positive: Any = None) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores of the second of two classes, or of ``positive``, and whether a row has it; of logits their difference."""
    at = 1
    if positive is not None:
        if str(positive) not in rows.classes:
            raise InputError(
                Setting("positive", positive), f"is not a class of scores ({', '.join(rows.classes)})", "pass one"
            )
        at = rows.classes.index(str(positive))
    s = rows.scores.astype(np.float64)
    return s[:, at] - s[:, 1 - at] if rows.score_type == "logit" else s[:, at].copy(), rows.labels == at


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


def _of_labels(
    scores: Any,
    y: Any,
    sample_weight: Any,
    classes: Sequence[Any] | None,
    *,
    by: Any,
    time: Any,
    groups: Any,
    weight_type: Literal["importance", "frequency"],
    positive: Any,
    score_type: Any,
    random_state: int,
) -> Problems:
    """A multi-label target: each label is a binary problem."""
    if positive is not None:
        raise InputError(Setting("positive", positive), "does not apply to a multi-label target", "pass labels 0 and 1")
    matrix, columns = read_matrix(scores)
    target, names = _read_labels(y)
    if matrix.shape != target.shape:
        raise InputError(
            "y", f"has shape {target.shape} and scores {matrix.shape}", "pass one column of 0 and 1 for each label"
        )
    refuse_other_order(scores, y)
    if columns and set(columns) == set(names):
        matrix, names = matrix[:, [columns.index(name) for name in names]], names
    names = tuple(map(str, classes)) if classes is not None else names or columns
    names = names or tuple(f"label {place}" for place in range(matrix.shape[1]))
    if len(names) != matrix.shape[1]:
        raise InputError("classes", f"has {len(names)} names for {matrix.shape[1]} labels", "pass one per column")
    p, notes = _label_probabilities(matrix, score_type)
    n = len(p)
    weights, more = (None, ()) if sample_weight is None else check_weights(sample_weight, weight_type, n)
    group = None if groups is None else side_column(groups, "groups", n)
    when, later = (None, ()) if time is None else check_time(time, n)
    kept = np.arange(n) if weights is None else np.flatnonzero(weights != 0)
    if not len(kept):
        raise InputError("sample_weight", "is zero in every row", "give at least one row a weight above 0")
    segments = {} if by is None else segments_of(by_name(by), n, None if weights is None else weights != 0)
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


def _read_labels(y: Any) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    try:
        target, names = read_matrix(y)
    except InputError as error:
        raise error.about("y") from None
    if not np.isin(target, (0.0, 1.0)).all():
        missing = bool(np.isnan(target).any())
        raise InputError(
            "y",
            "has missing labels" if missing else "has several columns and values other than 0 and 1",
            "drop these rows" if missing else "pass one label per row, or a multi-label target of 0 and 1",
        )
    return target.astype(np.uint8), names


def _label_probabilities(matrix: NDArray[Any], score_type: Any) -> tuple[NDArray[np.float64], tuple[Note, ...]]:
    p = matrix.astype(np.float64)
    if not np.isfinite(p).all():
        raise InputError("scores", "holds NaN or infinities", "drop these rows or repair the score")
    low, high = float(p.min()), float(p.max())
    inside = low >= 0.0 and high <= 1.0
    if score_type == "logit" or (score_type is None and not inside):
        guessed = () if score_type == "logit" else (class_logits_guessed(low, high),)
        return np.asarray(expit(p)), guessed
    if not inside:
        raise InputError(
            "scores",
            f"must lie in [0, 1], but range from {low:.6g} to {high:.6g}",
            Phrase("pass {logit} if they are log-odds", logit=Setting("score_type", "logit")),
        )
    return p, ()


def _one_hot(y: Any) -> NDArray[np.intp] | None:
    """The column of the only 1 of each row, or None if a row has another number of them."""
    target = _read_labels(y)[0]
    return target.argmax(axis=1) if len(target) and (target.sum(axis=1) == 1).all() else None


# --------------------------------------------------------------------------------------------------------------- frames


def from_frame(
    frame: Any, score: list[str], label: Any, sample_weight: Any, given: dict[str, Any]
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Scores, labels, weights and the other arguments as arrays, from the named columns of a frame."""
    from calibrant.engine.columns import columns_of  # imported here: arrays need no engine

    refuse_numbers(score=score, label=label, by=given["by"])
    labels = [label] if isinstance(label, str) else list(label)
    by = given["by"]
    segments = [] if by is None else [by] if isinstance(by, str) else list(by)
    sides = {"sample_weight": sample_weight, "time": given["time"], "groups": given["groups"]}
    named = [value for value in sides.values() if isinstance(value, str)]
    if not all(isinstance(name, str) for name in (*score, *labels, *segments)):
        raise InputError("by", "must name columns of the frame", "pass a name, or a list of names")
    found = columns_of(frame, list(dict.fromkeys([*score, *labels, *segments, *named])))
    columns = {name: column.to_numpy() for name, column in found.items()}
    for name, value in sides.items():
        if value is not None and not isinstance(value, str):
            check_length(np.asarray(value), name, len(columns[score[0]]))
        elif value is not None:
            sides[name] = columns[value]
    others = {"by": {name: columns[name] for name in segments} or None, "time": sides["time"]}
    matrix, y = Table.of(columns, score), Table.of(columns, labels)
    return matrix, y, sides["sample_weight"], given | others | {"groups": sides["groups"]}
