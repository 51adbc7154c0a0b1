"""What a row costs: online Platt scaling, compiled and in plain Python, beside river and beside the bare arithmetic.

"compiled" are whole streams, "one row, compiled" single calls after ``compile()``, "one row" single calls as they come.

    python benchmarks/online.py [--quick] [--gate]

Every job runs once per round, in turn, and the table gives medians, so that a busy machine slows all alike. Needs
``river`` (a development dependency) and ``calibrant[fast]``. River's model is its logistic regression on the log-odds
of the score, which is the same model by another step.
"""

from __future__ import annotations

import argparse
import math
import sys
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from timeit import repeat

import numpy as np
from measure import Job, run
from river import linear_model

from calibrant.online import Aioli, Forecaster, Hedging, OnlineBeta, OnlinePlatt, Refitted, Restarting, Tracking, resume

LARGEST, LOW = 36.0, 1e-5
SLOW = 20
"""Forecasters of many copies get one row in this many."""
MAKERS: dict[str, Callable[[], Forecaster]] = {
    "OnlinePlatt": OnlinePlatt,
    "OnlineBeta": OnlineBeta,
    "Aioli": Aioli,
    "Tracking": lambda: Tracking(OnlinePlatt()),
    "Hedging": lambda: Hedging(OnlinePlatt(), random_state=0),
    "Refitted": lambda: Refitted("platt", every=500),
}
COMPILED = ("OnlinePlatt", "OnlineBeta", "Aioli", "Tracking", "Hedging")


def bare(scores: list[float], labels: list[float]) -> float:
    """The same formulas in one loop on local names: a forecast, then a Newton step. No checks, no state, no calls."""
    log, exp = math.log, math.exp
    a, b, d1, low, d2, gamma, radius = 1.0, 0.0, 100.0, 0.0, 100.0, 0.1, 100.0
    p = 0.0
    for x, y in zip(scores, labels, strict=True):
        for _ in range(2):  # once to say it, once to learn, since a label may come later
            x = LOW if x < LOW else 1.0 - LOW if x > 1.0 - LOW else x
            z = log(x / (1.0 - x))
            u = a * z + b
            u = LARGEST if u > LARGEST else -LARGEST if u < -LARGEST else u
            p = 1.0 / (1.0 + exp(-u))
        v, h = 1.0 - low * z, z / d1
        w = v / d2
        g = p - y
        square = g * g
        step = g / (gamma * (1.0 + square * (z * h + v * w)))
        a, b = a - step * (h - low * w), b - step * w
        grown = d1 + square * z * z
        share = square * v / grown
        d1, low, d2 = grown, low + z * share, d2 + d1 * share * v
        if a * a + b * b > radius * radius:
            raise AssertionError("this stream stays inside the ball")
    return p


def row_by_row(make: Callable[[], Forecaster], scores: list[float], labels: list[float]) -> float:
    """A live stream: a forecast, then its outcome."""
    forecaster = make()
    p = 0.0
    for x, y in zip(scores, labels, strict=True):
        p = forecaster.predict_one(x)
        forecaster.learn_one(x, y)
    return p


def river(scores: list[float], labels: list[float]) -> float:
    """The same stream through river."""
    model = linear_model.LogisticRegression()
    p = 0.0
    for x, y in zip(scores, labels, strict=True):
        row = {"z": math.log(x / (1.0 - x))}
        p = model.predict_proba_one(row)[True]
        model.learn_one(row, y)
    return p


def river_learning(rows: list[dict[str, float]], labels: list[float]) -> None:
    """River's learning alone, its rows ready."""
    model = linear_model.LogisticRegression()
    for row, y in zip(rows, labels, strict=True):
        model.learn_one(row, y)


def told_of_states(forecaster: Forecaster, times: int = 2_000) -> str:
    """What it takes to write a state and to read it, and the memory of an object."""
    text = forecaster.to_json()
    write, read = (min(repeat(call, number=times)) / times * 1e6 for call in (forecaster.to_json, lambda: resume(text)))
    tracemalloc.start()
    kept = [resume(text) for _ in range(times)]
    size = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    return f"{type(forecaster).__name__}: to_json {write:.0f} us, resume {read:.0f} us, {size / 1e3:.1f} kB in memory"


