"""Slow clients, many connections, and more requests than can be served."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from tests.service.live_service import KEY, Running, config, wait_for
from tests.service.test_bodies import BODIES, batches, place, raw

from calibrant.service.api import bodies
from calibrant.service.api.serving import door
from calibrant.service.settings import Settings
from calibrant.service.store.streams import create_stream

CHILD = """
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
from calibrant.service.api.app import run
from calibrant.service.config import Config
run(Config.from_environment(), socket.socket(fileno=int(sys.argv[1])))
"""
HALF = b"GET /health HTTP/1.1\r\nHost: a\r\n"


def test_half_requests_do_not_use_up_the_files(address: str, stream: int) -> None:
    """140 connections with half a head each, in a process that may open 120 files."""
    with ExitStack() as held, socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = held.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", CHILD, str(listening.fileno())], pass_fds=[listening.fileno()],
                env={"CALIBRANT_DATABASE": address, "PYTHONPATH": ":".join(sys.path)}, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        held.callback(process.kill)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0, trust_env=False) as client:
            assert client.get("/ready").status_code == 200
        for _ in range(140):
            line = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            line.sendall(HALF)
        for _ in range(20):
            assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=5.0, trust_env=False).status_code == 200
        assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 100
        process.terminate()
        assert process.stderr is not None
        lines = process.stderr.read().splitlines()
    assert len(lines) < 20, lines[:20]


def test_a_head_that_does_not_end_is_waited_for_in_vain(
    service: Running, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(door, "HEAD_SECONDS", 0.5)
    answered = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    unread = b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1"
    for text, statuses in ((b"", []), (HALF, []), (answered + HALF, [b"200"]), (unread, [b"200"])):
        with subtests.test(text.decode()):
            assert [each[:3] for each in raw(service, text)] == statuses


def test_slow_bodies_are_refused_on_all_routes(
    service: Running, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    for method, path in [*BODIES, ("post", "/login")]:
        head = f"{method.upper()} {place(path)} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {service.token}\r\n"
        for length in ("Content-Length: 10\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
            with subtests.test(f"{method} {path} {length}"):
                assert [each[:3] for each in raw(service, (head + length).encode())] == [b"408"]


def request(service: Running, name: str, more: str = "") -> bytes:
    body = json.dumps({"id": name, "score": 0.5})
    head = f"POST /v1/streams/clicks/predict HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {service.token}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def test_requests_are_shed_when_the_event_loop_is_late(
    service: Running, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Those of the API alone, with an answer that says when to come again; the connection goes on."""
    monkeypatch.setattr(door, "FEW", 0)
    monkeypatch.setattr(door, "LATE_SECONDS", -1.0)
    plain, health = request(service, "a"), b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    chunked = plain.replace(b"Content-Length: 25", b"Transfer-Encoding: chunked")
    cases = {
        "in one piece": (plain + health, [b"503", b"200"]),
        "two": (plain + plain + health, [b"503", b"503", b"200"]),
        "in chunks": (chunked, [b"503"]),
        "to be closed": (request(service, "a", "Connection: close\r\n"), [b"503"]),
        "a probe": (health, [b"200"]),
        "two lengths": (request(service, "a", "Content-Length: 3\r\n") + health, [b"503"]),
        "no HTTP": (request(service, "a", "A b: 3\r\n"), [b"400"]),
    }
    for name, (text, statuses) in cases.items():
        with subtests.test(name):
            found = raw(service, text)
            assert [each[:3] for each in found] == statuses
            for each in found:
                if each.startswith(b"503"):
                    head, _, body = each.partition(b"\r\n\r\n")
                    assert json.loads(body)["error"]["code"] == "overload"
                    assert json.loads(body)["request_id"].encode() in head
                    assert f"content-length: {len(body)}".encode() in head
                    assert b"retry-after: 1" in head
    with subtests.test("in two pieces"), socket.create_connection(("127.0.0.1", service.port)) as line:
        end = plain.index(b"{")
        line.sendall(plain[: end + 3])
        assert line.recv(65_536).startswith(b"HTTP/1.1 503")
        line.sendall(plain[end + 3 :] + health)
        assert line.recv(65_536).startswith(b"HTTP/1.1 200")
    with subtests.test("counted"):
        assert service.process.counts["refused", "clicks", "overload"] == 7
        text = service.client.get("/metrics").text
        assert 'calibrant_events_total{kind="refused",stream="clicks",what="overload"} 7.0' in text


def test_what_is_more_than_can_be_served_is_shed(address: str, stream: int, token: str) -> None:
    """600 requests at once: the first are answered, others shed, and the service goes on."""

    async def ask(service: Running) -> tuple[Counter[int], float]:
        async def one(name: str) -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
            await all_open.wait()
            writer.write(request(service, name))
            status = int((await reader.readuntil(b"\r\n")).split()[1])
            writer.close()
            return status

        all_open = asyncio.Barrier(601)
        asked = [asyncio.create_task(one(str(k))) for k in range(600)]
        await all_open.wait()
        begun = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(HALF + b"\r\n")
        await reader.readuntil(b"alive")
        took = time.monotonic() - begun
        writer.close()
        return Counter(await asyncio.gather(*asked)), took

    with Running(config(address, receipt_keys=(KEY,)), token) as service:
        found, took = asyncio.run(ask(service))
        assert found[200] >= door.FEW
        assert found[503] > 0
        assert found[200] + found[503] == 600
        assert took < 5.0
        wait_for(lambda: service.post("predict", {"id": "after", "score": 0.5})["status"] in ("logged", "repeated"))


def test_no_body_holds_the_event_loop(
    service: Running, database: psycopg.Connection, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks for events the loop has little work, also with the largest bodies."""
    create_stream(database, None, "returned", Settings(horizon=60.0, mode="returned", silence="unknown"))
    held: list[float] = []
    look = door.Door.select

    def select(held_by: door.Door, timeout: float | None = None) -> Any:
        if held_by.looked:
            held.append(time.thread_time() - begun[0])
        found = look(held_by, timeout)
        begun[0] = time.thread_time()
        return found

    begun = [0.0]
    gc.freeze()  # what the tests have loaded is none of the service's garbage
    monkeypatch.setattr(door.Door, "select", select)
    rows = [{"id": str(UUID(int=k)), "score": k / 10_000} for k in range(10_000)]
    tensors = [
        {"name": "score", "shape": [10_000], "datatype": "FP64", "data": [row["score"] for row in rows]},
        {"name": "id", "shape": [10_000], "datatype": "BYTES", "data": [row["id"] for row in rows]},
    ]
    outcomes = json.dumps({"outcomes": [{"id": row["id"], "outcome": 1} for row in rows]}).encode()
    requests: list[tuple[str, bytes, str]] = [("/v1/streams/clicks/outcomes", outcomes, bodies.JSON)]
    for name in ("clicks", "returned"):
        requests += [
            (f"/v1/streams/{name}/predictions", json.dumps({"rows": rows}).encode(), bodies.JSON),
            (f"/v1/streams/{name}/predictions", batches(1_000, 10), bodies.ARROW),
            (f"/v2/models/{name}/infer", json.dumps({"inputs": tensors}).encode(), bodies.JSON),
        ]
    for path, body, kind in requests:
        service.client.get("/health")
        held.clear()
        assert service.client.post(path, content=body, headers={"Content-Type": kind}).status_code == 200
        assert max(held) < 0.1, (path, kind)
