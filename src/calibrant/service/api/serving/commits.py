"""Group commit: rows that come while a commit is under way are committed together by the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import psycopg

from calibrant.service.api.serving.arrays import Floats, Integers, Longs, Smalls, Texts, Uuids, encoded
from calibrant.service.api.serving.links import Link, UnavailableError
from calibrant.service.api.serving.tracing import Spans, no_span

R = TypeVar("R")
A = TypeVar("A")

Prediction = tuple[bytes, float, str | None, int | None, int, float]
"""Id, score, key, time, version, probability."""

Outcome = tuple[bytes, int, int | None, float | None, str | None, int | None, int | None, float | None]
"""Id, label, time; of a receipt: score, key, time of the prediction, version, probability."""

Answered = tuple[int, float, int]
"""What was found (0: new, 1: the same, 2: another content), probability, version."""

GROUP_ROWS = 10_000
"""Rows of one commit, unless a single request has more."""

PREDICTIONS = "select found, answer, by_version from append_predictions(%s, %b, %b, %b, %b, %b, %b)"
OUTCOMES = "select append_outcomes(%s, %b, %b, %b, %b, %b, %b, %b, %b)"


PREDICTION_COLUMNS = (Uuids, Floats, Texts, Longs, Integers, Floats)
OUTCOME_COLUMNS = (Uuids, Smalls, Longs, Floats, Texts, Longs, Integers, Floats)


class BusyError(Exception):
    """Too many rows wait."""


class Committer(Generic[R, A]):
    """Commits rows in groups on one connection.

    A request waits until its rows are committed. While a commit is under way, further requests gather; the next commit
    takes all of them that belong to one stream. So the number of commits adapts to what the disk can do, and a single
    request waits for at most one commit before its own.

    Parameters
    ----------
    link
        A connection of its own.
    append
        Commits rows of a stream, and returns an answer for each.
    queue_rows
        Rows that may wait.
    begin
        Begins a span: each commit is one.
    """

    def __init__(
        self,
        link: Link,
        append: Callable[[psycopg.AsyncConnection, int, Sequence[R]], Awaitable[Sequence[A]]],
        queue_rows: int,
        begin: Spans = no_span,
    ) -> None:
        self.link, self.append, self.queue_rows, self.begin = link, append, queue_rows, begin
        self.rows = 0
        self._waiting: dict[int, deque[tuple[Sequence[R], asyncio.Future[Sequence[A]]]]] = {}
        self._work = asyncio.Event()

    async def commit(self, stream: int, rows: Sequence[R]) -> Sequence[A]:
        """Wait until rows are committed, and return their answers.

        Raises :class:`BusyError` if too many rows wait, and :class:`UnavailableError` if the commit failed or nobody
        knows whether it did.
        """
        if not self.link.is_up:
            raise UnavailableError
        if self.rows and self.rows + len(rows) > self.queue_rows:
            raise BusyError
        future: asyncio.Future[Sequence[A]] = asyncio.get_running_loop().create_future()
        self.rows += len(rows)
        self._waiting.setdefault(stream, deque()).append((rows, future))
        self._work.set()
        return await future

    async def work(self) -> None:
        """Commit for ever; a task of the process."""
        while True:
            await self._work.wait()
            while self._waiting:
                await self._next_group()
            self._work.clear()

    async def _next_group(self) -> None:
        """One commit, of the stream whose turn it is."""
        stream = next(iter(self._waiting))
        requests = self._waiting.pop(stream)
        group = [requests.popleft()]
        n = len(group[0][0])
        while requests and n + len(requests[0][0]) <= GROUP_ROWS:
            group.append(requests.popleft())
            n += len(group[-1][0])
        if requests:
            self._waiting[stream] = requests  # now behind the other streams
        self.rows -= n
        await self._commit(stream, group)

    async def _commit(self, stream: int, group: list[tuple[Sequence[R], asyncio.Future[Sequence[A]]]]) -> None:
        rows = group[0][0] if len(group) == 1 else [row for part, _ in group for row in part]
        try:
            with self.begin(self.append.__name__) as span:
                if span is not None:
                    span.set_attribute("calibrant.rows", len(rows))
                answers = await self.link.run(lambda connection: self.append(connection, stream, rows))
        except psycopg.DataError as problem:
            if len(group) == 1:
                _fail(group, problem)
                return
            for each in group:  # one of them is wrong: the others shall not fail with it
                await self._commit(stream, [each])
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


def _fail(group: list[tuple[Any, asyncio.Future[Any]]], problem: Exception) -> None:
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


async def append_outcomes(connection: psycopg.AsyncConnection, stream: int, rows: Sequence[Outcome]) -> Sequence[int]:
    """Log outcomes in one transaction, and return the position of each."""
    columns = encoded(zip(*rows, strict=True), OUTCOME_COLUMNS)
    row = await (await connection.execute(OUTCOMES, [stream, *columns], binary=True)).fetchone()
    assert row is not None  # a function returns a row
    last = int(row[0])
    return range(last - len(rows) + 1, last + 1)
