"""How often 95 % intervals cover where predictions are wrong, and how wide they are beside those of a calibrated model.

    python benchmarks/intervals.py             # 2,000 samples of each setting (about an hour of processor time)
    python benchmarks/intervals.py --quick     # 30 samples, less than a minute
    python benchmarks/intervals.py --fresh     # other samples than last time; the seed is printed
    python benchmarks/intervals.py --settings "language model" --jobs 2

Each line is a statement in a setting: the truth; the share of samples whose interval covers it; the same for the
interval with the variance of a calibrated model, which Calibrant 0.2.0 had, in the first 500 samples; and the ratio of
the median widths there. The exit code is 1 if the exact binomial test at 0.001 rejects "at least 93 %", or if an
interval is more than 1.15 times as wide as the old one where that covered in 94 % to 96 % of samples. Then shares of
samples with a false statement: equal clusters that are said to differ, and sides that `check` names; the exit code is 1
if the test rejects "at most" the limit.

To add a statement, append a function of a setting, a generator and a number of samples to STATEMENTS, with the settings
in which it is tried. A setting knows its truths by name, from the distribution of its scores and not from samples.
"""

from __future__ import annotations

import argparse
import sys
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit, logit

from calibrant import check, clinical, metrics
from calibrant.tallies import GroupedTally
from calibrant.verdict.decision import Direction
from calibrant.verdict.discovery import discover
from calibrant.verdict.segments import scan_segments

Floats = NDArray[np.float64]
Interval = tuple[float, float]
LEVEL, LEAST, WIDEST, SIMILAR = 1e-3, 0.93, 1.15, (0.94, 0.96)
BEFORE = 500
"""Samples of each setting in which the old intervals are computed."""
Z = float(stats.norm.ppf(0.975))


# ------------------------------------------------------------------------------------------------------------ settings


class Sample(NamedTuple):
    """Rows; groups of dependent rows, or clusters, where the setting has them."""

    p: Floats
    y: NDArray[np.int64]
    groups: NDArray[np.int64] | None


@dataclass(frozen=True)
class Setting:
    """Scores of a distribution, and the true rate of each."""

    name: str
    scores: stats.rv_frozen | tuple[Sequence[float], Sequence[float]]
    rate: Callable[[Floats], Floats]
    n: int
    groups: int = 0
    sd: float = 0.0
    """Number of groups, and the standard deviation of their effects on the log-odds."""

    @cached_property
    def population(self) -> tuple[Floats, Floats, Floats]:
        """Scores, their weights, and the true rate of each."""
        if isinstance(self.scores, tuple):
            p, w = (np.array(each, dtype=np.float64) for each in self.scores)
        else:
            p = trimmed(self.scores.ppf((np.arange(100_000) + 0.5) / 100_000))
            w = np.full(len(p), 1.0 / len(p))
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        rates = (expit(logit(self.rate(p))[:, None] + self.sd * nodes) * weights).sum(axis=1) / weights.sum()
        return p, w, rates if self.sd else self.rate(p)

    @cached_property
    def truths(self) -> Mapping[str, float]:
        """What the estimates converge to, whatever the shape of the rates is."""
        p, w, q = self.population
        x = logit(p)
        level = optimize.brentq(lambda a: float((w * (q - expit(x + a))).sum()), -30.0, 30.0)
        ratio = float((w * q).sum() / (w * p).sum())
        found = {"intercept": level, "O/E": ratio}
        if len(p) == 1:
            return found
        line, both = np.array([0.0, 1.0]), np.stack([np.ones_like(x), x])
        for _ in range(100):
            m = expit(line @ both)
            step = np.linalg.solve((both * (w * m * (1.0 - m))) @ both.T, both @ (w * (q - m)))
            line += step * min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-12))
        return found | {"slope": float(line[1]), "intercept beside it": float(line[0])}

    def sample(self, rng: np.random.Generator) -> Sample:
        """Draw rows."""
        if isinstance(self.scores, tuple):
            p = rng.choice(np.array(self.scores[0], dtype=np.float64), self.n, p=self.scores[1])
        else:
            p = trimmed(self.scores.rvs(self.n, random_state=rng))
        groups = np.arange(self.n) % self.groups if self.groups else None
        x = logit(self.rate(p))
        if groups is not None and self.sd:
            x = x + rng.normal(0.0, self.sd, self.groups)[groups]
        return Sample(p, (rng.random(self.n) < expit(x)).astype(np.int64), groups)


