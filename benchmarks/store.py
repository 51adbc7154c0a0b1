"""Cost of a window of stored tallies and of refits to it, which must not depend on the rows behind them.

    python benchmarks/store.py                    # 60 days x 500 segments, the published table
    python benchmarks/store.py --quick --gate     # 6 days x 50 segments, what CI runs

The days are not made of rows: 60 days of 10^7 rows would take longer to draw than to measure. Each segment has a beta
distribution of scores; a day's counts by cell are one multinomial draw, the events of a cell a binomial draw with
probability s^2 (3 - 2 s) at the cell's middle, and the sum of positions inside a cell a normal draw. That is what a day
of that many independent rows would give, up to where in its cell a score lies.

A time is the median CPU time over the rounds, in one process, on a store that the operating system has in memory; the
last column is wall time. The target is 2 s for the window and both refits together, at 30 days and 500 segments; under
``--gate`` more than 1.5 times the target ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from measure import Job, run
from numpy.typing import NDArray
from scipy.special import betainc

from calibrant import IsotonicCalibrator, PlattScaling
from calibrant.engine.store.store import TallyStore
from calibrant.numerics import POSITION_BITS
from calibrant.tallies import SEGMENT_GRID, Cells, GroupedTally, Tally

TARGET, GATE = 2.0, 1.5
FIRST = date(2026, 1, 1)


@dataclass(frozen=True)
class Size:
    """How much is stored and read."""

    days: int
    segments: int
    window: int


FULL, QUICK = Size(60, 500, 30), Size(6, 50, 3)


# --- the data ---------------------------------------------------------------------------------------------------------


def chances(segments: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Probability of each cell of the grid, by segment."""
    codes = np.arange(-SEGMENT_GRID.top, SEGMENT_GRID.top + 1)
    a, b = rng.uniform(0.4, 2.0, (segments, 1)), rng.uniform(1.0, 6.0, (segments, 1))
    below = betainc(a, b, SEGMENT_GRID.lower_edges(codes))
    shares = np.maximum(np.diff(below, axis=1, append=1.0), 0.0)  # betainc may fall by a rounding
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def make_days(size: Size, rows: int, seed: int = 1) -> Iterator[tuple[date, GroupedTally]]:
    """Every day's tallies, from counts drawn by cell."""
    rng = np.random.default_rng(seed)
    shares = chances(size.segments, rng)
    codes = np.arange(-SEGMENT_GRID.top, SEGMENT_GRID.top + 1, dtype=np.int32)
    width = np.where(np.isin(np.abs(codes), [0, SEGMENT_GRID.top]), 0.0, 2.0 ** (POSITION_BITS - SEGMENT_GRID.bits))
    s = SEGMENT_GRID.scores(codes, width / 2)
    rates = s * s * (3.0 - 2.0 * s)
    for place in range(size.days):
        n = rng.multinomial(rows // size.segments, shares)
        events = rng.binomial(n, rates)
        offset = n * width / 2 + np.sqrt(n / 12) * width * rng.standard_normal(n.shape)
        offset = np.clip(np.rint(offset), 0.0, n * np.maximum(width - 1, 0.0)).astype(np.int64)
        yield (
            FIRST + timedelta(days=place),
            GroupedTally(
                {
                    f"segment-{j:05}": tally_of(codes, n[j], events[j], offset[j])
                    for j in range(size.segments)
                    if n[j].any()
                }
            ),
        )


def tally_of(codes: NDArray[np.int32], *columns: NDArray[np.int64]) -> Tally:
    keep = columns[0] > 0
    n, events, offset = (column[keep] for column in columns)
    return Tally(Cells(codes[keep], n, events, offset=offset), grid=SEGMENT_GRID, resolution="grid")


# --- the jobs ---------------------------------------------------------------------------------------------------------


def fit_all(method: type[PlattScaling] | type[IsotonicCalibrator], tallies: GroupedTally) -> object:
    return [method().fit_tally(tally) for tally in tallies.values()]


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    rows: int
    files: int
    megabytes: float
    cells: float
    add: float
    unchanged: bool
    one: float
    window: float
    platt: float
    isotonic: float
    wall: float

    @property
    def total(self) -> float:
        return self.window + self.platt + self.isotonic

    def text(self) -> str:
        return (
            f"{self.rows:>12,.0f}{self.files:>7}{self.megabytes:>8.1f}{self.cells:>11,.0f}{self.add:>9.3f}"
            f"{'yes' if self.unchanged else 'NO':>11}{self.one:>9.3f}{self.window:>10.3f}{self.platt:>9.3f}"
            f"{self.isotonic:>12.3f}{self.total:>8.3f}{self.wall:>9.3f}"
        )


HEAD = (
    f"{'rows a day':>12}{'files':>7}{'MB':>8}{'cells/day':>11}{'add s':>9}{'unchanged':>11}{'one s':>9}{'window s':>10}"
    f"{'Platt s':>9}{'isotonic s':>12}{'all s':>8}{'(wall)':>9}"
)


def measure(folder: Path, size: Size, rows: int, rounds: int) -> Line:
    """Fill a store, add its last day again, and time windows and refits."""
    store = TallyStore(folder, by="segment")
    adding, cells = [], []
    for day, tallies in make_days(size, rows):
        start = time.perf_counter()
        store.add(day, tallies)
        adding.append(time.perf_counter() - start)
        cells.append(sum(len(tally) for tally in tallies.values()))
    files = sorted(store.path.rglob("*.parquet"))
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    written = store.add(day, tallies)
    unchanged = not written and before == [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    first = store.days[-size.window]
    window = store.window(first)
    jobs = [
        Job("window", partial(store.window, first)),
        Job("one segment", partial(store.window, first, segments=["segment-00007"])),
        Job("Platt", partial(fit_all, PlattScaling, window)),
        Job("isotonic", partial(fit_all, IsotonicCalibrator, window)),
    ]
    run(jobs, rounds)
    seconds = {job.name: job.cost for job in jobs}
    return Line(
        rows,
        len(files),
        sum(file.stat().st_size for file in files) / 1e6,
        statistics.mean(cells),
        statistics.median(adding),
        unchanged,
        seconds["one segment"],
        seconds["window"],
        seconds["Platt"],
        seconds["isotonic"],
        sum(statistics.median(job.wall) for job in jobs if job.name != "one segment"),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of windows of stored tallies, and of refits to them.")
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=[100_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="6 days of 50 segments")
    parser.add_argument("--gate", action="store_true", help="exit code 1 above 1.5 x the target, or on a second write")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    print(f"{size.days} days, {size.segments} segments, windows of {size.window} days, {options.rounds} rounds,")
    print(f"Python {platform.python_version()}, numpy {np.__version__}, pyarrow {pa.__version__}\n\n{HEAD}", flush=True)
    lines = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(measure(Path(folder), size, rows, options.rounds))
        print(lines[-1].text(), flush=True)
    slow = max(line.total for line in lines) > GATE * TARGET
    if options.gate and (slow or not all(line.unchanged for line in lines)):
        print(f"\nFAIL: more than {GATE} x {TARGET} s, or a file that changed when its day was added again")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
