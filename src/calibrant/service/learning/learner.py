"""The learner of one stream: it reads whole blocks, and commits what follows from them under a fence."""

from __future__ import annotations

import hashlib
import platform
import time
from dataclasses import astuple
from importlib.metadata import version as version_of
from typing import Any
from uuid import UUID

import psycopg

from calibrant.messages import InputError
from calibrant.service.learning.decisions import Promotion
from calibrant.service.learning.figures import date_of
from calibrant.service.learning.report import report, text_of
from calibrant.service.learning.state import Decided, StreamState, begin, whole_blocks
from calibrant.service.store.log import SECOND, Entries, Kind, append_entry, read
from calibrant.service.store.retention import erase_entries

LIMIT = 50_000
"""Entries that are read at once."""

CHECKPOINT_ENTRIES = 500_000
"""A state is stored after this number of entries, and when a learner stops."""

BEAT_SECONDS = 1.0
"""How often a learner that is at work says so, and looks for another one that has taken the stream."""


class FenceLostError(InputError):
    """Another learner has taken the stream: what this one computed is not committed."""


def build() -> str:
    """What must be the same for a replay to give the same bits."""
    packages = ", ".join(f"{name} {version_of(name)}" for name in ("calibrant", "numpy"))
    return f"{packages}, Python {platform.python_version()}, {platform.machine()}"


