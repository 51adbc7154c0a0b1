"""Bins: who belongs where, empty bins, weights, and one answer whichever way the rows come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.maps import StepMap
from calibrant.messages import InputError
from calibrant.metrics.binary.bins import Bins, tally_of
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")

row_lists = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=50)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores, y, times = np.array(rows).T
    return scores / 30, y, times


def assert_same(a: Bins, b: Bins) -> None:
    for column in ("edges", "n", "events", "score_sum"):
        np.testing.assert_allclose(getattr(a, column), getattr(b, column), rtol=1e-12, atol=1e-12, err_msg=column)


def test_a_score_on_an_edge_belongs_to_the_bin_below_and_zero_to_the_first() -> None:
    bins = Bins.of([0.0, 0.1, 0.2, 0.5, 1.0], [0, 1, 0, 1, 1], n_bins=10)
    assert bins.n.tolist() == [2, 1, 0, 0, 1, 0, 0, 0, 0, 1]
    assert bins.events.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert bins.n.dtype == np.int64


def test_empty_bins_show_their_midpoint_and_no_error() -> None:
    bins = Bins.of([0.1, 0.1], [0, 1], n_bins=4)
    assert bins.mean_score.tolist() == [0.1, 0.375, 0.625, 0.875]
    assert bins.rate.tolist() == [0.5, 0.375, 0.625, 0.875]
    assert (bins.share.tolist(), bins.total, len(bins)) == ([1.0, 0.0, 0.0, 0.0], 2.0, 4)


@given(row_lists, st.integers(1, 12))
def test_rows_and_their_tally_give_the_same_bins(rows: list[tuple[int, int, int]], n_bins: int) -> None:
    scores, y, times = columns(rows)
    for weights in (None, times, times / 3):
        direct = Bins.of(scores, y, weights, n_bins=n_bins)
        by_tally = Bins.of(Tally.from_arrays(scores, y, weights, score_type="probability"), n_bins=n_bins)
        assert_same(direct, by_tally)
        np.testing.assert_allclose(direct.effective_n, by_tally.effective_n, rtol=1e-12)


@given(row_lists, st.sampled_from(["width", "mass", "distinct", "auto"]))
def test_whole_weights_mean_repetition(rows: list[tuple[int, int, int]], strategy: str) -> None:
    scores, y, times = columns(rows)
    weighted = Bins.of(scores, y, times, n_bins=5, strategy=strategy)
    repeated = Bins.of(np.repeat(scores, times), np.repeat(y, times), n_bins=5, strategy=strategy)
    assert_same(weighted, repeated)
    counted = Tally.from_arrays(scores, y, times, weight_type="frequency", score_type="probability")
    assert_same(Bins.of(counted, n_bins=5, strategy=strategy), repeated)


@given(row_lists, st.integers(1, 8))
def test_equal_mass_never_splits_a_score_and_leaves_no_bin_empty(rows: list[tuple[int, int, int]], b: int) -> None:
    scores, y, _ = columns(rows)
    bins = Bins.of(scores, y, n_bins=b, strategy="mass")
    assert 1 <= len(bins) <= b
    assert (bins.n > 0).all()
    assert bins.n.sum() == len(scores)
    index = np.searchsorted(bins.edges, scores, side="right")
    assert np.bincount(index, minlength=len(bins)).tolist() == bins.n.tolist()
    largest = np.unique(scores, return_counts=True)[1].max()
    assert bins.n.max() <= len(scores) / b + largest


def test_equal_mass_of_untied_scores_is_equal() -> None:
    scores = np.random.default_rng(0).random(1_000)
    assert Bins.of(scores, scores > 0.5, n_bins=10, strategy="mass").n.tolist() == [100] * 10


def test_auto_takes_distinct_scores_when_each_has_fifty_rows() -> None:
    scores, y = np.repeat([0.1, 0.5, 0.9], 50), np.arange(150) % 2
    assert Bins.of(scores, y, n_bins=2, strategy="auto").n.tolist() == [50, 50, 50]
    assert Bins.of(scores[1:], y[1:], n_bins=2, strategy="auto").n.tolist() == [99, 50]


def test_weights_count_by_their_effective_size() -> None:
    bins = Bins.of([0.1, 0.1, 0.9], [0, 1, 1], [1.0, 3.0, 2.5], n_bins=2)
    assert bins.effective_n == pytest.approx([16 / 10, 1.0])
    assert bins.rate == pytest.approx([0.75, 1.0])
    assert Bins.of([0.1, 0.1, 0.9], [0, 1, 1], n_bins=2).effective_n.tolist() == [2.0, 1.0]


def test_a_grid_puts_a_heap_on_an_edge_where_the_rows_are() -> None:
    scores = np.repeat(np.arange(1, 15) / 15, 20)
    y = np.arange(280) % 2
    gridded = Tally.from_arrays(scores, y, grid=Grid())
    assert Bins.of(gridded).n.tolist() == Bins.of(scores, y).n.tolist()


def test_a_users_table_keeps_its_bins() -> None:
    tally = Tally.from_table([10, 0, 30], [1, 0, 20], edges=[0.2, 0.6], scores=[0.1, 0.4, 0.7])
    assert Bins.of(tally, edges=[0.2, 0.6]).n.tolist() == [10, 0, 30]
    assert Bins.of(tally, strategy="distinct").n.tolist() == [10, 30]
    bare = Tally.from_table([10, 30], [1, 20], edges=[0.2])
    with pytest.raises(InputError, match="no mean scores"):
        Bins.of(bare)


def test_edges_may_be_a_step_map() -> None:
    scores, y = [0.1, 0.5, 0.6, 0.9], [0, 1, 0, 1]
    assert Bins.of(scores, y, edges=StepMap([0.5, 0.9], [0.1, 0.5, 0.9])).n.tolist() == [1, 2, 1]
    assert Bins.of(scores, y, edges=[]).n.tolist() == [4]


def test_bad_edges_are_refused(subtests) -> None:
    for edges in [[0.0, 0.5], [0.5, 0.5], [0.7, 0.3], [0.5, 1.2], [[0.5]], [np.nan]]:
        with subtests.test(edges=edges), pytest.raises(InputError, match="edges must be"):
            Bins.of([0.2, 0.8], [0, 1], edges=edges)


def test_what_cannot_be_binned_is_refused() -> None:
    tally = Tally.from_arrays([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="holds its labels"):
        tally_of(tally, [0, 1])
    with pytest.raises(InputError, match="y is missing"):
        tally_of([0.2, 0.8])
    with pytest.raises(InputError, match="need probabilities"):
        Bins.of([-300.0, 850.0], [0, 1])
    with pytest.raises(InputError, match="empty"):
        Bins.of(Tally.from_table([0, 0], [0, 0], edges=[0.5]))
    for wrong in (0, 2.5, True):
        with pytest.raises(InputError, match="n_bins"):
            Bins.of([0.2, 0.8], [0, 1], n_bins=wrong)
    with pytest.raises(InputError, match="strategy"):
        Bins.of([0.2, 0.8], [0, 1], strategy="even")  # type: ignore[arg-type]