def trimmed(p: Floats) -> Floats:
    return np.clip(p, 1e-6, 1.0 - 1e-6)


def constant(rate: float) -> Callable[[Floats], Floats]:
    return lambda p: np.full(len(p), rate)


def halves(low: float) -> Callable[[Floats], Floats]:
    return lambda p: np.where(p < 0.5, low, 1.0 - low)


def table(scores: Sequence[float], rates: Sequence[float]) -> Callable[[Floats], Floats]:
    return lambda p: np.array(rates)[np.searchsorted(np.array(scores) - 1e-9, p) - 1]


def line(slope: float, shift: float = 0.0) -> Callable[[Floats], Floats]:
    return lambda p: expit(slope * logit(p) + shift)


EQUAL = [
    Setting(f"all {p:g}, truth {rate:g}, n = {n:,}", ((p,), (1.0,)), constant(rate), n)
    for n in (200, 2_000)
    for p, rate in (
        (0.02, 0.03), (0.2, 0.1), (0.5, 0.25), (0.5, 0.5), (0.7, 0.35),
        (0.9, 0.6), (0.9, 0.45), (0.97, 0.8), (0.99, 0.9),
    )
]  # fmt: skip
"""Predictions that are all alike: a segment of an overconfident model."""

U, STATED = stats.beta(0.5, 0.5), ((0.7, 0.8, 0.9, 0.95, 0.99), (0.1, 0.15, 0.25, 0.25, 0.25))
ENDS = ((0.02, 0.98), (0.5, 0.5))
OVERCONFIDENT = [
    *(Setting(f"0.02 or 0.98, truth 0.3 or 0.7, n = {n:,}", ENDS, halves(0.3), n) for n in (200, 2_000)),
    Setting("0.02 or 0.98, truth 0.1 or 0.9, n = 2,000", ENDS, halves(0.1), 2_000),
    Setting("0.02 or 0.98, truth 0.05 or 0.95, n = 2,000", ENDS, halves(0.05), 2_000),
    *(
        Setting(f"beta(.5, .5), true slope {slope:g}, n = 2,000", U, line(slope), 2_000)
        for slope in (0.4, 0.7, 1.0, 1.5)
    ),
    Setting("language model, .7 to .99, truth .6 to .8, n = 2,000", STATED, lambda p: 0.6 + (p - 0.7) / 1.45, 2_000),
]
EXTREME, RARE_HIGH, THREE = (0.001, 0.3, 0.5, 0.7, 0.999), (0.01, 0.05, 0.95), (0.7, 0.9, 0.99)
WRONG_SHAPE = [
    Setting(
        "wrong shape: .001 to .999, n = 2,000", (EXTREME, (0.05, 0.3, 0.3, 0.3, 0.05)),
        table(EXTREME, (0.3, 0.05, 0.5, 0.95, 0.7)), 2_000,
    ),
    Setting(
        "3 % high scores that are wrong, n = 2,000", (RARE_HIGH, (0.6, 0.37, 0.03)),
        table(RARE_HIGH, (0.005, 0.06, 0.3)), 2_000,
    ),
    Setting("language model: three scores, n = 1,000", (THREE, (0.2, 0.4, 0.4)), table(THREE, (0.5, 0.4, 0.8)), 1_000),
]  # fmt: skip
SURE, TENTHS = ((0.001, 0.999), (0.5, 0.5)), tuple((np.arange(1, 10) / 10).tolist())
MORE = [
    Setting("25 events, calibrated, n = 500", stats.beta(2, 38), line(1.0), 500),
    Setting("25 events, overconfident, n = 500", stats.beta(0.7, 13.3), line(0.6, -0.9), 500),
    Setting("1 % events, calibrated, n = 5,000", stats.beta(0.5, 49.5), line(1.0), 5_000),
    Setting("1 % events, tripled, n = 5,000", stats.beta(2, 198), line(1.0, 1.1), 5_000),
    Setting("n = 300, overconfident", U, line(0.4, 0.3), 300),
    Setting("n = 300, calibrated", stats.beta(2, 3), line(1.0), 300),
    Setting("ties: scores of one digit, n = 500", (TENTHS, (1 / 9,) * 9), line(0.5, 0.2), 500),
    Setting("scores near .9, far off, n = 500", stats.beta(9, 1), line(0.5, -1.5), 500),
    Setting("5 surprises among .001 or .999, n = 1,000", SURE, table(SURE[0], (0.01, 0.999)), 1_000),
]
INDEPENDENT = [*EQUAL, *OVERCONFIDENT, *WRONG_SHAPE, *MORE]
DEPENDENT = [
    Setting("50 groups of 20, overconfident", U, line(0.4), 1_000, 50, 0.5),
    Setting("50 groups of 20, calibrated but for groups", stats.beta(2, 3), line(1.0), 1_000, 50, 0.3),
]
CLUSTERS = [
    Setting(f"10 equal clusters of 200, true slope {slope:g}", U, line(slope), 2_000, 10) for slope in (1.0, 0.4, 0.25)
]
REGIONS = [
    Setting(f"a quarter at {rate:g}, else calibrated at {p:g}, n = 3,000", ((p,), (1.0,)), constant(rate), 3_000)
    for p, rate in ((0.9, 0.5), (0.97, 0.8), (0.3, 0.5))
]
LEVEL_RIGHT = [
    *(Setting(f"0.02 or 0.98, truth 0.3 or 0.7, n = {n:,}", ENDS, halves(0.3), n) for n in (1_000, 2_000)),
    Setting("calibrated, n = 1,000", stats.beta(2, 3), line(1.0), 1_000),
]
"""As many events as predicted."""


