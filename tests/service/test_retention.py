"""What is removed: days that are no longer needed, ids that must go; and epochs after a restore."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import numpy as np
import psycopg
import pytest
from tests.service.faults.database import Database
from tests.service.test_learner import at_second, fill, learned, versions

from calibrant.live import Ledger
from calibrant.service.learning.learner import Learner
from calibrant.service.learning.replay import replay
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.log import append_outcomes, append_predictions
from calibrant.service.store.migrate import connect, migrate
from calibrant.service.store.retention import check_epoch, drop_days, erase, raise_epoch

DAY = 86_400
START = 20_000 * DAY


@pytest.fixture
def short(database: psycopg.Connection) -> int:
    """A stream that keeps its log for two days, and has a past."""
    text = first_entry(
        Settings(
            horizon=2.0, silence="unknown", publish_rows=20, publish_seconds=1.0, retention_days=2, alarm_level=1e-9
        )
    )
    return int(database.execute("select create_stream('short', %s)", [text]).fetchone()[0])  # type: ignore[index]


def log_day(connection: psycopg.Connection, stream: int, day: int, learner: Learner | None = None) -> None:
    """Some seconds of a day, long ago or in the future."""
    rng = np.random.default_rng(day)
    for second in range(4):
        at_second(connection, stream, 2_000_000_000 + day * DAY + second)
        ids = [UUID(int=1 + 1_000 * day + 10 * second + k) for k in range(5)]
        scores = rng.random(5).tolist()
        append_predictions(connection, stream, ids, scores, ["k"] * 5, [None] * 5, [0] * 5, scores)
        append_outcomes(connection, stream, ids, rng.integers(0, 2, 5).tolist(), [None] * 5)
    if learner is not None:
        learned(learner)


def days(connection: psycopg.Connection, stream: int) -> int:
    row = connection.execute("select count(distinct day) from log where stream = %s", [stream]).fetchone()
    return int(row[0])  # type: ignore[index]


def test_days_are_dropped_once_they_are_learned_and_a_state_is_stored(
    database: psycopg.Connection, short: int, stream: int
) -> None:
    learner = Learner(database, short)
    for day in range(5):
        log_day(database, short, day, learner)
    fill(database, stream, 3)  # another stream keeps its entries
    before = versions(database, short)
    assert days(database, short) == 6  # and the day of its settings
    drop_days(database)
    assert days(database, short) == 3
    assert days(database, stream) > 0
    known = database.execute("select min(day), count(*) from known where stream = %s", [short]).fetchone()
    assert known is not None
    assert known[1] == 3 * 20
    told = database.execute("select count(*) from daily where stream = %s", [short]).fetchone()
    assert told == (5,)
    assert versions(database, short) == before
    again = replay(database, short)
    assert again.different == []
    assert again.different_states == []
    assert again.compared > 0
    second = Learner(database, short)  # begins with a stored state
    assert learner.state is not None
    assert learned(second) == learner.state.to_bytes()


def test_nothing_is_dropped_that_is_not_learned(database: psycopg.Connection, short: int) -> None:
    for day in range(5):
        log_day(database, short, day)
    assert drop_days(database) == []
    assert days(database, short) == 6
    learner = Learner(database, short)
    learned(learner)
    database.execute("delete from checkpoint")
    drop_days(database)
    assert days(database, short) == 6


def test_the_part_of_a_day_that_nobody_needs_is_gone(database: psycopg.Connection, short: int) -> None:
    database.execute("select make_day(date '2020-01-01')")
    assert [str(day) for day in drop_days(database)] == ["2020-01-01"]
    assert database.execute("select to_regclass('log_20200101')").fetchone() == (None,)


def test_an_entry_that_comes_while_its_day_is_dropped_is_kept(address: str, database: psycopg.Connection) -> None:
    database.execute("select make_day(date '2020-01-01')")
    with connect(address) as writer, ThreadPoolExecutor(1) as pool:
        writer.execute("begin")
        writer.execute("insert into log (stream, position, day, time, kind) values (9, 1, '2020-01-01', 0, 4)")
        dropped = pool.submit(drop_days, database)
        time.sleep(0.5)
        writer.execute("commit")
        assert dropped.result() == []
    assert database.execute("select count(*) from log where stream = 9").fetchone() == (1,)


def test_a_dropped_id_is_free_again(database: psycopg.Connection, short: int) -> None:
    learner = Learner(database, short)
    for day in range(5):
        log_day(database, short, day, learner)
    drop_days(database)
    first = UUID(int=1)
    found = append_predictions(database, short, [first], [0.9], [None], [None], [0], [0.9])
    assert found[0].found == 0


def test_an_erased_id_is_nowhere(database: psycopg.Connection, short: int) -> None:
    learner = Learner(database, short)
    log_day(database, short, 0)
    learned(learner)
    learner.checkpoint()
    gone, kept = UUID(int=11), UUID(int=12)
    position = erase(database, short, gone)
    log_day(database, short, 1, learner)
    assert learner.state is not None
    assert learner.state.position >= position
    tables = (
        database.execute("select count(*) from log where id = %s", [gone]).fetchone(),
        database.execute("select count(*) from known where id = %s", [gone]).fetchone(),
    )
    assert tables == ((0,), (0,))
    texts = database.execute("select document from log where document is not null").fetchall()
    assert not any(gone.hex in text for (text,) in texts)
    for (state,) in database.execute("select state from checkpoint where stream = %s", [short]).fetchall():
        assert gone.bytes not in state
        assert int.from_bytes(gone.bytes[8:], "big").to_bytes(8, "little") not in _ids(state)
    assert database.execute("select count(*) from log where id = %s", [kept]).fetchone() == (2,)
    assert database.execute(
        "select count(*) from log where stream = %s and key is null and kind = 1", [short]
    ).fetchone() == (1,)
    assert database.execute("select count(*) from key_name where stream = %s", [short]).fetchone() == (0,)
    again = replay(database, short)
    assert again.different == []
    assert again.different_states == []
    log_day(database, short, 2, learner)
    assert learned(Learner(database, short)) == learner.state.to_bytes()


def _ids(state: bytes) -> bytes:
    """The second halves of the ids of rows in a stored state."""
    import io

    ledger = np.load(io.BytesIO(state))["ledger"].tobytes()
    return np.load(io.BytesIO(ledger))["ids"][:, 1].tobytes()


def test_a_row_that_is_erased_while_it_waits_is_not_learned(database: psycopg.Connection) -> None:
    text = first_entry(Settings(horizon=10.0, mode="returned", silence="unknown", publish_rows=20))
    stream = int(database.execute("select create_stream('erased', %s)", [text]).fetchone()[0])  # type: ignore[index]
    learner, gone, kept = Learner(database, stream), UUID(int=1), UUID(int=2)
    begin = 2_000_000_000
    call = "select append_outcomes(%s, %s, %s::smallint[], %s, %s, %s, %s, %s, %s)"

    def send(second: int, ids: list[UUID]) -> None:
        """Outcomes with receipts of predictions at the beginning."""
        at_second(database, stream, begin + second)
        n = len(ids)
        at, score, version = [begin * 1_000_000] * n, [0.5] * n, [0] * n
        database.execute(call, [stream, ids, [1] * n, [None] * n, score, ["k"] * n, at, version, score])

    send(1, [gone, kept])
    erase(database, stream, gone)
    send(3, [gone, gone, kept])  # the client sends it again
    erase(database, stream, kept)
    send(5, [gone])
    for second in (20, 21):
        send(second, [gone, kept])  # their horizon has passed
    learned(learner)
    assert learner.state is not None
    counts = learner.state.ledger.counts
    assert (counts.open, counts.erased, counts.with_outcome) == (0, 2, 1)
    assert learner.state.forecaster.n_rows == 1


def test_a_ledger_forgets_an_erased_id() -> None:
    ledger = Ledger(10.0, key_columns=2)
    ids = [UUID(int=k) for k in (5, 6, 7)]
    ledger.predict(ids, [0.1, 0.2, 0.3], at=0.0, keys=[[4, 1], [5, 1], [6, 1]])
    ledger.observe([ids[1], UUID(int=99)], [1, 1], at=1.0)
    for id in (ids[1], UUID(int=99), UUID(int=12345)):  # the last is not known
        ledger.erase(id.bytes)
    assert (ledger.counts.held, ledger.counts.unknown, ledger.counts.erased) == (0, 1, 1)
    assert (ledger.counts.predictions, ledger.counts.outcomes) == (3, 2)
    assert ledger.advance(10.0).scores.tolist() == [0.1, 0.3]
    ledger.erase(ids[0].bytes)  # released: its id is no longer remembered
    assert len(ledger) == 1
    assert Ledger.from_bytes(ledger.to_bytes()).to_bytes() == ledger.to_bytes()


def test_numbers_of_versions_are_not_used_again_after_a_restore(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 12)
    learner = Learner(database, stream)
    learned(learner)
    assert check_epoch(database) == 0
    old = max(number for number, *_ in versions(database, stream))  # type: ignore[type-var]
    assert isinstance(old, int)
    database.execute("update epoch set timeline = timeline + 1")  # as if it were restored
    epoch = check_epoch(database)
    assert epoch > 2_000
    assert check_epoch(database) == epoch
    fill(database, stream, 12, first=12)
    second = Learner(database, stream)
    learned(second)
    numbers = [number for number, *_ in versions(database, stream)]
    assert numbers[: numbers.index(old) + 1] == list(range(1, old + 1))
    assert numbers[-1] > 100_000 * epoch  # type: ignore[operator]
    assert raise_epoch(database) == epoch + 1
    later = database.execute("select create_stream('later', (select document from log where position = 1))").fetchone()
    fill(database, later[0], 12)  # type: ignore[index]
    learned(Learner(database, later[0]))  # type: ignore[index]
    assert versions(database, later[0])[0][0] == 100_000 * (epoch + 1) + 1  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.full
def test_a_standby_that_was_promoted_begins_an_epoch() -> None:
    with Database() as server:
        with connect(server.address) as owner:
            migrate(owner)
            assert check_epoch(owner) == 0
        server.stop(immediate=True)
        (server.data / "standby.signal").touch()
        (server.data / "standby.signal").chmod(0o666)
        server.start()
        with connect(server.address) as owner:
            assert owner.execute("select pg_is_in_recovery(), pg_promote()").fetchone() == (True, True)
            assert owner.execute("select timeline from this_server()").fetchone() == (2,)
            assert check_epoch(owner) > 2_000


def test_a_learner_from_before_a_restore_commits_nothing(database: psycopg.Connection, stream: int) -> None:
    learner = Learner(database, stream)
    fill(database, stream, 4)
    raise_epoch(database)
    with pytest.raises(Exception, match="another learner has it"):
        learner.step()
    actions = database.execute("select document from log where kind = 5 order by position").fetchall()
    assert json.loads(actions[-1][0])["action"] == "epoch"


def test_a_stream_that_fails_does_not_keep_the_days_of_another_one(
    database: psycopg.Connection, short: int, caplog: pytest.LogCaptureFixture
) -> None:
    text = database.execute("select document from log where position = 1").fetchone()
    (other,) = database.execute("select create_stream('other', %s)", text).fetchone()  # type: ignore[misc]
    for number in (short, other):
        learner = Learner(database, number)
        for day in range(5):
            log_day(database, number, day, learner)
    broken = "update settings set document = replace(document, ': 2,', ': 3000000,') where stream = %s"
    database.execute(broken, [short])
    drop_days(database)
    assert (days(database, short), days(database, other)) == (6, 3)
    assert [each.fields["problem"].split(":")[0] for each in caplog.records] == [f"stream {short} keeps its days"]  # type: ignore[attr-defined]
