"""The class-wise error that a calibrated model of many classes would show, without draws, against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.metrics import ece
from calibrant.metrics.multiclass.bins import MulticlassBins, overall
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.metrics.multiclass.covariance import closed_null, first_order_se, mean_deviation, null_draws


def sample(rows: int, classes: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = np.maximum(rng.dirichlet(np.full(classes, alpha), rows), 1e-9)
    p /= p.sum(axis=1, keepdims=True)
    return p, (rng.random(rows)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)


@pytest.mark.parametrize(
    ("rows", "classes", "alpha"), [(400, 17, 0.1), (1500, 30, 1.0), (1000, 100, 0.05), (150, 100, 0.01)]
)
def test_the_closed_form_is_the_mean_and_the_quantile_of_draws(rows, classes, alpha):
    p, y = sample(rows, classes, alpha)
    claims = read_claims(p, y, None, notion="class-wise", classes=range(classes), score_type=None, named=None)
    bins, kept = MulticlassBins.of(claims, keep=False), MulticlassBins.of(claims, keep=True)
    draws = null_draws(claims, kept, overall(claims, kept, 1), 0, 400)
    found = closed_null(claims, bins)
    assert found["null"] == pytest.approx(draws.mean(), rel=0.005, abs=4 * draws.std() / 20)
    assert found["null_high"] - found["null"] == pytest.approx(1.645 * draws.std(), rel=0.2)
    assert found["null_high"] == pytest.approx(np.quantile(draws, 0.95), rel=0.02)
    assert first_order_se(claims, bins, 1) == pytest.approx(first_order_se(claims, kept, 1), rel=1e-9)


@pytest.mark.parametrize(
    "alpha",
    [[1.0, 1.0], [1.0, 1.0, 1.0], [0.3] * 10, [0.01, 0.01, 0.5, 3.0]],
    ids=["2", "3", "10", "rare"],
)
def test_the_closed_form_of_few_classes(alpha):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(alpha, 1000)
    y = (rng.random(1000)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=len(alpha) - 1)
    classes = range(len(alpha))
    claims = read_claims(p, y, None, notion="class-wise", classes=classes, score_type=None, named=None)
    bins, kept = MulticlassBins.of(claims, keep=False), MulticlassBins.of(claims, keep=True)
    draws = null_draws(claims, kept, overall(claims, kept, 1), 0, 400)
    found = closed_null(claims, bins)
    assert found["null"] == pytest.approx(draws.mean(), rel=0.005, abs=4 * draws.std() / 20)
    assert found["null_high"] == pytest.approx(np.quantile(draws, 0.95), rel=0.06)
    assert ece(p, y, notion="class-wise", classes=classes).null == pytest.approx(found["null"], rel=1e-9)
    few = ece(p[:900], y[:900], notion="class-wise", classes=classes)  # drawn
    assert few.null_high > few.null > found["null"]


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.3), (4, 0.5), (50, 0.02), (200, 0.4)])
def test_the_mean_deviation_of_a_binomial_number(trials, chance):
    counts = np.arange(trials + 1)
    exact = (binom.pmf(counts, trials, chance) * np.abs(counts - trials * chance)).sum()
    mean = np.array([trials * chance])
    assert mean_deviation(mean, mean * (1 - chance))[0] == pytest.approx(exact, rel=1e-9)


def test_edges_of_the_mean_deviation():
    found = mean_deviation(np.array([0.0, 2.0, 1e-12, 1e6]), np.array([0.0, 0.0, 1e-12, 1e6]))
    np.testing.assert_allclose(found, [0.0, 0.0, 2e-12, np.sqrt(2e6 / np.pi)], rtol=1e-6)


def test_many_classes_have_a_null_value_and_single_bins_too():
    p, y = sample(300, 20, 0.3)
    for options in ({}, {"n_bins": 1}, {"edges": [0.1, 0.5]}, {"strategy": "mass"}, {"p": 2}):
        found = ece(p, y, notion="class-wise", classes=range(20), **options)
        assert found.null is not None
        assert found.null_high > found.null >= 0.0
        assert found.se is None or found.se > 0.0
    single = ece(p.astype(np.float32), y, notion="class-wise", classes=range(20), score_type="probability")
    assert single.null == pytest.approx(ece(p, y, notion="class-wise", classes=range(20)).null, rel=1e-3)
    assert ece(p, y, notion="class-wise", classes=range(20), uncertainty=False).null is None
