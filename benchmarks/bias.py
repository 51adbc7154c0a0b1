"""How far calibration errors lie from what they are meant to measure, where the truth is known.

    python benchmarks/bias.py [--quick] [--figure bias.png]

The study of Torabian 2023, sections 4.1 and 4.2, on generators built to its description: features from a mixture of
Gaussians, the probability of an event a sigmoid of a polynomial. A random forest is trained on 45 % of 50,000 rows and
a calibration tree on the rest, in two forms: the score of a row is the event rate of its leaf ("leaf rates"), or its
leaf's own Platt map of the forest's score ("Platt leaves", a probability calibration tree). Fresh rows are then judged.

Table 1: mean absolute deviation of ECE and PDE from the theoretical calibration error, the mean distance of scores to
the regression function (Definitions 8 and 9), with bins of equal mass and with nodes of the tree, found breadth first,
as bins. Table 2: signed bias of plug-in, debiased and smooth errors against the calibration error E|f - E[Y | f]|.
These two truths differ: a score can be calibrated and yet far from the regression function, by ignoring features.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from calibrant import PlattScaling
from calibrant.metrics import debiased_ece, ece, metric_bias, pde, smooth_ece, theoretical_error, tree_regions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROWS, BASE_SHARE = 50_000, 0.45
TRUTH_ROWS = 200_000
"""Fresh rows from which E[Y | f] is computed."""

SIZES = (500, 1_000, 5_000, 20_000)
BINS = (5, 10, 20, 50, 100)
LEAF = 50
"""Fewest calibration rows in a leaf."""

MODELS = ("leaf rates", "Platt leaves")
BY_BINS = ("ECE, mass", "ECE, tree", "PDE, mass", "PDE, tree")
SIGNED = ("ECE", "l2", "debiased l2")


# --- generators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generator:
    """Features from a mixture of Gaussians; log-odds a polynomial of them, moved to a wanted mean probability."""

    centers: Floats
    factors: Floats
    powers: Ints
    coefficients: Floats
    intercept: float

    @classmethod
    def draw(cls, rng: np.random.Generator, features: int, components: int, terms: int, mean: float) -> Generator:
        centers = rng.uniform(-2.0, 2.0, (components, features))
        factors = rng.normal(0.0, 0.35, (components, features, features)) + 0.3 * np.eye(features)
        powers = np.array(_powers(features)[:terms])
        made = cls(centers, factors, powers, rng.normal(0.0, 1.0, len(powers)), 0.0)
        z = made.log_odds(made.features(rng, 20_000))
        scaled = cls(centers, factors, powers, made.coefficients * 2.0 / z.std(), 0.0)
        z = scaled.log_odds(scaled.features(rng, 20_000))
        low, high = -z.max() - 9.0, -z.min() + 9.0
        for _ in range(50):  # bisection: the mean probability rises with the intercept
            middle = (low + high) / 2.0
            low, high = (middle, high) if expit(z + middle).mean() < mean else (low, middle)
        return cls(centers, factors, powers, scaled.coefficients, middle)

    def features(self, rng: np.random.Generator, rows: int) -> Floats:
        component = rng.integers(0, len(self.centers), rows)
        noise = rng.normal(size=(rows, self.centers.shape[1]))
        return np.asarray(self.centers[component] + np.einsum("nij,nj->ni", self.factors[component], noise))

    def log_odds(self, x: Floats) -> Floats:
        terms = np.stack([np.prod(x**power, axis=1) for power in self.powers], axis=1)
        return np.asarray(self.intercept + np.einsum("nt,t->n", terms, self.coefficients))

    def sample(self, rng: np.random.Generator, rows: int) -> tuple[Floats, Floats, Ints]:
        """Features, true probabilities and labels."""
        x = self.features(rng, rows)
        truth = expit(self.log_odds(x))
        return x, truth, (rng.random(rows) < truth).astype(np.int64)


def _powers(features: int) -> list[tuple[int, ...]]:
    """Exponents of all terms of degree 1 to 3, low degrees first."""
    every = [power for power in product(range(4), repeat=features) if 1 <= sum(power) <= 3]
    return sorted(every, key=lambda power: (sum(power), max(power), power))


GENERATORS: Mapping[str, tuple[int, int, int, tuple[float, float]]] = {
    "Synthetic-3": (3, 10, 9, (0.50, 0.55)),
    "Synthetic-5": (5, 14, 35, (0.56, 0.62)),
}
"""Features, components, terms of the polynomial, and between what the mean probability lies."""


# --- models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CalibrationTree:
    """A tree over the features whose leaves turn the forest's score into a probability."""

    forest: RandomForestClassifier
    tree: DecisionTreeClassifier
    maps: Mapping[int, Callable[[Floats], Floats]]

    @classmethod
    def fit(cls, x: Floats, y: Ints, seed: int, platt: bool, forest: RandomForestClassifier) -> CalibrationTree:
        tree = DecisionTreeClassifier(min_samples_leaf=LEAF, random_state=seed).fit(x, y)
        leaf, base = tree.apply(x), _inside(forest.predict_proba(x)[:, 1])
        maps: dict[int, Callable[[Floats], Floats]] = {}
        for name in np.unique(leaf):
            rows = leaf == name
            rate = float(y[rows].mean())
            if platt and 0.0 < rate < 1.0:
                maps[int(name)] = PlattScaling().fit(base[rows], y[rows]).transform
            else:
                maps[int(name)] = partial(_constant, rate)
        return cls(forest, tree, maps)

    def scores(self, x: Floats, base: Floats) -> Floats:
        leaf, out = self.tree.apply(x), np.empty(len(x))
        for name, transform in self.maps.items():
            rows = leaf == name
            out[rows] = transform(base[rows])
        return out


