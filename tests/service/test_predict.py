"""Predictions over HTTP: one row and batches, each id once, and what is refused."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from tests.service.live_service import Running, config, wait_for

from calibrant.calibration import Calibration
from calibrant.maps import ByGroupMap, LogitAffineMap
from calibrant.service.api.serving.versions import Served, keep, kept
from calibrant.service.settings import Settings
from calibrant.service.store.log import Kind, key_number, read, read_id

MAP = Calibration(LogitAffineMap(0.5, 0.3))


def promote(database: psycopg.Connection, stream: int, number: int) -> None:
    """Publish a version as a learner would, and promote it."""
    values = [stream, number, 1, 1_000_000, MAP.to_json()]
    database.execute("insert into version values (%s, %s, %s, %s, %s)", values)
    database.execute("insert into promotion values (%s, %s, 0, %s, 'published')", [stream, number, number])


def moment(seconds: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_prediction_is_logged_and_repeated(database: psycopg.Connection, stream: int, service: Running) -> None:
    first = service.post("predict", {"id": "a", "score": 0.25, "key": "k"})
    assert first == {"id": "a", "probability": 0.25, "version": 0, "age_seconds": None, "status": "logged"}
    assert service.post("predict", {"id": "a", "score": 0.25, "key": "k"}) == first | {"status": "repeated"}
    entries = read(database, stream, 1, 0, 10)
    assert entries.kind.tolist() == [Kind.PREDICTION]
    assert entries.id.tobytes() == b"".join(
        int.from_bytes(read_id("a").bytes[k : k + 8], "big").to_bytes(8, "little") for k in (0, 8)
    )


def test_an_id_with_another_content_is_a_conflict(service: Running) -> None:
    service.post("predict", {"id": "a", "score": 0.25})
    error = service.post("predict", {"id": "a", "score": 0.5}, 409)["error"]
    assert (error["code"], error["argument"]) == ("conflict", "id")
    rows = service.post("predictions", {"rows": [{"id": "a", "score": 0.5}, {"id": "b", "score": 0.5}]})["rows"]
    assert [(each["status"], each["probability"]) for each in rows] == [("conflict", None), ("logged", 0.5)]


def test_a_canary_answers_the_ids_of_its_share(
    database: psycopg.Connection, stream: int, service: Running, tmp_path: Path
) -> None:
    promote(database, stream, 3)
    rows = [{"id": str(k), "score": 0.25} for k in range(400)]

    def answered(position: int, version: int | None, share: float) -> set[str]:
        """Begin or change a canary as a learner would, and ask; the ids that it answers."""
        values = [stream, position, version, share]
        database.execute("insert into canary values (%s, %s, %s, %s, 17, 'person')", values)
        wait_for(lambda: (tried := service.process.streams["clicks"].canary) is None or tried.share == share)
        wait_for(lambda: (service.process.streams["clicks"].canary is None) == (not share))
        answers = service.post("predictions", {"rows": [row | {"id": f"{position}/{row['id']}"} for row in rows]})
        for each in answers["rows"]:
            assert each["probability"] == (0.25 if each["version"] == 0 else MAP.scorer()(0.25))
            assert (each["age_seconds"] is None) == (each["version"] == 0)
        return {each["id"] for each in answers["rows"] if each["version"] == 0}

    found = answered(20, 0, 0.2)
    salt = struct.pack(">qq", stream, 17)
    hashes = {
        text: hashlib.blake2b(read_id(text).bytes, digest_size=8, salt=salt).digest()
        for text in (f"20/{k}" for k in range(400))
    }
    assert found == {text for text, hashed in hashes.items() if int.from_bytes(hashed, "big") < 0.2 * 2**64}
    assert 40 < len(found) < 120
    served = service.process.streams["clicks"]
    keep(tmp_path, served)
    assert kept(tmp_path) == {"clicks": served}
    one = served.canary
    assert one is not None
    wider = replace(one, share=0.4).chooser(stream)
    assert all(wider(read_id(text).bytes) for text in found)
    assert answered(21, 0, 0.0) == set()  # a shadow
    assert answered(22, None, 0.0) == set()
    first = service.post("predict", {"id": min(found), "score": 0.25})
    assert (first["version"], first["status"]) == (0, "repeated")


def test_requests_and_commits_are_spans_if_wanted(
    address: str, stream: int, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Recorded] = []

    class Tracer(trace.NoOpTracer):
        """Keeps what was begun, in a list."""

        @contextmanager
        def start_as_current_span(self, name: str, *_: Any, **__: Any) -> Iterator[Recorded]:  # type: ignore[override]
            found.append(Recorded(name))
            yield found[-1]

    monkeypatch.setattr(trace, "get_tracer", lambda name: Tracer())
    with Running(config(address, tracing=True), token) as service:
        service.post("predict", {"id": "secret", "score": 0.25})
        service.post("predict", {"id": "secret", "score": 0.5}, 409)
        service.post("outcomes", {"outcomes": [{"id": "secret", "outcome": 1}]})
    commits = [each.said for each in found if each.name.startswith("append")]
    assert commits == [{"calibrant.rows": 1}] * 3
    requests = [(each.name, *each.said.values()) for each in found if not each.name.startswith("append")]
    assert requests == [
        ("POST /v1/streams/{stream}/predict", 200), ("POST /v1/streams/{stream}/predict", 409),
        ("POST /v1/streams/{stream}/outcomes", 200),
    ]  # fmt: skip
    assert "secret" not in repr(found)


@dataclass
class Recorded:
    """A span that is kept."""

    name: str
    said: dict[str, Any] = field(default_factory=dict)

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attribute(self, name: str, value: Any) -> None:
        self.said[name] = value


def test_the_promoted_version_answers(database: psycopg.Connection, stream: int, service: Running) -> None:
    promote(database, stream, 3)
    wait_for(lambda: service.process.streams["clicks"].version == 3)
    found = service.post("predict", {"id": "a", "score": 0.25})
    assert (found["version"], found["probability"]) == (3, MAP.scorer()(0.25))
    assert found["age_seconds"] > 1e6
    rows = service.post("predictions", {"rows": [{"id": str(k), "score": k / 100} for k in range(101)]})["rows"]
    assert [each["probability"] for each in rows] == [MAP.scorer()(k / 100) for k in range(101)]
    assert {each["status"] for each in rows} == {"logged"}
    assert [each["id"] for each in rows] == [str(k) for k in range(101)]


def test_a_batch_may_repeat_ids(service: Running) -> None:
    rows = [{"id": id, "score": 0.5} for id in ("a", "b", "a")]
    assert [each["status"] for each in service.post("predictions", {"rows": rows})["rows"]] == [
        "logged", "logged", "repeated",
    ]  # fmt: skip


WRONG: list[tuple[Any, str]] = [
    ([], "body"), ({}, "id"), ({"id": "a"}, "score"), ({"id": "a", "score": "0.5"}, "score"),
    ({"id": "a", "score": True}, "score"), ({"id": "a", "score": None}, "score"), ({"id": "a", "score": 2}, "score"),
    ({"id": "a", "score": -0.1}, "score"), ({"id": "a", "score": 10**400}, "score"),
    ({"score": 0.5}, "id"), ({"id": "", "score": 0.5}, "id"), ({"id": "a" * 201, "score": 0.5}, "id"),
    ({"id": 5, "score": 0.5}, "id"), ({"id": "a", "score": 0.5, "keys": "k"}, "keys"),
    ({"id": "a", "score": 0.5, "key": ""}, "key"), ({"id": "a", "score": 0.5, "key": "a\0"}, "key"),
    ({"id": "a", "score": 0.5, "key": "\ud800"}, "key"), ({"id": "a", "score": 0.5, "key": 3}, "key"),
    ({"id": "a", "score": 0.5, "at": 3}, "at"), ({"id": "a", "score": 0.5, "at": "2026-01-01T00:00:00"}, "at"),
    ({"id": "a", "score": 0.5, "at": "2026-02-30T00:00:00Z"}, "at"), ({"id": "a", "score": 0.5, "at": "now"}, "at"),
    ({"id": "a", "score": 0.5, "at": "0001-01-01T00:00:00+23:59"}, "at"),
    ({"id": "a", "score": 0.5, "at": moment(-1_000_000)}, "at"),
    ({"id": "a", "score": 0.5, "at": moment(1_000_000)}, "at"),
]  # fmt: skip


def test_what_is_wrong_is_refused_with_its_argument(
    database: psycopg.Connection, stream: int, service: Running, subtests: pytest.Subtests
) -> None:
    for document, argument in WRONG:
        with subtests.test(document=repr(document)[:60]):
            error = service.post("predict", document, 422)["error"]
            assert error["argument"] == argument
            assert error["problem"]
            batch = service.post("predictions", {"rows": [{"id": "fine", "score": 0.5}, document]}, 422)["error"]
            assert batch["argument"] == ("rows[1]" if argument == "body" else f"rows[1].{argument}")
    assert len(read(database, stream, 1, 0, 10)) == 0
    assert service.process.counts["refused", "clicks", "skew"] == 6


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"id": "a", "score": NaN}', b"1" * 10_000])
def test_what_is_not_json_is_refused(service: Running, body: bytes) -> None:
    answer = service.client.post("/v1/streams/clicks/predict", content=body)
    assert answer.status_code == 422
    assert set(answer.json()["error"]) == {"code", "argument", "problem", "fix"}
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


def test_times_within_the_skew_are_taken(database: psycopg.Connection, stream: int, service: Running) -> None:
    service.post("predict", {"id": "a", "score": 0.5, "at": moment(-200)})
    service.post("predict", {"id": "b", "score": 0.5, "at": moment(200)})
    at = read(database, stream, 1, 0, 10)
    assert 390e6 < at.at[1] - at.at[0] < 410e6


def test_a_stream_that_is_not_there_and_one_that_comes(database: psycopg.Connection, service: Running) -> None:
    answer = service.client.post("/v1/streams/other/predict", json={"id": "a", "score": 0.5})
    assert (answer.status_code, answer.json()["error"]["argument"]) == (404, "stream")
    database.execute(
        "select create_stream('other', %s)",
        ['{"action": "settings", "settings": {"horizon": 1, "silence": "negative"}}'],
    )
    wait_for(
        lambda: service.client.post("/v1/streams/other/predict", json={"id": "a", "score": 0.5}).status_code == 200
    )


def test_rows_that_are_not_in_a_list_say_what_to_send(stream: int, service: Running) -> None:
    for path, name in (("outcomes", "outcomes"), ("predictions", "rows")):
        refused = service.post(path, {"id": "a", "score": 0.5}, 422)
        assert f'such as {{"{name}": [' in refused["error"]["fix"]


def test_health_and_readiness_need_no_token(service: Running) -> None:
    headers = {"Authorization": ""}
    assert service.client.get("/health", headers=headers).json() == {"status": "alive"}
    ready = service.client.get("/ready", headers=headers)
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "database": True})
    assert service.client.post("/v1/streams/clicks/predict", headers=headers, json={}).status_code == 401
    service.process.is_draining = True
    assert service.client.get("/ready").status_code == 503


def test_each_key_has_its_own_map() -> None:
    lines = (LogitAffineMap(1.0, 1.0), LogitAffineMap(1.0, 2.0))
    map_ = ByGroupMap("key", (str(key_number("north")), "0"), lines, LogitAffineMap(1.0, -1.0))
    served = Served(
        1, "clicks", Settings(horizon=60.0, silence="negative", keyed=True), 1, 1, Calibration(map_).to_json()
    )
    found, _ = served.answers([b""] * 3, [0.5] * 3, ["north", None, "other"])
    assert found == [Calibration(each).scorer()(0.5) for each in (*lines, LogitAffineMap(1.0, -1.0))]


def test_open_requests_are_finished_when_the_process_stops(service: Running) -> None:
    with ThreadPoolExecutor() as pool:
        rows = [{"id": str(k), "score": 0.5} for k in range(5_000)]
        answer = pool.submit(service.post, "predictions", {"rows": rows})
        wait_for(lambda: service.process.predictions.rows or answer.done())
        service.server.handle_exit(15, None)
        assert len(answer.result()["rows"]) == 5_000
    service.thread.join(60)
    assert not service.thread.is_alive()
