"""Batches as Arrow IPC streams: the answers of JSON, and nothing that is wrong or too large gets through."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.service.live_service import KEY, Running, wait_for
from tests.service.test_predict import MAP, promote

from calibrant.service.api.arrow import Columns, read_columns, read_rows, write_rows
from calibrant.service.api.bodies import ARROW
from calibrant.service.api.errors import Refusal
from calibrant.service.api.predict import Asked, _returned, predicted
from calibrant.service.api.serving.receipts import Receipts
from calibrant.service.api.serving.versions import CanaryMap, Served
from calibrant.service.settings import Settings
from calibrant.service.store.log import id_bytes

SETTINGS = Settings(horizon=60.0, silence="negative")


def stream_of(columns: dict[str, Any], compression: str | None = None, batches: int = 1) -> bytes:
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def send(service: Running, body: bytes) -> Any:
    return service.client.post("/v1/streams/clicks/predictions", content=body, headers={"Content-Type": ARROW})


def test_arrow_gives_the_answers_of_json(database: psycopg.Connection, stream: int, service: Running) -> None:
    promote(database, stream, 1)
    wait_for(lambda: service.process.streams["clicks"].version == 1)
    scores = [k / 100 for k in range(101)]
    now = datetime.now(UTC)
    columns = {"id": [f"r{k}" for k in range(101)], "score": scores, "key": [None] * 101, "at": [now] * 101}
    answer = send(service, stream_of(columns))
    assert (answer.status_code, answer.headers["content-type"]) == (200, ARROW)
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found["probability"].to_pylist() == [MAP.scorer()(score) for score in scores]
    assert set(found["status"].to_pylist()) == {"logged"}
    rows = [{"id": f"r{k}", "score": score, "at": now.isoformat()} for k, score in enumerate(scores)]
    again = service.post("predictions", {"rows": rows})["rows"]
    assert [(each["id"], each["probability"], each["status"]) for each in again] == [
        (id, probability, "repeated")
        for id, probability in zip(found["id"].to_pylist(), found["probability"].to_pylist(), strict=True)
    ]


def test_types_that_say_the_same_are_read() -> None:
    ids = ["a", "b"]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        for number in (pa.float64(), pa.float32(), pa.int8()):
            rows = read_rows(stream_of({"id": pa.array(ids, kind), "score": pa.array([0, 1], number)}), SETTINGS, 0, 9)
            assert [(row.text, row.score, row.key, row.at) for row in rows] == [
                ("a", 0.0, None, None), ("b", 1.0, None, None),
            ]  # fmt: skip


def test_ids_are_read_all_at_once_as_they_are_one_by_one() -> None:
    uuids = [str(UUID(int=k * 7**40 % 2**128)) for k in range(1, 30)]
    odd = ["g" + uuids[0][1:], uuids[0].replace("-", "_"), " " + uuids[0][1:], uuids[0][:-1], "é" * 18, "é" * 36]
    for texts in (uuids, [each.upper() for each in uuids], *([*uuids, each] for each in odd)):
        found = Columns(pa.array(texts), np.zeros(len(texts)), None, None)
        assert found.ids() == b"".join(map(id_bytes, texts))
        cut = Columns(pa.array(["first", *texts]).slice(1), np.zeros(len(texts)), None, None)
        assert cut.ids() == found.ids()


def test_rows_that_are_not_stored_are_answered_by_column_as_one_by_one() -> None:
    settings = Settings(horizon=60.0, mode="returned", silence="unknown")
    process: Any = SimpleNamespace(receipts=Receipts([KEY]), count=lambda *_: None)
    canary = CanaryMap(2, 5, None, 0.5, 9)
    now, texts = 10**15, [str(UUID(int=k)) for k in range(200)]
    at = [None if k % 2 else now - k for k in range(200)]
    times = pa.array(at, pa.timestamp("us", "UTC"))
    for tried in (None, canary):
        served = Served(1, "clicks", settings, 1, 1, MAP.to_json(), tried)
        asked = Asked(process, served, now, served.ages(now), stale=False)
        body = stream_of({"id": texts, "score": [k / 200 for k in range(200)], "at": times})
        columns = read_columns(body, settings, now, 200)
        rows = columns.rows()
        one_by_one = write_rows(rows, asyncio.run(predicted(asked, rows)), asked.ages, stale=False)
        assert _returned(asked, columns) == one_by_one
        answered = pa.ipc.open_stream(one_by_one).read_all()["version"].to_pylist()
        assert set(answered) == ({1} if tried is None else {1, 2})


WRONG: list[tuple[bytes, str]] = [
    (b"", "body"), (b"{}", "body"), (stream_of({"id": ["a"]}), "score"),
    (stream_of({"id": ["a"], "score": [0.5]})[:-40], "body"),
    (stream_of({"id": ["a"], "score": [0.5], "more": [1]}), "more"),
    (stream_of({"id": ["a"], "score": [0.5]}, "zstd"), "body"),
    (stream_of({"id": ["a"], "score": [0.5]}, "lz4"), "body"),
    (stream_of({"id": pa.array(["a"]).dictionary_encode(), "score": [0.5]}), "body"),
    (stream_of({"id": pa.array([], pa.string()), "score": pa.array([], pa.float64())}), "rows"),
    (stream_of({"id": [1], "score": [0.5]}), "id"), (stream_of({"id": ["a"], "score": ["0.5"]}), "score"),
    (stream_of({"id": ["a"], "score": [0.5], "at": [datetime(2026, 1, 1)]}), "at"),
    (stream_of({"id": ["a", None], "score": [0.5, 0.5]}), "rows[1].id"),
    (stream_of({"id": [""], "score": [0.5]}), "rows[0].id"),
    (stream_of({"id": ["a"], "score": [float("nan")]}), "rows[0].score"),
    (stream_of({"id": ["a"], "score": pa.array([None], pa.float64())}), "rows[0].score"),
    (stream_of({"id": ["a"], "score": [1.5]}), "rows[0].score"),
    (stream_of({"id": ["a"], "score": [0.5], "key": ["a\0"]}), "rows[0].key"),
    (stream_of({"id": ["a"], "score": [0.5], "at": [datetime(2020, 1, 1, tzinfo=UTC)]}), "rows[0].at"),
]  # fmt: skip


def test_what_is_wrong_is_refused(subtests: pytest.Subtests) -> None:
    for place, (body, argument) in enumerate(WRONG):
        with subtests.test(place=place), pytest.raises(Refusal) as refused:
            read_rows(body, SETTINGS, 10**15, 100)
        assert (refused.value.status, refused.value.argument) == (422, argument)


def test_batches_of_a_stream_count_together() -> None:
    columns = {"id": ["a"] * 60, "score": [0.5] * 60}
    assert len(read_rows(stream_of(columns), SETTINGS, 0, 100)) == 60
    with pytest.raises(Refusal) as refused:
        read_rows(stream_of(columns, batches=2), SETTINGS, 0, 100)
    assert refused.value.status == 413


def test_changed_bytes_do_no_harm() -> None:
    body = stream_of({"id": ["a", "b"], "score": [0.25, 0.5], "key": ["k", None]})
    for place in range(len(body)):
        for changed in (body[place] ^ 1, 255, 0):
            try:
                rows = read_rows(body[:place] + bytes([changed]) + body[place + 1 :], SETTINGS, 0, 100)
            except Refusal:
                continue
            assert all(0.0 <= row.score <= 1.0 and len(row.id) == 16 for row in rows)
