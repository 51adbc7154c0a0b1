"""Error rates of the verdict on several classes and on multi-label targets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from calibrant.verdict import check, compare

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def drawn(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities of unequal frequency, and classes drawn from them."""
    z = rng.normal(0.0, 1.3, (n, k)) + np.linspace(1.0, -1.0, k)
    p = special.softmax(z, axis=1)
    return p, np.minimum((rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1), k - 1)


@pytest.mark.parametrize(
    ("n", "k", "notion"), [(300, 5, "confidence"), (300, 5, "top-label"), (2_000, 12, "confidence")]
)
def test_calibrated_classes_are_seldom_called_off(n: int, k: int, notion: str, full_size: bool) -> None:
    """``off_classes`` of the confidence are those of the class-wise notion, whose status follows from them."""
    runs, status, classes = (300 if full_size else 12), 0, 0
    for seed in range(runs):
        p, y = drawn(np.random.default_rng([k, seed]), n, k)
        verdict = check(p, y, classes=range(k), notion=notion)
        status += verdict.status in ("off", "miscalibrated")
        classes += bool(verdict.off_classes)
    for count in (status, classes):
        assert stats.binomtest(count, runs, 0.05, alternative="greater").pvalue > 1e-3, (status, classes)


def test_calibrated_labels_are_seldom_called_off(full_size: bool) -> None:
    """Labels of a row depend on each other."""
    runs, wrong = (300 if full_size else 10), 0
    for seed in range(runs):
        rng = np.random.default_rng([9, seed])
        p = rng.beta(1, 4, (500, 4))
        shared = np.where(rng.random((500, 4)) < 0.5, rng.random((500, 1)), rng.random((500, 4)))
        wrong += check(p, (shared < p).astype(int)).status in ("off", "miscalibrated")
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > 1e-3, wrong


def test_one_class_off_is_found_and_named(full_size: bool) -> None:
    """The test has power: the odds of one class in five are doubled."""
    runs, found = (100 if full_size else 5), 0
    for seed in range(runs):
        p, y = drawn(np.random.default_rng([7, seed]), 4_000, 5)
        raised = p * np.array([1.0, 1.0, 1.0, 2.0, 1.0])
        verdict = check(raised / raised.sum(axis=1, keepdims=True), y, notion="class-wise")
        found += verdict.status in ("off", "miscalibrated") and "3" in verdict.off_classes
    assert found >= 0.9 * runs, found


def test_a_class_within_the_tolerance_is_seldom_called_miscalibrated(full_size: bool) -> None:
    """Every class is at the limit of the tolerance: log-odds of each label shifted by 0.2."""
    runs, wrong = (300 if full_size else 10), 0
    for seed in range(runs):
        rng = np.random.default_rng([8, seed])
        x = rng.normal(-1.0, 1.0, (600, 5))
        y = rng.random((600, 5)) < special.expit(x + 0.2)
        wrong += check(special.expit(x), y.astype(int)).status == "miscalibrated"
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > 1e-3, wrong


def test_a_class_beyond_the_tolerance_is_seldom_called_calibrated(full_size: bool) -> None:
    """One label of five is at the limit of the tolerance; the others are calibrated and sure to be found so."""
    runs, wrong = (300 if full_size else 8), 0
    for seed in range(runs):
        rng = np.random.default_rng([6, seed])
        x = rng.normal(-0.5, 1.0, (4_000, 3))
        y = rng.random((4_000, 3)) < special.expit(x + np.array([0.2, 0.0, 0.0]))
        wrong += check(special.expit(x), y.astype(int)).status == "calibrated"
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > 1e-3, wrong


def test_intervals_of_a_comparison_of_classes_cover(full_size: bool) -> None:
    """Two models that differ by noise alone: the true differences are 0."""
    runs, missed = (400 if full_size else 12), np.zeros(3, dtype=int)
    for seed in range(runs):
        rng = np.random.default_rng([5, seed])
        z = rng.normal(0.0, 1.3, (400, 3))
        y = np.minimum((rng.random((400, 1)) > special.softmax(z, axis=1).cumsum(axis=1)).sum(axis=1), 2)
        models = [special.softmax(z + rng.normal(0.0, 0.7, z.shape), axis=1) for _ in range(2)]
        for place, each in enumerate(compare(*models, y, classes=range(3)).differences[1:]):
            missed[place] += not each.low <= 0.0 <= each.high
    for count in missed:
        assert stats.binomtest(int(count), runs, 0.05, alternative="greater").pvalue > 1e-3, missed
