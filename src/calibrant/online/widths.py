"""Bins of equal width: how many, and which one a forecast falls in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from calibrant.arrays import InputError
from calibrant.online.kernels import Jit, Step

Epsilon = float | Literal["auto"]

MOST_BINS = 1_000
"""More bins than this are not chosen by themselves: a step looks at all bins of a game."""


def bin_steps(jit: Jit) -> Step:
    """``bin_of(p, m)``: the place b of p among the bins [b/m, (b+1)/m) of [0, 1], the last one closed."""

    @jit
    def bin_of(p: float, m: float) -> int:
        b = int(p * m)
        if p < b / m:
            b -= 1
        elif p >= (b + 1) / m:
            b += 1
        return min(b, int(m) - 1)

    return bin_of


def bins_of(epsilon: Epsilon, horizon: int | None, bound: Callable[[int, int], float]) -> int:
    """The number m of bins of width epsilon = 1/m; ``"auto"`` is the m with the least bound after ``horizon`` rows."""
    if isinstance(epsilon, str):
        if epsilon != "auto":
            raise InputError(f"epsilon must be the width of a bin or 'auto', not {epsilon!r}")
        if horizon is None or isinstance(horizon, bool) or horizon != int(horizon) or horizon < 1:
            raise InputError("horizon must be the number of rows that will come, since epsilon='auto' depends on it")
        return min(range(2, MOST_BINS + 1), key=lambda m: bound(m, int(horizon)))
    if horizon is not None:
        raise InputError("horizon must be left out unless epsilon='auto': a given width does not depend on it")
    m = 1.0 / epsilon if isinstance(epsilon, (int, float)) and epsilon > 0.0 else 0.0
    if not 1.5 <= m < 2.0**20 or abs(m - round(m)) > 1e-9 * m:
        raise InputError(f"epsilon must be the width 1/m of m bins, m from 2 on, such as 0.1 or 0.05, not {epsilon!r}")
    return round(m)


def check_cells(numbers: list[float], like: list[float], first: int, m: int) -> None:
    """Refuse numbers of a state that no stream gives: other settings, or sums of outcomes beyond their counts."""
    cells = [(n, s) for at in range(first, len(numbers), 2 * m) for n, s in _block(numbers, at, m)]
    right = numbers[1:first] == like[1:first] and all(n == int(n) and 0.0 <= s <= n for n, s in cells)
    if not right or sum(n for n, _ in cells) != numbers[0]:
        raise InputError("the state's counts do not belong to its settings: was it changed by hand?")


def _block(numbers: list[float], at: int, m: int) -> Iterator[tuple[float, float]]:
    return zip(numbers[at : at + m], numbers[at + m : at + 2 * m], strict=True)
