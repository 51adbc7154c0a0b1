"""Validity curves: the figure of the thesis, the area, and neighbors against their definition."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.messages import InputError
from calibrant.metrics.binary.errors import ece
from calibrant.metrics.binary.validity import neighbor_rate, validity_curve
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")

row_lists = st.lists(st.tuples(st.integers(0, 16), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=30)

FIGURE = np.array([1.5, 2, 8, 16, 17, 19, 22, 29, 39, 71]) / 1_000


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores are sixteenths, so that distances are exact and ties are ties."""
    scores, y, times = np.array(rows).T
    return scores / 16, y, times


def figure() -> Tally:
    """Ten bins of 2,000 rows with the errors that 002 reads off its Figure 4.1a, over and under in turn."""
    means = (np.arange(10) + 0.5) / 10
    rate = means + np.where(np.arange(10) % 2, -1, 1) * np.random.default_rng(0).permutation(FIGURE)
    return Tally.from_table(np.full(10, 2_000), np.rint(2_000 * rate), edges=np.arange(1, 10) / 10, scores=means)


def test_the_figure_of_the_thesis_comes_out() -> None:
    """The ten errors sum to 0.2245, each for a tenth of the rows: ECE 0.02245, which is printed as roughly 0.023."""
    curve = validity_curve(figure(), n_bins=10)
    assert curve.epsilon == pytest.approx(FIGURE, abs=1e-12)
    assert curve.share == pytest.approx(np.arange(1, 11) / 10)
    assert 1.0 - curve.auc == pytest.approx(0.02245, abs=1e-12)
    assert ece(figure(), n_bins=10).value == pytest.approx(0.02245, abs=1e-12)
    assert curve.at([0.04, 0.03]) == pytest.approx([0.9, 0.8]), "as the figure's caption reads it"


def test_the_curve_is_a_right_continuous_step_function() -> None:
    tally = Tally.from_table([900, 100], [270, 60], edges=[0.5], scores=[0.2, 0.8])  # 002 Example 4.1
    curve = validity_curve(tally)
    assert curve.at([0.0, 0.1 - 1e-9, 0.1, 0.2 - 1e-9, 0.2, 1.0]) == pytest.approx([0, 0, 0.9, 0.9, 1, 1])
    assert curve.parts_at([0.05, 0.1, 0.2]) == pytest.approx([0, 0.5, 1])
    assert curve.conditional([0.1, 0.2 - 1e-9, 0.2, 0.9]).tolist() == [0, 0, 1, 1]
    assert float(curve.at(0.15)) == pytest.approx(0.9)


@given(row_lists, st.sampled_from(["width", "mass", "distinct"]), st.integers(1, 20))
def test_the_area_is_one_minus_the_error_with_the_same_bins(
    rows: list[tuple[int, int, int]], strategy: str, n_bins: int
) -> None:
    scores, y, _ = columns(rows)
    curve = validity_curve(scores, y, strategy=strategy, n_bins=n_bins)
    assert curve.auc == pytest.approx(1.0 - ece(scores, y, strategy=strategy, n_bins=n_bins).value, abs=1e-14)
    steps = np.diff(np.append(curve.epsilon, 1.0))
    assert (curve.share * steps).sum() == pytest.approx(curve.auc, abs=1e-12)
    grid = np.linspace(0, 1, 101)
    assert (curve.conditional(grid) <= curve.at(grid)).all()
    assert (curve.conditional(grid) <= curve.parts_at(grid)).all()


def slowly(scores: np.ndarray, y: np.ndarray, k: int, at: float) -> float:
    """Rows by distance; those of the last distance share the places that are left."""
    k = min(k, len(scores))
    distance = np.abs(scores - at)
    radius = np.sort(distance)[k - 1]
    near, last = distance < radius, distance == radius
    left = k - int(near.sum())
    return float((Fraction(int(y[near].sum())) + left * Fraction(int(y[last].sum()), int(last.sum()))) / k)


