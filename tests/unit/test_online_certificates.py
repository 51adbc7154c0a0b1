"""Certificates of online forecasters: every bound by a formula worked out by hand, and how many rows were learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from tests.cases import every

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.online import (
    Aioli,
    CalibratedRegression,
    Forecaster,
    Foster99,
    Hedging,
    Identity,
    MultiExpert,
    OnlinePlatt,
    Restarting,
    Tracking,
    TwoChoices,
)
from calibrant.online.games.bounds import certificates_of

LOG_99 = math.log(99.0)
G = math.sqrt(1.0 + LOG_99 * LOG_99)
"""The norm of (logit s, 1) at s = 0.01."""


def bounds(found: Any) -> list[float]:
    """Of one certificate or of several, none of which is a refusal."""
    several = found if isinstance(found, tuple) else (found,)
    assert all(isinstance(each, OnlineCertificate) for each in several)
    return [each.bound for each in several]


# ------------------------------------------------------------------------------------------------------------- games


def test_a_bound_of_a_game_is_wider_by_what_rounding_may_take() -> None:
    # b (1 + 2^-50) + 2^-51, and 2^-49 a row where chances are drawn: 8 rows give 2^-46.
    def told(bound: float, expected: bool) -> float:
        return certificates_of(0, 8, expected, (("a quantity", bound, "a theorem"),))[0].bound

    assert told(0.0, False) == 2.0**-51
    assert told(0.0, True) == 2.0**-51 + 2.0**-46
    assert told(0.5, False) == 0.5 + 2.0**-51 + 2.0**-51
    assert told(0.5, True) == 0.5 + 2.0**-51 + 2.0**-51 + 2.0**-46


GAMES: dict[str, tuple[Callable[[], Forecaster], int, list[float]]] = {
    # 1/(2m) + (1 - 1/m) sqrt(m/n) at m = 4, n = 64: 1/8 + 3/4 * 1/4. Rounding: 5/16 * 2^-50, 2^-51, and 64 * 2^-49.
    "foster": (
        lambda: Foster99(epsilon=0.25),
        64,
        [0.3125 + 5 * 2.0**-54 + 2.0**-51 + 2.0**-43],
    ),
    # 1/(2m) + sum of max(i, m - 1 - i) / (m n) at m = 2, n = 4: 1/4 + (1 + 1) / 8; sums of outcomes: 4 * 2^-54.
    "two choices": (
        lambda: TwoChoices(epsilon=0.5),
        4,
        [0.5 + 2.0**-52 + 2.0**-51 + 2.0**-51],
    ),
    # The same in each of 2 games, n = 8: 1/4 + 2 * (1 + 1) / 16; outcomes are 0 and 1, and their sums exact.
    "hedging, two choices": (
        lambda: Hedging(Identity(), epsilon=0.5, rule="two-choices"),
        8,
        [0.5 + 2.0**-51 + 2.0**-51],
    ),
    # m = 2, 4 cells, n = 64. Error: 1/4 + 1/2 sqrt(4/64) = 3/8. Sharpness: 1/8 + 1/(4 m^2) = 3/16. Brier: + 1/4 = 7/16.
    "hedging": (
        lambda: Hedging(Identity(), epsilon=0.5),
        64,
        [
            0.375 + 3 * 2.0**-53 + 2.0**-51 + 2.0**-43,
            0.1875 + 3 * 2.0**-54 + 2.0**-51 + 2.0**-43,
            0.4375 + 7 * 2.0**-54 + 2.0**-51 + 2.0**-43,
        ],
    ),
    # A single expert: log(1) / (eta n), 2^-40 for the forecast, and 2^20 * 2^-52 for sums of losses of at most 1.
    "multi, brier": (lambda: MultiExpert(Identity()), 2**20, [2.0**-40 + 2.0**-32]),
}


@every("kind", GAMES)
def test_bounds_of_games_that_are_dyadic_come_out_to_the_last_bit(kind: str) -> None:
    make, n, expected = GAMES[kind]
    assert bounds(make().certificates(n)) == expected
    assert bounds(make().certificate(n)) == expected[:1]


def test_bounds_of_games_that_have_a_logarithm() -> None:
    def close(*expected: float, drawn: int = 0) -> Any:
        return pytest.approx([b * (1 + 2.0**-50) + 2.0**-51 + drawn * 2.0**-49 for b in expected], rel=2.0**-51)

    n = 1_000
    # Shares by means: m (1 + log(n / m)) / n in place of (1 - 1/m)^2 m / n.
    regret = 4 * (1 + math.log(n / 4)) / n
    assert bounds(Foster99(epsilon=0.25, shares="means").certificates(n)) == close(0.125 + math.sqrt(regret), drawn=n)
    # In 4 games 16 cells. The gap is the smaller of the squared error, 0.22, and 1/m + regret, 0.33.
    error = 0.125 + math.sqrt(16 * (1 + math.log(n / 16)) / n)
    hedging = Hedging(Identity(), epsilon=0.25, shares="means")
    assert bounds(hedging.certificates(n)) == close(error, error**2, error**2 + 0.125, drawn=n)
    # Tracking: half a width and the regret of the means; a prior of 1 has (7m/12 + m log(1 + n / (3m/2))) / n.
    regret = 10 * (1 + math.log(n / 10)) / n
    assert bounds(Tracking(Identity(), prior=0).certificates(n)) == close(0.05 + regret, regret)
    regret = (70 / 12 + 10 * math.log(1 + n / 15)) / n
    assert bounds(Tracking(Identity()).certificates(n)) == close(0.05 + regret, regret)


def test_bounds_of_several_experts_pay_for_the_rounding_of_sums() -> None:
    # log(K) / (eta n), the rounding of a forecast, and n * 2^-52 of the largest loss, 1 or 32 log 2, for sums.
    n = 2**30
    brier, log = (MultiExpert(Identity(), OnlinePlatt(), loss=loss).certificate(n) for loss in ("brier", "log"))
    assert bounds(brier) == pytest.approx([math.log(2) / 2 / n + 2.0**-40 + 2.0**-22], rel=1e-9)
    assert bounds(log) == pytest.approx([math.log(2) / n + 2.0**-20 + 32 * math.log(2) * 2.0**-22], rel=1e-9)


# ------------------------------------------------------------------------------------------------------------ regret


def test_bounds_of_online_platt() -> None:
    # gamma = e^(-GB), rho = 1 / (gamma (B + 1))^2: (2 log(1 + n G^2 / (2 rho)) + 1) / (2 gamma) at B = 1.
    gamma = math.exp(-G)
    rho = 1.0 / (2.0 * gamma) ** 2
    platt = OnlinePlatt(radius=1.0, certified=True)
    expected = (2.0 * math.log(1.0 + 1_000 * G * G / (2.0 * rho)) + 1.0) / (2.0 * gamma)
    assert bounds(platt.certificate(1_000)) == pytest.approx([expected], rel=1e-12)
    # At score 1/2 the gradients are (0, p - y), so that det A_T / det A_0 = 1 + sum (p - y)^2 / rho.
    squares = 0.0
    for t in range(300):
        squares += (platt.predict_one(0.5) - t % 2) ** 2
        platt.learn_one(0.5, t % 2)
    expected = (math.log(1.0 + squares / rho) + 1.0) / (2.0 * gamma)
    assert bounds(platt.certificate()) == pytest.approx([expected], rel=1e-12)


def test_bounds_of_aioli() -> None:
    # lambda = 2 (1 + GB) / (B + 1)^2: (1 + GB) (2 + 2 log(1 + n G^2 / (16 lambda (1 + GB)))) at B = 1.
    flatter = 1.0 + G
    ridge = flatter / 2.0
    aioli = Aioli(radius=1.0)
    expected = flatter * (2.0 + 2.0 * math.log(1.0 + 1_000 * G * G / (16.0 * ridge * flatter)))
    assert bounds(aioli.certificate(1_000)) == pytest.approx([expected], rel=1e-12)
    # At score 1/2 a row adds p (1 - p) / (1 + GB) in the second place, which starts at 2 lambda.
    curvature = 0.0
    for t in range(300):
        p = aioli.predict_one(0.5)
        curvature += p * (1.0 - p) / flatter
        aioli.learn_one(0.5, t % 2)
    expected = flatter * (2.0 + math.log(1.0 + curvature / (2.0 * ridge)))
    assert bounds(aioli.certificate()) == pytest.approx([expected], rel=1e-12)


def rounding(n: int) -> float:
    """2^-21 a row, and c n (n + 1) / 2 * 2^-53 for log-weights that fall by c = 32 log 2 a row."""
    return n * 2.0**-21 + 32.0 * math.log(2.0) * n * (n + 1) / 2.0 * 2.0**-53


@every("n", [1_000, 10**9])
def test_bounds_of_restarts(n: int) -> None:
    # log(2 K m (m + 1)), K = 8 levels, m = n // 128 copies of level 0.
    m = n // 128
    expected = math.log(16.0 * m * (m + 1)) + rounding(n)
    assert bounds(Restarting(Identity()).certificate(n)) == pytest.approx([expected], rel=1e-12)


@every("n", [1_000, 10**9])
def test_bounds_of_restarts_on_a_stretch(n: int) -> None:
    aioli = Aioli(radius=1.0)
    # From the first row on the copy without end, at the price log 2.
    expected = math.log(2.0) + bounds(aioli.certificate(n))[0] + rounding(n)
    found = Restarting(aioli, levels=30).interval_certificate(0, n)
    assert bounds(found) == pytest.approx([expected], rel=1e-12)


def test_bounds_of_restarts_on_a_period_in_several_lives() -> None:
    # From 3 * 128 rows on to 2,048: the first 128 of copy 3 of level 0, then 512 at level 2 from copy 1 on, of which
    # the life ends at 1,536: its first half, and from 1,024 on the whole of copy 1 of level 3. K = 8 levels.
    aioli = Aioli(radius=1.0)
    expected = 0.0
    for copy, rows in ((3, 128), (1, 512), (1, 1_024)):
        expected += math.log(16.0 * copy * (copy + 1)) + aioli.regret(rows) + rounding(rows)
    assert bounds(Restarting(aioli).interval_certificate(384, 2_048)) == pytest.approx([expected], rel=1e-12)


# -------------------------------------------------------------------------------------------------------- regression


def test_bounds_of_calibrated_regression() -> None:
    # sqrt((g + 1) (c + k log(n + 1) + clamp^2 n)); 2 features, constant, score and forecast are k = 5; c = 2.
    n, g = 10_000, 4_000
    spend = 2.0 + 5.0 * math.log(n + 1.0)
    regression = CalibratedRegression(2)
    assert bounds(regression.certificate(n)) == pytest.approx([math.sqrt((n + 1) * spend)], rel=1e-12)
    assert bounds(regression.certificate(n, g)) == pytest.approx([math.sqrt((g + 1) * spend)], rel=1e-12)
    held = CalibratedRegression(2, clamp=0.01)
    assert bounds(held.certificate(n, g)) == pytest.approx([math.sqrt((g + 1) * (spend + 1e-4 * n))], rel=1e-12)
    # Without the score k = 4 and c = 1. Of 4 functions, asked for on 2 features too: k = 2 + 8 + 4 + 2, and 1 more.
    bare = CalibratedRegression(2, include_score=False)
    spend = 1.0 + 4.0 * math.log(n + 1.0)
    assert bounds(bare.certificate(n)) == pytest.approx([math.sqrt((n + 1) * spend)], rel=1e-12)
    inside = CalibratedRegression(2, test_functions="polynomials", size=4, each_feature=True)
    spend = 2.0 + 16.0 * math.log(n + 1.0)
    assert bounds(inside.certificate(n)) == pytest.approx([1.0 + math.sqrt((n + 1) * spend)], rel=1e-12)
    # Functions of one's own may miss the fixed point by 1e-6, which costs 2e-6 a row.
    own = CalibratedRegression(1, test_functions=lambda p, s, x: [p * p], size=1)
    spend = 2.0 + 5.0 * math.log(n + 1.0) + 2e-6 * n
    assert bounds(own.certificate(n)) == pytest.approx([1.0 + math.sqrt((n + 1) * spend)], rel=1e-12)


# ----------------------------------------------------------------------------------------------------------- learned

KINDS: dict[str, Callable[[], Forecaster]] = {
    "foster": Foster99,
    "foster by means": lambda: Foster99(shares="means"),
    "two choices": TwoChoices,
    "tracking": lambda: Tracking(Identity()),
    "hedging": lambda: Hedging(Identity()),
    "hedging, two choices": lambda: Hedging(Identity(), rule="two-choices"),
    "multi": lambda: MultiExpert(Identity(), OnlinePlatt()),
    "platt": lambda: OnlinePlatt(radius=1.0, certified=True),
    "aioli": lambda: Aioli(radius=1.0),
    "restarts": lambda: Restarting(Identity()),
    "regression": CalibratedRegression,
}


def told_of(promise: Any) -> tuple[int, int, str]:
    assert isinstance(promise, OnlineCertificate)
    return promise.n_rows, promise.learned, str(promise).partition(" rows")[2]


@every("kind", KINDS)
def test_a_certificate_says_how_many_of_its_rows_are_learned(kind: str) -> None:
    forecaster = KINDS[kind]().learn_many([0.2, 0.8] * 6, [0, 1] * 6)
    for promise in (forecaster.certificate(5_000), *forecaster.certificates(5_000)):
        rows, learned, words = told_of(promise)
        assert (rows, learned) == (5_000, 12)
        assert words.startswith(" (12 already learned), ")
    assert told_of(KINDS[kind]().certificate(5_000))[1] == 0
    forecaster.learn_many([0.2, 0.8] * 994, [0, 1] * 994)
    for promise in (forecaster.certificate(), *forecaster.certificates()):
        rows, learned, words = told_of(promise)
        assert (rows, learned) == (2_000, 2_000)
        assert "already learned" not in words


def test_a_certificate_on_a_group_or_a_period_says_how_many_of_its_rows_are_learned() -> None:
    regression = CalibratedRegression(1).learn_many([0.5] * 4, [0, 1] * 2, [[1], [0]] * 2)
    rows, learned, words = told_of(regression.certificate(5_000, 2_000))
    assert (rows, learned) == (5_000, 4)
    assert words.startswith(" (4 already learned), ")

    restarts = Restarting(Aioli(radius=1.0)).learn_many([0.2, 0.8] * 1_000, [0, 1] * 1_000)
    for first, last, learned in ((0, 1_000, 1_000), (128, 2_000, 2_000), (1_024, 5_000, 2_000)):
        found = told_of(restarts.interval_certificate(first, last))
        assert found[:2] == (last, learned)
        assert ("(2,000 already learned)" in found[2]) == (learned < last)


# ---------------------------------------------------------------------------------------------------------- refusals


@every("make", [Foster99, lambda: Hedging(Identity()), lambda: MultiExpert(Identity(), OnlinePlatt(), loss="log")])
def test_a_bound_that_rounding_has_emptied_asks_for_fewer_rows_and_one_of_few_rows_for_more(
    make: Callable[[], Forecaster],
) -> None:
    few, fine, many = (make().certificate(n) for n in (1, 10**6, 2**50))
    assert isinstance(fine, OnlineCertificate)
    assert "is vacuous for this few rows: pass a larger n_rows" in str(few)
    assert "is vacuous for this many rows, since rounding errors add up: pass a smaller n_rows" in str(many)


def test_a_period_that_rounding_has_emptied_is_called_too_long_and_a_short_one_too_short() -> None:
    restarts = Restarting(Aioli(radius=1.0))
    assert "pass a larger n_rows" in str(restarts.interval_certificate(0, 20))
    assert isinstance(restarts.interval_certificate(0, 10**6), OnlineCertificate)
    told = str(restarts.interval_certificate(0, 2**50))
    assert "for this long a period, since rounding errors add up: pass a shorter one" in told


@every("options", [{}, {"clamp": 0.05}, {"include_score": False}, {"each_feature": True}])
def test_the_refusal_of_a_small_group_names_a_size_that_is_enough(options: dict[str, Any]) -> None:
    regression = CalibratedRegression(2, **options)
    for n in (200, 10**6):
        told = str(regression.certificate(n, group_rows=5))
        enough = int(told.partition("pass a group_rows of ")[2].partition(" ")[0].replace(",", ""))
        assert isinstance(regression.certificate(n, group_rows=enough), OnlineCertificate)
        assert isinstance(regression.certificate(n, group_rows=enough - 2), NoCertificate)  # hardly more than is needed
    told = str(regression.certificate(10, group_rows=5))
    assert "pass a larger n_rows and group_rows, since no group within 10 rows is large enough" in told
    assert "is vacuous for 10 rows: pass a larger n_rows" in str(regression.certificate(10))


@every("radius", [1.0, 1.2345678, 1.4999999])
def test_the_ball_is_printed_with_all_digits(radius: float) -> None:
    """With six, 1.4999999 would read as 1.5, a larger ball than the bound is for."""
    for forecaster in (Aioli(radius=radius), OnlinePlatt(radius=radius, certified=True)):
        told = str(forecaster.certificate(10**6))
        assert float(told.partition("a^2 + b^2 <= ")[2].partition("^2,")[0]) == radius
    assert "scores clipped to [0.01, 0.99]" in told
