"""Bounds of calibeating and of calibration games, derived in docs/certificates/games.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import RANDOMIZED, OnlineAssumption, OnlineCertificate

ULPS, ULP = 1.0 + 2.0**-50, 2.0**-51
"""Factor and term that widen bounds, since forecasts, comparisons and both sides are rounded."""

CHANCES, SUMS = 2.0**-49, 2.0**-54
"""Most that rounding of probabilities can add to a mean error for each earlier row, and rounding of sums of outcomes in
[0, 1] to an error: docs/certificates/games.md, Rounding."""

MANY = 2**40
"""Number of rows up to which rounding matters little; above it, only rounding can make a bound vacuous."""


def mean_regret(cells: int, n_rows: int) -> float:
    """Regret per row, in Brier score, of learning the mean of each of K cells: K (1 + log(T/K)) / T."""
    if n_rows == 0:
        return math.inf
    used = min(cells, n_rows)
    return used * (1.0 + math.log(n_rows / used)) / n_rows


def prior_regret(m: int, n_rows: int, prior: float) -> float:
    """The same in m bins of width 1/m, with a prior of ``prior`` rows at the midpoint of each bin."""
    if prior == 0.0 or n_rows == 0:
        return mean_regret(m, n_rows)
    farthest = 7.0 * m / 12.0  # bounds the sum over bins of the squared distance from midpoint to the farther end
    return (prior * farthest + m * math.log1p(n_rows / (m * (prior + 0.5)))) / n_rows


def lost_by_binning(m: int) -> float:
    """Bound on how much the refinement in bins of width 1/m exceeds the Brier score: half a width."""
    return 0.5 / m


def hedged_error(m: int, cells: int, n_rows: int, *, means: bool = False) -> float:
    """Bound on the mean calibration error of Foster's rule on a grid of m forecasts, in this many cells."""
    if n_rows == 0:
        return math.inf
    if means:
        return 0.5 / m + math.sqrt(mean_regret(cells, n_rows))
    return 0.5 / m + (1.0 - 1.0 / m) * math.sqrt(cells / n_rows)


def hedged_brier(m: int, cells: int, n_rows: int, *, means: bool = False) -> float:
    """Bound on the mean Brier score of Foster's rule minus the refinement of its blocks."""
    error = hedged_error(m, cells, n_rows, means=means)
    if not means:
        return error - 0.5 / m + 0.25 / m**2
    return min(error * error, 1.0 / m + mean_regret(cells, n_rows))


def farthest_out(m: int) -> float:
    """Sum of the largest deviations of the cells of a two-choices game: sum of max(i, m - 1 - i) over i < m, over m."""
    return (3 * m * m - 2 * m) // 4 / m


def judged_error(m: int, blocks: int, n_rows: int) -> float:
    """Bound on the calibration error of the judged forecasts of two choices in this many games."""
    return 0.5 / m + blocks * farthest_out(m) / n_rows if n_rows else math.inf


def certificates_of(
    learned: int, n_rows: int, expected: bool, rows: Sequence[tuple[str, float, str]]
) -> tuple[OnlineCertificate, ...]:
    """A certificate for each (quantity, bound, theorem), the main one first, including vacuous ones."""
    more = ULP + (CHANCES * n_rows if expected else 0.0)
    assumed = RANDOMIZED if expected else (OnlineAssumption.IN_ORDER,)
    return tuple(
        OnlineCertificate(q, b * ULPS + more, n_rows, expected, assumed, t, learned=learned) for q, b, t in rows
    )


def main_of(found: OnlineCertificate, empty: float = 1.0) -> OnlineCertificate | NoCertificate:
    """The main certificate, or why there is none; never one about another quantity instead."""
    if found.bound < empty:
        return found
    quantity = found.quantity.rstrip(",")
    rows = "this few rows: pass a larger n_rows"
    if found.n_rows > MANY:
        rows = "this many rows, since rounding errors add up: pass a smaller n_rows"
    return NoCertificate(NoCertificateCode.VACUOUS, f"the bound on {quantity} is vacuous for {rows}")
