"""What a verdict is asked about, in whatever form it comes: arrays, a frame, a tally."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Kind, Rows, check_rows
from calibrant.arrays.columns import refuse_names, score_and_label
from calibrant.arrays.keys import Keys, read_keys
from calibrant.arrays.sides import side_column
from calibrant.maps.base import by_name
from calibrant.messages import Advice, CalibrantWarning, InputError, Note, Phrase, Setting
from calibrant.numerics import expit
from calibrant.selection.folds import Folds
from calibrant.tallies import GroupedTally, Tally, repeat_notes, repeat_notes_of_rows
from calibrant.verdict.evidence import (
    MOST_ROWS,
    NO_FOLDS,
    NOT_SEEN,
    Columns,
    Evidence,
    evidence_of_rows,
    not_probabilities,
)

if TYPE_CHECKING:
    from calibrant.verdict.through import Through


def read_evidence(
    scores: Any,
    y: ArrayLike | None,
    sample_weight: Any,
    *,
    score: str | None,
    label: str | None,
    by: Any,
    time: Any,
    groups: Any,
    weights: Literal["importance", "counts"],
    positive: Any,
    kind: Kind | None,
    random_state: int,
    calibration: Any = None,
) -> Evidence:
    """Tallies of arrays, of the named columns of a frame, of a tally, or of tallies by group.

    With ``calibration`` they are tallies of the probabilities that it makes of the scores.
    """
    through = None
    if calibration is not None:
        from calibrant.verdict.through import Through  # here, so that scores as they are load no documents

        through = Through.of(calibration)
        kind = through.kind(kind)
    if isinstance(scores, (Tally, GroupedTally)):
        _refuse_beside(y=y, sample_weight=sample_weight, score=score, label=label, by=by, time=time, groups=groups)
        return _from_tallies(scores, random_state, through)
    frame_of = score_and_label(y, score, label)
    if frame_of is not None:
        from calibrant.verdict.frames import Roles, evidence_of_frame  # here, so that arrays load no engine

        named, arrays = _by_name(sample_weight=sample_weight, time=time, groups=groups)
        roles = Roles(*frame_of, by=_names(by), **named)
        needed = () if through is None else through.columns
        _refuse_missing(scores, needed)
        columns = _columns(scores, [*roles.names, *needed])
        if columns is None:
            if arrays:
                raise InputError(arrays[0], "must name a column of the frame, which has too many rows for arrays")
            return evidence_of_frame(
                scores,
                roles,
                weights=weights,
                positive=positive,
                kind=kind,
                random_state=random_state,
                calibration=None if through is None else through.calibration,
            )
        by = {name: columns[name] for name in roles.by} if by is not None else None
        beside = {name: columns[name] for name in needed}
        time, groups, sample_weight = (
            columns[given] if isinstance(given, str) else given for given in (time, groups, sample_weight)
        )
        scores, y = columns[roles.score], columns[roles.label]
    else:
        refuse_names("check", y=y, sample_weight=sample_weight, by=by, time=time, groups=groups)
        if y is None:
            raise InputError("y", "is missing", "pass check(scores, y), or check(frame, score=..., label=...)")
        by = by_name(by)
        beside = {} if through is None else through.beside(by)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        rows = check_rows(
            scores, y, sample_weight, weights=weights, groups=groups, time=time, positive=positive, kind=kind
        )
    said = (*_told(caught), *repeat_notes_of_rows(rows))
    kept = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64) != 0
    segments: Columns = {} if by is None else _segments(by, len(np.asarray(y)), kept)
    if through is None:
        return evidence_of_rows(_as_probabilities(rows), segments, said, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # of fits to parts; the whole was looked at
        rows, segments, seen = through.rows(rows, segments, _taken(beside, kept), random_state)
    return replace(evidence_of_rows(rows, segments, said, random_state=random_state), seen=seen)


def _refuse_beside(**given: object) -> None:
    """Whatever comes beside a tally is a mistake."""
    for argument, value in given.items():
        if value is not None:
            raise InputError(
                argument, "cannot be given with a tally, which holds its labels, weights and groups", "pass it alone"
            )


def _told(caught: Sequence[warnings.WarningMessage]) -> tuple[Note, ...]:
    """Warnings about the rows as notes, but for one class, which the verdict itself is about; others are passed on."""
    notes = []
    for each in caught:
        if isinstance(each.message, CalibrantWarning):
            notes.append(each.message.note)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return tuple(note for note in notes if note.code != "one-class")


def _from_tallies(given: Tally | GroupedTally, random_state: int, through: Through | None) -> Evidence:
    parts: tuple[Tally, ...] = ()
    seen = NOT_SEEN
    notes = repeat_notes(given.total() if isinstance(given, GroupedTally) else given)
    if through is not None:
        given, parts, seen = through.tallies(given, random_state)
    tally = given.total() if isinstance(given, GroupedTally) else given
    if tally.kind != "probability":
        raise InputError("scores", f"is a tally of {tally.kind} scores, not of probabilities", Advice.FIT_FIRST)
    if not tally.total > 0:
        raise InputError("scores", "is an empty tally", "pass one that holds rows")
    segments = {}
    if isinstance(given, GroupedTally):
        segments = {"group": GroupedTally({key: each.scaled(tally.event_unit) for key, each in given.items()})}
    folds = Folds(parts) if parts else NO_FOLDS
    if not parts and tally.counts:
        folds = Folds.at_random(tally, random_state=random_state)
    return Evidence(tally.in_event_rows(), folds, segments=segments, notes=notes, seen=seen)


def _as_probabilities(rows: Rows) -> Rows:
    if rows.kind == "logit":
        return replace(rows, scores=expit(rows.scores), kind="probability")
    if rows.kind == "real":
        raise not_probabilities()
    return rows


def _names(by: Any) -> list[str]:
    if by is None:
        return []
    names = [by] if isinstance(by, str) else list(by)
    if isinstance(by, Mapping) or not all(isinstance(name, str) for name in names):
        raise InputError("by", "must name columns of the frame", "pass a name, or a list of names")
    return names


def _by_name(**given: Any) -> tuple[dict[str, str], list[str]]:
    """What is named, by its role; and the roles that came as arrays."""
    named = {role: value for role, value in given.items() if isinstance(value, str)}
    return named, [role for role, value in given.items() if value is not None and role not in named]


def _columns(frame: Any, names: list[str]) -> dict[str, Any] | None:
    """The named columns in memory, or None when there are more rows than are looked at one by one."""
    from calibrant.engine.columns import columns_of  # here, so that arrays load no engine

    some = columns_of(frame, names, MOST_ROWS + 1)
    return None if len(some[names[0]]) > MOST_ROWS else {name: column.to_numpy() for name, column in some.items()}


def _refuse_missing(frame: Any, needed: Sequence[str]) -> None:
    """Name the column of groups that a map needs and the frame does not have."""
    from calibrant.engine.columns import read_frame  # here, so that arrays load no engine

    there = read_frame(frame).collect_schema().names()
    missing = [name for name in needed if name not in there]
    if missing:
        raise InputError(
            "calibration",
            f"needs the column {missing[0]!r}, which the frame does not have",
            f"it has {', '.join(map(repr, there))}; rename one of them",
        )


def _taken(columns: Mapping[str, Any], kept: NDArray[np.bool_] | None) -> dict[str, Keys]:
    """Groups of the rows that count, by column."""
    keys = {name: _needed_keys(column, name) for name, column in columns.items()}
    return keys if kept is None else {name: Keys(each.codes[kept], each.names) for name, each in keys.items()}


def _needed_keys(column: Any, name: str) -> Keys:
    try:
        return read_keys(column)
    except InputError as error:
        problem = Phrase("needs the column {name!r}, which {problem}", name=name, problem=error.problem)
        raise InputError("calibration", problem, error.fix) from None


def _segment_column(column: Any, length: int, subject: str | Setting) -> NDArray[Any]:
    try:
        read = side_column(column, "by", length)
    except InputError as error:
        raise error.about(subject) from None
    if read.dtype == object and len({type(value) for value in read.tolist()}) > 1:
        raise InputError(subject, "mixes values of several types", "turn them into text first")
    return read


def _segments(by: Any, length: int, kept: NDArray[np.bool_] | None) -> dict[str, NDArray[Any]]:
    if isinstance(by, Mapping):
        read = {str(name): _segment_column(column, length, Setting("by", name)) for name, column in by.items()}
    else:
        read = {str(getattr(by, "name", None) or "segment"): _segment_column(by, length, "by")}
    return read if kept is None else {name: column[kept] for name, column in read.items()}
