"""The comparison after kills notices what it is there for: a lost outcome, another answer, a changed version."""

from __future__ import annotations

from copy import deepcopy
from uuid import UUID

import psycopg
import pytest
from tests.service.faults.checks import check_all
from tests.service.faults.load import Remembered, label_of, score_of
from tests.service.faults.written import keep_written
from tests.service.test_learner import START, at_second

from calibrant.service.store.log import Kind, append_entry, append_outcomes, append_predictions

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
    for second in (10, 11):
        at_second(database, stream, START + second)
        append_entry(database, stream, Kind.TICK)
    found = check_all(database, stream, [known], 2.0)
    assert found.wrong == []
    assert found.numbers["rows learned, each once"] == 60

    some = str(UUID(int=1))
    lost = deepcopy(known)
    lost.outcomes_acknowledged[str(UUID(int=99))] += 1
    other = deepcopy(known)
    other.answers[some] = (0.123, 0)
    doubled = deepcopy(known)
    doubled.outcomes_sent[some] = 0
    cases = {"outcome that is lost": lost, "not in the log": other, "more often than sent": doubled}
    for problem, wrong in cases.items():
        with subtests.test(problem):
            assert [problem in each for each in check_all(database, stream, [wrong], 2.0).wrong] == [True]
    database.execute("update version set document = document || ' ' where stream = %s and number = 1", [stream])
    assert any("replayed otherwise" in each for each in check_all(database, stream, [known], 2.0).wrong)
