"""Intercept, slope, expected over observed, flexible curves and their errors: by hand and at the edges."""

from __future__ import annotations

import json
import math
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit, logit
from tests import worlds

from calibrant.messages import InputError
from calibrant.metrics.binary.curves.likelihood import Parameters
from calibrant.metrics.binary.curves.recalibration import calibration_curve, ici, recalibration
from calibrant.metrics.smoothers import row_quantiles
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
METHODS = ["spline", "loess", "lowess", "isotonic"]


def codes(found: Any) -> list[str]:
    return [note.code for note in found.notes]


def world(n: int = 2000, seed: int = 0, slope: float = 0.7, shift: float = -0.3) -> worlds.Rows:
    return worlds.shifted(n, seed, slope=slope, level=shift)


# ----------------------------------------------------------------------------------------------------------------------
# Intercept, slope, E/O
# ----------------------------------------------------------------------------------------------------------------------


def test_two_scores_by_hand():
    # At 0.2, 1 of 4 are events; at 0.8, 3 of 4. Two points fix the line: at z = -log 4 it is -log 3, at log 4 it is
    # log 3, so slope = log 3 / log 4 and intercept 0. By symmetry the intercept at slope 1 is 0 too, and E = O = 4.
    found = recalibration(np.repeat([0.2, 0.8], 4), [1, 0, 0, 0, 1, 1, 1, 0])
    assert found.slope.value == pytest.approx(math.log(3) / math.log(4))
    assert found.slope_intercept.value == pytest.approx(0.0, abs=1e-12)
    assert found.intercept.value == pytest.approx(0.0, abs=1e-12)
    assert (found.expected, found.observed, found.rows) == pytest.approx((4.0, 4.0, 8.0))
    assert found.expected_over_observed.value == pytest.approx(1.0)
    # Information of the slope: 8 rows with p (1 - p) = 3/16 at z^2 = (log 4)^2, also the mean squared residual; each of
    # two groups of four fits its own rate, so that a residual is 4/3 as large without its row. At slope 1 the
    # information is that of 8 rows with 0.2 * 0.8, and the squared residuals add up to two of 0.64 and six of 0.04.
    assert found.slope.se == pytest.approx(4 / 3 / math.sqrt(8 * 3 / 16 * math.log(4) ** 2))
    assert found.intercept.se == pytest.approx(math.sqrt(2 * 0.64 + 6 * 0.04) / (8 * 0.16))
    # Residuals y - s: two of 0.8, six of 0.2 in size; over 4 events.
    assert found.expected_over_observed.se == pytest.approx(math.sqrt(2 * 0.64 + 6 * 0.04) / 4)


def test_the_intercept_makes_expected_events_the_observed_ones():
    s, y = world()
    found = recalibration(s, y)
    assert expit(logit(s) + found.intercept.value).sum() == pytest.approx(y.sum(), rel=1e-12)
    p = expit(found.slope.value * logit(s) + found.slope_intercept.value)
    assert np.sum(y - p) == pytest.approx(0.0, abs=1e-7)
    assert np.sum((y - p) * logit(s)) == pytest.approx(0.0, abs=1e-7)


def test_covariance_intervals_and_the_two_ratios_agree():
    found = recalibration(*world())
    assert found.covariance[0][0] == pytest.approx(found.slope.se**2)
    assert found.covariance[1][1] == pytest.approx(found.slope_intercept.se**2)
    assert found.slope_intercept.high - found.slope_intercept.value == pytest.approx(
        1.959964 * found.slope_intercept.se, rel=1e-6
    )
    for estimate in (found.intercept, found.slope):  # profile likelihood: near the normal interval, and not it
        for end in (estimate.low, estimate.high):
            assert abs(end - estimate.value) == pytest.approx(1.96 * estimate.se, rel=0.05)
    ratio, inverse = found.expected_over_observed, found.observed_over_expected
    assert ratio.value * inverse.value == pytest.approx(1.0)
    assert (ratio.low * inverse.high, ratio.high * inverse.low) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_has_neither_intercept_nor_slope(label):
    found = recalibration([0.2, 0.4, 0.6], [label] * 3)
    assert math.isnan(found.intercept.value)
    assert math.isnan(found.slope.value)
    assert codes(found) == ["only-events" if label else "parameters-of-one-class"]
    said = "only events are present: intercept and slope" if label else "only one class is present: intercept, slope"
    assert said in str(found)
    assert found.observed_over_expected.value == pytest.approx(label * 3 / 1.2)
    assert found.observed_over_expected.low is None
    assert found.to_dict()["covariance"] == [[None, None], [None, None]]
    assert "nan" in str(found)


