"""Scores shifted bin by bin: jumps between neighboring doubles, bends at the least and the greatest output."""

from __future__ import annotations

import numpy as np
import pytest
from tests import worlds

from calibrant import InputError, NoCertificate
from calibrant.calibrators import BinwiseShift
from calibrant.maps import PiecewiseLinearMap
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")


def by_hand(scores, edges, shifts, least):
    return np.clip(scores + shifts[np.searchsorted(edges, scores, side="right")], least, 1 - least)


def test_two_bins_by_hand():
    # Bins {0.2, 0.4} and {0.6, 0.8}: means 0.3 and 0.7, rates 1/2 and 1/2, so +0.2 and -0.2; cut at 0.6; n = 4.
    cal = BinwiseShift(2).fit([0.2, 0.4, 0.6, 0.8], [0, 1, 1, 0])
    np.testing.assert_allclose(cal.shifts_, [0.2, -0.2], rtol=0, atol=1e-15)
    probes = np.array([0.0, 0.3, 0.5, np.nextafter(0.6, 0), 0.6, 0.9, 1.0])
    expected = [0.2, 0.5, 0.7, 0.8, 0.4, 0.7, 0.8]
    np.testing.assert_allclose(cal.transform(probes), expected, rtol=0, atol=1e-15)


def test_outputs_bend_at_the_least_and_the_greatest():
    # One bin, mean 0.5, no event in 8 rows: -0.5, held at 1/10 from below; s - 0.5 reaches it at 0.6.
    cal = BinwiseShift(1).fit(np.tile([0.4, 0.6], 4), np.zeros(8, dtype=int))
    np.testing.assert_allclose(cal.transform([0.0, 0.59, 0.7, 1.0]), [0.1, 0.1, 0.2, 0.5], rtol=0, atol=1e-15)
    assert len(cal.map_.knots) == 3
    # Nothing but events: +0.5, held at 9/10, reached at 0.4.
    cal = BinwiseShift(1).fit(np.tile([0.4, 0.6], 4), np.ones(8, dtype=int))
    np.testing.assert_allclose(cal.transform([0.0, 0.3, 0.41, 1.0]), [0.5, 0.8, 0.9, 0.9], rtol=0, atol=1e-15)


@pytest.mark.parametrize("decimals", [None, 2])
def test_it_is_the_formula_at_every_score_and_beside_every_edge(decimals):
    scores, y = worlds.inflated(decimals=decimals)
    cal = BinwiseShift(12).fit(scores, y)
    ordered = np.sort(scores)
    last = ordered[[-(-2000 * k // 12) - 1 for k in range(1, 12)]]  # the rows of rank ceil(2000 k / 12)
    edges = np.unique(ordered[np.searchsorted(ordered, last, side="right")])
    index = np.searchsorted(edges, scores, side="right")
    assert len(cal.shifts_) == len(edges) + 1
    n = np.bincount(index)
    shifts = (np.bincount(index, y) - np.bincount(index, scores)) / n
    np.testing.assert_allclose(cal.shifts_, shifts, rtol=0, atol=1e-13)
    probes = np.concatenate([scores, edges, np.nextafter(edges, 0), np.nextafter(edges, 1), [0.0, 1.0]])
    expected = by_hand(probes, edges, cal.shifts_, 1 / 2002)
    np.testing.assert_allclose(cal.transform(probes), expected, rtol=0, atol=4e-16)


def test_the_mean_output_of_a_bin_is_its_rate():
    scores, y = worlds.inflated()
    scores = 0.2 + 0.6 * scores  # no output is held at an end
    out = BinwiseShift(10).fit(scores, y).transform(scores)
    order = np.argsort(scores)
    for rows in np.split(order, 10):
        assert out[rows].mean() == pytest.approx(max(y[rows].mean(), 0), abs=0.01)


def test_neighboring_doubles_and_ends_share_knots():
    scores = np.array([0.0, 5e-324, 0.5, np.nextafter(0.5, 1), 1.0] * 4)
    cal = BinwiseShift(10).fit(scores, np.arange(20) % 2)
    assert isinstance(cal.map_, PiecewiseLinearMap)
    edges = np.array([5e-324, 0.5, np.nextafter(0.5, 1), 1.0])
    probes = np.append(np.unique(scores), [0.3, 0.7])
    np.testing.assert_allclose(cal.transform(probes), by_hand(probes, edges, cal.shifts_, 1 / 22), rtol=0, atol=4e-16)


def test_weights_grids_and_tables():
    scores, y = worlds.inflated(400, decimals=2)
    w = np.random.default_rng(1).integers(0, 4, 400)
    repeated = BinwiseShift(5).fit(np.repeat(scores, w), np.repeat(y, w))
    assert BinwiseShift(5).fit(scores, y, w, weight_type="frequency").map_ == repeated.map_
    exact = BinwiseShift(5).fit(scores, y)
    grid = BinwiseShift(5).fit_tally(Tally.from_arrays(scores, y, grid=Grid()))
    np.testing.assert_allclose(grid.shifts_, exact.shifts_, rtol=0, atol=1e-6)
    halves = Tally.from_arrays(scores[:90], y[:90]) + Tally.from_arrays(scores[90:], y[90:])
    assert BinwiseShift(5).fit_tally(halves).map_ == exact.map_
    table = BinwiseShift(2).fit_tally(Tally.from_table([10, 10], [2, 8], edges=[0.5], scores=[0.3, 0.7]))
    np.testing.assert_allclose(table.transform([0.3, 0.7]), [0.2, 0.8], rtol=0, atol=1e-15)


def test_few_and_constant_scores_and_one_class(subtests):
    for scores in [[0.3], [0.3, 0.3], [0.0, 1.0], np.zeros(9), np.ones(9)]:
        with subtests.test(scores=scores):
            for y in (np.arange(len(scores)) % 2, np.ones(len(scores), dtype=int)):
                out = BinwiseShift().fit(scores, y, score_type="probability").transform(np.linspace(0, 1, 11))
                assert ((out > 0) & (out < 1)).all()


def test_what_has_no_meaning_is_refused():
    scores, y = worlds.inflated(50)
    with pytest.raises(InputError, match="n_bins"):
        BinwiseShift(0).fit(scores, y)
    with pytest.raises(InputError, match="probabilities"):
        BinwiseShift().fit(scores * 9 - 4, y, score_type="logit")
    assert isinstance(BinwiseShift().fit(scores, y).certificate(), NoCertificate)
