"""How often the monitor raises an alarm, on calibrated streams and on others, and how soon.

    python benchmarks/monitor.py            # 2,000 streams with a look after each of 10,000 rows
    python benchmarks/monitor.py --quick    # 100 streams of 2,000 rows

Worlds of calibrated streams: *independent* rows; *released* in the order of random delays; *shared*, in which ten rows
in a row share one random draw, so that outcomes depend on others that were not known at their predictions; *rare*
events; and *fractional* outcomes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant.live import Monitor

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats]

BLOCK = 10
"""Rows that share a draw."""


def predictions(rng: np.random.Generator, rows: int, center: float = -0.5) -> Floats:
    """Probabilities whose log-odds are normal around a center, with standard deviation 1.3."""
    return np.asarray(1.0 / (1.0 + np.exp(-rng.normal(center, 1.3, rows))))


def independent(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, one outcome after the other."""
    p = predictions(rng, rows)
    return p, (rng.random(rows) < p).astype(float)


def released(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, in the order of release after exponential delays of 200 rows on average."""
    p, y = independent(rng, rows)
    order = np.argsort(np.arange(rows) + rng.exponential(200.0, rows))
    return p[order], y[order]


def shared(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated given what was known at each prediction, but ten rows in a row share a draw."""
    p = predictions(rng, rows)
    draw = np.repeat(rng.random(rows // BLOCK + 1), BLOCK)[:rows]
    return p, (draw < p).astype(float)


def rare(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, with about 1.5 % events."""
    p = predictions(rng, rows, -5.0)
    return p, (rng.random(rows) < p).astype(float)


def fractional(rng: np.random.Generator, rows: int) -> Rows:
    """Calibrated, with outcomes between 0 and 1."""
    p = predictions(rng, rows)
    return p, rng.beta(3.0 * p, 3.0 * (1.0 - p))


CALIBRATED: dict[str, tuple[Callable[[np.random.Generator, int], Rows], int]] = {
    "independent": (independent, 1),
    "released in order of delays": (released, 1),
    "rare events": (rare, 1),
    "fractional outcomes": (fractional, 1),
    "shared draws, lag 10": (shared, BLOCK),
}
"""Worlds in which the level must hold, with the lag."""

WRONG: dict[str, tuple[Callable[[np.random.Generator, int], Rows], int]] = {"shared draws, lag 1": (shared, 1)}
"""A world in which it does not, since the lag is wrong."""


def ever_alarm(
    world: Callable[[np.random.Generator, int], Rows],
    lag: int,
    streams: int,
    rows: int,
    seed: int = 0,
    **options: object,
) -> int:
    """Streams with an alarm at any of the looks after each row."""
    found = 0
    for k in range(streams):
        p, y = world(np.random.default_rng([seed, k]), rows)
        monitor = Monitor(lag=lag)
        for start in range(0, rows, 1_000):
            if monitor.update(p[start : start + 1_000], y[start : start + 1_000]).alarms:
                found += 1
                break
    return found


def main(arguments: list[str]) -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    streams, rows = (100, 2_000) if quick else (2_000, 10_000)
    print(f"Ever an alarm at level 5 %, {streams:,} calibrated streams, a look after each of {rows:,} rows")
    for name, (world, lag) in (CALIBRATED | WRONG).items():
        share = ever_alarm(world, lag, streams, rows) / streams
        print(f"  {name:30s} {100 * share:6.2f} %" + ("   (the lag is wrong)" if name in WRONG else ""), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
