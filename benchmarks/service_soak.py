"""A live service under load for a long time: does the memory of its processes stay flat?

    python benchmarks/service_soak.py                   # one hour
    python benchmarks/service_soak.py --quick           # one minute
    python benchmarks/service_soak.py --seconds 600

Two serving processes, a learner and PostgreSQL run without faults; clients send predictions and outcomes at a bounded
rate. Every few seconds three things are read: the resident memory of each process; the memory of all processes of
PostgreSQL together, each page counted once and without the shared buffers; and the number of its connections. Memory is
called flat if its median in the last third of the run is at most 5 % above its median in the middle third. The first
third is for caches that fill up.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.service_kills import Bench
from tests.service.faults.database import children, command

FLAT = 1.05
"""Largest ratio of the last third to the middle third."""

MIB = 1 << 20
PAGE = 4_096


@dataclass
class Soak:
    """What was measured.

    Attributes
    ----------
    seconds, rows
        Length of the run, and rows that were acknowledged.
    memory
        Mebibytes of each process over time.
    connections
        Connections to PostgreSQL over time.
    """

    seconds: float
    rows: int
    memory: dict[str, list[float]]
    connections: list[int]

    def growth(self) -> dict[str, float]:
        """Median of the last third divided by that of the middle third, by process."""
        found = {}
        for name, values in self.memory.items():
            third = len(values) // 3
            found[name] = statistics.median(values[-third:]) / statistics.median(values[third:-third])
        return found

    def __str__(self) -> str:
        """A table."""
        lines = [
            f"{self.rows:,} rows acknowledged in {self.seconds:,.0f} s: {self.rows / self.seconds:,.0f} per second"
        ]
        lines.append(f"{'MiB':12} {'begin':>8} {'middle':>8} {'end':>8} {'largest':>8} {'growth':>8}")
        for name, ratio in self.growth().items():
            values = self.memory[name]
            shown = (values[0], values[len(values) // 2], values[-1], max(values))
            lines.append(f"{name:12} " + " ".join(f"{each:8.1f}" for each in shown) + f" {ratio:8.3f}")
        counts = self.connections
        shown = (counts[0], counts[len(counts) // 2], counts[-1], max(counts))
        lines.append(f"{'connections':12} " + " ".join(f"{each:8d}" for each in shown))
        return "\n".join(lines)


def resident(number: int) -> float:
    """Mebibytes of a process that are in memory."""
    return int((Path("/proc") / str(number) / "statm").read_text().split()[1]) * PAGE / MIB


def of_database(number: int) -> tuple[float, int]:
    """Mebibytes of all processes of a PostgreSQL server without shared buffers, and how many are connections."""
    total, connections = 0, 0
    for each in [number, *children(number)]:
        try:
            lines = (Path("/proc") / str(each) / "smaps_rollup").read_text().splitlines()
            connections += "calibrant" in command(each)
        except OSError:  # it has ended
            continue
        sizes = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
        total += sizes["Pss:"] - sizes["Pss_Shmem:"]
    return total / 1024, connections


def run(seconds: float, pause: float = 0.02) -> Soak:
    """Load a service, and read its memory.

    Parameters
    ----------
    seconds
        Length of the run, from the first answers on.
    pause
        Seconds between two rounds of requests of a client.

    Returns
    -------
    Soak
        What was measured.
    """
    with ExitStack() as stack:
        bench = Bench(stack, disk=False, clock=False, clients=2, pause=pause, keep=False)
        for each in bench.clients:
            each.start()
        bench.wait_for_progress(100)
        processes = {"server 1": bench.servers[0], "server 2": bench.servers[1], "learner": bench.learner}
        memory: dict[str, list[float]] = {name: [] for name in [*processes, "PostgreSQL"]}
        connections: list[int] = []
        begun, rows = time.monotonic(), bench.progress()
        step = max(0.5, min(5.0, seconds / 60))
        while time.monotonic() - begun < seconds:
            time.sleep(step)
            for name, process in processes.items():
                memory[name].append(resident(process.number))
            of_all, open_now = of_database(bench.database.number or 0)
            memory["PostgreSQL"].append(of_all)
            connections.append(open_now)
        found = Soak(time.monotonic() - begun, bench.progress() - rows, memory, connections)
        restarts = {name: process.starts - 1 for name, process in processes.items() if process.starts > 1}
        for each in bench.clients:
            each.end()
            each.close()
        if restarts:
            raise RuntimeError(f"processes ended by themselves: {restarts}")
    return found


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one minute")
    parser.add_argument("--seconds", type=float, default=3_600.0)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two rounds of a client")
    given = parser.parse_args()
    found = run(60.0 if given.quick else given.seconds, given.pause)
    print(found)
    return max(found.growth().values()) > FLAT


if __name__ == "__main__":
    sys.exit(main())
