"""How often the monitor raises an alarm, on calibrated streams and on others, and how soon.

    python benchmarks/monitor.py                  # 2,000 streams with a look after each of 10,000 rows
    python benchmarks/monitor.py --quick          # 100 streams of 2,000 rows
    python benchmarks/monitor.py --parts keys     # some of the tables: level, delay, keys, advice
    python benchmarks/monitor.py --parts level --only independent --streams 500    # one line, at another size
    python benchmarks/monitor.py --parts level delay --compiled    # by monitor_compiled.py, which is much faster
    python benchmarks/monitor.py --parts single --beside OTHER/src # time of one row, in turns with another version

Worlds of calibrated streams: *independent* rows; *released* in the order of random delays; *shared*, in which ten rows
in a row share one random draw, so that outcomes depend on others that were not known at their predictions; *rare*
events; and *fractional* outcomes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import calibrant
from calibrant.live import Monitor

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats]

BLOCK = 10
"""Rows that share a draw."""


def predictions(rng: np.random.Generator, rows: int, center: float = -0.5) -> Floats:
    """Probabilities whose log-odds are normal around a center, with standard deviation 1.3."""
    return np.asarray(1.0 / (1.0 + np.exp(-rng.normal(center, 1.3, rows))))


def independent(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, one outcome after the other."""
    p = predictions(rng, rows)
    return p, (rng.random(rows) < p).astype(float)