class Learner:
    """Learns one stream; safe beside others by its fence, a number that each new learner raises.

    Parameters
    ----------
    connection
        A connection of its own, in autocommit mode.
    stream
        Number of the stream.
    """

    def __init__(self, connection: psycopg.Connection, stream: int) -> None:
        self.connection, self.stream = connection, stream
        row = connection.execute(
            "update learner set fence = fence + 1 where stream = %s returning fence, position", [stream]
        ).fetchone()
        if row is None:
            raise InputError("stream", f"{stream} does not exist", "create it first")
        self.fence, self.committed = row
        self._beat = time.monotonic()
        self._new: dict[int, str] = {}
        self._decided: list[Decided] = []
        self.state: StreamState | None = self._with_find(load_state(connection, stream))
        self.stored, self._stored_day = (self.state.position if self.state else 0), self._day

    @property
    def _position(self) -> int:
        return self.state.position if self.state else 0

    @property
    def _day(self) -> int:
        """The day of the state: a state of each day is stored, so that days before it can be dropped."""
        return self.state.time // (86_400 * SECOND) if self.state else 0

    def step(self) -> int:
        """Learn whole blocks that are there, and return how many entries they had.

        Blocks that were committed before are applied again, and compared. Each step of that way stores a state, so that
        a learner which is stopped there does not begin again.
        """
        before, behind = self._position, self._position < self.committed
        self._learn(read_from(self.connection, self.stream, self.state), up_to=self.committed if behind else None)
        if behind and self._position == before:
            raise InputError("log", f"ends before position {self.committed}, up to which it was learned")
        if behind or self._position - self.stored >= CHECKPOINT_ENTRIES or self._day != self._stored_day:
            self.checkpoint()
        return self._position - before

    def tick(self) -> bool:
        """Log what time it is, if entries wait for the end of their block or rows may be due."""
        row = self.connection.execute(
            "select floor(extract(epoch from clock_timestamp())) > time / 1000000, exists (select from log "
            "where log.stream = head.stream and day >= day_of(%s) and log.position > %s and kind <> %s) "
            "from head where stream = %s",
            [self.state.time if self.state else 0, self._position, int(Kind.TICK), self.stream],
        ).fetchone()
        assert row is not None  # the stream exists
        later, waits = row
        if not later or not (waits or (self.state is not None and self.state.waits)):
            return False
        append_entry(self.connection, self.stream, Kind.TICK)
        return True

    def checkpoint(self) -> None:
        """Store the state, if there is a new one that is committed."""
        if self.state is None or self._decided or self.state.position == self.stored:
            return
        store_state(self.connection, self.stream, self.fence, self.state)
        self.stored, self._stored_day = self.state.position, self._day

    def _learn(self, entries: Entries, up_to: int | None) -> None:
        """Apply whole blocks and commit, also what could not be committed before."""
        if self.state is None and len(entries):
            self.state = self._with_find(begin(entries))
        for block in whole_blocks(entries, more=False):
            if up_to is not None and block.position[-1] > up_to:
                break
            assert self.state is not None
            self._decided.append(self.state.apply(block))
            self._new |= {version.number: version.document for version in self._decided[-1].versions}
            self._say_alive()
        if self._decided:
            self._commit(self._decided)
            self._new.clear()
            self._decided = []

    def _say_alive(self) -> None:
        """Show others that this learner is at work, unless one of them has raised the fence."""
        if time.monotonic() - self._beat >= BEAT_SECONDS:
            text = "update learner set beat = beat + 1 where stream = %s and fence = %s"
            if not self.connection.execute(text, [self.stream, self.fence]).rowcount:
                raise _lost(self.fence)
            self._beat = time.monotonic()

    def _with_find(self, state: StreamState | None) -> StreamState | None:
        if state is not None:
            state.find = self._document
        return state

    def _document(self, number: int) -> str:
        """The document of a version, of those that are not committed yet or of the table."""
        return self._new[number] if number in self._new else document_of(self.connection, self.stream, number)

    def _commit(self, decided: list[Decided]) -> None:
        versions = [each for found in decided for each in found.versions]
        promotions = [each for found in decided for each in found.promotions]
        with self.connection.transaction():
            check_fence(self.connection, self.stream, self.fence)
            for version in versions:
                values = [self.stream, version.number, version.position, version.time, version.document]
                if not _insert(self.connection, "version", "(stream, number)", values):
                    self._compare(version.number, version.document)
            for promotion in promotions:
                row = [self.stream, promotion.position, promotion.place, promotion.version, promotion.cause]
                if not _insert(self.connection, "promotion", "(stream, position, place)", row):
                    self._compare_promotion(promotion)
            for tried in [each for found in decided for each in found.tried]:
                _insert(self.connection, "canary", "(stream, position)", [self.stream, *astuple(tried)])
            for found in decided:
                self._name_keys(found.keys)
            self._erase([each for found in decided for each in found.erased])
            if self._position > self.committed:
                self._tell({day: each for found in decided for day, each in found.days.items()})
            self.connection.execute(
                "update learner set position = greatest(position, %s) where stream = %s", [self._position, self.stream]
            )
        self.committed = max(self.committed, self._position)

    def _tell(self, days: dict[int, dict[str, Any]]) -> None:
        """Write the figures of now, of the current day and of days that ended."""
        state = self.state
        assert state is not None  # there is a position
        if state.figures.day >= 0:
            days |= {state.figures.day: state.today()}
        for day, document in days.items():
            self.connection.execute(
                "insert into daily values (%s, %s, %s) on conflict (stream, day) "
                "do update set document = excluded.document",
                [self.stream, date_of(day), text_of(document)],
            )
        names: dict[int, str] = dict(
            self.connection.execute("select number, name from key_name where stream = %s", [self.stream]).fetchall()
        )
        self.connection.execute(
            "insert into report values (%s, %s, %s, %s) on conflict (stream) do update "
            "set position = excluded.position, time = excluded.time, document = excluded.document",
            [self.stream, state.position, state.time, text_of(report(state, names))],
        )

    def _erase(self, erased: list[tuple[int, UUID, UUID]]) -> None:
        """Remove ids from the log, and all states that were stored before; the state of now is stored."""
        if not erased:
            return
        assert self.state is not None  # there is a position
        for position, old, new in erased:
            erase_entries(self.connection, self.stream, self.fence, position, old, new)
        self.connection.execute("delete from checkpoint where stream = %s", [self.stream])
        store_state(self.connection, self.stream, self.fence, self.state)
        self.stored = self.state.position

    def _name_keys(self, keys: dict[int, int]) -> None:
        """Keep the text of keys, each read from an entry that has it."""
        if keys:
            self.connection.execute(
                "insert into key_name select stream, key_number(key), key from log where stream = %s and "
                "position = any(%s) and key is not null on conflict (stream, number) do nothing",
                [self.stream, list(keys.values())],
            )

    def _compare_promotion(self, promotion: Promotion) -> None:
        place = (promotion.position, promotion.place)
        if promotions_of(self.connection, self.stream)[place] != promotion:
            problem = f"at position {promotion.position} comes out otherwise than before"
            raise InputError("promotion", problem, "replay with the build that decided it")

    def _compare(self, number: int, document: str) -> None:
        if document_of(self.connection, self.stream, number) != document:
            raise InputError(
                "version", f"{number} comes out otherwise than before", "replay with the build that published it"
            )


