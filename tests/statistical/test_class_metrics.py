"""Intervals of class metrics cover, and their null values are what a calibrated model shows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from calibrant.metrics import brier, debiased_ece, ece, log_loss

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

EDGES = np.arange(1, 10) / 10


def sample(rng, n, k, bend):
    """Claimed probabilities, and labels from a truth that is bent away from them."""
    p = rng.dirichlet(np.full(k, 0.5), n)
    q = p**bend
    q /= q.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) >= np.cumsum(q, axis=1)).sum(axis=1)
    return p, q, np.minimum(y, k - 1)


def population_error(k, bend, notion):
    """Root mean square of the gaps of bins, from true probabilities of many rows."""
    p, q, _ = sample(np.random.default_rng(0), 300_000, k, bend)
    if notion == "class-wise":
        named = np.broadcast_to(np.arange(k), p.shape).ravel()
        s, t = p.ravel(), q.ravel()
    else:
        named = p.argmax(axis=1)
        s, t = (np.take_along_axis(x, named[:, None], axis=1)[:, 0] for x in (p, q))
    cell = named * (len(EDGES) + 1) + np.searchsorted(EDGES, s, side="right")
    rows, gap = np.bincount(cell), np.bincount(cell, t - s)
    return float(np.sqrt((gap[rows > 0] ** 2 / rows[rows > 0]).sum() / len(s)))


@pytest.mark.parametrize("notion", ["class-wise", "top-label"])
@pytest.mark.parametrize(("k", "n", "bend"), [(2, 500, 1.2), (3, 1000, 1.5), (5, 2000, 1.2)])
def test_the_interval_of_the_debiased_error_covers(k, n, bend, notion, full_size, monkeypatch):
    monkeypatch.setattr("calibrant.metrics.multiclass.covariance.DRAWS", 2)  # null values are not looked at
    truth = population_error(k, bend, notion)
    rng = np.random.default_rng([k, n])
    covered, repetitions = 0, 1000 if full_size else 150
    for _ in range(repetitions):
        p, _, y = sample(rng, n, k, bend)
        found = debiased_ece(p, y, classes=range(k), notion=notion, edges=EDGES)
        covered += found.low <= truth <= found.high
    assert binomtest(covered, repetitions, 0.95, alternative="less").pvalue > 1e-3, covered / repetitions


@pytest.mark.parametrize("notion", ["confidence", "top-label", "class-wise", "canonical"])
def test_a_calibrated_model_exceeds_the_null_value_once_in_twenty(notion, full_size):
    rng = np.random.default_rng(7)
    beyond, values, nulls, repetitions = 0, [], [], 800 if full_size else 150
    rows = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.2, 0.1, 0.7]])
    for r in range(repetitions):
        p = rows[rng.integers(0, 4, 300)]
        y = (rng.random((300, 1)) >= np.cumsum(p, axis=1)).sum(axis=1)
        found = ece(p, np.minimum(y, 2), classes=range(3), notion=notion, random_state=r)
        beyond += found.value > found.null_high
        values.append(found.value)
        nulls.append(found.null)
    assert binomtest(beyond, repetitions, 0.05).pvalue > 1e-3, beyond / repetitions
    assert np.mean(values) == pytest.approx(np.mean(nulls), abs=4 * np.std(values) / np.sqrt(repetitions))


@pytest.mark.parametrize("metric", [brier, log_loss])
def test_losses_of_a_calibrated_model_are_as_their_null_values_say(metric, full_size):
    rng = np.random.default_rng(8)
    beyond, covered, repetitions = 0, 0, 4000 if full_size else 600
    # Rows of the flat Dirichlet law of four classes: E[p^2] = 2/20, and the mean entropy is 1/2 + 1/3 + 1/4.
    expected = 1 - 4 * 2 / 20 if metric is brier else 13 / 12
    for _ in range(repetitions):
        p = rng.dirichlet(np.ones(4), 200)
        y = (rng.random((200, 1)) >= np.cumsum(p, axis=1)).sum(axis=1)
        found = metric(p, np.minimum(y, 3), classes=range(4))
        beyond += found.value > found.null_high
        covered += found.low <= expected <= found.high
    assert binomtest(beyond, repetitions, 0.05).pvalue > 1e-3, beyond / repetitions
    assert binomtest(covered, repetitions, 0.95).pvalue > 1e-3, covered / repetitions
