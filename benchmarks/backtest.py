"""How often to refit: policies replayed on five drifting data sets and a seasonal stream, and the time of a back-test.

    python benchmarks/backtest.py [--quick] [--speed] [--picture FILE]

Bank, credit, churn and fetal health are sorted by a noisy covariate as in chapter 6 of Gupta (2023), see
`benchmarks/papers/ch6_streams.py`. They have no times, so a fixed number of rows is taken as a day. elec2 has its own
days of 48 rows. Scores are those of a random forest of 200 trees, trained on the first rows, which are left out. The
seasonal stream has scores with log-odds N(-1, 1); the level of the events swings by 0.7 with a period of 365 days.
Labels come two days after the prediction. The reference is a refit every day to the labels of the last 28 days.

`--picture` draws five policies on elec2, for the guide. `--speed` measures one call with 10^6 rows and ten policies; it
ends with exit code 1 if CPU time exceeds 60 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from data_folder import need_data
from matplotlib.figure import Figure
from numpy.typing import NDArray
from papers.ch6_streams import FOLDERS, Rows, designs, held
from PIL import Image
from sklearn.ensemble import RandomForestClassifier

from calibrant import live
from calibrant.displays import BacktestDisplay
from calibrant.live.replay.policies import Policy
from calibrant.live.replay.result import PolicyResult
from calibrant.numerics import expit
from calibrant.online import OnlinePlatt

Floats = NDArray[np.float64]

DELAY = 2
"""Days until a label is known."""

ROWS_A_DAY = {"bank": 50, "credit": 100, "churn": 50, "fetal": 10}
ELEC2_DAY, ELEC2_TRAIN = 48, 60 * 48
LIMIT = 60.0
"""Seconds of CPU time that 10^6 rows with ten policies may take."""


@dataclass(frozen=True)
class Replayed:
    """A stream: scores, labels, and times in days."""

    name: str
    scores: Floats
    labels: Floats
    at: Floats


def policies() -> list[str | Policy]:
    """What is compared on every stream; the first is the reference."""
    return [
        live.Every("day", window=28),
        live.Every("week", window=28),
        live.Every("month", window=28),
        "day",
        "week",
        "on-alarm",
        "once",
        "never",
        "online-platt",
        "tracking",
    ]


def real(trees: int, most: int | None) -> Iterator[Replayed]:
    """The five data sets under a forest, each cut to a number of rows."""
    for design in designs()["drifting"]:
        name = design.name.split(",")[0]
        yield scored(name, design.draw(np.random.default_rng([6, 0])), design.train, ROWS_A_DAY[name], trees, most)
    yield scored("elec2", elec2(), ELEC2_TRAIN, ELEC2_DAY, trees, most)


def elec2() -> Rows:
    """Prices of electricity in New South Wales, in their own order: whether the price goes up."""
    frame = pd.read_parquet(need_data("elec2") / "elec2" / "elec2.parquet")
    labels = (frame["class"] == "UP").to_numpy(np.float64)
    return frame.drop(columns=["class", "date"]).to_numpy(np.float64), labels


def scored(name: str, rows: Rows, train: int, a_day: int, trees: int, most: int | None) -> Replayed:
    """Scores of a forest for the rows behind those it was trained on."""
    x, y = rows
    forest = RandomForestClassifier(trees, random_state=0).fit(x[:train], y[:train])
    rest = slice(train, None if most is None else train + most)
    scores = held(forest.predict_proba(x[rest])[:, 1])
    return Replayed(name, scores, y[rest], np.arange(len(scores)) / a_day)


def seasonal(rows: int, days: int, seed: int = 0) -> Replayed:
    """A calibrated model whose level swings with the season."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.uniform(0.0, days, rows))
    z = rng.normal(-1.0, 1.0, rows)
    y = rng.random(rows) < expit(z + 0.7 * np.sin(2 * np.pi * at / 365))
    return Replayed("seasonal", expit(z), y.astype(np.float64), at)


def compare(quick: bool) -> None:
    """The table of each stream, and one line for each."""
    need_data(*FOLDERS, "elec2")
    trees, most = (20, 1_500) if quick else (200, None)
    synthetic = seasonal(8_000, 400) if quick else seasonal(109_500, 3 * 365)
    found = {}
    for stream in (*real(trees, most), synthetic):
        start = time.process_time()
        result = live.backtest(stream.scores, stream.labels, stream.at, policies(), delay=DELAY)
        print(f"{stream.name} ({time.process_time() - start:.1f} s of CPU time)\n{result}\n", flush=True)
        found[stream.name] = result
    print("Log loss, and number of refits; + or - where the interval says better or worse than the first policy:\n")
    names = list(next(iter(found.values())))
    print("| policy | " + " | ".join(found) + " |\n|---|" + "---|" * len(found))
    for name in names:
        print(f"| {name} | " + " | ".join(short(each[name]) for each in found.values()) + " |")


def picture(path: str, quick: bool) -> None:
    """Observed minus predicted over time on elec2."""
    trees, most = (20, 1_500) if quick else (200, None)
    stream = scored("elec2", elec2(), ELEC2_TRAIN, ELEC2_DAY, trees, most)
    drawn: list[str | Policy] = [live.Every("week", window=28), "on-alarm", "week", "once", "never"]
    result = live.backtest(stream.scores, stream.labels, stream.at, drawn, delay=DELAY)
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    BacktestDisplay.from_backtest(result).plot(figure.subplots())
    figure.savefig(path, dpi=110)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a quarter of the size


def short(result: PolicyResult) -> str:
    """Log loss, number of refits, and a sign where the policy is better or worse than the reference."""
    sign = {"better": " +", "worse": " -"}.get(result.status, "")
    return f"{result.log_loss:.4f}" + ("" if result.refits is None else f" ({result.refits})") + sign


def speed(rows: int) -> bool:
    """Time of one call with ten policies, one of them a bank of 1,000 keys; whether it is within the limit."""
    stream = seasonal(rows, 365)
    keys = np.random.default_rng(1).integers(0, 1_000, rows)
    asked = [
        *("day", "week", "month", "once", "never", "on-alarm", "online-platt", "tracking", "bank-by-key"),
        live.Online(OnlinePlatt(half_life=10_000), "online Platt, half-life 10,000"),
    ]

    def timed(which: list[str | Policy]) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        live.backtest(stream.scores, stream.labels, stream.at, which, delay=5, keys=keys)
        return time.perf_counter() - wall, time.process_time() - cpu

    live.backtest(stream.scores[:2_000], stream.labels[:2_000], stream.at[:2_000], asked, delay=5, keys=keys[:2_000])
    wall, cpu = timed(asked)
    print(f"{rows:,} rows, 365 days, labels after 5 days, {len(asked)} policies in one call, after a small one:")
    print(f"  wall time {wall:.1f} s, CPU time {cpu:.1f} s (limit: {LIMIT:.0f} s of CPU time)")
    print("  one policy in a call, CPU time:")
    for each in asked:
        print(f"  {each if isinstance(each, str) else each.name:32}{timed([each])[1]:7.1f} s", flush=True)
    return cpu <= LIMIT


def main() -> None:
    """Compare policies, or measure the time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and trees")
    parser.add_argument("--speed", action="store_true", help="measure one call with 10^6 rows and ten policies")
    parser.add_argument("--picture", metavar="FILE", help="draw error over time on elec2")
    given = parser.parse_args()
    if given.picture:
        picture(given.picture, given.quick)
    elif not given.speed:
        compare(given.quick)
    elif not speed(100_000 if given.quick else 1_000_000):
        sys.exit(1)


if __name__ == "__main__":
    main()
