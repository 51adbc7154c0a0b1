"""The client tries again where that is safe, sends batches, and reads answers as values."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from tests.service.live_service import Running

from calibrant.messages import InputError
from calibrant.service.client import Accepted, AsyncClient, Client, Outcome, Prediction, Retries, Row, ServiceError

QUICK = Retries(patience=20.0, first=0.01, longest=0.05)
ANSWER = {"id": "a", "probability": 0.25, "version": 3, "age_seconds": 1.5, "status": "logged", "new_field": 1}
DROP = -1
"""In place of a status: close the connection without an answer."""


class Scripted(ThreadingHTTPServer):
    """A server on a real socket that gives the answers of a list, one after the other."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.command, self.path, json.loads(raw) if raw else None))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, document = self.server.answers.pop(0)
        if status == DROP:
            self.close_connection = True
            return
        body = json.dumps(document).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("retry-after", "1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(scripted: Scripted) -> Iterator[Client]:
    with Client(scripted.address, "cal_secret", retries=QUICK) as made:
        yield made


def test_a_prediction_is_read_as_a_value(scripted: Scripted, client: Client) -> None:
    scripted.answers = [(200, {**ANSWER, "interval": [0.2, 0.3]})]
    at = datetime(2026, 5, 1, tzinfo=UTC)
    found = client.predict("clicks", score=0.2, id="a", key="k", at=at)
    assert found == Prediction("a", 0.25, 3, 1.5, "logged", interval=(0.2, 0.3))
    body = {"id": "a", "score": 0.2, "key": "k", "at": "2026-05-01T00:00:00+00:00"}
    assert scripted.asked == [("POST", "/v1/streams/clicks/predict", body)]
    assert scripted.headers[0]["authorization"] == "Bearer cal_secret"


def test_a_request_without_an_answer_is_sent_again_with_the_same_id(scripted: Scripted, client: Client) -> None:
    scripted.answers = [(DROP, None), (503, {}), (502, {}), (200, ANSWER)]
    assert client.predict("clicks", score=0.2).probability == 0.25
    assert len(scripted.asked) == 4
    assert len({body["id"] for _, _, body in scripted.asked}) == 1


def test_the_client_waits_as_long_as_the_service_asks(
    scripted: Scripted, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    scripted.answers = [(429, {}), (200, ANSWER)]
    client.predict("clicks", score=0.2)
    assert 1.0 <= waits[0] <= 1.0 + QUICK.longest


def test_an_error_is_raised_once_with_its_parts(scripted: Scripted, client: Client) -> None:
    error = {"code": "conflict", "argument": "id", "problem": "is in use with another score", "fix": "pass another id"}
    scripted.answers = [(409, {"error": error, "request_id": "r1"})]
    with pytest.raises(ServiceError, match="id is in use with another score: pass another id") as caught:
        client.predict("clicks", score=0.2, id="a")
    assert (caught.value.status, caught.value.code, caught.value.request_id) == (409, "conflict", "r1")
    scripted.answers = [(500, "not ours")]
    with pytest.raises(ServiceError) as caught:
        client.streams()
    assert (caught.value.status, caught.value.code) == (500, "unknown")
    scripted.answers = [(200, {"version": 1})]
    with pytest.raises(ServiceError):
        client.predict("clicks", score=0.2)
    assert not scripted.answers


def test_patience_ends(scripted: Scripted) -> None:
    with Client(scripted.address, retries=Retries(patience=0.0)) as once:
        scripted.answers = [(503, {"error": {"code": "closed"}})]
        with pytest.raises(ServiceError) as caught:
            once.predict("clicks", score=0.2)
        assert caught.value.status == 503
        scripted.answers = [(DROP, None)]
        with pytest.raises(ServiceError, match="no answer came") as caught:
            once.predict("clicks", score=0.2)
        assert caught.value.status == 0


def test_a_roll_back_is_not_sent_twice(scripted: Scripted, client: Client) -> None:
    for answer in [(DROP, None), (503, {})]:
        scripted.answers, scripted.asked = [answer], []
        with pytest.raises(ServiceError):
            client.roll_back("clicks")
        assert [path for _, path, _ in scripted.asked] == ["/v1/streams/clicks/roll-back"]
    scripted.answers = [(429, {}), (200, {"position": 7})]
    assert client.roll_back("clicks") == {"position": 7}


def test_batches_keep_the_order(scripted: Scripted, client: Client) -> None:
    rows = [Row(str(n), n / 10) for n in range(5)]
    scripted.answers = [
        (200, {"rows": [{**ANSWER, "id": str(n)} for n in part]}) for part in ([0, 1], [2, 3])
    ]  # fmt: skip
    scripted.answers.append((200, {"rows": [{**ANSWER, "id": "4", "status": "conflict", "probability": None}]}))
    found = client.predict_many("clicks", rows, batch=2)
    assert [each.id for each in found] == list("01234")
    assert [math.isnan(each.probability) for each in found] == [False] * 4 + [True]
    scripted.answers = [(200, {"accepted": 2, "unknown": 2, "position": 8}), (200, {"accepted": 1, "position": 9})]
    sent = [Outcome("0", 1), ("1", 0), Outcome("2", 1, receipt="r")]
    assert client.send_outcomes("clicks", iter(sent), batch=2) == Accepted(3, 9, 2)
    assert scripted.asked[-1][2] == {"outcomes": [{"id": "2", "outcome": 1, "receipt": "r"}]}
    with pytest.raises(InputError, match="batch must be between"):
        client.predict_many("clicks", rows, batch=10_001)


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("predict", ("clicks", "a", 0.4), "score"), ("predict", ("clicks", 0.4), "score"),
    ("predict", ("clicks",), "score"),
    ("predict_many", ("clicks", [(0.4, "a")]), "score"), ("predict_many", ("clicks", {0.4: 0.3}), "id"),
    ("predict_many", ("clicks", {"a": "0.4"}), "score"), ("predict_many", ("clicks", [0.4]), "rows"),
    ("predict_many", ("clicks", ["ab"]), "rows"), ("predict_many", ("clicks", [("a",)]), "rows"),
    ("predict_many", ("clicks", {"a": True}), "score"), ("send_outcomes", ("clicks", [(1, "a")]), "outcome"),
    ("send_outcomes", ("clicks", {1: 1}), "id"), ("send_outcomes", ("clicks", {"a": 0.5}), "outcome"),
    ("send_outcomes", ("clicks", ["ab"]), "outcomes"), ("send_outcomes", ("clicks", [{"id": "a"}]), "outcomes"),
]  # fmt: skip
"""Method, arguments, and the argument that the error names."""


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(("method", "arguments", "named"), WRONG)
def test_what_is_misordered_is_refused_before_it_is_sent(
    scripted: Scripted, kind: type[Any], method: str, arguments: tuple[Any, ...], named: str
) -> None:
    async def send() -> None:
        found = getattr(kind(scripted.address), method)(*arguments)
        if kind is AsyncClient:
            await found

    with pytest.raises(InputError) as caught:
        asyncio.run(send())
    assert caught.value.argument == named
    assert caught.value.fix is not None
    assert not scripted.asked


def test_scores_and_outcomes_are_taken_by_id(scripted: Scripted, client: Client) -> None:
    scripted.answers = [(200, {"rows": [ANSWER, ANSWER | {"id": "b"}]}), (200, {"accepted": 2, "position": 8})]
    found = client.predict_many("clicks", {"a": np.float32(0.5), "b": 1})
    assert [each.id for each in found] == ["a", "b"]
    assert client.send_outcomes("clicks", {"a": True, "b": np.int64(0)}).accepted == 2
    rows, outcomes = [body for _, _, body in scripted.asked]
    assert rows == {"rows": [{"id": "a", "score": 0.5}, {"id": "b", "score": 1.0}]}
    assert outcomes == {"outcomes": [{"id": "a", "outcome": 1}, {"id": "b", "outcome": 0}]}


def test_names_cannot_leave_their_place_in_the_path(scripted: Scripted, client: Client) -> None:
    scripted.answers = [(200, {})]
    client.stream("../tokens?x=1")
    assert scripted.asked[0][1] == "/v1/streams/..%2Ftokens%3Fx%3D1"


def test_a_time_without_an_offset_is_refused(client: Client) -> None:
    with pytest.raises(InputError, match="at has no time zone"):
        client.predict("clicks", score=0.2, at=datetime(2026, 5, 1))


def test_both_clients_have_the_same_methods() -> None:
    names = {name for name in vars(Client) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncClient) if not name.startswith("_")}


