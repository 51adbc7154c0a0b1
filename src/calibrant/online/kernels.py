"""Kernels: one source that runs as plain Python on lists and compiled by numba on whole streams.

A kernel is created by a factory that takes a decorator. Without one it returns plain functions that process one row at
a time on lists of floats; with numba's ``njit`` it returns compiled functions on arrays. Both do the same IEEE
operations in the same order and call the same exp and log of the C library, so their results are bit-identical.

A kernel has two steps: ``predict(state, x)`` returns the forecast and changes nothing; ``learn(state, x, y)`` learns
one outcome and returns the forecast that ``predict`` would have returned before, which it needs anyway.

The state of a kernel is ``(numbers, inner)``: its own numbers, and the state of its expert's kernel, or an empty tuple.
The first number counts the rows learned. Parameters are among the numbers, so that one compilation serves all settings.
Kernels get validated scores and labels, and never produce NaN from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Step = Callable[..., Any]
Jit = Callable[[Step], Step]
Factory = Callable[..., tuple[Step, Step]]
"""Function of a decorator and the steps of the expert's kernel that returns the two steps."""

SEEN = 0
"""Index of the number of rows learned, in every kernel."""

ENOUGH_ROWS = 1_000_000
"""Smallest number of rows for which compiling, one to five seconds, saves time."""

ENOUGH_COMPILED = 1_000
"""Smallest number of rows for which a compiled stream saves more time than copying its state costs."""


def plain(function: Step) -> Step:
    """The function unchanged."""
    return function


@cache
def compiler(*, whole: bool = True) -> Jit | None:
    """Numba's decorator, or None if ``calibrant[fast]`` is not installed.

    Whole streams release the global interpreter lock; for a single row that would cost a tenth of its time.
    """
    try:
        from numba import njit
    except ImportError:
        return None
    jit: Jit = njit(nogil=whole)
    return jit


def object_steps(jit: Jit) -> tuple[Step, Step]:
    """The steps of an expert that is not a kernel; its state is the forecaster object."""

    def predict(state: Any, x: float) -> float:
        return float(state._predict_one(x))

    def learn(state: Any, x: float, y: float) -> float:
        return float(state._step(x, y))

    return predict, learn


@cache
def steps(recipe: tuple[Factory, ...], *, fast: bool) -> tuple[Step, Step]:
    """The steps of a kernel: the first factory builds on the others."""
    jit = compiler() if fast else plain
    assert jit is not None
    first, *rest = recipe
    return first(jit, *steps(tuple(rest), fast=fast)) if rest else first(jit)


@cache
def row_steps(recipe: tuple[Factory, ...]) -> tuple[Step, Step]:
    """The compiled steps for one row; those of a kernel without an expert take its bare array.

    A call from Python unpacks its arguments one by one; a single array takes half the time of nested tuples.
    """
    jit = compiler(whole=False)
    assert jit is not None
    predict, learn = steps(recipe, fast=True)

    @jit
    def predict_alone(numbers: Any, x: float) -> Any:
        return predict((numbers, ()), x)

    @jit
    def learn_alone(numbers: Any, x: float, y: float) -> Any:
        return learn((numbers, ()), x, y)

    @jit
    def predict_nested(state: Any, x: float) -> Any:
        return predict(state, x)

    @jit
    def learn_nested(state: Any, x: float, y: float) -> Any:
        return learn(state, x, y)

    return (predict_nested, learn_nested) if len(recipe) > 1 else (predict_alone, learn_alone)


@cache
def streams(recipe: tuple[Factory, ...], *, fast: bool) -> tuple[Step, Step, Step, Step]:
    """Functions over whole streams: forecast and then learn each row; learn only; forecast only; learn or forecast."""
    jit = compiler() if fast else plain
    assert jit is not None
    predict, learn = steps(recipe, fast=fast)

    @jit
    def forecast_all(state: Any, xs: Any, ys: Any, out: Any) -> None:
        for i in range(len(xs)):
            out[i] = learn(state, xs[i], ys[i])

    @jit
    def learn_all(state: Any, xs: Any, ys: Any) -> None:
        for i in range(len(xs)):
            learn(state, xs[i], ys[i])

    @jit
    def predict_all(state: Any, xs: Any, out: Any) -> None:
        for i in range(len(xs)):
            out[i] = predict(state, xs[i])

    @jit
    def replay_all(state: Any, xs: Any, ys: Any, out: Any) -> None:
        for i in range(len(xs)):
            if ys[i] == ys[i]:
                learn(state, xs[i], ys[i])
            else:  # NaN: the row has no label
                out[i] = predict(state, xs[i])

    return forecast_all, learn_all, predict_all, replay_all
