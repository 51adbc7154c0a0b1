"""Certificates of rows sampled by class hold in the population, and would not if sampling followed the score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import calibrant as cb
from calibrant.numerics import expit

pytestmark = pytest.mark.statistical

LEVEL, ALPHA = 1e-3, 0.1


def test_exactly_all_outcomes_of_one_bin(subtests):
    """``kept`` is the rate at which negatives stay over that of events; all numbers of events, each with its chance."""
    for rate, kept, n in [(0.02, 0.05, 60), (0.3, 0.2, 40), (0.004, 0.01, 80), (0.6, 3.0, 40)]:
        with subtests.test(rate=rate, kept=kept, n=n):
            sampled = rate / (rate + kept * (1.0 - rate))
            false = outside = 0.0
            for k in range(1, n):
                y = np.arange(n) < k
                cal = cb.HistogramBinning(n_bins=1, strategy="width")
                promise = cal.fit(np.full(n, 0.5), y, np.where(y, kept, 1.0), weight_type="by-class").certificate(ALPHA)
                chance = stats.binom.pmf(k, n, sampled)
                false += chance * bool(abs(promise.outputs[0] - rate) > promise.epsilon)
                outside += chance * bool(rate < promise.lower[0] or rate > promise.upper[0])
            assert false <= outside <= ALPHA
            assert outside > 0.0  # the interval is not empty talk: some outcomes do miss


def draw(rng, n=6_000, follows_score=False):
    x = rng.normal(-2.5, 1.5, n)
    y = rng.random(n) < expit(x)
    share = 0.1 * (2.0 * expit(3.0 * (x + 2.5)) if follows_score else 1.0)
    kept = y | (rng.random(n) < share)
    return expit(0.7 * x[kept]), y[kept], np.where(y[kept], 1.0, 10.0)


GRID = stats.norm.ppf((np.arange(40_000) + 0.5) / 40_000, -2.5, 1.5)


def broken(promise) -> bool:
    """Whether the true event rate of a bin, in the population, is further from its output than is guaranteed."""
    place = np.searchsorted(promise.about.knots, expit(0.7 * GRID), side="right")
    mass = np.maximum(np.bincount(place, minlength=len(promise.rows)), 1)
    rates = np.bincount(place, expit(GRID), len(promise.rows)) / mass
    return bool(((rates < promise.lower - 1e-4) | (rates > promise.upper + 1e-4))[promise.covered].any())


def test_a_certificate_holds_in_the_population(full_size):
    rng, samples, false = np.random.default_rng(5), 2_000 if full_size else 200, 0
    for _ in range(samples):
        cal = cb.HistogramBinning(n_bins=8).fit(*draw(rng), weight_type="by-class")
        false += broken(cal.certificate(ALPHA))
    assert stats.binomtest(false, samples, ALPHA, alternative="greater").pvalue > LEVEL


def test_it_fails_if_sampling_follows_the_score():
    """The weights state the mean rate of each class; nothing in them shows that high scores were kept more often."""
    rng = np.random.default_rng(6)
    false = sum(
        broken(
            cb.HistogramBinning(n_bins=8).fit(*draw(rng, follows_score=True), weight_type="by-class").certificate(ALPHA)
        )
        for _ in range(20)
    )
    assert false == 20


def test_a_guarantee_holds_in_the_population(full_size):
    rng, samples, false, made = np.random.default_rng(7), 400 if full_size else 25, 0, 0
    for _ in range(samples):
        try:
            cal = cb.calibrate(*draw(rng), weight_type="by-class", guarantee=(0.15, ALPHA), score_type="probability")
        except cb.InputError:
            continue
        made += 1
        false += broken(cal.certificate())
        assert cal.certificate().epsilon <= 0.15
    assert made > samples / 2
    assert stats.binomtest(false, samples, ALPHA, alternative="greater").pvalue > LEVEL
