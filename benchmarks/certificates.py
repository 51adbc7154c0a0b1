"""How often is a certificate broken? At most alpha of the time, or this script ends with exit code 1.

    python benchmarks/certificates.py [--quick] [--repetitions N] [--seed S] [--worlds a,b] [--json out.json]

For every world of ``worlds.py`` (exact truth, no code shared with the package), every size and every way to choose
bins, many calibration sets are drawn and fitted, and each certificate is held against the true event rates of its bins:

- simultaneous: broken when a covered bin's true rate is further than epsilon from its output;
- marginal: broken when that is so for the bin of one new row, drawn from the world; rows that no guarantee covers
  count as unbroken;
- "by bin" claims the bin's own interval [lower, upper] in place of the common epsilon, which is sharper.

Every covered bin is an interval that is closed on the left. Edges that rows chose and that are not covered count for
nothing here; the table shows how much mass is covered, and what would happen if the edges were taken to be covered.
Random splits are drawn afresh in every repetition, as the confidence counts that draw.

Each rate of broken certificates is put to an exact one-sided binomial test against alpha. A last section shows that the
check has teeth: two readings of the source that look right and are not, broken far more often than alpha.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from worlds import WORLDS, World

from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificate import Certificate, Coverage
from calibrant.messages import CalibrantWarning
from calibrant.numerics import Grid
from calibrant.tallies import Tally

Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
Bools = NDArray[np.bool_]

ALPHA = 0.1
LEVEL = 1e-3
FIRST = next(iter(BOUNDS))
MODES: tuple[Coverage, ...] = ("simultaneous", "marginal")
ROUNDING = 1e-12
"""The truth is computed in double precision: this much is not held against a certificate."""


@dataclass(frozen=True)
class Setting:
    """A size of the calibration set and a number of bins."""

    n: int
    n_bins: int

    def __str__(self) -> str:
        return f"{self.n}/{self.n_bins}"


@dataclass(frozen=True)
class Size:
    """How much is run: calibration sets for each world and setting, and the ways to choose bins."""

    repetitions: int
    settings: tuple[Setting, ...]
    forms: tuple[str, ...]


# ----------------------------------------------------------------------------------------------------------------------
# Ways to choose the bins
# ----------------------------------------------------------------------------------------------------------------------

Sample = tuple[Floats, Labels]


@dataclass(frozen=True)
class Form:
    """A way to choose the bins: who chooses, on which scores, and whether no row of the calibration set does."""

    text: str
    grid: Grid | None = None
    bins: str = "all"
    fixed: bool = False

    @property
    def bounds(self) -> tuple[str, ...]:
        """Bounds that hold at any time are offered only for bins that would stay the same after more rows."""
        return tuple(bound for bound in BOUNDS if self.fixed or not BOUNDS[bound].any_time)

    def fit(self, today: Sample, before: Sample, n_bins: int, seed: int) -> HistogramBinning:
        calibrator = HistogramBinning(n_bins)
        if self.bins == "part":
            calibrator = HistogramBinning(n_bins, bins_from="split", random_state=seed)
            return self._with_certificate(calibrator.fit_tally(self.tally(today)))
        elif self.bins == "yesterday":
            calibrator = HistogramBinning(n_bins, bins_from=self.tally(before))
        elif self.bins == "width":
            calibrator = HistogramBinning(n_bins, strategy="width")
        return calibrator.fit_tally(self.tally(today))

    @staticmethod
    def _with_certificate(fitted: HistogramBinning) -> HistogramBinning:
        """Every sample has a seed of its own, drawn at random: as good as a fresh draw, however few the scores."""
        fitted.bins_ = replace(fitted.bins_, refusal=None)
        return fitted

    def tally(self, sample: Sample) -> Tally:
        return Tally.from_arrays(*sample, score_type="probability", grid=self.grid)


FORMS: Mapping[str, Form] = {
    "own": Form("the rows themselves, every distinct score (Gupta 2023, Algorithm 4.1): the default"),
    "own-g10": Form("the rows themselves, on the grid of 2^16 cells (10 bits): the default there", Grid()),
    "own-g4": Form("the rows themselves, on the grid of 2^10 cells (4 bits): the default there", Grid(bits=4)),
    "part": Form(
        'bins_from="split", every distinct score: a random part chooses, the rest give the rates', bins="part"
    ),
    "part-g4": Form('bins_from="split" on the grid of 2^10 cells', Grid(bits=4), bins="part"),
    "yesterday": Form("another, independent tally of the same world chooses", bins="yesterday", fixed=True),
    "width": Form("equal widths", bins="width", fixed=True),
}

FULL = Size(2_000, (Setting(21, 10), Setting(1_000, 5), Setting(5_000, 10)), tuple(FORMS))
QUICK = Size(50, (Setting(21, 10), Setting(1_000, 5)), tuple(FORMS))


# ----------------------------------------------------------------------------------------------------------------------
# One calibration set: its certificates against the truth
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Truth:
    """Mass and event rate of each bin."""

    mass: Floats
    rate: Floats

    @classmethod
    def of(cls, world: World, knots: Floats) -> Truth:
        """Bin j is [knots[j-1], knots[j])."""
        return cls._between(world, np.append(-np.inf, knots), np.append(knots, np.inf))

    @classmethod
    def with_edges(cls, world: World, knots: Floats, uncovered: Bools) -> Truth:
        """The same where every uncovered edge belongs to the bin above it (which may be another such edge)."""
        low = np.append(-np.inf, knots)
        edges = np.flatnonzero(uncovered[:-1])
        low[edges + 1] = low[edges]
        return cls._between(world, low, np.append(knots, np.inf))

    @classmethod
    def _between(cls, world: World, low: Floats, high: Floats) -> Truth:
        return cls(world.mass(low, high), world.rate(low, high))

    def error(self, outputs: Floats, counted: Bools) -> Floats:
        """Distance of each output from the true rate; zero where it does not count."""
        return np.where(counted, np.abs(self.rate - outputs), 0.0)

    def outside(self, lower: Floats, upper: Floats, counted: Bools) -> Bools:
        return counted & ((self.rate < lower - ROUNDING) | (self.rate > upper + ROUNDING))


FIT_FIELDS = ("covered", "largest_error", "drawn_error", "edges_in", "refused")
CERTIFICATE_FIELDS = ("epsilon", "broken", "by_bin", "mass")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Results by repetition: FIT_FIELDS in columns, CERTIFICATE_FIELDS by interval and coverage."""

    fits: Floats
    certificates: Floats

    @classmethod
    def empty(cls, repetitions: int, bounds: Sequence[str]) -> Outcomes:
        shape = (repetitions, len(bounds), len(MODES), len(CERTIFICATE_FIELDS))
        return cls(np.full((repetitions, len(FIT_FIELDS)), np.nan), np.full(shape, np.nan))

    @classmethod
    def join(cls, parts: Sequence[Outcomes]) -> Outcomes:
        fits = np.concatenate([part.fits for part in parts])
        return cls(fits, np.concatenate([part.certificates for part in parts]))

    def fit(self, name: str) -> Floats:
        return self.fits[:, FIT_FIELDS.index(name)]

    def certificate(self, name: str, bound: int, mode: int) -> Floats:
        return self.certificates[:, bound, mode, CERTIFICATE_FIELDS.index(name)]


