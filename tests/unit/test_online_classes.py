"""Online calibration of several classes: copies by notion, the temperature, and their contract."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every

from calibrant import InputError, TemperatureScaling
from calibrant.maps import PerClassMap, SoftmaxMap, TopMap
from calibrant.multiclass import VectorScaling
from calibrant.notions import TopKLabel
from calibrant.online import (
    CalibratedRegression,
    Hedging,
    Identity,
    OnlineMulticlass,
    OnlinePlatt,
    OnlineTemperature,
    OnlineVector,
    resume,
)
from calibrant.online.games.tracking import Tracking
from calibrant.online.stored import KINDS

NAMES = ("cat", "dog", "bird")
FORECASTERS = {
    "top-label": lambda: OnlineMulticlass(OnlinePlatt(), NAMES),
    "class-wise": lambda: OnlineMulticlass(OnlinePlatt(), NAMES, "class-wise"),
    "confidence": lambda: OnlineMulticlass(OnlinePlatt(), NAMES, "confidence"),
    "top-label, tracked": lambda: OnlineMulticlass(Tracking(OnlinePlatt()), NAMES),
    "temperature": lambda: OnlineTemperature(NAMES),
    "vector": lambda: OnlineVector(NAMES),
}


def rows(n, k=3, seed=0, sharp=2.0):
    """Rows that are too sure of themselves, with labels drawn from rows that are not."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k))
    p = np.exp(sharp * z)
    q = np.exp(z)
    q /= q.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > np.cumsum(q, axis=1)).sum(axis=1).clip(0, k - 1)
    return p / p.sum(axis=1, keepdims=True), y


def named(y):
    return np.array(NAMES)[y]


# ------------------------------------------------------------------------------------------------- the contract


def test_every_forecaster_of_rows_of_classes_is_here():
    known = {name for name, kind in KINDS.items() if kind.takes_rows}
    assert known == {type(make()).__name__ for make in FORECASTERS.values()}


@every("make", FORECASTERS.values())
def test_many_rows_equal_a_loop_over_one_bit_for_bit(make):
    p, y = rows(200)
    together, alone = make(), make()
    said = together.forecast_many(p[:150], named(y[:150]))
    for row, label, forecast in zip(p, named(y), said, strict=False):
        assert np.array_equal(alone.predict_one(row), forecast)
        alone.learn_one(row, label)
    assert together.state == alone.state
    assert make().learn_many(p[:150], named(y[:150])).state == alone.state
    assert np.array_equal(together.predict_many(p[150:]), np.array([alone.predict_one(row) for row in p[150:]]))
    assert together.n_rows == 150

    p, y = rows(60)
    forecaster = make().learn_many(p, named(y))
    before = forecaster.to_json()
    forecaster.predict_many(p)
    forecaster.predict_one(p[0])
    assert forecaster.to_json() == before


@every("make", FORECASTERS.values())
def test_memory_does_not_grow_and_no_rows_are_learned_as_nothing(make):
    p, y = rows(500)
    short, long = make().learn_many(p[:20], named(y[:20])), make().learn_many(p, named(y))

    def count(state):
        return len(state["numbers"]) + sum(count(each) for each in state["experts"])

    assert count(short.state) == count(long.state) < 200

    forecaster = make()
    empty = np.empty((0, 3))
    before = forecaster.state
    assert len(forecaster.forecast_many(empty, np.empty(0, dtype=str))) == len(forecaster.predict_many(empty)) == 0
    assert forecaster.learn_many(empty, np.empty(0, dtype=str)).state == before


@every("make", FORECASTERS.values())
def test_a_frozen_map_says_what_the_forecaster_says(make):
    p, y = rows(300)
    forecaster = make().learn_many(p, named(y))
    said = forecaster.freeze().apply(p)
    assert np.allclose(said[:, 0] if forecaster.predict_many(p).ndim == 1 else said, forecaster.predict_many(p))
    assert forecaster.freeze().classes == NAMES

    forecaster = make().learn_many([[0.6, 0.3, 0.1]] * 20, ["cat"] * 20)
    assert np.ravel(forecaster.predict_one([0.6, 0.3, 0.1]))[0] > 0.6

    with pytest.raises(InputError, match="labels"):
        make().learn_many([[0.2, 0.3, 0.5]] * 3, ["cat", "dog"])


