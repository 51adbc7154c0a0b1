"""Histogram binning: Algorithm 4.1 worked by hand, ties, parts, tables, and how many bins."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import worlds

from calibrant.calibration import Calibration, load
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.issuing import Bins
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.origins import Assumption, BinRule
from calibrant.guarantees.planning import plan, split_size
from calibrant.maps import StepMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid
from calibrant.tallies import Tally

FIVE = [0.1, 0.2, 0.3, 0.4, 0.5]


def after(*values: float) -> list[float]:
    """Each value and the float behind it: where an edge begins and ends in an exact tally."""
    return [knot for value in values for knot in (value, np.nextafter(value, np.inf))]


def assert_consistent(cal: HistogramBinning, tally: Tally) -> None:
    """The bins are regions of the tally, the map is theirs, and no row is lost between promised and uncovered."""
    bins = cal.bins_
    assert isinstance(bins, Bins)
    assert cal.map_ == StepMap(bins.knots, bins.outputs).merged()
    assert not bins.n[bins.uncovered].any()
    assert not bins.events[bins.uncovered].any()
    n, events = tally.partition(bins.knots)
    np.testing.assert_array_equal(np.where(bins.uncovered, 0, n), bins.n)
    np.testing.assert_array_equal(np.where(bins.uncovered, 0, events), bins.events)
    assert bins.uncovered_rows == n[bins.uncovered].sum()
    assert bins.n.sum() + bins.uncovered_rows == tally.total


# ------------------------------------------------------------------------------------------------ Algorithm 4.1 by hand


def test_two_bins_of_five_rows():
    """The edge is the row of rank ceil(6 / 2) = 3; it has no part in the rates and puts out what the bin above does."""
    cal = HistogramBinning(2).fit(FIVE, [1, 0, 1, 0, 0])
    assert cal.bins_.knots.tolist() == after(0.3)
    assert (cal.bins_.n.tolist(), cal.bins_.events.tolist()) == ([2, 0, 2], [1, 0, 0])
    assert cal.bins_.uncovered.tolist() == [False, True, False]
    assert cal.bins_.uncovered_rows == 1
    assert not cal.bins_.fixed
    assert cal.bins_.outputs.tolist() == [0.5, 0.25, 0.25]
    assert cal.map_ == StepMap([0.3], [0.5, 0.25])
    assert cal.transform([0.0, 0.29, 0.3, 1.0]).tolist() == [0.5, 0.5, 0.25, 0.25]
    certificate = cal.certificate()
    assert (certificate.n, certificate.uncovered_rows) == (4, 1)
    assert certificate.covered.tolist() == [True, False, True]
    assert (certificate.lower[1], certificate.upper[1]) == (0.0, 1.0)
    assert "\n  Not covered: scores on a bin edge (1 edge, 1 of 5 rows)." in str(certificate)


def test_three_bins_of_eight_rows():
    """Ranks ceil(9 / 3) = 3 and ceil(18 / 3) = 6."""
    cal = HistogramBinning(3).fit(np.arange(1, 9) / 10, [1, 0, 0, 0, 1, 1, 1, 0])
    assert cal.bins_.knots.tolist() == after(0.3, 0.6)
    assert (cal.bins_.n.tolist(), cal.bins_.events.tolist()) == ([2, 0, 2, 0, 2], [1, 0, 1, 0, 1])
    assert cal.bins_.uncovered.tolist() == [False, True, False, True, False]
    assert cal.map_ == StepMap([], [0.5])


def test_every_bin_holds_its_share(subtests):
    for grid in [None, Grid()]:
        for n, count in [(1000, 10), (999, 10), (101, 7), (21, 10)]:
            with subtests.test(grid=grid, n=n, count=count):
                scores, y = worlds.inflated(n)
                tally = Tally.from_arrays(scores, y, grid=grid)
                cal = HistogramBinning(count).fit_tally(tally)
                assert_consistent(cal, tally)
                ranks = [-(-b * (n + 1) // count) for b in range(1, count)]
                edges = np.sort(scores)[np.array(ranks) - 1]
                if grid is None:
                    assert cal.bins_.knots.tolist() == after(*edges)
                    assert cal.bins_.uncovered.tolist() == [False, True] * (count - 1) + [False]
                    assert cal.bins_.n[~cal.bins_.uncovered].min() >= (n + 1) // count - 1
                    assert cal.bins_.uncovered_rows == count - 1
                else:
                    assert np.isin(grid.lower_edges(grid.codes(edges)), cal.bins_.knots).all()
                    assert np.isin(grid.lower_edges(grid.codes(edges) + 1), cal.bins_.knots).all()


def test_the_original_estimate_counts_the_upper_edge():
    y = [1, 0, 1, 1, 0]
    inner, every = HistogramBinning(2).fit(FIVE, y), HistogramBinning(2, estimate="all").fit(FIVE, y)
    assert inner.bins_.outputs.tolist() == [0.5, 0.5, 0.5]
    assert every.bins_.outputs.tolist() == [2 / 3, 0.5, 0.5]
    assert every.bins_.n.tolist() == inner.bins_.n.tolist()  # the promise rests on the inner rows either way
    assert every.certificate().epsilon > inner.certificate().epsilon


@pytest.mark.parametrize(("rate", "same"), [(0.5, True), (0.02, False)])
def test_plain_means_are_algorithm_1_as_printed_and_the_default_differs_only_in_bins_of_one_class(rate, same):
    """Gupta (2022), Algorithm 1, line by line; 0 and 1 as the outer edges, and a score of 1 in the last bin."""
    rng = np.random.default_rng(5)
    n, count = 211, 10
    s, y = rng.random(n), (rng.random(n) < rate).astype(float)
    order = np.argsort(s)
    ranked, labels = np.array([0.0, *s[order], 1.0]), np.array([np.nan, *y[order]])
    a = [int(np.ceil(b * (n + 1) / count)) for b in range(count + 1)]
    means = np.array([labels[low + 1 : high].mean() for low, high in itertools.pairwise(a)])
    asked = np.array([0.0, *s, *rng.random(500)])  # also scores on edges, which are in the bin above
    printed = means[np.searchsorted(ranked[a[1:-1]], asked, side="right")]
    plain, default = (HistogramBinning(count, extremes=each).fit(s, y) for each in ("mean", "succession"))
    np.testing.assert_array_equal(plain.transform(asked), printed)
    inside = np.diff(a) - 1
    shrunk = np.where(np.isin(means, (0.0, 1.0)), (means * inside + 1) / (inside + 2), means)
    np.testing.assert_allclose(default.transform(asked), shrunk[np.searchsorted(ranked[a[1:-1]], asked, side="right")])
    assert np.array_equal(means, shrunk) == same


@pytest.mark.parametrize(
    ("extremes", "outputs"),
    [("succession", [1 / 4, 3 / 4, 3 / 4]), ("mean", [0.0, 1.0, 1.0])],
    ids=["succession", "mean"],
)
def test_bins_of_one_class(extremes, outputs):
    cal = HistogramBinning(2, extremes=extremes).fit(FIVE, [0, 0, 1, 1, 1])
    assert cal.bins_.outputs.tolist() == outputs
    certificate = cal.certificate()
    np.testing.assert_array_equal(certificate.outputs, outputs)
    assert (certificate.lower[0], certificate.upper[2]) == (0.0, 1.0)
    assert (certificate.half_widths[certificate.covered] <= certificate.epsilon).all()


# ------------------------------------------------------------------------------------------------------------ on a grid

COARSE = Grid(4)
CELLS = [0.40625, 0.421875, 0.4375, 0.453125, 0.46875, 0.484375]  # neighboring cells of 1 / 64, and then 0.5


def on_grid(scores: list[float], y: list[int], count: int, grid: Grid = COARSE, **options: str) -> HistogramBinning:
    tally = Tally.from_arrays(scores, y, grid=grid)
    cal = HistogramBinning(count, **options).fit_tally(tally)
    assert_consistent(cal, tally)
    return cal


LIGHT_CELL = [0.1, 0.2, 0.3, 0.35, 0.422, 0.43, 0.6, 0.7, 0.8, 0.9, 0.95]
LIGHT_Y = [0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1]


def test_an_edge_on_a_grid_is_a_whole_cell():
    """Rank ceil(12 / 2) = 6 is 0.43; with 0.422 it fills the cell [0.421875, 0.4375): two rows, light below 11 / 4."""
    cal = on_grid(LIGHT_CELL, LIGHT_Y, 2)
    assert cal.bins_.knots.tolist() == [0.421875, 0.4375]
    assert (cal.bins_.n.tolist(), cal.bins_.events.tolist()) == ([4, 0, 5], [2, 0, 2])
    assert (cal.bins_.uncovered.tolist(), cal.bins_.uncovered_rows) == ([False, True, False], 2)
    assert cal.map_ == StepMap([0.421875], [1 / 2, 2 / 5])
    assert cal.transform([0.42, 0.4219, 0.437, 0.5]).tolist() == [1 / 2, 2 / 5, 2 / 5, 2 / 5]
    assert cal.certificate().n == 9
    assert "(1 edge, 2 of 11 rows)" in str(cal.certificate())


def test_a_heavy_cell_on_a_grid_is_a_bin():
    cal = on_grid([*LIGHT_CELL[:6], 0.43, *LIGHT_CELL[7:]], LIGHT_Y, 2)
    assert cal.bins_.knots.tolist() == [0.421875, 0.4375]
    assert (cal.bins_.n.tolist(), cal.bins_.events.tolist()) == ([4, 3, 4], [2, 2, 2])
    assert not cal.bins_.uncovered.any()
    assert cal.bins_.outputs.tolist() == [1 / 2, 2 / 3, 1 / 2]
    assert "Not covered" not in str(cal.certificate())


def test_the_original_estimate_on_a_grid():
    """Both rows of a light edge's cell join the bin below; the bin above, and so the edge, stays as it is."""
    cal = on_grid(LIGHT_CELL, LIGHT_Y, 2, estimate="all")
    assert cal.bins_.outputs.tolist() == [4 / 6, 2 / 5, 2 / 5]
    assert cal.bins_.n.tolist() == [4, 0, 5]
    heavy = on_grid([*LIGHT_CELL[:6], 0.43, *LIGHT_CELL[7:]], LIGHT_Y, 2, estimate="all")
    assert heavy.bins_.outputs.tolist() == [1 / 2, 2 / 3, 1 / 2]  # a heavy edge joins nobody


