"""A feed of outcomes that is healthy, dead or trickles: how often and how soon the detector of the service holds it.

    python benchmarks/feed.py             # 4 million expected arrivals for each line, 16 million at a third
    python benchmarks/feed.py --quick     # 100,000

The detector takes one row after the other once its outcomes should have come: see claim 15 in docs/service/protocol.md.
In the first table events come at a third of, as often as, and three times as often as was predicted; in clusters, all
rates within about five expected events are multiplied by a gamma variable of mean 1 and standard deviation 0.5. Events
that are delivered in bursts within the grace are the same events, since a row is taken after the grace. Streams that
begin anew stand for one long stream: each has 500 expected arrivals. Expected is what was served. The mean run length
is at least what is printed with confidence 95 %, if the number of alarms has a Poisson distribution.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from calibrant.service.learning.feed import FADE, LEVEL, SHARE

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

LENGTH = 500.0
"""Expected arrivals of one stream."""

CLUSTER, SHAPE = 5.0, 4.0
"""Expected arrivals of a cluster, and shape of the gamma variable that multiplies its rates."""

PROBABILITIES: dict[str, Draw] = {
    "0.01": lambda rng, n: np.full(n, 0.01),
    "0.1": lambda rng, n: np.full(n, 0.1),
    "0.002 to 0.5": lambda rng, n: 0.002 * 250.0 ** rng.random(n),
}
"""Served probabilities; the last are log-uniform."""

MEANS = {"0.01": 0.01, "0.1": 0.1, "0.002 to 0.5": 0.498 / np.log(250.0)}


@dataclass(frozen=True)
class Healthy:
    """What a healthy feed led to: alarms, arrivals that were expected, and the largest evidence."""

    alarms: int
    arrivals: float
    largest: float

    @property
    def at_least(self) -> float:
        """The mean run length is at least this, with confidence 95 %."""
        return self.arrivals / (float(chi2.ppf(0.95, 2 * self.alarms + 2)) / 2.0)


def step(evidence: Floats, p: Floats, came: NDArray[np.bool_]) -> Floats:
    """One row of each stream."""
    return np.asarray((evidence + p) * np.where(came, FADE, 1.0) / (1.0 - (1.0 - FADE) * SHARE * p))


def healthy(name: str, rate: float, arrivals: float, *, clusters: bool, seed: int = 0) -> Healthy:
    """Streams whose events come at a multiple of what was predicted.

    Parameters
    ----------
    name
        Which probabilities are served.
    rate
        The multiple; probabilities of events are at most 1.
    arrivals
        Expected arrivals of all streams together, by what was served.
    clusters
        Whether events are clustered.
    seed
        Of the random numbers.

    Returns
    -------
    Healthy
        Alarms of all streams; evidence begins anew after each.
    """
    rng, streams = np.random.default_rng(seed), max(1, round(arrivals / LENGTH))
    evidence, factor = np.zeros(streams), np.ones(streams)
    alarms, largest, total = 0, 0.0, 0.0
    rows = round(LENGTH / MEANS[name])
    of_cluster = max(1, round(CLUSTER / MEANS[name]))
    for row in range(rows):
        if clusters and row % of_cluster == 0:
            factor = rng.gamma(SHAPE, 1.0 / SHAPE, streams)
        p = PROBABILITIES[name](rng, streams)
        evidence = step(evidence, p, rng.random(streams) < p * (rate * factor))
        total += float(p.sum())
        top = float(evidence.max())
        largest = max(largest, top)
        if top >= LEVEL:
            alarms += int((evidence >= LEVEL).sum())
            evidence[evidence >= LEVEL] = 0.0
    return Healthy(alarms, total, largest)


def delays(name: str, share: float, streams: int, seed: int = 0) -> Floats:
    """Expected arrivals until a feed is held that was healthy and then brings a share of the events; one per stream."""
    rng = np.random.default_rng(seed)
    evidence, passed, held = np.zeros(streams), np.zeros(streams), np.zeros(streams, dtype=bool)
    for _ in range(round(100.0 / MEANS[name])):
        p = PROBABILITIES[name](rng, streams)
        evidence = step(evidence, p, rng.random(streams) < p)
    while not held.all():
        p = PROBABILITIES[name](rng, streams)
        evidence = step(evidence, p, rng.random(streams) < share * p)
        passed += np.where(held, 0.0, p)
        held |= evidence >= LEVEL
    return passed


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    arrivals, streams = (1e5, 200) if quick else (4e6, 1_000)
    print("False alarms of a healthy feed")
    print(
        "  served          true rate   events        alarms   expected arrivals   run length at least  largest evidence"
    )
    for name in PROBABILITIES:
        for rate, shown in ((1.0 / 3.0, "1/3"), (1.0, "1"), (3.0, "3")):
            for clusters in (False, True):
                found = healthy(name, rate, arrivals * (4.0 if rate < 1.0 else 1.0), clusters=clusters)
                print(
                    f"  {name:14s}  {shown:>9s}   {'clustered' if clusters else 'independent':11s} {found.alarms:8d}"
                    f" {found.arrivals:19,.0f} {found.at_least:21,.0f} {found.largest:17,.0f}", flush=True,
                )  # fmt: skip
    print("Expected arrivals until a feed is held that brings a share of its events")
    print("  served          share     mean   largest")
    for name in PROBABILITIES:
        for share in (0.0, 0.02, 0.05, 0.1):
            passed = delays(name, share, streams)
            print(f"  {name:14s} {share:6.0%} {passed.mean():8.1f} {passed.max():9.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
