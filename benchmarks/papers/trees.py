"""Chapter 4 of Torabian 2023, decision trees as calibrators: Table 4.2 and Figures 4.2, 4.3 and 4.6 beside ours.

    python benchmarks/papers/trees.py --quick        # six small data sets, 3 repetitions
    python benchmarks/papers/trees.py                # 32 of the 36 data sets of Table 4.1, 10 repetitions
    python benchmarks/papers/trees.py --repetitions 5 --stored trees.jsonl    # can be resumed

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`). Four of the 36 sets (bankruptcy,
colposcopy, hand-postures, news-popularity) are not there. Figures 4.4 and 4.5 are studied by `benchmarks/bias.py`.

Protocol, fixed before the first run. As printed: 10 repetitions, each with the rows in random order; 40.5 % of the rows
train the base model, 49.5 % the calibrator, 10 % are judged; pruning by RMSE + alpha |T| with alpha from 5-fold
cross-validation on the calibration rows; ECE with 32 bins of equal mass; validity by 10 neighbors; order 1 throughout.
Not printed, and chosen here:

- The base model is a random forest of 50 trees (leaves of 5 rows or more), its probabilities clipped to [0.005, 0.995].
- Classes: errors, AUC and validity are means over classes, each class against the rest; with two classes, of one.
  RMSE is the root of the mean square over rows and classes. A class without rows among the judged ones is left out of
  the AUC. PS (Platt scaling) and IR (isotonic regression) are fitted for each class against the rest and divided by
  their sum.
- Trees are grown by the squared error of the labels (which is the Gini index), leaves of 10 rows or more, at most 100
  leaves, without the base model's score. DT predicts the class shares of a leaf. PCT has in every node, for every
  class, a logistic curve of that class's log-odds in the base model, with a penalty (the squared distance, times 1/2)
  that holds it near the curve of the node above; rows are divided by their sum. Both are pruned, each by its own error.
- A win: the best mean over repetitions, or not significantly worse than it (5 %, two-sided) by the paired t-test that
  accounts for overlapping repetitions (Nadeau and Bengio 2003). The printed counts add up to far more than 36, so
  they are of such a kind too. Strict bests are counted beside them.
- Section 2 (Figure 4.6) has one repetition, with two generators of `benchmarks/bias.py` beside the data sets.
- Missing numbers stay missing, text becomes one column for each of its 20 most frequent values.

What the thesis does not have is added: PDE of all four methods on one partition, the leaves of DT; ECE of all on a
partition that no calibrator chose, 16 leaves of a tree grown on the rows of the base model; the same measures of the
base rate (one number for everybody); and in section 2 the PDE that a calibrated model would show in the same leaves.
This paragraph was written after a look at one repetition, and the others before.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

sys.path.insert(0, str(Path(__file__).parents[1]))

from bias import GENERATORS, Generator
from data_folder import data_folder, need_data

from calibrant import CalibrantWarning, IsotonicCalibrator, PlattScaling
from calibrant.fits.trees.growth import Pruned, Tree, pruning_path
from calibrant.metrics import auc, debiased_ece, ece, pde, tree_regions, validity_curve
from calibrant.metrics.draws import values_only

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "audiology": ("class", ()),
    "bank-marketing": ("y", ("duration",)),
    "car-evaluation": ("class", ()),
    "cervical-cancer": ("Biopsy", ("Hinselmann", "Schiller", "Cytology")),
    "credit-rating": ("class", ()),
    "cylinder-bands": ("band_type", ()),
    "german-credit": ("class", ()),
    "htru2": ("class", ()),
    "iris": ("class", ()),
    "kr-vs-kp": ("class", ()),
    "mfeat-factors": ("class", ()),
    "mfeat-fourier": ("class", ()),
    "mfeat-karhunen": ("class", ()),
    "mfeat-morph": ("class", ()),
    "mfeat-pixel": ("class", ()),
    "mice-protein": ("class", ("MouseID",)),
    "new-thyroid": ("class", ()),
    "nursery": ("class", ()),
    "optdigits": ("class", ()),
    "page-blocks": ("class", ()),
    "pendigits": ("class", ()),
    "phishing": ("Result", ()),
    "pima-diabetes": ("class", ()),
    "segment": ("class", ()),
    "shuttle": ("class", ("split",)),
    "sick": ("Class", ()),
    "spambase": ("class", ()),
    "taiwan-credit": ("default payment next month", ("ID",)),
    "tic-tac-toe": ("Class", ()),
    "vote": ("Class", ()),
    "vowel": ("Class", ()),
    "yeast": ("class", ("name",)),
}
"""Label of each data set, and columns that are not features (names, other outcomes, what is known only afterwards)."""

QUICK = ("iris", "new-thyroid", "pima-diabetes", "tic-tac-toe", "vote", "german-credit")

METHODS = ("PS", "IR", "PCT", "DT")
METRICS = ("RMSE", "loss", "AUC", "ECE", "PDE", "AUC_V")
LARGER = {"AUC", "AUC_V"}
PRINTED = {
    "PS": (21, 22, 27, 7, None, 5),
    "IR": (25, 24, 28, 14, None, 9),
    "PCT": (31, 31, 32, 26, 19, 15),
    "DT": (24, 24, 19, 21, 36, 7),
}
PRINTED_AREAS = {"PS": 0.933, "IR": 0.939, "PCT": 0.943, "DT": 0.937}

TRAIN, CALIBRATE = 0.405, 0.495
FOLDS, MIN_ROWS, MAX_LEAVES = 5, 10, 100
OTHER_LEAVES = 16
"""Leaves of the tree that no calibrator has."""
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
NEAR = 0.005
"""Difference of PDE plus loss up to which the pruned tree counts as equal to an unpruned one of its size."""

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)


# --- data -------------------------------------------------------------------------------------------------------------


def read_set(name: str) -> tuple[Floats, Ints]:
    """Features as numbers, and classes from 0; a class of a single row is dropped."""
    import pandas as pd

    folder, (label, dropped) = data_folder(), SETS[name]
    own = folder / "credit_default" / "credit_default.parquet"
    frame = pd.read_parquet(own if name == "taiwan-credit" else folder / "uci_classification" / f"{name}.parquet")
    columns = []
    for column in frame.columns.drop([label, *dropped]):
        values = frame[column]
        if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
            columns.append(values.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            columns += [(values == level).to_numpy(dtype=np.float64) for level in values.value_counts().index[:20]]
    y = np.unique(frame[label].astype(str), return_inverse=True)[1]
    kept = np.bincount(y)[y] > 1
    return np.column_stack(columns)[kept], np.unique(y[kept], return_inverse=True)[1]


# --- trees ------------------------------------------------------------------------------------------------------------


class Nodes:
    """A grown tree and what every node predicts from its own rows, as a table of classes or as curves of the scores."""

    def __init__(self, x: Floats, z: Floats, labels: Floats, curves: bool, seed: int, most: int = MAX_LEAVES) -> None:
        grown = DecisionTreeClassifier(min_samples_leaf=MIN_ROWS, max_leaf_nodes=most, random_state=seed)
        self.grown = grown.fit(x, labels.argmax(axis=1))
        nodes = grown.tree_
        none = np.zeros(nodes.node_count, dtype=bool)
        left, right = nodes.children_left.astype(np.int64), nodes.children_right.astype(np.int64)
        self.tree = Tree(nodes.feature.astype(np.int64), left * 0, left, right, none, nodes.value[:, 0])
        self.curves = curves
        self.reached = np.asarray(grown.decision_path(x).toarray(), dtype=bool).T
        self.fits: list[Any] = [None] * nodes.node_count
        for node, above in self._downward():
            rows = self.reached[node]
            start = np.array([[1.0], [0.0]]).repeat(z.shape[1], axis=1) if above < 0 else self.fits[above]
            self.fits[node] = curve_of(z[rows], labels[rows], start) if curves else labels[rows].mean(axis=0)
        self.costs = self.errors(z, labels, self.reached)

    def _downward(self) -> list[tuple[int, int]]:
        order = [(0, -1)]
        for node, _ in order:
            if self.tree.left[node] >= 0:
                order += [(int(self.tree.left[node]), node), (int(self.tree.right[node]), node)]
        return order

    def predict(self, node: int, z: Floats) -> Floats:
        return predicted(self.fits[node], z) if self.curves else np.broadcast_to(self.fits[node], z.shape)

    def errors(self, z: Floats, labels: Floats, reached: NDArray[np.bool_]) -> Floats:
        """Squared error of each node on the rows that reach it."""
        sums = [((self.predict(node, z[rows]) - labels[rows]) ** 2).sum() for node, rows in enumerate(reached)]
        return np.array(sums)

    def leaves(self, leaf: NDArray[np.bool_]) -> list[int]:
        """Nodes at which the pruned tree ends."""
        found, waiting = [], [0]
        while waiting:
            node = waiting.pop()
            if leaf[node] or self.tree.left[node] < 0:
                found.append(node)
            else:
                waiting += [int(self.tree.left[node]), int(self.tree.right[node])]
        return found

    def scores(self, x: Floats, z: Floats, leaf: NDArray[np.bool_]) -> tuple[Floats, Ints]:
        """Probabilities and leaf of each row."""
        reached = np.asarray(self.grown.decision_path(x).toarray(), dtype=bool).T
        out, ids = np.empty(z.shape), np.empty(len(z), dtype=np.int64)
        for node in self.leaves(leaf):
            out[reached[node]], ids[reached[node]] = self.predict(node, z[reached[node]]), node
        return out, ids


def curve_of(z: Floats, labels: Floats, start: Floats) -> Floats:
    """Slope and intercept for each class by Newton's method, with a penalty that holds them near ``start``."""
    theta = start.copy()
    for _ in range(12):
        p = expit(theta[0] * z + theta[1])
        gap, w = p - labels, p * (1.0 - p)
        g0, g1 = (gap * z).sum(axis=0) + theta[0] - start[0], gap.sum(axis=0) + theta[1] - start[1]
        h00, h01, h11 = (w * z * z).sum(axis=0) + 1.0, (w * z).sum(axis=0), w.sum(axis=0) + 1.0
        det = h00 * h11 - h01 * h01
        step = np.array([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0]) / det
        theta -= step / np.maximum(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    return theta


def predicted(theta: Floats, z: Floats) -> Floats:
    p = expit(theta[0] * z + theta[1])
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def pruned(x: Floats, z: Floats, labels: Floats, curves: bool, seed: int) -> tuple[Nodes, NDArray[np.bool_]]:
    """The tree of all rows, pruned with the alpha that has the least error on held-out rows in five folds."""
    whole = Nodes(x, z, labels, curves, seed)
    path = pruning_path(whole.tree, whole.costs)
    alphas = alphas_of(path, len(x))
    fold = np.random.default_rng(seed).permutation(len(x)) % FOLDS
    totals = np.zeros(len(alphas))
    for held in range(FOLDS):
        fit, test = fold != held, fold == held
        part = Nodes(x[fit], z[fit], labels[fit], curves, seed)
        ways = pruning_path(part.tree, part.costs)
        reached = np.asarray(part.grown.decision_path(x[test]).toarray(), dtype=bool).T
        errors = part.errors(z[test], labels[test], reached)
        ends = [errors[part.leaves(each.leaf)].sum() for each in ways]
        for k, alpha in enumerate(alphas):
            totals[k] += ends[best(ways, alpha, int(fit.sum()))]
    alpha = alphas[int(np.flatnonzero(totals <= totals.min() * (1.0 + 1e-12))[-1])]
    return whole, path[best(path, alpha, len(x))].leaf


def best(path: Sequence[Pruned], alpha: float, rows: int) -> int:
    return min(range(len(path)), key=lambda k: path[k].penalized(alpha, rows))


def alphas_of(path: Sequence[Pruned], rows: int) -> list[float]:
    """Thirty penalties between those at which the whole tree and the root alone are best."""
    rmse = [each.penalized(0.0, rows) for each in path]
    drops = [(rmse[k + 1] - rmse[k]) / (path[k].nodes - path[k + 1].nodes) for k in range(len(path) - 1)]
    steps = [each for each in drops if each > 0.0] or [1e-6]
    return [0.0, *np.geomspace(min(steps) / 2.0, 2.0 * max(steps), 30).tolist()]


# --- Table 4.2 --------------------------------------------------------------------------------------------------------


def forest_log_odds(x: Floats, y: Ints, classes: int, seed: int) -> Callable[[Floats], Floats]:
    model = RandomForestClassifier(50, min_samples_leaf=5, random_state=seed).fit(x, y)

    def log_odds(new: Floats) -> Floats:
        p = np.zeros((len(new), classes))
        p[:, model.classes_] = model.predict_proba(new)
        return np.asarray(logit(np.clip(p, 0.005, 0.995)))

    return log_odds


def one_score(kind: Any, z: Floats, labels: Floats, new: Floats) -> Floats:
    """A calibrator of one score for each class against the rest, divided by their sum; a class without rows gets 0."""
    p, given = expit(new), expit(z)
    columns = range(1, 2) if p.shape[1] == 2 else range(p.shape[1])
    out = np.zeros(p.shape)
    for k in columns:
        if 0.0 < labels[:, k].mean() < 1.0:
            out[:, k] = kind().fit(given[:, k], labels[:, k].astype(int)).transform(p[:, k])
        else:
            out[:, k] = labels[:, k].mean()
    if p.shape[1] == 2:
        out[:, 0] = 1.0 - out[:, 1]
        return out
    total = out.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, out / np.where(total > 0.0, total, 1.0), 1.0 / p.shape[1])