def slope_right(rate: float) -> Setting:
    """Four scores with a slope of 1, the outer ones at this rate and its complement."""
    scores, weights = (0.01, 0.35, 0.65, 0.99), (0.1, 0.4, 0.4, 0.1)

    def made(inner: float) -> Setting:
        rates = table(scores, (rate, inner, 1.0 - inner, 1.0 - rate))
        return Setting(f"0.01 to 0.99, outer rate {rate:g}, slope 1, n = 3,000", (scores, weights), rates, 3_000)

    return made(float(optimize.brentq(lambda inner: made(inner).truths["slope"] - 1.0, 1e-4, 0.6)))


SLOPE_RIGHT = [slope_right(0.05), slope_right(0.1)]


# ---------------------------------------------------------------------------------------------------------- statements


def recalibrated(sample: Sample) -> Mapping[str, Interval]:
    """Intercept, slope and O/E as `metrics.recalibration` gives them, and so `check` and `clinical.validate`."""
    found = metrics.recalibration(sample.p, sample.y, groups=sample.groups)
    named = {
        "intercept": found.intercept,
        "slope": found.slope,
        "intercept beside it": found.slope_intercept,
        "O/E": found.observed_over_expected,
    }
    return {name: (each.low, each.high) for name, each in named.items() if each.low is not None}


