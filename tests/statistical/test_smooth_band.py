"""How often the confidence band of a smooth calibration curve covers the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.displays.rates import smooth_curve
from calibrant.numerics import expit, logit
from calibrant.tallies import Tally

pytestmark = pytest.mark.statistical

LEVEL = 1e-3
TRUTHS = {
    "calibrated": lambda s: s,
    "too extreme": lambda s: expit(0.6 * logit(s) - 0.5),
    "bent": lambda s: expit(logit(s) + 0.5 * np.tanh(logit(s))),
}
PLACES = np.array([0.05, 0.2, 0.5, 0.8, 0.9])


@pytest.mark.parametrize("n", [400, 4_000])
@pytest.mark.parametrize("truth", TRUTHS)
def test_the_band_covers_the_truth_at_each_score_as_often_as_stated(truth, n, full_size):
    samples = 4_000 if full_size else 120
    hits = np.zeros(len(PLACES))
    for seed in range(samples):
        rng = np.random.default_rng([23, n, seed])
        scores = expit(rng.normal(-0.3, 1.6, n))
        smooth = smooth_curve(Tally.from_arrays(scores, rng.random(n) < TRUTHS[truth](scores)), 0.95)
        low, high = (np.interp(PLACES, smooth.score, ends) for ends in (smooth.low, smooth.high))
        hits += (low <= TRUTHS[truth](PLACES)) & (TRUTHS[truth](PLACES) <= high)
    # The stated 95 % holds about: at least 92 % and at most 98 % at every score, in every world.
    for hit in hits:
        assert stats.binomtest(int(hit), samples, 0.92, alternative="less").pvalue > LEVEL
        assert stats.binomtest(int(hit), samples, 0.98, alternative="greater").pvalue > LEVEL
