"""Online calibration of several classes: binary forecasters by notion, and one slope for whole rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError
from calibrant.arrays.class_names import first_names
from calibrant.arrays.class_rows import check_class_scores, class_codes
from calibrant.arrays.class_spread import SUM_TOLERANCE
from calibrant.arrays.columns import check_length, is_whole
from calibrant.arrays.keys import key_text, read_keys
from calibrant.arrays.labels import label_column
from calibrant.guarantees.certificates import Refusal
from calibrant.maps import Map
from calibrant.maps.classes import PerClassMap, SoftmaxMap, TopMap, check_classes
from calibrant.notions import ClassWise, Confidence, Notion, Problem, TopLabel, as_notion
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.newton import CLAMP

BINARY = (TopLabel.name, ClassWise.name, Confidence.name)
"""Notions that are a binary problem for each class, or one for all."""


class ClassForecaster(Forecaster, abstract=True):
    """A forecaster whose scores are rows of class probabilities and whose labels are classes.

    Columns stand in the order of ``classes``; a frame is read by the names of its columns. A label is a class as text,
    or as the whole number that its name spells; one that has no column is refused. Rows sum to 1; of logits pass the
    softmax.

    A subclass defines ``_predict_row`` and ``_learn_row`` on checked rows.
    """

    def __init__(self, classes: Sequence[Any] | int) -> None:
        self.classes = _names(classes)
        self._place = {name: j for j, name in enumerate(self.classes)}
        self._seen = 0

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return self._seen

    def predict_one(self, score: Sequence[float] | Any, features: Any = None) -> Any:
        """What it says about one row, from what was learned so far; asking changes nothing."""
        return self._predict_row(self._row(score), features)

    def learn_one(self, score: Sequence[float] | Any, label: Any, features: Any = None) -> Self:
        """Learn the class of one row."""
        row, place = self._row(score), self._label_place(label)
        self._learn_row(row, place, features)
        self._seen += 1
        return self

    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """What it says about many rows, all from what was learned so far."""
        matrix, sides = self._scores(scores), self._sides(features, scores)
        said = [self._predict_row(row, f) for row, f in zip(matrix.tolist(), sides, strict=True)]
        return np.array(said, dtype=np.float64).reshape(self._shape(len(matrix)))

    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn the classes of many rows in their order."""
        self.forecast_many(scores, labels, features)
        return self

    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the rows before it, then learn its class."""
        matrix, places = self._scores(scores), self._labels(labels, scores)
        said = []
        for row, place, f in zip(matrix.tolist(), places.tolist(), self._sides(features, scores), strict=True):
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
        row = [float(x) for x in score]
        if len(row) != len(self.classes):
            raise InputError(f"the row has {len(row)} scores but there are {len(self.classes)} classes: pass one each")
        if not (min(row) >= 0.0 and max(row) <= 1.0 and abs(sum(row) - 1.0) < 0.5 * SUM_TOLERANCE):
            row = self._scores([row])[0].tolist()  # the rule for matrices, and its sentences
        return row

    def _label_place(self, label: Any) -> int:
        place = self._place.get(label) if isinstance(label, str) else self._place.get(key_text(label, "label") or "")
        if place is None:
            known = first_names(self.classes)
            raise InputError(f"label is the class {label!r}, which no column is for (classes are {known})")
        return place

    def _scores(self, scores: ArrayLike) -> Floats:
        matrix = np.asarray(check_class_scores(scores, self.classes, "probability")[0], dtype=np.float64)
        if np.isnan(matrix).any():
            raise InputError("scores has missing values: leave these rows out, since nothing can be learned from them")
        return matrix

    def _labels(self, labels: ArrayLike, scores: ArrayLike) -> NDArray[Any]:
        n = len(scores)  # type: ignore[arg-type]
        target = label_column(labels, "labels")
        check_length(target, "labels", n)
        return class_codes(read_keys(target, "labels"), self.classes, "labels")

    def _sides(self, features: ArrayLike | None, scores: ArrayLike) -> Sequence[Any]:
        n = len(scores)  # type: ignore[arg-type]
        if features is None:
            return [None] * n
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != n:
            raise InputError(f"features must have one row for each of the {n} scores, not the shape {rows.shape}")
        return rows  # type: ignore[return-value]

    def _numbers(self) -> list[float]:
        return [float(self._seen)]

    def _resume(self, numbers: list[float]) -> None:
        self._seen = int(numbers[0])


class OnlineClasses(ClassForecaster):
    r"""A binary forecaster for each class, by a notion of calibration.

    With :math:`F_l` the copy for class l, which learns from the rows of its own problem only:

    .. math:: \text{top-label: } F_{c(x)}\bigl(s_{c(x)}\bigr) \approx P(Y = c(x)), \qquad
              \text{class-wise: } F_l(s_l) \approx P(Y = l) \text{ for every } l,

    where :math:`s` is the row of probabilities and :math:`c(x)` the class of its largest one, the first among equals.

    Parameters
    ----------
    forecaster
        A binary forecaster; each class gets a copy of it as it is.
    classes
        Their names in the order of the columns, or their number, for 0, 1, ...
    notion : {"top-label", "class-wise", "confidence"}
        Top-label: a copy for each predicted class; forecasts are one number a row, the probability that :meth:`named`
        is right. Class-wise: a copy for each class; forecasts are rows that need not sum to 1. Confidence: one copy for
        all predicted classes together, one number a row.

    Notes
    -----
    Edge: a class that was never predicted keeps the forecaster as it came.
    Guarantee: that of the forecaster holds for each class on the rows of its problem: ``experts[k].certificate()``.
    Memory: one copy for each class, whatever the length of the stream.
    Cost: top-label and confidence learn one copy a row, class-wise all of them.
    Reference: 002 Algorithms 5.2 and 5.3 and section 6.6.

    Examples
    --------
    >>> from calibrant.online import OnlineClasses, OnlinePlatt
    >>> pets = OnlineClasses(OnlinePlatt(), ["cat", "dog", "bird"])
    >>> for label in ("cat", "dog", "cat", "dog"):
    ...     pets = pets.learn_one([0.8, 0.1, 0.1], label)
    >>> pets.named([0.8, 0.1, 0.1]), round(pets.predict_one([0.8, 0.1, 0.1]), 3), pets.predict_one([0.1, 0.8, 0.1])
    ('cat', 0.742, 0.8)
    """

    def __init__(
        self, forecaster: Forecaster, classes: Sequence[Any] | int, notion: Notion | str = "top-label"
    ) -> None:
        super().__init__(classes)
        self.notion = as_notion(notion)
        if self.notion.name not in BINARY:
            raise InputError(f"notion must be one of {', '.join(map(repr, BINARY))}, not {self.notion.name!r}")
        copies = 1 if self.notion.name == Confidence.name else len(self.classes)
        self._own(*(copy.deepcopy(forecaster) for _ in range(copies)))

    @property
    def _by_column(self) -> bool:
        return self.notion.name == ClassWise.name

    def named(self, score: Sequence[float]) -> str:
        """The class with the largest probability in a row, which a top-label forecast is about."""
        row = self._row(score)
        return self.classes[row.index(max(row))]

    def _predict_row(self, row: list[float], features: Any) -> Any:
        if self._by_column:
            return np.array([f.predict_one(x, features) for f, x in zip(self.experts, row, strict=True)])
        top = max(row)
        return self._expert_of(row.index(top)).predict_one(top, features)

    def _learn_row(self, row: list[float], place: int, features: Any) -> None:
        if self._by_column:
            for j, forecaster in enumerate(self.experts):
                forecaster.learn_one(row[j], float(j == place), features)
            return
        top = max(row)
        column = row.index(top)
        self._expert_of(column).learn_one(top, float(column == place), features)

    def _expert_of(self, column: int) -> Forecaster:
        return self.experts[column if len(self.experts) > 1 else 0]

    # Problems do not meet, so that whole streams go through each copy at once, as fast as the copy is.

    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """What it says about many rows, all from what was learned so far."""
        matrix, sides = self._scores(scores), self._given(features, scores)
        out = np.empty(self._shape(len(matrix)))
        for forecaster, problem in self._problems(matrix):
            out[self._cells(problem)] = forecaster.predict_many(problem.scores, _part(problem, sides))
        return out

    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn the classes of many rows in their order."""
        matrix, places = self._scores(scores), self._labels(labels, scores)
        sides = self._given(features, scores)
        for forecaster, problem in self._problems(matrix):
            forecaster.learn_many(problem.scores, problem.events(places).astype(np.uint8), _part(problem, sides))
        self._seen += len(matrix)
        return self

    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the rows before it, then learn its class."""
        matrix, places = self._scores(scores), self._labels(labels, scores)
        sides = self._given(features, scores)
        out = np.empty(self._shape(len(matrix)))
        for forecaster, problem in self._problems(matrix):
            events = problem.events(places).astype(np.uint8)
            out[self._cells(problem)] = forecaster.forecast_many(problem.scores, events, _part(problem, sides))
        self._seen += len(matrix)
        return out

    def _problems(self, matrix: Floats) -> Iterator[tuple[Forecaster, Problem]]:
        if len(matrix):
            found = zip(self.experts, self.notion.problems(matrix), strict=True)
            yield from ((forecaster, problem) for forecaster, problem in found if len(problem.scores))

    def _cells(self, problem: Problem) -> Any:
        rows = slice(None) if problem.rows is None else problem.rows
        return (rows, problem.column) if self._by_column else rows

    def _shape(self, n: int) -> tuple[int, ...]:
        return (n, len(self.classes)) if self._by_column else (n,)

    def _given(self, features: ArrayLike | None, scores: ArrayLike) -> NDArray[Any] | None:
        return None if features is None else np.asarray(self._sides(features, scores))

    def freeze(self) -> Map:
        """The map of this moment, where the copies have one: ``PerClassMap`` for class-wise, else ``TopMap``."""
        maps = tuple(forecaster.freeze() for forecaster in self.experts)
        if self._by_column:
            return PerClassMap(self.classes, maps, "probability", False)
        return TopMap(self.classes, 1, maps, "probability")

    def certificate(self, n_rows: int | None = None) -> Refusal:
        """None for all classes at once: each copy has its own, for the rows of its problem."""
        return Refusal("a promise is about the rows of one class: ask experts[k].certificate() of each")

    def _parameters(self) -> dict[str, Any]:
        return {"classes": list(self.classes), "notion": self.notion.name}

    @classmethod
    def _build(cls, experts: Sequence[Forecaster], parameters: dict[str, Any]) -> Forecaster:
        if not experts:
            raise InputError("state must be what a forecaster of calibrant.online wrote, and it is not")
        return cls(experts[0], **parameters)

    def __repr__(self) -> str:
        """The forecaster once, since all copies were built alike."""
        return f"OnlineClasses({self.expert!r}, classes={list(self.classes)!r}, notion={self.notion.name!r})"


class OnlineTemperature(ClassForecaster):
    r"""One slope on the logits of whole rows, which follows the outcomes by online Newton steps.

    .. math:: p_t = \operatorname{softmax}(a_t z_t), \qquad
              a_{t+1} = \Bigl[a_t - \frac{g_t}{\gamma A_t}\Bigr]_{1/R}^{R}, \quad
              A_t = A_{t-1} + g_t^2, \; A_0 = \rho,

    with :math:`z_t` the logarithms of the probabilities of row t, held at 2**-32 from below,
    :math:`g_t = \sum_k p_{t,k} z_{t,k} - z_{t,y_t}` the derivative of the log loss of row t, and
    :math:`a_1 = 1`, the model as it is. The temperature is 1 / a.

    Parameters
    ----------
    classes
        Their names in the order of the columns, or their number, for 0, 1, ...
    gamma, rho
        As in :class:`OnlinePlatt`.
    radius
        The slope is kept between 1/R and R.

    Notes
    -----
    Guarantee: no regret certificate; the constants are those of 002 section 6.2.2 and take ten times the step of
    Newton's method, to follow a drift; after many i.i.d. rows the slope varies about 2.3 times as much as a fit to all.
    Memory: three numbers. Cost: K logarithms and exponentials per row.
    Reference: 002 eq. 1.13 and section 6.6; Hazan 2016, Algorithm 12, in one dimension, where the projection is a cut.

    Examples
    --------
    >>> from calibrant.online import OnlineTemperature
    >>> model = OnlineTemperature(3)
    >>> for label in (0, 1, 0, 2) * 50:  # said 0.8, right in two of four
    ...     model = model.learn_one([0.8, 0.1, 0.1], label)
    >>> model.predict_one([0.8, 0.1, 0.1]).round(2).tolist(), round(1 / model.slope, 1)
    ([0.49, 0.25, 0.25], 3.2)
    """

    def __init__(
        self, classes: Sequence[Any] | int, *, gamma: float = 0.1, rho: float = 100.0, radius: float = 100.0
    ) -> None:
        super().__init__(classes)
        if not (gamma > 0.0 and rho > 0.0 and radius >= 1.0 and math.isfinite(gamma * rho * radius)):
            raise InputError("gamma and rho must be above 0, and radius at least 1, which the model as it is needs")
        self.gamma, self.rho, self.radius = float(gamma), float(rho), float(radius)
        self.slope, self._matrix = 1.0, self.rho

    def _predict_row(self, row: list[float], features: Any) -> Floats:
        return np.array(self._softmax(self._logs(row, features)))

    def _learn_row(self, row: list[float], place: int, features: Any) -> None:
        z = self._logs(row, features)
        g = sum(p * x for p, x in zip(self._softmax(z), z, strict=True)) - z[place]
        self._matrix += g * g
        self.slope = min(max(self.slope - g / (self.gamma * self._matrix), 1.0 / self.radius), self.radius)

    def _logs(self, row: list[float], features: Any) -> list[float]:
        if features is not None:
            raise InputError("features must be left out: OnlineTemperature looks at the scores alone")
        return [math.log(min(max(x, CLAMP), 1.0)) for x in row]

    def _softmax(self, z: list[float]) -> list[float]:
        top = max(z)
        e = [math.exp(self.slope * (x - top)) for x in z]
        total = sum(e)
        return [x / total for x in e]

    def freeze(self) -> SoftmaxMap:
        """The temperature map of this moment."""
        return SoftmaxMap(self.classes, np.array([self.slope]), np.zeros(0), "probability", CLAMP)

    def _parameters(self) -> dict[str, Any]:
        return {"classes": list(self.classes), "gamma": self.gamma, "rho": self.rho, "radius": self.radius}

    def _numbers(self) -> list[float]:
        return [float(self._seen), self.slope, self._matrix]

    def _resume(self, numbers: list[float]) -> None:
        super()._resume(numbers)
        self.slope, self._matrix = float(numbers[1]), float(numbers[2])


def _names(classes: Sequence[Any] | int) -> tuple[str, ...]:
    listed: list[Any] = []
    if is_whole(classes):
        listed = list(range(int(classes)))  # type: ignore[arg-type]
    elif isinstance(classes, list | tuple | range | np.ndarray):
        listed = list(classes)
    if len(listed) < 2:
        raise InputError(f"classes must name two classes or more, or be their number, not {classes!r}")
    try:
        return check_classes(tuple(key_text(value, "classes") or "" for value in listed))
    except ValueError as error:
        raise InputError(f"classes: {error}") from None


def _part(problem: Problem, sides: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if sides is None else problem.pick(sides)
