"""The bounds of calibeating and of calibration games; docs/certificates/games.md derives them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import OnlineCertificate


def mean_regret(cells: int, n_rows: int) -> float:
    """Loss per row, in Brier score, of learning a mean in each cell against knowing it: K (1 + log(T/K)) / T."""
    if n_rows == 0:
        return math.inf
    used = min(cells, n_rows)
    return used * (1.0 + math.log(n_rows / used)) / n_rows


def lost_by_binning(m: int) -> float:
    """Refinement in bins of width 1/m exceeds the Brier score by at most half a width."""
    return 0.5 / m


def hedged_error(m: int, cells: int, n_rows: int, *, means: bool = False) -> float:
    """Mean calibration error of Foster's rule on a grid of m forecasts, in this many cells of its own."""
    if n_rows == 0:
        return math.inf
    if means:
        return 0.5 / m + math.sqrt(mean_regret(cells, n_rows))
    return 0.5 / m + (1.0 - 1.0 / m) * math.sqrt(cells / n_rows)


def hedged_brier(m: int, cells: int, n_rows: int, *, means: bool = False) -> float:
    """Mean Brier score of Foster's rule above the refinement of the blocks that it runs in."""
    error = hedged_error(m, cells, n_rows, means=means)
    if not means:
        return error - 0.5 / m + 0.25 / m**2
    return min(error * error, 1.0 / m + mean_regret(cells, n_rows))


def judged_error(m: int, blocks: int, n_rows: int) -> float:
    """Calibration error of the judged forecasts of two choices, beyond half a width: no cell is ever further out."""
    if n_rows == 0:
        return math.inf
    farthest = (3 * m * m - 2 * m) // 4  # the sum of max(i, m - 1 - i) over i < m
    return blocks * farthest / m / n_rows


def promise(
    n_rows: int, expected: bool, assumptions: tuple[str, ...], rows: Sequence[tuple[str, float, str]]
) -> tuple[OnlineCertificate, ...]:
    """Certificates of those (quantity, bound, theorem) that say something: all these quantities are at most 1."""
    return tuple(OnlineCertificate(q, b, n_rows, expected, assumptions, t) for q, b, t in rows if b < 1.0)


def first_of(found: tuple[OnlineCertificate, ...]) -> OnlineCertificate | Refusal:
    """The main certificate, or why there is none."""
    return found[0] if found else Refusal("the bounds say nothing after so few rows: pass n_rows to see what more give")
