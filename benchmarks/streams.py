"""What to use on a live stream: after a break, for a new key, for rare events, and when labels come late.

    python benchmarks/streams.py [--quick] [--section N]

Truth is known here, so forecasts are judged by what they cost: the log loss beyond that of the true probabilities, per
row, in 1e-4 nats, and the mean over runs with its standard error. 0 is perfect; "as it is" is the model's own score.

1. A break: scores are right for a long time, then the log-odds of events fall by 1.
2. A new key: 100,000 rows of all keys, then one of 300 or 3,000 rows. Log-odds are too high by 1, and by N(0, sd) more
   or less in each key.
3. Rare events: the model says log-odds that are too high by 0.5, from the first row on.
4. Late labels: outcomes come 3,000 rows after their forecasts; or events come at once and only the others late; or the
   forecast is learned in place of the score.
5. A forest of 100 trees: the score is the share of trees that vote for an event, so that exact zeros are frequent.
6. The methods of Gupta (2023), Table 6.1, with the constants of their bounds and in practice: log-odds off by 0.5 and
   too steep, still or drifting. Beside the cost, the calibration error in 10 bins of equal width, in 1e-4.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant import CalibrantWarning
from calibrant.metrics import ece
from calibrant.numerics import expit
from calibrant.online import (
    Aggregated,
    Aioli,
    Forecaster,
    Hedging,
    Identity,
    OnlineBeta,
    OnlineGradient,
    OnlinePlatt,
    Refitted,
    Restarting,
    Tracking,
    resume,
)

Floats = NDArray[np.float64]
Costs = dict[str, list[float]]
"""By forecaster, a number for each column."""


def cost(truth: Floats, said: Floats) -> float:
    """The log loss of the forecasts beyond that of the truth, expected over outcomes, in 1e-4 nats a row."""
    return 1e4 * float(np.mean(truth * np.log(truth / said) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - said))))


def world(rng: np.random.Generator, n: int, level: float, off: Floats | float) -> tuple[Floats, Floats, Floats]:
    """Scores, labels, and the true probabilities: the log-odds of the score and what they are off by."""
    z = rng.normal(level, 1.0, n)
    truth = expit(z + off)
    return expit(z), (rng.random(n) < truth).astype(np.float64), truth


def show(title: str, columns: Sequence[str], runs: Sequence[Costs]) -> None:
    """A table of means and standard errors."""
    print(f"\n{title} ({len(runs)} runs)\n")
    print(f"{'':42}" + "".join(f"{name:>18}" for name in columns))
    for name in runs[0]:
        found = np.array([run[name] for run in runs])
        errors = found.std(axis=0, ddof=1) / np.sqrt(len(runs))
        cells = (f"{m:.1f} ±{e:.1f}" for m, e in zip(found.mean(axis=0), errors, strict=True))
        print(f"{name:42}" + "".join(f"{cell:>18}" for cell in cells))


# ------------------------------------------------------------------------------------------------------------- a break

AFTER = {
    "before": (-20_000, 0),
    "first 500": (0, 500),
    "to 1,500": (500, 1_500),
    "at 5,000": (4_500, 5_000),
    "at 20,000": (19_500, 20_000),
}
FOLLOWING: Mapping[str, Callable[[], Forecaster]] = {
    "as it is": Identity,
    "OnlinePlatt()": OnlinePlatt,
    "OnlinePlatt(half_life=30_000)": lambda: OnlinePlatt(half_life=30_000),
    "OnlinePlatt(half_life=10_000)": lambda: OnlinePlatt(half_life=10_000),
    "OnlinePlatt(half_life=3_000)": lambda: OnlinePlatt(half_life=3_000),
    "OnlineBeta(half_life=10_000)": lambda: OnlineBeta(half_life=10_000),
    'Refitted("platt", every=500, window=5_000)': lambda: Refitted("platt", every=500, window=5_000),
    "Tracking(OnlinePlatt())": lambda: Tracking(OnlinePlatt()),
    "Tracking(OnlinePlatt(half_life=10_000))": lambda: Tracking(OnlinePlatt(half_life=10_000)),
}
RESTARTING = {"Restarting(OnlinePlatt())": lambda: Restarting(OnlinePlatt()).compile()}
"""Compiled to save time; the forecasts are the same."""


def after_a_break(seed: int, before: int, makers: Mapping[str, Callable[[], Forecaster]]) -> Costs:
    """Costs in windows of rows around the break."""
    n = before + 20_000
    scores, labels, truth = world(np.random.default_rng([1, seed]), n, -1.0, -1.0 * (np.arange(n) >= before))
    out: Costs = {}
    for name, make in makers.items():
        said = make().forecast_many(scores, labels)
        out[name] = [cost(truth[before + a : before + b], said[before + a : before + b]) for a, b in AFTER.values()]
    return out


# ----------------------------------------------------------------------------------------------------------- a new key


KEYS = {
    "300, sd 0.7": (300, 0.7),
    "3,000, sd 0.7": (3_000, 0.7),
    "300, sd 0.3": (300, 0.3),
    "3,000, sd 0.3": (3_000, 0.3),
}
"""Rows of the new key, and how far keys differ."""


def new_keys(seed: int) -> Costs:
    """Costs of the ways, for each kind of key."""
    found = [new_key(seed, *kind) for kind in KEYS.values()]
    return {way: [costs[way] for costs in found] for way in found[0]}


def new_key(seed: int, its: int, sd: float, all_keys: int = 100_000) -> dict[str, float]:
    """Ways to begin a key, when all keys together have been learned."""
    rng = np.random.default_rng([2, seed])
    offs = np.repeat(rng.normal(-1.0, sd, all_keys // 1_000), 1_000)
    pooled = OnlinePlatt().learn_many(*world(rng, all_keys, -3.5, offs)[:2])
    scores, labels, truth = world(rng, its, -3.5, rng.normal(-1.0, sd))
    through = pooled.freeze().apply(scores)
    ways = {
        "as it is": scores,
        "a copy of the pooled one": resume(pooled.to_json()).forecast_many(scores, labels),
        "OnlinePlatt()": OnlinePlatt().forecast_many(scores, labels),
        "OnlinePlatt(rho=1_000)": OnlinePlatt(rho=1_000).forecast_many(scores, labels),
        "the pooled map, then OnlinePlatt(rho=1_000)": OnlinePlatt(rho=1_000).forecast_many(through, labels),
    }
    return {name: cost(truth, said) for name, said in ways.items()}


# --------------------------------------------------------------------------------------------------------- rare events

RARE_ROWS = (5_000, 20_000, 100_000)
RATES = {"1 in 100": -4.6, "1 in 1,000": -7.0}
"""Approximate event rate, and the mean of the log-odds."""
RARE: Mapping[str, Callable[[], Forecaster]] = {
    "as it is": Identity,
    "OnlinePlatt()": OnlinePlatt,
    "OnlinePlatt(rho=1_000)": lambda: OnlinePlatt(rho=1_000),
    "OnlinePlatt(half_life=10_000)": lambda: OnlinePlatt(half_life=10_000),
    "OnlinePlatt(rho=1_000, half_life=30_000)": lambda: OnlinePlatt(rho=1_000, half_life=30_000),
    "OnlinePlatt(rho=1_000, half_life=100_000)": lambda: OnlinePlatt(rho=1_000, half_life=100_000),
    'Refitted("platt", every=500, window=5_000)': lambda: Refitted("platt", every=500, window=5_000),
    "OnlineBeta()": OnlineBeta,
    "Hedging(OnlinePlatt())": lambda: Hedging(OnlinePlatt(), random_state=0),
    "Tracking(OnlinePlatt())": lambda: Tracking(OnlinePlatt()),
    "Tracking(OnlinePlatt(), epsilon=0.01)": lambda: Tracking(OnlinePlatt(), epsilon=0.01),
    "Tracking(OnlinePlatt(), epsilon=0.001)": lambda: Tracking(OnlinePlatt(), epsilon=0.001),
}


def rare(seed: int, level: float) -> Costs:
    """Costs of all rows up to each number of RARE_ROWS."""
    scores, labels, truth = world(np.random.default_rng([3, seed]), max(RARE_ROWS), level, -0.5)
    out: Costs = {}
    for name, make in RARE.items():
        said = make().forecast_many(scores, labels)
        out[name] = [cost(truth[:n], said[:n]) for n in RARE_ROWS]
    return out


# --------------------------------------------------------------------------------------------------------- late labels


def late(seed: int, n: int = 12_000, wait: int = 3_000) -> Costs:
    """Costs of what was said at the time, first and last thirds; about one row in thirty is an event."""
    scores, labels, truth = world(np.random.default_rng([4, seed]), n, -3.5, -0.5)
    order = {
        "as it is": None,
        "each outcome before the next forecast": np.arange(n),
        "every outcome 3,000 rows later": np.arange(n) + wait,
        "events at once, the others 3,000 rows later": np.arange(n) + np.where(labels == 1.0, 0, wait),
        "3,000 rows later, p learned in its place": np.arange(n) + wait,
    }
    out: Costs = {}
    for name, due in order.items():
        said = scores if due is None else served(scores, labels, due, own=name.endswith("in its place"))
        out[name] = [cost(truth[: n // 3], said[: n // 3]), cost(truth[-n // 3 :], said[-n // 3 :])]
    return out


def served(scores: Floats, labels: Floats, due: NDArray[np.int64], *, own: bool) -> Floats:
    """Forecasts of rows in turn; a row's outcome is learned when its time has come, before the next forecast."""
    forecaster, said = OnlinePlatt(), np.empty(len(scores))
    queue = iter(sorted(range(len(scores)), key=lambda i: (due[i], i)))
    following = next(queue)
    for now, score in enumerate(scores.tolist()):
        while due[following] < now:
            given = said[following] if own else scores[following]
            forecaster.learn_one(float(given), labels[following])
            following = next(queue)
        said[now] = forecaster.predict_one(score)
    return said


