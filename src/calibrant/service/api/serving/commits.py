"""Group commit: rows that come while a commit is under way are committed together by the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import psycopg

from calibrant.service.api.serving.arrays import Floats, Integers, Longs, Smalls, Texts, Uuids, encoded
from calibrant.service.api.serving.links import Link, UnavailableError
from calibrant.service.api.serving.tracing import Spans, no_span

R = TypeVar("R")
A = TypeVar("A")

Prediction = tuple[bytes, float, str | None, int | None, int, float]
"""Id, score, key, time, version, probability."""

Outcome = tuple[
    bytes | None, int | None, int | None, float | None, str | None, int | None, int | None, float | None, bool
]
"""Id, label, time; of a receipt: score, key, time of the prediction, version, probability; whether it is looked up.
Without an id: word of the feed that all outcomes of rows due up to the time were sent."""

Answered = tuple[int, float, int]
"""What was found (0: new, 1: the same, 2: another content), probability, version."""

Recorded = int
"""Position of an outcome; its negative if the id was looked up, and no prediction with it is logged."""

GROUP_ROWS = 10_000
"""Rows of one commit, unless a single request has more."""

LINKS = 4
"""Commits that may be under way at once, each of another stream."""

PREDICTIONS = "select found, answer, by_version from append_predictions(%s, %b, %b, %b, %b, %b, %b)"
OUTCOMES = "select last, unknown from log_outcomes(%s, %b, %b, %b, %b, %b, %b, %b, %b, %b)"


PREDICTION_COLUMNS = (Uuids, Floats, Texts, Longs, Integers, Floats)
OUTCOME_COLUMNS = (Uuids, Smalls, Longs, Floats, Texts, Longs, Integers, Floats)


class BusyError(Exception):
    """Too many rows wait."""


class Committer(Generic[R, A]):
    """Commits rows in groups, those of each stream in order.

    A request waits until its rows are committed. While a commit is under way, further requests of its stream gather;
    the next commit takes all of them. So the number of commits adapts to what the disk can do, and a single request
    waits for at most one commit of its stream before its own. Streams that commit at the same time have connections of
    their own, up to :data:`LINKS`, so that one which waits for a lock does not delay the others.

    Parameters
    ----------
    address
        Connection string of PostgreSQL.
    seconds
        Longest time from the arrival of a request to its answer.
    append
        Commits rows of a stream, and returns an answer for each.
    queue_rows
        Rows that may wait.
    begin
        Begins a span: each commit is one.
    """

    def __init__(
        self,
        address: str,
        seconds: float,
        append: Callable[[psycopg.AsyncConnection, int, Sequence[R]], Awaitable[Sequence[A]]],
        queue_rows: int,
        begin: Spans = no_span,
    ) -> None:
        self.seconds, self.append, self.queue_rows, self.begin = seconds, append, queue_rows, begin
        self.rows = 0
        self.is_up = False
        """Whether the last commit, or the last look at the database, went well."""
        self._links = [Link(address, seconds) for _ in range(LINKS)]
        self._free = list(self._links)
        self._waiting: dict[int, deque[tuple[Sequence[R], asyncio.Future[Sequence[A]]]]] = {}
        self._ready: deque[int] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self) -> None:
        """Connect again, unless it is connected."""
        if not self.is_up and self._free:
            await self._free[-1].run(lambda connection: connection.execute("select"))
            self.is_up = True

    async def close(self) -> None:
        """End all commits and connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self._links:
            await link.close()

    async def commit(self, stream: int, rows: Sequence[R]) -> Sequence[A]:
        """Wait until rows are committed, and return their answers.

        Raises :class:`BusyError` if too many rows wait, and :class:`UnavailableError` if the commit failed, took too
        long, or nobody knows whether it did.
        """
        if not self.is_up:
            raise UnavailableError
        if self.rows and self.rows + len(rows) > self.queue_rows:
            raise BusyError
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[A]] = loop.create_future()
        self.rows += len(rows)
        if stream not in self._waiting:
            self._waiting[stream] = deque()
            self._ready.append(stream)
            if self._free:
                task = loop.create_task(self._work(self._free.pop()))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._waiting[stream].append((rows, future))
        end = loop.call_later(self.seconds, _fail, [(rows, future)], UnavailableError())
        try:
            return await future
        finally:
            end.cancel()

    async def _work(self, link: Link) -> None:
        """Commit the groups of streams in turn, until none waits; of one stream only one at a time."""
        try:
            while self._ready:
                stream = self._ready.popleft()
                await self._next_group(link, stream)
                if self._waiting[stream]:
                    self._ready.append(stream)  # now behind the other streams
                else:
                    del self._waiting[stream]
        finally:
            self._free.append(link)

    async def _next_group(self, link: Link, stream: int) -> None:
        """One commit of a stream; requests whose time is over are left out."""
        requests, group, n = self._waiting[stream], [], 0
        while requests and (not n or n + len(requests[0][0]) <= GROUP_ROWS):
            rows, future = requests.popleft()
            self.rows -= len(rows)
            if not future.done():
                group.append((rows, future))
                n += len(rows)
        if group:
            await self._commit(link, stream, group)

    async def _commit(
        self, link: Link, stream: int, group: list[tuple[Sequence[R], asyncio.Future[Sequence[A]]]]
    ) -> None:
        rows = group[0][0] if len(group) == 1 else [row for part, _ in group for row in part]
        try:
            with self.begin(self.append.__name__) as span:
                if span is not None:
                    span.set_attribute("calibrant.rows", len(rows))
                answers = await link.run(lambda connection: self.append(connection, stream, rows))
        except psycopg.DataError as problem:
            if len(group) == 1:
                _fail(group, problem)
                return
            for each in group:  # one of them is wrong: the others shall not fail with it
                await self._commit(link, stream, [each])
        except UnavailableError as problem:  # what waits behind this group fails with it
            _fail(group, problem)
            for behind in [stream] if link.is_up else self._waiting:
                _fail(self._waiting[behind], problem)
            if not link.is_up:
                self.is_up = False
                for other in list(self._free):  # they may have broken with this one
                    await other.close()
        except Exception as problem:
            _fail(group, problem)
        except BaseException:
            _fail(group, UnavailableError())
            raise
        else:
            start = 0
            for part, future in group:
                if not future.done():
                    future.set_result(answers[start : start + len(part)])
                start += len(part)


def _fail(group: Iterable[tuple[Any, asyncio.Future[Any]]], problem: Exception) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(problem)


async def append_predictions(
    connection: psycopg.AsyncConnection, stream: int, rows: Sequence[Prediction]
) -> Sequence[Answered]:
    """Log predictions, each id once, in one transaction."""
    columns = encoded(zip(*rows, strict=True), PREDICTION_COLUMNS)
    cursor = await connection.execute(PREDICTIONS, [stream, *columns], binary=True)
    return await cursor.fetchall()


async def append_outcomes(
    connection: psycopg.AsyncConnection, stream: int, rows: Sequence[Outcome]
) -> Sequence[Recorded]:
    """Log outcomes in one transaction."""
    *values, looked_up = zip(*rows, strict=True)
    places = Integers.of([place for place, each in enumerate(looked_up, 1) if each])
    columns = encoded(values, OUTCOME_COLUMNS)
    row = await (await connection.execute(OUTCOMES, [stream, *columns, places], binary=True)).fetchone()
    assert row is not None  # a function returns a row
    last, unknown = row
    positions = list(range(last - len(rows) + 1, last + 1))
    for place in unknown:
        positions[place - 1] *= -1
    return positions
