"""Isotonic calibration: steps against scikit-learn, the continuous curve and what it costs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from tests import worlds

from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
from calibrant.maps import PiecewiseLinearMap, StepMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

row_lists = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), min_size=1, max_size=60)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    scores, y = np.array(rows).T
    return scores / 30, y


def smooth(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and the smooth truth behind them."""
    scores, y = worlds.inflated(n, seed)
    return scores, y, scores**2


@given(row_lists)
def test_steps_equal_scikit_learn_at_the_training_scores(rows):
    scores, y = columns(rows)
    ours = IsotonicCalibrator(step=True, shrink_ends=False).fit(scores, y, score_type="probability")
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, y)
    np.testing.assert_allclose(ours.transform(scores), theirs.predict(scores), rtol=1e-12, atol=1e-15)


def test_weighted_steps_equal_scikit_learn():
    scores, y, _ = smooth(500, 0)
    w = np.random.default_rng(1).random(500)
    ours = IsotonicCalibrator(step=True, shrink_ends=False).fit(scores, y, w)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, y, w)
    np.testing.assert_allclose(ours.transform(scores), theirs.predict(scores), rtol=1e-10, atol=1e-15)


@given(row_lists)
def test_steps_are_right_continuous_with_the_last_value_kept(rows):
    scores, y = columns(rows)
    map_ = IsotonicCalibrator(step=True).fit(scores, y, score_type="probability").map_
    assert isinstance(map_, StepMap)
    assert set(map_.knots) <= set(scores)
    assert (np.diff(map_.values) > 0).all()
    np.testing.assert_array_equal(map_.apply(map_.knots), map_.values[1:])
    np.testing.assert_array_equal(map_.apply(np.nextafter(map_.knots, -1)), map_.values[:-1])


@given(row_lists, st.booleans())
def test_the_curve_is_strictly_increasing_inside_the_unit_interval(rows, gridded):
    scores, y = columns(rows)
    cal = IsotonicCalibrator().fit_tally(
        Tally.from_arrays(scores, y, score_type="probability", grid=Grid() if gridded else None)
    )
    assert isinstance(cal.map_, PiecewiseLinearMap)
    assert (np.diff(cal.map_.values) > 0).all()
    assert (cal.map_.knots[0], cal.map_.knots[-1]) == (0.0, 1.0) or set(scores) & {0.0, 1.0}
    assert cal.map_.values[0] > 0
    assert cal.map_.values[-1] < 1
    apart = cal.transform(np.linspace(0, 1, 1001))
    assert (np.diff(apart) > 0).all() or set(scores) & {0.0, 1.0}


@given(row_lists)
def test_ends_are_shrunk_by_one_pseudo_row(rows):
    scores, y = columns(rows)
    plain = IsotonicCalibrator(step=True, shrink_ends=False).fit(scores, y, score_type="probability").transform(scores)
    shrunk = IsotonicCalibrator(step=True).fit(scores, y, score_type="probability").transform(scores)
    assert ((shrunk > 0) & (shrunk < 1)).all()
    assert np.abs(shrunk - plain).max() <= 0.5


def test_a_block_without_an_event_by_hand():
    scores, y = np.append(np.linspace(0.1, 0.4, 9), [0.6, 0.7]), [0] * 9 + [1, 1]
    cal = IsotonicCalibrator(step=True).fit(scores, y)
    assert cal.map_ == StepMap([0.6], [0.5 / 10, 2.5 / 3])


def test_a_large_block_keeps_its_value_beside_a_lone_event():
    scores = np.append(np.linspace(0.0, 0.9, 500), 0.95)
    y = np.append(np.arange(500) % 50 == 0, True)
    cal = IsotonicCalibrator().fit(scores, y)
    assert cal.transform([0.45, 0.85]) == pytest.approx(10.5 / 501, rel=0.01)
    assert cal.transform([0.95])[0] > 0.5


def test_the_curve_meets_the_steps_on_average():
    scores, y, _ = smooth(2000, 4)
    step, curve = (IsotonicCalibrator(step=step).fit(scores, y).transform(scores) for step in (True, False))
    assert curve.mean() == pytest.approx(step.mean(), abs=0.005)
    assert np.abs(curve - step).mean() < 0.03


def test_real_scores_end_where_the_data_end():
    rng = np.random.default_rng(2)
    z = rng.normal(size=300)
    y = (rng.random(300) < 1 / (1 + np.exp(-z))).astype(int)
    map_ = IsotonicCalibrator().fit(z, y, score_type="real").map_
    assert map_.knots[0] >= z.min()
    assert map_.knots[-1] <= z.max()
    assert map_.apply([-1e9])[0] == map_.values[0]


def brier(p: np.ndarray, target: np.ndarray) -> float:
    return float(np.mean((p - target) ** 2))


TRUTHS = {
    "square": lambda s: s**2,
    "identity": lambda s: s,
    "sigmoid": lambda s: 1 / (1 + np.exp(-6 * (s - 0.5))),
    "rare": lambda s: 0.02 * s,
}


@pytest.mark.statistical
def test_what_the_curve_costs_in_brier_score(subtests, full_size):
    """The docstring's figure: in-sample cost of the curve at 2,000 rows, and what it gains against the truth."""
    for name in TRUTHS:
        with subtests.test(name=name):
            cost, error = [], []
            for seed in range(60 if full_size else 25):
                rng = np.random.default_rng(seed)
                scores = rng.random(2000)
                y = (rng.random(2000) < TRUTHS[name](scores)).astype(int)
                step, curve = (IsotonicCalibrator(step=step).fit(scores, y) for step in (True, False))
                cost.append(brier(curve.transform(scores), y) / brier(step.transform(scores), y) - 1)
                fresh = np.linspace(0, 1, 2001)
                error.append([brier(cal.transform(fresh), TRUTHS[name](fresh)) for cal in (step, curve)])
            assert 0 < np.median(cost) < 0.015
            of_step, of_curve = np.mean(error, axis=0)
            assert of_curve < of_step * (1.1 if name == "rare" else 1.0)


def test_a_table_of_bins():
    table = {"n": [50, 0, 50, 50], "events": [5, 0, 4, 30], "edges": [0.2, 0.4, 0.7]}
    steps = IsotonicCalibrator(step=True, shrink_ends=False).fit_tally(Tally.from_table(**table))
    assert steps.transform([0.0, 0.5, 0.9]).tolist() == [0.09, 0.09, 0.6]
    with pytest.raises(InputError, match="scores="):
        IsotonicCalibrator().fit_tally(Tally.from_table(**table))
    curve = IsotonicCalibrator().fit_tally(Tally.from_table(**table, scores=[0.1, 0.3, 0.5, 0.9]))
    assert (np.diff(curve.map_.values) > 0).all()


def test_zero_and_a_denormal_share_a_grid_mean():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrantWarning)
        tally = Tally.from_arrays([0, 0, 0, 1e-300, 1e-300, 0.5, 0.6], [0, 0, 0, 1, 0, 1, 1], grid=Grid())
        cal = IsotonicCalibrator().fit_tally(tally)
    assert (np.diff(cal.transform([0.0, 0.3, 0.5, 0.6])) > 0).all()


def test_no_certificate_and_why():
    cal = IsotonicCalibrator().fit(*smooth(100, 3)[:2])
    assert "HistogramBinning" in str(cal.certificate())
    assert "strictly increasing" in str(cal)