def test_a_slope_of_separated_classes_is_tested_by_counting_all_labels(subtests) -> None:
    """The share of labels with as many events that are as separated, each weighted by its probability at the slope."""
    for x in [[-4.0, -2.5, -1.0, 0.2, 1.0, 2.2], [-3.0, -3.0, -1.0, -1.0, 1.0, 1.0, 1.0]]:
        for up in [True, False]:
            with subtests.test(x=x, up=up):
                order = np.argsort(x, kind="stable")
                for k in range(1, len(x)):
                    y = np.zeros(len(x), dtype=int)
                    y[order[-k:] if up else order[:k]] = 1
                    slope = Parameters.of(Tally.from_arrays(expit(np.array(x)), y, score_type="probability")).slope
                    assert slope.value == (math.inf if up else -math.inf)
                    for at in (0.3, 1.0, 1.2, 3.0):
                        sums = np.array([np.array(x)[list(chosen)].sum() for chosen in combinations(range(len(x)), k)])
                        seen = (sums >= y @ x - 1e-9) if up else (sums <= y @ x + 1e-9)
                        share = np.exp(at * sums)[seen].sum() / np.exp(at * sums).sum()
                        assert slope.p_value(at) == pytest.approx(min(2.0 * share, 1.0), rel=1e-6)
                    low, high = slope.interval(0.9)
                    end = low if up else high
                    assert math.isinf(high if up else low)
                    assert math.isinf(end) or slope.p_value(end) == pytest.approx(0.1, rel=1e-3)


def test_one_event_at_the_highest_score_says_little_about_the_slope() -> None:
    x = np.linspace(-9.0, -3.0, 100)
    slope = Parameters.of(Tally.from_arrays(expit(x), np.arange(100) == 99, score_type="probability")).slope
    assert slope.value == math.inf
    assert slope.p_value(1.0) == pytest.approx(2.0 * np.exp(x[-1]) / np.exp(x).sum(), rel=1e-6)  # was 0.01
    assert slope.p_value(50.0) == 1.0  # was 1e-14, where the level did not reach


def test_separated_classes_have_an_intercept_but_no_slope(subtests):
    for y in [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]]:
        with subtests.test(y=y):
            found = recalibration([0.1, 0.2, 0.3, 0.4], y)
            assert math.isfinite(found.intercept.value)
            assert math.isnan(found.slope.value)
            assert codes(found) == ["separated-classes"]
            assert "the classes are separated by the score: the slope has no finite estimate" in str(found)


def test_a_constant_score_has_an_intercept_but_no_slope():
    found = recalibration([0.5] * 4, [1, 1, 1, 0])
    assert found.intercept.value == pytest.approx(math.log(3))
    assert found.intercept.se == pytest.approx(1 / math.sqrt(4 * 3 / 16))
    assert math.isnan(found.slope.value)
    assert codes(found) == ["constant-score"]
    assert "the score is constant: a slope is not defined" in str(found)


def test_scores_of_0_and_1_are_moved_and_counted():
    found = recalibration([0.0, 0.0, 0.3, 0.6, 1.0], [0, 1, 0, 1, 1])
    (note,) = found.notes
    assert str(note) == (
        "2 scores of exactly 0 are read as 0.15 and 1 score of exactly 1 is read as 0.8 in log-odds, half as far "
        "from 0 and 1 as the nearest other score"
    )
    assert math.isfinite(found.slope.value)
    assert math.isfinite(found.intercept.value)


def test_one_and_two_rows():
    assert math.isnan(recalibration([0.3], [1]).intercept.value)
    both = recalibration([0.5, 0.5], [0, 1])
    assert both.intercept.value == pytest.approx(0.0, abs=1e-12)


def test_no_expected_events_have_no_ratio():
    found = recalibration([0.0, 0.0], [0, 1])
    assert found.expected_over_observed.value == 0.0
    assert math.isnan(found.observed_over_expected.value)