def judge(
    world: World, calibrator: HistogramBinning, bounds: Sequence[str], uniform: float, row: int, out: Outcomes
) -> None:
    """Compare every certificate of one fit with the truth; ``uniform`` draws the new row of the marginal claims."""
    first = calibrator.certificate(ALPHA)
    if not isinstance(first, Certificate):  # without a guarantee nothing can be broken
        out.fits[row] = 0.0, np.nan, np.nan, 0.0, 1.0
        out.certificates[row, :, :, :] = np.nan, 0.0, 0.0, 0.0
        return
    truth = Truth.of(world, first.about.knots)
    counted = first.covered & (truth.mass > 0)
    error = truth.error(first.outputs, counted)
    covered = np.cumsum(np.where(counted, truth.mass, 0.0))
    drawn = int(np.searchsorted(covered, uniform, side="right"))
    inside = drawn < len(covered)  # else the new row lies where nothing is guaranteed
    edges_in = (error > first.epsilon + ROUNDING).any()
    if first.about.uncovered.any():
        whole = Truth.with_edges(world, first.about.knots, first.about.uncovered)
        edges_in = (whole.error(first.outputs, first.covered & (whole.mass > 0)) > first.epsilon + ROUNDING).any()
    out.fits[row] = covered[-1], error.max(), error[drawn] if inside else np.nan, edges_in, 0.0
    for (i, bound), (j, mode) in product(enumerate(bounds), enumerate(MODES)):
        issued = calibrator.certificate(ALPHA, interval=bound, coverage=mode) if i or j else first
        if not issued and BOUNDS[bound].any_time:  # tied scores may become bins as rows arrive
            out.certificates[row, i, j] = np.nan, 0.0, 0.0, 0.0
            continue
        if not isinstance(issued, Certificate):
            raise TypeError(f"{bound} {mode} was refused where Clopper-Pearson was not: {issued}")
        broken = error > issued.epsilon + ROUNDING
        by_bin = truth.outside(issued.lower, issued.upper, counted)
        mass = truth.mass[broken].sum()
        if mode == "simultaneous":
            out.certificates[row, i, j] = issued.epsilon, broken.any(), by_bin.any(), mass
        else:
            out.certificates[row, i, j] = issued.epsilon, inside and broken[drawn], inside and by_bin[drawn], mass


