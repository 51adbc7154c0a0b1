"""What all online forecasters share with their users: copies, settings that stay, numbers of any type, sentences."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from calibrant import Calibration, InputError
from calibrant.guarantees.certificates import Refusal
from calibrant.maps import LogitAffineMap
from calibrant.online import (
    Aioli,
    AsIs,
    CalibratedRegression,
    Forecaster,
    Foster99,
    Hedging,
    MultiExpert,
    OnlineBeta,
    OnlineClasses,
    OnlinePlatt,
    OnlineTemperature,
    Refitted,
    Restarting,
    Tracking,
    TwoChoices,
    resume,
)
from calibrant.online.base import KINDS

BINARY: dict[str, Callable[[], Forecaster]] = {
    "AsIs": AsIs,
    "OnlinePlatt": OnlinePlatt,
    "OnlineBeta": OnlineBeta,
    "Aioli": Aioli,
    "Refitted": lambda: Refitted(every=20),
    "Restarting": lambda: Restarting(OnlinePlatt(), shortest=8, levels=2),
    "Tracking": lambda: Tracking(Hedging(OnlinePlatt(), random_state=1)),
    "Hedging": lambda: Hedging(OnlinePlatt(), random_state=0),
    "Foster99": lambda: Foster99(random_state=0),
    "TwoChoices": TwoChoices,
    "MultiExpert": lambda: MultiExpert(OnlinePlatt(), OnlineBeta()),
    "CalibratedRegression": CalibratedRegression,
}
CLASSES: dict[str, Callable[[], Forecaster]] = {
    "OnlineClasses": lambda: OnlineClasses(OnlinePlatt(), 2),
    "OnlineTemperature": lambda: OnlineTemperature(2),
}
ALL = BINARY | CLASSES
WITHOUT_THEOREM = ("AsIs", "OnlineBeta", "OnlineTemperature")


@pytest.fixture(params=sorted(ALL), name="made")
def _made(request: pytest.FixtureRequest) -> Forecaster:
    return ALL[request.param]()


def taught(forecaster: Forecaster, n: int = 40) -> Forecaster:
    rng = np.random.default_rng(0)
    p = np.round(rng.random(n), 2)
    y = (rng.random(n) < p**2).astype(int)
    return forecaster.learn_many(np.column_stack([1.0 - p, p]) if forecaster.takes_rows else p, y)


def score_of(forecaster: Forecaster) -> Any:
    return [0.3, 0.7] if forecaster.takes_rows else 0.7


# ------------------------------------------------------------------------------------------------------------ copies


def test_a_copy_learns_alone(made: Forecaster) -> None:
    taught(made)
    before, other, deep = made.to_json(), copy.copy(made), copy.deepcopy(made)
    assert other.to_json() == before
    other.learn_one(score_of(made), 1)
    assert made.to_json() == before
    assert other.to_json() == deep.learn_one(score_of(made), 1).to_json() != before


def test_a_copy_draws_as_the_original_does() -> None:
    one = taught(Hedging(OnlinePlatt()))
    two = copy.copy(one)
    scores, labels = np.linspace(0.0, 1.0, 100), np.arange(100) % 3 == 0
    assert one.forecast_many(scores, labels).tolist() == two.forecast_many(scores, labels).tolist()


# ---------------------------------------------------------------------------------------------------------- settings


def settings_of(forecaster: Forecaster) -> list[str]:
    names = [name for name in vars(forecaster) if not name.startswith("_")]
    return [name for name in names if name not in ("experts", "takes_features", "feature_names")]


def test_settings_are_set_when_a_forecaster_is_made_and_stay(made: Forecaster) -> None:
    names = settings_of(made)
    assert set(made._parameters()) <= set(names)
    before, said = repr(made), made.to_json()
    for name in names:
        value = getattr(made, name)
        with pytest.raises(AttributeError, match=f"{name} is set when {type(made).__name__} is made.*make another"):
            setattr(made, name, 0.2)
        with pytest.raises(AttributeError, match="make another"):
            delattr(made, name)
        assert getattr(made, name) is value
    assert repr(made) == before
    assert made.to_json() == said


def test_no_certificate_comes_from_a_setting_that_was_changed() -> None:
    platt = OnlinePlatt()
    with pytest.raises(AttributeError, match="certified is set when OnlinePlatt is made"):
        platt.certified = True
    assert isinstance(platt.certificate(10**6), Refusal)
    with pytest.raises(AttributeError, match="n_bins is set when Tracking is made"):
        Tracking(AsIs()).n_bins = 2


def test_settings_survive_every_kind_of_copy(made: Forecaster) -> None:
    taught(made)
    copies = (
        copy.copy(made),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        resume(made.to_json()),
        type(made)._build(made.experts, made._parameters()),
    )
    for each in copies:
        assert repr(each) == repr(made)
        assert settings_of(each) == settings_of(made)
        for name in settings_of(each):
            with pytest.raises(AttributeError, match="make another"):
                setattr(each, name, 1)


def test_what_is_learned_cannot_be_set(made: Forecaster) -> None:
    for name in ("slope", "intercept", "n_rows", "state"):
        if hasattr(made, name):
            with pytest.raises(AttributeError):
                setattr(made, name, 1.0)


def test_an_argument_that_is_not_kept_is_no_attribute(made: Forecaster) -> None:
    assert not hasattr(made, "forecaster")


def test_a_forecaster_of_your_own_may_keep_what_it_learns_in_public() -> None:
    class Mean(Forecaster):
        def __init__(self, prior: float = 0.5) -> None:
            self.prior, self.total, self.seen = prior, 0.0, 0

        def learn_one(self, score: float, label: float, features: Any = None) -> Mean:
            self.total += self._label(label)
            self.seen += 1
            return self

        def _parameters(self) -> dict[str, Any]:
            return {"prior": self.prior}

    del KINDS["Mean"]
    mean = Mean().learn_many([0.5] * 4, [0, 1, 1, 1])
    assert (mean.total, mean.seen) == (3.0, 4)
    with pytest.raises(AttributeError, match="prior is set when Mean is made"):
        mean.prior = 0.1


# ------------------------------------------------------------------------------------------------------- one number


class Scalar:
    """As a scalar of an array library: one number, or an array of one number."""

    def __init__(self, value: float, *shape: int) -> None:
        self.value, self.shape = value, shape

    def __float__(self) -> float:
        return self.value


@pytest.mark.parametrize("name", sorted(BINARY))
def test_whatever_is_one_number_is_a_score_and_a_label(name: str) -> None:
    want = BINARY[name]().learn_one(0.25, 1)
    quarters = (np.array(0.25), np.float32(0.25), Decimal("0.25"), Fraction(1, 4), Scalar(0.25))
    ones = (np.array(1), np.array(True), np.int8(1), Decimal(1), Fraction(1), Scalar(1.0))
    for score in (*quarters, np.array(Decimal("0.25"), dtype=object)):
        assert BINARY[name]().learn_one(score, 1).state == want.state
        assert want.predict_one(score) == want.predict_one(0.25)
    for label in ones:
        assert BINARY[name]().learn_one(0.25, label).state == want.state


@pytest.mark.parametrize(
    "score",
    [
        "0.25",
        b"0.25",
        np.array("0.25"),
        0.25 + 0j,
        np.array(0.25 + 0j),
        np.array([0.25]),
        Scalar(0.25, 1),
        np.ma.masked,
    ],
)
def test_text_complex_numbers_and_arrays_with_axes_are_no_scores(score: Any) -> None:
    for forecaster in (OnlinePlatt(), Refitted(), MultiExpert(AsIs())):
        with pytest.raises(InputError, match=r"score must be a probability in \[0, 1\], not .*: pass one number"):
            forecaster.predict_one(score)
        with pytest.raises(InputError, match="label must be 0 or 1"):
            forecaster.learn_one(0.5, score)


@pytest.mark.parametrize("score", [1.7, -3, np.array(2.0), float("nan")])
def test_margins_are_met_with_the_same_advice_in_one_row_and_in_many(score: Any) -> None:
    with pytest.raises(InputError, match=r"leave rows without a score out, and pass margins through a sigmoid first"):
        OnlinePlatt().predict_one(score)
    with pytest.raises(InputError, match=r"leave rows without a score out, and pass margins through a sigmoid first"):
        OnlinePlatt().learn_many([0.5, float(score)], [0, 1])


# ------------------------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([0, 1, "click"], r"row 2 has 'click': pass booleans, such as labels == 'click' if that is the event"),
        (np.array(["click", "none", "click"]), r"row 0 has 'click': pass booleans, such as labels == 'click'"),
        ([1, 2, 2], r"row 1 has 2: pass booleans, such as labels == 2 if that is the event"),
        ([1, None, 0], r"row 1 has None: leave rows out whose outcome is not known yet"),
        ([1, 0, np.nan], r"row 2 has nan: leave rows out whose outcome is not known yet"),
    ],
)
def test_a_label_that_is_no_outcome_is_told_with_its_row_and_what_to_do(labels: Any, told: str) -> None:
    with pytest.raises(InputError, match="labels must be 0 or 1 in every row, but " + told):
        OnlinePlatt().learn_many([0.2, 0.5, 0.8], labels)


def test_one_label_that_is_no_outcome_is_told_what_to_do() -> None:
    with pytest.raises(InputError, match="label must be 0 or 1, not 'click': pass booleans, such as label == 'click'"):
        OnlinePlatt().learn_one(0.5, "click")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="label must be 0 or 1, not None: leave rows out whose outcome is not known"):
        OnlinePlatt().learn_one(0.5, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"label must be 0 or 1, not \[1\]: pass one value a row"):
        OnlinePlatt().learn_one(0.5, [1])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"row 0 has 7: scale it to \[0, 1\]"):
        TwoChoices().learn_many([0.5], [7])


def test_labels_in_a_column_of_objects_are_learned_as_one_by_one() -> None:
    mixed = np.array([True, 0, Decimal(1), np.int8(0)], dtype=object)
    by_row = OnlinePlatt()
    for label in mixed:
        by_row.learn_one(0.5, label)
    assert OnlinePlatt().learn_many([0.5] * 4, mixed).state == by_row.state
    assert OnlinePlatt().learn_many([], np.empty(0, dtype=object)).n_rows == 0
    halves = np.array([0.5, Fraction(1, 4)], dtype=object)
    assert TwoChoices().learn_many([0.5] * 2, halves).state == TwoChoices().learn_many([0.5] * 2, [0.5, 0.25]).state


# ---------------------------------------------------------------------------------------------- rows in other orders


def test_features_in_another_order_than_the_scores_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    scores, labels = pd.Series([0.1, 0.5, 0.9]), pd.Series([0, 1, 1])
    features = pd.DataFrame({"a": [0.0, 1.0, 0.0]})
    turned = features.loc[[2, 0, 1]]
    told = r"in another order.*: pass features.loc\[scores.index\]"
    for make in (
        lambda: MultiExpert(CalibratedRegression(1)),
        lambda: Restarting(CalibratedRegression(1), shortest=8, levels=1),
    ):
        for call in ("learn_many", "forecast_many"):
            getattr(make(), call)(scores, labels, features)
            with pytest.raises(InputError, match=told):
                getattr(make(), call)(scores, labels, turned)
        with pytest.raises(InputError, match=told):
            make().predict_many(scores, turned)
    with pytest.raises(InputError, match=r"scores and labels have the same index.*: pass labels.loc\[scores.index\]"):
        OnlinePlatt().learn_many(scores, labels.loc[[2, 0, 1]])


def test_labels_and_features_in_another_order_than_rows_of_classes_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"cat": [0.2, 0.5, 0.9], "dog": [0.8, 0.5, 0.1]})
    labels, features = pd.Series(["cat", "dog", "cat"]), pd.DataFrame({"a": [0.0, 1.0, 0.0]})
    order = [2, 0, 1]
    for forecaster in (
        OnlineClasses(CalibratedRegression(), frame.columns.tolist()),
        OnlineTemperature(["cat", "dog"]),
    ):
        forecaster.forecast_many(frame, labels)
        for call in (forecaster.forecast_many, forecaster.learn_many):
            with pytest.raises(InputError, match=r"scores and labels have the same index.*pass labels.loc\[scores"):
                call(frame, labels.loc[order])
    sided = OnlineClasses(CalibratedRegression(1), ["cat", "dog"])
    sided.forecast_many(frame, labels, features)
    with pytest.raises(InputError, match=r"in another order.*: pass features.loc"):
        sided.forecast_many(frame, labels, features.loc[order])
    with pytest.raises(InputError, match=r"in another order.*: pass features.loc"):
        sided.predict_many(frame, features.loc[order])


# ------------------------------------------------------------------------------------------------------------ states


def test_the_state_of_one_with_other_settings_is_told_by_the_first_that_differs() -> None:
    state = Tracking(OnlinePlatt(), epsilon=0.2).state
    told = (
        r"belongs to another Tracking, whose epsilon is 0.2, not 0.1: continue it by calibrant.online.resume\(state\)"
    )
    with pytest.raises(InputError, match=told):
        Tracking(OnlinePlatt()).restore(state)
    with pytest.raises(InputError, match=r"another OnlinePlatt, whose rho is 25.0, not 100.0"):
        Tracking(OnlinePlatt()).restore(Tracking(OnlinePlatt(rho=25.0)).to_json())
    with pytest.raises(InputError, match=r"another OnlinePlatt, whose gamma is not there, not 0.1"):
        OnlinePlatt().restore(OnlinePlatt(certified=True).state)
    with pytest.raises(InputError, match="another forecaster, OnlineBeta, not OnlinePlatt"):
        OnlinePlatt().restore(OnlineBeta().state)
    for parameters in (None, [], "x"):
        with pytest.raises(InputError, match="state"):
            OnlinePlatt().restore({**OnlinePlatt().state, "parameters": parameters})


def test_a_state_may_come_as_any_bytes(made: Forecaster) -> None:
    text = taught(made).to_json()
    raw = text.encode()
    for each in (text, raw, bytearray(raw), memoryview(raw), memoryview(raw + raw)[: len(raw)]):
        assert resume(each).to_json() == text
        assert type(made)._build(made.experts, made._parameters()).restore(each).to_json() == text
    for each in (bytearray(b"{"), memoryview(b"\xff\xfe"), "[" * 10**5):
        with pytest.raises(InputError, match="no JSON"):
            resume(each)


# ---------------------------------------------------------------------------------------------------------- promises


def test_every_forecaster_lists_its_certificates(made: Forecaster) -> None:
    found, listed = made.certificate(100_000), made.certificates(100_000)
    assert isinstance(listed, tuple)
    assert listed == () if isinstance(found, Refusal) else listed[0] == found
    assert isinstance(made.certificates(), tuple)


@pytest.mark.parametrize("name", WITHOUT_THEOREM)
def test_where_no_parameters_would_help_none_are_spoken_of(name: str) -> None:
    assert ALL[name]().certificate() == Refusal(f"no theorem covers {name}")


# -------------------------------------------------------------------------------------------------------- a document


def test_a_live_forecaster_is_no_map_to_store() -> None:
    live = taught(OnlinePlatt())
    with pytest.raises(InputError, match=r"map must be a fixed map, not OnlinePlatt: pass forecaster.freeze\(\)"):
        Calibration(live)  # type: ignore[arg-type]
    for wrong in (None, 0.5, "platt", json):
        with pytest.raises(InputError, match=r"map must be a fixed map, not .*: pass one of calibrant.maps"):
            Calibration(wrong)  # type: ignore[arg-type]
    assert isinstance(Calibration(live.freeze()).map, LogitAffineMap)