def judged_columns(p: Floats) -> range:
    return range(1, 2) if p.shape[1] == 2 else range(p.shape[1])


def by_class(p: Floats, labels: Floats, metric: Callable[[Floats, Ints], float]) -> float:
    """Mean of a metric over classes, each against the rest."""
    return float(np.mean([metric(p[:, k], labels[:, k].astype(int)) for k in judged_columns(p)]))


def measured(p: Floats, labels: Floats, leaf: Ints | None, common: Ints, other: Ints) -> dict[str, Any]:
    """All metrics of one method on the judged rows."""
    p = np.clip(p, 0.0, 1.0)
    both = [k for k in judged_columns(p) if 0.0 < labels[:, k].mean() < 1.0]
    curves = [validity_curve(p[:, k], labels[:, k].astype(int), method="neighbors", k=10) for k in judged_columns(p)]
    areas = [float(auc(p[:, k], labels[:, k].astype(int))) for k in both]
    return {
        "RMSE": float(np.sqrt(((p - labels) ** 2).mean())),
        "loss": float((p.argmax(axis=1) != labels.argmax(axis=1)).mean()),
        "AUC": float(np.mean(areas)) if areas else np.nan,
        "ECE": by_class(p, labels, lambda s, y: float(ece(s, y, n_bins=32, strategy="mass"))),
        "PDE": np.nan if leaf is None else by_class(p, labels, lambda s, y: float(pde(s, y, regions=leaf))),
        "AUC_V": float(np.mean([curve.auc for curve in curves])),
        "PDE, leaves of DT": by_class(p, labels, lambda s, y: float(pde(s, y, regions=common))),
        "ECE, other tree": by_class(p, labels, lambda s, y: float(ece(s, y, regions=other))),
        "validity": np.mean([curve.at(EPSILONS) for curve in curves], axis=0).tolist(),
        "leaves": np.nan if leaf is None else len(np.unique(leaf)),
    }