def test_the_asynchronous_client_does_the_same(scripted: Scripted) -> None:
    scripted.answers = [
        (DROP, None), (200, ANSWER), (503, {}), (200, {"rows": [ANSWER]}), (200, {"accepted": 1, "position": 4}),
    ]  # fmt: skip

    async def run() -> None:
        async with AsyncClient(scripted.address, retries=QUICK) as client:
            assert (await client.predict("clicks", score=0.2, id="a")).version == 3
            assert len(await client.predict_many("clicks", [("a", 0.2)])) == 1
            assert await client.send_outcomes("clicks", [("a", 1)]) == Accepted(1, 4)

    asyncio.run(run())
    assert not scripted.answers


def test_the_clients_work_with_the_service(service: Running) -> None:
    with Client(service.url, service.token) as client:
        first = client.predict("clicks", score=0.2, id="a")
        assert (first.probability, first.version, first.status) == (0.2, 0, "logged")
        assert client.predict("clicks", score=0.2, id="a").status == "repeated"
        with pytest.raises(ServiceError) as caught:
            client.predict("clicks", score=0.3, id="a")
        assert (caught.value.status, caught.value.argument) == (409, "id")
        rows = [Row(str(n), n / 10) for n in range(5)]
        assert [each.probability for each in client.predict_many("clicks", rows, batch=2)] == [n / 10 for n in range(5)]
        assert client.predict_many("clicks", [("a", 0.3)])[0].status == "conflict"
        columns = {"id": ["a", "b", "c"], "score": [0.3, 0.4, 0.5]}
        found = client.predict_table("clicks", columns, batch=2).to_pydict()
        assert found["status"] == ["conflict", "logged", "logged"]
        assert found["probability"] == [None, 0.4, 0.5]
        for wrong in ({"id": ["a"], "score": [2.0]}, {"id": ["a"]}):
            with pytest.raises(ServiceError, match="422"):
                client.predict_table("clicks", wrong)
        with pytest.raises(InputError, match="no rows"):
            client.predict_table("clicks", {"id": [], "score": []})
        assert client.send_outcomes("clicks", [(str(n), n % 2) for n in range(5)], batch=2).accepted == 5
        client.create_stream("sales", {"horizon": 60.0, "silence": "negative"})
        assert client.predict("sales", score=0.5).status == "logged"  # an unknown stream is looked for
        assert {"clicks", "sales"} <= {each["name"] for each in client.streams()["streams"]}
        assert client.stream("sales")["settings"]["horizon"] == 60.0
        assert client.versions("sales")["versions"] == []
        assert client.promote("sales", 0)["position"] > 1
        assert client.pin("sales", None)["position"] > 2
        assert client.resume("sales")["position"] > 3
        assert client.complete("sales", datetime(2026, 5, 1, tzinfo=UTC))["accepted"] == 0
        assert client.gap("sales", "silent")["position"] > 4
        with pytest.raises(ServiceError):
            client.promote("sales", 7)

    async def run() -> None:
        async with AsyncClient(service.url, service.token) as client:
            assert (await client.predict("clicks", score=0.2, id="a")).status == "repeated"
            found = await client.predict_table("clicks", {"id": ["b"], "score": [0.4]})
            assert found["status"].to_pylist() == ["repeated"]

    asyncio.run(run())