def run_chunk(world_name: str, setting: Setting, start: int, stop: int, size: Size, seed: int) -> dict[str, Outcomes]:
    """Repetitions ``start`` to ``stop`` of one world and setting; every repetition has a generator of its own."""
    world = next(world for world in WORLDS if world.name == world_name)
    results = {form: Outcomes.empty(stop - start, FORMS[form].bounds) for form in size.forms}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # 21 rows of a rare event hold one class, as they should
        for repetition in range(start, stop):
            key = [seed, zlib.crc32(world_name.encode()), setting.n, setting.n_bins, repetition]
            rng = np.random.default_rng(key)
            today, before = world.sample(rng, setting.n), world.sample(rng, setting.n)
            for form, out in results.items():
                calibrator = FORMS[form].fit(today, before, setting.n_bins, seed=int(rng.integers(2**63)))
                judge(world, calibrator, FORMS[form].bounds, rng.random(), repetition - start, out)
    return results


# ----------------------------------------------------------------------------------------------------------------------
# All of them: rows of the table
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One kind of certificate in one world: how often it was broken, and how tight it is."""

    world: str
    n: int
    n_bins: int
    form: str
    bound: str
    mode: str
    repetitions: int
    broken: int
    by_bin: int
    """Certificates with a bin outside its own interval."""
    p_value: float
    by_bin_p_value: float
    mass: float
    """Average mass of the broken bins."""
    epsilon: float
    """Median."""
    error: float
    """Quantile at 1 - alpha of what epsilon bounds: the largest error of a bin, or the error at a new row's bin."""
    covered: float
    """Average mass that the guarantee covers."""
    edges_in: float
    """Share broken by this fit's Clopper-Pearson guarantee if it were taken to cover edges with the bin above them."""
    refused: float

    @property
    def tightness(self) -> float:
        return self.epsilon / self.error if self.error > 0 else float("inf")

    @property
    def failures(self) -> tuple[str, ...]:
        """Claims that are broken more often than alpha."""
        values = {"epsilon": self.p_value, "by bin": self.by_bin_p_value}
        return tuple(name for name, value in values.items() if value < LEVEL)

    def __str__(self) -> str:
        return (
            f"{self.world} {self.n}/{self.n_bins} {self.form} {self.bound} {self.mode}: "
            f"{self.broken} by epsilon (p = {self.p_value:.2g}), {self.by_bin} by bin (p = {self.by_bin_p_value:.2g}) "
            f"of {self.repetitions}"
        )


def binomial_p(broken: int, repetitions: int) -> float:
    """Exact probability of at least this many if each is broken with probability alpha."""
    return float(stats.binomtest(broken, repetitions, ALPHA, alternative="greater").pvalue)