def repetition(task: tuple[str, int]) -> tuple[str, int, dict[str, dict[str, Any]]]:
    """One repetition of Table 4.2 on one data set: metrics by method."""
    name, seed = task
    warnings.simplefilter("ignore", CalibrantWarning)
    x, y = read_set(name)
    classes = int(y.max()) + 1
    order = np.random.default_rng([seed, *name.encode()]).permutation(len(y))
    first, second = int(TRAIN * len(y)), int((TRAIN + CALIBRATE) * len(y))
    train, fit, test = order[:first], order[first:second], order[second:]
    labels = np.eye(classes)[y]
    log_odds = forest_log_odds(x[train], y[train], classes, seed)
    z, new = log_odds(x[fit]), log_odds(x[test])
    with values_only():
        dt, dt_leaf = pruned(x[fit], z, labels[fit], False, seed)
        pct, pct_leaf = pruned(x[fit], z, labels[fit], True, seed)
        rates, common = dt.scores(x[test], new, dt_leaf)
        curves, own = pct.scores(x[test], new, pct_leaf)
        scores = {
            "PS": (one_score(PlattScaling, z, labels[fit], new), None),
            "IR": (one_score(IsotonicCalibrator, z, labels[fit], new), None),
            "PCT": (curves, own),
            "DT": (rates, common),
            "base rate": (np.broadcast_to(labels[fit].mean(axis=0), new.shape), np.zeros(len(test), dtype=np.int64)),
        }
        other = DecisionTreeClassifier(min_samples_leaf=MIN_ROWS, max_leaf_nodes=OTHER_LEAVES, random_state=seed)
        regions = tree_regions(other.fit(x[train], y[train]), x[test])
        return name, seed, {key: measured(p, labels[test], leaf, common, regions) for key, (p, leaf) in scores.items()}


