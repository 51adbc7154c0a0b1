"""Read the input of a verdict: arrays, a frame or a tally."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from datetime import time as time_of_day
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.arrays.columns import read_floats, refuse_names, refuse_numbers, refuse_store, score_and_label
from calibrant.arrays.keys import Keys, read_keys
from calibrant.arrays.sides import side_column
from calibrant.maps.base import by_name
from calibrant.messages import Advice, CalibrantWarning, InputError, Note, Phrase, Setting
from calibrant.numerics import Floats, expit
from calibrant.selection.folds import Folds
from calibrant.tallies import GroupedTally, Tally, repeat_notes, repeat_notes_of_rows
from calibrant.verdict.input.evidence import (
    MAX_EXACT_ROWS,
    NO_FOLDS,
    NOT_SEEN,
    Columns,
    Evidence,
    evidence_of_rows,
    not_probabilities,
)

if TYPE_CHECKING:
    from calibrant.verdict.input.through import Through


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
    weight_type: Literal["importance", "frequency"],
    positive: Any,
    score_type: ScoreType | None,
    random_state: int,
    calibration: Any = None,
) -> Evidence:
    """Tallies of arrays, of the named columns of a frame, of a tally, or of tallies by group.

    With ``calibration`` they are tallies of the calibrated probabilities.
    """
    through = None
    if calibration is not None:
        from calibrant.verdict.input.through import Through  # imported here: not needed without a calibration

        through = Through.of(calibration)
        score_type = through.kind(score_type)
    if isinstance(scores, (Tally, GroupedTally)):
        _refuse_beside(y=y, sample_weight=sample_weight, score=score, label=label, by=by, time=time, groups=groups)
        return _from_tallies(scores, random_state, through)
    refuse_store("scores", scores)
    frame_of = score_and_label(y, score, label)
    if frame_of is not None:
        from calibrant.verdict.input.frames import Roles, evidence_of_frame  # imported here: arrays need no engine

        named, arrays = _by_name(sample_weight=sample_weight, time=time, groups=groups)
        roles = Roles(*frame_of, by=_names(by), **named)
        needed = () if through is None else through.columns
        _refuse_missing(scores, needed)
        columns = _columns(scores, [*roles.names, *needed])
        if columns is None:
            if arrays:
                raise InputError(arrays[0], "must be a column name: the frame has too many rows for a separate array")
            return evidence_of_frame(
                scores,
                roles,
                weight_type=weight_type,
                positive=positive,
                score_type=score_type,
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
        numbers = _numbers(through)  # which split a tree, and are not segments
        if numbers:
            given = by.items() if isinstance(by, Mapping) else ()
            by = {name: column for name, column in given if name not in numbers} or None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
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
    said = (*_notes_of(caught), *repeat_notes_of_rows(rows))
    kept = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64) != 0
    segments: Columns = {} if by is None else segments_of(by, len(np.asarray(y)), kept)
    if through is None:
        return evidence_of_rows(as_probabilities(rows), segments, said, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # warnings about fits to folds; all rows were checked above
        rows, segments, seen = through.rows(rows, segments, _taken(beside, _numbers(through), kept), random_state)
    return replace(evidence_of_rows(rows, segments, said, random_state=random_state), seen=seen)


def _refuse_beside(**given: object) -> None:
    """Raise an error for any argument given together with a tally."""
    for argument, value in given.items():
        if value is not None:
            raise InputError(
                argument,
                "cannot be combined with a tally, which already contains labels, weights and groups",
                "pass the tally alone",
            )


def _notes_of(caught: Sequence[warnings.WarningMessage]) -> tuple[Note, ...]:
    """Warnings about the rows as notes, except on a single class, which the verdict reports; re-issue others."""
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
        before = given
        given, parts, seen = through.tallies(given, random_state)
        notes += through.left_out(before, given)
    tally = given.total() if isinstance(given, GroupedTally) else given
    if tally.score_type != "probability":
        raise InputError("scores", f"is a tally of {tally.score_type} scores, not of probabilities", Advice.FIT_FIRST)
    if not tally.total > 0:
        raise InputError("scores", "is an empty tally", "pass a tally with rows")
    segments = {}
    if isinstance(given, GroupedTally):
        named = {_words(key): each.scaled(tally.event_unit) for key, each in given.items()}
        segments = {", ".join(given.columns) or "group": GroupedTally(named)}
    folds = Folds(parts) if parts else NO_FOLDS
    if not parts and tally.counts:
        folds = Folds.at_random(tally, random_state=random_state)
    return Evidence(tally.in_event_rows(), folds, segments=segments, notes=notes, seen=seen)


def _words(key: Any) -> Any:
    """A key as the value of a segment: several columns as one text, a day without its hour."""
    if isinstance(key, tuple):
        return ", ".join(str(_words(part)) for part in key)
    return key.date() if isinstance(key, datetime) and key.time() == time_of_day.min else key


def as_probabilities(rows: Rows) -> Rows:
    """The rows with probabilities in place of log-odds; an error for other scores."""
    if rows.score_type == "logit":
        return replace(rows, scores=expit(rows.scores), score_type="probability")
    if rows.score_type == "real":
        raise not_probabilities()
    return rows


def _names(by: Any) -> list[str]:
    if by is None:
        return []
    refuse_numbers(by=by)
    names = [by] if isinstance(by, str) else list(by)
    if isinstance(by, Mapping) or not all(isinstance(name, str) for name in names):
        raise InputError("by", "must name columns of the frame", "pass a name, or a list of names")
    return names


def _by_name(**given: Any) -> tuple[dict[str, str], list[str]]:
    """Column names by role, and the roles given as arrays."""
    named = {role: value for role, value in given.items() if isinstance(value, str)}
    return named, [role for role, value in given.items() if value is not None and role not in named]


def _columns(frame: Any, names: list[str]) -> dict[str, Any] | None:
    """The named columns in memory, or None if there are too many rows."""
    from calibrant.engine.columns import columns_of  # imported here: arrays need no engine

    some = columns_of(frame, names, MAX_EXACT_ROWS + 1)
    return None if len(some[names[0]]) > MAX_EXACT_ROWS else {name: column.to_numpy() for name, column in some.items()}


def _refuse_missing(frame: Any, needed: Sequence[str]) -> None:
    """Raise an error if the frame lacks a column that the map needs."""
    from calibrant.engine.columns import read_frame  # imported here: arrays need no engine

    there = read_frame(frame).collect_schema().names()
    missing = [name for name in needed if name not in there]
    if missing:
        raise InputError(
            "calibration",
            f"needs the column {missing[0]!r}, which the frame does not have",
            f"its columns are {', '.join(map(repr, there))}; rename one of them",
        )


def _numbers(through: Through | None) -> tuple[str, ...]:
    """Columns of numbers that the map needs: features of a tree."""
    return () if through is None else through.calibration.map.numbers


def _taken(
    columns: Mapping[str, Any], numbers: Sequence[str], kept: NDArray[np.bool_] | None
) -> dict[str, Keys | Floats]:
    """Groups and features of the rows with positive weight, by column."""
    found = {name: _needed(column, name, name in numbers) for name, column in columns.items()}
    if kept is None:
        return found
    return {
        name: Keys(each.codes[kept], each.names) if isinstance(each, Keys) else each[kept]
        for name, each in found.items()
    }


def _needed(column: Any, name: str, number: bool) -> Keys | Floats:
    try:
        return read_floats(column, name) if number else read_keys(column)
    except InputError as error:
        problem = Phrase("needs the column {name!r}, which {problem}", name=name, problem=error.problem)
        raise InputError("calibration", problem, error.fix) from None


def _segment_column(column: Any, length: int, subject: str | Setting) -> NDArray[Any]:
    try:
        read = side_column(column, "by", length)
    except InputError as error:
        raise error.about(subject) from None
    if read.dtype == object and len({type(value) for value in read.tolist()}) > 1:
        raise InputError(subject, "mixes values of several types", "convert them to strings first")
    return read


def segments_of(by: Any, length: int, kept: NDArray[np.bool_] | None) -> dict[str, NDArray[Any]]:
    """Columns of segments by name, of the rows with positive weight."""
    if isinstance(by, Mapping):
        read = {str(name): _segment_column(column, length, Setting("by", name)) for name, column in by.items()}
    else:
        read = {str(getattr(by, "name", None) or "segment"): _segment_column(by, length, "by")}
    return read if kept is None else {name: column[kept] for name, column in read.items()}
