"""What every metric and every test of calibration keeps: weights, order, merging, grids, edges, data."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics import METRICS, TESTS, decompose, ici, net_benefit, recalibration, validity_curve
from calibrant.numerics import Grid
from calibrant.tallies import Tally

VALUES: dict[str, Callable[..., Any]] = {
    **METRICS,
    **TESTS,
    "decompose": decompose,
    "decompose, log": lambda *data: decompose(*data, loss="log"),
    "decompose, bins": lambda *data: decompose(*data, method="bins"),
    "ici": lambda *data: ici(*data, repetitions=20),
    "net_benefit": net_benefit,
    "recalibration": recalibration,
    "validity_curve": validity_curve,
    "validity_curve, neighbours": lambda *data: validity_curve(*data, method="neighbours"),
}
"""Functions of (scores, labels, weights), each with a value that has `to_dict`."""

SEEDED: dict[str, Callable[..., Any]] = {
    name: function
    for name, function in {**METRICS, **TESTS, "ici": ici}.items()
    if "random_state" in inspect.signature(function).parameters
}

NEEDS_COUNTS = {
    "always_valid_test": "an importance-weighted likelihood is no likelihood, so no martingale",
    "debiased_l2_test": "its null distribution is drawn by counts",
}

NOT_REPETITION = {
    "ecce_test": "its statistic is divided by a spread that knows weights from rows",
    "hosmer_lemeshow": "its statistic uses the effective size of each bin, which knows weights from rows",
    "spiegelhalter": "its statistic is divided by a spread that knows weights from rows",
}
"""Tests of calibration, in which nothing is left alone by weights that could be counts but were not declared so."""

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
"""Fields that integer weights must not change (but see NOT_REPETITION); standard errors know weights from rows."""


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
        assert mine[path] == pytest.approx(yours[path], rel=tolerance, abs=tolerance, nan_ok=True), path


@pytest.fixture(params=VALUES)
def metric(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return VALUES[request.param]


@pytest.mark.parametrize("name", [name for name in VALUES if name not in NEEDS_COUNTS | NOT_REPETITION])
def test_integer_weights_are_repetition(name: str) -> None:
    scores, labels = rows()
    times = np.random.default_rng(1).integers(0, 4, len(scores))
    weighted = VALUES[name](scores, labels, times.astype(float))
    repeated = VALUES[name](np.repeat(scores, times), np.repeat(labels, times))
    alike(weighted, repeated, 1e-9, POINT_ESTIMATES)


def test_declared_counts_are_repetition_in_every_number(metric: Callable[..., Any]) -> None:
    scores, labels = rows()
    times = np.random.default_rng(1).integers(0, 4, len(scores))
    weighted = metric(Tally.from_arrays(scores, labels, times, weights="counts"))
    alike(weighted, metric(np.repeat(scores, times), np.repeat(labels, times)), 1e-9)


@pytest.mark.parametrize("name", NEEDS_COUNTS)
def test_what_needs_counts_refuses_weights_in_a_sentence(name: str) -> None:
    scores, labels = rows()
    with pytest.raises(InputError, match="weights"):
        VALUES[name](scores, labels, np.full(len(scores), 0.5))


def test_the_order_of_rows_does_not_matter(metric: Callable[..., Any]) -> None:
    scores, labels = rows()
    order = np.random.default_rng(1).permutation(len(scores))
    alike(metric(scores, labels), metric(scores[order], labels[order]), 1e-9)


def test_parts_merge_into_the_whole(metric: Callable[..., Any]) -> None:
    scores, labels = rows()
    parts = [Tally.from_arrays(scores[part], labels[part]) for part in (slice(None, 100), slice(100, None))]
    alike(metric(parts[0] + parts[1]), metric(Tally.from_arrays(scores, labels)), 1e-12)


def test_a_fine_grid_changes_little(metric: Callable[..., Any]) -> None:
    scores, labels = rows(digits=12)
    alike(metric(Tally.from_arrays(scores, labels, grid=Grid())), metric(scores, labels), 0.03, POINT_ESTIMATES)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.3], [1]),
        ([0.3, 0.3], [0, 1]),
        ([0.0, 1.0], [0, 1]),
        ([0.0, 1.0], [1, 0]),
        ([0.2, 0.4, 0.9], [0, 0, 0]),
        ([0.5] * 20, [0, 1] * 10),
        ([0.0] * 5, [0] * 5),
        ([5e-324, 1 - 2**-53, 0.5], [1, 0, 1]),
    ],
    ids=[
        "one row",
        "tied pair",
        "0 and 1, right",
        "0 and 1, wrong",
        "one class",
        "constant",
        "all 0",
        "next to the ends",
    ],
)
def test_edges_give_a_value_or_say_why_not(metric: Callable[..., Any], scores: list[float], labels: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrantWarning)
        value = metric(scores, labels)
    assert str(value)
    json.dumps(value.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", [name for name in VALUES if name not in NEEDS_COUNTS])
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_weights_does_not_matter(name: str, scale: float) -> None:
    scores, labels = rows()
    weights = np.random.default_rng(1).gamma(2.0, size=len(scores))
    alike(VALUES[name](scores, labels, weights), VALUES[name](scores, labels, scale * weights), 1e-6, POINT_ESTIMATES)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
@pytest.mark.parametrize("function", SEEDED.values(), ids=SEEDED)
def test_a_bad_seed_is_answered_in_a_sentence(function: Callable[..., Any], seed: Any) -> None:
    with pytest.raises(InputError, match="random_state must be a whole number"):
        function(*rows(), random_state=seed)


def test_float32_scores_are_taken(metric: Callable[..., Any]) -> None:
    scores, labels = rows()
    assert str(metric(scores.astype(np.float32), labels))


def test_a_mistake_is_answered_in_a_sentence(metric: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="y is missing"):
        metric([0.2, 0.4])
    with pytest.raises(InputError, match="pass it alone"):
        metric(Tally.from_arrays([0.2, 0.4], [0, 1]), [0, 1])
    with pytest.raises(InputError, match="needs probabilities"):
        metric(Tally.from_arrays([2.0, 4.0], [0, 1], kind="logit"))
