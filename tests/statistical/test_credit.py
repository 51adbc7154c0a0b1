"""Correlated defaults: tests reject a right PD, and bounds fall below it, as seldom as they say, under their model."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import special, stats

from calibrant import credit
from calibrant.credit.factor import tail

pytestmark = pytest.mark.statistical


def too_many(hits: int, trials: int, rate: float) -> bool:
    """Whether hits are more than chance explains, at 1e-3."""
    return bool(stats.binom.sf(hits - 1, trials, rate) < 1e-3)


def defaults(n: np.ndarray, pd: np.ndarray, rho: float, size: int, seed: int) -> np.ndarray:
    """Defaults of grades that share one factor, drawn without the package."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((size, 1))
    return rng.binomial(n, special.ndtr((special.ndtri(pd) - np.sqrt(rho) * z) / np.sqrt(1 - rho)))


def test_the_correlated_test_holds_its_level_and_the_independent_one_does_not(full_size: bool) -> None:
    size = 20_000 if full_size else 2_000
    for rho, pd in [(0.12, [0.002, 0.01, 0.05]), (0.4, [0.0005, 0.0005, 0.2])]:
        n, p = np.array([400, 300, 100]), np.array(pd)
        totals = defaults(n, p, rho, size, 1).sum(axis=1)
        correlated, free = ({k: tail(k, n, p, r) for k in np.unique(totals).tolist()} for r in (rho, 0.0))
        for alpha in (0.05, 0.001):
            assert not too_many(sum(correlated[k] <= alpha for k in totals.tolist()), size, alpha)
        assert too_many(sum(free[k] <= 0.05 for k in totals.tolist()), size, 0.05)


def test_several_years_hold_their_level(full_size: bool) -> None:
    size, n, pd, rho, theta = 600 if full_size else 150, [[300, 100]] * 3, [[0.005, 0.04]] * 3, 0.15, 0.5
    rng = np.random.default_rng(2)
    low = 0
    for _ in range(size):
        z = rng.standard_normal(3)
        for year in (1, 2):
            z[year] = theta * z[year - 1] + np.sqrt(1 - theta**2) * z[year]
        p = special.ndtr((special.ndtri(np.array(pd)) - np.sqrt(rho) * z[:, None]) / np.sqrt(1 - rho))
        found = credit.vasicek_test(
            n,
            rng.binomial(n, p),
            pd,
            correlation=rho,
            year_correlation=theta,
            paths=500,
            random_state=int(rng.integers(1 << 30)),
        )
        low += found.portfolio_p <= 0.1
    assert not too_many(low, size, 0.1)


def test_correlated_bounds_cover_the_pd(full_size: bool) -> None:
    size, n, pd = 5_000 if full_size else 300, np.array([100, 400, 300]), np.array([0.001, 0.003, 0.01])
    drawn = defaults(n, pd, 0.12, size, 3)

    @cache
    def bounds(key: tuple[int, ...]) -> np.ndarray:
        return credit.pluto_tasche(n, key, confidence=0.9, correlation=0.12)

    below = np.array([bounds(tuple(row)) < pd for row in drawn.tolist()]).sum(axis=0)
    for grade in below:
        assert not too_many(int(grade), size, 0.1)


# Rows of each year, mean PD and standard deviation of the logarithm of yearly PDs. The bound of the first three covered
# in 89 to 92 %.
YEARS = [
    ([2_000] * 10, 0.01, 0.5),
    ([500] * 5, 0.01, 0.4),
    ([100, 100, 100, 3_000, 3_000, 5_000], 0.01, 0.5),
    ([200] * 4, 0.005, 0.0),
    ([2_000] * 3, 0.02, 0.3),
    ([5_000] * 20, 0.01, 0.5),
    ([5_000] * 25, 0.02, 0.4),
    ([300] * 6, 0.005, 0.5),
    ([1_000] * 8, 0.02, 0.0),
]


@pytest.mark.parametrize("setting", YEARS, ids=lambda setting: f"{len(setting[0])} years, {setting[1:]}")
def test_the_long_run_average_of_skewed_years_is_covered(setting: tuple, full_size: bool) -> None:
    n, pd, sd = setting
    rng, runs, covered, below = np.random.default_rng([3, YEARS.index(setting)]), 4_000 if full_size else 400, 0, 0
    for _ in range(runs):
        rates = np.minimum(pd * np.exp(sd * rng.standard_normal(len(n)) - sd**2 / 2), 1.0)
        found = credit.long_run_average(n, rng.binomial(n, rates))
        covered += found.low <= pd <= found.high
        below += pd <= found.upper
    for count in (covered, below):
        assert stats.binomtest(count, runs, 0.93, alternative="less").pvalue > 1e-3, count / runs
