"""Squared kernel calibration error against its definition over all pairs."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.messages import InputError
from calibrant.metrics.binary.kernel import skce
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def over_pairs(s: np.ndarray, y: np.ndarray, h: float, w: np.ndarray | None = None) -> float:
    w = np.ones(len(s)) if w is None else w
    products = np.exp(-np.abs(s[:, None] - s) / h) * np.outer(w * (y - s), w * (y - s))
    np.fill_diagonal(products, 0.0)
    return float(products.sum() / (w.sum() ** 2 - (w**2).sum()))


def rows(n: int = 300, power: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    s = rng.random(n)
    s[: n // 4] = np.round(s[: n // 4], 1)  # ties, and 0 and 1 among them
    return s, (rng.random(n) < s**power).astype(int)


def test_two_rows_by_hand():
    # r = 0.8 and -0.7, half a bandwidth of 0.2 apart twice over: 0.8 * -0.7 * exp(-0.5 / 0.2).
    assert skce([0.2, 0.7], [1, 0], bandwidth=0.2).value == pytest.approx(-0.56 * math.exp(-2.5))
    # Tied rows: r = 0.5, 0.5, -0.5; of the three pairs one is 0.25 and two are -0.25.
    assert skce([0.5] * 3, [1, 1, 0]).value == pytest.approx(-0.25 / 3)


def test_one_row_makes_no_pair():
    for result in (skce([0.3], [1]), skce([0.3], [1], [0.7]), skce([0.3, 0.4], [1, 0], [1, 0])):
        assert math.isnan(result.value)
        (note,) = result.notes
        assert (note.code, str(note)) == ("no-pair-of-rows", "not defined: at least two rows are needed")


def test_it_is_the_sum_over_pairs(subtests):
    for bandwidth in [0.005, 0.03, 0.1, 5.0]:
        with subtests.test(bandwidth=bandwidth):
            s, y = rows()
            assert skce(s, y, bandwidth=bandwidth).value == pytest.approx(over_pairs(s, y, bandwidth), rel=1e-11)


def test_importance_weights_enter_the_sum(subtests):
    for scale in [1e-30, 1.0, 1e30]:
        with subtests.test(scale=scale):
            s, y = rows()
            rng = np.random.default_rng(0)
            s, w = rng.random(len(s)), rng.random(len(s))  # no ties: there labels share squared weights evenly
            assert skce(s, y, w * scale).value == pytest.approx(over_pairs(s, y, 0.1, w), rel=1e-9)


def test_importance_weights_bring_no_null_mark_and_a_note():
    s, y = rows()
    real, whole = (skce(s, y, np.resize(w, len(s))) for w in ([0.5, 1.5], [1.0, 4.0]))
    assert (real.null, real.null_high) == (0.0, None)
    assert (whole.null, whole.null_high) == (None, None), "the value takes whole weights for repetition"
    assert real.notes == whole.notes
    assert [note.code for note in real.notes] == ["no-null-quantile-under-importance-weights"]
    assert "the 95 % quantile of a calibrated model is not known for importance weights" in str(real)
    counted = skce(Tally.from_arrays(s, y, np.resize([1, 4], len(s)), weight_type="frequency"))
    assert counted.value == whole.value
    assert counted.null_high > 0.0
    assert counted.notes == ()


def test_the_null_mark_is_never_below_0(subtests):
    for n in [2, 3, 10]:
        with subtests.test(n=n):
            s = np.append(np.full(n - 1, 1e-4), 0.5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert skce(s, np.zeros(n)).null_high >= 0.0


def test_a_bad_bandwidth_is_refused(subtests):
    for bandwidth in [0.0, 0.004, float("nan"), float("inf"), "a", None]:
        with subtests.test(bandwidth=bandwidth), pytest.raises(InputError, match="bandwidth"):
            skce([0.5, 0.6], [1, 0], bandwidth=bandwidth)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=20))
def test_whole_weights_are_repetition(data):
    s, y, w = (np.array(column) for column in zip(*data, strict=True))
    assume(w.sum() >= 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = skce(s / 8, y, w).value
    assert weighted == pytest.approx(over_pairs(np.repeat(s / 8, w), np.repeat(y, w), 0.1), abs=1e-13)


def test_the_narrowest_bandwidth_over_the_whole_range_neither_overflows_nor_loses():
    s = np.linspace(0, 1, 2001)
    y = (np.arange(2001) % 3 == 0).astype(int)
    result = skce(s, y, bandwidth=0.005)
    assert result.value == pytest.approx(over_pairs(s, y, 0.005), rel=1e-10)
    assert math.isfinite(result.null_high)


@pytest.mark.parametrize("n", [60, 500])
def test_a_calibrated_model_shows_0_and_seldom_more_than_the_null_says(n):
    rng = np.random.default_rng([3, n])
    s = rng.random(n)
    found = [skce(s, rng.random(n) < s) for _ in range(1000)]
    values = np.array([result.value for result in found])
    assert abs(values.mean()) < 4 * values.std() / math.sqrt(1000)
    high = found[0].null_high
    assert {result.null_high for result in found} == {high}, "it depends on the scores alone"
    assert 0.03 < np.mean(values > high) < 0.075


def test_the_standard_error_is_that_of_a_miscalibrated_model():
    rng = np.random.default_rng(4)
    found = []
    for _ in range(400):
        s = rng.random(800)
        found.append(skce(s, rng.random(800) < s**1.8))
    spread = np.std([result.value for result in found])
    assert np.mean([result.se for result in found]) == pytest.approx(spread, rel=0.12)


def test_grid_table_and_certain_scores():
    s, y = rows(2000)
    assert skce(Tally.from_arrays(s, y, grid=Grid())).value == pytest.approx(skce(s, y).value, rel=1e-3)
    table = Tally.from_table([2, 1], [2, 0], edges=[0.5], scores=[0.25, 0.75])
    both = over_pairs(np.array([0.25, 0.25, 0.75]), np.array([1, 1, 0]), 0.1)
    assert skce(table).value == pytest.approx(both)
    sure = skce([0.0, 1.0, 1.0], [0, 1, 1])
    assert (sure.value, sure.se, sure.null_high) == (0.0, 0.0, 0.0)


def test_groups_of_dependent_rows_have_an_interval() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores = rng.random(200)
        y = (rng.random(200) < scores).astype(int)
        found = metrics.interval("skce", scores, y, groups=np.arange(200) // 8, repetitions=50)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
        assert found.low == min(found.value, 0.0)  # of a calibrated model
