"""The three promises of `check`, on the worlds of benchmarks/verdict.py, and that clusters are not new evidence."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.verdict import BASE_RATES, OFFSETS, World, summary
from scipy import special, stats

from calibrant.verdict import check

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


@pytest.mark.parametrize(("base_rate", "offset"), list(product(BASE_RATES, OFFSETS)))
def test_the_verdict_keeps_its_three_promises(base_rate: float, offset: str, full_size: bool) -> None:
    runs, sizes = (300, (100, 1_000, 10_000)) if full_size else (40, (100, 1_000))
    for n in sizes:
        row = summary(World(base_rate, 1.0, False, offset), n, runs)
        assert not list(row.failures()), str(row)


def test_heaped_scores_do_not_raise_false_alarms(full_size: bool) -> None:
    row = summary(World(0.3, 0.7, True, "calibrated"), 400, 400 if full_size else 100)
    assert not list(row.failures()), str(row)


def test_dependent_rows_raise_false_alarms_unless_their_groups_are_given(full_size: bool) -> None:
    """200 patients of 25 rows, labels of a patient drawn from one number: calibrated, but worth far fewer rows."""
    runs, alarms, naive = (400 if full_size else 60), 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        patient = np.repeat(np.arange(200), 25)
        scores = special.expit(-1.0 + 0.8 * rng.standard_normal(5_000))
        own = rng.random(5_000)
        shared = np.where(rng.random(5_000) < 0.7, rng.random(200)[patient], own)
        labels = shared < scores
        alarms += check(scores, labels, groups=patient).state == "miscalibrated"
        naive += check(scores, labels, tolerance=(0.05, 0.05)).state == "miscalibrated"
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3
    assert naive > 0.1 * runs, "without groups the same rows raise alarms: the test has power"
