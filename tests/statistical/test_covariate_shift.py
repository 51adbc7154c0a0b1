"""Intervals and certificates for a target population hold as often as stated, with known weights of every kind."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from calibrant import HistogramBinning
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.weighted import WEIGHTED_BOUNDS, WeightTable
from calibrant.shift import known_weights, weighted_bernstein, weighted_epsilon

pytestmark = pytest.mark.statistical

ALPHA, LEVEL = 0.1, 1e-3

SHARES = np.linspace(0.05, 1.0, 20)
# Weights with their probability and event rate in the source; the rate of the target is known exactly.
WORLDS = {
    "rate grows with the weight": (SHARES, np.full(20, 0.05), SHARES),
    "rare events": (SHARES, np.full(20, 0.05), 0.02 * SHARES),
    "rare events in light rows": (SHARES, np.full(20, 0.05), 0.05 * (SHARES < 0.3)),
    "few huge weights": (np.array([0.01, 1.0]), np.array([0.98, 0.02]), np.array([0.2, 0.9])),
    "huge weights without events": (np.array([0.02, 1.0]), np.array([0.95, 0.05]), np.array([0.5, 0.0])),
    "weight decides": (np.array([0.3, 0.7]), np.array([0.5, 0.5]), np.array([0.0, 1.0])),
    "equal weights": (np.array([1.0]), np.array([1.0]), np.array([0.5])),
    "only events": (SHARES, np.full(20, 0.05), np.ones(20)),
}


def too_often(failures: int, repetitions: int, alpha: float = ALPHA) -> bool:
    return bool(stats.binomtest(int(failures), repetitions, alpha, alternative="greater").pvalue < LEVEL)


def test_intervals_fail_at_most_alpha_of_the_time(subtests: pytest.Subtests, full_size: bool) -> None:
    repetitions = 2_000 if full_size else 100
    for name, (share, mass, rate) in WORLDS.items():
        truth = float((share * mass * rate).sum() / (share * mass).sum())
        for rows in (1, 2, 7, 60, 1_000) if full_size else (1, 40):
            rng = np.random.default_rng(rows)
            drawn = rng.choice(len(share), repetitions * rows, p=mass)
            events = rng.random(len(drawn)) < rate[drawn]
            index = np.repeat(np.arange(repetitions), rows)
            table = WeightTable.of(3.0 * share[drawn], events, 3.0, index, repetitions)
            for method, bound in WEIGHTED_BOUNDS.items():
                low, high = bound(table, ALPHA)
                with subtests.test(world=name, rows=rows, method=method):
                    assert not too_often(((truth < low - 1e-12) | (truth > high + 1e-12)).sum(), repetitions)


def test_intervals_of_counts_fail_on_the_target(full_size: bool) -> None:
    """The worlds are hard: intervals that ignore the weights miss the rate of the target almost always."""
    share, mass, rate = WORLDS["few huge weights"]
    truth = float((share * mass * rate).sum() / (share * mass).sum())
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(share), (200, 500), p=mass)
    low, high = clopper_pearson((rng.random(drawn.shape) < rate[drawn]).sum(axis=1), 500, ALPHA)
    assert too_often(((truth < low) | (truth > high)).sum(), 200)


# ------------------------------------------------------------------ the design of Gupta (2023), 3.D.4; score: feature 1

STEP = (np.exp(20j) - 1.0) / 20j
"""Mean of exp(20 i u) over u uniform on [0, 1]: squares of the target's features are uniform."""


