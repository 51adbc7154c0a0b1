"""Scaling-binning: what bins hold, worked by hand, and the certificate of outcomes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests import worlds

from calibrant import (
    BetaScaling,
    Certificate,
    HistogramBinning,
    InputError,
    IsotonicCalibrator,
    NoCertificate,
    PlattScaling,
)
from calibrant.calibrators import ScalingBinning
from calibrant.fits.bins import counted, equal_masses, parted, pulled_back
from calibrant.maps import LogitAffineMap, PiecewiseLinearMap, StepMap
from calibrant.messages import CalibrantWarning
from calibrant.numerics import Grid, expit
from calibrant.tallies import Tally

# ------------------------------------------------------------------------------------------------------ where bins end


def test_equal_masses_by_hand():
    # Cells of 1, 2, 3, 2 rows, 8 in all: the marks 8/3 and 16/3 are reached in cells 1 and 2, so bins 0-1 | 2 | 3.
    assert equal_masses(np.cumsum([1, 2, 3, 2]), 3).tolist() == [0, 2, 3]
    assert equal_masses(np.cumsum([1, 1, 1, 1]), 2).tolist() == [0, 2]  # the mark is met exactly: cut behind it
    assert equal_masses(np.cumsum([5]), 4).tolist() == [0]
    assert equal_masses(np.cumsum([1, 1]), 9).tolist() == [0, 1]
    assert equal_masses(np.cumsum(np.full(30, 0.1)), 3).tolist() == [
        0,
        10,
        20,
    ]  # sums of 0.1 miss the marks by rounding


def test_levels_are_pulled_back_to_the_first_score_that_reaches_them():
    tally = Tally.from_arrays([0.2, 0.7], [0, 1])
    fitted = LogitAffineMap(2.0, -1.0)
    knots = pulled_back(fitted, np.array([0.1, 0.5, 0.9]), tally)
    assert (fitted.apply(knots) >= [0.1, 0.5, 0.9]).all()
    assert (fitted.apply(np.nextafter(knots, -1.0)) < [0.1, 0.5, 0.9]).all()
    # 2 logit(s) - 1 = 0 at s = expit(1/2)
    assert knots[1] == pytest.approx(expit(np.array(0.5)), abs=1e-15)


def test_levels_out_of_reach_make_no_edge():
    tally = Tally.from_arrays([0.2, 0.7], [0, 1])
    flat = PiecewiseLinearMap([0.0, 1.0], [0.3, 0.6])
    assert pulled_back(flat, np.array([0.1, 0.3, 0.45, 0.9]), tally).round(12).tolist() == [0.5]
    steps = StepMap([0.25, 0.5], [0.1, 0.2, 0.9])
    assert pulled_back(steps, np.array([0.15, 0.3, 0.5, 0.95]), tally).tolist() == [0.25, 0.5]


def test_edges_keep_between_whole_cells():
    identity = LogitAffineMap(1.0, 0.0)
    grid = Tally.from_arrays([0.2, 0.7], [0, 1], grid=Grid(2))
    edges = pulled_back(identity, np.array([0.27, 0.61]), grid)
    assert grid.partition(edges)[0].tolist() == [1, 0, 1]  # partition refuses an edge inside a cell
    table = Tally.from_table([5, 5, 5], [1, 2, 3], edges=[0.3, 0.6])
    assert pulled_back(identity, np.array([0.1, 0.35, 0.5, 0.9]), table).tolist() == [0.3, 0.6]
    real = Tally.from_arrays([-300.0, 40.0], [0, 1], score_type="real")
    assert pulled_back(LogitAffineMap(0.01, 1.0, "score"), np.array([0.5]), real).round(9).tolist() == [-100.0]


def test_a_part_and_the_rest_are_all_rows():
    tally = Tally.from_arrays(*worlds.inflated(101))
    for size, rows in ((0.5, 50), (30, 30), (0.25, 25)):
        part, rest = parted(tally, size, 0)
        assert part.total == rows
        assert (part + rest).fingerprint == tally.fingerprint
    for size in (0, 1.0, 101, 0.001, -3):
        with pytest.raises(InputError, match="split_size"):
            parted(tally, size, 0)
    for size in ("half", True):
        with pytest.raises(InputError, match="split_size"):
            parted(tally, size, 0)


def test_bins_without_rows_follow_their_neighbors():
    rows = Tally.from_arrays([0.3, 0.3, 0.3, 0.3, 0.7], [1, 0, 0, 0, 1])
    bins = counted(rows, np.array([0.1, 0.5, 0.6, 0.9]), "", "", "")
    # rows 0, 4, 0, 1, 0; rates 1/4 and, one event in one row, (1 + 1)/(1 + 2); between them 2 events of 5 rows
    np.testing.assert_allclose(bins.outputs, [0.25, 0.25, 0.4, 2 / 3, 2 / 3], rtol=0, atol=1e-15)
    assert bins.n.tolist() == [0, 4, 0, 1, 0]


# ----------------------------------------------------------------------------------------------- means of scaled scores


def test_values_are_means_of_the_scaled_scores_by_hand():
    scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    cal = ScalingBinning(2).fit(scores, y)
    scaled = PlattScaling().fit(scores, y).transform(scores)
    assert cal.map_.knots.tolist() == [0.6]
    np.testing.assert_allclose(cal.map_.values, [scaled[:3].mean(), scaled[3:].mean()], rtol=0, atol=1e-15)


def test_any_scaling_will_do_if_it_never_falls():
    scores, y = worlds.inflated()
    for scaling in (BetaScaling(), IsotonicCalibrator(), IsotonicCalibrator(step=True)):
        cal = ScalingBinning(8, scaling=scaling).fit(scores, y)
        assert (np.diff(cal.map_.values) > 0).all()
        assert not hasattr(scaling, "map_")  # the user's own object stays as it is
    with pytest.raises(InputError, match="never decrease"):
        ScalingBinning(scaling=PlattScaling(increasing=False)).fit(scores, 1 - y)
    with pytest.raises(InputError, match="never decrease"):
        ScalingBinning(scaling=HistogramBinning(60)).fit(scores[:300], y[:300])


def test_a_part_fits_the_scaling_and_the_rest_fills_the_bins():
    scores, y = worlds.inflated(400)
    cal = ScalingBinning(4, split_size=100, random_state=3).fit(scores, y)
    part, rest = Tally.from_arrays(scores, y).split(100, 3)
    scaling = PlattScaling().fit_tally(part)
    assert cal.scaling_.map_ == scaling.map_
    quarter = scaling.transform(rest.scores[:75]).mean()  # 300 rows without ties in 4 bins
    assert cal.map_.values[0] == pytest.approx(quarter, abs=1e-15)


def test_there_is_no_certificate_for_means_of_scaled_scores():
    answer = ScalingBinning().fit(*worlds.inflated()).certificate()
    assert isinstance(answer, NoCertificate)
    assert "outcomes=True" in str(answer)


# ------------------------------------------------------------------------------------------------------------- outcomes


def test_outcomes_are_rates_in_equal_widths_of_the_scaled_score():
    scores, y = worlds.inflated(1000, seed=5)
    cal = ScalingBinning(4, outcomes=True, random_state=7).fit(scores, y)
    part, rest = Tally.from_arrays(scores, y).split(500, 7)
    scaling = PlattScaling().fit_tally(part)
    index = np.floor(4 * scaling.transform(rest.scores)).astype(int)
    n, events = np.bincount(index, rest.n), np.bincount(index, rest.events)
    np.testing.assert_array_equal(cal.bins_.n, n)
    np.testing.assert_array_equal(cal.bins_.events, events)
    np.testing.assert_allclose(cal.transform(rest.scores), (events / n)[index], rtol=0, atol=1e-15)


def test_outcomes_carry_a_certificate_about_rows_that_chose_nothing():
    scores, y = worlds.inflated(1000, seed=5)
    seeded = ScalingBinning(4, outcomes=True, random_state=7).fit(scores, y).certificate()
    assert isinstance(seeded, Certificate)
    assert seeded.n == 500
    assert seeded.uncovered_rows == 0
    fresh = ScalingBinning(4, outcomes=True).fit(scores, y)
    for each in (seeded, fresh.certificate()):
        assert "neither it nor its seed was chosen by its result" in str(each)
    assert isinstance(fresh.certificate(interval="always-valid"), NoCertificate)


def test_empty_bins_are_not_promised():
    scores = np.concatenate([np.full(200, 0.05), np.full(200, 0.95)])
    y = np.concatenate([np.arange(200) % 20 == 0, np.arange(200) % 20 != 0]).astype(int)
    answer = ScalingBinning(10, outcomes=True).fit(scores, y).certificate()
    assert answer.covered.sum() == 2


# ---------------------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("outcomes", [False, True])
def test_weights_are_repetition_and_merging_changes_nothing(outcomes):
    scores, y = worlds.inflated(300, decimals=2)
    w = np.random.default_rng(1).integers(0, 4, 300)
    new = lambda: ScalingBinning(5, outcomes=outcomes, random_state=2)  # noqa: E731
    repeated = new().fit(np.repeat(scores, w), np.repeat(y, w))
    assert new().fit(scores, y, w, weight_type="frequency").map_ == repeated.map_
    halves = Tally.from_arrays(scores[:90], y[:90]) + Tally.from_arrays(scores[90:], y[90:])
    assert new().fit_tally(halves).map_ == new().fit(scores, y).map_


def test_few_and_constant_scores(subtests):
    for scores in [[0.3], [0.3, 0.3], [0.0, 1.0], np.full(50, 0.4)]:
        with subtests.test(scores=scores):
            y = (np.arange(len(scores)) % 2).astype(int)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                out = ScalingBinning().fit(scores, y, score_type="probability").transform([0.0, 0.3, 1.0])
                if len(scores) > 1:
                    rates = (
                        ScalingBinning(outcomes=True, random_state=0)
                        .fit(scores, y, score_type="probability")
                        .transform([0.3])
                    )
                    assert ((rates > 0) & (rates < 1)).all()
            assert ((out > 0) & (out < 1)).all()


def test_a_number_of_bins_that_is_none_is_refused(subtests):
    for n_bins in [0, -1, 2.5, "10", True, None]:
        with subtests.test(n_bins=n_bins), pytest.raises(InputError, match="n_bins"):
            ScalingBinning(n_bins).fit(*worlds.inflated(50))
