"""Base class of online forecasters of several classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, is_whole
from calibrant.arrays.keys import LONGEST_KEY, key_text, read_keys
from calibrant.arrays.labels import label_column
from calibrant.arrays.multiclass.names import first_names
from calibrant.arrays.multiclass.rows import check_class_scores, class_codes
from calibrant.arrays.multiclass.spread import SUM_TOLERANCE
from calibrant.maps.classes import check_classes
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.inputs import name_text, refuse_unpaired, shown
from calibrant.online.settings import read_only


class MulticlassForecaster(Forecaster):
    """Base class of forecasters whose scores are rows of class probabilities and whose labels are classes.

    Columns are in the order of ``classes``; a frame, a mapping and a row of a pandas frame are read by name. A label is
    a class as text, or as the integer in its name; a label without a column is an error. Rows sum to 1; convert logits
    with softmax first.

    A subclass defines ``_predict_row`` and ``_learn_row`` on validated rows.
    """

    classes: tuple[str, ...] = read_only()

    takes_rows: ClassVar[bool] = True

    def __init__(self, classes: Sequence[Any] | int) -> None:
        self._values = _listed(classes)
        self.classes = _names(self._values)
        self._place = {name: j for j, name in enumerate(self.classes)}
        self._seen = 0

    def _predict_one(self, score: Sequence[float] | Any, features: Any = None) -> Any:
        return self._predict_row(self._row(score), features)

    def _learn_one(self, score: Sequence[float] | Any, label: Any, features: Any = None) -> None:
        row, place = self._row(score), self._label_place(label)
        self._learn_row(row, place, features)
        self._seen += 1

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        matrix = self._scores(scores)
        sides = self._all(features, len(matrix), scores)
        said = [self._predict_row(row, f) for row, f in zip(matrix.tolist(), sides, strict=True)]
        return np.array(said, dtype=np.float64).reshape(self._shape(len(matrix)))

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        self._forecast_many(scores, labels, features)

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        matrix, places = self._scores(scores), self._labels(labels, scores)
        sides, said = self._all(features, len(matrix), scores), []
        for row, place, f in zip(matrix.tolist(), places.tolist(), sides, strict=True):
            said.append(self._predict_row(row, f))
            self._learn_row(row, place, f)
        self._seen += len(matrix)
        return np.array(said, dtype=np.float64).reshape(self._shape(len(matrix)))

    def _predict_row(self, row: list[float], features: Any) -> Any:
        raise NotImplementedError

    def _learn_row(self, row: list[float], place: int, features: Any) -> None:
        raise NotImplementedError

    def _shape(self, n: int) -> tuple[int, ...]:
        return n, len(self.classes)

    def _row(self, score: Any) -> list[float]:
        names = None if isinstance(score, list | tuple | np.ndarray) else _row_names(score)
        row = _numbers(score)
        if row is None:
            given = score if score is None or isinstance(score, str | float | int) else type(score)
            raise InputError("score", f"must have a probability for each of {len(self.classes)} classes, not {given!r}")
        if names is not None:
            row = self._by_name(names, row)
        if len(row) != len(self.classes):
            raise InputError(
                "score", f"has {len(row)} numbers but there are {len(self.classes)} classes", "pass one per class"
            )
        if not (min(row) >= 0.0 and max(row) <= 1.0 and abs(math.fsum(row) - 1.0) < 0.5 * SUM_TOLERANCE):
            row = self._scores([row])[0].tolist()  # the checks for matrices, with their messages
        return row

    def _by_name(self, names: list[Any], row: list[float]) -> list[float]:
        """The row in the order of the classes; a pandas row with a default index is in that order already."""
        found = dict(zip((name_text(name) for name in names), row, strict=True))
        if found.keys() == self._place.keys() and len(row) == len(found):
            return [found[name] for name in self.classes]
        if names == list(range(len(row))):
            return row
        known = first_names(self.classes)
        raise InputError(
            "score",
            f"has the names {first_names(tuple(map(str, names)))}, but the classes are {known}",
            "use the classes as names",
        )

    def _label_place(self, label: Any) -> int:
        place = self._place.get(label) if isinstance(label, str) else self._place.get(key_text(label, "label") or "")
        if place is None:
            known = first_names(self.classes)
            raise InputError("label", f"is the class {label!r}, which has no column", f"pass one of {known}")
        return place

    def _scores(self, scores: ArrayLike) -> Floats:
        matrix = np.asarray(check_class_scores(scores, self.classes, "probability")[0], dtype=np.float64)
        if np.isnan(matrix).any():
            raise InputError("scores", "has missing values", "leave these rows out")
        return matrix

    def _labels(self, labels: ArrayLike, scores: ArrayLike) -> NDArray[Any]:
        refuse_unpaired(scores, labels, "labels")
        target = label_column(labels, "labels")
        check_length(target, "labels", len(scores))  # type: ignore[arg-type]
        return class_codes(read_keys(target, "labels"), self.classes, "labels")

    def _parameters(self) -> dict[str, Any]:
        """The classes as given, as far as JSON allows."""
        pairs = zip(self._values, self.classes, strict=True)
        classes = [value if isinstance(value, str | int | float) else name for value, name in pairs]
        return {**super()._parameters(), "classes": classes}

    def _numbers(self) -> list[float]:
        return [float(self._seen)]

    def _resume(self, numbers: list[float]) -> None:
        self._seen = int(numbers[0])


def _listed(classes: Sequence[Any] | int) -> tuple[Any, ...]:
    """The classes as given, with numpy values as plain ones."""
    listed: list[Any] = []
    if is_whole(classes):
        listed = list(range(int(classes)))  # type: ignore[arg-type]
    elif isinstance(classes, list | tuple | range | np.ndarray):
        listed = list(classes)
    if len(listed) < 2:
        raise InputError("classes", f"must be a list of at least two classes, or their number, not {classes!r}")
    return tuple(value.item() if isinstance(value, np.generic) else value for value in listed)


def _names(listed: tuple[Any, ...]) -> tuple[str, ...]:
    try:
        return check_classes(tuple(key_text(value, "classes") or "" for value in listed))
    except InputError:
        raise
    except ValueError:
        raise InputError(
            "classes", f"must be distinct names of 1 to {LONGEST_KEY} characters, not {shown(list(listed))}"
        ) from None


def _row_names(row: Any) -> list[Any] | None:
    """Names of the entries of a row, if it has names."""
    if isinstance(row, Mapping):
        return list(row)
    index = getattr(row, "index", None)
    return None if index is None or callable(index) else list(index)


def _numbers(row: Any) -> list[float] | None:
    """The entries of a row as numbers, with NaN for missing ones; None if it is not a row of numbers."""
    if getattr(row, "ndim", 1) != 1:
        return None
    try:
        given = list(row.values()) if isinstance(row, Mapping) else list(row)
        return None if any(isinstance(x, str) for x in given) else [math.nan if x is None else float(x) for x in given]
    except (TypeError, ValueError):
        return None