def released(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, in the order of release after exponential delays of 200 rows on average."""
    p, y = independent(rng, rows)
    order = np.argsort(np.arange(rows) + rng.exponential(200.0, rows))
    return p[order], y[order]


def shared(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated given what was known at each prediction, but ten rows in a row share a draw."""
    p = predictions(rng, rows)
    draw = np.repeat(rng.random(rows // BLOCK + 1), BLOCK)[:rows]
    return p, (draw < p).astype(float)


def rare(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, with about 1.5 % events."""
    p = predictions(rng, rows, -5.0)
    return p, (rng.random(rows) < p).astype(float)


def fractional(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, with outcomes between 0 and 1."""
    p = predictions(rng, rows)
    return p, rng.beta(3.0 * p, 3.0 * (1.0 - p))


CALIBRATED: dict[str, tuple[Callable[[np.random.Generator, int], Rows], int]] = {
    "independent": (independent, 1),
    "released in order of delays": (released, 1),
    "rare events": (rare, 1),
    "fractional outcomes": (fractional, 1),
    "shared draws, lag 10": (shared, BLOCK),
}
"""Worlds in which the level must hold, with the lag."""

WRONG: dict[str, tuple[Callable[[np.random.Generator, int], Rows], int]] = {"shared draws, lag 1": (shared, 1)}
"""A world in which it does not, since the lag is wrong."""


def ever_alarm(
    world: Callable[[np.random.Generator, int], Rows],
    lag: int,
    streams: int,
    rows: int,
    seed: int = 0,
    compiled: bool = False,
) -> int:
    """Streams with an alarm at any of the looks after each row."""
    found = 0
    for k in range(streams):
        p, y = world(np.random.default_rng([seed, k]), rows)
        if compiled:
            from monitor_compiled import first_alarm

            found += first_alarm(p, y, lag) < np.inf
            continue
        monitor = Monitor(lag=lag)
        for start in range(0, rows, 1_000):
            if monitor.update(p[start : start + 1_000], y[start : start + 1_000]).alarms:
                found += 1
                break
    return found


def moved(rng: np.random.Generator, rows: int, before: int, shift: float, slope: float) -> Rows:
    """Calibrated up to a row; from then on log-odds are shifted, or have another slope about their center."""
    p = predictions(rng, rows)
    x = np.log(p / (1.0 - p))
    z = np.where(np.arange(rows) < before, x, x + shift + (slope - 1.0) * (x + 0.5))
    return p, (rng.random(rows) < 1.0 / (1.0 + np.exp(-z))).astype(float)


CHANGES = {
    "shift 0.1": (0.1, 1.0),
    "shift 0.3": (0.3, 1.0),
    "shift 1.0": (1.0, 1.0),
    "slope 0.8": (0.0, 0.8),
    "slope 0.6": (0.0, 0.6),
}


def delay(
    change: tuple[float, float], before: int, streams: int, most: int = 40_000, seed: int = 1, compiled: bool = False
) -> Floats:
    """Rows from a change to the alarm: quartiles over streams."""
    found: list[float] = []
    for k in range(streams):
        p, y = moved(np.random.default_rng([seed, k]), before + most, before, *change)
        if compiled:
            from monitor_compiled import first_alarm

            row = 0.0
            while row <= before:  # after an alarm before the change, a new run begins
                row += first_alarm(p[int(row) :], y[int(row) :])
            found.append(row - before)
            continue
        monitor, start = Monitor(), 0
        while start < len(p) and not (monitor.alarms and monitor.alarms[-1].start > before):
            monitor.update(p[start : start + 500], y[start : start + 500])
            start += 500
        late = [each.start - before for each in monitor.alarms if each.start > before]
        found.append(late[0] if late else np.inf)
    return np.quantile(found, [0.25, 0.5, 0.75], method="inverted_cdf")


def drift_alarms(
    change: tuple[float, float], streams: int, during: int = 8_000, after: int = 20_000, seed: int = 5
) -> tuple[Floats, Floats, Floats]:
    """By stream: alarms during a change from row 2,000 on, alarms in all, and rows from its end to the alarm's end."""
    found = np.full((3, streams), np.inf)
    for k in range(streams):
        rng = np.random.default_rng([seed, k])
        p, y = moved(rng, 2_000 + during, 2_000, *change)
        monitor = Monitor().update(p, y)
        found[0, k] = monitor.alarm_count
        monitor.update(*independent(rng, after))
        found[1, k] = monitor.alarm_count
        if monitor.alarms and monitor.alarm is None:
            found[2, k] = (monitor.alarms[-1].end or 0) - 2_000 - during
    return found[0], found[1], found[2]


def ends_too_early(shift: float, streams: int, rows: int = 15_000, seed: int = 6) -> int:
    """Streams whose shift lasts, and beyond the tolerance, in which evidence ends the alarm all the same."""
    found = 0
    for k in range(streams):
        monitor = Monitor().update(*moved(np.random.default_rng([seed, k]), rows, 0, shift, 1.0))
        found += any(each.ended_by == "within" for each in monitor.alarms)
    return found


def repeated_test(streams: int, rows: int, seed: int = 2) -> float:
    """Share of calibrated streams that a test for one look, repeated every 100 rows at 5 %, ever rejects."""
    found = 0
    for k in range(streams):
        p, y = independent(np.random.default_rng([seed, k]), rows)
        z = np.cumsum(y - p) / np.sqrt(np.cumsum(p * (1.0 - p)))
        found += bool((np.abs(z[99::100]) > 1.96).any())
    return found / streams


def key_errors(runs: int, keys: int = 1_000, off: int = 50, rows: int = 60_000, seed: int = 3) -> tuple[Floats, Floats]:
    """Share of false keys in the list at the first look with at least 10 of them, and the share found, in each run."""
    false, power = np.zeros(runs), np.zeros(runs)
    for k in range(runs):
        rng = np.random.default_rng([seed, k])
        monitor, named = Monitor(n_keys=keys), []
        for _ in range(rows // 5_000):
            p, which = predictions(rng, 5_000), rng.integers(0, keys, 5_000)
            x = np.log(p / (1.0 - p)) + np.where(which < off, 1.5, 0.0)
            y = (rng.random(5_000) < 1.0 / (1.0 + np.exp(-x))).astype(float)
            named = [int(each.key) for each in monitor.update(p, y, which).keys_off()]
            if len(named) >= 10:
                break
        false[k] = sum(each >= off for each in named) / max(len(named), 1)
        power[k] = sum(each < off for each in named) / off
    return false, power


CASES: dict[str, tuple[tuple[float, float], set[str]]] = {
    "none": ((0.0, 1.0), {"nothing-to-do"}),
    "shift 0.3": ((0.3, 1.0), {"level-moved"}),
    "slope 0.7": ((0.0, 0.7), {"refit"}),
    "shift 0.3 and slope 0.7": ((0.3, 0.7), {"refit"}),
}
"""What changed, and the advice that is right."""


def advice(case: str, cases: int, rows: int = 10_000, seed: int = 4) -> tuple[float, float]:
    """Share of streams in which the advice after this many rows speaks, and share that is right among those."""
    change, right = CASES[case]
    spoke = fine = 0
    for k in range(cases):
        p, y = moved(np.random.default_rng([seed, k]), rows, 0, *change)
        found = Monitor().update(p, y).advice
        if found.code == "not-enough" or found.values.get("shape") == "open":
            continue
        spoke += 1
        fine += found.code in right
    return spoke / cases, fine / max(spoke, 1)


TIMED = """
import sys, time
import numpy as np
from calibrant.live import Monitor
rng = np.random.default_rng(0)
p = rng.uniform(0.05, 0.6, 60_000)
y = (rng.random(60_000) < p).astype(float)
monitor, row = Monitor().update(p[:500], y[:500]), 500
for line in sys.stdin:
    taken = []
    for row in range(row, row + int(line)):
        start = time.perf_counter()
        monitor.update(p[row : row + 1], y[row : row + 1])
        taken.append(time.perf_counter() - start)
    print(float(np.median(taken)), monitor.log_e, flush=True)
"""
"""Times single rows in a process of its own: after each line of input, this many rows."""


def single_rows(sources: list[str], rounds: int, rows: int) -> list[Floats]:
    """Median seconds of an update with one row in each round, in turns, for each source of the package."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", TIMED], env=os.environ | {"PYTHONPATH": source}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for source in sources
    ]  # fmt: skip
    found: list[list[float]] = [[] for _ in sources]
    for _ in range(rounds):
        evidence = []
        for worker, times in zip(workers, found, strict=True):
            assert worker.stdin is not None
            assert worker.stdout is not None
            print(rows, file=worker.stdin, flush=True)
            seconds, log_e = worker.stdout.readline().split()
            times.append(float(seconds))
            evidence.append(float(log_e))
        np.testing.assert_allclose(evidence, evidence[0], rtol=1e-12)
    for worker in workers:
        worker.communicate()
    return [np.array(times) for times in found]


def show_single(quick: bool, beside: str | None) -> None:
    """Time of an update with one row."""
    sources = [os.path.dirname(os.path.dirname(calibrant.__file__)), *([beside] if beside else [])]
    found = single_rows(sources, rounds=5 if quick else 40, rows=200 if quick else 1_000)
    print("One row of update, milliseconds: median over rounds (quartiles), rounds in turns; the e-values are the same")
    for name, times in zip(("here", "beside"), found, strict=False):
        low, middle, high = 1e3 * np.quantile(times, [0.25, 0.5, 0.75])
        print(f"  {name:30s} {middle:.3f} ({low:.3f} to {high:.3f})")
    if beside:
        print(f"  ratio, median over rounds: {np.median(found[1] / found[0]):.2f}")


def show_level(quick: bool, streams: int | None, only: list[str] | None, compiled: bool) -> None:
    """Alarms on calibrated streams."""
    streams, rows = streams or (100 if quick else 2_000), 2_000 if quick else 10_000
    limit = int(stats.binom.isf(1e-3, streams, 0.05))
    print(f"Ever an alarm at level 5 %, {streams:,} calibrated streams, a look after each of {rows:,} rows")
    print(f"(at a level of 5 %, more than {limit} streams have a probability below 0.001: exact binomial limit)")
    for name, (world, lag) in (CALIBRATED | WRONG).items():
        if only is None or name in only:
            found = ever_alarm(world, lag, streams, rows, compiled=compiled)
            wrong = "   (the lag is wrong)" if name in WRONG else ""
            print(f"  {name:30s} {found:5d}   {100 * found / streams:6.2f} %{wrong}", flush=True)
    share = 100 * repeated_test(streams, rows)
    print(f"A test for one look, repeated every 100 rows, rejects {share:.1f} % of calibrated streams")


def show_delay(quick: bool, streams: int | None, only: list[str] | None, compiled: bool) -> None:
    """Rows from a change to the alarm."""
    few = streams or (20 if quick else 200)
    print(f"Rows from a change to the alarm, {few} streams, median (quartiles); change at the first row, or at 5,000")
    for name, change in CHANGES.items():
        if only is None or name in only:
            cells = [delay(change, before, few, compiled=compiled) for before in (0, 5_000)]
            text = [f"{middle:,.0f} ({low:,.0f} to {high:,.0f})" for low, middle, high in cells]
            print(f"  {name:30s} {text[0]:>26s} {text[1]:>26s}", flush=True)


def show_alarms(quick: bool, streams: int | None, only: list[str] | None, compiled: bool) -> None:
    """How many alarms one change has, and when they end."""
    few = streams or (10 if quick else 100)
    print(f"A change of 8,000 rows, then 20,000 calibrated ones, {few} streams: streams with 1, 2 and more alarms")
    print("during the change and in all; rows from the end of the change to that of the alarm, median (quartiles)")
    for name, change in CHANGES.items():
        if only is None or name in only:
            during, whole, ends = drift_alarms(change, few)
            counts = [f"{(each == 1).sum()} {(each == 2).sum()} {(each > 2).sum()}" for each in (during, whole)]
            low, middle, high = np.quantile(ends, [0.25, 0.5, 0.75], method="inverted_cdf")
            text = f"{counts[0]:>12s} {counts[1]:>12s}   {middle:,.0f} ({low:,.0f} to {high:,.0f})"
            print(f"  {name:20s} {text}", flush=True)
    print(f"A shift of 0.21 that lasts: evidence ends the alarm in {ends_too_early(0.21, few)} of {few} streams")


def show_keys(quick: bool, streams: int | None, only: list[str] | None, compiled: bool) -> None:
    """False ones among the keys that are named."""
    runs = streams or (3 if quick else 500)
    false, found = key_errors(runs)
    error = false.std(ddof=1) / np.sqrt(runs)
    print(f"1,000 keys, 50 off, a stop as soon as 10 keys are named; {runs} runs:")
    print(f"  mean share of false ones {false.mean():.4f} (standard error {error:.4f}; the limit is 0.1)")
    print(f"  {100 * found.mean():.0f} % of those off found at the stop", flush=True)


def show_advice(quick: bool, streams: int | None, only: list[str] | None, compiled: bool) -> None:
    """How often advice speaks, and is right."""
    cases = streams or (20 if quick else 500)
    print(f"Advice after 10,000 rows, {cases} streams each: speaks, and right among those")
    for case in CASES:
        if only is None or case in only:
            spoke, right = advice(case, cases)
            print(f"  {case:30s} {100 * spoke:6.1f} % {100 * right:6.1f} %", flush=True)


PARTS: dict[str, Callable[[bool, int | None, list[str] | None, bool], None]] = {
    "level": show_level,
    "delay": show_delay,
    "alarms": show_alarms,
    "keys": show_keys,
    "advice": show_advice,
}


def main(arguments: list[str]) -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "single"], default=list(PARTS))
    parser.add_argument("--streams", type=int, help="streams of each line, or runs of the keys")
    parser.add_argument("--compiled", action="store_true", help="level and delay by monitor_compiled.py")
    parser.add_argument("--beside", metavar="SRC", help="sources of another version, for the part single")
    parser.add_argument("--only", nargs="+", metavar="LINE", help="some lines, named as in the tables")
    options = parser.parse_args(arguments)
    if "single" in options.parts:
        show_single(options.quick, options.beside)
    for name in (each for each in options.parts if each in PARTS):
        PARTS[name](options.quick, options.streams, options.only, options.compiled)


if __name__ == "__main__":
    main(sys.argv[1:])
