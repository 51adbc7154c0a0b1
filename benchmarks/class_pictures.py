"""Draw every display of several classes, to be looked at: deep nets, cover types, 60 rows, a class never named.

    python benchmarks/class_pictures.py --out pictures [--cache folder] [--gray]

The data are those of `multiclass_pools.py`; `--cache` keeps the scores of its base models. ResNet-50 on CIFAR-10 (the
focal-loss model of Gupta 2023, chapter 5), a ResNet on the 100 classes of CIFAR-100, and cover types in seven classes
(forest) and three (logistic regression), each calibrated on its calibration rows and drawn on its test rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from multiclass_pools import Case, cases, logits
from pictures import save

from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.displays import (
    CanonicalValidityDisplay,
    ClasswiseDisplay,
    MulticlassErrorDisplay,
    SimplexDisplay,
    TopLabelDisplay,
)

CIFAR_10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
COVER = ["spruce and fir", "lodgepole pine", "other"]
WANTED = {
    "cifar10_resnet50_focalloss": "cifar10",
    "cifar100_resnet56": "cifar100",
    "cover type 7, forest small": "cover7",
    "cover type 3, logistic small": "cover3",
}
SLOPES = np.geomspace(0.3, 3.0, 60)

Pictures = Iterator[tuple[str, Callable[[], Any]]]


def wanted(cache: Path | None) -> dict[str, Case]:
    """The cases drawn; the pools are left as soon as all are there."""
    found: dict[str, Case] = {}
    for case in cases(full=False, cache=cache):
        if case.name in WANTED and case.seed == 0:
            found[WANTED[case.name]] = case
        if len(found) == len(WANTED):
            break
    return found


def names_of(case: Case) -> list[Any]:
    return CIFAR_10 if case.classes == 10 else COVER if case.classes == 3 else list(range(case.classes))


def labels_of(case: Case, labels: np.ndarray) -> np.ndarray:
    return np.array(names_of(case))[labels]


def of_all(name: str, case: Case) -> Pictures:
    """Pictures of the named class and of single classes."""
    scores, y = case.test, labels_of(case, case.test_labels)
    options: dict[str, Any] = {"classes": names_of(case), "score_type": case.kind}
    top = TopLabelDisplay.from_predictions(scores, y, **options)
    yield f"top-label-{name}", lambda: top
    middle, last = top.bins.mean_confidence[[np.abs(top.bins.mean_confidence - 0.55).argmin(), -1]]
    yield f"top-label-{name}-zoom", lambda: top.zoom(middle)
    yield f"top-label-{name}-zoom-last", lambda: top.zoom(last)
    yield f"class-wise-{name}", lambda: ClasswiseDisplay.from_predictions(scores, y, **options)
    yield f"class-wise-{name}-bins", lambda: ClasswiseDisplay.from_predictions(scores, y, curve="bins", **options)
    after = recalibrated(case)
    for notion in ("top-label", "class-wise"):
        yield (
            f"errors-{notion}-{name}",
            lambda notion=notion: MulticlassErrorDisplay.from_predictions(
                scores, y, after=after, notion=notion, **options
            ),
        )


def recalibrated(case: Case) -> np.ndarray:
    """Probabilities after temperature scaling, the slope found on a grid: enough for a picture."""
    cal, test = logits(case.cal, case.kind), logits(case.test, case.kind)
    rows = np.arange(len(cal))
    losses = [-np.log(np.maximum(softmax(slope * cal)[rows, case.cal_labels], 1e-12)).mean() for slope in SLOPES]
    return softmax(SLOPES[int(np.argmin(losses))] * test)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def of_simplex(name: str, case: Case) -> Pictures:
    """Pictures of three classes at once."""
    y, test = labels_of(case, case.cal_labels), labels_of(case, case.test_labels)
    options: dict[str, Any] = {"classes": names_of(case), "score_type": case.kind}
    for scheme, settings in (("sierpinski", {"depth": 3}), ("grid", {"cells": 5}), ("projection", {"n_bins": 30})):
        cal = SimplexBinning(scheme, **settings).fit(case.cal, y, **options)
        for picture, display in (("simplex", SimplexDisplay), ("validity", CanonicalValidityDisplay)):
            yield (
                f"{picture}-{name}-{scheme}",
                lambda display=display, cal=cal: display.from_predictions(case.test, test, binning=cal, **options),
            )


def few(case: Case, rows: int = 60) -> Case:
    """The first rows alone."""
    return Case(
        case.source, case.name, case.seed, case.kind, case.cal[:rows], case.cal_labels[:rows], case.test[:rows],
        case.test_labels[:rows], case.classes,
    )  # fmt: skip


def never_named(case: Case, column: int = 3) -> Case:
    """One class never named: its scores far below all others."""
    cal, test = case.cal.copy(), case.test.copy()
    for scores in (cal, test):
        scores[:, column] = scores.min() - 5.0
    return Case(
        case.source, case.name, case.seed, case.kind, cal, case.cal_labels, test, case.test_labels, case.classes
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--cache", type=Path, help="folder that keeps the scores of the base models")
    parser.add_argument("--only", default="", help="pictures whose name has this in it")
    parser.add_argument("--gray", action="store_true", help="also as a black-and-white printer would show them")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found = wanted(chosen.cache)
    found["cifar10-few"] = few(found["cifar10"])
    found["cifar10-silent"] = never_named(found["cifar10"])
    found["cover3-few"] = few(found["cover3"])
    for name, case in found.items():
        for picture, compute in [*of_all(name, case), *(of_simplex(name, case) if case.classes == 3 else [])]:
            if chosen.only in picture:
                save(picture, compute, chosen.out, chosen.gray)


if __name__ == "__main__":
    main()
