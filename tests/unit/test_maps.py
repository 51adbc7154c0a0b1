"""Each kind of map against its formula; what all kinds keep is in tests/contracts/test_maps.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.maps import (
    BetaMap,
    ByGroupMap,
    ComposeMap,
    Direction,
    IdentityMap,
    LogitAffineMap,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.messages import InputError
from calibrant.numerics import Ends

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


def test_the_identity_is_in_the_family(subtests):
    for map_ in [IdentityMap(), LogitAffineMap(1.0, 0.0), BetaMap(1.0, 1.0, 0.0)]:
        with subtests.test(map_=map_.kind):
            scores = np.linspace(0.001, 0.999, 500)
            np.testing.assert_allclose(map_.apply(scores), scores, rtol=1e-13)


def test_scores_beyond_an_end_have_its_image(subtests):
    for ends in [Ends(), Ends(1e-300, 1 - 2.0**-53), Ends(1e-3, 0.975)]:
        with subtests.test(ends=ends):
            for map_ in (LogitAffineMap(0.7, 0.2, "log-odds", *ends), BetaMap(0.7, 0.4, 0.2, *ends)):
                beyond = map_.apply([0.0, ends.low / 2, 1.0 - (1.0 - ends.high) / 2, 1.0])
                np.testing.assert_array_equal(beyond, map_.apply([ends.low, ends.low, ends.high, ends.high]))
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


# ------------------------------------------------------------------------------------------------------------ by group

LOW, HIGH = StepMap([], [0.25]), StepMap([], [0.75])
NUMBERED = ByGroupMap("branch", (3, -7, 12), (LOW, HIGH, IdentityMap()), None)


def test_each_row_goes_through_the_map_of_its_group():
    # north: 0.25 whatever the score; south: 0.75; east is not listed, None is no group: the score itself
    map_ = ByGroupMap("region", ("north", "south"), (LOW, HIGH), IdentityMap())
    groups = ["south", "north", "east", None, "north"]
    assert map_.apply([0.1, 0.2, 0.3, 0.4, 0.5], groups).tolist() == [0.75, 0.25, 0.3, 0.4, 0.25]
    assert map_.apply(0.1, "south") == 0.75
    assert map_.apply([0.1], {"region": ["south"], "never asked for": 3}).tolist() == [0.75]


def test_whole_numbers_are_their_digits(subtests):
    for groups in [
        [3, -7, 12, 5],
        np.array([3, -7, 12, 5], dtype=np.int8),
        np.array([3.0, -7.0, 12.0, np.nan]),
        np.array([3.0, -7.0, 12.0, np.nan], dtype=np.float32),
        np.array([3, np.int64(-7), 12.0, None], dtype=object),
        ["3", "-7", "12", "3.0"],
        np.array(["3", "-7", "12", ""]),
        [3, "-7", 12.0, float("nan")],
    ]:
        with subtests.test(groups=repr(groups)):
            out = NUMBERED.apply([0.5, 0.5, 0.4, 0.5], groups)
            np.testing.assert_array_equal(out, [0.25, 0.75, 0.4, np.nan])


def test_truth_values_are_words_and_not_1_and_0():
    map_ = ByGroupMap("flag", (True, "1", 0), (HIGH, LOW, IdentityMap()), None)
    assert map_.groups == ("true", "1", "0")
    for flags in ([True, False], np.array([True, False]), np.array([np.True_, np.False_], dtype=object)):
        np.testing.assert_array_equal(map_.apply([0.5, 0.5], flags), [0.75, np.nan])
    assert map_.apply([0.5, 0.5], [1, 0]).tolist() == [0.25, 0.5]
    with pytest.raises(InputError, match="the column 'flag' mixes booleans with numbers"):
        map_.apply([0.5, 0.5], np.array([True, 1], dtype=object))


def test_columns_of_frames_are_read():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    whole, expected = [3, None, -7], [0.25, np.nan, 0.75]
    columns = [
        pd.Series(whole),
        pd.Series(whole, dtype="Int64"),
        pd.Series(["3", None, "-7"], dtype="string"),
        pd.Series(["3", None, "-7"], dtype="category"),
        pl.Series(whole),
        pl.Series(["3", None, "-7"], dtype=pl.Categorical),
        pa.array(whole),
        pa.chunked_array([["3", None], ["-7"]]),
    ]
    for column in columns:
        np.testing.assert_array_equal(NUMBERED.apply([0.5, 0.5, 0.5], column), expected, err_msg=repr(column))


def test_values_whose_text_differs_from_engine_to_engine_are_refused(subtests):
    for group in [3.5, np.inf, 2.0**60, b"a", np.datetime64("2026-01-01"), np.array([1, 2]), 1j, ("a",)]:
        with subtests.test(group=group):
            groups = np.empty(2, dtype=object)
            groups[:] = [3, group]
            with pytest.raises(InputError, match=r"the column 'branch' holds"):
                NUMBERED.apply([0.5, 0.5], groups)
            if np.ndim(group) == 0 and not isinstance(group, tuple):
                with pytest.raises(InputError, match=r"the column 'branch' holds"):
                    NUMBERED.apply([0.5], np.array([group]))


def test_groups_that_are_missing_or_of_another_length_are_refused():
    two = ComposeMap((NUMBERED, ByGroupMap("region", ("a",), (HIGH,), LOW)))
    assert two.columns == ("branch", "region")
    assert ComposeMap((NUMBERED, IdentityMap(), NUMBERED)).columns == ("branch",)
    for map_, groups, sentence in (
        (NUMBERED, None, "needs the column 'branch' besides the scores"),
        (NUMBERED, [3], r"the column 'branch' has shape \(1,\) but scores has \(2,\)"),
        (NUMBERED, {"region": [3, 3]}, "groups has no column 'branch', which this map needs: it has 'region'"),
        (NUMBERED, {}, "it has none"),
        (NUMBERED, np.ma.array([3, 3]), "masked"),
        (two, [3, 3], "groups is one column, but this map needs 2: pass them by name"),
        (two, None, "needs the columns 'branch' and 'region'"),
        (IdentityMap(), ["a", "b"], "groups is one column, but this map needs none: leave it out"),
        (LogitAffineMap(1.0, 0.0), ["a", "b"], "this map needs none: leave it out"),
    ):
        with pytest.raises(InputError, match=sentence):
            map_.apply([0.5, 0.5], groups)
    plain = LogitAffineMap(1.0, 0.0)
    np.testing.assert_array_equal(plain.apply([0.25, 0.75], {"region": ["a", "b"]}), plain.apply([0.25, 0.75]))


@given(
    st.lists(st.tuples(probability, st.sampled_from(["a", "b", "c", None])), max_size=40),
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=3, max_size=3),
    st.booleans(),
)
def test_maps_in_one_pass_give_what_each_gives_alone(rows, numbers, known):
    """Maps of one shape are evaluated together; bit for bit as one by one."""
    parts = tuple(LogitAffineMap(slope, intercept) for slope, intercept in numbers)
    map_ = ByGroupMap("g", ("a", "b", "c"), parts, BetaMap(0.9, 1.1, 0.0) if known else None)
    assert map_.lines is not None
    scores, groups = np.array([score for score, _ in rows]), np.array([group for _, group in rows], dtype=object)
    out = map_.apply(scores, groups)
    for group, part in zip(("a", "b", "c", None), (*parts, map_.default), strict=True):
        chosen = np.array([each == group for each in groups], dtype=bool)
        alone = np.full(chosen.sum(), np.nan) if part is None else part.apply(scores[chosen])
        np.testing.assert_array_equal(out[chosen], alone)


def test_only_maps_of_one_axis_and_equal_ends_run_as_one():
    assert ByGroupMap("g", ("a", "b"), (LogitAffineMap(1.0, 0.0), IdentityMap()), None).lines is None
    for other in (
        LogitAffineMap(1.0, 0.0, "score"),
        LogitAffineMap(1.0, 0.0, low=1e-3),
        LogitAffineMap(1.0, 0.0, high=0.9),
    ):
        assert ByGroupMap("g", ("a", "b"), (LogitAffineMap(1.0, 0.0), other), None).lines is None
        assert ByGroupMap("g", ("a", "b"), (other, other), None).lines is not None


def test_a_map_by_group_is_not_drawn_as_one_curve():
    from calibrant.displays import MapDisplay

    with pytest.raises(InputError, match="one curve for each segment: draw one of them"):
        MapDisplay.from_map(NUMBERED)
    assert MapDisplay.from_map(NUMBERED.maps[0]).data["output"][0] == 0.25


def test_a_shift_after_a_map_by_group_is_one_more_stage():
    from calibrant.calibration import Calibration
    from calibrant.shift.stages import then_shift

    moved = then_shift(Calibration(NUMBERED), 1.0, "moved", Ends())
    assert moved.map.columns == ("branch",)
    np.testing.assert_allclose(moved.transform([0.5, 0.5], [3, 5]), [1 / (1 + 3 * np.exp(-1)), np.nan], rtol=1e-12)


@pytest.mark.parametrize(
    ("fitted", "direction"),
    [
        (IdentityMap(), Direction.STRICTLY_RISING),
        (StepMap([0.5], [0.1, 0.8]), Direction.RISING),
        (StepMap([], [0.5]), Direction.RISING),
        (StepMap([0.5], [0.8, 0.1]), Direction.FALLING),
        (StepMap([0.3, 0.6], [0.1, 0.8, 0.2]), Direction.MIXED),
        (PiecewiseLinearMap([0.1, 0.9], [0.2, 0.6]), Direction.STRICTLY_RISING),
        (PiecewiseLinearMap([0.1, 0.5, 0.9], [0.2, 0.2, 0.6]), Direction.RISING),
        (PiecewiseLinearMap([0.5], [0.2]), Direction.RISING),
        (LogitAffineMap(0.5, 1.0), Direction.STRICTLY_RISING),
        (LogitAffineMap(0.0, 1.0), Direction.RISING),
        (LogitAffineMap(-0.5, 1.0), Direction.FALLING),
        (BetaMap(1.0, 2.0, 0.0), Direction.STRICTLY_RISING),
        (BetaMap(0.0, 2.0, 0.0), Direction.RISING),
        (BetaMap(-1.0, 0.0, 0.0), Direction.FALLING),
        (BetaMap(-1.0, 1.0, 0.0), Direction.MIXED),
        (ComposeMap((IdentityMap(), StepMap([0.5], [0.1, 0.8]))), Direction.RISING),
        (ComposeMap((IdentityMap(), LogitAffineMap(-1.0, 0.0))), Direction.MIXED),
        (ByGroupMap("g", ("a",), (IdentityMap(),), IdentityMap()), Direction.MIXED),
    ],
    ids=repr,
)
def test_the_direction_of_a_map(fitted, direction):
    assert fitted.direction is direction
    assert direction.never_falls == (direction in (Direction.STRICTLY_RISING, Direction.RISING))
