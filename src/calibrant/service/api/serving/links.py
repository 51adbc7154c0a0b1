"""Connections of the event loop to the database, made again when they break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from calibrant.messages import InputError
from calibrant.service.api.serving.arrays import register
from calibrant.service.store.migrate import BUSY, session

T = TypeVar("T")

LOG = logging.getLogger("calibrant.service")


class UnavailableError(Exception):
    """The database does not answer, or cannot commit."""


class Link:
    """One connection, for one use at a time.

    Parameters
    ----------
    address
        Connection string of PostgreSQL.
    seconds
        Longest time for connecting, and for one use.
    """

    def __init__(self, address: str, seconds: float) -> None:
        self.address, self.seconds = address, seconds
        self._connection: psycopg.AsyncConnection | None = None
        self._lock = asyncio.Lock()

    @property
    def is_up(self) -> bool:
        """Whether the last use went well."""
        return self._connection is not None

    async def run(self, use: Callable[[psycopg.AsyncConnection], Awaitable[T]]) -> T:
        """Use the connection; what goes wrong with it is an :class:`UnavailableError`, and ends it.

        Errors in the data that was sent are raised as they are: the connection is as good as before. So it is if a
        lock was not given in time.
        """
        try:
            async with self._lock, asyncio.timeout(self.seconds):
                if self._connection is None:
                    self._connection = await connect(self.address, self.seconds)
                return await use(self._connection)
        except (psycopg.DataError, psycopg.errors.NoDataFound):
            raise
        except BUSY as problem:
            LOG.warning("database busy", extra={"fields": {"problem": type(problem).__name__}})
            raise UnavailableError from problem
        except (psycopg.Error, TimeoutError, OSError, InputError) as problem:
            await self.close()
            LOG.warning("database away", extra={"fields": {"problem": type(problem).__name__}})
            raise UnavailableError from problem
        except BaseException:  # such as a task that is canceled in the middle of an answer
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def connect(address: str, seconds: float) -> psycopg.AsyncConnection:
    """A connection in autocommit mode whose commits are durable."""
    connection = await psycopg.AsyncConnection.connect(
        address, autocommit=True, connect_timeout=max(2, round(seconds)), application_name="calibrant serve"
    )
    register(connection)
    try:
        await connection.execute(session(0.8 * seconds, 0.9 * seconds))  # before the client gives up
        await check_durable(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def check_database(address: str, seconds: float) -> None:
    """Refuse a database without the tables, or one that may forget a commit; one that is away is not refused."""
    try:
        connection = await connect(address, seconds)
    except (psycopg.OperationalError, TimeoutError, OSError):
        return
    async with connection:
        await connection.execute("select number from migration limit 1")


async def check_durable(connection: psycopg.AsyncConnection) -> None:
    """Refuse a server that may forget a commit."""
    for name in ("fsync", "synchronous_commit"):
        row = await (await connection.execute("select current_setting(%s)", [name])).fetchone()
        if row == ("off",):
            raise InputError(name, "is off in PostgreSQL: a commit would not survive a crash", "turn it on")
