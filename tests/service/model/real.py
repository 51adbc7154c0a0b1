"""The same state machine on the real thing: functions of PostgreSQL and the class of the learner, with crashes."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar
from uuid import UUID

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.service.faults.written import entries_of
from tests.service.model.machine import Clients
from tests.service.model.memory import SETTINGS, START, Entry

from calibrant.service.learning import learner as module
from calibrant.service.learning.decisions import Promotion, Version
from calibrant.service.learning.learner import FenceLostError, Learner
from calibrant.service.learning.replay import replay
from calibrant.service.learning.state import StreamState
from calibrant.service.settings import first_entry
from calibrant.service.store.log import (
    SECOND,
    Answer,
    Kind,
    append_entry,
    append_outcomes,
    append_predictions,
)
from calibrant.service.store.migrate import SCHEMA

NUMBERS = count()


class Crash(Exception):
    """The process ends here."""


class Fragile(psycopg.Connection[Any]):
    """A connection whose process crashes before a given statement."""

    left: int | None = None

    def execute(self, *given: Any, **options: Any) -> Any:
        """Execute, or crash."""
        if self.left is not None:
            if self.left == 0:
                self.close()
                raise Crash
            self.left -= 1
        return super().execute(*given, **options)


class RealStore:
    """A stream in PostgreSQL, with a connection for each process.

    Its time is ahead of the clock of the machine, so that the machine decides how it moves.
    """

    bugs: ClassVar[frozenset[Any]] = frozenset()

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections: dict[str, Fragile] = {}
        self.reader = self.connect()
        row = self.reader.execute(
            "select create_stream(%s, %s)", [f"model{next(NUMBERS)}", first_entry(SETTINGS)]
        ).fetchone()
        self.stream = int(row[0])
        self.clock = START
        self.head_holder: str | None = None

    def connect(self) -> Fragile:
        """A new connection."""
        connection = Fragile.connect(self.address, autocommit=True)
        connection.execute(f"set search_path to {SCHEMA}")
        return connection  # type: ignore[return-value]

    def of(self, holder: str) -> Fragile:
        """The connection of a process."""
        if holder not in self.connections:
            self.connections[holder] = self.connect()
        return self.connections[holder]

    def _begin(self, holder: str) -> Fragile:
        connection = self.of(holder)
        connection.execute("begin")
        connection.execute("update head set time = greatest(time, %s) where stream = %s", [self.clock, self.stream])
        self.head_holder = holder
        return connection

    def append(self, holder: str, kind: Kind, id: int = 0, label: int | None = None) -> Entry:
        """Begin a transaction that appends one entry."""
        connection = self._begin(holder)
        if kind == Kind.OUTCOME:
            assert label is not None
            place = append_outcomes(connection, self.stream, [UUID(int=id)], [label], [None])
        else:
            place = append_entry(connection, self.stream, kind)
        return Entry(place, 0, kind)

    def predict(self, holder: str, id: int, score: float, version: int, probability: float) -> Answer:
        """Begin a transaction that logs a prediction, unless its id is known."""
        connection = self._begin(holder)
        given = ([UUID(int=id)], [score], [None], [None], [version], [probability])
        return append_predictions(connection, self.stream, *given)[0]

    def commit(self, holder: str) -> None:
        """End a transaction."""
        self.of(holder).execute("commit")
        self.head_holder = None

    def abort(self, holder: str) -> None:
        """The process is gone, and its transaction with it."""
        if holder in self.connections:
            self.connections.pop(holder).close()
            self.head_holder = None if self.head_holder == holder else self.head_holder

    def crash(self) -> None:
        """All connections are gone."""
        for holder in list(self.connections):
            self.abort(holder)

    def entries(self) -> list[Entry]:
        """What a reader sees."""
        return entries_of(self.reader, self.stream, "log")

    @property
    def time(self) -> int:
        """The time of the log."""
        return int(self._one("select time from head where stream = %s"))

    @property
    def position(self) -> int:
        """Up to where the log is learned."""
        return int(self._one("select position from learner where stream = %s"))

    @property
    def versions(self) -> dict[int, Version]:
        """Versions by number."""
        rows = self._all("select number, position, time, document from version where stream = %s order by number")
        return {row[0]: Version(*row) for row in rows}

    @property
    def promotions(self) -> dict[tuple[int, int], Promotion]:
        """Promotions by position and place."""
        rows = self._all("select position, place, version, cause from promotion where stream = %s")
        return {row[:2]: Promotion(*row) for row in rows}

    def served(self) -> int:
        """The version of the last promotion."""
        found = self.promotions
        return found[max(found)].version if found else 0

    def _one(self, text: str) -> Any:
        return self._all(text)[0][0]

    def _all(self, text: str) -> list[Any]:
        return self.reader.execute(text, [self.stream]).fetchall()


class RealProtocol(Clients):
    """Clients and servers as before; learners are real ones, which crash before any of their statements."""

    address: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.learners: list[Learner | None] = [None, None]
        self.newest = 0

    def make_store(self) -> RealStore:
        return RealStore(self.address)

    @rule(
        learner=st.integers(0, 1), limit=st.integers(2, 30), crash=st.none() | st.integers(0, 14), stores=st.booleans()
    )
    def learn(self, learner: int, limit: int, crash: int | None, stores: bool) -> None:
        name = f"learner {learner + 1}"
        connection = self.store.of(name)
        connection.left, usual = crash, module.LIMIT
        module.LIMIT = limit
        try:
            found = self.learners[learner]
            if found is None:
                self.newest = learner
                found = self.learners[learner] = Learner(connection, self.store.stream)
            learned = found.step()
            assert not learned or self.newest == learner, "a learner without the fence has committed"
            if stores:
                found.checkpoint()
        except (Crash, FenceLostError):
            self.learners[learner] = None
            self.store.abort(name)
        else:
            connection.left = None
        finally:
            module.LIMIT = usual

    def kill(self, which: str) -> None:
        super().kill(which)
        for k in range(2):
            if which in (f"learner {k + 1}", "database"):
                self.learners[k] = None

    @precondition(lambda self: self.store.head_holder is None)
    @rule()
    def second_passes(self) -> None:
        """A tick that ends the block, so that there is more to learn."""
        self.store.clock = max(self.store.clock, self.store.time) + SECOND
        self.store.append("tick", Kind.TICK)
        self.store.commit("tick")

    def learn_all(self) -> StreamState:
        last = Learner(self.store.of("last"), self.store.stream)
        while last.step():
            pass
        last.checkpoint()
        assert last.state is not None
        again = replay(self.store.reader, self.store.stream, checkpoints=False)
        assert not again.different, "a replay gives other versions"
        assert not again.different_states, "a replay gives other states"
        assert not again.different_promotions, "a replay gives other promotions"
        return last.state

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.store.crash()
            self.store.reader.close()
