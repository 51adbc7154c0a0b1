"""Clinical validation: coverage of the intervals of ICI, E50, E90 and Emax, and the level of the closed test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.clinical import random_effects, update_model
from calibrant.metrics.binary.bins import grouped_or_tally
from calibrant.metrics.binary.distances import spline_intervals
from calibrant.numerics import expit

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3


def sample(rng: np.random.Generator, n: int, clusters: int, share: float, shift: float, slope: float):
    """Risks, outcomes of rate expit(shift + slope z) at each risk, and clusters of correlated outcomes."""
    z = rng.normal(-1.4, 1.1, n)
    p = expit(shift + slope * z)
    if not clusters:
        return expit(z), (rng.random(n) < p).astype(int), None
    cluster = rng.integers(0, clusters, n)
    latent = np.sqrt(share) * rng.normal(size=clusters)[cluster] + np.sqrt(1.0 - share) * rng.normal(size=n)
    return expit(z), (stats.norm.cdf(latent) < p).astype(int), cluster


def truth(shift: float, slope: float) -> np.ndarray:
    z = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) * 1.1 - 1.4
    gap = np.abs(expit(shift + slope * z) - expit(z))
    return np.array([gap.mean(), np.quantile(gap, 0.5), np.quantile(gap, 0.9), gap.max()])


# rows, clusters, their share of the variance, shift and slope of the truth
CASES = [
    (300, 0, 0.0, 0.0, 1.0),
    (300, 0, 0.0, -0.2, 0.8),
    (1000, 0, 0.0, -0.2, 0.7),
    (1200, 12, 0.02, 0.0, 1.0),
    (1500, 30, 0.02, -0.3, 0.7),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_intervals_of_distances_cover(case: tuple, full_size: bool) -> None:
    n, clusters, share, shift, slope = case
    wanted, hits, runs = truth(shift, slope), np.zeros(4), 300 if full_size else 8
    for run in range(runs):
        scores, y, groups = sample(np.random.default_rng([run, n]), n, clusters, share, shift, slope)
        found = spline_intervals(grouped_or_tally(scores, y, None, groups), random_state=run)
        assert found is not None
        hits += (found.low <= wanted + 1e-9) & (wanted <= found.high)
    for covered, least in zip(hits.astype(int).tolist(), (0.93, 0.93, 0.9, 0.85), strict=True):
        assert stats.binomtest(covered, runs, least, alternative="less").pvalue > LEVEL, hits / runs


@pytest.mark.parametrize("clusters", [0, 30])
def test_the_closed_test_seldom_corrects_more_than_needed(clusters: int, full_size: bool) -> None:
    runs, wrong = 400 if full_size else 25, 0
    for run in range(runs):
        scores, y, groups = sample(np.random.default_rng([run, 3]), 900, clusters, 0.02, -0.4, 1.0)
        tested = update_model(scores, y, groups=groups)
        wrong += tested.chosen in ("slope", "flexible")
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > LEVEL, wrong / runs


def test_pooled_and_prediction_intervals_cover(full_size: bool) -> None:
    runs, mean, new = 4000 if full_size else 400, 0, 0
    for run in range(runs):
        rng = np.random.default_rng([run, 4])
        se = rng.uniform(0.1, 0.5, 8)
        found = random_effects(0.9 + 0.3 * rng.normal(size=8) + se * rng.normal(size=8), se)
        mean += found.low <= 0.9 <= found.high
        new += found.prediction_low <= 0.9 + 0.3 * rng.normal() <= found.prediction_high
    assert stats.binomtest(mean, runs, 0.93, alternative="less").pvalue > LEVEL, mean / runs
    assert stats.binomtest(new, runs, 0.9, alternative="less").pvalue > LEVEL, new / runs
