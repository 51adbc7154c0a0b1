"""What must hold after any number of kills: nothing acknowledged is lost, and all that is stored follows."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from tests.service.faults.load import Remembered, key_of, label_of, score_of
from tests.service.faults.written import (
    DAY,
    after_erasure,
    entries_of,
    ids_in_states,
    kept_from,
    known_ids,
    served_over_time,
)
from tests.service.model.memory import Again, Entry, computed_again, erased_id, learned_rows

from calibrant.maps import ByGroupMap
from calibrant.service.learning.learner import Learner, promotions_of
from calibrant.service.learning.publishing import ServedMap
from calibrant.service.learning.replay import replay
from calibrant.service.store.log import SECOND, Kind, append_complete, key_number

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


def check_all(connection: psycopg.Connection, stream: int, clients: list[Remembered], horizon: float) -> Found:
    """Learn what is there to the end, and compare everything with what clients remember.

    Parameters
    ----------
    connection
        A connection of the owner, in autocommit mode, to a database whose entries are copied as they are written: see
        :func:`tests.service.faults.written.keep_written`.
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
        if learner.state is not None and learner.state.settings.silence == "negative":
            append_complete(connection, stream, _time(connection, stream))
        time.sleep(0.1)
    time.sleep(1.1)
    learner.tick()
    learner.step()
    learner.checkpoint()
    state = learner.state
    assert state is not None
    entries, written = entries_of(connection, stream, "log"), entries_of(connection, stream, "written")
    _log(found, written)
    gone = _left(found, entries, written, kept_from(state.settings, state.time))
    _stored(found, connection, stream, entries, written)
    _clients(found, written, gone, clients)
    again = computed_again(written, state.position)
    if again.state.to_bytes() != state.to_bytes():
        found.wrong.append("the state of the learner is not that of one reading of the log as it was written")
    _decided(found, connection, stream, again)
    _versions(found, connection, stream, written)
    rows = learned_rows(
        written, horizon, silent_negatives=state.settings.silence == "negative",
        grace=state.settings.longest_delay, trusted=state.decisions.trusted,
    )  # fmt: skip
    if again.rows != rows:
        found.wrong.append("the rows that were learned are not those that follow from the log by hand")
    ids = Counter(id for id, _, _ in rows)
    sent = Counter(each.id for each in written if each.kind == Kind.PREDICTION)
    sent.update(id for id in map(erased_id, written) if id is not None)  # with a receipt, an erased id may come again
    found.none("learned twice", (id for id, n in ids.items() if n > max(sent[id], 1)))
    found.numbers["rows learned, each once"] = sum(ids.values())
    _counted(found, again.state, [each for each in written if each.position <= state.position], written)
    whole = not gone and not any(erased_id(each) for each in written)
    for checkpoints in (False, True) if whole else (True,):
        replayed = replay(connection, stream, checkpoints=checkpoints)
        found.none("replayed otherwise", [str(replayed)] if not replayed.is_equal else [])
        found.numbers[f"versions, promotions and states replayed{' from a stored state' if checkpoints else ''}"] = (
            replayed.compared
        )
    return found


def _time(connection: psycopg.Connection, stream: int) -> int:
    return int(connection.execute("select time from head where stream = %s", [stream]).fetchone()[0])  # type: ignore[index]


def _log(found: Found, written: list[Entry]) -> None:
    found.numbers["entries of the log"] = len(written)
    found.none("a gap in the log", (a for k, a in enumerate(written) if a.position != k + 1))
    found.none("time goes back", (b for a, b in pairwise(written) if b.time < a.time))


