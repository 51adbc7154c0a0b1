"""The learners of a process: new streams, lost connections, two processes, a stream that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.service.test_learner import START, at_second

from calibrant.service.learning import learner as module
from calibrant.service.learning import loop
from calibrant.service.learning.learner import FenceLostError, Learner, check_fence
from calibrant.service.learning.loop import LearnerLoop
from calibrant.service.learning.state import StreamState
from calibrant.service.settings import Settings
from calibrant.service.store.log import append_outcomes, append_predictions
from calibrant.service.store.migrate import LOCK, connect
from calibrant.service.store.streams import create_stream

PATIENCE = 180.0
FAST = Settings(horizon=1.0, silence="unknown", publish_rows=10, publish_seconds=1.0)

FAULTS: dict[str, Exception] = {
    "error": RuntimeError("a mistake"),
    "data": psycopg.errors.DivisionByZero("of this stream"),
    "missing": psycopg.errors.UndefinedTable("a mistake in a statement"),
    "locked": psycopg.errors.LockNotAvailable("by somebody"),
    "slow": psycopg.errors.QueryCanceled("statement timeout"),
    "full": psycopg.errors.DiskFull("for this stream"),
    "fence": FenceLostError("fence", "is not the newest", "stop"),
}
STAGES = {"begin": "__init__", "step": "step", "tick": "tick", "checkpoint": "checkpoint"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(loop, "STAND_BY_SECONDS", 1.0)
    monkeypatch.setattr(loop, "FIRST_WAIT", 0.1)
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.1)


@contextmanager
def learning(address: str) -> Iterator[LearnerLoop]:
    found, stop = LearnerLoop(f"{address} application_name=learn", seconds=0.05), threading.Event()
    thread = threading.Thread(target=found.run, args=[stop])
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(PATIENCE)


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def log_rows(database: psycopg.Connection, stream: int, n: int = 30) -> None:
    ids = [uuid4() for _ in range(n)]
    scores = [0.1 + 0.8 * k / n for k in range(n)]
    append_predictions(database, stream, ids, scores, [None] * n, [None] * n, [0] * n, scores)
    append_outcomes(database, stream, ids, [k % 2 for k in range(n)], [None] * n)


def learned(database: psycopg.Connection, stream: int) -> int:
    return int(database.execute("select position from learner where stream = %s", [stream]).fetchone()[0])  # type: ignore[index]


def versions(database: psycopg.Connection, stream: int) -> int:
    return int(database.execute("select count(*) from version where stream = %s", [stream]).fetchone()[0])  # type: ignore[index]


@pytest.mark.slow
def test_all_streams_are_learned_also_after_a_lost_connection(
    address: str, database: psycopg.Connection, stream: int
) -> None:
    with learning(address):
        log_rows(database, stream)
        until(lambda: versions(database, stream))
        other = create_stream(database, None, "other", FAST)
        log_rows(database, other)
        until(lambda: versions(database, other))
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'learn'"
        assert database.execute(ended).rowcount == 1
        before = learned(database, stream)
        log_rows(database, stream)
        until(lambda: learned(database, stream) > before + 60)
    assert database.execute("select count(distinct stream) from checkpoint").fetchone() == (2,)


@pytest.mark.slow
def test_one_of_two_processes_learns_and_the_other_takes_over(
    address: str, database: psycopg.Connection, stream: int
) -> None:
    with learning(address) as second:
        with learning(address) as first:
            log_rows(database, stream)
            until(lambda: versions(database, stream))
            until(lambda: len(first._learners) + len(second._learners) == 1)
            fence = database.execute("select fence from learner").fetchone()
            time.sleep(2.0)  # longer than the time after which a stream is taken back
            assert database.execute("select fence from learner").fetchone() == fence
            has_it = first._learners
        before = learned(database, stream)
        log_rows(database, stream)
        until(lambda: learned(database, stream) > before + 60)
        assert second._learners or not has_it


@pytest.mark.slow
def test_a_stream_that_fails_does_not_stop_the_others(address: str, database: psycopg.Connection, stream: int) -> None:
    other = create_stream(database, None, "other", FAST)
    database.execute("insert into checkpoint values (%s, 1, 'none', 'x', 'y')", [stream])
    with learning(address):
        log_rows(database, other)
        until(lambda: versions(database, other))
        assert learned(database, stream) == 0
        database.execute("delete from checkpoint where stream = %s", [stream])
        log_rows(database, stream)
        until(lambda: versions(database, stream))


def test_the_loop_ends_while_the_database_is_away(address: str) -> None:
    with learning(address.replace("dbname=", "dbname=not")):
        time.sleep(0.3)
    connect(address).close()


@pytest.mark.slow
def test_no_error_of_a_stream_stops_another_one(
    address: str, database: psycopg.Connection, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: dict[tuple[str, int], Exception] = {}
    for stage, name in STAGES.items():
        real = getattr(Learner, name)

        def failing(self: Learner, *given: Any, stage: str = stage, real: Any = real) -> Any:
            number = given[1] if stage == "begin" else self.stream
            if (stage, number) in faults:
                raise faults[stage, number]
            return real(self, *given)

        monkeypatch.setattr(Learner, name, failing)
        for kind, problem in FAULTS.items():
            faults[stage, create_stream(database, None, f"a-{stage}-{kind}", FAST)] = problem
    monkeypatch.setattr(loop, "DROP_SECONDS", 0.0)
    monkeypatch.setattr(loop, "drop_days", lambda connection: connection.execute("select 1 / 0"))
    bad = [number for _, number in faults]
    for number in (stream, *bad):
        log_rows(database, number)
    with learning(address):
        until(lambda: versions(database, stream))
        faults.clear()
        log_rows(database, stream)
        until(lambda: all(versions(database, number) for number in bad))
    assert database.execute("select count(distinct stream) from checkpoint").fetchone() == (1 + len(bad),)


@pytest.mark.slow
def test_a_read_only_database_is_waited_for(address: str, database: psycopg.Connection, stream: int) -> None:
    name, ends = database.info.dbname, "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
    with learning(address):
        until(lambda: database.execute("select fence from learner").fetchone() == (1,))
        database.execute(f"alter database {name} set default_transaction_read_only = on")
        database.execute(f"{ends} and application_name = 'learn'", [name])
        log_rows(database, stream)
        time.sleep(1.0)
        database.execute(f"alter database {name} reset default_transaction_read_only")
        until(lambda: versions(database, stream))


@pytest.mark.slow
def test_learners_that_start_together_do_the_work_once(
    address: str, database: psycopg.Connection, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full size: python benchmarks/service_learner.py --together 20."""
    for second in range(50):
        at_second(database, stream, START + second)
        log_rows(database, stream)
    entries = learned_by_one(database, stream)
    applied, real = [], StreamState.apply
    monkeypatch.setattr(StreamState, "apply", lambda self, block: applied.append(len(block)) or real(self, block))
    monkeypatch.setattr(module, "LIMIT", 300)
    monkeypatch.setattr(loop, "STAND_BY_SECONDS", 15.0)
    for _ in range(2):
        database.execute("delete from checkpoint")
        applied.clear()
        (before,) = database.execute("select fence from learner").fetchone()  # type: ignore[misc]
        with learning(address), learning(address):
            until(lambda: sum(applied) >= entries)
            assert database.execute("select fence from learner").fetchone() == (before + 1,)
        assert sum(applied) < 1.2 * entries
        until(lambda: not database.execute("select from pg_stat_activity where application_name = 'learn'").rowcount)


