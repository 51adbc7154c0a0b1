"""How often does the search for a region find what was planted, and how often does it accuse a calibrated model?

    python benchmarks/discovery.py [--quick] [--seconds S]

Planted: 20,000 rows with an event rate of about 20 % and ten features; in 3 % of the rows the log-odds of the truth are
1 above those of the scores. A run succeeds if the region found is called too low and overlaps with the planted one
by at least 0.5 (Jaccard). Null: calibrated models, with few rows, rare events, ties and missing values in the features.
The script ends with exit code 1 if fewer than 80 % of the planted regions are found, or if false alarms are above 5 %,
each by an exact one-sided binomial test at level 1e-3. With ``--seconds``, each setting
stops after a fourth of the time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from calibrant.verdict.discovery import discover

Array = NDArray[Any]
SIDE = 0.03**0.5
"""Side of a square with 3 % of the rows."""

LEVEL = 1e-3
ALPHA = 0.05
FOUND = 0.8
NULL = [(2_000, -1.6), (2_000, -4.5), (300, 0.0)]
"""Rows and mean log-odds of the calibrated models."""


def drawn(
    seed: Sequence[int], n: int, shift: float, mean: float = -1.6
) -> tuple[Array, Array, dict[str, Array], Array]:
    """Scores, labels, ten features, and a region of 3 % of the rows whose log-odds are shifted."""
    rng = np.random.default_rng(seed)
    x, z = rng.random((n, 10)), rng.normal(mean, 0.9, n)
    region = (x[:, 2] > 1.0 - SIDE) & (np.abs(x[:, 7] - 0.4) < SIDE / 2.0)
    y = rng.random(n) < special.expit(z + shift * region)
    return special.expit(z), y, {f"x{j}": x[:, j] for j in range(10)}, region


def finds_planted(seed: int) -> bool:
    """Whether the region found in one draw is off, too low, and overlaps with the planted one by at least 0.5."""
    scores, y, features, region = drawn([1, seed], 20_000, 1.0)
    best = discover(scores, y, features)
    inside = best.contains(features)
    return bool(best.off and best.too_low and (region & inside).sum() >= 0.5 * (region | inside).sum())


def raises_alarm(seed: int, n: int, mean: float) -> bool:
    """Whether a region of a calibrated model is called off; ties in a feature, and missing values in another."""
    scores, y, features, _ = drawn([2, n, seed], n, 0.0, mean)
    features["x0"] = np.round(features["x0"], 1)
    features["x1"] = np.where(features["x1"] < 0.2, np.nan, features["x1"])
    return bool(discover(scores, y.astype(int), features, positive=1).off)


def _counted(draw: Callable[[int], bool], runs: int, seconds: float) -> tuple[int, int]:
    """How many of the first draws are true, and how many were made in the time."""
    begin, count, made = time.perf_counter(), 0, 0
    while made < runs and (made == 0 or time.perf_counter() - begin < seconds):
        count, made = count + draw(made), made + 1
    return count, made


def _line(name: str, count: int, runs: int, share: float, alternative: str) -> bool:
    """Print one row; whether the share holds."""
    test = stats.binomtest(count, runs, share, alternative=alternative)
    low, high = stats.binomtest(count, runs).proportion_ci(0.95)
    fails = test.pvalue <= LEVEL
    print(
        f"  {name:<44}{runs:>6}{count:>7}{count / runs:>8.1%}  {low:.1%} to {high:.1%}{'  FAILS' if fails else ''}",
        flush=True,
    )
    return not fails


def main() -> int:
    """Print both tables; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 planted and 15 null runs, instead of 200 and 2,000")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after this time, with fewer runs")
    args = parser.parse_args()
    planted, null = (5, 15) if args.quick else (200, 2_000)
    print(f"{'':<46}{'runs':>6}{'count':>7}{'share':>8}  95 % interval (Clopper-Pearson)")
    print(f"Planted regions found, at least {FOUND:.0%} wanted")
    count, runs = _counted(finds_planted, planted, args.seconds / 4)
    good = _line("20,000 rows, 3 % off by 1 in log-odds", count, runs, FOUND, "less")
    print(f"False alarms, at most {ALPHA:.0%} allowed")
    for n, mean in NULL:
        count, runs = _counted(partial(raises_alarm, n=n, mean=mean), null, args.seconds / 4)
        good &= _line(f"{n:,} rows, mean log-odds {mean:g}", count, runs, ALPHA, "greater")
    print(f"{'No' if good else 'A'} test failed at level {LEVEL:g}.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
