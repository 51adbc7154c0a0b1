"""Routes about streams, versions, decisions, tokens and the audit; and the scope that each of them needs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI
from httpx import Client
from tests.service.live_service import config, serving

from calibrant.calibration import Calibration
from calibrant.maps.scores import LogitAffineMap
from calibrant.service.api import access, admin, errors
from calibrant.service.api.access import Access
from calibrant.service.settings import COUNTS, NUMBERS, Settings
from calibrant.service.store.access import issue_token
from calibrant.service.store.log import Kind, read
from calibrant.service.store.migrate import open_pool

MAP = json.loads(Calibration(LogitAffineMap(1.0, 0.0)).to_json())

ROUTES: list[tuple[str, str, Any, str]] = [
    ("GET", "/v1/streams", None, "read"),
    ("GET", "/v1/streams/clicks", None, "read"),
    ("GET", "/v1/streams/clicks/versions", None, "read"),
    ("GET", "/v1/streams/clicks/versions/1", None, "read"),
    ("PUT", "/v1/streams/clicks/settings", {"horizon": 3.0}, "admin"),
    ("POST", "/v1/streams/clicks/versions", {"document": MAP}, "admin"),
    ("POST", "/v1/streams/clicks/versions/1/promote", None, "admin"),
    ("POST", "/v1/streams/clicks/roll-back", None, "admin"),
    ("POST", "/v1/streams/clicks/pin", {"version": 1}, "admin"),
    ("POST", "/v1/streams/clicks/canary", {"version": 0, "share": 0.1}, "admin"),
    ("POST", "/v1/streams/clicks/gap", {"was": "silent"}, "admin"),
    ("POST", "/v1/streams/clicks/resume", None, "admin"),
    ("POST", "/v1/streams/clicks/erase", {"id": "a"}, "admin"),
    ("POST", "/v1/streams", {"name": "sales", "settings": {"horizon": 3.0, "silence": "negative"}}, "admin everywhere"),
    ("GET", "/v1/audit", None, "admin everywhere"),
    ("GET", "/v1/tokens", None, "admin everywhere"),
    ("POST", "/v1/tokens", {"name": "a", "scopes": ["read"]}, "admin everywhere"),
    ("POST", "/v1/tokens/1/rotate", {}, "admin everywhere"),
    ("DELETE", "/v1/tokens/1", None, "admin everywhere"),
]


@pytest.fixture
def address_of_app(address: str, database: psycopg.Connection, stream: int) -> Iterator[str]:
    database.execute("insert into version values (%s, 1, 1, 1000000, %s)", [stream, json.dumps(MAP)])
    database.execute("insert into promotion values (%s, 1, 0, 1, 'published')", [stream])
    app = FastAPI()
    errors.install(app)
    app.include_router(access.router)
    app.include_router(admin.router)
    with open_pool(address) as pool:
        app.state.access, app.state.service = Access(pool), SimpleNamespace(config=config(address))
        with serving(app) as found:
            yield found


@pytest.fixture
def client(address_of_app: str, database: psycopg.Connection) -> Iterator[Client]:
    """A client that may do everything."""
    _, secret = issue_token(database, None, "boss", ["read", "admin"])
    with Client(base_url=address_of_app, headers={"Authorization": f"Bearer {secret}"}, timeout=60.0) as made:
        yield made


def actions(database: psycopg.Connection, stream: int) -> list[dict[str, Any]]:
    found = read(database, stream, 0, 0, 1_000)
    return [json.loads(found.documents[each]) for each in found.position[found.kind == Kind.ACTION].tolist()][1:]


def test_each_route_needs_its_scope(
    address_of_app: str, database: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    secrets = {
        "nothing": "",
        "predict and label": issue_token(database, None, "a", ["predict", "label"])[1],
        "read": issue_token(database, None, "b", ["read"], ["clicks"])[1],
        "admin": issue_token(database, None, "c", ["admin"], ["clicks"])[1],
        "admin everywhere": issue_token(database, None, "d", ["admin"])[1],
    }
    routed = {(method, route.path) for route in admin.router.routes for method in route.methods}  # type: ignore[attr-defined]
    assert len(routed) == len(ROUTES)
    with Client(base_url=address_of_app, timeout=60.0) as client:
        for method, path, body, scope in ROUTES:
            for name, secret in secrets.items():
                with subtests.test(f"{method} {path} with {name}"):
                    may = name == scope or (name == "admin everywhere" and scope == "admin")
                    if may and "erase" in path:
                        continue
                    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
                    status = client.request(method, path, json=body, headers=headers).status_code
                    assert (200 <= status < 300) if may else status == (403 if secret else 401)


def test_a_token_of_another_stream_learns_nothing(
    address_of_app: str, database: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    database.execute("select create_stream('other', '{}')")
    _, secret = issue_token(database, None, "a", ["predict", "label", "read", "admin"], ["other"])
    with Client(base_url=address_of_app, headers={"Authorization": f"Bearer {secret}"}, timeout=60.0) as client:
        assert [each["name"] for each in client.get("/v1/streams").json()["streams"]] == ["other"]
        for method, path, body, _ in ROUTES[1:]:
            with subtests.test(f"{method} {path}"):
                here, nowhere = (
                    client.request(method, place, json=body) for place in (path, path.replace("clicks", "nowhere"))
                )
                assert here.status_code == nowhere.status_code == 403
                assert here.json()["error"] == nowhere.json()["error"]


def test_a_stream_is_made_and_shown(client: Client) -> None:
    made = client.post("/v1/streams", json={"name": "sales", "settings": {"horizon": 60.0, "silence": "negative"}})
    assert made.status_code == 201
    assert made.json()["settings"]["publish_rows"] == 1_000
    assert (made.json()["position"], made.json()["served"], made.json()["report"]) == (1, 0, None)
    shown = client.get("/v1/streams/sales").json()
    assert shown == made.json()
    again = client.post("/v1/streams", json={"name": "sales", "settings": {"horizon": 60.0, "silence": "negative"}})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "exists")
    assert [each["name"] for each in client.get("/v1/streams").json()["streams"]] == ["clicks", "sales"]
    assert client.get("/v1/streams/none").status_code == 404


def test_the_first_wrong_requests_say_what_to_send(client: Client, subtests: pytest.Subtests) -> None:
    """A stream without settings, and paths of other services."""
    requests: list[tuple[str, str, Any, int, str]] = [
        ("POST", "/v1/streams", {"name": "sales"}, 422, 'such as {"horizon": 3600, "silence": "negative"}'),
        ("GET", "/healthz", None, 404, "/health, /ready and /metrics"),
        ("POST", "/v1/streams/clicks/rollback", None, 404, "/v1/streams"),
    ]
    for method, path, body, status, fix in requests:
        with subtests.test(f"{method} {path}"):
            found = client.request(method, path, json=body)
            assert found.status_code == status
            assert fix in found.json()["error"]["fix"]


def test_a_stream_that_cannot_be(client: Client, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("name", {"name": "A", "settings": {"horizon": 1, "silence": "negative"}}),
        ("name", {"name": "a\n", "settings": {"horizon": 1, "silence": "negative"}}),
        ("horizon", {"name": "a", "settings": {}}),
        ("silence", {"name": "a", "settings": {"horizon": 1}}),
        ("horizon", {"name": "a", "settings": {"horizon": -1, "silence": "negative"}}),
        ("horizon", {"name": "a", "settings": {"horizon": 10**400, "silence": "negative"}}),
        ("mode", {"name": "a", "settings": {"horizon": 1, "silence": "unknown", "mode": []}}),
        ("settings", {"name": "a", "settings": {"horizon": 1, "silence": "negative", "color": "red"}}),
        ("settings", {"name": "a", "settings": {"horizon": 1, "silence": "negative", "\ud800": 1}}),
        ("settings", {"name": "a"}),
        ("more", {"name": "a", "settings": {"horizon": 1, "silence": "negative"}, "more": 1}),
    ]
    for argument, body in cases:
        with subtests.test(str(body)[:60]):
            found = client.post("/v1/streams", content=json.dumps(body), headers={"Content-Type": "application/json"})
            assert (found.status_code, found.json()["error"]["argument"]) == (422, argument)
    sent = '{"name": "a", "settings": {"horizon": 1, "silence": "negative"}}'
    for content in ("", '"a"', sent[:-1]):
        with subtests.test(content):
            found = client.post("/v1/streams", content=content)
            assert (found.status_code, found.json()["error"]["argument"]) == (422, "body")


def test_settings_are_replaced_by_an_entry_of_the_log(
    client: Client, database: psycopg.Connection, stream: int
) -> None:
    settings = client.get("/v1/streams/clicks").json()["settings"] | {"publish_rows": 50}
    found = client.put("/v1/streams/clicks/settings", json=settings)
    assert (found.status_code, found.json()) == (202, {"position": 2})
    assert client.get("/v1/streams/clicks").json()["settings"] == settings
    assert actions(database, stream) == [{"action": "settings", "settings": settings}]
    refused = client.put("/v1/streams/clicks/settings", json=settings | {"mode": "returned", "silence": "unknown"})
    assert refused.status_code == 422
    assert len(actions(database, stream)) == 1


def test_decisions_are_entries_of_the_log_and_of_the_audit(
    client: Client, database: psycopg.Connection, stream: int
) -> None:
    assert client.post("/v1/streams/clicks/versions/1/promote").json() == {"position": 2}
    assert client.post("/v1/streams/clicks/versions/2/promote").status_code == 404
    assert client.post("/v1/streams/clicks/versions/0/promote").status_code == 202
    assert client.post("/v1/streams/clicks/roll-back", json={}).status_code == 202
    assert client.post("/v1/streams/clicks/pin", json={"version": 1}).status_code == 202
    assert client.post("/v1/streams/clicks/pin", json={"version": None}).status_code == 202
    assert client.post("/v1/streams/clicks/pin", json={"version": 7}).status_code == 404
    assert client.post("/v1/streams/clicks/pin", json={"version": True}).status_code == 422
    assert client.post("/v1/streams/clicks/resume").status_code == 202
    assert client.post("/v1/streams/clicks/canary", json={"version": 0, "share": 0.1}).status_code == 202
    assert client.post("/v1/streams/clicks/canary", json={"version": None}).status_code == 202
    for version, share, status in ((1, 0.1, 422), (0, 0.6, 422), (7, 0.1, 404)):  # 1 is served
        body = {"version": version, "share": share}
        assert client.post("/v1/streams/clicks/canary", json=body).status_code == status
    assert actions(database, stream) == [
        {"action": "promote", "version": 1},
        {"action": "promote", "version": 0},
        {"action": "roll-back"},
        {"action": "pin", "version": 1},
        {"action": "pin", "version": None},
        {"action": "resume"},
        {"action": "canary", "version": 0, "share": 0.1},
        {"action": "canary", "version": None},
    ]
    entries = client.get("/v1/audit", params={"limit": 8}).json()["entries"]
    assert [(each["action"], each["stream"], each["detail"]) for each in entries[::-1]] == [
        ("promote", "clicks", "1"), ("promote", "clicks", "0"), ("roll-back", "clicks", None), ("pin", "clicks", "1"),
        ("pin", "clicks", None), ("resume", "clicks", None),
        ("canary", "clicks", "0"), ("canary", "clicks", None),
    ]  # fmt: skip
    assert {each["who"] for each in entries} == {"boss (1)"}


def test_versions_are_listed_shown_and_published(client: Client, database: psycopg.Connection, stream: int) -> None:
    found = client.get("/v1/streams/clicks/versions").json()
    assert found["versions"] == [{"number": 1, "position": 1, "time": "1970-01-01T00:00:01Z"}]
    assert found["promotions"] == [{"position": 1, "version": 1, "cause": "published"}]
    assert client.get("/v1/streams/clicks/versions?before=1").json()["versions"] == []
    assert client.get("/v1/streams/clicks/versions/1").json()["document"] == MAP
    assert client.get("/v1/streams/clicks/versions/0").status_code == 404
    assert client.post("/v1/streams/clicks/versions", json={"document": MAP}).status_code == 202
    for wrong in ({}, {"format": "calibrant"}, MAP | {"map": {"kind": "none"}}):
        assert client.post("/v1/streams/clicks/versions", json={"document": wrong}).status_code == 422
    entry = actions(database, stream)
    assert [each["action"] for each in entry] == ["publish"]
    assert json.loads(entry[0]["document"]) == MAP


def test_a_token_is_made_rotated_and_revoked(client: Client, address_of_app: str) -> None:
    made = client.post("/v1/tokens", json={"name": "ads", "scopes": ["read"], "expires": "2999-01-01T00:00:00+01:00"})
    assert made.status_code == 201
    number = made.json()["number"]
    rotated = client.post(f"/v1/tokens/{number}/rotate", json={"overlap_seconds": 0}).json()
    with Client(base_url=address_of_app, timeout=60.0) as other:
        old, new = (
            other.get("/v1/streams", headers={"Authorization": f"Bearer {each['token']}"}).status_code
            for each in (made.json(), rotated)
        )
    assert (old, new) == (401, 200)
    assert client.delete(f"/v1/tokens/{rotated['number']}").status_code == 204
    listed = {each["number"]: each for each in client.get("/v1/tokens").json()["tokens"]}
    assert listed[rotated["number"]]["revoked"]
    assert listed[number]["scopes"] == ["read"]
    assert "digest" not in listed[number]
    for body in (
        {"name": "x"}, {"name": "x", "scopes": []}, {"name": "x", "scopes": ["write"]},
        {"name": "x", "scopes": ["read"], "expires": "2999-01-01T00:00:00"},
        {"name": "x", "scopes": ["read"], "streams": ["nowhere"]}, {"name": "x", "scopes": ["read"], "streams": []},
    ):  # fmt: skip
        assert client.post("/v1/tokens", json=body).status_code == 422
    assert client.delete("/v1/tokens/99").status_code == 404


def test_settings_beyond_their_limits_are_refused(client: Client, subtests: pytest.Subtests) -> None:
    for name, (least, most) in (NUMBERS | COUNTS).items():
        with subtests.test(name):
            for value in (math.nextafter(least, -math.inf), 2 * most, 10**400, True, "1"):
                for call, path, body in (
                    (client.put, "/v1/streams/clicks/settings", {"horizon": 2.0, "silence": "unknown", name: value}),
                    (
                        client.post,
                        "/v1/streams",
                        {"name": "other", "settings": {"horizon": 2.0, "silence": "unknown", name: value}},
                    ),
                ):
                    found = call(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
                    assert (found.status_code, found.json()["error"]["argument"]) == (422, name)


def test_every_number_of_the_settings_has_limits() -> None:
    kinds = {each.name for each in fields(Settings) if each.type in ("int", "float", "float | None")}
    assert kinds == {*NUMBERS, *COUNTS}
    for name, (least, most) in (NUMBERS | COUNTS).items():
        for value in (least, most):
            found = Settings.of({"horizon": 2.0, "silence": "unknown", name: value})
            assert getattr(found, name) == value
