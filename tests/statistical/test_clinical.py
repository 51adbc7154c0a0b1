"""Clinical validation: coverage of the intervals of ICI, E50, E90 and Emax, and the level of the closed test."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.curve_distances import CASES, Case, coverage
from scipy import stats

from calibrant.clinical import random_effects, update_model
from calibrant.numerics import expit

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3


def sample(rng: np.random.Generator, n: int, clusters: int, share: float, shift: float, slope: float):
    """Risks, outcomes of rate expit(shift + slope z) at each risk, and clusters of correlated outcomes."""
    z, y, groups = Case(n, clusters, share, shift, slope).draw(rng)
    return expit(z), y.astype(int), groups


@pytest.mark.parametrize("case", [CASES[place] for place in (0, 1, 2, 3, 6)], ids=str)
def test_intervals_of_distances_cover(case: Case, full_size: bool) -> None:
    runs = 300 if full_size else 6
    hits, below, _ = coverage(case, runs)
    for covered, least in zip(hits.astype(int).tolist(), (0.94, 0.94, 0.94, 0.92), strict=True):
        assert stats.binomtest(covered, runs, least, alternative="less").pvalue > LEVEL, hits / runs
    assert stats.binomtest(int(below.max()), runs, 0.06, alternative="greater").pvalue > LEVEL, below / runs


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
