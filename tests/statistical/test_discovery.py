"""The search for a region where the model is off: how often it cries wolf, and how often it finds what is there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from calibrant.verdict.discovery import discover

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

SIDE = 0.03**0.5
"""Side of a square with 3 % of the rows."""


def drawn(seed: object, n: int, shift: float, mean: float = -1.6) -> tuple[np.ndarray, np.ndarray, dict, np.ndarray]:
    """Ten features, log-odds of the scores, labels, and a region of 3 % of the rows whose log-odds are shifted."""
    rng = np.random.default_rng(seed)
    x, z = rng.random((n, 10)), rng.normal(mean, 0.9, n)
    region = (x[:, 2] > 1.0 - SIDE) & (np.abs(x[:, 7] - 0.4) < SIDE / 2.0)
    y = rng.random(n) < special.expit(z + shift * region)
    return special.expit(z), y, {f"x{j}": x[:, j] for j in range(10)}, region


def test_a_planted_region_is_found(full_size: bool) -> None:
    """n = 20,000, event rate 20 %, 3 % of the rows off by 1 in log-odds: Jaccard overlap at least 0.5 in 80 %."""
    runs, found = (200 if full_size else 5), 0
    for seed in range(runs):
        scores, y, features, region = drawn([1, seed], 20_000, 1.0)
        best = discover(scores, y, features)
        inside = best.contains(features)
        found += best.off and best.too_low and (region & inside).sum() >= 0.5 * (region | inside).sum()
    assert found >= 0.8 * runs, found


@pytest.mark.parametrize(("n", "mean"), [(2_000, -1.6), (2_000, -4.5), (300, 0.0)])
def test_false_alarms_are_at_most_five_percent(n: int, mean: float, full_size: bool) -> None:
    """Calibrated models, also with rare events and few rows; ties in features, and missing values."""
    runs, alarms = (2_000 if full_size else 15), 0
    for seed in range(runs):
        scores, y, features, _ = drawn([2, n, seed], n, 0.0, mean)
        features["x0"] = features["x0"].round(1)
        features["x1"] = np.where(features["x1"] < 0.2, np.nan, features["x1"])
        alarms += discover(scores, y.astype(int), features, positive=1).off
    assert stats.binomtest(int(alarms), runs, 0.05, alternative="greater").pvalue > 1e-3, alarms