def _constant(rate: float, base: Floats) -> Floats:
    return np.full(len(base), rate)


def _inside(scores: Floats) -> Floats:
    return np.clip(scores, 0.005, 0.995)


# --- errors -----------------------------------------------------------------------------------------------------------


def true_errors(scores: Floats, truth: Floats) -> tuple[float, float]:
    """l1 and l2 distance of scores to E[Y | f]: by distinct score, or in narrow bins where scores hardly repeat."""
    values, place = np.unique(scores, return_inverse=True)
    if len(values) > 2_000:
        place = np.argsort(np.argsort(scores, kind="stable"), kind="stable") * 400 // len(scores)
    n = np.bincount(place)
    gap = np.bincount(place, scores - truth) / n
    share = n / n.sum()
    return float((share * np.abs(gap)).sum()), float(np.sqrt((share * gap**2).sum()))


Key = tuple[str, str, int, int]


def experiment(task: tuple[str, int]) -> dict[Key, dict[str, float]]:
    """All numbers of one draw of a generator, by (generator, model, n, bins)."""
    name, seed = task
    rng = np.random.default_rng([seed, *name.encode()])
    features, components, terms, (low, high) = GENERATORS[name]
    generator = Generator.draw(rng, features, components, terms, rng.uniform(low, high))
    x, _, y = generator.sample(rng, ROWS)
    cut = int(BASE_SHARE * ROWS)
    forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=seed).fit(x[:cut], y[:cut])
    wide, eta, _ = generator.sample(rng, TRUTH_ROWS)
    fresh = {n: generator.sample(rng, n) for n in SIZES}
    base_wide = _inside(forest.predict_proba(wide)[:, 1])
    base_fresh = {n: _inside(forest.predict_proba(rows[0])[:, 1]) for n, rows in fresh.items()}
    found = {}
    for model in MODELS:
        tree = CalibrationTree.fit(x[cut:], y[cut:], seed, model == "Platt leaves", forest)
        l1, l2 = true_errors(tree.scores(wide, base_wide), eta)
        for n, (new, truth, labels) in fresh.items():
            scores = tree.scores(new, base_fresh[n])
            common = {
                "TCE": float(theoretical_error(scores, truth)),
                "l1 truth": l1,
                "l2 truth": l2,
                "mean": float(truth.mean()),
                "leaves": float(tree.tree.get_n_leaves()),
                "smECE": float(smooth_ece(scores, labels, null=False)),
            }
            for bins in BINS:
                found[name, model, n, bins] = common | _binned(
                    scores, labels, tree_regions(tree.tree, new, n_bins=bins), bins
                )
    return found


