"""How often does a test of calibration accuse a calibrated model, and how often does it catch a bad one?

    python benchmarks/significance.py [--quick] [--seed S]

Labels are drawn from the scores themselves, so every rejection is an error: at most 5 % of samples, by an exact
one-sided binomial test at level 1e-3, or this script ends with exit code 1. Tests whose docstrings say where their
approximation fails are listed as known exceptions, each with its reason. Power is shown for a shift and for a slope
in log-odds. A last section looks at growing streams again and again.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from calibrant.messages import CalibrantWarning
from calibrant.metrics.binary import significance as tests
from calibrant.tallies import Tally

Floats = NDArray[np.float64]
ALPHA = 0.05
LEVEL = 1e-3
DRAWS = 199
"""Simulations for each p-value: (1 + 199) alpha is whole, so an exact test has size alpha and no less."""

TIED_VALUES = np.array([0.02, 0.1, 0.3, 0.6, 0.9])


def _mixture(rng: np.random.Generator, n: int) -> Floats:
    extreme = np.where(rng.random(n) < 0.5, rng.beta(0.2, 2.0, n), rng.beta(2.0, 0.2, n))
    return np.clip(np.where(rng.random(n) < 0.3, 0.5 + 0.1 * rng.random(n), extreme), 1e-6, 1 - 1e-6)


WORLDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, n: rng.random(n),
    "rare": lambda rng, n: rng.beta(1.0, 99.0, n),
    "two digits": lambda rng, n: rng.integers(1, 100, n) / 100,
    "five values": lambda rng, n: rng.choice(TIED_VALUES, n),
    "mixture": _mixture,
}
ABOUT = {
    "uniform": "uniform on (0, 1)",
    "rare": "Beta(1, 99), mean 0.01",
    "two digits": "0.01, 0.02, ..., 0.99",
    "five values": "0.02, 0.1, 0.3, 0.6, 0.9",
    "mixture": "most near 0 and 1 but never there, 30 % in (0.5, 0.6)",
}
TRUTHS: dict[str, Callable[[Floats], Floats]] = {
    "calibrated": lambda s: s,
    "shift": lambda s: special.expit(special.logit(s) + 0.4),
    "slope": lambda s: special.expit(0.7 * special.logit(s)),
}
TESTS: dict[str, Callable[[Tally], tests.Finding]] = {
    "z": tests.spiegelhalter,
    "H-L": tests.hosmer_lemeshow,
    "T-Cal": partial(tests.debiased_l2_test, repetitions=DRAWS),
    "range": partial(tests.ecce_test, statistic="range", method="simulation", repetitions=DRAWS),
    "max": partial(tests.ecce_test, statistic="max", method="simulation", repetitions=DRAWS),
    "range~": partial(tests.ecce_test, statistic="range", method="asymptotic"),
    "max~": partial(tests.ecce_test, statistic="max", method="asymptotic"),
    "always": tests.always_valid_test,
}
LEGEND = (
    "z Spiegelhalter; H-L Hosmer-Lemeshow, 10 bins; T-Cal debiased_l2_test; range, max ecce_test by simulation,\n"
    "with ~ by the Brownian limit; always always_valid_test."
)
FEW_EVENTS = "bins with far fewer than five expected events, where chi-square is not their distribution"
KNOWN: dict[tuple[str, str, int], str] = {
    ("H-L", "rare", 100): FEW_EVENTS,
    ("H-L", "rare", 1_000): FEW_EVENTS,
    ("H-L", "mixture", 100): FEW_EVENTS,
}
"""Where a test is known to accuse too often: (test, world, n) and the reason."""


@dataclass(frozen=True)
class Cell:
    """Rejections of one test in one world, at one size, under one truth."""

    world: str
    n: int
    truth: str
    test: str
    rejected: int
    repetitions: int

    @property
    def too_often(self) -> bool:
        found = stats.binomtest(self.rejected, self.repetitions, ALPHA, alternative="greater")
        return self.truth == "calibrated" and bool(found.pvalue < LEVEL)

    @property
    def known(self) -> str | None:
        return KNOWN.get((self.test, self.world, self.n))


def draw(world: str, truth: str, n: int, rng: np.random.Generator) -> Tally:
    """One sample; a sample of one class is a sample all the same."""
    scores = WORLDS[world](rng, n)
    labels = (rng.random(n) < TRUTHS[truth](scores)).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return Tally.from_arrays(scores, labels, positive=1, score_type="probability")


def rejections(job: tuple[str, int, str, int], seed: int = 0) -> list[Cell]:
    world, n, truth, repetitions = job
    counts = dict.fromkeys(TESTS, 0)
    for repetition in range(repetitions):
        place = [seed, list(WORLDS).index(world), n, list(TRUTHS).index(truth), repetition]
        tally = draw(world, truth, n, np.random.default_rng(place))
        for name, test in TESTS.items():
            counts[name] += int(test(tally).p_value <= ALPHA)
    return [Cell(world, n, truth, name, count, repetitions) for name, count in counts.items()]


def ever_rejected(test: Callable[[Tally], tests.Finding], truth: str, streams: int, seed: int = 0) -> int:
    """Streams of 2,000 rows that the test rejects at one look or another, of 50."""
    found = 0
    for stream in range(streams):
        rng = np.random.default_rng([seed, 77, stream])
        parts = (draw("two digits", truth, 40, rng) for _ in range(50))
        total = next(parts)
        rejected = test(total).p_value <= ALPHA
        for part in parts:
            if rejected:
                break
            total = total + part
            rejected = test(total).p_value <= ALPHA
        found += int(rejected)
    return found


def run(jobs: Sequence[tuple[str, int, str, int]], seed: int, processes: int = 2) -> list[Cell]:
    with ProcessPoolExecutor(processes) as pool:
        return [cell for cells in pool.map(partial(rejections, seed=seed), jobs) for cell in cells]


def print_table(cells: Sequence[Cell], title: str) -> None:
    print(f"\n{title}\n  {'world':<12} {'n':>6} {'samples':>8} " + "".join(f"{name:>8}" for name in TESTS))
    lines: dict[tuple[str, int, int], list[Cell]] = {}
    for cell in cells:
        lines.setdefault((cell.world, cell.n, cell.repetitions), []).append(cell)
    for (world, n, repetitions), found in lines.items():
        marks = (("+" if cell.known else "*") if cell.too_often else " " for cell in found)
        rates = (f"{100 * cell.rejected / repetitions:7.1f}{mark}" for cell, mark in zip(found, marks, strict=True))
        print(f"  {world:<12} {n:>6} {repetitions:>8} {''.join(rates)}".rstrip())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples, about 15 s: what CI runs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    sizes = {100: 60, 1_000: 40} if options.quick else {100: 4_000, 1_000: 2_000, 10_000: 1_000}
    nulls = [(world, n, "calibrated", sizes[n]) for world, n in product(WORLDS, sizes)]
    bad = [(world, n, truth, 10 if options.quick else 100) for truth, world, n in product(TRUTHS, WORLDS, sizes)]
    cells = run(nulls, options.seed)
    print(f"Tests of calibration at level {ALPHA:.0%}, rejections in % of samples.\n{LEGEND}\n\nWorlds:")
    print("\n".join(f"  {name:<12} {text}" for name, text in ABOUT.items()))
    print_table(
        cells, f"Size: the model is calibrated (* above {ALPHA:.0%} at level {LEVEL:g}, + as the docstring says)"
    )
    power = run([job for job in bad if job[2] != "calibrated"], options.seed)
    for truth, text in (("shift", "log-odds of the truth = logit(s) + 0.4"), ("slope", "0.7 logit(s)")):
        print_table([cell for cell in power if cell.truth == truth], f"Power: {text}")
    streams = 40 if options.quick else 1_000
    seen = {name: ever_rejected(TESTS[name], "calibrated", streams, options.seed) for name in ("always", "z")}
    caught = ever_rejected(TESTS["always"], "shift", streams // 5, options.seed)
    held = stats.binomtest(seen["always"], streams, ALPHA, alternative="greater").pvalue >= LEVEL
    print(f"\n{streams:,} streams of 2,000 calibrated rows (two digits), 50 looks each: rejected at some look, in %")
    print(
        f"  always-valid {100 * seen['always'] / streams:.1f}{'' if held else '*'}, z {100 * seen['z'] / streams:.1f}"
    )
    print(f"  with the shift of 0.4, always-valid: {100 * caught / (streams // 5):.1f}")
    failed = [cell for cell in cells if cell.too_often and not cell.known]
    print(f"\n{len(cells)} exact binomial tests of size, {len(failed)} failed beyond the known exceptions:")
    for (test, world, n), reason in KNOWN.items():
        print(f"  known: {test}, {world}, n = {n:,}: {reason}")
    print("".join(f"  FAIL {cell}\n" for cell in failed) + f"Seed {options.seed}.")
    return int(bool(failed) or not held)


if __name__ == "__main__":
    sys.exit(main())
