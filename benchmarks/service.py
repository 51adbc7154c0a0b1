"""The live service beside an empty handler of FastAPI on the same uvicorn: throughput, latency, batches.

    python benchmarks/service.py                  # the published table
    python benchmarks/service.py --quick          # one short round
    python benchmarks/service.py --batches        # the batches alone, beside a second of the empty handler

Client, servers and PostgreSQL (with ``fsync``, on the disk of the temporary folder) share the cores of one machine. The
rounds are interleaved: each measures every case once, for some seconds, one after the other. The empty handler gets the
same requests as a prediction, and answers ``{}`` without reading them. Throughput is that of a closed loop of 32
connections. Latency is that of an open loop: requests are due at random times (Poisson) at half the throughput of the
slowest case, and the time counts from when a request was due. Batches are sent on one connection, one after the other.
CPU is that of the serving process alone, for each request or row; it depends less on what else the machine does. The
client is Python on raw sockets and takes part of the same cores, so throughput is lower than with a client of its own
machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.engine.postgres import USER, Server

from calibrant.calibration import Calibration
from calibrant.maps import LogitAffineMap
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import issue_token
from calibrant.service.store.migrate import connect, migrate

CONNECTIONS = 32
BATCH = 10_000
REQUESTS = 4
"""Batches in a row, on one connection."""
EMPTY = """
import os, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/v1/streams/{stream}/predict")
async def empty() -> dict[str, str]:
    return {}
