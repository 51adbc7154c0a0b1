"""The bounds of calibeating and of calibration games; docs/certificates/games.md derives them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.guarantees.online_promise import DRAWN, IN_ORDER, OnlineCertificate
from calibrant.guarantees.refusal import Refusal, RefusalCode

ULPS, ULP = 1.0 + 2.0**-50, 2.0**-51
"""Bounds that a sequence attains are wider by this factor and by this much, since forecasts, comparisons and both sides
are rounded."""

CHANCES, SUMS = 2.0**-49, 2.0**-54
"""What the rounding of chances may add to a mean error for each row that came before, and that of sums of outcomes in
[0, 1] to an error: docs/certificates/games.md, Rounding."""

MANY = 2**40
"""Fewer rows lose little to rounding; beyond this many, it is all that can leave a bound empty."""


def mean_regret(cells: int, n_rows: int) -> float:
    """Loss per row, in Brier score, of learning a mean in each cell against knowing it: K (1 + log(T/K)) / T."""
    if n_rows == 0:
        return math.inf
    used = min(cells, n_rows)
    return used * (1.0 + math.log(n_rows / used)) / n_rows


def prior_regret(m: int, n_rows: int, prior: float) -> float:
    """The same in m bins of width 1/m, where ``prior`` rows at the mid-point of a bin count beforehand."""
    if prior == 0.0 or n_rows == 0:
        return mean_regret(m, n_rows)
    farthest = 7.0 * m / 12.0  # at least the sum over the bins of the squared distance from mid-point to farther end
    return (prior * farthest + m * math.log1p(n_rows / (m * (prior + 0.5)))) / n_rows


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


def farthest_out(m: int) -> float:
    """How far the cells of one game of two choices can be out, in sum: that of max(i, m - 1 - i) over i < m, over m."""
    return (3 * m * m - 2 * m) // 4 / m


def judged_error(m: int, blocks: int, n_rows: int) -> float:
    """Calibration error of the judged forecasts of two choices in this many games."""
    return 0.5 / m + blocks * farthest_out(m) / n_rows if n_rows else math.inf


def certificates_of(
    learned: int, n_rows: int, expected: bool, rows: Sequence[tuple[str, float, str]]
) -> tuple[OnlineCertificate, ...]:
    """One for each (quantity, bound, theorem), the main one first, whether it says something or not."""
    more = ULP + (CHANCES * n_rows if expected else 0.0)
    assumed = DRAWN if expected else (IN_ORDER,)
    return tuple(
        OnlineCertificate(q, b * ULPS + more, n_rows, expected, assumed, t, learned=learned) for q, b, t in rows
    )


def main_of(found: OnlineCertificate, empty: float = 1.0) -> OnlineCertificate | Refusal:
    """The main certificate, or why there is none; never one on another quantity in its place."""
    if found.bound < empty:
        return found
    quantity = found.quantity.rstrip(",")
    rows = "this few rows: pass a larger n_rows"
    if found.n_rows > MANY:
        rows = "this many rows, as rounding adds up: pass a smaller n_rows"
    return Refusal(RefusalCode.VACUOUS, f"the bound on {quantity} is vacuous for {rows}")
