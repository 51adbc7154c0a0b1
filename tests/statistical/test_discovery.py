"""The search for a region where the model is off: how often it cries wolf, and how often it finds what is there."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.discovery import NULL, finds_planted, raises_alarm
from scipy import special, stats

from calibrant.verdict.discovery import discover

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def test_a_planted_region_is_found(full_size: bool) -> None:
    """n = 20,000, event rate 20 %, 3 % of the rows off by 1 in log-odds: Jaccard overlap at least 0.5 in 80 %."""
    runs = 200 if full_size else 5
    found = sum(finds_planted(seed) for seed in range(runs))
    assert found >= 0.8 * runs, found


@pytest.mark.parametrize(("intercept", "slope"), [(0.15, 1.0), (-0.8, 1.0), (1.2, 1.0), (-0.8, 0.6)])
@pytest.mark.parametrize(("n", "mean"), [(600, 0.0), (2_000, -4.0), (3_000, -1.6)])
def test_a_model_that_is_off_everywhere_alike_has_no_region(
    n: int, mean: float, intercept: float, slope: float, full_size: bool
) -> None:
    """Off by intercept, or by intercept and slope, alone; scores go with a feature, which has ties."""
    runs = 1_000 if full_size else 8

    def off(seed: int) -> bool:
        rng = np.random.default_rng([3, n, seed])
        x = rng.random((n, 4))
        x[:, 0] = x[:, 0].round(1)
        z = rng.normal(mean, 0.9, n) + 0.8 * (x[:, 0] - 0.5)
        y = rng.random(n) < special.expit(intercept + slope * z)
        return discover(special.expit(z), y.astype(int), {f"x{j}": x[:, j] for j in range(4)}, positive=1).off

    alarms = sum(map(off, range(runs)))
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3, alarms


@pytest.mark.parametrize(("n", "mean"), NULL)
def test_false_alarms_are_at_most_five_percent(n: int, mean: float, full_size: bool) -> None:
    """Calibrated models, also with rare events and few rows; ties in features, and missing values."""
    runs = 2_000 if full_size else 15
    alarms = sum(raises_alarm(seed, n, mean) for seed in range(runs))
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3, alarms
