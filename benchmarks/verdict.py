"""How often the answers of `check` are wrong, what they cost in labels, and what no test at that resolution can see.

    python benchmarks/verdict.py                    # 1,000 samples of each world (about an hour on two cores)
    python benchmarks/verdict.py --quick            # few worlds and 200 samples (a minute)
    python benchmarks/verdict.py --parts price      # some of: validity, fits, classes, findings, price, unseen

Validity: the error of the curve (its definition is in `calibrant.metrics.curve`), computed from the true rates in the
ranges of the sample, is exactly the limit. So "calibrated" and "miscalibrated" are both wrong, and so is an interval of
which one end does not reach the limit. Worlds are scores, a shape of the error, and a number of rows. The exit code is
1 if the exact binomial test at 0.001 rejects "at most 5 %" for a rate of any world.

Fits: maps fitted to few rows and checked on fresh ones, whose true error differs from sample to sample. Classes: ten
classes, of which the worst is at the limit. Findings: anything that a headline reports on calibrated data, with `by`
and `discover`. Price: rows for an answer in 80 % of samples, beside the rule on intercept and slope that was used
before. Unseen: errors that are finer than the ranges, or in few rows, with what is said about them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit, logit, ndtr, ndtri

from calibrant import check
from calibrant.arrays import check_rows
from calibrant.calibrators import IsotonicCalibrator
from calibrant.metrics.binary.curves.likelihood import Parameters
from calibrant.metrics.curve import CurveError
from calibrant.tallies import Clusters, Tally
from calibrant.tallies.cells import Cells
from calibrant.verdict.decision import LEVEL_CURVE, decide, within
from calibrant.verdict.input.evidence import Evidence

Floats = NDArray[np.float64]
ALLOWED, LEVEL, LIMIT = 0.05, 1e-3, 0.2
MOST_CELLS = 2_000
"""Designs are thinned to this many distinct scores."""
FARTHEST = 2.2
"""Worlds whose error would have to be larger than this in log-odds in many rows are left out."""

SCORES: dict[str, Callable[[Floats], Floats]] = {
    "uniform": lambda u: 0.005 + 0.99 * u,
    "beta(2, 5)": lambda u: stats.beta.ppf(u, 2, 5),
    "1 % events": lambda u: expit(-5.0 + 0.9 * ndtri(u)),
    "0.5 % events": lambda u: expit(-5.7 + 0.9 * ndtri(u)),
}
TIES = {"": None, ", 5 atoms": 5, ", 50 atoms": 50, ", rounded": 0}
SHAPES = ("shift +", "shift -", "slope +", "slope -", "both", "steps", "top 5 % +", "top 5 % -", "random")
SHAPES += tuple(f"wave {periods}" for periods in (2, 5, 10))
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)


@cache
def design(kind: str, n: int) -> tuple[Floats, NDArray[np.int64]]:
    """Distinct scores and the rows of each: quantiles of a distribution, in equal atoms or rounded if it says so."""
    base = next(base for base in SCORES if kind.startswith(base))
    ties = kind.removeprefix(base)
    u = (np.arange(n) + 0.5) / n
    p = np.asarray(SCORES[base](u))
    if TIES[ties]:
        place = np.arange(n) * TIES[ties] // n
        return np.bincount(place, p) / np.bincount(place), np.bincount(place)
    if TIES[ties] == 0:
        p = np.clip(np.round(p, 2 if p.mean() > 0.05 else 3), 0.0005, 0.9995)
    scores, rows = np.unique(p, return_counts=True)
    if len(scores) <= MOST_CELLS:
        return scores, rows
    place = np.arange(n) * MOST_CELLS // n
    return np.bincount(place, p) / np.bincount(place), np.bincount(place)


def direction(shape: str, p: Floats, rows: NDArray[np.int64]) -> Floats:
    """A shape of the error in log-odds, of any size."""
    u, x = (np.cumsum(rows) - 0.5 * rows) / rows.sum(), logit(p)
    weight = rows * p * (1.0 - p)
    x = x - float((weight * x).sum() / weight.sum())
    name, _, side = shape.rpartition(" ")
    sign = -1.0 if side == "-" else 1.0
    if name == "wave":
        return np.asarray(np.sin(2.0 * np.pi * float(side) * u))
    shapes = {"shift": np.ones_like(p), "slope": x, "top 5 %": 1.0 * (u > 0.95)}
    if name in shapes:
        return sign * shapes[name]
    if shape == "random":
        return np.random.default_rng(len(p)).normal(size=len(p))
    return 0.7 + x if shape == "both" else np.sign(np.sin(8.0 * np.pi * u + 1e-9))


def counted(p: Floats, rows: NDArray[np.int64], events: NDArray[np.int64]) -> Tally:
    return Tally(Cells(p, rows.astype(np.int64), events.astype(np.int64)), counts=True)


def true_error(curve: CurveError, p: Floats, rows: Floats, q: Floats) -> float:
    """The error of the curve by its definition, from the true rates, in the ranges of a sample."""
    starts = np.searchsorted(p, curve.low_score)
    n, due, hits = (np.add.reduceat(each, starts) for each in (rows * 1.0, rows * p, rows * q))
    weight = due * (1.0 - due / n)
    return float(np.sqrt((weight * (logit(hits / n) - logit(due / n)) ** 2).sum() / weight.sum()))


@dataclass(frozen=True)
class World:
    """Scores, the shape of the error, rows, and the error as a multiple of the limit."""

    scores: str
    shape: str
    n: int
    limit: float = LIMIT
    size: float = 1.0
    dependence: str = ""

    def rates(self) -> Floats | None:
        """True rates with exactly this error at the resolution of a sample; None if they would be too far off."""
        p, rows = design(self.scores, self.n)
        if not self.size:
            return p
        curve, off = CurveError.of(counted(p, rows, np.round(rows * p)), self.limit), direction(self.shape, p, rows)
        target, x, most = self.size * self.limit, logit(p), float(np.abs(off).max())
        if len(p) < 2 or not most > 1e-9 or float((rows * p * (1.0 - p)).sum()) < 5.0:
            return None

        def error(size: float) -> float:
            return true_error(curve, p, rows, expit(x + size * off)) - target

        high = target
        while error(high) < 0.0:
            high *= 1.5
            if high * most > 6.0:
                return None
        size = optimize.brentq(error, 0.0, high, xtol=1e-7)
        return expit(x + size * off) if np.quantile(np.abs(size * off), 0.99) <= FARTHEST else None

    def sample(self, q: Floats, rng: np.random.Generator) -> Tally | Clusters:
        """Rows with these true rates."""
        p, rows = design(self.scores, self.n)
        if not self.dependence:
            return counted(p, rows, rng.binomial(rows, q))
        order = rng.permutation(self.n)
        s, rate = np.repeat(p, rows)[order], np.repeat(q, rows)[order]
        if self.dependence == "weights":
            weights = rng.lognormal(0.0, 0.6, self.n)
            return Tally.from_arrays(s, rng.random(self.n) < rate, weights, score_type="probability").in_event_rows()
        group = np.arange(self.n) // 10  # ten rows whose labels share a normal variable
        shared = rng.normal(size=group[-1] + 1)[group]
        labels = ndtr(np.sqrt(0.1) * shared + np.sqrt(0.9) * rng.normal(size=self.n)) < rate
        return Clusters.of_rows(check_rows(s, labels, groups=group, score_type="probability"))


@dataclass(frozen=True)
class Shares:
    """Shares of samples that are said to be within, and beyond, and whose interval ends below the truth."""

    within: float
    beyond: float
    high_misses: float
    ranges: int
    runs: int

    def failures(self, names: Sequence[str] = ("within", "beyond", "high_misses")) -> list[str]:
        counts = {name: round(getattr(self, name) * self.runs) for name in names}
        return [
            name
            for name, count in counts.items()
            if stats.binomtest(count, self.runs, ALLOWED, alternative="greater").pvalue < LEVEL
        ]


def run(world: World, runs: int, seed: int = 0) -> Shares | None:
    """The statements on ``runs`` samples. The interval begins above the limit where "beyond" is said."""
    q = world.rates()
    if q is None:
        return None
    rng = np.random.default_rng([seed, world.n, *world.scores.encode(), *world.shape.encode()])
    counts, ranges, truth = np.zeros(3), 0, world.limit
    for _ in range(runs):
        data = world.sample(q, rng)
        cells = len(data.tally if isinstance(data, Clusters) else data)
        curve = CurveError.of(data, world.limit)
        if world.dependence:  # other ranges in each sample, and so another error
            truth = true_error(curve, *design(world.scores, world.n), q)
        low, high = (p <= LEVEL_CURVE for p in curve.p_values(truth))
        counts += [within(curve, truth, cells), high, low]
        ranges = len(curve)
    return Shares(*(counts / runs).tolist(), ranges, runs)


# ---------------------------------------------------------------------------------------------------------------- parts


def worlds(quick: bool) -> Iterator[World]:
    if quick:
        for scores, shape, n in (
            ("uniform", "shift +", 1_000), ("uniform", "wave 5", 3_000), ("beta(2, 5)", "slope -", 3_000),
            ("1 % events", "shift -", 30_000), ("uniform, 5 atoms", "random", 3_000),
            ("1 % events, rounded", "both", 30_000),
            ("uniform", "steps", 10_000), ("0.5 % events", "shift +", 100_000),
        ):  # fmt: skip
            yield World(scores, shape, n)
        yield World("1 % events", "shift +", 30_000, 1.0)
        yield World("uniform", "slope +", 2_000, dependence="clusters")
        yield World("uniform", "shift -", 2_000, dependence="weights")
        return
    kinds = [base + ties for base, ties in product(SCORES, TIES) if not (ties == ", 5 atoms" and "events" in base)]
    for scores, n, shape in product(kinds, SIZES, SHAPES):
        yield World(scores, shape, n)
    for limit, scores, n, shape in product(
        (0.1, 0.5, 1.0), ("uniform", "1 % events", "1 % events, rounded"), SIZES[::2],
        ("shift +", "shift -", "slope +", "wave 5", "top 5 % -"),
    ):  # fmt: skip
        yield World(scores, shape, n, limit)
    for dependence, scores, n, shape in product(
        ("clusters", "weights"), ("uniform", "beta(2, 5)", "uniform, 50 atoms"), (1_000, 3_000, 10_000),
        ("shift +", "shift -", "slope +", "wave 5"),
    ):  # fmt: skip
        yield World(scores, shape, n, dependence=dependence)


def name_of(world: World) -> str:
    return f"{world.scores}, {world.shape}, n = {world.n:,}, limit {world.limit:g} {world.dependence}".rstrip()


def validity(pool: ProcessPoolExecutor, runs: int, quick: bool) -> int:
    """Rates of wrong answers at the limit, and of interval ends that miss it."""
    every = list(worlds(quick))
    found = list(zip(every, pool.map(partial(run, runs=runs), every, chunksize=4), strict=True))
    made = [(world, shares) for world, shares in found if shares is not None and shares.ranges]
    print(f"Validity: {len(made):,} worlds of {runs:,} samples, the error of each at the limit")
    for name in ("within", "beyond", "high_misses"):
        values = [getattr(shares, name) for _, shares in made]
        print(f"  {name:12} mean {np.mean(values):.3f}, highest {max(values):.3f}; the highest three:")
        for world, shares in sorted(made, key=lambda pair: -getattr(pair[1], name))[:3]:
            print(f"    {getattr(shares, name):.3f}  {name_of(world)}, {shares.ranges} ranges")
    failed = [(world, failure) for world, shares in made for failure in shares.failures()]
    for world, failure in failed:
        print(f"  FAILS {failure}: {name_of(world)}")
    calibrated = [replace(world, size=0.0, shape="shift +") for world in every if world.shape in ("shift +", "slope +")]
    for world, shares in zip(calibrated, pool.map(partial(run, runs=runs), calibrated), strict=True):
        if shares is not None and shares.failures(("beyond",)):
            failed.append((world, "beyond"))
            print(f"  FAILS beyond: calibrated, {name_of(world)}")
    return len(failed)


def _fit(task: tuple[str, int, int, int]) -> tuple[bool, bool, float]:
    kind, fitted_on, n, seed = task
    rng = np.random.default_rng([seed, fitted_on, n, len(kind)])
    p = expit(rng.normal(size=fitted_on + n))
    y = rng.random(len(p)) < p
    if kind == "isotonic":
        cal = IsotonicCalibrator().fit(p[:fitted_on], y[:fitted_on])
        s = np.clip(np.asarray(cal.transform(p[fitted_on:])), 0.001, 0.999)
    else:
        place = np.searchsorted(np.quantile(p[:fitted_on], np.linspace(0.0, 1.0, 26)[1:-1]), p)
        means = [y[:fitted_on][place[:fitted_on] == each].mean() for each in range(25)]
        s = np.clip(means, 0.001, 0.999)[place[fitted_on:]]
    true = p[fitted_on:]
    found = decide(Evidence(Tally.from_arrays(s, y[fitted_on:], score_type="probability")))
    if found.curve is None:
        return False, False, 0.0
    scores, place, rows = np.unique(s, return_inverse=True, return_counts=True)
    error = true_error(found.curve, scores, rows.astype(float), np.bincount(place, true) / rows)
    return found.status == "calibrated" and error > LIMIT, found.status == "miscalibrated" and error <= LIMIT, error


def fits(pool: ProcessPoolExecutor, runs: int, quick: bool) -> int:
    """Overfitted maps, checked on fresh rows."""
    failed = 0
    print("Fits, checked on fresh rows: median true error; shares wrongly within and wrongly beyond")
    for kind, fitted_on, n in product(
        ("25 bins", "isotonic"), (200, 800, 2_000), (4_000,) if quick else (1_000, 4_000)
    ):
        found = list(pool.map(_fit, [(kind, fitted_on, n, seed) for seed in range(runs)], chunksize=16))
        missed, beyond, error = (np.array(each) for each in zip(*found, strict=True))
        shares = Shares(missed.mean(), beyond.mean(), 0.0, 0, runs)
        failed += len(shares.failures())
        print(
            f"  {kind:9} on {fitted_on:5,}, {n:5,} fresh: "
            f"{np.median(error):.2f}  {missed.mean():.3f}  {beyond.mean():.3f}"
        )
    return failed


def _classes(task: tuple[int, float, int]) -> tuple[bool, bool]:
    n, size, seed = task
    rng = np.random.default_rng([n, seed])
    p = rng.dirichlet(np.linspace(0.5, 2.0, 10), n)
    off = np.cos(np.arange(10.0))
    q = p * np.exp(size * off)
    q /= q.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > q.cumsum(axis=1)).sum(axis=1)
    status = check(p, np.minimum(y, 9), notion="class-wise").status
    return status == "calibrated", status == "miscalibrated"


def classes(pool: ProcessPoolExecutor, runs: int, quick: bool) -> int:
    """Ten classes, class-wise; the error of the worst class is the limit."""
    failed, runs = 0, max(runs // 4, 50)
    print("Ten classes, the worst at the limit: shares wrongly within and wrongly beyond")
    for n in (2_000,) if quick else (2_000, 20_000):
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.linspace(0.5, 2.0, 10), 20_000)

        def worst(size: float, p: Floats = p) -> float:
            q = p * np.exp(size * np.cos(np.arange(10.0)))
            q /= q.sum(axis=1, keepdims=True)
            errors = []
            for s, rate in zip(p.T, q.T, strict=True):
                order = np.argsort(s)
                rows = np.ones(len(s))
                curve = CurveError.of(counted(s[order], rows.astype(np.int64), rows.astype(np.int64)), LIMIT)
                errors.append(true_error(curve, s[order], rows, rate[order]))
            return max(errors) - LIMIT

        size = optimize.brentq(worst, 0.0, 2.0, xtol=1e-3)
        found = np.array(list(pool.map(_classes, [(n, size, seed) for seed in range(runs)], chunksize=8)))
        shares = Shares(*found.mean(axis=0).tolist(), 0.0, 0, runs)
        failed += len(shares.failures())
        print(f"  n = {n:6,}: {shares.within:.3f}  {shares.beyond:.3f}")
    return failed


def _finding(task: tuple[str, int, int, int]) -> tuple[bool, ...]:
    scores, n, segments, seed = task
    rng = np.random.default_rng([n, segments, seed])
    p = np.asarray(SCORES[scores](rng.random(n)))
    x = {"x": rng.normal(size=n), "z": rng.normal(size=n)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check(p, rng.random(n) < p, by=rng.integers(0, segments, n).astype(str), discover=x)
    return (bool(found.findings), *(name in found.findings for name in ("segments", "region", "bias", "off")))


def findings(pool: ProcessPoolExecutor, runs: int, quick: bool) -> int:
    """Calibrated data with segments and features: shares of samples in which the headline reports anything."""
    failed, names = 0, ("any", "segments", "region", "bias", "off")
    print(f"Findings in calibrated data, with by and discover: {', '.join(names)}")
    cases = [("uniform", 500, 5), ("beta(2, 5)", 2_000, 40), ("1 % events", 5_000, 10)]
    for scores, n, segments in cases[:1] if quick else [*cases, ("beta(2, 5)", 10_000, 5)]:
        found = np.array(list(pool.map(_finding, [(scores, n, segments, s) for s in range(runs)], chunksize=8)))
        shares = found.mean(axis=0)
        bad = bool(stats.binomtest(int(found[:, 0].sum()), runs, ALLOWED, alternative="greater").pvalue < LEVEL)
        failed += bad
        print(
            f"  {scores:10} n = {n:6,}, {segments:2} segments: {'  '.join(f'{each:.3f}' for each in shares)}"
            f"{' FAILS' * bad}"
        )
    return failed


def before(sample: Tally) -> tuple[bool, bool]:
    """The rule on intercept and slope that was used before: within, and beyond."""
    parameters = Parameters.of(sample)
    pairs = [(parameters.level, 0.0, LIMIT)]
    if parameters.slope is not None:
        pairs.append((parameters.slope, 1.0, LIMIT / min(parameters.likelihood.spread, 1.0)))
    near, far = [], []
    for one, ideal, limit in pairs:
        if one is None:
            return False, False
        low, high = one.interval(0.95)
        near.append(ideal - limit <= low and high <= ideal + limit)
        low, high = one.interval(0.98)
        far.append(low > ideal + limit or high < ideal - limit)
    return all(near), any(far)


def _answers(task: tuple[World, int, bool, int]) -> float:
    world, runs, near, old = task
    q, (p, rows) = world.rates(), design(world.scores, world.n)
    if q is None:
        return 0.0
    rng, said = np.random.default_rng([world.n, runs]), 0
    for _ in range(runs):
        sample = counted(p, rows, rng.binomial(rows, q))
        if old:
            said += before(sample)[not near]
        else:
            curve = CurveError.of(sample, world.limit)
            said += within(curve, world.limit, len(sample)) if near else curve.p_values(world.limit)[1] <= LEVEL_CURVE
    return said / runs


def rows_for(pool: ProcessPoolExecutor, world: World, runs: int, near: bool, old: int) -> float:
    """Rows for the answer in 80 % of samples, between sizes that differ by 7 %; infinite above a million."""
    sizes = np.unique(np.round(np.geomspace(200, 1_000_000, 127)).astype(int))
    low, high = 0, len(sizes) - 1
    while low < high:  # the power rises but for noise
        middle = (low + high) // 2
        share = np.mean(list(pool.map(_answers, [(replace(world, n=int(sizes[middle])), runs // 2, near, old)] * 2)))
        low, high = (low, middle) if share >= 0.8 else (middle + 1, high)
    return inf if low == len(sizes) - 1 else float(sizes[low])


def price(pool: ProcessPoolExecutor, runs: int, quick: bool) -> int:
    """Rows for an answer in 80 % of samples, beside the former rule."""
    print("Price: rows for the answer in 80 % of samples; the former rule on intercept and slope; their ratio")
    cases = [("within", scores, "shift +", 0.0) for scores in ("uniform", "beta(2, 5)", "1 % events")]
    for scores in ("uniform", "beta(2, 5)", "1 % events"):
        cases += [("beyond", scores, shape, 2.0) for shape in ("shift +", "shift -")]
    cases += [("beyond", "uniform", shape, 2.0) for shape in ("slope +", "slope -", "wave 2", "wave 5", "steps")]
    for answer, scores, shape, size in cases[:1] if quick else cases:
        world = World(scores, shape, 0, size=size)
        few = min(runs, 400)
        new, old = (rows_for(pool, world, few >> 2 * each, answer == "within", each) for each in (0, 1))
        truth = "calibrated" if not size else f"{shape}, twice the limit"
        print(f"  {answer}: {scores}, {truth:26} {new:9,.0f} {old:9,.0f} {new / old:6.2f}")
    return 0


def unseen(pool: ProcessPoolExecutor, runs: int, quick: bool) -> int:
    """Errors that are finer than the ranges, or in few rows: shares within, off and beyond, and the ranges."""
    print("Unseen: an error of 0.4 in log-odds (root mean square over rows) that ranges average out; a light tail")
    for n, periods in ((3_000, 10), (10_000, 10), (10_000, 40), (100_000, 40), (100_000, 100)):
        p, rows = design("uniform", n)
        u = (np.cumsum(rows) - 0.5 * rows) / n
        said = _said(p, rows, expit(logit(p) + 0.4 * np.sqrt(2.0) * np.sin(2.0 * np.pi * periods * u)), runs)
        print(f"  wave of {periods:3} periods, n = {n:7,}: {said}")
    for n in (3_000, 10_000, 100_000):
        p, rows = design("uniform", n)
        u = (np.cumsum(rows) - 0.5 * rows) / n
        print(f"  top 5 % off by -1, n = {n:7,}: {_said(p, rows, expit(logit(p) - (u > 0.95)), runs)}")
    return 0


def _said(p: Floats, rows: NDArray[np.int64], q: Floats, runs: int) -> str:
    rng, counts, ranges = np.random.default_rng(len(p)), np.zeros(4), 0
    for _ in range(min(runs, 400)):
        found = decide(Evidence(counted(p, rows, rng.binomial(rows, q))))
        counts += [
            *(found.status == each for each in ("calibrated", "off", "miscalibrated")),
            found.beyond.shape is not None,
        ]
        ranges = 0 if found.curve is None else len(found.curve)
    shares = counts / min(runs, 400)
    named = f"a range named {shares[3]:.2f} ({ranges} ranges)"
    return f"within {shares[0]:.2f}, off {shares[1]:.2f}, beyond {shares[2]:.2f}; {named}"


PARTS = {each.__name__: each for each in (validity, fits, classes, findings, price, unseen)}


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    arguments = parser.parse_args()
    runs, failed = arguments.runs or (200 if arguments.quick else 1_000), 0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name in arguments.parts:
            failed += PARTS[name](pool, runs, arguments.quick)
    print(f"{failed} rates are above {ALLOWED:.0%} by the exact binomial test at {LEVEL}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
