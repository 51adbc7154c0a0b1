"""Errors over time against their definitions, row by row."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import every

from calibrant.messages import InputError
from calibrant.metrics.binary.errors import ece
from calibrant.metrics.streams import epsilon_error, error_over_time
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")

streams = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1)), min_size=1, max_size=40)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    forecasts, outcomes = np.array(rows).T
    return forecasts / 20, outcomes


def slowly(p: np.ndarray, y: np.ndarray, m: int, expected: np.ndarray) -> tuple[float, float]:
    """CE and SHP of the whole, bin by bin, with ``expected`` in the place of the forecasts."""
    index = np.minimum((p * m + 1e-9).astype(int), m - 1)
    error = sum(abs((expected - y)[index == b].sum()) for b in range(m)) / len(p)
    sharp = sum(y[index == b].sum() ** 2 / (index == b).sum() for b in range(m) if (index == b).any()) / len(p)
    return error, sharp


@given(streams, st.sampled_from([1, 2, 5, 10]))
def test_every_prefix_has_the_error_and_sharpness_of_its_rows(rows: list[tuple[int, int]], m: int) -> None:
    p, y = columns(rows)
    found = error_over_time(p, y, n_bins=m)
    for t in range(1, len(p) + 1):
        error, sharp = slowly(p[:t], y[:t], m, p[:t])
        assert found.error[t - 1] == pytest.approx(error, abs=1e-12)
        assert found.sharpness[t - 1] == pytest.approx(sharp, abs=1e-12)
        base = y[:t].mean()
        assert base**2 - 1e-12 <= found.sharpness[t - 1] <= base + 1e-12, "002 section 6.3.2"


@given(streams, st.sampled_from([2, 5, 10]))
def test_the_game_s_error_compares_with_midpoints_and_gives_epsilon_away(rows: list[tuple[int, int]], m: int) -> None:
    p, y = columns(rows)
    middle = (np.minimum((p * m + 1e-9).astype(int), m - 1) + 0.5) / m
    found = epsilon_error(p, y, epsilon=1 / (2 * m))
    for t in range(1, len(p) + 1):
        error = slowly(p[:t], y[:t], m, middle[:t])[0]
        assert found.error[t - 1] == pytest.approx(max(error - 1 / (2 * m), 0.0), abs=1e-12)


def test_the_game_s_error_by_hand() -> None:
    """After 2 rows |0.1 + (0.1 - 1)| / 2 = 0.4; after 4, 0.8 / 4 + |-0.1 - 0.1| / 4 = 0.25; epsilon 0.1 comes off."""
    found = epsilon_error([0.1, 0.1, 0.9, 0.9], [0, 1, 1, 1], epsilon=0.1)
    assert found.error.tolist() == pytest.approx([0.0, 0.3, 0.2, 0.15])
    assert float(found) == pytest.approx(0.15)


def test_the_last_error_is_the_plug_in_error() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(5_000)
    y = rng.random(5_000) < p
    assert float(error_over_time(p, y, n_bins=15)) == pytest.approx(ece(p, y).value, abs=1e-12)


def test_order_matters_along_the_way_and_not_in_the_end() -> None:
    p, y = np.array([0.2, 0.8, 0.8, 0.2]), np.array([0, 1, 0, 1])
    there, back = error_over_time(p, y), error_over_time(p[::-1], y[::-1])
    assert float(there) == pytest.approx(float(back))
    assert there.error[1] != pytest.approx(back.error[1])


@every("epsilon", [0.3, 0.0, -0.1, 0.07, 0.5, 1.0, np.nan, np.inf, "0.1"])
def test_an_epsilon_that_fits_no_grid_is_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match=r"epsilon must be 1/\(2m\)"):
        epsilon_error([0.2, 0.8], [0, 1], epsilon=epsilon)


@every("m", [2, 3, 7, 49, 1_000])
def test_every_half_width_of_a_grid_is_taken(m: int) -> None:
    assert f"{m} intervals" in epsilon_error([0.2, 0.8], [0, 1], epsilon=1 / (2 * m)).name


def test_a_tally_is_refused_since_it_has_no_order() -> None:
    tally = Tally.from_arrays([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="forecasts must be rows in order"):
        error_over_time(tally, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="forecasts must be rows in order"):
        epsilon_error(tally, None, epsilon=0.1)  # type: ignore[arg-type]


def test_forecasts_outside_the_unit_interval_and_bad_bins_are_refused() -> None:
    with pytest.raises(InputError):
        error_over_time([0.2, 1.8], [0, 1])
    with pytest.raises(InputError, match="n_bins"):
        error_over_time([0.2, 0.8], [0, 1], n_bins=0)


@every("p", [0.0, 0.5, 1.0])
def test_one_row_and_the_ends_of_the_interval(p: float) -> None:
    assert float(error_over_time([p], [1])) == pytest.approx(1.0 - p)
    assert error_over_time([p], [1]).sharpness.tolist() == [1.0]


def test_it_prints_a_sentence_and_becomes_plain_data() -> None:
    found = error_over_time([0.2, 0.2, 0.9], [1, 0, 1], n_bins=2)
    assert str(found) == ("calibration error over time, 2 bins of equal width: 0.2333 after 3 rows (sharpness 0.5000)")
    assert json.loads(json.dumps(found.to_dict()))["error"] == pytest.approx([0.8, 0.3, 0.7 / 3])


def test_own_edges_are_those_of_the_ece_after_every_row() -> None:
    rng = np.random.default_rng(2)
    p = np.round(rng.random(200) ** 3, 2)  # ties, and forecasts that equal an edge
    y = (rng.random(200) < p).astype(int)
    edges = [0.01, 0.02, 0.1, 0.5]
    found = error_over_time(p, y, edges=edges)
    for t in (1, 2, 50, 200):
        assert found.error[t - 1] == pytest.approx(ece(p[:t], y[:t], edges=edges).value, abs=1e-12)
    assert "5 bins of given edges" in str(found)
    assert error_over_time(p, y, edges=np.arange(1, 10) / 10).error.tolist() == error_over_time(p, y).error.tolist()
    with pytest.raises(InputError, match="edges must be"):
        error_over_time(p, y, edges=[0.5, 0.1])
