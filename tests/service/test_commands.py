"""The commands of the service as processes: from an empty database to a stream that serves and learns."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from httpx import Client, TransportError

from calibrant.service.settings import Settings
from calibrant.service.store.access import digest_of, find_caller
from calibrant.service.store.migrate import connect, migrate
from calibrant.service.store.streams import create_stream

PATIENCE = 240.0


def environment(address: str) -> dict[str, str]:
    return os.environ | {"CALIBRANT_DATABASE": address, "COLUMNS": "200"}


def command(address: str, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "calibrant.cli", *words]
    return subprocess.run(line, capture_output=True, text=True, env=environment(address), check=False)


@contextmanager
def started(address: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until it is stopped; it must end well within a minute after the signal."""
    line = [sys.executable, "-m", "calibrant.cli", *words]
    process = subprocess.Popen(line, env=environment(address), stderr=subprocess.PIPE, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def test_a_token_is_printed_once_and_works(address: str, database: psycopg.Connection, stream: int) -> None:
    made = command(
        address, "token", "create", "--name", "ads", "--scope", "predict", "--stream", "clicks", "--days", "1"
    )
    assert made.returncode == 0, made.stderr
    found = find_caller(database, digest_of(made.stdout.strip()))
    assert found is not None
    assert (found.name, found.scopes, found.streams) == ("ads", {"predict"}, {"clicks"})
    listed = command(address, "token", "list", "--json")
    assert [each["name"] for each in json.loads(listed.stdout)] == ["ads"]
    assert made.stdout.strip() not in listed.stdout
    assert "clicks" in command(address, "token", "list").stdout
    rotated = command(address, "token", "rotate", "--number", "1", "--overlap", "0", "--json")
    assert find_caller(database, digest_of(made.stdout.strip())) is None
    assert find_caller(database, digest_of(json.loads(rotated.stdout)["token"])) is not None
    assert command(address, "token", "revoke", "--number", "2").returncode == 0
    assert find_caller(database, digest_of(json.loads(rotated.stdout)["token"])) is None


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_serving_is_said_when_requests_are_answered(address: str, database: psycopg.Connection, workers: str) -> None:
    port = free_port()
    with started(address, "serve", "--port", str(port), "--workers", workers) as process:
        assert process.stderr
        assert f"serving http://127.0.0.1:{port}" in next(line for line in process.stderr if "note:" in line)
        with Client(base_url=f"http://127.0.0.1:{port}", timeout=1.0) as client:
            assert client.get("/ready").status_code == 200


def test_the_process_that_watches_does_not_load_the_application(address: str, database: psycopg.Connection) -> None:
    code = """
import sys
from calibrant.cli.commands.service import workers
from calibrant.service.config import Config
workers._watch = lambda *_: print("psycopg" in sys.modules, "fastapi" in sys.modules)
workers.run_workers(Config.from_environment(port=0, workers=2))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(address))
    assert told.stdout == "True False\n", told.stderr


@pytest.mark.slow
def test_what_is_wrong_is_said_in_a_sentence(address: str, subtests: pytest.Subtests) -> None:
    cases = {
        ("token", "list"): "run calibrant migrate",
        ("token", "create", "--name", "a"): "--scope is missing",
        ("replay", "none"): "run calibrant migrate",
        ("serve", "--workers", "2"): "run calibrant migrate",
    }
    for words, told in cases.items():
        with subtests.test(" ".join(words)):
            done = command(address, *words)
            assert done.returncode == 1
            assert told in done.stderr
            assert "Traceback" not in done.stderr
    away = command(address.replace("dbname=", "dbname=not"), "migrate")
    assert (away.returncode, "does not answer" in away.stderr) == (1, True)
    forgets = command(f"{address} options='-c synchronous_commit=off'", "serve")
    assert (forgets.returncode, "synchronous_commit is off" in forgets.stderr) == (1, True)


@pytest.mark.slow
def test_from_an_empty_database_to_a_version_that_is_served(address: str) -> None:
    done = command(address, "migrate")
    assert done.returncode == 0, done.stderr
    assert command(address, "migrate").stdout == "the tables are up to date\n"
    scopes = [word for scope in ("predict", "label", "read", "admin") for word in ("--scope", scope)]
    secret = command(address, "token", "create", "--name", "all", *scopes).stdout.strip()
    port = free_port()
    headers = {"Authorization": f"Bearer {secret}"}
    with (
        started(address, "serve", "--port", str(port), "--workers", "2"),
        started(address, "learn", "--seconds", "0.1"),
        Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60.0) as client,
    ):
        end = time.monotonic() + PATIENCE
        while not _is_ready(client):
            assert time.monotonic() < end
            time.sleep(0.2)
        settings = {"horizon": 1.0, "silence": "negative", "publish_rows": 10, "publish_seconds": 1.0}
        assert client.post("/v1/streams", json={"name": "clicks", "settings": settings}).status_code == 201
        answers = []
        while client.get("/v1/streams/clicks/versions").json()["versions"] == []:
            assert time.monotonic() < end + PATIENCE
            rows = [{"id": f"{len(answers)}-{k}", "score": 0.1 + 0.08 * k} for k in range(10)]
            made = client.post("/v1/streams/clicks/predictions", json={"rows": rows})
            if made.status_code == 404:  # the process has not seen the stream yet
                time.sleep(0.2)
                continue
            answers.append(made.status_code)
            outcomes = [{"id": row["id"], "outcome": k % 2} for k, row in enumerate(rows)]
            assert client.post("/v1/streams/clicks/outcomes", json={"outcomes": outcomes}).status_code == 200
            time.sleep(0.2)
        assert set(answers) == {200}
    replayed = command(address, "replay", "clicks", "--from-start")
    assert replayed.returncode == 0, replayed.stderr + replayed.stdout
    assert "all are equal, bit for bit" in replayed.stdout
    with connect(address) as connection:
        connection.execute("update version set document = '{}' where number = 1")
    assert command(address, "replay", "clicks", "--from-start", "--json").returncode == 12


def _is_ready(client: Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except TransportError:
        return False


@pytest.mark.full
@pytest.mark.slow
def test_a_process_that_dies_is_replaced(address: str) -> None:
    with connect(address) as connection:
        migrate(connection)
        create_stream(connection, None, "clicks", Settings(horizon=60.0, silence="negative"))
    port = free_port()
    with started(address, "serve", "--port", str(port), "--workers", "2") as process:
        with Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            end = time.monotonic() + PATIENCE
            while not _is_ready(client):
                assert time.monotonic() < end
                time.sleep(0.2)
        for victim in _workers(process.pid):
            os.kill(victim, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while True:  # a new connection each time
            with Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
                if _is_ready(client):
                    break
            assert time.monotonic() < end
            time.sleep(0.2)


def _workers(parent: int) -> list[int]:
    """Processes that serve: children of the command, without the one that tracks resources."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
    assert len(found) == 2
    return found