def _binned(scores: Floats, y: Ints, group: Ints, bins: int) -> dict[str, float]:
    by_mass = float(ece(scores, y, n_bins=bins, strategy="mass"))
    return {
        "ECE, mass": by_mass,
        "ECE, tree": float(ece(scores, y, regions=group)),
        "PDE, mass": float(pde(scores, y, n_bins=bins)),
        "PDE, tree": float(pde(scores, y, regions=group)),
        "ECE": by_mass,
        "l2": float(ece(scores, y, p=2, n_bins=bins, strategy="mass")),
        "debiased l2": float(debiased_ece(scores, y, n_bins=bins)),
    }


# --- summary ----------------------------------------------------------------------------------------------------------


class Study:
    """Numbers of all experiments."""

    def __init__(self, results: list[dict[Key, dict[str, float]]]) -> None:
        self.results = results

    def all(self, key: Key, what: str) -> Floats:
        return np.array([found[key][what] for found in self.results if key in found])

    def deviation(self, key: Key, metric: str) -> float:
        """Definition 9."""
        return float(metric_bias(self.all(key, metric).tolist(), self.all(key, "TCE").tolist()))

    def signed(self, key: Key, metric: str) -> tuple[float, float]:
        """Mean difference to the calibration error of the same norm, and its standard error."""
        truth = "l2 truth" if "l2" in metric else "l1 truth"
        gap = self.all(key, metric) - self.all(key, truth)
        return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))


def print_tables(study: Study) -> None:
    keys = list(product(GENERATORS, MODELS))
    print("\nTable 1. Mean absolute deviation from the theoretical calibration error (Definition 9); * the least")
    for generator, model in keys:
        tce = np.mean([study.all((generator, model, n, BINS[0]), "TCE").mean() for n in SIZES])
        mean = study.all((generator, model, SIZES[-1], BINS[0]), "mean")
        leaves = study.all((generator, model, SIZES[0], BINS[0]), "leaves")
        print(
            f"\n{generator}, {model}: mean theoretical error {tce:.4f}, mean probability {mean.min():.2f} to", end=" "
        )
        print(f"{mean.max():.2f}, {leaves.min():.0f} to {leaves.max():.0f} leaves")
        print(f"{'n':>8}{'bins':>6}" + "".join(f"{metric:>12}" for metric in BY_BINS))
        for n, bins in product(SIZES, BINS):
            row = [study.deviation((generator, model, n, bins), metric) for metric in BY_BINS]
            cells = "".join(f"{value:>11.4f}{'*' if value == min(row) else ' '}" for value in row)
            print(f"{n:>8,}{bins:>6}{cells}".rstrip())
    print("\nTable 2. Signed bias against the calibration error E|f - E[Y | f]| (l2: the root of the mean square);")
    print("bins of equal mass; mean over experiments, standard error in brackets. smECE needs no bins")
    for generator, model in keys:
        l1, l2 = (study.all((generator, model, SIZES[0], BINS[0]), f"{norm} truth").mean() for norm in ("l1", "l2"))
        print(f"\n{generator}, {model}: calibration error {l1:.4f}, in l2 {l2:.4f}")
        print(f"{'n':>8}{'bins':>6}{'ECE':>18}{'ECE in l2':>18}{'debiased l2':>18}{'smECE':>18}")
        for n, bins in product(SIZES, BINS):
            metrics = (*SIGNED, "smECE") if bins == BINS[0] else SIGNED
            pairs = (study.signed((generator, model, n, bins), metric) for metric in metrics)
            print(f"{n:>8,}{bins:>6}" + "".join(f"{value:>+10.4f} ({se:.4f})" for value, se in pairs))