def test_a_heavy_edge_at_score_one(subtests):
    """Rank 4 of 7 is the first of four ones: a bin of its own, with nothing above it."""
    for name, grid in {
        "exact": None,
        "grid": Grid(),
        "coarse": COARSE,
    }.items():
        with subtests.test(name):
            tally = Tally.from_arrays([0.1, 0.2, 0.3, 1.0, 1.0, 1.0, 1.0], [0, 1, 0, 1, 1, 1, 0], grid=grid)
            cal = HistogramBinning(2).fit_tally(tally)
            assert_consistent(cal, tally)
            filled = cal.bins_.n > 0
            assert cal.bins_.n[filled].tolist() == [3, 4]
            assert cal.transform([0.99, 1 - 2.0**-53, 1.0]).tolist() == [1 / 3, 1 / 3, 3 / 4]
            assert cal.certificate().covered.tolist() == filled.tolist()
            if grid is not None:
                assert cal.bins_.knots.tolist() == [1.0]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.301, 0.5, 0.9, 1.0]), st.integers(0, 1)), min_size=2, max_size=60),
    st.integers(1, 30),
    st.sampled_from([None, 0, 4, 10]),
    st.sampled_from(["inner", "all"]),
)
def test_ties_anywhere(rows, count, bits, estimate):
    """No row is lost, and rows lie above every light edge: the last value is heavy whenever an edge falls on it."""
    scores, y = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        tally = Tally.from_arrays(scores, y, score_type="probability", grid=None if bits is None else Grid(bits))
        cal = HistogramBinning(count, estimate=estimate).fit_tally(tally)
    assert_consistent(cal, tally)
    n = tally.partition(cal.bins_.knots)[0]
    for place in np.flatnonzero(cal.bins_.uncovered):
        assert n[place] > 0
        assert n[place + 1 :].sum() > 0
    certificate = cal.certificate()
    assert isinstance(certificate, Certificate)
    assert certificate.n + certificate.uncovered_rows == len(rows)
    assert ((cal.bins_.outputs > 0) & (cal.bins_.outputs < 1)).all()


