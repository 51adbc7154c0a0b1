"""Cost of fitting and applying maps, as ratios to what numpy needs for the least that must be done.

    python benchmarks/fit.py --rows 1e7 --peers       # the published table; peers: pip install venn-abers splinecalib
    python benchmarks/fit.py --quick --gate           # what CI runs

All jobs run in one process, in turn, round after round, so that a slow spell of the machine hits everything alike. A
cost is the median CPU time over the rounds, on one thread; a ratio is a job's cost divided by its baseline's. Under
``--gate`` a ratio above 1.5 times its target ends the run with exit code 1.

Memory is measured in a fresh process for each fit: the growth of the high-water mark of resident memory (``ru_maxrss``)
from after a small warm-up fit, before the inputs exist, to after the fit, divided by the size of the inputs (float64
scores and int64 labels, 16 bytes a row). The inputs themselves are therefore 1.0 of it. The choice among methods has a
bound of its own for all that the process holds, 3 GiB for 10 million rows.

Peers that take long run beside ours in a separate turn with fewer rounds; the table shows how many times longer
they take. Venn-Abers pairs must agree with the peer's to 1e-12, or the run fails.
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

from calibrant import (
    AutoCalibrator,
    BetaScaling,
    Calibration,
    HistogramBinning,
    IsotonicCalibrator,
    PlattScaling,
    SplineCalibrator,
    Tally,
    VennAbers,
)
from calibrant.calibrators import BayesianBinning
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.engine import Grid
from calibrant.maps import LogitAffineMap, StepMap

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GATE = 1.5
"""CI stops at this many times the target."""

SORT, BINCOUNT, COPY, SIGMOID = "np.sort", "cast + two weighted bincounts", "copy", "bare numpy sigmoid"
ARGSORT, SECOND = "np.argsort, a million rows", "one second"
MEMORY_TARGET = 3.0
CHOICE = "calibrate"
CHOICE_TARGET = 3.0 * 2**30 / 1e7
"""Bytes a row that the choice among methods may need."""

MILLION = 1_000_000
VENN_ROWS, SPLINE_ROWS, SLOW_ROUNDS = 500_000, 20_000, 3
AGREEMENT = 1e-12
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
    CHOICE: (AutoCalibrator, None),
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


def jobs_on_a_million() -> list[Job]:
    """The choice among methods next to one argsort, and the slowest method next to the clock."""
    scores, labels = make_rows(MILLION, seed=3)
    return [
        Job(ARGSORT, partial(np.argsort, scores)),
        Job(f"{CHOICE}, a million rows", partial(fit, CHOICE, scores, labels), ARGSORT, 15.0),
        Job("BayesianBinning, a million rows", lambda: BayesianBinning().fit(scores, labels), SECOND, 30.0),
    ]


@dataclass(frozen=True)
class Duel:
    """The same job by us and by a peer, and how many times longer the peer must take at least."""

    name: str
    ours: Job
    peers: Job
    least: float

    @property
    def won(self) -> bool:
        return self.peers.cost >= self.least * self.ours.cost

    def text(self) -> str:
        times = self.peers.cost / self.ours.cost
        return f"{self.name:<58}{times:>8.0f}{self.least:>9.0f}  {'ok' if self.won else 'MISS'}"


def venn_abers_pairs(scores: Floats, labels: Ints, new: Floats) -> tuple[Floats, Floats]:
    p0, p1 = VennAbers().fit(scores, labels).interval(new)
    return p0, p1


def peers_pairs(scores: Floats, labels: Ints, new: Floats) -> tuple[Floats, Floats]:
    from venn_abers import VennAbers as PeersVennAbers  # type: ignore[import-not-found]

    peer = PeersVennAbers()
    peer.fit(np.column_stack([1.0 - scores, scores]), labels)
    both = peer.predict_proba(np.column_stack([1.0 - new, new]))[1]
    return both[:, 0], both[:, 1]


def peers_spline(scores: Floats, labels: Ints) -> object:
    from splinecalib import SplineCalib  # type: ignore[import-not-found]

    with np.errstate(over="ignore"):
        return SplineCalib().fit(scores, labels)


def duels() -> list[Duel]:
    scores, labels = make_rows(VENN_ROWS, seed=4)
    venn = scores, labels, make_rows(VENN_ROWS, seed=5)[0]
    few = make_rows(SPLINE_ROWS, seed=6)
    return [
        Duel(
            f"Venn-Abers, {VENN_ROWS:,} + {VENN_ROWS:,} rows / venn-abers",
            Job("Venn-Abers", partial(venn_abers_pairs, *venn)),
            Job("the package venn-abers", partial(peers_pairs, *venn)),
            30.0,
        ),
        Duel(
            f"SplineCalibrator, {SPLINE_ROWS:,} rows / splinecalib",
            Job("SplineCalibrator", lambda: SplineCalibrator().fit(*few)),
            Job("the package splinecalib", partial(peers_spline, *few)),
            200.0,
        ),
    ]


def agreement(rows: int = VENN_ROWS) -> float:
    """Largest difference of a Venn-Abers probability from the peer's."""
    given = *make_rows(rows, seed=7), make_rows(rows, seed=8)[0]
    pairs = zip(venn_abers_pairs(*given), peers_pairs(*given), strict=True)
    return max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)


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
    """Peak of one fit in units of its inputs, or of the choice in units of its bound; meant for a fresh process."""
    fit(name, *make_rows(WARM_UP_ROWS))
    before = high_water()
    scores, labels = make_rows(rows)
    fit(name, scores, labels)
    if name == CHOICE:
        return high_water() / (CHOICE_TARGET * rows)
    return (high_water() - before) / (scores.nbytes + labels.nbytes)


