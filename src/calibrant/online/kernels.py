"""One source for two speeds: kernels are plain Python on lists, and numba compiles the same lines for whole streams.

A kernel is made by a factory that takes a decorator. With none it gives plain functions, which step through one row at a
time on lists of floats; with numba's ``njit`` it gives compiled ones, which run over arrays. Both do the same IEEE
operations in the same order and call the same exp and log of the C library, so both give the same bits.

The state of a kernel is ``(numbers, inner)``: its own numbers, and the state of the kernel that it stands on, an empty
tuple at the bottom. Parameters live among the numbers, so that one compilation serves every setting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Step = Callable[..., Any]
Jit = Callable[[Step], Step]
Factory = Callable[..., tuple[Step, Step]]
"""From a decorator and the steps of the kernel beneath to the two steps ``predict(state, x)`` and ``learn(state, x, y)``."""

ENOUGH_ROWS = 20_000
"""Rows from which on compiling, about a second, pays for itself."""


def plain(function: Step) -> Step:
    """The function as it is."""
    return function


@cache
def compiler() -> Jit | None:
    """Numba's decorator, or None where ``calibrant[fast]`` is not installed."""
    try:
        from numba import njit
    except ImportError:
        return None
    jit: Jit = njit(nogil=True)
    return jit


@cache
def steps(recipe: tuple[Factory, ...], *, fast: bool) -> tuple[Step, Step]:
    """The steps of a kernel: the first factory stands on the others."""
    jit = compiler() if fast else plain
    assert jit is not None
    first, *rest = recipe
    return first(jit, *steps(tuple(rest), fast=fast)) if rest else first(jit)


@cache
def streams(recipe: tuple[Factory, ...], *, fast: bool) -> tuple[Step, Step, Step]:
    """The same over whole streams: forecast each row and then learn it; learn only; forecast only."""
    jit = compiler() if fast else plain
    assert jit is not None
    predict, learn = steps(recipe, fast=fast)

    @jit
    def forecast_all(state: Any, xs: Any, ys: Any, out: Any) -> None:
        for i in range(len(xs)):
            out[i] = predict(state, xs[i])
            learn(state, xs[i], ys[i])

    @jit
    def learn_all(state: Any, xs: Any, ys: Any) -> None:
        for i in range(len(xs)):
            learn(state, xs[i], ys[i])

    @jit
    def predict_all(state: Any, xs: Any, out: Any) -> None:
        for i in range(len(xs)):
            out[i] = predict(state, xs[i])

    return forecast_all, learn_all, predict_all