def test_a_light_edge_with_nothing_above_it_keeps_its_own_rate():
    """Between the edge 0.5 and the heavy 1 lies no row: the edge has no bin to follow."""
    cal = on_grid([0.2, 0.3, 0.5, 1.0, 1.0, 1.0], [0, 1, 0, 1, 0, 1], 3)  # ranks 3 and 5
    assert cal.bins_.knots.tolist() == [0.5, np.nextafter(0.5, 1), 1.0]
    assert cal.bins_.n.tolist() == [2, 0, 0, 3]
    assert cal.bins_.uncovered.tolist() == [False, True, False, False]
    assert cal.bins_.outputs.tolist() == [1 / 2, 1 / 3, 1 / 2, 2 / 3]


def test_neighboring_light_cells_as_edges():
    """Ranks 3, 5, 7 of 9: single rows in cells that touch; between two edges there is one cell."""
    cal = on_grid([*CELLS, 0.5, 0.51], [1, 0, 0, 1, 0, 0, 1, 0], 4)
    assert cal.bins_.knots.tolist() == [0.4375, 0.453125, 0.46875, 0.484375, 0.5, np.nextafter(0.5, 1)]
    assert cal.bins_.n.tolist() == [2, 0, 1, 0, 1, 0, 1]
    assert cal.bins_.uncovered.tolist() == [False, True, False, True, False, True, False]
    assert cal.bins_.outputs.tolist() == [0.5, 2 / 3, 2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3]


def test_edges_that_touch_each_other():
    """Ranks 3, 6, 9: cells of one row, five rows and one row side by side, with nothing between the edges."""
    y = [1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1]
    cal = on_grid([0.1, 0.2, CELLS[1], *[CELLS[2]] * 5, CELLS[3], 0.6, 0.7], y, 4)
    assert cal.bins_.knots.tolist() == [*CELLS[1:4], CELLS[4]]
    assert cal.bins_.n.tolist() == [2, 0, 5, 0, 2]
    assert cal.bins_.uncovered.tolist() == [False, True, False, True, False]
    # the light edge below follows no bin, as an edge is above it: it keeps its own rate; the one above follows
    assert cal.bins_.outputs.tolist() == [1 / 2, 2 / 3, 4 / 5, 1 / 2, 1 / 2]
    assert cal.certificate().covered.tolist() == [True, False, True, False, True]


def test_a_heavy_edge_then_a_light_neighbor():
    """Heavy at the lower rank, light right behind it: the first is promised, the second follows the bin above."""
    y = [0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0]
    cal = on_grid([0.1, 0.2, *[CELLS[1]] * 5, CELLS[2], 0.6, 0.7, 0.8], y, 3)  # ranks 4 and 8
    assert cal.bins_.knots.tolist() == CELLS[1:4]
    assert cal.bins_.n.tolist() == [2, 5, 0, 3]
    assert cal.bins_.uncovered.tolist() == [False, False, True, False]
    assert cal.bins_.outputs.tolist() == [1 / 2, 4 / 5, 1 / 5, 1 / 5]
    every = on_grid([0.1, 0.2, *[CELLS[1]] * 5, CELLS[2], 0.6, 0.7, 0.8], y, 3, estimate="all")
    assert every.bins_.outputs.tolist() == cal.bins_.outputs.tolist()  # below the light edge is an edge, not a bin


def test_no_row_is_lost_between_promised_and_uncovered(subtests):
    for make in [worlds.inflated, worlds.mostly_tied]:
        for estimate in ["inner", "all"]:
            for grid in [None, Grid(), COARSE, Grid(0)]:
                for count in [2, 5, 23]:
                    with subtests.test(make=make, estimate=estimate, grid=grid, count=count):
                        tally = Tally.from_arrays(*make(1000), grid=grid)
                        cal = HistogramBinning(count, estimate=estimate).fit_tally(tally)
                        assert_consistent(cal, tally)
                        certificate = cal.certificate()
                        assert isinstance(certificate, Certificate)
                        assert (certificate.n, certificate.uncovered_rows) == (
                            cal.bins_.n.sum(),
                            cal.bins_.uncovered_rows,
                        )


