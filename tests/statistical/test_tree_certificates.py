"""Leaves that other rows chose: their certificates hold as often as they say, and those of the same rows would not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from calibrant.calibrators.trees import CalibrationTree
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.numerics import Floats

pytestmark = pytest.mark.statistical

ALPHA = 0.2

SCORES, NUMBERS, TEXTS = (
    np.array([0.1, 0.2, 0.5]),
    np.array([0.0, 1.0, 2.0, 3.0, np.nan]),
    np.array(["a", "b", "c", None]),
)
CELLS = [*product(range(len(SCORES)), range(len(NUMBERS)), range(len(TEXTS)))]
"""Equally likely: every combination of a score, a number and a text, so true rates of leaves are known exactly."""
S, X, T = (values[[cell[k] for cell in CELLS]] for k, values in enumerate((SCORES, NUMBERS, TEXTS)))


@dataclass(frozen=True)
class World:
    """Event rate by cell, number of rows, and what is fitted to them."""

    rates: Floats
    n: int
    make: Callable[..., CalibrationTree]


def tree(min_rows: int, **options: Any) -> Callable[..., CalibrationTree]:
    return lambda **more: CalibrationTree(min_rows, 8, **{"pruning_alpha": 0.0, **options, **more})


WORLDS = {
    "features that matter": World(
        np.where(np.nan_to_num(X, nan=9.0) > 1.0, 0.6, S) * np.where(T == "a", 0.5, 1.0), 300, tree(10)
    ),
    "noise": World(np.full(len(CELLS), 0.3), 300, tree(10)),
    "rare events": World(np.where(T == "b", 0.03, 0.01), 600, tree(20)),
    "few rows": World(S, 40, tree(3)),
    "pruned": World(np.where(T == "a", 0.5, 0.2), 200, tree(10, pruning_alpha=None)),
}


def drawn(world: World, seed: int) -> tuple[Floats, Floats, dict[str, Any]]:
    rng = np.random.default_rng([83, seed])
    at = rng.integers(0, len(CELLS), world.n)
    return S[at], (rng.random(world.n) < world.rates[at]).astype(np.float64), {"x": X[at], "t": T[at]}


def true_rates(map_: Any, rates: Floats) -> Floats:
    leaf = map_.route(S, {"x": X, "t": T} if map_.columns else None)
    mass = np.bincount(leaf, minlength=len(map_.maps))
    return np.asarray(np.bincount(leaf, rates, len(map_.maps)) / np.maximum(mass, 1))


@dataclass(frozen=True)
class Outcome:
    """Fits whose certificate is broken (some leaf's true rate is outside its interval), and fits without one."""

    broken: int
    vacuous: int
    runs: int


def outcome(world: World, seeds: range) -> Outcome:
    """Fit once for each seed; a vacuous certificate is not issued, and states nothing that could be broken."""
    broken = vacuous = 0
    for seed in seeds:
        fitted = world.make(honest=True).fit(*drawn(world, seed), score_type="probability")
        promise = fitted.certificate(alpha=ALPHA)
        if isinstance(promise, NoCertificate):
            assert promise.code == NoCertificateCode.VACUOUS
            vacuous += 1
            continue
        true = true_rates(fitted.map_, world.rates)
        broken += bool(((true < promise.lower) | (true > promise.upper))[promise.covered].any())
    return Outcome(broken, vacuous, len(seeds))


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("name", WORLDS)
def test_a_certificate_of_leaves_is_broken_at_most_as_often_as_alpha(name: str, full_size: bool) -> None:
    runs = 2000 if full_size else 12 if name == "pruned" else 30
    found = outcome(WORLDS[name], range(runs))
    issued = found.runs - found.vacuous
    assert issued >= runs / 2, "a simulation of certificates that are not issued shows nothing"
    assert binomtest(found.broken, found.runs, ALPHA, alternative="greater").pvalue > 1e-3


def test_intervals_of_the_same_rows_would_be_broken_more_often() -> None:
    """The check above can fail: where features are noise, rows that chose a split have rates that are too far apart."""
    world, broken, runs = WORLDS["noise"], 0, 25
    for seed in range(runs):
        fitted = world.make().fit(*drawn(world, seed), score_type="probability")
        rows, events = fitted.leaves_.rows.astype(int), fitted.leaves_.events.astype(int)
        lower, upper = BOUNDS["clopper-pearson"](events, rows, ALPHA / len(rows))
        true = true_rates(fitted.map_, world.rates)
        broken += bool(((true < lower) | (true > upper)).any())
    assert binomtest(broken, runs, ALPHA, alternative="greater").pvalue < 1e-3
