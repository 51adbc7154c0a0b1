"""Frames of class scores: which column belongs to which class, and results in the type of the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import is_tensor, meant
from calibrant.arrays.keys import key_text
from calibrant.arrays.tensors import as_given
from calibrant.messages import Argument, InputError, Phrase


def needed_columns(scores: Any, classes: tuple[str, ...], columns: tuple[str, ...]) -> Any:
    """The columns of a frame that belong to the classes, in their order; anything but a frame is returned unchanged."""
    if hasattr(scores, "column_names") and hasattr(scores, "select"):  # pyarrow
        return scores.select(_places(tuple(scores.column_names), classes, columns))
    if hasattr(scores, "collect") or not hasattr(scores, "columns") or not hasattr(scores, "to_numpy"):
        return scores
    places = _places(tuple(column_name(column) for column in scores.columns), classes, columns)
    return scores.iloc[:, places] if hasattr(scores, "iloc") else scores[:, places]


def _places(found: tuple[str, ...], classes: tuple[str, ...], columns: tuple[str, ...]) -> list[int]:
    """Index of each class among the columns of a frame: by the column name at fit, else by the class name."""
    if len(set(found)) != len(found):
        raise InputError("scores", "has two columns of the same name", "rename one of them")
    for wanted in (columns, classes):
        if wanted and set(wanted) <= set(found):
            return [found.index(name) for name in wanted]
    missing = [name for name in (columns or classes) if name not in found]
    raise InputError(
        "scores",
        f"has no column {missing[0]!r}",
        f"its columns are {', '.join(map(repr, found[:5]))}; rename them to the names of the classes, or pass an array "
        f"in the order of the classes{meant(missing[0], found)}",
    )


def column_name(column: Any) -> str:
    """The name of a column as text."""
    try:
        text = key_text(column)
    except InputError as error:
        raise InputError("scores", f"has the column {column!r}", "name the columns as the classes") from error
    if text is None:
        raise InputError("scores", "has a column without a name", "name the columns as the classes")
    return text


def rebuilt(like: Any, out: NDArray[Any], names: Sequence[str]) -> Any:
    """A matrix with these column names, as the type of frame or tensor that was passed; else an array."""
    if is_tensor(like):
        return as_given(like, out)
    if hasattr(like, "column_names"):  # pyarrow
        return type(like).from_pydict({name: out[:, j] for j, name in enumerate(names)})
    if hasattr(like, "columns") and hasattr(like, "index"):  # pandas
        return type(like)(out, columns=list(names), index=like.index)
    if hasattr(like, "columns"):  # polars
        return type(like)({name: out[:, j] for j, name in enumerate(names)})
    return out


def refuse_turned(columns: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Refuse a frame whose columns are named after the classes but are in a different order than ``classes``."""
    if columns != names and set(columns) == set(names):
        column, name = next((column, name) for column, name in zip(columns, names, strict=True) if column != name)
        found = {"column": column, "name": name, "scores": Argument("scores")}
        raise InputError(
            "classes",
            Phrase("has {name!r} where {scores} has the column {column!r}", **found),
            Phrase("leave it out if the columns name the classes, or pass {scores} as an array if not", **found),
        )


def refuse_stranger(columns: tuple[str, ...], labels: Sequence[str]) -> None:
    """Refuse a column that is not the name of a label, in a frame without probabilities: it may be a label or an id."""
    known = set(labels)
    strange = [name for name in columns if name not in known]
    if strange:
        raise InputError(
            "scores",
            f"has the column {strange[0]!r}, which is not a label in y, and its rows do not sum to 1",
            "drop it, or pass classes= if it is a class",
        )


def refuse_text(scores: Any, names: tuple[str, ...]) -> None:
    """Refuse a frame by the name of its first column that is not numeric; called once reading it has failed."""
    for j, name in enumerate(names):
        given = scores.iloc[:, j] if hasattr(scores, "iloc") else scores.columns[j]
        column = np.asarray(scores[name] if isinstance(given, str) else given)
        text = [value for value in column.tolist() if isinstance(value, str)]
        if text or column.dtype.kind not in "biufO":
            what = f"text such as {text[0]!r}" if text else f"values of type {column.dtype}"
            raise InputError(
                "scores", f"has the column {name!r}, which holds {what}", "pass only the columns of class scores"
            )
