"""The protocol as a state machine: clients that repeat, servers and learners that crash, a clock that jumps.

Each rule is one step of one process, so that a crash or a step of another process may come between any two. A request
can be delivered any number of times, in any order and to any server: these are repeated requests, lost ones and late
ones. What is checked after each step is under "what must hold"; the rest is checked at the end of each run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.service.model.memory import (
    SETTINGS,
    Bug,
    Entry,
    FenceLost,
    MemoryStore,
    as_arrays,
    computed_again,
    learned_rows,
)

from calibrant import Calibration
from calibrant.service.learning.state import StreamState, begin, whole_blocks
from calibrant.service.store.log import SECOND, Answer, Kind

IDS = st.integers(1, 5)
SCORES = st.sampled_from([0.1, 0.4, 0.8])
JUMPS = st.sampled_from([0.3, 0.9, 2.0, 5.0, 5.0, 3_600.0, -20.0, -1.0])
"""Seconds by which the clock of the database moves between two steps."""


@lru_cache(maxsize=500)
def answer_of(document: str | None, score: float) -> float:
    """The probability that a version gives; without a version it is the score."""
    return score if document is None else float(Calibration.from_json(document).scorer()(score))


@dataclass(frozen=True)
class Request:
    """What a client sends: a prediction with a score, or an outcome with a label."""

    id: int
    score: float | None = None
    label: int | None = None


@dataclass
class Server:
    """A serving process: it answers one request at a time, with the version that it knows."""

    name: str
    version: int = 0
    request: Request | None = None
    answer: Any = None
    committed: bool = False

    def forget(self) -> None:
        """The request is over, with or without an answer."""
        self.request, self.answer, self.committed = None, None, False


@dataclass
class Learning:
    """A learner process, if it runs."""

    name: str
    fence: int = 0
    state: StreamState | None = None
    read: Any = None
    writes: bool = False

    @property
    def position(self) -> int:
        """Up to where it has applied the log."""
        return self.state.position if self.state else 0

    def stop(self) -> None:
        """Nothing in memory is left."""
        self.fence, self.state, self.read, self.writes = 0, None, None, False


class Clients(RuleBasedStateMachine):
    """Clients, servers, the clock and the database; the learners are added by the classes below."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make_store()
        self.servers = [Server("server 1"), Server("server 2")]
        self.delivered: Counter[Request] = Counter()
        self.answers: dict[int, tuple[float, int]] = {}
        self.judged: dict[bool, set[tuple[int, float]]] = {False: set(), True: set()}
        self.acknowledged: dict[int, Request] = {}
        self.seen: list[Entry] = []
        self.seen_versions: dict[int, Any] = {}

    def make_store(self) -> Any:
        """The database."""
        return MemoryStore()

    @initialize(rows=st.integers(0, 3))
    def begin_with_rows(self, rows: int) -> None:
        """Rows that are due from the beginning, so that a learner soon publishes a version."""
        for k in range(rows):
            self.serve(11 + k, 0.2 + 0.2 * k, k % 2)
        self.tick(5.0)
        self.serve(14, 0.5, 0)  # the feed shows life
        self.tick(2.0)
        self.tick(2.0)

    # ------------------------------------------------------------------------------------------------------- requests

    @rule(target=requests, id=IDS, score=SCORES)
    def ask(self, id: int, score: float) -> Request:
        return Request(id, score=score)

    @rule(target=requests, id=IDS, label=st.integers(0, 1))
    def tell(self, id: int, label: int) -> Request:
        return Request(id, label=label)

    def idle(self) -> list[Server]:
        return [each for each in self.servers if each.request is None]

    def with_transaction(self) -> list[Server]:
        return [each for each in self.servers if each.request and not each.committed]

    def to_answer(self) -> list[Server]:
        return [each for each in self.servers if each.committed]

    @precondition(lambda self: self.idle() and self.store.head_holder is None)
    @rule(data=st.data(), request=requests)
    def receive(self, data: st.DataObject, request: Request) -> None:
        self.begin(data.draw(st.sampled_from(self.idle())), request)

    def begin(self, server: Server, request: Request) -> None:
        """A server takes a request, and begins its transaction."""
        server.request = request
        self.delivered[request] += 1
        if request.score is not None:
            document = self.seen_versions[server.version].document if server.version else None
            probability = answer_of(document, request.score)
            server.answer = self.store.predict(server.name, request.id, request.score, server.version, probability)
        else:
            server.answer = self.store.append(server.name, Kind.OUTCOME, id=request.id, label=request.label).position
        if Bug.EARLY_ANSWER in self.store.bugs:
            self.acknowledge(server)

    @precondition(lambda self: self.idle() and self.store.head_holder is None)
    @rule(id=IDS, score=SCORES, label=st.integers(0, 1))
    def serve(self, id: int, score: float, label: int) -> None:
        """All steps of a prediction and of its outcome without a fault, so that longer histories are reached."""
        server = self.idle()[0]
        for request in (Request(id, score=score), Request(id, label=label)):
            self.begin(server, request)
            self.store.commit(server.name)
            self.acknowledge(server)
            server.forget()

    @precondition(lambda self: self.with_transaction())
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        server = data.draw(st.sampled_from(self.with_transaction()))
        self.store.commit(server.name)
        server.committed = True

    @precondition(lambda self: self.with_transaction())
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """The transaction fails, and the client gets an error."""
        server = data.draw(st.sampled_from(self.with_transaction()))
        self.store.abort(server.name)
        server.forget()

    @precondition(lambda self: self.to_answer())
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        server = data.draw(st.sampled_from(self.to_answer()))
        self.acknowledge(server)
        server.forget()

    def acknowledge(self, server: Server) -> None:
        """The client has its answer: from now on it relies on it."""
        request = server.request
        assert request is not None
        if request.label is not None:
            self.acknowledged[server.answer] = request
            return
        found: Answer = server.answer
        same = self.answers.setdefault(request.id, (found.probability, found.version))
        assert same == (found.probability, found.version), "one id, two answers"
        assert request.score is not None
        self.judged[found.found == 2].add((request.id, request.score))

    @rule(server=st.integers(0, 1))
    def refresh(self, server: int) -> None:
        """A server reads which version is served."""
        self.servers[server].version = self.store.served()

    # --------------------------------------------------------------------------------------------------------- faults

    @rule(which=st.sampled_from(["server 1", "server 2", "learner 1", "learner 2", "database"]))
    def kill(self, which: str) -> None:
        """At whatever step it is. The version that a server knows is kept on its disk."""
        if which == "database":
            self.store.crash()
        self.store.abort(which)
        for each in self.servers:
            if each.name == which or (which == "database" and not each.committed):
                each.forget()

    @rule(seconds=JUMPS)
    def move_clock(self, seconds: float) -> None:
        self.store.clock += int(seconds * SECOND)

    @precondition(lambda self: self.store.head_holder is None)
    @rule(seconds=JUMPS)
    def tick(self, seconds: float) -> None:
        """The clock moves, and the log hears of it."""
        self.move_clock(seconds)
        self.store.append("tick", Kind.TICK)
        self.store.commit("tick")

    # ------------------------------------------------------------------------------------------------- what must hold

    @invariant()
    def every_promise_is_kept(self) -> None:
        self.the_log_only_grows()
        self.an_id_is_logged_once()
        self.no_acknowledged_outcome_is_lost_and_none_invented()
        self.what_is_committed_follows_from_the_log()

    def the_log_only_grows(self) -> None:
        entries = self.store.entries()
        assert [each.position for each in entries] == list(range(1, len(entries) + 1)), "a gap in the log"
        assert entries[: len(self.seen)] == self.seen, "an entry was changed"
        assert all(a.time <= b.time for a, b in pairwise(entries)), "time went back"
        self.seen = entries

    def an_id_is_logged_once(self) -> None:
        ids = [each.id for each in self.seen if each.kind == Kind.PREDICTION]
        assert len(ids) == len(set(ids)), "an id was logged twice"
        for each in self.seen:
            if each.kind == Kind.PREDICTION and each.id in self.answers:
                assert self.answers[each.id] == (each.probability, each.version), "another answer was logged"
                assert (each.id, each.score) not in self.judged[True], "a repetition was called a conflict"
                scores = {score for id, score in self.judged[False] if id == each.id}
                assert scores <= {each.score}, "a conflict was called a repetition"
        assert set(self.answers) <= set(ids), "an acknowledged prediction is lost"

    def no_acknowledged_outcome_is_lost_and_none_invented(self) -> None:
        for position, request in self.acknowledged.items():
            assert position <= len(self.seen), "an acknowledged outcome is lost"
            entry = self.seen[position - 1]
            assert (entry.kind, entry.id, entry.label) == (Kind.OUTCOME, request.id, request.label)
        logged = Counter(Request(each.id, label=each.label) for each in self.seen if each.kind == Kind.OUTCOME)
        assert all(n <= self.delivered[request] for request, n in logged.items()), "an outcome was invented"

    def what_is_committed_follows_from_the_log(self) -> None:
        position = self.store.position
        if getattr(self, "audited", None) == (position, len(self.store.versions)):
            return
        decided = computed_again(self.seen, position).decided
        versions = {each.number: each for found in decided for each in found.versions}
        assert self.store.versions == versions, "versions are not those that follow from the log"
        promotions = [each for found in decided for each in found.promotions]
        assert [self.store.promotions[key] for key in sorted(self.store.promotions)] == promotions
        assert all(versions[number] == each for number, each in self.seen_versions.items()), "a version was changed"
        self.seen_versions = versions
        self.audited = (position, len(versions))

    # ------------------------------------------------------------------------------------------------------ in the end

    def learn_all(self) -> StreamState:
        """Let a new learner learn all that is due."""
        raise NotImplementedError

    def pass_time(self, seconds: float) -> None:
        """The clock moves on, at least from the time of the log, and a tick says so."""
        self.store.clock = max(self.store.clock, self.store.time) + int(seconds * SECOND)
        self.store.append("tick", Kind.TICK)
        self.store.commit("tick")

    def teardown(self) -> None:
        self.store.crash()
        self.pass_time(2 * SETTINGS.horizon)
        self.delivered[Request(99, label=1)] += 1
        self.store.append("life", Kind.OUTCOME, id=99, label=1)
        self.store.commit("life")
        self.pass_time(2.0)
        self.pass_time(2.0)
        state = self.learn_all()
        self.every_promise_is_kept()
        again = computed_again(self.seen, state.position)
        assert state.to_bytes() == again.state.to_bytes(), "the state depends on how the log was read"
        assert again.rows == learned_rows(self.seen), "what was learned is not what was logged"
        ids = [id for id, _, _ in again.rows]
        assert len(set(ids)) == len(ids), "a row was learned twice"
        predicted = [each.id for each in self.seen if each.kind == Kind.PREDICTION]
        assert sorted(ids) == sorted(predicted), "a row was not learned"
        counts = state.ledger.counts
        assert counts.outcomes == sum(each.kind == Kind.OUTCOME for each in self.seen), "an outcome is not counted once"
        assert counts.predictions == len(predicted)


