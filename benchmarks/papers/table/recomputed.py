"""Our values that are worked out when the table is made, because no stored output has them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import numpy as np
from outputs import Value, Values

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import ch1
import ch4
import estimators
import formulas
from ch9 import PRINTED, rows_of
from data_folder import need_data
from trees import SETS

from calibrant import CalibrantWarning

Pairs = dict[str, tuple[float, float | None]]
BANK = "{0}/{0}.parquet"
TABLE_41 = """
audiology,226,69,24 bank-marketing,41188,19,2 car-evaluation,1728,6,4 cervical-cancer,858,32,2 credit-rating,690,15,2
cylinder-bands,512,39,2 german-credit,1000,20,2 htru2,17898,8,2 iris,150,4,3 kr-vs-kp,3196,36,2
mfeat-factors,2000,216,10 mfeat-fourier,2000,76,10 mfeat-karhunen,2000,64,10 mfeat-morph,2000,6,10
mfeat-pixel,2000,240,10 mice-protein,1080,80,8 new-thyroid,215,5,3 nursery,12960,8,5 optdigits,5620,64,10
page-blocks,5473,10,5 pendigits,10992,16,10 phishing,1353,10,3 pima-diabetes,768,8,2 segment,2310,20,7
shuttle,58000,9,7 sick,3772,29,2 spambase,4601,57,2 taiwan-credit,30000,23,2 tic-tac-toe,958,9,2 vote,435,16,2
vowel,990,14,10 yeast,1484,8,10
"""
"""Torabian (2023), Table 4.1: instances, attributes and classes of the 32 data sets that we have."""


def networks() -> Pairs:
    """Figure 5.2: how much larger the top-label error is than the confidence error, network by network, 15 bins."""
    from multiclass_pools import cases, probabilities

    from calibrant.metrics import ece

    ratios = []
    nets = takewhile(lambda case: case.source == "deep net", cases(full=False))
    for case in (case for case in nets if case.classes == 10):
        p = probabilities(case.test, case.kind)
        score, top = p.max(axis=1), p.argmax(axis=1)
        right = (top == case.test_labels).astype(float)
        cell = np.minimum((score * 15).astype(int), 14)
        ratios.append(ece(score, right, regions=top * 15 + cell).value / ece(score, right, regions=cell).value)
    return {
        "ratio/median": (float(np.median(ratios)), float(np.std(ratios))),
        "ratio/least": (float(min(ratios)), None),
    }


def data() -> Pairs:
    """Sizes of data sets; of those of Table 4.1 of Torabian (2023), how many have the printed ones."""
    import pyarrow.parquet as parquet

    folder = need_data("bank_marketing_response", "uci_classification", *(f"qoob_{name}" for name in PRINTED))
    found = {"bank rows": parquet.read_metadata(folder / BANK.format("bank_marketing_response")).num_rows}
    for name in PRINTED:
        found |= {f"{name}/{what}": size for what, size in zip("Nd", rows_of(name, folder)[0].shape, strict=True)}
    equal = np.zeros(3)
    for line in TABLE_41.split():
        name, *sizes = line.split(",")
        target, left_out = SETS[name]
        taiwan = name == "taiwan-credit"
        file = folder / (BANK.format("credit_default") if taiwan else f"uci_classification/{name}.parquet")
        table = parquet.read_table(file)
        ours = len(table), table.num_columns - 1 - len(left_out), len(table[target].unique())
        equal += [size == int(printed) for size, printed in zip(ours, sizes, strict=True)]
    found |= dict(zip(("instances", "attributes", "classes"), equal, strict=True))
    return {key: (float(value), None) for key, value in found.items()}


def rain() -> Pairs:
    """Gupta (2022), Figure 3.1, with independent rain: the last forecast of each stream, and how soon it settles."""
    from calibrant.online import Foster99

    last, settled = [], []
    for seed in range(20):
        y = np.random.default_rng([37, seed]).random(6_000) < 0.37
        told = Foster99(epsilon=0.1, random_state=seed).forecast_many(np.full(len(y), 0.5), y)
        last.append(float(told[-1]))
        settled.append(float((np.abs(told[2_000:] - 0.35) < 1e-9).mean()))
    error = float(np.std(settled, ddof=1) / np.sqrt(len(settled)))
    return {
        "last, least": (min(last), None),
        "last, largest": (max(last), None),
        "settled": (float(np.mean(settled)), error),
    }


def reused() -> Pairs:
    """Rosenberg (2021): log loss of Platt scaling from the rows that trained the model, less that from other rows."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    from calibrant import PlattScaling
    from calibrant.metrics import log_loss

    gaps: dict[str, list[float]] = {"forest": [], "logistic": []}
    for seed in range(10):
        rng = np.random.default_rng([4, seed])
        X = rng.normal(size=(12_000, 20))
        y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-X[:, :5].sum(axis=1)))).astype(int)
        train, other, test = slice(2_000), slice(2_000, 4_000), slice(4_000, None)
        for name, model in (
            ("forest", RandomForestClassifier(50, random_state=seed)),
            ("logistic", LogisticRegression(max_iter=1_000)),
        ):
            score = model.fit(X[train], y[train]).predict_proba(X)[:, 1]
            losses = [
                log_loss(PlattScaling().fit(score[rows], y[rows]).transform(score[test]), y[test]).value
                for rows in (train, other)
            ]
            gaps[name].append(losses[0] - losses[1])
    return {
        name: (float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))) for name, each in gaps.items()
    }


def path_checks() -> Pairs:
    """Two properties of path calibration, on the synthetic tree of benchmarks/paths.py."""
    import paths

    from calibrant.multiclass import PathCalibrator, TopLabelHistogramBinning

    case = next(paths.synthetic((5_000,), 1))
    options = {"classes": case.tree.leaves, "score_type": case.kind}
    forecast = PathCalibrator(case.tree).fit(case.cal, case.cal_labels, **options).forecast(case.test)
    p = forecast.probabilities
    deeper, there = p[:, 1:] <= p[:, :-1] + 1e-12, ~np.isnan(p[:, 1:])
    at_leaf = np.array([code in case.tree.leaves for code in case.cal_labels])
    leaf = TopLabelHistogramBinning(points_per_bin=100).fit(case.cal[at_leaf], case.cal_labels[at_leaf], **options)
    same = PathCalibrator(case.tree).fit(case.cal[at_leaf], case.cal_labels[at_leaf], **options).forecast(case.test)
    last = same.probabilities[np.arange(len(same.nodes)), (same.nodes >= 0).sum(axis=1) - 1]
    codes, rows = np.unique(case.cal[at_leaf].argmax(axis=1), return_counts=True)
    own = np.isin(case.test.argmax(axis=1), codes[rows >= 200])  # rarer leaves share bins, which the proposal has not
    return {
        "monotone": (float(deeper[there].mean()), None),
        "top label": (float(np.abs(last - leaf.transform(case.test)[:, 0])[own].max()), None),
    }


SOURCES: dict[str, Callable[[], Pairs]] = {
    "ch1": ch1.values,
    "ch4": ch4.values,
    "estimators": estimators.values,
    "networks": networks,
    "data": data,
    "rain": rain,
    "reused": reused,
    "path_checks": path_checks,
}


def compute(name: str) -> Values:
    """The values of one source, by key."""
    if name == "formulas":
        return formulas.values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return {key: Value(*pair) for key, pair in SOURCES[name]().items()}