def test_whole_weights_are_repetition_and_counts_have_the_same_errors():
    s, y = world(300)
    w = np.random.default_rng(1).integers(0, 4, 300)
    repeated = recalibration(np.repeat(s, w), np.repeat(y, w))
    weighted, counted = recalibration(s, y, w), recalibration(Tally.from_arrays(s, y, w, weight_type="frequency"))
    for name in ("intercept", "slope", "slope_intercept", "expected_over_observed"):
        one, two, three = (getattr(found, name) for found in (repeated, weighted, counted))
        assert two.value == pytest.approx(one.value, rel=1e-9)
        assert (three.value, three.se) == pytest.approx((one.value, one.se), rel=1e-9)
        assert two.se > one.se, "importance weights are worth fewer rows than their sum"


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_weights_does_not_matter(scale):
    s, y = world(300)
    w = np.random.default_rng(1).random(300)
    one, other = recalibration(s, y, w), recalibration(s, y, w * scale)
    for name in ("intercept", "slope", "slope_intercept", "observed_over_expected"):
        a, b = getattr(one, name), getattr(other, name)
        assert (b.value, b.se) == pytest.approx((a.value, a.se), rel=1e-8)


def test_order_grid_and_json():
    s, y = world()
    order = np.random.default_rng(2).permutation(len(y))
    found = recalibration(s, y)
    assert recalibration(s[order], y[order]) == found
    gridded = recalibration(Tally.from_arrays(s, y, grid=Grid()))
    assert gridded.slope.value == pytest.approx(found.slope.value, rel=1e-4)
    assert json.loads(json.dumps(found.to_dict()))["slope"]["value"] == found.slope.value
    assert len(str(found).splitlines()) == 6


# ----------------------------------------------------------------------------------------------------------------------
# Curves
# ----------------------------------------------------------------------------------------------------------------------


def test_isotonic_curve_and_errors_by_hand():
    # Blocks: 0.1 -> 0; (0.2, 0.4) -> 1/2; 0.9 -> 1. Distances 0.1, 0.3, 0.1, 0.1.
    s, y = [0.1, 0.2, 0.4, 0.9], [0, 1, 0, 1]
    curve = calibration_curve(s, y, method="isotonic", at=[0.0, 0.15, 0.3, 1.0])
    assert curve.rates.tolist() == [0.0, 0.0, 0.5, 1.0]
    found = ici(s, y, method="isotonic", repetitions=0)
    assert (found.ici, found.e50, found.emax) == pytest.approx((0.15, 0.1, 0.3))
    assert found.e90 == pytest.approx(0.1 + 0.7 * 0.2)  # R's and numpy's quantile: 0.9 * 3 = 2.7 ranks up


def test_a_line_is_found_by_loess():
    # Rates 0, 1/4, ..., 1 on a line: local lines reproduce it.
    s = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 4)
    y = np.concatenate([np.arange(4) < k for k in range(5)]).astype(int)
    curve = calibration_curve(s, y, method="loess", at=[0.1, 0.4, 0.9])
    np.testing.assert_allclose(curve.rates, [0.0, 0.375, 1.0], atol=0.02)


def test_the_spline_gives_up_knots_with_a_note():
    s, y = world(2000)
    assert calibration_curve(s, y).notes == ()
    few = calibration_curve(s[:40], y[:40])
    assert codes(few) == ["fewer-knots"]
    assert f"too few data for five knots: fitted {few.notes[0].values['knots']} knots" in str(few)
    line = recalibration(s[:10], [0, 1] * 5)
    short = calibration_curve(s[:10], [0, 1] * 5, at=[0.3])
    assert codes(short) == ["fewer-knots"]
    assert "too few data for five knots: fitted a straight line on the log-odds" in str(short)
    assert short.rates[0] == pytest.approx(expit(line.slope.value * logit(0.3) + line.slope_intercept.value), rel=1e-8)


def test_a_constant_score_has_its_rate_as_curve(subtests):
    for method in METHODS:
        with subtests.test(method=method):
            found = ici([0.5] * 4, [1, 1, 1, 0], method=method, repetitions=0)
            assert (found.ici, found.e50, found.e90, found.emax) == pytest.approx((0.25,) * 4)


