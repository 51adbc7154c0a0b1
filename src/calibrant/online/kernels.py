"""One source for two speeds: kernels are plain Python on lists, and numba compiles the same lines for whole streams.

A kernel is made by a factory that takes a decorator. With none it gives plain functions, which step through one row at
a time on lists of floats; with numba's ``njit`` it gives compiled ones, on arrays. Both do the same IEEE operations in
the same order and call the same exp and log of the C library, so both give the same bits.

A kernel is two steps: ``predict(state, x)`` gives the forecast and changes nothing; ``learn(state, x, y)`` learns one
outcome and returns the forecast that ``predict`` would have given before, which it needs anyway.

The state of a kernel is ``(numbers, inner)``: its own numbers, and the state of the kernel that it stands on, an empty
tuple at the bottom. The first number counts the rows learned. Parameters live among the numbers, so that one
compilation serves every setting. Kernels take scores and labels that were checked, and never make a NaN of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Step = Callable[..., Any]
Jit = Callable[[Step], Step]
Factory = Callable[..., tuple[Step, Step]]
"""From a decorator and the steps of the kernel beneath to its own two steps."""

SEEN = 0
"""Place of the number of rows learned, in every kernel."""

ENOUGH_ROWS = 1_000_000
"""Rows from which on compiling, one to five seconds, pays for itself."""

ENOUGH_COMPILED = 1_000
"""Rows from which on a stream that is compiled already pays for the copy of its state."""


def plain(function: Step) -> Step:
    """The function as it is."""
    return function


@cache
def compiler(*, whole: bool = True) -> Jit | None:
    """Numba's decorator, or None where ``calibrant[fast]`` is not installed.

    Whole streams let other threads run; for a single row that would take a tenth of its time.
    """
    try:
        from numba import njit
    except ImportError:
        return None
    jit: Jit = njit(nogil=whole)
    return jit


def object_steps(jit: Jit) -> tuple[Step, Step]:
    """The steps of a forecaster that is not a kernel, for one that stands on it: its state is the forecaster itself."""

    def predict(state: Any, x: float) -> float:
        return float(state._predict_one(x))

    def learn(state: Any, x: float, y: float) -> float:
        return float(state._step(x, y))

    return predict, learn


@cache
def steps(recipe: tuple[Factory, ...], *, fast: bool) -> tuple[Step, Step]:
    """The steps of a kernel: the first factory stands on the others."""
    jit = compiler() if fast else plain
    assert jit is not None
    first, *rest = recipe
    return first(jit, *steps(tuple(rest), fast=fast)) if rest else first(jit)


@cache
def row_steps(recipe: tuple[Factory, ...]) -> tuple[Step, Step]:
    """The compiled steps for one row at a time; those of a kernel that stands on none take its bare array.

    A call from Python unpacks its arguments one by one, and an array alone takes half the time of a nest of tuples.
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
def streams(recipe: tuple[Factory, ...], *, fast: bool) -> tuple[Step, Step, Step]:
    """The same over whole streams: forecast each row and then learn it; learn only; forecast only."""
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

    return forecast_all, learn_all, predict_all
