"""Chapter 5 of Gupta 2023 on real networks: top-label and class-wise errors beside the printed tables.

    python benchmarks/papers/ch5.py --quick                     # the printed network, two others, small cover types
    python benchmarks/papers/ch5.py --cache folder              # everything; scores of cover types stay in the folder
    python benchmarks/papers/ch5.py --pictures folder           # also draws the figures

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`). Sections of the output:

1. Tables 5.4 and 5.5, ResNet-50 on CIFAR-10 with the focal loss: the network whose outputs can be had. Printed figures
   stand beside ours, and the spread of ours over 20 new cuts of the 15,000 rows into 5,000 and 10,000.
2. The same numbers for 5 to 25 bins (Figures 5.6 and 5.8).
3. All other networks, 5,000 rows to calibrate and 5,000 to judge.
4. Which of the chapter's claims hold, network by network.
5. COVTYPE-7 (Figure 5.4): error by predicted class, points per bin against bins per class.
6. Three cover types (Figure 5.12): canonical calibration by binning the simplex.

"TL-MCE" in the printed tables is the largest Delta_b of the top-label reliability diagram (section 5.2.1): in each bin
the mean over classes of their gaps. Equation 5.17 has the largest gap over classes and bins instead, which is larger;
both are given. Binned calibrators are judged without further binning (Remark 5.1); bin number b of top-label histogram
binning stands for the b-th bin of every class. Temperature scaling there chose among 0.1, 0.2, ..., 10 (1.1 here); ours
minimizes the log loss and is given beside it. Vector and Dirichlet scaling have no penalty here, as there. The slopes
of the printed vector scaling are on the logarithms of the ratios to the last class, the default of the package that was
used there; ours are on the logarithms of the probabilities, another family (docs/errata.md), and stand beside it.
Dirichlet scaling is left out above 20 classes, where it would fit 10,000 numbers to 5,000 rows.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).parents[1]))

from multiclass_pools import Case, Floats, Labels, cases, logits

from calibrant import CalibrantWarning, HistogramBinning, TemperatureScaling
from calibrant.displays import CanonicalValidityDisplay, MulticlassErrorDisplay, SimplexDisplay, TopLabelDisplay
from calibrant.maps.classes import softmax
from calibrant.metrics import ece
from calibrant.multiclass import (
    ClasswiseHistogramBinning,
    DirichletScaling,
    Reduction,
    SimplexBinning,
    TopLabelHistogramBinning,
    VectorScaling,
)
from calibrant.notions import TopLabel

BINS = 15
PRINTED = {
    "TL-ECE": {"base": 0.022, "TS": 0.023, "VS": 0.018, "DS": 0.019, "N-HB": 0.023, "TL-HB": 0.019},
    "TL-MCE": {"base": 0.298, "TS": 0.443, "VS": 0.368, "DS": 0.472, "N-HB": 0.325, "TL-HB": 0.082},
    "CW-ECE": {"base": 0.42, "TS": 0.42, "VS": 0.35, "DS": 0.37, "N-HB": 0.52, "CW-HB": 0.35},
}
DIGITS = {"TL-ECE": 3, "TL-MCE": 3, "CW-ECE": 2, "5.17": 3}
GRID = np.arange(1, 101) / 10.0
"""Temperatures that the thesis chose from."""

MOST_CLASSES = 20
"""Largest number of classes with which Dirichlet scaling is fitted."""

NO_RIDGE = 1e-3
"""Next to no penalty, in rows: what the thesis compared with had none."""


@dataclass(frozen=True)
class Forecast:
    """What a method says about the test rows: the named class with its probability, and the whole rows if it has them.

    ``bins`` numbers the bin of each row for a binned method, whose outputs need no further binning.
    """

    named: Labels
    top: Floats
    rows: Floats | None = None
    bins: Labels | None = None
    binned_rows: bool = False


Method = Callable[[Floats, Labels, Floats, int], Forecast]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the printed network, two others, small cover types")
    parser.add_argument("--cache", type=Path, help="folder in which scores of the cover types are kept")
    parser.add_argument("--pictures", type=Path, help="folder for the figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CalibrantWarning)
    nets, covers = chosen(options.quick, options.cache)
    printed_network(nets[0], 4 if options.quick else 20)
    sweep(nets[0], [5, 15, 25] if options.quick else range(5, 26))
    claims([(case, judged(case)) for case in nets])
    cover_types(covers[0])
    canonical(covers[1])
    if options.pictures is not None:
        draw(options.pictures, nets, covers)


def chosen(quick: bool, cache: Path | None) -> tuple[list[Case], list[Case]]:
    """Networks, the printed one first, and the two problems of cover types."""
    nets: list[Case] = []
    covers: list[Case] = []
    for case in cases(not quick, cache):
        if case.source == "uci":
            break
        (nets if case.source == "deep net" else covers).append(case)
    nets.sort(key=lambda case: "focal" not in case.name)
    if quick:
        nets = [nets[0], *(case for case in nets if case.name in ("cifar10_vgg19_bn", "cifar100_vgg19_bn"))]
    return nets, covers


# ---------------------------------------------------------------------------------------------------------- the methods


def base(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    return _of_rows(softmax(test))


def temperature(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    return _of_rows(_fitted(TemperatureScaling(), cal, y).transform(test))


def temperature_on_grid(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    losses = [-np.log(softmax(cal / t)[np.arange(len(y)), y]).mean() for t in GRID]
    return _of_rows(softmax(test / GRID[int(np.argmin(losses))]))


def vector(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    return _of_rows(_fitted(VectorScaling(ridge=NO_RIDGE), cal, y).transform(test))


def vector_on_ratios(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    """A slope and an intercept for each class on log(p_k / p_K), K the last class: what the thesis ran."""
    cal, test = cal - cal[:, -1:], test - test[:, -1:]
    rows, size = np.arange(len(y)), cal.shape[1]

    def loss(numbers: Floats) -> tuple[float, Floats]:
        p = softmax(cal * numbers[:size] + numbers[size:])
        value = -np.log(p[rows, y]).mean()
        p[rows, y] -= 1.0
        return value, np.concatenate([(p * cal).sum(axis=0), p.sum(axis=0)]) / len(y)

    start = np.repeat([1.0, 0.0], size)
    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9}
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return _of_rows(softmax(test * best[:size] + best[size:]))


def dirichlet(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    free = DirichletScaling(strength=NO_RIDGE, intercept=NO_RIDGE, clamp=2.0**-52)
    return _of_rows(_fitted(free, cal, y).transform(test))


def normalized(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    """The classical variant, Algorithm 5.4; its rows are sums of ratios, so they are binned like a network's."""
    binning = Reduction("class-wise", _plain(n_bins), normalized=True)
    return _of_rows(_fitted(binning, cal, y).transform(test))


