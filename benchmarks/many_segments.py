"""CPU time of check and of maps by segment with thousands of segments, from counts.

    python benchmarks/many_segments.py                    # 20,000 segments of 4 million rows
    python benchmarks/many_segments.py --quick --gate     # 2,000 segments, what CI runs

A click log: the traffic of segments is Zipf with exponent 1.1, about 0.6 % of the rows are events, and
segments differ by 0.3 on the log-odds. Two ratios have a target: testing all segments together takes at most 0.7 of the
time of testing them one by one, and their total at most 0.3 of the time of adding them one by one. Times are medians of
interleaved rounds; under ``--gate`` a ratio above 1.5 times its target ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import calibrant as cb
from calibrant.metrics.chance import Chance
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict.segments import scan_segments

TESTS, TOTAL = 0.7, 0.3
"""Targets of the two ratios."""

SLACK = 1.5
"""How far a noisy machine may miss a target."""


def log(segments: int, rows: int) -> GroupedTally:
    rng = np.random.default_rng(0)
    share = np.arange(1, segments + 1) ** -1.1
    segment = rng.choice(segments, rows, p=share / share.sum())
    x = rng.normal(-5.6, 1.0, rows)
    y = rng.random(rows) < 1.0 / (1.0 + np.exp(1.0 - 0.8 * x - rng.normal(0.0, 0.3, segments)[segment]))
    return GroupedTally.from_arrays(1.0 / (1.0 + np.exp(-x)), y, groups=segment)


def cpu(job: Callable[[], Any]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def one_by_one(counts: GroupedTally) -> None:
    for tally in counts.values():
        chance = Chance(tally.scores, np.asarray(tally.n, dtype=np.float64))
        chance.interval(0.95)
        chance.log_p_value(float(tally.positives))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    segments, rows = (2_000, 200_000) if asked.quick else (20_000, 4_000_000)
    times = []
    for _ in range(asked.rounds):
        counts, again = log(segments, rows), log(segments, rows)  # the second has no cached scores
        times.append(
            (
                cpu(counts.total),
                cpu(lambda: reduce(Tally.__add__, counts.values())),  # noqa: B023 - called at once
                cpu(lambda: scan_segments({"segment": counts})),  # noqa: B023 - called at once
                cpu(lambda: one_by_one(again)),  # noqa: B023 - called at once
            )
        )
    total, added, tests, singly = np.median(times, axis=0)
    print(f"{segments:,} segments, {rows:,} rows; seconds of CPU time, medians of {asked.rounds} rounds")
    print(f"total            {total:8.2f}   one by one {added:8.2f}   ratio {total / added:.2f}")
    print(f"tests            {tests:8.2f}   one by one {singly:8.2f}   ratio {tests / singly:.2f}")
    if not asked.quick:
        print(f"check            {cpu(lambda: cb.check(counts)):8.2f}")
        print(f"calibrate(by=)   {cpu(lambda: cb.calibrate(counts, by='segment')):8.2f}")
    slow = total > SLACK * TOTAL * added or tests > SLACK * TESTS * singly
    if asked.gate and slow:
        print(f"too slow: the ratios must be at most {SLACK:g} times {TOTAL} and {TESTS}")
    return int(asked.gate and slow)


if __name__ == "__main__":
    sys.exit(main())
