"""Which calibrator is best on real data: losses on test rows, by data set, base model, calibration size and method.

    python benchmarks/quality.py --quick                          # data that ship with scikit-learn, a minute
    python benchmarks/quality.py --cache folder --store ours.csv  # everything; scores of base models stay in the folder
    python benchmarks/quality.py --peers --cache folder --store peers.csv    # betacal, probcal, probmetrics as well
    python benchmarks/quality.py --read ours.csv peers.csv        # the tables, from stored losses

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`; its README says where they come from). A
base model is fitted once to two fifths of the rows of a data set, at most 10,000; its scores on the others, at most
40,000, are the pool. Each repetition draws calibration rows from the pool, and up to 20,000 of the others are the test
rows. Losses are averaged over repetitions; a table gives the mean over cases (data set and base model) of the log loss
and the Brier score, and the mean rank with its standard error over cases. Nothing here is timed.

Simulated cases (`quality_worlds.py`) have a known truth: events of 0.1 %, 0.5 % and 2 % with several distortions,
calibrated models, and segments. There a case is one draw, and losses are above that of the truth's event rate.

Exit code 1 if `calibrate` (with segments `calibrate(by=)`) does not have the lowest mean rank of the log loss at each
size and event rate, or one within two standard errors of the lowest; if it is worse than the original model by more
than 0.002 nats in the mean of a real data set and size; or if on calibrated worlds it is worse than the original model
by more than 1 % of the entropy in the mean.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data_folder import need_data
from numpy.typing import NDArray
from quality_worlds import (
    BY_SEGMENT,
    CALIBRATED,
    COMMON,
    RATES,
    SEGMENT_SETS,
    Line,
    entropy,
    every_world,
    rate_of,
)
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from calibrant import (
    AutoCalibrator,
    BetaScaling,
    HistogramBinning,
    IsotonicCalibrator,
    PlattScaling,
    SplineCalibrator,
    TemperatureScaling,
    VennAbers,
)
from calibrant.calibrators import BayesianBinning, BinwiseShift, IsotonicBinning, LogitShift, ScalingBinning

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Method = Callable[[Floats, Labels, Floats], Floats]
"""From calibration scores, their labels and test scores to calibrated test scores."""

HELD = 1e-7
"""Probabilities are held this far from 0 and 1 before the log loss is taken, for every method alike."""

MOST_HARM = 0.002
"""Nats by which `calibrate` may be worse than the original model, in the mean of a data set and size."""

MOST_EXCESS = 0.01
"""Share of the entropy by which `calibrate` may be worse than a calibrated model, in the mean of a size."""

BEHIND = 2.0
"""Standard errors by which the mean rank of `calibrate` may be above the lowest."""

COLUMNS = ["set", "model", "size", "draw", "method", "log loss", "brier"]
CASE = ["set", "model", "size", "draw"]
WORLDS = [*RATES, *COMMON, *SEGMENT_SETS]

TRAINING_SHARE, MOST_TRAINING_ROWS, MOST_SVM_ROWS = 0.4, 10_000, 3_000
MOST_POOL_ROWS, MOST_TEST_ROWS, FEWEST_TEST_ROWS = 40_000, 20_000, 150
SIZES, QUICK_SIZES = (100, 300, 1_000, 3_000, 10_000), (100, 300)
REPETITIONS, QUICK_REPETITIONS = 20, 3

UCI = "uci_classification/"
# File below the data folder, the column of the label, its values that are the event, columns to drop.
SETS: Mapping[str, tuple[str, str, Sequence[object], Sequence[str]]] = {
    "credit default": ("credit_default/credit_default.parquet", "default payment next month", [1], ["ID"]),
    "churn": ("customer_churn/customer_churn.parquet", "Exited", [1], ["RowNumber", "CustomerId", "Surname"]),
    "bank response": ("bank_marketing_response/bank_marketing_response.parquet", "y", ["yes"], ["ID"]),
    "cover type 2": ("covtype/covtype.parquet", "Cover_Type", [2], []),
    "electricity": ("elec2/elec2.parquet", "class", ["UP"], []),
    "bank marketing": (UCI + "bank-marketing.parquet", "y", ["yes"], ["duration"]),
    "car": (UCI + "car-evaluation.parquet", "class", ["acc", "good", "vgood"], []),
    "credit rating": (UCI + "credit-rating.parquet", "class", ["+"], []),
    "cylinder bands": (UCI + "cylinder-bands.parquet", "band_type", ["band"], ["timestamp", "customer", "job_number"]),
    "german credit": (UCI + "german-credit.parquet", "class", ["bad"], []),
    "nursery": (UCI + "nursery.parquet", "class", ["priority"], []),
    "odd optical digits": (UCI + "optdigits.parquet", "class", [1, 3, 5, 7, 9], []),
    "odd pen digits": (UCI + "pendigits.parquet", "class", [1, 3, 5, 7, 9], []),
    "page blocks": (UCI + "page-blocks.parquet", "class", [2, 3, 4, 5], []),
    "phishing": (UCI + "phishing.parquet", "Result", [1], []),
    "pima": (UCI + "pima-diabetes.parquet", "class", ["tested_positive"], []),
    "pulsars": (UCI + "htru2.parquet", "class", [1], []),
    "shuttle": (UCI + "shuttle.parquet", "class", [4, 5], ["split"]),
    "sick": (UCI + "sick.parquet", "Class", ["sick"], []),
    "spam": (UCI + "spambase.parquet", "class", [1], []),
    "tic-tac-toe": (UCI + "tic-tac-toe.parquet", "Class", ["negative"], []),
    "yeast": (UCI + "yeast.parquet", "class", ["CYT"], ["name"]),
}
QUICK_SETS = ("breast cancer", "odd digits")
"""They come with scikit-learn, so that every machine has them."""

MODELS: Mapping[str, Callable[[], ClassifierMixin]] = {
    "logistic": lambda: LogisticRegression(max_iter=1_000),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "naive Bayes": GaussianNB,
    "svm": lambda: SVC(random_state=0),
}


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


def sklearn_peer(method: str) -> Method:
    """scikit-learn's calibrator of this name."""

    def run(scores: Floats, y: Labels, new: Floats) -> Floats:
        wrapped = CalibratedClassifierCV(FrozenEstimator(_Scores()), method=method)
        return np.asarray(wrapped.fit(scores[:, None], y).predict_proba(new[:, None])[:, 1])

    return run


