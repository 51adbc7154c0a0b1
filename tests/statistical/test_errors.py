"""Calibration errors by simulation: null values, standard errors, bias and the interval of the debiased square."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import stats

from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.errors import debiased_ece, ece, pde
from calibrant.metrics.binary.resampling import Resampled, bootstrap
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import Floats
from calibrant.tallies import GroupedTally, cluster_buckets

pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")]

LEVEL = 1e-3
FINE = (np.arange(20_000) + 0.5) / 20_000

Metric = Callable[..., Estimate]
Truth = Callable[[np.ndarray], np.ndarray]


def flatter(s: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.sqrt((1.0 - s) / s))


def same(s: np.ndarray) -> np.ndarray:
    return s


def shrunk(s: np.ndarray) -> np.ndarray:
    return 0.9 * s


def plug_in(sample: Resampled) -> Floats:
    return np.abs(sample.events - sample.score_sum).sum(axis=-1) / sample.n.sum(axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (ece, {}),
        (ece, {"p": 2}),
        (ece, {"p": np.inf, "n_bins": 10}),
        (ece, {"against": "midpoint"}),
        (ece, {"strategy": "mass"}),
        (pde, {}),
        (debiased_ece, {}),
        (debiased_ece, {"squared": True}),
    ],
)
def test_the_null_value_is_what_calibrated_rows_show(metric: Metric, options: dict, full_size: bool) -> None:
    """One set of scores, many sets of labels drawn from them: mean within 3 standard errors, 5 % at the mark."""
    repetitions = 2_000 if full_size else 150
    rng = np.random.default_rng(20)
    scores = rng.beta(1.0, 2.0, 600)
    told = metric(scores, rng.random(600) < scores, **options)
    again = [metric(scores, rng.random(600) < scores, **options).value for _ in range(repetitions)]
    # The reported null value is a mean of 1,000 draws, so it has a standard error of its own.
    spread = np.std(again) * np.sqrt(1.0 / repetitions + 1.0 / 1_000)
    assert abs(np.mean(again) - told.null) < 3.0 * spread
    # Some laws have atoms, so the mark is exceeded in at most 5 % of samples and reached in at least 5 %. It comes from
    # 1,000 draws, so its own level is uncertain by three times the root of 0.05 * 0.95 / 1,000, that is 2 points.
    over = int((np.array(again) > told.null_high + 1e-12).sum())
    reached = int((np.array(again) >= told.null_high - 1e-12).sum())
    assert stats.binomtest(over, repetitions, 0.07, alternative="greater").pvalue > LEVEL
    assert stats.binomtest(reached, repetitions, 0.03, alternative="less").pvalue > LEVEL


@pytest.mark.parametrize("weighted", [False, True])
def test_the_bootstrap_standard_error_is_the_spread_of_samples(weighted: bool, full_size: bool) -> None:
    """A clearly miscalibrated model, within 15 %; weights count through the effective size."""
    repetitions, n = (2_000, 2_000) if full_size else (200, 2_000)
    values, told = [], []
    for repetition in range(repetitions):
        rng = np.random.default_rng([21, repetition])
        scores = rng.random(n)
        weights = rng.exponential(size=n) + 0.01 if weighted else None
        bins = Bins.of(scores, rng.random(n) < 0.6 * scores, weights)
        values.append(float(plug_in(Resampled.once(bins))[0]))
        if repetition < 30:
            told.append(bootstrap(bins, plug_in).std())
    assert np.mean(told) == pytest.approx(np.std(values), rel=0.15)


def test_near_calibration_the_bootstrap_standard_error_is_too_wide_and_never_narrow() -> None:
    values, told = [], []
    for repetition in range(300):
        rng = np.random.default_rng([22, repetition])
        scores = rng.random(1_000)
        bins = Bins.of(scores, rng.random(1_000) < scores)
        values.append(float(plug_in(Resampled.once(bins))[0]))
        told.append(bootstrap(bins, plug_in, repetitions=100).std())
    assert 1.0 < np.mean(told) / np.std(values) < 1.6


def test_the_cluster_bootstrap_knows_the_spread_of_clustered_samples() -> None:
    """Clusters of 10 rows with one score and one label each; the bootstrap of rows is far too narrow."""
    values, told, naive = [], [], []
    for repetition in range(300):
        rng = np.random.default_rng([23, repetition])
        scores = rng.random(400)
        rows, labels = np.repeat(scores, 10), np.repeat(rng.random(400) < 0.6 * scores, 10)
        bins = Bins.of(rows, labels)
        values.append(float(plug_in(Resampled.once(bins))[0]))
        if repetition < 8:
            buckets = cluster_buckets(np.repeat(np.arange(400), 10))
            grouped = GroupedTally.from_arrays(rows, labels, groups=buckets, grid=None)
            told.append(bootstrap(grouped, plug_in).std())
            naive.append(bootstrap(bins, plug_in).std())
    assert np.mean(told) == pytest.approx(np.std(values), rel=0.2)
    assert np.mean(naive) < 0.5 * np.std(values)


def binned_square(edges: np.ndarray, density: np.ndarray, truth: Truth) -> float:
    """Squared l2 error of the score binned at ``edges``, in the population."""
    weight = density / density.sum()
    starts = np.append(0, np.searchsorted(FINE, edges))
    share, gap = np.add.reduceat(weight, starts), np.add.reduceat(weight * (FINE - truth(FINE)), starts)
    return float((gap**2 / share).sum())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["width", "mass"])
@pytest.mark.parametrize(
    ("truth", "n", "n_bins"),
    [
        # all truths at one size and all sizes with one truth, unless `--full`
        pytest.param(truth, *size, marks=[] if size == (500, 15) or truth is flatter else pytest.mark.full)
        for truth, size in product((same, shrunk, flatter), ((100, 5), (500, 1), (500, 15), (5_000, 15)))
    ],
)
def test_the_interval_of_the_debiased_square_covers(
    strategy: str, truth: Truth, n: int, n_bins: int, full_size: bool
) -> None:
    repetitions, covered, values, targets = 1_000 if full_size else 80, 0, [], []
    for repetition in range(repetitions):
        rng = np.random.default_rng([24, n, n_bins, repetition])
        scores = rng.random(n)
        labels = rng.random(n) < truth(scores)
        bins = Bins.of(scores, labels, n_bins=n_bins, strategy=strategy)
        target = binned_square(bins.edges, np.ones_like(FINE), truth)
        found = debiased_ece(scores, labels, n_bins=n_bins, strategy=strategy, squared=True)
        covered += int(found.low <= target <= found.high)
        values.append(found.value)
        targets.append(target)
    assert stats.binomtest(covered, repetitions, 0.95, alternative="less").pvalue > LEVEL
    if n_bins > 1:  # one wide bin: the spread of its scores is taken off too
        error = np.std(values) / np.sqrt(repetitions)
        assert abs(np.mean(values) - np.mean(targets)) < 4.0 * error, "unbiased"


@pytest.mark.slow
def test_the_plug_in_square_is_biased_where_the_debiased_is_not() -> None:
    """Calibrated rows of 15 distinct scores: the plug-in square averages sum_b w_b s_b (1 - s_b) / n_b."""
    values, plain = [], []
    scores = np.repeat(np.arange(1, 16) / 16, 20)
    for repetition in range(300):
        labels = np.random.default_rng([25, repetition]).random(300) < scores
        values.append(debiased_ece(scores, labels, strategy="distinct", squared=True).value)
        plain.append(ece(scores, labels, strategy="distinct", p=2).value ** 2)
    bias = np.mean(scores * (1 - scores)) / 20
    assert np.mean(plain) == pytest.approx(bias, rel=0.1)
    assert abs(np.mean(values)) < 4.0 * np.std(values) / np.sqrt(300)
