"""Scores of multiclass models on real rows, for benchmarks of multiclass calibrators: deep nets, cover types, UCI sets.

    python benchmarks/multiclass_pools.py --cache folder            # makes every pool and prints one line for each
    python benchmarks/multiclass_pools.py --quick --cache folder    # the first seed of each, the small cover types

    for case in cases(full=True, cache=Path("folder")):
        fit(case.cal, case.cal_labels, score_type=case.kind) ...

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`; its README says where they come from).

- Deep nets: stored outputs on the CIFAR test rows, cut at random into 5,000 calibration and 5,000 test rows, two seeds.
  The ResNet-50 trained with the focal loss has a validation set of its own, so it has one cut.
- Cover types: 70 of 100 rows to train, of these a tenth to calibrate, 30 to test. All seven types with a random forest
  and, in three classes (1, 2, other), with logistic regression, as in Gupta 2023, chapter 5.
- UCI sets: at most 12,000 rows, of which 40 of 100 train, 30 calibrate and 30 test, stratified, three seeds, with four
  base models. Classes of fewer than ten rows are left out: a model that has not seen a class gives it the
  probability 0, and a benchmark of calibrators would measure that.

Scores are kept as the model gives them: logits of deep nets and of logistic regression, probabilities of the others,
with the exact zeros of forests and naive Bayes. A case says which; `probabilities` and `logits` turn them round.
`shipped_cases` needs no data: it has the sets that come with scikit-learn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data_folder import need_data
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Parts = tuple[Floats, Labels, Floats, Labels]
"""Calibration scores and labels, test scores and labels."""
Table = tuple[pd.DataFrame, Labels]
"""Features and labels."""

FLOOR = 2.0**-52
"""Probabilities below this are read as this where a logarithm is taken."""

MOST_ROWS, FEWEST_OF_A_CLASS = 12_000, 10
UCI_SEEDS, NET_SEEDS = 3, 2
NET_CALIBRATION_ROWS = 5_000
FOREST_TREES, SMALL_FOREST_TREES, SMALL_COVER_ROWS = 100, 40, 60_000
OWN_VALIDATION = "cifar10_resnet50_focalloss_valtest"

UCI = "uci_classification/"
# File below the data folder, the column of the label, columns to drop.
SETS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "car": (UCI + "car-evaluation.parquet", "class", []),
    "fetal health": ("fetal_health/fetal_health.parquet", "fetal_health", []),
    "mfeat factors": (UCI + "mfeat-factors.parquet", "class", []),
    "mfeat Fourier": (UCI + "mfeat-fourier.parquet", "class", []),
    "mfeat Karhunen": (UCI + "mfeat-karhunen.parquet", "class", []),
    "mfeat morph": (UCI + "mfeat-morph.parquet", "class", []),
    "nursery": (UCI + "nursery.parquet", "class", []),
    "optical digits": (UCI + "optdigits.parquet", "class", []),
    "page blocks": (UCI + "page-blocks.parquet", "class", []),
    "pen digits": (UCI + "pendigits.parquet", "class", []),
    "phishing": (UCI + "phishing.parquet", "Result", []),
    "segment": (UCI + "segment.parquet", "class", []),
    "shuttle": (UCI + "shuttle.parquet", "class", ["split"]),
    "vowel": (UCI + "vowel.parquet", "Class", ["Train or Test"]),
    "yeast": (UCI + "yeast.parquet", "class", ["name"]),
}
SHIPPED: Mapping[str, Callable[..., Any]] = {"digits": load_digits, "wine": load_wine}

MODELS: Mapping[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(FOREST_TREES, random_state=0),
    "logistic": lambda: LogisticRegression(max_iter=1_000),
    "naive Bayes": GaussianNB,
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}


@dataclass(frozen=True)
class Case:
    """Scores of one base model on calibration and test rows; row i, column k belongs to class k of `classes`."""

    source: str
    """`deep net`, `cover type`, `uci` or `shipped`."""
    name: str
    seed: int
    kind: str
    """`logit` or `probability`: what the scores are."""
    cal: Floats
    cal_labels: Labels
    test: Floats
    test_labels: Labels
    classes: int

    def __str__(self) -> str:
        rows = f"{len(self.cal_labels):,} + {len(self.test_labels):,} rows"
        return f"{self.source}: {self.name}, seed {self.seed}: {rows}, {self.classes} classes, {self.kind}"


def probabilities(scores: Floats, kind: str) -> Floats:
    """The scores of a case as probabilities whose rows have the sum 1 in double precision."""
    return softmax(scores, axis=1) if kind == "logit" else scores / scores.sum(axis=1, keepdims=True)


def logits(scores: Floats, kind: str) -> Floats:
    """The scores of a case as logits; the logarithm stands in where probabilities are all there is."""
    return scores if kind == "logit" else np.log(np.maximum(scores, FLOOR))


# ------------------------------------------------------------------------------------------------------------ the cases


def cases(full: bool, cache: Path | None = None) -> Iterator[Case]:
    """Every case; without `full` the first seed of each, and the small cover types."""
    folder = need_data("cifar_logits", "covtype", "uci_classification")
    yield from _net_cases(folder, NET_SEEDS if full else 1)
    yield from _cover_cases(folder, full, cache)
    for name in SETS:
        yield from _set_cases("uci", name, UCI_SEEDS if full else 1, cache, partial(features_of, folder, name))


def shipped_cases(cache: Path | None = None) -> Iterator[Case]:
    """One seed of the sets that come with scikit-learn, so that every machine has them."""
    for name in SHIPPED:
        yield from _set_cases("shipped", name, 1, cache, partial(_shipped_features, name))


def _net_cases(folder: Path, seeds: int) -> Iterator[Case]:
    for file in sorted((folder / "cifar_logits").glob("*.npz")):
        stored = dict(np.load(file))
        kind = "probability" if "probs" in stored else "logit"
        name = file.stem.removesuffix("_probs").removesuffix("_test").removesuffix("_valtest")
        for seed in range(1 if file.stem == OWN_VALIDATION else seeds):
            yield _case("deep net", name, seed, kind, _net_parts(file.stem, stored, seed))


def _net_parts(stem: str, stored: Mapping[str, NDArray[Any]], seed: int) -> Parts:
    if stem == OWN_VALIDATION:
        return stored["val_logits"], stored["val_labels"], stored["test_logits"], stored["test_labels"]
    scores, labels = stored["probs" if "probs" in stored else "logits"], stored["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    cal, test = order[:NET_CALIBRATION_ROWS], order[NET_CALIBRATION_ROWS:]
    return scores[cal], labels[cal], scores[test], labels[test]


def _cover_cases(folder: Path, full: bool, cache: Path | None) -> Iterator[Case]:
    trees = FOREST_TREES if full else SMALL_FOREST_TREES
    made = {
        "cover type 7, forest": (7, "probability", RandomForestClassifier(trees, random_state=0)),
        "cover type 3, logistic": (3, "logit", MODELS["logistic"]()),
    }
    for name, (classes, kind, model) in made.items():
        size = "" if full else " small"
        parts = _kept(cache, f"{name}{size}", partial(_cover_parts, folder, classes, model, full))
        yield _case("cover type", name + size, 0, kind, parts)


def _cover_parts(folder: Path, classes: int, model: Any, full: bool) -> Parts:
    frame = pd.read_parquet(folder / "covtype" / "covtype.parquet")
    if not full:
        frame = frame.sample(SMALL_COVER_ROWS, random_state=0)
    labels = np.minimum(frame["Cover_Type"].to_numpy().astype(np.int64), classes) - 1
    features = frame.drop(columns="Cover_Type")
    rest, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=0)
    train, cal = train_test_split(rest, test_size=0.1, random_state=0)
    return _fitted_parts(model, features, labels, train, cal, test)


def _set_cases(source: str, name: str, seeds: int, cache: Path | None, read: Callable[[], Table]) -> Iterator[Case]:
    for model, make in MODELS.items():
        for seed in range(seeds):
            kind = "logit" if model == "logistic" else "probability"
            parts = _kept(cache, f"{name}, {model} {seed}", partial(_set_parts, make(), read, seed))
            yield _case(source, f"{name}, {model}", seed, kind, parts)


def _set_parts(model: Any, read: Callable[[], Table], seed: int) -> Parts:
    features, labels = read()
    rows = np.arange(len(labels))
    train, rest = train_test_split(rows, train_size=0.4, stratify=labels, random_state=seed)
    cal, test = train_test_split(rest, train_size=0.5, stratify=labels[rest], random_state=seed)
    return _fitted_parts(model, features, labels, train, cal, test)


def _case(source: str, name: str, seed: int, kind: str, parts: Parts) -> Case:
    cal, cal_labels, test, test_labels = parts
    scores = (np.asarray(cal, dtype=np.float64), np.asarray(test, dtype=np.float64))
    labels = (np.asarray(cal_labels, dtype=np.int64), np.asarray(test_labels, dtype=np.int64))
    return Case(source, name, seed, kind, scores[0], labels[0], scores[1], labels[1], cal.shape[1])


# ------------------------------------------------------------------------------------------------------ the base models


def features_of(folder: Path, name: str) -> Table:
    """Features of a data set and its labels 0, 1, ... in the order of the classes' names."""
    file, label, dropped = SETS[name]
    frame = pd.read_parquet(folder / file)
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    known = frame[frame.groupby(label)[label].transform("size") >= FEWEST_OF_A_CLASS]
    return known.drop(columns=[label, *dropped]), pd.factorize(known[label], sort=True)[0].astype(np.int64)