uvicorn.run(app, port=int(os.environ["CALIBRANT_PORT"]), log_config=None, access_log=False, server_header=False)
"""
SERVICE = """
from calibrant.service.api.app import Server
from calibrant.service.config import Config
Server(Config.from_environment()).run()
"""


# --- servers ----------------------------------------------------------------------------------------------------------


class Child:
    """A server in a process of its own."""

    def __init__(self, code: str, port: int, environment: dict[str, str]) -> None:
        self.port = port
        variables = os.environ | environment | {"CALIBRANT_PORT": str(port)}
        self.process = subprocess.Popen([sys.executable, "-c", code], env=variables)

    async def ready(self) -> None:
        end = time.monotonic() + 120
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                await asyncio.sleep(0.2)
            else:
                writer.close()
                return

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


# --- client -----------------------------------------------------------------------------------------------------------


class Client(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.buffer = b""
        self.waiting: asyncio.Future[bytes] | None = None
        self.need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waiting and not self.waiting.done():
            self.waiting.set_exception(ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.need < 0:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].lower()
            at = head.index(b"content-length:") + 15
            self.need = end + 4 + int(head[at : (head + b"\r").index(b"\r", at)])
        if len(self.buffer) >= self.need:
            answer, self.buffer, self.need = self.buffer, b"", -1
            assert self.waiting is not None
            self.waiting.set_result(answer)

    async def send(self, request: bytes) -> bytes:
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        answer = await self.waiting
        if not answer.startswith(b"HTTP/1.1 200") or b"unlogged" in answer:
            raise RuntimeError(answer[:500].decode())
        return answer


async def clients(port: int, n: int) -> list[Client]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(n)]


async def closed_loop(port: int, n: int, request: Callable[[], bytes], seconds: float) -> tuple[int, float]:
    """Requests that were answered, and the time that they took."""
    opened = await clients(port, n)
    begun = time.perf_counter()
    end = begun + seconds

    async def one(client: Client) -> int:
        done = 0
        while time.perf_counter() < end:
            await client.send(request())
            done += 1
        return done

    total = sum(await asyncio.gather(*(one(each) for each in opened)))
    took = time.perf_counter() - begun
    for each in opened:
        each.transport.close()
    return total, took


async def open_loop(port: int, request: Callable[[], bytes], rate: float, seconds: float) -> list[float]:
    """Latency of requests that are due at random times."""
    free = await clients(port, 256)
    every = list(free)
    latencies: list[float] = []
    rng = random.Random(1)
    begun = due = time.perf_counter()
    tasks = set()

    async def one(due: float) -> None:
        while not free:
            await asyncio.sleep(0.001)
        client = free.pop()
        await client.send(request())
        latencies.append(time.perf_counter() - due)
        free.append(client)

    while due < begun + seconds:
        due += rng.expovariate(rate)
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for each in every:
        each.transport.close()
    return latencies


# --- requests ---------------------------------------------------------------------------------------------------------


def post(path: str, token: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def single(stream: str, token: str) -> Callable[[], bytes]:
    return lambda: post(f"/v1/streams/{stream}/predict", token, b'{"id":"%s","score":0.3141}' % str(uuid4()).encode())


def json_batch(stream: str, token: str) -> Callable[[], bytes]:
    def request() -> bytes:
        rows = [{"id": str(uuid4()), "score": k / BATCH} for k in range(BATCH)]
        return post(f"/v1/streams/{stream}/predictions", token, json.dumps({"rows": rows}).encode())

    return request


def arrow_batch(stream: str, token: str) -> Callable[[], bytes]:
    def request() -> bytes:
        columns = {"id": [str(uuid4()) for _ in range(BATCH)], "score": [k / BATCH for k in range(BATCH)]}
        batch = pa.RecordBatch.from_pydict(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        body = bytes(sink.getvalue())
        return post(f"/v1/streams/{stream}/predictions", token, body, "application/vnd.apache.arrow.stream")

    return request


def outcome_batch(stream: str, token: str) -> Callable[[], bytes]:
    def request() -> bytes:
        rows = [{"id": str(uuid4()), "outcome": k % 2} for k in range(BATCH)]
        return post(f"/v1/streams/{stream}/outcomes", token, json.dumps({"outcomes": rows}).encode())

    return request


def made_before(request: Callable[[], bytes], n: int) -> Callable[[], bytes]:
    """Requests that are made before the clock starts; an error if more are asked for."""
    made = [request() for _ in range(n)]
    return made.pop


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Case:
    """What is measured, by the rounds."""

    name: str
    per_second: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)


async def measure(case: Case, child: Child, rows: int, run: Callable[[], Awaitable[tuple[int, float]]]) -> None:
    cpu = child.cpu()
    done, took = await run()
    case.per_second.append(done * rows / took)
    case.cpu.append((child.cpu() - cpu) / (done * rows) * 1e6)


async def main(rounds: int, seconds: float, *, batches: bool = False) -> None:
    with Server("-c", "fsync=on", "-c", "max_connections=50") as server:
        address = f"host={server.folder} user={USER} dbname=postgres"
        with connect(address) as database:
            migrate(database)
            modes: dict[str, Settings] = {
                "returned": Settings(horizon=3_600.0, mode="returned", silence="unknown"),
                "logged": Settings(horizon=3_600.0, silence="negative"),
            }
            for name, settings in modes.items():
                row = database.execute("select create_stream(%s, %s)", [name, first_entry(settings)]).fetchone()
                assert row is not None
                map_ = Calibration(LogitAffineMap(0.8, -0.1)).to_json()
                database.execute("insert into version values (%s, 1, 1, 1, %s)", [row[0], map_])
                database.execute("insert into promotion values (%s, 1, 0, 1, 'published')", [row[0]])
            token = issue_token(database, None, "benchmark", ("predict", "label"))[1]
        environment = {
            "CALIBRANT_DATABASE": address, "CALIBRANT_RECEIPT_KEYS": bytes(range(32)).hex(),
            "CALIBRANT_QUEUE_ROWS": "100000", "CALIBRANT_COMMIT_SECONDS": "120",
        }  # fmt: skip
        empty, service = Child(EMPTY, 18_431, {}), Child(SERVICE, 18_432, environment)
        try:
            await empty.ready()
            await service.ready()
            await report(empty, service, token, rounds, seconds, only_batches=batches)
        finally:
            empty.stop()
            service.stop()


async def report(empty: Child, service: Child, token: str, rounds: int, seconds: float, *, only_batches: bool) -> None:
    singles = {
        Case("empty handler"): (empty, single("logged", token)),
        Case("predict, returned"): (service, single("returned", token)),
        Case("predict, logged"): (service, single("logged", token)),
    }
    batches = {
        Case("Arrow, returned"): arrow_batch("returned", token), Case("Arrow, logged"): arrow_batch("logged", token),
        Case("JSON, returned"): json_batch("returned", token), Case("JSON, logged"): json_batch("logged", token),
        Case("outcomes"): outcome_batch("logged", token),
    }  # fmt: skip
    if only_batches:
        singles = dict(list(singles.items())[:1])
    for child, request in singles.values():  # not counted
        await closed_loop(child.port, CONNECTIONS, request, 1.0)
    for _ in range(rounds):
        for case, (child, request) in singles.items():
            await measure(
                case, child, 1, lambda c=child, r=request: closed_loop(c.port, CONNECTIONS, r, seconds)  # type: ignore[misc]
            )  # fmt: skip
    slowest = min(statistics.median(case.per_second) for case in singles)
    for _ in range(rounds):
        for case, (child, request) in singles.items():
            found = sorted(await open_loop(child.port, request, slowest / 2, seconds))
            case.p50.append(found[len(found) // 2] * 1e3)
            case.p99.append(found[int(len(found) * 0.99)] * 1e3)
    for _ in range(rounds):
        for case, request in batches.items():
            ready = made_before(request, REQUESTS)

            async def run(ready: Callable[[], bytes] = ready) -> tuple[int, float]:
                (client,) = await clients(service.port, 1)
                begun = time.perf_counter()
                for _ in range(REQUESTS):
                    await client.send(ready())
                took = time.perf_counter() - begun
                client.transport.close()
                return REQUESTS, took

            await measure(case, service, BATCH, run)
    show(list(singles), list(batches), slowest, rounds, seconds)


def show(singles: list[Case], batches: list[Case], slowest: float, rounds: int, seconds: float) -> None:
    load = os.getloadavg()[0]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.0f} at the end (other jobs included)"
    )
    print(f"{rounds} rounds of {seconds:g} s, medians over rounds; ratios to the empty handler are of the same round\n")
    print(f"{'one row':<20}{'requests/s':>12}{'ratio':>8}{'CPU, us':>10}{'p50, ms':>10}{'p99, ms':>10}{'ratio':>8}")
    base = singles[0]
    for case in singles:
        speed = statistics.median(a / b for a, b in zip(case.per_second, base.per_second, strict=True))
        slower = statistics.median(a / b for a, b in zip(case.p99, base.p99, strict=True))
        middle = statistics.median
        print(
            f"{case.name:<20}{middle(case.per_second):>12,.0f}{speed:>8.2f}{middle(case.cpu):>10.0f}"
            f"{middle(case.p50):>10.1f}{middle(case.p99):>10.1f}{slower:>8.2f}"
        )
    print(f"latency at {slowest / 2:,.0f} requests/s\n")
    print(f"{f'batches of {BATCH:,}':<20}{'rows/s':>12}{'best':>12}{'CPU, us':>10}")
    for case in batches:
        middle = statistics.median
        print(
            f"{case.name:<20}{middle(case.per_second):>12,.0f}{max(case.per_second):>12,.0f}{middle(case.cpu):>10.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", action="store_true")
    options = parser.parse_args()
    seconds = 1.0 if options.batches else 4.0
    asyncio.run(main(1, 2.0) if options.quick else main(options.rounds, seconds, batches=options.batches))
