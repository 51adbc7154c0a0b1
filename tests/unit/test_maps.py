"""Each kind of map against its formula; what all kinds keep is in tests/contracts/test_maps.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.maps import BetaMap, ComposeMap, IdentityMap, LogitAffineMap, PiecewiseLinearMap, StepMap
from calibrant.numerics import CLAMP

finite = st.floats(-1e300, 1e300)
probability = st.floats(0.0, 1.0)


@st.composite
def tables(draw, extra: int = 0, numbers=finite):
    """Strictly increasing knots and as many values, or ``extra`` more."""
    knots = np.unique(np.array(draw(st.lists(numbers, min_size=1, max_size=12))) + 0.0)
    values = draw(st.lists(probability, min_size=len(knots) + extra, max_size=len(knots) + extra))
    return knots, np.array(values)


@given(tables(extra=1), st.lists(finite, max_size=20))
def test_a_step_map_is_a_search(table, scores):
    knots, values = table
    x = np.concatenate([scores, knots])
    np.testing.assert_array_equal(StepMap(knots, values).apply(x), values[np.searchsorted(knots, x, side="right")])


@given(st.lists(st.sampled_from([0.1, 0.2, 0.2, 0.9]), min_size=1, max_size=12), st.lists(finite, max_size=20))
def test_merging_leaves_the_function_alone(values, scores):
    knots = np.arange(len(values) - 1) / 7
    whole = StepMap(knots, values)
    merged = whole.merged()
    assert (merged.values[1:] != merged.values[:-1]).all()
    assert np.isin(merged.knots, knots).all()
    x = np.concatenate([scores, knots, np.nextafter(knots, -1)])
    np.testing.assert_array_equal(merged.apply(x), whole.apply(x))
    assert merged.merged() == merged
    assert (merged == whole) == (len(merged.values) == len(values))


def test_merging_by_hand():
    assert StepMap([0.1, 0.2, 0.3], [0.5, 0.5, 0.2, 0.5]).merged() == StepMap([0.2, 0.3], [0.5, 0.2, 0.5])
    assert StepMap([0.1, 0.2], [0.5, 0.5, 0.5]).merged() == StepMap([], [0.5])
    assert StepMap([], [0.5]).merged() == StepMap([], [0.5])


moderate = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)


@given(tables(numbers=moderate), st.lists(moderate, max_size=20))
def test_a_piecewise_linear_map_is_numpys_interpolation(table, scores):
    knots, values = table
    x = np.concatenate([scores, knots])
    np.testing.assert_allclose(PiecewiseLinearMap(knots, values).apply(x), np.interp(x, knots, values), atol=1e-9)
    np.testing.assert_array_equal(PiecewiseLinearMap(knots, values).apply(knots), values)


@given(tables(), st.lists(finite, min_size=2, max_size=20))
def test_a_rising_table_never_inverts(table, scores):
    knots, values = table
    map_ = PiecewiseLinearMap(knots, np.sort(values))
    ends = np.array([np.nextafter(k, direction) for k in knots for direction in (-np.inf, np.inf)])
    out = map_.apply(np.sort(np.concatenate([scores, knots, ends])))
    assert (np.diff(out) >= 0).all()


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(1e-6, 1 - 1e-6))
def test_log_odds_formula(slope, intercept, s):
    z = slope * np.log(s / (1 - s)) + intercept
    expected = 1 / (1 + np.exp(-np.clip(z, -36, 36)))
    assert LogitAffineMap(slope, intercept).apply(s) == pytest.approx(expected, rel=1e-12)


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-5, 5))
def test_score_formula(slope, intercept, s):
    expected = 1 / (1 + np.exp(-(slope * s + intercept)))
    assert LogitAffineMap(slope, intercept, "score").apply(s) == pytest.approx(expected, rel=1e-12)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3), st.floats(1e-6, 1 - 1e-6))
def test_beta_formula(a, b, c, s):
    z = a * np.log(s) - b * np.log1p(-s) + c
    assert BetaMap(a, b, c).apply(s) == pytest.approx(1 / (1 + np.exp(-np.clip(z, -36, 36))), rel=1e-10)


@pytest.mark.parametrize(
    "map_", [IdentityMap(), LogitAffineMap(1.0, 0.0), BetaMap(1.0, 1.0, 0.0)], ids=lambda m: m.kind
)
def test_the_identity_is_in_the_family(map_):
    scores = np.linspace(0.001, 0.999, 500)
    np.testing.assert_allclose(map_.apply(scores), scores, rtol=1e-13)


@pytest.mark.parametrize("clamp", [CLAMP, 2.0**-52, 1e-3])
def test_zero_and_one_have_the_image_of_the_clamp(clamp):
    for map_ in (LogitAffineMap(0.7, 0.2, clamp=clamp), BetaMap(0.7, 0.4, 0.2, clamp=clamp)):
        np.testing.assert_array_equal(map_.apply([0.0, 1.0]), map_.apply([clamp, 1.0 - clamp]))
        assert ((map_.apply([0.0, 1.0]) > 0) & (map_.apply([0.0, 1.0]) < 1)).all()


@given(st.lists(probability, min_size=1, max_size=20))
def test_a_composition_is_one_map_after_the_other(scores):
    parts = LogitAffineMap(2.0, -0.5), StepMap([0.25, 0.5], [0.1, 0.2, 0.9]), BetaMap(0.5, 1.5, 0.1)
    expected = np.array(scores)
    for part in parts:
        expected = part.apply(expected)
    np.testing.assert_array_equal(ComposeMap(parts).apply(scores), expected)
    np.testing.assert_array_equal(ComposeMap((parts[0], ComposeMap(parts[1:]))).apply(scores), expected)


def test_long_tables_print_their_size():
    assert repr(StepMap([0.5], [0.1, 0.8])) == "StepMap(knots=[0.5], values=[0.1, 0.8])"
    assert repr(StepMap(np.arange(100), np.full(101, 0.5))).startswith("StepMap(100 knots from 0 to 99, 101 values")
