"""What every online forecaster shares: one row or many, forecasting before learning, a small state, a frozen map."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError, check_labels, check_scores
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import OnlineCertificate
from calibrant.maps import Map
from calibrant.numerics import Floats
from calibrant.online.kernels import ENOUGH_COMPILED, ENOUGH_ROWS, SEEN, Factory, compiler, object_steps, steps, streams

KINDS: dict[str, type[Forecaster]] = {}
"""Forecasters by the name that their states carry."""

COMPILED: set[tuple[tuple[Factory, ...], int]] = set()
"""Streams that numba has compiled in this process."""


class Forecaster:
    """A forecaster of outcomes that learns as they arrive.

    The contract: :meth:`predict_one` is pure, so that asking twice gives the same answer; :meth:`learn_one` moves on by
    one outcome; :meth:`predict_many` and :meth:`learn_many` equal loops over these, bit for bit; :attr:`state` is
    small, plain JSON, from which :meth:`restore` continues as if nothing had happened. Memory does not grow with the
    stream.
    A forecaster that stands on others owns copies of them, so that nobody else moves them.

    A subclass defines ``predict_one``, ``learn_one``, ``_parameters`` (its keyword arguments), ``_numbers`` (what it
    learned) and ``_resume``; :class:`KernelForecaster` does most of it for one that is written as a kernel.
    """

    #: Forecasters that it stands on, in the order of its positional arguments.
    experts: tuple[Forecaster, ...] = ()
    #: Whether outcomes may lie anywhere in [0, 1] rather than be 0 or 1.
    bounded_outcomes: ClassVar[bool] = False

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        """Remember the name, under which a state is found again, unless it is only what others share."""
        super().__init_subclass__(**kwargs)
        if not abstract:
            KINDS[cls.__name__] = cls

    @property
    def expert(self) -> Forecaster:
        """The forecaster that it stands on."""
        return self.experts[0]

    # ---------------------------------------------------------------------------------------------------- one row

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far; asking changes nothing."""
        raise NotImplementedError

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------- many rows

    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Probabilities of many rows, all from what was learned so far."""
        xs, fs = self._scores(scores), _features(features, np.size(scores))
        return np.array([self.predict_one(x, f) for x, f in zip(xs.tolist(), fs, strict=True)], dtype=np.float64)

    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn outcomes in their order."""
        for x, y, f in self._rows(scores, labels, features):
            self.learn_one(x, y, f)
        return self

    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the outcomes before it, then learn its own: what a live run would have said."""
        out = np.empty(np.size(scores))
        for i, (x, y, f) in enumerate(self._rows(scores, labels, features)):
            out[i] = self.predict_one(x, f)
            self.learn_one(x, y, f)
        return out

    def _rows(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Iterator[tuple[Any, Any, Any]]:
        xs, ys = self._scores(scores), self._labels(labels, scores)
        return zip(xs.tolist(), ys.tolist(), _features(features, len(xs)), strict=True)

    # -------------------------------------------------------------------------------------------------- its state

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        raise NotImplementedError

    @property
    def state(self) -> dict[str, Any]:
        """All that was asked for and learned, as plain JSON; its numbers survive bit for bit."""
        return {
            "forecaster": type(self).__name__,
            "parameters": self._parameters(),
            "numbers": self._numbers(),
            "experts": [expert.state for expert in self.experts],
        }

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a state that an equal forecaster has written."""
        if state.get("forecaster") != type(self).__name__ or state.get("parameters") != self._parameters():
            raise InputError("the state belongs to another forecaster: continue it by calibrant.online.resume(state)")
        numbers, below = state.get("numbers"), state.get("experts")
        if not (isinstance(below, list) and len(below) == len(self.experts) and _numeric(numbers, self._numbers())):
            raise InputError("the state has not the numbers that this forecaster needs: was it cut off?")
        assert isinstance(numbers, list)
        for expert, its in zip(self.experts, below, strict=True):
            expert.restore(its)
        self._resume(numbers)
        return self

    def to_json(self) -> str:
        """The state as text, for :func:`calibrant.online.resume`."""
        return json.dumps(self.state, allow_nan=False)

    def freeze(self) -> Map:
        """The map that it applies now, where there is one."""
        raise InputError(f"{type(self).__name__} has no fixed map: its forecasts depend on more than the score")

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        """What is promised of its forecasts after ``n_rows`` rows (default: those learned so far)."""
        return Refusal(f"no theorem covers {type(self).__name__} with these parameters")

    # ---------------------------------------------------------------------------------------------- for subclasses

    def _parameters(self) -> dict[str, Any]:
        """Its keyword arguments, as plain JSON."""
        raise NotImplementedError

    def _numbers(self) -> list[float]:
        """What it learned, as a flat list of numbers."""
        raise NotImplementedError

    def _resume(self, numbers: list[float]) -> None:
        """Take over what another one learned."""
        raise NotImplementedError

    def _own(self, *experts: Forecaster) -> None:
        """Stand on copies of these, so that nobody else moves them."""
        for expert in experts:
            if not isinstance(expert, Forecaster):
                raise InputError(f"expert must be a forecaster of calibrant.online, not {type(expert).__name__}")
        self.experts = tuple(copy.deepcopy(experts))

    @classmethod
    def _build(cls, experts: Sequence[Forecaster], parameters: dict[str, Any]) -> Forecaster:
        return cls(*experts, **parameters)

    def _score(self, score: float) -> float:
        x = float(score)
        if not 0.0 <= x <= 1.0:
            raise InputError(f"score must be a probability in [0, 1], not {x!r}")
        return x

    def _label(self, label: float) -> float:
        y = float(label)
        if not (0.0 <= y <= 1.0 if self.bounded_outcomes else y in (0.0, 1.0)):
            raise InputError(f"label must be {'in [0, 1]' if self.bounded_outcomes else '0 or 1'}, not {label!r}")
        return y

    def _scores(self, scores: ArrayLike) -> Floats:
        found = np.asarray(check_scores(scores, "probability"), dtype=np.float64)
        if np.isnan(found).any():
            raise InputError("scores has missing values: leave these rows out, since nothing can be learned from them")
        return found

    def _labels(self, labels: ArrayLike, scores: ArrayLike) -> Floats:
        if self.bounded_outcomes:
            found = np.asarray(check_scores(labels, "probability", name="labels"), dtype=np.float64)
            if np.isnan(found).any():
                raise InputError("labels has missing values: leave these rows out")
        else:
            found = check_labels(labels)[0].astype(np.float64) if np.size(labels) else np.empty(0)
        if len(found) != np.size(scores):
            raise InputError(f"labels has {len(found)} rows but scores has {np.size(scores)}: pass one for each")
        return found

    def _check_rows(self, n_rows: int | None) -> int:
        found = self.n_rows if n_rows is None else n_rows
        if isinstance(found, bool) or found != int(found) or found < 0:
            raise InputError(f"n_rows must be a whole number of rows, not {n_rows!r}")
        return int(found)

    # The steps of a kernel, for a forecaster that stands on this one.

    @property
    def _recipe(self) -> tuple[Factory, ...]:
        return (object_steps,)

    @property
    def _state(self) -> Any:
        return self

    def __repr__(self) -> str:
        """How it was built."""
        given = [repr(expert) for expert in self.experts]
        given += [f"{name}={value!r}" for name, value in self._parameters().items()]
        return f"{type(self).__name__}({', '.join(given)})"


