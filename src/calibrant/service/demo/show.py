"""Run everything of the demo in one process, besides PostgreSQL, until Ctrl-C."""

from __future__ import annotations

import logging
import secrets
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from socket import create_server
from socket import socket as Socket
from types import FrameType

import numpy as np

from calibrant.messages import InputError
from calibrant.service.api.app import Server
from calibrant.service.config import Config
from calibrant.service.demo.database import ThrowAway
from calibrant.service.demo.past import DAYS, write_past
from calibrant.service.demo.traffic import BREAK_SECONDS, ROWS, Traffic
from calibrant.service.demo.worlds import HORIZON, WORLDS
from calibrant.service.learning.loop import LearnerLoop
from calibrant.service.store.access import issue_token
from calibrant.service.store.migrate import connect, migrate

SEED = 2026
FIRST_PORT = 8_000

TEXT = """
The demo is running. Open

    {address}/login

and paste this token:

    {token}

Two streams get {rows} predictions a second each, with outcomes up to {horizon:.0f} seconds late. The {days} days before
were simulated for the pictures over time. In about {seconds:.0f} seconds, outcomes of "payments" change abruptly: its
alarm comes once enough of the new outcomes are learned.
Ctrl-C ends the demo and removes its database.
"""


def run(port: int | None = None) -> None:
    """Show the service with synthetic models, until a signal to stop comes.

    Parameters
    ----------
    port
        Where to listen on this machine; by default 8000, or any free one if that is taken.
    """
    logging.basicConfig(level=logging.WARNING)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)  # also while the database is prepared, so that it is removed
    with _listen(port) as door, tempfile.TemporaryDirectory(prefix="calibrant-demo-") as folder:
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        _say("Starting PostgreSQL in a temporary folder ...\n")
        with ThrowAway() as database:
            token = _prepare(database.address)
            config = Config(
                database=database.address, receipt_keys=(secrets.token_bytes(32),), cache=Path(folder),
                port=door.getsockname()[1], drain_seconds=0.0,
            )  # fmt: skip
            stop = threading.Event()
            threads = [threading.Thread(target=LearnerLoop(database.address).run, args=[stop])]
            for seed, world in enumerate(WORLDS):
                threads.append(threading.Thread(target=Traffic(address, token, world, seed).run, args=[stop]))
            for each in threads:
                each.start()
            _say(TEXT.format(
                address=address, token=token, rows=ROWS, horizon=HORIZON, days=DAYS, seconds=BREAK_SECONDS
            ))  # fmt: skip
            try:
                _Server(config, stop).run(sockets=[door])
            finally:
                stop.set()
                for each in threads:
                    each.join()


class _Server(Server):
    """The server of the demo: a signal ends the traffic first, which would wait for answers that do not come."""

    def __init__(self, config: Config, stop: threading.Event) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop all."""
        if not self._stop.is_set():
            _say("Stopping, and removing the database ...\n")
        self._stop.set()
        super().handle_exit(sig, frame)


def _prepare(address: str) -> str:
    """The schema, the past and a token."""
    with connect(address) as connection:
        migrate(connection)
        _say(f"Writing and learning {DAYS} days of the past ...\n")
        for number, world in enumerate(WORLDS):
            write_past(connection, world, time.time_ns() // 1_000, np.random.default_rng([SEED, number]))
        return issue_token(connection, None, "demo", ("predict", "label", "read", "admin"))[1]


def _listen(port: int | None) -> Socket:
    """A socket on this machine."""
    try:
        return create_server(("127.0.0.1", FIRST_PORT if port is None else port))
    except OSError:
        if port is None:
            return create_server(("127.0.0.1", 0))
        raise InputError("port", f"{port} is taken", "pass another one") from None


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
