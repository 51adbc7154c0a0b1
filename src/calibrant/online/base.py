"""What every online forecaster shares: one row or many, forecasting before learning, a small state, a frozen map."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError, check_labels, check_scores
from calibrant.maps import Map
from calibrant.numerics import Floats
from calibrant.online.kernels import ENOUGH_ROWS, Factory, compiler, steps, streams

State = tuple[Any, Any]
"""The numbers of a forecaster, and the state of the one that it stands on."""


class Forecaster:
    """A forecaster of 0/1 outcomes that learns as they arrive.

    The contract: :meth:`predict_one` is pure, so that asking twice gives the same answer; :meth:`learn_one` moves on by
    one outcome; :meth:`predict_many` and :meth:`learn_many` equal loops over these, bit for bit; :attr:`state` is small,
    plain JSON, from which :meth:`restore` continues as if nothing had happened. Memory does not grow with the stream.

    A subclass names its parameters in ``__init__``, its kernel in ``_factory`` and its first numbers in ``_begin``.
    """

    _factory: ClassVar[Factory]
    #: The forecaster whose forecasts it starts from, if any.
    expert: Forecaster | None = None

    def __init__(self) -> None:
        self._state: State = self._first_state()

    # -------------------------------------------------------------------------------------------------- one row

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far."""
        predict, _ = steps(self._recipe, fast=False)
        return float(predict(self._state, score))

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome."""
        _, learn = steps(self._recipe, fast=False)
        learn(self._state, score, label)
        return self

    # ------------------------------------------------------------------------------------------------ many rows

    def predict_many(self, scores: ArrayLike) -> Floats:
        """Probabilities of many rows, all from what was learned so far."""
        xs = self._scores(scores)
        out = np.empty(len(xs))
        self._run(2, xs, out)
        return out

    def learn_many(self, scores: ArrayLike, labels: ArrayLike) -> Self:
        """Learn outcomes in their order."""
        self._run(1, self._scores(scores), self._labels(labels, scores))
        return self

    def forecast_many(self, scores: ArrayLike, labels: ArrayLike) -> Floats:
        """Forecast each row from the outcomes before it, then learn its own: what a live run would have said."""
        xs = self._scores(scores)
        out = np.empty(len(xs))
        self._run(0, xs, self._labels(labels, scores), out)
        return out

    def _run(self, which: int, *arrays: NDArray[Any]) -> None:
        fast = len(arrays[0]) >= ENOUGH_ROWS and compiler() is not None
        run = streams(self._recipe, fast=fast)[which]
        if not fast:
            lists = [a.tolist() for a in arrays]
            run(self._state, *lists)
            if which != 1:
                arrays[-1][:] = lists[-1]
            return
        state = _as_arrays(self._state)
        run(state, *arrays)
        _copy_back(state, self._state)

    # ------------------------------------------------------------------------------------------------- its state

    @property
    def state(self) -> dict[str, Any]:
        """All that was learned, as plain JSON: the parameters, and numbers that survive bit for bit."""
        return {"is": type(self).__name__, "parameters": self._parameters(), "numbers": _as_lists(self._state)}

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a state that an equal forecaster has written."""
        if state.get("is") != type(self).__name__ or state.get("parameters") != self._parameters():
            raise InputError("the state belongs to another forecaster: build that one and restore it there")
        numbers = state["numbers"]
        if not _alike(numbers, _as_lists(self._first_state())):
            raise InputError("the state has not the numbers that this forecaster needs: was it cut off?")
        self._state = _from_lists(numbers)
        return self

    def to_json(self) -> str:
        """The state as text."""
        return json.dumps(self.state, allow_nan=False)

    def freeze(self) -> Map:
        """The map that it applies now, where there is one."""
        raise InputError(f"{type(self).__name__} has no fixed map: its forecasts depend on more than the score")

    # -------------------------------------------------------------------------------------------- for subclasses

    @property
    def _recipe(self) -> tuple[Factory, ...]:
        below = () if self.expert is None else self.expert._recipe
        return (type(self)._factory, *below)

    def _begin(self) -> list[float]:
        """The numbers before the first outcome."""
        raise NotImplementedError

    def _parameters(self) -> dict[str, Any]:
        """What was asked for, as plain JSON."""
        raise NotImplementedError

    def _first_state(self) -> State:
        return self._begin(), () if self.expert is None else self.expert._state

    def _scores(self, scores: ArrayLike) -> Floats:
        return np.asarray(check_scores(scores, "probability"), dtype=np.float64)

    def _labels(self, labels: ArrayLike, scores: ArrayLike) -> Floats:
        found = check_labels(labels)[0].astype(np.float64) if np.size(labels) else np.empty(0)
        if len(found) != np.size(scores):
            raise InputError(f"labels has {len(found)} rows but scores has {np.size(scores)}: pass one for each")
        return found

    def __repr__(self) -> str:
        """How it was built."""
        given = ", ".join(f"{name}={value!r}" for name, value in self._parameters().items())
        return f"{type(self).__name__}({given})"


def _as_arrays(state: Any) -> Any:
    return (np.array(state[0]), _as_arrays(state[1])) if state else ()


def _copy_back(arrays: Any, state: Any) -> None:
    if state:
        state[0][:] = arrays[0].tolist()
        _copy_back(arrays[1], state[1])


def _as_lists(state: Any) -> Any:
    return [list(state[0]), _as_lists(state[1])] if state else []


def _from_lists(numbers: Any) -> Any:
    return (list(numbers[0]), _from_lists(numbers[1])) if numbers else ()


def _alike(numbers: Any, like: Any) -> bool:
    """Whether nested lists have the same shape and finite numbers."""
    if not like:
        return numbers == []
    if not isinstance(numbers, list) or len(numbers) != 2 or not isinstance(numbers[0], list):
        return False
    fits = len(numbers[0]) == len(like[0]) and all(
        type(x) in (int, float) and math.isfinite(x) for x in numbers[0]
    )
    return fits and _alike(numbers[1], like[1])