# ------------------------------------------------------------------------------------------------------------- forests

FORESTS: Mapping[str, Callable[[], Forecaster]] = {
    "OnlinePlatt()": OnlinePlatt,
    "OnlinePlatt(clamp=1 / 200)": lambda: OnlinePlatt(clamp=1 / 200),
}


def forest(seed: int, n: int = 20_000, trees: int = 100) -> Costs:
    """Costs of all rows; a part of them no map of the votes could save."""
    rng = np.random.default_rng([5, seed])
    truth = expit(rng.normal(-3.0, 2.0, n))
    votes, labels = rng.binomial(trees, truth) / trees, (rng.random(n) < truth).astype(np.float64)
    return {name: [cost(truth, make().forecast_many(votes, labels))] for name, make in FORESTS.items()}


# ------------------------------------------------------------------------------------------------- textbook methods

TABLE: Mapping[str, Callable[[], Forecaster]] = {
    "as it is": Identity,
    "OnlinePlatt()": OnlinePlatt,
    "OnlinePlatt(certified=True)": lambda: OnlinePlatt(certified=True),
    "OnlineBeta()": OnlineBeta,
    "OnlineBeta(certified=True)": lambda: OnlineBeta(certified=True),
    "OnlineGradient(radius=2)": lambda: OnlineGradient(radius=2.0),
    "Aioli(radius=2)": lambda: Aioli(radius=2.0),
    "Aggregated(radius=2, spacing=0.2)": lambda: Aggregated(radius=2.0, spacing=0.2).compile(),
}
"""Compiled where that saves time; the forecasts are the same."""


