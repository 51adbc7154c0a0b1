"""Intervals of `compare`: the difference of squared calibration error in hard worlds, losses, ranking and Holm."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from calibrant.arrays import check_rows
from calibrant.verdict.change import CALIBRATION
from calibrant.verdict.compare import _losses
from calibrant.verdict.differences import calibration, ranking

Floats = np.ndarray
World = Callable[[np.random.Generator, int, Callable[[Floats], Floats]], tuple[list[Floats], Floats]]
GRID = np.linspace(0.0, 1.0, 100_001)
RARE = stats.beta.ppf(np.clip(GRID, 1e-7, 1.0 - 1e-7), 0.8, 39.2)
RATES = {"even": lambda u: 0.001 + 0.998 * u, "2 %": lambda u: np.maximum(np.interp(u, GRID, RARE), 1e-5)}
"""True rates from uniform numbers; the second has 2 % events."""


def both_calibrated(rng, n, rate):
    """The true rates, and their means in twentieths: correlated, and both calibrated."""
    u = rng.random(n)
    means = rate((np.arange(4_000) + 0.5) / 4_000).reshape(20, 200).mean(axis=1)
    return [rate(u), means[(20 * u).astype(int)]], rate(u)


def half_each(rng, n, rate):
    """Two calibrated models, each of which knows its own half of the truth: nearly independent."""
    mean = float(rate((np.arange(4_000) + 0.5) / 4_000).mean())
    a, b = (mean + 0.5 * (rate(rng.random(n)) - mean) for _ in range(2))
    return [a, b], a + b - mean


def off_alike(rng, n, rate):
    """The same two models, both a quarter too high."""
    (a, b), truth = half_each(rng, n, rate)
    return [1.25 * a, 1.25 * b], truth


def off_alike_and_close(rng, n, rate):
    """Two models off alike that differ by a little noise."""
    truth = rate(rng.random(n))
    noise = 0.05 * rng.choice([-1.0, 1.0], n)
    return [special.expit(0.7 * special.logit(truth) - 0.1 + sign * noise) for sign in (1.0, -1.0)], truth


def off_to_either_side(rng, n, rate):
    truth = rate(rng.random(n))
    return [0.8 * truth, np.minimum(1.2 * truth, 0.999)], truth


def one_off(rng, n, rate):
    truth = rate(rng.random(n))
    return [truth, special.expit(special.logit(truth) + 0.3)], truth


def one_too_extreme(rng, n, rate):
    truth = rate(rng.random(n))
    return [special.expit(1.4 * special.logit(truth)), truth], truth


def ties(rng, n, rate):
    """Seven scores, one model off and the other with an atom at the mean."""
    truth = rate((rng.integers(0, 7, n) + 0.5) / 7)
    mean = float(rate((np.arange(7) + 0.5) / 7).mean())
    return [special.expit(special.logit(truth) + 0.2), np.where(rng.random(n) < 0.5, truth, mean)], truth


def two_constants(rng, n, rate):
    mean = float(rate((np.arange(4_000) + 0.5) / 4_000).mean())
    truth = rate(rng.random(n))
    return [np.full(n, 1.3 * mean), np.full(n, mean)], truth


WORLDS: dict[str, World] = {
    made.__name__: made
    for made in (
        both_calibrated, half_each, off_alike, off_alike_and_close, off_to_either_side, one_off, one_too_extreme, ties,
        two_constants,
    )
}  # fmt: skip


class Truth:
    """The difference of squared calibration errors of the true rates of a large sample, in any ranges."""

    def __init__(self, models: list[Floats], rates: Floats) -> None:
        order = [np.argsort(scores) for scores in models]
        self.scores = [scores[each] for scores, each in zip(models, order, strict=True)]
        self.sums = [np.append(0.0, np.cumsum((rates - s)[each])) for s, each in zip(models, order, strict=True)]

    def __call__(self, lowest: tuple[float, ...]) -> float:
        found = []
        for scores, sums in zip(self.scores, self.sums, strict=True):
            ends = np.concatenate([[0], np.searchsorted(scores, lowest[1:]), [len(scores)]])
            n = np.diff(ends)
            found.append(float((np.diff(sums[ends]) ** 2 / np.maximum(n, 1)).sum()) / len(scores))
        return found[1] - found[0]


def missed(name: str, base: str, n: int, runs: int, dependent: bool) -> tuple[int, int, int]:
    """Runs with an interval, and how often the truth is below and above it."""
    world, rate = WORLDS[name], RATES[base]
    truth_in = Truth(*world(np.random.default_rng(99), 1_000_000 if runs > 100 else 200_000, rate))
    below = above = count = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, n])
        groups = None
        if dependent:  # groups of ten rows, of which a third share their scores and the number that makes their labels
            models, rates = world(rng, n, rate)
            size = n // 10
            shared = rng.random(n) < 0.5
            groups = np.repeat(np.arange(size), 10)
            source = np.where(shared, groups * 10, np.arange(n))
            models, rates = [scores[source] for scores in models], rates[source]
            y = np.where(shared, rng.random(size)[groups], rng.random(n)) < rates
        else:
            models, rates = world(rng, n, rate)
            y = rng.random(n) < rates
        rows = [check_rows(scores, y.astype(int), groups=groups) for scores in models]
        (found,), lowest = calibration(rows, ("a", "b"))
        if np.isfinite(found.low):
            count += 1
            truth = truth_in(lowest)
            below += truth < found.low
            above += truth > found.high
    return count, below, above


CELLS = [(name, "even", 300, False) for name in WORLDS]
CELLS += [(name, "even", 3_000, dependent) for name, dependent in product(WORLDS, (False, True))]
CELLS += [(name, "2 %", n, False) for name, n in product(WORLDS, (1_500, 3_000))]


@pytest.mark.parametrize(("name", "base", "n", "dependent"), CELLS)
def test_the_interval_of_squared_calibration_error_covers(
    name: str, base: str, n: int, dependent: bool, full_size: bool
) -> None:
    runs = 2_000 if full_size else 40
    count, below, above = missed(name, base, n, runs, dependent)
    assert count > 0.8 * runs
    assert stats.binomtest(count - below - above, count, 0.95, alternative="less").pvalue > 1e-3, (below, above, count)


def test_fewer_than_twenty_events_have_no_interval() -> None:
    assert missed("one_off", "2 %", 300, 20, False)[0] == 0


def test_without_groups_dependent_rows_mislead() -> None:
    """The same rows as if independent: the simulation has power against a wrong variance."""
    misses, runs = 0, 100
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        truth = np.repeat(rng.random(60), 20)
        y = (np.repeat(rng.random(60), 20) < truth).astype(int)
        models = [special.expit(special.logit(truth) + shift) for shift in (-0.5, 0.5)]
        for place, groups in enumerate((None, np.repeat(np.arange(60), 20))):
            (found,), _ = calibration([check_rows(each, y, groups=groups) for each in models], ("a", "b"))
            misses += (1 if place == 0 else 0) * (not found.low <= 0.0 <= found.high)
    assert misses > 0.3 * runs


def test_losses_and_ranking_cover(full_size: bool) -> None:
    """Models whose true differences are 0 by symmetry."""
    runs = 2_000 if full_size else 60
    wrong = dict.fromkeys(("Log loss", "Brier score", "AUC"), 0)
    for seed in range(runs):
        rng = np.random.default_rng([5, seed])
        models, rates = half_each(rng, 1_000, RATES["even"])
        y = (rng.random(1_000) < rates).astype(int)
        rows = [check_rows(each, y) for each in models]
        for each in (*_losses(rows, ("a", "b")), *ranking(rows, ("a", "b"))):
            wrong[each.name] += not each.low <= 0.0 <= each.high
    for name, count in wrong.items():
        assert stats.binomtest(count, runs, 0.05, alternative="greater").pvalue > 1e-3, name


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_five_models_alike_are_seldom_told_apart(off: float, full_size: bool) -> None:
    """Calibrated, or off by the same shift: a pair is called better or worse in at most 5 % of samples, by measure."""
    runs, n = (2_000 if full_size else 40), 1_000
    names = list("abcde")
    wrong = dict.fromkeys((CALIBRATION, "Log loss", "Brier score", "AUC"), 0)
    for seed in range(runs):
        rng = np.random.default_rng([6, seed])
        parts = rng.random((5, n)) - 0.5
        rates = 0.5 + 0.2 * parts.sum(axis=0)
        models = [special.expit(special.logit(0.5 + 0.2 * part) + off) for part in parts]
        y = (rng.random(n) < rates).astype(int)
        rows = [check_rows(each, y) for each in models]
        found = (*calibration(rows, names)[0], *_losses(rows, names), *ranking(rows, names))
        for measure in wrong:
            wrong[measure] += any(each.adjusted <= 0.05 for each in found if each.name == measure)
    for measure, count in wrong.items():
        assert stats.binomtest(count, runs, 0.05, alternative="greater").pvalue > 1e-3, (measure, count)