def promotions_of(connection: psycopg.Connection, stream: int) -> dict[tuple[int, int], Promotion]:
    """The promotions of a stream by position and place."""
    rows = connection.execute(
        "select position, place, version, cause from promotion where stream = %s", [stream]
    ).fetchall()
    return {(row[0], row[1]): Promotion(*row) for row in rows}


def document_of(connection: psycopg.Connection, stream: int, number: int) -> str:
    """The document of a version."""
    row = connection.execute(
        "select document from version where stream = %s and number = %s", [stream, number]
    ).fetchone()
    if row is None:
        raise InputError("version", f"{number} does not exist", "see the table version")
    return str(row[0])


def check_fence(connection: psycopg.Connection, stream: int, fence: int) -> None:
    """Lock the learner's row, and refuse if another one has raised the fence."""
    row = connection.execute("select fence from learner where stream = %s for update", [stream]).fetchone()
    if row is None or row[0] != fence:
        raise _lost(fence)


def _lost(fence: int) -> FenceLostError:
    return FenceLostError("fence", f"{fence} is not the newest of this stream", "stop: another learner has it")


def store_state(connection: psycopg.Connection, stream: int, fence: int, state: StreamState) -> None:
    """Store a state whose position is committed."""
    raw = state.to_bytes()
    with connection.transaction():
        check_fence(connection, stream, fence)
        values = [stream, state.position, build(), raw, hashlib.blake2b(raw, digest_size=16).digest()]
        _insert(connection, "checkpoint", "(stream, position)", values)


def load_state(connection: psycopg.Connection, stream: int, before: int | None = None) -> StreamState | None:
    """The newest stored state, at most at a position; None if there is none."""
    row = connection.execute(
        "select state, digest from checkpoint where stream = %s and position <= coalesce(%s, position) "
        "order by position desc limit 1",
        [stream, before],
    ).fetchone()
    if row is None:
        return None
    raw, digest = bytes(row[0]), bytes(row[1])
    if hashlib.blake2b(raw, digest_size=16).digest() != digest:
        raise InputError("checkpoint", "is damaged", "restore the database, or remove this row to learn again")
    return StreamState.from_bytes(raw)


def read_from(connection: psycopg.Connection, stream: int, state: StreamState | None) -> Entries:
    """Entries after a state; if they are of one second, all of that second."""
    after, since, limit = (state.position, state.time, LIMIT) if state else (0, 0, LIMIT)
    while True:
        entries = read(connection, stream, after, since, limit)
        if len(entries) < limit or entries.time[0] // SECOND != entries.time[-1] // SECOND:
            return entries
        limit *= 2


def _insert(connection: psycopg.Connection, table: str, key: str, values: list[object]) -> bool:
    """Insert a row unless it is there, and return whether it is new."""
    places = ", ".join(["%s"] * len(values))
    text = f"insert into {table} values ({places}) on conflict {key} do nothing"
    return connection.execute(text, values).rowcount == 1
