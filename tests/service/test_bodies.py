"""Bodies on every route that takes one: media types, fields, names that come twice, lengths and numbers of rows."""

from __future__ import annotations

import copy
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.service.live_service import Running
from tests.service.test_openapi import DOCUMENT

from calibrant.service.api.arrow import MOST_BATCHES, read_columns
from calibrant.service.api.bodies import ARROW, FORM, JSON, VALUES, parse
from calibrant.service.api.errors import Refusal
from calibrant.service.settings import Settings

TENSOR = {"name": "score", "shape": [1], "datatype": "FP64", "data": [0.5]}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/v1/streams/{stream}/predict"): {"id": "a", "score": 0.5},
    ("post", "/v1/streams/{stream}/predictions"): {"rows": [{"id": "a", "score": 0.5}]},
    ("post", "/v1/streams/{stream}/outcomes"): {"outcomes": [{"id": "a", "outcome": 1}]},
    ("post", "/v2/models/{stream}/infer"): {"id": "a", "inputs": [TENSOR]},
    ("post", "/v1/streams"): {"name": "sales", "settings": {"horizon": 3.0, "silence": "negative"}},
    ("put", "/v1/streams/{stream}/settings"): {"horizon": 3.0},
    ("post", "/v1/streams/{stream}/erase"): {"id": "a"},
    ("post", "/v1/streams/{stream}/versions"): {"document": {}},
    ("post", "/v1/streams/{stream}/pin"): {"version": None},
    ("post", "/v1/streams/{stream}/gap"): {"was": "silent"},
    ("post", "/v1/streams/{stream}/canary"): {"version": None, "share": 0.0},
    ("post", "/v1/tokens"): {"name": "a", "scopes": ["read"]},
    ("post", "/v1/tokens/{number}/rotate"): {"overlap_seconds": 0.0},
}
"""A body that is right, for each route that takes JSON."""

FREE = {"version", "share", "overlap_seconds", "document"}
"""Objects that may have any field, or none."""

LOGIN = ("post", "/login")
TYPES = {
    JSON: {JSON}, f"{JSON}; charset=utf-8": {JSON}, "Application/JSON": {JSON}, ARROW: {ARROW},
    f"{ARROW}; v=1": {ARROW}, FORM: {FORM}, f"{FORM}; charset=utf-8": {FORM}, "a": set(), "text/plain": set(),
    "multipart/form-data; boundary=a": set(), "application/problem+json": set(), ";": {JSON, FORM}, "": {JSON, FORM},
}  # fmt: skip
"""What a header says, and the bodies that it is read as."""


def place(path: str) -> str:
    return path.replace("{stream}", "clicks").replace("{number}", "77")