def recalibrated_before(sample: Sample) -> Mapping[str, Interval]:
    """The same by profile likelihood, and for O/E normal on the log scale."""
    p, n = np.unique(sample.p, return_counts=True)
    events = np.bincount(np.searchsorted(p, sample.p), sample.y)
    x = logit(p)
    if sample.groups is not None or not 0 < events.sum() < n.sum():
        return {}

    def fitted(z: Floats) -> tuple[float, float]:
        """The best shift of these log-odds, and twice the negative log-likelihood there."""
        shift = 0.0
        for _ in range(100):
            m = n * expit(z + shift)
            step = float((events - m).sum() / max((m * (1.0 - m / n)).sum(), 1e-12))
            shift += float(np.clip(step, -1.0, 1.0))
            if abs(step) < 1e-7:
                break
        return shift, deviance(z + shift)

    def deviance(z: Floats) -> float:
        return float(2.0 * (n * np.logaddexp(0.0, z) - events * z).sum())

    def ends(best: float, above: Callable[[float], float], step: float) -> Interval:
        found = []
        for side in (-step, step):
            far = side
            while above(best + far) < 0.0 and abs(far) < 200.0:
                far *= 2.0
            found.append(
                optimize.brentq(above, best, best + far, xtol=1e-3 * step) if abs(far) < 200.0 else side * np.inf
            )
        return found[0], found[1]

    shift, least = fitted(x)
    made = {"intercept": ends(shift, lambda a: deviance(x + a) - least - Z**2, 0.2)}
    ratio = events.sum() / (n * p).sum()
    spread = np.sqrt((events * (1.0 - ratio * p) ** 2 + (n - events) * (ratio * p) ** 2).sum()) / events.sum()
    made["O/E"] = float(ratio * np.exp(-Z * spread)), float(ratio * np.exp(Z * spread))
    if len(p) > 1:
        away = x - x.mean()
        best = optimize.minimize_scalar(lambda b: fitted(b * away)[1], bracket=(0.5, 1.0), tol=1e-4)
        if abs(best.x) < 20.0:
            made["slope"] = ends(float(best.x), lambda b: fitted(b * away)[1] - best.fun - Z**2, 0.1)
    return made


def segment(sample: Sample) -> Mapping[str, Interval]:
    """Observed over predicted of a segment of `check(by=)`."""
    tallies = GroupedTally.from_arrays(sample.p, sample.y, groups=np.zeros(len(sample.p), dtype=int), grid=None)
    (found,) = scan_segments({"one": tallies})
    return {"O/E": (found.ratio_low, found.ratio_high)}


def segment_before(sample: Sample) -> Mapping[str, Interval]:
    """The same, from the variance of a calibrated model times the ratio."""
    events, predicted, variance = sample.y.sum(), sample.p.sum(), (sample.p * (1.0 - sample.p)).sum()
    half = events * predicted + Z**2 * variance / 2.0
    root = np.sqrt(max(half**2 - (events * predicted) ** 2, 0.0))
    return {"O/E": (float((half - root) / predicted**2), float((half + root) / predicted**2))}


def region(setting: Setting, rng: np.random.Generator) -> tuple[Interval, Interval, float]:
    """Observed over predicted in the region that `discover` finds: new, before, and true."""
    x = {"age": rng.random(setting.n), "income": rng.random(setting.n)}
    p, rate = setting.scores[0][0], float(setting.rate(np.zeros(1))[0])
    y = rng.random(setting.n) < np.where(x["age"] > 0.75, rate, p)
    found = discover(np.full(setting.n, p), y, x)
    grid = (np.arange(400) + 0.5) / 400
    cells = {"age": np.repeat(grid, 400), "income": np.tile(grid, 400)}
    inside = found.contains(cells)
    truth = float(np.where(cells["age"][inside] > 0.75, rate, p).mean()) / p if inside.any() else np.nan
    rows = np.full(found.rows, p)
    before = segment_before(Sample(rows, (np.arange(found.rows) < found.events).astype(np.int64), None))["O/E"]
    return (found.low, found.high), before, truth


def clusters(sample: Sample) -> tuple[Mapping[str, Interval], Mapping[str, float]]:
    """Pooled values of `validate_clusters`, and the p-values that clusters are equal."""
    pooled = clinical.validate_clusters(sample.p, sample.y, groups=sample.groups).pooled
    names = {"intercept": "intercept", "slope": "slope", "observed_over_expected": "O/E"}
    return (
        {name: (pooled[key].low, pooled[key].high) for key, name in names.items()},
        {name: pooled[key].p_value for key, name in names.items()},
    )


