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

from calibrant.service.learning import loop
from calibrant.service.learning.loop import LearnerLoop
from calibrant.service.settings import Settings
from calibrant.service.store.log import append_outcomes, append_predictions
from calibrant.service.store.migrate import connect
from calibrant.service.store.streams import create_stream

PATIENCE = 180.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(loop, "STAND_BY_SECONDS", 1.0)
    monkeypatch.setattr(loop, "FIRST_WAIT", 0.1)


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
        other = create_stream(database, None, "other", Settings(horizon=1.0, publish_rows=10, publish_seconds=1.0))
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
    other = create_stream(database, None, "other", Settings(horizon=1.0, publish_rows=10, publish_seconds=1.0))
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
