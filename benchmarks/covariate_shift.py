"""Calibration under covariate shift: the simulation of Gupta (2023), section 3.D.4, over several random draws.

    python benchmarks/covariate_shift.py [--quick] [--seeds N] [--widths]

Features of the source are uniform on the unit cube; those of the target have the density ratio w(x) = 8 x1 x2 x3. The
event rate is (1 + sin(20 |x|^2)) / 2 in both. A random forest is trained on the source, calibrated by 10 bins of equal
mass on the source, and assessed on the target by the expected calibration error in 10 bins of equal width:

- "uncalibrated": the forest;
- "ignoring the shift": event rates of the bins in the source;
- "uLSIF": rates weighted by a density ratio that is estimated from 2,000 rows of each population without labels;
- "known ratio": rates weighted by the true ratio, with a certificate;
- "masses estimated": the estimator (3.47), which divides by estimated masses of the bins.

The script ends with exit code 1 if, on average, weights do not improve on ignoring the shift, or if the estimator
(3.47) is not worse than the weighted rates. "betting", "Hoeffding" and "Theorem 3.9" are the largest half-widths of
the intervals of the 10 bins from the known ratio, simultaneous at 90 %; Theorem 3.9 takes the masses of the bins from
the test rows, which the others do not need.

``--widths`` prints instead the mean widths, over random draws, of 99 % intervals of one bin for several distributions
of the weights, all of them a share of their upper bound: betting, weighted Hoeffding, and the empirical Bernstein
inequality of Maurer and Pontil (2009) for w (Y - rate), inverted in the rate.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from calibrant import HistogramBinning
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.weighted import WeightedIntervalName
from calibrant.numerics import Guide
from calibrant.shift import estimate_density_ratio, known_weights, weighted_bernstein, weighted_interval
from calibrant.tallies import Tally

Floats = NDArray[np.float64]
BINS, UPPER, ALPHA = 10, 8.0, 0.1
PRINTED = {"uncalibrated": 0.023, "ignoring the shift": 0.047, "uLSIF": 0.017, "masses estimated": 0.05}
"""Errors in Figures 3.2 and 3.3, from one draw."""
DIFFERENCES = (
    ("ignoring the shift", "uncalibrated"),
    ("uncalibrated", "uLSIF"),
    ("ignoring the shift", "uLSIF"),
    ("masses estimated", "uLSIF"),
)


@dataclass(frozen=True)
class Size:
    """Numbers of rows, of trees and of random draws."""

    train: int = 14_700
    ratio: int = 2_000
    edges: int = 1_940
    calibrate: int = 7_840
    test: int = 28_000
    mass_source: int = 8_500
    mass_target: int = 8_000
    trees: int = 100
    seeds: int = 20


FULL = Size()
QUICK = Size(3_000, 500, 500, 4_000, 6_000, 2_000, 2_000, 25, 3)


def rows(rng: np.random.Generator, n: int, *, target: bool) -> tuple[Floats, NDArray[np.bool_]]:
    """Features and labels of one population."""
    x = rng.random((n, 3))
    if target:
        x = np.sqrt(x)  # Beta(2, 1)
    return x, rng.random(n) < 0.5 * (1.0 + np.sin(20.0 * (x**2).sum(axis=1)))


def true_ratio(x: Floats) -> Floats:
    """The density ratio of the two populations."""
    return np.asarray(UPPER * x.prod(axis=1))


def ece(p: Floats, y: NDArray[np.bool_]) -> float:
    """Expected calibration error in 10 bins of equal width."""
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(place, p - y, BINS)).sum() / len(p))


def one_draw(seed: int, size: Size) -> tuple[dict[str, float], dict[str, float]]:
    """Calibration errors, and half-widths of intervals, of one random draw."""
    rng = np.random.default_rng(seed)
    forest = RandomForestClassifier(size.trees, random_state=seed, n_jobs=1)
    forest.fit(*rows(rng, size.train, target=False))

    def scores(x: Floats) -> Floats:
        return np.asarray(forest.predict_proba(x)[:, 1])

    unlabeled = [rows(rng, size.ratio, target=target)[0] for target in (False, True)]
    ratio = estimate_density_ratio(*unlabeled, random_state=seed)
    edge_x, edge_y = rows(rng, size.edges, target=False)
    x, y = rows(rng, size.calibrate, target=False)
    test_x, test_y = rows(rng, size.test, target=True)
    s, test = scores(x), scores(test_x)
    edges = Tally.from_arrays(scores(edge_x), edge_y, score_type="probability")
    known, estimated = known_weights(true_ratio, x, upper=UPPER), ratio.weights(x)
    method = HistogramBinning(BINS, bins_from=edges, extremes="mean")
    fits = {"ignoring the shift": None, "uLSIF": estimated, "known ratio": known}
    errors = {"uncalibrated": ece(test, test_y)}
    for name, weights in fits.items():
        method.fit(s, y, weights, score_type="probability")
        errors[name] = ece(np.asarray(method.transform(test)), test_y)

    guide, bins = Guide(method.bins_.knots), len(method.bins_.knots) + 1
    place, at_test = guide.locate(s), guide.locate(test)
    masses = [
        np.bincount(guide.locate(scores(rows(rng, n, target=target)[0])), minlength=bins) / n
        for n, target in ((size.mass_source, False), (size.mass_target, True))
    ]
    counts = np.bincount(place, minlength=bins)
    sums = np.bincount(place, np.asarray(estimated) * y, bins)
    with np.errstate(divide="ignore", invalid="ignore"):
        alternative = np.clip(np.nan_to_num(masses[0] / masses[1] * sums / counts), 0.0, 1.0)
    errors["masses estimated"] = ece(alternative[at_test], test_y)

    widths = {}
    for name, interval in {"betting": "betting", "Hoeffding": "weighted-hoeffding"}.items():
        found = method.certificate(ALPHA, interval=interval)  # type: ignore[arg-type]
        assert isinstance(found, Certificate)
        widths[name] = float((found.upper - found.lower)[found.covered].max() / 2.0)
    relative = counts / len(s) / np.maximum(np.bincount(at_test, minlength=bins) / len(test), 1e-9)
    ends = [
        weighted_bernstein(known.values[place == b], y[place == b], relative[b], upper=UPPER, alpha=ALPHA / bins)
        for b in np.flatnonzero(counts)
    ]
    widths["Theorem 3.9"] = max(high - low for _, low, high in ends) / 2.0
    return errors, widths


SETTINGS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], tuple[tuple[int, float], ...]]] = {
    "product of 3 uniforms": (
        lambda rng, n: rng.random((n, 3)).prod(axis=1),
        ((784, 0.5), (784, 0.02), (20_000, 0.02)),
    ),
    "uniform on [1/2, 1]": (lambda rng, n: 0.5 + 0.5 * rng.random(n), ((784, 0.5),)),
    "1 in 1 %, else 0.01": (lambda rng, n: np.where(rng.random(n) < 0.01, 1.0, 0.01), ((20_000, 0.5),)),
    "all 1": (lambda rng, n: np.ones(n), ((784, 0.5),)),
}


def bernstein_width(w: Floats, y: NDArray[np.bool_], alpha: float) -> float:
    """Width of the set of rates that the empirical Bernstein inequality does not rule out; weights are at most 1."""
    n, log = len(w), math.log(4.0 / alpha)  # two sides, and ln(2 / delta) in the inequality
    rates = np.linspace(0.0, 1.0, 4_001)[:, None]
    sums = {name: each.mean() for name, each in {"wy": w * y, "w": w, "wwy": w**2 * y, "ww": w**2}.items()}
    mean = sums["wy"] - rates * sums["w"]
    variance = (sums["wwy"] * (1.0 - 2.0 * rates) + rates**2 * sums["ww"] - mean**2) * n / (n - 1)
    kept = np.abs(mean) <= np.sqrt(2.0 * np.maximum(variance, 0.0) * log / n) + 7.0 * log / (3.0 * (n - 1))
    return float(np.ptp(rates[kept]))


def show_widths(draws: int, alpha: float = 0.01) -> None:
    """Print the mean widths of intervals of one bin."""
    print(f"Mean width of a {100 * (1 - alpha):g} % interval of one bin, {draws} draws")
    print(f"{'weights':24}{'rows':>8}{'rate':>7}{'betting':>10}{'Hoeffding':>11}{'Bernstein':>11}")
    for name, (draw, sizes) in SETTINGS.items():
        for n, rate in sizes:
            rng, found = np.random.default_rng(n), []
            for _ in range(draws):
                w, y = draw(rng, n), rng.random(n) < rate
                names: tuple[WeightedIntervalName, ...] = ("betting", "weighted-hoeffding")
                ends = [weighted_interval(w, y, upper=1.0, alpha=alpha, method=each) for each in names]
                found.append([*(high - low for low, high in ends), bernstein_width(w, y, alpha)])
            means = "".join(f"{value:11.3f}" for value in np.mean(found, axis=0))
            print(f"{name:24}{n:8,}{rate:7g}{means[1:]}")


def main(arguments: list[str] | None = None) -> int:
    """Run all draws and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--widths", action="store_true")
    given = parser.parse_args(arguments)
    if given.widths:
        show_widths(5 if given.quick else 50)
        return 0
    size = QUICK if given.quick else FULL
    print(
        "rows:", ", ".join(f"{each.name} {getattr(size, each.name):,}" for each in fields(size) if each.name != "seeds")
    )
    errors: list[dict[str, float]] = []
    widths: list[dict[str, float]] = []
    for seed in range(given.seeds or size.seeds):
        began = time.process_time()
        error, width = one_draw(seed, size)
        errors.append(error)
        widths.append(width)
        shown = "  ".join(f"{name} {value:.4f}" for name, value in error.items())
        print(f"draw {seed}: {shown}  ({time.process_time() - began:.0f} s)", file=sys.stderr, flush=True)
    print(f"\nExpected calibration error on the target, {len(errors)} draws")
    print(f"{'':22}{'mean':>8}{'sd':>8}{'least':>8}{'most':>8}{'printed':>9}")
    mean = {name: float(np.mean([each[name] for each in errors])) for name in errors[0]}
    for name in errors[0]:
        values = [each[name] for each in errors]
        printed = f"{PRINTED[name]:9.3f}" if name in PRINTED else ""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        print(f"{name:22}{mean[name]:8.4f}{spread:8.4f}{min(values):8.4f}{max(values):8.4f}{printed}")
    if len(errors) > 1:
        print("\nDifferences within a draw: mean, standard error over draws")
        for first, second in DIFFERENCES:
            gaps = np.array([each[first] - each[second] for each in errors])
            print(f"{first + ' - ' + second:40}{gaps.mean():8.4f}{gaps.std(ddof=1) / math.sqrt(len(gaps)):8.4f}")
    print("\nLargest half-width over the bins, known ratio, 90 % simultaneous")
    for name in widths[0]:
        print(f"{name:22}{np.mean([each[name] for each in widths]):8.4f}")
    ordered = mean["uLSIF"] < mean["ignoring the shift"] and mean["uLSIF"] < mean["masses estimated"]
    print("\nuLSIF better than ignoring the shift, and than estimated masses:", "yes" if ordered else "NO")
    return 0 if ordered else 1


if __name__ == "__main__":
    sys.exit(main())
