"""Promises about regions of the simplex are broken at most alpha of the time, and half as wide ones more often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.guarantees.certificate import Certificate
from calibrant.numerics import Floats

pytestmark = pytest.mark.statistical

ALPHA, LEVEL = 0.1, 1e-3


@dataclass(frozen=True)
class World:
    """Score rows with their probabilities, and the class distribution at each: rows are drawn from it with ties."""

    scores: Floats
    mass: Floats
    truth: Floats

    def draw(self, n: int, rng: np.random.Generator) -> MulticlassRows:
        """Independent rows, as the calibrator sees them."""
        index = rng.choice(len(self.mass), size=n, p=self.mass)
        y = (rng.random((n, 1)) > self.truth[index].cumsum(axis=1)).sum(axis=1)
        names = tuple("abc"[: self.truth.shape[1]])
        labels = np.minimum(y, len(names) - 1)
        return MulticlassRows(
            self.scores[index], labels, names, np.array(names), None, True, None, None, "probability", (), ()
        )

    def distances(self, promise: Certificate, inside: Any) -> Floats:
        """The l1 distance between truth and output by region; 0 where the world has no mass."""
        codes, size = promise.about.map.regions(self.scores), len(promise.about.distances)
        mass = np.bincount(codes[inside], self.mass[inside], minlength=size)
        held = [
            np.bincount(codes[inside], (self.mass * self.truth[:, j])[inside], minlength=size)
            for j in range(self.truth.shape[1])
        ]
        rate = np.stack(held, axis=1) / np.where(mass > 0, mass, 1.0)[:, None]
        off = np.abs(rate - promise.about.map.outputs_by_region).sum(axis=1)
        return np.where(mass > 0, off, 0.0)


def _world(scores: Any, truth: Any, mass: Any = None) -> World:
    weight = np.ones(len(scores)) if mass is None else np.asarray(mass, dtype=float)
    truth = np.asarray(truth, dtype=float)
    return World(np.asarray(scores, dtype=float), weight / weight.sum(), truth / truth.sum(axis=1, keepdims=True))


def smooth() -> World:
    scores = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], size=5_000)
    return _world(scores, scores**2 + 0.02)


def heaped() -> World:
    """Tenths: 66 rows in all, whose truth jumps from one to the next, so that an edge is unlike its neighbors."""
    scores = np.array([[i, j, 10 - i - j] for i in range(11) for j in range(11 - i)]) / 10.0
    jump = np.eye(3)[np.arange(len(scores)) % 3]
    return _world(scores, scores + jump)


def saturated() -> World:
    """Corners hold two thirds of the rows, and are not always right."""
    rng = np.random.default_rng(2)
    scores = np.vstack([np.eye(3), rng.dirichlet([0.3, 0.3, 0.3], size=2_000)])
    return _world(scores, np.vstack([0.7 * np.eye(3) + 0.1, scores[3:] + 0.2]), [3_000, 800, 200, *[1] * 2_000])


def skewed() -> World:
    scores = np.random.default_rng(3).dirichlet([20.0, 0.5, 0.2], size=3_000)
    return _world(scores, scores * [1.0, 0.5, 2.0])


def constant() -> World:
    return _world([[0.5, 0.3, 0.2]], [[0.4, 0.35, 0.25]])


WORLDS: dict[str, Callable[[], World]] = {
    "smooth": smooth, "heaped": heaped, "saturated": saturated, "skewed": skewed, "constant": constant,
}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "classes": {"n_bins": 6},
    "random": {"n_bins": 6, "directions": "random"},
    "sierpinski": {"scheme": "sierpinski", "depth": 2},
    "grid": {"scheme": "grid", "cells": 3},
}


def broken(
    world: World, form: dict[str, Any], n: int, seed: int, *, part: float = 1.0, everywhere: bool = False
) -> int:
    """Whether one certificate is broken somewhere: in a region, by its own half width."""
    fitted = SimplexBinning(**form)._fit_rows(world.draw(n, np.random.default_rng(seed)))
    promise = fitted.certificate(ALPHA)
    assert isinstance(promise, Certificate)
    inside = np.ones(len(world.mass), dtype=bool) if everywhere else promise.about.covers(promise, world.scores)
    off = world.distances(promise, inside)
    promised = promise.about.by_region(promise.covered)[:, 0]
    return int((promised & (off > part * promise.about.distances + 1e-12)).any())


@pytest.mark.parametrize("world", WORLDS)
def test_no_promise_is_broken_more_often_than_alpha(subtests: pytest.Subtests, world: str, full_size: bool) -> None:
    """Twenty pairs of 100 repetitions, 2,000 in all; at full size 2,000 each."""
    for form in FORMS:
        with subtests.test(form=form):
            repetitions, built = 2_000 if full_size else 100, WORLDS[world]()
            count = sum(broken(built, FORMS[form], 250, seed) for seed in range(repetitions))
            assert stats.binomtest(count, repetitions, ALPHA, alternative="greater").pvalue > LEVEL


@pytest.mark.slow
def test_few_rows_and_ties_break_it_no_more_often_than_alpha(full_size: bool) -> None:
    """2,000 repetitions with 20 rows a region, on tenths whose truth jumps."""
    repetitions, built = 10_000 if full_size else 600, heaped()
    count = sum(broken(built, FORMS["classes"], 120, seed) for seed in range(repetitions))
    assert stats.binomtest(count, repetitions, ALPHA, alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize("form", ["classes", "grid"])
def test_half_the_width_would_be_broken(form: str) -> None:
    count = sum(broken(smooth(), FORMS[form], 600, seed, part=0.5) for seed in range(100))
    assert stats.binomtest(count, 100, ALPHA, alternative="greater").pvalue < LEVEL


def test_a_promise_that_covers_light_thresholds_would_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 5.10 sends rows on a threshold to a region whose shares were taken without them.

    Tenths whose truth depends on the first class alone and jumps with it, and thresholds that are called light up to
    half a region.
    """
    monkeypatch.setattr("calibrant.calibrators.multiclass.simplex.HEAVY_ROWS", 10**9)
    scores = heaped().scores
    built = _world(scores, np.eye(3)[np.rint(10 * scores[:, 0]).astype(int) % 3] + 0.05)
    count = sum(broken(built, {"n_bins": 4}, 4_000, seed, everywhere=True) for seed in range(60))
    assert stats.binomtest(count, 60, ALPHA, alternative="greater").pvalue < LEVEL
    count = sum(broken(built, {"n_bins": 4}, 4_000, seed) for seed in range(60))
    assert stats.binomtest(count, 60, ALPHA, alternative="greater").pvalue > LEVEL