def rows_of(world: str, setting: Setting, form: str, bounds: Sequence[str], out: Outcomes) -> Iterator[Row]:
    repetitions = len(out.fits)
    for (i, bound), (j, mode) in product(enumerate(bounds), enumerate(MODES)):
        broken = int(out.certificate("broken", i, j).sum())
        by_bin = int(out.certificate("by_bin", i, j).sum())
        error = out.fit("largest_error" if mode == "simultaneous" else "drawn_error")
        epsilon = out.certificate("epsilon", i, j)
        yield Row(
            world=world,
            n=setting.n,
            n_bins=setting.n_bins,
            form=form,
            bound=bound,
            mode=mode,
            repetitions=repetitions,
            broken=broken,
            by_bin=by_bin,
            p_value=binomial_p(broken, repetitions),
            by_bin_p_value=binomial_p(by_bin, repetitions),
            mass=float(out.certificate("mass", i, j).mean()),
            epsilon=float(np.nanmedian(epsilon)) if np.isfinite(epsilon).any() else float("nan"),
            error=float(np.nanquantile(error, 1 - ALPHA)) if np.isfinite(error).any() else float("nan"),
            covered=float(out.fit("covered").mean()),
            edges_in=float(out.fit("edges_in").mean()),
            refused=float(out.fit("refused").mean()),
        )


def run(size: Size, worlds: Sequence[str], seed: int = 0, processes: int = 1, progress: bool = False) -> list[Row]:
    """Rows for every world, setting, form, bound and mode."""
    cells = [(world, setting) for world in worlds for setting in size.settings]
    step = max(1, min(size.repetitions, 100_000 // max(setting.n for setting in size.settings)))
    chunks = [(start, min(start + step, size.repetitions)) for start in range(0, size.repetitions, step)]
    tasks = [(*cell, *chunk) for cell in cells for chunk in chunks]
    work = partial(_run_task, size=size, seed=seed)
    rows: list[Row] = []
    began = time.perf_counter()
    pool = ProcessPoolExecutor(processes) if processes > 1 else None
    try:
        results = iter(pool.map(work, tasks) if pool else map(work, tasks))
        for done, (world, setting) in enumerate(cells, start=1):
            parts = [next(results) for _ in chunks]
            for form in size.forms:
                joined = Outcomes.join([part[form] for part in parts])
                rows += rows_of(world, setting, form, FORMS[form].bounds, joined)
            if progress:
                spent = time.perf_counter() - began
                print(f"{done}/{len(cells)} {world} {setting}, {spent:.0f} s", file=sys.stderr, flush=True)
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)
    return rows


def _run_task(task: tuple[str, Setting, int, int], size: Size, seed: int) -> dict[str, Outcomes]:
    return run_chunk(*task, size, seed)


# ----------------------------------------------------------------------------------------------------------------------
# Readings of the source that look right and are not: the check must catch them
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flaw:
    """How often a wrong certificate was broken."""

    name: str
    broken: int
    repetitions: int

    @property
    def p_value(self) -> float:
        return binomial_p(self.broken, self.repetitions)

    @property
    def caught(self) -> bool:
        return self.p_value < LEVEL


def literal_algorithm_41(world: World, setting: Setting, rng: np.random.Generator) -> bool:
    """Gupta (2023), Algorithm 4.1 to the letter: rows of boundary rank left out, their value in the bin on the right.

    Without ties that is right. With them a boundary value's other rows count for the bin on its left, or for none.
    """
    scores, labels = world.sample(rng, setting.n)
    order = np.argsort(scores, kind="stable")
    ranks = -(-np.arange(1, setting.n_bins) * (setting.n + 1) // setting.n_bins) - 1
    sums = np.append(0, np.cumsum(labels[order], dtype=np.int64))
    first, last = np.append(0, ranks + 1), np.append(ranks, setting.n)
    n, events = last - first, sums[last] - sums[first]
    lower, upper = _clopper_pearson(events, n, ALPHA / setting.n_bins)
    edges = scores[order][ranks]
    low, high = np.append(-np.inf, edges), np.append(edges, np.inf)
    rate = world.rate(low, high)
    return bool(((n > 0) & (world.mass(low, high) > 0) & ((rate < lower) | (rate > upper))).any())


def corollary_33(rng: np.random.Generator, repetitions: int, *, literal: bool) -> int:
    """Gupta (2023), Corollary 3.3: one Bernstein width for all bins, of the bin with fewest rows or the largest."""
    n = np.array([299, 300, 300, 300, 300])
    rate = np.array([0.001, 0.5, 0.5, 0.5, 0.5])
    mean = rng.binomial(n, rate, size=(repetitions, len(n))) / n
    log = np.log(3 * len(n) / ALPHA)
    width = np.sqrt(2 * mean * (1 - mean) * log / n) + 3 * log / n
    epsilon = width[:, np.argmin(n)] if literal else width.max(axis=1)
    return int((np.abs(mean - rate) > epsilon[:, None]).any(axis=1).sum())


def _clopper_pearson(events: NDArray[np.int64], n: NDArray[np.int64], alpha: float) -> tuple[Floats, Floats]:
    with np.errstate(invalid="ignore"):
        lower = np.where(events > 0, stats.beta.ppf(alpha / 2, np.maximum(events, 1), n - events + 1), 0.0)
        upper = np.where(events < n, stats.beta.isf(alpha / 2, events + 1, np.maximum(n - events, 1)), 1.0)
    return lower, upper


LITERAL_CASES = (
    ("heaped", Setting(1_000, 5)),
    ("heaped", Setting(5_000, 10)),
    ("two_digit", Setting(2_000, 10)),
    ("two_digit", Setting(5_000, 10)),
    ("tied", Setting(1_000, 5)),
    ("atoms", Setting(1_000, 5)),
    ("atoms", Setting(5_000, 10)),
)


def flaws(repetitions: int = 200, seed: int = 0) -> list[Flaw]:
    """The wrong readings, each on data where it fails."""
    by_name = {world.name: world for world in WORLDS}
    found = []
    for name, setting in LITERAL_CASES:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), setting.n])
        broken = sum(literal_algorithm_41(by_name[name], setting, rng) for _ in range(repetitions))
        found.append(Flaw(f"Algorithm 4.1 to the letter on ties: {name} {setting}", broken, repetitions))
    many = 10 * repetitions
    broken = corollary_33(np.random.default_rng([seed, 33]), many, literal=True)
    return [*found, Flaw("Corollary 3.3 to the letter: 299 rows at rate 0.001, four bins of 300 at 0.5", broken, many)]