NAMED = (
    "too low or too high",
    "a segment too low or too high",
    "a region too low or too high",
    "too extreme, or not extreme enough",
)
LEVELS, SLOPES = {Direction.TOO_LOW, Direction.TOO_HIGH}, {Direction.TOO_EXTREME, Direction.NOT_EXTREME_ENOUGH}


def sides(sample: Sample, rng: np.random.Generator) -> Mapping[str, bool]:
    """What `check` names of all rows, of four segments alike, and of the region that looks worst."""
    features = {name: rng.random(len(sample.p)) for name in ("age", "income")}
    verdict = check(sample.p, sample.y, by={"part": np.arange(len(sample.p)) % 4}, discover=features)
    found = (
        bool(LEVELS & set(verdict.deviations)),
        any(each.off and each.side for each in verdict.segments),
        verdict.region.off and verdict.region.side != 0,
        bool(SLOPES & set(verdict.deviations)),
    )
    return dict(zip(NAMED, found, strict=True))


# ----------------------------------------------------------------------------------------------------------------- runs


class Line(NamedTuple):
    """Samples of one statement in one setting: covered, width, and the same of the old interval; NaN without one."""

    setting: str
    statement: str
    truth: float
    samples: Floats

    @property
    def before(self) -> tuple[float, float]:
        """Share of samples that the old interval covered, and the ratio of the widths to it."""
        known = self.samples[np.isfinite(self.samples[:, 3])]
        return (
            (float(known[:, 2].mean()), float(np.divide(*np.median(known[:, [1, 3]], axis=0)))) if len(known) else NONE
        )

    @property
    def failure(self) -> str:
        """What is wrong; empty if nothing is."""
        covered, ratio = self.before
        hits = int(self.samples[:, 0].sum())
        if stats.binomtest(hits, len(self.samples), LEAST, alternative="less").pvalue < LEVEL:
            return "covers too rarely"
        return "too wide" if SIMILAR[0] <= covered <= SIMILAR[1] and ratio > WIDEST else ""

    def __str__(self) -> str:
        covered, ratio = (f"{each:.3f}" if np.isfinite(each) else "-" for each in self.before)
        new, runs = self.samples[:, 0].mean(), len(self.samples)
        return f"{self.setting:<58}{self.statement:<24}{self.truth:>8.3f}{new:>9.3f}{covered:>8}{ratio:>7}{runs:>8}"


NONE = (np.nan, np.nan)


class Share(NamedTuple):
    """Samples with a false statement."""

    setting: str
    statement: str
    false: int
    samples: int
    limit: float

    @property
    def failure(self) -> str:
        """What is wrong; empty if nothing is."""
        many = stats.binomtest(self.false, self.samples, self.limit, alternative="greater").pvalue < LEVEL
        return "too often" if many else ""

    def __str__(self) -> str:
        share = self.false / self.samples
        return f"{self.setting:<58}{self.statement:<46}{share:>8.3f}{self.limit:>7.3f}{self.samples:>8}"


Found = list[Line | Share]


def covered(
    new: Callable[[Sample], Mapping[str, Interval]],
    before: Callable[[Sample], Mapping[str, Interval]] | None,
    title: str,
    setting: Setting,
    rng: np.random.Generator,
    runs: int,
) -> Found:
    """Coverage of named intervals of samples."""
    made: dict[str, list[tuple[float, ...]]] = {}
    for place in range(runs):
        sample = setting.sample(rng)
        old = {} if before is None or place >= BEFORE else before(sample)
        for name, interval in new(sample).items():
            made.setdefault(name, []).append(judged(interval, setting.truths[name], old.get(name)))
    return [Line(setting.name, title.format(name), setting.truths[name], np.array(each)) for name, each in made.items()]


def judged(interval: Interval, truth: float, old: Interval | None) -> tuple[float, ...]:
    """Whether it covers, and its width; the same of the old one."""
    pairs = [interval, old or (np.nan, np.nan)]
    return tuple(each for low, high in pairs for each in (float(low <= truth <= high), high - low))