class Protocol(Clients):
    """The whole protocol in memory: each step of a learner is a rule as well."""

    bugs: ClassVar[tuple[Bug, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.learners = [Learning("learner 1"), Learning("learner 2")]
        self.documents: dict[int, str] = {}

    def make_store(self) -> MemoryStore:
        return MemoryStore(self.bugs)

    def running(self) -> list[Learning]:
        return [each for each in self.learners if each.fence and not each.writes]

    def writing(self) -> list[Learning]:
        return [each for each in self.learners if each.writes]

    @precondition(lambda self: self.store.learner_holder is None)
    @rule(learner=st.integers(0, 1))
    def start_learner(self, learner: int) -> None:
        """A new process, whether the other one lives or not."""
        each = self.learners[learner]
        each.stop()
        each.fence, each.state = self.store.raise_fence(), self.newest_state()

    def newest_state(self) -> StreamState | None:
        """The newest stored state, with what it needs to find versions."""
        state = self.store.newest_state()
        if state is not None:
            state.find = self.documents.__getitem__
        return state

    @precondition(lambda self: self.running())
    @rule(data=st.data(), limit=st.integers(2, 30))
    def read_log(self, data: st.DataObject, limit: int) -> None:
        self.read_part(data.draw(st.sampled_from(self.running())), limit)

    def read_part(self, each: Learning, limit: int) -> None:
        """Some entries after those that were applied; if they are of one second, all that are there."""
        rest = [entry for entry in self.store.entries() if entry.position > each.position]
        part = rest[:limit]
        one_second = bool(part) and part[0].time // SECOND == part[-1].time // SECOND
        each.read = as_arrays(rest if one_second else part)

    @precondition(lambda self: self.running() and self.store.learner_holder is None)
    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        self.apply_part(data.draw(st.sampled_from(self.running())))

    def apply_part(self, each: Learning) -> None:
        """Apply what was read, and begin the transaction."""
        if each.read is None or not len(each.read):
            return
        if each.state is None:
            each.state = begin(each.read)
            each.state.find = self.documents.__getitem__
        decided = []
        for block in whole_blocks(each.read, more=Bug.PART_OF_A_BLOCK in self.store.bugs):
            decided.append(each.state.apply(block))
            self.documents |= {version.number: version.document for version in decided[-1].versions}
        each.read = None
        try:
            self.store.learn(each.name, each.fence, decided, each.position)
        except FenceLost:
            each.stop()
        else:
            each.writes = True

    @precondition(lambda self: self.store.learner_holder is None)
    @rule(learner=st.integers(0, 1), limit=st.integers(2, 30), dies=st.sampled_from([False, False, True]))
    def learn(self, learner: int, limit: int, dies: bool) -> None:
        """All steps of a learner, or all up to its commit."""
        each = self.learners[learner]
        if not each.fence:
            self.start_learner(learner)
        self.read_part(each, limit)
        self.apply_part(each)
        if dies:
            self.kill(each.name)
        elif each.writes:
            self.store.commit(each.name)
            each.writes = False

    @precondition(lambda self: self.writing())
    @rule(data=st.data())
    def commit_learned(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.writing()))
        self.store.commit(each.name)
        each.writes = False

    @precondition(lambda self: self.running() and self.store.learner_holder is None)
    @rule(data=st.data())
    def store_checkpoint(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.running()))
        if each.fence == self.store.fence and each.state and each.position <= self.store.position:
            self.store.checkpoints[each.position] = each.state.to_bytes()

    def kill(self, which: str) -> None:
        super().kill(which)
        for each in self.learners:
            if which in (each.name, "database"):
                each.stop()

    @invariant()
    def only_the_newest_learner_commits(self) -> None:
        assert self.store.intruders == 0, "a learner without the fence has committed"

    def learn_all(self) -> StreamState:
        last = Learning("last", self.store.raise_fence(), self.newest_state())
        before = -1
        while before != last.position:
            before = last.position
            self.read_part(last, 3)
            self.apply_part(last)
            if last.writes:
                self.store.commit(last.name)
                last.writes = False
        assert last.state is not None
        return last.state
