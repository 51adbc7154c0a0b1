"""Scores and labels in each other's place are refused, with the same error, by everything that takes both."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_forecasters import CASES, features_of

import calibrant as cb
from calibrant import online
from calibrant.live import Bank, Every, Monitor
from calibrant.messages import InputError

NAMESPACES = (
    "",
    "metrics",
    "clinical",
    "live",
    "online",
    "abstention",
    "conformal",
    "decisions",
    "shift",
    "multiclass",
)
RNG = np.random.default_rng(0)
SCORES = RNG.random(120)
LABELS = (RNG.random(120) < SCORES).astype(float)
WHEN = np.arange(120.0)

SCORE_NAMES, LABEL_NAMES = {"scores", "probabilities"}, {"y", "labels", "outcomes"}


def learners() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    """Every forecaster, and what else learns or counts from a stream: its name, and how it takes scores and labels."""
    for name, make in CASES.items():
        taken = features_of(make(), len(SCORES))
        yield f"{name}.learn_many", lambda s, y, make=make, taken=taken: make().learn_many(s, y, taken)
        yield f"{name}.forecast_many", lambda s, y, make=make, taken=taken: make().forecast_many(s, y, taken)
    keys = np.resize(["a", "b"], len(SCORES))
    yield "Monitor.update", lambda s, y: Monitor().update(s, y)
    yield "Bank.learn", lambda s, y: Bank().learn(s, keys, y)
    yield "Bank.forecast", lambda s, y: Bank().forecast(s, keys, y)
    yield "PlattScaling.fit", lambda s, y: cb.PlattScaling().fit(s, y)
    yield "PlattScaling.fit, fractions", lambda s, y: cb.PlattScaling().fit(s, y, label_type="fraction")


FURTHER: dict[str, dict[str, Any]] = {
    "metrics.weak_error": {"function": np.sin},
    "clinical.validate_clusters": {"groups": np.resize(np.arange(8), len(SCORES))},
    "decisions.expected_cost": {"cost_fp": 1.0, "cost_fn": 2.0},
    "shift.select_mature": {"score_time": WHEN, "as_of": 900.0, "horizon": 10.0},
    "live.backtest": {"time": WHEN, "policies": [Every(40.0)]},
}
"""What a function needs besides scores and labels."""
OTHERS = (
    "metrics.classwise_ece",
    "metrics.dirichlet_error",
    "metrics.errors_by_class",
    "metrics.marginal_error",
    "metrics.trade_off",
)
"""Functions of matrices, and of several models."""


def functions() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    """Every public function of scores and y."""
    for namespace in NAMESPACES:
        module = importlib.import_module(f"calibrant.{namespace}".rstrip("."))
        for name in module.__all__:
            found = getattr(module, name)
            if not inspect.isfunction(found):
                continue
            given = inspect.signature(found).parameters
            full = f"{namespace}.{name}"
            if [*given][:2] == ["scores", "y"] and full not in OTHERS:
                yield full, lambda s, y, found=found, full=full: found(s, y, **FURTHER.get(full, {}))


DOORS = {**dict(learners()), **dict(functions())}


def test_the_doors_are_found() -> None:
    assert len([name for name in DOORS if name.endswith("learn_many")]) == len(CASES)
    assert {".check", ".calibrate", "metrics.brier", "metrics.always_valid_test", "clinical.validate"} <= DOORS.keys()
    live = importlib.import_module("calibrant.live")
    methods = {
        f"{name}.{method}": inspect.signature(of).parameters.keys()
        for name in live.__all__
        for method, of in inspect.getmembers(getattr(live, name), inspect.isfunction)
        if not method.startswith("_")
    }
    listed = {name for name, given in methods.items() if SCORE_NAMES & given and LABEL_NAMES & given}
    assert listed <= DOORS.keys()


def test_swapped_arguments_are_refused(subtests: pytest.Subtests) -> None:
    for name, door in DOORS.items():
        pairs = {"floats": (LABELS, SCORES)}
        if name in ("OnlinePlatt.learn_many", "Monitor.update", "metrics.brier"):
            pairs |= {"integers": (LABELS.astype(int), SCORES), "lists": (LABELS.tolist(), SCORES.tolist())}
            pairs |= {"a column": (LABELS[:, None], SCORES)}
        for kind, (scores, labels) in pairs.items():
            with subtests.test(name, kind=kind):
                with pytest.raises(InputError, match="swapped") as refused:
                    door(scores, labels)
                assert refused.value.argument == "scores"


def test_what_may_be_meant_is_learned(subtests: pytest.Subtests) -> None:
    """Certain forecasts of certain outcomes, fractions forecast by fractions, and a single row."""
    for name, make in CASES.items():
        pairs = {"0/1 and 0/1": (LABELS, LABELS), "one row": (SCORES[:1], LABELS[:1])}
        if make().bounded_outcomes:
            pairs |= {"fractions": (SCORES, SCORES), "certain row": (LABELS[:1], SCORES[:1]), "some": (SCORES, LABELS)}
        for what, (scores, labels) in pairs.items():
            with subtests.test(name, what=what):
                forecaster = make()
                forecaster.learn_many(scores, labels, features_of(forecaster, len(scores)))
                assert forecaster.n_rows == len(scores)
    assert Monitor().update(LABELS, LABELS).rows == len(LABELS)
    assert Monitor().update(SCORES, SCORES).rows == len(SCORES)


def test_a_refused_batch_changes_nothing() -> None:
    forecaster = online.OnlinePlatt().learn_many(SCORES, LABELS)
    before = forecaster.to_json()
    with pytest.raises(InputError):
        forecaster.learn_many(LABELS, SCORES)
    assert forecaster.to_json() == before
