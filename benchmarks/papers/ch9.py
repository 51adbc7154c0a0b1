"""Chapter 9 of Gupta 2023, nested conformal prediction: Tables 9.2 (width), 9.3 (coverage) and 9.4, beside ours.

    python benchmarks/papers/ch9.py                  # 10 versions of each data set
    python benchmarks/papers/ch9.py --versions 2     # quick
    python benchmarks/papers/ch9.py --full           # 100 versions, as printed
    python benchmarks/papers/ch9.py --shapes         # Table 9.4: sets, their hulls and intervals of jackknife+ style
    ... --resume runs.jsonl                          # writes each version to the file, and skips those that are in it

Protocol, fixed before the first run:

- Data: blog, protein (F1 to F8), concrete and kernel (mean of four runs), of `CALIBRANT_DATA` (by default
  `../shared/data`). News and superconductivity are not there.
- A version is 1,000 rows drawn without replacement, 768 to fit and 232 to test. alpha = 0.1.
- Forests of 100 trees. The chapter used MATLAB's TreeBagger with its defaults: bootstrap samples of all rows, at least
  5 drawn rows in a leaf, a third of the columns tried at each split. Here scikit-learn's RandomForestRegressor with at
  least 3 rows in a leaf: it counts a row once that a tree has drawn several times, and 5 draws are about 3 rows. (A
  first look at two versions of concrete, with 5 rows in a leaf, had widths 14 to 18 % above the printed ones for all
  methods; the leaves were set to 3 after it, all else before.)
- SC and Split-CQR hold out half of the 768 rows. The chapter does not say how many; Lei et al. (2018) take half.
- 8-fold-CC: 8 folds of 96 rows, a forest for each. OOB-CC: mean of out-of-bag trees. OOB-NCC: radius by their standard
  deviation. Split-CQR and QOOB: quantiles of levels 2 alpha and 1 - 2 alpha from the leaves.
- The number of trees is fixed, as in the chapter: OOB methods have no certificate here.
- Sets are those that the chapter defines, not smoothed at ties. No set is shortened or cut at the range of outcomes.

- Table 9.4: QOOB on blog with quantiles of level 0.5, one forest for the three shapes of a version.

Mean over versions, with the standard error of that mean in brackets. `gap` is ours less printed, in standard errors of
the difference (ours and the printed one together).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

sys.path.insert(0, str(Path(__file__).parents[1]))

from data_folder import need_data

from calibrant.conformal import QOOB, CrossConformal, OutOfBagConformal, Quantiles, SplitConformal

ALPHA, TREES, ROWS, FITTED = 0.1, 100, 1000, 768
METHODS = ("SC", "Split-CQR", "8-fold-CC", "OOB-CC", "OOB-NCC", "QOOB")
PRINTED = {  # of each method: mean width, its standard deviation, coverage
    "blog": (
        (25.54, 12.22, 24.83, 24.76, 20.31, 14.43),
        (0.71, 0.35, 0.44, 0.50, 0.42, 0.38),
        (0.90, 0.91, 0.91, 0.90, 0.92, 0.92),
    ),
    "protein": (
        (16.88, 14.20, 16.42, 16.38, 14.87, 13.74),
        (0.08, 0.09, 0.05, 0.04, 0.05, 0.05),
        (0.90, 0.90, 0.91, 0.91, 0.91, 0.91),
    ),
    "concrete": (
        (22.29, 21.45, 19.23, 18.69, 18.66, 18.19),
        (0.14, 0.12, 0.04, 0.03, 0.06, 0.05),
        (0.90, 0.90, 0.91, 0.91, 0.91, 0.92),
    ),
    "kernel": (
        (452.71, 295.49, 411.81, 402.97, 353.35, 300.04),
        (5.1, 3.09, 3.43, 3.13, 2.95, 2.7),
        (0.90, 0.90, 0.91, 0.91, 0.93, 0.93),
    ),
}


DIFFERENCES = (
    ("OOB-CC - 8-fold-CC", "OOB-CC", ("8-fold-CC",)),
    ("QOOB - Split-CQR", "QOOB", ("Split-CQR",)),
    ("QOOB - rest", "QOOB", ("SC", "8-fold-CC", "OOB-CC", "OOB-NCC")),
)
"""Differences of widths that the text speaks of: a name, a method, and others of which the narrowest counts."""

SHAPES = {"QOOB": "set", "QOOB-Conv": "hull", "QOOB-JP": "plus"}
PRINTED_SHAPES = ((14.67, 14.73, 15.36), (0.246, 0.249, 0.248), (0.908, 0.908, 0.911))

Run = dict[str, tuple[float, float]]


def rows_of(name: str, folder: Path) -> tuple[Any, Any]:
    """Columns and outcomes of a data set."""
    import pandas as pd

    file, target = {
        "blog": ("blog_train", "comments_next_24h"),
        "protein": ("casp", "RMSD"),
        "concrete": ("concrete", "strength_mpa"),
        "kernel": ("sgemm", "mean_ms"),
    }[name]
    frame = pd.read_parquet(folder / f"qoob_{name}" / f"{file}.parquet")
    y = frame.pop(target).to_numpy(dtype=float)
    if name == "kernel":
        frame = frame[[column for column in frame.columns if not column.startswith("Run")]]
    if name == "protein":
        frame = frame[[f"F{at}" for at in range(1, 9)]]
    return frame.to_numpy(dtype=np.float32), y


def methods(seed: int) -> dict[str, Any]:
    """The six methods of Table 9.2, in its order."""
    forest = RandomForestRegressor(TREES, min_samples_leaf=3, max_features=1 / 3, random_state=seed)
    options: dict[str, Any] = {"alpha": ALPHA, "random_state": seed}
    found = (
        SplitConformal(forest, calibration_share=0.5, **options),
        SplitConformal(forest, family=Quantiles(2 * ALPHA), calibration_share=0.5, **options),
        CrossConformal(forest, folds=8, **options),
        OutOfBagConformal(forest, draw_trees=False, **options),
        OutOfBagConformal(forest, family="scaled", draw_trees=False, **options),
        QOOB(forest, draw_trees=False, **options),
    )
    return dict(zip(METHODS, found, strict=True))


def parts(n: int, seed: int) -> tuple[Any, Any]:
    """Rows to fit and to test of one version."""
    drawn = np.random.default_rng(seed).choice(n, ROWS, replace=False)
    return drawn[:FITTED], drawn[FITTED:]


def version(X: Any, y: Any, seed: int) -> Run:
    """Mean width and coverage of each method on one version."""
    fit, test = parts(len(y), seed)
    found = {}
    for name, method in methods(seed).items():
        summary = method.fit(X[fit], y[fit]).predict_sets(X[test]).summary(y[test])
        found[name] = summary.mean_width, summary.coverage
    return found


def shapes(X: Any, y: Any, seed: int) -> Run:
    """Mean width and coverage of each shape of QOOB on one version, from one forest."""
    fit, test = parts(len(y), seed)
    fitted = methods(seed)["QOOB"].set_params(beta=0.5).fit(X[fit], y[fit])
    found = {}
    for name, aggregate in SHAPES.items():
        summary = fitted.set_params(aggregate=aggregate).predict_sets(X[test]).summary(y[test])
        found[name] = summary.mean_width, summary.coverage
    return found


def runs_of(
    make: Callable[[Any, Any, int], Run], name: str, folder: Path, versions: int, store: Path | None
) -> list[Run]:
    """Runs of all versions of a data set; those that the file holds are read from it, the others are added to it."""
    lines = store.read_text(encoding="utf-8").splitlines() if store and store.exists() else []
    kept = {(each["table"], each["data"], each["seed"]): each["run"] for each in map(json.loads, lines)}
    X, y = rows_of(name, folder)
    runs = []
    for seed in range(versions):
        run = kept.get((make.__name__, name, seed)) or make(X, y, seed)
        if store and (make.__name__, name, seed) not in kept:
            with store.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"table": make.__name__, "data": name, "seed": seed, "run": run}) + "\n")
        runs.append(run)
    return runs


def show(title: str, runs: list[Run], printed: Any) -> None:
    """Our means beside the printed ones, and the order of widths."""
    print(f"\n{title}")
    print("                  width      (se)  printed     (sd)    gap  coverage     (se)  printed")
    for method, width, error, coverage in zip(runs[0], *printed, strict=True):
        ours = np.array([run[method] for run in runs])
        mean, se = ours.mean(axis=0), ours.std(axis=0, ddof=1) / np.sqrt(len(runs))
        gap = (mean[0] - width) / np.hypot(se[0], error)
        print(
            f"   {method:<11}{mean[0]:9.2f} ({se[0]:7.2f}){width:9.2f} ({error:6.2f}){gap:+7.1f}"
            f"{mean[1]:10.3f} ({se[1]:6.3f}){coverage:9.2f}"
        )
    widths = {method: float(np.mean([run[method][0] for run in runs])) for method in runs[0]}
    print(f"   narrowest first: {', '.join(sorted(widths, key=lambda method: widths[method]))}", flush=True)
    for label, first, others in DIFFERENCES if "OOB-CC" in widths else ():  # versions are paired
        second = min(others, key=lambda method: widths[method])
        gaps = np.array([run[first][0] - run[second][0] for run in runs])
        error = gaps.std(ddof=1) / np.sqrt(len(gaps))
        print(f"   width, {label}: {gaps.mean():.3f} ({error:.3f})", flush=True)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--full", action="store_true", help="100 versions")
    reader.add_argument("--versions", type=int, default=10)
    reader.add_argument("--data", nargs="+", choices=list(PRINTED), default=list(PRINTED))
    reader.add_argument("--shapes", action="store_true", help="Table 9.4 alone, on blog")
    reader.add_argument("--resume", type=Path, help="a file of versions that are done")
    given = reader.parse_args()
    versions = 100 if given.full else given.versions
    make, names = (shapes, ["blog"]) if given.shapes else (version, given.data)
    folder = need_data(*(f"qoob_{name}" for name in names))
    for name in names:
        start = time.process_time()
        runs = runs_of(make, name, folder, versions, given.resume)
        title = f"{name}, {versions} versions, {time.process_time() - start:.0f} s of CPU time"
        show(title, runs, PRINTED_SHAPES if given.shapes else PRINTED[name])


if __name__ == "__main__":
    main()
