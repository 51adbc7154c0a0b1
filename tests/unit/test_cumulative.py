"""Cumulative differences by hand, and the laws of Brownian motion's maximum and range."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, stats

from calibrant.messages import InputError
from calibrant.metrics.binary.cumulative import NULL_HIGH, NULL_MEAN, brownian_max_sf, brownian_range_sf, ecce
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def test_the_walk_by_hand():
    # y - s in order of s: -0.1, 0.6, -0.8; C: -0.1/3, 0.5/3, -0.3/3.
    scores, y = [0.4, 0.1, 0.8], [1, 0, 0]
    assert ecce(scores, y).value == pytest.approx(0.5 / 3)
    assert ecce(scores, y, statistic="range").value == pytest.approx(0.8 / 3)
    sd = math.sqrt(0.09 + 0.24 + 0.16) / 3
    assert ecce(scores, y).null == pytest.approx(math.sqrt(math.pi / 2) * sd)
    assert ecce(scores, y, statistic="range").null_high == pytest.approx(2.49767216 * sd)


def test_ties_are_seen_only_at_their_end():
    # Within the tie the path could reach 0.5/2 before it returns to 0; order inside a tie means nothing.
    assert ecce([0.5, 0.5], [1, 0]).value == 0.0
    assert ecce([0.5, 0.5], [0, 1], statistic="range").value == 0.0


def test_the_range_counts_the_start():
    # C = 0, 0.3: never below its start.
    assert ecce([0.7], [1], statistic="range").value == pytest.approx(0.3)
    assert ecce([0.7], [1]).value == pytest.approx(0.3)


def test_certain_scores_leave_no_noise():
    result = ecce([0.0, 1.0], [0, 1])
    assert (result.value, result.null, result.null_high) == (0.0, 0.0, 0.0)


def test_an_unknown_kind_is_refused():
    with pytest.raises(InputError, match="statistic"):
        ecce([0.5], [1], statistic="kuiper")


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=30))
def test_weights_are_repetition_and_range_is_between_once_and_twice_the_maximum(rows):
    s, y, w = (np.array(column) for column in zip(*rows, strict=True))
    assume(w.any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = [ecce(s / 8, y, w, statistic=kind).value for kind in ("max", "range")]
        repeated = [ecce(np.repeat(s / 8, w), np.repeat(y, w), statistic=kind).value for kind in ("max", "range")]
    assert weighted == pytest.approx(repeated, abs=1e-15)
    assert weighted[0] <= weighted[1] + 1e-15 <= 2 * weighted[0] + 3e-15


def test_the_unit_of_weights_does_not_matter(subtests):
    for scale in [1e-9, 1.0, 1e9]:
        with subtests.test(scale=scale):
            rng = np.random.default_rng(0)
            s, w = rng.random(200), rng.random(200)
            y = (rng.random(200) < s).astype(int)
            one, other = ecce(s, y, w), ecce(s, y, w * scale)
            assert (other.value, other.null) == pytest.approx((one.value, one.null), rel=1e-10)


def test_grid_and_table_are_close_to_exact():
    rng = np.random.default_rng(1)
    s = rng.random(70_000)
    y = (rng.random(70_000) < s**1.2).astype(int)
    exact = ecce(s, y)
    assert ecce(Tally.from_arrays(s, y, grid=Grid())).value == pytest.approx(exact.value, rel=1e-3)
    table = Tally.from_table([2, 2], [0, 2], edges=[0.5], scores=[0.25, 0.75])
    assert ecce(table).value == pytest.approx(0.5 / 4)  # C: -0.5/4, 0


# ----------------------------------------------------------------------------------------------------------------------
# Brownian motion
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sf", "kind"), [(brownian_max_sf, "max"), (brownian_range_sf, "range")])
def test_survival_functions_have_the_known_mean_and_quantile(sf, kind):
    mean = integrate.quad(sf, 0, 1.5)[0] + integrate.quad(sf, 1.5, 30)[0]
    assert mean == pytest.approx(NULL_MEAN[kind], abs=1e-10)
    assert float(sf(NULL_HIGH[kind])) == pytest.approx(0.05, abs=1e-12)


def test_known_quantiles():
    # 4 Q(x) = 0.05 and 8 Q(x) = 0.05 but for terms below 1e-6.
    assert NULL_HIGH["max"] == pytest.approx(stats.norm.isf(0.0125), abs=1e-8)
    assert NULL_HIGH["range"] == pytest.approx(stats.norm.isf(0.00625), abs=1e-4)


@pytest.mark.parametrize(("sf", "lead"), [(brownian_max_sf, 4), (brownian_range_sf, 8)])
def test_survival_functions_at_their_ends(sf, lead):
    x = np.array([-1.0, 0.0, 1e-300, 1e-3, 0.05, math.inf, math.nan])
    np.testing.assert_array_equal(sf(x), [1, 1, 1, 1, 1, 0, np.nan])
    np.testing.assert_allclose(sf([6.0, 20.0]), lead * stats.norm.sf([6.0, 20.0]), rtol=1e-12)
    around = sf([1.5 - 1e-12, 1.5])
    assert abs(around[0] - around[1]) < 1e-11, "the two series meet"
    assert (np.diff(sf(np.linspace(0.5, 8, 400))) < 0).all()
    assert sf(np.ones((2, 3))).shape == (2, 3)
    assert sf(1.0).shape == ()


def test_the_survival_functions_are_those_of_long_walks():
    rng = np.random.default_rng(2)
    walks, steps = 4_000, 2_000
    path = np.cumsum(rng.choice([-1.0, 1.0], (walks, steps)), axis=1) / math.sqrt(steps)
    top, bottom = np.maximum(path.max(axis=1), 0), np.minimum(path.min(axis=1), 0)
    slack = 0.03  # a walk of 2,000 steps misses about 0.58 / sqrt(2,000) of each extreme, and 4,000 walks scatter
    for x in (0.7, 1.2, 2.0):
        assert np.mean(np.maximum(top, -bottom) > x) == pytest.approx(float(brownian_max_sf(x)), abs=slack)
        assert np.mean(top - bottom > x) == pytest.approx(float(brownian_range_sf(x)), abs=2 * slack)
