"""The bias of labels that are not there yet, and how much of it maturity weights remove.

    python benchmarks/late_labels.py            # 200 runs of each case
    python benchmarks/late_labels.py --quick    # 20

Each run is a stream of 60,000 rows in 8 horizons through the ledger, with two keys whose events take differently long.
All rows of the last horizon are counted at its end, when half of their events have come. Printed are ratios to the true
rate: of rows without an event counted as negatives, of rows with maturity weights, and what theory says. Then delays
drift, and the bias is compared with the bound of docs/certificates/late-labels.md. Last, the two accidents: clicks that
are learned at once, and clicks that are delivered twice.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.live import LateLearner, Ledger
from calibrant.online import OnlinePlatt

Floats = NDArray[np.float64]

ROWS, HORIZONS, HORIZON = 60_000, 8, 1_000.0
POWERS = np.array([0.5, 2.0])
"""By key: the share of events that come by a part x of the horizon is x to this power."""

RATE_SHIFT = 1.5
"""Scores are log-odds with mean -1.5 and standard deviation 1: about 23 % events."""


@dataclass(frozen=True)
class Bias:
    """Ratios to the true rate over runs: naive, weighted, what theory says of the first, and bounds of the second."""

    naive: Floats
    weighted: Floats
    theory: Floats
    low: Floats
    high: Floats

    def error(self) -> float:
        """Standard error of the mean of the weighted ratio."""
        return float(self.weighted.std(ddof=1) / math.sqrt(len(self.weighted)))


def power(key: NDArray[np.int64], at: Floats, drift: float) -> Floats:
    """The powers of delays; with drift, their distribution functions move by at most ``drift`` per horizon."""
    start = POWERS[key]
    least = start.min()
    return np.asarray(start + math.e * least * drift * at / HORIZON)


def one_run(rng: np.random.Generator, drift: float) -> tuple[float, float, float, float, float]:
    """Ratios of one stream: naive, weighted, theory, and the bounds under drift."""
    at = np.sort(rng.uniform(0.0, HORIZONS * HORIZON, ROWS))
    key = rng.integers(0, 2, ROWS)
    rate = 1.0 / (1.0 + np.exp(RATE_SHIFT - rng.standard_normal(ROWS)))
    event = rng.random(ROWS) < rate
    when = at + HORIZON * rng.random(ROWS) ** (1.0 / power(key, at, drift))
    ledger = Ledger(HORIZON)
    for now in HORIZON * np.arange(1, HORIZONS + 1):
        rows = np.flatnonzero((at > now - HORIZON) & (at <= now))
        ledger.predict(rows, rate[rows], at=at[rows], keys=key[rows])
        seen = np.flatnonzero(event & (when > now - HORIZON) & (when <= now))
        ledger.observe(seen, np.ones(len(seen)), at=when[seen])
        ledger.advance(float(now))
    last = at > (HORIZONS - 1) * HORIZON
    age = (HORIZONS * HORIZON - at[last]) / HORIZON
    share = age ** power(key[last], at[last], drift)
    true = rate[last].sum()
    naive = (event & (when <= HORIZONS * HORIZON))[last].sum() / true
    young = ledger.young()
    weights = young.weights(young.scores)
    found = (weights * young.labels).sum() / weights.sum() / young.scores.mean()
    low, high = bounds(young.scores, young.arrived, (HORIZONS * HORIZON - young.at) / HORIZON, drift)
    return naive, found, (rate[last] * share).sum() / true, low, high


def bounds(rate: Floats, arrived: Floats, age: Floats, drift: float) -> tuple[float, float]:
    """Lowest and highest ratio of the expected weighted rate to the true one, if delays drift by at most this much."""
    apart = drift * (3.5 - age)  # released rows of the last five horizons, evenly spread
    found = []
    for share in (np.maximum(arrived - apart, 0.0), np.minimum(arrived + apart, 1.0)):
        events = rate * share / arrived
        others = (1.0 - rate) * (1.0 - rate * share) / (1.0 - rate * arrived)
        found.append(float(events.sum() / (events.sum() + others.sum()) / rate.mean()))
    return found[0], found[1]


def bias(runs: int, drift: float = 0.0, seed: int = 1) -> Bias:
    """Ratios over runs."""
    rng = np.random.default_rng(seed)
    return Bias(*(np.array(each) for each in zip(*(one_run(rng, drift) for _ in range(runs)), strict=True)))


# ------------------------------------------------------------------------------------------------------- the accidents


def accidents(rows: int = 200_000, timeout: float = 36_000.0) -> dict[str, float]:
    """Forecasts over true clicks: with clicks learned at once, with each click learned twice, and with the ledger.

    One row a second, 1.5 % clicks after minutes, a model that is off by 0.5 in log-odds; no click for 10 hours means
    none. Clicks learned at once: rows of the first 30,000 seconds; the others: the last 50,000 rows.
    """
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-4.35, 0.5, rows)
    truth = 1.0 / (1.0 + np.exp(-log_odds))
    scores, clicked = 1.0 / (1.0 + np.exp(-(log_odds + 0.5))), rng.random(rows) < truth
    at = np.arange(rows, dtype=np.float64)
    when = at + rng.exponential(300.0, rows)
    first, last = slice(0, 30_000), slice(rows - 50_000, rows)

    eager, forecasts = OnlinePlatt(), []
    for start in range(0, 30_000, 1_000):
        forecasts.append(eager.predict_many(scores[start : start + 1_000]))
        come = np.flatnonzero(clicked & (when > start) & (when <= start + 1_000))
        eager.learn_many(scores[come], np.ones(len(come)))
    found = {"clicks at once": float(np.concatenate(forecasts).sum() / truth[first].sum())}
    twice = np.repeat(np.arange(rows), 1 + clicked)
    doubled = OnlinePlatt().learn_many(scores[twice], clicked[twice])
    found["each click twice"] = float(doubled.predict_many(scores[last]).sum() / truth[last].sum())
    for name, copies in (("ledger, clicks at once", 1), ("ledger, each click twice", 2)):
        learner, forecasts = LateLearner(OnlinePlatt(), Ledger(timeout)), []
        for start in range(0, rows, 2_500):
            these = np.arange(start, start + 2_500)
            forecasts.append(learner.predict(these, scores[these], at=at[these]))
            come = np.flatnonzero(clicked & (when > start) & (when <= start + 2_500))
            for _ in range(copies):
                learner.observe(come, np.ones(len(come)), at=when[come])
            learner.advance(float(start + 2_500))
        found[name] = float(np.concatenate(forecasts)[last].sum() / truth[last].sum())
    return found


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    runs = 20 if parser.parse_args().quick else 200
    steady = bias(runs)
    print(f"Ratios to the true rate, half of the events still to come, {runs} runs")
    print(f"  counted as negatives  {steady.naive.mean():.4f}   theory {steady.theory.mean():.4f}")
    print(f"  maturity weights      {steady.weighted.mean():.4f}   standard error {steady.error():.4f}")
    print("Delays drift: distribution functions move by this much per horizon")
    print("  drift   weighted   error     bound")
    for drift in (0.01, 0.02, 0.05):
        found = bias(runs, drift)
        limits = f"{found.low.mean():.3f} to {found.high.mean():.3f}"
        print(f"  {drift:.2f}    {found.weighted.mean():.4f}     {found.error():.4f}    {limits}")
    print("Forecasts over true clicks")
    for name, ratio in accidents().items():
        print(f"  {name:25s} {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
