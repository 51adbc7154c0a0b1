"""Coverage of the intervals of `metrics.interval`: losses, AUC, slope, ratios, distances; rare events; groups."""

from __future__ import annotations

import functools
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from calibrant.metrics.draws import values_only
from calibrant.metrics.estimates import BINARY
from calibrant.metrics.intervals import interval
from calibrant.tallies import Tally
from calibrant.tallies.cells import Cells

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3


@functools.cache
def truth(metric: str, rate: float, slope: float, shift: float, spread: float) -> float:
    """The metric of a population of 4 10^10 rows; events are averaged over groups whose log-odds have this spread."""
    z = np.sort(np.random.default_rng(9).normal(logit(rate), 1.0, 40_000))
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    p = expit(slope * z[:, None] + shift + spread * nodes) @ (weights / weights.sum())
    n = np.full(len(z), 1e6)
    with values_only():
        return BINARY[metric].function(Tally(Cells(expit(z), n, n * p, w2=n, w2_events=n * p), counts=False)).value


def sample(rng: np.random.Generator, n: int, rate: float, slope: float, shift: float, groups: int, spread: float):
    z = rng.normal(logit(rate), 1.0, n)
    group = rng.integers(0, groups, n) if groups else None
    effect = rng.normal(0.0, spread, groups)[group] if groups else 0.0
    return expit(z), (rng.random(n) < expit(slope * z + shift + effect)).astype(int), group


# metric, rows, base rate, slope and shift of the truth, groups, their spread, coverage at least
CASES = [
    ("auc", 200, 0.3, 0.8, -0.1, 0, 0.0, 0.93),
    ("auc", 600, 0.02, 0.8, -0.1, 0, 0.0, 0.90),
    ("auc", 600, 0.3, 0.8, -0.1, 15, 0.5, 0.88),
    ("log_loss", 600, 0.02, 0.8, -0.1, 0, 0.0, 0.90),
    ("brier", 300, 0.3, 0.8, -0.1, 15, 0.5, 0.88),
    ("expected_over_observed", 600, 0.02, 0.8, -0.1, 0, 0.0, 0.90),
    ("slope", 200, 0.3, 0.8, -0.1, 0, 0.0, 0.92),
    ("ece", 300, 0.3, 1.0, 0.0, 0, 0.0, 0.93),
    ("ece", 300, 0.3, 0.8, -0.2, 0, 0.0, 0.93),
    ("ece", 600, 0.3, 0.6, -0.2, 30, 0.4, 0.90),
    ("debiased_ece", 300, 0.3, 0.8, -0.2, 0, 0.0, 0.93),
    ("ici", 300, 0.3, 0.8, -0.2, 0, 0.0, 0.90),
]


class Coverage(NamedTuple):
    """In how many samples there is an interval, and in how many the truth is in it, below it and above it."""

    judged: int
    hits: int
    below: int
    above: int


def coverage(case: tuple, runs: int, repetitions: int | None, first: int = 0) -> Coverage:
    metric, n, rate, slope, shift, groups, spread, *_ = case
    wanted, ends = truth(metric, rate, slope, shift, spread), []
    for run in range(first, first + runs):
        scores, y, group = sample(np.random.default_rng([run, n]), n, rate, slope, shift, groups, spread)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = interval(metric, scores, y, groups=group, random_state=run, repetitions=repetitions)
        if found.low is not None:
            ends.append((wanted < found.low - 1e-6, wanted > found.high + 1e-6))
    below, above = np.sum(ends, axis=0).tolist()
    return Coverage(len(ends), len(ends) - below - above, below, above)


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_intervals_cover(case: tuple, full_size: bool) -> None:
    runs, repetitions = (400, None) if full_size else (4 if case[0] == "ici" else 10, 50)
    found = coverage(case, runs, repetitions)
    assert found.judged >= 0.9 * runs
    test = stats.binomtest(found.hits, found.judged, case[-1], alternative="less")
    assert test.pvalue > LEVEL, f"covered {found.hits / found.judged:.3f}"
