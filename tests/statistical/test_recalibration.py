"""Coverage of the 95 % intervals of calibration intercept, slope and E/O."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from calibrant.metrics.binary.curves.recalibration import recalibration

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3

SLACK = {(500, 0.05): 0.02}
"""How far below 0.95 the intervals may cover: 25 events are few for a normal approximation."""


def sample(rng: np.random.Generator, n: int, rate: float, slope: float, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores with log-odds of standard deviation 1 about the rate's; truth is a line on them."""
    z = rng.normal(np.log(rate / (1 - rate)), 1.0, n)
    return expit(z), (rng.random(n) < expit(slope * z + shift)).astype(int)


def truths(rate: float, slope: float, shift: float) -> tuple[float, float]:
    """Intercept at slope 1, and E/O, of the population, by quadrature over the log-odds."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    z, weights = np.log(rate / (1 - rate)) + nodes, weights / weights.sum()
    events = float((weights * expit(slope * z + shift)).sum())
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (weights * expit(z + middle)).sum() < events else (low, middle)
    return low, float((weights * expit(z)).sum()) / events


def test_intervals_cover_as_often_as_they_say(subtests: pytest.Subtests, full_size: bool) -> None:
    for n, rate in list(product([500, 5_000], [0.5, 0.05])):
        for slope in [1.0, 0.8]:
            with subtests.test(n=n, rate=rate, slope=slope):
                runs = 4_000 if full_size else 60
                shift = 0.0 if slope == 1.0 else -0.2
                intercept, ratio = truths(rate, slope, shift)
                wanted = {
                    "intercept": intercept,
                    "slope": slope,
                    "slope_intercept": shift,
                    "expected_over_observed": ratio,
                }
                rng = np.random.default_rng([40, n, int(100 * rate), int(10 * slope)])
                covered = dict.fromkeys(wanted, 0)
                for _ in range(runs):
                    found = recalibration(*sample(rng, n, rate, slope, shift))
                    for name, truth in wanted.items():
                        estimate = getattr(found, name)
                        covered[name] += estimate.low <= truth <= estimate.high
                promised = 0.95 - SLACK.get((n, rate), 0.005)
                for name, hits in covered.items():
                    test = stats.binomtest(hits, runs, promised, alternative="less")
                    assert test.pvalue > LEVEL, f"{name} is covered in {hits / runs:.3f} of samples"
                    too_wide = stats.binomtest(hits, runs, 0.97, alternative="greater")
                    assert too_wide.pvalue > LEVEL, f"{name} is covered in {hits / runs:.3f} of samples"
