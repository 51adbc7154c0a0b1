"""What every online forecaster keeps: pure forecasts, one row equal to many, states that go on bit for bit."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every

from calibrant import InputError, online
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.online.base import Forecaster, replayed, resume
from calibrant.online.compiled import KernelForecaster
from calibrant.online.kernels import compiler, object_steps
from calibrant.online.stored import KINDS, register

OnlinePlatt, OnlineBeta, Refitted, MultiExpert = (
    online.OnlinePlatt,
    online.OnlineBeta,
    online.Refitted,
    online.MultiExpert,
)

# How a user would build forecasters whose defaults are not enough, by kind: other settings, experts, features.
VARIANTS: dict[str, dict[str, Callable[[], Forecaster]]] = {
    "OnlinePlatt": {
        "": OnlinePlatt,
        "certified": lambda: OnlinePlatt(radius=1.0, certified=True),
        "fading": lambda: OnlinePlatt(half_life=60),
        "in a small ball": lambda: OnlinePlatt(radius=1.2),
    },
    "OnlineBeta": {
        "": OnlineBeta,
        "fading": lambda: OnlineBeta(rho=1.0, half_life=40),
        "in a small ball": lambda: OnlineBeta(radius=1.5),
        "certified": lambda: OnlineBeta(certified=True),
    },
    "Aggregated": {"": lambda: online.Aggregated(radius=1.0, spacing=0.5)},
    "Refitted": {
        "platt": lambda: Refitted(every=50),
        "beta moving": lambda: Refitted("beta", every=40, window=100),
        "bins forgetting": lambda: Refitted("bins", every=60, half_life=80.0, n_bins=5),
        "once": lambda: Refitted("platt", every=None, first=100),
    },
    "Restarting": {
        "": lambda: online.Restarting(OnlinePlatt(), shortest=16, levels=4),
        "on windows": lambda: online.Restarting(Refitted("bins", every=10), shortest=16, levels=2),
    },
    "Tracking": {
        "": lambda: online.Tracking(OnlinePlatt()),
        "without a prior": lambda: online.Tracking(OnlinePlatt(), prior=0),
        "on beta": lambda: online.Tracking(OnlineBeta(), epsilon=0.05),
        "on windows": lambda: online.Tracking(Refitted("bins", every=50)),
        "on several": lambda: online.Tracking(MultiExpert(OnlinePlatt(), OnlineBeta())),
        "of a model": lambda: online.Tracking(online.Identity()),
    },
    "Hedging": {
        "": lambda: online.Hedging(OnlinePlatt(), random_state=3),
        "by means": lambda: online.Hedging(OnlinePlatt(), shares="means", random_state=3),
        "two choices": lambda: online.Hedging(OnlinePlatt(), rule="two-choices", random_state=0),
        "on windows": lambda: online.Hedging(Refitted("bins", every=50), random_state=0),
    },
    "Foster99": {"": lambda: online.Foster99(random_state=0)},
    "PreparedFoster": {"": lambda: online.PreparedFoster(epsilon=0.25, trials=3, first=32, random_state=0)},
    "MultiExpert": {
        "": lambda: MultiExpert(OnlinePlatt(), OnlineBeta(), Refitted(every=50)),
        "by log loss": lambda: MultiExpert(online.Tracking(OnlinePlatt()), online.Foster99(random_state=1), loss="log"),
    },
    "CalibratedRegression": {
        "": lambda: online.CalibratedRegression(3),
        "on hats": lambda: online.CalibratedRegression(2, test_functions="hats", size=4, growing=True),
    },
    "OnlineRidge": {"": lambda: online.OnlineRidge(2, powers=3)},
}


def default(kind: type[Forecaster]) -> Callable[[], Forecaster]:
    """How a forecaster is built that has no line above: as it is, or on an expert if it needs one."""
    needed = [each for each in signature(kind.__init__).parameters.values() if each.default is each.empty]
    return kind if len(needed) == 1 else lambda: kind(OnlinePlatt())  # the first is the object itself


# Every forecaster of one score; those of rows of classes have contract tests in tests/unit/test_online_classes.py.
CASES: dict[str, Callable[[], Forecaster]] = {
    f"{name} {variant}".strip(): make
    for name, kind in KINDS.items()
    if kind.__module__.startswith("calibrant.") and not kind.takes_rows
    for variant, make in VARIANTS.get(name, {"": default(kind)}).items()
}
NAMES = sorted(CASES)
KERNELS = [name for name in NAMES if isinstance(CASES[name](), KernelForecaster)]
# The first case of every kernel, and settings that take other branches: what is compiled of the others is the same.
COMPILED = [
    *{type(CASES[name]()): name for name in reversed([name for name in CASES if name in KERNELS])}.values(),
    "Hedging by means",
    "OnlineBeta in a small ball",
    "OnlinePlatt in a small ball",
]
# Beside those that define no map: their forecasts depend on features, on the other outcome, on experts without one.
WITHOUT_MAP = {
    "Aggregated",
    "Aioli",
    "CalibratedRegression",
    "CalibratedRegression on hats",
    "OnlineRidge",
    "Tracking on several",
}


def without_map(name: str) -> bool:
    return name in WITHOUT_MAP or type(CASES[name]())._freeze is Forecaster._freeze


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties and both ends, and labels that drift away from them."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random(n), 2)
    chance = np.where(np.arange(n) < n // 2, scores**2, 1.0 - scores)
    return scores, (rng.random(n) < chance).astype(float)


def features_of(forecaster: Forecaster, n: int, seed: int = 0) -> np.ndarray | None:
    """Features for those that need them."""
    needed = getattr(forecaster, "n_features", 0)
    return np.random.default_rng([seed, 1]).integers(0, 2, (n, needed)).astype(float) if needed else None


def row(features: np.ndarray | None, i: int) -> Any:
    return None if features is None else features[i]


def loop(forecaster: Forecaster, scores: Any, labels: Any, features: np.ndarray | None) -> list[float]:
    out = []
    for i in range(len(scores)):
        out.append(forecaster.predict_one(scores[i], row(features, i)))
        forecaster.learn_one(scores[i], labels[i], row(features, i))
    return out


def test_states_carry_the_names_of_the_classes() -> None:
    assert all(name == kind.__name__ for name, kind in KINDS.items())
    assert KINDS.keys() >= VARIANTS.keys()


@every("name", NAMES)
def test_forecasting_changes_nothing(name: str) -> None:
    forecaster = CASES[name]()
    scores, labels = stream(120)
    features = features_of(forecaster, 120)
    forecaster.learn_many(scores, labels, features)
    before = forecaster.to_json()
    first = [forecaster.predict_one(s, row(features, i)) for i, s in enumerate(scores.tolist())]
    again = forecaster.predict_many(scores, features)
    assert first == again.tolist()
    assert forecaster.to_json() == before
    assert forecaster.n_rows == 120
    assert all(0.0 <= p <= 1.0 for p in first)


@every("name", NAMES)
def test_many_rows_equal_a_loop_bit_for_bit(name: str) -> None:
    scores, labels = stream(400)
    by_loop, by_forecast, by_learning = CASES[name](), CASES[name](), CASES[name]()
    features = features_of(by_loop, 400)
    told = loop(by_loop, scores.tolist(), labels.tolist(), features)
    assert by_forecast.forecast_many(scores, labels, features).tolist() == told
    by_learning.learn_many(scores[:170], labels[:170], None if features is None else features[:170])
    by_learning.learn_many(scores[170:], labels[170:], None if features is None else features[170:])
    assert by_loop.state == by_forecast.state == by_learning.state


def learned_late(forecaster: Forecaster, scores: np.ndarray, labels: np.ndarray) -> list[float]:
    """Rows with a label are learned, and the others forecast."""
    found = []
    for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
        if label == label:
            forecaster.learn_one(score, label)
        found.append(np.nan if label == label else forecaster.predict_one(score))
    return found


@every("name", [name for name in NAMES if features_of(CASES[name](), 1) is None])
def test_late_labels_replayed_equal_a_loop_bit_for_bit(name: str) -> None:
    scores, labels = stream(150, seed=3)
    labels = np.where((np.arange(150) % 3 == 0) | (np.arange(150) > 90), np.nan, labels)
    np.testing.assert_array_equal(replayed(CASES[name](), scores, labels), learned_late(CASES[name](), scores, labels))


@every("name", ["Foster99", "OnlinePlatt", "Tracking"])  # that long streams are compiled is of the base
def test_compiled_streams_equal_a_loop_bit_for_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr("calibrant.online.compiled.ENOUGH_ROWS", 1)
    scores, labels = stream(1500, seed=1)
    by_loop, compiled = CASES[name](), CASES[name]()
    told = loop(by_loop, scores.tolist(), labels.tolist(), None)
    assert compiled.forecast_many(scores, labels).tolist() == told
    assert by_loop.state == compiled.state
    assert compiled.predict_many(scores).tolist() == [by_loop.predict_one(s) for s in scores.tolist()]
    late = np.where(np.arange(1500) % 3 == 0, np.nan, labels)
    np.testing.assert_array_equal(replayed(compiled, scores, late), learned_late(by_loop, scores, late))


@every("name", COMPILED)
def test_compiled_rows_equal_plain_ones_bit_for_bit(name: str) -> None:
    pytest.importorskip("numba")
    plain, compiled = CASES[name](), CASES[name]()
    scores, labels = (column.tolist() for column in stream(400, seed=2))
    told = loop(plain, scores[:100], labels[:100], None)
    assert loop(compiled, scores[:50], labels[:50], None) == told[:50]
    assert loop(compiled.compile(), scores[50:100], labels[50:100], None) == told[50:]  # begun plain, compiled later
    assert (compiled.to_json(), repr(compiled)) == (plain.to_json(), repr(plain))
    copied, pickled = copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))
    told = loop(plain, scores[100:], labels[100:], None)
    for one in (compiled, copied, pickled, resume(compiled.to_json())):
        assert loop(one, scores[100:200], labels[100:200], None) == told[:100]
        assert one.forecast_many(scores[200:300], labels[200:300]).tolist() == told[100:200]
        one.learn_many(scores[300:], labels[300:])
        assert one.to_json() == plain.to_json()
        assert one.predict_many(scores).tolist() == plain.predict_many(scores).tolist()
    assert type(compiled.predict_one(0.3)) is float
    above = online.Tracking(compiled)  # its copy is plain again, as the one above it is
    assert above.predict_one(0.3) == online.Tracking(plain).predict_one(0.3)
    scores, labels = stream(1_500, seed=1)
    assert compiled.forecast_many(scores, labels).tolist() == plain.forecast_many(scores, labels).tolist()


@every("name", [name for name in KERNELS if object_steps in CASES[name]()._recipe])
def test_a_kernel_on_a_forecaster_in_plain_python_is_not_compiled(name: str) -> None:
    with pytest.raises(InputError, match="cannot be compiled" if compiler() else "needs numba"):
        CASES[name]().compile()


@every("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(cut=st.integers(0, 70), seed=st.integers(0, 2**16))
def test_a_restored_state_goes_on_bit_for_bit(name: str, cut: int, seed: int) -> None:
    scores, labels = stream(70, seed)
    one = CASES[name]()
    features = features_of(one, 70, seed)
    loop(one, scores[:cut].tolist(), labels[:cut].tolist(), features)
    text = one.to_json()
    two, three = resume(text), CASES[name]().restore(json.loads(text))
    rest = None if features is None else features[cut:]
    told = loop(one, scores[cut:].tolist(), labels[cut:].tolist(), rest)
    assert loop(two, scores[cut:].tolist(), labels[cut:].tolist(), rest) == told
    assert loop(three, scores[cut:].tolist(), labels[cut:].tolist(), rest) == told
    assert one.to_json() == two.to_json() == three.to_json()


@every("name", NAMES)
def test_copies_and_pickles_go_on_alone(name: str) -> None:
    scores, labels = stream(60)
    one = CASES[name]()
    features = features_of(one, 60)
    one.learn_many(scores, labels, features)
    for two in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        before = one.to_json()
        assert two.to_json() == before
        two.learn_one(0.3, 1.0, row(features, 0))
        assert one.to_json() == before
        assert two.to_json() != before


@every("name", NAMES)
def test_memory_does_not_grow_with_the_stream(name: str) -> None:
    forecaster = CASES[name]()
    sizes = []
    for seed in (1, 2):
        scores, labels = stream(500, seed)
        forecaster.learn_many(scores, labels, features_of(forecaster, 500, seed))
        sizes.append(len(forecaster.to_json()))
    assert sizes[1] < 1.1 * sizes[0] + 200
    assert sizes[1] < 200_000


@every("name", NAMES)
def test_labels_and_scores_of_other_types_are_the_same_rows(name: str) -> None:
    scores, labels = stream(50)
    want, got = CASES[name](), CASES[name]()
    features = features_of(want, 50)
    narrow = scores.astype(np.float32)
    loop(want, narrow.astype(float).tolist(), labels.tolist(), features)
    for i in range(25):
        got.learn_one(narrow[i], bool(labels[i]), row(features, i))
    got.learn_many(narrow[25:], labels[25:].astype(np.int8), None if features is None else features[25:])
    assert got.state == want.state


@every("name", NAMES)
def test_no_rows_are_learned_as_nothing(name: str) -> None:
    forecaster = CASES[name]()
    features = features_of(forecaster, 0)
    before = forecaster.state
    assert forecaster.learn_many([], [], features).state == before
    assert forecaster.forecast_many([], [], features).shape == (0,)
    assert forecaster.predict_many([], features).shape == (0,)


# Kinds that take outcomes 0 and 1 alone, and why; others take any number in [0, 1], if their experts do.
COUNTS_EVENTS = {
    "Foster99": "its bound relies on comparisons of whole numbers, which are exact",
    "Hedging": "the same",
    "PreparedFoster": "the same",
    "Refitted": "it fits maps to a tally, which counts events",
}


@every("name", NAMES)
def test_outcomes_between_0_and_1_are_learned_or_refused_with_the_reason(name: str) -> None:
    forecaster, by_loop = CASES[name](), CASES[name]()
    scores, labels = stream(90)
    labels[::3] = np.linspace(0.0, 1.0, 30)
    features = features_of(forecaster, 90)
    counts = {name.split()[0], *(type(each).__name__ for each in forecaster.experts)} & COUNTS_EVENTS.keys()
    assert forecaster.bounded_outcomes == (not counts or name.startswith("OnlineMulticlass"))
    if not forecaster.bounded_outcomes:
        before = forecaster.to_json()
        with pytest.raises(InputError, match="this forecaster counts events: for fractions use"):
            forecaster.learn_many(scores, labels, features)
        with pytest.raises(InputError, match="this forecaster counts events: for fractions use"):
            forecaster.learn_one(0.5, 0.3, row(features, 0))
        assert forecaster.to_json() == before
        return
    told = loop(by_loop, scores.tolist(), labels.tolist(), features)
    assert forecaster.forecast_many(scores, labels, features).tolist() == told
    assert all(0.0 <= p <= 1.0 for p in told)
    assert forecaster.to_json() == by_loop.to_json() == resume(by_loop.to_json()).to_json()


MISTAKES = [float("nan"), -0.1, 1.1, float("inf"), None, "0.3", [0.3], np.array([0.3]), 3 + 0j, 10**400]


@every("name", NAMES)
def test_a_score_that_is_not_a_probability_is_refused_and_nothing_learned(name: str) -> None:
    forecaster = CASES[name]()
    one, two = row(features_of(forecaster, 1), 0), features_of(forecaster, 2)
    before = forecaster.to_json()
    for score in MISTAKES:
        with pytest.raises(InputError, match="score"):
            forecaster.predict_one(score, one)
        with pytest.raises(InputError, match="score"):
            forecaster.learn_one(score, 1, one)
        with pytest.raises(InputError, match="score"):
            forecaster.learn_many([0.5, score], [0, 1], two)
    assert forecaster.to_json() == before


@every("name", NAMES)
def test_a_label_that_is_not_an_outcome_is_refused_and_nothing_learned(name: str) -> None:
    forecaster = CASES[name]()
    features = features_of(forecaster, 1)
    before = forecaster.to_json()
    for label in (float("nan"), 2, -1, None, "1", "yes", [1], 10**400):
        with pytest.raises(InputError, match="label"):
            forecaster.learn_one(0.5, label, row(features, 0))
    with pytest.raises(InputError, match="labels has 1 rows but scores has 2"):
        forecaster.learn_many([0.5, 0.6], [1], features_of(forecaster, 2))
    for labels in ([-1, 1], ["yes", "no"], [1, None], [0, 2]):
        with pytest.raises(InputError, match="labels must be"):
            forecaster.learn_many([0.5, 0.6], labels, features_of(forecaster, 2))
    assert forecaster.to_json() == before


@every("name", [name for name in NAMES if without_map(name)])
def test_what_depends_on_more_than_the_score_has_no_map(name: str) -> None:
    forecaster = CASES[name]()
    forecaster.learn_many(*stream(100), features_of(forecaster, 100))
    with pytest.raises(InputError, match=r"no (fixed )?map"):
        forecaster.freeze()


@every("name", [name for name in NAMES if not without_map(name)])
def test_a_frozen_map_says_what_the_forecaster_says_now(name: str) -> None:
    forecaster = CASES[name]()
    scores, labels = stream(400)
    frozen = forecaster.learn_many(scores, labels, features_of(forecaster, 400)).freeze()
    asked = np.linspace(0.0, 1.0, 201)
    np.testing.assert_allclose(frozen.apply(asked), forecaster.predict_many(asked), rtol=0, atol=1e-12)


@every("name", NAMES)
def test_a_certificate_is_a_bound_with_its_assumptions_or_a_refusal_in_one_sentence(name: str) -> None:
    found = CASES[name]().certificate(10_000)
    assert isinstance(found, OnlineCertificate | NoCertificate)
    if isinstance(found, NoCertificate):
        assert str(found).endswith(".")
    else:
        assert found.bound >= 0.0
        assert json.loads(json.dumps(found.to_dict()))["n_rows"] == 10_000


@every("name", NAMES)
def test_states_of_others_and_broken_states_are_refused(name: str) -> None:
    forecaster = CASES[name]()
    state = forecaster.state
    broken_states = (
        {**state, "numbers": [*state["numbers"], 1.0]},
        {**state, "numbers": [10**400, *state["numbers"][1:]]},
        {**state, "experts": None},
        {**state, "version": 2},
        {},
        [],
    )
    for broken in broken_states:
        with pytest.raises(InputError, match="state"):
            CASES[name]().restore(broken)
    with pytest.raises(InputError, match="state"):
        resume({**state, "forecaster": "os.system"})
    with pytest.raises(InputError, match="not valid JSON"):
        resume("{")


@every("name", [name for name in NAMES if CASES[name]().experts])
def test_a_wrapper_owns_its_experts(name: str) -> None:
    wrapper = CASES[name]()
    same = [copy.deepcopy(expert) for expert in wrapper.experts]
    built = type(wrapper)._build(same, wrapper._parameters())
    scores, labels = stream(50)
    built.learn_many(scores, labels, features_of(built, 50))
    assert all(expert.n_rows == 0 for expert in same)
    assert built.n_rows == 50


@every("name", NAMES)
def test_a_state_whose_numbers_were_changed_never_gives_nonsense(name: str) -> None:
    one = CASES[name]()
    scores, labels = stream(150)
    features = features_of(one, 150)
    one.learn_many(scores, labels, features)
    state = one.state
    rng = np.random.default_rng(0)
    for place in rng.permutation(len(state["numbers"]))[:8].tolist():
        for value in (-1.0, 0.0, 0.5, 1e300, -1e300):
            changed = copy.deepcopy(state)
            changed["numbers"][place] = value
            two = CASES[name]()
            try:
                two.restore(changed)
            except InputError:
                assert two.to_json() == CASES[name]().to_json()
                continue
            said = loop(two, scores[:10].tolist(), labels[:10].tolist(), features)
            assert all(0.0 <= p <= 1.0 for p in said), (place, value)


def test_a_refused_state_changes_nothing_on_any_level() -> None:
    outer = online.Tracking(online.OnlinePlatt()).learn_many(*stream(50))
    before = outer.to_json()
    other = online.Tracking(online.OnlinePlatt()).learn_many(*stream(10)).state
    other["numbers"][2] = -1.0
    with pytest.raises(InputError, match="state"):
        outer.restore(other)
    assert outer.to_json() == before


def test_an_expert_must_be_a_forecaster_of_one_score() -> None:
    with pytest.raises(InputError, match=r"expert must be a forecaster of calibrant.online, not 0.5"):
        online.Tracking(0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="takes class probabilities"):
        online.Tracking(online.OnlineTemperature(3))
    with pytest.raises(InputError, match="expert must need only a score, but CalibratedRegression needs features"):
        online.Tracking(online.CalibratedRegression(2))


def test_two_forecasters_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match=r"calibrant.online.experts.newton has a forecaster named OnlinePlatt"):
        register("OnlinePlatt")(type("OnlinePlatt", (Forecaster,), {"__module__": "elsewhere"}))


def test_a_bound_is_never_printed_below_itself() -> None:
    for bound in (705.5154, 0.693147180559945, 0.72222222, 0.099996, 1.0, 12345.6, 0.0):
        told = str(OnlineCertificate("it", bound, 1, False, (), "here"))
        assert float(re.search(r"at most ([\d.,]*\d)", told)[1].replace(",", "")) >= bound