def top_label(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    fitted = _fitted(TopLabelHistogramBinning(n_bins=n_bins, extremes="mean"), cal, y)
    named = test.argmax(axis=1)
    return Forecast(named, fitted.transform(test)[:, 0], bins=_bin_numbers(cal, y, test, n_bins))


def class_wise(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Forecast:
    rows = _fitted(ClasswiseHistogramBinning(n_bins=n_bins, extremes="mean"), cal, y).transform(test)
    return Forecast(rows.argmax(axis=1), rows.max(axis=1), rows, binned_rows=True)


METHODS: dict[str, Method] = {
    "base": base,
    "TS": temperature_on_grid,
    "TS, log loss": temperature,
    "VS": vector_on_ratios,
    "VS, log p": vector,
    "DS": dirichlet,
    "N-HB": normalized,
    "TL-HB": top_label,
    "CW-HB": class_wise,
}


def _plain(n_bins: int) -> HistogramBinning:
    return HistogramBinning(n_bins=n_bins, extremes="mean")


def _fitted(calibrator: Any, cal: Floats, y: Labels) -> Any:
    return calibrator.fit(cal, y, classes=range(cal.shape[1]), score_type="logit")


def _of_rows(rows: Floats) -> Forecast:
    return Forecast(rows.argmax(axis=1), rows.max(axis=1), rows)


def _bin_numbers(cal: Floats, y: Labels, test: Floats, n_bins: int) -> Labels:
    """The number, within its class, of the bin of each test row."""
    cal_top, test_top = softmax(cal).max(axis=1), softmax(test).max(axis=1)
    cal_named, test_named = cal.argmax(axis=1), test.argmax(axis=1)
    numbers = np.zeros(len(test), dtype=np.int64)
    for label in range(cal.shape[1]):
        among = np.sort(cal_top[cal_named == label])
        rows = test_named == label
        ranks = -(-np.arange(1, n_bins) * (len(among) + 1) // n_bins) - 1
        ranks = ranks[(ranks >= 0) & (ranks < len(among))]
        numbers[rows] = np.searchsorted(among[ranks], test_top[rows], side="right")
    return numbers


# ---------------------------------------------------------------------------------------------------------- the numbers


def errors(forecast: Forecast, y: Labels, n_bins: int, classes: int) -> dict[str, float]:
    """The three numbers of the tables, class-wise error in hundredths, and equation 5.17."""
    found: dict[str, float] = {}
    strategy = "width" if forecast.bins is None else "distinct"
    if not forecast.binned_rows:
        numbers = np.minimum(forecast.top * n_bins, n_bins - 1).astype(np.int64)
        numbers = numbers if forecast.bins is None else forecast.bins
        given = {"named": forecast.named, "notion": TopLabel(), "n_bins": n_bins, "strategy": strategy}
        given["classes"] = range(classes)
        found["TL-ECE"] = ece(forecast.top, y, uncertainty=False, **given).value
        found["TL-MCE"] = largest_delta(forecast, y, numbers)
        found["5.17"] = ece(forecast.top, y, p=np.inf, uncertainty=False, **given).value
    if forecast.rows is not None:
        how = "distinct" if forecast.binned_rows else "width"
        given = {"notion": "class-wise", "n_bins": n_bins, "strategy": how, "classes": range(classes)}
        kind = "independent" if forecast.binned_rows else "probability"
        found["CW-ECE"] = 100 * ece(forecast.rows, y, score_type=kind, uncertainty=False, **given).value
    return found


def largest_delta(forecast: Forecast, y: Labels, numbers: Labels) -> float:
    """The largest Delta_b of section 5.2.1: per bin, the mean over rows of the gap of their class."""
    size = int(numbers.max()) + 1
    gaps = np.zeros(size)
    for label in np.unique(forecast.named):
        rows = forecast.named == label
        hits = np.bincount(numbers[rows], y[rows] == label, minlength=size)
        gaps += np.abs(hits - np.bincount(numbers[rows], forecast.top[rows], minlength=size))
    n = np.bincount(numbers, minlength=size)
    return float((gaps[n > 0] / n[n > 0]).max())


def judged(case: Case, n_bins: int = BINS) -> dict[str, dict[str, float]]:
    """Every method on one case."""
    names = [name for name in METHODS if name != "DS" or case.classes <= MOST_CLASSES]
    cal, test = (np.asarray(logits(x, case.kind), dtype=np.float64) for x in (case.cal, case.test))
    y, truth = case.cal_labels.astype(np.int64), case.test_labels.astype(np.int64)
    return {name: errors(METHODS[name](cal, y, test, n_bins), truth, n_bins, case.classes) for name in names}


def recut(case: Case, seeds: int) -> Iterator[Case]:
    """The rows of a case cut anew into as many to calibrate and to judge."""
    scores, labels = np.concatenate([case.cal, case.test]), np.concatenate([case.cal_labels, case.test_labels])
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(labels))
        a, b = order[: len(case.cal)], order[len(case.cal) :]
        yield Case(case.source, case.name, seed, case.kind, scores[a], labels[a], scores[b], labels[b], case.classes)


# ----------------------------------------------------------------------------------------------------------- the output


def printed_network(case: Case, seeds: int) -> None:
    print(f"1. Tables 5.4 and 5.5: {case.name}, {BINS} bins; printed, ours, ours over {seeds} new cuts (mean, sd)\n")
    ours = judged(case)
    again = [judged(cut) for cut in recut(case, seeds)]
    for number in ("TL-ECE", "TL-MCE", "5.17", "CW-ECE"):
        print(f"   {number}{' x 100' if number == 'CW-ECE' else ''}")
        for name, found in ours.items():
            if number in found:
                values = [each[name][number] for each in again]
                d = DIGITS[number]
                asked = PRINTED.get(number, {}).get(name)
                beside = "   -  " if asked is None else f"{asked:6.{d}f}"
                again_told = f"{np.mean(values):6.{d + 1}f} {np.std(values):7.{d + 1}f}"
                print(f"     {name:13s}{beside}  {found[number]:6.{d}f}   {again_told}")
        print()


def sweep(case: Case, counts: Sequence[int]) -> None:
    print(f"2. Figures 5.6 and 5.8: {case.name}, {min(counts)} to {max(counts)} bins\n")
    found = {n_bins: judged(case, n_bins) for n_bins in counts}
    for number in ("TL-ECE", "TL-MCE", "CW-ECE"):
        names = [name for name in METHODS if number in found[counts[0]][name]]
        print(f"   {number:6s} bins " + "".join(f"{name:>14s}" for name in names))
        for n_bins in counts:
            print(f"          {n_bins:4d} " + "".join(f"{found[n_bins][name][number]:14.4f}" for name in names))
        print()


CLAIMS = {
    "TL-HB has the least TL-MCE (10 classes)": lambda f: _least(f, "TL-MCE", "TL-HB"),
    "CW-HB has the least CW-ECE": lambda f: _least(f, "CW-ECE", "CW-HB"),
    "normalizing raises CW-ECE": lambda f: f["N-HB"]["CW-ECE"] > f["CW-HB"]["CW-ECE"],
    "N-HB has the least TL-ECE": lambda f: _least(f, "TL-ECE", "N-HB"),
    "TL-HB has a larger TL-ECE than base (100 classes)": lambda f: f["TL-HB"]["TL-ECE"] > f["base"]["TL-ECE"],
    "TL-HB has a larger TL-ECE than TS (100 classes)": lambda f: f["TL-HB"]["TL-ECE"] > f["TS"]["TL-ECE"],
}
ASKED_OF = {claim: int(found[1]) for claim in CLAIMS if (found := re.search(r"\((\d+) classes\)", claim))}
COMPARED = ("base", "TS", "VS", "DS", "N-HB", "TL-HB", "CW-HB")


def _least(found: dict[str, dict[str, float]], number: str, name: str) -> bool:
    return found[name][number] == min(found[each][number] for each in COMPARED if number in found.get(each, {}))


def claims(results: Sequence[tuple[Case, dict[str, dict[str, float]]]]) -> None:
    print(f"3. Networks, {BINS} bins: TL-ECE, TL-MCE (largest Delta_b), CW-ECE x 100\n")
    for case, found in results:
        print(f"   {case.name}, cut {case.seed}, {case.classes} classes")
        for number in ("TL-ECE", "TL-MCE", "CW-ECE"):
            row = "  ".join(f"{name} {found[name][number]:.3f}" for name in found if number in found[name])
            print(f"     {number}  {row}")
    print("\n4. Claims of the chapter, network by network\n")
    for claim, holds in CLAIMS.items():
        asked = [(case, found) for case, found in results if ASKED_OF.get(claim, case.classes) == case.classes]
        told = [(case, holds(found)) for case, found in asked]
        print(f"   {claim}: holds in {sum(yes for _, yes in told)} of {len(told)}")
        for case, yes in told:
            print(f"     {'holds   ' if yes else 'does not'} {case.name}, cut {case.seed}")
    print()


def cover_types(case: Case) -> None:
    """Figure 5.4: by predicted class, the same number of points in each bin against the same number of bins."""
    print(f"5. Figure 5.4: {case.name}, {len(case.cal):,} calibration rows, TL-ECE by predicted class\n")
    y, truth = case.cal_labels, case.test_labels
    fits = {
        "100 points per bin": TopLabelHistogramBinning(points_per_bin=100),
        "50 bins per class": TopLabelHistogramBinning(n_bins=50),
    }
    named = case.test.argmax(axis=1)
    for name, calibrator in fits.items():
        calibrator.fit(case.cal, y, classes=range(case.classes), score_type=case.kind)
        after = calibrator.transform(case.test)[:, 0]
        before = case.test.max(axis=1)
        print(f"   {name}: class, share of rows, calibration rows, base, binned")
        for label in range(case.classes):
            rows = named == label
            n_cal = int((case.cal.argmax(axis=1) == label).sum())
            gaps = [_gap_by_output(after[rows], score[rows], truth[rows] == label) for score in (before, after)]
            print(f"     {label + 1}  {rows.mean():7.4f} {n_cal:8,d}  {gaps[0]:7.4f} {gaps[1]:7.4f}")
        print()


def _gap_by_output(output: Floats, score: Floats, event: NDArray[np.bool_]) -> float:
    """Mean absolute gap between score and rate in the bins that the outputs form (section 5.F)."""
    if not len(output):
        return float("nan")
    bins = np.unique(output, return_inverse=True)[1]
    return float(np.abs(np.bincount(bins, event) - np.bincount(bins, score)).sum() / len(score))


SIMPLEX = {
    "Sierpinski, depth 2": {"scheme": "sierpinski", "depth": 2},
    "grid, 5 cells": {"scheme": "grid", "cells": 5},
    "projection, 27 bins, classes": {"scheme": "projection", "n_bins": 27, "directions": "classes"},
    "projection, 27 bins, random": {"scheme": "projection", "n_bins": 27, "directions": "random", "random_state": 0},
}


def canonical(case: Case) -> None:
    """Figure 5.12: l1 distance between class shares and predictions in the regions of each scheme, before and after."""
    print(f"6. Figure 5.12: {case.name}, {len(case.cal):,} calibration rows; l1 error, and epsilon at 90 %\n")
    given = {"classes": range(case.classes), "score_type": case.kind}
    p = softmax(case.test) if case.kind == "logit" else case.test
    for name, options in SIMPLEX.items():
        cal = SimplexBinning(**options).fit(case.cal, case.cal_labels, **given)
        after = cal.transform(case.test)
        regions = cal.map_.regions(case.test)
        gaps = [l1_gaps(regions, rows, case.test_labels) for rows in (p, after)]
        within = [f"{float((gap <= 0.05).mean()):.3f}" for gap in gaps]
        print(
            f"   {name:30s} regions {len(np.unique(regions)):3d}  l1 {gaps[0].mean():.4f} -> {gaps[1].mean():.4f}  "
            f"rows within 0.05: {within[0]} -> {within[1]}  certificate {cal.certificate().epsilon:.3f}"
        )
    print()


def l1_gaps(regions: Labels, rows: Floats, y: Labels) -> Floats:
    """For each row, the l1 distance between the class shares and the mean prediction of its region."""
    n = np.bincount(regions)
    gaps = np.zeros(len(n))
    for k in range(rows.shape[1]):
        gaps += np.abs(np.bincount(regions, y == k) - np.bincount(regions, rows[:, k]))
    return np.asarray((gaps / np.maximum(n, 1))[regions])


def draw(folder: Path, nets: Sequence[Case], covers: Sequence[Case]) -> None:
    """Figures 5.1a, 5.1b, 5.4 and 5.12 as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    net, seven, three = nets[0], *covers
    top = TopLabelDisplay.from_predictions(
        net.test, net.test_labels, classes=range(net.classes), score_type=net.kind, n_bins=10
    )
    _save(top.plot(), folder / "5.1a.png")
    _save(top.zoom(0.55).plot(), folder / "5.1b-bin-6.png")
    _save(top.zoom(0.95).plot(), folder / "5.1b-bin-10.png")
    binning = TopLabelHistogramBinning(points_per_bin=100)
    binning.fit(seven.cal, seven.cal_labels, classes=range(seven.classes), score_type=seven.kind)
    errors = MulticlassErrorDisplay.from_predictions(
        seven.test, seven.test_labels, after=binning, classes=range(seven.classes), score_type=seven.kind
    )
    _save(errors.plot(), folder / "5.4.png")
    simplex = SimplexBinning("sierpinski", depth=2)
    simplex.fit(three.cal, three.cal_labels, classes=range(three.classes), score_type=three.kind)
    given = {"classes": range(three.classes), "score_type": three.kind}
    _save(
        SimplexDisplay.from_predictions(three.test, three.test_labels, binning=simplex, **given).plot(),
        folder / "5.12-right.png",
    )
    validity = CanonicalValidityDisplay.from_predictions(three.test, three.test_labels, binning=simplex, **given)
    _save(validity.plot(), folder / "5.12-left.png")


def _save(display: Any, path: Path) -> None:
    display.figure_.savefig(path, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
