"""The service in this process: uvicorn in a thread, on a port of its own, with a client that has a token."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Self

import httpx
import uvicorn
from fastapi import FastAPI

from calibrant.service.api.app import Server
from calibrant.service.api.serving.process import Process
from calibrant.service.config import Config

PATIENCE = 180.0
KEY = bytes(range(32))


def config(address: str, **options: Any) -> Config:
    """A configuration for tests: one receipt key, fast polls and no waiting at the end."""
    wanted: dict[str, Any] = {"receipt_keys": (KEY,), "poll_seconds": 0.1, "drain_seconds": 0.0} | options
    return Config(database=address, **wanted)


class Running:
    """Started on entry, stopped on exit; ``client`` sends the token.

    Parameters
    ----------
    wanted
        Configuration; the port is chosen here.
    token
        Sent by the client.
    """

    def __init__(self, wanted: Config, token: str) -> None:
        self.config, self.token = wanted, token

    def __enter__(self) -> Self:
        door = socket.create_server(("127.0.0.1", 0))
        self.port = door.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = Server(replace(self.config, port=self.port))
        self.client = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=PATIENCE, trust_env=False
        )
        with ExitStack() as held:
            self.thread = held.enter_context(in_thread(self.server, door))
            held.enter_context(self.client)
            self.held = held.pop_all()
        return self

    @property
    def process(self) -> Process:
        """What the serving process holds."""
        found: Process = self.server.config.app.state.service  # type: ignore[union-attr]
        return found

    def __exit__(self, *exception: object) -> None:
        self.held.close()

    def post(self, path: str, document: Any, status: int = 200) -> Any:
        """Send JSON to a path below the stream ``clicks``, and return the JSON that comes back."""
        answer = self.client.post(f"/v1/streams/clicks/{path}", content=json.dumps(document))
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """Serve an application without the service's own server, and give its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
    door = socket.create_server(("127.0.0.1", 0))
    with in_thread(server, door):
        yield f"http://127.0.0.1:{door.getsockname()[1]}"


@contextmanager
def in_thread(server: uvicorn.Server, door: socket.socket) -> Iterator[threading.Thread]:
    """Run a server in a thread, on an open socket that is closed at the end."""
    with door:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            wait_for(lambda: server.started or not thread.is_alive())
            if not server.started:
                raise RuntimeError("the service did not start")
            yield thread
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


def wait_for(condition: Any) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
