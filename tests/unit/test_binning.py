"""Histogram binning: Algorithm 4.1 worked by hand, ties, parts, tables, and how many bins."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.arrays import CalibrantWarning, InputError
from calibrant.calibrators.binning import HistogramBinning
from calibrant.guarantees.certificates import Certificate, Refusal
from calibrant.guarantees.planning import plan, split_size
from calibrant.numerics import Grid
from calibrant.tallies import Tally

FIVE = [0.1, 0.2, 0.3, 0.4, 0.5]


def continuous(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**2).astype(int)


def heaped(n: int = 1000, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Four fifths of the rows on three values."""
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(n) < 0.8, rng.choice([0.8, 0.9, 0.95], n), rng.random(n))
    return scores, (rng.random(n) < scores).astype(int)


# ------------------------------------------------------------------------------------------------ Algorithm 4.1 by hand


def test_two_bins_of_five_rows():
    """The edge is the row of rank ceil(6 / 2) = 3; it takes no part in the rates and falls to the right."""
    cal = HistogramBinning(2).fit(FIVE, [1, 0, 1, 0, 1])
    assert cal.bins_.knots.tolist() == [0.3]
    assert (cal.bins_.n.tolist(), cal.bins_.events.tolist()) == ([2, 2], [1, 1])
    assert cal.bins_.edge_open.tolist() == [False, True]
    assert cal.transform([0.0, 0.29, 0.3, 1.0]).tolist() == [0.5, 0.5, 0.5, 0.5]
    certificate = cal.certificate()
    assert certificate.n == 4
    assert "(1 value) are not covered" in str(certificate)


def test_three_bins_of_eight_rows():
    """Ranks ceil(9 / 3) = 3 and ceil(18 / 3) = 6."""
    cal = HistogramBinning(3).fit(np.arange(1, 9) / 10, [1, 0, 0, 0, 1, 1, 1, 0])
    assert cal.bins_.knots.tolist() == [0.3, 0.6]
    assert (cal.bins_.n.tolist(), cal.bins_.events.tolist()) == ([2, 2, 2], [1, 1, 1])