@every(
    ("row", "label", "told"),
    [
        ([0.2, 0.8], "cat", "score has 2 numbers but there are 3 classes"),
        ([0.2, 0.2, 0.2], "cat", "sum"),
        ([0.5, 0.6, -0.1], "cat", r"\[0, 1\]"),
        ([0.5, float("nan"), 0.5], "cat", "missing"),
        ([0.2, 0.3, 0.5], "fish", "'fish', which has no column"),
        ([0.2, 0.3, 0.5], None, "None"),
        (0.3, "cat", "a probability for each of 3 classes, not 0.3"),
        (None, "cat", "a probability for each of 3 classes, not None"),
        ("abc", "cat", "a probability for each of 3 classes, not 'abc'"),
        (["0.2", "0.3", "0.5"], "cat", "a probability for each of 3 classes"),
        ([[0.2], [0.3], [0.5]], "cat", "a probability for each of 3 classes"),
        (np.array([[0.2], [0.3], [0.5]]), "cat", "a probability for each of 3 classes"),
        ([0.2, None, 0.8], "cat", "missing"),
        ([0.2, 0.3, 0.5], [1], "label"),
        ([0.2, 0.3, 0.5], 2.5, "label"),
        ({"cat": 0.2, "dog": 0.8}, "cat", "names 'cat', 'dog', but the classes are"),
        ({"cat": 0.2, "dog": 0.3, "eel": 0.5}, "cat", "names 'cat', 'dog', 'eel', but the classes are"),
        ([0.2, 0.3, 0.5], 0, "has no column"),
    ],
)
@every("make", FORECASTERS.values())
def test_bad_rows_and_strange_classes_are_refused_and_teach_nothing(make, row, label, told):
    forecaster = make()
    before = forecaster.state
    with pytest.raises(InputError, match=told):
        forecaster.learn_one(row, label)
    if label == "fish":
        with pytest.raises(InputError, match="labels has the class 'fish', which has no column in scores"):
            forecaster.learn_many([row, row], ["cat", "fish"])
    assert forecaster.state == before


@every(
    ("row", "told"),
    [
        (
            [-3.0, 1.0, 5.0],
            r"scores must lie in \[0, 1\], but range from -3 to 5: pass probabilities, such as the softmax",
        ),
        (
            [0.9, 0.8, 0.7],
            r"sum to between 2.4 and 2.4, not to 1, .*: pass probabilities, such as the softmax of logits$",
        ),
        (
            [0.4, 0.3, 0.25],
            r"sum to between 0.95 .*: pass scores / scores.sum\(axis=1, keepdims=True\), since the map takes prob",
        ),
    ],
)
@every("make", FORECASTERS.values())
def test_the_error_for_rows_that_are_not_probabilities_does_not_mention_a_fit(make, row, told):
    for call in (lambda: make().predict_one(row), lambda: make().learn_many([row, row], ["cat", "dog"])):
        with pytest.raises(InputError, match=told) as caught:
            call()
        assert "fit" not in str(caught.value)


# ------------------------------------------------------------------------------------------- copies by notion


def test_each_copy_is_a_binary_forecaster_on_the_rows_of_its_notion():
    p, y = rows(400)
    found = OnlineMulticlass(OnlinePlatt(), 3).forecast_many(p, y)
    for k in range(3):
        mine = p.argmax(axis=1) == k
        alone = OnlinePlatt().forecast_many(p[mine, k], y[mine] == k)
        assert np.array_equal(found[mine], alone)

    p, y = rows(400)
    found = OnlineMulticlass(OnlinePlatt(), 3, "class-wise").forecast_many(p, y)
    for k in range(3):
        assert np.array_equal(found[:, k], OnlinePlatt().forecast_many(p[:, k], y == k))


def test_copies_do_not_touch_each_other_nor_the_forecaster_they_came_from():
    expert = OnlinePlatt()
    pets = OnlineMulticlass(expert, NAMES)
    pets.learn_one([0.8, 0.1, 0.1], "dog")
    assert expert.n_rows == 0
    assert [each.n_rows for each in pets.experts] == [1, 0, 0]
    assert pets.predict_one([0.1, 0.8, 0.1]) == pytest.approx(0.8)
    assert pets.predict_one([0.8, 0.1, 0.1]) < 0.8


