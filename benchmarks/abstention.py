"""Share of answers that a guarantee of few wrong answers leaves, beside an oracle and another package.

    python benchmarks/abstention.py [--quick] [--runs N] [--peers] [--models] [--gaps]

Each run draws graded answers of a population with known errors, and asks for a threshold above which at most 10 % of
the answers are wrong, with confidence 95 %. The table has the mean share of answers given, in the population, where no
threshold counts as 0, and the share of runs in which more than 10 % of the answers above the threshold are wrong. The
oracle knows the population.

``--peers`` adds MAPIE's ``BinaryClassificationController`` for precision 0.9 at confidence 0.95, if it is installed:
with its default (Bonferroni-Holm over 100 thresholds), with its fixed sequence (from threshold 0 up, as the thresholds
are given by default), and with the fixed sequence from the top down with five starts, which a user has to set.

``--models`` asks for the thresholds of three models at once on 300 rows each, in populations that are hard for it; a
run fails if more than 10 % of the answers above the threshold of some model are wrong. It has 2,000 runs.

``--gaps`` prints instead how many of the 95 % intervals of ``overconfidence`` hold the true gap of their cell, and the
mean square error of shrunken gaps over that of observed ones, for true gaps of several kinds.

The script ends with exit code 1 if an exact binomial test at significance level 0.001 says that a guarantee of
Calibrant fails more often than in 5 % of the runs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calibrant.abstention import accept, accept_models, overconfidence

Floats = NDArray[np.float64]
ERROR, ALPHA, LEVEL = 0.1, 0.05, 1e-3
ROWS = (300, 1_000)
FULL, FULL_PEERS, FULL_MODELS, FULL_GAPS, QUICK = 1_000, 200, 2_000, 200, 50
VALUES = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
SHARES = np.array([0.05, 0.08, 0.12, 0.25, 0.28, 0.17, 0.05])

Method = Callable[[Floats, NDArray[np.bool_]], float | None]


@dataclass(frozen=True)
class Stated:
    """A few stated confidences, with the share of the answers that state each and the error of each."""

    errors: tuple[float, ...]
    shares: tuple[float, ...] = tuple(SHARES)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """Scores, and whether each answer is right."""
        at = rng.choice(len(self.errors), n, p=np.array(self.shares) / np.sum(self.shares))
        return VALUES[-len(self.errors) :][at], rng.random(n) >= np.array(self.errors)[at]

    def above(self, threshold: float) -> tuple[float, float]:
        """Share of answers at or above a threshold, and the share of them that is wrong."""
        p, at = np.array(self.shares) / np.sum(self.shares), VALUES[-len(self.errors) :] >= threshold
        share = float(p[at].sum())
        return share, float((p * self.errors)[at].sum()) / share if share else 0.0


@dataclass(frozen=True)
class Continuous:
    """Uniform scores; the error falls in a line from ``most`` at score 0 to 0 at score 1."""

    most: float

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """Scores, and whether each answer is right."""
        s = rng.random(n)
        return s, rng.random(n) >= self.most * (1.0 - s)

    def above(self, threshold: float) -> tuple[float, float]:
        """Share of answers at or above a threshold, and the share of them that is wrong."""
        return 1.0 - threshold, self.most * (1.0 - threshold) / 2.0


World = Stated | Continuous
WORLDS: dict[str, World] = {
    "seven stated values": Stated((0.5, 0.4, 0.3, 0.17, 0.09, 0.04, 0.05)),
    "highest is bad": Stated((0.5, 0.4, 0.3, 0.12, 0.05, 0.04, 0.3)),
    "continuous, error 0-60 %": Continuous(0.60),
    "continuous, error 0-14 %": Continuous(0.14),
}
HARD: dict[str, World] = {
    "error at the bound": Stated((ERROR + 1e-9,) * 7, (1.0,) * 7),
    "few rows at the top, and they are bad": Stated((0.5, 0.09, 0.14), (0.4, 0.35, 0.1)),
    "better below than above": Stated((0.31, 0.05, 0.15, 0.2), (0.2, 0.5, 0.1, 0.1)),
}


def oracle(world: World) -> float:
    """The largest share of answers with at most 10 % wrong ones."""
    return max((share for share, wrong in map(world.above, np.linspace(0.0, 1.0, 6_001)) if wrong <= ERROR), default=0)


def ours(s: Floats, right: NDArray[np.bool_]) -> float | None:
    """The threshold of ``accept``."""
    return accept(s, right, error=ERROR, alpha=ALPHA).threshold


def peers() -> dict[str, Method]:
    """MAPIE in three settings."""
    import mapie
    from mapie.risk_control import BinaryClassificationController
    from mapie.risk_control.fwer_control import FWERFixedSequenceTesting

    print(f"peer: MAPIE {mapie.__version__}")

    def method(**options: object) -> Method:
        def threshold(s: Floats, right: NDArray[np.bool_]) -> float | None:
            def predict(x: Floats) -> Floats:
                return np.column_stack([1.0 - x[:, 0], x[:, 0]])

            control = BinaryClassificationController(
                predict, risk="precision", target_level=1.0 - ERROR, confidence_level=1.0 - ALPHA, **options
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                control.calibrate(s[:, None], right.astype(int))
            best = control.best_predict_param
            return None if best is None else float(best)

        return threshold

    down = np.linspace(0.0, 0.99, 100)[::-1]
    return {
        "MAPIE": method(),
        "fixed sequence": method(fwer_method="fixed_sequence"),
        "top down": method(fwer_method=FWERFixedSequenceTesting(n_starts=5), list_predict_params=down),
    }


def too_often(failed: int, runs: int) -> bool:
    """Whether a share of failures above alpha is shown."""
    return bool(stats.binomtest(failed, runs, ALPHA, alternative="greater").pvalue <= LEVEL)


def compare(runs: int, methods: dict[str, Method]) -> bool:
    """Print the table; whether ``accept`` kept its guarantee."""
    print(f"\nMean share of answers given, and of runs with more than {100 * ERROR:g} % wrong; {runs:,} runs")
    print(f"{'':26}{'rows':>6}{'oracle':>8}" + "".join(f"{name:>23}" for name in methods))
    kept = True
    for place, (name, world) in enumerate(WORLDS.items()):
        for n in ROWS:
            rng = np.random.default_rng([7, place, n])
            given, failed = dict.fromkeys(methods, 0.0), dict.fromkeys(methods, 0)
            for _ in range(runs):
                drawn = world.draw(n, rng)
                for label, threshold in methods.items():
                    found = threshold(*drawn)
                    share, wrong = (0.0, 0.0) if found is None else world.above(found)
                    given[label] += share / runs
                    failed[label] += wrong > ERROR
            cells = "".join(f"{given[label]:15.3f}{failed[label] / runs:8.3f}" for label in methods)
            print(f"{name:26}{n:6,}{oracle(world):8.2f}{cells}", flush=True)
            kept &= not too_often(failed["accept"], runs)
    return kept


def several(runs: int) -> bool:
    """Three models at once; whether all thresholds held often enough."""
    rng, failed, found = np.random.default_rng(6), 0, 0
    for _ in range(runs):
        drawn = {name: world.draw(300, rng) for name, world in HARD.items()}
        choice = accept_models(
            {name: s for name, (s, _) in drawn.items()}, {name: y for name, (_, y) in drawn.items()}, alpha=ALPHA
        )
        at = {name: each.threshold for name, each in choice.models.items() if each.threshold is not None}
        found += bool(at)
        failed += any(HARD[name].above(threshold)[1] > ERROR for name, threshold in at.items())
    print(
        f"\nThree models at once, 300 rows each: a threshold in {found:,} of {runs:,} runs, "
        f"one that does not hold in {failed:,} ({100 * failed / runs:.1f} %, allowed {100 * ALPHA:g} %)"
    )
    return not too_often(failed, runs)


KINDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "all equal": lambda rng, k: np.full(k, 0.08),
    "normal, sd 0.03": lambda rng, k: 0.08 + 0.03 * rng.normal(size=k),
    "normal, sd 0.1": lambda rng, k: 0.05 + 0.1 * rng.normal(size=k),
    "heavy tails (t, 3 df)": lambda rng, k: 0.08 + 0.03 * rng.standard_t(3, size=k),
    "two kinds": lambda rng, k: np.where(rng.random(k) < 0.5, 0.0, 0.15),
    "one differs": lambda rng, k: np.where(np.arange(k) == 0, 0.2, 0.02),
}
"""True gaps of cells; each is what confidence exceeds accuracy by."""


def gap_coverage(kind: str, cells: int, rows: int, runs: int) -> tuple[float, float, float]:
    """Share of intervals that hold, that of the first cell alone, and the error of shrunken over observed gaps."""
    held, first, errors = 0.0, 0.0, np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng([run, cells, rows])
        truth = np.clip(KINDS[kind](rng, cells), -0.05, 0.5)
        cell = np.repeat(np.arange(cells), rows)
        stated = rng.choice([0.6, 0.7, 0.8, 0.9, 0.95], len(cell))
        found = overconfidence(stated, rng.random(len(cell)) < stated - truth[cell], cell)
        by_cell = {int(each.name): each for each in found.cells}
        holds = [by_cell[j].low <= truth[j] <= by_cell[j].high for j in range(cells)]
        held, first = held + np.mean(holds) / runs, first + holds[0] / runs
        errors += [sum((getattr(by_cell[j], key) - truth[j]) ** 2 for j in range(cells)) for key in ("shrunken", "gap")]
    return held, first, float(errors[0] / errors[1])


def show_gaps(runs: int) -> None:
    """Print the coverage of the intervals of gaps."""
    print(f"Intervals (95 %) of confidence minus accuracy that hold the true gap, {runs:,} runs")
    print(f"{'true gaps':24}{'cells':>6}{'rows':>6}{'all':>8}{'first cell':>12}{'error ratio':>13}")
    for kind in KINDS:
        for cells, rows in ((4, 300), (8, 100), (40, 20)):
            held, first, ratio = gap_coverage(kind, cells, rows, runs)
            print(f"{kind:24}{cells:6}{rows:6}{held:8.3f}{first:12.3f}{ratio:13.2f}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--gaps", action="store_true")
    given = parser.parse_args(arguments)
    if given.gaps:
        show_gaps(given.runs or (QUICK if given.quick else FULL_GAPS))
        return 0
    began = time.process_time()
    methods = {"accept": ours} | (peers() if given.peers else {})
    runs = given.runs or (QUICK if given.quick else FULL_PEERS if given.peers else FULL)
    kept = compare(runs, methods)
    if given.models or given.quick:
        kept &= several(QUICK if given.quick else FULL_MODELS)
    print(f"\n{time.process_time() - began:.0f} s of CPU time; guarantees kept:", "yes" if kept else "NO")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