@pytest.mark.parametrize(("n", "count"), [(1000, 10), (999, 10), (101, 7), (21, 10)])
def test_every_bin_holds_its_share(n, count):
    cal = HistogramBinning(count).fit(*continuous(n))
    ranks = [-(-b * (n + 1) // count) for b in range(1, count)]
    assert cal.bins_.knots.tolist() == np.sort(continuous(n)[0])[np.array(ranks) - 1].tolist()
    assert cal.bins_.n.sum() == n - (count - 1)
    assert cal.bins_.n.min() >= (n + 1) // count - 1


def test_the_original_estimate_counts_the_upper_edge():
    y = [1, 0, 1, 1, 0]
    inner, every = HistogramBinning(2).fit(FIVE, y), HistogramBinning(2, estimate="all").fit(FIVE, y)
    assert inner.bins_.outputs.tolist() == [0.5, 0.5]
    assert every.bins_.outputs.tolist() == [2 / 3, 0.5]
    assert every.bins_.n.tolist() == inner.bins_.n.tolist()  # the promise rests on the inner rows either way
    assert every.certificate().epsilon > inner.certificate().epsilon


@pytest.mark.parametrize(
    ("extremes", "outputs"), [("succession", [1 / 4, 3 / 4]), ("mean", [0.0, 1.0])], ids=["succession", "mean"]
)
def test_bins_of_one_class(extremes, outputs):
    cal = HistogramBinning(2, extremes=extremes).fit(FIVE, [0, 0, 1, 1, 1])
    assert cal.bins_.outputs.tolist() == outputs
    certificate = cal.certificate()
    np.testing.assert_array_equal(certificate.outputs, outputs)
    assert (certificate.lower[0], certificate.upper[1]) == (0.0, 1.0)
    assert (certificate.half_widths <= certificate.epsilon).all()


# ----------------------------------------------------------------------------------------------------------------- ties


def test_a_heavy_edge_value_is_a_bin_of_its_own():
    below, above = np.linspace(0.1, 0.4, 50), np.linspace(0.6, 0.9, 50)
    scores = np.concatenate([below, np.full(100, 0.5), above])
    cal = HistogramBinning(4).fit(scores, np.arange(200) % 2)
    # ranks 51, 101, 151: the value 0.5 twice, then the first score above it
    assert cal.bins_.knots.tolist() == [0.5, np.nextafter(0.5, 1), above[0]]
    assert cal.bins_.n.tolist() == [50, 100, 0, 49]
    assert cal.bins_.edge_open.tolist() == [False, False, False, True]
    assert "Nothing is promised where no row fell (1 bin)" in str(cal.certificate())
    assert cal.certificate().promised.tolist() == [True, True, False, True]


@pytest.mark.parametrize(("rows", "own_bin"), [(29, False), (30, True)])
def test_thirty_rows_make_a_value_heavy(rows, own_bin):
    scores = np.concatenate([np.linspace(0.1, 0.4, 60), np.full(rows, 0.5), np.linspace(0.6, 0.9, 60)])
    cal = HistogramBinning(2).fit(scores, np.arange(len(scores)) % 3 == 0)
    assert cal.bins_.knots.tolist() == ([0.5, np.nextafter(0.5, 1)] if own_bin else [0.5])
    assert cal.bins_.edge_open.tolist() == ([False, False, False] if own_bin else [False, True])
    assert cal.bins_.n.sum() == 120 + (rows if own_bin else 0)


def test_a_large_sample_asks_for_more_rows():
    """Heavy from n / (10 B) rows on: 50 of 1,000 in two bins, so 40 tied rows stay a light edge."""
    scores = np.concatenate([np.linspace(0.1, 0.4, 480), np.full(40, 0.5), np.linspace(0.6, 0.9, 480)])
    assert HistogramBinning(2).fit(scores, np.arange(1000) % 3 == 0).bins_.edge_open.tolist() == [False, True]


def test_a_light_tied_edge_is_open():
    """Three rows on the edge, fewer than n / B - 1 = 3.5: they fall to the right and nothing is said about them."""
    cal = HistogramBinning(2).fit([0.1, 0.15, 0.2, 0.3, 0.3, 0.3, 0.4, 0.5, 0.6], [0, 1, 1, 1, 0, 1, 1, 0, 1])
    assert cal.bins_.knots.tolist() == [0.3]
    assert cal.bins_.n.tolist() == [3, 3]
    assert cal.bins_.edge_open.tolist() == [False, True]
    assert cal.transform([0.3])[0] == 2 / 3


def test_an_edge_value_with_a_bins_worth_of_rows_is_a_bin():
    cal = HistogramBinning(2).fit([0.1, 0.2, 0.3, 0.3, 0.3, 0.3], [0, 1, 1, 1, 1, 0])
    assert cal.bins_.n.tolist() == [2, 4, 0]
    assert cal.transform([0.3]).tolist() == [0.75]
    assert cal.certificate().promised.tolist() == [True, True, False]


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
    cal = HistogramBinning(1).fit(*continuous(50))
    assert cal.transform([0.2])[0] == continuous(50)[1].mean()
    assert "in the one bin" in str(cal.certificate())


# --------------------------------------------------------------------------------------------------- how many bins


@pytest.mark.parametrize(
    ("options", "n", "count"),
    [
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
    ],
    ids=str,
)
def test_the_number_of_bins(options, n, count):
    assert len(HistogramBinning(**options).fit(*continuous(n)).bins_.n) == count


def test_epsilon_is_kept():
    cal = HistogramBinning(epsilon=0.1, alpha=0.2).fit(*continuous(4000))
    assert cal.certificate(alpha=0.2).epsilon <= 0.1
    with pytest.raises(InputError, match="epsilon"):
        HistogramBinning(epsilon=0.01).fit(*continuous(100))


def test_epsilon_with_a_part_plans_for_the_rest():
    cal = HistogramBinning(epsilon=0.1, bins_from="part").fit(*continuous(4000))
    assert len(cal.bins_.n) == plan(n=4000, epsilon=0.1, scheme="ums").n_bins


def test_too_many_bins_are_warned_about():
    with pytest.warns(CalibrantWarning, match="10 rows are too few for 8 bins: 5 are used"):
        cal = HistogramBinning(8).fit(np.arange(10) / 10, np.arange(10) % 2)
    assert len(cal.bins_.n) == 5


WRONG = [
    {"n_bins": 5, "epsilon": 0.1},
    {"n_bins": 5, "points_per_bin": 10},
    {"n_bins": 0},
    {"points_per_bin": 0},
    {"strategy": "quantile"},
    {"bins_from": "half"},
    {"estimate": "outer"},
    {"extremes": "zero"},
    {"bins_from": "part", "part_size": 0},
    {"bins_from": "part", "part_size": 100},
    {"bins_from": "part", "part_size": 1.0},
    {"bins_from": "part", "part_size": -5},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_options_are_refused(options):
    with pytest.raises(InputError):
        HistogramBinning(**options).fit(*continuous(100))


# ------------------------------------------------------------------------------------------------ equal widths, tables


@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
def test_equal_widths_close_the_last_bin(grid):
    scores = [0.0, 0.2, 0.25, 0.3, 0.5, 0.75, 0.8, 1.0]
    tally = Tally.from_arrays(scores, [0, 1, 0, 1, 1, 0, 1, 1], grid=grid)
    cal = HistogramBinning(4, strategy="width").fit_tally(tally)
    assert cal.bins_.n.tolist() == ([2, 2, 1, 3] if grid is None else cal.bins_.n.tolist())
    assert cal.bins_.n.sum() == 8
    assert cal.transform([1.0])[0] == cal.bins_.outputs[-1]
    assert not cal.bins_.edge_open.any()
    np.testing.assert_allclose(cal.bins_.knots, [0.25, 0.5, 0.75], atol=1e-3)


@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
@pytest.mark.parametrize("weights", [None, "counts", "importance"])
def test_equal_widths_with_empty_bins_lose_no_row(grid, weights):
    scores, y = continuous(300)
    given = {} if weights is None else {"sample_weight": np.full(300, 2), "weights": weights}  # whole: repetition
    tally = Tally.from_arrays(0.2 + 0.3 * scores, y, grid=grid, **given)
    cal = HistogramBinning(10, strategy="width").fit_tally(tally)
    assert cal.bins_.n.sum() == pytest.approx(tally.total)
    assert cal.bins_.events.sum() / cal.bins_.n.sum() == pytest.approx(tally.positives / tally.total)
    assert cal.bins_.n[0] == cal.bins_.n[-1] == 0
    filled = cal.bins_.outputs[cal.bins_.n > 0]
    assert (cal.bins_.outputs[0], cal.bins_.outputs[-1]) == (filled[0], filled[-1])


def test_an_empty_bin_between_takes_its_neighbours_pooled():
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
    weighted_by_another = HistogramBinning(bins_from=Tally.from_arrays(*continuous(100)))
    assert weighted_by_another.fit_tally(table).bins_.knots.tolist() == [0.3, 0.6]


# ------------------------------------------------------------------------------------------------- edges from elsewhere


@pytest.mark.parametrize("make", [continuous, heaped])
@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
def test_bins_from_a_part(make, grid):
    tally = Tally.from_arrays(*make(2000), grid=grid)
    cal = HistogramBinning(10, bins_from="part").fit_tally(tally)
    assert cal.bins_.n.sum() == 2000 - split_size(2000, 10)
    assert not cal.bins_.edge_open.any()
    assert "random part of" in cal.bins_.rule
    assert len(cal.bins_.n) >= 9 if make is continuous else len(cal.bins_.n) >= 4
    if make is heaped:
        for value in (0.8, 0.9, 0.95):
            assert ((cal.map_.knots > value - 0.01) & (cal.map_.knots <= value)).any()


@pytest.mark.parametrize(("size", "rows"), [(50, 50), (0.1, 200), (np.int64(50), 50), (np.float64(0.1), 200)], ids=str)
def test_the_size_of_the_part(size, rows):
    cal = HistogramBinning(5, bins_from="part", part_size=size).fit(*continuous(2000))
    assert cal.bins_.n.sum() == 2000 - rows


def test_random_state_draws_the_part():
    fits = [HistogramBinning(5, bins_from="part", random_state=seed).fit(*continuous(2000)) for seed in (0, 0, 1)]
    assert fits[0].map_ == fits[1].map_
    assert fits[0].map_ != fits[2].map_


@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
def test_bins_from_yesterday_use_all_of_today(grid):
    yesterday = Tally.from_arrays(*continuous(3000, 5), grid=grid)
    cal = HistogramBinning(6, bins_from=yesterday).fit(*continuous(1000))
    assert cal.bins_.n.tolist() == Tally.from_arrays(*continuous(1000)).partition(cal.bins_.knots)[0].tolist()
    assert cal.bins_.n.sum() == 1000
    assert len(cal.bins_.n) == 6
    shares = yesterday.partition(cal.bins_.knots)[0] / 3000
    assert np.abs(shares - 1 / 6).max() < 0.03


def test_edges_that_cut_todays_cells_are_refused():
    yesterday, today = Tally.from_arrays(*continuous(500, 5)), Tally.from_arrays(*continuous(500), grid=Grid())
    with pytest.raises(InputError, match="inside a cell"):
        HistogramBinning(5, bins_from=yesterday).fit_tally(today)
    with pytest.raises(InputError, match="every distinct score"):
        HistogramBinning(5, bins_from="all").fit_tally(today)
    with pytest.raises(InputError, match="logit"):
        HistogramBinning(5, bins_from=Tally.from_arrays([-1.0, 2.0], [0, 1], kind="logit")).fit(*continuous(100))


def test_importance_weights_balance_the_weight_and_promise_nothing():
    scores, y = continuous(1000)
    cal = HistogramBinning(4).fit(scores, y, np.where(scores < 0.5, 3.0, 1.0))
    total = cal.bins_.n.sum()
    assert np.abs(cal.bins_.n / total - 0.25).max() < 0.01
    assert isinstance(cal.certificate(), Refusal)


# ---------------------------------------------------------------------------------------------------------- other kinds


@pytest.mark.parametrize("kind", ["logit", "real"])
@pytest.mark.parametrize("bins_from", ["all", "part"])
def test_real_scores_have_open_ends(kind, bins_from):
    rng = np.random.default_rng(6)
    z = rng.normal(size=1000)
    cal = HistogramBinning(5, bins_from=bins_from).fit(z, rng.random(1000) < 1 / (1 + np.exp(-z)), kind=kind)
    assert cal.transform([-1e300, 1e300]).tolist() == [cal.bins_.outputs[0], cal.bins_.outputs[-1]]
    with pytest.raises(InputError, match="width"):
        HistogramBinning(5, strategy="width").fit(z, z > 0, kind=kind)


@pytest.mark.parametrize("span", [(-10.3, 11.7), (-12.3, 11.1), (-7.0, 9.0), (-1e3, 1e3)], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_gridded_logits(span, seed):
    rng = np.random.default_rng(seed)
    z = np.clip(rng.normal(size=2000) * 2, -6.9, 8.9)
    tally = Tally.from_arrays(z, rng.random(2000) < 1 / (1 + np.exp(-z)), kind="logit", grid=Grid(10, *span))
    cal = HistogramBinning(8).fit_tally(tally)
    assert cal.bins_.n.sum() == 2000 - split_size(2000, 8)


def test_the_printout_says_when_bins_fall():
    falling = HistogramBinning(2).fit(FIVE, [1, 1, 0, 0, 0])
    assert "the outputs fall 1 time as the score rises" in str(falling)
    assert "fall" not in str(HistogramBinning(2).fit(FIVE, [0, 0, 0, 1, 1])).split("\n")[1]
