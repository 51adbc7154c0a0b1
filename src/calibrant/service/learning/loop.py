"""The learners of all streams in one process: they go on after a restart of the database, and stand by for others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from calibrant.messages import InputError
from calibrant.service.learning.learner import FenceLostError, Learner
from calibrant.service.store.log import Kind
from calibrant.service.store.migrate import AWAY, BUSY, LOCK, connect
from calibrant.service.store.retention import check_epoch, drop_days
from calibrant.service.store.streams import Stream, list_streams

LOG = logging.getLogger("calibrant.service")

DROP_SECONDS = 3_600.0
"""How often days of the log that nobody needs are dropped."""

LOOK_SECONDS = 2.0
"""How often new streams are looked for."""

STAND_BY_SECONDS = 15.0
"""A stream that another learner has is taken if entries wait and that one did nothing for this time."""

LOCK_SECONDS = 2.0
"""Longest wait for a lock, since the other streams wait as well."""

LONGEST_WAIT = 30.0
"""Longest wait before the database, or a stream that failed, is tried again."""

FIRST_WAIT = 0.5


@dataclass
class _Waiting:
    """A stream that is not learned here for now: another learner has it, or it failed."""

    until: float
    """It is not tried before."""
    wait: float = 0.0
    seen: Sequence[int] = ()
    """What the other learner had done at the time ``since``."""
    since: float = 0.0


class LearnerLoop:
    """Learns streams until it is stopped.

    Parameters
    ----------
    address
        A connection string of PostgreSQL.
    streams
        Names of the streams; by default all, also those that are made later.
    seconds
        How long to wait when nothing is new.
    """

    def __init__(self, address: str, streams: Sequence[str] | None = None, seconds: float = 0.5) -> None:
        self.address, self.names, self.seconds = address, streams, seconds
        self._learners: dict[str, Learner] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._locked: set[int] = set()
        self._looked = 0.0
        self._dropped = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Learn until the event is set; then states are stored, so that the next process begins at once."""
        wait = FIRST_WAIT
        while not stop.is_set():
            try:
                with connect(self.address, LOCK_SECONDS) as connection:
                    epoch = check_epoch(connection)
                    LOG.info("connected", extra={"fields": {"process": "learn", "epoch": epoch}})
                    while not stop.is_set():
                        if not self.round(connection):
                            stop.wait(self.seconds)
                        wait = FIRST_WAIT
                    self._store()
            except AWAY as problem:
                LOG.warning("database away", extra={"fields": {"again_in": wait, "kind": type(problem).__name__}})
                stop.wait(wait)
                wait = min(2.0 * wait, LONGEST_WAIT)
            finally:
                self._learners, self._waiting, self._locked, self._looked = {}, {}, set(), 0.0

    def round(self, connection: psycopg.Connection) -> int:
        """Learn what is new in each stream once, and return how many entries it was."""
        now = time.monotonic()
        if now - self._dropped >= DROP_SECONDS:
            self._dropped = now
            self._drop(connection)
        if now - self._looked >= LOOK_SECONDS or not self._looked:
            self._looked = now
            for stream in list_streams(connection, self.names):
                self._begin(connection, stream, now)
        return sum(self._step(connection, name, learner) for name, learner in list(self._learners.items()))

    def _drop(self, connection: psycopg.Connection) -> None:
        """Drop days that nobody needs; what goes wrong with it does not concern learning."""
        try:
            drop_days(connection)
        except Exception as problem:
            _check_database(connection, problem)
            LOG.error("days not dropped", extra={"fields": {"problem": type(problem).__name__}})

    def _begin(self, connection: psycopg.Connection, stream: Stream, now: float) -> None:
        """Take a stream, unless another learner has it, or it failed a moment ago."""
        waiting = self._waiting.get(stream.name)
        if waiting is not None and now < waiting.until:
            return
        try:
            if self._may_take(connection, stream, now) and stream.name not in self._learners:
                self._learners[stream.name] = Learner(connection, stream.number)
                LOG.info("learning", extra={"fields": {"stream": stream.name, "position": stream.learned}})
        except Exception as problem:
            self._fail(connection, stream.name, stream.number, problem)

    def _may_take(self, connection: psycopg.Connection, stream: Stream, now: float) -> bool:
        """Whether this process has the lock of a stream, or the one that has it stands still.

        Only one of those that begin together gets the lock, and PostgreSQL frees it when a process ends. It keeps
        learners out of each other's way; what is right is decided by the fence alone.
        """
        if stream.number in self._locked:
            return True
        text = "select pg_try_advisory_lock(%s, stream), position, beat, fence from learner where stream = %s"
        row = connection.execute(text, [LOCK, stream.number]).fetchone()
        assert row is not None  # each stream has one
        is_free, *seen = row
        if is_free:
            self._locked.add(stream.number)
            return True
        waiting = self._waiting.setdefault(stream.name, _Waiting(now))
        if waiting.seen != seen or not _waits(connection, stream):
            waiting.seen, waiting.since = seen, now
        return now - waiting.since >= STAND_BY_SECONDS

    def _step(self, connection: psycopg.Connection, name: str, learner: Learner) -> int:
        waiting = self._waiting.get(name)
        if waiting is not None and time.monotonic() < waiting.until:
            return 0
        try:
            learned = learner.step()
            if not learned:
                learner.tick()
        except Exception as problem:
            self._fail(connection, name, learner.stream, problem)
            return 0
        self._waiting.pop(name, None)
        return learned

    def _fail(self, connection: psycopg.Connection, name: str, number: int, problem: Exception) -> None:
        """Try a stream again later, whatever went wrong with it; the others go on."""
        _check_database(connection, problem)
        now = time.monotonic()
        if isinstance(problem, FenceLostError):
            LOG.warning("another learner has the stream", extra={"fields": {"stream": name}})
            self._waiting[name] = _Waiting(now + STAND_BY_SECONDS)
        else:
            before = self._waiting.get(name)
            wait = min(2.0 * before.wait, LONGEST_WAIT) if before is not None and before.wait else FIRST_WAIT
            self._waiting[name] = _Waiting(now + wait, wait)
            shown = str(problem) if isinstance(problem, InputError) else type(problem).__name__
            LOG.error("stream not learned", extra={"fields": {"stream": name, "problem": shown, "again_in": wait}})
            if isinstance(problem, BUSY):  # the learner goes on where it was
                return
        self._learners.pop(name, None)
        if number in self._locked:
            self._locked.remove(number)
            connection.execute("select pg_advisory_unlock(%s, %s)", [LOCK, number])

    def _store(self) -> None:
        for name, learner in self._learners.items():
            try:
                learner.checkpoint()
            except Exception as problem:
                LOG.warning("state not stored", extra={"fields": {"stream": name, "kind": type(problem).__name__}})


def _waits(connection: psycopg.Connection, stream: Stream) -> bool:
    """Whether an entry that is not a tick is not learned yet."""
    text = "select from log where stream = %s and position > %s and kind <> %s limit 1"
    return connection.execute(text, [stream.number, stream.learned, int(Kind.TICK)]).rowcount == 1


def _check_database(connection: psycopg.Connection, problem: Exception) -> None:
    """Raise what no stream is the cause of: the connection is lost, or nothing can be written."""
    if isinstance(problem, AWAY) and (connection.closed or not isinstance(problem, psycopg.OperationalError)):
        raise problem