def test_classes_stand_in_the_order_of_the_columns_or_by_their_names():
    p, y = rows(100)
    by_number = OnlineMulticlass(OnlinePlatt(), 3).learn_many(p, y)
    by_name = OnlineMulticlass(OnlinePlatt(), NAMES).learn_many(p, named(y))
    order = [2, 0, 1]
    turned = OnlineMulticlass(OnlinePlatt(), [NAMES[j] for j in order]).learn_many(p[:, order], named(y))
    assert by_number.classes == ("0", "1", "2")
    assert [each.state for each in by_number.experts] == [each.state for each in by_name.experts]
    assert [turned.experts[order.index(j)].state for j in range(3)] == [each.state for each in by_name.experts]

    pd = pytest.importorskip("pandas")
    p, y = rows(50)
    frame = pd.DataFrame(p, columns=list(NAMES))[["bird", "cat", "dog"]]
    mine, theirs = (OnlineMulticlass(OnlinePlatt(), NAMES).learn_many(each, named(y)) for each in (p, frame))
    assert mine.state == theirs.state


@every("make", FORECASTERS.values())
def test_a_row_with_names_is_read_by_them(make):
    pd = pytest.importorskip("pandas")
    p, y = rows(30)
    frame = pd.DataFrame(p, columns=list(NAMES))[["bird", "cat", "dog"]]
    want, by_series, by_mapping = make(), make(), make()
    for i, label in enumerate(named(y)):
        by_series.learn_one(frame.iloc[i], label)
        by_mapping.learn_one(frame.iloc[i].to_dict(), label)
        want.learn_one(p[i], label)
        assert np.array_equal(by_series.predict_one(frame.iloc[0]), want.predict_one(p[0]))
    assert by_series.state == by_mapping.state == want.state
    assert np.array_equal(want.predict_one(pd.Series(p[0])), want.predict_one(p[0]))  # numbered, so in their order
    with pytest.raises(InputError, match="names"):
        want.predict_one(pd.Series(p[0], index=["cat", "dog", "eel"]))
    with pytest.raises(InputError, match="a probability for each of 3 classes, not <class"):
        want.predict_one(frame)
    with pytest.raises(InputError, match="names"):
        want.predict_one(pd.Series([0.2, 0.3, 0.5], index=["cat", "cat", "dog"]))


def test_the_named_class_is_the_label_as_given_and_the_first_among_equals():
    pets = OnlineMulticlass(OnlinePlatt(), 3)
    assert pets.named([0.1, 0.2, 0.7]) == 2
    assert type(pets.named([0.1, 0.2, 0.7])) is int
    assert resume(pets.to_json()).named([0.1, 0.2, 0.7]) == 2
    assert OnlineMulticlass(OnlinePlatt(), np.array([5, 7])).named([0.1, 0.9]) == 7
    assert resume(OnlineMulticlass(OnlinePlatt(), [0.0, 1.0]).to_json()).named([0.1, 0.9]) == 1.0
    assert resume(OnlineMulticlass(OnlinePlatt(), [False, True]).to_json()).named([0.1, 0.9]) is True
    assert OnlineMulticlass(OnlinePlatt(), ["5", "7"]).named([0.1, 0.9]) == "7"
    assert resume(OnlineTemperature(np.array([5, 7])).to_json()).classes == ("5", "7")

    pets = OnlineMulticlass(OnlinePlatt(), NAMES)
    assert pets.named([0.4, 0.4, 0.2]) == "cat"
    pets.learn_many([[0.4, 0.4, 0.2]], ["dog"])
    assert [each.n_rows for each in pets.experts] == [1, 0, 0]


