"""Whether bins on the scores of ancestors, and rates borrowed from other leaves, make path calibration better.

    OMP_NUM_THREADS=1 python benchmarks/paths.py            # all; under two minutes
    OMP_NUM_THREADS=1 python benchmarks/paths.py --quick    # the synthetic tree alone

Gupta's proposal (2022, section 4.3.2) cuts the rows of a predicted leaf by the score of that leaf and counts each
ancestor in the bins. It names two drawbacks: the scores of ancestors are not used, and a broad class has more rows than
are counted for it. `bins_on="path"` answers the first, `borrow=True` the second, by shrinking toward what all leaves
beneath a node show. Columns, all on test rows:

- log loss: mean over rows and over the nodes of the predicted path; then of each level, the broadest first
- error: path calibration error with 15 bins of equal width, less what chance would show
- certificate: by how much any of the statements may be off at confidence 90 %, the widest and the median

- strength: how many rows the word of other leaves was worth; better: share of the runs whose log loss is below that of
  the first method

"200" is `min_rows=200`: leaves predicted in fewer rows share their bins with their siblings.

Data: a synthetic tree of three levels, 36 leaves of very unequal size, labels at inner nodes in one of twenty rows,
overconfident scores, 20,000 test rows. CIFAR-100, outputs of five nets, with the 20 superclasses of the data set and,
of our own making, four classes above them; CIFAR-10, outputs of six nets, animals and vehicles. Test rows are 5,000
drawn at random; the calibration rows come from the others. `CALIBRANT_DATA` names the folder of the data (by default
`../shared/data`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data_folder import data_folder, need_data
from scipy.special import softmax

from calibrant.maps import PathForecast
from calibrant.maps.paths import path_scores
from calibrant.metrics.multiclass.paths import path_calibration_error, path_log_loss
from calibrant.multiclass import PathCalibrator, Taxonomy

METHODS: dict[str, dict[str, Any]] = {
    "leaf, 100 a bin": {},
    "path, 100 a bin": {"bins_on": "path"},
    "leaf, 100, borrow": {"borrow": True},
    "path, 100, borrow": {"bins_on": "path", "borrow": True},
    "leaf, 25 a bin": {"points_per_bin": 25},
    "leaf, 25, borrow": {"points_per_bin": 25, "borrow": True},
    "path, 25, borrow": {"points_per_bin": 25, "bins_on": "path", "borrow": True},
    "leaf, 25, borrow, 200": {"points_per_bin": 25, "borrow": True, "min_rows": 200},
    "path, 25, borrow, 200": {"points_per_bin": 25, "bins_on": "path", "borrow": True, "min_rows": 200},
}

DIFFERENCES = (
    ("borrow, 100", "error", "leaf, 100 a bin", "leaf, 100, borrow"),
    ("borrow, 25", "error", "leaf, 25 a bin", "leaf, 25, borrow"),
    ("ancestors", "log loss", "leaf, 100 a bin", "path, 100 a bin"),
    ("ancestors broad", "level 1", "leaf, 100 a bin", "path, 100 a bin"),
)
"""What the proposal says of the first two methods: mean over runs, which are paired, and its standard error."""

SUPERCLASSES = {
    "animals": {
        "aquatic mammals": "beaver dolphin otter seal whale",
        "fish": "aquarium_fish flatfish ray shark trout",
        "insects": "bee beetle butterfly caterpillar cockroach",
        "large carnivores": "bear leopard lion tiger wolf",
        "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
        "medium mammals": "fox porcupine possum raccoon skunk",
        "invertebrates": "crab lobster snail spider worm",
        "people": "baby boy girl man woman",
        "reptiles": "crocodile dinosaur lizard snake turtle",
        "small mammals": "hamster mouse rabbit shrew squirrel",
    },
    "plants": {
        "flowers": "orchid poppy rose sunflower tulip",
        "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
        "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    },
    "outdoors": {
        "large man-made outdoor things": "bridge castle house road skyscraper",
        "large natural outdoor scenes": "cloud forest mountain plain sea",
    },
    "things": {
        "food containers": "bottle bowl can cup plate",
        "household electrical devices": "clock keyboard lamp telephone television",
        "household furniture": "bed chair couch table wardrobe",
        "vehicles 1": "bicycle bus motorcycle pickup_truck train",
        "vehicles 2": "lawn_mower rocket streetcar tank tractor",
    },
}
ANIMALS = "bird cat deer dog frog horse"
VEHICLES = "airplane automobile ship truck"


@dataclass(frozen=True)
class Case:
    """Scores and labels to calibrate on, scores and labels to judge on."""

    source: str
    rows: int
    tree: Taxonomy
    kind: str
    cal: np.ndarray
    cal_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


# ------------------------------------------------------------------------------------------------------------ the data


def synthetic(sizes: tuple[int, ...], seeds: int) -> Iterator[Case]:
    parents: dict[str, str | None] = {}
    for i in range(3):
        parents[f"{i}"] = None
        for j in range(3):
            parents[f"{i}.{j}"] = f"{i}"
            parents |= {f"{i}.{j}.{k}": f"{i}.{j}" for k in range(4)}
    tree = Taxonomy(parents)
    for seed in range(seeds):
        rng = np.random.default_rng([61, seed])
        truth, labels = _drawn(tree, rng, max(sizes) + 20_000)
        scores = np.log(truth) * 1.6  # overconfident, the more so the deeper
        for size in sizes:
            part = slice(0, size)
            yield Case("synthetic", size, tree, "logit", scores[part], labels[part], scores[-20_000:], labels[-20_000:])


def _drawn(tree: Taxonomy, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities that vary more between branches than within, and labels from them."""
    member = tree.membership.astype(float)
    level = rng.normal(size=len(tree.leaves))
    noise = rng.normal(size=(rows, len(tree.nodes))) * np.array([0.0, 1.6, 1.3, 1.1])[tree.depths]
    truth = softmax(level + noise @ member.T, axis=1)
    leaf = (truth.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=len(tree.leaves) - 1)
    codes = np.array([tree.code(name) for name in tree.leaves])[leaf]
    codes = np.where(rng.random(rows) < 0.05, tree.parents[codes], codes)
    return truth, np.array(tree.nodes)[codes]


