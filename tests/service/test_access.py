"""Tokens, logins, the audit and the rights of the database roles."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated

import psycopg
import pytest
from fastapi import Depends, FastAPI
from httpx import Client
from tests.engine.postgres import USER, Server
from tests.service.live_service import serving

from calibrant.messages import InputError
from calibrant.service.api import access as web
from calibrant.service.api import errors
from calibrant.service.api.access import COOKIE, Access, csrf_of, need, page, router
from calibrant.service.store.access import (
    Caller,
    NotAllowedError,
    NotFoundError,
    digest_of,
    find_caller,
    issue_token,
    list_audit,
    list_tokens,
    open_session,
    revoke_token,
    rotate_token,
)
from calibrant.service.store.migrate import connect, open_pool

SOON = timedelta(hours=1)


def test_a_token_is_stored_as_its_digest_alone(database: psycopg.Connection) -> None:
    number, secret = issue_token(database, None, "ads team", ["predict", "label"])
    assert secret.startswith("cal_")
    rows = database.execute("select * from token").fetchall()
    assert secret not in str(rows)
    found = find_caller(database, hashlib.sha256(secret.encode()).digest())
    assert found is not None
    assert (found.number, found.name, found.scopes, found.streams) == (number, "ads team", {"predict", "label"}, None)
    assert find_caller(database, digest_of(secret + "x")) is None
    assert secret not in str(list_tokens(database, None))


def test_a_token_ends_by_time_revocation_and_rotation(database: psycopg.Connection, stream: int) -> None:
    _, ended = issue_token(database, None, "a", ["read"], expires=datetime.now(UTC) - SOON)
    assert find_caller(database, digest_of(ended)) is None
    number, secret = issue_token(database, None, "b", ["read"], ["clicks"], expires=datetime.now(UTC) + SOON)
    newer, other = rotate_token(database, None, number, overlap=60.0)
    old, new = find_caller(database, digest_of(secret)), find_caller(database, digest_of(other))
    assert old is not None
    assert new is not None
    assert (new.name, new.scopes, new.streams) == (old.name, old.scopes, old.streams)
    assert old.expires is not None
    assert old.expires <= datetime.now(UTC) + timedelta(minutes=2)
    revoke_token(database, None, newer)
    assert find_caller(database, digest_of(other)) is None
    with pytest.raises(NotFoundError):
        rotate_token(database, None, newer)
    with pytest.raises(NotFoundError):
        revoke_token(database, None, 99)


def test_what_a_token_cannot_be(database: psycopg.Connection, stream: int, subtests: pytest.Subtests) -> None:
    for argument, values in {
        "name": ("", ["read"], None), "scopes": ("a", ["write"], None), "streams": ("a", ["read"], ["none"]),
    }.items():  # fmt: skip
        with subtests.test(argument), pytest.raises(InputError) as error:
            issue_token(database, None, *values)
        assert error.value.argument == argument
    with pytest.raises(InputError, match="scopes is empty"):
        issue_token(database, None, "a", [])
    with pytest.raises(InputError, match="streams is empty"):
        issue_token(database, None, "a", ["read"], [])


def test_who_does_something_is_in_the_audit_and_must_be_allowed_to(database: psycopg.Connection, stream: int) -> None:
    _, admin = issue_token(database, None, "boss", ["admin"])
    _, local = issue_token(database, digest_of(admin), "one", ["admin", "read"], ["clicks"])
    for caller in (digest_of(local), digest_of("cal_"), b""):
        with pytest.raises(NotAllowedError):
            issue_token(database, caller, "more", ["admin"])
        with pytest.raises(NotAllowedError):
            list_tokens(database, caller)
        with pytest.raises(NotAllowedError):
            list_audit(database, caller)
    found = [(each["who"], each["action"], each["detail"]) for each in list_audit(database, digest_of(admin))]
    assert found == [("boss (1)", "create token", "one (2)"), ("command line", "create token", "boss (1)")]
    assert [each["number"] for each in list_audit(database, None, before=2)] == [1]


def test_the_scopes_of_a_token_are_per_stream() -> None:
    caller = Caller(b"", 1, "a", frozenset({"read"}), frozenset({"clicks"}), None)
    assert caller.allows("read", "clicks")
    assert caller.allows("read")
    assert not caller.allows("read", "other")
    assert not caller.allows("read", everywhere=True)
    assert not caller.allows("admin", "clicks")


# ---------------------------------------------------------------------------------------------------------------- roles


def as_role(server: Server, address: str, role: str) -> psycopg.Connection:
    """A connection of a user whose only rights are those of a role."""
    user = f"user_of_{role}"
    with server.connect() as connection:
        if connection.execute("select 1 from pg_roles where rolname = %s", [user]).fetchone() is None:
            connection.execute(f"create role {user} login in role {role}")
    return connect(address.replace(f"user={USER}", f"user={user}"))


REFUSED_TO_SERVE = [
    "select * from token",
    "select * from session",
    "select * from audit",
    "select * from log",
    "insert into token (name, digest, scopes) values ('a', decode(repeat('00', 32), 'hex'), '{admin}')",
    "update token set scopes = '{admin}'",
    "delete from audit",
    "insert into version values (1, 99, 1, 1, '{}')",
    "update version set document = ''",
    "delete from version",
    "insert into promotion values (1, 99, 0, 0, 'person')",
    "insert into canary values (1, 99, 0, 0.5, 0, 'person')",
    "update learner set fence = 99",
    "update head set position = 99",
    "select append_entry(1, 5::smallint, '{}')",
    "select create_stream('mine', '{}')",
    "select record_audit('nobody', 'nothing', null, null)",
    "select caller_name(null, 'admin', null)",
    "create table calibrant.mine (a integer)",
    "drop table version",
]

REFUSED_TO_LEARN = [
    "select * from token",
    "select * from find_token('', false)",
    "select * from audit",
    "update version set document = ''",
    "delete from promotion",
    "update log set score = 0",
    "select append_outcomes(1, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "select log_outcomes(1, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "select act(null, 'clicks', '{}')",
]


@pytest.mark.parametrize(("role", "texts"), [("serve", REFUSED_TO_SERVE), ("learn", REFUSED_TO_LEARN)])
def test_a_role_has_no_other_rights(
    server: Server, address: str, database: psycopg.Connection, stream: int, role: str, texts: list[str],
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    with as_role(server, address, f"calibrant_{role}") as connection:
        for text in texts:
            with subtests.test(text), pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text)


def test_who_serves_cannot_act_without_a_token(
    server: Server, address: str, database: psycopg.Connection, stream: int
) -> None:
    _, secret = issue_token(database, None, "boss", ["admin"])
    with as_role(server, address, "calibrant_serve") as connection:
        for caller in (None, b"", digest_of("cal_")):
            with pytest.raises(NotAllowedError):
                issue_token(connection, caller, "mine", ["admin"])
        issue_token(connection, digest_of(secret), "theirs", ["read"])
        connection.execute("create temporary table token as select 1 as number")  # does not take its place
        assert find_caller(connection, digest_of(secret)) is not None


# ------------------------------------------------------------------------------------------------------------------ web


@pytest.fixture
def app(address: str, database: psycopg.Connection, stream: int) -> Iterator[FastAPI]:
    app = FastAPI()
    errors.install(app)
    app.include_router(router)

    @app.get("/v1/streams/{stream}")
    async def one(stream: str, caller: Annotated[Caller, Depends(need("read"))]) -> str:
        return caller.name

    @app.get("/v1/tokens")
    async def tokens(caller: Annotated[Caller, Depends(need("admin", everywhere=True))]) -> str:
        return caller.name

    @app.get("/pages/{stream}")
    async def shown(
        stream: str, caller: Annotated[Caller, Depends(page())], csrf: Annotated[str, Depends(csrf_of)]
    ) -> str:
        return csrf

    @app.post("/pages/{stream}")
    async def sent(stream: str, caller: Annotated[Caller, Depends(page("admin"))]) -> str:
        return caller.name

    @app.get("/broken")
    async def broken() -> None:
        raise KeyError("a secret")

    with open_pool(address) as pool:
        app.state.access = Access(pool)
        yield app


@pytest.fixture
def client(app: FastAPI) -> Iterator[Client]:
    with serving(app) as address, Client(base_url=address, timeout=60.0) as made:
        yield made


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_a_route_needs_a_token_with_its_scope(
    client: Client, database: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    _, read = issue_token(database, None, "reader", ["read"], ["clicks"])
    _, admin = issue_token(database, None, "boss", ["admin"])
    _, local = issue_token(database, None, "local", ["admin"], ["clicks"])
    cases = {
        "no token": ("/v1/streams/clicks", {}, 401, "token-missing"),
        "another kind": ("/v1/streams/clicks", {"Authorization": f"Basic {read}"}, 401, "token-missing"),
        "garbage": ("/v1/streams/clicks", bearer("x' or 1=1"), 401, "token-unknown"),
        "unknown": ("/v1/streams/clicks", bearer("cal_" + "a" * 43), 401, "token-unknown"),
        "cookie": ("/v1/streams/clicks", {"Cookie": f"{COOKIE}={read}"}, 401, "token-missing"),
        "stream": ("/v1/streams/other", bearer(read), 403, "not-allowed"),
        "scope": ("/v1/streams/clicks", bearer(admin), 403, "not-allowed"),
        "everywhere": ("/v1/tokens", bearer(local), 403, "not-allowed"),
    }
    for name, (path, headers, status, code) in cases.items():
        with subtests.test(name):
            found = client.get(path, headers=headers)
            assert (found.status_code, found.json()["error"]["code"]) == (status, code)
            assert found.json()["request_id"]
    assert client.get("/v1/streams/clicks", headers=bearer(read)).json() == "reader"
    assert client.get("/v1/tokens", headers=bearer(admin)).json() == "boss"


def test_a_revoked_token_ends_within_the_stated_seconds(
    app: FastAPI, client: Client, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "FRESH", 0.0)
    number, secret = issue_token(database, None, "reader", ["read"])
    assert client.get("/v1/streams/clicks", headers=bearer(secret)).status_code == 200
    revoke_token(database, None, number)
    assert client.get("/v1/streams/clicks", headers=bearer(secret)).status_code == 401


def test_without_the_database_known_tokens_go_on(
    app: FastAPI, client: Client, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "FRESH", 0.0)
    _, secret = issue_token(database, None, "reader", ["read"])
    assert client.get("/v1/streams/clicks", headers=bearer(secret)).status_code == 200
    app.state.access.pool.close()
    assert client.get("/v1/streams/clicks", headers=bearer(secret)).status_code == 200
    found = client.get("/v1/streams/clicks", headers=bearer("cal_" + "a" * 43))
    assert (found.status_code, found.headers["Retry-After"]) == (503, "5")
    monkeypatch.setattr(web, "GRACE", 0.0)
    assert client.get("/v1/streams/clicks", headers=bearer(secret)).status_code == 503


def test_a_login_is_a_cookie_that_forms_cannot_be_sent_without(
    app: FastAPI, client: Client, database: psycopg.Connection
) -> None:
    number, secret = issue_token(database, None, "boss", ["read", "admin"], ["clicks"])
    assert client.get("/pages/clicks").headers["Location"] == "/login"
    for wrong in ("", "x", "cal_" + "a" * 43):
        assert client.post("/login", data={"token": wrong}).headers["Location"] == "/login?failed=1"
    made = client.post("/login", data={"token": secret})
    assert made.headers["Location"] == "/"
    assert "httponly" in made.headers["Set-Cookie"].lower()
    assert "samesite=strict" in made.headers["Set-Cookie"].lower()
    assert secret not in made.headers["Set-Cookie"]
    csrf = client.get("/pages/clicks").json()
    assert client.get("/pages/other").status_code == 403
    assert client.post("/pages/clicks", data={"csrf": csrf}).json() == "boss"
    for form in ({}, {"csrf": ""}, {"csrf": csrf[:-1] + "é"}):
        assert client.post("/pages/clicks", data=form).status_code == 403
    assert client.get("/v1/streams/clicks", headers=bearer(client.cookies[COOKIE])).status_code == 401
    old = client.cookies[COOKIE]
    client.post("/logout")
    assert client.get("/pages/clicks", headers={"Cookie": f"{COOKIE}={old}"}).status_code == 303
    client.cookies.clear()
    client.post("/login", data={"token": secret})
    assert client.get("/pages/clicks").status_code == 200
    revoke_token(database, None, number)
    app.state.access.forget(digest_of(client.cookies[COOKIE]))
    assert client.get("/pages/clicks").status_code == 303


def test_a_login_needs_a_token_that_lasts(database: psycopg.Connection) -> None:
    _, secret = issue_token(database, None, "boss", ["read"], expires=datetime.now(UTC) + SOON)
    made = find_caller(database, digest_of(open_session(database, secret)), session=True)
    assert made is not None
    assert made.expires is not None
    assert made.expires <= datetime.now(UTC) + SOON
    with pytest.raises(NotAllowedError):
        open_session(database, "cal_" + "a" * 43)


def test_errors_say_nothing_of_the_inside(client: Client) -> None:
    found = client.get("/broken", headers={"Connection": "close"})  # as the server does after an error
    assert (found.status_code, found.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in found.text
    assert client.get("/nowhere").json()["error"]["code"] == "not-found"
    assert client.post("/v1/tokens").json()["error"]["code"] == "method-not-allowed"
