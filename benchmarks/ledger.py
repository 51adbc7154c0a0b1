"""Time and memory of the ledger of late labels, and what it prevents.

    python benchmarks/ledger.py            # 10^7 open predictions
    python benchmarks/ledger.py --quick    # 10^6

Batches of 100,000 events with random ids of 16 bytes; seconds of CPU time. Then a stream with 1.5 % clicks and a model
that is off by 0.5 in log-odds: forecasts over true clicks while clicks alone were learned at once, at the end if each
click is learned twice, and at the end with the ledger.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from calibrant.live import LateLearner, Ledger
from calibrant.online import OnlinePlatt

BATCH = 100_000


def speed(rows: int) -> None:
    """Rows per second, and memory."""
    rng = np.random.default_rng(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ledger, spent = Ledger(10.0), 0.0
    for k in range(rows // BATCH):
        ids = rng.integers(0, 2**63, (BATCH, 2)).astype(np.uint64).view("V16").ravel()
        scores = rng.random(BATCH)
        start = time.process_time()
        ledger.predict(ids, scores, at=k / 1_000)
        spent += time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(f"predictions          {rows / spent / 1e6:8.2f} M/s, {grown / 1e9:.2f} GB with {ledger.counts.open:,} open")
    start = time.process_time()
    for _ in range(10):
        ledger.observe(ids, np.ones(BATCH), at=9.0)
    print(f"outcomes             {10 * BATCH / (time.process_time() - start) / 1e6:8.2f} M/s")
    start = time.process_time()
    released = ledger.advance(1e6)
    print(f"released             {len(released) / (time.process_time() - start) / 1e6:8.2f} M/s")


def accidents(rows: int = 150_000, horizon: int = 30_000) -> None:
    """Forecasts over true clicks, with and without the ledger."""
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-4.2, 0.6, rows)
    truth = 1.0 / (1.0 + np.exp(-log_odds))
    scores, clicked = 1.0 / (1.0 + np.exp(-(log_odds + 0.5))), rng.random(rows) < truth
    last = slice(rows - 50_000, rows)

    eager = OnlinePlatt().learn_many(scores[:horizon][clicked[:horizon]], np.ones(clicked[:horizon].sum()))
    told = eager.predict_many(scores[:horizon]).sum() / truth[:horizon].sum()
    print(f"clicks learned at once: {told:.1f} times too high at the horizon")
    twice = np.repeat(np.arange(rows), 1 + clicked)
    doubled = OnlinePlatt().learn_many(scores[twice], clicked[twice])
    print(f"each click twice: {doubled.predict_many(scores[last]).sum() / truth[last].sum():.2f} times at the end")
    learner = LateLearner(OnlinePlatt(), Ledger(float(horizon)))
    forecasts = []
    for start in range(0, rows, 2_500):
        these = np.arange(start, start + 2_500)
        forecasts.append(learner.predict(these, scores[these], at=these.astype(float)))
        seen = these[clicked[these]]
        for _ in range(2):
            learner.observe(seen, np.ones(len(seen)), at=seen + 60.0)
        learner.advance(float(start + 2_500))
    print(f"with the ledger: {np.concatenate(forecasts)[last].sum() / truth[last].sum():.2f} times at the end")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    speed(1_000_000 if parser.parse_args().quick else 10_000_000)
    accidents()
    return 0


if __name__ == "__main__":
    sys.exit(main())