# ----------------------------------------------------------------------------------------------------------------------
# Printing
# ----------------------------------------------------------------------------------------------------------------------

_SHORT = {bound: "-".join(word[0] for word in bound.split("-")) if "-" in bound else bound[:4] for bound in BOUNDS}


def print_report(rows: Sequence[Row], wrong: Sequence[Flaw], size: Size) -> None:
    claims = 2 * len(rows)
    names = list(dict.fromkeys(row.world for row in rows))
    described = {world.name: world.description for world in WORLDS}
    print(
        f"Certificates at alpha = {ALPHA}: {size.repetitions:,} calibration sets in each world and setting n/B.\n"
        f"{', '.join(f'{short} {bound}' for bound, short in _SHORT.items())}\n"
        "(a bound that holds at every sample size is refused where rows choose the bins).\n"
        f"{len(rows):,} rows of two claims each make {claims:,} exact binomial tests at level {LEVEL:g}. If each\n"
        f"claim were broken exactly alpha of the time, {claims * LEVEL:.1f} would fail by chance (family-wise level\n"
        f"at most {min(1.0, claims * LEVEL):.2g}); most are broken far more rarely."
    )
    print("\nForms: who chooses the bins")
    for form in size.forms:
        print(f"  {form:<10} {FORMS[form].text}")
    width = 6 * len(BOUNDS) - 1
    for mode in MODES:
        print(f"\nBroken {mode} certificates, in % (* fails the test)")
        print(f"  {'':<18}" + "".join(f"| {group:<{width}}" for group in ("within epsilon", "by bin")).rstrip())
        print(f"  {'n/B':<8} {'form':<9}" + ("| " + " ".join(f"{short:>5}" for short in _SHORT.values())) * 2)
        for name in names:
            print(f"{name}: {described[name]}")
            for (n, n_bins, form), found in _lines(rows, name):
                cells = "".join(
                    "| " + " ".join(_percent(found.get((bound, mode)), by_bin) for bound in BOUNDS)
                    for by_bin in (False, True)
                )
                print(f"  {f'{n}/{n_bins}':<8} {form:<9}{cells}".rstrip())
    print(
        "\nTightness: median epsilon divided by the 90 % quantile of the true error that it bounds (the largest of\n"
        "the bins, or that of a new row's bin); covered: mass of the scores that the guarantee covers, in %;\n"
        "edges in: % broken if the simultaneous c-p guarantee were taken to cover each uncovered edge along with the\n"
        "bin above it (not claimed, not tested); refused: % without a certificate."
    )
    head = "".join(f"{short:>5} " for short in _SHORT.values())
    for mode in MODES:
        print(f"{mode}\n  {'n/B':<8} {'form':<9}|  error {head}| {'covered':>8} {'edges in':>8} {'refused':>7}")
        for name in names:
            print(f"{name}")
            for (n, n_bins, form), found in _lines(rows, name):
                some = found[FIRST, mode]
                ratios = "".join(f"{_ratio(found.get((bound, mode))):>5} " for bound in BOUNDS)
                edges = f"{100 * some.edges_in:8.1f}" if FORMS[form].bins == "all" else f"{'':>8}"
                line = f"  {f'{n}/{n_bins}':<8} {form:<9}| {some.error:6.4f} {ratios}"
                print(f"{line}| {100 * some.covered:8.1f} {edges} {100 * some.refused:7.1f}")
    print("\nThe check has teeth: certificates that look right and are not, in % broken")
    for flaw in wrong:
        verdict = "caught" if flaw.caught else "NOT CAUGHT"
        print(f"  {flaw.name:<83} {100 * flaw.broken / flaw.repetitions:5.1f}  p = {flaw.p_value:.1e}  {verdict}")
    failed = [row for row in rows if row.failures]
    least = min(min(row.p_value, row.by_bin_p_value) for row in rows)
    print(f"\n{len(failed)} of {len(rows):,} rows fail; the least p-value is {least:.2g}.")
    for row in failed:
        print(f"  FAIL {row}")


