"""Under Theorem 3.3 on every group after every row, whoever picks the outcomes; where plain ridge regression fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks import groups

from calibrant.online import CalibratedRegression
from calibrant.online.regression.families import hats

pytestmark = pytest.mark.statistical


# Each sees the forecast p and the errors so far, of which the first is that of the group.
STRATEGIES = {
    "at most one half": lambda t, p, errors: p <= 0.5,
    "alternating": lambda t, p, errors: t % 2 == 0,
    "greedy on the group": lambda t, p, errors: abs(errors[0] + p - 1.0) > abs(errors[0] + p),
    "long runs": lambda t, p, errors: (t // 100) % 2 == 0,
    "far from the forecast at times": lambda t, p, errors: (p <= 0.5) if t % 3 else (p > 0.5),
}


@pytest.mark.slow
def test_every_group_stays_under_the_bound_after_every_row(subtests, full_size):
    for world in list(groups.WORLDS):
        with subtests.test(world=world):
            rows = groups.ROWS if full_size else 3_000
            regression = CalibratedRegression(groups.GROUPS)
            run = groups.play(regression, world, rows)
            assert np.max(np.abs(run.errors) / run.bounds()) < 1.0
            assert regression.errors[: groups.GROUPS] == pytest.approx(run.errors[-1], abs=1e-6)
            assert (np.abs(regression.errors) <= regression.bounds).all()
            # What the rows lead to is never above what is said beforehand, nor that above what is printed.
            assert (regression.bounds[: groups.GROUPS] <= run.bounds()[-1]).all()
            printed = 2.0 * np.sqrt((1 + run.groups.sum(axis=0)) * groups.REGRESSORS * math.log1p(rows))
            assert (run.bounds()[-1] <= printed).all()


def test_plain_ridge_fails_on_the_sequence_of_the_footnote_and_regression_on_itself_does_not(full_size):
    rows = groups.ROWS if full_size else groups.QUICK_ROWS
    half = rows // 2
    labels = np.arange(rows) >= half
    # Ridge on a constant forecasts events / (rows + 1): its errors add up to half the rows times ln 2.
    plain = np.cumsum(labels) - labels
    bias = np.sum(plain / np.arange(1, rows + 1) - labels)
    assert bias == pytest.approx(-half * math.log(2.0), rel=0.01)
    regression = CalibratedRegression(1, include_score=False, constant=False)
    regression.learn_many(np.full(rows, 0.5), labels, np.ones((rows, 1)))
    bound = regression.certificate().bound
    assert abs(bias) > 2 * bound
    assert abs(regression.errors[0]) < bound / 4


def test_plain_ridge_fails_on_the_groups_of_that_sequence(full_size):
    run = groups.play(groups.PlainRidge(), "halves", groups.ROWS if full_size else groups.QUICK_ROWS)
    assert np.max(np.abs(run.errors) / run.bounds()) > 1.5


@pytest.mark.slow
def test_continuous_test_functions_stay_under_the_bound_against_who_sees_the_forecast(subtests, full_size):
    for strategy in list(STRATEGIES):
        for setting in [
            {"include_score": False},
            {"include_score": False, "constant": False},
            {"test_functions": "hats", "size": 8},
            {"test_functions": "polynomials", "size": 5, "include_score": False},
            {"test_functions": "hats", "size": 16, "growing": True},
            {"clamp": 0.05},
            {"test_functions": "hats", "size": 8, "clamp": 0.2},
        ]:
            with subtests.test(strategy=strategy, setting=setting):
                pick = STRATEGIES[strategy]
                regression = CalibratedRegression(1, **setting)
                start, n = regression._start, len(regression.errors)
                for t in range(50_000 if full_size else 600):
                    x = [float(t % 5 == 0)]
                    p = regression.predict_one(0.5, x)
                    regression.learn_one(0.5, pick(t, p, regression.errors), x)
                    if t % 7 == 0 or t < 50:
                        bounds = regression.bounds
                        assert (np.abs(regression.errors) <= bounds).all()
                        tau = 1.0 + (t // 5 + 1)
                        held = regression.clamp**2 * (t + 1)
                        assert bounds[0] <= math.sqrt(tau * (start + n * math.log(t + 2) + held)) * (1 + 1e-12)


@pytest.mark.slow
def test_all_functions_with_a_bounded_slope_are_calibrated_at_once(full_size):
    # docs/certificates/regression.md: |sum g(p) (p - y)| <= |c_0| + sqrt(tau (c + v)) + rows * slope / (2 size).
    rows, size, slope = 20_000 if full_size else 4_000, 16, 4.0
    regression = CalibratedRegression(test_functions="hats", size=size)
    forecasts, outcomes = np.empty(rows), np.empty(rows)
    for t in range(rows):
        p = forecasts[t] = regression.predict_one(0.5)
        outcomes[t] = p <= 0.5
        regression.learn_one(0.5, outcomes[t])
    points = np.linspace(0.0, 1.0, size + 1)
    basis = np.array([[1.0, *hats(p, size)] for p in points])
    for seed in range(50):
        steps = np.random.default_rng(seed).choice([-slope, slope], 1_000) / 1_000
        line = np.clip(np.cumsum(steps), -1.0, 1.0)

        def g(p, line=line):
            return np.interp(p, np.linspace(0.0, 1.0, 1_000), line)

        c = np.linalg.solve(basis, g(points))
        tau = np.sum(np.square(np.interp(forecasts, points, g(points)))) + np.sum(c * c)
        bound = abs(c[1]) + math.sqrt(tau * (2.0 + regression._spent)) + rows * slope / (2 * size)
        assert abs(np.sum(g(forecasts) * (forecasts - outcomes))) <= bound


def test_a_test_function_that_jumps_is_beyond_any_forecaster_without_draws():
    regression = CalibratedRegression(test_functions="hats", size=16)
    low = 0.0
    for _ in range(1_000):
        p = regression.predict_one(0.5)
        low += (p <= 0.5) * (p - 1.0) - (p > 0.5) * p
        regression.learn_one(0.5, p <= 0.5)
    assert low <= -0.4 * 1_000  # |p - y| is at least one half on every row


@pytest.mark.slow
def test_squared_errors_are_hardly_above_those_of_the_score_and_of_the_best_line(subtests, full_size):
    for world in ["random", "drift", "halves", "contrary", "one"]:
        with subtests.test(world=world):
            rows = 10_000 if full_size else 1_000
            regression = CalibratedRegression(groups.GROUPS)
            run = groups.play(regression, world, rows)
            n = groups.REGRESSORS
            scores = replay_scores(world, rows)
            loss = np.sum(np.square(run.forecasts - run.outcomes))
            assert loss <= np.sum(np.square(scores - run.outcomes)) + regression._spent
            assert regression._spent <= n * math.log1p(rows)
            design = np.column_stack([run.groups, np.ones(rows), scores, run.forecasts])
            target = run.outcomes - scores
            theta = np.linalg.solve(np.eye(n) + design.T @ design, design.T @ target)
            best = np.sum(np.square(target - design @ theta)) + theta @ theta
            assert loss <= best + regression._spent + 1e-6


def replay_scores(world: str, rows: int) -> np.ndarray:
    """The scores that `play` draws."""
    seen: list[float] = []

    class Spy(groups.Score):
        def learn_one(self, score, label, features):
            seen.append(score)

    groups.play(Spy(), world, rows)
    return np.array(seen)


@pytest.mark.slow
def test_forecasts_and_factors_stay_good_over_many_rows(full_size):
    rows = 1_000_000 if full_size else 30_000
    rng = np.random.default_rng(8)
    features = np.ones((rows, 1)) - 1e-9 * (rng.random((rows, 1)) < 0.5)  # all but the same as the constant
    scores = rng.choice([0.0, 1.0, 0.5], rows)
    labels = np.arange(rows) % 2
    regression = CalibratedRegression(1)
    p = regression.forecast_many(scores, labels, features)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert min(regression._pivots) >= 1.0
    design = np.column_stack([features, np.ones(rows), scores, p])
    lower = np.eye(4)
    for j, column in enumerate(regression._columns):
        lower[j + 1 :, j] = column[:-1]
    assert lower @ np.diag(regression._pivots) @ lower.T == pytest.approx(np.eye(4) + design.T @ design, rel=1e-10)
    theta = np.linalg.solve(np.eye(4) + design.T @ design, design.T @ (labels - scores))
    assert regression._theta == pytest.approx(theta, abs=1e-6)
