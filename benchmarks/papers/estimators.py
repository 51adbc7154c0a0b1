"""Rosenberg's slides (2021) on estimators of the calibration error: Figures 2b and 4 of Kumar et al. (2019).

    python benchmarks/papers/estimators.py            # 300 draws for each size
    python benchmarks/papers/estimators.py --quick    # 100

Data: the VGG-16 of Kumar et al. on CIFAR-10, 10,000 rows, of `CALIBRANT_DATA` (by default `../shared/data`).

- Figure 2b: the confidence of the predicted class is recalibrated by Platt scaling on 4,000 rows, 1,000 rows give the
  quantiles, and the plug-in estimate in l2 comes from the other 5,000, with 2, 4, ..., 128 bins. Mean over 20 cuts.
- Nested bins: the bins of 128 quantiles, joined two by two. A theorem says that the error of the true rates cannot
  rise where bins are joined; the plug-in estimate treats the judged rows as the population, so it cannot rise either.
- Figure 4: the scores of each class are calibrated by histogram binning with 10 or 100 bins on 3,000 rows. The squared
  error of the resulting outputs on the other 7,000 rows is taken as the truth. It is estimated from n of these rows,
  drawn without replacement, by the plug-in estimate and by the debiased one (bins of one row are left out of it), and
  averaged over the ten classes. Ratios are of mean squared errors over draws.
- Simulation: ten scores, true rates above them by 0.02, 300 rows: bias of both estimates in standard errors over draws.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from data_folder import need_data

from calibrant import HistogramBinning, PlattScaling

Floats = NDArray[np.float64]
DRAWS, QUICK_DRAWS, CUTS = 300, 100, 20
COUNTS = (2, 4, 8, 16, 32, 64, 128)
SIZES = (500, 1_000, 2_000, 4_000)


def outputs() -> tuple[Floats, NDArray[np.int64]]:
    """Probabilities of the ten classes, and labels."""
    folder = need_data("cifar_logits") / "cifar_logits"
    stored = np.load(folder / "cifar10_vgg16_kumar_test_probs.npz")
    return stored["probs"].astype(float), stored["labels"].astype(np.int64)


def squared(score: Floats, y: Floats, cell: NDArray[np.int64]) -> tuple[float, float]:
    """Plug-in and debiased estimates of the squared calibration error, by cells of rows."""
    n = np.bincount(cell)
    kept = n > 0
    mean, rate = (np.bincount(cell, each)[kept] / n[kept] for each in (score, y))
    n = n[kept]
    gap = (mean - rate) ** 2
    noise = np.where(n > 1, rate * (1 - rate) / np.maximum(n - 1, 1), gap)
    return float((n * gap).sum() / n.sum()), float((n * (gap - noise)).sum() / n.sum())


def by_bins() -> dict[str, tuple[float, float | None]]:
    """Figure 2b, and nested bins."""
    p, labels = outputs()
    score, right = p.max(axis=1), (p.argmax(axis=1) == labels).astype(float)
    plain, nested = np.empty((CUTS, len(COUNTS))), np.empty((CUTS, len(COUNTS)))
    for cut in range(CUTS):
        order = np.random.default_rng(cut).permutation(len(labels))
        fit, edges, judge = order[:4_000], order[4_000:5_000], order[5_000:]
        after = PlattScaling().fit(score[fit], right[fit]).transform(score)
        fine = np.searchsorted(np.quantile(after[edges], np.arange(1, 128) / 128), after[judge], side="right")
        for at, count in enumerate(COUNTS):
            cell = np.searchsorted(np.quantile(after[edges], np.arange(1, count) / count), after[judge], side="right")
            plain[cut, at] = np.sqrt(squared(after[judge], right[judge], cell)[0])
            nested[cut, at] = squared(after[judge], right[judge], fine * count // 128)[0]
    means = plain.mean(axis=0)
    out: dict[str, tuple[float, float | None]] = {
        f"plug-in/{count}": (float(means[at]), float(plain[:, at].std(ddof=1))) for at, count in enumerate(COUNTS)
    }
    return out | {
        "plug-in/128 - 8": (float(means[-1] - means[2]), float((plain[:, -1] - plain[:, 2]).std(ddof=1))),
        "plug-in/rises": (float((np.diff(means) > 0).mean()), None),
        "nested/falls": (float((np.diff(nested, axis=1) >= -1e-15).mean()), None),
    }


def by_size(draws: int) -> dict[str, tuple[float, float | None]]:
    """Figure 4: mean squared errors of both estimates."""
    p, labels = outputs()
    order = np.random.default_rng(0).permutation(len(labels))
    fit, rest = order[:3_000], order[3_000:]
    squares: dict[tuple[int, int], Floats] = {}
    for bins in (10, 100):
        after, cells, events = [], [], []
        for k in range(p.shape[1]):
            binned = HistogramBinning(n_bins=bins, extremes="mean").fit(p[fit, k], labels[fit] == k)
            after.append(binned.transform(p[rest, k]))
            cells.append(np.unique(after[-1], return_inverse=True)[1])
            events.append((labels[rest] == k).astype(float))
        truth = np.mean([squared(*each)[0] for each in zip(after, events, cells, strict=True)])
        for n in SIZES:
            found = np.empty((draws, 2))
            for draw in range(draws):
                rows = np.random.default_rng([n, draw]).permutation(len(rest))[:n]
                each = [squared(a[rows], y[rows], c[rows]) for a, y, c in zip(after, events, cells, strict=True)]
                found[draw] = np.mean(each, axis=0)
            squares[bins, n] = (found - truth) ** 2
    error = {key: each.mean(axis=0) for key, each in squares.items()}
    ratio = {key: float(each[0] / each[1]) for key, each in error.items()}
    out: dict[str, tuple[float, float | None]] = {f"ratio/{b}/{n}": (r, None) for (b, n), r in ratio.items()}
    out["ratio/larger with 100"] = float(np.mean([ratio[100, n] > ratio[10, n] for n in SIZES])), None
    for bins in (10, 100):
        ends = [(bins, SIZES[0]), (bins, SIZES[-1])]
        spread = float(np.hypot(*(_ratio_error(squares[key]) for key in ends)))
        out[f"ratio/small - large/{bins}"] = ratio[ends[0]] - ratio[ends[1]], spread
    return out | {"bins/1000": (float(error[100, 1_000][1] / error[10, 1_000][1]), None)}


def _ratio_error(squares: Floats) -> float:
    """Standard error of a ratio of two means over draws, by its linear terms."""
    first, second = squares.mean(axis=0)
    terms = (squares[:, 0] - first / second * squares[:, 1]) / second
    return float(terms.std(ddof=1) / np.sqrt(len(terms)))


def simulated(draws: int) -> dict[str, tuple[float, float | None]]:
    """Biases where the truth is known, in standard errors of their mean."""
    rng = np.random.default_rng(0)
    levels = np.linspace(0.1, 0.9, 10)
    cell = np.repeat(np.arange(10), 30)
    events = (rng.random((draws, 300)) < (levels + 0.02)[cell]).astype(float)
    found = np.array([squared(levels[cell], y, cell) for y in events]) - 0.02**2
    inside = found.mean(axis=0) / (found.std(axis=0, ddof=1) / np.sqrt(draws))
    return {"plug-in bias": (float(inside[0]), 1.0), "debiased bias": (float(inside[1]), 1.0)}


def values(draws: int = DRAWS) -> dict[str, tuple[float, float | None]]:
    """All of it, by key."""
    return by_bins() | by_size(draws) | simulated(draws)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_DRAWS} draws")
    draws = QUICK_DRAWS if parser.parse_args().quick else DRAWS
    print(f"Estimators of the calibration error, {draws} draws: value, standard deviation over cuts")
    for key, (value, sd) in values(draws).items():
        print(f"   {key:<26}{value:9.4f}" + ("" if sd is None else f"{sd:9.4f}"))


if __name__ == "__main__":
    main()