@pytest.mark.parametrize("grid", [Grid(), COARSE], ids=["grid", "coarse"])
def test_one_row_a_cell_gives_the_bins_of_the_exact_tally(grid):
    """Where no two rows share a cell, the grid changes where an edge begins and nothing else."""
    scores = np.sort(np.unique(grid.lower_edges(grid.codes(worlds.inflated(60)[0]))))
    y = np.arange(len(scores)) % 3 == 0
    exact, gridded = (HistogramBinning(4).fit_tally(Tally.from_arrays(scores, y, grid=g)) for g in (None, grid))
    for name in ("outputs", "n", "events", "uncovered"):
        np.testing.assert_array_equal(getattr(exact.bins_, name), getattr(gridded.bins_, name))
    np.testing.assert_array_equal(exact.bins_.knots[::2], gridded.bins_.knots[::2])


# ----------------------------------------------------------------------------------------------------------------- ties


def test_a_heavy_edge_value_is_a_bin_of_its_own():
    below, above = np.linspace(0.1, 0.4, 50), np.linspace(0.6, 0.9, 50)
    scores = np.concatenate([below, np.full(100, 0.5), above])
    cal = HistogramBinning(4).fit(scores, np.arange(200) % 2)
    # ranks 51, 101, 151: the value 0.5 twice, then the first score above it
    assert cal.bins_.knots.tolist() == after(0.5, above[0])
    assert cal.bins_.n.tolist() == [50, 100, 0, 0, 49]
    assert cal.bins_.uncovered.tolist() == [False, False, False, True, False]
    assert "\n  Not covered: 1 bin without a row." in str(cal.certificate())
    assert cal.certificate().covered.tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(("rows", "own_bin"), [(29, False), (30, True)])
def test_thirty_rows_make_a_value_heavy(rows, own_bin):
    scores = np.concatenate([np.linspace(0.1, 0.4, 60), np.full(rows, 0.5), np.linspace(0.6, 0.9, 60)])
    cal = HistogramBinning(2).fit(scores, np.arange(len(scores)) % 3 == 0)
    assert cal.bins_.knots.tolist() == after(0.5)
    assert cal.bins_.uncovered.tolist() == [False, not own_bin, False]
    assert cal.bins_.n.sum() == 120 + (rows if own_bin else 0)
    assert cal.bins_.uncovered_rows == (0 if own_bin else rows)
    advice = 'Use bins_from="split" or fewer bins to cover them.'
    assert (advice in str(cal.certificate())) == (not own_bin)


def test_a_large_sample_asks_for_more_rows():
    """Heavy from n / (10 B) rows on: 50 of 1,000 in two bins, so 40 tied rows stay a light edge."""
    scores = np.concatenate([np.linspace(0.1, 0.4, 480), np.full(40, 0.5), np.linspace(0.6, 0.9, 480)])
    cal = HistogramBinning(2).fit(scores, np.arange(1000) % 3 == 0)
    assert cal.bins_.uncovered.tolist() == [False, True, False]
    assert "bins_from" not in str(cal.certificate())  # 4 % of the rows


def test_a_light_tied_edge_is_not_covered():
    """Two rows on the edge, fewer than n / 2B = 2.25: they put out what lies above, and nothing is said of them."""
    cal = HistogramBinning(2).fit([0.1, 0.15, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.7], [0, 1, 1, 1, 0, 1, 1, 0, 0])
    assert cal.bins_.knots.tolist() == after(0.3)
    assert cal.bins_.n.tolist() == [3, 0, 4]
    assert (cal.bins_.uncovered.tolist(), cal.bins_.uncovered_rows) == ([False, True, False], 2)
    assert cal.transform([0.29, 0.3, 0.31]).tolist() == [2 / 3, 1 / 2, 1 / 2]


def test_an_edge_value_with_half_a_bins_worth_of_rows_is_a_bin():
    cal = HistogramBinning(2).fit([0.1, 0.2, 0.3, 0.3, 0.3, 0.3], [0, 1, 1, 1, 1, 0])
    assert cal.bins_.n.tolist() == [2, 4, 0]
    assert cal.transform([0.3]).tolist() == [0.75]
    assert cal.certificate().covered.tolist() == [True, True, False]


@pytest.mark.parametrize("pair", [(0.0, 5e-324), (0.7, np.nextafter(0.7, 1))], ids=["at 0", "at 0.7"])
def test_heavy_values_next_to_each_other(pair):
    cal = HistogramBinning(4).fit(np.repeat(pair, 100), np.arange(200) % 4 == 0)
    low, high = cal.transform(list(pair))
    assert (low, high) == (0.25, 0.25)
    assert cal.bins_.n.sum() == 200


def test_only_ties_on_one_value():
    cal = HistogramBinning(5).fit(np.full(100, 0.3), np.arange(100) % 4 == 0)
    assert cal.transform([0.0, 0.3, 1.0]).tolist() == [0.25, 0.25, 0.25]
    assert cal.certificate().n == 100


def test_one_bin_is_the_event_rate():
    cal = HistogramBinning(1).fit(*worlds.inflated(50))
    assert cal.transform([0.2])[0] == worlds.inflated(50)[1].mean()
    assert "in the one bin" in str(cal.certificate())


# --------------------------------------------------------------------------------------------------- how many bins


def test_the_number_of_bins(subtests):
    for options, n, count in [
        ({}, 1000, 5),
        ({}, 5000, 11),
        ({}, 20_000, 22),
        ({}, 500_000, 100),
        ({}, 3, 1),
        ({"points_per_bin": 100}, 1000, 10),
        ({"points_per_bin": 100}, 1099, 10),
        ({"points_per_bin": 5000}, 1000, 1),
        ({"epsilon": 0.08}, 5000, plan(n=5000, epsilon=0.08).n_bins),
        ({"epsilon": 0.08, "alpha": 0.01}, 5000, plan(n=5000, epsilon=0.08, alpha=0.01).n_bins),
        ({"n_bins": 17}, 1000, 17),
    ]:
        with subtests.test(options=options, n=n, count=count):
            bins = HistogramBinning(**options).fit(*worlds.inflated(n)).bins_
            assert (bins.n > 0).sum() == count
            assert bins.uncovered.sum() == count - 1