@given(row_lists, st.integers(1, 12))
def test_neighbors_equal_their_definition(rows: list[tuple[int, int, int]], k: int) -> None:
    scores, y, _ = columns(rows)
    tally = Tally.from_arrays(scores, y, score_type="probability")
    expected = [slowly(scores, y, k, at) for at in tally.scores]
    np.testing.assert_allclose(neighbor_rate(tally, k), expected, atol=1e-12)


@given(row_lists, st.integers(1, 6))
def test_whole_weights_mean_repetition_for_neighbors(rows: list[tuple[int, int, int]], k: int) -> None:
    scores, y, times = columns(rows)
    times = times if times.any() else times + 1
    weighted = validity_curve(scores, y, times, method="neighbors", k=k)
    repeated = validity_curve(np.repeat(scores, times), np.repeat(y, times), method="neighbors", k=k)
    assert weighted.auc == pytest.approx(repeated.auc, abs=1e-12)
    assert weighted.at(np.linspace(0, 1, 50)) == pytest.approx(repeated.at(np.linspace(0, 1, 50)), abs=1e-12)


def test_neighbors_of_a_few_rows_by_hand() -> None:
    """k = 2. At 0.1 itself and 0.2, rate 1/2; at 0.2 itself and 0.1; at 0.4 itself and 0.2; at 0.9 itself and 0.4."""
    curve = validity_curve([0.1, 0.2, 0.4, 0.9], [0, 1, 1, 1], method="neighbors", k=2)
    assert curve.epsilon == pytest.approx([0.1, 0.3, 0.4, 0.6])
    assert curve.share == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert curve.auc == pytest.approx(1 - (0.1 + 0.3 + 0.4 + 0.6) / 4)


def test_two_rows_at_the_same_distance_share_a_place() -> None:
    """Around 0.5 with k = 2: itself (1), and half of each of 0.25 (1) and 0.75 (0)."""
    tally = Tally.from_arrays([0.25, 0.5, 0.75], [1, 1, 0])
    assert neighbor_rate(tally, 2)[1] == pytest.approx(0.75)


def test_neither_order_nor_the_unit_of_weights_matters() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 40, 500) / 40
    y, weights, order = rng.random(500) < scores, rng.random(500) + 0.1, rng.permutation(500)
    for method in ("bins", "neighbors"):
        one = validity_curve(scores, y, weights, method=method)
        two = validity_curve(scores[order], y[order], 1_000 * weights[order], method=method)
        assert two.auc == pytest.approx(one.auc, rel=1e-9)


def test_a_fine_grid_hardly_moves_the_area() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(20_000)
    y = rng.random(20_000) < scores
    gridded = Tally.from_arrays(scores, y, grid=Grid())
    assert validity_curve(gridded).auc == pytest.approx(validity_curve(scores, y).auc, abs=1e-3)
    near = {"method": "neighbors", "k": 500}
    assert validity_curve(gridded, **near).auc == pytest.approx(validity_curve(scores, y, **near).auc, abs=2e-3)


def test_small_tied_and_extreme_data(subtests) -> None:
    for method in ["bins", "neighbors"]:
        for scores, y, area in [([0.3], [1], 0.3), ([0.0, 1.0], [0, 1], 1.0), ([0.5] * 4, [0, 1, 1, 1], 0.75)]:
            with subtests.test(method=method, scores=scores, y=y, area=area):
                curve = validity_curve(scores, y, method=method, k=1)
                assert curve.auc == pytest.approx(area)
                assert float(curve.at(1.0)) == 1.0
                assert "for all" in str(curve)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="method"):
        validity_curve([0.2, 0.8], [0, 1], method="kernel")  # type: ignore[arg-type]
    for k in (0, 1.5, -3):
        with pytest.raises(InputError, match="k must be"):
            validity_curve([0.2, 0.8], [0, 1], method="neighbors", k=k)  # type: ignore[arg-type]


def test_it_prints_a_sentence_and_becomes_plain_data() -> None:
    curve = validity_curve(figure(), n_bins=10)
    assert str(curve) == (
        "validity by 10 non-empty bins: the error is at most 0.0170 for half of the rows, 0.0390 for 90 % and 0.0710 "
        "for all (area 0.9776)"
    )
    assert json.loads(json.dumps(curve.to_dict()))["auc"] == pytest.approx(0.97755)
