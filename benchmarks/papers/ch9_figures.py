"""Chapter 9 of Gupta 2023, nested conformal prediction: Figures 9.1 to 9.4.

    python benchmarks/papers/ch9_figures.py --figure ch9_figures.png
    python benchmarks/papers/ch9_figures.py --versions 2     # quick
    ... --resume runs.jsonl          # writes each run to the file, and skips those that are in it

Protocol, fixed before the first run. Data, versions, forests and splits are those of `ch9.py`, and alpha is 0.1.

- Figure 9.1: mean width of QOOB and Split-CQR against the level beta = k alpha of the quantiles, k from 0.5 to 4,
  beside OOB-NCC, which has no such level.
- Figure 9.2: mean width of QOOB, QOOB-D, Split-CQR and OOB-NCC against the number of trees, 50 to 400; beta = 2 alpha.
- Figure 9.3: mean width of QOOB and Split-CQR against the number of rows, 30 to 240: the first ones of those to fit.
- Figure 9.4: rows of Romano et al. (2019, Appendix B), with 500 to test; beta = 0.1, as printed. Coverage in each fifth
  of x. The chapter sets at least 40 rows in a leaf, which its software counts as drawn: here about 25 rows that differ,
  by the rule of `ch9.py`. Leaves of 40 rows that differ are shown too. Of the sizes only n = 300 is in the text; 100
  and 200 are ours. Rows with x up to 5 were added after the first look, in search of the printed widths.

The chapter has 100 versions; here there are fewer (`VERSIONS`). The numbers behind the printed curves are not in the
text, so that only its statements can be compared. The last table has a number for each statement: a difference of
widths is the mean over versions as a percentage of the second width, with its standard error in brackets. Versions are
paired.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

sys.path.insert(0, str(Path(__file__).parents[1]))

from ch9 import ALPHA, FITTED, PRINTED, TREES, parts, rows_of
from data_folder import need_data

from calibrant.conformal import QOOB, OutOfBagConformal, Quantiles, SplitConformal

VERSIONS = {"9.1": 3, "9.2": 3, "9.3": 6, "9.4": 9}
DATA = tuple(PRINTED)
LEVELS = (0.5, 1.0, 2.0, 3.0, 4.0)
NUMBERS_OF_TREES = (50, 100, 200, 400)
NUMBERS_OF_ROWS = (30, 60, 120, 240)
SYNTHETIC_ROWS = (100, 200, 300)
TESTED = 500
FIFTHS = 5


@dataclass(frozen=True)
class Setting:
    """What is fitted: one point of a curve."""

    method: str
    k: float = 2.0
    trees: int = TREES
    rows: int = FITTED
    leaf: int = 3
    columns: float = 1 / 3
    end: float = 1.0


Run = dict[str, Any]
Runs = dict[tuple[str, Setting], list[Run]]
"""Of a data set and a setting: the runs of its versions, in order."""


def method_of(setting: Setting, seed: int) -> Any:
    """The method of a setting, as in `ch9.methods`."""
    forest = RandomForestRegressor(
        setting.trees, min_samples_leaf=setting.leaf, max_features=setting.columns, random_state=seed
    )
    options: dict[str, Any] = {"alpha": ALPHA, "random_state": seed}
    beta = setting.k * ALPHA
    if setting.method == "Split-CQR":
        return SplitConformal(forest, family=Quantiles(beta), calibration_share=0.5, **options)
    if setting.method == "OOB-NCC":
        return OutOfBagConformal(forest, family="scaled", draw_trees=False, **options)
    family = "distribution" if setting.method == "QOOB-D" else "quantiles"
    return QOOB(forest, beta=beta, family=family, draw_trees=False, **options)


def synthetic(n: int, end: float, seed: int) -> tuple[Any, Any]:
    """Rows of the distribution of section 9.6.5, with x from 0 to an end, which is 1 in the text."""
    rng = np.random.default_rng(seed)
    x = end * rng.random(n)
    y = rng.poisson(np.sin(x) ** 2 + 0.1) + 0.03 * x * rng.normal(size=n)
    return x[:, None], y + 25.0 * (rng.random(n) < 0.01) * rng.normal(size=n)


def run_of(X: Any, y: Any, fit: Any, test: Any, setting: Setting, seed: int) -> Run:
    """Mean width and coverage of one version; for one column also the coverage in fifths of it."""
    start = time.process_time()
    sets = method_of(setting, seed).fit(X[fit], y[fit]).predict_sets(X[test])
    summary, covers = sets.summary(y[test]), sets.covers(y[test])
    run: Run = {"width": float(summary.mean_width), "coverage": float(summary.coverage)}
    if X.shape[1] == 1:
        fifth = (X[test, 0] * FIFTHS / setting.end).astype(int)
        run["fifths"] = [float(covers[fifth == at].mean()) for at in range(FIFTHS)]
    return run | {"seconds": time.process_time() - start}


def settings(figure: str) -> Iterator[Setting]:
    """The points of a figure."""
    if figure == "9.1":
        yield from (Setting(method, k=k) for k in LEVELS for method in ("QOOB", "Split-CQR"))
        yield Setting("OOB-NCC")
    elif figure == "9.2":
        methods = ("QOOB", "QOOB-D", "Split-CQR", "OOB-NCC")
        yield from (Setting(method, trees=trees) for trees in NUMBERS_OF_TREES for method in methods)
    elif figure == "9.3":
        yield from (Setting(method, rows=rows) for rows in NUMBERS_OF_ROWS for method in ("QOOB", "Split-CQR"))
    else:
        for leaf in (25, 40):
            for rows in SYNTHETIC_ROWS:
                yield from (Setting(method, 1.0, TREES, rows, leaf, 1.0) for method in ("QOOB", "Split-CQR"))
        yield from (Setting(method, 1.0, TREES, 300, 25, 1.0, 5.0) for method in ("QOOB", "Split-CQR"))


def all_runs(versions: dict[str, int], store: Path | None) -> dict[str, Runs]:
    """Runs of each figure; a setting that two figures share is run once."""
    folder = need_data(*(f"qoob_{name}" for name in DATA))
    data = {name: rows_of(name, folder) for name in DATA}
    lines = store.read_text(encoding="utf-8").splitlines() if store and store.exists() else []
    kept = {(each["data"], Setting(**each["setting"]), each["seed"]): each["run"] for each in map(json.loads, lines)}
    QOOB().compile()
    found: dict[str, Runs] = {figure: {} for figure in versions}
    for figure, times in versions.items():
        for seed in range(times):
            for name in ("synthetic",) if figure == "9.4" else DATA:
                for setting in settings(figure):
                    key = (name, setting, seed)
                    if key not in kept:
                        if name == "synthetic":
                            X, y = synthetic(setting.rows + TESTED, setting.end, seed)
                            fit, test = np.split(np.arange(len(y)), [setting.rows])
                        else:
                            X, y = data[name]
                            fit, test = parts(len(y), seed)
                        kept[key] = run_of(X, y, fit[: setting.rows], test, setting, seed)
                        if store:
                            line = {"data": name, "setting": asdict(setting), "seed": seed, "run": kept[key]}
                            with store.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(line) + "\n")
                    found[figure].setdefault((name, setting), []).append(kept[key])
    return found


# ------------------------------------------------------------------------------------------------------ numbers


def of(runs: Runs, name: str, what: str, method: str, **point: Any) -> Any:
    """Widths or coverages of the versions at one point of a curve."""
    return np.array([run[what] for run in runs[name, Setting(method, **point)]])


def mean_and_error(values: Any) -> tuple[Any, Any]:
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


Number = tuple[float, float | None]


def less(first: Any, second: Any) -> Number:
    """Mean difference of paired widths as a percentage of the second ones, and its standard error."""
    mean, error = mean_and_error(100.0 * (first - second) / second.mean())
    return float(mean), float(error)


def largest(*numbers: Number) -> Number:
    return max(numbers, key=lambda number: number[0])


def least(*numbers: Number) -> Number:
    return min(numbers, key=lambda number: number[0])


def compared(found: dict[str, Runs]) -> dict[str, Number]:
    """A number for each statement of the text."""
    out: dict[str, Number] = {}
    for name in DATA:
        runs = found["9.1"]
        widths = {method: {k: of(runs, name, "width", method, k=k) for k in LEVELS} for method in ("QOOB", "Split-CQR")}
        out[f"9.1/QOOB - OOB-NCC at 2 alpha/{name}"] = less(widths["QOOB"][2.0], of(runs, name, "width", "OOB-NCC"))
        for method, curve in widths.items():
            best = min(LEVELS, key=lambda k, curve=curve: curve[k].mean())
            out[f"9.1/{method}, 2 alpha - narrowest/{name}"] = less(curve[2.0], curve[best])
        covered = [[run["coverage"] for run in points] for (data, _), points in runs.items() if data == name]
        mean, error = mean_and_error(np.array(covered).T)
        out[f"9.1/least coverage/{name}"] = float(mean.min()), float(error[mean.argmin()])

        runs = found["9.2"]
        curves = {
            method: {trees: of(runs, name, "width", method, trees=trees) for trees in NUMBERS_OF_TREES}
            for method in ("QOOB", "QOOB-D", "Split-CQR", "OOB-NCC")
        }
        ours, split = curves["QOOB"], curves["Split-CQR"]
        out[f"9.2/QOOB, 400 - 50 trees/{name}"] = less(ours[400], ours[50])
        out[f"9.2/Split-CQR, 400 - 100 trees/{name}"] = less(split[400], split[100])
        out[f"9.2/QOOB - OOB-NCC, largest/{name}"] = largest(
            *(less(ours[trees], curves["OOB-NCC"][trees]) for trees in NUMBERS_OF_TREES)
        )
        out[f"9.2/QOOB-D - QOOB, least/{name}"] = least(
            *(less(curves["QOOB-D"][trees], ours[trees]) for trees in NUMBERS_OF_TREES)
        )
        out[f"9.2/QOOB - Split-CQR, 400 trees/{name}"] = less(ours[400], split[400])

        runs = found["9.3"]
        pairs = [
            (of(runs, name, "width", "QOOB", rows=rows), of(runs, name, "width", "Split-CQR", rows=rows))
            for rows in NUMBERS_OF_ROWS
        ]
        out[f"9.3/QOOB - Split-CQR, 30 and 60 rows, largest/{name}"] = largest(*(less(*pair) for pair in pairs[:2]))
        ratios = [float(first.std(ddof=1) / second.std(ddof=1)) for first, second in pairs]
        out[f"9.3/sd of QOOB by that of Split-CQR, mean/{name}"] = float(np.mean(ratios)), None
    runs = found["9.4"]
    spread = {}
    for method in ("QOOB", "Split-CQR"):
        point: dict[str, Any] = {"k": 1.0, "leaf": 25, "columns": 1.0}
        for what in ("width", "coverage"):
            mean, error = mean_and_error(of(runs, "synthetic", what, method, rows=300, **point))
            out[f"9.4/{what} of {method}, 300 rows"] = float(mean), float(error)
        fifths = of(runs, "synthetic", "fifths", method, rows=100, **point).mean(axis=0)
        spread[method] = float(np.ptp(fifths))
    out["9.4/range over fifths, QOOB - Split-CQR, 100 rows"] = spread["QOOB"] - spread["Split-CQR"], None
    return out


# ------------------------------------------------------------------------------------------------------- output


CURVES = {
    "9.1": ("k, beta = k alpha", "k", LEVELS),
    "9.2": ("trees", "trees", NUMBERS_OF_TREES),
    "9.3": ("rows", "rows", NUMBERS_OF_ROWS),
}


def methods_of(figure: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(setting.method for setting in settings(figure)))


def at(figure: str, method: str, value: float) -> dict[str, Any]:
    """The setting of a method at a point of a figure; OOB-NCC has no level of quantiles."""
    _, field, _ = CURVES[figure]
    return {} if method == "OOB-NCC" and field == "k" else {field: value}


def show(found: dict[str, Runs], versions: dict[str, int]) -> None:
    for figure, (label, _, values) in CURVES.items():
        runs = found[figure]
        print(f"\nFigure {figure}, {versions[figure]} versions: mean width, its standard error, coverage; by {label}")
        for name in DATA:
            print(f"{name:<12}" + "".join(f"{value:>22g}" for value in values))
            for method in methods_of(figure):
                cells = []
                for value in values:
                    point = at(figure, method, value)
                    mean, error = mean_and_error(of(runs, name, "width", method, **point))
                    coverage = of(runs, name, "coverage", method, **point).mean()
                    cells.append(f"{mean:9.2f} ({error:5.2f}){coverage:6.3f}")
                print(f"   {method:<9}" + "".join(cells))
    print(
        f"\nFigure 9.4, {versions['9.4']} versions: mean width and coverage, standard errors; coverage in fifths of x"
    )
    for (_, setting), points in found["9.4"].items():
        width = mean_and_error(np.array([run["width"] for run in points]))
        coverage = mean_and_error(np.array([run["coverage"] for run in points]))
        fifths = np.array([run["fifths"] for run in points]).mean(axis=0)
        print(
            f"   n = {setting.rows}, leaves of {setting.leaf}, x to {setting.end:g}, {setting.method:<10}"
            f"{width[0]:7.2f} ({width[1]:4.2f}){coverage[0]:7.3f} ({coverage[1]:5.3f})   "
            + " ".join(f"{value:.3f}" for value in fifths)
        )
    print("\nNumbers that are compared with the text")
    for key, (value, error) in compared(found).items():
        print(f"   {key:<62}{value:9.3f}" + ("" if error is None else f" ({error:.3f})"))
    seconds = {id(run): run["seconds"] for runs in found.values() for points in runs.values() for run in points}
    print(f"\n{sum(seconds.values()):.0f} s of CPU time", flush=True)


def draw(found: dict[str, Runs], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    colors = {"QOOB": "C0", "Split-CQR": "C1", "OOB-NCC": "C2", "QOOB-D": "C3"}
    figure, panels = plt.subplots(4, 4, figsize=(11, 10), layout="constrained")
    for row, (number, (label, _, values)) in zip(panels, CURVES.items(), strict=False):
        for panel, name in zip(row, DATA, strict=True):
            for method in methods_of(number):
                points = [of(found[number], name, "width", method, **at(number, method, each)) for each in values]
                mean, error = mean_and_error(np.array(points).T)
                panel.plot(values, mean, color=colors[method], marker=".", label=method)
                panel.fill_between(values, mean - error, mean + error, color=colors[method], alpha=0.2, lw=0)
            panel.set(title=f"{number}: {name}", xlabel=label)
        row[0].set_ylabel("mean width")
    middles = (np.arange(FIFTHS) + 0.5) / FIFTHS
    for panel, rows in zip(panels[3], SYNTHETIC_ROWS, strict=False):
        for method in ("QOOB", "Split-CQR"):
            point = {"k": 1.0, "rows": rows, "leaf": 25, "columns": 1.0}
            mean, error = mean_and_error(of(found["9.4"], "synthetic", "fifths", method, **point))
            panel.errorbar(middles, mean, error, color=colors[method], marker=".", capsize=2)
        panel.axhline(1.0 - ALPHA, color="gray", lw=0.8, ls=":")
        panel.set(title=f"9.4: {rows} rows", xlabel="x", ylim=(0.75, 1.0))
    panels[3, 0].set_ylabel("coverage")
    panels[3, 3].axis("off")
    panels[3, 3].legend(*panels[1, 0].get_legend_handles_labels(), loc="center", title="mean ± standard error")
    figure.savefig(file, dpi=60)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--versions", type=int, help="of each figure; by default " + str(VERSIONS))
    reader.add_argument("--figure", type=Path, help="a file for the picture")
    reader.add_argument("--resume", type=Path, help="a file of runs that are done")
    given = reader.parse_args()
    versions = dict.fromkeys(VERSIONS, given.versions) if given.versions else VERSIONS
    found = all_runs(versions, given.resume)
    show(found, versions)
    if given.figure:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
