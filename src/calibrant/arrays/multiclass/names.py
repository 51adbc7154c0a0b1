"""Names of classes in the order of the columns: from the caller, from a frame, or from the sorted labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import LONGEST_KEY, Keys, key_text, plain_text
from calibrant.arrays.multiclass.frames import refuse_turned
from calibrant.messages import Argument, InputError, Note, Phrase, Voice, note


@note("classes-from-labels")
def classes_from_labels(voice: Voice, classes: tuple[str, ...]) -> str:
    """Columns that were assigned to the sorted labels."""
    return f"columns assigned to {first_names(classes)}, the sorted labels: pass classes= to confirm"


def class_names(
    given: Sequence[Any] | None, columns: tuple[str, ...], target: NDArray[Any], keys: Keys, size: int
) -> tuple[tuple[str, ...], NDArray[Any], tuple[Note, ...]]:
    """Names of the classes in the order of the columns, the classes as the caller writes them, and what was guessed."""
    notes: tuple[Note, ...] = ()
    if given is not None:
        listed = list(given)
        if len(listed) != size:
            raise InputError("classes", _unlike(f"{len(listed)} entries", size), "pass one per column")
    elif columns:
        listed = list(without_affix(columns, keys.names))
    elif len(keys.names) == size:
        distinct = {key_text(value, "y"): value for value in np.unique(target).tolist()}
        listed = list(distinct.values())
        notes = (classes_from_labels(tuple(map(str, distinct))),)
    else:
        numbers = {str(place) for place in range(size)}
        example = f"range({size})" if set(keys.names) <= numbers else "[...]"
        fix = f"pass classes={example}, the labels in the order of the columns"
        if len(keys.names) > size:
            fix = "pass the missing columns too, one for each class"
        raise InputError("y", _unlike(f"{len(keys.names)} classes", size), fix)
    names = tuple(key_text(value, "classes") or "" for value in listed)
    if len(set(names)) != size or not all(name and len(name) <= LONGEST_KEY and plain_text(name) for name in names):
        raise InputError("classes", "must be distinct and not empty", "pass text, integers or booleans")
    refuse_turned(columns, names)
    return names, _as_written(listed, target), notes


def without_affix(columns: tuple[str, ...], labels: Sequence[str]) -> Sequence[str]:
    """Column names without a common beginning or end, such as ``p_`` in ``p_cat``, if that is what the labels are.

    Examples
    --------
    >>> without_affix(("p_cat", "p_car"), ["cat", "car"]), without_affix(("cat", "dog"), ["dog"])
    (['cat', 'car'], ('cat', 'dog'))
    """
    if set(labels) <= set(columns):
        return columns
    for place in range(1, min(map(len, columns), default=0)):
        for names, rest in (
            ({name[:place] for name in columns}, [name[place:] for name in columns]),
            ({name[-place:] for name in columns}, [name[:-place] for name in columns]),
        ):
            if len(names) == 1 and set(labels) <= set(rest):
                return rest
    return columns


def _unlike(found: str, size: int) -> Phrase:
    """The number of something differs from the number of columns."""
    return Phrase("has {found} but {scores} has {size} columns", found=found, scores=Argument("scores"), size=size)


def _as_written(listed: list[Any], target: NDArray[Any]) -> NDArray[Any]:
    """The classes in the dtype of the labels, where possible."""
    if target.dtype.kind in "iub" and all(isinstance(value, int | np.integer | np.bool_) for value in listed):
        return np.array(listed)
    if target.dtype.kind in "iu" and all(str(value).lstrip("-").isdigit() for value in listed):
        return np.array([int(value) for value in listed])
    values = np.array(listed, dtype=object)
    return values.astype(str) if all(isinstance(value, str) for value in listed) else values


def first_names(names: Sequence[str]) -> str:
    """Names for a message, five at most."""
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
