"""The search for a region where the model is off: how often it cries wolf, and how often it finds what is there."""

from __future__ import annotations

import pytest
from benchmarks.discovery import NULL, finds_planted, raises_alarm
from scipy import stats

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def test_a_planted_region_is_found(full_size: bool) -> None:
    """n = 20,000, event rate 20 %, 3 % of the rows off by 1 in log-odds: Jaccard overlap at least 0.5 in 80 %."""
    runs = 200 if full_size else 5
    found = sum(finds_planted(seed) for seed in range(runs))
    assert found >= 0.8 * runs, found


@pytest.mark.parametrize(("n", "mean"), NULL)
def test_false_alarms_are_at_most_five_percent(n: int, mean: float, full_size: bool) -> None:
    """Calibrated models, also with rare events and few rows; ties in features, and missing values."""
    runs = 2_000 if full_size else 15
    alarms = sum(raises_alarm(seed, n, mean) for seed in range(runs))
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3, alarms