class KernelForecaster(Forecaster, abstract=True):
    """A forecaster written as a kernel: fast on one row, and on whole streams compiled where numba is installed.

    A subclass names its kernel in ``_factory``, the numbers before the first outcome in ``_begin``, and calls
    ``super().__init__()`` when its parameters are set.
    """

    _factory: ClassVar[Factory]

    def __init__(self, *experts: Forecaster) -> None:
        self._own(*experts)
        self._held = self._begin()
        self._bind()

    def _begin(self) -> list[float]:
        """The numbers before the first outcome; the first counts the rows."""
        raise NotImplementedError

    def _bind(self) -> None:
        recipe = self._recipe
        self._both = (self._held, self.expert._state if self.experts else ())
        self._predict, self._learn = steps(recipe, fast=False)
        self._compiles = object_steps not in recipe

    @property
    def _recipe(self) -> tuple[Factory, ...]:
        return (type(self)._factory, *(self.expert._recipe if self.experts else ()))

    @property
    def _state(self) -> Any:
        return self._both

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return int(self._held[SEEN])

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far; asking changes nothing."""
        x = float(score)
        if features is not None or not 0.0 <= x <= 1.0:
            self._complain(x, features)
        return self._predict(self._both, x)  # type: ignore[no-any-return]

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome."""
        x, y = float(score), float(label)
        if features is not None or not 0.0 <= x <= 1.0 or not (y == 0.0 or y == 1.0):
            self._complain(x, features)
            y = self._label(label)
        self._learn(self._both, x, y)
        return self

    def _complain(self, x: float, features: Any) -> None:
        if features is not None:
            raise InputError(f"features must be left out: {type(self).__name__} looks at the score alone")
        self._score(x)

    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Probabilities of many rows, all from what was learned so far."""
        xs = self._stream(scores, features)
        out = np.empty(len(xs))
        self._run(2, xs, out)
        return out

    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn outcomes in their order."""
        xs = self._stream(scores, features)
        self._run(1, xs, self._labels(labels, scores))
        return self

    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the outcomes before it, then learn its own: what a live run would have said."""
        xs = self._stream(scores, features)
        out = np.empty(len(xs))
        self._run(0, xs, self._labels(labels, scores), out)
        return out

    def _stream(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        if features is not None:
            self._complain(0.0, features)
        return self._scores(scores)

    def _run(self, which: int, *arrays: NDArray[Any]) -> None:
        recipe = self._recipe
        enough = ENOUGH_COMPILED if (recipe, which) in COMPILED else ENOUGH_ROWS
        fast = self._compiles and len(arrays[0]) >= enough and compiler() is not None
        run = streams(recipe, fast=fast)[which]
        if not fast:
            lists = [a.tolist() for a in arrays]
            run(self._both, *lists)
            if which != 1:
                arrays[-1][:] = lists[-1]
            return
        COMPILED.add((recipe, which))
        state = _as_arrays(self._both)
        run(state, *arrays)
        _copy_back(state, self._both)

    def _numbers(self) -> list[float]:
        return list(self._held)

    def _resume(self, numbers: list[float]) -> None:
        self._held[:] = [float(x) for x in numbers]

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the steps, which are made again."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_predict", "_learn", "_both")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the steps again."""
        self.__dict__.update(state)
        self._bind()


