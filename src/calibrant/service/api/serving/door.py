"""The door of a process: open connections, the time that a client may take, and requests that are shed at overload."""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import time
from collections.abc import Callable, Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LATE_SECONDS = 0.02  # a request that is read after the event loop has been busy for longer is shed
FEW = 64  # while fewer requests are inside, nothing is shed
HEAD_SECONDS = 10.0  # from the opening of a connection, or its last answer, to the end of the next head
ACCEPTED = 16  # connections that are accepted at once
SPARE_FILES = 96  # files that are not connections of clients, and connections that are about to be closed

HEAD = re.compile(rb"[A-Z]+ /v[12]/(?:streams/)?([^ /?\r\n]*)[^ \r\n]* HTTP/1\.[01]\r\n(?:[!-9;-~]+:[^\r\n]*\r\n)*\r\n")
FRAMING = re.compile(
    rb"\r\n(?!connection: *keep-alive\r)(?:content-length: *(\d{1,12}(?=\r))|"
    rb"(?:content-length|transfer-encoding|expect|connection):)", re.IGNORECASE,
)  # fmt: skip
ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\ncontent-length: 144\r\n"
    b'x-request-id: %b\r\n\r\n{"error":{"code":"overload","argument":null,"problem":"too many requests came at once",'
    b'"fix":"try again later"},"request_id":"%b"}'
)


class Door(selectors.DefaultSelector):
    """What the connections of a process share; it is the selector of the event loop, to know when that looked last.

    Parameters
    ----------
    most
        Connections that may be open at once; fewer if the process may open fewer files.
    count
        Called with the stream of each request that is shed.
    """

    def __init__(self, most: int, count: Callable[[str], None]) -> None:
        super().__init__()
        files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1
        self.most = most if files < 0 else min(most, max(8, files - SPARE_FILES))
        self.count, self.looked = count, 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events."""
        found = super().select(timeout)
        self.looked = time.monotonic()
        return found


class Connection(H11Protocol):
    """A connection of HTTP/1.1, read by h11.

    Parameters
    ----------
    door
        What it shares with the others.
    given
        What uvicorn passes.
    """

    def __init__(self, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self.door, self.since, self.left = door, time.monotonic(), 0  # left: bytes to come of what was shed

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; if too many are open, close those that have waited longest for their client."""
        super().connection_made(transport)
        if len(self.connections) > self.door.most:
            opened = [each for each in list[Any](self.connections) if not each.transport.is_closing()]
            waiting = [each for each in opened if each.conn.their_state in (h11.IDLE, h11.SEND_BODY)]
            for each in sorted(waiting, key=lambda each: each.since)[: max(1, len(waiting) // 16)]:
                each.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since = time.monotonic()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Read what came; shed requests if the event loop is late, but those for probes and pages."""
        if self.left:
            self.left, data = max(0, self.left - len(data)), data[self.left :]
        if (
            len(self.tasks) >= FEW
            and time.monotonic() - self.door.looked > LATE_SECONDS
            and self.conn.their_state is h11.IDLE
            and not self.conn.trailing_data[0]
        ):
            while found := HEAD.match(data):
                data = self._shed(found, data)
        if data:
            super().data_received(data)

    def _shed(self, found: re.Match[bytes], data: bytes) -> bytes:
        """Refuse the first request, whose head was found, without reading it; the data after it is left."""
        self.door.count(found[1].decode("latin-1"))
        id = os.urandom(8).hex().encode()
        self.transport.write(ANSWER % (id, id))
        lengths = FRAMING.findall(found[0])
        if len(lengths) > 1 or b"" in lengths:  # where the request ends is not plain, or the client wants no other one
            self.transport.close()
            return b""
        self._unset_keepalive_if_required()
        self.since, end = time.monotonic(), found.end() + sum(map(int, lengths))
        self.left = max(0, end - len(data))
        return data[end:]


def close_slow(connections: Iterable[Any]) -> None:
    """Close the connections whose client takes too long for a head; a body is timed where it is read."""
    latest = time.monotonic() - HEAD_SECONDS
    for each in list(connections):
        if each.since < latest and (each.cycle is None or each.cycle.response_complete):
            each.transport.close()
