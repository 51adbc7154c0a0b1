"""The learner: a function of the log, committed once, the same after a restart and by a replay."""

from __future__ import annotations

import json
import math
import time
from uuid import UUID

import numpy as np
import psycopg
import pytest

from calibrant.live import LateLearner, Ledger
from calibrant.messages import InputError
from calibrant.online import OnlinePlatt
from calibrant.service.learning import learner as module
from calibrant.service.learning.learner import FenceLostError, Learner
from calibrant.service.learning.replay import replay
from calibrant.service.settings import NUMBERS
from calibrant.service.store.log import SECOND, Kind, append_entry, append_outcomes, append_predictions
from calibrant.service.store.migrate import connect

START = 2_000_000_000


def at_second(connection: psycopg.Connection, stream: int, second: float) -> None:
    """Let the time of a stream be ahead of the clock, so that tests need not wait."""
    connection.execute("update head set time = %s where stream = %s", [int(second * SECOND), stream])


def fill(connection: psycopg.Connection, stream: int, seconds: int, seed: int = 0, first: int = 0) -> None:
    """Predictions and outcomes, some late, some twice, some never."""
    rng = np.random.default_rng(seed)
    for second in range(first, first + seconds):
        at_second(connection, stream, START + second)
        ids = [UUID(int=1 + 100 * second + k) for k in range(8)]
        scores = rng.random(8)
        append_predictions(connection, stream, ids, scores.tolist(), [None] * 8, [None] * 8, [0] * 8, scores.tolist())
        known = [
            UUID(int=1 + 100 * int(rng.integers(max(0, second - 3), second + 1)) + int(rng.integers(9))) for _ in ids
        ]
        append_outcomes(connection, stream, known, rng.integers(0, 2, 8).tolist(), [None] * 8)


def learned(learner: Learner) -> bytes:
    while learner.step():
        pass
    assert learner.state is not None
    return learner.state.to_bytes()


def versions(connection: psycopg.Connection, stream: int) -> list[tuple[object, ...]]:
    return connection.execute(
        "select number, position, time, document from version where stream = %s order by number", [stream]
    ).fetchall()


