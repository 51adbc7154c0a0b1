"""Frames of class scores: which columns are which classes, and a result as the frame that came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import key_text
from calibrant.messages import Argument, InputError, Phrase


def needed_columns(scores: Any, classes: tuple[str, ...], columns: tuple[str, ...]) -> Any:
    """The columns of a frame that are the classes, in their order; what is no frame as it is."""
    if hasattr(scores, "column_names") and hasattr(scores, "select"):  # pyarrow
        return scores.select(_places(tuple(scores.column_names), classes, columns))
    if hasattr(scores, "collect") or not hasattr(scores, "columns") or not hasattr(scores, "to_numpy"):
        return scores
    places = _places(tuple(column_name(column) for column in scores.columns), classes, columns)
    return scores.iloc[:, places] if hasattr(scores, "iloc") else scores[:, places]


def _places(found: tuple[str, ...], classes: tuple[str, ...], columns: tuple[str, ...]) -> list[int]:
    """Where each class is among the columns of a frame: by the name that its column had at fit, else by its own."""
    if len(set(found)) != len(found):
        raise InputError("scores", "has two columns of the same name", "rename one of them")
    for wanted in (columns, classes):
        if wanted and set(wanted) <= set(found):
            return [found.index(name) for name in wanted]
    missing = [name for name in (columns or classes) if name not in found]
    raise InputError(
        "scores",
        f"has no column {missing[0]!r}",
        f"its columns are {', '.join(map(repr, found[:5]))}; rename them as the classes, or pass an array in "
        "the order of the classes",
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
    """A matrix with these names of columns, as the kind of frame that came; an array where none did."""
    if hasattr(like, "column_names"):  # pyarrow
        return type(like).from_pydict({name: out[:, j] for j, name in enumerate(names)})
    if hasattr(like, "columns") and hasattr(like, "index"):  # pandas
        return type(like)(out, columns=list(names), index=like.index)
    if hasattr(like, "columns"):  # polars
        return type(like)({name: out[:, j] for j, name in enumerate(names)})
    return out


def refuse_turned(columns: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Columns that are called as the classes, but listed otherwise: by name and by place they would differ."""
    if columns != names and set(columns) == set(names):
        column, name = next((column, name) for column, name in zip(columns, names, strict=True) if column != name)
        found = {"column": column, "name": name, "scores": Argument("scores")}
        raise InputError(
            "classes",
            Phrase("has {name!r} where {scores} has the column {column!r}", **found),
            Phrase("leave it out if the columns name the classes, or pass {scores} as an array if not", **found),
        )


def refuse_stranger(columns: tuple[str, ...], labels: Sequence[str]) -> None:
    """A column that no label names, in a frame that holds no probabilities: it may be a label or an id."""
    known = set(labels)
    strange = [name for name in columns if name not in known]
    if strange:
        raise InputError(
            "scores",
            f"has the column {strange[0]!r}, which no label names, and rows are no probabilities that sum to 1",
            "drop it, or pass classes= if it is a class",
        )


def refuse_text(scores: Any, names: tuple[str, ...]) -> None:
    """The first column of a frame that holds no numbers, by its name; asked once the frame could not be read."""
    for j, name in enumerate(names):
        given = scores.iloc[:, j] if hasattr(scores, "iloc") else scores.columns[j]
        column = np.asarray(scores[name] if isinstance(given, str) else given)
        text = [value for value in column.tolist() if isinstance(value, str)]
        if text or column.dtype.kind not in "biufO":
            what = f"text such as {text[0]!r}" if text else f"values of type {column.dtype}"
            raise InputError(
                "scores", f"has the column {name!r}, which holds {what}", "pass the columns of the classes alone"
            )
