"""Centred isotonic regression, and isotonic blocks of one part of the rows filled by the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import worlds

from calibrant import Certificate, InputError, IsotonicCalibrator, NoCertificate
from calibrant.calibrators import IsotonicBinning
from calibrant.fits.isotonic import block_edges, fit_centered, fit_steps
from calibrant.maps import PiecewiseLinearMap
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")


# ------------------------------------------------------------------------------------------------------------- centered


def test_one_knot_per_block_at_its_mean_score_by_hand():
    # Labels 0 | 1 1 0 | 1 at 0.1, 0.2, 0.2, 0.5, 0.9: blocks of rate 0, 2/3 and 1 at 0.1, (0.2 + 0.2 + 0.5)/3, 0.9.
    tally = Tally.from_arrays([0.1, 0.2, 0.2, 0.5, 0.9], [0, 1, 1, 0, 1])
    fitted = fit_centered(tally, shrink_ends=False)
    np.testing.assert_allclose(fitted.knots, [0.1, 0.3, 0.9], rtol=0, atol=1e-15)
    np.testing.assert_allclose(fitted.values, [0, 2 / 3, 1], rtol=0, atol=1e-15)
    # Half way from 0.1 to 0.3 the map is half way from 0 to 2/3; beyond the ends it is constant.
    np.testing.assert_allclose(fitted.apply([0.0, 0.2, 1.0]), [0.0, 1 / 3, 1.0], rtol=0, atol=1e-15)


def test_pseudo_rows_keep_the_ends_off_zero_and_one():
    # One row and half an event more at either end: 0.5/2 and 1.5/2 beside one row each.
    cal = IsotonicCalibrator(centered=True).fit([0.2, 0.8], [0, 1])
    assert cal.map_ == PiecewiseLinearMap([0.2, 0.8], [0.25, 0.75])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), min_size=1, max_size=60))
def test_it_has_the_values_of_the_steps_and_never_falls(rows):
    scores, y = np.array(rows).T
    tally = Tally.from_arrays(scores / 30, y, score_type="probability")
    centered, steps = fit_centered(tally), fit_steps(tally)
    np.testing.assert_array_equal(centered.values, steps.values)
    assert (np.diff(centered.knots) > 0).all()
    np.testing.assert_array_equal(
        np.searchsorted(steps.knots, centered.knots, side="right"), np.arange(len(steps.values))
    )


def test_weights_grids_and_tables():
    scores, y = worlds.inflated(500, decimals=2)
    w = np.random.default_rng(1).integers(0, 4, 500)
    repeated = fit_centered(Tally.from_arrays(np.repeat(scores, w), np.repeat(y, w)))
    assert fit_centered(Tally.from_arrays(scores, y, w, weight_type="frequency")) == repeated
    grid = fit_centered(Tally.from_arrays(scores, y, grid=Grid()))
    probes = np.linspace(0, 1, 101)
    np.testing.assert_allclose(
        grid.apply(probes), fit_centered(Tally.from_arrays(scores, y)).apply(probes), rtol=0, atol=1e-6
    )
    table = Tally.from_table([10, 10], [2, 8], edges=[0.5], scores=[0.3, 0.6])
    assert fit_centered(table, shrink_ends=False) == PiecewiseLinearMap([0.3, 0.6], [0.2, 0.8])


def test_steps_cannot_be_centred():
    with pytest.raises(InputError, match="centered"):
        IsotonicCalibrator(step=True, centered=True).fit(*worlds.inflated(20))
    cal = IsotonicCalibrator(centered=True).fit(*worlds.inflated(200))
    assert isinstance(cal.certificate(), NoCertificate)
    assert "centered knots" in str(cal)


# ---------------------------------------------------------------------------------------------------- blocks as bins


def test_small_blocks_are_joined_by_hand():
    # Rates 0, 0.2, 0.4, 0.6, 0.8 in cells of 5, 5, 10, 5, 5 rows, each a block.
    tally = Tally.from_table([5, 5, 10, 5, 5], [0, 1, 4, 3, 4], edges=[0.2, 0.4, 0.6, 0.8])
    assert block_edges(tally, 1).tolist() == [0.2, 0.4, 0.6, 0.8]
    assert block_edges(tally, 6).tolist() == [0.4, 0.6]  # 5 + 5 | 10 | 5 + 5
    assert block_edges(tally, 10).tolist() == [0.4, 0.6]
    assert block_edges(tally, 11).tolist() == []  # 5 + 5 + 10 would leave 10, which are too few


def test_one_part_chooses_and_the_other_fills():
    scores, y = worlds.inflated(600, seed=2)
    cal = IsotonicBinning(20, split_size=0.4, random_state=5).fit(scores, y)
    part, rest = Tally.from_arrays(scores, y).split(240, 5)
    edges = block_edges(part, 20)
    n, events = rest.partition(edges)
    assert cal.bins_.knots.tolist() == edges.tolist()
    assert cal.bins_.n.tolist() == n.tolist()
    inner = (events > 0) & (events < n)
    np.testing.assert_array_equal(cal.bins_.outputs[inner], (events / n)[inner])
    assert (part.partition(edges)[0] >= 20).all()


def test_the_certificate_is_about_the_rows_that_filled_the_bins():
    cal = IsotonicBinning(random_state=0).fit(*worlds.inflated())
    promise = cal.certificate()
    assert isinstance(promise, Certificate)
    assert (promise.n, promise.uncovered_rows) == (1000, 0)
    for each in (promise, IsotonicBinning().fit(*worlds.inflated()).certificate()):
        assert "neither it nor its seed was chosen by its result" in str(each)
    assert "isotonic blocks" in str(cal)


def test_weights_are_repetition_and_importance_weights_are_not_drawn():
    scores, y = worlds.inflated(300, decimals=2)
    w = np.random.default_rng(1).integers(0, 4, 300)
    repeated = IsotonicBinning(random_state=3).fit(np.repeat(scores, w), np.repeat(y, w))
    assert IsotonicBinning(random_state=3).fit(scores, y, w, weight_type="frequency").map_ == repeated.map_
    shares = np.random.default_rng(2).random(300) + 0.1
    weighted = IsotonicBinning(random_state=3).fit(scores, y, shares)
    assert weighted.map_ == IsotonicBinning(random_state=4).fit(scores, y, shares).map_
    assert isinstance(weighted.certificate(), NoCertificate)


def test_few_and_constant_scores_and_one_class(subtests):
    for scores in [[0.3, 0.3], [0.0, 1.0], np.full(50, 0.4), np.zeros(9), np.ones(9)]:
        with subtests.test(scores=scores):
            for y in (np.arange(len(scores)) % 2, np.zeros(len(scores), dtype=int)):
                out = (
                    IsotonicBinning(1, random_state=0)
                    .fit(scores, y, score_type="probability")
                    .transform([0.0, 0.3, 1.0])
                )
                assert ((out > 0) & (out < 1)).all()


def test_what_has_no_meaning_is_refused():
    for options in ({"min_rows": 0}, {"min_rows": "5"}, {"min_rows": True}, {"split_size": 1.0}, {"split_size": None}):
        with pytest.raises(InputError, match=next(iter(options))):
            IsotonicBinning(**options).fit(*worlds.inflated(50))
    with pytest.raises(InputError, match="split_size"):
        IsotonicBinning().fit([0.4], [1])
