"""Intervals of MAPIE and crepes beside ours on the methods that all have: same ends, and the ratio of times.

    pip install mapie==1.6.0 crepes==0.9.1        # not dependencies of this package
    python benchmarks/conformal_peers.py
    python benchmarks/conformal_peers.py --qoob   # QOOB alone, which no peer has: no other package is needed

Old rows calibrate, new rows get intervals, at alpha = 0.1. Models are fitted before the clock starts, but for CV+ and
jackknife+, where fits are part of the method; folds are the same for both packages. `apart` is the largest difference
of two ends. Times are of the CPU, the least of three runs; `ratio` is theirs divided by ours. QOOB is compared with the
pass of its forest through the leaves, and with its definition, one pair of an old and a new row at a time.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.model_selection import LeaveOneOut, PredefinedSplit

from calibrant.conformal import QOOB, CrossConformal, Quantiles, SplitConformal, split_intervals

Ends = tuple[np.ndarray, float]


def world(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + (0.3 + np.abs(X[:, 1])) * rng.normal(size=n)


def timed(make: Callable[[], np.ndarray]) -> Ends:
    """The intervals, and the least CPU time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make()
        times.append(time.process_time() - start)
    return np.asarray(found, dtype=float), min(times)


def cases() -> dict[str, tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]]:
    """Name -> theirs and ours, each without arguments."""
    from crepes import ConformalRegressor
    from mapie.regression import ConformalizedQuantileRegressor, CrossConformalRegressor, SplitConformalRegressor

    X, y = world(2_000, 0)
    old, y_old = world(5_000, 1)
    new, _ = world(20_000, 2)
    few, y_few = X[:300], y[:300]
    line = LinearRegression().fit(X, y)
    spread = LinearRegression().fit(np.abs(X), np.abs(y - line.predict(X)))
    sigma_old, sigma_new = (np.maximum(spread.predict(np.abs(each)), 0.05) for each in (old, new))
    ends = [QuantileRegressor(quantile=level, alpha=0.0).fit(X, y) for level in (0.05, 0.95, 0.5)]

    def crepes_split(sigmas: bool = False) -> np.ndarray:
        residuals = y_old - line.predict(old)
        options: dict[str, Any] = {"sigmas": sigma_old} if sigmas else {}
        fitted = ConformalRegressor().fit(residuals=residuals, **options)
        later: dict[str, Any] = {"sigmas": sigma_new} if sigmas else {}
        return np.asarray(fitted.predict_int(y_hat=line.predict(new), confidence=0.9, **later))

    def mapie_split() -> np.ndarray:
        fitted = SplitConformalRegressor(line, confidence_level=0.9, prefit=True).conformalize(old, y_old)
        return np.asarray(fitted.predict_interval(new)[1][:, :, 0])

    def mapie_cqr() -> np.ndarray:
        fitted = ConformalizedQuantileRegressor(ends, confidence_level=0.9, prefit=True).conformalize(old, y_old)
        return np.asarray(fitted.predict_interval(new, symmetric_correction=True)[1][:, :, 0])

    def mapie_cross(cv: Any) -> np.ndarray:
        fitted = CrossConformalRegressor(LinearRegression(), confidence_level=0.9, method="plus", cv=cv)
        return np.asarray(fitted.fit_conformalize(few, y_few).predict_interval(new[:2_000])[1][:, :, 0])

    def split() -> np.ndarray:
        return SplitConformal(line, prefit=True).fit(old, y_old).predict_sets(new).ends

    def scaled() -> np.ndarray:
        options: dict[str, Any] = {"spread": sigma_old, "new_spread": sigma_new}
        return split_intervals(line.predict(old), y_old, line.predict(new), **options).ends

    def cqr() -> np.ndarray:
        fitted = SplitConformal(tuple(ends[:2]), family=Quantiles(0.05), prefit=True).fit(old, y_old)
        return fitted.predict_sets(new).ends

    def cross(folds: Any) -> np.ndarray:
        fitted = CrossConformal(LinearRegression(), folds=folds, aggregate="plus", random_state=0).fit(few, y_few)
        return fitted.predict_sets(new[:2_000]).ends

    fold = CrossConformal(LinearRegression(), folds=10, random_state=0).fit(few, y_few).fold_
    return {
        "split, crepes": (crepes_split, split),
        "split, MAPIE": (mapie_split, split),
        "scaled, crepes": (lambda: crepes_split(True), scaled),
        "CQR, MAPIE": (mapie_cqr, cqr),
        "CV+ of 10 folds, MAPIE": (lambda: mapie_cross(PredefinedSplit(fold)), lambda: cross(10)),
        "jackknife+, MAPIE": (lambda: mapie_cross(LeaveOneOut()), lambda: cross("leave-one-out")),
    }


def qoob(old: int = 768, new: int = 1_000, trees: int = 100, pairs: int = 100) -> None:
    """Times of QOOB, of the forest's own pass, and of the definition (measured on a few pairs)."""
    X, y = world(old, 0)
    rows, _ = world(new, 1)
    forest = RandomForestRegressor(trees, min_samples_leaf=5, max_features=1 / 3, random_state=0)
    fitted = QOOB(forest, draw_trees=False).fit(X, y)
    plain = timed(lambda: fitted.predict_sets(rows).ends)[1]
    fitted.compile()
    (_, leaves), (_, ours) = timed(lambda: fitted.model_.apply(rows)), timed(lambda: fitted.predict_sets(rows).ends)
    own, first = fitted.model_.apply(X), fitted.model_.apply(rows[:1])[0]
    counts = [np.bincount(drawn, minlength=old) for drawn in fitted.model_.estimators_samples_]
    order = np.argsort(y)

    def definition() -> np.ndarray:
        ends = []
        for i in range(pairs):
            weight = np.zeros(old)
            for j in np.flatnonzero(fitted.unseen_[:, i]):
                inside = np.where(own[:, j] == first[j], counts[j], 0)
                weight += inside / inside.sum()
            total = np.cumsum(weight[order]) / weight.sum()
            ends.append([y[order][np.argmax(total >= 0.2)], y[order][np.argmax(total > 0.8)]])
        return np.array(ends)

    _, slow = timed(definition)
    slow *= old * new / pairs
    print(f"QOOB, {old} old rows, {new:,} new ones, {trees} trees: {1000 * ours:,.0f} ms")
    print(f"   {1000 * plain:,.0f} ms without numba")
    print(f"   leaf pass of the forest {1000 * leaves:.0f} ms: {ours / leaves:.0f} times that")
    print(f"   definition {slow:,.0f} s (from {pairs} pairs): {slow / ours:.0f} times as long", flush=True)


def main() -> None:
    qoob()
    if "--qoob" in sys.argv[1:]:
        return
    print(f"{'':<26}{'apart':>10}{'theirs, ms':>13}{'ours, ms':>11}{'ratio':>8}")
    for name, (theirs, ours) in cases().items():
        (one, slow), (two, quick) = timed(theirs), timed(ours)
        apart = float(np.max(np.abs(one - two)))
        print(f"{name:<26}{apart:>10.1e}{1000 * slow:>13.1f}{1000 * quick:>11.1f}{slow / quick:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
