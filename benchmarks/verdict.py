"""Are the statements of `check` as reliable as it says? Rates of wrong statements, each against what is stated.

Independent rows and groups of dependent rows, at the truths

- calibrated: evidence against it, by level (2 %), slope (2 %), ranges of the scores (1 %), and in all (5 %);
- at the tolerance: called beyond it, by level, slope, ranges (2, 2, 1 %) and in all (5 %), and called within it (5 %);
- off by twice the tolerance: called within it (5 %).

And "about N more labels": the share of samples of that size, drawn at the level and slope that were seen, that are
settled, which should lie between 80 and 95 %.

    python benchmarks/verdict.py            120 runs of each (about 25 minutes on two cores)
    python benchmarks/verdict.py --quick    100 runs, n up to 1,000

Rates are judged by exact binomial tests at 1e-3, in each world and over all worlds together. Exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from scipy import optimize, special, stats

from calibrant.arrays import check_rows
from calibrant.messages import CalibrantWarning
from calibrant.metrics.tolerance import TOLERANCE
from calibrant.numerics import Grid
from calibrant.tallies import Clusters, Tally
from calibrant.verdict.decision import ALPHA_INTERCEPT, ALPHA_SHAPE, ALPHA_SLOPE, Decision, decide
from calibrant.verdict.input.evidence import Evidence

LEVEL = 1e-3
BASE_RATES = (0.5, 0.05, 0.005)
SIZES = (100, 1_000, 10_000, 100_000)
OFFSETS = {
    "calibrated": (0.0, 0.0),
    "low at limit": (1.0, 0.0),
    "high at limit": (-1.0, 0.0),
    "flat at limit": (0.0, 1.0),
    "extreme at limit": (0.0, -1.0),
    "too low": (2.0, 0.0),
    "too extreme": (0.0, -2.0),
}
"""Truths, in units of the tolerance for (level, slope)."""

SHAPES = ((1.0, False), (2.0, False), (0.7, True))
"""Spread of the log-odds, and whether scores are rounded to two digits."""

FEW = ("calibrated", "low at limit", "extreme at limit")
"""Truths that are tried with every shape and with 100,000 rows, in half the runs; the first shape has all truths."""

GROUPS = (10, 20, 50, 200)
GROUP_ROWS = 40
"""Mean rows in a group; sizes are log-normal, the largest of 50 groups about ten times the mean."""

ALIKE = 0.2
"""Correlation of the normal variables behind the labels of a group."""

MOST_LABELS = 100_000
REPEATS = 1
"""Samples drawn at the level and slope that were seen, for each run that names a number of labels."""

ALLOWED = {
    "level": ALPHA_INTERCEPT,
    "slope": ALPHA_SLOPE,
    "range": ALPHA_SHAPE,
    "against": ALPHA_INTERCEPT + ALPHA_SLOPE + ALPHA_SHAPE,
    "within": 0.05,
}
"""Stated rates of wrong statements."""


@dataclass(frozen=True)
class World:
    """Logit-normal scores of a given mean and spread, some rounded to two digits; labels off by a given offset."""

    base_rate: float
    spread: float
    tied: bool
    offset: str

    def scores(self, n: int, rng: np.random.Generator) -> np.ndarray:
        scores = special.expit(location(self.base_rate, self.spread) + self.spread * rng.standard_normal(n))
        return np.clip(np.round(scores, 2), 0.01, 0.99) if self.tied else scores

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        """The true log-odds: level and slope as they are measured are off by the offset times the tolerance."""
        shift, stretch = moves(self.base_rate, self.spread, self.tied, self.offset)
        x = special.logit(scores)
        return x + shift + stretch * (x - middle(self.base_rate, self.spread, self.tied)[0])

    def rows(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        scores = self.scores(n, rng)
        return scores, rng.random(n) < special.expit(self.log_odds(scores))


@lru_cache
def location(base_rate: float, spread: float) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def excess(mean: float) -> float:
        return float((weights * special.expit(mean + spread * nodes)).sum() / weights.sum()) - base_rate

    return float(optimize.brentq(excess, -15, 15))


@lru_cache
def population(base_rate: float, spread: float, tied: bool) -> np.ndarray:
    return World(base_rate, spread, tied, "calibrated").scores(400_000, np.random.default_rng(1))


@lru_cache
def middle(base_rate: float, spread: float, tied: bool) -> tuple[float, float]:
    """The population's center and spread of the log-odds, weighted as `check` does."""
    scores = population(base_rate, spread, tied)
    x, v = special.logit(scores), scores * (1 - scores)
    center = float((v * x).sum() / v.sum())
    return center, float(np.sqrt(((x - center) ** 2).mean()))