def test_epsilon_is_kept():
    cal = HistogramBinning(epsilon=0.1, alpha=0.2).fit(*worlds.inflated(4000))
    assert cal.certificate(alpha=0.2).epsilon <= 0.1
    with pytest.raises(InputError, match="epsilon"):
        HistogramBinning(epsilon=0.01).fit(*worlds.inflated(100))


def test_epsilon_with_a_part_plans_for_the_rest():
    cal = HistogramBinning(epsilon=0.1, bins_from="split").fit(*worlds.inflated(4000))
    assert len(cal.bins_.n) == plan(n=4000, epsilon=0.1, scheme="ums").n_bins


def test_the_number_of_bins_comes_from_the_fitted_rows():
    yesterday = Tally.from_arrays(*worlds.inflated(50_000, 5))
    for options, count in (({}, 5), ({"points_per_bin": 100}, 10)):
        assert len(HistogramBinning(**options, bins_from=yesterday).fit(*worlds.inflated(1000)).bins_.n) == count


def test_too_many_bins_are_warned_about():
    with pytest.warns(CalibrantWarning, match="10 rows are too few for 8 bins: 5 are used"):
        cal = HistogramBinning(8).fit(np.arange(10) / 10, np.arange(10) % 2)
    assert (cal.bins_.n > 0).sum() == 5


def test_the_warning_points_at_the_caller():
    with pytest.warns(CalibrantWarning, match="too few") as caught:
        HistogramBinning(8).fit(np.arange(10) / 10, np.arange(10) % 2)
    with pytest.warns(CalibrantWarning, match="too few") as from_tally:
        HistogramBinning(8).fit_tally(Tally.from_arrays(np.arange(10) / 10, np.arange(10) % 2))
    assert {record.filename for record in (*caught, *from_tally)} == {__file__}


WRONG = [
    {"n_bins": 5, "epsilon": 0.1},
    {"n_bins": 5, "points_per_bin": 10},
    {"n_bins": 0},
    {"n_bins": -3},
    {"n_bins": 2.5},
    {"n_bins": 5.0},
    {"n_bins": "5"},
    {"n_bins": np.float64(5)},
    {"points_per_bin": 0},
    {"points_per_bin": 10.5},
    {"points_per_bin": 10, "epsilon": 0.3},
    {"epsilon": 0.0},
    {"epsilon": 1.0},
    {"epsilon": 0.5, "alpha": 0.0},
    {"epsilon": 0.5, "strategy": "width"},
    {"epsilon": 0.5, "bins_from": Tally.from_arrays(*worlds.inflated(100, 7))},
    {"strategy": "width", "bins_from": "split"},
    {"strategy": "width", "bins_from": Tally.from_arrays(*worlds.inflated(100, 7))},
    {"bins_from": "auto"},
    {"bins_from": None},
    {"split_size": 10},
    {"split_size": 0.5, "bins_from": Tally.from_arrays(*worlds.inflated(100, 7))},
    {"strategy": "quantile"},
    {"bins_from": "half"},
    {"estimate": "outer"},
    {"extremes": "zero"},
    {"bins_from": "split", "split_size": 0},
    {"bins_from": "split", "split_size": 100},
    {"bins_from": "split", "split_size": 1.0},
    {"bins_from": "split", "split_size": -5},
]


def test_wrong_options_are_refused(subtests):
    for options in WRONG:
        with subtests.test(options=options), pytest.raises(InputError):
            HistogramBinning(**options).fit(*worlds.inflated(100))


def test_numbers_of_any_whole_type_are_taken():
    for five in (5, np.int64(5), np.uint8(5)):
        assert (HistogramBinning(five).fit(*worlds.inflated(100)).bins_.n > 0).sum() == 5


def test_the_very_rows_are_no_other_tally():
    tally = Tally.from_arrays(*worlds.inflated(100))
    with pytest.raises(InputError, match="contains the rows"):
        HistogramBinning(4, bins_from=tally).fit_tally(tally)


def test_a_table_has_its_number_of_bins_already(subtests):
    for options in [{"n_bins": 2}, {"points_per_bin": 10}, {"epsilon": 0.4}]:
        with subtests.test(options=options):
            table = Tally.from_table([100, 200, 300], [0, 50, 200], edges=[0.3, 0.6])
            with pytest.raises(InputError, match="a tally that already has bins"):
                HistogramBinning(**options).fit_tally(table)


# ------------------------------------------------------------------------------------------------ equal widths, tables


@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
def test_equal_widths_close_the_last_bin(grid):
    scores = [0.0, 0.2, 0.25, 0.3, 0.5, 0.75, 0.8, 1.0]
    tally = Tally.from_arrays(scores, [0, 1, 0, 1, 1, 0, 1, 1], grid=grid)
    cal = HistogramBinning(4, strategy="width").fit_tally(tally)
    assert cal.bins_.n.tolist() == ([2, 2, 1, 3] if grid is None else cal.bins_.n.tolist())
    assert cal.bins_.n.sum() == 8
    assert cal.transform([1.0])[0] == cal.bins_.outputs[-1]
    assert not cal.bins_.uncovered.any()
    assert cal.bins_.uncovered_rows == 0
    np.testing.assert_allclose(cal.bins_.knots, [0.25, 0.5, 0.75], atol=1e-3)


