"""Processes that serve one socket: started, watched, started again when one dies, and stopped together."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TYPE_CHECKING

from calibrant.cli import console
from calibrant.messages import InputError

if TYPE_CHECKING:
    from calibrant.service.config import Config

BACKLOG = 2_048
"""Connections that may wait to be accepted."""

SOONEST = 1.0
"""Seconds after the start of a process before another takes its place."""


def run_workers(config: Config) -> None:
    """Serve until a signal comes."""
    from calibrant.service.api.serving.links import check_database

    asyncio.run(check_database(config.database, config.commit_seconds))  # here, so that it is said in a sentence
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((config.host, config.port))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
            raise InputError("port", f"{config.port} is taken", "pass another one") from None
        door.listen(BACKLOG)

        def begun() -> None:
            console.note(f"serving http://{config.host}:{door.getsockname()[1]}")

        if config.workers == 1:
            _serve(config, door, begun)
            return
        with tempfile.TemporaryDirectory(prefix="calibrant-metrics-") as folder:
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)  # each process then answers for all
            _watch(config, door, begun)


def _serve(config: Config, door: socket.socket, begun: Callable[[], None]) -> None:
    """Serve in this process; what that needs is imported here, and not by the process that watches."""
    from calibrant.service.api.app import run

    run(config, door, begun)


def _watch(config: Config, door: socket.socket, say: Callable[[], None]) -> None:
    """Keep the processes running; a signal goes on to all of them."""
    context = multiprocessing.get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    stopping = is_ready = False
    started: dict[BaseProcess, float] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for process in started:
            if process.is_alive() and process.pid is not None:
                process.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    while started or not stopping:
        for process in [each for each in started if not each.is_alive()]:
            process.join()
            begun = started.pop(process)
            if not stopping:
                console.note(f"a process ended with {process.exitcode}, another one takes its place")
                time.sleep(max(0.0, begun + SOONEST - time.monotonic()))
        while len(started) < config.workers and not stopping:
            made = context.Process(target=_serve, args=(config, door, partial(tell.send_bytes, b"ready")))
            made.start()
            started[made] = time.monotonic()
        if told.poll(0.1):
            told.recv_bytes()
            if not is_ready:
                say()
            is_ready = True