def test_what_is_learned_is_what_the_ledger_releases(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 12)
    learner = Learner(database, stream)
    learned(learner)
    assert learner.state is not None
    own = LateLearner(OnlinePlatt(half_life=50_000.0), Ledger(2.0, silence="unknown"))
    rows = database.execute(
        "select kind, time, id, score, at, label from log where stream = %s and kind < 3 and position <= %s "
        "order by time / 1000000, kind, position",
        [stream, learner.state.position],
    ).fetchall()
    for kind, moment, id, score, at, label in rows:
        own.advance(float(moment // SECOND))
        if kind == 1:
            own.predict([id], [score], at=at / SECOND)
        else:
            own.observe([id], [label], at=at / SECOND)
    assert learner.state.forecaster.to_json() == own.forecaster.to_json()
    assert learner.state.forecaster.n_rows > 30


def test_the_steps_of_reading_do_not_matter(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 4)
    learner = Learner(database, stream)
    parts = []
    for k in range(4, 20):
        parts.append(learner.step())
        fill(database, stream, 1, seed=k, first=k)
    learned(learner)
    assert sum(part > 0 for part in parts) > 10
    assert learner.state is not None
    again = replay(database, stream, learner.state.position, checkpoints=False)
    assert again.state.to_bytes() == learner.state.to_bytes()


def test_a_restart_goes_on_where_the_last_commit_was(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 10)
    first = Learner(database, stream)
    learned(first)
    before = versions(database, stream)
    assert before
    first.checkpoint()
    fill(database, stream, 6, seed=1, first=10)
    learned(first)  # and it dies without a checkpoint
    second = Learner(database, stream)
    assert first.state is not None
    assert learned(second) == first.state.to_bytes()
    assert versions(database, stream)[: len(before)] == before


def test_a_learner_without_the_fence_commits_nothing(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 6)
    first = Learner(database, stream)
    second = Learner(database, stream)
    with pytest.raises(FenceLostError, match="another learner has it"):
        first.step()
    assert versions(database, stream) == []
    first.checkpoint()
    assert database.execute("select count(*) from checkpoint").fetchone() == (0,)
    learned(second)
    assert versions(database, stream)


def test_a_replay_gives_the_same_versions(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 20)
    learner = Learner(database, stream)
    learned(learner)
    learner.checkpoint()
    fill(database, stream, 20, seed=2, first=20)
    learned(learner)
    for checkpoints in (False, True):
        found = replay(database, stream, checkpoints=checkpoints)
        assert found.different == []
        assert found.compared > 0
    database.execute("update version set document = document || ' ' where number = 2")
    assert replay(database, stream, checkpoints=False).different == [2]
    database.execute("update version set document = rtrim(document, ' ') where number = 2")
    database.execute("update promotion set cause = 'person' where version = (select max(version) from promotion)")
    assert len(replay(database, stream, checkpoints=False).different_promotions) == 1
    with pytest.raises(InputError, match="otherwise than before"):  # from the stored state, it is decided again
        learned(Learner(database, stream))


def test_a_tick_completes_the_last_second(database: psycopg.Connection, stream: int) -> None:
    learner = Learner(database, stream)
    assert learner.step() == 0  # the second of its settings may still go on
    time.sleep(1.1)
    assert learner.tick()
    assert learner.step() == 1
    assert not learner.tick()  # nothing waits


def test_people_promote_and_go_back(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 12)
    append_entry(database, stream, Kind.ACTION, json.dumps({"action": "promote", "version": 1}))
    fill(database, stream, 1, first=12)
    learner = Learner(database, stream)
    learned(learner)
    served = database.execute(
        "select version, cause from promotion where stream = %s order by position, place", [stream]
    ).fetchall()
    assert (1, "person") in served
    assert served[0] == (1, "published")


def test_a_damaged_checkpoint_is_refused(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 6)
    learner = Learner(database, stream)
    learned(learner)
    learner.checkpoint()
    database.execute("update checkpoint set state = set_byte(state, 100, 255 - get_byte(state, 100))")
    with pytest.raises(Exception, match="checkpoint is damaged"):
        Learner(database, stream)


def test_the_learner_tells_figures_of_now_and_of_each_day(database: psycopg.Connection, stream: int) -> None:
    fill(database, stream, 12)
    learner = Learner(database, stream)
    learned(learner)
    assert learner.state is not None
    position, document = database.execute("select position, document from report").fetchone()  # type: ignore[misc]
    found = json.loads(document)
    assert position == learner.state.position
    assert found["rows_learned"] == learner.state.forecaster.n_rows
    assert sum(each["n"] for each in found["reliability"]) == found["rows_learned"]
    assert 0.0 < found["coverage"] < 1.0
    assert 0.0 < found["label_lag_seconds"]["p50"] <= found["label_lag_seconds"]["p90"] <= 2.0
    day, of_day = database.execute("select day, document from daily").fetchone()  # type: ignore[misc]
    assert str(day) == "2033-05-18"
    assert json.loads(of_day)["n"] == found["rows_learned"]


def test_whole_numbers_in_settings_give_the_same_states(database: psycopg.Connection) -> None:
    whole = {name: math.ceil(least) for name, (least, most) in NUMBERS.items() if most >= 1}
    text = json.dumps(
        {"action": "settings", "settings": whole | {"horizon": 2, "silence": "negative", "publish_rows": 20}}
    )
    row = database.execute("select create_stream('whole', %s)", [text]).fetchone()
    assert row is not None
    fill(database, row[0], 6)
    append_entry(database, row[0], Kind.ACTION, text.replace('"horizon": 2', '"horizon": 3'))
    fill(database, row[0], 6, first=6)
    for _ in range(2):  # the second one begins with the stored state, whose numbers are real
        learner = Learner(database, row[0])
        learned(learner)
        learner.checkpoint()
        fill(database, row[0], 6, first=12)
    assert replay(database, row[0], checkpoints=False).is_equal


def test_a_catch_up_that_is_stopped_does_not_begin_again(
    database: psycopg.Connection, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, stream, 20)
    whole = learned(Learner(database, stream))
    assert database.execute("delete from checkpoint").rowcount
    monkeypatch.setattr(module, "LIMIT", 40)
    places = []
    for _ in range(4):  # each is stopped after one step
        learner = Learner(database, stream)
        learner.step()
        places.append(learner.state.position)  # type: ignore[union-attr]
    assert places == sorted(set(places))
    assert learned(Learner(database, stream)) == whole
    assert replay(database, stream).is_equal


def test_a_learner_at_work_notices_another_one(
    database: psycopg.Connection, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, stream, 6)
    learned(Learner(database, stream))
    database.execute("delete from checkpoint")
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.0)
    first = Learner(database, stream)
    first.step()
    assert database.execute("select beat from learner").fetchone() == (6,)  # for each block
    fill(database, stream, 4, first=6)
    Learner(database, stream)
    before = first.state.position  # type: ignore[union-attr]
    with pytest.raises(FenceLostError):
        first.step()
    assert first.state.position <= before + 16  # type: ignore[union-attr]


def test_what_could_not_be_committed_is_committed_by_the_next_step(
    address: str, database: psycopg.Connection, stream: int
) -> None:
    fill(database, stream, 6)
    with connect(address) as other, connect(address, lock_seconds=0.1) as own:
        learner = Learner(own, stream)
        with other.transaction():
            other.execute("select from learner for update")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                learner.step()
            learner.checkpoint()
            assert database.execute("select count(*) from checkpoint").fetchone() == (0,)
        fill(database, stream, 6, seed=1, first=6)
        whole = learned(learner)
    assert versions(database, stream)
    assert replay(database, stream, checkpoints=False).is_equal
    assert learned(Learner(database, stream)) == whole
