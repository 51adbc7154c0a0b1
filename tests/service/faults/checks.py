"""What must hold after any number of kills: nothing acknowledged is lost, and all that is stored follows."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from tests.service.faults.load import Remembered, key_of, label_of, score_of
from tests.service.model.memory import Entry, computed_again, learned_rows

from calibrant.service.learning.learner import Learner
from calibrant.service.learning.publishing import ServedMap
from calibrant.service.learning.replay import replay
from calibrant.service.store.log import SECOND, Kind, key_number

PATIENCE = 600.0

OUTCOMES = (Kind.OUTCOME, Kind.OUTCOME_WITH_RECEIPT)


@dataclass
class Found:
    """Numbers that were compared, and sentences about what is wrong."""

    numbers: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def none(self, problem: str, cases: Any) -> None:
        """Note a problem if there are cases of it."""
        listed = list(cases)
        if listed:
            self.wrong.append(f"{len(listed)} x {problem}, such as {listed[0]}")


def entries_of(connection: psycopg.Connection, stream: int) -> list[Entry]:
    """The log of a stream."""
    rows = connection.execute(
        "select position, time, kind, id, score, version, probability, label, document, coalesce(key_number(key), 0), "
        "coalesce(predicted, 0) from log where stream = %s order by position",
        [stream],
    ).fetchall()
    return [
        Entry(
            position, time, Kind(kind), id.int if id else 0, score or 0.0, version or 0, probability or 0.0,
            -1 if label is None else label, document, key, predicted,
        )
        for position, time, kind, id, score, version, probability, label, document, key, predicted in rows
    ]  # fmt: skip


def check_all(connection: psycopg.Connection, stream: int, clients: list[Remembered], horizon: float) -> Found:
    """Learn what is there to the end, and compare everything with what clients remember.

    Parameters
    ----------
    connection
        A connection of the owner, in autocommit mode.
    stream
        Number of the stream.
    clients
        What was answered.
    horizon
        Horizon of the stream; its last outcome must be older than this when the function is called.

    Returns
    -------
    Found
        What was compared and what is wrong.
    """
    found = Found()
    learner = Learner(connection, stream)
    end = time.monotonic() + PATIENCE
    while learner.step() or learner.tick() or learner.state is None or learner.state.ledger.counts.open:
        assert time.monotonic() < end, "rows wait for their release"
        time.sleep(0.1)
    time.sleep(1.1)
    learner.tick()
    learner.step()
    learner.checkpoint()
    assert learner.state is not None
    entries = entries_of(connection, stream)
    _log(found, entries)
    _clients(found, entries, clients)
    _versions(found, connection, stream, entries)
    again = computed_again(entries, learner.state.position)
    if again.state.to_bytes() != learner.state.to_bytes():
        found.wrong.append("the state of the learner is not that of one reading of the log")
    rows = learned_rows(entries, horizon, silent_negatives=learner.state.settings.silence == "negative")
    if again.rows != rows:
        found.wrong.append("the rows that were learned are not those that follow from the log by hand")
    ids = [id for id, _, _ in rows]
    found.none("learned twice", (id for id, n in Counter(ids).items() if n > 1))
    found.numbers["rows learned, each once"] = len(ids)
    _counted(found, again.state, [each for each in entries if each.position <= again.state.position], entries)
    for checkpoints in (False, True):
        replayed = replay(connection, stream, checkpoints=checkpoints)
        found.none("replayed otherwise", [str(replayed)] if not replayed.is_equal else [])
        found.numbers[f"versions, promotions and states replayed{' from a stored state' if checkpoints else ''}"] = (
            replayed.compared
        )
    return found


def _log(found: Found, entries: list[Entry]) -> None:
    found.numbers["entries of the log"] = len(entries)
    found.none("a gap in the log", (a for k, a in enumerate(entries) if a.position != k + 1))
    found.none("time goes back", (b for a, b in pairwise(entries) if b.time < a.time))


def _clients(found: Found, entries: list[Entry], clients: list[Remembered]) -> None:
    logged = {each.id: each for each in entries if each.kind == Kind.PREDICTION}
    n = sum(each.kind == Kind.PREDICTION for each in entries)
    if n != len(logged):
        found.wrong.append(f"{n} predictions with {len(logged)} ids")
    outcomes = Counter((each.id, each.label) for each in entries if each.kind in OUTCOMES)
    receipts = [each for each in entries if each.kind == Kind.OUTCOME_WITH_RECEIPT]
    given = {UUID(id).int: answer for each in clients for id, answer in each.receipts.items()}
    found.none(
        "an outcome with another receipt than was given",
        (
            each for each in receipts
            if each.id not in given or (each.probability, each.version) != given[each.id][:2]
            or each.score != score_of(str(UUID(int=each.id)))
        ),
    )  # fmt: skip
    sent = Counter({UUID(id).int: n for each in clients for id, n in each.outcomes_sent.items()})
    asked = {UUID(id).int for each in clients for id in each.sent}
    for known in clients:
        found.none("answered in two ways", known.different)
        found.none(
            "an answer that is not in the log",
            (
                id for id, answer in known.answers.items()
                if UUID(id).int not in logged
                or (logged[UUID(id).int].probability, logged[UUID(id).int].version) != answer
                or logged[UUID(id).int].score != score_of(id)
                or logged[UUID(id).int].key not in (0, key_number(key_of(id)))
            ),
        )  # fmt: skip
        found.none(
            "an acknowledged outcome that is lost",
            (id for id in known.outcomes_acknowledged if not outcomes[UUID(id).int, label_of(id)]),
        )
    found.none("an outcome that nobody sent", (id for id, label in outcomes if label != label_of(str(UUID(int=id)))))
    found.none("a prediction that nobody sent", (id for id in logged if id not in asked))
    found.none("an outcome logged more often than sent", (id for (id, _), n in outcomes.items() if n > sent[id]))
    found.numbers["predictions acknowledged as logged"] = sum(len(each.answers) for each in clients)
    found.numbers["receipts given out"] = len(given)
    found.numbers["outcomes with a receipt in the log"] = len(receipts)
    found.numbers["outcomes acknowledged, by id"] = sum(len(each.outcomes_acknowledged) for each in clients)
    found.numbers["outcomes in the log"] = sum(outcomes.values())
    found.numbers["outcomes in the log, by id"] = len(outcomes)


def _versions(found: Found, connection: psycopg.Connection, stream: int, entries: list[Entry]) -> None:
    documents: dict[int, str] = dict(
        connection.execute("select number, document from version where stream = %s", [stream]).fetchall()
    )
    found.numbers["versions"] = len(documents)
    if sorted(documents) != list(range(1, len(documents) + 1)):
        found.wrong.append("versions are not numbered 1, 2, 3, ...")
    maps = {number: ServedMap.read(documents.get(number)) for number in [0, *documents]}
    predictions = [each for each in entries if each.kind in (Kind.PREDICTION, Kind.OUTCOME_WITH_RECEIPT)]
    for number in {each.version for each in predictions}:
        own = [each for each in predictions if each.version == number]
        scores = np.array([each.score for each in own])
        expected = maps[number].apply(scores, np.array([each.key for each in own], dtype=np.int64)).tolist()
        found.none(
            "an answer that its version does not give",
            (a for a, p in zip(own, expected, strict=True) if abs(a.probability - p) > 1e-12),
        )
    found.numbers["versions that gave answers"] = len({each.version for each in predictions})


def _counted(found: Found, state: Any, applied: list[Entry], entries: list[Entry]) -> None:
    """Each entry that was applied is in exactly one count of the ledger, and all but the last second are applied."""
    counts = state.ledger.counts
    outcomes = sum(each.kind in OUTCOMES for each in applied)
    predictions = sum(each.kind in (Kind.PREDICTION, Kind.OUTCOME_WITH_RECEIPT) for each in applied)
    if counts.outcomes != outcomes or counts.predictions != predictions:
        found.wrong.append(f"{counts.outcomes} outcomes counted of {outcomes}")
    rest = entries[len(applied) :]
    found.none("not learned", (each for each in rest if each.time // SECOND != entries[-1].time // SECOND))
    found.numbers["outcomes counted, each once"] = counts.outcomes
    for name in ("joined", "duplicate_outcomes", "too_late", "after_release", "agreed", "unknown", "held"):
        found.numbers[f"    {name.replace('_', ' ')}"] = getattr(counts, name)