def played(pets, n, width):
    """Calibration error of class b, whose outcomes are picked by what class a was just told, and its bound."""
    first, second = pets.experts
    said, seen = [], []
    for _ in range(n):
        law = first.predict_distribution(0.6)
        told = pets.predict_one([0.6, 0.4])
        pets.learn_one([0.6, 0.4], "a" if sum(p * w for p, w in law) < 0.5 else "b")
        # If b draws as a did, the draw lies in this part of [0, 1].
        low, high = (0.0, 1.0) if len(law) == 1 else (0.0, law[0][1]) if told == law[0][0] else (law[0][1], 1.0)
        law = second.predict_distribution(0.6)
        share = max(0.0, min(high, law[0][1]) - low) / (high - low)
        event = share * law[0][0] + (1.0 - share) * law[-1][0] < 0.5
        said.append(pets.predict_one([0.4, 0.6]))
        seen.append(event)
        pets.learn_one([0.4, 0.6], "b" if event else "a")
    gaps = np.bincount(np.minimum(np.array(said) / width, 1 / width - 1).astype(int), np.array(said) - seen)
    return np.abs(gaps).sum() / n


def test_forecasts_of_one_class_give_nothing_away_about_another():
    # With one sequence of draws for both, class b is at 0.48 after 500 rows, above the bound; with one each, at 0.08.
    errors = []
    for seed in range(4):
        pets = OnlineMulticlass(Hedging(Identity(), epsilon=0.1, random_state=seed), ["a", "b"])
        errors.append(played(pets, 500, 0.1))
    assert np.mean(errors) < 0.25
    p, y = rows(40, k=2)
    again = resume(pets.to_json())
    assert (
        again.forecast_many(p, np.array(["a", "b"])[y]).tolist()
        == pets.forecast_many(p, np.array(["a", "b"])[y]).tolist()
    )


def test_features_reach_the_copies():
    p, y = rows(30)
    sides = np.random.default_rng(0).choice([0.0, 1.0], (30, 2))
    pets = OnlineMulticlass(CalibratedRegression(2), NAMES, "class-wise")
    assert pets.takes_features
    found = pets.forecast_many(p, named(y), sides)
    assert np.array_equal(found[:, 1], CalibratedRegression(2).forecast_many(p[:, 1], (y == 1) * 1.0, sides))
    assert not OnlineMulticlass(OnlinePlatt(), NAMES).takes_features
    with pytest.raises(InputError, match="features holds text such as 'a'"):
        pets.predict_many(p[:2], [["a", "b"], ["c", "d"]])


def test_two_classes_class_wise_mirror_each_other():
    p, y = rows(300, k=2)
    p[:, 1] = 1.0 - p[:, 0]
    both = OnlineMulticlass(OnlinePlatt(), 2, "class-wise").learn_many(p, y).predict_many(p)
    assert np.allclose(both.sum(axis=1), 1.0)
    assert np.allclose(both[:, 1], OnlinePlatt().learn_many(p[:, 1], y).predict_many(p[:, 1]))


def test_maps_and_certificates_are_those_of_the_notion():
    assert isinstance(OnlineMulticlass(OnlinePlatt(), 3).freeze(), TopMap)
    assert isinstance(OnlineMulticlass(OnlinePlatt(), 3, "class-wise").freeze(), PerClassMap)
    assert isinstance(OnlineTemperature(3).freeze(), SoftmaxMap)

    assert "experts[k]" in str(OnlineMulticlass(OnlinePlatt(), 3).certificate())


def test_top_label_forecasts_of_an_overconfident_model_become_calibrated():
    p, y = rows(4000, seed=3, sharp=3.0)
    forecasts = OnlineMulticlass(OnlinePlatt(), 3).forecast_many(p, y)
    right = p.argmax(axis=1) == y
    late = slice(1000, None)
    before = abs(p.max(axis=1)[late].mean() - right[late].mean())
    assert before > 0.1
    for k in range(3):
        mine = np.flatnonzero(p.argmax(axis=1) == k)[300:]
        assert abs(forecasts[mine].mean() - right[mine].mean()) < 0.04  # 4 standard errors of 1,000 rows at 0.5: 0.06


