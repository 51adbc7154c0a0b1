"""Recalibrated distributions: the map, the exact band, conformal intervals, jumps and flat parts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from calibrant import InputError
from calibrant.conformal import recalibrate_distributions
from calibrant.online import CdfForecast, GaussianForecast, QuantileForecast, SampleForecast

LEVEL = 1e-3


def test_the_map_and_quantiles_by_hand() -> None:
    """Outcomes at the quantiles 0.2, 0.4, 0.6, 0.8 of a uniform distribution on [0, 1]."""
    uniform = CdfForecast(lambda x: np.clip(x, 0, 1), 4, lambda level: level)
    found = recalibrate_distributions(uniform, [0.4, 0.2, 0.8, 0.6], alpha=0.2)
    assert found.ranks.tolist() == [0.2, 0.4, 0.6, 0.8]
    assert found.map.apply([0.1, 0.2, 0.5, 1.0]).tolist() == [0.0, 0.25, 0.5, 1.0]
    new = found.apply(CdfForecast(lambda x: np.clip(x, 0, 1), 1, lambda level: level))
    assert new.cdf([0.5]).tolist() == [0.5]
    assert new.quantile(0.6)[0] == pytest.approx(0.6)  # ceil(0.6 x 5) = 3
    assert new.quantile(0.81)[0] == np.inf
    sets = found.intervals(CdfForecast(lambda x: np.clip(x, 0, 1), 1, lambda level: level), 0.4)
    assert sets.ends[0] == pytest.approx([0.2, 0.8])
    assert sets.certificate.level == pytest.approx(0.6)
    assert np.isinf(found.intervals(uniform, 0.1).width).all()


def test_the_band_is_that_of_the_exact_kolmogorov_statistic() -> None:
    """Miller (1956) has 0.40925 for ten rows at 5 %; Massart's bound is above."""
    ranks = GaussianForecast(np.zeros(10), 1.0)
    found = recalibrate_distributions(ranks, np.linspace(-1, 1, 10), alpha=0.05)
    assert found.epsilon == pytest.approx(0.40925, abs=1e-5)
    assert found.epsilon < np.sqrt(np.log(2 / 0.05) / 20)
    lower, upper = found.band([0.0, 0.5, 1.0])
    assert lower.tolist() == [0.0, pytest.approx(0.5 - found.epsilon), pytest.approx(1 - found.epsilon)]
    assert upper[2] == 1.0
    assert json.loads(json.dumps(found.to_dict()))["rejects"] is False


def test_forms_of_a_forecast_give_the_same_ranks() -> None:
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=50), rng.normal(size=50)
    gauss = recalibrate_distributions(GaussianForecast(mean, 1.0), y)
    scipy = recalibrate_distributions(stats.norm(mean, 1.0), y)
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    quantiles = QuantileForecast(levels, mean[:, None] + stats.norm.ppf(levels))
    assert np.allclose(gauss.ranks, scipy.ranks)
    assert np.allclose(gauss.ranks, recalibrate_distributions(quantiles, y).ranks)
    assert np.allclose(
        gauss.apply(stats.norm(mean, 1.0)).quantile(0.7), gauss.apply(GaussianForecast(mean, 1.0)).quantile(0.7)
    )


def test_a_row_without_a_forecast_has_no_ends() -> None:
    found = recalibrate_distributions(GaussianForecast(np.zeros(30), 1.0), np.linspace(-2, 2, 30))
    sets = found.intervals(GaussianForecast([0.0, np.nan], 1.0), 0.2)
    assert np.isinf(sets.width).tolist() == [False, True]
    assert np.isnan(found.apply(GaussianForecast([np.nan], 1.0)).cdf([0.0])).all()


def test_errors_name_the_argument() -> None:
    gauss = GaussianForecast([0.0, 1.0], 1.0)
    for call, words in (
        (lambda: recalibrate_distributions(gauss, []), "y is empty"),
        (lambda: recalibrate_distributions(gauss, [1.0]), "y has 1 row"),
        (lambda: recalibrate_distributions(gauss, [1.0, np.nan]), "y has 1 missing value"),
        (
            lambda: recalibrate_distributions(GaussianForecast([0.0, np.nan], 1.0), [1, 2]),
            "forecast is missing at row 1 counted from 0",
        ),
        (lambda: recalibrate_distributions([0.1, 0.2], [1, 2]), "forecast must be a predictive distribution"),
        (lambda: recalibrate_distributions(gauss, [1, 2], alpha=0.0), "alpha must be strictly between"),
        (lambda: recalibrate_distributions(gauss, [1, 2]).band([2.0]), r"levels must lie in \[0, 1\]"),
        (lambda: recalibrate_distributions(gauss, [1, 2]).apply(gauss).quantile(1.5), "level must be strictly"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    assert recalibrate_distributions(GaussianForecast([0.0], 1.0), [0.3]).n == 1


@pytest.mark.statistical
def test_the_band_holds_and_calibrated_forecasts_are_seldom_rejected(full_size: bool) -> None:
    """Also with jumps: counts, whose distributions have atoms."""
    rng, runs, n = np.random.default_rng(1), 5_000 if full_size else 300, 40
    grid = np.linspace(0.001, 0.999, 300)
    broken = rejected = jumps = 0
    for _ in range(runs):
        mean = rng.normal(size=n)
        found = recalibrate_distributions(GaussianForecast(mean, 0.7), mean + rng.normal(size=n))
        truth = stats.norm.cdf(0.7 * stats.norm.ppf(grid))
        lower, upper = found.band(grid)
        broken += bool(((truth < lower) | (truth > upper)).any())
        rejected += recalibrate_distributions(GaussianForecast(mean, 1.0), mean + rng.normal(size=n)).rejects
        rate = rng.uniform(0.5, 3.0, n)
        jumps += recalibrate_distributions(stats.poisson(rate), rng.poisson(rate)).rejects
    for wrong in (broken, rejected, jumps):
        assert stats.binomtest(wrong, runs, 0.1, alternative="greater").pvalue > LEVEL
    assert broken > 0.03 * runs  # the band is exact, so it is not wide


@pytest.mark.statistical
def test_intervals_hold_a_new_outcome_also_of_samples_and_counts(full_size: bool) -> None:
    rng, runs, n = np.random.default_rng(2), 5_000 if full_size else 300, 25
    hits = {"gauss": 0, "samples": 0, "flat": 0}
    for _ in range(runs):
        y = rng.normal(size=n + 1) * 2.0
        new = y[-1:]
        gauss = recalibrate_distributions(GaussianForecast(np.zeros(n), 1.0), y[:-1])
        hits["gauss"] += gauss.intervals(GaussianForecast([0.0], 1.0), 0.2).covers(new)[0]
        draws = rng.normal(size=(n + 1, 6))
        samples = recalibrate_distributions(SampleForecast(draws[:-1]), y[:-1])
        hits["samples"] += samples.intervals(SampleForecast(draws[-1:]), 0.2).covers(new)[0]
        few = np.array([[-1.0, 1.0]])  # most outcomes have one of three ranks
        flat = recalibrate_distributions(SampleForecast(np.repeat(few, n, axis=0)), y[:-1])
        hits["flat"] += flat.intervals(SampleForecast(few), 0.2).covers(new)[0]
    for name, count in hits.items():
        assert stats.binomtest(count, runs, 0.8, alternative="less").pvalue > LEVEL, name