def test_equal_widths_with_empty_bins_lose_no_row(subtests):
    for grid in [None, Grid()]:
        for weights in [None, "frequency", "importance"]:
            with subtests.test(grid=grid, weights=weights):
                scores, y = worlds.inflated(300)
                given = (
                    {} if weights is None else {"sample_weight": np.full(300, 2), "weight_type": weights}
                )  # whole: repetition
                tally = Tally.from_arrays(0.2 + 0.3 * scores, y, grid=grid, **given)
                cal = HistogramBinning(10, strategy="width").fit_tally(tally)
                assert cal.bins_.n.sum() == pytest.approx(tally.total)
                assert cal.bins_.events.sum() / cal.bins_.n.sum() == pytest.approx(tally.positives / tally.total)
                assert cal.bins_.n[0] == cal.bins_.n[-1] == 0
                filled = cal.bins_.outputs[cal.bins_.n > 0]
                assert (cal.bins_.outputs[0], cal.bins_.outputs[-1]) == (filled[0], filled[-1])


def test_an_empty_bin_between_takes_its_neighbors_pooled():
    tally = Tally.from_table([10, 0, 30], [1, 0, 15], edges=[0.3, 0.6])
    cal = HistogramBinning().fit_tally(tally)
    assert cal.bins_.outputs.tolist() == [0.1, 16 / 40, 0.5]


def test_a_table_keeps_its_own_bins():
    table = Tally.from_table([100, 200, 300], [0, 50, 200], edges=[0.3, 0.6])
    cal = HistogramBinning().fit_tally(table)
    assert cal.bins_.knots.tolist() == [0.3, 0.6]
    assert cal.bins_.outputs.tolist() == [1 / 102, 0.25, 2 / 3]
    assert cal.transform([0.3, 0.59, 0.6, 1.0]).tolist() == [0.25, 0.25, 2 / 3, 2 / 3]
    assert isinstance(cal.certificate(), Certificate)
    assert cal.certificate().n == 600
    weighted_by_another = HistogramBinning(bins_from=Tally.from_arrays(*worlds.inflated(100)))
    assert weighted_by_another.fit_tally(table).bins_.knots.tolist() == [0.3, 0.6]


# ------------------------------------------------------------------------------------------------- edges from elsewhere


def test_bins_from_a_part(subtests):
    for make in [worlds.inflated, worlds.mostly_tied]:
        for grid in [None, Grid()]:
            with subtests.test(make=make, grid=grid):
                tally = Tally.from_arrays(*make(2000), grid=grid)
                cal = HistogramBinning(10, bins_from="split").fit_tally(tally)
                assert cal.bins_.n.sum() == 2000 - split_size(2000, 10)
                assert not cal.bins_.uncovered.any()
                assert cal.bins_.uncovered_rows == 0
                assert cal.bins_.rule is BinRule.PART_MASSES
                assert "random split of" in cal.bins_.origin
                assert len(cal.bins_.n) >= 9 if make is worlds.inflated else len(cal.bins_.n) >= 4
                if make is worlds.mostly_tied:
                    for value in (0.8, 0.9, 0.95):
                        assert ((cal.map_.knots > value - 0.01) & (cal.map_.knots <= value)).any()


def test_the_size_of_the_part(subtests):
    for size, rows in [(50, 50), (0.1, 200), (np.int64(50), 50), (np.float64(0.1), 200)]:
        with subtests.test(size=size, rows=rows):
            cal = HistogramBinning(5, bins_from="split", split_size=size).fit(*worlds.inflated(2000))
            assert cal.bins_.n.sum() == 2000 - rows


def test_the_part_is_drawn_afresh_unless_there_is_a_seed():
    fits = [HistogramBinning(5, bins_from="split").fit(*worlds.inflated(2000)) for _ in range(2)]
    assert fits[0].map_ != fits[1].map_
    for seed in (None, 0):
        cal = HistogramBinning(5, bins_from="split", random_state=seed).fit(*worlds.inflated(2000))
        assert "neither it nor its seed was chosen by its result" in str(cal.certificate())


def test_random_state_draws_the_part():
    fits = [HistogramBinning(5, bins_from="split", random_state=seed).fit(*worlds.inflated(2000)) for seed in (0, 0, 1)]
    assert fits[0].map_ == fits[1].map_
    assert fits[0].map_ != fits[2].map_


@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
def test_bins_from_yesterday_use_all_of_today(grid):
    yesterday = Tally.from_arrays(*worlds.inflated(3000, 5), grid=grid)
    cal = HistogramBinning(6, bins_from=yesterday).fit(*worlds.inflated(1000))
    assert cal.bins_.n.tolist() == Tally.from_arrays(*worlds.inflated(1000)).partition(cal.bins_.knots)[0].tolist()
    assert cal.bins_.n.sum() == 1000
    assert len(cal.bins_.n) == 6
    shares = yesterday.partition(cal.bins_.knots)[0] / 3000
    assert np.abs(shares - 1 / 6).max() < 0.03


def test_edges_that_cut_todays_cells_are_refused():
    yesterday, today = (
        Tally.from_arrays(*worlds.inflated(500, 5)),
        Tally.from_arrays(*worlds.inflated(500), grid=Grid()),
    )
    with pytest.raises(InputError, match="inside a cell"):
        HistogramBinning(5, bins_from=yesterday).fit_tally(today)
    with pytest.raises(InputError, match="logit"):
        HistogramBinning(5, bins_from=Tally.from_arrays([-1.0, 2.0], [0, 1], score_type="logit")).fit(
            *worlds.inflated(100)
        )


