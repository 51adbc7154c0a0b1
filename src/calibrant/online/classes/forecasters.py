"""Online calibration of several classes by a copy of a binary forecaster for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import Map
from calibrant.maps.classes import PerClassMap, TopMap
from calibrant.messages import InputError
from calibrant.notions import Classwise, Confidence, Notion, Problem, TopLabel, as_notion
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.classes.base import MulticlassForecaster
from calibrant.online.inputs import many_features
from calibrant.online.limits import changed
from calibrant.online.settings import read_only
from calibrant.online.stored import NOT_A_STATE, register

BINARY = (TopLabel.name, Classwise.name, Confidence.name)
"""Notions that reduce to a binary problem for each class, or one for all classes."""


@register("OnlineMulticlass")
class OnlineMulticlass(MulticlassForecaster):
    r"""Online multiclass calibration with a copy of a binary forecaster for each class.

    With :math:`F_l` the copy for class l, which learns only from the rows of its own problem:

    .. math:: \text{top-label: } F_{c(x)}\bigl(s_{c(x)}\bigr) \approx P(Y = c(x)), \qquad
              \text{class-wise: } F_l(s_l) \approx P(Y = l) \text{ for every } l,

    where :math:`s` is the row of probabilities and :math:`c(x)` the class of the largest one, the first of ties.

    Parameters
    ----------
    forecaster
        A binary forecaster; each class gets a copy.
    classes
        Class names in the order of the columns, or the number of classes, for 0, 1, ...
    notion : {"top-label", "class-wise", "confidence"}
        Top-label: a copy for each predicted class; a forecast is one number per row, the probability that :meth:`named`
        is right. Class-wise: a copy for each class; a forecast is a row that need not sum to 1. Confidence: one copy
        for all predicted classes together; one number per row.

    Notes
    -----
    Edge cases: a class that was never predicted has the initial forecaster. Copies of a randomized forecaster have
    separate draws, so the forecasts of one class reveal nothing about the next forecast of another.
    Guarantee: that of the forecaster, for each class on the rows of its problem: ``experts[k].certificate()``.
    Memory: one copy for each class, whatever the length of the stream.
    Cost: top-label and confidence update one copy per row, class-wise all of them.
    Reference: Gupta (2023), Algorithms 5.2 and 5.3 and section 6.6.

    Examples
    --------
    >>> from calibrant.online import OnlineMulticlass, OnlinePlatt
    >>> pets = OnlineMulticlass(OnlinePlatt(), ["cat", "dog", "bird"])
    >>> for label in ("cat", "dog", "cat", "dog"):
    ...     pets = pets.learn_one([0.8, 0.1, 0.1], label)
    >>> pets.named([0.8, 0.1, 0.1]), round(pets.predict_one([0.8, 0.1, 0.1]), 3), pets.predict_one([0.1, 0.8, 0.1])
    ('cat', 0.742, 0.8)
    """

    notion: Notion = read_only()

    passes_features: ClassVar[bool] = True

    def __init__(
        self, forecaster: Forecaster, classes: Sequence[Any] | int, notion: Notion | str = "top-label"
    ) -> None:
        super().__init__(classes)
        name = notion.name if isinstance(notion, Notion) else notion
        if not isinstance(name, str) or name not in BINARY:
            raise InputError("notion", f"must be one of {', '.join(map(repr, BINARY))}, not {name!r}")
        self.notion = as_notion(notion)
        copies = 1 if self.notion.name == Confidence.name else len(self.classes)
        self._own(*[forecaster] * copies)

    @property
    def takes_features(self) -> bool:  # type: ignore[override]
        """Whether the copies need features besides the score."""
        return self.expert.takes_features

    @property
    def _by_column(self) -> bool:
        return self.notion.name == Classwise.name

    def named(self, score: Sequence[float]) -> Any:
        """The class with the largest probability in a row, as given: the class of a top-label forecast."""
        row = self._row(score)
        return self._values[row.index(max(row))]

    def _predict_row(self, row: list[float], features: Any) -> Any:
        if self._by_column:
            return np.array([f._predict_one(x, features) for f, x in zip(self.experts, row, strict=True)])
        top = max(row)
        return self._expert_of(row.index(top))._predict_one(top, features)

    def _learn_row(self, row: list[float], place: int, features: Any) -> None:
        if self._by_column:
            for j, forecaster in enumerate(self.experts):
                forecaster._learn_one(row[j], float(j == place), features)
            return
        top = max(row)
        column = row.index(top)
        self._expert_of(column)._learn_one(top, float(column == place), features)

    def _expert_of(self, column: int) -> Forecaster:
        return self.experts[column if len(self.experts) > 1 else 0]

    # Problems are separate, so whole streams go through each copy at once, at its full speed.

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        matrix, sides = self._scores(scores), self._given(features, scores)
        out = np.empty(self._shape(len(matrix)))
        for forecaster, problem in self._problems(matrix):
            out[self._cells(problem)] = forecaster._predict_many(problem.scores, _part(problem, sides))
        return out

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        matrix, places = self._scores(scores), self._labels(labels, scores)
        sides = self._given(features, scores)
        for forecaster, problem in self._problems(matrix):
            forecaster._learn_many(problem.scores, problem.events(places).astype(np.uint8), _part(problem, sides))
        self._seen += len(matrix)

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        matrix, places = self._scores(scores), self._labels(labels, scores)
        sides = self._given(features, scores)
        out = np.empty(self._shape(len(matrix)))
        for forecaster, problem in self._problems(matrix):
            events = problem.events(places).astype(np.uint8)
            out[self._cells(problem)] = forecaster._forecast_many(problem.scores, events, _part(problem, sides))
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
        """The features, validated once for all copies before any of them learns."""
        n = len(scores)  # type: ignore[arg-type]
        if self.takes_features:
            return np.array(self.expert._all(features, n, scores))
        return None if features is None else np.asarray(many_features(features, scores, n))

    def _freeze(self) -> Map:
        """The current map, if the copies have one: ``PerClassMap`` for class-wise, else ``TopMap``."""
        maps = tuple(forecaster._freeze() for forecaster in self.experts)
        if self._by_column:
            return PerClassMap(self.classes, maps, "probability", False)
        return TopMap(self.classes, 1, maps, "probability")

    def certificate(self, n_rows: int | None = None) -> NoCertificate:
        """No certificate for all classes at once: each copy has its own, for the rows of its problem."""
        return NoCertificate(
            NoCertificateCode.SEVERAL_MAPS,
            "certificates are per class: call experts[k].certificate() for class k",
        )

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "notion": self.notion.name}

    @classmethod
    def _build(cls, experts: Sequence[Forecaster], parameters: dict[str, Any]) -> Forecaster:
        if not experts:
            raise InputError("state", NOT_A_STATE)
        return cls(experts[0], **parameters)

    def _check_experts(self, seen: float, below: list[float]) -> None:
        """All copies start with the same number of rows; a row is learned by one copy, or class-wise by all."""
        learned = seen * (len(below) if self._by_column else 1)
        first, rest = divmod(sum(below) - learned, len(below))
        if rest or not 0 <= first <= min(below) or (self._by_column and min(below) != max(below)):
            raise changed("number of rows")

    def __repr__(self) -> str:
        """The constructor call, with the forecaster once."""
        return f"OnlineMulticlass({self.expert!r}, classes={list(self.classes)!r}, notion={self.notion.name!r})"


def _part(problem: Problem, sides: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if sides is None else problem.pick(sides)
