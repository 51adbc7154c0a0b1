"""Coverage of the 95 % intervals of ICI, E50, E90 and Emax, where the truth is known.

    python benchmarks/curve_distances.py [--quick] [--runs N] [--case NUMBER] [--method spline|loess|lowess]

Log-odds are normal with mean -1.4 and standard deviation 1.1, about a quarter of the rows are events, and the true rate
at the log-odds z is expit(shift + slope z). In clusters, outcomes are correlated so that the rate at each score is
exact: a share of a latent normal variable is common to the cluster.

Each distance has two true values. The distances at the scores of the sample ("rows") are what the interval is for. The
distances in the population ("all") differ from them, above all Emax, since a sample need not have the scores at which
the error is largest. The script prints the coverage of both, and how often the interval lies too low.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calibrant.metrics.binary.bins import grouped_or_tally
from calibrant.metrics.binary.curves.distances import NAMES, smoother_intervals, spline_intervals
from calibrant.numerics import expit

Floats = NDArray[np.float64]
MEAN, SPREAD = -1.4, 1.1
RUNS, QUICK = 300, 4


@dataclass(frozen=True)
class Case:
    """Number of rows and of clusters, the clusters' share of the variance, and the shift and slope of the truth."""

    rows: int
    clusters: int
    share: float
    shift: float
    slope: float

    def __str__(self) -> str:
        """A line of words."""
        clusters = f", {self.clusters} clusters ({self.share:g})" if self.clusters else ""
        calibrated = self.shift == 0.0 and self.slope == 1.0
        return f"{self.rows:,}{clusters}, {'calibrated' if calibrated else f'{self.shift:g}, {self.slope:g}'}"

    def gap(self, z: Floats) -> Floats:
        """Distance of the true curve from the diagonal at log-odds z."""
        return np.abs(expit(self.shift + self.slope * z) - expit(z))

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.int64] | None]:
        """Log-odds, labels and clusters of a sample."""
        z = rng.normal(MEAN, SPREAD, self.rows)
        p = expit(self.shift + self.slope * z)
        if not self.clusters:
            return z, (rng.random(self.rows) < p).astype(float), None
        cluster = rng.integers(0, self.clusters, self.rows)
        common = np.sqrt(self.share) * rng.normal(size=self.clusters)[cluster]
        latent = common + np.sqrt(1.0 - self.share) * rng.normal(size=self.rows)
        return z, (stats.norm.cdf(latent) < p).astype(float), cluster


CASES = (
    Case(300, 0, 0.0, 0.0, 1.0),
    Case(300, 0, 0.0, -0.2, 0.8),
    Case(1000, 0, 0.0, -0.2, 0.7),
    Case(1200, 12, 0.02, 0.0, 1.0),
    Case(1500, 30, 0.08, 0.0, 1.0),
    Case(1500, 30, 0.02, -0.3, 0.7),
    Case(1200, 12, 0.05, -0.3, 0.7),
)


def distances(gap: Floats) -> Floats:
    """Mean, median, 90 % quantile and maximum."""
    return np.array([gap.mean(), *np.quantile(gap, [0.5, 0.9], method="inverted_cdf"), gap.max()])


def population(case: Case) -> Floats:
    """True distances over all scores."""
    return distances(case.gap(stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) * SPREAD + MEAN))


def coverage(case: Case, runs: int, method: str = "spline") -> tuple[Floats, Floats, Floats]:
    """Numbers of intervals that hold the distances at the rows, that lie below these, and that hold those of all."""
    whole, rows, low, every = population(case), np.zeros(4), np.zeros(4), np.zeros(4)
    for run in range(runs):
        z, y, groups = case.draw(np.random.default_rng([run, case.rows]))
        data = grouped_or_tally(expit(z), y, None, groups)
        if method == "spline":
            found = spline_intervals(data, random_state=run)
        else:
            found = smoother_intervals(data, method, random_state=run)
        assert found is not None
        here = distances(case.gap(z))
        rows += (found.low <= here + 1e-9) & (here <= found.high + 1e-9)
        low += here > found.high + 1e-9
        every += (found.low <= whole + 1e-9) & (whole <= found.high + 1e-9)
    return rows, low, every


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--case", type=int, choices=range(len(CASES)))
    parser.add_argument("--method", choices=("spline", "loess", "lowess"), default="spline")
    given = parser.parse_args(arguments)
    runs = given.runs or (QUICK if given.quick else RUNS)
    print(f"Coverage of 95 % intervals in percent, {runs} samples each: of the distances at the rows; share of")
    print("intervals below them; coverage of the distances in the population")
    print(f"{'rows, clusters, truth':40}" + "".join(f"{name.upper():>18}" for name in NAMES))
    for case in CASES if given.case is None else [CASES[given.case]]:
        began = time.process_time()
        shares = [100.0 * each / runs for each in coverage(case, runs, given.method)]
        cells = "".join(f"{rows:6.1f}{low:5.1f}{every:7.1f}" for rows, low, every in zip(*shares, strict=True))
        print(f"{case!s:40}{cells}", flush=True)
        print(f"{time.process_time() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