def test_importance_weights_balance_the_weight_and_promise_nothing():
    scores, y = worlds.inflated(1000)
    cal = HistogramBinning(4).fit(scores, y, np.where(scores < 0.5, 3.5, 1.25))
    total = cal.bins_.n.sum()
    assert len(cal.bins_.n) == 4
    assert np.abs(cal.bins_.n / total - 0.25).max() < 0.01
    assert isinstance(cal.certificate(), NoCertificate)


def test_whole_importance_weights_repeat_rows_and_promise_nothing():
    scores, y = worlds.inflated(1000)
    weight = np.where(scores < 0.5, 3.0, 1.0)
    cal = HistogramBinning(4).fit(scores, y, weight)
    assert cal.map_ == HistogramBinning(4).fit(scores, y, weight, weight_type="frequency").map_
    assert "importance" in str(cal.certificate())


# -------------------------------------------------------------------------------------------------------- certificates


def test_bins_that_were_cut_back_carry_no_promise_for_ever():
    few = Tally.from_arrays(np.arange(15) / 15, [0, 1, 0] * 5)
    with pytest.warns(CalibrantWarning, match="too few for 10 bins"):
        cut_back = HistogramBinning(10, strategy="width").fit_tally(few)
    assert isinstance(cut_back.certificate(interval="always-valid"), NoCertificate)
    assert isinstance(cut_back.certificate(), Certificate)


def test_where_the_bins_come_from_is_said():
    tally, table = Tally.from_arrays(*worlds.inflated(1000)), Tally.from_table([100, 200], [10, 50], edges=[0.3])
    own = HistogramBinning(4).fit_tally(tally)
    part = HistogramBinning(4, bins_from="split", random_state=1).fit_tally(tally)
    width = HistogramBinning(4, strategy="width").fit_tally(tally)
    other = HistogramBinning(4, bins_from=Tally.from_arrays(*worlds.inflated(500, 8))).fit_tally(tally)
    users = HistogramBinning().fit_tally(table)
    assert [cal.bins_.fixed for cal in (own, part, width, other, users)] == [False, False, True, True, True]
    for cal in (own, part):
        assert isinstance(cal.certificate(interval="always-valid"), NoCertificate)
    for cal in (width, other, users):
        assert isinstance(cal.certificate(interval="always-valid"), Certificate)
    later = {"strategy": "width"}, {"bins_from": other.bins_from}, {"strategy": "width", "points_per_bin": 50}
    for options in later:  # the number of bins follows that of the rows, and is another one at the next look
        cal = HistogramBinning(**options).fit_tally(tally)
        assert isinstance(cal.certificate(interval="always-valid"), NoCertificate)
        assert isinstance(cal.certificate(), Certificate)
    assumed = [None, Assumption.ONE_DRAW, None, Assumption.OTHER_ROWS, Assumption.BINS_BEFORE]
    for cal, assumption in zip((own, part, width, other, users), assumed, strict=True):
        assert cal.bins_.assumption is assumption
        assert (assumption.words() if assumption else "") in str(cal.certificate()).splitlines()[-1]
        assert str(cal.bins_.source) in str(cal.certificate()).splitlines()[1]


def test_a_calibrators_own_alpha(tmp_path, subtests):
    for alpha, percent in [(0.01, "99 %"), (0.1, "90 %"), (0.05, "95 %")]:
        with subtests.test(alpha=alpha, percent=percent):
            cal = HistogramBinning(4, alpha=alpha).fit(*worlds.inflated(1000))
            assert cal.certificate().alpha == alpha
            assert percent in str(cal.certificate())
            assert percent in str(cal)
            assert cal.calibration_.certificate.alpha == alpha
            cal.save(tmp_path / "cal.json")
            assert load(tmp_path / "cal.json").certificate.alpha == alpha
            assert cal.certificate(0.2).alpha == cal.certificate(alpha=0.2).alpha == 0.2
            with pytest.raises(InputError, match="alpha"):
                cal.certificate(0.0)


def test_an_alpha_that_is_none_is_refused(subtests):
    for alpha in [0.0, 1.0, -0.1, 2.0]:
        with subtests.test(alpha=alpha), pytest.raises(InputError, match="alpha"):
            HistogramBinning(4, alpha=alpha).fit(*worlds.inflated(1000)).certificate()


def test_a_certificate_is_about_its_map():
    for make in (worlds.inflated, worlds.mostly_tied):
        for grid in (None, Grid(), COARSE):
            cal = HistogramBinning(7).fit_tally(Tally.from_arrays(*make(1000), grid=grid))
            certificate = cal.certificate()
            assert StepMap(certificate.about.knots, certificate.outputs).merged() == cal.map_
            assert Calibration(cal.map_, cal.provenance_, certificate).certificate is certificate
            other = HistogramBinning(3).fit(*make(1000))
            with pytest.raises(ValueError, match="not about this map"):
                Calibration(other.map_, cal.provenance_, certificate)


# ---------------------------------------------------------------------------------------------------------- other kinds


def test_real_scores_have_open_ends(subtests):
    for kind in ["logit", "real"]:
        for bins_from in ["all", "split"]:
            with subtests.test(kind=kind, bins_from=bins_from):
                rng = np.random.default_rng(6)
                z = rng.normal(size=1000)
                cal = HistogramBinning(5, bins_from=bins_from).fit(
                    z, rng.random(1000) < 1 / (1 + np.exp(-z)), score_type=kind
                )
                assert cal.transform([-1e300, 1e300]).tolist() == [cal.bins_.outputs[0], cal.bins_.outputs[-1]]
                with pytest.raises(InputError, match="width"):
                    HistogramBinning(5, strategy="width").fit(z, z > 0, score_type=kind)


