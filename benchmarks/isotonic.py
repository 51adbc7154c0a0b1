"""What the strictly increasing isotonic curve costs and gains against its steps: the table of decision 0004.

python benchmarks/isotonic.py [--repetitions 40]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from calibrant import IsotonicCalibrator

Draw = Callable[[np.random.Generator, int], np.ndarray]
Truth = Callable[[np.ndarray], np.ndarray]

FRESH = 20_000

TRUTHS: dict[str, tuple[Draw, Truth]] = {
    "square": (lambda rng, n: rng.random(n), lambda s: s**2),
    "identity": (lambda rng, n: rng.random(n), lambda s: s),
    "sigmoid": (lambda rng, n: rng.random(n), lambda s: 1 / (1 + np.exp(-8 * (s - 0.5)))),
    "flat, 10 %": (lambda rng, n: rng.random(n), lambda s: 0.1 + 0 * s),
    "1 % events": (lambda rng, n: rng.random(n), lambda s: 0.02 * s),
    "1 % events, skewed": (lambda rng, n: rng.beta(0.5, 50, n), lambda s: s),
}


def measure(draw: Draw, truth: Truth, n: int, repetitions: int) -> np.ndarray:
    """Mean over repetitions of in-sample Brier, distance from the truth and expected Brier on new rows, for both."""
    rng = np.random.default_rng(0)
    results = []
    for _ in range(repetitions):
        scores, fresh = draw(rng, n), draw(rng, FRESH)
        labels, rates = rng.random(n) < truth(scores), truth(fresh)
        if not 0 < labels.sum() < n:
            continue
        row = []
        for step in (True, False):
            fitted = IsotonicCalibrator(step=step).fit(scores, labels)
            distance = np.mean((fitted.transform(fresh) - rates) ** 2)
            row += [
                np.mean((fitted.transform(scores) - labels) ** 2),
                distance,
                distance + np.mean(rates * (1 - rates)),
            ]
        results.append(row)
    return np.mean(results, axis=0).reshape(2, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=40)
    repetitions = parser.parse_args().repetitions
    print(f"{'truth':<20}{'rows':>8}{'Brier, in-sample':>20}{'distance from truth':>22}{'Brier, new rows':>18}")
    for name, (draw, truth) in TRUTHS.items():
        for n in (200, 2_000, 20_000):
            steps, curve = measure(draw, truth, n, repetitions)
            ratio = curve / steps
            print(f"{name:<20}{n:>8,}{ratio[0] - 1:>+20.2%}{ratio[1]:>20.2f} x{ratio[2] - 1:>+18.3%}")


if __name__ == "__main__":
    main()