def objects(document: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a document with their places, but those that may have any field."""
    if isinstance(document, dict):
        yield where, document
        for name, value in document.items():
            if name not in FREE:
                yield from objects(value, f"{where}.{name}" if where else name)
    elif isinstance(document, list):
        for k, value in enumerate(document):
            yield from objects(value, f"{where}[{k}]")


def test_the_bodies_are_those_of_all_routes() -> None:
    described = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods
                 if "requestBody" in methods[method]}  # fmt: skip
    assert described == set(BODIES)


def test_one_rule_for_media_types_on_all_routes(service: Running, subtests: pytest.Subtests) -> None:
    for (method, path), body in [*BODIES.items(), (LOGIN, None)]:
        taken = {FORM} if path == "/login" else {JSON, ARROW} if path.endswith("/predictions") else {JSON}
        for kind, read_as in TYPES.items():
            with subtests.test(f"{method} {path} {kind}"):
                found = service.client.request(
                    method, place(path), content=json.dumps(body), headers={"Content-Type": kind} if kind else {}
                )
                assert (found.status_code == 415) == (not read_as & taken), found.text
                if found.status_code == 415:
                    assert all(each in found.json()["error"]["fix"] for each in taken)
        with subtests.test(f"{method} {path} compressed"):
            sent = {"Content-Type": min(taken), "Content-Encoding": "gzip"}
            assert service.client.request(method, place(path), content=b"{}", headers=sent).status_code == 415


def test_fields_that_are_missing_or_not_known_are_named_on_all_routes(
    service: Running, subtests: pytest.Subtests
) -> None:
    needless = {"share", "overlap_seconds"}
    for (method, path), body in BODIES.items():
        for where, found in objects(body):
            names = [None, *(name for name in found if name not in needless and (path, name) != INFER_ID)]
            for name in names:
                changed = copy.deepcopy(body)
                inside = dict(objects(changed))[where]
                if name is not None:
                    del inside[name]
                inside["horizonn"] = 1
                with subtests.test(f"{method} {path} {where} {name}"):
                    answer = service.client.request(method, place(path), json=changed)
                    free = path == "/v2/models/{stream}/infer" and not where  # the protocol has further fields there
                    if free and name is None:
                        continue
                    assert answer.status_code == 422
                    error = answer.json()["error"]
                    assert free or "horizonn" in str(error)
                    if name is not None:
                        assert error["problem"] == "is missing"
                        assert error["argument"].endswith(name)


INFER_ID = ("/v2/models/{stream}/infer", "id")


def test_names_that_come_twice_are_refused_on_all_routes(service: Running, subtests: pytest.Subtests) -> None:
    for (method, path), body in BODIES.items():
        text = json.dumps(body)
        for where, found in objects(body):
            for name in found:
                field = f'"{name}": {json.dumps(found[name])}'
                assert field in text
                with subtests.test(f"{method} {path} {where} {name}"):
                    sent = text.replace(field, f"{field}, {field}")
                    answer = service.client.request(method, place(path), content=sent)
                    assert (answer.status_code, answer.json()["error"]["argument"]) == (422, name)


def test_names_of_streams_and_tokens_are_refused_in_words(service: Running, subtests: pytest.Subtests) -> None:
    settings = {"horizon": 3.0}
    for path, body in (
        ("/v1/streams", {"name": "A b", "settings": settings}),
        ("/v1/tokens", {"name": "-", "scopes": ["read"]}),
    ):
        with subtests.test(path):
            error = service.client.post(path, json=body).json()["error"]
            assert error["argument"] == "name"
            assert "letters" in error["problem"]
            assert "^" not in error["problem"]


def raw(service: Running, text: bytes) -> list[bytes]:
    """What comes back until the connection is closed, split into answers."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
        line.sendall(text)
        answer = b"".join(iter(lambda: line.recv(65_536), b""))
    return answer.split(b"HTTP/1.1 ")[1:]


def test_a_body_with_two_lengths_is_refused_and_ends_the_connection(
    service: Running, stream: int, subtests: pytest.Subtests
) -> None:
    hidden = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n"
    for path in (b"/v1/streams/clicks/predict", b"/login", b"/health"):
        head = b"POST " + path + b" HTTP/1.1\r\nHost: a\r\n"
        cases = {
            "length and chunks": head + b"Content-Length: 5\r\n" + chunked + b"\r\n0\r\n\r\n" + hidden,
            "chunks and length": head + chunked + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
            "two lengths": head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345" + hidden,
            "lengths in a list": head + b"Content-Length: 5, 6\r\n\r\n12345" + hidden,
            "a sign": head + b"Content-Length: +5\r\n\r\n12345" + hidden,
            "a space before the colon": head + b"Content-Length : 5\r\n\r\n12345" + hidden,
        }
        for name, text in cases.items():
            with subtests.test(f"{path.decode()} {name}"):
                answers = raw(service, text)
                assert [each[:3] for each in answers] == [b"400"]
        others = {
            "another coding": head + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden,
            "chunks that are wrong": head + chunked + b"\r\nzz\r\n12345\r\n0\r\n\r\n" + hidden,
        }
        for name, text in others.items():
            with subtests.test(f"{path.decode()} {name}"):
                assert b"alive" not in b"".join(raw(service, text))


def test_values_are_counted_before_a_body_is_read() -> None:
    rows = {"rows": [{"id": str(k), "score": 0.5} for k in range(200_000)]}
    for body in (json.dumps(rows).encode(), b'{"rows":[' + b"0," * 4_000_000 + b"0]}"):
        begun = time.process_time()
        with pytest.raises(Refusal) as refused:
            parse(body, 10_000)
        assert (refused.value.status, refused.value.code) == (413, "too-many-rows")
        assert time.process_time() - begun < 0.1
    assert parse(json.dumps({"a": "," * VALUES}).encode(), 1) == {"a": "," * VALUES}


def batches(n: int, rows: int) -> bytes:
    schema = pa.schema({"id": pa.string(), "score": pa.float64()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for k in range(n):
            writer.write_batch(pa.RecordBatch.from_pydict({"id": [str(k)] * rows, "score": [0.5] * rows}, schema))
    return bytes(sink.getvalue())


def test_batches_are_counted_also_empty_ones() -> None:
    settings = Settings(horizon=60.0, silence="negative")
    assert len(read_columns(batches(MOST_BATCHES, 1), settings, 0, 10_000)) == MOST_BATCHES
    for n, rows in ((MOST_BATCHES + 1, 1), (30_000, 0)):
        begun = time.process_time()
        body = batches(n, rows)
        begun = time.process_time()
        with pytest.raises(Refusal) as refused:
            read_columns(body, settings, 0, 10_000)
        assert refused.value.status == 413
        assert time.process_time() - begun < 0.5