def covered_regions(setting: Setting, rng: np.random.Generator, runs: int) -> Found:
    """Coverage in regions, whose truth differs between samples."""
    made = [region(setting, rng) for _ in range(runs)]
    known = [judged(new, truth, old) for new, old, truth in made if np.isfinite(truth)]
    return [Line(setting.name, "O/E of a region", float(np.nanmean([each[2] for each in made])), np.array(known))]


def covered_clusters(setting: Setting, rng: np.random.Generator, runs: int) -> Found:
    """Coverage of pooled values, and how often equal clusters are said to differ."""
    made = [clusters(setting.sample(rng)) for _ in range(runs)]
    lines: Found = []
    for name, truth in setting.truths.items():
        if name in made[0][0]:
            samples = [judged(intervals[name], truth, None) for intervals, _ in made]
            lines.append(Line(setting.name, f"pooled {name}", truth, np.array(samples)))
            false = sum(p_values[name] < 0.05 for _, p_values in made)
            lines.append(Share(setting.name, f"equal clusters differ in {name} (p < 0.05)", false, runs, 0.075))
    return lines


def named_sides(names: Sequence[str], setting: Setting, rng: np.random.Generator, runs: int) -> Found:
    """How often a side is named where the truth is on neither."""
    runs = max(runs // 2, 20)
    found = [sides(setting.sample(rng), rng) for _ in range(runs)]
    return [
        Share(setting.name, f"`check` says {name}", sum(each[name] for each in found), runs, 0.02) for name in names
    ]


STATEMENTS: Sequence[tuple[Callable[[Setting, np.random.Generator, int], Found], Sequence[Setting]]] = (
    (partial(covered, recalibrated, recalibrated_before, "{}"), [*INDEPENDENT, *DEPENDENT]),
    (partial(covered, segment, segment_before, "{} of a segment"), INDEPENDENT),
    (covered_regions, REGIONS),
    (covered_clusters, CLUSTERS),
    (partial(named_sides, NAMED[:3]), LEVEL_RIGHT),
    (partial(named_sides, NAMED[3:]), SLOPE_RIGHT),
)  # fmt: skip
"""What is said of a setting, and the settings in which it is tried."""


def run(place: int, at: int, seed: int, runs: int) -> Found:
    """One statement in one of its settings, by their places."""
    warnings.simplefilter("ignore")
    setting = STATEMENTS[place][1][at]
    rng = np.random.default_rng([seed, place, zlib.crc32(setting.name.encode())])
    return STATEMENTS[place][0](setting, rng, runs)


def report(found: Sequence[Line | Share]) -> bool:
    """Print the tables; whether a line fails."""
    print(f"{'setting':<58}{'statement':<24}{'truth':>8}{'covered':>9}{'before':>8}{'width':>7}{'samples':>8}")
    for kind in (Line, Share):
        for each in found:
            if isinstance(each, kind):
                print(f"{each}{'  FAIL: ' if each.failure else ''}{each.failure}")
        if kind is Line:
            print(f"\n{'setting':<58}{'false statement':<46}{'share':>8}{'limit':>7}{'samples':>8}")
    return any(each.failure for each in found)


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="30 samples")
    parser.add_argument("--samples", type=int, help="samples of each setting")
    parser.add_argument("--fresh", action="store_true", help="a new seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", default="", help="part of the names of settings")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    seed = int(np.random.SeedSequence().entropy % 2**32) if given.fresh else given.seed
    runs = given.samples or (30 if given.quick else 2_000)
    print(f"python benchmarks/intervals.py --seed {seed}: {runs:,} samples of each setting, numpy {np.__version__}\n")
    todo = [
        (place, at, seed, runs)
        for place, (_, settings) in enumerate(STATEMENTS)
        for at, setting in enumerate(settings)
        if given.settings in setting.name
    ]
    if given.jobs == 1:
        made = list(starmap(run, todo))
    else:
        with ProcessPoolExecutor(given.jobs) as pool:
            made = list(pool.map(run, *zip(*todo, strict=True)))
    return int(report([line for lines in made for line in lines]))


if __name__ == "__main__":
    sys.exit(main())
