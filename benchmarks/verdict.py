"""Does `check` keep its word? Three rates, each against what is promised.

1. calibrated models are called miscalibrated in at most 5 % of runs;
2. models off by twice the tolerance are called calibrated in at most 5 %;
3. when "about N more labels" is said, at least 80 % of runs decide with N more.

    python benchmarks/verdict.py            1,000 runs of each (about an hour on two cores)
    python benchmarks/verdict.py --quick    100 runs, n up to 1,000

Rates are judged by an exact binomial test at 1e-3. Exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from scipy import optimize, special, stats

from calibrant.arrays import CalibrantWarning
from calibrant.numerics import Grid
from calibrant.tallies import Tally
from calibrant.verdict.decision import TOLERANCE, Decision, decide
from calibrant.verdict.evidence import Evidence

LEVEL = 1e-3
BASE_RATES = (0.5, 0.05, 0.005)
SIZES = (100, 1_000, 10_000, 100_000)
OFFSETS = {
    "calibrated": (0.0, 0.0),
    "too low": (2.0, 0.0),
    "too high": (-2.0, 0.0),
    "too flat": (0.0, 2.0),
    "too extreme": (0.0, -2.0),
}
"""Truths, in units of the tolerance for (intercept, slope)."""

SHAPES = ((1.0, False, 1.0), (2.0, False, 0.3), (0.7, True, 0.3))
"""Spread of the log-odds, whether scores are rounded to two digits, and share of the runs."""

MOST_LABELS = 3_000_000


@dataclass(frozen=True)
class World:
    """Logit-normal scores of a given mean and spread, some rounded to two digits; labels off by a given offset."""

    base_rate: float
    spread: float
    heaped: bool
    offset: str

    def rows(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = location(self.base_rate, self.spread) + self.spread * rng.standard_normal(n)
        scores = special.expit(x)
        if self.heaped:
            scores = np.clip(np.round(scores, 2), 0.01, 0.99)
        center, spread = middle(self.base_rate, self.spread, self.heaped)
        shift, stretch = OFFSETS[self.offset]
        shift, stretch = shift * TOLERANCE[0], stretch * TOLERANCE[1] / min(spread, 1.0)
        x = special.logit(scores)
        return scores, rng.random(n) < special.expit(x + shift + stretch * (x - center))


@lru_cache
def location(base_rate: float, spread: float) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def excess(mean: float) -> float:
        return float((weights * special.expit(mean + spread * nodes)).sum() / weights.sum()) - base_rate

    return float(optimize.brentq(excess, -15, 15))


@lru_cache
def middle(base_rate: float, spread: float, heaped: bool) -> tuple[float, float]:
    """The population's centre and spread of the log-odds, weighted as `check` does."""
    x = location(base_rate, spread) + spread * np.random.default_rng(1).standard_normal(2_000_000)
    scores = special.expit(x)
    if heaped:
        scores = np.clip(np.round(scores, 2), 0.01, 0.99)
    x, v = special.logit(scores), scores * (1 - scores)
    center = float((v * x).sum() / v.sum())
    return center, float(np.sqrt(((x - center) ** 2).mean()))


def verdict(scores: np.ndarray, labels: np.ndarray) -> Decision:
    grid = Grid() if len(scores) > 20_000 else None  # check itself counts on the grid from 131,073 rows on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # one class
        return decide(Evidence(Tally.from_arrays(scores, labels, kind="probability", grid=grid)))


def one_run(task: tuple[World, int, int]) -> tuple[str, bool | None]:
    """The state, and whether the promised number of labels decided."""
    world, n, seed = task
    rng = np.random.default_rng(
        [seed, n, int(1e4 * world.base_rate), int(10 * world.spread), list(OFFSETS).index(world.offset)]
    )
    scores, labels = world.rows(n, rng)
    found = verdict(scores, labels)
    if found.state != "cannot tell" or found.more_labels is None or found.more_labels > MOST_LABELS:
        return found.state, None
    more = world.rows(found.more_labels, rng)
    later = verdict(np.append(scores, more[0]), np.append(labels, more[1]))
    return found.state, later.state != "cannot tell"


@dataclass(frozen=True)
class Row:
    world: World
    n: int
    runs: int
    states: dict[str, int]
    asked: int
    decided: int

    def failures(self) -> Iterator[str]:
        wrong = "miscalibrated" if self.world.offset == "calibrated" else "calibrated"
        if stats.binomtest(self.states.get(wrong, 0), self.runs, 0.05, alternative="greater").pvalue < LEVEL:
            yield wrong
        if self.asked and stats.binomtest(self.decided, self.asked, 0.8, alternative="less").pvalue < LEVEL:
            yield "labels"

    def __str__(self) -> str:
        w = self.world
        shares = "  ".join(
            f"{self.states.get(s, 0) / self.runs:6.1%}" for s in ("calibrated", "miscalibrated", "cannot tell")
        )
        labels = f"{self.decided / self.asked:6.1%} of {self.asked:4}" if self.asked else "     -        "
        kind = "heaped" if w.heaped else "smooth"
        flaw = " ".join(f"<- {failure}" for failure in self.failures())
        return f"{w.base_rate:6.1%} {w.spread:6.1f} {kind:>7} {w.offset:>12} {self.n:8,}  {shares}  {labels} {flaw}"


def summary(world: World, n: int, runs: int, pool: ProcessPoolExecutor | None = None) -> Row:
    tasks = [(world, n, seed) for seed in range(runs)]
    found = list(map(one_run, tasks) if pool is None else pool.map(one_run, tasks, chunksize=max(1, runs // 16)))
    states = {state: sum(s == state for s, _ in found) for state in ("calibrated", "miscalibrated", "cannot tell")}
    asked = [decided for _, decided in found if decided is not None]
    return Row(world, n, runs, states, len(asked), sum(asked))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--most", type=int, default=None, help="largest n")
    arguments = parser.parse_args()
    runs = arguments.runs or (100 if arguments.quick else 1_000)
    most = arguments.most or (1_000 if arguments.quick else 100_000)
    shapes = SHAPES[:1] if arguments.quick else SHAPES
    print("  base spread  scores        truth     rows  calibrated  miscal.  cannot tell  decided with N more")
    failed = 0
    with ProcessPoolExecutor(2) as pool:
        for (spread, heaped, share), rate, offset in product(shapes, BASE_RATES, OFFSETS):
            for n in [n for n in SIZES if n <= most]:
                row = summary(World(rate, spread, heaped, offset), n, int(runs * share), pool)
                print(row, flush=True)
                failed += len(list(row.failures()))
    print(f"{failed} rates fail the exact binomial test at {LEVEL}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
