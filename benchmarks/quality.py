"""Which calibrator is best on real data: losses on test rows, by data set, base model, calibration size and method.

    python benchmarks/quality.py --quick                      # two data sets, two models, a minute
    python benchmarks/quality.py --cache folder [--sets ...]  # everything; scores of base models are kept in the folder

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`; its README says where they come from). A
base model is fitted once to half of the rows of a data set, at most 20,000; its scores on the other half are the pool.
Each repetition draws calibration rows from one half of the pool, and the other half is the test set. The table gives
the mean log loss and Brier score, and the mean rank over all cases, each with the standard error over cases (mean over
repetitions first, as repetitions share their test rows). Nothing here is timed.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from calibrant import (
    AutoCalibrator,
    BetaScaling,
    CalibrantWarning,
    HistogramBinning,
    IsotonicCalibrator,
    LevelShift,
    PlattScaling,
    ScalingBinning,
    SplineCalibrator,
    TemperatureScaling,
    VennAbers,
)

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Method = Callable[[Floats, Labels, Floats], Floats]
"""From calibration scores, their labels and test scores to calibrated test scores."""

HELD = 1e-7
"""Probabilities are held this far from 0 and 1 before the log loss is taken, for every method alike."""

MOST_TRAINING_ROWS = 20_000
SIZES, QUICK_SIZES = (100, 300, 1_000, 3_000, 10_000), (300, 1_000)
REPETITIONS, QUICK_REPETITIONS = 10, 3

# Folder or file below the data folder, the column of the label, its value that is the event, columns to drop.
SETS: Mapping[str, tuple[str, str, object, Sequence[str]]] = {
    "credit default": ("credit_default/credit_default.parquet", "default payment next month", 1, ("ID",)),
    "churn": ("customer_churn/customer_churn.parquet", "Exited", 1, ("RowNumber", "CustomerId", "Surname")),
    "bank": ("bank_marketing_response/bank_marketing_response.parquet", "y", "yes", ("ID",)),
    "electricity": ("elec2/elec2.parquet", "class", "UP", ()),
    "spambase": ("uci_classification/spambase.parquet", "class", "1", ()),
    "pulsars": ("uci_classification/htru2.parquet", "class", "1", ()),
    "german credit": ("uci_classification/german-credit.parquet", "class", "bad", ()),
    "cover type 2": ("covtype/covtype.parquet", "Cover_Type", 2, ()),
}
QUICK_SETS = ("churn", "credit default")

MODELS: Mapping[str, Callable[[], ClassifierMixin]] = {
    "naive Bayes": GaussianNB,
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(200, random_state=0),
    "logistic": lambda: LogisticRegression(max_iter=1_000),
}
QUICK_MODELS = ("naive Bayes", "boosting")


# -------------------------------------------------------------------------------------------------------- the methods


class _Scores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted model whose one feature is the score, so that scikit-learn's calibrators take scores."""

    def __init__(self) -> None:
        self.classes_ = np.array([0, 1])

    def fit(self, X: Floats, y: Labels) -> _Scores:
        return self

    def predict_proba(self, X: Floats) -> Floats:
        return np.column_stack([1.0 - X[:, 0], X[:, 0]])

    def predict(self, X: Floats) -> Labels:
        return (X[:, 0] > 0.5).astype(np.int64)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def peer(method: str) -> Method:
    """scikit-learn's calibrator of this name."""

    def run(scores: Floats, y: Labels, new: Floats) -> Floats:
        wrapped = CalibratedClassifierCV(FrozenEstimator(_Scores()), method=method)
        return np.asarray(wrapped.fit(scores[:, None], y).predict_proba(new[:, None])[:, 1])

    return run


def ours(make: Callable[[], object]) -> Method:
    """A calibrator of this package."""

    def run(scores: Floats, y: Labels, new: Floats) -> Floats:
        cal = make()
        return np.asarray(cal.fit(scores, y, kind="probability").transform(new))  # type: ignore[attr-defined]

    return run


METHODS: Mapping[str, Method] = {
    "keep the model": lambda scores, y, new: new,
    "calibrate": ours(AutoCalibrator),
    "LevelShift": ours(LevelShift),
    "TemperatureScaling": ours(TemperatureScaling),
    "PlattScaling": ours(PlattScaling),
    "BetaScaling": ours(BetaScaling),
    "SplineCalibrator": ours(SplineCalibrator),
    "IsotonicCalibrator": ours(IsotonicCalibrator),
    "HistogramBinning": ours(HistogramBinning),
    "ScalingBinning": ours(ScalingBinning),
    "VennAbers": ours(VennAbers),
    "sklearn sigmoid": peer("sigmoid"),
    "sklearn isotonic": peer("isotonic"),
    "sklearn temperature": peer("temperature"),
}


# ------------------------------------------------------------------------------------------------------ the base models


