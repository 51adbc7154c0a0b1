"""Cost of class-wise and top-label errors of a large matrix, as ratios to the least that each of them needs.

    python benchmarks/class_metrics.py                # the published table: 50,000 rows of 1,000 classes
    python benchmarks/class_metrics.py --quick --gate --rounds 5  # what CI runs
    python benchmarks/class_metrics.py --peers        # against netcal, where it is installed

Class-wise: one compiled pass that locates each number and adds it up (numba), without any check of the input.
Top-label: the largest number of each row and where it is, by numpy. All jobs run in one process, in turn, round after
round; a cost is the median CPU time, on one thread. Ours read and check the matrix and the labels every time.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import platform
import statistics
import sys
import warnings
from functools import partial

import numba
import numpy as np
from measure import Job, run
from numpy.typing import NDArray

from calibrant import metrics

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]

GATE = 1.3
"""CI stops at this many times the limit."""

PASS, TOP = "compiled pass, class-wise", "numpy max + argmax"
BINS = 15
PEER = 20.0
"""How many times slower netcal is expected to be at least."""


def make_rows(rows: int, classes: int, seed: int = 1) -> tuple[Matrix, Labels]:
    """Softmax of normal logits, one of them raised by 8; the label is that one in four rows of five."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.standard_normal((rows, classes), dtype=np.float32)
    top = rng.integers(0, classes, rows)
    z[np.arange(rows), top] += 8.0
    np.exp(z - z.max(axis=1, keepdims=True), out=z)
    z /= z.sum(axis=1, keepdims=True)
    labels = np.where(rng.random(rows) < 0.8, top, rng.integers(0, classes, rows))
    labels[:classes] = np.arange(classes)[: len(labels)]
    return z, labels


@numba.njit
def compiled(p: Matrix, y: Labels, bins: int) -> float:
    rows, classes = p.shape
    n, total, events = np.zeros((classes, bins)), np.zeros((classes, bins)), np.zeros((classes, bins))
    for i in range(rows):
        for k in range(classes):
            b = min(int(p[i, k] * bins), bins - 1)
            n[k, b] += 1
            total[k, b] += p[i, k]
        b = min(int(p[i, y[i]] * bins), bins - 1)
        events[y[i], b] += 1
    return np.abs(total - events).sum() / rows / classes


def max_and_argmax(p: Matrix) -> object:
    return p.max(axis=1), p.argmax(axis=1)


def jobs_on(p: Matrix, y: Labels, every: bool) -> list[Job]:
    ours = partial(metrics.ece, p, y, uncertainty=False)
    jobs = [
        Job(PASS, partial(compiled, p, y, BINS)),
        Job("ece, class-wise", partial(ours, notion="class-wise"), PASS, 2.0),
        Job(TOP, partial(max_and_argmax, p)),
        Job("ece, top-label", ours, TOP, 2.0),
    ]
    if every:
        jobs += [
            Job("ece, confidence", partial(ours, notion="confidence"), TOP),
            Job("accuracy", partial(metrics.accuracy, p, y), TOP),
            Job("brier", partial(metrics.brier, p, y), PASS),
            Job("log_loss", partial(metrics.log_loss, p, y), PASS),
        ]
    return jobs


def with_uncertainty(rounds: int) -> list[Job]:
    """What is computed without being asked, at its largest: two million numbers."""
    p, y = make_rows(200_000, 10)
    jobs = [
        Job("top-label", partial(metrics.ece, p, y)),
        Job("class-wise", partial(metrics.ece, p, y, notion="class-wise")),
        Job("marginal_error", partial(metrics.marginal_error, p, y)),
    ]
    run(jobs, rounds)
    return jobs


def peer_class_wise(p: Matrix, y: Labels) -> float:
    """Class-wise ECE by netcal: its binary ECE of each column."""
    measure = importlib.import_module("netcal.metrics").ECE(BINS).measure
    return float(np.mean([measure(p[:, k], (y == k).astype(int)) for k in range(p.shape[1])]))


def report(jobs: list[Job]) -> bool:
    """Print the table; true when no ratio is beyond its gate."""
    found, within = {job.name: job for job in jobs}, True
    print(f"\n{'CPU time':<34}{'ms':>9}{'wall ms':>9}{'ratio':>8}{'limit':>7}")
    for job in jobs:
        text = f"{job.name:<34}{1e3 * job.cost:>9.1f}{1e3 * statistics.median(job.wall):>9.1f}"
        if job.against is not None:
            ratio = job.cost / found[job.against].cost
            text += f"{ratio:>8.2f}"
            if job.limit is not None:
                verdict = "ok" if ratio <= job.limit else "MISS" if ratio <= GATE * job.limit else "FAIL"
                within &= verdict != "FAIL"
                text += f"{job.limit:>7.1f}  {verdict}"
        print(text)
    return within


def compare_with_netcal(p: Matrix, y: Labels, rounds: int) -> None:
    if importlib.util.find_spec("netcal") is None:
        print("netcal is not installed: nothing to compare with")
        return
    ours = Job("ece, class-wise", partial(metrics.ece, p, y, uncertainty=False, notion="class-wise"))
    peer = Job("netcal ECE of each column", partial(peer_class_wise, p, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what peers warn of is not ours to show
        run([ours, peer], rounds)
        values = ours.run(), peer.run()
    print(f"ours {1e3 * ours.cost:.0f} ms, netcal {1e3 * peer.cost:.0f} ms: {peer.cost / ours.cost:.0f} times as long")
    print(f"expected at least {PEER:.0f} times; values {float(values[0]):.8f} and {float(values[1]):.8f}")  # type: ignore[arg-type]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7, help="at least 5; default 7")
    parser.add_argument("--quick", action="store_true", help="only what has a limit")
    parser.add_argument("--gate", action="store_true", help="exit code 1 when a ratio exceeds 1.3 x its limit")
    parser.add_argument("--peers", action="store_true", help="time netcal instead")
    options = parser.parse_args()
    if options.rounds < 5:
        parser.error("a median needs at least 5 rounds")
    rows = options.rows
    about = f"{options.rounds} rounds, Python {platform.python_version()}, numpy {np.__version__}"
    print(f"{rows:,} rows of {options.classes:,} classes, float32, {about}", flush=True)
    p, y = make_rows(rows, options.classes)
    if options.peers:
        compare_with_netcal(p, y, options.rounds)
        return 0
    jobs = jobs_on(p, y, every=not options.quick)
    run(jobs, options.rounds)
    within = report(jobs)
    if not options.quick:
        print("\nwith standard error and null value, 200,000 rows of 10 classes, CPU seconds")
        for job in with_uncertainty(options.rounds):
            print(f"{job.name:<34}{job.cost:>9.2f}")
    if options.gate and not within:
        print(f"\nFAIL: a ratio is more than {GATE} times its limit")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
