"""A database in memory with the rules of the protocol: transactions, two locks and a fence, and bugs to plant."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np

from calibrant.live import read_ids
from calibrant.live.records import Released
from calibrant.service.learning.decisions import Promotion, Version
from calibrant.service.learning.state import Decided, StreamState, begin, whole_blocks
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.log import FIELDS, SECOND, Answer, Entries, Kind

START = 2_000_000_000 * SECOND
"""Time of the first entry, in microseconds."""

SETTINGS = Settings(horizon=4.0, silence="negative", publish_rows=2, publish_seconds=3.0)


class Bug(Enum):
    """What a careless service might do. The state machine must find each of them."""

    NO_FENCE = "a learner commits without a look at the fence"
    NO_LOCK = "positions are drawn without a lock that lasts until the commit"
    EARLY_ANSWER = "a request is answered before the commit"
    TWO_TRANSACTIONS = "a learner commits its position before its versions"
    PART_OF_A_BLOCK = "a learner applies a second that is not over"
    KEPT_CLOCK = "the time of an entry is the clock of the database, which may go back"


@dataclass(frozen=True)
class Entry:
    """One entry of a log."""

    position: int
    time: int
    kind: Kind
    id: int = 0
    score: float = 0.0
    version: int = 0
    probability: float = 0.0
    label: int = -1
    document: str | None = None
    key: int = 0
    predicted: int = 0


@dataclass
class Transaction:
    """What a transaction has written."""

    entries: list[Entry] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    position: int = 0
    fence: int = 0


class FenceLost(Exception):
    """Another learner has raised the fence."""


class MemoryStore:
    """One stream: only what was committed is left after a crash."""

    def __init__(self, bugs: Iterable[Bug] = ()) -> None:
        self.bugs = frozenset(bugs)
        self.clock = START
        self.log: dict[int, Entry] = {}
        self.drawn, self.time = 0, 0
        self.fence, self.position = 0, 0
        self.versions: dict[int, Version] = {}
        self.promotions: dict[tuple[int, int], Promotion] = {}
        self.checkpoints: dict[int, bytes] = {}
        self.open: dict[str, Transaction] = {}
        self.head_holder: str | None = None
        self.learner_holder: str | None = None
        self.intruders = 0
        self.append("settings", Kind.ACTION, document=first_entry(SETTINGS))
        self.commit("settings")

    # ------------------------------------------------------------------------------------------------------------ log

    def append(self, holder: str, kind: Kind, **content: object) -> Entry:
        """Begin a transaction that appends one entry; the head is locked until it ends."""
        if Bug.NO_LOCK not in self.bugs:
            assert self.head_holder is None, "the machine must not call while another transaction holds the lock"
            self.head_holder = holder
            self.drawn = max(self.log, default=0)
        self.drawn += 1
        time = self.clock if Bug.KEPT_CLOCK in self.bugs else max(self.time, self.clock)
        entry = Entry(self.drawn, time, kind, **content)  # type: ignore[arg-type]
        self.open[holder] = Transaction([entry])
        return entry

    def predict(self, holder: str, id: int, score: float, version: int, probability: float) -> Answer:
        """Begin a transaction that logs a prediction, unless its id is known."""
        first = next((each for each in self.log.values() if each.kind == Kind.PREDICTION and each.id == id), None)
        if first is None:
            self.append(holder, Kind.PREDICTION, id=id, score=score, version=version, probability=probability)
            return Answer(0, probability, version)
        if Bug.NO_LOCK not in self.bugs:
            self.head_holder = holder
        self.open[holder] = Transaction()
        return Answer(1 if first.score == score else 2, first.probability, first.version)

    def commit(self, holder: str) -> None:
        """End a transaction: what it wrote is durable."""
        done = self.open.pop(holder)
        for entry in done.entries:
            self.log[entry.position], self.time = entry, entry.time
        for decided in done.decided:
            for version in decided.versions:
                known = self.versions.setdefault(version.number, version)
                assert known == version, f"version {version.number} comes out otherwise than before"
            for promotion in decided.promotions:
                self.promotions.setdefault((promotion.position, promotion.place), promotion)
        self.position = max(self.position, done.position)
        if done.fence:
            self.intruders += done.fence != self.fence
        self._unlock(holder)

    def abort(self, holder: str) -> None:
        """End a transaction: nothing of it is left."""
        self.open.pop(holder, None)
        self._unlock(holder)

    def _unlock(self, holder: str) -> None:
        self.head_holder = None if self.head_holder == holder else self.head_holder
        self.learner_holder = None if self.learner_holder == holder else self.learner_holder

    def crash(self) -> None:
        """All transactions that are open end without a commit."""
        for holder in list(self.open):
            self.abort(holder)

    def entries(self) -> list[Entry]:
        """What a reader sees."""
        return [self.log[position] for position in sorted(self.log)]

    def served(self) -> int:
        """The version of the last promotion."""
        return self.promotions[max(self.promotions)].version if self.promotions else 0

    # -------------------------------------------------------------------------------------------------------- learner

    def raise_fence(self) -> int:
        """A learner takes the stream."""
        self.fence += 1
        return self.fence

    def learn(self, holder: str, fence: int, decided: list[Decided], position: int) -> None:
        """Begin the transaction of a learner: lock its row, compare the fence, write."""
        if fence != self.fence and Bug.NO_FENCE not in self.bugs:
            raise FenceLost
        self.learner_holder = holder
        self.open[holder] = Transaction(decided=decided, position=position, fence=fence)
        if Bug.TWO_TRANSACTIONS in self.bugs:
            self.position = max(self.position, position)

    def newest_state(self) -> StreamState | None:
        """The newest stored state."""
        return StreamState.from_bytes(self.checkpoints[max(self.checkpoints)]) if self.checkpoints else None


def as_arrays(entries: list[Entry]) -> Entries:
    """Entries as the learner reads them."""
    columns = {name: np.array([getattr(each, name, 0) for each in entries]) for name in FIELDS if name != "id"}
    columns = {
        name: each.astype(np.float64 if FIELDS[name][0] == ">f8" else np.int64) for name, each in columns.items()
    }
    columns["at"] = columns["time"]
    ids = read_ids([UUID(int=each.id) for each in entries]) if entries else np.empty((0, 2), dtype=np.uint64)
    documents = {each.position: each.document for each in entries if each.document is not None}
    return Entries(**columns, id=ids, documents=documents)  # type: ignore[arg-type]


@dataclass
class Again:
    """What one reading of a log gives: the state, the decisions, and id, score and label of each learned row."""

    state: StreamState
    decided: list[Decided]
    rows: list[tuple[int, float, int]]


def computed_again(entries: list[Entry], up_to: int) -> Again:
    """Read the log once up to a position, where a block ends."""
    chosen = as_arrays([each for each in entries if each.position <= up_to])
    again = Again(begin(as_arrays(entries)), [], [])
    advance = again.state.ledger.advance

    def noted(now: float, *until: float) -> Released:
        released = advance(now, *until)
        pairs = [(int(high) << 64) + int(low) for high, low in released.ids]
        again.rows += zip(pairs, released.scores.tolist(), released.labels.tolist(), strict=True)
        return released

    again.state.ledger.advance = noted  # type: ignore[method-assign]
    documents: dict[int, str] = {}
    again.state.find = documents.__getitem__
    for block in whole_blocks(chosen, more=True) if up_to else ():
        again.decided.append(again.state.apply(block))
        documents |= {version.number: version.document for version in again.decided[-1].versions}
    return again


def erased_id(entry: Entry) -> int | None:
    """The id that an entry erases; None if it is another action, or the id is erased from it."""
    if entry.kind != Kind.ACTION:
        return None
    document = json.loads(entry.document or "{}")
    return UUID(document["id"]).int if document.get("action") == "erase" and "id" in document else None


@dataclass
class Row:
    """A prediction as this file understands it."""

    at: float
    score: float
    label: int | None = None
    version: int = 0
    probability: float = 0.0


@dataclass
class FeedByHand:
    """How far rows are released: those due before ``before``, and those due up to ``vouched``."""

    life: float = -math.inf
    before: float = -math.inf
    vouched: float = -math.inf
    judged: float = -math.inf
    evidence: float = 0.0
    held: float | None = None

    def releases(self, due: float) -> bool:
        """Whether a row is released."""
        return due < self.before or due <= self.vouched

    def look(self, rows: dict[int, Row], horizon: float, now: float, grace: float, trusted: Sequence[int]) -> None:
        """Rows whose outcomes should have come are evidence; then life moves the release on."""
        for due, id in sorted((row.at + horizon, id) for id, row in rows.items()):
            row = rows[id]
            late = self.judged <= due < now - grace and due > self.vouched
            if self.held is None and late and row.version in trusted and row.label != 0:
                factor = (1.0 / 6.0 if row.label else 1.0) / (1.0 - (1.0 - 1.0 / 6.0) * 0.25 * row.probability)
                self.evidence = (self.evidence + row.probability) * factor
                self.held = now if self.evidence >= 1e6 else None
        self.judged = max(self.judged, now - grace)
        if self.held is None:
            self.before = max(self.before, self.life - grace)

    def act(self, document: dict[str, Any], rows: dict[int, Row], horizon: float, now: float, grace: float) -> None:
        """Word of the feed, or a decision about a gap without times."""
        ends = document.get("action") == "gap"
        if document.get("action") == "complete":
            until = min(document["until"] / SECOND, now)
            self.vouched = max(self.vouched, until)
            ends = self.held is not None and until >= self.held
        elif ends and document["was"] == "silent":
            self.before = max(self.before, now - grace)
        elif ends:
            for id in [id for id, row in rows.items() if not self.releases(row.at + horizon) and row.at < now]:
                del rows[id]
        if ends:
            self.held, self.evidence = None, 0.0


def learned_rows(
    entries: list[Entry], horizon: float = SETTINGS.horizon, *, silent_negatives: bool = True,
    grace: float = SETTINGS.longest_delay, trusted: Sequence[int] = (),
) -> list[tuple[int, float, int]]:  # fmt: skip
    """Id, score and label of each row that is due, in the order of learning: the rules in their plainest form.

    The second of the last entry may go on, so it is left out. An id must not be used again after one horizon, unless it
    was erased. An erasure counts at the end of its second. Versions that are trusted are taken as given.
    """
    waiting, early, learned = dict[int, Row](), dict[int, list[tuple[int, float]]](), []
    released: set[int] = set()
    feed = FeedByHand()
    blocks: dict[int, list[Entry]] = {}
    for each in entries:
        blocks.setdefault(each.time // SECOND, []).append(each)
    for second, block in list(blocks.items())[:-1]:
        if silent_negatives:
            feed.look(waiting, horizon, second, grace, trusted)
        else:
            feed.vouched = second
        due = sorted((row.at + horizon, id) for id, row in waiting.items() if feed.releases(row.at + horizon))
        for _, id in due:
            row = waiting.pop(id)
            released.add(id)
            if row.label is not None or silent_negatives:
                learned.append((id, row.score, row.label or 0))
        early = {id: [each for each in found if each[1] + horizon > second] for id, found in early.items()}
        for each in block:
            if each.kind == Kind.PREDICTION:
                found = early.pop(each.id, [])
                label = found[-1][0] if found else None
                waiting[each.id] = Row(each.time / SECOND, each.score, label, each.version, each.probability)
        for each in block:
            at, new = each.predicted / SECOND, each.id not in waiting and each.id not in released
            if each.kind == Kind.OUTCOME_WITH_RECEIPT and new and at + horizon > second:
                waiting[each.id] = Row(at, each.score)
        for each in block:
            if each.kind in (Kind.OUTCOME, Kind.OUTCOME_WITH_RECEIPT):
                feed.life = max(feed.life, each.time / SECOND)
                row = waiting.get(each.id)
                if row is None:
                    early.setdefault(each.id, []).append((each.label, each.time / SECOND))
                elif each.time / SECOND <= row.at + horizon:
                    waiting[each.id] = replace(row, label=each.label)
        for each in block:
            if (erased := erased_id(each)) is not None:
                waiting.pop(erased, None)
                early.pop(erased, None)
            elif each.kind == Kind.ACTION:
                feed.act(json.loads(each.document or "{}"), waiting, horizon, block[-1].time / SECOND, grace)
    return learned
