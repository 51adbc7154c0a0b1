"""Two columns of class scores as one score: which column is that of the event, and what its label is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import as_set, is_missing, read_column, width
from calibrant.arrays.keys import Keys, key_text, read_keys
from calibrant.arrays.multiclass.names import without_affix
from calibrant.arrays.multiclass.rows import read_matrix, settled_classes
from calibrant.arrays.score_types import ScoreType
from calibrant.messages import InputError, Note, Setting, note, warn

CODED = (("0", "1"), ("false", "true"), ("-1", "1"))
"""Names of two classes of which the second is the event without being asked."""

second_column_read = note("second-column-read", "two columns of {nouns.scores}: the second is read")
event_class = note("event-class", "the {nouns.event} is {name!r} (the {place} column)")


class Event(NamedTuple):
    """The score of the event, from two columns.

    Attributes
    ----------
    scores
        Its probability, or its logit minus that of the other class; NaN where one of them is missing.
    score_type
        What they are.
    positive
        Its label as written in ``y``; None where labels are 0 and 1, booleans, or -1 and 1.
    column, columns
        Its place, 0 or 1, and the names of the columns of a frame.
    guessed, said
        Notes on the type of the scores, and on which column is read.
    """

    scores: NDArray[Any]
    score_type: ScoreType
    positive: Any
    column: int
    columns: tuple[str, ...]
    guessed: tuple[Note, ...]
    said: tuple[Note, ...]


def event_column(
    scores: Any,
    y: Any = None,
    *,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    score_type: Any = None,
    fitted: tuple[int, tuple[str, ...]] | None = None,
) -> Event | None:
    """The score of the event, if scores have two columns; None for any other number of them.

    The event is ``positive``, or else the second of the given ``classes``, of the columns of a frame that are named
    after the labels, or of the sorted labels; of 0 and 1 it is 1, whatever their order. A map that was ``fitted`` to
    two columns has its place and the names of the columns.

    Examples
    --------
    >>> event_column([[0.2, 0.8], [0.7, 0.3]]).scores.tolist()
    [0.8, 0.3]
    >>> found = event_column([[0.2, 0.8], [0.7, 0.3]], ["no", "yes"], positive="no")
    >>> found.scores.tolist(), found.column
    ([0.2, 0.7], 0)
    """
    if width(scores) != 2:
        return None
    matrix, names = read_matrix(scores)
    if score_type == "real":
        raise InputError("scores", "has two columns, and real scores are one column", "pass the column of the event")
    if fitted is None:
        place, label, notes = _which(names, y, positive, classes)
    else:
        place, label, notes = as_fitted(names, *fitted), None, ()
    there = ~np.isnan(matrix).any(axis=1)
    kept, kind, guessed = settled_classes(matrix[there], score_type, fitted=fitted is not None)
    one = kept[:, place]
    if kind == "logit":
        one = (kept[:, place].astype(np.float64) - kept[:, 1 - place]).astype(matrix.dtype if fitted else np.float64)
    s = np.full(len(matrix), np.nan, dtype=one.dtype)
    s[there] = one
    for each in guessed if fitted is None else ():
        warn(each)
    return Event(s, "logit" if kind == "logit" else "probability", label, place, names, guessed, notes)


def as_fitted(names: tuple[str, ...], place: int, columns: tuple[str, ...]) -> int:
    """The place of the event among columns, where it had this place in a fit to columns with these names."""
    if names and set(columns) == set(names):
        return names.index(columns[place])
    return _coded(names, place)


def _which(
    names: tuple[str, ...], y: Any, positive: Any, classes: Sequence[Any] | None
) -> tuple[int, Any, tuple[Note, ...]]:
    """Place of the event's column, its label unless that is plain, and a note."""
    keys, values = (None, []) if y is None else _labels(y)
    listed = None if classes is None else tuple(str(key_text(value, "classes")) for value in classes)
    if listed is not None and (len(listed) != 2 or len(set(listed)) != 2):
        raise InputError("classes", f"has {len(listed)} entries but scores has 2 columns", "pass two labels")
    found = () if keys is None else keys.names
    own = tuple(without_affix(names, found))
    if listed is None and names and (set(found) <= set(own) if found else set(own) in map(set, CODED)):
        listed = own
    if listed is None:
        listed = next((pair for pair in CODED if set(found) <= set(pair)), None)
    if listed is None and len(values) == 2:
        listed = tuple(str(key_text(value)) for value in values)
    if listed is None:
        label = f"only the label {values[0]!r}" if len(values) == 1 else f"{len(values)} labels"
        raise InputError("y", f"holds {label}, and scores has two columns", "pass the column of the event")
    unknown = [name for name in found if name not in listed]
    if unknown:
        raise InputError("y", f"has the class {unknown[0]!r}, which has no column in scores", "drop these rows")
    place = _coded(listed, 1)
    if positive is not None:
        if str(key_text(positive, "positive")) not in listed:
            problem = f"is not a class of scores ({', '.join(map(repr, listed))})"
            raise InputError(Setting("positive", positive), problem, "pass one of these")
        place = listed.index(str(key_text(positive, "positive")))
    default = place == _coded(listed, 1) and any(set(listed) == set(pair) for pair in CODED)
    label = next((value for value in values if str(key_text(value)) == listed[place]), listed[place])
    said = second_column_read() if default and place == 1 else event_class(listed[place], ("first", "second")[place])
    return place, None if default else label, (said,)


def _coded(names: tuple[str, ...], place: int) -> int:
    """The place of 1 or true among these names, or else the given one."""
    pair = next((pair for pair in CODED if set(names) == set(pair)), None)
    return place if pair is None else names.index(pair[1])


def _labels(y: Any) -> tuple[Keys | None, list[Any]]:
    """The labels, None if they are fractions, and the distinct ones as written; missing ones are refused elsewhere."""
    target = read_column(y, "y")
    try:
        keys = read_keys(target, "y")
    except InputError:  # fractions, which label the second column, or labels that are refused where they are read
        return None, []
    distinct = [value for value in as_set(target, "y") if not is_missing(value)]
    try:
        return keys, sorted(distinct)
    except TypeError:
        return keys, sorted(distinct, key=str)
