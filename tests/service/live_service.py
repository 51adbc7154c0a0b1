"""The service in this process: uvicorn in a thread, on a port of its own, with a client that has a token."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import replace
from typing import Any, Self

import httpx

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
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.server = Server(replace(self.config, port=self.port))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()
        wait_for(lambda: self.server.started or not self.thread.is_alive())
        if not self.server.started:
            self.socket.close()
            raise RuntimeError("the service did not start")
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=PATIENCE, trust_env=False
        )
        return self

    @property
    def process(self) -> Process:
        """What the serving process holds."""
        found: Process = self.server.config.app.state.service  # type: ignore[union-attr]
        return found

    def __exit__(self, *exception: object) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        self.socket.close()

    def post(self, path: str, document: Any, status: int = 200) -> Any:
        """Send JSON to a path below the stream ``clicks``, and return the JSON that comes back."""
        answer = self.client.post(f"/v1/streams/clicks/{path}", content=json.dumps(document))
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()


def wait_for(condition: Any) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
