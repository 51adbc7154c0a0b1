"""Whatever meets a threshold with scores compares them as doubles, so that the dtype of the scores changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibrant import PlattScaling, abstention, clinical, compare, credit, decisions, metrics
from calibrant.abstention.chain import score_rule
from calibrant.maps import IdentityMap

RNG = np.random.default_rng(1)
KIND = RNG.choice(3, 1000, p=[0.2, 0.4, 0.4])
RIGHT = (RNG.random(1000) >= np.array([0.5, 0.4, 0.01])[KIND]).astype(int)
OTHER = (RNG.random(1000) < 0.97).astype(int)
QUESTION = RNG.integers(0, 400, 1000)
PROBABILITIES, LOGITS = np.array([0.7, 0.9, 0.95]), np.log([0.3 / 0.7, 9.0, 19.0])
CUTS = [0.7, 0.9, 0.95]

MAKE: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda s: s,
    "float32": lambda s: s.astype(np.float32),
    "float16": lambda s: s.astype(np.float16),
    "object": lambda s: s.astype(np.float32).astype(object),
    "series": lambda s: pd.Series(s.astype(np.float32)),
    "column": lambda s: s.astype(np.float32)[:, None],
}


def accepted(scores: Any, **how: Any) -> list[Any]:
    """An acceptance that counts the rows that it decides, and its policy."""
    found = abstention.accept(scores, RIGHT, error=0.1, **how)
    again = abstention.Acceptance.from_dict(found.to_dict())
    assert found.decide(scores).sum() == again.decide(scores).sum() == found.rows > 0
    if found.score_type == "probability":
        assert (found.policy.decide(scores) == "answer").sum() == found.rows
    return [found.rows, found.wrong, found.coverage, found.decide(scores)]


def routed(scores: Any, **how: Any) -> list[Any]:
    found = abstention.route(scores, RIGHT, OTHER, error=0.1, **how)
    assert found.decide(scores).mean() == pytest.approx(found.kept) or how
    return [found.wrong, found.cost, found.decide(scores)]


def modeled(scores: Any) -> list[Any]:
    found = abstention.accept_models({"a": scores, "b": scores}, {"a": RIGHT, "b": RIGHT}, error=0.1).models["b"]
    assert found.decide(scores).sum() == found.rows > 0
    return [found.rows, found.wrong]


def with_a_map(scores: Any) -> list[Any]:
    fitted = PlattScaling().fit(np.asarray(scores, dtype=np.float64).ravel(), RIGHT)
    return [decisions.choose_action([[0, 3], [7, 0]], calibration=fitted).decide(scores)]


DOORS: dict[str, Callable[[Any], list[Any]]] = {
    "accept": accepted,
    "accept, groups": lambda s: accepted(s, groups=QUESTION, random_state=0),
    "accept, start": lambda s: accepted(s, start=0.93),
    "accept_models": modeled,
    "route": routed,
    "route, groups": lambda s: routed(s, groups=QUESTION),
    "risk_coverage": lambda s: [abstention.risk_coverage(s, RIGHT).high],
    "choose_action": lambda s: [decisions.choose_action([[0, 9], [1, 0]]).decide(s)],
    "choose_action, map": with_a_map,
    "expected_cost": lambda s: [decisions.expected_cost(s, RIGHT, cost_fp=9, cost_fn=1, thresholds=CUTS).cost],
    "net_benefit": lambda s: [metrics.net_benefit(s, RIGHT, thresholds=CUTS).model],
    "decision_curve": lambda s: [clinical.decision_curve(s, RIGHT, thresholds=CUTS, repetitions=100).low],
    "accuracy": lambda s: [float(metrics.accuracy(s, RIGHT, threshold=0.9))],
    "compare": lambda s: [compare(s, 0.9 * np.asarray(s, float).ravel(), RIGHT, thresholds=CUTS).to_dict()],
    "master_scale": lambda s: [credit.master_scale(IdentityMap(), CUTS).assign(s).ravel()],
}


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return str(one) == str(other)
    return bool(np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f"))


@pytest.mark.parametrize("name", DOORS)
def test_a_threshold_compares_doubles_whatever_the_dtype(name: str, subtests: Any) -> None:
    """accept(...).decide answered 812 float32 rows of a rule that left 404 and guaranteed at most 10 % wrong."""
    for kind, make in MAKE.items():
        with subtests.test(kind):
            scores = make(PROBABILITIES[KIND])
            doubles = np.asarray(np.asarray(scores), dtype=np.float64).ravel()
            for one, other in zip(DOORS[name](scores), DOORS[name](doubles), strict=True):
                assert equal(one, other)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_logits_are_compared_as_doubles(kind: str) -> None:
    scores = MAKE[kind](LOGITS[KIND])
    assert accepted(scores)[0] == accepted(PROBABILITIES[KIND])[0] == 404
    assert equal(routed(scores)[2], routed(PROBABILITIES[KIND])[2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_rule_is_printed_in_the_digits_of_its_scores(dtype: type) -> None:
    """A threshold of float32 scores is a float32, so that scores >= threshold is right in NumPy as well."""
    scores = PROBABILITIES.astype(dtype)[KIND]
    found = abstention.accept(scores, RIGHT, error=0.1)
    suffix = "" if dtype is np.float64 else f" ({dtype.__name__})"
    assert score_rule(found.threshold) == f"above 0.9{suffix}"
    if dtype is not np.float16:
        assert (scores >= found.threshold).sum() == found.rows
    low = abstention.accept(scores, np.ones(1000), error=0.1, start=0.9)
    assert low.rows == 1000
    only = abstention.accept(scores, KIND > 0, error=0.1, start=0.9)
    assert only.rows == (KIND > 0).sum()
    assert score_rule(only.threshold) == f"at least 0.9{suffix}" or dtype is np.float16