@every(
    ("build", "told"),
    [
        (lambda: OnlineMulticlass(OnlinePlatt(), ["a", "a"]), "classes must be distinct names"),
        (lambda: OnlineMulticlass(OnlinePlatt(), 1), "at least two classes"),
        (lambda: OnlineMulticlass(OnlinePlatt(), "abc"), "at least two classes"),
        (lambda: OnlineMulticlass(OnlinePlatt(), 3, "canonical"), "notion must be one of"),
        *(
            (
                lambda notion=notion: OnlineMulticlass(OnlinePlatt(), 3, notion),
                "notion must be one of 'top-label', 'class-wise', 'confidence', not ",
            )
            for notion in ("top-k-label", "top-2", TopKLabel(2), None, ["top-label"])
        ),
        (lambda: OnlineMulticlass("platt", 3), "must be a forecaster of calibrant.online"),
        (lambda: OnlineMulticlass(OnlineTemperature(3), 3), "takes class probabilities"),
        (lambda: Tracking(OnlineTemperature(3)), "takes class probabilities"),
        (lambda: OnlineTemperature(3, gamma="x"), "gamma must be at least .*, not 'x'"),
        (lambda: OnlineTemperature(3, radius=0.5), "radius must be at least 1"),
        (lambda: OnlineTemperature(3).learn_one([0.2, 0.3, 0.5], 0, [1.0]), "features must be left out"),
        (
            lambda: resume({"forecaster": "OnlineMulticlass", "parameters": {"classes": ["a", "b"]}, "experts": []}),
            "state",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(build, told):
    with pytest.raises(InputError, match=told):
        build()


def test_a_state_with_a_copy_too_few_is_refused():
    state = OnlineMulticlass(OnlinePlatt(), 3).state
    state["experts"] = state["experts"][:2]
    with pytest.raises(InputError, match="truncated"):
        resume(state)


@every("count", [-1, 2.5])
@every("make", FORECASTERS.values())
def test_a_state_with_an_edited_number_of_rows_is_refused(make, count):
    forecaster = make().learn_many(*(lambda p, y: (p, named(y)))(*rows(20)))
    state = forecaster.state
    state["numbers"][0] = count
    with pytest.raises(InputError, match="rows"):
        resume(state)


# ------------------------------------------------------------------------------------------------- temperature


@every(("place", "value"), [(1, -50.0), (1, 0.009), (1, 101.0), (2, -1.0), (2, 99.0), (2, 1e300), (0, 0)])
def test_a_temperature_that_no_stream_leads_to_is_refused(place, value):
    p, y = rows(20)
    model = OnlineTemperature(NAMES).learn_many(p, named(y))
    before, state = model.state, model.state
    state["numbers"][place] = value
    with pytest.raises(InputError, match="its slope cannot result from any stream"):
        resume(state)
    with pytest.raises(InputError, match="its slope cannot result from any stream"):
        model.restore(state)
    assert model.state == before


def test_one_newton_step_of_the_slope_by_hand():
    # p = (3/4, 1/4), label 1, slope 1: g = 3/4 log 3/4 + 1/4 log 1/4 - log 1/4 = 3/4 log 3 = 0.8240;
    # A = 100 + g^2, slope = 1 - g / (0.1 A) = 1 - 0.0818...
    g = 0.75 * math.log(3.0)
    model = OnlineTemperature(2).learn_one([0.75, 0.25], 1)
    assert model.slope == pytest.approx(1.0 - g / (0.1 * (100.0 + g * g)), rel=1e-14)
    a = model.slope
    assert model.predict_one([0.75, 0.25])[0] == pytest.approx(3**a / (3**a + 1), rel=1e-14)


def test_the_slope_comes_near_the_one_of_the_whole_stream():
    p, y = rows(6000, k=5)
    online = OnlineTemperature(5).learn_many(p, y)
    batch = TemperatureScaling().fit(p, y, classes=range(5))
    # Steps of c = 1 / gamma = 10 times Newton's give c^2 / (2c - 1) = 5.3 times the variance 1 / A of a fit to all.
    assert abs(online.slope - 1 / batch.temperature_) < 4.0 * math.sqrt(5.3 / online.state["numbers"][2])
    calm = OnlineTemperature(5, gamma=1.0).learn_many(p, y)
    assert calm.slope == pytest.approx(1 / batch.temperature_, rel=0.02)
    assert batch.temperature_ == pytest.approx(2.0, rel=0.05)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1e-300, 0.2, 0.5, 0.9, 1.0]), st.booleans()), max_size=60),
    st.sampled_from([1.0, 3.0, 100.0]),
)
def test_the_slope_stays_in_its_range_whatever_comes(stream, radius):
    model = OnlineTemperature(["a", "b"], radius=radius)
    for x, second in stream:
        model.learn_one([x, 1.0 - x], "b" if second else "a")
        assert 1.0 / radius <= model.slope <= radius
        said = model.predict_one([x, 1.0 - x])
        assert abs(said.sum() - 1.0) < 1e-12
        assert (said >= 0.0).all()