def test_one_class_or_separated_classes_have_no_spline_but_a_loess():
    for y, code, words in (
        ([0, 0, 0], "curve-of-one-class", "only one class is present: the likelihood has no maximum"),
        ([0, 0, 1], "curve-of-separated-classes", "the classes are separated by the score: the likelihood has no"),
    ):
        found = ici([0.1, 0.2, 0.3], y)
        assert math.isnan(found.ici)
        assert codes(found) == [code]
        assert words in str(found)
        assert math.isfinite(ici([0.1, 0.2, 0.3], y, method="loess", repetitions=0).ici)
    assert calibration_curve([0.1, 0.2], [0, 0]).to_dict()["rates"][0] is None


def test_one_row_and_two_rows(subtests):
    for method in METHODS:
        with subtests.test(method=method):
            for s, y in (([0.3], [1]), ([0.3, 0.6], [1, 0]), ([0.0, 1.0], [1, 0])):
                found = ici(s, y, method=method, repetitions=5)
                assert found.method == method
                assert len(str(found).splitlines()) >= 1


@given(
    method=st.sampled_from(METHODS),
    data=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=20),
)
def test_weights_are_repetition_for_curves(method, data):
    s, y, w = (np.array(column) for column in zip(*data, strict=True))
    assume(w.any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = ici(s / 8, y, w, method=method, repetitions=0)
        repeated = ici(np.repeat(s / 8, w), np.repeat(y, w), method=method, repetitions=0)
    for name in ("ici", "e50", "e90", "emax"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-9, nan_ok=True)
    assert weighted.notes == repeated.notes


def test_importance_weights_grid_and_many_cells(subtests):
    for method in METHODS:
        with subtests.test(method=method):
            s, y = world(70_000, seed=3)
            w = np.random.default_rng(1).random(3000)
            exact = ici(s, y, method=method, repetitions=0)
            grid = ici(Tally.from_arrays(s, y, grid=Grid()), method=method, repetitions=0)
            assert grid.ici == pytest.approx(exact.ici, rel=1e-3)
            few = ici(s[:3000], y[:3000], w, method=method, repetitions=0).ici
            assert ici(s[:3000], y[:3000], w * 1e6, method=method, repetitions=0).ici == pytest.approx(few, rel=1e-6)
            assert few == pytest.approx(exact.ici, abs=0.03)


@pytest.mark.parametrize("method", ["spline", "isotonic"])
def test_bootstrap_errors_are_those_of_fresh_samples(method):
    spread = np.std([ici(*world(1500, seed), method=method, repetitions=0).ici for seed in range(60)])
    assert ici(*world(1500), method=method, repetitions=100).se[0] == pytest.approx(spread, rel=0.4)
    found, again, other = (
        ici(*world(1500), method=method, repetitions=10, random_state=random_state) for random_state in (0, 0, 1)
    )
    assert found == again
    assert found.se != other.se


def test_quantiles_of_repeated_rows_are_numpys():
    rng = np.random.default_rng(0)
    values, n = np.sort(rng.random(30)), rng.integers(1, 5, 30)
    shares = (0.0, 0.05, 0.275, 0.5, 0.9, 1.0)
    np.testing.assert_allclose(row_quantiles(values, n, shares), np.quantile(np.repeat(values, n), shares), rtol=1e-12)


def test_bad_options_are_refused():
    with pytest.raises(InputError, match="method"):
        calibration_curve([0.5], [1], method="gam")
    with pytest.raises(InputError, match="at must be"):
        calibration_curve([0.5], [1], at=[1.5])
    with pytest.raises(InputError, match="repetitions"):
        ici([0.5], [1], repetitions=-1)


def test_a_curve_prints_and_writes_itself():
    curve = calibration_curve(*world(500))
    assert len(curve.scores) == 201
    assert len(str(curve).splitlines()) == 12 + len(curve.notes)
    assert json.loads(json.dumps(curve.to_dict()))["method"] == "spline"


def test_importance_weights_of_any_unit_give_the_same_errors_of_the_curve() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(200)
    y = (rng.random(200) < scores).astype(int)
    one, many = (ici(scores, y, np.full(200, weight), repetitions=30) for weight in (0.5, 100.0))
    assert one.se is not None
    assert many.se is not None
    np.testing.assert_allclose(many.se, one.se, rtol=0.3)  # as repetition, a tenth
