"""Forecasters written as kernels: fast on one row, compiled with numba on whole streams."""

from __future__ import annotations

import copy
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import refuse_without_numba
from calibrant.messages import CalibrantWarning, InputError, first_line
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.guards import RACES, Guard, reading
from calibrant.online.kernels import (
    ENOUGH_COMPILED,
    ENOUGH_ROWS,
    SEEN,
    Factory,
    Step,
    compiler,
    object_steps,
    row_steps,
    steps,
    streams,
)
from calibrant.online.shared import NOT_COPIED

INTEGERS = frozenset({bool, int})
"""Label types that are converted to float without checks."""

FORECASTS, REPLAYS = 2, 3
"""Indices of the stream functions that only forecast, and that learn or forecast."""

NUMBERS_A_ROW = 500
"""Copying this many numbers takes as long as learning one row."""

COMPILED: set[tuple[tuple[Factory, ...], int]] = set()
"""Stream functions that numba has compiled in this process."""


class RowSteps:
    """Steps and numbers for one row, in slots: reading an attribute of the forecaster takes ten times as long."""

    __slots__ = ("guard", "learn", "numbers", "predict")
    guard: Guard
    numbers: Any
    predict: Step
    learn: Step


class KernelForecaster(Forecaster):
    """A forecaster written as a kernel: fast on one row, and compiled on whole streams if numba is installed.

    A subclass sets its kernel in ``_factory`` and the initial numbers in ``_begin``, and calls ``super().__init__()``
    after its parameters are set.
    """

    _factory: ClassVar[Factory]
    _not_copied = NOT_COPIED | {"_rows_by", "_both", "_stood_on"}
    _rows_by: RowSteps
    _stood_on = False
    """Whether its numbers are part of another kernel's state; a copy is independent."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create the object with its row steps."""
        found = super().__new__(cls)
        found._rows_by = RowSteps()
        found._rows_by.guard = found._guard
        return found

    def __init__(self, *experts: Forecaster) -> None:
        self._own(*experts)
        self._held: Any = self._begin()
        self._use(fast=False)

    def _begin(self) -> list[float]:
        """The initial numbers; the first counts the rows."""
        raise NotImplementedError

    def compile(self) -> Self:
        """Compile the steps now, so that single rows and short streams are fast too; forecasts stay bit-identical.

        Notes
        -----
        Cost: some seconds for the first forecaster of its class in a process, nothing for the others. Afterwards a row
        takes about half the time. Call it when a service starts, after :func:`~calibrant.online.resume`: states do not
        store it. Needs numba: ``pip install "calibrant[fast]"``.

        Examples
        --------
        >>> from calibrant.online import OnlinePlatt
        >>> ops = OnlinePlatt().compile()  # doctest: +SKIP
        """
        if compiler() is None:
            refuse_without_numba("compile()")
        if not self._compiles:
            problem = "has an expert that is not written as a kernel, so it cannot be compiled"
            raise InputError(type(self).__name__, problem, "leave compile() out")
        if self._stood_on:
            raise InputError(type(self).__name__, "is the expert of another forecaster", "compile that one")
        trial = copy.deepcopy(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            trial._try_compiled()
        self._use_compiled()
        return self

    @reading
    def _use_compiled(self) -> None:
        self._use(fast=True)

    def _try_compiled(self) -> None:
        """Call every function once, so that numba compiles it."""
        from numba.core.errors import NumbaError

        try:
            self._use(fast=True)
            self.learn_one(0.5, 1.0).predict_one(0.5)
            xs, ys, out = np.array([0.5]), np.array([1.0]), np.empty(1)
            forecast, learn, predict, _ = streams(self._kernel, fast=True)
            forecast(self._both, xs, ys, out)
            learn(self._both, xs, ys)
            predict(self._both, xs, out)
        except NumbaError as error:
            reason = first_line(error)
            raise InputError(
                "numba", f"cannot compile {type(self).__name__} ({reason})", "leave compile() out"
            ) from error

    def _use(self, *, fast: bool) -> None:
        """Use compiled code on arrays, or plain code on lists, also for the experts."""
        for expert in self.experts:
            if isinstance(expert, KernelForecaster):
                expert._stood_on = True
                expert._use(fast=fast)
        numbers = [float(x) for x in self._held]
        self._held, self._fast = np.array(numbers) if fast else numbers, fast
        self._bind()

    def _bind(self) -> None:
        made = row_steps(self._kernel) if self._fast else steps(self._kernel, fast=False)
        self._hold((self._held, self.expert._state if self.experts else ()), *made)

    def _hold(self, both: Any, predict: Step, learn: Step) -> None:
        """Set the row steps; the numbers come first, since compiled steps of a running forecast must not get lists."""
        self._both, by = both, self._rows_by
        by.numbers = both[0] if self._fast and not self.experts else both
        by.predict, by.learn = predict, learn

    def _share(self, guard: Guard) -> None:
        super()._share(guard)
        self._rows_by.guard = guard

    @property
    def _kernel(self) -> tuple[Factory, ...]:
        return (type(self)._factory, *(self.expert._recipe if self.experts else ()))

    @property
    def _compiles(self) -> bool:
        return object_steps not in self._recipe

    @property
    def _never_refuses(self) -> bool:
        return self._compiles

    @property
    def _recipe(self) -> tuple[Factory, ...]:
        return self._kernel

    @property
    def _state(self) -> Any:
        return self._both

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return int(self._held[SEEN])

    def predict_one(self, score: float, features: Any = None) -> float:
        """Probability of an event, given what was learned so far; does not change the forecaster.

        Parameters
        ----------
        score
            Probability in [0, 1].
        features
            Must be None: the forecast depends on the score alone.
        """
        if score.__class__ is not float or features is not None or not 0.0 <= score <= 1.0:
            score = self._asked(score, features)
        by = self._rows_by
        watched = by.guard
        try:
            before, predict = watched.free, by.predict
            p: float = predict(by.numbers, score)
            if watched.free is before:
                return p
        except RACES:  # raised again below unless another thread was learning
            pass
        return self._predict_alone(score, None)

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome.

        Parameters
        ----------
        score
            Probability in [0, 1].
        label
            Outcome, 0 or 1, or any number in [0, 1] if ``bounded_outcomes`` is true.
        features
            Must be None: the forecast depends on the score alone.

        Returns
        -------
        Forecaster
            The forecaster itself.
        """
        if score.__class__ is not float or features is not None or not 0.0 <= score <= 1.0:
            score = self._asked(score, features)
        if label.__class__ in INTEGERS and (label == 1 or label == 0):
            label = 1.0 if label else 0.0
        elif label.__class__ is not float or not (label == 1.0 or label == 0.0):
            label = self._label(label)
        by = self._rows_by
        guard = by.guard
        if guard.wanted:
            guard.give_way()
        try:
            del guard.free
        except AttributeError:
            guard.wait()
        try:
            if guard.forked:
                guard.refuse_forked()
            learn = by.learn
            learn(by.numbers, score, label)
        finally:
            guard.free = []
        return self

    def _predict_one(self, score: float, features: Any = None) -> float:
        if score.__class__ is not float or features is not None or not 0.0 <= score <= 1.0:
            score = self._asked(score, features)
        by = self._rows_by
        return by.predict(by.numbers, score)  # type: ignore[no-any-return]

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        if score.__class__ is not float or features is not None or not 0.0 <= score <= 1.0:
            score = self._asked(score, features)
        by = self._rows_by
        by.learn(by.numbers, score, self._label(label))

    def _step(self, score: float, label: float, features: Any = None) -> float:
        if features is not None:
            self._asked(score, features)
        by = self._rows_by
        return by.learn(by.numbers, score, label)  # type: ignore[no-any-return]

    def _asked(self, score: Any, features: Any) -> float:
        """Convert a score that is not a plain float in [0, 1], or raise an error."""
        if features is not None:
            raise InputError("features", "must be left out", f"{type(self).__name__} uses only the score")
        return self._score(score)

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        xs = self._stream(scores, features)
        out = np.empty(len(xs))
        self._run(FORECASTS, xs, out)
        return out

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        xs = self._stream(scores, features)
        self._run(1, xs, self._labels(labels, scores))
        self._notice()

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        xs = self._stream(scores, features)
        out = np.empty(len(xs))
        self._run(0, xs, self._labels(labels, scores), out)
        self._notice()
        return out

    def _replay(self, scores: Floats, labels: Floats) -> Floats:
        xs = self._scores(scores)
        out = np.full(len(xs), np.nan)
        self._run(REPLAYS, xs, labels, out)
        return out

    def _stream(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        if features is not None:
            self._asked(0.0, features)
        return self._scores(scores)

    def _notice(self) -> None:
        """Check the numbers after a stream, and warn if necessary."""

    def _run(self, which: int, *arrays: NDArray[Any]) -> None:
        pays = not self._fast and self._pays(which, len(arrays[0]))
        run = streams(self._kernel, fast=self._fast or pays)[which]
        if self._fast and which == FORECASTS:
            run(self._both, *arrays)
        elif self._fast and which != REPLAYS and _size(self._both) > NUMBERS_A_ROW * len(arrays[0]):
            self._run_rows(*arrays)
        elif self._fast or pays:
            if pays:
                COMPILED.add((self._kernel, which))
            state = _as_arrays(self._both)  # a copy: other threads may be making a forecast
            run(state, *arrays)
            self._take_over(state)
        else:
            lists = [a.tolist() for a in arrays]
            run(self._both, *lists)
            if which != 1:
                arrays[-1][:] = lists[-1]

    def _run_rows(self, xs: Floats, ys: Floats, out: Floats | None = None) -> None:
        by = self._rows_by
        found = [by.learn(by.numbers, x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]
        if out is not None:
            out[:] = found

    def _take_over(self, state: Any) -> None:
        """Continue with these arrays in place of the old ones, unless another kernel shares them."""
        if self._fast and not self._stood_on:
            self._step_on(state)
        else:
            _copy_back(state, self._both)

    def _step_on(self, state: Any) -> None:
        self._held = state[0]
        for expert in self.experts:
            expert._step_on(state[1])  # type: ignore[attr-defined]
        self._hold(state, self._rows_by.predict, self._rows_by.learn)

    def _pays(self, which: int, n_rows: int) -> bool:
        """Whether a stream is long enough to compile, or, if already compiled, to copy the state."""
        recipe = self._kernel
        enough = max(ENOUGH_COMPILED, _size(self._both)) if (recipe, which) in COMPILED else ENOUGH_ROWS
        return self._compiles and n_rows >= enough and compiler() is not None

    def _numbers(self) -> list[float]:
        return [float(x) for x in self._held]

    def _resume(self, numbers: list[float]) -> None:
        self._held[:] = numbers

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Rebuild the steps."""
        super().__setstate__(state)
        self._use(fast=self._fast and compiler() is not None)


def _size(state: Any) -> int:
    return len(state[0]) + _size(state[1]) if state else 0


def _as_arrays(state: Any) -> Any:
    return (np.array(state[0], dtype=np.float64), _as_arrays(state[1])) if state else ()


def _copy_back(arrays: Any, state: Any) -> None:
    if state:
        state[0][:] = arrays[0].tolist()
        _copy_back(arrays[1], state[1])
