"""States of other versions and of others' making, and batches that are refused as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cases import every

from calibrant import InputError
from calibrant.online import (
    CalibratedRegression,
    Hedging,
    Identity,
    MultiExpert,
    OnlineMulticlass,
    OnlinePlatt,
    OnlineTemperature,
    OnlineVector,
    Refitted,
    Restarting,
    Tracking,
    resume,
)
from calibrant.online.base import Forecaster
from calibrant.online.classes import base as classes_base
from calibrant.online.classes import forecasters as class_forecasters
from calibrant.online.classes import scaling as class_scaling
from calibrant.online.inputs import many_labels

ROWS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])


# ---------------------------------------------------------------------------------------------------- other states


def test_text_that_is_nested_without_end_is_refused_in_one_sentence() -> None:
    for read in (resume, OnlinePlatt().restore):
        for text in ("[" * 200_000, b"[" * 200_000, '{"a":' * 200_000):
            with pytest.raises(InputError, match="not valid JSON"):
                read(text)
    state: dict[str, Any] = OnlinePlatt().state
    for _ in range(100_000):
        state = {**state, "experts": [state]}
    with pytest.raises(InputError, match="state does not belong to a forecaster"):
        resume(state)
    with pytest.raises(InputError, match="state"):
        OnlinePlatt().restore(state)


@every("name", ["clamp", "rho", "half_life"])
def test_a_state_from_before_a_keyword_is_read_with_its_default(name: str) -> None:
    ops = OnlinePlatt().learn_many([0.2, 0.7, 0.6], [0, 1, 0])
    older = ops.state
    del older["parameters"][name]
    assert resume(older).state == ops.state
    assert resume(json.dumps(older)).state == ops.state
    assert OnlinePlatt().restore(older).state == ops.state


@every(
    ("make", "name"),
    [
        (lambda: Tracking(OnlinePlatt()), "prior"),
        (lambda: Restarting(OnlinePlatt(), levels=2), "shortest"),
        (lambda: OnlineMulticlass(OnlinePlatt(), 3), "notion"),
        (lambda: Refitted("bins"), "n_bins"),
        (lambda: CalibratedRegression(0, test_functions="hats"), "size"),
    ],
)
def test_defaults_are_found_on_every_level_and_in_every_form(make: Any, name: str) -> None:
    whole = make().state
    older = json.loads(json.dumps(whole))
    del older["parameters"][name]
    for below in older["experts"]:
        del below["parameters"]["clamp"]
    assert resume(older).state == make().restore(older).state == whole


def test_a_keyword_that_is_missing_stands_for_its_default_and_no_other_value() -> None:
    one = OnlinePlatt(clamp=0.01)
    older = one.state
    del older["parameters"]["clamp"]
    with pytest.raises(InputError, match="another OnlinePlatt, with clamp="):
        one.restore(older)
    del older["forecaster"]
    with pytest.raises(InputError, match="another forecaster"):
        one.restore(older)

    state = OnlineMulticlass(OnlinePlatt(), 3).state
    state["experts"][1] = OnlinePlatt(rho=25.0).state
    with pytest.raises(InputError, match="rho") as told:
        resume(state)
    assert "resume" not in str(told.value)
    with pytest.raises(InputError, match=r"rho.*calibrant.online.resume\(state\)"):
        OnlinePlatt().restore(OnlinePlatt(rho=25.0).state)


@every("kind", ["Restarting", "OnlineMulticlass", "MultiExpert", "Tracking"])
def test_a_state_without_the_experts_that_it_needs_is_refused(kind: str) -> None:
    with pytest.raises(InputError):
        resume({"version": 1, "forecaster": kind, "parameters": {}, "numbers": [0.0], "experts": []})


# ------------------------------------------------------------------------------------- rows of classes and copies


@every("notion", ["top-label", "class-wise", "confidence"])
@every("before", [0, 4])
def test_rows_of_classes_go_with_those_of_the_copies(notion: str, before: int) -> None:
    expert = OnlinePlatt().learn_many([0.3] * before, [1] * before)
    pets = OnlineMulticlass(expert, 3, notion).learn_many(np.tile(ROWS, (5, 1)), [0, 1] * 5)
    assert resume(pets.to_json()).state == pets.state
    # Copies may have learned before: as many rows each, so that of three by top label a multiple of 3 may be theirs.
    for wrong in (11 + before, 1000, *([9, 11, 8] if notion == "top-label" else [])):
        state = pets.state
        state["numbers"][0] = float(wrong)
        with pytest.raises(InputError, match="number of rows"):
            resume(state)


# --------------------------------------------------------------------------------------- all rows checked, then learned


@every(
    "make",
    [
        lambda: CalibratedRegression(1),
        lambda: MultiExpert(OnlinePlatt(), CalibratedRegression(1)),
        lambda: Restarting(CalibratedRegression(1), levels=2),
        lambda: Restarting(MultiExpert(Identity(), CalibratedRegression(1)), levels=1),
    ],
)
@every("bad", [np.nan, 2.0])
def test_no_row_before_a_bad_one_is_learned(make: Any, bad: float) -> None:
    forecaster: Forecaster = make()
    before = forecaster.state
    for features in ([[1.0], [bad]], [[1.0, 0.0], [0.0, 1.0]], None):
        for call in (forecaster.learn_many, forecaster.forecast_many):
            with pytest.raises(InputError, match="features"):
                call([0.5, 0.5], [0, 1], features)
        with pytest.raises(InputError, match="features"):
            forecaster.predict_many([0.5, 0.5], features)
    assert forecaster.state == before
    assert forecaster.learn_many([0.5, 0.5], [0, 1], [[1.0], [0.0]]).n_rows == 2


def test_columns_of_a_frame_reach_the_experts_by_their_names() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    groups, labels = rng.choice([0.0, 1.0], (60, 2)), rng.integers(0, 2, 60)
    frame = pd.DataFrame(groups, columns=["north", "mobile"])[["mobile", "north"]]

    def regression() -> CalibratedRegression:
        return CalibratedRegression(["north", "mobile"])

    for make in (
        lambda: MultiExpert(OnlinePlatt(), regression(), regression()),
        lambda: Restarting(regression(), shortest=8, levels=2),
    ):
        want = make().learn_many([0.5] * 60, labels, groups)
        assert make().learn_many([0.5] * 60, labels, frame).state == want.state
        assert (
            make().forecast_many([0.5] * 60, labels, frame) == make().forecast_many([0.5] * 60, labels, groups)
        ).all()
        assert (want.predict_many([0.5] * 60, frame) == want.predict_many([0.5] * 60, groups)).all()
    pets = [OnlineMulticlass(regression(), 2).learn_many([[0.4, 0.6]] * 60, labels, each) for each in (groups, frame)]
    assert pets[0].state == pets[1].state
    both = MultiExpert(regression(), CalibratedRegression(["mobile", "north"]))
    assert both.learn_many([0.5] * 60, labels, groups).n_rows == 60
    with pytest.raises(InputError, match="the same order for all experts"):
        both.learn_many([0.5] * 60, labels, frame)


@every("notion", ["top-label", "class-wise", "confidence"])
@every("place", [0, 1])
def test_no_copy_learns_from_a_batch_that_another_would_refuse(notion: str, place: int) -> None:
    pets = OnlineMulticlass(CalibratedRegression(1), 3, notion)
    features = np.array([[1.0], [1.0]])
    features[place] = np.nan
    before = pets.state
    for call in (pets.learn_many, pets.forecast_many):
        with pytest.raises(InputError, match="missing"):
            call(ROWS, [0, 1], features)
        with pytest.raises(InputError, match="none were given"):
            call(ROWS, [0, 1])
    assert pets.state == before
    assert pets.learn_many(ROWS, [0, 1], np.ones((2, 1))).n_rows == 2


def test_copies_come_of_one_forecaster_and_learn_alone() -> None:
    pets = OnlineMulticlass(Tracking(OnlinePlatt()), 3)
    assert len({id(each) for each in pets.experts} | {id(each.expert) for each in pets.experts}) == 6
    pets.learn_one(ROWS[0], 0)
    assert [each.n_rows for each in pets.experts] == [1, 0, 0]

    pets = OnlineMulticlass(OnlinePlatt(), 3, "class-wise").learn_many(ROWS, [0, 1])
    state = pets.state
    state["experts"][0], state["numbers"][0] = OnlinePlatt().learn_many([0.5] * 5, [1] * 5).state, 2.0
    with pytest.raises(InputError, match="number of rows"):
        resume(state)


# ------------------------------------------------------------------------------------------------ the temperature


@every(
    ("given", "told"),
    [
        ({"gamma": 1e-200, "rho": 1e-200}, "gamma must be at least 1e-30"),
        ({"rho": 0.0}, "rho must be at least 1e-09"),
        ({"rho": np.inf}, "rho must be"),
        ({"gamma": True}, "gamma must be"),
        ({"gamma": 10**400}, "gamma must be"),
        ({"radius": 0.5}, "radius must be at least 1, which"),
        ({"radius": "2"}, "radius must be"),
    ],
)
def test_a_temperature_has_the_limits_that_others_have(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        OnlineTemperature(2, **given)


def test_a_temperature_at_its_limits_divides_by_no_zero() -> None:
    for gamma in (1e-30, 1e30):
        for rho in (1e-9, 1e30):
            model = OnlineTemperature(2, gamma=gamma, rho=rho, radius=1e9).learn_many([[0.5, 0.5], [1, 0]], [0, 1])
            assert np.isfinite(model.predict_one([0.3, 0.7])).all()
            assert resume(model.to_json()).state == model.state


def test_sums_of_classes_have_the_same_bits_in_every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(*values: Any) -> float:  # Python's own sum of floats is another one from 3.12 on
        raise AssertionError("the built-in sum of floats")

    for module in (classes_base, class_forecasters, class_scaling):
        monkeypatch.setattr(module, "sum", changing, raising=False)
    for model in (OnlineTemperature(3), OnlineVector(3), OnlineMulticlass(OnlinePlatt(), 3)):
        model.learn_many(ROWS, [0, 1]).learn_one(ROWS[0], 1).predict_one(ROWS[1])


# ------------------------------------------------------------------------------------------------------------ labels


def test_columns_of_objects_nulls_and_lists_are_read_once() -> None:
    want = OnlinePlatt().learn_many([0.2, 0.4], [0, 1]).state
    for labels in ([0, 1], [False, True], [0.0, np.float32(1)], [np.int8(0), True]):
        assert OnlinePlatt().learn_many([0.2, 0.4], np.array(labels, dtype=object)).state == want
    for kind in (object, str, float, bool):
        assert OnlinePlatt().learn_many([], np.array([], dtype=kind)).n_rows == 0

    pd = pytest.importorskip("pandas")
    want = OnlinePlatt().learn_many([0.2, 0.4], [0, 1]).state
    for kind in ("Int64", "boolean", "Float64", "object"):
        assert OnlinePlatt().learn_many([0.2, 0.4], pd.Series([0, 1], dtype=kind)).state == want
    with pytest.raises(InputError, match="labels must be 0 or 1"):
        OnlinePlatt().learn_many([0.2, 0.4], pd.Series([0, None], dtype="Int64"))


def test_a_list_of_scores_is_counted_and_not_read_again() -> None:
    class Watched(list[float]):
        def __iter__(self) -> Any:
            raise AssertionError("read again")

    class Column:
        """It can be read, and says no length."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([0.2, 0.4])

    assert many_labels([0, 1], Watched([0.2, 0.4]), bounded=False).tolist() == [0.0, 1.0]
    assert OnlinePlatt().learn_many(Column(), [0, 1]).n_rows == 2  # type: ignore[arg-type]


@every("make", [lambda e: MultiExpert(e, e), Tracking, Hedging])
def test_a_state_whose_experts_have_learned_fewer_rows_is_refused(make: Callable[[Any], Any]) -> None:
    state = make(OnlinePlatt()).learn_many([0.2, 0.7], [0, 1]).state
    state["experts"][0] = OnlinePlatt().state
    with pytest.raises(InputError, match="number of rows"):
        resume(state)
