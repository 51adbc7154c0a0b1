"""The log: positions in the order of commits, ids once, times that never go back."""

from __future__ import annotations

import threading
from uuid import UUID, uuid4

import psycopg
import pytest

from calibrant.live import read_ids
from calibrant.service.store.log import (
    Answer,
    Kind,
    append_entry,
    append_outcomes,
    append_predictions,
    key_number,
    read,
    read_id,
)
from calibrant.service.store.migrate import connect, migrate, migrations


def log_one(
    connection: psycopg.Connection, stream: int, id: UUID, score: float = 0.2, key: str | None = None
) -> Answer:
    return append_predictions(connection, stream, [id], [score], [key], [None], [1], [0.3])[0]


def test_an_id_is_logged_once(database: psycopg.Connection, stream: int) -> None:
    a, b = uuid4(), uuid4()
    assert log_one(database, stream, a) == Answer(0, 0.3, 1)
    found = append_predictions(
        database, stream, [a, b, b, a, b], [0.2, 0.5, 0.5, 0.21, 0.5], [None, "k", "k", None, "other"], [None] * 5,
        [2] * 5, [0.4, 0.6, 0.7, 0.8, 0.9],
    )  # fmt: skip
    assert found == [Answer(1, 0.3, 1), Answer(0, 0.6, 2), Answer(1, 0.6, 2), Answer(2, 0.3, 1), Answer(2, 0.6, 2)]
    entries = read(database, stream, 1, 0, 100)
    assert entries.position.tolist() == [2, 3]
    assert (entries.id == read_ids([a, b])).all()
    assert entries.probability.tolist() == [0.3, 0.6]


def test_streams_do_not_share_ids(database: psycopg.Connection, stream: int) -> None:
    other = int(database.execute("select create_stream('other', '{}')").fetchone()[0])  # type: ignore[index]
    id = uuid4()
    assert [log_one(database, each, id).found for each in (stream, other, stream)] == [0, 0, 1]


def test_what_is_read_is_what_was_logged(database: psycopg.Connection, stream: int) -> None:
    ids = [uuid4(), uuid4()]
    append_predictions(database, stream, ids, [0.0, 1.0], [None, "a"], [5, None], [3, 4], [0.25, 0.75])
    append_outcomes(database, stream, ids, [1, 0], [None, 17])
    append_entry(database, stream, Kind.TICK)
    append_entry(database, stream, Kind.ACTION, '{"action": "promote", "version": 0}')
    found = read(database, stream, 0, 0, 100)
    assert found.kind.tolist() == [5, 1, 1, 2, 2, 4, 5]
    assert found.position.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert found.score.tolist()[1:3] == [0.0, 1.0]
    assert found.key.tolist()[1:3] == [0, key_number("a")]
    assert found.at[1] == 5
    assert found.at[4] == 17
    assert found.label.tolist() == [-1, -1, -1, 1, 0, -1, -1]
    assert set(found.documents) == {1, 7}
    assert len(read(database, stream, 7, int(found.time[-1]), 100)) == 0
    assert read(database, stream, 2, 0, 2).position.tolist() == [3, 4]


def test_a_reader_never_skips_an_entry_of_an_open_transaction(
    database: psycopg.Connection, address: str, stream: int
) -> None:
    slow, fast = connect(address), connect(address)
    done = threading.Event()

    def later() -> None:
        log_one(fast, stream, uuid4())
        done.set()

    with slow.transaction():
        log_one(slow, stream, uuid4())
        thread = threading.Thread(target=later)
        thread.start()
        assert not done.wait(0.3)  # it waits for the lock on the end of the log
        assert read(database, stream, 0, 0, 100).position.tolist() == [1]
    thread.join(10.0)
    assert read(database, stream, 0, 0, 100).position.tolist() == [1, 2, 3]
    slow.close()
    fast.close()


def test_a_transaction_that_fails_leaves_no_gap(database: psycopg.Connection, stream: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        append_outcomes(database, stream, [uuid4()], [2], [None])
    with database.transaction(force_rollback=True):
        log_one(database, stream, uuid4())
    log_one(database, stream, uuid4())
    assert read(database, stream, 0, 0, 100).position.tolist() == [1, 2]


def test_many_writers_make_one_order(database: psycopg.Connection, address: str, stream: int) -> None:
    shared = [uuid4() for _ in range(40)]

    def write() -> None:
        with connect(address) as connection:
            for id in shared:
                log_one(connection, stream, id)
                append_outcomes(connection, stream, [id], [1], [None])

    threads = [threading.Thread(target=write) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60.0)
    found = read(database, stream, 0, 0, 1_000)
    assert found.position.tolist() == list(range(1, 1 + 1 + 40 + 160))
    assert (found.kind == Kind.PREDICTION).sum() == 40
    assert (found.time[1:] >= found.time[:-1]).all()


def test_time_never_goes_back(database: psycopg.Connection, stream: int) -> None:
    database.execute("update head set time = time + 3600000000 where stream = %s", [stream])
    log_one(database, stream, uuid4())
    log_one(database, stream, uuid4())
    found = read(database, stream, 0, 0, 100).time
    assert found[1] == found[2] >= found[0] + 3_600_000_000


def test_a_stream_that_does_not_exist_is_an_error(database: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.NoDataFound):
        append_entry(database, 99, Kind.TICK)


def test_migrations_run_once(address: str) -> None:
    def run(found: list[list[int]]) -> None:
        with connect(address) as connection:
            found.append(migrate(connection))

    ran: list[list[int]] = []
    threads = [threading.Thread(target=run, args=(ran,)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30.0)
    assert sorted(map(len, ran)) == [0, 0, len(migrations())]


def test_only_one_form_of_text_is_a_uuid() -> None:
    text = "01234567-89ab-cdef-0123-456789abcdef"
    assert read_id(text) == read_id(text.upper()) == UUID(text)
    others = [
        text.replace("-", ""),
        f"{{{text[:-2]}}}",
        text[:-1] + " ",
        text[:-2] + "--",
        text[:-1] + "g",
        " " + text[1:],
    ]
    assert len({read_id(each) for each in [*others, text]}) == len(others) + 1
