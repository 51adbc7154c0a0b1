"""Draw every display on three data sets, to be looked at: 80 tied scores, 5,000 rows, 10^6 rows with 0.3 % events.

python benchmarks/pictures.py --out pictures [--gray]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from calibrant import BetaScaling, Certificate, HistogramBinning, IsotonicCalibrator
from calibrant.displays import MapDisplay, PlanDisplay, ReliabilityDisplay, ValidityDisplay
from calibrant.metrics.binary.validity import validity_curve

Data = tuple[np.ndarray, np.ndarray]
REPETITIONS = 10


def expit(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def heaped() -> Data:
    rng = np.random.default_rng(1)
    scores = rng.beta(2, 2, 80).round(1)
    return scores, (rng.random(80) < scores).astype(int)


def ordinary() -> Data:
    rng = np.random.default_rng(2)
    scores = rng.beta(1, 2, 5_000)
    return scores, (rng.random(5_000) < scores**1.5).astype(int)


def rare() -> Data:
    """Scores with a slope of 0.8 in log-odds: too bold at the top."""
    rng = np.random.default_rng(3)
    z = rng.normal(-7.2, 1.8, 10**6)
    return expit(z), (rng.random(10**6) < expit(0.8 * z - 1.05)).astype(int)


def halves(scores: np.ndarray, y: np.ndarray) -> tuple[Data, Data]:
    half = len(y) // 2
    return (scores[:half], y[:half]), (scores[half:], y[half:])


def displays(scores: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, Callable[[], Any]]]:
    fit, new = halves(scores, y)
    binning = HistogramBinning(n_bins=min(20, len(y) // 40)).fit(*fit)
    beta, isotonic = BetaScaling().fit(*fit), IsotonicCalibrator().fit(*fit)
    promise = binning.certificate()
    of = ReliabilityDisplay.from_predictions
    yield "reliability", lambda: of(scores, y)
    yield "reliability-bins", lambda: of(scores, y, curve="bins")
    yield "reliability-acceptance", lambda: of(scores, y, acceptance=True)
    yield "reliability-overlay", lambda: of(*new, after=isotonic.transform(new[0]))
    certificate = promise if isinstance(promise, Certificate) else None
    edges = np.unique(np.quantile(new[0], np.arange(1, 15) / 15))
    edges = edges[(edges > 0.0) & (edges < 1.0)]
    yield (
        "validity",
        lambda: ValidityDisplay.from_curves(
            {
                "before": validity_curve(*new, edges=edges),
                "after": validity_curve(binning.transform(new[0]), new[1], strategy="distinct"),
            },
            certificate=certificate,
        ),
    )
    yield "validity-repeated", lambda: ValidityDisplay.from_curves(repeated(*new, beta, edges))
    yield "map-binning", lambda: MapDisplay.from_map(binning)
    yield "map-beta", lambda: MapDisplay.from_map(beta)
    yield "map-isotonic", lambda: MapDisplay.from_map(isotonic)


def repeated(scores: np.ndarray, y: np.ndarray, beta: BetaScaling, edges: np.ndarray) -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    parts = [rng.choice(len(y), len(y) // 2, replace=False) for _ in range(REPETITIONS)]
    after = beta.transform(scores)
    return {
        "before": [validity_curve(scores[part], y[part], edges=edges) for part in parts],
        "after beta scaling": [validity_curve(after[part], y[part], edges=edges) for part in parts],
    }


def save(name: str, compute: Callable[[], Any], out: Path, gray: bool) -> None:
    start = perf_counter()
    display = compute()
    computed = perf_counter()
    display.plot()
    path = out / f"{name}.png"
    display.figure_.savefig(path, dpi=110)
    print(f"{name:<36}{computed - start:8.3f} s to compute{perf_counter() - computed:8.3f} s to draw")
    plt.close(display.figure_)
    if gray:
        image = plt.imread(path)[..., :3] @ np.array([0.299, 0.587, 0.114])
        plt.imsave(out / f"{name}-gray.png", image, cmap="gray", vmin=0.0, vmax=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--gray", action="store_true", help="also as a black-and-white printer would show them")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, draw in {"heaped": heaped, "ordinary": ordinary, "rare": rare}.items():
        for display, compute in displays(*draw()):
            save(f"{display}-{name}", compute, chosen.out, chosen.gray)
    save("plan", lambda: PlanDisplay.from_sizes(), chosen.out, chosen.gray)
    save("plan-target", lambda: PlanDisplay.from_sizes(epsilon=0.1), chosen.out, chosen.gray)
    save("plan-split", lambda: PlanDisplay.from_sizes(scheme="ums", coverage="marginal"), chosen.out, chosen.gray)


if __name__ == "__main__":
    main()
