"""Guards: who waits for whom, what signals and forks find, and adapters, whose model and forecaster are one."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from tests.cases import NO_TIMER, every
from tests.contracts.test_forecasters_threads import in_child, needs_fork, restless, together

from calibrant import InputError
from calibrant.online import (
    CalibratedRegression,
    Forecaster,
    Hedging,
    MultiExpert,
    OnlineClassifier,
    OnlineMulticlass,
    OnlinePlatt,
    Refitted,
    Restarting,
    Tracking,
    guards,
    resume,
)
from calibrant.online.guards import ALIVE, Guard, reading

X, Y = [0.2, 0.7, 0.4, 0.9], [0, 1, 1, 1]

TREES: dict[str, Callable[[], Forecaster]] = {
    "kernels": lambda: Tracking(Hedging(OnlinePlatt(), random_state=0)),
    "a kernel on others": lambda: Tracking(MultiExpert(OnlinePlatt(), Tracking(Refitted(every=2)))),
    "copies": lambda: Restarting(Tracking(OnlinePlatt()), shortest=2, levels=2),
    "classes": lambda: OnlineMulticlass(Tracking(OnlinePlatt()), 2),
}


def guards_of(forecaster: Forecaster) -> set[int]:
    return {id(forecaster._guard)}.union(*map(guards_of, forecaster.experts))


def taught(forecaster: Forecaster, times: int = 3) -> Forecaster:
    scores = np.column_stack([1.0 - np.array(X), X]) if forecaster.takes_rows else X
    for _ in range(times):
        forecaster.learn_many(scores, Y)
    return forecaster


# ------------------------------------------------------------------------------------------------------- one for a tree


@every("name", TREES)
def test_a_forecaster_has_one_guard_with_all_that_it_stands_on_and_none_with_others(name: str) -> None:
    one = TREES[name]()
    found = [one, copy.deepcopy(one), copy.copy(one), pickle.loads(pickle.dumps(one)), resume(one.to_json())]
    found += [one.redrawn(), TREES[name]().restore(one.to_json()), copy.deepcopy(one.expert), Tracking(OnlinePlatt())]
    for forecaster in found:
        assert len(guards_of(forecaster)) == 1
        if not forecaster.takes_features:
            taught(forecaster)
        assert guards_of(forecaster) == {id(forecaster._guard)}
    assert len(set().union(*map(guards_of, found))) == len(found)


def test_a_copy_of_a_guard_is_another_one_and_free() -> None:
    guard = Guard()
    assert guard.enter()
    for other in (copy.copy(guard), copy.deepcopy(guard), pickle.loads(pickle.dumps(guard))):
        assert other is not guard
        assert other.enter()


def test_guards_end_with_their_forecasters() -> None:
    before = len(ALIVE)
    kept = [Tracking(OnlinePlatt()) for _ in range(50)]
    assert len(ALIVE) == before + 50
    del kept
    assert len(ALIVE) == before


def test_methods_that_would_enter_no_guard_are_refused() -> None:
    for name in ("predict_one", "learn_one", "predict_many", "learn_many", "forecast_many", "freeze"):
        with pytest.raises(InputError, match=f"Mine defines {name}: define _{name} instead, which {name} calls"):
            type("Mine", (OnlinePlatt,), {name: lambda self: None, "__module__": __name__})


# -------------------------------------------------------------------------------------------------------------- waiting


def test_whoever_learns_waits_and_whoever_reads_sees_one_or_the_other() -> None:
    live = taught(OnlinePlatt())
    entered, leave = threading.Event(), threading.Event()

    @reading
    def hold(live: Forecaster) -> None:
        entered.set()
        leave.wait(30)

    order: list[str] = []

    def learn() -> None:
        entered.wait(30)
        live.learn_one(0.3, 1)
        order.append("learned")

    def read() -> None:
        entered.wait(30)
        live.predict_one(0.3)
        order.append("read")

    def release() -> None:
        entered.wait(30)
        time.sleep(0.1)
        assert order == []
        leave.set()

    together(lambda: hold(live), learn, read, release)
    assert sorted(order) == ["learned", "read"]


@every("look", [lambda f, x: f.predict_one(0.3, x), lambda f, x: f.to_json()])
def test_a_busy_learner_lets_others_in(look: Callable[[Any, Any], Any]) -> None:
    live, done, waited = CalibratedRegression(60), threading.Event(), []
    features = [0.5] * 60

    def learn() -> None:
        while not done.is_set():
            live.learn_one(0.3, 1, features)

    def read() -> None:
        try:
            for _ in range(15):
                before = live.n_rows
                look(live, features)
                waited.append(live.n_rows - before)
        finally:
            done.set()

    together(learn, read)
    assert sum(waited) <= 300  # rows learned meanwhile; thousands where nobody gives way


def test_a_function_that_calls_its_own_forecaster_is_told_and_does_not_wait_for_itself() -> None:
    def own(p: float, s: float, xs: Any) -> list[float]:
        live.learn_one(s, 1)
        return [p * p]

    live = CalibratedRegression(0, test_functions=own, size=1)
    with pytest.raises(RuntimeError, match="already inside a step of this forecaster"):
        live.learn_one(0.3, 1)
    assert hasattr(live._guard, "free")  # it was left


def test_compiling_and_restoring_let_others_go_on() -> None:
    pytest.importorskip("numba")
    scores, labels = [0.1, 0.35, 0.8, 0.6] * 100, [0, 1, 1, 0] * 100
    one, live, _ = Tracking(OnlinePlatt()), Tracking(OnlinePlatt()), Tracking(OnlinePlatt()).compile()
    moments = {one.predict_one(0.4)}
    for x, y in zip(scores, labels, strict=True):
        moments.add(one.learn_one(x, y).predict_one(0.4))
    done, seen = threading.Event(), set()

    def read() -> None:
        while not done.is_set():
            seen.add(live.predict_one(0.4))

    def write() -> None:
        try:
            for i, (x, y) in enumerate(zip(scores, labels, strict=True)):
                live.learn_one(x, y)
                if i % 100 == 50:
                    live.compile()
                if i % 100 == 80:
                    live.restore(live.state)
        finally:
            done.set()

    with restless():
        together(write, read, read)
    assert seen <= moments
    assert live.to_json() == one.to_json()


def test_short_streams_of_many_compiled_numbers_are_not_worth_a_copy_and_give_the_same() -> None:
    pytest.importorskip("numba")
    plain, compiled = (Tracking(OnlinePlatt(), epsilon=0.001) for _ in range(2))
    compiled.compile()
    for n in (0, 1, 3, 40):
        x, y = np.linspace(0.1, 0.9, n), np.arange(n) % 2
        assert compiled.forecast_many(x, y).tolist() == plain.forecast_many(x, y).tolist()
        assert compiled.learn_many(x, y).to_json() == plain.learn_many(x, y).to_json()
        assert compiled.expert.to_json() == plain.expert.to_json()
    compiled.expert.learn_many(x, y)  # not meant, but seen above
    assert compiled.predict_one(0.4) == copy.deepcopy(compiled).predict_one(0.4)
    assert compiled.expert._state[0] is compiled._state[1][0]


@pytest.fixture
def at_alarm() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """What to do when the alarm goes off."""
    if not hasattr(signal, "setitimer"):
        pytest.skip(NO_TIMER)
    before = signal.getsignal(signal.SIGALRM)
    yield lambda job: signal.signal(signal.SIGALRM, lambda *_: job())
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


def soon(i: int) -> None:
    """Let the alarm go off once."""
    signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-7 * i)


@every("make", [OnlinePlatt, lambda: Tracking(MultiExpert(OnlinePlatt(), OnlinePlatt()))])
def test_a_signal_handler_gets_a_whole_state_or_an_error(make: Callable[[], Forecaster], at_alarm: Any) -> None:
    live, sequential = make(), make()
    states, errors, moments = [], [], {live.to_json()}

    def save() -> None:
        try:
            states.append(live.to_json())
        except RuntimeError as error:
            errors.append(str(error))

    at_alarm(save)
    for i in range(100):
        soon(i)
        while len(states) + len(errors) == i:
            live.learn_one(0.3, 1)
    for _ in range(live.n_rows):
        moments.add(sequential.learn_one(0.3, 1).to_json())
    assert set(states) <= moments
    assert errors
    assert all("let the handler set a flag" in told for told in errors)


def until_stopped(job: Callable[[], Any], i: int) -> None:
    """Do something again and again until the alarm goes off, each time after another part of it."""
    soon(i)
    while True:
        job()


def test_a_forecaster_is_free_after_an_interrupt(at_alarm: Any) -> None:
    live, many, wrapper = OnlinePlatt(), Tracking(OnlinePlatt()), MultiExpert(OnlinePlatt(), OnlinePlatt())

    def stop() -> None:
        raise KeyboardInterrupt

    def work() -> None:
        live.learn_one(0.3, 1)
        live.predict_one(0.3)
        wrapper.learn_one(0.3, 1)
        many.learn_many([0.3], [1])

    at_alarm(stop)
    for i in range(200):
        with pytest.raises(KeyboardInterrupt):
            until_stopped(work, i)
        assert all(hasattr(each._guard, "free") for each in (live, many, wrapper))


def test_a_forecast_loses_no_time_out(at_alarm: Any) -> None:
    def stop() -> None:
        raise TimeoutError

    at_alarm(stop)
    for live in (OnlinePlatt(), MultiExpert(OnlinePlatt(), OnlinePlatt())):
        for i in range(100):
            with pytest.raises(TimeoutError):
                until_stopped(lambda live=live: live.predict_one(0.3), i)


# ---------------------------------------------------------------------------------------------------------------- forks


@needs_fork
def test_a_fork_in_the_middle_of_a_long_step_is_told_and_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "LONGEST_WAIT", 0.05)
    live, other = taught(OnlinePlatt()), taught(Tracking(OnlinePlatt()))
    entered, leave = threading.Event(), threading.Event()
    text, want = live.to_json(), live.predict_one(0.3)
    found: list[Any] = []

    @reading
    def hold(live: Forecaster) -> None:
        entered.set()
        leave.wait(30)

    def job() -> Any:
        for call in (
            lambda: live.predict_one(0.3),
            live.to_json,
            lambda: live.learn_one(0.3, 1),
            lambda: live.restore(text),
            lambda: copy.deepcopy(live),
        ):
            with pytest.raises(
                RuntimeError, match=r"forked while another thread was updating.*resume\(state\) with a saved"
            ):
                call()
        return other.predict_one(0.3), resume(text).learn_one(0.3, 1).n_rows

    def fork() -> None:
        entered.wait(30)
        found.append(in_child(job))
        leave.set()

    together(lambda: hold(live), fork)
    assert found == [(other.predict_one(0.3), 13)]
    assert live.predict_one(0.3) == want  # the parent goes on
    assert live.learn_one(0.3, 1).n_rows == 13


@needs_fork
def test_threads_may_fork_at_the_same_time_while_others_learn() -> None:
    live, done = Tracking(OnlinePlatt()), threading.Event()

    def learn() -> None:
        while not done.is_set():
            live.learn_one(0.3, 1)

    found: list[float] = []

    def fork() -> None:
        for _ in range(5):
            found.append(in_child(lambda: live.predict_one(0.3)))

    def forks() -> None:
        try:
            together(fork, fork)
        finally:
            done.set()

    with restless():
        together(learn, learn, forks)
    assert len(found) == 10
    assert all(0.0 <= p <= 1.0 for p in found)


@needs_fork
def test_a_long_step_of_one_forecaster_does_not_spoil_those_that_others_learn() -> None:
    held, live, done = OnlinePlatt(), Tracking(OnlinePlatt()), threading.Event()
    entered = threading.Event()

    @reading
    def hold(held: Forecaster) -> None:
        entered.set()
        done.wait(30)

    def learn() -> None:
        while not done.is_set():
            live.learn_one(0.3, 1)

    def fork() -> None:
        entered.wait(30)
        try:
            found.extend(in_child(lambda: live.predict_one(0.3)) for _ in range(3))
        finally:
            done.set()

    found: list[float] = []
    with restless():
        together(lambda: hold(held), learn, learn, fork)
    assert len(found) == 3


@needs_fork
def test_a_fork_leaves_guards_again_for_a_step_that_needs_another_forecaster() -> None:
    other, done = OnlinePlatt(), threading.Event()

    def own(p: float, s: float, xs: Any) -> list[float]:
        return [p * other.predict_one(s)]

    live = CalibratedRegression(0, test_functions=own, size=1)

    def learn() -> None:
        while not done.is_set():
            live.learn_one(0.3, 1)

    found: list[Any] = []

    def fork() -> None:
        try:
            for _ in range(10):
                found.append(in_child(lambda: (live.predict_one(0.3), other.predict_one(0.3))))
        finally:
            done.set()

    with restless():
        together(learn, fork)
    assert len(found) == 10


@needs_fork
def test_a_fork_in_the_middle_of_a_batch_of_an_adapter_waits_for_its_end() -> None:
    parts, done = batches(20), threading.Event()
    model = moving().partial_fit(*parts[0], classes=[False, True])
    asked, found = parts[0][0][:4], []

    def learn() -> None:
        while not done.is_set():
            for part in parts:
                model.partial_fit(*part)

    def fork() -> None:
        try:
            for _ in range(10):
                found.append(in_child(lambda: model.predict_proba(asked).shape))
        finally:
            done.set()

    with restless():
        together(learn, fork)
    assert found == [(4, 2)] * 10


GLOBAL = OnlinePlatt()


def predicted(x: float) -> float:
    return GLOBAL.predict_one(x)


def learned(x: float) -> str:
    try:
        return str(GLOBAL.learn_one(x, 1).n_rows)
    except RuntimeError as error:
        return str(error)


@needs_fork
def test_workers_of_a_pool_predict_and_do_not_learn_unseen() -> None:
    taught(GLOBAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(predicted, X) == [GLOBAL.predict_one(x) for x in X]
            assert all("the parent process would not see" in told for told in pool.map(learned, X))
            assert pool.map(GLOBAL.predict_one, X) == [GLOBAL.predict_one(x) for x in X]  # by a pickle


# ------------------------------------------------------------------------------------------------------------- adapters


def batches(n: int = 40, size: int = 30) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n * size, 3))
    labels = rows[:, 0] + rng.normal(size=n * size) > 0.5
    return [(rows[i::n], labels[i::n]) for i in range(n)]


def moving() -> OnlineClassifier:
    return OnlineClassifier(SGDClassifier(loss="log_loss", random_state=0), Tracking(OnlinePlatt()))


def test_an_adapter_of_scikit_learn_is_read_between_two_batches() -> None:
    parts = batches()
    asked = parts[0][0][:4]
    one = moving().partial_fit(*parts[0], classes=[False, True])
    looks: dict[str, Callable[[Any], Any]] = {
        "predict_proba": lambda m: m.predict_proba(asked).tobytes(),
        "predict": lambda m: m.predict(asked).tobytes(),
        "pickle": lambda m: pickle.loads(pickle.dumps(m)).predict_proba(asked).tobytes(),
        "copy": lambda m: copy.deepcopy(m).predict_proba(asked).tobytes(),
    }
    model, moments = copy.deepcopy(one), {look: {see(one)} for look, see in looks.items()}
    for part in parts[1:]:
        one.partial_fit(*part)
        for look, see in looks.items():
            moments[look].add(see(one))
    seen, done = {look: set() for look in looks}, threading.Event()

    def read(look: str) -> None:
        while not done.is_set():
            seen[look].add(looks[look](model))

    def write() -> None:
        try:
            for part in parts[1:]:
                model.partial_fit(*part)
        finally:
            done.set()

    with restless():
        together(write, *(lambda look=look: read(look) for look in looks))
    for look in looks:
        assert seen[look] <= moments[look], look


def test_an_adapter_of_river_is_read_between_two_rows() -> None:
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    rows = [({"a": i % 7 / 7, "b": i % 3 - 1}, i % 5 > 2) for i in range(2_000)]
    asked = {"a": 0.3, "b": 1}
    one, model = (RiverClassifier(linear_model.LogisticRegression(), Tracking(OnlinePlatt())) for _ in range(2))
    moments = {one.predict_proba_one(asked)[True]}
    for x, y in rows:
        one.learn_one(x, y)
        moments.add(one.predict_proba_one(asked)[True])
    seen, done = set(), threading.Event()

    def read(see: Callable[[], Any]) -> None:
        while not done.is_set():
            seen.add(see().predict_proba_one(asked)[True])

    def write() -> None:
        try:
            for x, y in rows:
                model.learn_one(x, y)
        finally:
            done.set()

    with restless():
        together(write, lambda: read(lambda: model), lambda: read(lambda: copy.deepcopy(model)))
    assert seen <= moments


def test_readers_of_an_adapter_run_at_the_same_time() -> None:
    rows, labels = batches(1, 200)[0]
    both = threading.Barrier(2)

    class Slow(LogisticRegression):
        def predict_proba(self, X: Any) -> Any:
            both.wait(30)
            return super().predict_proba(X)

    model = OnlineClassifier(Slow().fit(rows, labels), prefit=True)
    together(lambda: model.predict_proba(rows), lambda: model.predict(rows))


@needs_fork
def test_a_forked_adapter_learns_neither_model_nor_forecaster() -> None:
    parts = batches(3)
    model = moving().partial_fit(*parts[0], classes=[False, True]).partial_fit(*parts[1])
    asked = parts[0][0][:4]
    want = copy.deepcopy(model).partial_fit(*parts[2]).predict_proba(asked).tolist()

    def job() -> Any:
        with pytest.raises(RuntimeError, match="the parent process would not see"):
            model.partial_fit(*parts[2])
        alone = copy.deepcopy(model).partial_fit(*parts[2])
        return model.predict_proba(asked).tolist(), alone.predict_proba(asked).tolist()

    assert in_child(job) == (model.predict_proba(asked).tolist(), want)
