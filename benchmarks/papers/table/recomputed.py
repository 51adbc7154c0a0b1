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
from data_folder import need_data

from calibrant import CalibrantWarning

Pairs = dict[str, tuple[float, float | None]]


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
    """Sizes of data sets."""
    import pyarrow.parquet as parquet

    folder = need_data("bank_marketing_response") / "bank_marketing_response"
    return {"bank rows": (float(parquet.read_metadata(folder / "bank_marketing_response.parquet").num_rows), None)}


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
    "path_checks": path_checks,
}


def compute(name: str) -> Values:
    """The values of one source, by key."""
    if name == "formulas":
        return formulas.values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return {key: Value(*pair) for key, pair in SOURCES[name]().items()}