def test_gridded_logits(subtests, full_size):
    for span in [(-10.3, 11.7), (-12.3, 11.1), (-7.0, 9.0), (-1e3, 1e3)]:
        for seed in range(5 if full_size else 2):
            with subtests.test(span=span, seed=seed):
                rng = np.random.default_rng(seed)
                z = np.clip(rng.normal(size=2000) * 2, -6.9, 8.9)
                tally = Tally.from_arrays(
                    z, rng.random(2000) < 1 / (1 + np.exp(-z)), score_type="logit", grid=Grid(10, *span)
                )
                cal = HistogramBinning(8, bins_from="split").fit_tally(tally)
                assert cal.bins_.n.sum() == 2000 - split_size(2000, 8)
                assert_consistent(HistogramBinning(8).fit_tally(tally), tally)


def test_the_printout_says_when_bins_fall():
    falling = HistogramBinning(2).fit(FIVE, [1, 1, 0, 0, 0])
    assert "outputs decrease once as the score increases" in str(falling)
    assert "2 bins from equal masses of the rows themselves, 2 rows each" in str(falling)
    twice = HistogramBinning(3).fit(np.arange(1, 9) / 10, [1, 1, 0, 0, 1, 0, 0, 0])
    assert "outputs decrease 2 times" in str(twice)
    assert "fall" not in str(HistogramBinning(2).fit(FIVE, [0, 0, 0, 1, 1])).split("\n")[1]


# ------------------------------------------------------------------------------------- bins from another tally, or not


def test_a_copy_of_the_same_rows_may_not_choose_the_bins(subtests):
    """Equal content in another object: the rows in another order, tallied again."""
    for decimals in [None, 3, 1]:
        for grid in [None, Grid(bits=4)]:
            with subtests.test(decimals=decimals, grid=grid):
                scores, y = worlds.calibrated(2000, [31, 0], decimals=decimals)
                copy, rows = (
                    Tally.from_arrays(scores[::-1], y[::-1], grid=grid),
                    Tally.from_arrays(scores, y, grid=grid),
                )
                with pytest.raises(InputError, match="bins_from contains the rows that are fitted"):
                    HistogramBinning(5, bins_from=copy).fit_tally(rows)


def test_the_same_scores_with_other_labels_may_not_choose_the_bins():
    """The edges look at scores alone, so labels that are not known yet are no excuse."""
    scores, y = worlds.calibrated(2000, [31, 0])
    copy = Tally.from_arrays(scores, 1 - y)
    with pytest.raises(InputError, match="bins_from contains the rows that are fitted"):
        HistogramBinning(5, bins_from=copy).fit(scores, y)


def test_the_same_rows_on_a_grid_are_known_again():
    scores, y = worlds.calibrated(2000, [31, 0])
    copy = Tally.from_arrays(scores, y, grid=Grid(bits=4))
    with pytest.raises(InputError, match="bins_from contains the rows that are fitted"):
        HistogramBinning(5, bins_from=copy).fit(scores, y)


def test_rows_that_also_chose_the_bins_carry_no_certificate(subtests):
    for name, chosen_by in {
        "more rows": slice(0, 3000),
        "half of them": slice(0, 1000),
        "half of others": slice(1000, 3000),
    }.items():
        with subtests.test(name):
            scores, y = worlds.calibrated(3000, [31, 0])
            cal = HistogramBinning(5, bins_from=Tally.from_arrays(scores[chosen_by], y[chosen_by]))
            answer = cal.fit(scores[:2000], y[:2000]).certificate()
            assert isinstance(answer, NoCertificate)
            assert "of the rows are also in bins_from" in str(answer)


def test_other_rows_of_the_same_population_may_choose_the_bins(subtests):
    for decimals in [None, 3, 1]:
        for n in [20, 2000]:
            with subtests.test(decimals=decimals, n=n):
                for seed in range(10):
                    yesterday = Tally.from_arrays(*worlds.calibrated(n, 2 * seed, decimals=decimals))
                    cal = HistogramBinning(3, bins_from=yesterday).fit(
                        *worlds.calibrated(n, 2 * seed + 1, decimals=decimals)
                    )
                    assert isinstance(cal.certificate(), Certificate)


def test_few_outcomes_that_agree_by_chance_are_no_copy():
    """Ten rows a day on one score, three events: tomorrow may well be the same."""
    today, yesterday = (Tally.from_arrays([0.4] * 10, [1] * 3 + [0] * 7) for _ in range(2))
    assert isinstance(HistogramBinning(bins_from=yesterday).fit_tally(today).certificate(), Certificate)


def test_bins_from_another_tally_of_any_sort(subtests):
    """Grids of different ranges, tables and weights cannot be compared with the rows: nothing is refused or broken."""
    for weights in [None, "frequency", "importance"]:
        for kind in ["logit", "real"]:
            with subtests.test(weights=weights, kind=kind):
                scores, y = worlds.calibrated(500, [31, 1])
                w = None if weights is None else np.random.default_rng(0).integers(1, 4, 500)
                options = {} if weights is None else {"weight_type": weights}
                others = [
                    Tally.from_arrays(scores * 3, y, w, score_type=kind, **options),
                    Tally.from_arrays(scores * 3, y, w, score_type=kind, grid=Grid(4, -5, 5), **options),
                    Tally.from_table([100, 100], [20, 70], edges=[1.0], score_type=kind),
                ]
                rows = Tally.from_arrays(*worlds.calibrated(500, [31, 2]), score_type=kind, grid=None)
                for other in others:
                    assert isinstance(HistogramBinning(3, bins_from=other).fit_tally(rows).certificate(), Certificate)
