"""What every online forecaster keeps among threads and processes: it is read before or after a step, never in between.

A fixed stream has few moments: the states of a sequential run. Whatever threads see must be one of them.
"""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.cases import NO_FORK, every
from tests.contracts.test_forecasters import CASES, features_of, row, stream

from calibrant import InputError, online
from calibrant.online.base import Forecaster, resume

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason=NO_FORK)

ROWS, ROUNDS = 100, 2
PATIENCE = 60.0
"""Seconds after which a thread, or a child, counts as blocked for ever."""

ASKED = [0.25, 0.7]

CLASS_CASES: dict[str, Callable[[], Forecaster]] = {
    "OnlineMulticlass": lambda: online.OnlineMulticlass(online.Tracking(online.OnlinePlatt()), 3),
    "OnlineMulticlass class-wise": lambda: online.OnlineMulticlass(online.OnlinePlatt(), 3, "class-wise"),
    "OnlineTemperature": lambda: online.OnlineTemperature(3),
    "OnlineVector": lambda: online.OnlineVector(3),
}
ALL = CASES | CLASS_CASES
# The guard is that of the base: these stand for kernels, alone and on others, and for all other ways to step.
GUARDED = [
    "CalibratedRegression",
    "Hedging two choices",
    "MultiExpert",
    "OnlineMulticlass",
    "OnlinePlatt",
    "OnlineTemperature",
    "Refitted platt",
    "Restarting",
    "Tracking",
    "Tracking on windows",
]
SLOW = ("CalibratedRegression", "MultiExpert", "Restarting")

Rows = list[tuple[Any, Any, Any]]


def rows_for(forecaster: Forecaster, n: int, seed: int = 0) -> Rows:
    """Scores, labels and features, in the form that this forecaster takes."""
    scores, labels = stream(n, seed)
    features = features_of(forecaster, n, seed)
    if forecaster.takes_rows:
        matrix = np.column_stack([scores, 0.5 * (1.0 - scores), 0.5 * (1.0 - scores)])
        return list(zip(matrix.tolist(), (2 * labels).astype(int).tolist(), [None] * n, strict=True))
    return [(x, y, row(features, i)) for i, (x, y) in enumerate(zip(scores.tolist(), labels.tolist(), strict=True))]


def asked_of(forecaster: Forecaster) -> tuple[list[Any], Any]:
    if forecaster.takes_rows:
        return [[x, 0.5 * (1.0 - x), 0.5 * (1.0 - x)] for x in ASKED], None
    return ASKED, features_of(forecaster, len(ASKED), 5)


def mapped(forecaster: Forecaster, asked: list[Any]) -> bytes | None:
    try:
        return np.asarray(forecaster.freeze().apply(np.array(asked))).tobytes()
    except InputError:  # it has no map, or none at this time
        return None


def views(name: str) -> dict[str, Callable[[Forecaster], Any]]:
    """All ways to look at a forecaster, each with a result that can be compared."""
    asked, features = asked_of(ALL[name]())
    found: dict[str, Callable[[Forecaster], Any]] = {
        "predict_one": lambda f: np.asarray(f.predict_one(asked[0], row(features, 0))).tobytes(),
        "predict_many": lambda f: f.predict_many(asked, features).tobytes(),
        "state": lambda f: f.to_json(),
        "copy": lambda f: copy.deepcopy(f).to_json(),
        "pickle": lambda f: pickle.loads(pickle.dumps(f)).to_json(),
        "certificate": lambda f: str(f.certificate()),
        "freeze": lambda f: mapped(f, asked),
    }
    if ALL[name]().experts:
        found["expert"] = lambda f: f.expert.to_json()
    for attribute in ("weights", "bounds"):
        if hasattr(ALL[name](), attribute):
            found[attribute] = lambda f, attribute=attribute: repr(getattr(f, attribute))
    if isinstance(ALL[name](), online.Hedging | online.TwoChoices):
        found["predict_interval"] = lambda f: f.predict_interval(asked[0])
    return found