def measure_memory(rows: int, every: bool) -> list[Line]:
    """Each fit that has a target, or every fit, in a process of its own.

    Call before this process has grown: on Linux a child starts with its parent's high-water mark.
    """
    lines = []
    for name, (_, target) in TARGETS.items():
        if target is not None or every:
            lines.append(Line(name, _in_a_process(name, rows), None if target is None else MEMORY_TARGET))
    limit = f"{CHOICE} / {CHOICE_TARGET * rows / 2**30:.1f} GiB"
    return [*lines, Line(limit, _in_a_process(CHOICE, rows), 1.0)]


def _in_a_process(name: str, rows: int) -> float:
    command = [sys.executable, __file__, "--memory-of", name, "--rows", str(rows)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


# --- the report -------------------------------------------------------------------------------------------------------


def report(jobs: Iterable[Job], memory: Iterable[Line]) -> bool:
    """Print the tables; true when no ratio is beyond its gate."""
    jobs = list(jobs)
    cost = {SECOND: 1.0} | {job.name: job.cost for job in jobs}
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


def report_duels(fought: Iterable[Duel], difference: float) -> bool:
    """Print how many times longer peers take; true when each takes long enough and the numbers agree."""
    fought = list(fought)
    print(f"\n{'CPU time of the peer / ours':<58}{'times':>8}{'at least':>9}")
    for duel in fought:
        print(duel.text())
    agree = difference <= AGREEMENT
    print(
        f"largest difference of a Venn-Abers probability: {difference:.1e} ({'ok' if agree else 'FAIL'}: {AGREEMENT:g})"
    )
    return agree and all(duel.won for duel in fought)


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of fitting and applying maps, as ratios to plain numpy.")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--rounds", type=int, help="at least 5; default 7, quick 5")
    parser.add_argument("--quick", action="store_true", help="4 million rows, and only what has a target")
    parser.add_argument("--gate", action="store_true", help="exit code 1 when a ratio exceeds 1.5 x its target")
    parser.add_argument("--peers", action="store_true", help="also time scikit-learn, venn-abers and splinecalib")
    parser.add_argument("--memory-of", choices=FITS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(memory_of_fit(options.memory_of, options.rows)))
        return 0

    rows = 4_000_000 if options.quick else options.rows
    rounds = options.rounds or (5 if options.quick else 7)
    if rounds < 5:
        parser.error("a median needs at least 5 rounds")
    print(f"{rows:,} rows, {rounds} rounds, Python {platform.python_version()}, numpy {np.__version__}", flush=True)
    memory = measure_memory(rows, every=not options.quick)
    scores, labels = make_rows(rows)
    jobs = jobs_on(scores, labels, make_clicks(rows)) + jobs_on_a_million()
    if options.quick:
        jobs = [job for job in jobs if job.limit is not None or job.against is None]
    if options.peers:
        few = rows // 10
        jobs += peer_jobs(scores[:few].copy(), labels[:few].copy())
    with threadpool_limits(1):
        run(jobs, rounds)
    within = report(jobs, memory)
    if options.peers:
        fought = duels()
        run([job for duel in fought for job in (duel.ours, duel.peers)], SLOW_ROUNDS)
        within = report_duels(fought, agreement()) and within
    if options.gate and not within:
        print(f"\nFAIL: a ratio is more than {GATE} times its target, or a peer is too fast or tells other numbers")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