def main() -> int:
    """Run, print, and with ``--gate`` end with 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    many, few, rounds = (1_000_000, 8_000, 5) if options.quick else (10_000_000, 50_000, 9)
    rng = np.random.default_rng(0)
    scores = rng.random(many)
    labels = (rng.random(many) < scores**2).astype(np.float64)
    xs, ys = scores[:few].tolist(), labels[:few].tolist()
    rows = [{"z": math.log(x / (1.0 - x))} for x in xs]

    slow = xs[: few // SLOW], ys[: few // SLOW]
    jobs = {
        f"compiled: {name}": Job("", lambda make=MAKERS[name]: make().forecast_many(scores, labels))
        for name in COMPILED
    }
    for name in COMPILED:
        make = partial(deepcopy, MAKERS[name]().compile())  # numba's work, before the clock runs
        jobs[f"one row, compiled: {name}"] = Job("", lambda make=make: row_by_row(make, xs, ys))
    jobs["one row: bare arithmetic"] = Job("", lambda: bare(xs, ys))
    jobs |= {f"one row: {name}": Job("", lambda make=make: row_by_row(make, xs, ys)) for name, make in MAKERS.items()}
    jobs["one row: Restarting"] = Job("", lambda: row_by_row(lambda: Restarting(OnlinePlatt()), *slow))
    jobs["one row: river"] = Job("", lambda: river(xs, ys))
    jobs["one row: river, learning alone"] = Job("", lambda: river_learning(rows, ys))
    run(list(jobs.values()), rounds)
    counts = {"compiled": many, "one row": few, "one row, compiled": few}
    micros = {name: job.cost / counts[name.split(":")[0]] * 1e6 for name, job in jobs.items()}
    micros["one row: Restarting"] *= SLOW
    print(f"forecast and learn, {many:,} rows compiled, {few:,} one by one, median of {rounds}\n")
    print(f"{'':34}{'us a row':>10}{'M rows/s':>10}{'river / this':>14}")
    for name, cost in micros.items():
        print(f"{name:34}{cost:10.3f}{1.0 / cost:10.2f}{micros['one row: river'] / cost:14.1f}")

    learned = {name: make().learn_many(xs[:5_000], ys[:5_000]) for name, make in MAKERS.items()}
    learned["Restarting"] = Restarting(OnlinePlatt()).learn_many(*slow)
    learned["Refitted, window=5_000"] = Refitted("platt", every=500, window=5_000).learn_many(xs[:5_000], ys[:5_000])
    print("\nstate as JSON, kB: " + ", ".join(f"{name} {len(f.to_json()) / 1e3:.1f}" for name, f in learned.items()))
    print(told_of_states(learned["OnlinePlatt"]))

    compiled = micros["one row: river"] / micros["compiled: OnlinePlatt"]
    alone = micros["one row: river, learning alone"] / micros["compiled: OnlinePlatt"]
    least = micros["one row: bare arithmetic"]
    over = micros["one row: OnlinePlatt"] - least
    single = micros["one row: river"] / micros["one row, compiled: OnlinePlatt"]
    plain = micros["one row: river"] / micros["one row: OnlinePlatt"]
    checks = [  # what, value, whether it is reached, the target, and what --gate insists on, on a busy machine too
        ("compiled OnlinePlatt against river", compiled, compiled >= 60.0, "at least 60", compiled >= 40.0),
        ("one row over the bare arithmetic, us", over, over <= 1.5, "at most 1.5", over <= 2.0 * least),
        ("one row, compiled, against river", single, single >= 3.0, "at least 3", single >= 1.5),
        (
            "one row, plain, against river",
            plain,
            plain >= 3.0,
            "at least 3, as bare arithmetic hardly is",
            True,
        ),
    ]
    print()
    for what, value, reached, target, _ in checks:
        print(f"{what}: {value:.2f} ({target}): {'reached' if reached else 'NOT REACHED'}")
    print(f"bare arithmetic against river: {micros['one row: river'] / micros['one row: bare arithmetic']:.2f}")
    print(f"compiled OnlinePlatt against river's learning alone: {alone:.1f}")
    return int(options.gate and not all(held for *_, held in checks))


if __name__ == "__main__":
    sys.exit(main())