# ------------------------------------------------------------------------------------------------------ vector


def test_steps_of_vector_scaling_are_newton_steps_on_the_gradient():
    p, y = rows(40, k=3)
    model = OnlineVector(3, gamma=0.3, rho=5.0)
    theta, matrix = np.array([1.0] * 3 + [0.0] * 3), 5.0 * np.eye(6)
    for row, label in zip(p, y, strict=True):
        z = np.log(np.maximum(row, 2.0**-32))
        told = np.exp(theta[:3] * z + theta[3:])
        told /= told.sum()
        assert model.predict_one(row) == pytest.approx(told, rel=1e-9)
        off = told - (np.arange(3) == label)
        gradient = np.concatenate([off * z, off])
        matrix += np.outer(gradient, gradient)
        theta = theta - np.linalg.solve(matrix, gradient) / 0.3
        model.learn_one(row, int(label))
        assert [*model.slopes, *model.intercepts] == pytest.approx(theta, rel=1e-9, abs=1e-9)


def test_vector_scaling_comes_near_the_fit_to_the_whole_stream():
    rng = np.random.default_rng(3)
    p, _ = rows(6000, k=3, sharp=1.0)
    q = np.exp(np.log(p) * [0.5, 1.0, 1.5] + [0.0, 0.5, -0.5])
    q /= q.sum(axis=1, keepdims=True)
    y = (rng.random((6000, 1)) > np.cumsum(q, axis=1)).sum(axis=1)
    calm = OnlineVector(3, gamma=1.0).learn_many(p, y)
    batch = VectorScaling().fit(p, y, classes=range(3)).transform(p)
    assert np.abs(calm.predict_many(p) - batch).mean() < 0.015
    assert np.abs(p - batch).mean() > 0.08


@every(("place", "value"), [(1, 1e9), (4, -1e4), (7, 99.0), (8, 1e300), (13, 1e9), (0, -1.0)])
def test_a_vector_that_no_stream_leads_to_is_refused(place, value):
    p, y = rows(20)
    state = OnlineVector(NAMES).learn_many(p, named(y)).state
    state["numbers"][place] = value
    with pytest.raises(InputError, match="cannot result from any stream"):
        resume(state)


def test_vector_scaling_stays_in_its_range_and_refuses_too_many_classes():
    model = OnlineVector(2, radius=1.0, rho=1e-9, gamma=1e-9)
    for x in (0.0, 1.0, 0.5, 1e-300):
        model.learn_one([x, 1.0 - x], 0)
        assert max(map(abs, (*model.slopes, *model.intercepts))) <= 1.0
        assert model.predict_one([x, 1.0 - x]).sum() == pytest.approx(1.0)
    with pytest.raises(InputError, match="classes has 101 names, but at most 100 are allowed: use OnlineTemperature"):
        OnlineVector(101)
    with pytest.raises(InputError, match="OnlineVector uses only the scores"):
        model.learn_one([0.5, 0.5], 0, [1.0])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 80), st.integers(0, 80), st.sampled_from(sorted(FORECASTERS)))
def test_a_state_saved_anywhere_continues_bit_for_bit(first, then, name):
    p, y = rows(160, seed=first)
    whole = FORECASTERS[name]().learn_many(p[: first + then], named(y[: first + then]))
    half = FORECASTERS[name]().learn_many(p[:first], named(y[:first]))
    part = resume(half.to_json())
    assert type(part) is type(half)
    assert repr(part) == repr(half)
    assert FORECASTERS[name]().restore(json.loads(half.to_json())).state == half.state
    assert pickle.loads(pickle.dumps(half)).state == half.state
    assert part.learn_many(p[first : first + then], named(y[first : first + then])).state == whole.state
