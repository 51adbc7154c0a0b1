"""The e-process of the monitor in compiled code, for simulations: the rows at which `Monitor()` raises its alarms.

    python benchmarks/monitor_compiled.py [--streams 40]    # log e-values beside those of Monitor, after every row

It takes rows one by one, and adds up e-values rather than their logarithms, which is enough up to an alarm.
`benchmarks/monitor.py --compiled` uses it. Needs ``calibrant[fast]``.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from numba import njit
from numpy.typing import NDArray

from calibrant.live.monitor.boundary import of_maximum
from calibrant.live.monitor.rows import EDGES, Labeled
from calibrant.live.monitor.run import LOG_SHARES, SHIFTS, SLOPES, Run
from calibrant.live.monitor.wealth import START, begins_at, log_sum, unspent

Floats = NDArray[np.float64]


@njit(cache=False)
def _step(mixed, begins, later, ratios):  # type: ignore[no-untyped-def]
    """One row of one e-process: the evidence of each alternative, mixed over onsets so far; the e-value is returned."""
    total = 0.0
    for k in range(len(mixed)):
        mixed[k] = (mixed[k] + begins) * ratios[k]
        total += mixed[k]
    return total / len(mixed) + later


@njit(cache=False)
def _run(p, y, x, bins, shifts, slopes, n_bins, shares, begins, later, limit, out):  # type: ignore[no-untyped-def]
    """E-values after each row up to the first that reaches the limit; how many rows were taken."""
    level, slope, of_bins = (
        np.full(len(shifts), START),
        np.full(len(slopes), START),
        np.full((n_bins, len(shifts)), START),
    )
    rows, values = np.zeros(n_bins, dtype=np.int64), np.ones(n_bins)
    growth, ratios, turned = np.expm1(shifts), np.empty(len(shifts)), np.empty(len(slopes))
    weight = center = 0.0
    for i in range(len(p)):
        w = max(p[i] * (1.0 - p[i]), 1e-9)
        weight += w
        center += w * x[i]
        for k in range(len(shifts)):
            ratios[k] = math.exp(y[i] * shifts[k]) / (1.0 + p[i] * growth[k])
        for k in range(len(slopes)):
            tilt = (slopes[k] - 1.0) * (x[i] - center / weight)
            turned[k] = math.exp(y[i] * tilt) / (1.0 + p[i] * math.expm1(tilt))
        b = bins[i]
        values[b] = _step(of_bins[b], begins[rows[b]], later[rows[b]], ratios)
        rows[b] += 1
        out[i] = (
            shares[0] * _step(level, begins[i], later[i], ratios)
            + shares[1] * _step(slope, begins[i], later[i], turned)
            + shares[2] * values.mean()
        )
        if out[i] >= limit:
            return i + 1
    return len(p)


def log_e_values(p: Floats, y: Floats, limit: float = 700.0) -> Floats:
    """Log e-values of one sub-stream after each row, up to the first that reaches a limit."""
    rows, out, number = (
        Labeled.of(p, y, np.array(EDGES), np.zeros(len(p))),
        np.empty(len(p)),
        np.arange(1.0, len(p) + 1),
    )
    onsets = np.exp(begins_at(number)), unspent(number)
    columns = (rows.p, rows.events, rows.x, rows.bins)
    taken = _run(*columns, SHIFTS, SLOPES, len(EDGES) + 1, np.exp(LOG_SHARES), *onsets, math.exp(limit), out)
    return np.log(out[:taken])


def first_alarm(p: Floats, y: Floats, lag: int = 1, level: float = 0.05) -> float:
    """The row, counted from 1, at which the monitor raises its first alarm; infinite if it does not."""
    limit = -math.log(level)
    if lag == 1:
        found = log_e_values(p, y, limit)
        return len(found) if len(found) and found[-1] >= limit else math.inf
    table = np.empty((len(p), lag))
    for stream in range(lag):
        own = np.arange(stream, len(p), lag)
        best = np.append(0.0, np.maximum(np.maximum.accumulate(log_e_values(p[own], y[own])), 0.0))
        table[:, stream] = best[np.searchsorted(own, np.arange(len(p)), side="right")]
    over = np.flatnonzero(log_sum(of_maximum(table)) - math.log(lag) >= limit)
    return float(over[0]) + 1.0 if len(over) else math.inf


def main() -> None:
    from monitor import independent, moved

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=40)
    streams, largest, spent = parser.parse_args().streams, 0.0, np.zeros(2)
    log_e_values(np.full(2, 0.5), np.ones(2))  # compiles
    for k in range(streams):
        rng = np.random.default_rng([7, k])
        p, y = independent(rng, 10_000) if k % 2 else moved(rng, 10_000, 5_000, 0.1, 0.9)
        at = time.process_time()
        rows = Labeled.of(p, y, np.array(EDGES), np.zeros(len(p)))
        expected = Run.new(len(EDGES) + 1).advance(rows, None)[:, -1]
        between = time.process_time()
        largest = max(largest, float(np.abs(log_e_values(p, y) - expected).max()))
        spent += between - at, time.process_time() - between
    print(
        f"{streams} streams of 10,000 rows: log e-values differ by at most {largest:.1g}; {spent[0] / streams:.3f} s of"
    )
    print(f"CPU time for a stream with numpy, {spent[1] / streams:.3f} s compiled")


if __name__ == "__main__":
    main()
