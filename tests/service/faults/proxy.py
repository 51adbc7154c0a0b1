"""A TCP proxy that can drop its connections in the middle of what they carry."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

RESET = struct.pack("ii", 1, 0)
"""Linger for no time: the other side sees a reset, not an end."""


class Proxy:
    """Listens on a port of its own; started on entry, ended on exit.

    Parameters
    ----------
    target
        A port of this machine, or the path of a Unix socket.
    """

    def __init__(self, target: int | str) -> None:
        self.target = target
        self.dropped = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()

    def __enter__(self) -> Self:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        self._end = asyncio.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
            self.port: int = server.sockets[0].getsockname()[1]
            started.set()
            await self._end.wait()
            server.close()
            self._drop()
            while self._tasks:
                await asyncio.wait(self._tasks)

        def run() -> None:
            self._loop.run_until_complete(serve())
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        started.wait(30.0)
        return self

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._both_ways(reader, writer)
        finally:
            self._tasks.discard(task)

    async def _both_ways(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if isinstance(self.target, int):
                inner = await asyncio.open_connection("127.0.0.1", self.target)
            else:
                inner = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.close()
            return
        both = {writer, inner[1]}
        self._open |= both
        await asyncio.gather(_copy(reader, inner[1]), _copy(inner[0], writer))
        self._open -= both

    def drop(self) -> None:
        """Reset all connections."""
        self._loop.call_soon_threadsafe(self._drop)

    def _drop(self) -> None:
        for each in list(self._open):
            inner = each.get_extra_info("socket")
            if inner is not None and inner.family == socket.AF_INET and not each.is_closing():
                inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                self.dropped += 1
            each.transport.abort()

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30.0)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