@lru_cache
def moves(base_rate: float, spread: float, tied: bool, offset: str) -> tuple[float, float]:
    """Shift and slope of the truth whose intercept, with the slope fixed at 1, is off by exactly the given amount."""
    center, width = middle(base_rate, spread, tied)
    level, slope = OFFSETS[offset]
    level, stretch = level * TOLERANCE[0], slope * TOLERANCE[1] / min(width, 1.0)
    x = special.logit(population(base_rate, spread, tied))
    wanted = special.expit(x + level).mean()
    found = optimize.brentq(lambda shift: special.expit(x + shift + stretch * (x - center)).mean() - wanted, -5, 5)
    return float(found), float(stretch)


def decided(scores: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None) -> Decision:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # one class
        if groups is not None:
            rows = check_rows(scores, labels, groups=groups, score_type="probability")
            clusters = Clusters.of_rows(rows)
            return decide(Evidence(clusters.tally, clusters=clusters, n_groups=clusters.size))
        grid = Grid() if len(scores) > 20_000 else None  # check itself uses the grid above 65,536 rows
        return decide(Evidence(Tally.from_arrays(scores, labels, score_type="probability", grid=grid)))


@dataclass(frozen=True)
class Found:
    """What one run said: its status, which statements were made, and how often N more labels settled it."""

    status: str
    said: tuple[str, ...]
    settled: int = 0
    repeats: int = 0
    covered: tuple[bool, bool] | None = None


def one_run(task: tuple[World, int, int]) -> Found:
    world, n, seed = task
    key = [seed, n, int(1e4 * world.base_rate), int(10 * world.spread), list(OFFSETS).index(world.offset)]
    rng = np.random.default_rng(key)
    scores, labels = world.rows(n, rng)
    found = decided(scores, labels)
    settled = repeats = 0
    likelihood = found.parameters.likelihood
    slope = found.parameters.slope
    finite = slope is None or np.isfinite(slope.value)
    if found.more_labels is not None and finite and n + found.more_labels <= MOST_LABELS:
        best = likelihood.best() if slope is not None else likelihood.best(slope_change=0.0)
        for _ in range(REPEATS):
            again = world.scores(n + found.more_labels, rng)
            x = special.logit(again)
            truth = special.expit(x + best.shift + best.slope_change * (x - likelihood.center))
            settled += decided(again, rng.random(len(again)) < truth).status in ("calibrated", "miscalibrated")
            repeats += 1
    return Found(found.status, statements(found, world.offset), settled, repeats)


def one_grouped_run(task: tuple[World, int, int]) -> Found:
    """Groups of unequal size, alike inside in scores and labels; each label alone is as likely as its truth says."""
    world, count, seed = task
    rng = np.random.default_rng([seed, count, int(1e4 * world.base_rate), list(OFFSETS).index(world.offset), 7])
    found = decided(*grouped_rows(world, count, rng))
    pairs = ((found.parameters.level, 0.0), (found.parameters.slope, 1.0))
    ends = [None if each is None else (*each.interval(0.95), true) for each, true in pairs]
    level, slope = (end is None or end[0] <= end[2] <= end[1] for end in ends)
    return Found(found.status, statements(found, world.offset), covered=(level, slope))