def true_rates(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Event rate of the target where feature 1 lies between ``low`` and ``high``, in closed form."""
    low, high = np.clip(low, 0.0, 1.0) ** 2, np.clip(high, 0.0, 1.0) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (np.exp(20j * high) - np.exp(20j * low)) / (20j * (high - low))
    return 0.5 * (1.0 + np.imag(mean * STEP**2))


def rows_of_source(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.random((n, 3))
    y = rng.random(n) < 0.5 * (1.0 + np.sin(20.0 * (x**2).sum(axis=1)))
    return x, y


def test_certificates_hold_in_the_simulation_of_the_thesis(subtests: pytest.Subtests, full_size: bool) -> None:
    repetitions = 2_000 if full_size else 30
    for n in (60, 1_000) if full_size else (400,):
        failures = {"betting": 0, "weighted-hoeffding": 0}
        by_bin = dict(failures)
        rng = np.random.default_rng(n)
        for _ in range(repetitions):
            x, y = rows_of_source(rng, n)
            weights = known_weights(8.0 * x.prod(axis=1), upper=8.0)
            fitted = HistogramBinning(4).fit(x[:, 0], y, weights, score_type="probability")
            for interval in failures:
                found = fitted.certificate(ALPHA, interval=interval)
                if not found:
                    continue
                assert isinstance(found, Certificate)
                knots = found.about.knots
                truth = np.nan_to_num(true_rates(np.append(0.0, knots), np.append(knots, 1.0)))
                off = found.covered & (np.abs(truth - found.outputs) > found.epsilon + 1e-9)
                out = found.covered & ((truth < found.lower - 1e-9) | (truth > found.upper + 1e-9))
                failures[interval] += bool(off.any())
                by_bin[interval] += bool(out.any())
        for interval in failures:
            with subtests.test(n=n, interval=interval):
                assert not too_often(by_bin[interval], repetitions)
                assert failures[interval] <= by_bin[interval]


def test_ties_and_atoms_of_the_score(full_size: bool) -> None:
    """Scores on four values, weights that depend on the label's rate within a score."""
    repetitions, failures = 2_000 if full_size else 25, 0
    rng = np.random.default_rng(5)
    truth = {}
    for value in range(4):
        share, rate = np.array([0.1, 1.0]), np.array([0.1, 0.2 * (value + 1)])
        truth[value / 4] = float((share * rate).sum() / share.sum())
    for _ in range(repetitions):
        value, heavy = rng.integers(0, 4, 300), rng.random(300) < 0.5
        y = rng.random(300) < np.where(heavy, 0.2 * (value + 1), 0.1)
        weights = known_weights(np.where(heavy, 1.0, 0.1), upper=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = HistogramBinning(4, bins_from="all").fit(value / 4, y, weights, score_type="probability")
        found = fitted.certificate(ALPHA)
        assert isinstance(found, Certificate)
        place = np.searchsorted(found.about.knots, list(truth), side="right")
        rates = np.array(list(truth.values()))
        alone = np.array([(place == each).sum() == 1 for each in place])
        inside = (found.lower[place] <= rates) & (rates <= found.upper[place])
        failures += bool((~inside & alone & found.covered[place]).any())
    assert not too_often(failures, repetitions)


def test_theorem_3_9_holds_with_known_masses(full_size: bool) -> None:
    repetitions, bins, n, failures = 2_000 if full_size else 100, 4, 400, 0
    edges = np.linspace(0.0, 1.0, bins + 1)
    truth, relative = true_rates(edges[:-1], edges[1:]), np.diff(edges) / np.diff(edges**2)
    rng = np.random.default_rng(9)
    for _ in range(repetitions):
        x, y = rows_of_source(rng, n)
        weights, place = 8.0 * x.prod(axis=1), np.minimum((x[:, 0] * bins).astype(int), bins - 1)
        broken = False
        for b in range(bins):
            at = place == b
            _, low, high = weighted_bernstein(weights[at], y[at], relative[b], upper=8.0, alpha=ALPHA / bins)
            broken |= not low <= truth[b] <= high
        failures += broken
    assert not too_often(failures, repetitions)


def test_theorem_3_7_holds_with_explicit_constants(full_size: bool) -> None:
    """Weights between 1/2 and 3/2: the density of the target is 1/2 + x on [0, 1], the event rate x."""
    repetitions, bins, failures = 2_000 if full_size else 150, 5, 0
    rng = np.random.default_rng(3)
    for n in (10, 100, 1_000):
        bound = weighted_epsilon(n, bins, ALPHA, spread=3.0)
        for _ in range(repetitions // 3):
            x = np.sort(rng.random(n))
            y, w = rng.random(n) < x, 0.5 + x
            ranks = -(-np.arange(1, bins) * (n + 1) // bins) - 1
            ends = np.concatenate([[0.0], x[ranks], [1.0]])
            worst = 0.0
            for low, high in pairwise(ends.tolist()):
                at = (x > low) & (x < high)
                assert at.sum() >= n // bins - 1
                mass = (high - low) / 2 + (high**2 - low**2) / 2
                rate = ((high**2 - low**2) / 4 + (high**3 - low**3) / 3) / mass
                worst = max(worst, abs(float((w * y)[at].sum() / w[at].sum()) - rate))
            failures += worst > bound
    assert not too_often(failures, 3 * (repetitions // 3))