def ours(make: Callable[[], Any]) -> Method:
    """A calibrator of this package."""
    return lambda scores, y, new: np.asarray(make().fit(scores, y, score_type="probability").transform(new))


OURS: Mapping[str, Method] = {
    "keep the model": lambda scores, y, new: new,
    "calibrate": ours(AutoCalibrator),
    "LogitShift": ours(LogitShift),
    "TemperatureScaling": ours(TemperatureScaling),
    "PlattScaling": ours(PlattScaling),
    "BetaScaling": ours(BetaScaling),
    "SplineCalibrator": ours(SplineCalibrator),
    "IsotonicCalibrator": ours(IsotonicCalibrator),
    "centered isotonic": ours(lambda: IsotonicCalibrator(centered=True)),
    "IsotonicBinning": ours(IsotonicBinning),
    "HistogramBinning": ours(HistogramBinning),
    "ScalingBinning": ours(ScalingBinning),
    "BinwiseShift": ours(BinwiseShift),
    "BayesianBinning": ours(BayesianBinning),
    "VennAbers": ours(VennAbers),
    "sklearn sigmoid": sklearn_peer("sigmoid"),
    "sklearn isotonic": sklearn_peer("isotonic"),
    "sklearn temperature": sklearn_peer("temperature"),
}


def betacal_peer(scores: Floats, y: Labels, new: Floats) -> Floats:
    """The package of the authors of beta calibration."""
    from betacal import BetaCalibration

    return np.asarray(BetaCalibration("abm").fit(scores[:, None], y).predict(new[:, None]))


def probcal_peer(name: str) -> Method:
    """A calibrator of probcal, by the name of its class."""

    def run(scores: Floats, y: Labels, new: Floats) -> Floats:
        import probcal

        try:
            return np.asarray(getattr(probcal, name)().fit(scores, y).predict_proba(new))
        except ValueError:  # too few of a class for its folds: its user is left with the original model
            return new

    return run


def probmetrics_peer(name: str) -> Method:
    """A calibrator of probmetrics, by the name of its method."""

    def run(scores: Floats, y: Labels, new: Floats) -> Floats:
        from probmetrics.calibrators import get_calibrator

        fitted = get_calibrator(name).fit(np.column_stack([1.0 - scores, scores]), y)
        return np.asarray(fitted.predict_proba(np.column_stack([1.0 - new, new])))[:, 1]

    return run