def worse(values: Floats, top: Floats, test_share: float = 0.1) -> bool:
    """Whether a method is significantly worse than the best one: the corrected resampled paired t-test at 5 %."""
    gap = values - top
    gap = gap[np.isfinite(gap)]
    if len(gap) < 2 or not gap.std(ddof=1) > 0.0:
        return bool(len(gap) and gap.mean() > 1e-12)
    se = np.sqrt((1.0 / len(gap) + test_share / (1.0 - test_share)) * gap.var(ddof=1))
    return bool(gap.mean() / se > student.ppf(0.975, len(gap) - 1))


@dataclass(frozen=True)
class Table:
    """Metrics of all repetitions."""

    found: Mapping[str, Mapping[int, Mapping[str, Mapping[str, Any]]]]

    def values(self, name: str, method: str, metric: str) -> Floats:
        """Of all repetitions, as losses: larger is worse."""
        sign = -1.0 if metric in LARGER else 1.0
        return sign * np.array([each[method][metric] for _, each in sorted(self.found[name].items())])

    def wins(self, metric: str, methods: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Data sets in which each method wins, and in which it has the best mean."""
        counts = {method: [0, 0] for method in methods}
        for name in self.found:
            values = {method: self.values(name, method, metric) for method in methods}
            means = {method: float(np.nanmean(each)) for method, each in values.items()}
            least = min(means.values())
            top = min(methods, key=lambda method: means[method])
            for method in methods:
                counts[method][0] += not worse(values[method], values[top])
                counts[method][1] += means[method] <= least + 1e-12
        return {method: (both[0], both[1]) for method, both in counts.items()}

    def mean(self, method: str, metric: str) -> float:
        """Mean over data sets of the mean over repetitions."""
        sign = -1.0 if metric in LARGER else 1.0
        every = [sign * self.values(name, method, metric) for name in self.found]
        known = [each[np.isfinite(each)] for each in every]
        return float(np.mean([each.mean() if len(each) else np.nan for each in known]))


def print_table(table: Table, sets: int, repetitions: int) -> None:
    print(f"\n1. Table 4.2: data sets won, of {sets} here ({repetitions} repetitions) and of 36 as printed")
    print("   Won: not significantly worse than the best mean. In brackets: strictly the best mean.")
    wins = {}
    for metric in METRICS:
        methods = ("PCT", "DT") if metric == "PDE" else METHODS
        wins[metric] = table.wins(metric, methods)
    print(f"\n{'':<12}" + "".join(f"{metric:>16}" for metric in METRICS))
    for method in METHODS:
        cells = [wins[metric].get(method) for metric in METRICS]
        print(f"{method:<12}" + "".join(f"{'-' if c is None else f'{c[0]} ({c[1]})':>16}" for c in cells))
    for method in METHODS:
        cells = [f"{'-' if c is None else c:>16}" for c in PRINTED[method]]
        print(f"{method + ' printed':<12}" + "".join(cells))
    print("\n   Means over data sets")
    columns = (*METRICS, "PDE, leaves of DT", "ECE, other tree", "leaves")
    print(f"{'':<12}" + "".join(f"{metric:>19}" for metric in columns))
    for method in (*METHODS, "base rate"):
        values = [table.mean(method, metric) for metric in columns]
        print(f"{method:<12}" + "".join(f"{'-' if np.isnan(v) else f'{v:.4f}':>19}" for v in values))
    print("\n   PDE as the thesis has it, each tree in its own leaves, with the base rate in its one leaf as a third:")
    _line(table.wins("PDE", ("PCT", "DT", "base rate")))
    print("   PDE of all on one partition, the leaves of DT:")
    _line(table.wins("PDE, leaves of DT", (*METHODS, "base rate")))
    print("   ECE of all on a partition that no calibrator chose, the leaves of another tree:")
    _line(table.wins("ECE, other tree", (*METHODS, "base rate")))


def _line(wins: Mapping[str, tuple[int, int]]) -> None:
    print("     " + ", ".join(f"{method} {won} ({first})" for method, (won, first) in wins.items()))


def print_validity(table: Table) -> None:
    print("\n   Figures 4.2 and 4.3: share of rows within epsilon of the rate of the 10 nearest scores, mean over sets")
    print(f"{'':<12}" + "".join(f"{epsilon:>10}" for epsilon in EPSILONS) + f"{'area':>10}{'printed':>10}")
    for method in (*METHODS, "base rate"):
        rows = [np.mean([each[method]["validity"] for each in found.values()], 0) for found in table.found.values()]
        area = table.mean(method, "AUC_V")
        cells = "".join(f"{value:>10.3f}" for value in np.mean(rows, axis=0))
        print(f"{method:<12}{cells}{area:>10.3f}{PRINTED_AREAS.get(method, ''):>10}")


# --- Figure 4.6 -------------------------------------------------------------------------------------------------------


def trade_off(task: tuple[str, int]) -> tuple[str, int, dict[str, list[float]]]:
    """One repetition of section 4.4: PDE in the leaves and loss by the size of the tree, on half of the rows."""
    name, seed = task
    warnings.simplefilter("ignore", CalibrantWarning)
    rng = np.random.default_rng([seed, 44, *name.encode()])
    if name in GENERATORS:
        features, components, terms, (low, high) = GENERATORS[name]
        x, _, y = Generator.draw(rng, features, components, terms, rng.uniform(low, high)).sample(rng, 50_000)
    else:
        x, y = read_set(name)
    labels = np.eye(int(y.max()) + 1)[y]
    order = rng.permutation(len(y))
    fit, test = order[: len(y) // 2], order[len(y) // 2 :]
    found: dict[str, list[float]] = {key: [] for key in ("leaves", "PDE", "chance", "l2", "loss")}
    nothing = np.zeros(labels.shape)
    for size in SIZES:
        tree = DecisionTreeClassifier(max_leaf_nodes=size, random_state=seed).fit(x[fit], y[fit])
        p = np.zeros((len(test), labels.shape[1]))
        p[:, tree.classes_] = tree.predict_proba(x[test])
        _judge(found, p, labels[test], np.asarray(tree.apply(x[test])), tree.get_n_leaves(), rng)
    nodes, leaf = pruned(x[fit], nothing[fit], labels[fit], False, seed)
    p, ids = nodes.scores(x[test], nothing[test], leaf)
    _judge(found, p, labels[test], ids, len(nodes.leaves(leaf)), rng)
    return name, seed, found


def _judge(
    found: dict[str, list[float]], p: Floats, labels: Floats, leaf: Ints, leaves: int, rng: np.random.Generator
) -> None:
    """PDE in the leaves, its mean over labels drawn from the probabilities, the debiased error, and the loss."""
    with values_only():
        found["leaves"].append(float(leaves))
        found["PDE"].append(by_class(p, labels, lambda s, y: float(pde(s, y, regions=leaf))))
        found["l2"].append(by_class(p, labels, lambda s, y: float(debiased_ece(s, y, regions=leaf))))
        found["loss"].append(float((p.argmax(axis=1) != labels.argmax(axis=1)).mean()))
        drawn = []
        for _ in range(10):
            right = (rng.random(len(p))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
            fair = np.eye(p.shape[1])[right]
            drawn.append(by_class(p, fair, lambda s, y: float(pde(s, y, regions=leaf))))
        found["chance"].append(float(np.mean(drawn)))


def print_trade_off(found: Mapping[str, list[dict[str, list[float]]]]) -> None:
    means = {
        name: {key: np.mean([each[key] for each in runs], axis=0) for key in runs[0]} for name, runs in found.items()
    }
    print(f"\n2. Figure 4.6: PDE in the leaves and classification loss by the size of the tree, {len(means)} data sets")
    print("   chance: the PDE of a calibrated model in these leaves. l2: the debiased l2 error. *: the pruned tree")
    print(f"\n{'':<16}{'leaves':>8}{'PDE':>9}{'chance':>9}{'l2':>9}{'loss':>9}")
    for name in [each for each in ("phishing", "vote", "sick", "Synthetic-5") if each in means]:
        for k in range(len(SIZES) + 1):
            row = "".join(f"{means[name][key][k]:>9.4f}" for key in ("PDE", "chance", "l2", "loss"))
            star = " *" if k == len(SIZES) else ""
            print(f"{name if k == 0 else '':<16}{means[name]['leaves'][k]:>8.1f}{row}{star}")
    rises = dict.fromkeys(("PDE", "chance", "l2"), 0)
    steps, falls, share, kinds = 0, 0, [], {"weaker": 0, "better": 0, "about equal": 0}
    for each in means.values():
        new = [0, *(k for k in range(1, len(SIZES)) if each["leaves"][k] > each["leaves"][k - 1] + 0.5)]
        for key in rises:
            rises[key] += bool(each[key][new[-1]] > each[key][0])
        steps += bool((np.diff(each["PDE"][new]) >= 0.0).all())
        falls += bool(each["loss"][new].min() < each["loss"][0] - 1e-12)
        share.append(each["chance"][new[-1]] / max(each["PDE"][new[-1]], 1e-12))
        total = each["PDE"] + each["loss"]
        at = np.interp(each["leaves"][-1], each["leaves"][new], total[new])
        gap = total[-1] - at
        kinds["weaker" if gap > NEAR else "better" if gap < -NEAR else "about equal"] += 1
    count, chance = len(means), np.median(share)
    print(f"\n   From the smallest tree to the largest, PDE rises in {rises['PDE']} of {count} data sets, without a")
    print(f"   fall in between in {steps}; the PDE of a calibrated model rises in {rises['chance']}, the debiased l2")
    print(f"   error in {rises['l2']}. In the largest tree a calibrated model has {chance:.0%} of the PDE (median).")
    print(f"   A larger tree than the smallest has a lower loss in {falls} of {count} data sets.")
    print(f"   The pruned tree beside an unpruned one of its size, by PDE + loss: {kinds} (printed: 11, 9, 18 of 38)")


# --- the run ----------------------------------------------------------------------------------------------------------


def one(task: tuple[str, str, int]) -> dict[str, Any]:
    """One task, as a line of the file of results."""
    kind, name, seed = task
    values = (repetition if kind == "table" else trade_off)((name, seed))[2]
    return {"kind": kind, "name": name, "seed": seed, "values": values}


def run(tasks: Sequence[tuple[str, str, int]], stored: Path | None, jobs: int) -> list[dict[str, Any]]:
    """Results of all tasks; those that a file of results has are read from it, and new ones are added to it."""
    found = [] if stored is None or not stored.exists() else [json.loads(line) for line in stored.open()]
    have = {(each["kind"], each["name"], each["seed"]) for each in found}
    start = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        for line in as_completed([pool.submit(one, task) for task in tasks if task not in have]):
            found.append(line.result())
            print(f"{time.perf_counter() - start:6.0f} s {found[-1]['kind']} {found[-1]['name']}", file=sys.stderr)
            if stored is not None:
                with stored.open("a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    return [each for each in found if (each["kind"], each["name"], each["seed"]) in set(tasks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="six small data sets, 3 repetitions")
    parser.add_argument("--repetitions", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stored", type=Path, default=None, help="file of results, with which a run can be resumed")
    asked = parser.parse_args()
    need_data("uci_classification", "credit_default")
    names = QUICK if asked.quick else tuple(SETS)
    repetitions = asked.repetitions or (3 if asked.quick else 10)
    made = () if asked.quick else tuple(GENERATORS)
    tasks = [("table", name, seed) for seed in range(repetitions) for name in names]
    tasks += [("trade-off", name, 0) for name in (*names, *made)]
    start = time.perf_counter()
    found: dict[str, dict[int, dict[str, dict[str, Any]]]] = {name: {} for name in names}
    curves: dict[str, list[dict[str, list[float]]]] = {}
    for each in run(tasks, asked.stored, asked.jobs):
        if each["kind"] == "table":
            found[each["name"]][each["seed"]] = each["values"]
        else:
            curves.setdefault(each["name"], []).append(each["values"])
    print(f"Torabian (2023), chapter 4: {len(names)} data sets, {repetitions} repetitions")
    table = Table(found)
    print_table(table, len(names), repetitions)
    print_validity(table)
    print_trade_off(curves)
    print(f"\n{time.perf_counter() - start:.0f} s on {asked.jobs} processes")


if __name__ == "__main__":
    main()
