"""What all online forecasters share with their users: copies, settings that stay, numbers of any type, sentences."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases import every

from calibrant import Calibration, InputError, online
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import LogitAffineMap
from calibrant.online import (
    Aioli,
    CalibratedRegression,
    Forecaster,
    Foster99,
    Hedging,
    Identity,
    MultiExpert,
    OnlineBeta,
    OnlineMulticlass,
    OnlinePlatt,
    OnlineTemperature,
    Refitted,
    Restarting,
    Tracking,
    TwoChoices,
    read_only,
    resume,
)
from calibrant.online.base import own_copy
from calibrant.online.games.draws import branch_of
from calibrant.online.stored import KINDS

BINARY: dict[str, Callable[[], Forecaster]] = {
    "Identity": Identity,
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
    "OnlineMulticlass": lambda: OnlineMulticlass(OnlinePlatt(), 2),
    "OnlineTemperature": lambda: OnlineTemperature(2),
    "OnlineVector": lambda: online.OnlineVector(2),
}
ALL = BINARY | CLASSES
WITHOUT_THEOREM = ("Identity", "OnlineTemperature", "OnlineVector")


def taught(forecaster: Forecaster, n: int = 40) -> Forecaster:
    rng = np.random.default_rng(0)
    p = np.round(rng.random(n), 2)
    y = (rng.random(n) < p**2).astype(int)
    return forecaster.learn_many(np.column_stack([1.0 - p, p]) if forecaster.takes_rows else p, y)


def score_of(forecaster: Forecaster) -> Any:
    return [0.3, 0.7] if forecaster.takes_rows else 0.7


# ------------------------------------------------------------------------------------------------------------ copies


def test_a_copy_draws_as_the_original_does() -> None:
    one = taught(Hedging(OnlinePlatt()))
    two = copy.copy(one)
    scores, labels = np.linspace(0.0, 1.0, 100), np.arange(100) % 3 == 0
    assert one.forecast_many(scores, labels).tolist() == two.forecast_many(scores, labels).tolist()


# ---------------------------------------------------------------------------------------------------------- settings


def settings_of(forecaster: Forecaster) -> list[str]:
    names = [name for name in vars(forecaster) if not name.startswith("_")]
    return [name for name in names if name not in ("experts", "takes_features")]


@every("make", ALL.values())
def test_settings_are_set_when_a_forecaster_is_made_and_stay(make: Callable[[], Forecaster]) -> None:
    made = make()
    names = settings_of(made)
    assert set(made._parameters()) <= set(names)
    before, said = repr(made), made.to_json()
    for name in names:
        value = getattr(made, name)
        with pytest.raises(AttributeError, match=f"{type(made).__name__}.{name} is read-only: create a new"):
            setattr(made, name, 0.2)
        with pytest.raises(AttributeError, match="create a new"):
            delattr(made, name)
        assert getattr(made, name) is value
    for name in ("slope", "intercept", "n_rows", "state"):  # what is learned
        with pytest.raises(AttributeError):
            setattr(made, name, 1.0) if hasattr(type(made), name) else getattr(made, name)
    assert not hasattr(made, "forecaster")  # an argument that is not kept
    assert repr(made) == before
    assert made.to_json() == said


def test_no_certificate_comes_from_a_setting_that_was_changed() -> None:
    platt = OnlinePlatt()
    with pytest.raises(AttributeError, match=r"OnlinePlatt\.certified is read-only"):
        platt.certified = True
    assert isinstance(platt.certificate(10**6), NoCertificate)
    with pytest.raises(AttributeError, match=r"Tracking\.n_bins is read-only"):
        Tracking(Identity()).n_bins = 2


@every("make", ALL.values())
def test_settings_survive_every_kind_of_copy(make: Callable[[], Forecaster]) -> None:
    made = make()
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
            with pytest.raises(AttributeError, match="create a new"):
                setattr(each, name, 1)


def test_a_forecaster_of_your_own_may_keep_what_it_learns_in_public() -> None:
    class Mean(Forecaster):
        prior: float = read_only()

        def __init__(self, prior: float = 0.5) -> None:
            self.prior, self.total, self.seen = prior, 0.0, 0

        def _learn_one(self, score: float, label: float, features: Any = None) -> None:
            self.total += self._label(label)
            self.seen += 1

        def _parameters(self) -> dict[str, Any]:
            return {"prior": self.prior}

    mean = Mean().learn_many([0.5] * 4, [0, 1, 1, 1])
    assert (mean.total, mean.seen) == (3.0, 4)
    with pytest.raises(AttributeError, match=r"Mean\.prior is read-only"):
        mean.prior = 0.1


# ------------------------------------------------------------------------------------------------------- one number


class Scalar:
    """As a scalar of an array library: one number, or an array of one number."""

    def __init__(self, value: float, *shape: int) -> None:
        self.value, self.shape = value, shape

    def __float__(self) -> float:
        return self.value


@every("name", sorted(BINARY))
def test_whatever_is_one_number_is_a_score_and_a_label(name: str) -> None:
    want = BINARY[name]().learn_one(0.25, 1)
    quarters = (np.array(0.25), np.float32(0.25), Decimal("0.25"), Fraction(1, 4), Scalar(0.25))
    ones = (np.array(1), np.array(True), np.int8(1), Decimal(1), Fraction(1), Scalar(1.0))
    for score in (*quarters, np.array(Decimal("0.25"), dtype=object)):
        assert BINARY[name]().learn_one(score, 1).state == want.state
        assert want.predict_one(score) == want.predict_one(0.25)
    for label in ones:
        assert BINARY[name]().learn_one(0.25, label).state == want.state


@every(
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
    for forecaster in (OnlinePlatt(), Refitted(), MultiExpert(Identity())):
        with pytest.raises(InputError, match=r"score must be a probability in \[0, 1\], not .*: pass one number"):
            forecaster.predict_one(score)
        with pytest.raises(InputError, match="label must be 0 or 1"):
            forecaster.learn_one(0.5, score)


@every("score", [1.7, -3, np.array(2.0), float("nan")])
def test_margins_are_met_with_the_same_advice_in_one_row_and_in_many(score: Any) -> None:
    with pytest.raises(InputError, match=r"leave out rows without a score, and convert margins with a sigmoid first"):
        OnlinePlatt().predict_one(score)
    with pytest.raises(InputError, match=r"leave out rows without a score, and convert margins with a sigmoid first"):
        OnlinePlatt().learn_many([0.5, float(score)], [0, 1])


# ------------------------------------------------------------------------------------------------------------ labels


@every(
    ("labels", "told"),
    [
        ([0, 1, "click"], r"row 2 has 'click': pass 1 for each event and 0 for the others"),
        (np.array(["click", "none", "click"]), r"row 0 has 'click': pass 1 for each event and 0"),
        ([1, 2, 2], r"row 1 has 2: pass 1 for each event and 0"),
        ([1, None, 0], r"row 1 has None: leave out rows whose outcome is not known yet"),
        ([1, 0, np.nan], r"row 2 has nan: leave out rows whose outcome is not known yet"),
    ],
)
def test_the_error_for_wrong_labels_names_the_row_and_says_what_to_do(labels: Any, told: str) -> None:
    with pytest.raises(InputError, match="labels must be 0 or 1, or a number between them, in every row, but " + told):
        OnlinePlatt().learn_many([0.2, 0.5, 0.8], labels)


def test_the_error_for_one_wrong_label_says_what_to_do() -> None:
    must = "label must be 0 or 1, or a number between them, not "
    with pytest.raises(InputError, match=must + "'click': pass 1 for each event and 0"):
        OnlinePlatt().learn_one(0.5, "click")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=must + "None: leave out rows whose outcome is not known"):
        OnlinePlatt().learn_one(0.5, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=must + r"\[1\]: pass one value per row"):
        OnlinePlatt().learn_one(0.5, [1])  # type: ignore[arg-type]
    with pytest.raises(
        InputError,
        match=r"row 0 has 7: pass 1 for each event .* others, or scale it to \[0, 1\]",
    ):
        TwoChoices().learn_many([0.5], [7])
    with pytest.raises(InputError, match=r"label must be 0 or 1, not 0\.3: this forecaster counts events: for"):
        Foster99().learn_one(0.5, 0.3)


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


def test_columns_in_another_order_than_the_scores_are_refused() -> None:
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
    with pytest.raises(
        InputError, match=r"labels has the same index as scores in another order.*: pass labels.loc\[scores.index\]"
    ):
        OnlinePlatt().learn_many(scores, labels.loc[[2, 0, 1]])

    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"cat": [0.2, 0.5, 0.9], "dog": [0.8, 0.5, 0.1]})
    labels, features = pd.Series(["cat", "dog", "cat"]), pd.DataFrame({"a": [0.0, 1.0, 0.0]})
    order = [2, 0, 1]
    for forecaster in (
        OnlineMulticlass(CalibratedRegression(), frame.columns.tolist()),
        OnlineTemperature(["cat", "dog"]),
    ):
        forecaster.forecast_many(frame, labels)
        for call in (forecaster.forecast_many, forecaster.learn_many):
            with pytest.raises(
                InputError, match=r"labels has the same index as scores in another order.*pass labels.loc\[scores"
            ):
                call(frame, labels.loc[order])
    sided = OnlineMulticlass(CalibratedRegression(1), ["cat", "dog"])
    sided.forecast_many(frame, labels, features)
    with pytest.raises(InputError, match=r"in another order.*: pass features.loc"):
        sided.forecast_many(frame, labels, features.loc[order])
    with pytest.raises(InputError, match=r"in another order.*: pass features.loc"):
        sided.predict_many(frame, features.loc[order])


# ------------------------------------------------------------------------------------------------------------ states


def test_the_state_of_one_with_other_settings_is_told_by_the_first_that_differs() -> None:
    state = Tracking(OnlinePlatt(), epsilon=0.2).state
    told = r"belongs to another Tracking, with epsilon=0.2, not 0.1: use calibrant.online.resume\(state\)"
    with pytest.raises(InputError, match=told):
        Tracking(OnlinePlatt()).restore(state)
    with pytest.raises(InputError, match=r"another OnlinePlatt, with rho=25.0, not 100.0"):
        Tracking(OnlinePlatt()).restore(Tracking(OnlinePlatt(rho=25.0)).to_json())
    with pytest.raises(InputError, match=r"another OnlinePlatt, with gamma absent, not 0.1"):
        OnlinePlatt().restore(OnlinePlatt(certified=True).state)
    with pytest.raises(InputError, match="another forecaster, OnlineBeta, not OnlinePlatt"):
        OnlinePlatt().restore(OnlineBeta().state)
    for parameters in (None, [], "x"):
        with pytest.raises(InputError, match="state"):
            OnlinePlatt().restore({**OnlinePlatt().state, "parameters": parameters})


@every("make", ALL.values())
def test_a_state_may_come_as_any_bytes(make: Callable[[], Forecaster]) -> None:
    made = make()
    text = taught(made).to_json()
    raw = text.encode()
    for each in (text, raw, bytearray(raw), memoryview(raw), memoryview(raw + raw)[: len(raw)]):
        assert resume(each).to_json() == text
        assert type(made)._build(made.experts, made._parameters()).restore(each).to_json() == text
    for each in (bytearray(b"{"), memoryview(b"\xff\xfe"), "[" * 10**5):
        with pytest.raises(InputError, match="not valid JSON"):
            resume(each)


# ---------------------------------------------------------------------------------------------------------- promises


@every("make", ALL.values())
def test_every_forecaster_lists_its_certificates(make: Callable[[], Forecaster]) -> None:
    made = make()
    found, listed = made.certificate(100_000), made.certificates(100_000)
    assert isinstance(listed, tuple)
    assert listed == () if isinstance(found, NoCertificate) else listed[0] == found
    assert isinstance(made.certificates(), tuple)
    name = type(made).__name__
    if name in WITHOUT_THEOREM:
        assert found == NoCertificate(NoCertificateCode.NO_THEOREM, f"no known theorem covers {name}")


# -------------------------------------------------------------------------------------------------------- a document


def test_live_forecasters_do_not_go_into_documents_and_frozen_maps_do() -> None:
    live = taught(OnlinePlatt())
    with pytest.raises(InputError, match=r"map must be a Map, not OnlinePlatt: pass forecaster.freeze\(\)"):
        Calibration(live)  # type: ignore[arg-type]
    for wrong in (None, 0.5, "platt", json):
        with pytest.raises(InputError, match=r"map must be a Map, not .*: pass one of calibrant.maps"):
            Calibration(wrong)  # type: ignore[arg-type]
    assert isinstance(Calibration(live.freeze()).map, LogitAffineMap)

    classes = online.OnlineTemperature(["cat", "dog", "bird"])
    with pytest.raises(InputError, match=r"pass forecaster.freeze\(\)"):
        Calibration(classes)
    row = [[0.2, 0.3, 0.5]]
    assert Calibration(classes.freeze()).transform(row) == pytest.approx(classes.predict_many(row))
    assert Calibration(OnlinePlatt().freeze()).classes == ()


# ------------------------------------------------------------------------------------------------- compiling, exporting


def test_compiling_is_refused_in_plain_python() -> None:
    with pytest.raises(InputError, match="Refitted runs in plain Python"):
        online.Refitted().compile()


def test_wrappers_compile_the_experts_that_can_be() -> None:
    pytest.importorskip("numba")
    x, y = [0.2, 0.7, 0.4] * 20, [0, 1, 1] * 20
    for make in (
        lambda: online.MultiExpert(online.OnlinePlatt(), online.Refitted()),
        lambda: online.Restarting(Identity()),
    ):
        plain, compiled = make(), make().compile()
        assert compiled.forecast_many(x, y).tolist() == plain.forecast_many(x, y).tolist()
        assert isinstance(compiled.expert._held, np.ndarray)
        assert compiled.to_json() == plain.to_json()


def test_adapters_are_among_the_names() -> None:
    assert {"OnlineClassifier", "RiverClassifier", "OnlinePlatt"} <= set(dir(online))


def test_an_expert_that_others_stand_on_is_compiled_with_them() -> None:
    pytest.importorskip("numba")
    live = online.Tracking(Identity()).learn_many([0.2] * 5, [0] * 5)
    with pytest.raises(InputError, match="Identity is the expert of another forecaster: compile that one"):
        live.expert.compile()
    with pytest.raises(InputError, match="compile that one"):
        copy.deepcopy(live).expert.compile()
    for alone in (copy.deepcopy(live.expert), online.MultiExpert(live.expert)):
        assert alone.compile().predict_one(0.25) == 0.25
    live.compile().learn_many([0.2] * 5, [1] * 5)
    assert live.expert.n_rows == live.n_rows == 10


def test_a_kernel_that_numba_refuses_stays_as_it_was() -> None:
    pytest.importorskip("numba")

    def factory(jit: Any) -> Any:
        @jit
        def predict(state: Any, x: float) -> float:
            return {"numba": ["has", 1]}.get("no", x)  # type: ignore[return-value]

        @jit
        def learn(state: Any, x: float, y: float) -> float:
            state[0][0] += 1.0
            return x

        return predict, learn

    class Untyped(online.KernelForecaster):
        _factory = factory

        def _begin(self) -> list[float]:
            return [0.0]

        def _parameters(self) -> dict[str, Any]:
            return {}

    forecaster = Untyped()
    with pytest.raises(InputError, match="numba cannot compile Untyped") as caught:
        forecaster.compile()
    assert "\n" not in str(caught.value)
    assert forecaster.learn_one(0.25, 1).predict_one(0.25) == 0.25


# ------------------------------------------------------------------------------------------------- steps of one's own


class Contrary(online.RowByRow, Identity):
    """What the score leaves of 1."""

    def _predict_one(self, score: float, features: Any = None) -> float:
        return 1.0 - super()._predict_one(score)


def test_steps_of_ones_own_are_used_or_refused() -> None:
    x, y = [0.99, 0.75, 0.25] * 20, [1, 0, 1] * 20
    assert Contrary().forecast_many(x, y).tolist() == [1.0 - s for s in x]
    for make in (
        lambda: online.MultiExpert(Contrary(), Identity()),
        lambda: online.Restarting(Contrary()),
        lambda: online.Tracking(Contrary()),
    ):
        streamed, row_by_row = make().forecast_many(x, y), make()
        for p, score, label in zip(streamed.tolist(), x, y, strict=True):
            assert row_by_row.predict_one(score) == p
            row_by_row.learn_one(score, label)

    told = "Mine defines {}, which its inherited methods do not call: put calibrant.online.RowByRow first"
    for base in (Identity, online.MultiExpert, online.CalibratedRegression):
        for step in ("_predict_one", "_learn_one"):
            with pytest.raises(InputError, match=told.format(step)):
                type("Mine", (base,), {step: lambda self: None})
            assert issubclass(type("Mine", (online.RowByRow, base), {step: lambda self: None}), base)


def test_a_forecaster_of_ones_own_is_resumed_by_the_name_that_it_was_given() -> None:
    mine = Contrary().learn_many([0.25] * 3, [0, 1, 1])
    assert json.loads(mine.to_json())["forecaster"] == "Contrary"
    with pytest.raises(InputError, match=r"state belongs to the unknown forecaster 'Contrary': .* register\(name\)"):
        resume(mine.to_json())
    assert Contrary().restore(mine.to_json()).n_rows == 3
    online.register("my contrary")(Contrary)
    try:
        assert json.loads(mine.to_json())["forecaster"] == "my contrary"
        found = resume(mine.to_json())
        assert type(found) is Contrary
        assert found.state == mine.state
    finally:
        del KINDS["my contrary"]


def test_the_forecaster_of_the_guide_does_what_the_guide_says() -> None:
    guide = (
        (Path(__file__).parents[2] / "docs/guide/streams-production.md")
        .read_text(encoding="utf-8")
        .split("## A forecaster of your own")[1]
    )
    there: dict[str, Any] = {"__name__": "guide"}
    exec(guide.split("```python\n")[1].split("```")[0], there)
    try:
        mean = there["RunningMean"](0.25).learn_many([0.5] * 3, [1, 0, 1])
        assert mean.predict_one(0.9) == 2.25 / 4
        assert resume(mean.to_json()).predict_many([0.1, 0.2]).tolist() == [2.25 / 4] * 2
        assert online.Tracking(mean).learn_one(0.5, 1).n_rows == 1
        with pytest.raises(AttributeError, match=r"RunningMean\.prior is read-only"):
            mean.prior = 0.5
    finally:
        del KINDS["RunningMean"]


def test_a_row_that_one_expert_refuses_is_learned_by_none() -> None:
    both = online.MultiExpert(OnlinePlatt(), online.CalibratedRegression(1))
    for features in ([2.0], [np.nan], None):
        with pytest.raises(InputError):
            both.learn_one(0.3, 1, features)
    assert (both.n_rows, *(expert.n_rows for expert in both.experts)) == (0, 0, 0)

    def tired(p: float, s: float, xs: Any) -> list[float]:
        if s == 0.625:
            raise ValueError("tired")
        return [p * p]

    restarting = online.Restarting(online.CalibratedRegression(0, test_functions=tired, size=1), shortest=2, levels=2)
    restarting.learn_many([0.25] * 9, [0, 1, 1] * 3)
    before = [expert.n_rows for expert in restarting.experts]
    with pytest.raises(ValueError, match="tired"):
        restarting.learn_one(0.625, 1)
    assert [expert.n_rows for expert in restarting.experts] == before


def test_copies_have_keys_of_their_own_unless_seeded() -> None:
    both = [own_copy(online.Hedging(online.MultiExpert(online.Foster99(random_state=1)))) for _ in range(2)]
    assert both[0].expert.state == both[1].expert.state
    assert both[0].state != both[1].state
    assert own_copy(both[0]).redrawn().expert.state != both[0].expert.state

    assert len({branch_of((1, 2), place) for place in (5, 5 + 2**32, 5 + 2**40)}) == 3
