"""Online ridge regression: against least squares solved afresh, its bound, and what it does not guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.cases import every

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.maps import PiecewiseLinearMap
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online import CalibratedRegression, OnlineRidge, resume


def rows(n: int, d: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    scores, features = rng.random(n), rng.choice([-1.0, 0.0, 0.5, 1.0], (n, d))
    return scores, rng.beta(1.0, 1.0 + scores), features  # outcomes in [0, 1]


def regressors(scores: Floats, features: Floats, powers: int) -> Floats:
    chebyshev = [np.cos(k * np.arccos(2.0 * scores - 1.0)) for k in range(2, powers + 1)]
    return np.column_stack([features, np.ones(len(scores)), scores, *chebyshev])


@every(("d", "powers"), [(0, 1), (2, 1), (1, 4)])
def test_forecasts_are_those_of_ridge_regression_solved_afresh(d: int, powers: int) -> None:
    scores, labels, features = rows(40, d)
    told = OnlineRidge(d, powers=powers).forecast_many(scores, labels, features if d else None)
    f = regressors(scores, features, powers)
    start = np.zeros(f.shape[1])
    start[d + 1] = 1.0
    for t in range(40):
        past, y = f[:t], labels[:t]
        theta = start + np.linalg.solve(np.eye(len(start)) + past.T @ past, past.T @ (y - past @ start))
        assert told[t] == pytest.approx(min(max(theta @ f[t], 0.0), 1.0), abs=1e-9)


@every("constant", [False, True])
def test_without_the_score_it_is_algorithm_1_as_printed_or_with_a_constant(constant: bool) -> None:
    scores, labels, features = rows(30, 3)
    model, other = (OnlineRidge(3, include_score=False, constant=constant) for _ in range(2))
    told = model.forecast_many(scores, labels, features)
    f = np.column_stack([features, np.ones(30)]) if constant else features
    for t in range(30):
        theta = np.linalg.solve(np.eye(f.shape[1]) + f[:t].T @ f[:t], f[:t].T @ labels[:t])
        assert told[t] == pytest.approx(np.clip(theta @ f[t], 0.0, 1.0), abs=1e-12)
    assert np.array_equal(told, other.forecast_many(1.0 - scores, labels, features))
    assert resume(model.to_json()).predict_one(0.5, [1.0, 0.0, 1.0]) == model.predict_one(0.5, [1.0, 0.0, 1.0])
    # Theorem 2.1 prints 2 d ln(T + 1) + |theta|^2 for d regressors; half of the logarithm is enough.
    assert OnlineRidge(3, include_score=False, constant=constant).certificate(500, distance=2.0).bound == pytest.approx(
        (4.0 + (3 + constant) * math.log(501)) / 500
    )


def test_algorithm_1_by_hand() -> None:
    # One feature that is always 1, no constant: theta is the sum of outcomes over the rows + 1.
    printed = OnlineRidge(1, include_score=False, constant=False)
    assert printed.forecast_many([0.5] * 4, [1, 0, 1, 1], [[1]] * 4) == pytest.approx([0.0, 1 / 2, 1 / 3, 2 / 4])


@every("way", ["random", "against", "halves"])
def test_the_squared_error_is_within_its_bounds(way: str) -> None:
    rng = np.random.default_rng(4)
    n, model = 600, OnlineRidge(2, powers=2)
    scores, features = rng.random(n), rng.integers(0, 2, (n, 2)).astype(float)
    told, labels = np.empty(n), np.empty(n)
    for t in range(n):
        told[t] = model.predict_one(scores[t], features[t])
        labels[t] = {"random": rng.random() < scores[t], "against": told[t] < 0.5, "halves": t >= n // 2}[way]
        model.learn_one(scores[t], labels[t], features[t])
    f = regressors(scores, features, 2)
    start = np.eye(5)[3]
    theta = start + np.linalg.solve(f.T @ f + 1e-9 * np.eye(5), f.T @ (labels - f @ start))
    distance = float(np.linalg.norm(theta - start))
    gap = np.mean((told - labels) ** 2) - np.mean((f @ theta - labels) ** 2)
    now, ahead = model.certificate(distance=distance), OnlineRidge(2, powers=2).certificate(n, distance=distance)
    assert isinstance(now, OnlineCertificate)
    assert isinstance(ahead, OnlineCertificate)
    assert gap <= now.bound <= ahead.bound
    assert ahead.bound == pytest.approx((distance**2 + 5.0 * np.log(n + 1.0)) / n)


def test_the_footnote_of_foster_and_kakade() -> None:
    # Outcomes 0, then 1, and x = 1 always: ridge regression is off by a share of all rows, the other is not.
    n, labels = 2_000, np.repeat([0, 1], 1_000)
    scores, ones = np.full(n, 0.5), np.ones((n, 1))
    plain = OnlineRidge(1, include_score=False, constant=False).forecast_many(scores, labels, ones)
    calibrated = CalibratedRegression(1, include_score=False, constant=False).forecast_many(scores, labels, ones)
    # in the second half the mean so far is 1 - n / 2t, and the sum of 1 minus that is n / 2 times log 2
    assert (labels - plain).sum() == pytest.approx(0.5 * n * np.log(2.0), rel=0.01)
    assert abs((labels - calibrated).sum()) < 0.15 * (labels - plain).sum()


def test_maps_states_and_refusals() -> None:
    scores, labels, _ = rows(50, 0)
    model = OnlineRidge(clamp=0.1).learn_many(scores, labels)
    frozen = model.freeze()
    assert isinstance(frozen, PiecewiseLinearMap)
    asked = np.linspace(0.0, 1.0, 101)
    assert frozen.apply(asked) == pytest.approx(model.predict_many(asked), abs=1e-12)
    assert OnlineRidge(include_score=False).learn_many(scores, labels).freeze().apply(asked).std() < 1e-12
    line = OnlineRidge(constant=False).learn_many(scores, labels)
    assert line.freeze().apply(asked) == pytest.approx(line.predict_many(asked), abs=1e-12)
    named = OnlineRidge(["north", "old"], powers=3).learn_one(0.5, 1, {"old": 1.0, "north": 0.0})
    assert resume(named.to_json()).predict_one(0.4, [0.0, 1.0]) == named.predict_one(0.4, [0.0, 1.0])
    for ask, words in (
        (lambda: OnlineRidge(powers=2).freeze(), "no fixed map, since a clipped polynomial is not a map: use powers=1"),
        (lambda: OnlineRidge(2).freeze(), "no fixed map"),
        (lambda: OnlineRidge(powers=0), "powers must be an integer from 1 to 64"),
        (lambda: OnlineRidge(powers=2, include_score=False), "powers must be left out with include_score=False"),
        (lambda: OnlineRidge(include_score=False, constant=False), "constant must be True without features"),
        (lambda: OnlineRidge(constant=1), "constant must be True or False"),
        (lambda: OnlineRidge(clamp=0.3), "clamp must be"),
        (lambda: OnlineRidge().certificate(100, distance=-1.0), "distance must be"),
        (lambda: OnlineRidge(1).predict_one(0.5), "features must be 1 numbers"),
    ):
        with pytest.raises(InputError, match=words):
            ask()
    assert isinstance(OnlineRidge().certificate(), NoCertificate)
    assert isinstance(OnlineRidge().certificate(10), NoCertificate)
    assert "within 1 of the score" in str(OnlineRidge().certificate(1_000))


def test_the_bound_is_rounded_outward():
    forecaster = OnlineRidge()
    assert forecaster.certificate(1_000).bound > (1.0 + 2 * math.log1p(1_000)) / 1_000
