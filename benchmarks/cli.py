"""What the command line adds: `calibrant check` on Parquet files next to DuckDB's own GROUP BY, and `--help`.

    python benchmarks/cli.py --rows 1e8 --data folder --rounds 5

The yardstick is one query on an open connection, on the grid of the library, written by hand (benchmarks/by_hand.py).
The command is a process of its own: start, imports, reading the schema, counting, judging, printing. Its limit is 1.3
times the query and a second more. Bytecode is cached, as where the package was installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from by_hand import DuckDB
from engine import rows_of
from measure import Job, run

from calibrant.numerics import Grid

TIMES, SECONDS, HELP = 1.3, 1.0, 0.5


def command(*words: str, cache: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    called = [sys.executable, "-m", "calibrant.cli", *words]
    done = subprocess.run(called, capture_output=True, env=environment | {"PYTHONPYCACHEPREFIX": cache}, check=False)
    if done.returncode not in (0, 10, 11):
        raise RuntimeError(done.stderr.decode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="where the rows are kept")
    arguments = parser.parse_args()
    rows = arguments.rows
    with tempfile.TemporaryDirectory() as scratch:
        folder = rows_of("ordinary", rows, arguments.data or Path(scratch))
        files, hand = f"{folder}/*.parquet", DuckDB()
        jobs = [
            Job("DuckDB's GROUP BY", lambda: hand.counts(folder, Grid())),
            Job("calibrant check", lambda: command("check", files, cache=scratch)),
            Job("calibrant --help", lambda: command("--help", cache=scratch)),
        ]
        run(jobs, arguments.rounds)
    query, check, help_ = (statistics.median(job.wall) for job in jobs)
    limit = TIMES * query + SECONDS
    print(f"{rows:,} rows, median of {arguments.rounds} interleaved rounds, seconds on the wall")
    print(f"  DuckDB's GROUP BY on the grid  {query:7.2f}")
    print(f"  calibrant check                {check:7.2f}   limit {limit:.2f} = {TIMES} x the query + {SECONDS:g} s")
    print(f"  calibrant --help               {help_:7.2f}   limit {HELP}")
    return int(check > limit or help_ > HELP)


if __name__ == "__main__":
    sys.exit(main())
