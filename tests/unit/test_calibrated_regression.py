"""Ridge regression on its own forecasts: the fixed points, the factors, the edges, the state."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineAssumption
from calibrant.messages import InputError
from calibrant.online import (
    CalibratedRegression,
    Forecaster,
    MultiExpert,
    OnlineMulticlass,
    OnlinePlatt,
    Restarting,
    resume,
)
from calibrant.online.regression.families import (
    active_functions,
    clip,
    fixed_point,
    hats,
    kinked_fixed_point,
    line_fixed_point,
    polynomials,
)

SETTINGS = {
    "groups": {},
    "groups, as printed": {"include_score": False, "constant": False},
    "groups, without the score": {"include_score": False},
    "hats, without the constant": {"test_functions": "hats", "size": 8, "constant": False},
    "polynomials": {"test_functions": "polynomials"},
    "hats": {"test_functions": "hats", "size": 8},
    "growing": {"test_functions": "hats", "size": 8, "growing": True},
    "inside each group": {"test_functions": "polynomials", "size": 2, "each_feature": True},
    "a line inside each group": {"each_feature": True},
    "own": {"test_functions": lambda p, score, features: [p * score, np.sin(3 * p) * features[0]], "size": 2},
}


def stream(n: int = 120, d: int = 3, seed: int = 0):
    rng = np.random.default_rng([8, seed])
    features = (rng.random((n, d)) < 0.4).astype(float)
    scores = rng.random(n)
    labels = (rng.random(n) < np.clip(scores + features @ np.linspace(-0.4, 0.4, d), 0, 1)).astype(float)
    return scores, labels, features


def regressors(setting: dict, p: float, s: float, x: np.ndarray, t: int) -> np.ndarray:
    """The same list as the forecaster keeps, written down from the definition."""
    kind, size = setting.get("test_functions", "features"), setting.get("size")
    if callable(kind):
        values = [p, *kind(p, s, x)]
    else:
        family = {"features": lambda p, k: [p], "polynomials": polynomials, "hats": hats}[kind]
        size = size or {"features": 1, "polynomials": 4, "hats": 16}[kind]
        values = family(p, size)
        if setting.get("growing"):
            values = [v if k < active_functions(t, size) else 0.0 for k, v in enumerate(values)]
    products = [v * xi for v in values for xi in x] if setting.get("each_feature") else []
    score = [s] if setting.get("include_score", True) else []
    constant = [1.0] if setting.get("constant", True) else []
    return np.array([*x, *products, *values[1:], *constant, *score, p])


# --------------------------------------------------------------------------------------------------- fixed points


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6) | st.sampled_from([1.0, 1.0 - 2**-53, 1.0 + 2**-52, 0.0]))
def test_a_line_has_the_fixed_point_that_is_found(level, slope):
    p = line_fixed_point(level, slope)
    assert 0.0 <= p <= 1.0
    assert abs(clip(level + slope * p) - p) <= 1e-15 * (1.0 + abs(level) + abs(slope))


def test_both_ends_are_tried_where_one_minus_the_slope_is_zero_or_negative(subtests):
    for level, slope, expected in [
        (0.3, 0.0, 0.3),
        (0.2, 0.5, 0.4),  # 0.2 / (1 - 0.5)
        (0.9, 0.5, 1.0),  # 1.8 is above 1, and 0.9 + 0.5 > 1
        (-0.1, 0.5, 0.0),
        (0.0, 1.0, 0.5),  # every point is fixed
        (1e-300, 1.0, 1.0),
        (-1e-300, 1.0, 0.0),
        (-0.5, 2.0, 0.5),  # 0 and 1 are fixed as well
        (0.1, 2.0, 1.0),  # the crossing is at -0.1: 0 is not fixed, since the line is at 0.1 there
        (-1.5, 2.0, 0.0),  # the crossing is at 1.5: 1 is not fixed, since the line is at 0.5 there
    ]:
        with subtests.test(level=level, slope=slope, expected=expected):
            assert line_fixed_point(level, slope) == pytest.approx(expected)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.sampled_from([polynomials, hats]))
def test_the_search_finds_a_fixed_point_of_any_continuous_function(coefficients, family):
    def value(p):
        return coefficients[0] + sum(c * f for c, f in zip(coefficients[1:], family(p, 8), strict=False))

    p = fixed_point(value)
    # The slope is at most 1e3 * (1 + 2 * (4 + ... + 49 + 64)), so that a last place of p may cost 1e-9.
    assert 0.0 <= p <= 1.0
    assert abs(clip(value(p)) - p) <= 1e-9


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.sampled_from([1, 2, 3, 5, 8]))
def test_between_hats_the_fixed_point_has_a_closed_form(coefficients, size):
    def value(p):
        return coefficients[0] + sum(c * f for c, f in zip(coefficients[1:], hats(p, size), strict=False))

    p = kinked_fixed_point(value, 1 << (size - 1).bit_length())
    assert 0.0 <= p <= 1.0
    assert abs(clip(value(p)) - p) <= 1e-9


def test_the_search_ends_at_the_ends_and_on_the_diagonal(subtests):
    for value in [lambda p: -1.0, lambda p: 2.0, lambda p: p, lambda p: 1.0 - p, lambda p: 0.0]:
        with subtests.test(value=value):
            p = fixed_point(value)
            assert abs(clip(value(p)) - p) < 1e-15


def test_the_search_takes_at_most_108_steps():
    calls = []
    p = fixed_point(lambda p: calls.append(p) or (1.0 if p < 1e-13 else 0.0 if p > 2e-13 else 2.0 - p * 1e13))
    assert abs(p - 2.0 / (1e13 + 1.0)) < 1e-15
    assert len(calls) <= 110


# ------------------------------------------------------------------------------------------------------- families


def test_polynomials_are_those_of_chebyshev_on_the_unit_interval():
    for p in np.linspace(0.0, 1.0, 21):
        expected = [p, *np.cos(np.arange(2, 9) * np.arccos(2 * p - 1))]
        assert polynomials(p, 8) == pytest.approx(expected, abs=1e-12)


def test_hats_span_what_is_linear_between_points(subtests):
    for size in [2, 4, 8, 16]:
        with subtests.test(size=size):
            points = np.linspace(0.0, 1.0, size + 1)
            basis = np.array([[1.0, *hats(p, size)] for p in points])
            assert np.linalg.matrix_rank(basis) == size + 1
            values = np.random.default_rng(size).random(size + 1)
            c = np.linalg.solve(basis, values)
            between = np.random.default_rng(1).random(50)
            found = np.array([[1.0, *hats(p, size)] for p in between]) @ c
            assert found == pytest.approx(np.interp(between, points, values), abs=1e-12)


@given(st.floats(0.0, 1.0), st.integers(1, 64))
def test_families_stay_in_bounds_and_begin_alike(p, size):
    for family in (polynomials, hats):
        values = family(p, size)
        assert len(values) == size
        assert max(map(abs, values)) <= 1.0 + 1e-9
        assert values == family(p, 64)[:size]


# ---------------------------------------------------------------------------------------------------- the algorithm


def test_two_rows_by_hand():
    # Without the score, with one feature that is always 1 and the constant, which is the same: start at zero.
    # Row 1: theta = 0, forecast 0. Outcome 1 with f = (1, 1, 0): A = I + f f', b = f, so theta = (1/3, 1/3, 0).
    # Row 2: 1/3 + 1/3 = 2/3, theta_0 = 0, forecast 2/3. Outcome 0 with f = (1, 1, 2/3).
    # A = [[3, 2, 2/3], [2, 3, 2/3], [2/3, 2/3, 13/9]], b = (1, 1, 0); by symmetry theta = (u, u, v) with
    # 5u + 2v/3 = 1 and 4u/3 + 13v/9 = 0, so v = -12u/13, u (5 - 8/13) = 1, u = 13/57, v = -12/57.
    # Row 3: (26/57) / (1 + 12/57) = 26/69.
    regression = CalibratedRegression(1, include_score=False)
    assert regression.predict_one(0.9, [1]) == 0.0
    assert regression.learn_one(0.9, 1, [1]).predict_one(0.1, [1]) == pytest.approx(2 / 3)
    assert regression.learn_one(0.9, 0, [1]).predict_one(0.5, [1]) == pytest.approx(26 / 69)
    assert regression.errors == pytest.approx([-1 + 2 / 3, -1 + 2 / 3, 4 / 9])
    # q_1 = 2, forecast error 1: 2/3. q_2 = f' A_1^-1 f = 2/3 + 4/9 = 10/9, error 2/3: 4/9 * 10/19.
    spent = 2 / 3 + 4 / 9 * 10 / 19
    assert regression.bounds == pytest.approx(np.sqrt([3, 3, 13 / 9]) * np.sqrt(1 + spent) + [0, 0, 1])


def test_two_rows_of_the_printed_algorithm_by_hand():
    # One feature that is always 1, and the forecast. Row 1: theta = 0, forecast 0. Outcome 1 with f = (1, 0):
    # A = [[2, 0], [0, 1]], theta = (1/2, 0). Row 2: forecast 1/2. Outcome 0 with f = (1, 1/2):
    # A = [[3, 1/2], [1/2, 5/4]], b = (1, 0), determinant 7/2, theta = (5/14, -1/7). Row 3: (5/14) / (1 + 1/7) = 5/16.
    printed = CalibratedRegression(1, include_score=False, constant=False)
    told = printed.forecast_many([0.9, 0.1], [1, 0], [[1], [1]])
    assert [*told, printed.predict_one(0.5, [1])] == pytest.approx([0.0, 1 / 2, 5 / 16])
    # q_1 = 1, forecast error 1: 1/2. q_2 = 1/2 + 1/4, error 1/2: 1/4 * 3/7.
    assert printed.bounds == pytest.approx(np.sqrt([3, 5 / 4]) * np.sqrt(1 + 1 / 2 + 3 / 28) + [0, 1])


def test_forecasts_are_fixed_points_of_a_ridge_regression_solved_afresh(subtests):
    for name, setting in SETTINGS.items():
        with subtests.test(name):
            scores, labels, features = stream()
            regression = CalibratedRegression(3, **setting)
            with_score = setting.get("include_score", True)
            forecasts, rows, targets, unavoidable = [], [], [], 0.0
            for t, (s, y, x) in enumerate(zip(scores, labels, features, strict=True)):
                p = regression.predict_one(s, x)
                row = regressors(setting, p, s, x, t)
                past = np.array(rows).reshape(t, len(row))
                matrix = np.eye(len(row)) + past.T @ past
                z = s * with_score + row @ np.linalg.solve(matrix, past.T @ np.array(targets))
                assert p == pytest.approx(clip(z), abs=1e-12)
                unavoidable += (z - y) ** 2 / (1 + row @ np.linalg.solve(matrix, row))
                forecasts.append(p)
                rows.append(row)
                targets.append(y - s * with_score)
                regression.learn_one(s, y, x)
            assert regression.errors == pytest.approx(np.array(rows).T @ (np.array(forecasts) - labels), abs=1e-9)
            # The identity on which the certificate stands: what is left is the least sum of squares.
            past, target = np.array(rows), np.array(targets)
            theta = np.linalg.solve(np.eye(past.shape[1]) + past.T @ past, past.T @ target)
            assert unavoidable == pytest.approx(np.sum((past @ theta - target) ** 2) + theta @ theta)


def test_many_rows_equal_a_loop_bit_for_bit(subtests):
    for name in SETTINGS:
        with subtests.test(name=name):
            scores, labels, features = stream(60)
            one, many, live = (CalibratedRegression(3, **SETTINGS[name]) for _ in range(3))
            seen = []
            for s, y, x in zip(scores, labels, features, strict=True):
                before = one.predict_one(s, x)
                assert one.predict_one(s, x) == before
                seen.append(before)
                one.learn_one(s, y, x)
            many.learn_many(scores, labels, features)
            assert live.forecast_many(scores, labels, features).tolist() == seen
            assert one._numbers() == many._numbers() == live._numbers()
            assert many.predict_many(scores, features).tolist() == [
                one.predict_one(s, x) for s, x in zip(scores, features, strict=True)
            ]


@given(cut=st.integers(0, 60), name=st.sampled_from([n for n in SETTINGS if n != "own"]))
def test_a_restored_state_goes_on_bit_for_bit(cut, name):
    scores, labels, features = stream(60)
    whole = CalibratedRegression(3, **SETTINGS[name]).learn_many(scores[:cut], labels[:cut], features[:cut])
    again = resume(whole.to_json())
    assert isinstance(again, CalibratedRegression)
    assert again.state == whole.state
    rest = scores[cut:], labels[cut:], features[cut:]
    assert again.forecast_many(*rest).tolist() == whole.forecast_many(*rest).tolist()
    assert again.to_json() == whole.to_json()


def test_functions_of_the_user_are_passed_again_and_not_stored():
    scores, labels, features = stream(40)
    regression = CalibratedRegression(3, **SETTINGS["own"]).learn_many(scores, labels, features)
    state = json.loads(regression.to_json())
    with pytest.raises(InputError, match="user-defined test_functions, which a state cannot store"):
        resume(state)
    again = CalibratedRegression(3, **SETTINGS["own"]).restore(state)
    assert again.predict_one(0.3, [1, 0, 1]) == regression.predict_one(0.3, [1, 0, 1])


def test_memory_does_not_grow():
    scores, labels, features = stream(500)
    regression = CalibratedRegression(3, test_functions="hats", size=8, growing=True)
    size = len(regression._numbers())
    assert len(regression.learn_many(scores, labels, features)._numbers()) == size


def test_a_changed_state_is_refused():
    regression = CalibratedRegression(1).learn_one(0.5, 1, [1])
    state = regression.state
    n = 4  # the feature, the constant, the score and the forecast; then errors, pivots and factors
    places = [(0, -1.0), (0, 0.5), (0, 0), (1, -1.0), (1, 3.0), (2, 1.5), (2 + n, 0.5), (2 + n, 9.0), (3, float("nan"))]
    for place, value in [*places, (2 + 2 * n, 1e300), (2 + 2 * n, 2.0), (-1, -1e200)]:
        changed = copy.deepcopy(state)
        changed["numbers"][place] = value
        with pytest.raises(InputError, match=r"^state "):
            resume(changed)
        with pytest.raises(InputError, match=r"^state "):
            regression.restore(changed)
    assert regression.state == state


def test_states_of_hard_streams_are_not_taken_for_changed_ones(subtests):
    for name in [n for n in SETTINGS if n != "own"]:
        with subtests.test(name=name):
            rng = np.random.default_rng(5)
            hard = np.array([[1, 1, 1], [-1, 1, 0], [1e-300, 1, -1], [0, 0, 0]])[rng.integers(0, 4, 400)]
            regression = CalibratedRegression(3, **SETTINGS[name])
            for t, x in enumerate(hard):
                s = (0.0, 1.0, 0.5)[t % 3]
                regression.learn_one(s, float(regression.predict_one(s, x) <= 0.5), x)
                if t % 20 < 2:
                    assert resume(regression.to_json()).state == regression.state


# ------------------------------------------------------------------------------------------------------------ edges


def test_before_the_first_outcome_it_says_what_the_model_says():
    for setting in ({}, {"test_functions": "hats"}, {"test_functions": "polynomials"}):
        assert CalibratedRegression(2, **setting).predict_one(0.37, [1, 0]) == pytest.approx(0.37, abs=1e-15)
    assert CalibratedRegression(2, include_score=False).predict_one(0.37, [1, 0]) == 0.0


def test_no_features_at_all():
    regression = CalibratedRegression()
    for t in range(300):
        regression.learn_one(0.5, t % 4 == 0)
    assert regression.predict_one(0.5) == pytest.approx(0.25, abs=0.05)
    assert regression.predict_one(0.5, []) == regression.predict_one(0.5)
    assert CalibratedRegression().predict_many([]).tolist() == []
    assert CalibratedRegression().learn_many([], []).n_rows == 0


def test_equal_and_constant_features_do_no_harm():
    scores, labels, features = stream(300, 1)
    copies = np.hstack([features] * 4 + [np.ones((300, 2)), np.zeros((300, 1)), -features])
    regression = CalibratedRegression(8)
    p = regression.forecast_many(scores, labels, copies)
    assert ((p >= 0) & (p <= 1)).all()
    assert regression.errors[:4] == pytest.approx([regression.errors[0]] * 4)
    assert regression.errors[6] == 0.0
    assert (np.abs(regression.errors) <= regression.bounds).all()


def test_outcomes_may_lie_between_zero_and_one():
    regression = CalibratedRegression()
    regression.learn_many([0.5] * 200, [0.3] * 200)
    assert regression.predict_one(0.5) == pytest.approx(0.3, abs=0.02)
    with pytest.raises(InputError, match="label must be 0 or 1, or a number between them"):
        regression.learn_one(0.5, 1.1)


def test_features_that_are_not_as_told_are_refused_and_nothing_is_learned(subtests):
    regression = CalibratedRegression(2)
    for bad in [[1.0, np.nan], [1.0], [1.0, 0.0, 0.0], [2.0, 0.0], [np.inf, 0.0], ["a", "b"], None, 1.0]:
        with subtests.test(bad=bad):
            with pytest.raises(InputError, match="features"):
                regression.predict_one(0.5, bad)
            with pytest.raises(InputError, match="features"):
                regression.learn_one(0.5, 1, bad)
            with pytest.raises(InputError, match="features"):
                regression.learn_many([0.5, 0.5], [0, 1], None if bad is None else [[0.0, 0.0], bad])
            assert regression._numbers() == CalibratedRegression(2)._numbers()


def test_features_that_are_wrong_are_told_by_their_kind(subtests):
    for ask, words in [
        (lambda r: r.predict_many([0.5] * 5, np.zeros((4, 3))), "features has 4 rows but scores has 5"),
        (lambda r: r.predict_one(0.5, ["1", "0", "1"]), "features holds text such as '1': pass 3 numbers for each row"),
        (lambda r: r.predict_one(0.5, ["FR", 0, 1]), "features holds text such as 'FR': pass 3 numbers for each row"),
        (lambda r: r.predict_many([0.5] * 2, [[0, 0, 1], [1]]), "rows of unequal length: pass 3 numbers for each"),
        (lambda r: r.predict_one(0.5, {"a": 1, "b": 0, "c": 0}), "pass a list of feature names as n_features"),
        (lambda r: r.predict_one(0.5, [1, None, 0]), "missing"),
        (lambda r: r.predict_one(0.5, [1, 0]), r"3 numbers for each row \(n_features\); got shape \(2,\)"),
        (lambda r: r.predict_one(0.5), "none were given"),
    ]:
        with subtests.test(ask=ask, words=words), pytest.raises(InputError, match=words):
            ask(CalibratedRegression(3))


def test_missing_features_of_pandas_are_called_missing():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="missing"):
        CalibratedRegression(2).predict_one(0.5, [1, pd.NA])
    with pytest.raises(InputError, match="missing"):
        CalibratedRegression(2).predict_many([0.5], pd.DataFrame({"a": pd.array([1], "Int64"), "b": [pd.NA]}))


# ------------------------------------------------------------------------------------------------------------ names


NAMES = ["north", "mobile", "new"]


def frames(features: np.ndarray, names: list[str]):
    columns = {name: features[:, j] for j, name in enumerate(names)}
    yield columns
    for library in ("pandas", "polars"):
        yield pytest.importorskip(library).DataFrame(columns)
    yield pytest.importorskip("pyarrow").table(columns)


def test_columns_are_found_by_their_names_whatever_their_order():
    scores, labels, features = stream(60)
    expected = CalibratedRegression(3).forecast_many(scores, labels, features).tolist()
    turned = np.column_stack([features[:, 2], np.full(60, 7.0), features[:, 0], features[:, 1]])
    for frame in frames(turned, ["new", "id", "north", "mobile"]):
        named = CalibratedRegression(NAMES)
        assert named.forecast_many(scores, labels, frame).tolist() == expected
        assert named.predict_many(
            scores[:5], frame[:5] if not isinstance(frame, dict) else {k: v[:5] for k, v in frame.items()}
        ).tolist() == (named.predict_many(scores[:5], features[:5]).tolist())
    assert CalibratedRegression(NAMES).forecast_many(scores, labels, features).tolist() == expected


def wrapped() -> list[Forecaster]:
    named = CalibratedRegression(NAMES)
    return [
        MultiExpert(named, OnlinePlatt()),
        MultiExpert(MultiExpert(named)),
        Restarting(named, shortest=16, levels=2),
        OnlineMulticlass(named, 2),
        OnlineMulticlass(MultiExpert(named, OnlinePlatt()), 2, "class-wise"),
    ]


def test_names_are_read_through_other_forecasters_too_also_beside_columns_of_text():
    scores, labels, features = stream(60)
    table = {"id": ["x"] * 60, "new": features[:, 2], "north": features[:, 0], "mobile": features[:, 1]}
    tables = [table, *(pytest.importorskip(library).DataFrame(table) for library in ("pandas", "polars"))]
    for by_order, *others in zip(*(wrapped() for _ in range(1 + len(tables))), strict=True):
        given = np.column_stack([1 - scores, scores]) if by_order.takes_rows else scores
        expected = by_order.forecast_many(given, labels.astype(int), features).tolist()
        for by_name, each in zip(others, tables, strict=True):
            assert by_name.forecast_many(given, labels.astype(int), each).tolist() == expected
            assert by_name.predict_many(given, each).tolist() == by_order.predict_many(given, features).tolist()
            assert by_name.state == by_order.state
            before = by_name.state
            with pytest.raises(InputError, match="features has 60 rows but scores has 59"):
                by_name.learn_many(given[:59], labels[:59].astype(int), each)
            assert by_name.state == before


def test_names_of_features_stay_as_they_were_given():
    named = CalibratedRegression(NAMES)
    with pytest.raises(AttributeError, match=r"CalibratedRegression\.feature_names is read-only"):
        named.feature_names = ("mobile", "north", "new")
    assert named.feature_names == tuple(NAMES)
    assert copy.deepcopy(named).feature_names == tuple(NAMES)


def test_a_number_of_features_may_be_of_any_type_of_whole_number():
    for three in (3, np.int8(3), 3.0, np.float64(3.0)):
        assert CalibratedRegression(three).state == CalibratedRegression(3).state


def test_a_row_may_be_a_mapping():
    scores, labels, features = stream(60)
    by_order, by_name = CalibratedRegression(3), CalibratedRegression(NAMES)
    for s, y, x in zip(scores, labels, features, strict=True):
        row = {"new": x[2], "other": "text", "mobile": x[1], "north": bool(x[0])}
        assert by_name.predict_one(s, row) == by_order.predict_one(s, x) == by_name.predict_one(s, x)
        by_name.learn_one(s, y, row)
        by_order.learn_one(s, y, x)
    assert by_name._numbers() == by_order._numbers()


def test_a_row_of_a_frame_is_read_by_its_names():
    pd = pytest.importorskip("pandas")
    row = pd.DataFrame({"new": [True], "mobile": [0], "id": ["x"], "north": [1.0]}).iloc[0]
    named = CalibratedRegression(NAMES).learn_one(0.5, 1, [1, 0, 0])
    assert named.predict_one(0.3, row) == named.predict_one(0.3, [1, 0, 1])


def test_a_state_carries_the_names():
    named = CalibratedRegression(NAMES).learn_one(0.5, 1, {"north": 1, "mobile": 0, "new": 1})
    again = resume(named.to_json())
    assert again.feature_names == tuple(NAMES)
    assert again.state == named.state
    assert again.predict_one(0.2, {"new": 0, "mobile": 1, "north": 1}) == named.predict_one(0.2, [1, 1, 0])
    for other in (CalibratedRegression(3), CalibratedRegression(["mobile", "north", "new"])):
        with pytest.raises(InputError, match="state belongs to another"):
            other.restore(named.state)
    assert CalibratedRegression(3).feature_names == ()
    assert eval(repr(named)).state == CalibratedRegression(NAMES).state


def test_features_that_are_wrong_are_told_by_their_names(subtests):
    for rows, words in [
        (
            {"north": [1, 0], "id": [3, 4]},
            "features lacks 'mobile', 'new' of n_features: it has 'north', 'id'",
        ),
        ({"north": [1, 0], "mobile": [1], "new": [0, 0]}, "columns of unequal length"),
        (
            {"north": ["y", "n"], "mobile": [1, 0], "new": [0, 0]},
            "features has a column 'north' that holds text such as",
        ),
        ({"north": [None, 1], "mobile": [1, 0], "new": [0, 0]}, "missing values"),
        ({"north": [2, 1], "mobile": [1, 0], "new": [0, 0]}, r"must be in \[-1, 1\]"),
        ({"north": [1], "mobile": [1], "new": [0]}, "features has 1 rows but scores has 2"),
        ([[1, 0], [0, 1]], "3 numbers for each row"),
    ]:
        with subtests.test(rows=rows, words=words), pytest.raises(InputError, match=words):
            CalibratedRegression(NAMES).predict_many([0.5, 0.5], rows)


def test_frames_that_cannot_be_read_by_name_are_refused():
    pd = pytest.importorskip("pandas")
    twice = pd.DataFrame([[1, 0, 0, 1]], columns=["north", "mobile", "new", "new"])
    with pytest.raises(InputError, match="features has two columns 'new': rename one"):
        CalibratedRegression(NAMES).predict_many([0.5], twice)
    for call in (lambda row: CalibratedRegression(NAMES).predict_one(0.5, row), CalibratedRegression(NAMES)._one):
        with pytest.raises(InputError, match="features has two columns 'new': rename one"):
            call(twice.iloc[0])
    others = pd.DataFrame([[1, 0, 0, 7, 8]], columns=[*NAMES, "id", "id"])
    assert CalibratedRegression(NAMES)._one(others.iloc[0]) == [1.0, 0.0, 0.0]
    with pytest.raises(InputError, match="it has '0', '1', '2'"):
        CalibratedRegression(NAMES).predict_many([0.5], pd.DataFrame([[1, 0, 0]]))
    with pytest.raises(InputError, match="is a lazy table: collect it first"):
        CalibratedRegression(NAMES).predict_many([0.5], pytest.importorskip("polars").LazyFrame({"north": [1]}))


def test_features_with_the_index_of_the_scores_in_another_order_are_refused():
    pd = pytest.importorskip("pandas")
    scores, features = pd.Series([0.2, 0.4, 0.6]), pd.DataFrame({"a": [1, 0, 1]})
    for regression in (CalibratedRegression(1), CalibratedRegression(["a"])):
        before = regression.state
        with pytest.raises(InputError, match=r"features has the same index as scores in another order.*features\.loc"):
            regression.learn_many(scores, [0, 1, 1], features[::-1])
        with pytest.raises(InputError, match="another order"):
            regression.predict_many(scores, features[::-1])
        assert regression.state == before
        assert len(regression.predict_many(scores, features)) == 3


# ------------------------------------------------------------------------------------------------------------ clamp


def test_clamped_forecasts_are_fixed_points_off_the_ends_and_keep_their_bounds(subtests, full_size):
    for name, setting in SETTINGS.items():
        for clamp in [1e-3, 0.1, 0.25] if full_size else [1e-3, 0.25]:
            with subtests.test(name=name, clamp=clamp):
                scores, labels, features = stream()
                regression = CalibratedRegression(3, clamp=clamp, **setting)
                with_score = setting.get("include_score", True)
                rows, targets, forecasts = [], [], []
                for t, (s, y, x) in enumerate(zip(scores, labels, features, strict=True)):
                    p = regression.predict_one(s, x)
                    row = regressors(setting, p, s, x, t)
                    past = np.array(rows).reshape(t, len(row))
                    theta = np.linalg.solve(np.eye(len(row)) + past.T @ past, past.T @ np.array(targets))
                    assert clamp <= p <= 1 - clamp
                    assert p == pytest.approx(clip(s * with_score + row @ theta, clamp), abs=1e-9)
                    rows.append(row)
                    targets.append(y - s * with_score)
                    forecasts.append(p)
                    regression.learn_one(s, y, x)
                    assert (np.abs(regression.errors) <= regression.bounds).all()
                assert min(forecasts) == pytest.approx(clamp, abs=1e-12)  # which would be 0 or nearly
                assert (
                    CalibratedRegression(3, clamp=clamp, **setting).restore(regression.state).state == regression.state
                )


def test_without_a_clamp_the_second_forecast_may_be_one_and_with_it_never():
    # theta = f / (1 + f.f) times the error 1/2, f = (1, 1, 1/2, 1/2): level 1/2 + (1 + 1 + 1/4) / 7, slope 1 / 14.
    assert CalibratedRegression(1).learn_one(0.5, 1, [1]).predict_one(0.5, [1]) == pytest.approx(
        (1 / 2 + 9 / 28) * 14 / 13
    )
    assert CalibratedRegression(1).learn_one(0.5, 1, [1]).predict_one(0.9, [1]) == 1.0
    assert CalibratedRegression(1, clamp=0.001).learn_one(0.5, 1, [1]).predict_one(0.9, [1]) == 0.999


def test_the_certificate_pays_for_the_clamp():
    # kappa^2 T = 1e-4 * 10,000 = 1 more under the root.
    assert CalibratedRegression(3, clamp=0.01).certificate(10_000).bound == pytest.approx(
        np.sqrt(10_001 * (2 + 6 * np.log(10_001) + 1))
    )
    for bad in (-0.1, 0.3, "x", None, float("nan")):
        with pytest.raises(InputError, match="clamp"):
            CalibratedRegression(3, clamp=bad)


@given(
    st.floats(-10, 10), st.floats(-10, 10) | st.sampled_from([1.0, 1.0 - 2**-53, 1.0 + 2**-52]), st.floats(0.0, 0.25)
)
def test_all_searches_find_fixed_points_between_the_clamped_ends(level, slope, clamp):
    def value(p):
        return level + slope * p

    for p in (
        line_fixed_point(level, slope, clamp),
        fixed_point(value, clamp),
        kinked_fixed_point(value, 16, clamp),
    ):
        assert clamp <= p <= 1.0 - clamp
        assert abs(clip(value(p), clamp) - p) <= 1e-13


def test_it_says_whether_it_needs_features():
    assert CalibratedRegression(2).takes_features
    assert not CalibratedRegression().takes_features


def test_wrong_arguments_are_named(subtests):
    for arguments, word in [
        ({"n_features": -1}, "n_features"),
        ({"n_features": 1.5}, "n_features"),
        ({"n_features": True}, "n_features"),
        ({"n_features": "north"}, "n_features must be an integer of at least 0, or a list of feature names"),
        ({"n_features": ["north", "north"]}, "n_features contains 'north' twice"),
        ({"n_features": ["north", ""]}, "n_features"),
        ({"n_features": []}, "n_features"),
        ({"n_features": None}, "n_features"),
        ({"n_features": np.float64(2.5)}, "n_features must be an integer"),
        ({"n_features": np.array(3)}, "n_features must be an integer of at least 0, or a list of feature names"),
        ({"n_features": [["a"], ["b"]]}, "feature names, not"),
        ({"n_features": np.array([["a", "b"]])}, r"feature names, not ndarray of shape \(1, 2\)"),
        ({"test_functions": "splines"}, "test_functions"),
        ({"test_functions": 3}, "test_functions"),
        ({"test_functions": lambda p, s, x: [p]}, "size"),
        ({"test_functions": lambda p, s, x: [p], "size": 1, "growing": True}, "size"),
        ({"test_functions": "hats", "size": 65}, "size"),
        ({"test_functions": "hats", "size": 0}, "size"),
        ({"size": 2}, "size"),
    ]:
        with subtests.test(arguments=arguments, word=word), pytest.raises(InputError, match=word):
            CalibratedRegression(**arguments)


@pytest.mark.parametrize("found", [[0.1], [0.1, 1.5], [0.1, float("nan")]])
def test_functions_of_the_user_must_keep_their_bounds(found):
    with pytest.raises(InputError, match=r"2 numbers in \[-1, 1\]"):
        CalibratedRegression(test_functions=lambda p, s, x: found, size=2).predict_one(0.5)


def test_functions_of_the_user_that_jump_are_found_out():
    # Outcomes against the forecast drive it to one half, where the function jumps and no fixed point is left.
    regression = CalibratedRegression(test_functions=lambda p, s, x: [float(p > 0.5)], size=1)

    def contradict():
        for _ in range(100):
            regression.learn_one(0.5, regression.predict_one(0.5) <= 0.5)

    with pytest.raises(InputError, match=r"continuous in the forecast, but jump at 0\.5"):
        contradict()


@pytest.mark.parametrize(("include_score", "constant"), [(True, True), (False, True), (True, False)])
def test_without_features_the_forecast_is_a_map_of_the_score(include_score, constant):
    rng = np.random.default_rng(3)
    s = rng.random(500)
    regression = CalibratedRegression(include_score=include_score, constant=constant)
    regression.learn_many(s, rng.random(500) < np.clip(3 * s - 1, 0, 1))
    grid = np.linspace(0, 1, 201)
    assert regression.freeze().apply(grid) == pytest.approx(regression.predict_many(grid), abs=1e-12)
    held = CalibratedRegression(include_score=include_score, constant=constant, clamp=0.1).learn_many(
        s, rng.random(500) < np.clip(3 * s - 1, 0, 1)
    )
    assert held.freeze().apply(grid) == pytest.approx(held.predict_many(grid), abs=1e-12)
    for other in (CalibratedRegression(1), CalibratedRegression(test_functions="hats")):
        with pytest.raises(InputError, match="no fixed map"):
            other.freeze()


# ------------------------------------------------------------------------------------------------------ certificate


def test_the_certificate_says_what_is_promised():
    # 20 features, the constant, the score and the forecast: n = 23, c = 2.
    promise = CalibratedRegression(20).certificate(10_000)
    assert promise.bound == pytest.approx(np.sqrt(10_001 * (2 + 23 * np.log(10_001))))
    assert "observed events on all rows and in each of the 20 groups is at most 1,463 events, 0.147" in str(promise)
    small = CalibratedRegression(3, include_score=False).certificate(10_000, 900)
    assert small.bound == pytest.approx(np.sqrt(901 * (1 + 5 * np.log(10_001))))
    assert "in each of the 3 groups if it has up to 900 rows is at most 206 events, 0.229 of a group of 900" in str(
        small
    )
    assert OnlineAssumption.IN_ORDER in small.assumptions
    for told in (str(promise), str(small)):
        assert "With late outcomes it holds for forecasts recomputed when each outcome is learned" in told
    assert "continuous" in str(CalibratedRegression(3, **SETTINGS["own"]).certificate(10_000))
    for bad in (11, 2.5, -1, "x", [1]):
        with pytest.raises(InputError, match="group_rows"):
            CalibratedRegression(3).certificate(10, bad)


def test_the_certificate_gives_events_and_their_rate_and_says_for_which_groups():
    # n = 8, c = 2: sqrt(1,001 (2 + 8 ln 20,001)) = 285.15 events, which are 0.28515 of 1,000 rows; told rounded up.
    promise = CalibratedRegression(5).certificate(20_000, group_rows=1_000)
    assert "at most 286 events, 0.286 of a group of 1,000 rows, on every sequence" in str(promise)
    assert "In a group of fewer than 1,000 rows the bound in events holds too, but is a larger share" in str(promise)
    assert promise.rate == promise.bound / 1_000 == promise.to_dict()["rate"]
    assert json.loads(json.dumps(promise.to_dict()))["group_rows"] == 1_000
    # For fewer rows the number of events is smaller and their share larger, as is told.
    fewer = CalibratedRegression(5).certificate(20_000, group_rows=500)
    assert fewer.bound < promise.bound
    assert fewer.rate > promise.rate
    named = CalibratedRegression(["north", "mobile"]).certificate(20_000, group_rows=1_000)
    assert "in each of the 2 groups ('north', 'mobile') if it has" in str(named)
    assert "in the group 'north' if it has" in str(
        CalibratedRegression(["north"]).certificate(20_000, group_rows=1_000)
    )
    assert "of all rows" in str(CalibratedRegression(5).certificate(20_000))
    assert "239 events is vacuous for 200 rows" in str(CalibratedRegression(20).certificate(200_000, group_rows=200))


def test_with_late_outcomes_errors_and_bounds_are_about_the_forecasts_made_when_each_is_learned():
    rng = np.random.default_rng(15)
    n, late = 3_000, 750
    x = (rng.random(n) < 0.5).astype(float)
    y = (rng.random(n) < np.where((x > 0) & (np.arange(n) // late % 2 == 0), 0.9, 0.2)).astype(float)
    regression, said, anew = CalibratedRegression(1), np.empty(n), np.empty(n)
    for t in range(n):
        said[t] = regression.predict_one(0.5, [x[t]])
        if t >= late:
            anew[t - late] = regression.predict_one(0.5, [x[t - late]])
            regression.learn_one(0.5, y[t - late], [x[t - late]])
    known = slice(0, n - late)
    assert regression.errors[0] == pytest.approx(np.sum(x[known] * (anew - y)[known]))
    assert abs(regression.errors[0]) <= regression.bounds[0] < abs(np.sum(x[known] * (said - y)[known]))


def test_a_bound_that_says_nothing_is_no_certificate():
    for regression, asked in (
        (CalibratedRegression(20), (10_000, 200)),
        (CalibratedRegression(3), (1_000, 10)),
        (CalibratedRegression(3), (1_000, 0)),
        (CalibratedRegression(3), (0,)),
        (CalibratedRegression(3), ()),
        (CalibratedRegression(1, test_functions="hats", size=4), (3_000, 1)),
    ):
        assert isinstance(regression.certificate(*asked), NoCertificate)


def test_groups_that_are_no_features_have_no_certificate():
    # Outcomes 0 and 1 in turn against forecasts near 1/2: the rows of the ones are off by half of their number.
    y = np.arange(2_000) % 2
    regression = CalibratedRegression()
    p = regression.forecast_many(np.full(2_000, 0.5), y)
    assert abs((p - y)[y == 1].sum()) > 400
    with pytest.raises(InputError, match="group_rows must be left out"):
        regression.certificate(2_000, 1_000)
    promise = regression.certificate()
    assert "observed events on all rows is at most" in str(promise)
    assert "group" not in str(promise)
    assert abs((p - y).sum()) <= promise.bound


def test_without_the_constant_nothing_is_promised_of_all_rows() -> None:
    # Rows outside of the group: forecasts stay 0 while all outcomes are 1, so all 3,000 events are missed.
    printed = CalibratedRegression(1, include_score=False, constant=False)
    p = printed.forecast_many([0.5] * 3_000, [1] * 3_000, np.zeros((3_000, 1)))
    promise = printed.certificate()
    assert abs(p.sum() - 3_000) > 10 * promise.bound
    assert "all rows" not in promise.quantity
    # d + 1 = 2 regressors: Theorem 3.3 prints 2 sqrt((T + 1) (d + 1) ln(T + 1)).
    assert promise.bound == pytest.approx(np.sqrt(3_001 * (1 + 2 * np.log(3_001))))
    assert promise.bound <= 2 * np.sqrt(3_001 * 2 * np.log(3_001))
    assert len(printed.errors) == len(printed.bounds) == 2
    # No features either: what is left is about rows weighted by the forecast, which costs 1 more.
    left = CalibratedRegression(constant=False).certificate(3_000)
    assert left.bound == pytest.approx(1 + np.sqrt(3_001 * (2 + 2 * np.log(3_001))))
    assert left.quantity.endswith("on all rows weighted by the forecast")
    with pytest.raises(InputError, match="constant must be True without features and without the score"):
        CalibratedRegression(include_score=False, constant=False)


def test_a_promise_on_a_group_names_test_functions_only_inside_it():
    # The hats live on all rows, so that a small group must not shrink what is promised of them.
    plain = CalibratedRegression(1, test_functions="hats", size=4)
    assert "functions" not in str(plain.certificate(3_000, 2_000))
    inside = CalibratedRegression(1, test_functions="hats", size=4, each_feature=True)
    assert "also with its rows weighted by each of the 4 functions" in str(inside.certificate(30_000, 20_000))
    everywhere = plain.certificate(3_000)
    # The feature, three hats, the constant, the score and the forecast; 1 more for the forecast, a test function too.
    assert everywhere.bound == pytest.approx(1 + np.sqrt(3_001 * (2 + 7 * np.log(3_001))))
    assert "on all rows weighted by each of the 4 functions of the forecast" in str(everywhere)
    for t in range(300):
        plain.learn_one(0.5, plain.predict_one(0.5, [t == 0]) < 0.5, [t == 0])
    assert isinstance(plain.certificate(300, 1), NoCertificate)
    assert np.abs(plain.errors).max() <= plain.certificate().bound


def test_a_growing_family_pays_only_for_functions_in_use():
    growing = CalibratedRegression(test_functions="hats", size=64, growing=True)
    fixed = CalibratedRegression(test_functions="hats", size=64)
    assert growing.certificate(10**4).bound < fixed.certificate(10**4).bound
    assert growing.certificate(10**6).bound == fixed.certificate(10**6).bound


def test_bounds_from_the_rows_stay_under_those_beforehand(subtests):
    for name in SETTINGS:
        with subtests.test(name=name):
            regression = CalibratedRegression(3, **SETTINGS[name]).learn_many(*stream(200))
            assert (np.abs(regression.errors) <= regression.bounds).all()
            assert (regression.bounds[:3] <= CalibratedRegression(3, **SETTINGS[name]).certificate(10**9).bound).all()
            tau = 1 + stream(200)[2].sum(axis=0)
            n = len(regression.errors)
            if not regression.growing:
                assert (regression.bounds[:3] <= np.sqrt(tau * (2 + n * np.log(201)))).all()


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.lists(st.floats(-1, 1), min_size=3, max_size=3)), max_size=25
    ),
    name=st.sampled_from(list(SETTINGS)),
)
def test_no_sequence_leads_over_the_bounds(rows, name):
    regression = CalibratedRegression(3, **SETTINGS[name])
    scores, labels, features = ([row[k] for row in rows] for k in range(3))
    for s, y, x in zip(scores, labels, features, strict=True):
        regression.learn_one(s, y, x)
        assert (np.abs(regression.errors) <= regression.bounds).all()


def test_the_factors_are_those_of_the_matrix():
    scores, labels, features = stream(2_000, 4)
    regression = CalibratedRegression(4)
    p = regression.forecast_many(scores, labels, features)
    rows = np.column_stack([features, np.ones(2_000), scores, p])
    n = rows.shape[1]
    lower = np.eye(n)
    for j, column in enumerate(regression._columns):
        lower[j + 1 :, j] = column[:-1]
    assert lower @ np.diag(regression._pivots) @ lower.T == pytest.approx(np.eye(n) + rows.T @ rows, rel=1e-11)


def test_growing_functions_are_promised_from_their_first_row_on() -> None:
    """A function that is not in use yet is 0 in the regression: rows before say nothing of it."""
    said = "each of the 8 functions of the forecast, from the row at which it came into use"
    growing = CalibratedRegression(0, test_functions="hats", size=8, growing=True)
    assert said in str(growing.certificate(200_000))
    assert "came into use" not in str(CalibratedRegression(0, test_functions="hats", size=8).certificate(200_000))


def test_functions_of_ones_own_pay_for_what_the_search_may_miss() -> None:
    own = CalibratedRegression(0, test_functions=lambda p, s, x: [p * p], size=1)
    family = CalibratedRegression(0, test_functions="polynomials", size=2)
    n = 10**6
    assert own.certificate(n).bound ** 2 - family.certificate(n).bound ** 2 >= 2e-6 * n * n


def test_settings_that_mean_nothing_or_too_much_are_refused(subtests) -> None:
    for options, told in [
        ({"test_functions": ["hats"]}, "test_functions must be one of"),
        ({"each_feature": "no"}, "each_feature must be True or False"),
        ({"growing": 1}, "growing must be True or False"),
        ({"n_features": 10**9}, "n_features must be an integer from 0 to 2,000"),
        ({"n_features": 1_000, "each_feature": True, "test_functions": "hats", "size": 8}, "n_features needs"),
    ]:
        with subtests.test(options=options, told=told), pytest.raises(InputError, match=told):
            CalibratedRegression(**({"n_features": 2} | options))


def test_a_named_tuple_is_read_by_its_names() -> None:
    class Turned(NamedTuple):
        new: float
        north: float

    named = CalibratedRegression(["north", "new"]).learn_many(
        [0.5] * 4, [1, 1, 0, 0], {"north": [1, 1, 0, 0], "new": [0, 0, 1, 1]}
    )
    told = named.predict_one(0.3, {"north": 1, "new": 0})
    assert named.predict_one(0.3, Turned(new=0.0, north=1.0)) == told != named.predict_one(0.3, [0.0, 1.0])


def test_bounds_of_a_regression_pay_for_the_clamp_and_for_functions_of_ones_own(subtests) -> None:
    for clamp, own in [(0.0, False), (0.2, False), (0.2, True), (0.0, True)]:
        with subtests.test(clamp=clamp, own=own):
            rng = np.random.default_rng(7)
            n = 150
            scores, labels, groups = rng.uniform(size=n), rng.integers(0, 2, n), rng.integers(0, 2, (n, 2))
            settings: dict[str, Any] = {"test_functions": lambda p, s, x: [np.sin(p), p * s], "size": 2} if own else {}
            regression = CalibratedRegression(2, clamp=clamp, **settings)
            p = regression.forecast_many(scores, labels, groups)
            # Regressors: features, own functions, 1, the score, the forecast. V = sum of (p - y)^2 q / (1 + q), with
            # q = f' A^-1 f of the rows before; bounds sqrt(tau (2 + V + clamp^2 T + 2 * 10^-6 T)), 1 more for the
            # last two.
            between = [np.sin(p), p * scores] if own else []
            f = np.stack([*groups.T, *between, np.ones(n), scores, p], axis=1)
            matrix, spent = np.eye(f.shape[1]), 0.0
            for row, error in zip(f, p - labels, strict=True):
                q = float(row @ np.linalg.solve(matrix, row))
                spent += error**2 * q / (1 + q)
                matrix += np.outer(row, row)
            paid = 2 + spent + (clamp**2 + (2e-6 if own else 0.0)) * n
            expected = np.sqrt(np.diag(matrix) * paid) + np.array([0.0] * (f.shape[1] - 2) + [1.0, 1.0])
            assert regression.bounds == pytest.approx(expected, rel=1e-9)
