"""Outcomes over HTTP: durable when acknowledged, all or none."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.service.live_service import Running
from tests.service.test_predict import moment

from calibrant.service.api.outcomes import LOOKED_UP
from calibrant.service.store.log import Kind, read


def test_outcomes_are_logged_in_their_order(database: psycopg.Connection, stream: int, service: Running) -> None:
    service.post("predict", {"id": "a", "score": 0.25})
    sent = [{"id": "a", "outcome": 1, "at": moment(-1)}, {"id": "b", "outcome": 0}, {"id": "a", "outcome": 0}]
    assert service.post("outcomes", {"outcomes": sent}) == {"accepted": 3, "unknown": 1, "position": 5}
    assert service.post("outcomes", {"outcomes": sent[:1]}) == {"accepted": 1, "unknown": 0, "position": 6}
    entries = read(database, stream, 2, 0, 10)
    assert entries.kind.tolist() == [Kind.OUTCOME] * 4
    assert entries.label.tolist() == [1, 0, 0, 1]
    assert [service.process.counts["ids", "clicks", what] for what in ("known", "unknown")] == [3, 1]


def test_the_first_ids_of_a_request_are_looked_up(service: Running) -> None:
    many = [{"id": str(n), "outcome": 1} for n in range(1_500)]
    assert service.post("outcomes", {"outcomes": many})["unknown"] == LOOKED_UP


def test_unknown_ids_are_counted_for_each_request_of_a_commit(
    database: psycopg.Connection, stream: int, service: Running
) -> None:
    service.post("predictions", {"rows": [{"id": str(n), "score": 0.5} for n in range(20)]})

    def send(n: int) -> tuple[int, int]:
        outcomes = [{"id": str(n), "outcome": 1}] + [{"id": f"other {n} {k}", "outcome": 0} for k in range(n)]
        answer = service.post("outcomes", {"outcomes": outcomes})
        return answer["accepted"], answer["unknown"]

    with ThreadPoolExecutor(20) as pool, database.transaction():
        database.execute("select from head where stream = %s for update", [stream])  # so that they gather
        answers = [pool.submit(send, n) for n in range(20)]
        time.sleep(0.5)
    assert [each.result() for each in answers] == [(n + 1, n) for n in range(20)]


WRONG: list[tuple[Any, str]] = [
    ([], "outcomes[1]"), ({"id": "a"}, "outcomes[1].outcome"), ({"id": "a", "outcome": 2}, "outcomes[1].outcome"),
    ({"id": "a", "outcome": True}, "outcomes[1].outcome"), ({"id": "a", "outcome": 0.0}, "outcomes[1].outcome"),
    ({"outcome": 1}, "outcomes[1].id"), ({"id": "a", "outcome": 1, "score": 1}, "outcomes[1].score"),
    ({"id": "a", "outcome": 1, "at": moment(1_000_000)}, "outcomes[1].at"),
    ({"id": "a", "outcome": 1, "at": moment(-1_000_000)}, "outcomes[1].at"),
    ({"id": "a", "outcome": 1, "receipt": 5}, "outcomes[1].receipt"),
    ({"id": "a", "outcome": 1, "receipt": "forged"}, "outcomes[1].receipt"),
]  # fmt: skip


def test_one_wrong_outcome_refuses_all(
    database: psycopg.Connection, stream: int, service: Running, subtests: pytest.Subtests
) -> None:
    for document, argument in WRONG:
        with subtests.test(document=repr(document)[:60]):
            error = service.post("outcomes", {"outcomes": [{"id": "fine", "outcome": 1}, document]}, 422)["error"]
            assert error["argument"] == argument
    for document in ({}, {"outcomes": 3}, {"outcomes": []}, {"outcomes": [], "more": 1}):
        service.post("outcomes", document, 422)
    assert len(read(database, stream, 1, 0, 10)) == 0


def test_batches_and_bodies_have_limits(service: Running) -> None:
    rows = [{"id": "a", "outcome": 1}] * 10_001
    assert service.post("outcomes", {"outcomes": rows}, 413)["error"]["code"] == "too-many-rows"
    assert is_too_large(service, b" " * (8 << 20) + b" ")
    assert is_too_large(service, b" " * (24 << 20))


def test_a_body_in_parts_has_the_same_limit(service: Running) -> None:
    def parts() -> Any:
        for _ in range(9):
            yield b" " * (1 << 20)

    assert is_too_large(service, parts())


def is_too_large(service: Running, content: Any) -> bool:
    """Whether a body is refused, after it was sent whole."""
    answer = service.client.post("/v1/streams/clicks/outcomes", content=content)
    return bool((answer.status_code, answer.json()["error"]["code"]) == (413, "too-large"))