def textbook(seed: int, n: int = 5_000) -> Costs:
    """Costs and calibration errors of all rows; in a still world, and in one whose log-odds fall by 1.5 on the way."""
    out: Costs = {name: [] for name in TABLE}
    for drift in (0.0, -1.5):
        rng = np.random.default_rng([6, seed])
        z = rng.normal(-1.0, 1.5, n)
        truth = expit(0.7 * z - 0.5 + drift * np.arange(n) / n)
        scores, labels = expit(z), (rng.random(n) < truth).astype(np.float64)
        for name, make in TABLE.items():
            said = make().forecast_many(scores, labels)
            out[name] += [cost(truth, said), 1e4 * ece(said, labels, n_bins=10).value]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two runs of each, shorter before the break")
    parser.add_argument("--section", type=int, help="one section only")
    given = parser.parse_args()
    quick, only = given.quick, given.section
    warnings.simplefilter("ignore", CalibrantWarning)
    begun, runs = time.perf_counter(), range(2 if quick else 20)
    for before in () if only not in (None, 1) else (20_000,) if quick else (20_000, 300_000):
        title = f"1. After {before:,} rows, log-odds fall by 1; costs around the break"
        show(title, list(AFTER), [after_a_break(seed, before, FOLLOWING) for seed in runs])
        if not quick:
            show("   The same", list(AFTER), [after_a_break(seed, before, RESTARTING) for seed in range(5)])
    if only in (None, 2):
        show("2. All rows of a new key", list(KEYS), [new_keys(seed) for seed in runs])
    for name, level in RATES.items() if only in (None, 3) else ():
        title = f"3. Rare events, {name}, costs of the first rows"
        show(title, [f"{n:,}" for n in RARE_ROWS], [rare(seed, level) for seed in runs])
    if only in (None, 4):
        show("4. Late labels, costs of 12,000 rows", ["first third", "last third"], [late(seed) for seed in runs])
    if only in (None, 5):
        show("5. A forest of 100 trees, costs of 20,000 rows", ["all rows"], [forest(seed) for seed in runs])
    if only in (None, 6):
        columns = ["still: cost", "still: error", "drift: cost", "drift: error"]
        title = "6. Methods of Gupta (2023), Table 6.1, 5,000 rows"
        show(title, columns, [textbook(seed, 1_000 if quick else 5_000) for seed in runs])
    print(f"\n{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