PEERS: Mapping[str, Method] = {
    "betacal": betacal_peer,
    "probcal selector": probcal_peer("CalibratorSelector"),
    "probcal spline": probcal_peer("SplineCalibrator"),
    "probcal venn-abers": probcal_peer("VennAbersCalibrator"),
    "probmetrics affine": probmetrics_peer("affine-scaling"),
    "probmetrics quadratic": probmetrics_peer("quadratic-scaling"),
    "probmetrics logistic-mix": probmetrics_peer("logistic-mix"),
    "probmetrics ts-mix": probmetrics_peer("ts-mix"),
}


def every_method() -> dict[str, Method]:
    """Ours and the peers, by name."""
    return {**OURS, **PEERS}


# ------------------------------------------------------------------------------------------------------ the base models


def pool(data: Path, name: str, model: str, cache: Path | None) -> tuple[Floats, Labels]:
    """Scores and labels of rows that the base model has not seen, from the cache where they are there."""
    kept = None if cache is None else cache / f"{name}-{model}.npz".replace(" ", "_")
    if kept is not None and kept.exists():
        stored = np.load(kept)
        return stored["scores"], stored["y"]
    features, y = features_of(data, name)
    order = np.random.default_rng(0).permutation(len(y))
    share = int(TRAINING_SHARE * len(y))
    train = order[: min(share, MOST_SVM_ROWS if model == "svm" else MOST_TRAINING_ROWS)]
    rest = order[share : share + MOST_POOL_ROWS]
    fitted = make_pipeline(_prepared(features), MODELS[model]()).fit(features.iloc[train], y[train])
    if hasattr(fitted, "predict_proba"):
        scores = np.asarray(fitted.predict_proba(features.iloc[rest])[:, 1], dtype=np.float64)
    else:  # margins, read as log-odds, as people do
        scores = expit(fitted.decision_function(features.iloc[rest]))
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, scores=scores, y=y[rest])
    return scores, y[rest]


def features_of(data: Path, name: str) -> tuple[pd.DataFrame, Labels]:
    """Features and labels of a data set."""
    if name == "breast cancer":
        frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
        return frame, y.to_numpy().astype(np.int64)
    if name == "odd digits":
        frame, y = load_digits(return_X_y=True, as_frame=True)
        return frame, (y.to_numpy() % 2).astype(np.int64)
    file, label, events, dropped = SETS[name]
    frame = pd.read_parquet(data / file)
    y = frame[label].astype(str).isin([str(event) for event in events]).to_numpy().astype(np.int64)
    if not 0 < y.mean() < 1:
        raise SystemExit(f"{name}: no row, or every row, has {label} among {events}")
    return frame.drop(columns=[label, *dropped]), y


def _prepared(frame: pd.DataFrame) -> object:
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


def one_case(
    scores: Floats, y: Labels, size: int, repetitions: int, methods: Mapping[str, Method]
) -> list[tuple[str, float, float]]:
    """Method, log loss and Brier score, averaged over repetitions; nothing where there are too few rows."""
    if len(y) - size < FEWEST_TEST_ROWS:
        return []
    made = []
    for repetition in range(repetitions):
        order = np.random.default_rng([size, repetition]).permutation(len(y))
        rows, test = order[:size], order[size : size + MOST_TEST_ROWS]
        if not 0 < y[rows].sum() < size:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.append([losses(run(scores[rows], y[rows], scores[test]), y[test]) for run in methods.values()])
    means = np.mean(made, axis=0) if made else []
    return [(name, float(log_loss), float(brier)) for name, (log_loss, brier) in zip(methods, means, strict=False)]


def one_pool(job: tuple[Path, str, str, Path | None, Sequence[int], int, Sequence[str]]) -> list[Line]:
    """All sizes of one data set and base model."""
    data, name, model, cache, sizes, repetitions, methods = job
    scores, y = pool(data, name, model, cache)
    chosen = {method: every_method()[method] for method in methods}
    return [
        (name, model, size, 0, method, log_loss, brier)
        for size in sizes
        for method, log_loss, brier in one_case(scores, y, size, repetitions, chosen)
    ]


# ---------------------------------------------------------------------------------------------------------- the tables


