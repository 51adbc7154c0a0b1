"""The rate of a large set from a small labeled slice."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant import CalibrantWarning, InputError, Tally
from calibrant.engine import Grid
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.shift import estimate_rate

RNG = np.random.default_rng(21)
FAR = RNG.beta(0.5, 1.5, 10_000)
NEAR = RNG.beta(0.5, 1.5, 400)
Y = (RNG.random(400) < NEAR).astype(int)


def test_it_is_the_formula() -> None:
    n, m = len(NEAR), len(FAR)
    pooled = (n * NEAR.var() + m * FAR.var()) / (n + m)
    power = np.cov(Y, NEAR, bias=True)[0, 1] / ((1 + n / m) * pooled)
    rate = Y.mean() + power * (FAR.mean() - NEAR.mean())
    variance = ((Y - power * NEAR).var() * n / (n - 2)) / n + power**2 * FAR.var() / m
    variance += stats.norm.ppf(0.975) ** 2 / 2 / n**2  # mistakes of the scores that need not be among the labels
    found = estimate_rate(FAR, NEAR, Y)
    assert found.power == pytest.approx(power, rel=1e-10)
    assert found.rate == float(found) == pytest.approx(rate, rel=1e-10)
    assert found.se == pytest.approx(math.sqrt(variance), rel=1e-10)
    assert found.worth == pytest.approx(rate * (1 - rate) / variance, rel=1e-9)
    assert found.method == "prediction-powered"
    assert found.low < found.rate < found.high


def test_good_scores_are_worth_labels_and_noise_is_worth_none() -> None:
    assert estimate_rate(FAR, NEAR, Y).worth > 450
    noise = np.random.default_rng(0)
    found = estimate_rate(noise.random(10_000), noise.random(400), Y)
    assert abs(found.power) < 0.3
    assert found.worth == pytest.approx(400, rel=0.05)
    assert found.rate == pytest.approx(Y.mean(), abs=0.01)


def test_equal_scores_give_the_labels_their_own_rate_and_interval() -> None:
    found = estimate_rate([0.3] * 1_000, [0.3] * 400, Y)
    low, high = clopper_pearson(Y.sum(), 400, 0.05)
    assert found.power == 0.0
    assert found.rate == pytest.approx(Y.mean())
    assert (found.low, found.high) == pytest.approx((float(low), float(high)), abs=1e-3)


def test_scores_off_by_a_factor_do_not_bias() -> None:
    assert estimate_rate(FAR / 10, NEAR / 10, Y).rate == pytest.approx(estimate_rate(FAR, NEAR, Y).rate, abs=1e-12)


def test_few_labels_fall_back_to_the_exact_interval_and_say_so(subtests) -> None:
    for y in [[1], [0, 1], [1, 0, 0, 0, 1]]:
        with subtests.test(y=y):
            n = len(y)
            if n == 1:
                with pytest.warns(CalibrantWarning, match="one class"):
                    found = estimate_rate(FAR, NEAR[:n], y)
            else:
                found = estimate_rate(FAR, NEAR[:n], y)
            assert found.method == "clopper-pearson"
            assert (found.low, found.high) == tuple(float(end) for end in clopper_pearson(sum(y), n, 0.05))
            assert found.rate == sum(y) / n
            assert f"from {n} labels alone" in str(found)
            assert [note.code for note in found.notes] == ["few-labels"]
            assert "Fewer than 20 labeled events or 20 labeled non-events: the scores are not used" in str(found)


def test_labels_of_one_class_have_an_interval_too() -> None:
    with pytest.warns(CalibrantWarning, match="one class"):
        found = estimate_rate(FAR, NEAR, np.zeros(400, dtype=int))
    assert found.rate == found.low == 0.0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 400))


def test_scores_of_0_and_1_are_scores() -> None:
    far, near = np.round(FAR), np.round(NEAR)
    found = estimate_rate(far, near, Y)
    assert found.method == "prediction-powered"
    assert 0.0 < found.low < found.high < 1.0


def test_order_merging_grids_and_weights() -> None:
    plain = estimate_rate(FAR, NEAR, Y)
    assert estimate_rate(FAR[::-1], NEAR[::-1], Y[::-1]) == plain
    halves = Tally.from_arrays(NEAR[:99], Y[:99]) + Tally.from_arrays(NEAR[99:], Y[99:])
    assert estimate_rate(FAR, halves) == plain
    grid = estimate_rate(FAR, Tally.from_arrays(NEAR, Y, grid=Grid()))
    assert grid.rate == pytest.approx(plain.rate, rel=1e-6)
    same = estimate_rate(FAR, NEAR, Y, labeled_weight=np.full(400, 1e-90), sample_weight=np.full(10_000, 1e90))
    assert (same.rate, same.low, same.high) == pytest.approx((plain.rate, plain.low, plain.high), rel=1e-9)
    zero = estimate_rate(
        np.append(FAR, 0.99),
        np.append(NEAR, 0.5),
        np.append(Y, 1),
        labeled_weight=np.append(np.ones(400), 0),
        sample_weight=np.append(np.ones(10_000), 0),
    )
    assert zero.rate == pytest.approx(plain.rate, rel=1e-12)
    # integer weights are repeated rows for the estimate; the interval is that of the effective size
    weights = np.arange(400) % 3 + 1
    repeated = estimate_rate(np.repeat(FAR, 2), np.repeat(NEAR, weights), np.repeat(Y, weights))
    weighted = estimate_rate(FAR, NEAR, Y, labeled_weight=weights, sample_weight=np.full(10_000, 2))
    assert weighted.labels == repeated.labels
    assert weighted.rate == pytest.approx(repeated.rate, abs=2e-3)
    assert weighted.se > repeated.se


def test_few_weighted_labels_say_that_the_interval_is_approximate() -> None:
    found = estimate_rate(FAR, NEAR[:30], Y[:30], labeled_weight=np.linspace(1, 2, 30))
    assert found.method == "clopper-pearson"
    assert [note.code for note in found.notes] == ["few-labels", "approximate-interval"]
    assert "Weights enter through the effective sample size, so the interval is approximate." in str(found)


def test_a_table_serves_as_the_large_set() -> None:
    table = Tally.from_table([7_000, 3_000], [0, 0], edges=[0.4], scores=[0.1, 0.6])
    found = estimate_rate(table, NEAR, Y)
    assert found.unlabeled == 10_000
    json.dumps(found.to_dict(), allow_nan=False)


@given(st.floats(0.001, 0.5))
def test_a_wider_level_holds_a_narrower_one(alpha: float) -> None:
    wide, narrow = estimate_rate(FAR, NEAR, Y, alpha=alpha), estimate_rate(FAR, NEAR, Y, alpha=min(alpha * 1.5, 0.9))
    assert wide.low <= narrow.low < narrow.high <= wide.high


def test_wrong_input_is_refused() -> None:
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="alpha"):
            estimate_rate(FAR, NEAR, Y, alpha=alpha)
    with pytest.raises(InputError, match="y is missing"):
        estimate_rate(FAR, NEAR)
    with pytest.raises(InputError, match="empty"):
        estimate_rate([], NEAR, Y)


def test_labels_in_the_wrong_place_are_told_the_order() -> None:
    with pytest.raises(InputError, match=r"pass labels last: estimate_rate\(scores, labeled, y\)"):
        estimate_rate(NEAR, Y, FAR)
