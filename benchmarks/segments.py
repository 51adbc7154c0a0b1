"""Segments: how far off the worst one is, before and after, beside MCGrad on the same rows.

    python benchmarks/segments.py --quick                     # one repetition
    OMP_NUM_THREADS=1 python benchmarks/segments.py --peers   # the stored table; --peers needs `pip install mcgrad`

Worlds: 200 segments of about 500 rows; log-odds of the scores are normal, mean -1 and deviation 1.3. In "ten off" seven
segments have their level off by 0.5 to 1, either way, and three their slope, 0.5 or 1.8; the other 190 are right. In
"all differ" levels are normal with deviation 0.3 and slopes with 0.15. In "none off" nothing is wrong. The truth is
known, so errors are computed without noise, on 400 quantiles of the scores in each segment: "worst level" is the
largest |mean predicted - mean true| of a segment, "worst curve" the largest mean |predicted - true|, "excess" the mean
log loss above that of the truth, in thousandths of a nat.

Data: a model without the segment columns is fitted to a third of the rows, calibrators to another, and all are judged
on the last. Errors of a segment have the variance of its labels removed, sqrt(max((observed - predicted)^2 - v, 0)),
before the largest is taken, over segments of at least 100 test rows; losses are in thousandths of a nat above the
best. Data are those that `CALIBRANT_DATA` names (by default `../shared/data`).
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from data_folder import need_data
from numpy.typing import NDArray
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from calibrant import AutoCalibrator, SegmentCalibrator
from calibrant.numerics import expit

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.object_]]
Method = Callable[[Floats, NDArray[np.bool_], Columns], Callable[[Floats, Columns], Floats]]
"""From scores, labels and segments to a function from scores and segments to probabilities."""

SEGMENTS, ROWS_PER_SEGMENT, QUANTILES = 200, 500, 400
CENTRE, SPREAD = -1.0, 1.3
REPETITIONS, QUICK_REPETITIONS = 5, 1
FEWEST_ROWS = 100


def as_it_is(scores: Floats, y: NDArray[np.bool_], by: Columns) -> Callable[[Floats, Columns], Floats]:
    return lambda new, segments: new


def one_map(scores: Floats, y: NDArray[np.bool_], by: Columns) -> Callable[[Floats, Columns], Floats]:
    cal = AutoCalibrator().fit(scores, y, score_type="probability")
    return lambda new, segments: cal.transform(new)


def segmented(mode: str) -> Method:
    def fit(scores: Floats, y: NDArray[np.bool_], by: Columns) -> Callable[[Floats, Columns], Floats]:
        cal = SegmentCalibrator(segment_method=mode).fit(scores, y, by, score_type="probability")  # type: ignore[arg-type]
        return lambda new, segments: cal.transform(new, segments)

    return fit


def mcgrad(scores: Floats, y: NDArray[np.bool_], by: Columns) -> Callable[[Floats, Columns], Floats]:
    from mcgrad.methods import MCGrad

    model = MCGrad()
    frame = pd.DataFrame(dict(by)).assign(score=scores, label=y.astype(int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, "score", "label", categorical_feature_column_names=list(by))

    def apply(new: Floats, segments: Columns) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = pd.DataFrame(dict(segments)).assign(score=new)
            return np.asarray(model.predict(rows, "score", categorical_feature_column_names=list(by)), dtype=np.float64)

    return apply


METHODS: dict[str, Method] = {
    "as it is": as_it_is,
    "one map (AutoCalibrator)": one_map,
    "shrink": segmented("shrink"),
    "multicalibrate": segmented("multicalibrate"),
}


# --------------------------------------------------------------------------------------------------------------- worlds


def lines(world: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Level and slope deviation of each segment."""
    level, stretch = np.zeros(SEGMENTS), np.zeros(SEGMENTS)
    if world == "ten off":
        level[:7] = rng.uniform(0.5, 1.0, 7) * rng.choice([-1.0, 1.0], 7)
        stretch[7:10] = rng.choice([-0.5, 0.8], 3)
    elif world == "all differ":
        level, stretch = rng.normal(0.0, 0.3, SEGMENTS), rng.normal(0.0, 0.15, SEGMENTS)
    return level, stretch


def run_world(world: str, seed: int, methods: Mapping[str, Method]) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng([world == "ten off", seed])
    level, stretch = lines(world, rng)
    names = np.array([f"s{place:03}" for place in range(SEGMENTS)], dtype=object)

    def truth(x: Floats, place: NDArray[np.int64]) -> Floats:
        return expit(x + level[place] + stretch[place] * (x - CENTRE))

    place = rng.integers(0, SEGMENTS, SEGMENTS * ROWS_PER_SEGMENT)
    x = rng.normal(CENTRE, SPREAD, len(place))
    y = rng.random(len(place)) < truth(x, place)
    grid = stats.norm.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, CENTRE, SPREAD)
    new_x, new_place = np.tile(grid, SEGMENTS), np.repeat(np.arange(SEGMENTS), QUANTILES)
    rate = truth(new_x, new_place)
    for name, method in methods.items():
        start = time.perf_counter()
        fitted = method(expit(x), y, {"segment": names[place]})
        seconds = time.perf_counter() - start
        p = np.clip(fitted(expit(new_x), {"segment": names[new_place]}), 1e-12, 1 - 1e-12)
        off = (p - rate).reshape(SEGMENTS, QUANTILES)
        excess = rate * np.log(rate / p) + (1 - rate) * np.log((1 - rate) / (1 - p))
        yield {
            "method": name,
            "worst level": np.abs(off.mean(axis=1)).max(),
            "worst curve": np.abs(off).mean(axis=1).max(),
            "excess": 1e3 * excess.mean(),
            "seconds": seconds,
        }


