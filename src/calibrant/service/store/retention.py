"""What is removed from the log: days that are no longer needed, ids that must go; and epochs after a restore."""

from __future__ import annotations

import logging
from datetime import date
from uuid import UUID

import psycopg

LOG = logging.getLogger("calibrant.service")


def drop_days(connection: psycopg.Connection) -> list[date]:
    """Drop the days of the log that no stream needs.

    Parameters
    ----------
    connection
        A connection in autocommit mode.

    Returns
    -------
    list of date
        Days whose part of the log is gone. A stream keeps a day for its ``retention_days``, and until its rows are
        released, learned and forgotten and a state is stored after them. Ids of the day are free again. If this fails
        for a stream, it keeps its days, and the log of the process says so.
    """
    found: list[date] = []
    warned: set[str | None] = set()
    connection.add_notice_handler(listen := lambda notice: warned.add(notice.message_primary))
    try:
        while gone := connection.execute("select drop_days()").fetchall():  # one day in each transaction
            found += [day for (day,) in gone]
    finally:
        connection.remove_notice_handler(listen)
        for each in warned:
            LOG.warning("days not dropped", extra={"fields": {"problem": each}})
    return found


def erase(connection: psycopg.Connection, stream: int, id: UUID) -> int:
    """Begin to erase an id; the learner removes it from the log and from stored states.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    stream
        Number of the stream.
    id
        The id as the log has it.

    Returns
    -------
    int
        Position of the entry: once the stream is learned up to it, the id is gone.
    """
    return _number(connection, "select erase_id(%s, %s)", [stream, id])


def erase_entries(
    connection: psycopg.Connection, stream: int, fence: int, up_to: int, erased: UUID, instead: UUID
) -> None:
    """Replace an id in the log up to a position, by the learner that holds the fence."""
    connection.execute("select erase_entries(%s, %s, %s, %s, %s)", [stream, fence, up_to, erased, instead])


def raise_epoch(connection: psycopg.Connection) -> int:
    """Begin a new epoch, after the database was restored from a backup.

    Parameters
    ----------
    connection
        A connection of the owner of the schema.

    Returns
    -------
    int
        The epoch. Versions published in it have numbers that were not used before the restore.
    """
    return _number(connection, "select raise_epoch()", [])


def check_epoch(connection: psycopg.Connection) -> int:
    """The epoch; a new one begins if the database is on another server or timeline than when it was seen last."""
    return _number(connection, "select check_epoch()", [])


def _number(connection: psycopg.Connection, call: str, values: list[object]) -> int:
    row = connection.execute(call, values).fetchone()
    assert row is not None  # a function returns a row
    return int(row[0])