def grouped_rows(world: World, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibrated rows in groups; labels of a group are dependent by a normal copula."""
    sizes = rng.lognormal(0.0, 1.0, count)
    sizes = np.maximum(np.rint(sizes / np.exp(0.5) * GROUP_ROWS), 1).astype(int)
    group = np.repeat(np.arange(count), sizes)
    x = special.logit(world.scores(len(group), rng)) + 0.5 * rng.standard_normal(count)[group]
    shared, own = rng.standard_normal(count)[group], rng.standard_normal(len(group))
    uniform = special.ndtr(np.sqrt(ALIKE) * shared + np.sqrt(1.0 - ALIKE) * own)
    return special.expit(x), uniform < special.expit(x), group


def statements(found: Decision, offset: str) -> tuple[str, ...]:
    """Statements that are wrong at this truth."""
    if offset == "calibrated":
        against = found.against
        made = {"level": against.by_intercept, "slope": against.by_slope, "range": against.shape is not None}
        made["against"] = found.status in ("off", "miscalibrated")
        return tuple(name for name, said in made.items() if said)
    if "limit" in offset:
        beyond = found.beyond
        made = {"level": beyond.intercept, "slope": beyond.slope, "range": beyond.shape is not None}
        made |= {"against": found.status == "miscalibrated", "within": found.status == "calibrated"}
        return tuple(name for name, said in made.items() if said)
    return ("within",) if found.status == "calibrated" else ()


@dataclass(frozen=True)
class Row:
    """Counts of all runs of one world and size; ``groups`` says that the size is a number of groups."""

    world: World
    n: int
    groups: bool
    runs: int
    states: Counter[str]
    said: Counter[str]
    settled: int
    repeats: int
    missed: tuple[int, int] | None

    def failures(self) -> Iterator[str]:
        for name, allowed in ALLOWED.items():
            if stats.binomtest(self.said[name], self.runs, allowed, alternative="greater").pvalue < LEVEL:
                yield name
        if self.repeats:
            for share, side in ((0.80, "less"), (0.95, "greater")):
                if stats.binomtest(self.settled, self.repeats, share, alternative=side).pvalue < LEVEL:
                    yield f"labels {side} than {share:.0%}"
        for name, missed in zip(("level", "slope"), self.missed or (), strict=False):
            if stats.binomtest(missed, self.runs, 0.06, alternative="greater").pvalue < LEVEL:
                yield f"coverage of the {name}"

    def __str__(self) -> str:
        w = self.world
        states = "  ".join(
            f"{self.states[s] / self.runs:6.1%}" for s in ("calibrated", "miscalibrated", "off", "cannot tell")
        )
        said = "  ".join(f"{self.said[name] / self.runs:6.1%}" for name in ALLOWED)
        labels = f"{self.settled / self.repeats:6.1%} of {self.repeats:5}" if self.repeats else "      -       "
        covered = "" if self.missed is None else "  ".join(f"{1 - m / self.runs:6.1%}" for m in self.missed)
        kind = "groups" if self.groups else "tied" if w.tied else "smooth"
        flaw = " ".join(f"<- {failure}" for failure in self.failures())
        head = f"{w.base_rate:6.1%} {w.spread:4.1f} {kind:>7} {w.offset:>16} {self.n:8,}"
        return f"{head}  {states} | {said} | {labels} {covered} {flaw}".rstrip()


def summary(world: World, n: int, runs: int, pool: ProcessPoolExecutor | None = None, *, groups: bool = False) -> Row:
    run = one_grouped_run if groups else one_run
    tasks = [(world, n, seed) for seed in range(runs)]
    found: Sequence[Found] = list(
        map(run, tasks) if pool is None else pool.map(run, tasks, chunksize=max(1, runs // 16))
    )
    covered = [each.covered for each in found if each.covered is not None]
    return Row(
        world,
        n,
        groups,
        runs,
        Counter(each.status for each in found),
        Counter(name for each in found for name in each.said),
        sum(each.settled for each in found),
        sum(each.repeats for each in found),
        tuple(sum(not each[place] for each in covered) for place in (0, 1)) if covered else None,  # type: ignore[arg-type]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--most", type=int, default=None, help="largest n")
    arguments = parser.parse_args()
    runs = arguments.runs or (100 if arguments.quick else 120)
    most = arguments.most or (1_000 if arguments.quick else 100_000)
    shapes = SHAPES[:1] if arguments.quick else SHAPES
    print(
        "  base spread scores          truth     rows  calibr. miscal.  off    cannot | wrong: level   slope   range"
        "     all  within | settled by N more; coverage of level and slope"
    )
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for shape, rate, offset in product(shapes, BASE_RATES, OFFSETS):
            for n in [n for n in SIZES if n <= most]:
                half = shape != SHAPES[0] or n > 10_000
                if half and (offset not in FEW or (n > 10_000 and shape != SHAPES[0])):
                    continue
                rows.append(summary(World(rate, *shape, offset), n, runs // 2 if half else runs, pool))
                print(rows[-1], flush=True)
        for rate, count in product(BASE_RATES[:2], GROUPS):
            rows.append(summary(World(rate, 1.0, False, "calibrated"), count, runs, pool, groups=True))
            print(rows[-1], flush=True)
    failed = sum(len(list(row.failures())) for row in rows) + sum(not fine for fine in map(pooled, *by_truth(rows)))
    print(f"{failed} rates fail the exact binomial test at {LEVEL}")
    return int(failed > 0)


def by_truth(rows: Sequence[Row]) -> tuple[list[str], list[list[Row]]]:
    """Rows of calibrated truths, of truths at the tolerance and of those beyond it; groups apart."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        truth = (
            "calibrated" if row.world.offset == "calibrated" else "at limit" if "limit" in row.world.offset else "off"
        )
        kinds.setdefault(f"{truth}, groups" if row.groups else truth, []).append(row)
    return list(kinds), list(kinds.values())


def pooled(truth: str, rows: Sequence[Row]) -> bool:
    """Print the rates over all worlds of one kind of truth; whether each is what was stated."""
    runs, fine, told = sum(row.runs for row in rows), True, []
    for name, allowed in ALLOWED.items():
        count = sum(row.said[name] for row in rows)
        good = stats.binomtest(count, runs, allowed, alternative="greater").pvalue >= LEVEL
        told.append(f"{name} {count / runs:.2%} (stated {allowed:.0%}){'' if good else ' FAILS'}")
        fine &= good
    print(f"all {truth}, {runs:,} runs: {', '.join(told)}")
    return fine


if __name__ == "__main__":
    sys.exit(main())
