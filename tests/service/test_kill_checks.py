"""The comparison after kills notices what it is there for: a lost outcome, another answer, an id that is not erased."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID

import psycopg
import pytest
from tests.service.faults.checks import check_all
from tests.service.faults.load import Remembered, label_of, score_of
from tests.service.faults.written import entries_of, keep_written
from tests.service.model.memory import computed_again
from tests.service.test_learner import START, at_second

from calibrant.service.store.log import Kind, append_entry, append_outcomes, append_predictions
from calibrant.service.store.retention import erase

pytestmark = pytest.mark.slow


def test_the_comparison_after_kills_notices_faults(
    database: psycopg.Connection, stream: int, subtests: pytest.Subtests
) -> None:
    keep_written(database)
    known = Remembered()
    for second in range(6):
        at_second(database, stream, START + second)
        ids = [UUID(int=1 + 100 * second + k) for k in range(10)]
        scores = [score_of(str(id)) for id in ids]
        append_predictions(database, stream, ids, scores, [None] * 10, [None] * 10, [0] * 10, scores)
        append_outcomes(database, stream, ids, [label_of(str(id)) for id in ids], [None] * 10)
        known.sent |= {str(id) for id in ids}
        known.answers |= {str(id): (score, 0) for id, score in zip(ids, scores, strict=True)}
        known.outcomes_sent.update(map(str, ids))
        known.outcomes_acknowledged.update(map(str, ids))
    at_second(database, stream, START + 6)
    erased = UUID(int=501)
    known.actions[erase(database, stream, erased)] = {"action": "erase", "id": erased.hex}
    tried = {"action": "canary", "version": 1, "share": 0.5}
    known.actions[append_entry(database, stream, Kind.ACTION, json.dumps(tried))] = tried
    for second in (10, 11):
        at_second(database, stream, START + second)
        append_entry(database, stream, Kind.TICK)
    found = check_all(database, stream, [known], 2.0)
    assert found.wrong == []
    numbers = ("rows learned, each once", "erasures", "changes of the canary")
    assert [found.numbers[name] for name in numbers] == [59, 1, 1]

    def notices(*problems: str) -> None:
        wrong = check_all(database, stream, [known], 2.0).wrong
        for problem in problems:
            with subtests.test(problem):
                assert any(problem in each for each in wrong), wrong

    some = str(UUID(int=1))
    known.outcomes_acknowledged[str(UUID(int=99))] += 1
    known.answers[some] = (0.123, 0)
    known.outcomes_sent[some] = 0
    known.actions[7] = tried
    notices("outcome that is lost", "answer that is not in the log", "more often than sent", "decision that is lost")

    written = entries_of(database, stream, "written")
    last = next(each.position for each in written if each.id == erased.int)
    early = computed_again(written, max(each.position for each in written if each.time < written[last - 1].time))
    raw = early.state.to_bytes()
    row = [stream, early.state.position, raw, hashlib.blake2b(raw, digest_size=16).digest()]
    database.execute("insert into checkpoint values (%s, %s, '', %s, %s)", row)
    database.execute("update log set id = %s where stream = %s and position = %s", [erased, stream, last])
    database.execute("delete from log where stream = %s and position = 5", [stream])
    database.execute("delete from known where stream = %s and id = %s", [stream, UUID(int=2)])
    database.execute("update canary set share = 0.25 where stream = %s", [stream])
    database.execute("update version set document = document || ' ' where stream = %s and number = 1", [stream])
    notices(
        "not what erasure leaves", "gone before its time", "known or not", "erased id in a stored state",
        "a canary that is not", "a version that is not", "replayed otherwise",
    )  # fmt: skip
