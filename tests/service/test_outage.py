"""The database goes away and comes back: what is answered meanwhile, and what is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.engine.postgres import USER, Server
from tests.service.live_service import Running, config, wait_for
from tests.service.test_predict import MAP, promote

from calibrant.messages import InputError
from calibrant.service.api.serving import links
from calibrant.service.api.serving.process import Process
from calibrant.service.api.serving.versions import Served, keep, kept
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import issue_token, new_secret
from calibrant.service.store.migrate import connect, migrate, open_pool

SCOPES = ("predict", "label")


@pytest.fixture
def own() -> Iterator[tuple[Server, str]]:
    """A server of one test, and the address of a database in it."""
    with Server("-c", "fsync=on", in_memory=True) as running:
        yield running, f"host={running.folder} user={USER} dbname=postgres"


def prepared(address: str, settings: Settings) -> str:
    """A schema with the stream ``clicks``, whose version 1 is served; a token."""
    with connect(address) as database:
        migrate(database)
        row = database.execute("select create_stream('clicks', %s)", [first_entry(settings)]).fetchone()
        assert row is not None
        promote(database, row[0], 1)
        return issue_token(database, None, "tests", SCOPES)[1]


@pytest.mark.slow
def test_predictions_go_on_without_the_database(own: tuple[Server, str], tmp_path: Path) -> None:
    server, address = own
    token = prepared(address, Settings(horizon=60.0, silence="unknown"))
    with Running(config(address, cache=tmp_path / "cache", commit_seconds=2.0), token) as running:
        assert running.post("predict", {"id": "a", "score": 0.25})["status"] == "logged"
        server.stop()
        found = running.post("predict", {"id": "b", "score": 0.25})
        assert (found["status"], found["version"], found["probability"]) == ("unlogged", 1, MAP.scorer()(0.25))
        assert running.process.counts["predictions", "clicks", "unlogged"] == 1
        refused = running.client.post("/v1/streams/clicks/outcomes", json={"outcomes": [{"id": "a", "outcome": 1}]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database")
        assert int(refused.headers["retry-after"]) > 0
        ready = running.client.get("/ready")
        assert (ready.status_code, ready.json()["database"]) == (200, False)
        server.start()
        wait_for(lambda: running.process.is_up)
        assert running.post("predict", {"id": "a", "score": 0.25})["status"] == "repeated"
        sent = [{"id": "a", "outcome": 1}, {"id": "b", "outcome": 0, "receipt": found["receipt"]}]
        assert running.post("outcomes", {"outcomes": sent})["accepted"] == 2
        wait_for(lambda: (tmp_path / "cache" / "tokens.kept").exists())
        assert token not in (tmp_path / "cache" / "tokens.kept").read_text()
        server.stop()
    assert kept(tmp_path / "cache")["clicks"].version == 1
    with Running(config(address, cache=tmp_path / "cache", commit_seconds=1.0), token) as again:  # began without it
        assert again.client.get("/ready").json() == {"status": "ready", "database": False}
        found = again.post("predict", {"id": "c", "score": 0.25})  # the token is known from the local disk
        assert (found["status"], found["version"], found["probability"]) == ("unlogged", 1, MAP.scorer()(0.25))
        other = {"Authorization": f"Bearer {new_secret()}"}
        assert again.client.post("/v1/streams/clicks/predict", headers=other, json={}).status_code in (401, 503)


@pytest.mark.slow
def test_a_closed_stream_refuses_without_the_database(own: tuple[Server, str]) -> None:
    server, address = own
    token = prepared(address, Settings(horizon=60.0, silence="negative", outage="closed"))
    with Running(config(address, commit_seconds=2.0), token) as running:
        running.post("predict", {"id": "a", "score": 0.25})
        server.stop()
        answer = running.client.post("/v1/streams/clicks/predict", json={"id": "b", "score": 0.25})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database")
        assert int(answer.headers["retry-after"]) > 0


def test_commits_that_may_be_lost_are_refused_at_the_start(database: psycopg.Connection, address: str) -> None:
    name = database.info.dbname
    database.execute(f"alter database {name} set synchronous_commit = off")
    with pytest.raises(InputError, match="synchronous_commit is off"):
        asyncio.run(Process(config(address)).start())


def test_a_server_without_fsync_is_refused_at_the_start() -> None:
    with Server(in_memory=True) as server, pytest.raises(InputError, match="fsync is off"):
        asyncio.run(Process(config(f"host={server.folder} user={USER} dbname=postgres")).start())


def test_an_old_version_is_flagged_or_refused(database: psycopg.Connection, address: str, token: str) -> None:
    for name, stale in (("clicks", "flag"), ("strict", "refuse")):
        settings = Settings.of({"horizon": 60.0, "silence": "negative", "stale_seconds": 100.0, "stale": stale})
        row = database.execute("select create_stream(%s, %s)", [name, first_entry(settings)]).fetchone()
        assert row is not None
        promote(database, row[0], 1)
    with Running(config(address), token) as running:
        assert running.post("predict", {"id": "a", "score": 0.25})["stale"] is True
        answer = running.client.post("/v1/streams/strict/predict", json={"id": "a", "score": 0.25})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stale")


def test_a_kept_version_is_whole_or_left_out(tmp_path: Path) -> None:
    served = Served(3, "clicks", Settings(horizon=60.0, silence="negative"), 7, 1_000, MAP.to_json())
    keep(tmp_path, served)
    assert kept(tmp_path) == {"clicks": served}
    path = tmp_path / "clicks.json"
    whole = path.read_text()
    for damaged in (whole[:-5], whole.replace("7", "8"), "", "[]", "{}"):
        path.write_text(damaged)
        assert kept(tmp_path) == {}
    assert [each.name for each in tmp_path.iterdir()] == ["clicks.json"]


def test_too_many_requests_of_one_token_wait(address: str, stream: int, token: str) -> None:
    with Running(config(address, rate=2.0), token) as running:
        statuses = [running.client.post("/v1/streams/clicks/predict", json={}).status_code for _ in range(6)]
    assert statuses[:4] == [422] * 4
    assert 429 in statuses


@pytest.fixture
def locked(database: psycopg.Connection, address: str) -> Iterator[tuple[Running, psycopg.Connection]]:
    """A service with six streams and two seconds for a commit, and a session that will hold a lock."""
    for k in range(6):
        settings = Settings(horizon=60.0, silence="unknown", outage="closed" if k % 2 else "open")
        database.execute("select create_stream(%s, %s)", [f"s{k}", first_entry(settings)])
    token = issue_token(database, None, "tests", (*SCOPES, "read", "admin"))[1]
    with Running(config(address, commit_seconds=2.0), token) as running, connect(address) as foreign:
        for k in range(6):
            sent(running, k, "predict", f"first {k}")
        with foreign.transaction():
            yield running, foreign


def sent(running: Running, stream: int, what: str, id: str) -> tuple[int, str, float]:
    """Status of HTTP, what became of a row, and seconds."""
    bodies: dict[str, Any] = {
        "predict": {"id": id, "score": 0.25}, "outcomes": {"outcomes": [{"id": id, "outcome": 1}]},
        "settings": {"horizon": 60.0, "silence": "unknown"},
    }  # fmt: skip
    begun = time.monotonic()
    call = running.client.put if what == "settings" else running.client.post
    answer = call(f"/v1/streams/s{stream}/{what}", json=bodies[what])
    found = answer.json()
    return answer.status_code, found.get("status") or found.get("error", {}).get("code", ""), time.monotonic() - begun


def listed(running: Running) -> tuple[int, str, float]:
    begun = time.monotonic()
    answer = running.client.get("/v1/streams")
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) > 0
    return answer.status_code, "", time.monotonic() - begun


@pytest.mark.slow
def test_a_lock_on_all_streams_makes_no_request_wait_for_long(locked: tuple[Running, psycopg.Connection]) -> None:
    running, foreign = locked
    foreign.execute("lock table head")
    with ThreadPoolExecutor(40) as pool:
        lists = [pool.submit(listed, running) for _ in range(8)]
        changes = [pool.submit(sent, running, k, "settings", "") for k in range(2)]
        answers = []
        for round_ in range(4):  # each comes while others wait
            answers += [
                pool.submit(sent, running, k, what, f"{round_} {k}")
                for k in range(6)
                for what in ("predict", "outcomes")
            ]
            time.sleep(0.6)
    found = [each.result() for each in (*lists, *changes, *answers)]
    assert max(seconds for _, _, seconds in found) < 2.0 + 1.0
    assert {each.result()[0] for each in (*lists, *changes)} == {503}
    assert {each.result()[:2] for each in answers} == {(200, "unlogged"), (503, "database")}
    foreign.execute("rollback")
    wait_for(lambda: running.process.is_up)
    assert {sent(running, k, "predict", f"later {k}")[1] for k in range(6)} == {"logged"}


@pytest.mark.slow
def test_a_lock_on_one_stream_does_not_delay_another_one(locked: tuple[Running, psycopg.Connection]) -> None:
    running, foreign = locked
    foreign.execute("select from head join stream using (stream) where name = 's1' for update of head")
    with ThreadPoolExecutor(8) as pool:
        stopped = [pool.submit(sent, running, 1, what, "a") for what in ("predict", "outcomes") for _ in range(3)]
        others = []
        for k in range(60):
            others += [sent(running, (0, 2, 3, 4, 5)[k % 5], what, f"a {k}") for what in ("predict", "outcomes")]
            if k % 20 == 19:
                stopped.append(pool.submit(sent, running, 1, "predict", "b"))
    assert {status for status, _, _ in others} == {200}
    assert max(seconds for _, _, seconds in others) < 1.0
    assert {each.result()[0] for each in stopped} == {503}
    assert max(each.result()[2] for each in stopped) < 2.0 + 1.0


def test_every_connection_limits_locks_and_statements(address: str, database: psycopg.Connection) -> None:
    limits = "select setting::int from pg_settings where name in ('lock_timeout', 'statement_timeout') order by name"

    async def of_link() -> list[tuple[int]]:
        connection = await links.connect(address, 2.0)
        async with connection:
            return await (await connection.execute(limits)).fetchall()

    with open_pool(address, seconds=2.0) as pool, pool.connection() as pooled:
        found = [database.execute(limits).fetchall(), pooled.execute(limits).fetchall(), asyncio.run(of_link())]
    assert found == [[(30_000,), (3_600_000,)], [(1_000,), (2_000,)], [(1_600,), (1_800,)]]


@pytest.mark.slow
def test_a_read_only_database_is_an_outage_for_administration(
    database: psycopg.Connection, address: str, token: str
) -> None:
    name = database.info.dbname
    database.execute(f"alter database {name} set default_transaction_read_only = on")
    body = {"name": "new", "settings": {"horizon": 60.0, "silence": "unknown"}}
    with Running(config(address), token) as running:
        answer = running.client.post("/v1/streams", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database")
        assert int(answer.headers["retry-after"]) > 0
