"""Migrations: numbered SQL files, each run once in its own transaction, under a lock."""

from __future__ import annotations

from importlib.resources import files

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool

SCHEMA = "calibrant"
"""Schema of all tables."""

LOCK = 0x63616C69
"""Advisory lock of those who migrate; with the number of a stream, that of the stream's learner."""

AWAY = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
"""Errors after which waiting may help: the database is away, is a standby, or a statement took too long."""

BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
"""Those of a statement that waited too long; the connection is as good as before."""

LONG_SECONDS = 3_600.0
"""Longest statement of a migration or a learner."""


def migrations() -> dict[int, str]:
    """The text of each migration by its number, in order."""
    folder = files("calibrant.service.store") / "migrations"
    found = {int(each.name[:4]): each.read_text() for each in folder.iterdir() if each.name.endswith(".sql")}
    return dict(sorted(found.items()))


def migrate(connection: psycopg.Connection) -> list[int]:
    """Bring the schema to the newest number; several processes may try at once.

    Parameters
    ----------
    connection
        A connection of the owner of the schema, in autocommit mode.

    Returns
    -------
    list
        The numbers of the migrations that ran now.
    """
    ran = []
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(SCHEMA)))
        # Temporary tables come last, so that none takes the place of a table in a function with the owner's rights.
        connection.execute(sql.SQL("set local search_path to {}, pg_temp").format(sql.Identifier(SCHEMA)))
        connection.execute("create table if not exists migration (number integer primary key, at timestamptz)")
        done = {number for (number,) in connection.execute("select number from migration").fetchall()}
        for number, text in migrations().items():
            if number not in done:
                connection.execute(text)
                connection.execute("insert into migration values (%s, now())", [number])
                ran.append(number)
        connection.execute((files("calibrant.service.store") / "roles.sql").read_text())
    return ran


def open_pool(address: str, size: int = 2, seconds: float = 10.0) -> ConnectionPool:
    """A pool of connections as :func:`connect` makes them, for what is asked now and then.

    Parameters
    ----------
    address
        A connection string of PostgreSQL.
    size
        Largest number of connections; none is kept open while it is not used for some minutes.
    seconds
        Longest statement. To wait for a lock takes half of that at most; to wait for a connection a quarter, and at
        most 2 seconds, before ``psycopg_pool.PoolTimeout`` is raised.

    Returns
    -------
    psycopg_pool.ConnectionPool
        Open; close it at the end.
    """
    # A connection that began while the database was read-only can stay so; it is replaced after a minute.
    return ConnectionPool(
        address, min_size=0, max_size=size, timeout=min(2.0, seconds / 4), max_lifetime=60.0,
        kwargs={"autocommit": True}, configure=lambda connection: _configure(connection, seconds / 2, seconds),
        check=ConnectionPool.check_connection, open=True,
    )  # fmt: skip


def connect(address: str, lock_seconds: float = 30.0) -> psycopg.Connection:
    """A connection in autocommit mode whose names are those of the service.

    Parameters
    ----------
    address
        A connection string of PostgreSQL.
    lock_seconds
        Longest wait for a lock.

    Returns
    -------
    psycopg.Connection
        Transactions are asked for where they are needed.
    """
    connection = psycopg.connect(address, autocommit=True)
    _configure(connection, lock_seconds, LONG_SECONDS)
    return connection


def session(lock_seconds: float, seconds: float) -> sql.Composed:
    """What every connection says first: where the tables are, and how long a lock and a statement may take."""
    times = [sql.Literal(round(1_000 * each)) for each in (lock_seconds, seconds)]
    text = "set search_path to {}; set lock_timeout to {}; set statement_timeout to {}"
    return sql.SQL(text).format(sql.Identifier(SCHEMA), *times)


def _configure(connection: psycopg.Connection, lock_seconds: float, seconds: float) -> None:
    connection.execute(session(lock_seconds, seconds))
