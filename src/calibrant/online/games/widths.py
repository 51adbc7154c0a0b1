"""Bins of equal width: how many, and which one a forecast falls in."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal

from calibrant.messages import InputError
from calibrant.online.kernels import Jit, Step
from calibrant.online.limits import MOST_ROWS, changed, whole_in

CLOSE = 1e-6
"""How near m epsilon must be to 1: as near as single precision comes."""

Epsilon = float | Literal["auto"]

MOST_BINS, MOST_GAMES = 2_000, 1_000
"""Bins that a forecaster may have, and one with a game in each of its bins: two million numbers."""


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


def bins_of(
    epsilon: Epsilon, horizon: int | None, bound: Callable[[int, int], float], most: int = MOST_BINS
) -> tuple[Epsilon, int]:
    """The width epsilon = 1/m as a plain number, and m; ``"auto"`` is the m with the least bound after these rows."""
    if isinstance(epsilon, str):
        if epsilon != "auto":
            raise InputError("epsilon", f"must be the width of a bin or 'auto', not {epsilon!r}")
        if horizon is None:
            raise InputError("horizon", "must be the number of rows that will come, since epsilon='auto' depends on it")
        rows = int(horizon)
        return epsilon, min(range(2, most + 1), key=lambda m: bound(m, rows))
    if horizon is not None:
        raise InputError("horizon", "must be left out unless epsilon='auto'", "a given width does not depend on it")
    if not isinstance(epsilon, Real) or not 0.0 < epsilon <= 1.0:
        raise InputError(
            "epsilon", f"must be the width 1/m of m bins, m from 2 on, such as 0.1 or 0.05, not {epsilon!r}"
        )
    width = float(epsilon)
    if width * most < 1.0 - CLOSE:
        raise InputError("epsilon", f"must be {1 / most:g} at least, which is {most:,} bins, not {epsilon!r}")
    m = max(round(1.0 / width), 2)
    if abs(m * width - 1.0) > CLOSE:
        raise InputError(
            "epsilon", f"must be the width 1/m of m bins, not {epsilon!r}", f"the nearest is 1/{m} = {1 / m:.3g}"
        )
    return width, m


def rows_of(horizon: Any) -> int | None:
    """A horizon as a plain whole number."""
    if horizon is None:
        return None
    if not whole_in(horizon, 1, MOST_ROWS):
        raise InputError("horizon", f"must be the number of rows that will come, a whole number, not {horizon!r}")
    return int(horizon)


def check_cells(numbers: list[float], first: int, m: int, *, whole: bool = True) -> None:
    """Refuse counts and sums that no stream gives: sums of outcomes beyond their counts, or counts beyond the rows."""
    n, wrong = 0.0, 0
    for at in range(first, len(numbers), 2 * m):
        for count, total in zip(numbers[at : at + m], numbers[at + m : at + 2 * m], strict=True):
            wrong += not (0 <= total <= count == int(count) and (not whole or total == int(total)))
            n += count
    if wrong or n != numbers[0]:
        raise changed("counts")


def check_settings(found: list[float], given: list[float]) -> None:
    """Refuse a state whose settings, which lie among its numbers, are not those of its parameters."""
    if found != given:
        raise changed("settings")
