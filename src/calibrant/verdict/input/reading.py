"""Read the input of a verdict: arrays, a frame or a tally."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from datetime import time as time_of_day
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.arrays.columns import read_floats
from calibrant.arrays.keys import Keys, read_keys
from calibrant.arrays.labels import labels_read
from calibrant.arrays.multiclass.event import event_class, second_column_read
from calibrant.arrays.sides import side_column
from calibrant.messages import Advice, CalibrantWarning, InputError, Note, Phrase, Setting
from calibrant.numerics import Floats
from calibrant.reading import ONE_SEGMENT, Given
from calibrant.selection.folds import Folds
from calibrant.tallies import GroupedTally, Tally, repeat_notes, repeat_notes_of_rows
from calibrant.verdict.input.evidence import (
    NO_FOLDS,
    NOT_SEEN,
    Columns,
    Evidence,
    as_probabilities,
    evidence_of_rows,
    range_names,
)

if TYPE_CHECKING:
    from calibrant.verdict.input.through import Through


def read_evidence(given: Given, calibration: Any = None, random_state: int = 0) -> Evidence:
    """Tallies of rows of one score, of a frame that is too large for memory, of a tally, or of tallies by group.

    With ``calibration`` they are tallies of the calibrated probabilities.
    """
    through = None
    if calibration is not None:
        from calibrant.verdict.input.through import Through  # imported here: not needed without a calibration

        through = Through.of(calibration)
        given = replace(given, score_type=through.kind(given.score_type))
    if given.kind == "tally":
        return _from_tallies(given.scores, random_state, through)
    if given.kind == "frame":
        from calibrant.verdict.input.frames import evidence_of_frame  # imported here: arrays need no engine

        return evidence_of_frame(given, random_state, None if through is None else through.calibration)
    beside: Mapping[str, Any] = given.more
    if through is not None and not given.names:
        beside = through.beside(given.by or None)
        numbers = _numbers(through)  # which split a tree, and are not segments
        given = replace(given, by={name: column for name, column in given.by.items() if name not in numbers})
    rows, said = read_rows(given)
    segments: Columns = segments_of(given)
    if through is None:
        return evidence_of_rows(as_probabilities(rows), segments, said, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # warnings about fits to folds; all rows were checked above
        columns = _taken(beside, _numbers(through), given.kept)
        rows, segments, seen = through.rows(rows, segments, columns, random_state)
    return replace(evidence_of_rows(rows, segments, said, random_state=random_state), seen=seen)


def read_rows(given: Given) -> tuple[Rows, tuple[Note, ...]]:
    """Checked rows of one score, and what was said about them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        rows = given.rows()
    told = {each.code for each in rows.other_notes}
    drop = {labels_read.code, second_column_read.code} if event_class.code in told else {second_column_read.code}
    kept = tuple(each for each in rows.other_notes if each.code not in drop)  # the event is named once
    rows = replace(rows, other_notes=(*given.notes, *kept))
    if rows.fractional and rows.weights is not None:  # the two halves of a row count as one row
        n = len(np.asarray(given.y)) if given.kept is None else int(given.kept.sum())
        weights = rows.weights.astype(np.float64)
        rows = replace(rows, weights=weights * (n / float(weights.sum())))
    return rows, (*_notes_of(caught), *repeat_notes_of_rows(rows))


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


def segments_of(given: Given) -> dict[str, NDArray[Any]]:
    """Columns of segments by name, of the rows with positive weight; first the cells of several named columns."""
    n = len(np.asarray(given.y)) if given.by else 0
    read = {}
    for name, column in given.by.items():
        subject: str | Setting = "by" if name == ONE_SEGMENT else Setting("by", name)
        found = _segment_column(column, n, subject)
        found = found if given.kept is None else found[given.kept]
        values, place, rows = np.unique(found, return_inverse=True, return_counts=True)
        names = range_names(values, rows)
        read[name] = found if names is values else names[place]
    if len(read) < 2 or not given.names.get("by") or given.names["alone"]:
        return read
    cells = [", ".join(map(str, each)) for each in zip(*(column.tolist() for column in read.values()), strict=True)]
    return {", ".join(read): np.array(cells, dtype=object), **read}
