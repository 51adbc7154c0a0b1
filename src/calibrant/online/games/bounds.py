"""Bounds of calibeating and of calibration games, derived in docs/certificates/games.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.guarantees.online_certificate import RANDOMIZED, OnlineAssumption, OnlineCertificate
from calibrant.online.limits import ULP, ULPS

CHANCES, SUMS = 2.0**-49, 2.0**-54
"""Most that rounding of probabilities can add to a mean error for each earlier row, and rounding of sums of outcomes in
[0, 1] to an error: docs/certificates/games.md, Rounding."""


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


def hedged_error(m: int, cells: int, n_rows: int, *, means: bool = False, alpha: float | None = None) -> float:
    """Bound on the calibration error of Foster's rule on a grid of m forecasts, in this many cells.

    On the mean over the draws, or with ``alpha`` one that a run exceeds with at most this probability.
    """
    if n_rows == 0:
        return math.inf
    if means:
        found = mean_regret(cells, n_rows)
        if alpha is not None:
            more = (1.0 - 1.0 / m) * math.sqrt(2.0 * math.log(1.0 / alpha) / n_rows)
            found = min(found + more, found / alpha)
        return 0.5 / m + math.sqrt(found)
    rare = 1.0 if alpha is None else rare_growth(alpha)
    return 0.5 / m + (1.0 - 1.0 / m) * math.sqrt(rare * cells / n_rows)


def rare_growth(alpha: float) -> float:
    """How many times its bound in the mean the sum of squared excesses is exceeded with probability alpha at most.

    The least a log(a / ((a - 1) alpha)) over a > 1, or 1 / alpha by Markov's inequality if that is less.

    Examples
    --------
    >>> [round(rare_growth(alpha), 2) for alpha in (0.5, 0.1, 0.05, 0.01)]
    [2.0, 4.89, 5.74, 7.64]
    """
    low, high = 0.0, 1.0  # the root of log(1 / alpha) + log(1 + u) - u in u = 1 / (a - 1); any u gives a valid bound
    while math.log(1.0 / alpha) + math.log1p(high) > high:
        low, high = high, 2.0 * high
    for _ in range(60):
        u = 0.5 * (low + high)
        low, high = (u, high) if math.log(1.0 / alpha) + math.log1p(u) > u else (low, u)
    return min((1.0 + 1.0 / high) * (math.log(1.0 / alpha) + math.log1p(high)), 1.0 / alpha)


def hedged_brier(m: int, cells: int, n_rows: int, *, means: bool = False, alpha: float | None = None) -> float:
    """Bound on the Brier score of Foster's rule minus the refinement of its blocks; see :func:`hedged_error`."""
    error = hedged_error(m, cells, n_rows, means=means, alpha=alpha)
    if not means:
        return error - 0.5 / m + 0.25 / m**2
    return error * error if alpha is not None else min(error * error, 1.0 / m + mean_regret(cells, n_rows))


def farthest_out(m: int) -> float:
    """Sum of the largest deviations of the cells of a two-choices game: sum of max(i, m - 1 - i) over i < m, over m."""
    return (3 * m * m - 2 * m) // 4 / m


def judged_error(m: int, blocks: int, n_rows: int) -> float:
    """Bound on the calibration error of the judged forecasts of two choices in this many games."""
    return 0.5 / m + blocks * farthest_out(m) / n_rows if n_rows else math.inf


def certificates_of(
    learned: int, n_rows: int, drawn: bool, rows: Sequence[tuple[str, float, str]], alpha: float | None = None
) -> tuple[OnlineCertificate, ...]:
    """A certificate for each (quantity, bound, theorem), the main one first, including vacuous ones.

    With ``drawn`` on the mean over the draws, or on a run with probability 1 - ``alpha``; else on every sequence.
    """
    more = ULP + (CHANCES * n_rows if drawn else 0.0)
    assumed = RANDOMIZED if drawn else (OnlineAssumption.IN_ORDER,)
    mean, rare = drawn and alpha is None, alpha if drawn else None
    return tuple(
        OnlineCertificate(q, b * ULPS + more, n_rows, mean, assumed, t, learned=learned, alpha=rare) for q, b, t in rows
    )
