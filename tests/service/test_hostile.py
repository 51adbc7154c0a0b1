"""Hostile requests: none is let through, none breaks the service, and nothing is logged by them."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import psycopg
import pytest
from tests.service.live_service import KEY, Running, config

from calibrant.service.api.bodies import DRAINED
from calibrant.service.api.serving.receipts import Receipt, Receipts
from calibrant.service.settings import Settings
from calibrant.service.store.access import issue_token, revoke_token
from calibrant.service.store.log import SECOND, read_id
from calibrant.service.store.streams import create_stream

LARGEST = 200_000
"""Bytes of the largest body."""

REFUSED = {400, 401, 403, 404, 405, 409, 413, 415, 422}
"""What an attack may be answered with."""

INJECTIONS = [
    "'; drop table token; --", '" or ""="', "clicks' or '1'='1", "$$; select 1; $$", "%s", "%(stream)s", "{{7*7}}",
    "../../etc/passwd", "..%2f..%2f", "\x00", "clicks\x00", "\ud800", "\U0001f4a3", "<script>alert(1)</script>",
    "\r\nX: y", "a" * 5_000, "-1", "1e400", "NaN", "null", "__proto__", "${jndi:ldap://x}", "CLICKS",
    "clicks/../other", "*", "\\",
]  # fmt: skip

NOT_JSON = [
    b"", b"{", b"[" * 10_000, b"\xff\xfe", b"{}" * 2, b'{"id": "a", "score": NaN}', b'{"id": "a", "score": Infinity}',
    b"\x80\x04N.", b"[]", b"null", b"1", b'"text"', b'{"rows": ' + b"[" * 5_000, b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
]  # fmt: skip

WRONG = [None, True, [], {}, "", "0.5", -0.1, 1.1, 10**400, -(10**400), 1e308, [0.5], {"a": 1}, "x" * 300]


class Attack(NamedTuple):
    """A request, and what kind of attack it is."""

    kind: str
    method: str
    path: str
    token: str | None
    content: bytes
    headers: dict[str, str]


class Attacker:
    """Makes attacks at random, with what a bad client may have: tokens, a logged id, and receipts."""

    def __init__(self, seed: int, tokens: dict[str, str], receipts: list[str]) -> None:
        self.random = random.Random(seed)
        self.tokens, self.receipts = tokens, receipts
        self.kinds = [self.stranger, self.foreign, self.garbage, self.typed, self.named, self.replayed, self.forged,
                      self.method, self.large]  # fmt: skip

    def next(self) -> Attack:
        return self.random.choice(self.kinds)()

    def _made(self, method: str, path: str, body: Any, token: str | None = "all", **headers: str) -> Attack:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        secret = self.tokens.get(token, token) if token is not None else None
        return Attack("", method, path, secret, content, {"Content-Type": "application/json"} | headers)

    def _right(self) -> tuple[str, str, Any]:
        """A request that would be served to a token that allows it."""
        row = {"id": "new", "score": 0.5}
        return self.random.choice(
            [
                ("POST", "/v1/streams/clicks/predict", row),
                ("POST", "/v1/streams/clicks/predictions", {"rows": [row]}),
                ("POST", "/v1/streams/clicks/outcomes", {"outcomes": [{"id": "new", "outcome": 1}]}),
                ("POST", "/v1/streams/returned/predict", row),
                ("GET", "/v1/streams/clicks", None),
                ("GET", "/v1/streams/clicks/versions", None),
                ("PUT", "/v1/streams/clicks/settings", {"horizon": 5.0}),
                ("POST", "/v1/streams/clicks/roll-back", {}),
                ("POST", "/v1/streams/clicks/pin", {"version": None}),
                ("POST", "/v1/streams/clicks/resume", {}),
                ("POST", "/v1/streams/clicks/erase", {"id": "known"}),
                ("POST", "/v1/streams", {"name": "mine", "settings": {"horizon": 5.0, "silence": "negative"}}),
                ("POST", "/v1/tokens", {"name": "mine", "scopes": ["admin"]}),
                ("GET", "/v1/tokens", None),
                ("DELETE", "/v1/tokens/1", None),
                ("GET", "/v1/audit", None),
                ("GET", "/metrics", None),
            ]
        )

    def stranger(self) -> Attack:
        """Without a token, or with one that is made up, has ended, or is of another kind."""
        made_up = "cal_" + "".join(self.random.choices("abcXYZ019_-", k=43))
        header = self.random.choice(
            [None, made_up, "expired", "revoked", "cal_", "a b", *filter(str.isascii, INJECTIONS[:6])]
        )
        method, path, body = self._right()
        made = self._made(method, path, body, header)
        if self.random.random() < 0.2:
            made = made._replace(
                headers=made.headers | {"Cookie": f"calibrant_session={self.tokens['all']}"}, token=None
            )
        return made

    def foreign(self) -> Attack:
        """With a token of another stream, or of a scope that no route has alone."""
        method, path, body = self._right()
        token = self.random.choice(["other", "nothing"]) if path.startswith("/v1/streams/") else "other"
        if path == "/metrics" or (path, method) == ("/v1/streams", "GET"):
            token = "nothing"
        return self._made(method, path, body, token)

    def garbage(self) -> Attack:
        """Bodies that are not what they should be."""
        path = self.random.choice(["predict", "predictions", "outcomes", "pin", "erase", "versions"])
        kind = self.random.choice(["application/json", "application/vnd.apache.arrow.stream"])
        headers = {"Content-Type": kind} if path == "predictions" else {}
        return self._made("POST", f"/v1/streams/clicks/{path}", self.random.choice(NOT_JSON), **headers)

    def typed(self) -> Attack:
        """Values of a wrong type or size."""
        wrong = self.random.choice(WRONG)
        score = self.random.choice([each for each in WRONG if each != ""])
        row = self.random.choice([{"id": wrong if wrong != "0.5" else 5, "score": 0.5}, {"id": "new", "score": score}])
        outcome = self.random.choice([{"id": "known", "outcome": score}, {"id": 7, "outcome": 1}, {"outcome": 1}])
        path, body = self.random.choice(
            [
                ("predict", row),
                ("predict", {"id": "new", "score": 0.5, "at": "yesterday"}),
                ("predict", {"id": "new", "score": 0.5, "at": "1970-01-01T00:00:00Z"}),
                ("predict", {"id": "new", "score": 0.5, "key": 7}),
                ("predictions", {"rows": [{"id": "new", "score": 0.5}, row]}),
                ("outcomes", {"outcomes": [{"id": "known", "outcome": 1}, outcome]}),
                ("outcomes", {"outcomes": [{"id": "known", "outcome": 1, "at": "2999-01-01T00:00:00Z"}]}),
                ("pin", {"version": self.random.choice(["1", 1.5, True, -1, 10**30, 77])}),
                ("erase", {"id": self.random.choice([5, None, "", "x" * 201, []])}),
            ]
        )
        if path in ("predict", "predictions") and row == {"id": "x" * 300, "score": 0.5} and self.random.random() < 0.5:
            path, body = "versions", {"document": row}
        return self._made("POST", f"/v1/streams/clicks/{path}", body)

    def named(self) -> Attack:
        """Names that are meant for a database, a shell, a file system or a page."""
        text = self.random.choice(INJECTIONS)
        quoted = "/" + quote(text.encode("utf-8", "surrogatepass"), safe="")
        return self.random.choice(
            [
                self._made("GET", f"/v1/streams{quoted}", None),
                self._made("POST", f"/v1/streams{quoted}/predict", {"id": "new", "score": 0.5}),
                self._made(
                    "POST", "/v1/streams", {"name": f"{text}!", "settings": {"horizon": 1.0, "silence": "negative"}}
                ),
                self._made(
                    "POST",
                    "/v1/streams",
                    {"name": "mine", "settings": {"horizon": 1.0, "silence": "negative", "forecaster": text}},
                ),
                self._made(
                    "POST",
                    "/v1/streams",
                    {"name": "mine", "settings": {"horizon": 1.0, "silence": "negative", text: 1}},
                ),
                self._made("POST", "/v1/tokens", {"name": "mine", "scopes": [text]}),
                self._made("POST", "/v1/tokens", {"name": "mine", "scopes": ["read"], "streams": [text]}),
                self._made("GET", f"/v1/streams/clicks/versions{quoted}", None),
                self._made("DELETE", f"/v1/tokens{quoted}", None),
            ]
        )

    def replayed(self) -> Attack:
        """An id that is known, with another content."""
        row = {"id": "known", "score": self.random.choice([0.1, 0.9]), "key": self.random.choice([None, "k"])}
        return self._made("POST", "/v1/streams/clicks/predict", row)

    def forged(self) -> Attack:
        """Receipts that were changed, made up, signed by another key, or have expired."""
        text = self.random.choice(self.receipts)
        if self.random.random() < 0.7:
            place = self.random.randrange(len(text))
            text = text[:place] + self.random.choice("abcXYZ019_-") + text[place + 1 :]
            if text in self.receipts:
                text = text[:-4]
        outcome = {"id": "r", "outcome": 1, "receipt": text + self.random.choice(["", "A", "=", "\x00"])}
        others = [{"id": "r", "outcome": 1}] * self.random.randrange(2)
        return self._made("POST", "/v1/streams/returned/outcomes", {"outcomes": [*others, outcome]})

    def method(self) -> Attack:
        """Methods that a route does not have."""
        _, path, body = self._right()
        return self._made(self.random.choice(["PATCH", "TRACE", "OPTIONS", "CONNECT"]), path, body)

    def large(self) -> Attack:
        """Bodies and batches that are too large."""
        if self.random.random() < 0.9:
            return self._made("POST", "/v1/streams/clicks/predict", {"id": "x" * 201, "score": 0.5, "key": "k" * 9_000})
        rows = {"rows": [{"id": str(k), "score": 0.5} for k in range(1_001)]}
        path = self.random.choice(["/v1/streams/clicks/predictions", "/v1/streams", "/v1/streams/clicks/versions"])
        return self._made("POST", path, rows if path.endswith("predictions") else b" " * 300_000)


@pytest.fixture
def attacked(address: str, database: psycopg.Connection, stream: int, token: str) -> Iterator[Running]:
    create_stream(database, None, "returned", Settings(horizon=60.0, mode="returned", silence="unknown"))
    create_stream(database, None, "other", Settings(horizon=60.0, silence="negative"))
    with Running(config(address, body_bytes=LARGEST, batch_rows=1_000), token) as running:
        yield running


def attacker(database: psycopg.Connection, service: Running, seed: int) -> Attacker:
    soon = datetime.now(UTC)
    tokens = {
        "all": service.token,
        "other": issue_token(database, None, "other", ["predict", "label", "read", "admin"], ["other"])[1],
        "nothing": issue_token(database, None, "nothing", ["label"], ["other"])[1],
        "expired": issue_token(database, None, "expired", ["admin"], expires=soon - timedelta(days=1))[1],
    }
    number, tokens["revoked"] = issue_token(database, None, "revoked", ["predict", "admin"])
    revoke_token(database, None, number)
    now = int(soon.timestamp() * SECOND)
    said = Receipt(read_id("r").bytes, 0.5, None, now, 0, 0.5, now + 60 * SECOND)
    old = Receipt(read_id("r").bytes, 0.5, None, now - 120 * SECOND, 0, 0.5, now - 60 * SECOND)
    foreign = Receipts([bytes(range(1, 33))])
    number = 2  # of the stream that returns receipts
    receipts = [
        Receipts([KEY]).sign(number, "returned", old), Receipts([KEY]).sign(3, "other", said),
        Receipts([KEY]).sign(number, "other", said), foreign.sign(number, "returned", said),
    ]  # fmt: skip
    return Attacker(seed, tokens, receipts)


async def send(service: Running, attacks: list[Attack], at_once: int = 16) -> Counter[tuple[str, int]]:
    """Send attacks, and count what they were answered with."""
    found: Counter[tuple[str, int]] = Counter()
    left = iter(attacks)

    async def work(client: httpx.AsyncClient) -> None:
        for kind, method, path, token, content, headers in left:
            sent = headers if token is None else headers | {"Authorization": f"Bearer {token}"}
            try:
                answer = await client.request(method, path, content=content, headers=sent)
            except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError):
                continue  # the client itself refuses to send it
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                assert len(content) > DRAINED * LARGEST, (method, path)  # refused and closed while it was being sent
                found[kind, 413] += 1
                continue
            found[kind, answer.status_code] += 1
            if answer.status_code not in REFUSED:
                found[f"{kind}: {method} {path[:60]} {content[:200]!r} {answer.text[:200]}", answer.status_code] += 1
            elif method != "TRACE":
                assert set(answer.json()) == {"error", "request_id"}, (method, path, answer.text)

    async with httpx.AsyncClient(base_url=service.url, timeout=120.0, trust_env=False) as client:
        await asyncio.gather(*(work(client) for _ in range(at_once)))
    return found


STORED = ("stream", "token", "settings", "version", "promotion", "audit", "known")


def kept(database: psycopg.Connection) -> dict[str, object]:
    """What is in the database, apart from ticks."""
    found: dict[str, object] = {
        name: database.execute(
            f"select count(*), md5(string_agg(t::text, ',' order by t::text)) from {name} t"
        ).fetchone()
        for name in STORED
    }
    return found | {"log": database.execute("select count(*) from log where kind <> 4").fetchone()}


@pytest.mark.slow
def test_hostile_requests_are_refused_and_change_nothing(
    attacked: Running, database: psycopg.Connection, request: pytest.FixtureRequest
) -> None:
    attacked.post("predict", {"id": "known", "score": 0.5})
    bad = attacker(database, attacked, seed=1)
    before = kept(database)
    attacks = []
    for _ in range(10_000 if request.config.getoption("--full") else 600):
        made = bad.random.choice(bad.kinds)
        attacks.append(made()._replace(kind=made.__name__))
    slow = [_half_a_request(attacked.port) for _ in range(20)]
    found = asyncio.run(send(attacked, attacks))
    for each in slow:
        each.close()
    assert not {case: n for case, n in found.items() if case[1] not in REFUSED}
    assert {kind for kind, _ in found} == {each.__name__ for each in bad.kinds}
    assert sum(found.values()) > 0.95 * len(attacks)
    assert kept(database) == before
    assert attacked.post("predict", {"id": "known", "score": 0.5})["status"] == "repeated"
    assert attacked.client.get("/ready").status_code == 200


def test_texts_that_are_meant_for_a_database_are_only_texts(attacked: Running, database: psycopg.Connection) -> None:
    """Ids and keys may be any text."""
    texts = [text for text in INJECTIONS if len(text) <= 200 and "\x00" not in text and text.isprintable()]
    rows = [{"id": text, "score": 0.5, "key": text} for text in texts]
    answers = attacked.post("predictions", {"rows": rows})["rows"]
    assert [each["id"] for each in answers] == texts
    assert {each["status"] for each in answers} == {"logged"}
    found = database.execute("select key from log where kind = 1 order by position").fetchall()
    assert [key for (key,) in found] == texts


def test_garbage_on_the_wire_is_refused(attacked: Running, subtests: pytest.Subtests) -> None:
    head = b"POST /v1/streams/clicks/predict HTTP/1.1\r\nHost: a\r\n"
    cases = {
        "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "two lengths": head + b"Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}",
        "a negative length": head + b"Content-Length: -1\r\n\r\n",
        "a length that is text": head + b"Content-Length: ten\r\n\r\n",
        "a chunk that is text": head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "a large header": head + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
        "a large body in chunks": head.replace(b"clicks/predict", b"clicks/pin") + b"Transfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n" + (b"10000\r\n" + b" " * 65_536 + b"\r\n") * 5 + b"0\r\n\r\n",
    }  # fmt: skip
    for name, raw in cases.items():
        with subtests.test(name), socket.create_connection(("127.0.0.1", attacked.port), timeout=60.0) as line:
            try:
                line.sendall(raw)
                with suppress(OSError):  # not connected any more: refused and closed at once
                    line.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda line=line: line.recv(65_536), b""))  # type: ignore[misc]
            except ConnectionError:
                answer = b""
            assert not answer or answer.split(b" ")[1] in (b"400", b"401", b"413", b"422", b"431")
    assert attacked.client.get("/ready").status_code == 200


def test_some_refusals_do_not_wait_for_the_body(attacked: Running, subtests: pytest.Subtests) -> None:
    """On routes of administration the token comes first; a body far too large, or not sent yet, is not read."""
    large, outcomes = f"Content-Length: {100 * LARGEST}\r\n", "POST /v1/streams/clicks/outcomes HTTP/1.1\r\n"
    token = f"Authorization: Bearer {attacked.token}\r\n"
    cases = {
        "PUT /v1/streams/clicks/settings HTTP/1.1\r\nContent-Length: 10\r\n": b"401",
        "POST /v1/streams/clicks/canary HTTP/1.1\r\nTransfer-Encoding: chunked\r\n": b"401",
        "POST /v1/tokens HTTP/1.1\r\nContent-Length: 10\r\n": b"401",
        outcomes + token + large: b"413",
        outcomes + token + f"Expect: 100-continue\r\nContent-Length: {2 * LARGEST}\r\n": b"413",
    }
    for head, status in cases.items():
        with subtests.test(head), socket.create_connection(("127.0.0.1", attacked.port), timeout=60.0) as line:
            line.sendall(f"{head}Host: a\r\nContent-Type: application/json\r\n\r\n".encode())
            assert line.recv(65_536).split(b" ")[1] == status


def _half_a_request(port: int) -> socket.socket:
    """A client that sends the beginning of a request, and then nothing."""
    line = socket.create_connection(("127.0.0.1", port), timeout=60.0)
    line.sendall(b"POST /v1/streams/clicks/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    return line
