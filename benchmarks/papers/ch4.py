"""Chapter 4 of Gupta 2023: validity of binning with and without a split sample on the credit data (Figures 4.1 to 4.6).

    python benchmarks/papers/ch4.py            # 100 calibration and test sets for each size, as printed
    python benchmarks/papers/ch4.py --quick    # 20

Protocol of section 4.2.2. Features are scaled, and the 30,000 rows are cut once into A, B and C of 10,000, 5,000 and
15,000. A logistic regression is fitted on A and rescaled by Platt scaling on B, on the score itself as in eq. 1.6. (A
first look at 20 draws had the log-odds instead: the results of UMD and UMS were the same, those of scaling-binning
worse.) From C a calibration set of n rows and a test set of 5,000 are drawn without replacement, again and again. All
methods have 10 bins:

- UMD: bins of equal mass from all rows (`HistogramBinning`); UMS: edges from half of the rows, rates from the others;
- fixed width: ten bins of width 0.1; isotonic: the steps of isotonic regression;
- scaling-binning: the bins of UMD with the mean score of their rows as output.

V(epsilon) is the share of test rows whose output is within epsilon of the event rate of the test rows with the same
output. The conditional one is the share of draws in which that holds for all rows. Spreads are standard errors over
draws. The guarantee of Theorem 4.2 at epsilon is 1 - 2 exp(-2 (floor(n / 10) - 1) epsilon^2), and that of Theorem 4.1,
for all bins at once, has 20 in place of 2. Figure 4.6 has 14,000 rows for the model, 1,000 for Platt scaling, and 1,000
for binning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ch1 import clients
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1]))

from calibrant import HistogramBinning, IsotonicCalibrator, PlattScaling
from calibrant.metrics import validity_curve

Floats = NDArray[np.float64]
SIZES = (500, 1_000, 3_000, 4_000, 5_000, 7_000)
DRAWS, QUICK_DRAWS, TEST, BINS = 100, 20, 5_000, 10
EPSILONS = np.arange(1, 21) / 200
"""0.005, 0.01, ..., 0.1."""


def scored(rows: int = 10_000, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Scores and outcomes of part C, with this many of the first 15,000 rows for the model."""
    X, y = clients()
    order = np.random.default_rng(seed).permutation(len(y))
    first, second, rest = order[:rows], order[rows:15_000], order[15_000:]
    model = LogisticRegression(max_iter=1_000).fit(X[first], y[first])
    platt = PlattScaling(on="score").fit(model.predict_proba(X[second])[:, 1], y[second])
    return platt.transform(model.predict_proba(X[rest])[:, 1]), y[rest]


def scaling_binning(score: Floats, y: Any, test: Floats) -> Floats:
    """Mean score of the calibration rows in each bin of equal mass."""
    edges = np.quantile(score, np.arange(1, BINS) / BINS)
    rows = np.searchsorted(edges, score, side="right")
    means = np.bincount(rows, score, BINS) / np.bincount(rows, minlength=BINS)
    return np.asarray(means[np.searchsorted(edges, test, side="right")])


def _fitted(make: Callable[[int], Any]) -> Callable[[Floats, Any, Floats, int], Floats]:
    def run(score: Floats, y: Any, test: Floats, seed: int) -> Floats:
        return np.asarray(make(seed).fit(score, y).transform(test))

    return run


METHODS: dict[str, Callable[[Floats, Any, Floats, int], Floats]] = {
    "UMD": _fitted(lambda seed: HistogramBinning(n_bins=BINS, extremes="mean")),
    "UMS": _fitted(
        lambda seed: HistogramBinning(
            n_bins=BINS, bins_from="split", split_size=0.5, extremes="mean", random_state=seed
        )
    ),
    "fixed width": _fitted(lambda seed: HistogramBinning(n_bins=BINS, strategy="width", extremes="mean")),
    "isotonic": _fitted(lambda seed: IsotonicCalibrator(step=True, shrink_ends=False)),
    "scaling": lambda score, y, test, seed: scaling_binning(score, y, test),
}


