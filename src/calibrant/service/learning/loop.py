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
from calibrant.service.store.migrate import connect
from calibrant.service.store.retention import check_epoch, drop_days
from calibrant.service.store.streams import Stream, list_streams

LOG = logging.getLogger("calibrant.service")

DROP_SECONDS = 3_600.0
"""How often days of the log that nobody needs are dropped."""

LOOK_SECONDS = 2.0
"""How often new streams are looked for."""

STAND_BY_SECONDS = 15.0
"""A stream that another learner took is taken back if entries wait and none was learned for this time."""

LONGEST_WAIT = 30.0
"""Longest wait before the database, or a stream that failed, is tried again."""

FIRST_WAIT = 0.5


@dataclass
class _Waiting:
    """A stream that is not learned here for now."""

    learned: int
    since: float
    until: float
    wait: float
    failed: bool


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
        self._looked = 0.0
        self._dropped = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Learn until the event is set; then states are stored, so that the next process begins at once."""
        wait = FIRST_WAIT
        while not stop.is_set():
            try:
                with connect(self.address) as connection:
                    epoch = check_epoch(connection)
                    LOG.info("connected", extra={"fields": {"process": "learn", "epoch": epoch}})
                    while not stop.is_set():
                        if not self.round(connection):
                            stop.wait(self.seconds)
                        wait = FIRST_WAIT
                    self._store()
            except psycopg.OperationalError as problem:
                LOG.warning("database away", extra={"fields": {"again_in": wait, "kind": type(problem).__name__}})
                stop.wait(wait)
                wait = min(2.0 * wait, LONGEST_WAIT)
            finally:
                self._learners, self._waiting, self._looked = {}, {}, 0.0

    def round(self, connection: psycopg.Connection) -> int:
        """Learn what is new in each stream once, and return how many entries it was."""
        now = time.monotonic()
        if now - self._dropped >= DROP_SECONDS:
            self._dropped = now
            drop_days(connection)
        if now - self._looked >= LOOK_SECONDS or not self._looked:
            self._looked = now
            for stream in list_streams(connection, self.names):
                self._begin(connection, stream, now)
        return sum(self._step(name, learner) for name, learner in list(self._learners.items()))

    def _begin(self, connection: psycopg.Connection, stream: Stream, now: float) -> None:
        """Take a stream, unless it is taken, or waits."""
        if stream.name in self._learners:
            return
        waiting = self._waiting.get(stream.name)
        if waiting is not None and waiting.failed and now < waiting.until:
            return
        if waiting is not None and not waiting.failed:
            if stream.learned != waiting.learned or not _waits(connection, stream):
                waiting.learned, waiting.since = stream.learned, now
            if now - waiting.since < STAND_BY_SECONDS:
                return
        try:
            self._learners[stream.name] = Learner(connection, stream.number)
        except psycopg.Error:
            raise
        except Exception as problem:
            self._fail(stream.name, problem)
        else:
            LOG.info("learning", extra={"fields": {"stream": stream.name, "position": stream.learned}})

    def _step(self, name: str, learner: Learner) -> int:
        try:
            learned = learner.step()
            if not learned:
                learner.tick()
        except FenceLostError:
            LOG.warning("another learner has the stream", extra={"fields": {"stream": name}})
            now = time.monotonic()
            self._waiting[name] = _Waiting(learner.committed, now, now, FIRST_WAIT, failed=False)
            del self._learners[name]
            return 0
        except psycopg.Error:
            raise
        except Exception as problem:
            del self._learners[name]
            self._fail(name, problem)
            return 0
        self._waiting.pop(name, None)
        return learned

    def _fail(self, name: str, problem: Exception) -> None:
        """Try a stream again later, whatever went wrong; the others go on."""
        before = self._waiting.get(name)
        wait = min(2.0 * before.wait, LONGEST_WAIT) if before is not None and before.failed else FIRST_WAIT
        now = time.monotonic()
        self._waiting[name] = _Waiting(0, now, now + wait, wait, failed=True)
        shown = str(problem) if isinstance(problem, InputError) else type(problem).__name__
        LOG.error("stream not learned", extra={"fields": {"stream": name, "problem": shown, "again_in": wait}})

    def _store(self) -> None:
        for name, learner in self._learners.items():
            try:
                learner.checkpoint()
            except FenceLostError:
                LOG.warning("another learner has the stream", extra={"fields": {"stream": name}})


def _waits(connection: psycopg.Connection, stream: Stream) -> bool:
    """Whether an entry that is not a tick is not learned yet."""
    row = connection.execute(
        "select exists (select from log where stream = %s and position > %s and kind <> %s)",
        [stream.number, stream.learned, int(Kind.TICK)],
    ).fetchone()
    return row is not None and bool(row[0])
