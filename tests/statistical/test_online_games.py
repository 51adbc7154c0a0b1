"""Adversaries that see all that the game allows cannot break the promises; one that sees more does."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import adversaries

from calibrant.metrics import error_over_time
from calibrant.online import Foster99, Hedging, OnlinePlatt, Tracking, TwoChoices

pytestmark = pytest.mark.statistical


STRATEGIES = {strategy.__name__: strategy for strategy in adversaries.STRATEGIES}


def test_two_choices_are_within_their_bound_at_every_row(subtests: pytest.Subtests, full_size: bool) -> None:
    for name in STRATEGIES:
        with subtests.test(name=name):
            n = 100_000 if full_size else 5_000
            for epsilon in (0.5, 0.1, 0.05):
                game = TwoChoices(epsilon=epsilon)
                run = adversaries.play(game, STRATEGIES[name], n, seed=1)
                assert run.worst <= min(game.n_bins, (game.certificate(n).bound - epsilon / 2) * n) + 1e-6


@pytest.mark.slow
def test_mean_errors_of_draws_are_within_their_bounds(subtests: pytest.Subtests, full_size: bool) -> None:
    for hedger in adversaries.HEDGERS:
        for name in STRATEGIES:
            with subtests.test(hedger=hedger, name=name):
                runs, n = (200, 2_000) if full_size else (5, 500)
                make, printed = adversaries.HEDGERS[hedger]
                errors = [adversaries.play(make(k), STRATEGIES[name], n, seed=k).error for k in range(runs)]
                assert np.mean(errors) <= min(printed(n), make(0).certificate(n).bound)


def test_an_adversary_who_sees_the_draw_wins() -> None:
    for game in (Foster99(random_state=0), Hedging(OnlinePlatt(), random_state=0)):
        forecasts, outcomes = [], []
        for score in np.random.default_rng(0).random(3_000):
            p = game.predict_one(score)
            y = int(p <= 0.5)
            game.learn_one(score, y)
            forecasts.append(p)
            outcomes.append(y)
        assert float(error_over_time(forecasts, outcomes)) > 0.4 > game.certificate().bound


def test_a_deterministic_point_forecaster_fails(subtests: pytest.Subtests) -> None:
    for make in [OnlinePlatt, lambda: Tracking(OnlinePlatt()), lambda: Tracking(OnlinePlatt(), prior=0)]:
        with subtests.test(make=make):
            forecasts, outcomes, _ = adversaries.openly(make(), adversaries.oppose_below, 2_000, 0)  # type: ignore[operator]
            assert float(error_over_time(forecasts, outcomes)) > 0.4
