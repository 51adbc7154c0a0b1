"""Names of classes: which column is which class, as the caller says, as a frame says, or as the labels tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.errors import InputError
from calibrant.arrays.keys import LONGEST_KEY, Keys, key_text, plain_text
from calibrant.arrays.multiclass.frames import refuse_turned


def class_names(
    given: Sequence[Any] | None, columns: tuple[str, ...], target: NDArray[Any], keys: Keys, size: int
) -> tuple[tuple[str, ...], NDArray[Any], tuple[str, ...]]:
    """Names of the classes in the order of the columns, the classes as the caller writes them, and what was guessed."""
    notes: tuple[str, ...] = ()
    if given is not None:
        listed = list(given)
        if len(listed) != size:
            raise InputError(f"classes has {len(listed)} entries but scores has {size} columns: pass one per column")
    elif columns:
        listed = list(columns)
    elif len(keys.names) == size:
        distinct = {key_text(value, "y"): value for value in np.unique(target).tolist()}
        listed = list(distinct.values())
        notes = (
            f"columns taken as {first_names(tuple(map(str, distinct)))}, the sorted labels: pass classes= to confirm",
        )
    else:
        example = f"range({size})" if target.dtype.kind in "iu" else "[...]"
        raise InputError(
            f"y has {len(keys.names)} classes but scores has {size} columns: pass classes={example}, the labels in the "
            "order of the columns"
        )
    names = tuple(key_text(value, "classes") or "" for value in listed)
    if len(set(names)) != size or not all(name and len(name) <= LONGEST_KEY and plain_text(name) for name in names):
        raise InputError("classes must be distinct and not empty: text, whole numbers or truth values")
    refuse_turned(columns, names)
    return names, _as_written(listed, target), notes


def _as_written(listed: list[Any], target: NDArray[Any]) -> NDArray[Any]:
    """The classes in the type of the labels, where that can hold them."""
    if target.dtype.kind in "iub" and all(isinstance(value, int | np.integer | np.bool_) for value in listed):
        return np.array(listed)
    if target.dtype.kind in "iu" and all(str(value).lstrip("-").isdigit() for value in listed):
        return np.array([int(value) for value in listed])
    values = np.array(listed, dtype=object)
    return values.astype(str) if all(isinstance(value, str) for value in listed) else values


def first_names(names: Sequence[str]) -> str:
    """Names for a sentence, five of them at most."""
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
