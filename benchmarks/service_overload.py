"""The live service at more than it can do: an open loop at 0.5, 1, 2 and 4 times the capacity of one process.

    python benchmarks/service_overload.py            # the published table
    python benchmarks/service_overload.py --quick    # one short run

The serving process has one core, and client and PostgreSQL (with ``fsync``) the other one. In each run the capacity is
measured first, by a closed loop of 32 connections. Then requests are due at random times (Poisson) at each multiple of
it, whatever became of the others, on 512 connections. The time of an answer counts from when its request was due.
Meanwhile ``/health`` is asked ten times a second. What is accepted is answered with 200; all others must be 503 with
``Retry-After``. Memory is what the serving process has in use at the end of each load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.service import SERVICE, Child, Client, closed_loop, single
from tests.engine.postgres import USER, Server

from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import issue_token
from calibrant.service.store.migrate import connect, migrate

LOADS = (0.5, 1.0, 2.0, 4.0)
PORT = 18_433
CONNECTIONS = 512
MODES = {
    "returned": Settings(horizon=3_600.0, mode="returned", silence="unknown"),
    "logged": Settings(horizon=3_600.0, silence="unknown"),
}


class Load(NamedTuple):
    """What was found at one load."""

    accepted: float
    """Answers a second."""
    shed: float
    p50: float
    p99: float
    health: float
    """Longest time of ``/health``, in seconds."""
    memory: float
    """MiB."""
    other: int
    """Answers that are neither accepted nor shed with ``Retry-After``."""


class Any(Client):
    """A connection that takes any answer."""

    async def send(self, request: bytes) -> bytes:
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiting


async def open_any(port: int) -> Any:
    return (await asyncio.get_running_loop().create_connection(Any, "127.0.0.1", port))[1]


async def load(child: Child, request: Callable[[], bytes], rate: float, seconds: float) -> Load:
    """An open loop at a rate."""
    free = [await open_any(child.port) for _ in range(CONNECTIONS)]
    every = list(free)
    latencies: list[float] = []
    health: list[float] = []
    shed = other = 0
    rng = random.Random(1)
    tasks: set[asyncio.Task[None]] = set()
    begun = due = time.perf_counter()

    async def one(due: float) -> None:
        nonlocal shed, other
        while not free:
            await asyncio.sleep(0.001)
        client = free.pop()
        answer = await client.send(request())
        free.append(client)
        if answer.startswith(b"HTTP/1.1 200"):
            latencies.append(time.perf_counter() - due)
        elif answer.startswith(b"HTTP/1.1 503") and b"retry-after:" in answer.lower():
            shed += 1
        else:
            other += 1

    async def probe() -> None:
        while not ends.is_set():
            at = time.perf_counter()
            client = await open_any(child.port)
            await client.send(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            health.append(time.perf_counter() - at)
            client.transport.close()
            await asyncio.sleep(0.1)

    ends = asyncio.Event()
    probing = asyncio.create_task(probe())
    while due < begun + seconds:
        due += rng.expovariate(rate)
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    ends.set()
    await probing
    took = time.perf_counter() - begun
    for client in every:
        client.transport.close()
    latencies.sort()
    found = [latencies[int(len(latencies) * q)] * 1e3 for q in (0.5, 0.99)]
    return Load(len(latencies) / took, shed / took, found[0], found[1], max(health), memory(child), other)


def memory(child: Child) -> float:
    """MiB that a process has in use."""
    pages = int(Path(f"/proc/{child.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def main(runs: int, seconds: float, pinned: bool) -> dict[str, list[list[Load]]]:
    """All modes; the loads of each run."""
    cores = sorted(os.sched_getaffinity(0))
    if pinned:
        os.sched_setaffinity(0, cores[:1])  # PostgreSQL and the client; the service moves
    found: dict[str, list[list[Load]]] = {mode: [] for mode in MODES}
    with Server("-c", "fsync=on", "-c", "max_connections=50") as server:
        address = f"host={server.folder} user={USER} dbname=postgres"
        with connect(address) as database:
            migrate(database)
            for name, settings in MODES.items():
                database.execute("select create_stream(%s, %s)", [name, first_entry(settings)])
            token = issue_token(database, None, "benchmark", ("predict", "label"))[1]
        keys = {"CALIBRANT_DATABASE": address, "CALIBRANT_RECEIPT_KEYS": bytes(range(32)).hex()}
        child = Child(SERVICE, PORT, keys)
        if pinned:
            os.sched_setaffinity(child.process.pid, cores[-1:])
        try:
            await child.ready()
            for _ in range(runs):
                for mode in MODES:
                    request = single(mode, token)
                    await closed_loop(child.port, 32, request, seconds / 4)  # not counted
                    done, took = await closed_loop(child.port, 32, request, seconds)
                    found[mode].append([await load(child, request, times * done / took, seconds) for times in LOADS])
        finally:
            child.stop()
    return found


def show(found: dict[str, list[list[Load]]], seconds: float) -> None:
    """The table."""
    runs = len(found["logged"])
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f} at the end")
    print(f"{runs} runs of {seconds:g} s for each load; medians over runs, of /health and memory the largest\n")
    heads = ("accepted/s", "shed/s", "p50, ms", "p99, ms", "/health, s", "MiB", "other")
    print(f"{'':<10}{'load':>6}" + "".join(f"{name:>12}" for name in heads))
    for mode, results in found.items():
        for k, times in enumerate(LOADS):
            loads = [each[k] for each in results]
            middle = [statistics.median(values) for values in zip(*loads, strict=True)]
            most = [max(values) for values in zip(*loads, strict=True)]
            print(
                f"{mode:<10}{times:>6g}{middle[0]:>12,.0f}{middle[1]:>12,.0f}{middle[2]:>12.1f}{middle[3]:>12.1f}"
                f"{most[4]:>12.2f}{most[5]:>12.0f}{most[6]:>12.0f}"
            )
        kept = statistics.median(each[3].accepted / each[1].accepted for each in results)
        slower = statistics.median(each[3].p99 / each[0].p99 for each in results)
        print(f"{mode}: at 4, {kept:.0%} of the answers accepted at 1; p99 {slower:.1f} times that at 0.5\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--free", action="store_true", help="processes are not pinned to cores")
    options = parser.parse_args()
    runs, seconds = (1, 2.0) if options.quick else (5, 4.0)
    show(asyncio.run(main(runs, seconds, not options.free)), seconds)
