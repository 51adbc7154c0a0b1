"""Conformal sets of numbers keep the coverage that their certificates state: ties, atoms, heavy tails, few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor

from calibrant.conformal import (
    QOOB,
    Coverage,
    CrossConformal,
    OutOfBagConformal,
    RepeatedSplitConformal,
    RidgeConformal,
    SplitConformal,
)

pytestmark = pytest.mark.statistical
LEVEL = 1e-3

Draw = Callable[[int, np.random.Generator], tuple[Any, Any]]


class Line(BaseEstimator):
    """Least squares, without the checks of scikit-learn: most of the time would be theirs."""

    def fit(self, X: Any, y: Any) -> Any:
        self.coef_ = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
        return self

    def predict(self, X: Any) -> Any:
        return self.coef_[0] + X @ self.coef_[1:]


class Nearest(BaseEstimator):
    """The outcome of the nearest row: a model that fits its own rows without error."""

    def fit(self, X: Any, y: Any) -> Any:
        self.X_, self.y_ = X, y
        return self

    def predict(self, X: Any) -> Any:
        return self.y_[np.abs(X[:, None] - self.X_).sum(axis=2).argmin(axis=1)]


def smooth(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=n)


def heavy(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Cauchy noise: no mean exists."""
    X = rng.normal(size=(n, 1))
    return X, X[:, 0] + rng.standard_cauchy(n)


