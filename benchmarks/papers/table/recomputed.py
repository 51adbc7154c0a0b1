"""Our values that are worked out when the table is made, because no stored output has them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import numpy as np
from outputs import Value, Values

PAPERS = Path(__file__).parents[1]
sys.path[:0] = [str(PAPERS), str(PAPERS.parent)]

import ch1
import ch4
import ch9
import estimators
import formulas
from data_folder import need_data
from sklearn.ensemble import RandomForestRegressor

from calibrant import CalibrantWarning
from calibrant.conformal import QOOB, Quantiles, SplitConformal

Pairs = dict[str, tuple[float, float | None]]
VERSIONS, TEST = 10, 5_000


def _mean(runs: list[dict[str, float]]) -> Pairs:
    """Means and standard errors over runs."""
    columns = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    return {key: (float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x)))) for key, x in columns.items()}


def more_ch9() -> Pairs:
    """Table 9.4 and Figure 9.4c, which the stored run of chapter 9 does not have."""
    X, y = ch9.rows_of("blog", need_data("qoob_blog"))
    blog = _mean([_table_94(X, y, seed) for seed in range(VERSIONS)])
    return {f"blog/{key}": pair for key, pair in blog.items()} | {
        f"simulated/{key}": pair for key, pair in _mean([_figure_94(seed) for seed in range(VERSIONS)]).items()
    }


def _table_94(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    drawn = np.random.default_rng(seed).choice(len(y), ch9.ROWS, replace=False)
    fit, test = drawn[: ch9.FITTED], drawn[ch9.FITTED :]
    forest = RandomForestRegressor(ch9.TREES, min_samples_leaf=3, max_features=1 / 3, random_state=seed)
    method = QOOB(forest, alpha=ch9.ALPHA, beta=0.5, draw_trees=False, random_state=seed).fit(X[fit], y[fit])
    out = {}
    for aggregate in ("set", "hull", "plus"):
        method.aggregate = aggregate
        found = method.predict_sets(X[test]).summary(y[test])
        out |= {f"width/{aggregate}": found.mean_width, f"coverage/{aggregate}": found.coverage}
    out["width/hull - set"] = out["width/hull"] - out["width/set"]
    out["width/plus - hull"] = out["width/plus"] - out["width/hull"]
    return out


def _figure_94(seed: int) -> dict[str, float]:
    """Section 9.6.5: 300 rows to fit, one feature, leaves of at least 40 rows, quantiles of level alpha."""
    rng = np.random.default_rng(seed)
    x = rng.random(300 + TEST)
    y = rng.poisson(np.sin(x) ** 2 + 0.1) + 0.03 * x * rng.normal(size=len(x))
    y = y + 25 * (rng.random(len(x)) < 0.01) * rng.normal(size=len(x))
    X, fit, test = x[:, None], slice(0, 300), slice(300, None)
    forest = RandomForestRegressor(ch9.TREES, min_samples_leaf=40, random_state=seed)
    options = {"alpha": ch9.ALPHA, "random_state": seed}
    out = {}
    for name, method in (
        ("QOOB", QOOB(forest, beta=ch9.ALPHA, draw_trees=False, **options)),
        ("Split-CQR", SplitConformal(forest, family=Quantiles(ch9.ALPHA), calibration_share=0.5, **options)),
    ):
        found = method.fit(X[fit], y[fit]).predict_sets(X[test]).summary(y[test])
        out |= {f"width/{name}": found.mean_width, f"coverage/{name}": found.coverage}
    return out | {"width/QOOB - Split-CQR": out["width/QOOB"] - out["width/Split-CQR"]}


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
    return {"ratio/median": (float(np.median(ratios)), float(np.std(ratios))), "ratio/least": (float(min(ratios)), None)}


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
    return {
        "monotone": (float(deeper[there].mean()), None),
        "top label": (float(np.abs(last - leaf.transform(case.test)[:, 0]).max()), None),
    }


SOURCES: dict[str, Callable[[], Pairs]] = {
    "ch1": ch1.values,
    "ch4": ch4.values,
    "estimators": estimators.values,
    "more_ch9": more_ch9,
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
