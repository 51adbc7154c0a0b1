"""How often 95 % intervals of `metrics.interval` cover the truth, by metric: rare events, few rows, and groups.

    python benchmarks/interval_coverage.py                       # 400 samples of each case
    python benchmarks/interval_coverage.py --samples 40          # a first look
    python benchmarks/interval_coverage.py --metrics auc slope   # some metrics
    python benchmarks/interval_coverage.py --first 200 --samples 200  # the second half; counts of the halves add up

Worlds and cases are those of `tests/statistical/test_interval.py`: log-odds with a standard deviation of 1 about those
of a base rate, a truth that is a line on them, and, with groups, effects that differ by 0.5. There are 100 bootstrap
samples in each interval, fewer than the default, for time; with more, ends are less noisy. A line gives the
share of samples whose interval covers, the exact 99.9 % interval of that share, and in how many samples the truth was
below and above the interval; "none" counts samples without an interval.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

from scipy import stats

sys.path.append(str(Path(__file__).parents[1] / "tests" / "statistical"))

from test_interval import coverage

METRICS = ("auc", "log_loss", "brier", "slope", "intercept", "expected_over_observed", "ece")
WORLDS = {
    "200 rows, 30 % events": (200, 0.3, 0.8, -0.1, 0, 0.0),
    "1,000 rows, 3 % events": (1_000, 0.03, 0.8, -0.1, 0, 0.0),
    "600 rows in 20 groups, 30 % events": (600, 0.3, 0.8, -0.1, 20, 0.5),
}
REPETITIONS = 100


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="number of the first sample")
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=METRICS)
    parser.add_argument("--worlds", nargs="+", type=int, default=range(len(WORLDS)), help="by place: 0, 1, 2")
    given = parser.parse_args()
    kept = [list(WORLDS.items())[place] for place in given.worlds]
    print(f"{'metric':<25}{'world':<37}{'covered':>8}{'99.9 % interval':>18}{'below':>7}{'above':>7}{'none':>6}")
    for metric, (name, world) in product(given.metrics, kept):
        found = coverage((metric, *world), given.samples, REPETITIONS, given.first)
        low, high = stats.binomtest(found.hits, found.judged).proportion_ci(0.999)
        share, between = f"{found.hits / found.judged:.1%}", f"{low:.1%} to {high:.1%}"
        none = given.samples - found.judged
        print(f"{metric:<25}{name:<37}{share:>8}{between:>18}{found.below:7}{found.above:7}{none:6}", flush=True)


if __name__ == "__main__":
    main()
