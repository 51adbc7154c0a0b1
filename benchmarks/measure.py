"""Timing of jobs in one interleaved run."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from threadpoolctl import threadpool_limits


@dataclass
class Job:
    """Something to time, and what its time is divided by."""

    name: str
    run: Callable[[], object]
    against: str | None = None
    limit: float | None = None
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def measure(self) -> None:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        self.run()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)

    @property
    def cost(self) -> float:
        return statistics.median(self.cpu)


def run(jobs: Sequence[Job], rounds: int, warm_up: bool = True) -> None:
    """Every job once per round, after one round that does not count unless all have run before."""
    with threadpool_limits(1):
        for done in range(0 if warm_up else 1, rounds + 1):
            for job in jobs:
                job.measure()
                if done == 0:
                    job.cpu.clear()
                    job.wall.clear()
            if sys.stderr.isatty():
                print(f"\rround {done} of {rounds}", end="\n" if done == rounds else "", file=sys.stderr)
