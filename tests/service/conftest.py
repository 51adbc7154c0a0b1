"""A PostgreSQL server for these tests, and an empty database for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from tests.engine.postgres import USER, Server
from tests.service.live_service import Running, config

from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import issue_token
from calibrant.service.store.migrate import connect, migrate

NUMBERS = count()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    options = ("-c", "fsync=on", "-c", "max_connections=50")  # the service refuses to start without fsync
    with Server(*options, in_memory=True) as running:
        yield running


@pytest.fixture
def address(server: Server) -> str:
    """Connection string of an empty database."""
    name = f"test{next(NUMBERS)}"
    with server.connect() as connection:
        connection.execute(f"create database {name}")
    return f"host={server.folder} user={USER} dbname={name}"


@pytest.fixture
def database(address: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with the schema."""
    connection = connect(address)
    migrate(connection)
    yield connection
    connection.close()


@pytest.fixture
def stream(database: psycopg.Connection) -> int:
    """A stream with a horizon of two seconds."""
    text = first_entry(Settings(horizon=2.0, silence="unknown", publish_rows=20, publish_seconds=1.0, alarm_level=1e-9))
    return int(database.execute("select create_stream('clicks', %s)", [text]).fetchone()[0])  # type: ignore[index]


@pytest.fixture
def token(database: psycopg.Connection) -> str:
    """A token for everything."""
    return issue_token(database, None, "tests", ("predict", "label", "read", "admin"))[1]


@pytest.fixture
def service(address: str, stream: int, token: str) -> Iterator[Running]:
    """The service with the stream ``clicks``, which is logged."""
    with Running(config(address), token) as running:
        yield running
