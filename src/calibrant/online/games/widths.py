"""Equal-width bins: their number, and the bin of a forecast."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal

from calibrant.messages import InputError
from calibrant.online.kernels import Jit, Step
from calibrant.online.limits import MAX_ROWS, changed, whole_in

CLOSE = 1e-6
"""Largest distance of m epsilon from 1: that of single precision."""

Epsilon = float | Literal["auto"]

MAX_BINS, MAX_GAMES = 2_000, 1_000
"""Largest number of bins of a forecaster, and of one with a game in each bin (two million numbers)."""


def bin_steps(jit: Jit) -> Step:
    """``bin_of(p, m)``: the index b of the bin [b/m, (b+1)/m) of [0, 1] that contains p; the last bin is closed."""

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
    epsilon: Epsilon, horizon: int | None, bound: Callable[[int, int], float], most: int = MAX_BINS
) -> tuple[Epsilon, int]:
    """The width epsilon = 1/m as a number, and m; ``"auto"`` is the m with the smallest bound at ``horizon`` rows."""
    if isinstance(epsilon, str):
        if epsilon != "auto":
            raise InputError("epsilon", f"must be the width of a bin or 'auto', not {epsilon!r}")
        if horizon is None:
            raise InputError("horizon", "must be the number of future rows, since epsilon='auto' depends on it")
        rows = int(horizon)
        return epsilon, min(range(2, most + 1), key=lambda m: bound(m, rows))
    if horizon is not None:
        raise InputError("horizon", "must be left out unless epsilon='auto'")
    if not isinstance(epsilon, Real) or not 0.0 < epsilon <= 1.0:
        raise InputError("epsilon", f"must be the width 1/m of m >= 2 bins, such as 0.1 or 0.05, not {epsilon!r}")
    width = float(epsilon)
    if width * most < 1.0 - CLOSE:
        raise InputError("epsilon", f"must be at least {1 / most:g} ({most:,} bins), not {epsilon!r}")
    m = max(round(1.0 / width), 2)
    if abs(m * width - 1.0) > CLOSE:
        raise InputError(
            "epsilon", f"must be the width 1/m of m bins, not {epsilon!r}", f"the nearest is 1/{m} = {1 / m:.3g}"
        )
    return width, m


def rows_of(horizon: Any) -> int | None:
    """A horizon as a plain integer."""
    if horizon is None:
        return None
    if not whole_in(horizon, 1, MAX_ROWS):
        raise InputError("horizon", f"must be the number of future rows, an integer, not {horizon!r}")
    return int(horizon)


def check_cells(numbers: list[float], first: int, m: int, *, whole: bool = True) -> None:
    """Reject impossible counts and sums: sums of outcomes above their counts, or counts above the number of rows."""
    n, wrong = 0.0, 0
    for at in range(first, len(numbers), 2 * m):
        for count, total in zip(numbers[at : at + m], numbers[at + m : at + 2 * m], strict=True):
            wrong += not (0 <= total <= count == int(count) and (not whole or total == int(total)))
            n += count
    if wrong or n != numbers[0]:
        raise changed("counts")


def check_settings(found: list[float], given: list[float]) -> None:
    """Reject a state whose stored settings differ from its parameters."""
    if found != given:
        raise changed("settings")
