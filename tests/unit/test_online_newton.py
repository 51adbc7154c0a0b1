"""Newton steps whose matrix fades: what they compute, and that they follow a break that steps without it miss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.cases import every

from calibrant import InputError
from calibrant.numerics import expit
from calibrant.online import Forecaster, OnlineBeta, OnlinePlatt, resume
from calibrant.online.experts.logistic_steps import BETA_RHO, D1, D2, E1, E3, RHO

FADING = {OnlinePlatt: (D1, D2, RHO), OnlineBeta: (E1, E3, BETA_RHO)}


def stream(n: int, change: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels, and the true probabilities, whose log-odds fall by one from the given row on."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 1.0, n)
    truth = expit(z - (np.arange(n) >= change))
    return expit(z), (rng.random(n) < truth).astype(float), truth


def by_matrices(scores: np.ndarray, labels: np.ndarray, half_life: float, rho: float) -> list[float]:
    """The same in plain linear algebra, where the factors never reach the floor: A fades, then takes the row."""
    theta, a, kept = np.array([1.0, 0.0]), rho * np.eye(2), 2.0 ** (-1.0 / half_life)
    out = []
    for s, y in zip(scores, labels, strict=True):
        x = np.array([math.log(s / (1.0 - s)), 1.0])
        p = 1.0 / (1.0 + math.exp(-float(np.dot(theta, x))))
        g = (p - y) * x
        a = kept * a + np.outer(g, g)
        theta = theta - np.linalg.solve(a, g) / 0.1
        out.append(p)
    return out


def test_the_matrix_fades_as_the_formula_says() -> None:
    """From a matrix of 200 rows of weight 100, so that 50 more rows do not bring it down to rho."""
    scores, labels, _ = stream(50, 50)
    forecaster = OnlinePlatt(half_life=200.0, rho=1.0)
    forecaster._held[D1] = forecaster._held[D2] = 100.0
    assert forecaster.forecast_many(scores, labels) == pytest.approx(by_matrices(scores, labels, 200.0, 100.0))


@every("kind", FADING)
def test_a_half_life_without_end_changes_next_to_nothing(kind: type[OnlinePlatt | OnlineBeta]) -> None:
    scores, labels, _ = stream(500, 250)
    usual = kind().forecast_many(scores, labels)
    assert (kind(half_life=1e15).forecast_many(scores, labels) != usual).any()  # 1 - 2^-51 a row is not 1
    assert kind(half_life=1e15).forecast_many(scores, labels) == pytest.approx(usual, abs=1e-9)
    assert (kind(half_life=None).forecast_many(scores, labels) == usual).all()


@every("kind", FADING)
@every("score", [0.0, 0.5, 1.0])
def test_pivots_fade_no_lower_than_rho(kind: type[OnlinePlatt | OnlineBeta], score: float) -> None:
    forecaster = kind(half_life=1.0).learn_many([score] * 200, [0, 1] * 100).learn_many([0.5] * 200, [0] * 200)
    first, last, rho = FADING[kind]
    assert min(forecaster._held[first : last + 1 : last - first]) >= forecaster._held[rho] == forecaster.rho
    assert 0.0 < forecaster.predict_one(score) < 1.0
    assert resume(forecaster.to_json()).predict_one(0.3) == forecaster.predict_one(0.3)


def lost_after_the_break(forecaster: Forecaster, n: int, change: int) -> float:
    scores, labels, truth = stream(n, change)
    said = forecaster.forecast_many(scores, labels)[change + (n - change) // 2 :]
    rest = truth[change + (n - change) // 2 :]
    return float((rest * np.log(rest / said) + (1.0 - rest) * np.log((1.0 - rest) / (1.0 - said))).mean())


def test_a_half_life_follows_a_break_that_shrinking_steps_miss() -> None:
    """The break costs 0.065 nats a row at first; this is what it costs from 5,000 to 10,000 rows later."""
    assert lost_after_the_break(OnlinePlatt(), 110_000, 100_000) > 0.015
    assert lost_after_the_break(OnlinePlatt(half_life=2_000), 110_000, 100_000) < 0.003
    assert lost_after_the_break(OnlineBeta(half_life=2_000), 110_000, 100_000) < 0.004


@every("half_life", [0.0, 0.5, -3, math.inf, math.nan, "a week", True])
def test_a_half_life_is_a_number_of_rows(half_life: object) -> None:
    with pytest.raises(InputError, match="half_life"):
        OnlinePlatt(half_life=half_life)


def test_a_certificate_is_for_steps_that_shrink() -> None:
    with pytest.raises(InputError, match="half_life must be left out with certified=True"):
        OnlinePlatt(certified=True, half_life=100)
