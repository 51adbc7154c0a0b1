"""What a row costs: online Platt scaling, compiled and in plain Python, beside river and beside the bare arithmetic.

    python benchmarks/online.py [--quick] [--gate]

Every job runs once per round, in turn, and the table gives medians, so that a busy machine slows all alike. Needs
``river`` (a development dependency) and ``calibrant[fast]``. River's model is its logistic regression on the log-odds
of the score, which is the same model by another step.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np
from measure import Job, run
from river import linear_model

from calibrant.online import Forecaster, Hedging, OnlineBeta, OnlinePlatt, Tracking

LARGEST, LOW = 36.0, 2.0**-32


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


def main() -> int:
    """Run, print, and with ``--gate`` end with 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    many, few, rounds = (2_000_000, 20_000, 5) if options.quick else (10_000_000, 50_000, 9)
    rng = np.random.default_rng(0)
    scores = rng.random(many)
    labels = (rng.random(many) < scores**2).astype(np.float64)
    xs, ys = scores[:few].tolist(), labels[:few].tolist()
    rows = [{"z": math.log(x / (1.0 - x))} for x in xs]

    sizes = {"compiled": many, "one row": few}
    jobs = {
        "compiled: OnlinePlatt": Job("", lambda: OnlinePlatt().forecast_many(scores, labels)),
        "compiled: OnlineBeta": Job("", lambda: OnlineBeta().forecast_many(scores, labels)),
        "compiled: Tracking": Job("", lambda: Tracking(OnlinePlatt()).forecast_many(scores, labels)),
        "compiled: Hedging": Job("", lambda: Hedging(OnlinePlatt()).forecast_many(scores, labels)),
        "one row: bare arithmetic": Job("", lambda: bare(xs, ys)),
        "one row: OnlinePlatt": Job("", lambda: row_by_row(OnlinePlatt, xs, ys)),
        "one row: OnlineBeta": Job("", lambda: row_by_row(OnlineBeta, xs, ys)),
        "one row: Tracking": Job("", lambda: row_by_row(lambda: Tracking(OnlinePlatt()), xs, ys)),
        "one row: river": Job("", lambda: river(xs, ys)),
        "one row: river, learning alone": Job("", lambda: river_learning(rows, ys)),
    }
    run(list(jobs.values()), rounds)
    micros = {name: job.cost / sizes[name.split(":")[0]] * 1e6 for name, job in jobs.items()}
    print(f"forecast and learn, {many:,} rows compiled, {few:,} one by one, median of {rounds}\n")
    print(f"{'':34}{'us a row':>10}{'M rows/s':>10}{'river / this':>14}")
    for name, cost in micros.items():
        print(f"{name:34}{cost:10.3f}{1.0 / cost:10.2f}{micros['one row: river'] / cost:14.1f}")

    compiled = micros["one row: river"] / micros["compiled: OnlinePlatt"]
    alone = micros["one row: river, learning alone"] / micros["compiled: OnlinePlatt"]
    over = micros["one row: OnlinePlatt"] - micros["one row: bare arithmetic"]
    single = micros["one row: river"] / micros["one row: OnlinePlatt"]
    checks = [
        ("compiled OnlinePlatt against river", compiled, compiled >= 60.0, "at least 60"),
        ("one row over the bare arithmetic, us", over, over <= 1.5, "at most 1.5"),
        ("one row against river", single, single >= 3.0, "at least 3"),
    ]
    print()
    for what, value, kept, limit in checks:
        print(f"{what}: {value:.2f} ({limit}): {'kept' if kept else 'BROKEN'}")
    print(f"compiled OnlinePlatt against river's learning alone: {alone:.1f}")
    return int(options.gate and not all(kept for _, _, kept, _ in checks))


if __name__ == "__main__":
    sys.exit(main())
