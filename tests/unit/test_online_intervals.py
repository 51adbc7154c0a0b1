"""Intervals on a stream: the bound on misses on every sequence, states, and errors."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import InputError
from calibrant.guarantees.no_certificate import NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.online import AdaptiveIntervals, IntervalForecaster, QuantileTracking

KINDS: dict[str, Callable[[], IntervalForecaster]] = {
    "adaptive": lambda: AdaptiveIntervals(0.25, step=0.125, window=8),
    "adaptive, long window": lambda: AdaptiveIntervals(0.1, step=0.05),
    "tracking": lambda: QuantileTracking(0.25, step=0.5, start=1.0, largest=4.0),
}
WALK = np.cumsum(np.random.default_rng(3).normal(size=200))


def adversary(forecaster: IntervalForecaster, kind: str, n: int, b: float) -> None:
    """Outcomes within b of the forecast 0, each chosen with a look at its interval."""
    rng = np.random.default_rng(0)
    for t in range(n):
        low, high = forecaster.predict_one(0.0)
        outside = next((y for y in (b, -b) if not low <= y <= high), 0.0)
        miss = {"always": True, "never": False, "late": t >= n // 2, "early": t < n // 2, "random": rng.random() < 0.5}
        forecaster.learn_one(0.0, outside if miss[kind] else (0.0 if low <= 0.0 <= high else b))


@pytest.mark.parametrize("kind", ["always", "never", "late", "early", "random"])
def test_adaptive_misses_stay_within_their_bounds_against_an_adversary(kind: str) -> None:
    """Exactly: all numbers are dyadic, so that no step rounds."""
    alpha, step = Fraction(1, 4), Fraction(1, 16)
    for n in (1, 7, 64, 300):
        forecaster = AdaptiveIntervals(float(alpha), step=float(step), window=16)
        adversary(forecaster, kind, n, 1.0)
        assert forecaster.missed < alpha * n + alpha / step + 1 - alpha
        assert forecaster.missed > alpha * n - (1 - alpha) / step - alpha
        assert -step * (1 - alpha) < Fraction(forecaster.level) < 1 + step * alpha


@pytest.mark.parametrize("kind", ["always", "never", "late", "early", "random"])
def test_tracking_misses_stay_within_their_bounds_against_an_adversary(kind: str) -> None:
    alpha, step, start, b = Fraction(1, 8), Fraction(1, 4), Fraction(1), Fraction(3)
    for n in (1, 7, 64, 300):
        forecaster = QuantileTracking(float(alpha), step=float(step), start=float(start), largest=float(b))
        adversary(forecaster, kind, n, float(b))
        assert forecaster.missed <= alpha * n + (b - start) / step + 1 - alpha
        assert forecaster.missed >= alpha * n - start / step - alpha


def test_the_bounds_are_nearly_reached() -> None:
    forecaster = AdaptiveIntervals(0.25, step=1 / 64)
    for _ in range(400):
        high = forecaster.predict_one(0.0)[1]
        forecaster.learn_one(0.0, high + 1.0 if math.isfinite(high) else 0.0)
    assert forecaster.missed > 400 * 0.25 + 0.25 * 64 - 2
    tracker = QuantileTracking(0.25, step=1 / 64, largest=1.0)
    adversary(tracker, "always", 400, 1.0)
    assert tracker.missed > 400 * 0.25 + 64 - 2


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=60), st.floats(0.01, 0.9))
def test_the_certificate_holds_for_the_rows_learned(rows: list[tuple[float, float]], alpha: float) -> None:
    for forecaster in (AdaptiveIntervals(alpha, step=0.3, window=7), QuantileTracking(alpha, step=1e5, start=10.0)):
        for forecast, outcome in rows:
            forecaster.learn_one(forecast, outcome)
        found = forecaster.certificate()
        if isinstance(found, OnlineCertificate):
            assert forecaster.missed <= found.bound * len(rows) + 1e-9


def test_a_hand_worked_stream() -> None:
    tracker = QuantileTracking(0.25, step=1.0, start=0.5)
    assert tracker.predict_one(10.0) == (9.5, 10.5)
    tracker.learn_one(10.0, 11.0)  # a miss: 0.5 + 0.75
    assert tracker.predict_one(10.0) == (8.75, 11.25)
    tracker.learn_one(10.0, 11.25)  # on the end: a hit
    assert tracker.predict_one((1.0, 2.0)) == pytest.approx((0.0, 3.0), abs=1e-15)
    assert (tracker.missed, tracker.n_rows) == (1, 2)
    adaptive = AdaptiveIntervals(0.5, step=0.1, window=2)
    assert adaptive.predict_one(0.0) == (-math.inf, math.inf)
    adaptive.learn_many([0.0, 0.0, 0.0], [1.0, 2.0, 3.0])  # hit; level 0.55 of one score: 1, a miss; 0.5 of two: 2
    assert adaptive.missed == 2
    assert adaptive.level == pytest.approx(0.45)
    assert adaptive.predict_one(0.0) == pytest.approx((-3.0, 3.0))  # rank 2 of the last two scores, 2 and 3


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_equal_one_by_one_and_states_go_on(kind: str) -> None:
    one, many, live = KINDS[kind](), KINDS[kind](), KINDS[kind]()
    before = np.array([one.learn_one(x, y).predict_one(0.0) for x, y in pairwise(WALK)])
    many.learn_many(WALK[:-1], WALK[1:])
    intervals = live.forecast_many(np.zeros(199), WALK[1:])
    assert intervals.shape == (199, 2)
    assert one.state == many.state == copy.deepcopy(one).state == pickle.loads(pickle.dumps(one)).state
    assert np.array_equal(many.predict_many([0.0, 1.0]), [before[-1], many.predict_one(1.0)])
    again = type(one).resume(one.to_json())
    assert repr(again) == repr(one)
    assert again.learn_one(0.0, 5.0).state == one.learn_one(0.0, 5.0).state
    assert many.predict_many([]).shape == (0, 2)


def test_pairs_are_quantiles_that_move() -> None:
    tracker = QuantileTracking(0.5, step=1.0)
    tracker.learn_one((0.0, 2.0), 1.0)
    assert tracker.predict_one((0.0, 2.0)) == (0.5, 1.5)
    assert np.array_equal(tracker.predict_many([[0.0, 2.0], [1.0, 1.0]]), [[0.5, 1.5], [1.5, 0.5]])


def test_no_certificate_without_a_bound_on_scores() -> None:
    tracker = QuantileTracking(0.1, step=1.0).learn_many([0.0] * 100, [1.0] * 100)
    assert isinstance(tracker.certificate(), OnlineCertificate)
    assert tracker.certificate(200).code == NoCertificateCode.NO_THEOREM
    short = QuantileTracking(0.1, step=1.0, largest=0.5).learn_many([0.0] * 100, [1.0] * 100)
    assert "exceeded" in str(short.certificate(200))
    assert AdaptiveIntervals().certificate().code == NoCertificateCode.VACUOUS
    assert AdaptiveIntervals().certificate(2_000).bound == pytest.approx(0.1 + 10.9 / 2_000)


def test_bad_input_changes_nothing() -> None:
    forecaster = AdaptiveIntervals()
    for call, words in (
        (lambda: forecaster.learn_one(0.0, math.nan), "outcome must be a finite number, not nan: leave out rows"),
        (lambda: forecaster.predict_one("3"), "forecast must be a finite number"),
        (lambda: forecaster.predict_one((2.0, 1.0)), "above the upper one"),
        (lambda: forecaster.learn_many([1.0], [1.0, 2.0]), "outcomes has 2 rows but forecasts has 1"),
        (lambda: forecaster.learn_many([1.0, math.inf], [1.0, 2.0]), "forecasts is not finite at row 1 counted from 0"),
        (lambda: forecaster.learn_many([1.0, 2.0], [1.0, math.inf]), "outcomes is not finite at row 1 counted from 0"),
        (lambda: forecaster.learn_many([[2.0, 1.0]], [1.0]), "above the upper one at row 0 counted from 0"),
        (lambda: forecaster.certificate(-1), "n_rows must be an integer"),
        (lambda: AdaptiveIntervals(1.0), "alpha must be at least"),
        (lambda: AdaptiveIntervals(step=0), "step must be at least"),
        (lambda: QuantileTracking(step=1.0, start=-1.0), "start must be at least"),
    ):
        with pytest.raises(InputError, match=words.replace("(", r"\(")):
            call()
    assert forecaster.state == AdaptiveIntervals().state


def test_states_that_no_stream_gives_are_refused() -> None:
    state = AdaptiveIntervals(window=3).learn_many([0.0] * 5, [1.0] * 5).state
    for change in (
        {"version": 2},
        {"forecaster": "QuantileTracking"},
        {"numbers": [5]},
        {"numbers": [5, 6, 1.0, 1.0, 1.0]},
        {"numbers": [5, 0, 1.0]},
        {"parameters": {"beta": 1}},
        {"parameters": None},
    ):
        with pytest.raises(InputError, match="state"):
            AdaptiveIntervals.resume(json.dumps(state | change))
    with pytest.raises(InputError, match="state"):
        QuantileTracking.resume(QuantileTracking(step=1.0).state | {"numbers": [0, 0]})


def test_an_outcome_at_the_radius_is_never_missed_by_rounding() -> None:
    rng = np.random.default_rng(0)
    forecasts = rng.normal(size=2_000) * 10.0 ** rng.integers(-3, 17, 2_000)
    outcomes = rng.normal(size=2_000) * 10.0 ** rng.integers(-3, 3, 2_000)
    for f, y in zip(forecasts.tolist(), outcomes.tolist(), strict=True):
        tracker = QuantileTracking(step=1e-30, start=abs(y - f)).learn_one(f, y)
        assert tracker.missed == 0
        assert tracker.learn_one((f, f), y).learn_one(f, y).missed <= 1


@pytest.mark.parametrize("forecaster", [AdaptiveIntervals(), QuantileTracking(step=0.1)])
def test_huge_and_ragged_numbers_are_refused(forecaster) -> None:
    for call in (
        lambda: forecaster.learn_one(1e308, -1e308),
        lambda: forecaster.learn_many([1e308], [0.0]),
        lambda: forecaster.learn_many([0.0], [-1e308]),
        lambda: forecaster.predict_many([[1, 2], [3]]),
        lambda: forecaster.predict_one((1, [2])),
    ):
        with pytest.raises(InputError):
            call()
    assert forecaster.n_rows == 0
    forecaster.resume(type(forecaster).resume(forecaster.to_json()).learn_one(1e300, -1e300).to_json())


@pytest.mark.parametrize("missed", [0, 1_000])
def test_a_number_of_misses_that_no_stream_has_is_refused(missed) -> None:
    tracker = AdaptiveIntervals(0.1, step=0.5).learn_many(np.zeros(1_000), np.arange(1_000.0))
    state = tracker.state
    assert AdaptiveIntervals.resume(state).state == state
    state["numbers"][1] = missed
    with pytest.raises(InputError, match="number of misses"):
        AdaptiveIntervals.resume(state)


def test_more_misses_than_the_bound_are_refused() -> None:
    state = QuantileTracking(0.1, step=1.0).learn_many(np.zeros(1_000), np.ones(1_000)).state
    assert QuantileTracking.resume(state).state == state
    state["numbers"][1] = 500
    with pytest.raises(InputError, match="number of misses"):
        QuantileTracking.resume(state)