def _shipped_features(name: str) -> Table:
    frame, labels = SHIPPED[name](return_X_y=True, as_frame=True)
    return frame, labels.to_numpy().astype(np.int64)


def _fitted_parts(
    model: Any, features: pd.DataFrame, labels: Labels, train: Labels, cal: Labels, test: Labels
) -> Parts:
    fitted = make_pipeline(_prepared(features), model).fit(features.iloc[train], labels[train])
    score = fitted.decision_function if isinstance(model, LogisticRegression) else fitted.predict_proba
    return score(features.iloc[cal]), labels[cal], score(features.iloc[test]), labels[test]


def _prepared(frame: pd.DataFrame) -> object:
    numbers = frame.select_dtypes("number").columns
    words = frame.columns.difference(numbers)
    coded = OneHotEncoder(handle_unknown="ignore", max_categories=30, sparse_output=False)
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), coded), words),
    )


def _kept(cache: Path | None, name: str, make: Callable[[], Parts]) -> Parts:
    """The parts from the cache where they are there, else made, and kept."""
    if cache is None:
        return make()
    file = cache / f"{name}.npz".replace(",", "").replace(" ", "_")
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        cal, cal_labels, test, test_labels = make()
        np.savez(file, cal=cal, cal_labels=cal_labels, test=test, test_labels=test_labels)
    stored = np.load(file)
    return stored["cal"], stored["cal_labels"], stored["test"], stored["test_labels"]


def main() -> None:
    """Make every pool, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first seed of each, and the small cover types")
    parser.add_argument("--cache", type=Path, help="folder that keeps the scores of base models")
    given = parser.parse_args()
    start = time.perf_counter()
    for case in cases(not given.quick, given.cache):
        right = np.mean(case.test.argmax(axis=1) == case.test_labels)
        print(f"{case}; accuracy {right:.3f}; {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