def pool(data: Path, name: str, model: str, cache: Path | None) -> tuple[Floats, Labels]:
    """Scores and labels of rows that the base model has not seen, from the cache where they are there."""
    kept = None if cache is None else cache / f"{name}-{model}.npz".replace(" ", "_")
    if kept is not None and kept.exists():
        stored = np.load(kept)
        return stored["scores"], stored["y"]
    file, label, event, dropped = SETS[name]
    frame = pd.read_parquet(data / file)
    y = (frame[label].astype(str) == str(event)).to_numpy().astype(np.int64)
    if not 0 < y.mean() < 1:
        raise SystemExit(f"{name}: no row, or every row, has {label} == {event!r}")
    features = frame.drop(columns=[label, *dropped])
    order = np.random.default_rng(0).permutation(len(y))
    half = len(y) // 2
    train, rest = order[: min(half, MOST_TRAINING_ROWS)], order[half:]
    fitted = make_pipeline(_features(features), MODELS[model]()).fit(features.iloc[train], y[train])
    scores = np.asarray(fitted.predict_proba(features.iloc[rest])[:, 1], dtype=np.float64)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, scores=scores, y=y[rest])
    return scores, y[rest]


def _features(frame: pd.DataFrame) -> object:
    numbers = frame.select_dtypes("number").columns
    words = frame.columns.difference(numbers)
    coded = OneHotEncoder(handle_unknown="ignore", max_categories=30, sparse_output=False)
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), coded), words),
    )


# ------------------------------------------------------------------------------------------------------------- the run


def losses(p: Floats, y: Labels) -> tuple[float, float]:
    """Mean log loss and Brier score."""
    held = np.clip(p, HELD, 1.0 - HELD)
    return float(-np.mean(np.where(y == 1, np.log(held), np.log1p(-held)))), float(np.mean((p - y) ** 2))


def one_case(scores: Floats, y: Labels, size: int, repetitions: int, methods: Sequence[str]) -> Floats | None:
    """Losses by method, averaged over repetitions; None where there are too few rows."""
    half = len(y) // 2
    if size > half:
        return None
    test = slice(half, None)
    made = []
    for repetition in range(repetitions):
        rows = np.random.default_rng([size, repetition]).permutation(half)[:size]
        if not 0 < y[rows].sum() < size:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            made.append([losses(METHODS[m](scores[rows], y[rows], scores[test]), y[test]) for m in methods])
    return np.mean(made, axis=0) if made else None


def ranks(values: Floats) -> Floats:
    """Rank of each method in each case, ties shared."""
    below = (values[:, None, :] < values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return below + (equal + 1) / 2


def table(title: str, found: Floats, methods: Sequence[str]) -> str:
    """Mean losses and mean ranks by method; ``found`` is case by method by loss."""
    lines = [
        f"{title}: {len(found)} cases",
        f"{'method':<22}{'log loss':>10}{'rank':>8} (se)  {'Brier':>10}{'rank':>8} (se)",
    ]
    ranked = np.stack([ranks(found[:, :, loss]) for loss in (0, 1)], axis=2)
    errors = ranked.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.full(ranked.shape[1:], np.nan)
    means, places = found.mean(axis=0), ranked.mean(axis=0)
    for j in np.argsort(places[:, 0]):
        parts = [f"{means[j, k]:>10.5f}{places[j, k]:>8.2f} ({errors[j, k]:.2f})" for k in (0, 1)]
        lines.append(f"{methods[j]:<22}{'  '.join(parts)}")
    return "\n".join(lines)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two data sets, two models, two sizes, three repetitions")
    parser.add_argument("--cache", type=Path, help="folder that keeps the scores of base models")
    parser.add_argument("--sets", nargs="+", choices=list(SETS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--repetitions", type=int)
    given = parser.parse_args()
    data = Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    sets = given.sets or (QUICK_SETS if given.quick else list(SETS))
    models = given.models or (QUICK_MODELS if given.quick else list(MODELS))
    sizes = given.sizes or (QUICK_SIZES if given.quick else SIZES)
    repetitions = given.repetitions or (QUICK_REPETITIONS if given.quick else REPETITIONS)
    found: dict[int, list[Floats]] = {size: [] for size in sizes}
    for name in sets:
        for model in models:
            scores, y = pool(data, name, model, given.cache)
            print(f"{name}, {model}: {len(y):,} rows, {y.mean():.1%} events", flush=True)
            for size in sizes:
                case = one_case(scores, y, size, repetitions, given.methods)
                if case is not None:
                    found[size].append(case)
    for size, cases in found.items():
        if cases:
            print("\n" + table(f"{size:,} calibration rows", np.array(cases), given.methods))
    every = [case for cases in found.values() for case in cases]
    print("\n" + table("all sizes", np.array(every), given.methods))


if __name__ == "__main__":
    main()