def atoms(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Few values of rows and outcomes, in decimals that no float holds exactly."""
    X = rng.integers(0, 3, size=(n, 1)) / 10.0
    return X, X[:, 0] * 3.0 + rng.choice([0.0, 0.1, 0.7], n, p=[0.85, 0.1, 0.05])


def drawn_once(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Exchangeable and not independent: draws without replacement from n numbers, so the last one is what is left."""
    X = rng.normal(size=(n, 1))
    return X, rng.permutation(np.arange(n) ** 2.0)


WORLDS: dict[str, Draw] = {"smooth": smooth, "heavy tails": heavy, "atoms": atoms, "drawn once": drawn_once}


def covered(make: Callable[[int], Any], draw: Draw, n: int, times: int, alpha: float, seed: int) -> tuple[int, Any]:
    """How many of ``times`` new rows are covered, each with its own n old rows; and the certificate."""
    rng = np.random.default_rng(seed)
    hits, certificate = 0, None
    for at in range(times):
        X, y = draw(n + 1, rng)
        fitted = make(at).fit(X[:n], y[:n])
        sets = fitted.predict_sets(X[n:], alpha=alpha)
        hits += int(sets.covers(y[n:]).sum())
        certificate = sets.certificate
    return hits, certificate


def not_below(hits: int, times: int, level: float) -> bool:
    """Whether the coverage may be at least the level, by an exact binomial test."""
    return bool(stats.binom.cdf(hits, times, level) >= LEVEL)


def not_above(hits: int, times: int, level: float) -> bool:
    return bool(stats.binom.sf(hits - 1, times, level) >= LEVEL)


def model_of(world: str) -> Any:
    return Nearest() if world == "atoms" else Line()


@pytest.mark.parametrize("world", WORLDS)
def test_split_sets_cover_at_least_and_without_ties_hardly_more(
    world: str, full_size: bool, subtests: pytest.Subtests
) -> None:
    times = 20_000 if full_size else 250
    sizes = (10, 40, 200, 2000) if full_size else (10, 40)
    for n in sizes:
        runs = times if n < 2000 else 4000
        with subtests.test(n=n):
            hits, certificate = covered(
                lambda at: SplitConformal(model_of(world), calibration_share=0.5, random_state=at),
                WORLDS[world],
                n,
                runs,
                alpha=0.25,
                seed=n,
            )
            assert isinstance(certificate, Coverage)
            assert not_below(hits, runs, certificate.level)
            if world in {"smooth", "heavy tails"}:
                assert certificate.upper is not None
                assert not_above(hits, runs, certificate.upper)


@pytest.mark.parametrize("world", ["smooth", "atoms", "drawn once"])
@pytest.mark.parametrize("folds", [3, "leave-one-out"])
def test_cross_conformal_sets_cover(world: str, folds: Any, full_size: bool, subtests: pytest.Subtests) -> None:
    """Also with the nearest neighbor, a model that overfits as much as a model can."""
    times = 4000 if full_size else 50
    for n in (12, 30) if full_size else (12,):
        for model in (Line(), Nearest()):
            for aggregate in ("set", "plus") if full_size else ("set",):
                with subtests.test(n=n, model=type(model).__name__, aggregate=aggregate):
                    hits, certificate = covered(
                        lambda at, model=model, aggregate=aggregate: CrossConformal(
                            model, folds=folds, aggregate=aggregate, random_state=at
                        ),
                        WORLDS[world],
                        n,
                        times,
                        alpha=0.2,
                        seed=n,
                    )
                    assert isinstance(certificate, Coverage)
                    # draws without replacement are exchangeable only: certificates of K folds are of independent rows
                    level = certificate.level
                    if world == "drawn once" and certificate.assumption == "independent":
                        level = 1.0 - 0.4 - 2.0 * 2.0 * 0.8 / (n + 3.0)
                    assert not_below(hits, times, level)


@pytest.mark.parametrize("world", ["smooth", "atoms"])
def test_repeated_splits_and_ridge_cover(world: str, full_size: bool, subtests: pytest.Subtests) -> None:
    times = 4000 if full_size else 40
    makes: dict[str, Callable[[int], Any]] = {
        "subsample": lambda at: RepeatedSplitConformal(model_of(world), splits=4, random_state=at),
        "bootstrap": lambda at: RepeatedSplitConformal(
            model_of(world), splits=4, resample="bootstrap", random_state=at
        ),
        "ridge": lambda at: RidgeConformal(),
    }
    for name, make in makes.items():
        with subtests.test(name):
            hits, certificate = covered(make, WORLDS[world], 24, times, alpha=0.2, seed=1)
            assert isinstance(certificate, Coverage)
            assert not_below(hits, times, certificate.level)
            if name == "ridge" and world == "smooth":
                assert certificate.upper is not None
                assert not_above(hits, times, certificate.upper)


@pytest.mark.parametrize("world", ["smooth", "atoms", "heavy tails"])
def test_out_of_bag_sets_cover_when_trees_are_drawn(world: str, full_size: bool, subtests: pytest.Subtests) -> None:
    """Few trees: then the number of trees, and rows that all trees have seen, matter most."""
    times = 1000 if full_size else 15
    trees = (1, 3, 10) if full_size else (3,)
    for count in trees:
        forest = RandomForestRegressor(count, min_samples_leaf=2)
        makes: dict[str, Callable[[int], Any]] = {
            "mean": lambda at, forest=forest: OutOfBagConformal(forest, random_state=at),
            "scaled": lambda at, forest=forest: OutOfBagConformal(forest, family="scaled", random_state=at),
            "qoob": lambda at, forest=forest: QOOB(forest, random_state=at),
            "qoob-d": lambda at, forest=forest: QOOB(forest, family="distribution", random_state=at),
        }
        for name, make in makes.items():
            with subtests.test(name, trees=count):
                hits, certificate = covered(make, WORLDS[world], 20, times, alpha=0.2, seed=count)
                assert isinstance(certificate, Coverage)
                assert not_below(hits, times, certificate.level)


@pytest.mark.parametrize("world", ["heavy tails", "atoms"])
def test_sets_of_many_rows_cover(world: str, full_size: bool, subtests: pytest.Subtests) -> None:
    """Every method but the split at 200 rows, and at full size at 2,000."""
    forest = RandomForestRegressor(5, min_samples_leaf=5)
    makes: dict[str, Callable[[int], Any]] = {
        "folds": lambda at: CrossConformal(model_of(world), folds=3, random_state=at),
        "folds, plus": lambda at: CrossConformal(model_of(world), folds=3, aggregate="plus", random_state=at),
        "subsample": lambda at: RepeatedSplitConformal(model_of(world), splits=4, random_state=at),
        "bootstrap": lambda at: RepeatedSplitConformal(
            model_of(world), splits=4, resample="bootstrap", random_state=at
        ),
        "ridge": lambda at: RidgeConformal(),
        "out of bag": lambda at: OutOfBagConformal(forest, random_state=at),
        "qoob": lambda at: QOOB(forest, random_state=at),
    }
    for n, times in ((200, 1_000), (2_000, 200)) if full_size else ((200, 20),):
        for name, make in makes.items():
            with subtests.test(name, n=n):
                hits, certificate = covered(make, WORLDS[world], n, times, alpha=0.2, seed=n)
                assert isinstance(certificate, Coverage)
                assert not_below(hits, times, certificate.level)


def test_a_set_that_covers_too_rarely_would_be_found() -> None:
    """The test has power: sets for alpha = 0.35 are not sets for alpha = 0.25."""
    hits, _ = covered(lambda at: SplitConformal(Line(), random_state=at), smooth, 30, 500, 0.4, 0)
    assert not not_below(hits, 500, 0.75)
