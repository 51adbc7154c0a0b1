"""Tracking, hedging and calibration games: worked cases, the same bits compiled, states, frozen maps, certificates."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import InputError
from calibrant.maps import IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.metrics import epsilon_error, error_over_time
from calibrant.online import Forecaster, Foster99, Hedging, MultiExpert, OnlinePlatt, Tracking, TwoChoices, resume
from calibrant.online.base import KINDS
from calibrant.online.draws import SEEDS, draw_steps
from calibrant.online.game_bounds import hedged_brier, hedged_error, judged_error, mean_regret
from calibrant.online.hedging import MEANS, TOTALS, game_steps
from calibrant.online.kernels import Step, plain
from calibrant.online.widths import bin_steps


class Fixed(Forecaster):
    """An expert that is no kernel and never learns: the given map of the score."""

    def __init__(self, inner: Map | None = None) -> None:
        self.inner = inner or IdentityMap()
        self.seen = 0

    @property
    def n_rows(self) -> int:
        return self.seen

    def predict_one(self, score: float, features: object = None) -> float:
        return float(self.inner.apply([self._score(score)])[0])

    def learn_one(self, score: float, label: float, features: object = None) -> Fixed:
        self.seen += 1
        return self

    def freeze(self) -> Map:
        return self.inner

    def _parameters(self) -> dict[str, object]:
        return {}

    def _numbers(self) -> list[float]:
        return [float(self.seen)]

    def _resume(self, numbers: list[float]) -> None:
        self.seen = int(numbers[0])


del KINDS["Fixed"]


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.random(n), 3)
    return x, (rng.random(n) < x**2).astype(float)


MAKERS = {
    "tracking": lambda: Tracking(OnlinePlatt()),
    "hedging": lambda: Hedging(OnlinePlatt(), random_state=3),
    "hedging by means": lambda: Hedging(OnlinePlatt(), shares="means", epsilon=0.25),
    "hedging, two choices": lambda: Hedging(OnlinePlatt(), rule="two-choices"),
    "foster": lambda: Foster99(epsilon=0.05, random_state=9),
    "two choices": lambda: TwoChoices(),
    "multi": lambda: MultiExpert(Tracking(OnlinePlatt()), Foster99(), OnlinePlatt(gamma=0.5)),
    "multi, log": lambda: MultiExpert(Fixed(), OnlinePlatt(), loss="log"),
}


# ------------------------------------------------------------------------------------------------------------- draws


@pytest.fixture(scope="module")
def uniform() -> Step:
    return draw_steps(plain)


def test_draws_are_uniform_and_uncorrelated(uniform: Step) -> None:
    from scipy import stats

    for seed in (0, 1, SEEDS - 1):
        u = np.array([uniform(seed, t) for t in range(20_000)])
        assert stats.kstest(u, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 4 / math.sqrt(len(u))
        bits = (u * 2.0**53).astype(np.int64)
        for bit in range(53):  # every bit is set half of the time: 5.5 sd over 159 bits is 6e-6 by chance
            assert abs(((bits >> bit) & 1).mean() - 0.5) < 5.5 * 0.5 / math.sqrt(len(u))
    first = np.array([uniform(seed, 0) for seed in range(20_000)])
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    other = np.array([uniform(seed, 1) for seed in range(20_000)])
    assert abs(np.corrcoef(first, other)[0, 1]) < 4 / math.sqrt(len(first))


def test_draws_differ_beyond_four_billion_rows(uniform: Step) -> None:
    assert len({uniform(seed, t) for seed in (0, 1) for t in (5, 5 + 2**32, 5 + 2**40)}) == 6


def test_compiled_draws_are_the_same(uniform: Step) -> None:
    numba = pytest.importorskip("numba")
    fast = draw_steps(numba.njit)
    for seed in (0, 7, SEEDS - 1):
        for t in (0, 1, 2**31, 2**32 + 1, 2**52):
            assert fast(seed, t) == uniform(seed, t)


@given(st.floats(0, 1), st.integers(2, 300))
def test_a_bin_holds_what_lies_between_its_edges(p: float, m: int) -> None:
    b = bin_steps(plain)(p, float(m))
    assert 0 <= b < m
    assert b / m <= p
    assert p < (b + 1) / m or b == m - 1


# ---------------------------------------------------------------------------------------------------------- tracking


def test_tracking_is_the_mean_of_the_experts_bin() -> None:
    # Bins of width 0.5. Scores 0.2, 0.3 share a bin: mid-point 0.25, then 1, then (1 + 0) / 2. 0.5 opens the upper bin.
    game = Tracking(Fixed(), epsilon=0.5)
    assert game.forecast_many([0.2, 0.3, 0.1, 0.5, 1.0], [1, 0, 0, 1, 0]).tolist() == [0.25, 1.0, 0.5, 0.75, 1.0]
    assert game.predict_one(0.0) == 1 / 3
    assert game.predict_one(0.99) == 0.5


def test_tracking_uses_the_forecast_that_the_expert_made_before_it_learned() -> None:
    x, y = stream(300)
    expert = OnlinePlatt(gamma=0.01, rho=1.0).forecast_many(x, y)
    found = Tracking(OnlinePlatt(gamma=0.01, rho=1.0)).forecast_many(x, y)
    bins = np.minimum((expert * 10).astype(int), 9)
    for t in range(300):
        same = y[:t][bins[:t] == bins[t]]
        assert found[t] == (same.mean() if len(same) else (bins[t] + 0.5) / 10)


@pytest.mark.parametrize(
    "inner",
    [
        IdentityMap(),
        LogitAffineMap(1.7, 0.3),
        LogitAffineMap(-0.8, 0.1),
        LogitAffineMap(0.01, 2.0),
        PiecewiseLinearMap([0.1, 0.5, 0.9], [0.0, 0.2, 1.0]),
        PiecewiseLinearMap([0.1, 0.9], [0.8, 0.3]),
        StepMap([0.2, 0.5, 0.7], [0.9, 0.1, 0.5, 0.15]),
    ],
    ids=["identity", "rising", "falling", "flat", "lines", "falling lines", "steps"],
)
def test_the_frozen_map_gives_what_tracking_says(inner: Map) -> None:
    x, y = stream(400)
    game = Tracking(Fixed(inner)).learn_many(x, y)
    frozen = game.freeze()
    asked = np.append(np.linspace(0, 1, 1_001), np.nextafter(np.linspace(0, 1, 101)[1:], 0))
    assert isinstance(frozen, StepMap)
    assert frozen.apply(asked).tolist() == game.predict_many(asked).tolist()


def test_the_frozen_map_of_online_platt_agrees() -> None:
    x, y = stream(400)
    game = Tracking(OnlinePlatt(gamma=0.01, rho=1.0), epsilon=0.05).learn_many(x, y)
    assert game.freeze().apply(x).tolist() == game.predict_many(x).tolist()


def test_what_is_no_function_of_the_score_is_not_frozen() -> None:
    with pytest.raises(InputError, match="monotone"):
        Tracking(Fixed(PiecewiseLinearMap([0.1, 0.5, 0.9], [0.0, 1.0, 0.2]))).freeze()
    for game in (Hedging(Fixed()), Tracking(Hedging(Fixed())), Foster99(), TwoChoices()):
        with pytest.raises(InputError, match="no fixed map"):
            game.freeze()


# ------------------------------------------------------------------------------------------------------------- games


def test_foster_by_hand() -> None:
    # Two forecasts, 1/4 and 3/4, bins [0, 1/2) and [1/2, 1]. Row 1: 1/4 (unused). Outcome 1: excess 1 - 1/2 = 1/2.
    game = Foster99(epsilon=0.5)
    assert game.predict_distribution(0.5) == ((0.25, 1.0),)
    game.learn_one(0.5, 1)
    # Row 2: 1/4 has an excess, 3/4 is unused. Outcome 0 gives it the deficit 1/2.
    assert game.predict_distribution(0.5) == ((0.75, 1.0),)
    game.learn_one(0.5, 0)
    # Row 3: excess 1/2 below deficit 1/2: even odds. The draw of row 3 decides who takes the outcome 1.
    assert game.predict_distribution(0.5) == ((0.25, 0.5), (0.75, 0.5))
    low = game.predict_one(0.5) == 0.25
    game.learn_one(0.5, 1)
    # Taken below: excess 2 - 2/2 = 1 against the deficit 1/2: odds 1/2 : 1. Taken above: 1 of 2, no deficit any more.
    assert game.predict_distribution(0.5) == (((0.25, 1 / 3), (0.75, 1 - 1 / 3)) if low else ((0.75, 1.0),))


def test_means_and_totals_share_differently() -> None:
    # Below: two rows, both 1: total excess 2 - 1 = 1, mean 1/2. Above: one row, 0: deficit 1/2, mean 1/2.
    numbers = [3.0, 2.0, 0.0, 1.0, 2.0, 1.0, 2.0, 0.0]
    totals = Foster99(epsilon=0.5)
    totals.restore({**totals.state, "numbers": numbers})
    assert totals.predict_distribution(0.5)[0] == (0.25, 1 / 3)
    means = Foster99(epsilon=0.5, shares="means")
    means.restore({**means.state, "numbers": [*numbers[:3], 2.0, *numbers[4:]]})
    assert means.predict_distribution(0.5)[0] == (0.25, 0.5)


def test_draws_have_the_announced_chances() -> None:
    from scipy import stats

    low = 0
    for seed in range(2_000):
        game = Foster99(epsilon=0.5, random_state=seed)
        game.restore({**game.state, "numbers": [3.0, 2.0, float(seed), 1.0, 2.0, 1.0, 2.0, 0.0]})
        low += game.predict_one(0.5) == 0.25
    assert stats.binomtest(low, 2_000, 1 / 3).pvalue > 1e-3


def test_hedging_starts_at_the_expert_and_keeps_its_bins_apart() -> None:
    game = Hedging(Fixed(), epsilon=0.1)
    assert game.predict_many([0.0, 0.33, 1.0]).tolist() == [0.05, 0.35, 0.95]
    game.learn_many([0.33] * 20, [1] * 20)
    assert game.predict_one(0.33) == 0.95  # up from 0.35, one excess after the other
    assert game.predict_one(0.43) == 0.45


def test_hedging_with_one_expert_bin_is_foster_from_another_start() -> None:
    x = np.full(500, 0.05)
    y = stream(500)[1]
    for shares in ("totals", "means"):
        alone = Foster99(shares=shares, random_state=5).forecast_many(x, y)
        inside = Hedging(Fixed(), shares=shares, random_state=5).forecast_many(x, y)
        assert alone.tolist() == inside.tolist()


def test_two_choices_judges_the_side_of_the_outcome() -> None:
    game = TwoChoices(epsilon=0.5).learn_many([0.5, 0.5], [1, 0])
    assert game.predict_interval(0.5) == (0.25, 0.75)
    assert game.predict_one(0.5) == 0.5  # the middle, of which nothing is promised
    assert [game.judged_one(0.5, y) for y in (0, 0.5, 0.51, 1)] == [0.25, 0.25, 0.75, 0.75]
    with pytest.raises(InputError, match="predict_interval"):
        game.predict_distribution(0.5)


def test_what_is_judged_is_what_is_counted() -> None:
    x, y = stream(400)
    for make in (TwoChoices, lambda: Hedging(Fixed(), rule="two-choices"), lambda: Foster99(random_state=1)):
        game = make()
        judged = game.judged_many(x, y)
        counts = np.array(game.state["numbers"][4:]).reshape(-1, 2, 10)[:, 0].sum(axis=0)
        assert np.bincount((judged * 10).astype(int), minlength=10).tolist() == counts.tolist()
    assert Foster99(random_state=1).judged_many(x, y).tolist() == Foster99(random_state=1).forecast_many(x, y).tolist()


@given(st.lists(st.integers(0, 1), min_size=1, max_size=150), st.sampled_from([2, 3, 5, 10, 32]))
def test_two_choices_keeps_its_bound_on_every_binary_sequence(outcomes: list[int], m: int) -> None:
    judged = TwoChoices(epsilon=1 / m).judged_many([0.5] * len(outcomes), outcomes)
    t = np.arange(1, len(outcomes) + 1)
    beyond = epsilon_error(judged, outcomes, epsilon=0.5 / m).error if len(set(outcomes)) > 1 else None
    if beyond is not None:
        assert (beyond * t <= judged_error(m, 1, 1) + 1e-9).all()
        assert judged_error(m, 1, 1) <= m


@given(st.lists(st.floats(0, 1), min_size=1, max_size=100), st.sampled_from([2, 3, 10]))
def test_two_choices_keeps_its_bound_on_every_bounded_sequence(outcomes: list[float], m: int) -> None:
    judged = TwoChoices(epsilon=1 / m).judged_many([0.5] * len(outcomes), outcomes)
    sums = np.zeros(m)
    for t, (p, y) in enumerate(zip(judged, outcomes, strict=True)):
        sums[int(p * m)] += p - y
        assert np.abs(sums).sum() - (t + 1) * 0.5 / m <= judged_error(m, 1, 1) + 1e-9


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=150))
def test_tracking_keeps_its_promises_on_every_sequence(rows: list[tuple[float, int]]) -> None:
    x, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows], dtype=float)
    n, m = len(rows), 4
    p = Tracking(Fixed(), epsilon=1 / m).forecast_many(x, y)
    sharp, before = sharpness(p, y, m), sharpness(x, y, m)
    assert np.mean((p - y) ** 2) - (y.mean() - before) <= mean_regret(m, n) + 1e-12
    assert before - sharp <= 0.5 / m + mean_regret(m, n) + 1e-12
    assert y.mean() - before <= np.mean((x - y) ** 2) + 0.5 / m + 1e-12  # refinement against the Brier score


def sharpness(p: np.ndarray, y: np.ndarray, m: int) -> float:
    place = np.searchsorted(np.arange(1, m) / m, p, side="right")
    n, events = np.bincount(place, minlength=m), np.bincount(place, weights=y, minlength=m)
    return float((events**2 / np.maximum(n, 1)).sum() / len(y))


def worst_error(m: int, n_rows: int, kind: float) -> float:
    """The mean calibration error that the best of all adversaries reaches, by going through all states backwards."""
    pair, lower_share = game_steps(plain)

    @cache
    def value(counts: tuple[int, ...], sums: tuple[int, ...]) -> float:
        if sum(counts) == n_rows:
            return sum(abs((i + 0.5) / m * counts[i] - sums[i]) for i in range(m))
        state = [0.0, float(m), 0.0, kind, *counts, *sums]
        i, j = pair(state, 4, m, 0)
        share = lower_share(state, 4, m, i, j)
        return max(share * after(counts, sums, i, y) + (1 - share) * after(counts, sums, j, y) for y in (0, 1))

    def after(counts: tuple[int, ...], sums: tuple[int, ...], i: int, y: int) -> float:
        return value(
            tuple(n + (k == i) for k, n in enumerate(counts)), tuple(s + y * (k == i) for k, s in enumerate(sums))
        )

    return value((0,) * m, (0,) * m) / n_rows


@pytest.mark.parametrize(("m", "n_rows"), [(2, 12), (2, 24), (3, 10)])
def test_the_best_of_all_adversaries_stays_within_the_bound(m: int, n_rows: int) -> None:
    totals, means = worst_error(m, n_rows, TOTALS), worst_error(m, n_rows, MEANS)
    assert 0.75 * hedged_error(m, m, n_rows) < totals <= hedged_error(m, m, n_rows)
    assert means <= hedged_error(m, m, n_rows, means=True)
    assert means > totals  # the printed rule is the weaker one: at (2, 24) it is beyond the bound of totals


def test_shares_by_means_break_the_bound_of_totals() -> None:
    assert worst_error(2, 24, MEANS) > 1.08 * hedged_error(2, 2, 24)


def test_foster_ends_at_the_average_of_a_quiet_series() -> None:
    y = (np.random.default_rng(0).random(6_000) < 0.37).astype(float)
    forecasts = Foster99().forecast_many(np.zeros(6_000), y)
    assert (forecasts[2_000:] == 0.35).all()


# ------------------------------------------------------------------------------------------------------ the contract


@pytest.mark.parametrize("name", MAKERS)
def test_the_stream_may_be_cut_anywhere_and_go_on_from_text(name: str) -> None:
    x, y = stream(240)
    whole, parts = MAKERS[name](), MAKERS[name]()
    expected = whole.forecast_many(x, y)
    found = [parts.forecast_many(x[:90], y[:90])]
    # Fixed is not registered, so that a forecaster on it is built anew.
    parts = resume(parts.to_json()) if name != "multi, log" else MAKERS[name]().restore(parts.state)
    found += [[parts.predict_one(s), parts.learn_one(s, t)][0] for s, t in zip(x[90:], y[90:], strict=True)]
    assert np.hstack(found).tolist() == expected.tolist()
    assert parts.to_json() == whole.to_json()


@pytest.mark.parametrize("change", [(1, 5.0), (0, 7.0), (4, 3.0), (5, 0.5), (14, 9.0), (14, -1.0)])
def test_a_state_that_no_stream_gives_is_refused(change: tuple[int, float]) -> None:
    state = Foster99().learn_many([0.5] * 4, [0, 1, 1, 0]).state
    state["numbers"][change[0]] = change[1]
    with pytest.raises(InputError, match="changed by hand"):
        resume(state)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Tracking(Fixed(), epsilon=0.3), "epsilon"),
        (lambda: Foster99(epsilon=1.0), "epsilon"),
        (lambda: Foster99(epsilon=None), "epsilon"),
        (lambda: Foster99(epsilon=-0.1), "epsilon"),
        (lambda: Foster99(epsilon="wide"), "epsilon"),
        (lambda: TwoChoices(epsilon="auto"), "horizon"),
        (lambda: TwoChoices(epsilon=0.1, horizon=100), "horizon"),
        (lambda: Hedging(Fixed(), rule="coin"), "rule"),
        (lambda: Hedging(Fixed(), shares="halves"), "shares"),
        (lambda: Hedging(Fixed(), random_state=-1), "random_state"),
        (lambda: Foster99(random_state=0.5), "random_state"),
        (lambda: Hedging("OPS"), "expert"),
        (lambda: MultiExpert(), "experts"),
        (lambda: MultiExpert(Fixed(), loss="hinge"), "loss"),
        (lambda: Foster99().learn_one(0.5, 0.5), "label"),
        (lambda: TwoChoices().learn_one(0.5, 1.5), "label"),
        (lambda: TwoChoices().predict_interval(1.5), "score"),
    ],
)
def test_mistakes_are_named(make: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------------ certificates


def test_certificates_by_hand() -> None:
    # T = 10,000, m = 10: 0.05 + 0.9 sqrt(10 / 10^4); 0.05 + 0.9 sqrt(100 / 10^4); 0.05 + 7 / 10^4.
    assert Foster99().certificate(10_000).bound == pytest.approx(0.05 + 0.9 * math.sqrt(1e-3))
    assert Hedging(Fixed()).certificate(10_000).bound == pytest.approx(0.14)
    assert TwoChoices().certificate(10_000).bound == pytest.approx(0.0507)
    assert Hedging(Fixed(), rule="two-choices").certificate(10_000).bound == pytest.approx(0.057)
    # Tracking: 10 (1 + ln 1000) / 10^4 in Brier score, half a width more in sharpness.
    sharp, brier = Tracking(Fixed()).certificates(10_000)
    assert brier.bound == pytest.approx(1e-3 * (1 + math.log(1_000)))
    assert sharp.bound == pytest.approx(0.05 + brier.bound)
    # Hedging: 0.05^2 + 0.09 in sharpness, half a width more against the expert's Brier score.
    _, sharp, brier = Hedging(Fixed()).certificates(10_000)
    assert (sharp.bound, brier.bound) == (pytest.approx(0.0925), pytest.approx(0.1425))
    assert all(c.expected for c in Hedging(Fixed()).certificates(10_000))
    assert not TwoChoices().certificate(10_000).expected


def test_certificates_are_within_the_printed_theorems() -> None:
    for m in (2, 5, 10, 20, 50):
        for n in (100, 1_000, 10_000, 10**6, 10**8):
            e = 1 / m
            assert hedged_error(m, m, n) <= e / 2 + 2 / math.sqrt(e * n)  # 6.27
            assert hedged_error(m, m * m, n) <= e / 2 + 2 / (e * math.sqrt(n))  # 6.17
            assert hedged_brier(m, m * m, n, means=True) <= e + (math.log(n) + 1) / (e * e * n)  # 6.26
            assert mean_regret(m, n) <= (math.log(n) + 1) / (e * n)  # 6.24
            assert judged_error(m, 1, n) == pytest.approx(sum(max(i, m - 1 - i) for i in range(m)) / m / n)
            assert judged_error(m, 1, n) <= m / n  # 8.5


def test_too_few_rows_are_refused_a_certificate() -> None:
    for game in (Foster99(), TwoChoices(), Hedging(Fixed()), Tracking(Fixed()), MultiExpert(Fixed())):
        assert not game.certificate()
    assert not Hedging(Fixed()).certificate(50)
    assert Hedging(Fixed()).certificates(50) == ()
    assert Foster99().learn_many([0.5] * 400, [0, 1] * 200).certificate().n_rows == 400


def test_auto_takes_the_width_with_the_least_bound() -> None:
    for make in (Foster99, TwoChoices, lambda **k: Hedging(Fixed(), **k), lambda **k: Tracking(Fixed(), **k)):
        best = make(epsilon="auto", horizon=20_000)
        bound = best.certificate(20_000).bound
        for m in (best.n_bins - 1, best.n_bins + 1):
            assert bound <= make(epsilon=1 / m).certificate(20_000).bound
    # The rates of section 6.3: 256 times the rows make 4 times the bins of hedging, 16 times of two choices.
    wide, fine = (Hedging(Fixed(), epsilon="auto", horizon=n).n_bins for n in (10**5, 256 * 10**5))
    assert fine == pytest.approx(4 * wide, rel=0.1)
    wide, fine = (TwoChoices(epsilon="auto", horizon=n).n_bins for n in (10**3, 256 * 10**3))
    assert fine == pytest.approx(16 * wide, rel=0.1)
    assert (
        resume(Foster99(epsilon="auto", horizon=500).to_json()).n_bins == Foster99(epsilon="auto", horizon=500).n_bins
    )


# ------------------------------------------------------------------------------------------------------ many experts


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=80),
    st.sampled_from(["brier", "log"]),
)
def test_the_aggregate_is_nearly_the_best_expert(rows: list[tuple[float, float, int]], loss: str) -> None:
    # Two experts that say what they are given: the score, and one minus it in a staircase.
    x, y = np.array([r[0] for r in rows]), np.array([r[2] for r in rows], dtype=float)
    experts = (Fixed(), Fixed(StepMap([0.3, 0.6], [0.9, 0.2, 0.0])))
    multi = MultiExpert(*experts, loss=loss)  # type: ignore[arg-type]
    rate = 2.0 if loss == "brier" else 1.0
    best = min(total_loss(e.predict_many(x), y, loss) for e in experts)
    assert total_loss(multi.forecast_many(x, y), y, loss) <= best + math.log(2) / rate + 1e-9
    assert sum(multi.weights) == pytest.approx(1.0)


def total_loss(p: np.ndarray, y: np.ndarray, loss: str) -> float:
    if loss == "brier":
        return float(((p - y) ** 2).sum())
    p = np.clip(p, 2.0**-32, 1 - 2.0**-32)
    return float(-np.log(np.where(y == 1, p, 1 - p)).sum())


def test_one_expert_is_followed_and_features_go_through() -> None:
    x, y = stream(50)
    assert MultiExpert(Fixed()).forecast_many(x, y) == pytest.approx(x, abs=1e-12)
    with pytest.raises(InputError, match="features"):
        MultiExpert(OnlinePlatt()).predict_one(0.5, [1.0])


def test_hedging_round_several_experts_is_calibrated_and_sharp() -> None:
    rng = np.random.default_rng(1)
    x = rng.random(4_000)
    y = (rng.random(4_000) < 1 - x).astype(float)  # the score is wrong way round, and Platt learns that
    p = Hedging(MultiExpert(Fixed(), OnlinePlatt(gamma=0.01, rho=1.0))).forecast_many(x, y)
    after = error_over_time(p, y)
    assert float(after) < 0.07
    assert after.sharpness[-1] > 0.95 * sharpness(1 - x, y, 10)