def ranks(values: Floats) -> Floats:
    """Rank of each method in each case, ties shared."""
    below = (values[:, None, :] < values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return below + (equal + 1) / 2


def table(title: str, found: pd.DataFrame) -> str:
    """Mean losses and mean ranks by method over the cases that every method has."""
    wide = found.pivot(index=CASE, columns="method", values=["log loss", "brier"]).dropna()
    methods = list(wide["log loss"].columns)
    values = np.stack([wide["log loss"].to_numpy(), wide["brier"].to_numpy()], axis=2)
    lines = [
        f"{title}: {len(values)} cases",
        f"{'method':<26}{'log loss':>10}{'rank':>8} (se)  {'Brier':>10}{'rank':>8} (se)",
    ]
    ranked = np.stack([ranks(values[:, :, loss]) for loss in (0, 1)], axis=2)
    errors = ranked.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(ranked.shape[1:], np.nan)
    means, places = values.mean(axis=0), ranked.mean(axis=0)
    for j in np.argsort(places[:, 0]):
        parts = [f"{means[j, k]:>10.5f}{places[j, k]:>8.2f} ({errors[j, k]:.2f})" for k in (0, 1)]
        lines.append(f"{methods[j]:<26}{'  '.join(parts)}")
    return "\n".join(lines)


def worst(found: pd.DataFrame) -> str:
    """Where `calibrate` lost most against the original model, by data set and size, averaged over base models."""
    rows = [f"  {name}, {size:,} rows: {value:+.5f}" for (name, size), value in _against_keeping(found).head(5).items()]
    return "\n".join(["calibrate minus the original model, in log loss, where it does worst:", *rows])


def places(found: pd.DataFrame) -> str:
    """How often each single map of ours is first, and among the first three, by log loss."""
    single = [name for name in OURS if name != "calibrate" and not name.startswith("sklearn")]
    wide = found.pivot(index=CASE, columns="method", values="log loss")
    ranked = wide[[name for name in single if name in wide]].rank(axis=1)
    counts = pd.DataFrame({"first": (ranked == 1).sum(), "first three": (ranked <= 3).sum()})
    printed = counts.sort_values("first", ascending=False).rename_axis(None).to_string()
    return f"single maps of ours by log loss in {len(ranked)} cases, without ties for the first place:\n{printed}"


def calibrated_worlds(found: pd.DataFrame) -> pd.DataFrame:
    """Excess of `calibrate` over a calibrated model, in % of the entropy: mean, standard error, 95th percentile."""
    lines = []
    for (name, size), part in found[found["model"] == CALIBRATED].groupby(["set", "size"], sort=False):
        losses = part.pivot(index="draw", columns="method", values="log loss")
        excess = 100.0 * (losses[_ours_in(losses)] - losses["keep the model"]).dropna() / entropy(rate_of(name))
        lines.append(
            (name, size, len(excess), excess.mean(), excess.sem(), excess.quantile(0.95), (excess == 0).mean())
        )
    columns = ["set", "size", "draws", "mean excess %", "se", "95th percentile %", "share kept"]
    return pd.DataFrame(lines, columns=columns).set_index(["set", "size"])


def _ours_in(columns: Any) -> str:
    """What is compared with others: `calibrate`, by segment where there are segments."""
    return BY_SEGMENT if BY_SEGMENT in columns else "calibrate"


def _against_keeping(found: pd.DataFrame) -> pd.Series:
    by_set = found.pivot_table(index=["set", "size"], columns="method", values="log loss")
    return (by_set["calibrate"] - by_set["keep the model"]).sort_values(ascending=False)


def behind(title: str, found: pd.DataFrame) -> list[str]:
    """A sentence where `calibrate` does not have the lowest mean rank of the log loss, nor one near it."""
    wide = found.pivot(index=CASE, columns="method", values="log loss").dropna()
    ranked = pd.DataFrame(ranks(wide.to_numpy()), columns=wide.columns)
    own, first = _ours_in(wide), ranked.mean().idxmin()
    late = ranked[own] - ranked[first]
    if late.mean() <= BEHIND * late.sem() or first == own:
        return []
    return [f"{title}: {own} has rank {ranked[own].mean():.2f}, behind {first} with {ranked[first].mean():.2f}"]


def failures(real: pd.DataFrame, worlds: pd.DataFrame) -> list[str]:
    """What the exit code is about, a sentence each."""
    missed = []
    if len(real):
        missed += [
            f"{name}, {size:,} rows: worse than the original model by {value:.5f}"
            for (name, size), value in _against_keeping(real).items()
            if value > MOST_HARM
        ]
        for title, part in [("all sizes", real), *((f"{size:,} rows", part) for size, part in real.groupby("size"))]:
            missed += behind(title, part)
    for (name, size), part in worlds[~worlds["set"].isin(COMMON)].groupby(["set", "size"], sort=False):
        missed += behind(f"{name}, {size:,} rows", part)
    for (name, size), line in calibrated_worlds(worlds).iterrows():
        if line["mean excess %"] > 100.0 * MOST_EXCESS:
            missed.append(f"{name}, {size:,} rows, calibrated: worse by {line['mean excess %']:.2f} % of the entropy")
    return missed


def show(real: pd.DataFrame, worlds: pd.DataFrame) -> None:
    """Print all tables."""
    for size, part in real.groupby("size"):
        print("\n" + table(f"{size:,} calibration rows", part))
    if len(real):
        print("\n" + table("all sizes", real))
    for (name, size), part in worlds[~worlds["set"].isin(COMMON)].groupby(["set", "size"], sort=False):
        print("\n" + table(f"{name}, {size:,} calibration rows", part))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two data sets of scikit-learn, two sizes, 3 repetitions")
    parser.add_argument("--peers", action="store_true", help="the peers alone: betacal, probcal, probmetrics")
    parser.add_argument("--cache", type=Path, help="folder that keeps the scores of base models")
    parser.add_argument("--store", type=Path, help="CSV file that the losses are written to")
    parser.add_argument("--read", nargs="+", type=Path, help="CSV files of losses; nothing is run")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--models", nargs="+", choices=list(MODELS))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=["data", "worlds"], help="real data alone, or simulated cases alone")
    given = parser.parse_args()
    found = read(given.read) if given.read else run(given)
    if given.store:
        found.to_csv(given.store, index=False, float_format="%.8f")
    simulated = found["set"].isin(WORLDS)
    real, worlds = found[~simulated], found[simulated]
    show(real, worlds)
    if not {"calibrate", "keep the model"} <= set(found["method"]):
        return
    if len(real):
        print("\n" + places(real) + "\n\n" + worst(real))
    if len(worlds):
        printed = calibrated_worlds(worlds).to_string(float_format="%.3f")
        print(f"\ncalibrated worlds, calibrate minus the original model in log loss:\n{printed}")
    missed = failures(real, worlds)
    fine = "calibrate is first, or within two standard errors, at every size and event rate, and does no harm"
    print("\n" + "\n".join(missed or [fine]))
    if missed:
        sys.exit(1)


def run(given: argparse.Namespace) -> pd.DataFrame:
    """Losses of every case."""
    methods = given.methods or list(PEERS if given.peers else OURS)
    lines = [] if given.only == "worlds" else run_data(given, methods)
    if given.only != "data":
        known = {name: method for name, method in every_method().items() if name in methods}
        lines += every_world(known, given.quick)
    return pd.DataFrame(lines, columns=COLUMNS)


def run_data(given: argparse.Namespace, methods: Sequence[str]) -> list[Line]:
    """Losses on real data."""
    sets = given.sets or (QUICK_SETS if given.quick else [*SETS, *QUICK_SETS])
    data = need_data(*(SETS[name][0].split("/")[0] for name in sets if name in SETS))
    sizes = given.sizes or (QUICK_SIZES if given.quick else SIZES)
    repetitions = given.repetitions or (QUICK_REPETITIONS if given.quick else REPETITIONS)
    jobs = [
        (data, name, model, given.cache, sizes, repetitions, methods)
        for name in sets
        for model in given.models or MODELS
    ]
    lines: list[Line] = []
    with ProcessPoolExecutor(given.jobs) as workers:
        for job, made in zip(jobs, workers.map(one_pool, jobs), strict=True):
            print(f"{job[1]}, {job[2]}: {len(made) // len(methods)} sizes", file=sys.stderr, flush=True)
            lines += made
    return lines


def read(files: Sequence[Path]) -> pd.DataFrame:
    """Stored losses; of a method that is in several files the first."""
    joined = pd.concat([pd.read_csv(file) for file in files]).fillna({"draw": 0})
    return joined.drop_duplicates([*CASE, "method"])


if __name__ == "__main__":
    main()
