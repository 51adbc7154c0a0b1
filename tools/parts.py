"""Run the parts of `make check` one after the other, and print how long each took beside its budget.

python tools/parts.py make lint=1 test=28

Each part is a target of the Makefile with its budget in minutes. A part that fails ends the run with its exit code; one
that takes longer than its budget is only marked, because a busy machine is not a mistake of the code. The table stands
before the output of the last part, the tests: their closing line, which has their time, is the last line of the run.
"""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter


def table(budgets: dict[str, float], minutes: dict[str, float]) -> str:
    """Minutes of each part that ran, beside its budget, and their sums."""
    lines = [f"{'part':8} {'minutes':>8} {'budget':>8}"]
    for name, took in minutes.items():
        over = "  over its budget" if took > budgets[name] else ""
        lines.append(f"{name:8} {took:8.1f} {budgets[name]:8.1f}{over}")
    lines.append(f"{'sum':8} {sum(minutes.values()):8.1f} {sum(budgets[name] for name in minutes):8.1f}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the parts until one fails; the table comes before the last."""
    make, *parts = arguments
    budgets = {name: float(limit) for name, _, limit in (part.partition("=") for part in parts)}
    minutes: dict[str, float] = {}
    code = 0
    for place, name in enumerate(budgets, start=1):
        if place == len(budgets):
            sys.stdout.write(f"\n{table(budgets, minutes)}\n{name}: a budget of {budgets[name]:g} minutes\n\n")
            sys.stdout.flush()
        begin = perf_counter()
        code = subprocess.run([make, "--no-print-directory", name], check=False).returncode
        minutes[name] = (perf_counter() - begin) / 60
        if code:
            break
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