def counts(study: Study) -> None:
    """How often each way of measuring deviates least, over all settings of table 1."""
    print("\nSettings (generator, model, n) in which each deviates least, by bins")
    print(f"{'bins':>8}" + "".join(f"{metric:>12}" for metric in BY_BINS))
    for bins in BINS:
        rows = [
            [study.deviation((generator, model, n, bins), metric) for metric in BY_BINS]
            for generator, model, n in product(GENERATORS, MODELS, SIZES)
        ]
        wins = np.bincount(np.argmin(rows, axis=1), minlength=len(BY_BINS))
        print(f"{bins:>8}" + "".join(f"{win:>12}" for win in wins))


# --- figure -----------------------------------------------------------------------------------------------------------

INKS = {"ECE, mass": "#E69F00", "ECE, tree": "#56B4E9", "PDE, mass": "#D55E00", "PDE, tree": "#004D80"}
SIGNED_INKS = {"ECE": "#D55E00", "debiased l2": "#004D80", "smECE": "#666666"}
LABELS = {"ECE": "plug-in ECE, 20 bins", "debiased l2": "debiased l2 error, 20 bins", "smECE": "smooth ECE"}
LOOKS = ("o-", "s--", "^-", "D--")
FIGURE_N, FIGURE_BINS = 5_000, 20


def draw(study: Study, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(11, 6.2), sharey="row", layout="constrained")
    for (top, bottom), (generator, model) in zip(axes.T, product(GENERATORS, MODELS), strict=True):
        for (metric, ink), look in zip(INKS.items(), LOOKS, strict=True):
            heights = [study.deviation((generator, model, FIGURE_N, bins), metric) for bins in BINS]
            top.plot(BINS, heights, look, color=ink, label=metric, markersize=5, linewidth=1.6)
        for (metric, ink), look in zip(SIGNED_INKS.items(), LOOKS, strict=False):
            pairs = [study.signed((generator, model, n, FIGURE_BINS), metric) for n in SIZES]
            means, spread = np.array(pairs).T
            bottom.errorbar(
                SIZES, means, 2.0 * spread, fmt=look, color=ink, label=LABELS[metric], markersize=5, capsize=3
            )
        top.set(xscale="log", xlabel="bins")
        top.set_title(f"{generator}, {model}", fontsize="medium")
        bottom.set(xscale="log", xlabel="rows judged, in thousands")
        for axis, ticks, unit in ((top, BINS, 1), (bottom, SIZES, 1_000)):
            axis.set_xticks(ticks, [f"{tick / unit:g}" for tick in ticks])
            axis.minorticks_off()
            axis.spines[["top", "right"]].set_visible(False)
        bottom.axhline(0.0, color="black", linewidth=0.8)
    axes[0, 0].set_ylabel(f"mean |metric - theoretical error|\n({FIGURE_N:,} rows)")
    axes[1, 0].set_ylabel("metric - calibration error\n(mean, 2 standard errors)")
    axes[0, 0].set_ylim(bottom=0.0)
    axes[0, 0].legend(frameon=False, fontsize="small", loc="upper right")
    axes[1, 0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description="Bias of calibration errors where the truth is known.")
    parser.add_argument("--quick", action="store_true", help="3 experiments instead of 10")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    options = parser.parse_args()
    experiments = 3 if options.quick else 10
    tasks = list(product(GENERATORS, range(experiments)))
    with ProcessPoolExecutor(options.workers) as pool:
        study = Study(list(pool.map(experiment, tasks)))
    print(f"{experiments} experiments for each generator, {ROWS:,} rows for training, n fresh rows judged")
    counts(study)
    print_tables(study)
    if options.figure is not None:
        draw(study, options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
