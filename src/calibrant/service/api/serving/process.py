"""One serving process: what it serves, what waits for a commit, and what it counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from starlette.concurrency import run_in_threadpool

from calibrant.service.api.serving.commits import (
    Answered,
    Committer,
    Outcome,
    Prediction,
    Recorded,
    append_outcomes,
    append_predictions,
)
from calibrant.service.api.serving.limits import Rates
from calibrant.service.api.serving.links import Link, UnavailableError, connect
from calibrant.service.api.serving.receipts import Receipts
from calibrant.service.api.serving.tracing import spans
from calibrant.service.api.serving.versions import (
    Served,
    forget,
    keep,
    kept,
    read_clock,
    read_served,
    read_whole,
    write_whole,
)
from calibrant.service.config import Config

LOG = logging.getLogger("calibrant.service")

TOKENS, TOKENS_SECONDS = "tokens.kept", 60.0
"""File of the tokens that are known, and how often the times of their lookups are written again."""

SOONEST = 0.1
"""Seconds between two looks for a stream that is not known."""


class Process:
    """What a serving process holds; made by :func:`calibrant.service.api.app.create_app`.

    Parameters
    ----------
    config
        Its configuration.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.receipts = Receipts(config.receipt_keys)
        self.rates = Rates(config.rate)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """Events by kind, stream and what became of them: ("predictions", "clicks", "logged")."""
        self.on_count: Callable[[str, str, str, int], None] | None = None
        """Called with each count, for metrics."""
        self.streams: dict[str, Served] = {}
        self.offset = 0
        """Clock of the database minus the clock of this machine, in microseconds."""
        self.is_draining = False
        self.reader = Link(config.database, config.commit_seconds)
        begin = spans(config.tracing)
        self.predictions: Committer[Prediction, Answered] = Committer(
            config.database, config.commit_seconds, append_predictions, config.queue_rows, begin
        )
        self.outcomes: Committer[Outcome, Recorded] = Committer(
            config.database, config.commit_seconds, append_outcomes, config.queue_rows, begin
        )
        self.known_tokens: Callable[[], list[dict[str, Any]]] = list
        """Digests of tokens that are known, for the local disk."""
        self._tokens_kept: tuple[set[str], float] = (set(), 0.0)
        self._looked = 0.0
        self._finding = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------------------------------ start and end

    async def start(self) -> None:
        """Load what is served; a database that is away does not stop it, one that may lose commits does."""
        if self.config.cache is not None and self.config.cache.is_dir():
            self.streams = await run_in_threadpool(kept, self.config.cache)
        try:
            await (await connect(self.config.database, self.config.commit_seconds)).close()
        except (psycopg.Error, TimeoutError, OSError):
            LOG.warning("started without database")
        await self._poll_once()
        self._tasks = [asyncio.create_task(self._poll())]

    async def stop(self) -> None:
        """End all tasks and connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in (self.reader, self.predictions, self.outcomes):
            await each.close()

    @property
    def is_up(self) -> bool:
        """Whether the database answered last time."""
        return self.reader.is_up and self.predictions.is_up and self.outcomes.is_up

    # ------------------------------------------------------------------------------------------------------- polling

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self.config.poll_seconds)
            try:
                await self._poll_once()
            except Exception:
                LOG.exception("poll failed")

    async def _poll_once(self) -> None:
        """Look for new versions, settings and streams, and connect again what was cut."""
        with contextlib.suppress(UnavailableError):
            await self.look()
            for committer in (self.predictions, self.outcomes):
                await committer.connect()

    async def look(self) -> None:
        """Read what all streams serve now."""
        before, begun = time.time_ns(), time.monotonic()
        clock = await self.reader.run(read_clock)
        self.offset = clock - (before + time.time_ns()) // 2_000
        known = self.streams
        found = await self.reader.run(lambda connection: read_served(connection, known))
        self.streams, self._looked = found, begun
        if self.config.cache is not None:
            await run_in_threadpool(self._keep, known, found)

    def _keep(self, known: dict[str, Served], found: dict[str, Served]) -> None:
        assert self.config.cache is not None  # the caller has asked
        try:
            for name, served in found.items():
                if known.get(name) != served or not (self.config.cache / f"{name}.json").exists():
                    keep(self.config.cache, served)
            for name in known.keys() - found.keys():
                forget(self.config.cache, name)
            self._keep_tokens(self.config.cache)
        except OSError:
            LOG.exception("cache not written")

    def _keep_tokens(self, folder: Path) -> None:
        """Write digests of tokens that are known: when there are other ones, and now and then."""
        tokens = self.known_tokens()
        which = {each["digest"] for each in tokens}
        now = time.monotonic()
        if which and (which != self._tokens_kept[0] or now > self._tokens_kept[1] + TOKENS_SECONDS):
            write_whole(folder / TOKENS, tokens)
            self._tokens_kept = (which, now)

    def kept_tokens(self) -> list[dict[str, Any]]:
        """The tokens that this or an earlier process has written to the local disk."""
        if self.config.cache is None or not (self.config.cache / TOKENS).exists():
            return []
        try:
            return list(read_whole(self.config.cache / TOKENS))
        except (OSError, ValueError, TypeError, KeyError):
            LOG.exception("kept tokens not readable")
            return []

    async def find(self, name: str) -> Served | None:
        """What a stream serves; one that is not known is looked for in the database, once for all that ask."""
        served = self.streams.get(name)
        if served is None:
            asked = time.monotonic()
            try:
                async with asyncio.timeout(self.config.commit_seconds), self._finding:
                    if self._looked < asked:  # a stream that was made before the request is found
                        await asyncio.sleep(self._looked + SOONEST - asked)
                        await self.look()
            except TimeoutError:
                raise UnavailableError from None
            served = self.streams.get(name)
        return served

    # ------------------------------------------------------------------------------------------------------- helpers

    def now(self) -> int:
        """The time of the database in microseconds, as far as it is known here."""
        return time.time_ns() // 1_000 + self.offset

    def count(self, kind: str, stream: str, what: str, n: int = 1) -> None:
        """Count events."""
        self.counts[kind, stream, what] += n
        if self.on_count is not None:
            self.on_count(kind, stream, what, n)

    def served(self, name: str) -> dict[str, Any]:
        """What a stream serves, for pages and metrics."""
        found = self.streams[name]
        return {
            "stream": found.stream, "settings": found.settings, "version": found.version,
            "age_seconds": found.ages(self.now())[found.version],
        }  # fmt: skip

    def log(self, event: str, **fields: Any) -> None:
        """A line for the log of the process."""
        LOG.info(event, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """One JSON object for each event of the log.

    Examples
    --------
    >>> record = logging.makeLogRecord({"levelname": "INFO", "msg": "started", "created": 0.0})
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "event": "started"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line; of an exception its kind and place, since its text may hold what a client sent."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        shown = {"time": f"{moment}.{int(record.created % 1 * 1_000):03d}Z", "level": record.levelname.lower()}
        shown |= {"event": record.getMessage()} | getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            shown["exception"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                shown["place"] = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
        return json.dumps(shown, default=str)
