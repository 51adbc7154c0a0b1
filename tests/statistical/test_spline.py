"""What the spline gains where the truth has a bend, and what it costs where it has none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.fits.isotonic import fit_curve
from calibrant.fits.scaling import fit_platt
from calibrant.fits.spline import fit_spline
from calibrant.maps import Map
from calibrant.numerics import expit, logit
from calibrant.tallies import Tally

pytestmark = pytest.mark.statistical

LEVEL = 1e-3


def bump(s: np.ndarray) -> np.ndarray:
    return expit(logit(s) + 1.2 * np.exp(-0.5 * ((logit(s) + 0.5) / 0.6) ** 2))


def straight(s: np.ndarray) -> np.ndarray:
    return expit(0.6 * logit(s) - 0.5)


def expected_loss(fitted: Map, truth: np.ndarray, scores: np.ndarray) -> float:
    """Log loss on new rows, their labels averaged over."""
    p = fitted.apply(scores)
    return float(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))


def losses(truth, n: int, samples: int) -> np.ndarray:
    """Expected log loss of the spline, of Platt's map and of the isotonic curve, one row per sample."""
    probes = expit(stats.norm.ppf((np.arange(4000) + 0.5) / 4000, -0.3, 1.6))
    out = []
    for seed in range(samples):
        rng = np.random.default_rng([17, n, seed])
        scores = expit(rng.normal(-0.3, 1.6, n))
        tally = Tally.from_arrays(scores, rng.random(n) < truth(scores))
        fits = fit_spline(tally).map, fit_platt(tally)[0], fit_curve(tally)
        out.append([expected_loss(fitted, truth(probes), probes) for fitted in fits])
    return np.array(out)


@pytest.mark.parametrize("n", [1000, 3000])
def test_it_beats_platt_and_isotonic_where_the_truth_has_a_bend(n, full_size):
    """In at least nine samples of ten, and by far on average."""
    spline, platt, isotonic = losses(bump, n, 400 if full_size else 60).T
    for other in (platt, isotonic):
        wins = int((spline < other).sum())
        assert stats.binomtest(wins, len(spline), 0.9, alternative="less").pvalue > LEVEL
    assert np.mean(platt - spline) > 0.01
    assert np.mean(isotonic - spline) > 0.001


@pytest.mark.parametrize(("n", "cost"), [(300, 1.5e-3), (1000, 1e-3), (3000, 3e-4)])
def test_it_loses_less_than_a_thousandth_where_there_is_none(n, cost, full_size):
    spline, platt, isotonic = losses(straight, n, 400 if full_size else 80).T
    lost = spline - platt
    assert lost.mean() + 3 * lost.std() / np.sqrt(len(lost)) < cost
    assert lost.mean() < 1e-3
    assert np.mean(isotonic - platt) > 2 * lost.mean(), "a method that bends where nothing bends would be seen"
