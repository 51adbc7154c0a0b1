"""What a row of a bank costs, beside river, and the memory and time of a million keys.

    python benchmarks/bank.py [--quick]

Batches of a million rows are forecast and learned; every job runs once per round, in turn, and the table gives medians
of CPU time, so that a busy machine slows all alike. River's model is its logistic regression on the log-odds of the
score: one for all rows, and one for each of 1,000 keys. Needs ``river`` (a development dependency) and
``calibrant[fast]``.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Job, run
from river import linear_model

from calibrant.live import Bank
from calibrant.live.bank import bank as module


def river(scores: list[float], keys: list[int], labels: list[float]) -> None:
    """A model for each key: a forecast, then its outcome."""
    models: dict[int, Any] = {}
    for x, key, y in zip(scores, keys, labels, strict=True):
        model = models.setdefault(key, linear_model.LogisticRegression())
        row = {"z": math.log(x / (1.0 - x))}
        model.predict_proba_one(row)
        model.learn_one(row, y)


def learner(bank: Bank, compiled: bool, *rows: Any) -> Callable[[], None]:
    """Forecast and learn rows, compiled or with numpy alone."""

    def learn() -> None:
        module.COMPILED.clear()
        bank._fast = compiled
        bank.forecast(*rows)

    return learn


def speed(n: int, n_keys: int, rounds: int) -> None:
    """Rows per second of keys of several forms."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.001, 0.999, n)
    labels = (rng.random(n) < scores**2).astype(np.float64)
    keys, zipf = rng.integers(0, n_keys, n), np.minimum(rng.zipf(1.2, n), n_keys) - 1
    text = [f"key-{k}" for k in keys.tolist()]
    few = slice(0, n // 10)  # batches of a million rows are compiled
    some, least = slice(0, 8_000), scores[:8_000].tolist()
    crossed = {"site": keys % 50, "key": keys}
    two = Bank(columns=("site", "key"), crossings=[("site",), ("site", "key")])
    jobs = {
        "compiled, integers": (n, learner(Bank(), True, scores, keys, labels)),
        "compiled, Zipf": (n, learner(Bank(), True, scores, zipf, labels)),
        "compiled, text": (n, learner(Bank(), True, scores, text, labels)),
        "compiled, two crossings": (n // 10, learner(two, True, scores[few], {k: c[few] for k, c in crossed.items()},
                                                     labels[few])),
        "numpy alone, integers": (n // 10, learner(Bank(), False, scores[few], keys[few], labels[few])),
        "numpy alone, Zipf": (n // 10, learner(Bank(), False, scores[few], zipf[few], labels[few])),
        "river, one key": (8_000, lambda: river(least, [0] * 8_000, labels[some].tolist())),
        "river, 1,000 keys": (8_000, lambda: river(least, (keys[some] % 1_000).tolist(), labels[some].tolist())),
    }  # fmt: skip
    timed = {name: Job(name, call) for name, (_, call) in jobs.items()}
    run(list(timed.values()), rounds)
    rates = {name: jobs[name][0] / job.cost / 1e6 for name, job in timed.items()}
    print(f"forecast and learn, {n:,} rows, {n_keys:,} keys, median of {rounds}\n")
    print(f"{'':28}{'M rows/s':>10}{'times river':>14}")
    for name, rate in rates.items():
        print(f"{name:28}{rate:10.2f}{rate / rates['river, one key']:14.1f}")


def size(n_keys: int) -> None:
    """Memory of many keys, and time of a snapshot and its reading."""
    rng = np.random.default_rng(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bank, batch = Bank(), 100_000
    for start in range(0, n_keys, batch):
        scores = rng.random(batch)
        bank.learn(scores, np.arange(start, start + batch), rng.random(batch) < scores)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    start_at = time.process_time()
    state = bank.to_bytes()
    written = time.process_time()
    other = Bank.from_bytes(state)
    read = time.process_time()
    since = bank.version
    bank.learn(scores[:1_000], np.arange(1_000), np.ones(1_000))
    at = time.process_time()
    changes = bank.to_bytes(since)
    other.update(changes)
    updated = time.process_time() - at
    assert other.to_bytes() == bank.to_bytes()
    print(f"\n{bank.n_keys:,} keys: {max(grown, 0) / 1e6:.0f} MB more at the peak of learning; snapshot of "
          f"{len(state) / 1e6:.0f} MB written in {written - start_at:.1f} s and read in {read - written:.1f} s; "
          f"changes of 1,000 keys, {len(changes) / 1e3:.0f} kB, written and taken over in {updated:.1f} s")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    size(100_000 if quick else 1_000_000)
    print()
    speed(1_000_000, 100_000, 3 if quick else 7)
    return 0


if __name__ == "__main__":
    sys.exit(main())