def cifar(folder: Path, classes: int, sizes: tuple[int, ...], seeds: int) -> Iterator[Case]:
    if classes == 100:
        parents: dict[str, str | None] = dict.fromkeys(SUPERCLASSES)
        parents |= {middle: upper for upper, below in SUPERCLASSES.items() for middle in below}
        fine = {leaf: m for below in SUPERCLASSES.values() for m, leaves in below.items() for leaf in leaves.split()}
    else:
        parents = {"animal": None, "vehicle": None}
        fine = dict.fromkeys(ANIMALS.split(), "animal") | dict.fromkeys(VEHICLES.split(), "vehicle")
    tree = Taxonomy(parents | {leaf: fine[leaf] for leaf in sorted(fine)})  # the labels count the names in this order
    for path in sorted((folder / "cifar_logits").glob(f"cifar{classes}_*_test.npz")):
        stored = np.load(path)
        scores, labels = stored["logits"].astype(np.float32), np.array(tree.leaves)[stored["labels"]]
        for seed in range(seeds):
            order = np.random.default_rng([62, seed]).permutation(len(labels))
            rest, test = order[5_000:], order[:5_000]
            for size in sizes:
                part = rest[:size]
                yield Case(
                    f"cifar-{classes}", size, tree, "logit", scores[part], labels[part], scores[test], labels[test]
                )


# --------------------------------------------------------------------------------------------------------- the measures


def uncalibrated(case: Case) -> PathForecast:
    """What the model itself says about the nodes: the sums over the leaves beneath them."""
    leaves = np.array([case.tree.code(name) for name in case.tree.leaves])
    top, told = path_scores(case.tree.paths[leaves], case.test, np.arange(case.tree.depth), "logit")
    nodes = case.tree.paths[leaves[top]]
    told = np.where(nodes >= 0, np.clip(told, 1e-9, 1.0 - 1e-9), np.nan)
    return PathForecast(case.tree, leaves[top], nodes, told)


def measured(case: Case, forecast: PathForecast) -> dict[str, float]:
    error = path_calibration_error(forecast, case.test_labels, n_bins=15)
    out = {"log loss": float(path_log_loss(forecast, case.test_labels)), "error": error.value - (error.null or 0.0)}
    labels = case.tree.codes(case.test_labels)
    for level in range(case.tree.depth):
        there = forecast.nodes[:, level] >= 0
        p = forecast.probabilities[there, level]
        right = case.tree.belongs(labels[there], forecast.nodes[there, level])
        out[f"level {level + 1}"] = float(-np.log(np.where(right, p, 1.0 - p)).mean())
    return out


def table(cases: Iterator[Case]) -> pd.DataFrame:
    lines = []
    for case in cases:
        key = {"data": case.source, "rows": case.rows}
        lines.append(key | {"method": "as it is"} | measured(case, uncalibrated(case)))
        for name, options in METHODS.items():
            given = {"classes": case.tree.leaves, "score_type": case.kind}
            cal = PathCalibrator(case.tree, **options).fit(case.cal, case.cal_labels, **given)
            told = cal.certificate(0.1)
            widths = {}
            if told:
                widths = {"widest": told.epsilon, "median": float(np.median(told.half_widths[told.covered]))}
            worth = {"strength": cal.strength_} if cal.strength_ else {}
            lines.append(key | {"method": name} | measured(case, cal.forecast(case.test)) | widths | worth)
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the synthetic tree alone")
    quick = parser.parse_args().quick
    folder = data_folder() if quick else need_data("cifar_logits")
    start = time.process_time()
    found = [table(synthetic((1_000, 5_000, 20_000), 3))]
    if not quick:
        found += [table(cifar(folder, classes, (1_000, 5_000), 1)) for classes in (10, 100)]
    for part in found:
        part = part.dropna(axis=1, how="all")
        for key, rows in part.groupby(["data", "rows"], sort=False):
            print(f"\n{key[0]}, {key[1]:,} calibration rows, {rows['method'].eq('as it is').sum()} runs")
            means = rows.groupby("method", sort=False).mean(numeric_only=True).drop(columns="rows")
            losses = {name: each["log loss"].to_numpy() for name, each in rows.groupby("method")}
            means["better"] = [(losses[name] < losses[next(iter(METHODS))]).mean() for name in means.index]
            print(means.to_string(float_format="{:.4f}".format, na_rep=""))
            for label, what, first, second in DIFFERENCES:
                one, other = (rows.loc[rows["method"] == name, what].to_numpy() for name in (first, second))
                gaps = one - other
                print(f"{label}, {what}: {gaps.mean():.5f} ({gaps.std(ddof=1) / np.sqrt(len(gaps)):.5f})")
    print(f"\n{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