# ----------------------------------------------------------------------------------------------------------------- data

# File below the data folder, label and its event, columns to drop, segment columns, the model.
DATA: dict[str, tuple[str, str, object, list[str], list[str], Callable[[], object]]] = {
    "credit default, EDUCATION and MARRIAGE, naive Bayes": (
        "credit_default/credit_default.parquet",
        "default payment next month",
        1,
        ["ID"],
        ["EDUCATION", "MARRIAGE"],
        GaussianNB,
    ),
    "credit default, EDUCATION and MARRIAGE, logistic": (
        "credit_default/credit_default.parquet",
        "default payment next month",
        1,
        ["ID"],
        ["EDUCATION", "MARRIAGE"],
        lambda: LogisticRegression(max_iter=1000),
    ),
    "bank, job, logistic": (
        "bank_marketing_response/bank_marketing_response.parquet",
        "y",
        "yes",
        ["ID"],
        ["job"],
        lambda: LogisticRegression(max_iter=1000),
    ),
}


def scored(name: str, folder: Path, seed: int) -> tuple[Floats, NDArray[np.bool_], dict[str, NDArray[np.object_]]]:
    """Scores of a model that was fitted to other rows, labels, and segments as text."""
    file, label, event, dropped, segments, model = DATA[name]
    frame = pd.read_parquet(folder / file)
    y = (frame[label] == event).to_numpy()
    by = {column: frame[column].astype(str).to_numpy(dtype=object) for column in segments}
    x = frame.drop(columns=[label, *segments, *(column for column in dropped if column in frame)])
    words = list(x.select_dtypes(exclude="number").columns)
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False, min_frequency=20)
    prepared = make_column_transformer((encode, words), remainder=StandardScaler())
    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[: len(y) // 3], order[len(y) // 3 :]
    fitted = make_pipeline(prepared, model()).fit(x.iloc[train], y[train])
    p = fitted.predict_proba(x.iloc[rest])[:, 1]
    return p, y[rest], {column: values[rest] for column, values in by.items()}


def worst_segment(p: Floats, y: NDArray[np.bool_], by: Columns) -> float:
    found = []
    for values in by.values():
        for value in np.unique(values.astype(str)):
            own = values == value
            if own.sum() >= FEWEST_ROWS:
                noise = float((p[own] * (1 - p[own])).sum()) / own.sum() ** 2
                found.append(np.sqrt(max((y[own].mean() - p[own].mean()) ** 2 - noise, 0.0)))
    return max(found)


def run_data(name: str, folder: Path, seed: int, methods: Mapping[str, Method]) -> Iterator[dict[str, object]]:
    p, y, by = scored(name, folder, seed)
    half = len(y) // 2
    seen, new = ({column: values[part] for column, values in by.items()} for part in (slice(half), slice(half, None)))
    lines = []
    for each, method in methods.items():
        start = time.perf_counter()
        fitted = method(p[:half], y[:half], seen)
        seconds = time.perf_counter() - start
        out = np.clip(fitted(p[half:], new), 1e-7, 1 - 1e-7)
        loss = -np.log(np.where(y[half:], out, 1 - out)).mean()
        worst = worst_segment(out, y[half:], new)
        lines.append({"method": each, "worst level": worst, "excess": 1e3 * loss, "seconds": seconds})
    best = min(line["excess"] for line in lines)
    yield from ({**line, "excess": line["excess"] - best} for line in lines)


# ---------------------------------------------------------------------------------------------------------------- table


def show(title: str, found: list[dict[str, object]]) -> None:
    table = pd.DataFrame(found).groupby("method", sort=False)
    means, errors = table.mean(), table.sem()
    print(f"\n{title}")
    for column in means:
        means[column] = [
            f"{mean:.1f}" if column == "seconds" else f"{mean:.4f} ±{error:.4f}"
            for mean, error in zip(means[column], errors[column], strict=True)
        ]
    print(means.to_string(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", action="store_true", help="also MCGrad, which must be installed")
    parser.add_argument("--only", default="", help="part of the names of the worlds and data to run")
    given = parser.parse_args()
    logging.disable()  # MCGrad logs a line in each of its rounds
    methods = METHODS | ({"MCGrad": mcgrad} if given.peers else {})
    repetitions = range(QUICK_REPETITIONS if given.quick else REPETITIONS)
    names = [name for name in DATA if given.only in name]
    folder = need_data(*(DATA[name][0].split("/")[0] for name in names))
    print(f"Mean over {len(repetitions)} repetitions ± its standard error; seconds are wall time of a fit")
    for world in (each for each in ("ten off", "all differ", "none off") if given.only in each):
        show(world, [line for seed in repetitions for line in run_world(world, seed, methods)])
    for name in names:
        show(name, [line for seed in repetitions for line in run_data(name, folder, seed, methods)])


if __name__ == "__main__":
    main()
