"""The whole service with the rights of the database roles, and nothing more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest
from tests.engine.postgres import USER, Server
from tests.service.live_service import PATIENCE, Running, config, wait_for

from calibrant.service.learning.loop import LearnerLoop


def user_of(server: Server, address: str, role: str) -> str:
    """The address of the same database for a user with the rights of a role."""
    user = f"only_{role}"
    with server.connect() as connection:
        if connection.execute("select 1 from pg_roles where rolname = %s", [user]).fetchone() is None:
            connection.execute(f"create role {user} login in role {role}")
    return address.replace(f"user={USER}", f"user={user}")


@contextmanager
def learning(address: str) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=LearnerLoop(address, seconds=0.1).run, args=[stop])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


@pytest.mark.slow
def test_the_rights_of_the_roles_are_enough(
    server: Server, address: str, database: psycopg.Connection, stream: int, token: str
) -> None:
    """Predict, learn, publish, decide, erase and store states, each with its own role."""
    served, learned = (user_of(server, address, f"calibrant_{role}") for role in ("serve", "learn"))
    with Running(config(served), token) as service:
        with learning(learned):
            ids = [str(UUID(int=k + 1)) for k in range(30)]
            service.post("predictions", {"rows": [{"id": id, "score": 0.1 + 0.02 * k} for k, id in enumerate(ids)]})
            service.post("outcomes", {"outcomes": [{"id": id, "outcome": k % 2} for k, id in enumerate(ids)]})
            wait_for(lambda: service.client.get("/v1/streams/clicks/versions").json()["versions"])
            decided = (("versions/1/promote", {}), ("pin", {"version": None}), ("erase", {"id": ids[0]}))
            for path, body in (*decided, ("canary", {"version": 0, "share": 0.5})):
                last = service.client.post(f"/v1/streams/clicks/{path}", json=body).json()["position"]
            wait_for(lambda: service.client.get("/v1/streams/clicks").json()["learned"] >= last)
            wait_for(lambda: service.client.get("/v1/streams/clicks").json()["report"] is not None)
            wait_for(lambda: service.process.streams["clicks"].canary is not None)
            assert service.client.get("/metrics").status_code == 200
            made = service.client.post(
                "/v1/streams", json={"name": "more", "settings": {"horizon": 1.0, "silence": "negative"}}
            )
            assert made.status_code == 201
        assert database.execute("select count(*) from checkpoint where stream = %s", [stream]).fetchone() != (0,)
        assert database.execute("select count(*) from log where id = %s", [UUID(ids[0])]).fetchone() == (0,)
