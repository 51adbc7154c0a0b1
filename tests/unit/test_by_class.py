"""Rows sampled by class: what is verified, what is fitted, and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import InputError
from calibrant.numerics import expit, logit, multiply_odds

RATIO = 0.05
"""All events are kept, and one negative in twenty."""


def sampled(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(-3.0, 1.5, n)
    y = rng.random(n) < expit(x)
    kept = y | (rng.random(n) < RATIO)
    return expit(0.7 * x[kept] - 0.5), y[kept].astype(int), np.where(y[kept], 1.0, 1.0 / RATIO)


def test_the_odds_of_the_fit_to_the_rows_as_sampled_are_multiplied(subtests):
    for cal in [cb.PlattScaling(), cb.BetaScaling(), cb.calibrators.LogitShift(), cb.HistogramBinning(n_bins=6)]:
        with subtests.test(cal=cal):
            scores, y, weights = sampled()
            new = np.linspace(0.01, 0.9, 50)
            plain = cal.fit(scores, y).transform(new)
            moved = cal.fit(scores, y, weights, weight_type="by-class").transform(new)
            np.testing.assert_allclose(logit(moved), logit(plain) + np.log(RATIO), rtol=1e-9)
            assert cal.provenance_.weight_type == "by-class"
            assert "rows as sampled" in str(cal)


def test_knots_of_isotonic_regression_are_moved():
    scores, y, weights = sampled()
    plain = cb.IsotonicCalibrator().fit(scores, y).map_
    moved = cb.IsotonicCalibrator().fit(scores, y, weights, weight_type="by-class").map_
    np.testing.assert_array_equal(moved.knots, plain.knots)
    np.testing.assert_array_equal(moved.values, multiply_odds(plain.values, RATIO))


def test_bins_carry_a_certificate_of_the_population():
    scores, y, weights = sampled()
    binning = cb.HistogramBinning(n_bins=6)
    assert not binning.fit(scores, y, weights).certificate()  # importance weights alone carry none
    plain = binning.fit(scores, y).certificate(0.1)
    moved = binning.fit(scores, y, weights, weight_type="by-class").certificate(0.1)
    for name in ("outputs", "lower", "upper"):
        np.testing.assert_array_equal(getattr(moved, name), multiply_odds(getattr(plain, name), RATIO))
    assert moved.epsilon == np.maximum(moved.outputs - moved.lower, moved.upper - moved.outputs)[moved.covered].max()
    assert (moved.rows == plain.rows).all()
    assert moved.about.odds == RATIO
    assert "restored by the class weights" in str(moved)
    assert "restored by the class weights" not in str(plain)


def test_a_stored_certificate_keeps_its_population(tmp_path):
    scores, y, weights = sampled()
    cal = cb.calibrate(scores, y, weights, weight_type="by-class", guarantee=(0.1, 0.1))
    cal.save(tmp_path / "map.json")
    loaded = cb.load(tmp_path / "map.json")
    assert str(loaded.certificate) == str(cal.certificate())
    assert loaded.provenance.weight_type == "by-class"
    assert cal.certificate().epsilon <= 0.1
    np.testing.assert_array_equal(loaded.transform([0.02, 0.3]), cal.transform([0.02, 0.3]))


def test_dependent_rows_have_no_certificate_whatever_their_weights():
    scores, y, weights = sampled()
    cal = cb.AutoCalibrator(guarantee=(0.1, 0.1))
    with pytest.raises(cb.InputError, match="rows of the same group"):
        cal.fit(scores, y, weights, weight_type="by-class", groups=np.arange(len(y)) // 2)


def test_the_model_is_compared_in_the_population_that_it_speaks_of():
    # A calibrated model of the population must not look bad beside bins because its rows were sampled.
    rng = np.random.default_rng(1)
    p = expit(rng.normal(-3.0, 1.5, 40_000))
    y = rng.random(40_000) < p
    kept = y | (rng.random(40_000) < RATIO)
    weights = np.where(y[kept], 1.0, 1.0 / RATIO)
    cal = cb.calibrate(p[kept], y[kept], weights, weight_type="by-class", guarantee=(0.15, 0.1))
    assert cal.change_.value > 0.0


def test_without_a_guarantee_calibrate_weighs_the_rows():
    scores, y, weights = sampled(4_000)
    plain = cb.calibrate(scores, y, weights, candidates=["platt"])
    declared = cb.calibrate(scores, y, weights, weight_type="by-class", candidates=["platt"])
    assert declared.map_ == plain.map_
    assert "the population that the weights restore" in str(declared)


def test_weights_that_vary_within_a_class_are_refused(subtests):
    for fit in [cb.HistogramBinning().fit, cb.PlattScaling().fit, cb.calibrate]:
        with subtests.test(fit=fit):
            scores, y, weights = sampled(4_000)
            with pytest.raises(
                InputError, match=r"sample_weight varies among the negatives .* weight_type='importance'"
            ):
                fit(scores, y, np.where(y == 0, 10.0 + 40.0 * scores, 1.0), weight_type="by-class")
            with pytest.raises(InputError, match="sample_weight varies among the events"):
                fit(scores, y, weights * np.where(scores > 0.5, 2.0, 1.0), weight_type="by-class")


@pytest.mark.filterwarnings("ignore:y has only one class")
def test_what_makes_no_sense_of_class_weights_says_so():
    scores, y, weights = sampled(4_000)
    for method in (cb.TemperatureScaling(), cb.BetaScaling("ab"), cb.calibrators.ScalingBinning(), cb.VennAbers()):
        with pytest.raises(InputError, match=f"which {type(method).__name__} does not support.* use HistogramBinning"):
            method.fit(scores, y, weights, weight_type="by-class")
    with pytest.raises(InputError, match="needs sample_weight"):
        cb.PlattScaling().fit(scores, y, weight_type="by-class")
    with pytest.raises(InputError, match="rows of both classes, but there are no events"):
        cb.HistogramBinning().fit([0.1, 0.2], [0, 0], [2.0, 2.0], weight_type="by-class")
    with pytest.raises(InputError, match="weight_type is 'by-class', which is not an option"):
        cb.check(scores, y, weights, weight_type="by-class")


def test_class_weights_of_a_frame_are_refused():
    pd = pytest.importorskip("pandas")
    scores, y, weights = sampled(2_000)
    frame = pd.DataFrame({"s": scores, "y": y, "w": weights})
    for fit in (cb.PlattScaling().fit, cb.calibrate):
        with pytest.raises(InputError, match="weight_type='by-class' needs arrays"):
            fit(frame, sample_weight="w", score="s", label="y", weight_type="by-class")


def test_a_verdict_of_weighted_rows_names_their_population():
    scores, y, weights = sampled(4_000)
    assert "describe the population that the weights restore" in str(cb.check(scores, y, weights))
    assert "describe the population that the weights restore" not in str(cb.check(scores, y))