@contextmanager
def restless() -> Iterator[None]:
    """Threads that change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    with restless():
        yield


def together(*jobs: Callable[[], None]) -> None:
    """Run each in a thread; fail with the first error, or where one never ends."""
    errors: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    if errors:
        raise errors[0]


def learn(forecaster: Forecaster, rows: Rows) -> None:
    for x, y, f in rows:
        forecaster.learn_one(x, y, f)


@every("name", GUARDED)
def test_a_reader_sees_a_moment_between_two_rows(name: str) -> None:
    rows, looks = rows_for(ALL[name](), ROWS), views(name)
    one = ALL[name]()
    moments = {look: {see(one)} for look, see in looks.items()}
    for each in rows:
        learn(one, [each])
        for look, see in looks.items():
            moments[look].add(see(one))
    for _ in range(ROUNDS):
        forecaster, done = ALL[name](), threading.Event()
        seen: dict[str, set[Any]] = {look: set() for look in looks}

        def read(look: str, forecaster: Forecaster = forecaster, done: Any = done, seen: Any = seen) -> None:
            while not done.is_set():
                seen[look].add(looks[look](forecaster))

        def write(forecaster: Forecaster = forecaster, done: Any = done) -> None:
            try:
                learn(forecaster, rows)
            finally:
                done.set()

        together(write, *(lambda look=look, read=read: read(look) for look in looks))
        for look in looks:
            assert seen[look] <= moments[look], look
        assert forecaster.to_json() == one.to_json()


@every("name", GUARDED)
def test_a_forecast_is_that_of_a_moment_between_two_rows(name: str) -> None:
    rows, see = rows_for(ALL[name](), 150 if name in SLOW else 2_000), views(name)["predict_one"]
    one, forecaster, done = ALL[name](), ALL[name](), threading.Event()
    moments, seen = {see(one)}, set()
    for each in rows:
        learn(one, [each])
        moments.add(see(one))

    def write() -> None:
        try:
            learn(forecaster, rows)
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            seen.add(see(forecaster))

    together(write, read, read)
    assert seen <= moments


@every("name", GUARDED)
def test_no_row_of_several_learners_is_lost(name: str) -> None:
    forecaster = ALL[name]()
    parts = [rows_for(forecaster, ROWS, seed) for seed in range(4)]
    together(*(lambda rows=rows: learn(forecaster, rows) for rows in parts))
    assert forecaster.n_rows == 4 * ROWS
    if not forecaster.takes_rows:
        assert max(expert.n_rows for expert in (forecaster, *forecaster.experts)) == 4 * ROWS
    assert resume(forecaster.to_json()).to_json() == forecaster.to_json()  # its numbers pass every check


@every("name", GUARDED)
def test_streams_of_several_threads_are_learned_one_after_the_other(name: str) -> None:
    columns = []
    for seed in (0, 1):
        scores, labels, features = zip(*rows_for(ALL[name](), ROWS, seed), strict=True)
        columns.append((list(scores), list(labels), None if features[0] is None else np.array(features)))
    a, b = columns
    orders = {ALL[name]().learn_many(*x).learn_many(*y).to_json() for x, y in ((a, b), (b, a))}
    before, after = ALL[name]().to_json(), {ALL[name]().learn_many(*x).to_json() for x in (a, b)}
    for _ in range(ROUNDS):
        forecaster, seen = ALL[name](), []
        together(
            lambda f=forecaster: f.learn_many(*a),
            lambda f=forecaster: f.forecast_many(*b),
            lambda f=forecaster, seen=seen: seen.extend(f.to_json() for _ in range(20)),
        )
        assert forecaster.to_json() in orders
        assert set(seen) <= {before} | after | orders


@every("name", ["OnlinePlatt", "Tracking"])  # to compile the others takes minutes
def test_compiled_streams_let_no_reader_in_though_other_threads_run(name: str) -> None:
    pytest.importorskip("numba")
    scores, labels = stream(60_000)
    forecaster = ALL[name]().compile()
    ends = {forecaster.predict_one(ASKED[0])}
    sequential = copy.deepcopy(forecaster)
    for part in np.split(np.arange(60_000), 4):
        ends.add(sequential.learn_many(scores[part], labels[part]).predict_one(ASKED[0]))
    done, seen = threading.Event(), set()

    def write() -> None:
        try:
            for part in np.split(np.arange(60_000), 4):
                forecaster.learn_many(scores[part], labels[part])
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            seen.add(forecaster.predict_one(ASKED[0]))

    together(write, read)
    assert seen <= ends
    assert forecaster.to_json() == sequential.to_json()


# ---------------------------------------------------------------------------------------------------------- processes


def in_child(job: Callable[[], Any]) -> Any:
    """What a function returns in a forked child; an error there is one here."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: there are other threads
        child = os.fork()
    if child == 0:
        try:
            os.close(read)
            signal.alarm(int(PATIENCE))  # ends it, should it block
            with os.fdopen(write, "wb") as pipe:
                try:
                    found = True, job()
                except BaseException as error:
                    found = False, repr(error)
                pickle.dump(found, pipe)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the child was blocked"
    fine, found = pickle.loads(text)
    assert fine, found
    return found


@needs_fork
@every("name", GUARDED)
def test_a_forked_child_may_predict_and_learns_when_it_is_resumed(name: str) -> None:
    forecaster = ALL[name]()
    rows = rows_for(forecaster, 40)
    learn(forecaster, rows[:-1])
    before = forecaster.to_json()
    learned = copy.deepcopy(forecaster)
    learn(learned, rows[-1:])
    looks = views(name)
    x, y, f = rows[-1]
    many = ([x], [y], None if f is None else np.array([f]))

    def job() -> Any:
        same = {look: see(forecaster) for look, see in looks.items()}
        for call in (
            lambda: forecaster.learn_one(x, y, f),
            lambda: forecaster.learn_many(*many),
            lambda: forecaster.forecast_many(*many),
        ):
            with pytest.raises(
                RuntimeError, match=r"created before a fork.*use calibrant.online.resume\(forecaster.to_json\(\)\)"
            ):
                call()
        unmoved = forecaster.to_json()
        found = []
        for fresh in (
            resume(forecaster.to_json()),
            copy.deepcopy(forecaster),
            pickle.loads(pickle.dumps(forecaster)),
            forecaster.restore(forecaster.state),
        ):
            found.append(fresh.learn_one(x, y, f).to_json())
        return same, unmoved, found

    same, unmoved, found = in_child(job)
    assert same == {look: see(forecaster) for look, see in looks.items()}
    assert unmoved == before
    assert found == [learned.to_json()] * 4
    assert forecaster.learn_one(x, y, f).to_json() == learned.to_json()  # the parent goes on


@needs_fork
@every("name", ["OnlinePlatt", "Restarting", "Refitted platt"])
def test_a_child_that_is_forked_in_the_middle_of_a_row_sees_the_moment_after_it(name: str) -> None:
    forecaster = ALL[name]()
    rows = rows_for(forecaster, 50) * 200
    done = threading.Event()

    def write() -> None:
        for each in rows:
            if done.is_set():
                return
            learn(forecaster, [each])

    children: list[str] = []

    def fork() -> None:
        try:
            for _ in range(6):
                children.append(in_child(forecaster.to_json))
        finally:
            done.set()

    together(write, write, fork)
    for text in children:
        assert resume(text).to_json() == text  # its numbers pass every check: of a kernel, counts add up
    for first, second in pairwise(resume(text).n_rows for text in children):
        assert first <= second
