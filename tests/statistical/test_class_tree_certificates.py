"""Leaves of several classes that other rows chose: their certificates hold as often as they say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binomtest

from calibrant.calibrators.trees import CalibrationTree
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificate import Certificate
from calibrant.numerics import Floats

pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")]

ALPHA = 0.2
X, T = (np.repeat([0.0, 1.0, 2.0, np.nan], 3), np.tile(np.array(["a", "b", None], dtype=object), 4))
"""Equally likely cells of a number and a text, so true class frequencies of leaves are known exactly."""
SCORES = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])


@dataclass(frozen=True)
class World:
    """Class frequencies by cell, number of rows, and rows that a leaf needs."""

    rates: Floats
    n: int
    min_rows: int


def shares(*lines: list[float]) -> Floats:
    return np.array(lines)[np.arange(len(X)) % len(lines)]


WORLDS = {
    "features that matter": World(shares([0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]), 300, 10),
    "noise": World(shares([0.5, 0.3, 0.2]), 300, 10),
    "a rare class": World(shares([0.7, 0.28, 0.02], [0.4, 0.595, 0.005]), 600, 20),
    "few rows": World(shares([0.5, 0.3, 0.2], [0.1, 0.8, 0.1]), 60, 4),
}


def fit(world: World, seed: int, **options: bool) -> CalibrationTree:
    rng = np.random.default_rng([97, seed])
    at = rng.integers(0, len(X), world.n)
    y = (rng.random(world.n)[:, None] > np.cumsum(world.rates[at], axis=1)[:, :2]).sum(axis=1)
    cal = CalibrationTree(world.min_rows, 6, pruning_alpha=0.0, split_on_score=False, **options)
    return cal.fit(SCORES[at % 2], y, {"x": X[at], "t": T[at]}, classes=[0, 1, 2], score_type="probability")


def true_rates(cal: CalibrationTree, world: World) -> Floats:
    leaf = cal.map_.route(SCORES[np.zeros(len(X), dtype=int)], {"x": X, "t": T} if cal.map_.columns else None)
    sums = np.array([[world.rates[leaf == j, c].mean() for c in range(3)] for j in range(len(cal.map_.maps))])
    return sums.ravel()


@pytest.mark.parametrize("name", WORLDS)
def test_a_certificate_of_classes_is_broken_at_most_as_often_as_alpha(name: str, full_size: bool) -> None:
    runs, broken, issued = (2000 if full_size else 30), 0, 0
    for seed in range(runs):
        cal = fit(WORLDS[name], seed, honest=True)
        promise = cal.certificate(alpha=ALPHA)
        if isinstance(promise, Certificate):
            issued += 1
            true = true_rates(cal, WORLDS[name])
            broken += bool(((true < promise.lower) | (true > promise.upper))[promise.covered].any())
    assert issued >= runs / 2, "a simulation of certificates that are not issued shows nothing"
    assert binomtest(broken, runs, ALPHA, alternative="greater").pvalue > 1e-3


def test_intervals_of_the_same_rows_would_be_broken_more_often() -> None:
    """The check above can fail: where features are noise, rows that chose a split have shares too far apart."""
    rates, broken, runs = np.array([0.5, 0.3, 0.2]), 0, 30
    for seed in range(runs):
        rng = np.random.default_rng([98, seed])
        noise = {f"x{j}": rng.random(300) for j in range(5)}
        cal = CalibrationTree(10, 6, pruning_alpha=0.0, split_on_score=False)
        cal.fit(SCORES[np.arange(300) % 2], rng.choice(3, 300, p=rates), noise, classes=[0, 1, 2])
        rows = np.repeat(cal.leaves_.rows.astype(int), 3)
        lower, upper = BOUNDS["clopper-pearson"](cal.leaves_.events.ravel().astype(int), rows, ALPHA / len(rows))
        true = np.tile(rates, len(cal.map_.maps))
        broken += bool(((true < lower) | (true > upper)).any())
    assert binomtest(broken, runs, ALPHA, alternative="greater").pvalue < 1e-3
