"""Calibration errors by bins: hand-worked numbers, edges, laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import worlds

from calibrant.maps import StepMap
from calibrant.messages import InputError
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.errors import debiased_ece, ece, pde, sweep_ece, weak_error
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")

Metric = Callable[..., Estimate]


def weak(*data: Any, **options: Any) -> Estimate:
    return weak_error(*data, function=lambda s: s, **options)


METRICS: list[Metric] = [ece, debiased_ece, sweep_ece, pde, weak]
row_lists = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores, y, times = np.array(rows).T
    return scores / 20, y, times


def two_values() -> Tally:
    """002 Example 4.1 as 1,000 rows: nine in ten score 0.2 with rate 0.3, the others 0.8 with rate 0.6."""
    return Tally.from_table([900, 100], [270, 60], edges=[0.5], scores=[0.2, 0.8])


def numbers(found: Estimate) -> dict[str, float]:
    return {key: value for key, value in found.to_dict().items() if isinstance(value, float)}


# ----------------------------------------------------------------------------------------------------------------------
# ece
# ----------------------------------------------------------------------------------------------------------------------


def test_the_example_of_the_thesis_comes_out(subtests) -> None:
    """0.9 * 0.1 + 0.1 * 0.2 = 0.11; the root of 0.9 * 0.01 + 0.1 * 0.04 = 0.013 is 0.1140; the largest is 0.2."""
    for options in [{"strategy": "distinct"}, {"n_bins": 15}, {"edges": [0.5]}, {"strategy": "auto"}]:
        with subtests.test(options=options):
            tally = two_values()
            assert ece(tally, **options).value == pytest.approx(0.11, abs=1e-12)
            assert ece(tally, p=2, **options).value == pytest.approx(0.013**0.5, abs=1e-12)
            assert ece(tally, p=np.inf, **options).value == pytest.approx(0.2, abs=1e-12)
            assert ece(tally, p=3, **options).value == pytest.approx((0.9 * 0.001 + 0.1 * 0.008) ** (1 / 3), abs=1e-12)


def test_a_very_high_order_comes_near_the_largest_error() -> None:
    tally = two_values()
    assert ece(tally, p=5_000).value == pytest.approx(0.2, rel=1e-3)
    small = Tally.from_table([1000], [0], edges=[], scores=[1e-3])
    assert ece(small, p=1_000).value == pytest.approx(1e-3, rel=1e-9), "0.001 to the power 1,000 is 0 in doubles"


@given(row_lists, st.sampled_from([(1, 2), (1, 7.5), (2, np.inf)]))
def test_the_error_grows_with_its_order(rows: list[tuple[int, int, int]], orders: tuple[float, float]) -> None:
    scores, y, _ = columns(rows)
    low, high = (ece(scores, y, p=p).value for p in orders)
    assert low <= high + 1e-12


def test_midpoints_stand_for_the_mean_score_on_request() -> None:
    """Rates 1/2 and 1 in two bins: |1/2 - 1/4| / 2 + |1 - 3/4| / 2 = 1/4; by mean scores 0.3 / 2 + 0.1 / 2."""
    scores, y = [0.1, 0.3, 0.9, 0.9], [0, 1, 1, 1]
    assert ece(scores, y, n_bins=2, against="midpoint").value == pytest.approx(0.25)
    assert ece(scores, y, n_bins=2).value == pytest.approx(0.5 * 0.3 + 0.5 * 0.1)


def test_midpoints_of_distinct_scores_are_refused() -> None:
    for strategy in ("distinct", "auto"):
        with pytest.raises(InputError, match=r"midpoint.*needs bins"):
            ece(two_values(), strategy=strategy, against="midpoint")


@pytest.mark.parametrize("against", ["mean", "midpoint"])
def test_empty_bins_add_nothing(against: str) -> None:
    """All rows in one of 15 bins. Where empty bins count as observations (netcal), the others would show an error."""
    scores, y = [0.5, 0.5], [0, 1]
    for p in (1, 2, np.inf):
        assert ece(scores, y, p=p, against=against).value == pytest.approx(0.0, abs=1e-15)
    assert ece(scores, y, n_bins=15).null == pytest.approx(ece(scores, y, n_bins=1).null, abs=0.05)
    skewed = [0.05, 0.05], [0, 1]
    assert ece(*skewed, p=np.inf, n_bins=10).value == pytest.approx(0.45)
    assert ece(*skewed, n_bins=10).value == ece(*skewed, edges=[0.1]).value


def test_a_step_map_gives_its_own_bins() -> None:
    scores, y = worlds.proportional(500)
    map_ = StepMap([0.3, 0.6], [0.2, 0.4, 0.7])
    assert ece(scores, y, edges=map_).value == ece(scores, y, edges=[0.3, 0.6]).value
    assert "3 bins of given edges" in ece(scores, y, edges=map_).name


def test_distinct_scores_with_few_rows_are_remarked() -> None:
    few, many = np.repeat([0.2, 0.8], [49, 50]), np.repeat([0.2, 0.8], [50, 50])
    y = np.arange(100) % 2
    (note,) = ece(few, y[:99], strategy="distinct").notes
    assert (note.code, note.values) == ("few-rows-per-score", {"few": 1, "scores": 2, "enough": 50})
    assert str(note) == (
        "1 of 2 distinct scores have fewer than 50 rows each: binning is advised (Gupta 2023, section 1.4.1)."
    )
    assert ece(many, y, strategy="distinct").notes == ()
    assert ece(few, y[:99], edges=[0.5], strategy="distinct").notes == (), "edges set the strategy aside"


def test_many_bins_have_no_standard_error_and_say_so() -> None:
    scores, y = worlds.proportional(1_000)
    found = ece(scores, y, n_bins=201)
    assert (found.se, found.null, found.null_high) == (None, None, None)
    (note,) = found.notes
    assert note.code == "too-many-bins-for-uncertainty"
    assert str(note) == "No standard error or null value: they are computed for at most 200 bins."
    assert ece(scores, y, n_bins=200).se is not None


def test_a_constant_score_at_the_base_rate_has_no_error() -> None:
    assert ece([0.25] * 8, [1, 0, 0, 0] * 2).value == 0.0


@given(row_lists, st.integers(1, 8), st.sampled_from([1, 2, np.inf]))
def test_binning_never_raises_the_error(rows: list[tuple[int, int, int]], n_bins: int, p: float) -> None:
    """004 and 003 Theorem 9: the error of the binned score is at most that of the score."""
    scores, y, _ = columns(rows)
    whole = ece(scores, y, p=p, strategy="distinct").value
    for strategy in ("width", "mass"):
        assert ece(scores, y, p=p, n_bins=n_bins, strategy=strategy).value <= whole + 1e-12


# ----------------------------------------------------------------------------------------------------------------------
# debiased_ece
# ----------------------------------------------------------------------------------------------------------------------


def test_the_debiased_square_by_hand() -> None:
    """Bin 1: (0.2 - 0.5)^2 - 0.25 / 3 = 0.00667 for 4 rows; bin 2: (0.9 - 1)^2 - 0 = 0.01 for 2 rows."""
    scores, y = [0.2] * 4 + [0.9] * 2, [0, 1, 0, 1, 1, 1]
    square = (4 * (0.09 - 0.25 / 3) + 2 * 0.01) / 6
    assert debiased_ece(scores, y, edges=[0.5], squared=True).value == pytest.approx(square, abs=1e-12)
    assert debiased_ece(scores, y, edges=[0.5]).value == pytest.approx(square**0.5, abs=1e-12)


def test_a_negative_square_has_root_zero_and_a_note() -> None:
    scores, y = [0.5] * 4, [0, 1, 0, 1]  # 0 - 0.25 / 3
    found = debiased_ece(scores, y)
    assert (found.value, found.se) == (0.0, None)
    (note,) = found.notes
    assert note.code == "negative-square"
    assert note.values["square"] == pytest.approx(-0.25 / 3)
    assert str(note) == "The estimate of the squared error is negative (-0.083) by chance: shown as 0."
    square = debiased_ece(scores, y, squared=True)
    assert square.value == pytest.approx(-0.25 / 3)
    assert square.notes == ()
    assert square.low <= square.value < square.high
    assert (found.low, found.high) == pytest.approx((0.0, square.high**0.5))


def test_bins_of_one_row_are_left_out_and_counted() -> None:
    """The last row stands alone; what is left is as if it were not there."""
    found = debiased_ece([0.2] * 4 + [0.9], [0, 1, 0, 1, 0], edges=[0.5], squared=True)
    assert found.value == pytest.approx(0.09 - 0.25 / 3, abs=1e-12)
    (note,) = found.notes
    assert note.code == "single-rows-left-out"
    assert note.values["share"] == pytest.approx(0.2)
    assert str(note) == "Bins with a single row are left out: 20.00% of the rows."


@pytest.mark.parametrize("squared", [True, False])
def test_without_a_bin_of_two_rows_it_is_not_defined(squared: bool) -> None:
    found = debiased_ece([0.2, 0.9], [0, 1], edges=[0.5], squared=squared)
    assert np.isnan(found.value)
    assert found.to_dict()["value"] is None
    (note,) = found.notes
    assert (note.code, str(note)) == ("no-two-rows", "Not defined: every bin has fewer than two rows.")
    assert found.to_dict()["notes"] == [{"code": "no-two-rows", "text": str(note)}]


def test_importance_weights_correct_by_the_effective_size() -> None:
    """Weights 0.5, 1.5: effective size 4 / 2.5 = 1.6, rate 1.5 / 2; the correction is 0.1875 / 0.6."""
    found = debiased_ece([0.5, 0.5], [0, 1], [0.5, 1.5], squared=True)
    assert found.value == pytest.approx(0.0625 - 0.1875 / 0.6)


@pytest.mark.parametrize("squared", [False, True])
def test_importance_weights_bring_no_null_value_and_a_note(squared: bool) -> None:
    scores, y = worlds.proportional(400)
    for weights in (np.full(400, 4.0), np.resize([0.5, 1.5], 400)):
        found = debiased_ece(scores, y, weights, squared=squared)
        assert (found.null, found.null_high) == (None, None)
        assert "no-null-under-importance-weights" in [note.code for note in found.notes]
        assert "with importance weights: build the tally with weight_type='frequency' if weights are" in str(found)
    counted = debiased_ece(Tally.from_arrays(scores, y, np.full(400, 4), weight_type="frequency"), squared=squared)
    assert counted.value == debiased_ece(scores, y, np.full(400, 4.0), squared=squared).value
    assert counted.null is not None
    assert "no-null-under-importance-weights" not in [note.code for note in counted.notes]


def test_a_bin_of_one_class_does_not_look_certain() -> None:
    found = debiased_ece([0.01] * 50, [0] * 50, squared=True)
    assert found.value == pytest.approx(0.0001)
    assert found.high > 0.0001
    assert found.low < 0.0


# ----------------------------------------------------------------------------------------------------------------------
# sweep_ece
# ----------------------------------------------------------------------------------------------------------------------


def test_the_sweep_stops_at_the_first_decrease() -> None:
    """Labels by rank 0 0 1 0 1 1 1 1. B = 2: 1/4, 1. B = 3 (3, 3, 2 rows): 1/3, 2/3, 1. B = 4: 0, 1/2, 1, 1.

    B = 5 (2, 2, 1, 2, 1 rows): 0, 1/2, 1, 1, 1. B = 6 (2, 1, 1, ...): 0, 1, 0 decreases. So 5 bins.
    """
    scores, y = np.arange(1, 9) / 10, [0, 0, 1, 0, 1, 1, 1, 1]
    found = sweep_ece(scores, y)
    assert found.name == "ECE, 5 bins of equal mass by sweep"
    assert found.value == pytest.approx(ece(scores, y, strategy="mass", n_bins=5).value, abs=1e-15)
    assert found.null is None


def brute_sweep(scores: np.ndarray, y: np.ndarray) -> float:
    """One B after the other through the public bins."""
    best = ece(scores, y, strategy="mass", n_bins=1).value
    for count in range(2, len(np.unique(scores)) + 1):
        bins = Bins.of(scores, y, strategy="mass", n_bins=count)
        if (np.diff(bins.rate) < 0).any():
            return best
        best = ece(scores, y, strategy="mass", n_bins=count).value
    return best


@given(row_lists)
def test_the_sweep_equals_trying_every_number_of_bins(rows: list[tuple[int, int, int]]) -> None:
    scores, y, _ = columns(rows)
    assert sweep_ece(scores, y).value == pytest.approx(brute_sweep(scores, y), abs=1e-12)


def test_the_sweep_says_when_it_was_stopped() -> None:
    scores = np.arange(100) / 100
    found = sweep_ece(scores, scores >= 0.5, max_bins=30)
    assert "30 bins" in found.name
    (note,) = found.notes
    assert note.code == "sweep-ended"
    assert str(note) == "The sweep ended at max_bins = 30 while rates were still monotone."
    whole = sweep_ece(scores, scores >= 0.5)
    assert "100 bins" in whole.name
    assert whole.notes == ()


# ----------------------------------------------------------------------------------------------------------------------
# pde
# ----------------------------------------------------------------------------------------------------------------------


def test_scores_that_cancel_in_a_bin_show_in_the_deviation() -> None:
    """003 Example 1: (|0.35 - 0.5| + |0.65 - 0.5|) / 2 = 0.15 where the ECE is 0."""
    scores, y = [0.35] * 4 + [0.65] * 4, [0, 1] * 4
    assert pde(scores, y, n_bins=1).value == pytest.approx(0.15, abs=1e-12)
    assert ece(scores, y, n_bins=1).value == pytest.approx(0.0, abs=1e-12)


@given(row_lists, st.sampled_from(["width", "mass", "distinct"]), st.sampled_from([1, 2, np.inf]))
def test_the_deviation_equals_its_definition(rows: list[tuple[int, int, int]], strategy: str, p: float) -> None:
    scores, y, _ = columns(rows)
    bins = Bins.of(scores, y, n_bins=4, strategy=strategy)
    index = np.searchsorted(bins.edges, scores, side="right")
    deviation = [np.abs(scores[index == b] - y[index == b].mean()).mean() for b in np.unique(index)]
    share = [(index == b).mean() for b in np.unique(index)]
    expected = max(deviation) if np.isinf(p) else np.sum(np.array(share) * np.array(deviation) ** p) ** (1 / p)
    found = pde(scores, y, n_bins=4, strategy=strategy, p=p).value
    assert found == pytest.approx(expected, abs=1e-12)
    assert found >= ece(scores, y, n_bins=4, strategy=strategy, p=p).value - 1e-12


# ----------------------------------------------------------------------------------------------------------------------
# weak_error
# ----------------------------------------------------------------------------------------------------------------------


def test_the_error_against_a_function_by_hand() -> None:
    """f = 1 below 0.5: R = -(0.2 + 0.2 - 1) = 0.6 on 4 rows, tau = 2, beta 0.3, gain 0.36 / 2 / 4 = 0.045."""
    found = weak_error([0.2, 0.2, 0.8, 0.8], [0, 1, 1, 1], function=lambda s: s < 0.5)
    assert (found.value, found.beta, found.gain) == pytest.approx((0.15, 0.3, 0.045))
    assert "Adding +0.3000 times the function would have lowered the Brier score by 0.045" in str(found)
    assert found.to_dict()["gain"] == pytest.approx(0.045)


@given(row_lists, st.floats(-2, 2))
def test_no_other_multiple_of_the_function_gains_more(rows: list[tuple[int, int, int]], other: float) -> None:
    scores, y, _ = columns(rows)
    found = weak_error(scores, y, function=np.square)
    loss = [np.mean((scores + beta * scores**2 - y) ** 2) for beta in (0.0, found.beta, other)]
    assert loss[0] - loss[1] == pytest.approx(found.gain, abs=1e-12)
    assert loss[1] <= loss[2] + 1e-12


def test_a_function_that_is_zero_tests_nothing() -> None:
    found = weak_error([0.2, 0.8], [0, 1], function=np.zeros_like)
    assert (found.value, found.beta, found.gain, found.null_high) == (0.0, 0.0, 0.0, 0.0)


def test_other_functions_are_refused(subtests) -> None:
    for function in [lambda s: 2.0 * s, lambda s: -s, lambda s: 0.5, lambda s: s * np.nan]:
        with subtests.test(function=function), pytest.raises(InputError, match="one number in"):
            weak_error([0.2, 0.8], [0, 1], function=function)


# ----------------------------------------------------------------------------------------------------------------------
# All of them
# ----------------------------------------------------------------------------------------------------------------------


@given(rows=row_lists)
def test_whole_weights_mean_repetition(rows: list[tuple[int, int, int]]) -> None:
    scores, y, times = columns(rows)
    if not times.any():
        times = times + 1
    counts = Tally.from_arrays(scores, y, times, weight_type="frequency", score_type="probability")
    for metric in METRICS:
        repeated = metric(np.repeat(scores, times), np.repeat(y, times)).value
        found = [metric(scores, y, times).value, metric(counts).value]
        np.testing.assert_allclose(found, [repeated, repeated], rtol=1e-9, atol=1e-12, err_msg=str(metric))


def test_the_unit_of_weights_does_not_matter(subtests) -> None:
    for metric in METRICS:
        with subtests.test(metric=metric):
            scores, y = worlds.proportional(300)
            weights = np.random.default_rng(1).random(300) + 0.1
            unit = metric(scores, y, weights)
            for factor in (1e-6, 1e6):
                other = metric(scores, y, weights * factor)
                assert other.value == pytest.approx(unit.value, rel=1e-9)
                assert other.se == pytest.approx(unit.se, rel=1e-6)
            plain = metric(scores, y).se
            heavy = metric(scores, y, np.where(np.arange(300) % 10 == 0, 10.5, 0.5)).se
            if plain is not None and heavy is not None:
                assert heavy > plain, "few heavy rows are worth fewer than many equal ones"


def test_neither_order_nor_shards_matter(subtests) -> None:
    for metric in METRICS:
        with subtests.test(metric=metric):
            scores, y = worlds.proportional(1_000)
            scores = scores.round(2)
            order = np.random.default_rng(2).permutation(1_000)
            shards = Tally.from_arrays(scores[:300], y[:300]) + Tally.from_arrays(scores[300:], y[300:])
            whole = metric(scores, y)
            for other in (metric(scores[order], y[order]), metric(shards)):
                assert (other.name, other.notes) == (whole.name, whole.notes)
                assert numbers(other) == pytest.approx(numbers(whole), rel=1e-9, abs=1e-15)


def test_a_fine_grid_hardly_moves_it(subtests) -> None:
    for metric in METRICS:
        with subtests.test(metric=metric):
            scores, y = worlds.proportional(20_000)
            exact, gridded = metric(scores, y), metric(Tally.from_arrays(scores, y, grid=Grid()))
            assert gridded.value == pytest.approx(exact.value, abs=2e-3)


def test_small_and_lopsided_data_give_a_number_or_a_reason(subtests) -> None:
    for metric in METRICS:
        for scores, y in [
            ([0.3], [0]),
            ([0.3], [1]),
            ([0.0, 1.0], [0, 1]),
            ([0.0, 1.0], [1, 0]),
            ([0.4] * 30, [0] * 30),
            ([0.0] * 5 + [1.0] * 5, [1] * 10),
            ([0.5] * 7, [0, 1, 0, 1, 1, 0, 1]),
        ]:
            with subtests.test(metric=metric, scores=scores, y=y):
                found = metric(scores, y)
                assert 0.0 <= found.value <= 1.0 or (np.isnan(found.value) and found.notes)
                for number in (found.se, found.low, found.high, found.null, found.null_high):
                    assert number is None or np.isfinite(number)
                if len(scores) == 1:
                    assert found.se is None
                assert found.name in str(found)


def test_rows_of_weight_zero_are_no_rows(subtests) -> None:
    for metric in METRICS:
        with subtests.test(metric=metric):
            scores, y = worlds.proportional(60)
            weights = np.where(np.arange(60) < 50, 1.0, 0.0)
            assert metric(scores, y, weights).value == pytest.approx(metric(scores[:50], y[:50]).value, abs=1e-12)


def test_the_seed_moves_the_uncertainty_and_never_the_value(subtests) -> None:
    for metric in [ece, debiased_ece, pde, sweep_ece]:
        with subtests.test(metric=metric):
            scores, y = worlds.proportional(500)
            first, again, other = metric(scores, y), metric(scores, y), metric(scores, y, random_state=1)
            assert first == again
            assert other.value == first.value
            assert other.to_dict() != first.to_dict()
            assert other.se == pytest.approx(first.se, rel=0.2)


def test_an_order_below_one_is_refused(subtests) -> None:
    for metric in [ece, pde, sweep_ece]:
        for p in [0.5, 0, -1, np.nan, True, "2"]:
            with subtests.test(metric=metric, p=p), pytest.raises(InputError, match="p must be at least 1"):
                metric([0.2, 0.8], [0, 1], p=p)


def test_other_bad_arguments_are_refused() -> None:
    for wrong in ({"n_bins": 0}, {"strategy": "kmeans"}, {"against": "median"}, {"random_state": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            ece([0.2, 0.8], [0, 1], **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_bins"):
        sweep_ece([0.2, 0.8], [0, 1], max_bins=0)
    with pytest.raises(InputError, match="probabilities"):
        ece([300.0, 850.0], [0, 1])
