"""How often rows are called fitted that were not, and found that were, where scores are rounded."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from calibrant.guarantees.overlap import overlap, sketch
from calibrant.tallies import Tally

pytestmark = pytest.mark.statistical
LEVEL = 1e-3
ALARMS = 1e-3

WORLDS = [(3, 60, 60), (3, 100, 100), (3, 200, 50), (4, 100, 100), (4, 400, 400), (4, 1500, 300), (5, 3000, 3000)]
"""Decimals that the scores have, fitted rows, judged rows; with fewer decimals the sketch abstains."""


def drawn(rng: np.random.Generator, n: int, decimals: int) -> Tally:
    scores = rng.beta(1, 4, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tally.from_arrays(scores.round(decimals), rng.random(n) < scores)


@pytest.mark.slow
def test_new_rows_are_seldom_called_fitted_and_fitted_rows_are_found(subtests, full_size):
    for decimals, fitted, judged in WORLDS:
        with subtests.test(decimals=decimals, fitted=fitted, judged=judged):
            rng = np.random.default_rng([decimals, fitted, judged])
            runs = 5_000 if full_size else 150
            alarms = found = told = 0
            for _ in range(runs):
                whole = drawn(rng, fitted, decimals)
                words = sketch(whole)
                new = overlap(words, "", drawn(rng, judged, decimals))
                alarms += new is not None and new.in_sample
                own = overlap(words, "", whole)
                told += own is not None
                found += own is not None and own.in_sample
            assert stats.binomtest(alarms, runs, ALARMS, alternative="greater").pvalue > LEVEL
            assert found == told
            assert told > 0.3 * runs