def _left(found: Found, entries: list[Entry], written: list[Entry], first: int) -> set[int]:
    """The log is what was written, without erased ids and days that nobody needs; positions that are gone."""
    there = {each.position: each for each in entries}
    expected = after_erasure(written)
    gone = {each.position for each in written} - set(there)
    found.none(
        "an entry that is not what erasure leaves of it",
        (each for each in expected if each.position in there and there[each.position] != each),
    )
    found.none("an entry that nobody wrote", set(there) - {each.position for each in written})
    found.none(
        "gone before its time", (each for each in written if each.position in gone and each.time // DAY >= first)
    )
    days = {each.time // DAY for each in written if each.position in gone}
    found.none("half of a day is gone", (each for each in entries if each.time // DAY in days))
    found.numbers["days dropped"], found.numbers["    entries"] = len(days), len(gone)
    erased = [id for id in map(erased_id, written) if id is not None]
    found.numbers["erasures"], found.numbers["    ids"] = len(erased), len(set(erased))
    found.numbers["    entries with an erased id"] = sum(
        a.id != b.id for a, b in zip(written, expected, strict=True) if a.position in there
    )
    return gone


def _stored(
    found: Found, connection: psycopg.Connection, stream: int, entries: list[Entry], written: list[Entry]
) -> None:
    """The table of ids and the stored states have what the log has, and no erased id."""
    rows = connection.execute("select id, position from known where stream = %s", [stream]).fetchall()
    found.none(
        "an id that is known or not, against the log", {(id.int, p) for id, p in rows} ^ known_ids(entries, written)
    )
    found.none("an erased id in a stored state", ids_in_states(connection, stream, written))


def _clients(found: Found, written: list[Entry], gone: set[int], clients: list[Remembered]) -> None:
    logged: dict[int, list[Entry]] = defaultdict(list)
    erasures: dict[int, list[int]] = defaultdict(list)
    for each in written:
        if each.kind == Kind.PREDICTION:
            logged[each.id].append(each)
        if (id := erased_id(each)) is not None:
            erasures[id].append(each.position)
    found.none(
        "logged twice, though the id was not free",
        (
            b for id, each in logged.items() for a, b in pairwise(each)
            if a.position not in gone and not any(a.position < erased < b.position for erased in erasures[id])
        ),
    )  # fmt: skip
    outcomes = Counter((each.id, each.label) for each in written if each.kind in OUTCOMES)
    receipts = [each for each in written if each.kind == Kind.OUTCOME_WITH_RECEIPT]
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
    documents = {each.position: each.document for each in written}
    for known in clients:
        found.none(
            "an answer that is not in the log",
            (
                id for id, answer in known.all_answers
                if not any(
                    (each.probability, each.version, each.score) == (*answer, score_of(id))
                    and each.key in (0, key_number(key_of(id)))
                    for each in logged[UUID(id).int]
                )
            ),
        )  # fmt: skip
        found.none(
            "an acknowledged outcome that is lost",
            (id for id in known.outcomes_acknowledged if not outcomes[UUID(id).int, label_of(id)]),
        )
        found.none(
            "an acknowledged decision that is lost",
            (
                (position, said) for position, said in known.actions.items()
                if not said.items() <= json.loads(documents.get(position) or "{}").items()
            ),
        )  # fmt: skip
    found.none("an outcome that nobody sent", (id for id, label in outcomes if label != label_of(str(UUID(int=id)))))
    found.none("a prediction that nobody sent", (id for id in logged if id not in asked))
    found.none("an outcome logged more often than sent", (id for (id, _), n in outcomes.items() if n > sent[id]))
    found.numbers["predictions acknowledged as logged"] = sum(len(each.all_answers) for each in clients)
    found.numbers["    ids logged again, once they were free"] = sum(len(each) > 1 for each in logged.values())
    found.numbers["receipts given out"] = len(given)
    found.numbers["outcomes with a receipt in the log"] = len(receipts)
    found.numbers["outcomes acknowledged, by id"] = sum(len(each.outcomes_acknowledged) for each in clients)
    found.numbers["outcomes in the log"] = sum(outcomes.values())
    found.numbers["outcomes in the log, by id"] = len(outcomes)
    found.numbers["decisions acknowledged"] = sum(len(each.actions) for each in clients)


def _decided(found: Found, connection: psycopg.Connection, stream: int, again: Again) -> None:
    """Versions, promotions and canaries are those of one reading of the log as it was written."""
    versions = connection.execute("select number, document from version where stream = %s", [stream]).fetchall()
    canaries = connection.execute(
        "select position, version, share, salt, cause from canary where stream = %s order by position", [stream]
    ).fetchall()
    decided = again.decided
    found.none(
        "a version that is not that of one reading",
        set(versions) ^ {(each.number, each.document) for one in decided for each in one.versions},
    )
    found.none(
        "a promotion that is not that of one reading",
        set(promotions_of(connection, stream).values()) ^ {each for one in decided for each in one.promotions},
    )
    found.none(
        "a canary that is not that of one reading",
        set(canaries) ^ {astuple(each) for one in decided for each in one.tried},
    )
    found.numbers["versions"] = len(versions)
    causes = Counter(each.cause for one in decided for each in one.promotions)
    found.numbers |= {f"    {cause}": n for cause, n in sorted(causes.items())}
    found.numbers["changes of the canary"] = len(canaries)


def _versions(found: Found, connection: psycopg.Connection, stream: int, written: list[Entry]) -> None:
    """Each answer is that of its version, and its version the one that was served to its id at some time before."""
    documents: dict[int, str] = dict(
        connection.execute("select number, document from version where stream = %s", [stream]).fetchall()
    )
    if sorted(documents) != list(range(1, len(documents) + 1)):
        found.wrong.append("versions are not numbered 1, 2, 3, ...")
    maps = {number: ServedMap.read(documents.get(number)) for number in [0, *documents]}
    predictions = [each for each in written if each.kind in (Kind.PREDICTION, Kind.OUTCOME_WITH_RECEIPT)]
    by_key = 0
    for number in {each.version for each in predictions}:
        own = [each for each in predictions if each.version == number]
        scores = np.array([each.score for each in own])
        expected = maps[number].apply(scores, np.array([each.key for each in own], dtype=np.int64)).tolist()
        found.none(
            "an answer that its version does not give",
            (a for a, p in zip(own, expected, strict=True) if abs(a.probability - p) > 1e-12),
        )
        map_ = maps[number].map
        by_key += sum(str(each.key) in map_.groups for each in own) if isinstance(map_, ByGroupMap) else 0
    over_time = served_over_time(connection, stream)
    by_canary = 0
    for each in predictions:
        fits = [
            one for one in over_time
            if each.version in (one.version, one.canary) and one.position < each.position
            and one.answers(stream, each.id) == each.version
        ]  # fmt: skip
        found.none("an answer by a version that was not served to its id", [] if fits else [each])
        by_canary += bool(fits) and all(one.version != each.version for one in fits)
    found.numbers["versions that gave answers"] = len({each.version for each in predictions} - {0})
    found.numbers["answers by the map of a key"] = by_key
    found.numbers["answers by a canary"] = by_canary


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
    found.numbers["rows dropped in gaps"] = counts.dropped
    for name in ("joined", "duplicate_outcomes", "too_late", "after_release", "agreed", "unknown", "held"):
        found.numbers[f"    {name.replace('_', ' ')}"] = getattr(counts, name)
