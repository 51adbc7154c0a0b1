"""Bins of equal width: how many, and which one a forecast falls in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from calibrant.arrays import InputError
from calibrant.arrays.columns import is_whole
from calibrant.arrays.errors import warn
from calibrant.online.kernels import Jit, Step
from calibrant.online.limits import MOST_ROWS, changed

Epsilon = float | Literal["auto"]

MOST_BINS, MOST_GAMES = 2_000, 1_000
"""Bins that a forecaster may have, and one with a game in each of its bins: two million numbers."""

ENOUGH_TO_TELL, NEARLY_ALL = 1_000.0, 0.99
"""Rows after which a stream that fills one bin is worth a warning, and the part of them in that bin."""


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


def bins_of(epsilon: Epsilon, horizon: int | None, bound: Callable[[int, int], float], most: int = MOST_BINS) -> int:
    """The number m of bins of width epsilon = 1/m; ``"auto"`` is the m with the least bound after ``horizon`` rows."""
    if isinstance(epsilon, str):
        if epsilon != "auto":
            raise InputError(f"epsilon must be the width of a bin or 'auto', not {epsilon!r}")
        if horizon is None:
            raise InputError("horizon must be the number of rows that will come, since epsilon='auto' depends on it")
        rows = int(horizon)
        return min(range(2, most + 1), key=lambda m: bound(m, rows))
    if horizon is not None:
        raise InputError("horizon must be left out unless epsilon='auto': a given width does not depend on it")
    m = 1.0 / epsilon if isinstance(epsilon, (int, float)) and 0.0 < epsilon <= 1.0 else 0.0
    if not 1.5 <= m < 2.0**40 or abs(m - round(m)) > 1e-9 * m:
        raise InputError(f"epsilon must be the width 1/m of m bins, m from 2 on, such as 0.1 or 0.05, not {epsilon!r}")
    if round(m) > most:
        raise InputError(f"epsilon must be {1 / most:g} at least, which is {most:,} bins, not {epsilon!r}")
    return round(m)


def whole_in(value: Any, low: int, high: float) -> bool:
    """Whether a parameter, of any type and size, is a whole number from low to high; True and False are not."""
    return is_whole(value) and low <= value <= high


def rows_of(horizon: Any) -> int | None:
    """A horizon as a plain whole number."""
    if horizon is None:
        return None
    if not whole_in(horizon, 1, MOST_ROWS):
        raise InputError(f"horizon must be the number of rows that will come, a whole number, not {horizon!r}")
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


def warn_if_crowded(counts: list[float], m: int, name: str) -> float:
    """Warn if nearly all rows lie in one bin of the expert, where all get one number; the rows at which to look again.

    It is said once, and looking costs time in proportion to the numbers held, so that it is done at 1,000 rows and
    when they have doubled.
    """
    n, most = sum(counts), max(counts)
    if most <= NEARLY_ALL * n:
        return 2.0 * n
    b = counts.index(most)
    warn(
        f"{name}: {most / n:.1%} of {int(n):,} rows lie in one bin of the expert's forecasts, from {b / m:g} to "
        f"{(b + 1) / m:g}, and all get one number there, however they differ: if they do, take a smaller epsilon than "
        f"{1 / m:g}, about a tenth of the base rate, or the expert alone"
    )
    return math.inf