def _lines(rows: Sequence[Row], world: str) -> Iterator[tuple[tuple[int, int, str], dict[tuple[str, str], Row]]]:
    lines: dict[tuple[int, int, str], dict[tuple[str, str], Row]] = {}
    for row in rows:
        if row.world == world:
            lines.setdefault((row.n, row.n_bins, row.form), {})[row.bound, row.mode] = row
    yield from lines.items()


def _percent(row: Row | None, by_bin: bool) -> str:
    if row is None:
        return "    -"
    failed = ("by bin" if by_bin else "epsilon") in row.failures
    return f"{100 * (row.by_bin if by_bin else row.broken) / row.repetitions:4.1f}{'*' if failed else ' '}"


def _ratio(row: Row | None) -> str:
    if row is None or not np.isfinite(row.tightness):
        return "-"
    return f"{row.tightness:.2f}" if row.tightness < 100 else f"{row.tightness:.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    began = time.perf_counter()
    options = _parse(arguments)
    base = QUICK if options.quick else FULL
    size = Size(options.repetitions or base.repetitions, base.settings, base.forms)
    rows = run(size, options.worlds, options.seed, options.processes, progress=True)
    wrong = flaws(200 if options.quick else 1_000, options.seed)
    print_report(rows, wrong, size)
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} s with {options.processes} processes, seed {options.seed}.")
    if options.json:
        document = {
            "alpha": ALPHA,
            "level": LEVEL,
            "seed": options.seed,
            "seconds": round(seconds, 1),
            "rows": [_finite({**asdict(row), "tightness": row.tightness}) for row in rows],
            "flaws": [{**asdict(flaw), "p_value": flaw.p_value} for flaw in wrong],
        }
        options.json.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return int(any(row.failures for row in rows) or not all(flaw.caught for flaw in wrong))


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(x, float) and not np.isfinite(x) else x for name, x in record.items()}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [world.name for world in WORLDS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sets and settings, under a minute: what CI runs")
    parser.add_argument(
        "--repetitions", type=int, help=f"sets in each world and setting ({FULL.repetitions}, {QUICK.repetitions})"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worlds", default=",".join(names), help="names, separated by commas")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write every figure here")
    options = parser.parse_args(arguments)
    options.worlds = options.worlds.split(",")
    unknown = set(options.worlds) - set(names)
    if unknown:
        parser.error(f"no such world: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