def resume(state: dict[str, Any] | str) -> Forecaster:
    """The forecaster that wrote a state, ready to go on where that one stopped.

    Parameters
    ----------
    state
        What ``forecaster.state`` or ``forecaster.to_json()`` gave.

    Notes
    -----
    Only the names of forecasters of this package are looked up; nothing in a state is run.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt, resume
    >>> ops = OnlinePlatt().learn_many([0.2, 0.7, 0.6], [0, 1, 0])
    >>> resume(ops.to_json()).predict_one(0.6) == ops.predict_one(0.6)
    True
    """
    try:
        found: Any = json.loads(state) if isinstance(state, str) else state
    except ValueError:
        raise InputError("state must be what to_json() of a forecaster wrote, and it is no JSON") from None
    return _from_parameters(found).restore(found)


def _from_parameters(state: Any) -> Forecaster:
    try:
        kind, parameters, below = KINDS[state["forecaster"]], state["parameters"], state["experts"]
        return kind._build([_from_parameters(its) for its in below], parameters)
    except (KeyError, TypeError, RecursionError):
        raise InputError("state must be what a forecaster of calibrant.online wrote, and it is not") from None


def _features(features: ArrayLike | None, n: int) -> Sequence[Any]:
    if features is None:
        return [None] * n
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != n:
        raise InputError(f"features must have one row for each of the {n} scores, not the shape {rows.shape}")
    return list(rows)


def _numeric(numbers: Any, like: list[float]) -> bool:
    """Whether this is a list of as many finite numbers."""
    return (
        isinstance(numbers, list)
        and len(numbers) == len(like)
        and all(type(x) in (int, float) and math.isfinite(x) for x in numbers)
    )


def _as_arrays(state: Any) -> Any:
    return (np.array(state[0], dtype=np.float64), _as_arrays(state[1])) if state else ()


def _copy_back(arrays: Any, state: Any) -> None:
    if state:
        state[0][:] = arrays[0].tolist()
        _copy_back(arrays[1], state[1])
