"""Cost of fitting and applying maps, as ratios to what numpy needs for the least that must be done.

    python benchmarks/fit.py --rows 1e7 [--peers]     # the published table
    python benchmarks/fit.py --quick --gate           # what CI runs

All jobs run in one process, in turn, round after round, so that a slow spell of the machine hits everything alike. A
cost is the median CPU time over the rounds, on one thread; a ratio is a job's cost divided by its baseline's. Under
``--gate`` a ratio above 1.5 times its target ends the run with exit code 1.

Memory is measured in a fresh process for each fit: the growth of the high-water mark of resident memory (``ru_maxrss``)
from after a small warm-up fit, before the inputs exist, to after the fit, divided by the size of the inputs (float64
scores and int64 labels, 16 bytes a row). The inputs themselves are therefore 1.0 of it.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from measure import Job, run
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from calibrant import BetaScaling, Calibration, Grid, HistogramBinning, IsotonicCalibrator, PlattScaling, Tally
from calibrant.calibrators.base import BinaryCalibrator
from calibrant.maps import LogitAffineMap, StepMap

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GATE = 1.5
"""CI stops at this many times the target."""

SORT, BINCOUNT, COPY, SIGMOID = "np.sort", "cast + two weighted bincounts", "copy", "bare numpy sigmoid"
MEMORY_TARGET = 3.0
WARM_UP_ROWS = 1_000
STEPS = 1_000
SLOPE, INTERCEPT = 0.9, -0.2

FITS: Mapping[str, tuple[Callable[[], BinaryCalibrator], Grid | None]] = {
    "exact isotonic": (IsotonicCalibrator, None),
    "exact isotonic, steps": (partial(IsotonicCalibrator, step=True), None),
    "exact equal-mass binning": (HistogramBinning, None),
    "gridded Platt": (PlattScaling, Grid()),
    "gridded beta": (BetaScaling, Grid()),
    "gridded isotonic": (IsotonicCalibrator, Grid()),
    "gridded binning": (HistogramBinning, Grid()),
    "exact Platt": (PlattScaling, None),
    "exact beta": (BetaScaling, None),
}
TARGETS: Mapping[str, tuple[str, float | None]] = {
    "exact isotonic": (SORT, 5.0),
    "exact isotonic, steps": (SORT, 5.0),
    "exact equal-mass binning": (SORT, 5.0),
    "gridded Platt": (BINCOUNT, 2.0),
    "gridded beta": (BINCOUNT, 2.0),
    "gridded isotonic": (BINCOUNT, 2.0),
    "gridded binning": (BINCOUNT, 2.0),
    "exact Platt": (SORT, None),  # for information
    "exact beta": (SORT, None),
}


@dataclass(frozen=True)
class Line:
    """A line of a table: a ratio, and the target it is held against."""

    name: str
    ratio: float
    target: float | None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.ratio <= self.target else "MISS" if self.ratio <= GATE * self.target else "FAIL"

    def text(self) -> str:
        limits = ("", "") if self.target is None else (f"{self.target:.1f}", f"{GATE * self.target:.2f}")
        return f"{self.name:<42}{self.ratio:>8.2f}{limits[0]:>9}{limits[1]:>8}  {self.verdict}"


# --- the data ---------------------------------------------------------------------------------------------------------


def make_rows(rows: int, seed: int = 1) -> tuple[Floats, Ints]:
    """Uniform scores whose event rate is s^2 (3 - 2 s), made in pieces so that no temporary shows in the peak."""
    rng = np.random.default_rng(seed)
    scores, labels = np.empty(rows), np.empty(rows, dtype=np.int64)
    for start in range(0, rows, 1 << 16):
        s = scores[start : start + (1 << 16)]
        rng.random(out=s)
        labels[start : start + len(s)] = rng.random(len(s)) < s * s * (3.0 - 2.0 * s)
    return scores, labels


def make_clicks(rows: int, seed: int = 2) -> Floats:
    """Scores of a click model: beta(0.5, 200), mean 0.0025."""
    return np.random.default_rng(seed).beta(0.5, 200.0, rows)


def step_map(scores: Floats) -> Calibration:
    """A map of 1,000 steps whose knots are quantiles of ``scores``."""
    knots = np.unique(np.quantile(scores[:1_000_000], np.arange(1, STEPS) / STEPS))
    return Calibration(StepMap(knots, np.linspace(0.001, 0.9, len(knots) + 1)))


# --- the jobs ---------------------------------------------------------------------------------------------------------


def fit(name: str, scores: Floats, labels: Ints) -> BinaryCalibrator:
    make, grid = FITS[name]
    if grid is None:
        return make().fit(scores, labels)
    return make().fit_tally(Tally.from_arrays(scores, labels, grid=grid))


def two_bincounts(scores: Floats, labels: Ints) -> tuple[Floats, Floats]:
    cell = (scores * 65_535).astype(np.int64)
    events, total = (
        np.bincount(cell, weights=x, minlength=65_536).astype(np.float64, copy=False) for x in (labels, scores)
    )
    return events, total


def bare_sigmoid(scores: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-(SLOPE * np.log(scores / (1 - scores)) + INTERCEPT))))


def jobs_on(scores: Floats, labels: Ints, clicks: Floats) -> list[Job]:
    inner = np.clip(scores, 1e-9, 1 - 1e-9)  # the bare expression would divide by zero elsewhere
    jobs = [
        Job(SORT, partial(np.sort, scores)),
        Job(BINCOUNT, partial(two_bincounts, scores, labels)),
        Job(COPY, scores.copy),
        Job(SIGMOID, partial(bare_sigmoid, inner)),
    ]
    for name, (baseline, target) in TARGETS.items():
        jobs.append(Job(name, partial(fit, name, scores, labels), baseline, target))
    for name, x in (("ordinary", scores), ("click-like", clicks)):
        jobs.append(Job(f"transform, 1,000 steps, {name}", partial(step_map(x).transform, x), COPY, 13.0))
    sigmoid = Calibration(LogitAffineMap(SLOPE, INTERCEPT))
    jobs.append(Job("transform, sigmoid", partial(sigmoid.transform, inner), SIGMOID, 1.2))
    return jobs


def peer_jobs(scores: Floats, labels: Ints) -> list[Job]:
    """What scikit-learn needs for the same, on as many rows as it takes in bearable time."""
    from sklearn.calibration import _SigmoidCalibration
    from sklearn.isotonic import IsotonicRegression

    sort, bincount = f"{SORT}, peers' rows", f"{BINCOUNT}, peers' rows"
    return [
        Job(sort, partial(np.sort, scores)),
        Job(bincount, partial(two_bincounts, scores, labels)),
        Job("scikit-learn IsotonicRegression", partial(IsotonicRegression().fit, scores, labels), sort),
        Job("scikit-learn sigmoid", partial(_SigmoidCalibration().fit, scores, labels), bincount),
    ]


# --- memory -----------------------------------------------------------------------------------------------------------


def high_water() -> int:
    """Largest resident size of this process so far, in bytes."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_of_fit(name: str, rows: int) -> float:
    """Peak of one fit in units of its inputs; meant for a fresh process."""
    fit(name, *make_rows(WARM_UP_ROWS))
    before = high_water()
    scores, labels = make_rows(rows)
    fit(name, scores, labels)
    return (high_water() - before) / (scores.nbytes + labels.nbytes)


