"""Receipts: what is not stored comes back signed, and nothing forged, foreign or expired is taken."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.live_service import KEY, Running, config, wait_for

from calibrant.messages import InputError
from calibrant.service.api.serving.receipts import Receipt, Receipts
from calibrant.service.learning.learner import Learner
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.log import Kind, read
from calibrant.service.store.migrate import connect

OTHER = bytes(32)
SAID = Receipt(bytes(16), 0.25, "a key", 1_000, 3, 0.5, 2_000)


@pytest.fixture
def returned(address: str, database: psycopg.Connection, token: str) -> Iterator[Running]:
    """The service with a stream that stores no predictions."""
    text = first_entry(Settings(horizon=60.0, mode="returned", silence="unknown"))
    database.execute("select create_stream('clicks', %s)", [text])
    with Running(config(address), token) as running:
        yield running


def test_a_receipt_says_what_was_signed() -> None:
    receipts = Receipts([KEY])
    for said in (SAID, Receipt(bytes(16), 0.25, None, 1_000, 3, 0.5, 2_000)):
        assert receipts.read(5, "clicks", receipts.sign(5, "clicks", said), 2_000) == said


def test_keys_rotate() -> None:
    old, both, new = Receipts([OTHER]), Receipts([KEY, OTHER]), Receipts([KEY])
    assert both.read(5, "clicks", old.sign(5, "clicks", SAID), 0) == SAID
    assert new.read(5, "clicks", both.sign(5, "clicks", SAID), 0) == SAID
    with pytest.raises(InputError, match="not given out"):
        new.read(5, "clicks", old.sign(5, "clicks", SAID), 0)


def test_a_receipt_is_of_one_stream_and_ends() -> None:
    receipts = Receipts([KEY])
    text = receipts.sign(5, "clicks", SAID)
    for stream, name, now in ((6, "clicks", 0), (5, "other", 0), (5, "clicks", 2_001)):
        with pytest.raises(InputError):
            receipts.read(stream, name, text, now)


@given(st.data())
def test_no_changed_byte_is_taken(data: st.DataObject) -> None:
    receipts = Receipts([KEY])
    text = receipts.sign(5, "clicks", SAID)
    raw = bytearray(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InputError):
        receipts.read(5, "clicks", urlsafe_b64encode(bytes(raw)).decode().rstrip("="), 0)


@given(st.text(max_size=60))
def test_no_text_is_taken(text: str) -> None:
    with pytest.raises(InputError):
        Receipts([KEY]).read(5, "clicks", text, 0)


def test_nothing_is_stored_until_the_outcome(database: psycopg.Connection, returned: Running) -> None:
    found = returned.post("predict", {"id": "a", "score": 0.25, "key": "k"})
    assert (found["status"], found["probability"]) == ("returned", 0.25)
    stream = returned.process.streams["clicks"].stream
    assert len(read(database, stream, 1, 0, 10)) == 0
    sent = {"outcomes": [{"id": "a", "outcome": 1, "receipt": found["receipt"]}]}
    assert returned.post("outcomes", sent)["accepted"] == 1
    entries = read(database, stream, 1, 0, 10)
    assert entries.kind.tolist() == [Kind.OUTCOME_WITH_RECEIPT]
    assert (entries.score[0], entries.probability[0], entries.version[0], entries.label[0]) == (0.25, 0.25, 0, 1)
    assert entries.predicted[0] <= entries.at[0]
    assert database.execute("select key from log where kind = 3").fetchone() == ("k",)


def test_outcomes_need_their_own_receipt(database: psycopg.Connection, returned: Running) -> None:
    rows = [{"id": "a", "score": 0.25}, {"id": "b", "score": 0.5}]
    a, b = (each["receipt"] for each in returned.post("predictions", {"rows": rows})["rows"])
    wrong = [{}, {"receipt": None}, {"receipt": b}, {"receipt": a[:-1]}, {"receipt": ""}, {"receipt": a + "é"}]
    for each in wrong:
        sent = [{"id": "b", "outcome": 1, "receipt": b}, {"id": "a", "outcome": 1} | each]
        error = returned.post("outcomes", {"outcomes": sent}, 422)["error"]
        assert error["argument"] == "outcomes[1].receipt"
        assert error["code"] in ("receipt", "receipt-missing")
    assert database.execute("select count(*) from log where kind = 3").fetchone() == (0,)
    assert returned.process.counts["refused", "clicks", "receipt"] == 8


def test_a_process_without_keys_refuses_to_answer(address: str, database: psycopg.Connection, token: str) -> None:
    text = first_entry(Settings(horizon=60.0, mode="returned", silence="unknown"))
    database.execute("select create_stream('clicks', %s)", [text])
    with Running(config(address, receipt_keys=()), token) as running:
        assert running.post("predict", {"id": "a", "score": 0.25}, 503)["error"]["code"] == "no-receipt-keys"


def test_many_receipts_are_those_of_one_at_a_time() -> None:
    receipts = Receipts([KEY])
    ids, scores, at, found = [bytes(16), bytes(range(16))], [0.0, 0.7], [5, 2**50], [0.1, 1.0]
    many = receipts.signed_many(3, b"clicks\0", ids, scores, at, 4, found, 60)
    assert many == [
        receipts.signed(3, b"clicks\0", id, score, None, t, 4, p, t + 60)
        for id, score, t, p in zip(ids, scores, at, found, strict=True)
    ]


@pytest.mark.slow
def test_a_receipt_that_is_sent_twice_counts_once(
    address: str, database: psycopg.Connection, returned: Running
) -> None:
    receipt = returned.post("predict", {"id": "a", "score": 0.25})["receipt"]
    for _ in range(2):
        returned.post("outcomes", {"outcomes": [{"id": "a", "outcome": 1, "receipt": receipt}]})
    with connect(address) as own:
        learner = Learner(own, returned.process.streams["clicks"].stream)
        wait_for(lambda: (learner.tick(), learner.step(), learner.state and learner.state.position >= 3)[-1])
        assert learner.state is not None
        counts = learner.state.ledger.counts
    assert (counts.open, counts.joined, counts.duplicate_outcomes, counts.duplicate_predictions) == (1, 1, 1, 1)
