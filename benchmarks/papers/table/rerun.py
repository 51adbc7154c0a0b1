"""Run every benchmark behind the table of claims again, and compare its values and verdicts with the stored ones.

    python benchmarks/papers/table/rerun.py --outputs folder               # about an hour of processor time
    python benchmarks/papers/table/rerun.py --outputs folder --only ch5 paths

The tolerances are those in `printed.csv`, which are older than these runs. Outputs that are in the folder already are
read and not made again, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claims import HERE, printed_rows, source, verdict
from compare import COMMANDS
from outputs import READERS, Values, read

ROOT = HERE.parents[2]
CLOSE = 1e-9
"""Values are rounded where they are printed, so equal ones are equal in all digits."""


def output(name: str, folder: Path) -> tuple[str, str]:
    """What the benchmark prints now, and its seconds of processor time."""
    kept, seconds = folder / f"{name}.txt", folder / f"{name}.seconds"
    if not seconds.exists():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-W", "ignore", *shlex.split(COMMANDS[name])]
        with kept.open("w", encoding="utf-8") as file:
            subprocess.run(command, check=True, stdout=file, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        seconds.write_text(f"{took:.0f}\n", encoding="utf-8")
    return kept.read_text(encoding="utf-8"), seconds.read_text(encoding="utf-8").strip()


def compared(name: str, now: Values, then: Values) -> tuple[int, int, list[str]]:
    """How many claims a source has, how many of their values changed, and a line for each verdict that did."""
    claims, changed, lines = 0, 0, []
    for row in printed_rows():
        if source(row["key"]) != name:
            continue
        key = row["key"].partition("/")[2]
        old, new = then[key].value, now[key].value
        claims += 1
        changed += abs(new - old) > CLOSE
        before, after = (
            verdict(row["printed"], row["rule"], row["tolerance"], value, spread)
            for value, spread in ((old, then[key].spread), (new, now[key].spread))
        )
        if before != after:
            lines.append(f"   {row['key']}: {old:.6g} {before}, now {new:.6g} {after}")
    return claims, changed, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outputs", type=Path, required=True, help="the folder of the new outputs")
    parser.add_argument("--only", nargs="+", choices=READERS, default=list(READERS))
    options = parser.parse_args()
    options.outputs.mkdir(parents=True, exist_ok=True)
    print(f"{'benchmark':<16} {'claims':>6} {'changed':>8} {'verdicts':>9} {'CPU, s':>7}")
    for name in options.only:
        text, seconds = output(name, options.outputs)
        claims, changed, lines = compared(name, READERS[name](text), read(name))
        print(f"{name:<16} {claims:>6} {changed:>8} {len(lines):>9} {seconds:>7}", flush=True)
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