def measure_memory(rows: int, every: bool) -> list[Line]:
    """Each fit that has a target, or every fit, in a process of its own.

    Call before this process has grown: on Linux a child starts with its parent's high-water mark.
    """
    lines = []
    for name, (_, target) in TARGETS.items():
        if target is None and not every:
            continue
        command = [sys.executable, __file__, "--memory-of", name, "--rows", str(rows)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        lines.append(Line(name, float(json.loads(done.stdout)), None if target is None else MEMORY_TARGET))
    return lines


# --- the report -------------------------------------------------------------------------------------------------------


def report(jobs: Iterable[Job], memory: Iterable[Line]) -> bool:
    """Print the tables; true when no ratio is beyond its gate."""
    jobs = list(jobs)
    cost = {job.name: statistics.median(job.cpu) for job in jobs}
    print(f"\n{'job':<42}{'CPU s':>8}{'wall s':>9}")
    for job in jobs:
        print(f"{job.name:<42}{cost[job.name]:>8.3f}{statistics.median(job.wall):>9.3f}")
    lines: list[Line] = []
    for baseline in dict.fromkeys(job.against for job in jobs if job.against is not None):
        print(f"\n{'CPU time / ' + baseline:<42}{'ratio':>8}{'target':>9}{'gate':>8}")
        for job in jobs:
            if job.against == baseline:
                lines.append(Line(job.name, cost[job.name] / cost[baseline], job.limit))
                print(lines[-1].text())
    print(f"\n{'peak memory / inputs':<42}{'ratio':>8}{'target':>9}{'gate':>8}")
    for line in memory:
        lines.append(line)
        print(line.text())
    return all(line.verdict != "FAIL" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of fitting and applying maps, as ratios to plain numpy.")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--rounds", type=int, help="at least 5; default 7")
    parser.add_argument("--quick", action="store_true", help="4 million rows")
    parser.add_argument("--gate", action="store_true", help="exit code 1 when a ratio exceeds 1.5 x its target")
    parser.add_argument("--peers", action="store_true", help="also time scikit-learn, on a tenth of the rows")
    parser.add_argument("--memory-of", choices=TARGETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(memory_of_fit(options.memory_of, options.rows)))
        return 0

    rows = 4_000_000 if options.quick else options.rows
    rounds = options.rounds or 7
    if rounds < 5:
        parser.error("a median needs at least 5 rounds")
    print(f"{rows:,} rows, {rounds} rounds, Python {platform.python_version()}, numpy {np.__version__}", flush=True)
    memory = measure_memory(rows, every=not options.quick)
    scores, labels = make_rows(rows)
    jobs = jobs_on(scores, labels, make_clicks(rows))
    if options.peers:
        few = rows // 10
        jobs += peer_jobs(scores[:few].copy(), labels[:few].copy())
    with threadpool_limits(1):
        run(jobs, rounds)
    within = report(jobs, memory)
    if options.gate and not within:
        print(f"\nFAIL: a ratio is more than {GATE} times its target")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
