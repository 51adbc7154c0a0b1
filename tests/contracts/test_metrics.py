"""What every metric and every test of calibration keeps: weights, order, merging, grids, edges, data."""

from __future__ import annotations

import functools
import inspect
import json
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics import METRICS, NEEDS_COUNTS, TESTS, decompose, ici, net_benefit, recalibration, validity_curve
from calibrant.numerics import Grid
from calibrant.tallies import Tally

VALUES: dict[str, Callable[..., Any]] = {
    **METRICS,
    **TESTS,
    "decompose": decompose,
    "decompose, log": lambda *data: decompose(*data, loss="log"),
    "decompose, bins": lambda *data: decompose(*data, method="bins"),
    "ici": lambda *data: ici(*data, repetitions=5),
    "net_benefit": net_benefit,
    "recalibration": recalibration,
    "validity_curve": validity_curve,
    "validity_curve, neighbors": lambda *data: validity_curve(*data, method="neighbors"),
}
"""Functions of (scores, labels, weights), each with a value that has `to_dict`."""

SEEDED: dict[str, Callable[..., Any]] = {
    name: function
    for name, function in {**METRICS, **TESTS, "ici": ici}.items()
    if "random_state" in inspect.signature(function).parameters
}

POINT_ESTIMATES = (
    "value",
    "loss",
    "miscalibration",
    "discrimination",
    "uncertainty",
    "auc",
    "model",
    "ici",
    "statistic",
    "p_value",
)
"""Fields that integer weights must not change, except in tests of calibration: spreads know weights from rows."""


def rows(n: int = 300, seed: int = 0, digits: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 3, n).round(digits)
    return scores, (rng.random(n) < scores**1.3).astype(int)


def numbers(value: Any, prefix: str = "") -> dict[str, float]:
    """Every number of a nested dict of plain data, by its path; None is NaN."""
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in numbers(part, f"{prefix}.{key}").items()}
    if isinstance(value, (list, tuple)):
        return {k: v for key, part in enumerate(value) for k, v in numbers(part, f"{prefix}.{key}").items()}
    if isinstance(value, str):
        return {}
    return {prefix: math.nan if value is None else float(value)}


def alike(one: Any, other: Any, tolerance: float, only: tuple[str, ...] | None = None) -> None:
    mine, yours = numbers(one.to_dict()), numbers(other.to_dict())
    kept = {path for path in mine.keys() | yours.keys() if only is None or set(path.split(".")) & set(only)}
    assert kept, "there is something to compare"
    assert kept <= mine.keys() & yours.keys()
    for path in kept:
        a, b = mine[path], yours[path]
        assert (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance), path


def each(*, without: Iterable[str] = ()) -> pytest.MarkDecorator:
    """One case for each function to which the test applies."""
    return pytest.mark.parametrize("name", [name for name in VALUES if name not in without])


@functools.cache
def of_rows(name: str) -> Any:
    """The value of `rows()`, for tests that compare others with it."""
    return VALUES[name](*rows())


@each(without=TESTS)
def test_integer_weights_are_repetition(name: str) -> None:
    scores, labels = rows()
    times = np.random.default_rng(1).integers(0, 4, len(scores))
    weighted = VALUES[name](scores, labels, times.astype(float))
    repeated = VALUES[name](np.repeat(scores, times), np.repeat(labels, times))
    alike(weighted, repeated, 1e-9, POINT_ESTIMATES)


@each()
def test_declared_counts_are_repetition_in_every_number(name: str) -> None:
    scores, labels = rows()
    times = np.random.default_rng(1).integers(0, 4, len(scores))
    weighted = VALUES[name](Tally.from_arrays(scores, labels, times, weight_type="frequency"))
    alike(weighted, VALUES[name](np.repeat(scores, times), np.repeat(labels, times)), 1e-9)


@pytest.mark.parametrize("name", sorted(NEEDS_COUNTS))
def test_what_needs_counts_refuses_weights_in_a_sentence(name: str) -> None:
    scores, labels = rows()
    with pytest.raises(InputError, match="weights"):
        VALUES[name](scores, labels, np.full(len(scores), 0.5))


@each()
def test_order_and_merging_do_not_matter(name: str) -> None:
    scores, labels = rows()
    order = np.random.default_rng(1).permutation(len(scores))
    alike(of_rows(name), VALUES[name](scores[order], labels[order]), 1e-9)
    parts = [Tally.from_arrays(scores[part], labels[part]) for part in (slice(None, 100), slice(100, None))]
    alike(VALUES[name](parts[0] + parts[1]), VALUES[name](Tally.from_arrays(scores, labels)), 1e-12)


@each()
def test_a_fine_grid_changes_little(name: str) -> None:
    scores, labels = rows(digits=12)
    on_grid = VALUES[name](Tally.from_arrays(scores, labels, grid=Grid()))
    alike(on_grid, VALUES[name](scores, labels), 0.03, POINT_ESTIMATES)


EDGES: dict[str, tuple[list[float], list[int]]] = {
    "one row": ([0.3], [1]),
    "tied pair": ([0.3, 0.3], [0, 1]),
    "0 and 1, right": ([0.0, 1.0], [0, 1]),
    "0 and 1, wrong": ([0.0, 1.0], [1, 0]),
    "one class": ([0.2, 0.4, 0.9], [0, 0, 0]),
    "constant": ([0.5] * 20, [0, 1] * 10),
    "all 0": ([0.0] * 5, [0] * 5),
    "next to the ends": ([5e-324, 1 - 2**-53, 0.5], [1, 0, 1]),
}


@each()
def test_edges_give_a_value_or_say_why_not(name: str, subtests: pytest.Subtests) -> None:
    for edge, (scores, labels) in EDGES.items():
        with subtests.test(edge), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", CalibrantWarning)
            value = VALUES[name](scores, labels)
            assert str(value)
            json.dumps(value.to_dict(), allow_nan=False)


@each(without=NEEDS_COUNTS)
def test_the_unit_of_weights_does_not_matter(name: str) -> None:
    scores, labels = rows()
    weights = np.random.default_rng(1).gamma(2.0, size=len(scores))
    once = VALUES[name](scores, labels, weights)
    for scale in (1e-9, 1e9):
        alike(once, VALUES[name](scores, labels, scale * weights), 1e-6, POINT_ESTIMATES)


@pytest.mark.parametrize("function", SEEDED.values(), ids=SEEDED)
def test_a_bad_seed_is_answered_in_a_sentence(function: Callable[..., Any], subtests: pytest.Subtests) -> None:
    for seed in (-1, 1.5, "a", None):
        with subtests.test(seed=seed), pytest.raises(InputError, match="random_state must be an integer"):
            function(*rows(), random_state=seed)


def test_float32_scores_are_taken(subtests: pytest.Subtests) -> None:
    scores, labels = rows()
    for name, function in VALUES.items():
        with subtests.test(name):
            assert str(function(scores.astype(np.float32), labels))


def test_a_mistake_is_answered_in_a_sentence(subtests: pytest.Subtests) -> None:
    for name, function in VALUES.items():
        with subtests.test(name):
            with pytest.raises(InputError, match="y is missing"):
                function([0.2, 0.4])
            with pytest.raises(InputError, match="pass it alone"):
                function(Tally.from_arrays([0.2, 0.4], [0, 1]), [0, 1])
            with pytest.raises(InputError, match="need probabilities"):
                function(Tally.from_arrays([2.0, 4.0], [0, 1], score_type="logit"))