def learned_by_one(database: psycopg.Connection, stream: int) -> int:
    learner, learned_ = Learner(database, stream), 0
    while found := learner.step():
        learned_ += found
    return learned_


def test_a_learner_that_stands_still_loses_its_stream(address: str, database: psycopg.Connection, stream: int) -> None:
    log_rows(database, stream)
    database.execute("select pg_advisory_lock(%s, %s)", [LOCK, stream])  # as by a process that hangs
    stuck = Learner(database, stream)
    with learning(address) as other:
        until(lambda: other._learners)
        with pytest.raises(FenceLostError):
            check_fence(database, stream, stuck.fence)
        database.execute("select pg_advisory_unlock(%s, %s)", [LOCK, stream])
        until(lambda: other._locked)


def test_a_learner_that_is_at_work_keeps_its_stream(address: str, database: psycopg.Connection, stream: int) -> None:
    log_rows(database, stream)
    database.execute("select pg_advisory_lock(%s, %s)", [LOCK, stream])
    with learning(address) as other:
        for _ in range(25):  # longer than the time after which a stream is taken
            database.execute("update learner set beat = beat + 1")
            time.sleep(0.1)
        assert not other._learners
        database.execute("select pg_advisory_unlock(%s, %s)", [LOCK, stream])  # its process has ended
        until(lambda: other._learners)
