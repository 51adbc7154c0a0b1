"""Methods of Gupta (2023), Table 6.1, and certified beta scaling: by hand, against their definition, under bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from tests.cases import every

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online import (
    Aggregated,
    Aioli,
    Forecaster,
    Identity,
    MultiExpert,
    OnlineBeta,
    OnlineGradient,
    OnlinePlatt,
    Restarting,
    Tracking,
    resume,
)

E = math.e / (1.0 + math.e)
"""The score whose log-odds are 1."""


def stream(n: int, seed: int = 0, fractions: bool = False) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    scores[rng.random(n) < 0.05] = 0.0
    labels = rng.beta(2.0, 1.0 + 4.0 * scores) if fractions else (rng.random(n) < scores**2).astype(float)
    return scores, labels


def log_loss(p: Floats, y: Floats) -> float:
    return float(-(y * np.log(p) + (1.0 - y) * np.log1p(-p)).sum())


def features(forecaster: Forecaster, scores: Floats) -> Floats:
    s = np.clip(scores, 0.01, 0.99)
    if isinstance(forecaster, OnlineBeta):
        return np.column_stack([np.log(s), -np.log1p(-s), np.ones(len(s))])
    return np.column_stack([np.log(s / (1.0 - s)), np.ones(len(s))])


def best(forecaster: Any, scores: Floats, labels: Floats) -> float:
    """Smallest log loss in the ball, by a solver."""
    x, radius = features(forecaster, scores), forecaster.radius

    def loss(t: Floats) -> tuple[float, Floats]:
        m = x @ t
        return float((np.logaddexp(0.0, m) - labels * m).sum()), (expit(m) - labels) @ x

    inside = {"type": "ineq", "fun": lambda t: radius**2 - t @ t, "jac": lambda t: -2.0 * t}
    start = np.full(x.shape[1], 0.1)
    found = minimize(loss, start, jac=True, constraints=[inside], method="SLSQP", options={"maxiter": 300}).x
    return loss(found * min(1.0, radius / max(float(np.linalg.norm(found)), 1e-9)))[0]


def test_two_steps_of_gradient_descent_by_hand() -> None:
    # G = sqrt(1 + log(99)^2), first step 2 B / (G sqrt 2) = sqrt 2 B / G. At E: features (1, 1), p = E, outcome 0.
    first = math.sqrt(2.0) * 5.0 / math.sqrt(1.0 + math.log(99.0) ** 2)
    ogd = OnlineGradient(radius=5.0).learn_one(E, 0)
    assert (ogd.slope, ogd.intercept) == pytest.approx((1.0 - first * E, -first * E), rel=1e-14)
    p, second = expit(ogd.slope + ogd.intercept), first / math.sqrt(2.0)
    before = (ogd.slope, ogd.intercept)
    ogd.learn_one(E, 1)
    move = second * (1.0 - p)
    assert (ogd.slope, ogd.intercept) == pytest.approx((before[0] + move, before[1] + move), rel=1e-14)


def test_gradient_descent_goes_back_to_the_ball_by_the_shortest_way() -> None:
    ogd = OnlineGradient(radius=1.0).learn_one(0.5, 1)
    free = np.array([1.0, 0.5 * math.sqrt(2.0) / math.sqrt(1.0 + math.log(99.0) ** 2)])  # features (0, 1)
    assert [ogd.slope, ogd.intercept] == pytest.approx((free / np.linalg.norm(free)).tolist(), rel=1e-12)


@every("fractions", [False, True])
def test_the_aggregate_is_the_mean_under_the_posterior_of_the_grid(fractions: bool) -> None:
    scores, labels = stream(60, 2, fractions)
    aa = Aggregated(radius=1.5, spacing=0.5)
    told = aa.forecast_many(scores, labels)
    side = np.linspace(-1.5, 1.5, 7)
    a, b = (grid.ravel() for grid in np.meshgrid(side, side, indexing="ij"))
    z = features(aa, scores)[:, 0]
    maps = expit(np.outer(z, a) + b)
    logs = np.cumsum(labels[:, None] * np.log(maps) + (1.0 - labels[:, None]) * np.log1p(-maps), axis=0)
    weights = np.exp(np.vstack([np.zeros(49), logs]))
    weights /= weights.sum(axis=1, keepdims=True)
    assert told == pytest.approx((weights[:-1] * maps).sum(axis=1), rel=1e-10)
    assert aa.weights == pytest.approx(weights[-1], rel=1e-9)
    # against the maps of the grid the regret is at most ln K, whatever the outcomes
    losses = -logs[-1]
    assert log_loss(told, labels) <= losses.min() + math.log(49.0) + 1e-9


def test_the_spacing_divides_the_radius_and_is_refused_where_there_are_too_many_maps() -> None:
    assert len(Aggregated(radius=1.0, spacing=0.3).weights) == 81  # 4 steps of 0.25
    assert len(Aggregated(radius=1.0, spacing=0.1).weights) == 441
    with pytest.raises(InputError, match=r"spacing gives 40,401 maps, but at most 10,201 .*: pass at least 0.02"):
        Aggregated(radius=1.0, spacing=0.01)
    with pytest.raises(InputError, match="spacing must be at least 1e-06 and at most 2"):
        Aggregated(spacing=3.0)
    with pytest.raises(InputError, match=r"radius must be at most 3.574 with this clamp"):
        Aggregated(radius=4.0, spacing=1.0)
    with pytest.raises(InputError, match="no fixed map"):
        Aggregated().freeze()


def test_a_state_with_other_weights_or_steps_is_refused() -> None:
    for made, place in (
        (Aggregated(spacing=1.0), 5),
        (OnlineGradient(), 3),
        (OnlineGradient(), 1),
        (OnlineGradient(), 4),
    ):
        state = made.learn_many(*stream(20)).state
        state["numbers"][place] = 3.0 if place != 3 else 1e6
        with pytest.raises(InputError, match="cannot result from any stream"):
            resume(state)


BUILDS: dict[str, Callable[[], Any]] = {
    "newton": lambda: OnlinePlatt(radius=1.0, certified=True),
    "aioli": lambda: Aioli(radius=1.0),
    "gradient": lambda: OnlineGradient(radius=1.0),
    "gradient, wide": lambda: OnlineGradient(radius=1.5),
    "aggregated": lambda: Aggregated(radius=1.0, spacing=0.5),
    "beta": lambda: OnlineBeta(certified=True),
}


@every("way", ["random", "against", "adversary", "ends", "fractions", "fractional adversary"])
@every("name", BUILDS)
def test_the_measured_regret_stays_under_both_bounds(name: str, way: str) -> None:
    n = 1_000
    rng = np.random.default_rng(5)
    scores = rng.random(n) if way != "ends" else rng.choice([0.0, 1.0], n)
    forecaster = BUILDS[name]()
    if way in ("random", "against", "fractions"):
        labels = (rng.random(n) < (scores if way == "random" else 1.0 - scores)).astype(float)
        if way == "fractions":
            labels = rng.beta(0.5, 0.5, n)
        told = forecaster.forecast_many(scores, labels)
    else:
        told, labels = np.empty(n), np.empty(n)
        for i, x in enumerate(scores.tolist()):
            told[i] = forecaster.predict_one(x)
            labels[i] = float(told[i] <= 0.5)
            if way == "fractional adversary":
                labels[i] = min(max(1.2 - 1.4 * told[i], 0.0), 1.0)
            forecaster.learn_one(x, labels[i])
    regret = log_loss(told, labels) - best(forecaster, scores, labels)
    now, ahead = forecaster.certificate(), BUILDS[name]().certificate(n)
    assert isinstance(now, OnlineCertificate)
    assert regret <= now.bound <= ahead.bound


def test_bounds_by_hand() -> None:
    big = math.sqrt(1.0 + math.log(99.0) ** 2)
    assert OnlineGradient(radius=2.0).certificate(20_000).bound == pytest.approx(2.0 * 2.0 * big * 200.0)
    found = Aggregated(radius=1.0, spacing=0.1).certificate(500).bound
    assert found == pytest.approx(math.log(441.0) + 500.0 * (0.01 * big**2 / 32.0 + 2.0**-23))
    # beta: G^2 = log(100)^2 + log(0.99)^2 + 1, the start (1, 1, 0) has norm sqrt 2
    g = math.sqrt(math.log(100.0) ** 2 + math.log(0.99) ** 2 + 1.0)
    gamma = math.exp(-1.5 * g)
    growth = 3.0 * math.log(1.0 + 10_000.0 * g * g / 3.0 * (gamma * (1.5 + math.sqrt(2.0))) ** 2)
    assert OnlineBeta(certified=True).certificate(10_000).bound == pytest.approx((growth + 1.0) / (2.0 * gamma))
    s = np.linspace(0.01, 0.99, 9_801)
    assert np.sqrt(np.log(s) ** 2 + np.log1p(-s) ** 2 + 1.0).max() == pytest.approx(g)  # the ends are the farthest


def test_beta_without_certified_constants_has_none_and_certified_ones_are_not_set_by_hand() -> None:
    assert isinstance(OnlineBeta().certificate(10**6), NoCertificate)
    assert isinstance(OnlineBeta(certified=True).certificate(100), NoCertificate)  # vacuous
    for other in ({"gamma": 0.1}, {"rho": 1.0}, {"clamp": 0.1}, {"half_life": 10.0}):
        with pytest.raises(InputError, match=f"{next(iter(other))} must be left out with certified=True"):
            OnlineBeta(certified=True, **other)
    with pytest.raises(InputError, match=r"radius must be at most 7.64 with certified=True.*pass 1.5 to 2"):
        OnlineBeta(certified=True, radius=8.0)
    assert "certified" not in OnlineBeta().state["parameters"]  # states of earlier versions have the same parameters
    made = OnlineBeta(certified=True).learn_many(*stream(30))
    assert resume(made.to_json()).certificate(10**6) == made.certificate(10**6)


def test_gradient_descent_has_bounds_on_periods_too() -> None:
    found = Restarting(OnlineGradient(radius=1.0), shortest=1_024).interval_certificate(0, 20_000)
    assert isinstance(found, OnlineCertificate)
    assert "Zinkevich 2003" in str(found)


# ---------------------------------------------------------------------------------------- outcomes between 0 and 1


@every("loss", ["brier", "log"])
def test_the_aggregate_of_experts_keeps_its_bound_with_fractions(loss: str) -> None:
    for seed in range(3):
        scores, labels = stream(200, seed, fractions=True)
        scores = np.clip(scores, 0.001, 0.999)
        experts = (Identity(), OnlinePlatt(), OnlinePlatt(gamma=1e-3))
        told = MultiExpert(*experts, loss=loss).forecast_many(scores, labels)

        def total(p: Floats, y: Floats = labels) -> float:
            return float(((p - y) ** 2).sum()) if loss == "brier" else log_loss(p, y)

        each = [total(type(e)(**e._parameters()).forecast_many(scores, labels)) for e in experts]
        assert total(told) <= min(each) + math.log(3.0) / (2.0 if loss == "brier" else 1.0) + 1e-6


def test_restarts_keep_their_bound_with_fractions() -> None:
    scores, labels = stream(600, 1, fractions=True)
    labels[300:] = 1.0 - labels[300:]
    scores = np.clip(scores, 0.001, 0.999)
    told = Restarting(OnlinePlatt(), shortest=32, levels=3).forecast_many(scores, labels)
    for start in range(0, 600, 32):  # a copy of level 0 starts here and lives for 64 rows
        rows = slice(start, min(start + 64, 600))
        alone = OnlinePlatt().forecast_many(scores[rows], labels[rows])
        price = math.log(2.0) if not start else math.log(2.0 * 3 * (start // 32) * (start // 32 + 1))
        assert log_loss(told[rows], labels[rows]) <= log_loss(alone, labels[rows]) + price + 1e-6


def test_tracking_keeps_its_bounds_with_fractions() -> None:
    for prior in (0.0, 1.0):
        scores, labels = stream(2_000, 2, fractions=True)
        tops = Tracking(Identity(), prior=prior)
        told = tops.forecast_many(scores, labels)
        bins = np.minimum((scores * 10).astype(int), 9)
        refinement = sum(float(((labels[bins == b] - labels[bins == b].mean()) ** 2).sum()) for b in range(10))
        _, brier = tops.certificates()
        assert ((told - labels) ** 2).mean() - refinement / 2_000 <= brier.bound


def test_a_fraction_counts_as_so_many_events_and_others() -> None:
    # The gradient of the log loss is linear in the outcome: the step of 0.25 is between those of 0 and 1.
    made = OnlinePlatt().learn_many(*stream(30))
    steps = [resume(made.to_json()).learn_one(0.7, y).intercept for y in (0.0, 0.25, 1.0)]
    assert steps[0] < steps[1] < steps[2]
    calm = OnlineGradient(radius=3.0)
    ends = [resume(calm.to_json()).learn_one(0.7, y).intercept for y in (0.0, 0.25, 1.0)]
    assert ends[1] == pytest.approx(0.75 * ends[0] + 0.25 * ends[2], rel=1e-12)
