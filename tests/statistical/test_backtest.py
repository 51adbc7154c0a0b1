"""Intervals of the differences between policies cover the truth about as often as they say, if blocks are independent.

Of 4,000 simulated histories of 105 days, 94.9 % are covered with independent normal days, 93.9 % with uneven and skewed
ones, 94.2 % with dependence from day to day, and 61 % if days of a month share a draw.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from calibrant import live
from calibrant.live.replay.scoring import Difference
from calibrant.maps import LogitAffineMap
from calibrant.numerics import Floats, expit

pytestmark = pytest.mark.statistical

DAYS = 105
"""15 blocks of 7 days."""


ABOUT = 0.07
"""What may be missed where the interval is an approximation: 5 %, and 2 % more for few blocks."""


def too_many(missed: int, repetitions: int, allowed: float) -> bool:
    """Whether more than this share is missed, by the exact binomial test at 0.1 %."""
    return bool(stats.binomtest(missed, repetitions, allowed, alternative="greater").pvalue < 1e-3)


def independent(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Sums and rows of days: 40 rows on each, with mean 0."""
    return rng.normal(0.0, 1.0, DAYS), np.full(DAYS, 40.0)


def uneven(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Numbers of rows that differ by a factor of 10, none on some days, and skewed sums."""
    rows = rng.integers(4, 40, DAYS) * (rng.random(DAYS) < 0.8) * 1.0
    return np.sqrt(rows) * (rng.exponential(1.0, DAYS) - 1.0), rows


def by_weekday(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Days of a week differ, and each day is like the one before."""
    noise = rng.normal(0.0, 1.0, DAYS + 1)
    weekday = np.array([2.0, 1.0, 0.0, 0.0, 0.0, -1.0, -2.0])[np.arange(DAYS) % 7]
    return weekday + noise[1:] + 0.5 * noise[:-1], np.full(DAYS, 40.0)


def by_month(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Days of a month share a draw: dependence that is longer than a block."""
    return np.repeat(rng.normal(0.0, 1.0, DAYS // 30 + 1), 30)[:DAYS] + rng.normal(0.0, 1.0, DAYS), np.full(DAYS, 40.0)


class Other(live.Never):
    """A fixed map under a name of its own."""

    name = "another map"

    def __init__(self) -> None:
        super().__init__(LogitAffineMap(0.8, 0.1))


def missed(world: Callable[[np.random.Generator], tuple[Floats, Floats]], repetitions: int) -> int:
    """Intervals that do not hold the mean difference, which is 0."""
    rng, found = np.random.default_rng(7), 0
    for _ in range(repetitions):
        change = Difference.of(*world(rng))
        found += not change.low <= 0.0 <= change.high
    return found


@pytest.mark.parametrize(("world", "allowed"), [(independent, 0.05), (uneven, ABOUT), (by_weekday, ABOUT)])
def test_intervals_of_blocks_cover(world, allowed: float, full_size: bool) -> None:
    """With independent normal days the interval is exact."""
    repetitions = 4_000 if full_size else 1_000
    assert not too_many(missed(world, repetitions), repetitions, allowed)


def test_dependence_over_months_is_noticed(full_size: bool) -> None:
    """What the notes of the interval exclude does break it."""
    repetitions = 4_000 if full_size else 1_000
    assert too_many(missed(by_month, repetitions), repetitions, ABOUT)


@pytest.mark.slow
def test_intervals_of_a_back_test_cover(full_size: bool) -> None:
    """The true difference of two fixed maps is an integral; labels come late, and some days have few rows."""
    repetitions, n = (2_000, 1_000) if full_size else (60, 1_000)
    z, width = np.linspace(-9.0, 7.0, 4_001, retstep=True)
    p, q = expit(z), expit(0.8 * z + 0.1)
    loss = p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))
    truth = float((loss * stats.norm.pdf(z, -1.0, 1.0)).sum() * width)
    found = 0
    for k in range(repetitions):
        rng = np.random.default_rng([8, k])
        odds = rng.normal(-1.0, 1.0, n)
        at = DAYS * rng.beta(1.0, 1.5, n)
        result = live.backtest(expit(odds), rng.random(n) < expit(odds), at, ["never", Other()], delay=2)
        change = result["another map"].log_loss_change
        found += not change.low <= truth <= change.high
    assert not too_many(found, repetitions, ABOUT)