def validity(n: int, draws: int, rows: int = 10_000) -> dict[str, tuple[Floats, Floats, Floats]]:
    """For each method V at each epsilon, whether it holds for all rows, and the calibration error; one line a draw."""
    score, y = scored(rows)
    found: dict[str, list[tuple[Floats, Floats, float]]] = {name: [] for name in METHODS}
    for draw in range(draws):
        order = np.random.default_rng([n, draw]).permutation(len(y))
        cal, test = order[:n], order[n : n + TEST]
        for name, method in METHODS.items():
            curve = validity_curve(method(score[cal], y[cal], score[test], draw), y[test], strategy="distinct")
            found[name].append((curve.at(EPSILONS), curve.conditional(EPSILONS), 1.0 - curve.auc))
    return {name: tuple(map(np.array, zip(*each, strict=True))) for name, each in found.items()}  # type: ignore[misc]


def values(draws: int = DRAWS) -> dict[str, tuple[float, float | None]]:
    """What the chapter prints or says of its figures, by key, with standard errors."""
    out: dict[str, tuple[float, float | None]] = {}
    leads: dict[int, NDArray[np.bool_]] = {}

    def mean(lines: Floats) -> tuple[float, float]:
        return float(lines.mean()), float(lines.std(ddof=1) / np.sqrt(len(lines)))

    def at(epsilon: float) -> int:
        return int(np.argmin(np.abs(EPSILONS - epsilon)))

    for n in SIZES:
        found = validity(n, draws)
        for name, (inside, _, error) in found.items():
            for epsilon in (0.03, 0.05, 0.1):
                out[f"V/{name}/{n}/{epsilon:g}"] = mean(inside[:, at(epsilon)])
            out[f"ECE/{name}/{n}"] = mean(error)
        marginal = {name: inside for name, (inside, _, _) in found.items()}
        everywhere = {name: inside for name, (_, inside, _) in found.items()}
        better = marginal["UMD"].mean(axis=0) >= marginal["UMS"].mean(axis=0)
        out[f"UMD over UMS/{n}"] = float(better.mean()), None
        for name in ("isotonic", "fixed width"):
            out[f"conditional/UMD - {name}/{n}"] = mean((everywhere["UMD"] - everywhere[name])[:, at(0.1)])
            out[f"marginal/{name} - UMD/{n}"] = mean((marginal[name] - marginal["UMD"])[:, at(0.03)])
        out[f"marginal/UMD - scaling/{n}"] = mean((marginal["UMD"] - marginal["scaling"])[:, at(0.03)])
        out[f"marginal/scaling - UMD/{n}"] = mean((marginal["scaling"] - marginal["UMD"])[:, at(0.05)])
        out[f"conditional/scaling - UMD/{n}"] = mean((everywhere["scaling"] - everywhere["UMD"])[:, at(0.1)])
        outside = 2 * np.exp(-2 * (n // BINS - 1) * EPSILONS**2)
        out[f"above the guarantee/{n}"] = _least(marginal["UMD"] - (1 - outside))
        out[f"conditional/above the guarantee/{n}"] = _least(everywhere["UMD"] - np.maximum(1 - BINS * outside, 0))
        slower = (everywhere["scaling"] - everywhere["UMD"]).mean(axis=1)
        out[f"conditional/scaling - UMD, mean/{n}"] = mean(slower)
        out[f"conditional/UMD - scaling, mean/{n}"] = mean(-slower)
        curves = {name: each.mean(axis=0) for name, each in everywhere.items()}
        best = np.max(list(curves.values()), axis=0)
        leads[n] = np.maximum(curves["UMD"], curves["scaling"]) >= best
    out["conditional/UMD or scaling leads"] = float(np.mean([leads[n] for n in (1_000, 3_000, 5_000, 7_000)])), None
    found = validity(1_000, draws, rows=14_000)
    for key, part, epsilon in (("marginal", 0, 0.05), ("conditional", 1, 0.1)):
        gap = (found["scaling"][part] - found["UMD"][part])[:, at(epsilon)]
        out[f"14,000 rows/{key}/scaling - UMD"] = mean(gap)
    return out


def _least(lines: Floats) -> tuple[float, float]:
    """The smallest mean over draws, and its standard error."""
    at = int(lines.mean(axis=0).argmin())
    return float(lines[:, at].mean()), float(lines[:, at].std(ddof=1) / np.sqrt(len(lines)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_DRAWS} draws")
    draws = QUICK_DRAWS if parser.parse_args().quick else DRAWS
    print(f"Chapter 4, {draws} draws for each size: mean, standard error")
    for key, (mean, error) in values(draws).items():
        print(f"   {key:<36}{mean:9.4f}" + ("" if error is None else f"{error:9.4f}"))


if __name__ == "__main__":
    main()
