"""Level and slope against R: profile-likelihood intervals of MASS::confint, cluster sandwich of sandwich::vcovCL.

The likelihood's intervals are those of a calibrated model, and the inner limits of ours.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.arrays import check_rows
from calibrant.metrics.binary.curves.likelihood import Parameters
from calibrant.metrics.variance import between
from calibrant.tallies import Clusters, Tally

FOLDER = Path(__file__).parent / "metrics"
NUMBERS: dict[str, dict[str, Any]] = json.loads((FOLDER / "profile.json").read_text())


def rows(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels, and groups of 1, 2, ..., 12 rows and again, as in profile.R."""
    scores, y, _ = np.loadtxt(FOLDER / f"{name}.csv", delimiter=",", skiprows=1).T
    sizes = np.resize(np.arange(1, 13), len(y))
    return scores, y.astype(int), np.repeat(np.arange(len(sizes)), sizes)[: len(y)]


def test_intervals_are_those_of_confint(subtests: pytest.Subtests) -> None:
    for name in NUMBERS:
        with subtests.test(name=name):
            scores, y, _ = rows(name)
            found = Parameters.of(Tally.from_arrays(scores, y, score_type="probability"))
            for parameter, key in ((found.level, "level"), (found.slope, "slope")):
                assert parameter is not None
                likelihood = replace(parameter, widening=1.0, _level=None).interval(0.95)
                assert likelihood == pytest.approx(NUMBERS[name][key], rel=2e-4)  # R interpolates by a spline
                low, high = parameter.interval(0.95)
                assert low <= likelihood[0]
                assert likelihood[1] <= high


def test_the_variance_between_groups_is_that_of_vcov_cl_and_near_the_jackknife(subtests: pytest.Subtests) -> None:
    for name in NUMBERS:
        with subtests.test(name=name):
            scores, y, groups = rows(name)
            clusters = Clusters.of_rows(check_rows(scores, y, groups=groups, score_type="probability"))
            assert clusters.size == NUMBERS[name]["groups"]
            found, nobody = Parameters.of(clusters), np.zeros(clusters.size, dtype=bool)
            for parameter, key in ((found.level, "level"), (found.slope, "slope")):
                assert parameter is not None
                sums, parts = influences(found, clusters, key)
                assert float((sums**2).sum()) == pytest.approx(NUMBERS[name][f"{key}_cr0"], rel=1e-6)
                if name != "rare":  # CR3 is the jackknife to first order, and ten events are too few for that
                    jackknife = NUMBERS[name][f"{key}_jackknife"]
                    assert between(sums, parts, nobody).variance == pytest.approx(jackknife, rel=0.06)
                # Single rows have the binomial variance of their score here, and the square of their residual in R.
                calibrated = parameter.spread.variance / parameter.widening
                assert calibrated == pytest.approx(between(sums, parts, clusters.alone).variance)


def influences(found: Parameters, clusters: Clusters, key: str) -> tuple[np.ndarray, np.ndarray]:
    """What each group adds to the estimate, and its variance if rows were independent."""
    likelihood = found.likelihood
    best = likelihood.best(slope_change=0.0) if key == "level" else likelihood.best()
    p = likelihood.shifted(best.shift, best.slope_change)
    if key == "level":
        lever = np.full(len(p), 1.0 / float((likelihood.n * p * (1 - p)).sum()))
    else:
        covariance = np.linalg.inv(likelihood.information(best.shift, best.slope_change))
        lever = covariance[1, 0] + covariance[1, 1] * likelihood.distance
    variance = (lever**2 * p * (1 - p))[clusters.cell] * clusters.n
    return clusters.sums(lever * (1 - p), -lever * p), np.bincount(clusters.cluster, variance)
