"""What keys cost: one pooled map, separate maps and a bank, at cold start and after a break, in log loss.

    python benchmarks/bank_quality.py [--quick] [--real]

Every way forecasts each row before it learns it. Given are differences of the log loss to the bank, per row in 1e-4
nats, with 95 % t intervals over paired runs (worlds) or over keys (real data): a positive one means that the bank is
better. The bank gets the map of a pooled OnlinePlatt(half_life=3_000) as its prior every 50 rows, with
keep="deviations", and every 2,000 rows the spread between keys that its keys suggest.

Worlds, as in benchmarks/streams.py: log-odds of the model are too high by 1, and by N(0, sd) more or less in each key;
after half of the rows all log-odds fall by 1 more. Real data: top-label confidences of networks by predicted class, on
ImageNet and CIFAR-100, with another network after half of the rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from data_folder import data_folder
from numpy.typing import NDArray
from scipy.stats import t as student_t

from calibrant.live import Bank, Prior
from calibrant.numerics import expit
from calibrant.online import OnlinePlatt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Way = Callable[[Floats, Ints, Floats], Floats]

EVERY, SPREAD_EVERY = 50, 2_000
"""Rows between refreshed priors, and between estimates of the spread between keys."""

PARTS = {"first 10 %": (0.0, 0.1), "to the break": (0.1, 0.5), "10 % after": (0.5, 0.6), "rest": (0.6, 1.0)}


def as_it_is(scores: Floats, keys: Ints, y: Floats) -> Floats:
    """The score."""
    return scores


def pooled_map(half_life: float | None) -> Way:
    """One forecaster for all keys."""
    return lambda scores, keys, y: OnlinePlatt(half_life=half_life).forecast_many(scores, y)


def separate(half_life: float | None, rho: float) -> Way:
    """A forecaster for each key."""

    def way(scores: Floats, keys: Ints, y: Floats) -> Floats:
        out = np.empty(len(scores))
        for its in by_key(keys):
            out[its] = OnlinePlatt(half_life=half_life, rho=rho).forecast_many(scores[its], y[its])
        return out

    return way


def newton_around_pooled(scores: Floats, keys: Ints, y: Floats) -> Floats:
    """The pooled forecast as the score of an OnlinePlatt(rho=1_000) for each key."""
    return separate(None, 1_000.0)(np.clip(pooled_map(10_000.0)(scores, keys, y), 1e-6, 1 - 1e-6), keys, y)


def banked(half_life: float | None, keep: str, every: int = EVERY, estimate: bool = True) -> Way:
    """A bank whose prior is refreshed every few rows, and its spread between keys every 2,000."""

    def way(scores: Floats, keys: Ints, y: Floats) -> Floats:
        pooled, bank, out = OnlinePlatt(half_life=3_000.0), Bank(half_life=half_life), []
        for start in range(0, len(scores), every):
            part = slice(start, start + every)
            out.append(bank.forecast(scores[part], keys[part], y[part]))
            pooled.learn_many(scores[part], y[part])
            spread = bank.prior
            if estimate and start % SPREAD_EVERY == SPREAD_EVERY - every and bank.n_keys >= 20:
                spread = bank.estimate_prior()
            new = Prior(pooled.slope, pooled.intercept, spread.level_sd, spread.slope_sd, spread.center)
            bank.refresh_prior(new, keep=keep)
        return np.concatenate(out)

    return way


def bank_on_pooled(scores: Floats, keys: Ints, y: Floats) -> Floats:
    """The pooled forecast as the score of a bank."""
    return banked(3_000.0, "deviations", 10**9)(np.clip(pooled_map(3_000.0)(scores, keys, y), 1e-6, 1 - 1e-6), keys, y)


WAYS: dict[str, Way] = {
    "as it is": as_it_is,
    "pooled OnlinePlatt()": pooled_map(None),
    "pooled OnlinePlatt(half_life=3_000)": pooled_map(3_000.0),
    "separate OnlinePlatt(half_life=3_000)": separate(3_000.0, 100.0),
    "separate OnlinePlatt(rho=1_000)": separate(None, 1_000.0),
    "pooled, then OnlinePlatt(rho=1_000) by key": newton_around_pooled,
    'Bank, keep="maps"': banked(3_000.0, "maps"),
    "Bank, refreshed every 1,000 rows": banked(3_000.0, "deviations", 1_000),
    "Bank of pooled forecasts": bank_on_pooled,
    "Bank, half_life=500": banked(500.0, "deviations"),
    "Bank, spread not estimated": banked(3_000.0, "deviations", estimate=False),
}
BANK = banked(3_000.0, "deviations")


def by_key(keys: Ints) -> Iterator[Ints]:
    """Rows of each key, in order."""
    order = np.argsort(keys, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def losses(way: Way, scores: Floats, keys: Ints, y: Floats) -> Floats:
    """The log loss of each row."""
    p = np.clip(way(scores, keys, y), 1e-12, 1.0 - 1e-12)
    return -(y * np.log(p) + (1.0 - y) * np.log1p(-p))


def world(seed: int, n: int, n_keys: int, sd: float, level: float) -> tuple[Floats, Ints, Floats]:
    """Rows of keys of different sizes, with a break in the middle."""
    rng = np.random.default_rng([11, seed])
    share = rng.gamma(0.7, size=n_keys)
    keys = rng.choice(n_keys, n, p=share / share.sum())
    z = rng.normal(level, 1.0, n)
    truth = expit(z - 1.0 + rng.normal(0.0, sd, n_keys)[keys] - 1.0 * (np.arange(n) >= n // 2))
    return expit(z), keys, (rng.random(n) < truth).astype(np.float64)


def real(first: str, second: str) -> tuple[Floats, Ints, Floats] | None:
    """Confidences by predicted class in random order; the second network from the middle on."""
    import pandas as pd

    files = [data_folder() / "cifar_top_label" / f"{name}_toplabel.parquet" for name in (first, second)]
    if not all(file.exists() for file in files):
        return None
    frames = [pd.read_parquet(file) for file in files]
    order = np.random.default_rng(0).permutation(len(frames[0]))
    halves = [frames[0].iloc[order[: len(order) // 2]], frames[1].iloc[order[len(order) // 2 :]]]
    rows = pd.concat(halves)
    right = (rows["true_label"] == rows["pred_label"]).to_numpy(np.float64)
    scores = np.clip(rows["confidence"].to_numpy(np.float64), 1e-6, 1.0 - 1e-6)
    return scores, rows["pred_label"].to_numpy(np.int64), right


def show(title: str, differences: dict[str, list[Floats]]) -> None:
    """Means and 95 % intervals of differences in each part."""
    print(f"\n{title}\n")
    print(f"{'':46}" + "".join(f"{name:>20}" for name in PARTS))
    for name, columns in differences.items():
        cells = []
        for found in columns:
            half = student_t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
            cells.append(f"{1e4 * found.mean():8.1f} ±{1e4 * half:.1f}")
        print(f"{name:46}" + "".join(f"{cell:>20}" for cell in cells))


def in_parts(n: int) -> list[slice]:
    return [slice(int(a * n), int(b * n)) for a, b in PARTS.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="four runs of each world")
    parser.add_argument("--real", action="store_true", help="real data alone")
    options = parser.parse_args()
    runs = 4 if options.quick else 20
    begun = time.perf_counter()
    worlds = {
        "60 keys that differ by 0.5, 1 event in 8": (20_000, 60, 0.5, -1.5),
        "2,000 keys that differ by 0.7, 1 event in 70": (40_000, 2_000, 0.7, -3.5),
        "200 keys that do not differ, 1 event in 8": (20_000, 200, 0.0, -1.5),
    }
    for title, (n, n_keys, sd, level) in ({} if options.real else worlds).items():
        found: dict[str, list[list[float]]] = {name: [[] for _ in PARTS] for name in WAYS}
        for seed in range(runs):
            rows = world(seed, n, n_keys, sd, level)
            ours = losses(BANK, *rows)
            for name, way in WAYS.items():
                more = losses(way, *rows) - ours
                for column, part in zip(found[name], in_parts(n), strict=True):
                    column.append(float(more[part].mean()))
        show(f"{title}: {n:,} rows, {runs} runs", {name: [np.array(c) for c in found[name]] for name in WAYS})
    sets = {
        "ImageNet, ResNet-101 then DenseNet-161, 1,000 classes": ("imagenet_resnet101_val", "imagenet_densenet161_val"),
        "CIFAR-100, ResNet-110 then DenseNet-40, 100 classes": ("resnet110_c100_test", "densenet40_c100_test"),
    }
    for title, names in sets.items():
        data = real(*names)
        if data is None:
            print(f"\n{title}: no data in {data_folder().name!r}")
            continue
        ours, n = losses(BANK, *data), len(data[0])
        differences = {}
        for name, way in WAYS.items():
            more = losses(way, *data) - ours
            differences[name] = [by_blocks(more[part], data[1][part]) for part in in_parts(n)]
        show(f"{title}: {n:,} rows", differences)
    print(f"\n{time.perf_counter() - begun:.0f} s")


def by_blocks(more: Floats, keys: Ints, blocks: int = 50) -> Floats:
    """Mean differences of 50 blocks of keys, weighted by their rows, so that their mean is that of all rows."""
    block = keys % blocks
    rows = np.bincount(block, minlength=blocks)
    return np.bincount(block, more, minlength=blocks) * blocks / rows.sum()


if __name__ == "__main__":
    main()
