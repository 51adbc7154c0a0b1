"""The application: routes, limits on bodies, request ids and logs, start and end."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from socket import socket as Socket
from types import FrameType

import uvicorn
from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from calibrant.service.api import access, admin, errors, health, inference, metrics, outcomes, pages, predict
from calibrant.service.api.bodies import DRAINED
from calibrant.service.api.serving.door import ACCEPTED, Connection, Door, close_slow
from calibrant.service.api.serving.process import LOG, JsonLines, Process
from calibrant.service.api.serving.tracing import Spans, no_span, spans
from calibrant.service.config import Config
from calibrant.service.store.migrate import open_pool

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""A request id of a client that is taken as it is."""

POOL_SIZE = 4
"""Connections of pages, tokens and administration."""

BACKLOG = 2_048  # connections that may wait to be accepted

GRACEFUL_SECONDS = 30
"""Longest time for which open requests are waited for at the end."""


def create_app(config: Config) -> FastAPI:
    """The service as an application of ASGI.

    Parameters
    ----------
    config
        Configuration of the process.

    Returns
    -------
    FastAPI
        To be run by uvicorn, or by :func:`run`. ``app.state.service`` is the :class:`Process`.

    Examples
    --------
    >>> app = create_app(Config(database="dbname=calibrant"))
    >>> app.title
    'Calibrant'
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = process = Process(config)
        process.on_count = app.state.metrics.count
        pool = open_pool(config.database, POOL_SIZE, config.commit_seconds)
        app.state.access = access.Access(pool)
        app.state.access.restore(process.kept_tokens())
        process.known_tokens = app.state.access.known
        try:
            await process.start()
            yield
        finally:
            await process.stop()
            await asyncio.to_thread(pool.close)

    app = FastAPI(
        title="Calibrant", summary="Calibrated probabilities of a live model", version="1", lifespan=lifespan,
        docs_url=None, redoc_url=None, openapi_url="/openapi.json",
    )  # fmt: skip
    errors.install(app)
    for each in (health, predict, outcomes, inference, admin, access, metrics, pages):
        app.include_router(each.router)
    app.state.metrics = metrics.Metrics()
    begin = spans(config.tracing)
    app.add_middleware(Envelope, largest=config.body_bytes, observe=app.state.metrics.observe, begin=begin)
    return app


class Envelope:
    """Gives each request an id, refuses bodies that are far too large, and logs what was answered.

    A body that says that it is larger than :func:`calibrant.service.api.bodies.read_body` reads is refused at once; one
    that waits for leave to be sent (``Expect``) if it is larger than the limit.

    The log has method, route, status and time; never a path, a query or a body, which may hold ids.

    Parameters
    ----------
    app
        The application inside.
    largest
        Bytes of the largest body.
    observe
        Takes route, status and seconds of each request.
    begin
        Begins a span.
    """

    def __init__(
        self, app: ASGIApp, largest: int, observe: Callable[[str, int, float], None], begin: Spans = no_span
    ) -> None:
        self.app, self.largest, self.observe, self.begin = app, largest, observe, begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self.begin(scope["method"]) as span:
            status = await self._serve(scope, receive, send)
            if span is not None:
                span.update_name(f"{scope['method']} {_route(scope)}")
                span.set_attribute("http.response.status_code", status)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Serve one request, and return its status."""
        given = length = expect = chunked = b""
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                given = value
            elif name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                chunked = value
            elif name == b"expect":
                expect = value
        id = given if REQUEST_ID.fullmatch(given) else os.urandom(8).hex().encode()
        scope.setdefault("state", {})["request_id"] = id.decode()
        begun, status = time.perf_counter(), 0

        async def answer(event: Message) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                event["headers"] = [*event["headers"], (b"x-request-id", id)]
            await send(event)

        if length and chunked:  # a proxy that believes the length would take the rest for another request
            await self._refuse(scope, receive, answer, 400, "framing", "has two lengths")
        elif length and (not length.isdigit() or int(length) > self.largest * (1 if expect else DRAINED)):
            await self._refuse(scope, receive, answer, 413, "too-large", f"has more than {self.largest:,} bytes")
        else:
            await self.app(scope, receive, answer)
        seconds = time.perf_counter() - begun
        self.observe(_route(scope), status, seconds)
        level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.WARNING
        if LOG.isEnabledFor(level):
            fields = {"method": scope["method"], "route": _route(scope), "status": status, "request_id": id.decode()}
            fields["seconds"] = round(seconds, 6)
            LOG.log(level, "request", extra={"fields": fields})
        return status

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, code: str, problem: str
    ) -> None:  # fmt: skip
        fix = "send less at once" if status == 413 else "send no Transfer-Encoding"
        refusal = errors.Refusal(status, code, "body", problem, fix, {"Connection": "close"})  # the body is not read
        await errors.answer(Request(scope), refusal)(scope, receive, send)


def _route(scope: Scope) -> str:
    """The path of the route with names in place of values."""
    return str(getattr(scope.get("route"), "path", "none"))


# ------------------------------------------------------------------------------------------------------------- running


class Server(uvicorn.Server):
    """A server that drains: after a signal ``/ready`` says no for a while, then open requests are finished.

    A second signal ends the waiting.

    Parameters
    ----------
    config
        Configuration of the process.
    begun
        Called when requests are answered.
    """

    def __init__(self, config: Config, begun: Callable[[], None] = lambda: None) -> None:
        app = create_app(config)
        self.door = Door(config.connections, self._count_shed)
        super().__init__(
            uvicorn.Config(
                app, host=config.host, port=config.port, log_config=None, access_log=False, server_header=False,
                timeout_graceful_shutdown=GRACEFUL_SECONDS, ws="none", backlog=ACCEPTED,
                http=partial(Connection, self.door),  # type: ignore[arg-type]  # called as the class is
            )
        )  # fmt: skip
        self._app, self._seconds, self._until = app, config.drain_seconds, math.inf
        self._begun = begun

    def run(self, sockets: list[Socket] | None = None) -> None:
        """Serve until a signal comes, on an event loop that the door watches."""
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(self.door)) as runner:
            runner.run(self.serve(sockets))

    async def startup(self, sockets: list[Socket] | None = None) -> None:
        """Begin to listen, and say so; connections that are not accepted at once may queue."""
        await super().startup(sockets)
        if self.started:
            for each in self.servers[0].sockets:
                with each.dup() as door:
                    door.listen(BACKLOG)
            self._begun()

    def _count_shed(self, stream: str) -> None:
        process: Process = self._app.state.service
        process.count("refused", stream if stream in process.streams else "", "overload")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain."""
        process: Process | None = getattr(self._app.state, "service", None)
        if process is None or process.is_draining:
            self._until = 0.0
        else:
            process.is_draining = True
            self._until = time.monotonic() + self._seconds

    async def on_tick(self, counter: int) -> bool:
        """Stop when the time is over; once a second, close the connections of slow clients."""
        if counter % 10 == 0:
            close_slow(self.server_state.connections)
        if time.monotonic() >= self._until:
            self.should_exit = True
        return await super().on_tick(counter)


def run(config: Config, socket: Socket | None = None, begun: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal comes, with a log of JSON lines.

    Parameters
    ----------
    config
        Configuration of the process.
    socket
        One that listens, such as one that several processes share; by default the host and port of the configuration.
    begun
        Called when requests are answered.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    gc.freeze()  # what was loaded stays: to look at it again and again would hold requests for a tenth of a second
    Server(config, begun).run(sockets=None if socket is None else [socket])
