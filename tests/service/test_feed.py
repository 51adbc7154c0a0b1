"""A feed of outcomes that is dead, trickles, is late or silent: what is learned, and what is not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pytest
from benchmarks import feed as benchmark
from benchmarks.service_month import Writer, begun
from tests.service.live_service import Running
from tests.service.test_learner import START as LATER
from tests.service.test_learner import at_second
from tests.service.test_pages import csrf, log_in
from tests.service.test_predict import moment

from calibrant.live import Counts
from calibrant.numerics import Floats, Ints
from calibrant.service.api.pages.sentences import about
from calibrant.service.learning import state as module
from calibrant.service.learning.feed import LEVEL, Feed
from calibrant.service.learning.learner import Learner
from calibrant.service.learning.publishing import ServedMap
from calibrant.service.learning.replay import replay
from calibrant.service.learning.report import report
from calibrant.service.learning.state import StreamState
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.log import SECOND, Kind, append_entry, append_outcomes, append_predictions, read
from calibrant.service.store.overview import read_overviews
from calibrant.service.store.retention import drop_days
from calibrant.service.store.streams import list_streams

START, HORIZON, GRACE, ROWS = 1_900_000_000, 10.0, 1.0, 30
CUT, BACK, END = 90, 120, 160
"""Seconds in which outcomes stop for three horizons, and in which a run ends."""

Send = Callable[[int, Ints], Ints]


class World:
    """A stream with 30 rows a second and calibrated scores; events are sent 1 to 8 seconds after the prediction.

    Parameters
    ----------
    send
        Of a second and the rows whose events are to be sent in it: the rows that are sent, the others are kept back.
    silent
        Seconds in which nothing happens.
    settings
        Changes of the settings.
    """

    def __init__(
        self, send: Send = lambda second, rows: rows, silent: Sequence[int] = (), rows: int = ROWS, **settings: Any
    ) -> None:
        rng = np.random.default_rng(3)
        base: dict[str, Any] = {"publish_rows": 500, "publish_seconds": 1e6, "tolerance": 3.0, "alarm_level": 1e-9}
        self.settings = Settings(**(base | {"horizon": HORIZON, "silence": "negative"} | settings))
        self.writer, self.send, self.second = Writer(), send, 0
        self.state = begun(self.settings, self.writer, START)
        n = rows * END
        self.at = np.repeat(np.arange(1, END + 1), rows)
        self.score = 1.0 / (1.0 + np.exp(-rng.normal(-1.5, 1.0, n)))
        self.key = rng.integers(1, 4, n)
        self.event = (rng.random(n) < self.score) & ~np.isin(self.at, silent)
        self.sent_at = self.at + rng.integers(1, 9, n)
        self.waiting = np.empty(0, dtype=np.int64)
        self.versions: dict[int, int] = {}
        self.last_event: list[int] = [0]

    def go(self, until: int, actions: dict[int, list[dict[str, Any]]] | None = None) -> World:
        """On to a second, with actions by their second; now and then the state is stored and read again."""
        while self.second < until:
            self.second += 1
            rows = np.flatnonzero(self.at == self.second)
            due = np.concatenate([self.waiting, np.flatnonzero(self.event & (self.sent_at == self.second))])
            told = self.send(self.second, due)
            self.waiting = np.setdiff1d(due, told)
            self.last_event += self.sent_at[told].tolist()
            served = np.full(len(rows), self.state.served)
            given = {
                "id": rows + 1, "score": self.score[rows], "probability": self.score[rows], "version": served,
                "key": self.key[rows],
            }  # fmt: skip
            block = self.writer.block(
                START + self.second, given, told + 1, np.ones(len(told)), (actions or {}).get(self.second, ()),
                START + self.sent_at[told],
            )  # fmt: skip
            if self.second % 9 == 0:
                self.state = StreamState.from_bytes(self.state.to_bytes())
            self.state.apply(block)
            self.versions[self.second] = self.state.version
        return self

    def batch(self, events: Any, kept: Any) -> str:
        """A forecaster that learned the rows at once that are released by now, without those that are not kept."""
        fresh = self.settings.new_forecaster()
        rows = np.flatnonzero(kept & (START + self.at + HORIZON <= self.state.feed.until))
        return fresh.learn_many(self.score[rows], events[rows].astype(int)).to_json()


def gap(was: str, **times: int) -> dict[str, Any]:
    """A decision about a gap, with times in seconds of the run."""
    return {"action": "gap", "was": was} | {name: (START + at) * SECOND for name, at in times.items()}


def complete(until: float) -> dict[str, Any]:
    """Word of the feed."""
    return {"action": "complete", "until": int((START + until) * SECOND)}


def cut(second: int, rows: Ints) -> Ints:
    """Nothing is sent while the feed is cut."""
    return rows[:0] if CUT <= second < BACK else rows


def backlog(second: int, rows: Ints) -> Ints:
    """After the cut, what was kept back comes within three seconds, the newest first."""
    if second < BACK or second >= BACK + 3:
        return cut(second, rows)
    return rows[-(len(rows) // 2) :] if second < BACK + 2 else rows


def test_nothing_is_learned_or_published_while_outcomes_are_cut_off() -> None:
    world = World(cut).go(BACK)
    assert world.versions[CUT] >= 3
    assert world.versions[BACK] == world.versions[CUT + 1]
    released = world.state.ledger.counts
    assert released.silent_negative + released.with_outcome <= ROWS * (CUT - HORIZON - GRACE)
    found = report(world.state)["feed"]
    assert found["held"]
    assert found["past_due"] > ROWS * 30


@pytest.mark.parametrize("keyed", [False, True])
def test_a_feed_that_was_late_leaves_what_is_learned_equal(keyed: bool) -> None:
    changed: dict[str, Any] = {"keyed": True, "publish_rows": 10**9} if keyed else {}
    at_once: Send = lambda second, rows: cut(second, rows)  # noqa: E731
    never = World(**changed).go(END).state
    late = World(at_once if keyed else backlog, **changed).go(END, {BACK + 4: [gap("silent")]}).state
    assert late.forecaster.to_json() == never.forecaster.to_json()
    assert late.forecaster.n_rows > ROWS * 130
    if late.bank is not None and never.bank is not None:
        assert late.bank.to_bytes() == never.bank.to_bytes()


def test_rows_of_a_gap_whose_outcomes_were_lost_are_left_out() -> None:
    kept_back: list[int] = []

    def send(second: int, rows: Ints) -> Ints:
        if CUT <= second < BACK:
            kept_back.extend(rows.tolist())
            return rows[:0]
        return np.setdiff1d(rows, kept_back)

    many: dict[str, Any] = {"rows": 300, "publish_rows": 2_000}
    never = World(**many).go(END)
    world = World(send, **many).go(END, {BACK: [gap("lost")]})
    begin = max(each for each in world.last_event if each < CUT)
    meets = (world.at < BACK) & (world.at + HORIZON + GRACE >= begin)
    assert world.state.forecaster.to_json() == world.batch(world.event, ~meets)
    assert world.state.ledger.counts.dropped == meets.sum()
    scores = np.quantile(world.score, [0.05, 0.25, 0.5, 0.75, 0.95])
    served, as_it_was = (_log_odds(each.state, scores) for each in (world, never))
    assert (np.abs(served - as_it_was) <= 2.0 * _errors(world, scores)).all()
    assert world.state.version > world.versions[BACK]


def _log_odds(state: StreamState, scores: Floats) -> Floats:
    p = ServedMap.read(state.decisions.documents[state.served]).apply(scores, np.zeros(len(scores), dtype=np.int64))
    return np.asarray(np.log(p / (1.0 - p)))


def _errors(world: World, scores: Floats) -> Floats:
    """Standard errors of log-odds of Platt scaling on the rows of the run, at some scores."""
    x = np.column_stack([np.ones_like(world.score), np.log(world.score / (1.0 - world.score))])
    information = (x * (world.score * (1.0 - world.score))[:, None]).T @ x
    z = np.column_stack([np.ones(len(scores)), np.log(scores / (1.0 - scores))])
    return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", z, np.linalg.inv(information), z)))


@pytest.mark.parametrize("every", [1, 25])
def test_silence_that_the_feed_vouches_for_is_learned_as_before(every: int) -> None:
    words = {second: [complete(second)] for second in range(1, END) if second % every == 0 or second == END - 1}
    world = World(silent=range(CUT, BACK)).go(END, words)
    assert world.state.forecaster.to_json() == world.batch(world.event, True)
    assert world.state.feed.until >= START + END - 1
    assert not world.state.feed.is_held


def test_a_feed_that_trickles_is_held_before_it_spoils_what_is_served() -> None:
    world = World(lambda second, rows: rows[(rows % 20 == 0) | (second < CUT)]).go(CUT - 1)
    while not world.state.feed.is_held and world.second < END:
        world.go(world.second + 1)
    judged = (world.at + HORIZON + GRACE > CUT - 1) & (world.at + HORIZON + GRACE < world.second)
    assert world.score[judged].sum() < 200.0
    version, learned = world.state.version, world.state.forecaster.n_rows
    world.go(END)
    assert (world.state.version, world.state.forecaster.n_rows) == (version, learned)


def test_a_healthy_feed_is_not_held() -> None:
    assert World().go(END).state.feed.evidence < LEVEL / 100.0


def test_word_of_the_feed_ends_a_hold() -> None:
    world = World(cut).go(BACK - 1)
    assert world.state.feed.is_held
    world.go(BACK + 1, {BACK: [complete(BACK - 1)]})
    assert not world.state.feed.is_held
    assert world.state.feed.until == START + BACK - 1


def test_at_the_bound_the_oldest_rows_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAST_DUE", 400)
    world = World(cut).go(BACK)
    waiting = world.state.ledger.waiting(-math.inf, float(START + BACK))
    assert len(waiting) == 400
    assert world.state.ledger.counts.dropped == ROWS * (BACK - HORIZON) - 400 - world.state.forecaster.n_rows
    assert waiting.at.min() > START + BACK - HORIZON - 400 / ROWS - 1.0
    assert world.state.ledger.counts.predictions == ROWS * BACK


@pytest.mark.parametrize(
    "wrong",
    [
        {"was": "gone"}, {}, {"was": "lost", "from": "now"}, {"was": "lost", "until": float("nan")},
        {"was": "silent", "from": True}, {"was": ["lost"]},
    ],
)  # fmt: skip
def test_a_decision_about_a_gap_that_makes_no_sense_changes_nothing(wrong: dict[str, Any]) -> None:
    worlds = [World(cut).go(BACK, {BACK - 2: [{"action": action} | wrong]}) for action in ("gap", "nothing")]
    assert worlds[0].state.feed.is_held
    assert worlds[0].state.to_bytes() == worlds[1].state.to_bytes()


def test_a_gap_can_be_said_without_a_hold() -> None:
    counts: list[Counts] = []
    for times in ({"from": 40, "until": 50}, {"from": 40, "until": 500}):
        world = World().go(60, {60: [gap("lost", **times)]})
        counts.append(world.state.ledger.counts)
    first = next(k for k in range(1, 61) if k + HORIZON >= 59 - GRACE)  # the last life that counts is at 59
    assert counts[0].dropped == ROWS * (50 - first)
    assert counts[1].dropped == ROWS * (60 - first)


def test_the_evidence_is_that_of_the_recurrence() -> None:
    rng = np.random.default_rng(1)
    p, came = rng.uniform(0.0, 1.0, 500), rng.random(500) < 0.2
    evidence = 0.0
    for each, event in zip(p, came, strict=True):
        evidence = (evidence + each) * math.exp(-math.log(6.0) * event) / (1.0 - (1.0 - 1.0 / 6.0) * each / 4.0)
    feed = Feed()
    assert not feed.add(p, came)
    assert feed.evidence == pytest.approx(evidence)


def test_a_dead_feed_is_held_within_sixty_expected_arrivals() -> None:
    for p in (0.002, 0.05, 0.5):
        feed, rows = Feed(), 0
        while not feed.add(np.full(1, p), np.zeros(1, dtype=bool)):
            rows += 1
        assert rows * p <= 60.0


def test_the_benchmark_takes_rows_as_the_feed_does() -> None:
    rng = np.random.default_rng(2)
    p, came = rng.uniform(0.0, 0.5, 300), rng.random(300) < 0.1
    feed, evidence = Feed(), np.zeros(1)
    for each, event in zip(p, came, strict=True):
        evidence = benchmark.step(evidence, np.full(1, each), np.full(1, event))
    feed.add(p, came)
    assert feed.evidence == pytest.approx(float(evidence[0]))


def test_false_alarms_are_rare_and_a_dead_feed_is_found_soon(full_size: bool) -> None:
    arrivals = 4e6 if full_size else 1e5
    for rate in (1.0 / 3.0, 1.0, 3.0):
        for clusters in (False, True):
            assert not benchmark.healthy("0.1", rate, arrivals, clusters=clusters).alarms
    assert benchmark.delays("0.1", 0.0, 100).max() <= 60.0
    assert benchmark.delays("0.1", 0.05, 100).mean() <= 120.0


# ------------------------------------------------------------------------------------- the log, the learner, the doors


@pytest.fixture
def events(database: psycopg.Connection) -> int:
    """A stream on which silence is negative."""
    text = first_entry(Settings(horizon=4.0, silence="negative", publish_rows=100, alarm_level=1e-9, retention_days=1))
    return int(database.execute("select create_stream('events', %s)", [text]).fetchone()[0])  # type: ignore[index]


def log_second(database: psycopg.Connection, stream: int, second: int, *, feed: bool = True, rows: int = 60) -> None:
    """Predictions of a second, by the version that is served, and their events, or only the predictions."""
    at_second(database, stream, LATER + second)
    rng = np.random.default_rng(second)
    ids, scores = [UUID(int=1 + 1_000 * second + k) for k in range(rows)], rng.uniform(0.1, 0.6, rows)
    served = next(each.served for each in list_streams(database) if each.number == stream)
    blank: list[None] = [None] * rows
    append_predictions(database, stream, ids, scores.tolist(), blank, blank, [served] * rows, scores.tolist())
    told = [id for id, y in zip(ids, rng.random(rows) < scores, strict=True) if y and feed]
    if told:
        append_outcomes(database, stream, told, [1] * len(told), [None] * len(told))


@pytest.fixture
def dead(database: psycopg.Connection, events: int) -> Learner:
    """The learner of a stream whose outcomes stopped after 35 seconds, 15 seconds ago."""
    learner = Learner(database, events)
    for second in range(50):
        log_second(database, events, second, feed=second < 35)
        learner.step()
    return learner


def test_a_dead_feed_is_held_by_the_learner_and_replayed(
    database: psycopg.Connection, events: int, dead: Learner
) -> None:
    assert dead.state is not None
    assert dead.state.feed.is_held
    dead.checkpoint()
    append_entry(database, events, Kind.ACTION, json.dumps({"action": "gap", "was": "lost"}))
    for second in range(50, 60):
        log_second(database, events, second)
        dead.step()
    assert not dead.state.feed.is_held
    assert dead.state.ledger.counts.dropped > 500
    for checkpoints in (False, True):
        again = replay(database, events, checkpoints=checkpoints)
        assert again.is_equal
        assert again.state.to_bytes() == dead.state.to_bytes()


def test_a_learner_writes_no_ticks_for_rows_that_nothing_releases(
    database: psycopg.Connection, events: int, dead: Learner
) -> None:
    for second in (60, 61):
        at_second(database, events, LATER + second)
        append_entry(database, events, Kind.TICK)
    dead.step()
    assert dead.state is not None
    assert dead.state.ledger.counts.open > 500
    assert not dead.state.waits
    append_entry(database, events, Kind.ACTION, json.dumps({"action": "gap", "was": "silent"}))
    at_second(database, events, LATER + 62)
    append_entry(database, events, Kind.TICK)
    dead.step()
    assert dead.state.waits


def test_no_day_is_dropped_whose_rows_wait(database: psycopg.Connection, events: int, dead: Learner) -> None:
    for day in (2, 3, 4):
        at_second(database, events, LATER + day * 86_400)
        append_entry(database, events, Kind.TICK)
        dead.step()
        dead.checkpoint()
    wanted = "select count(*) from log where stream = %s and kind = 1"
    drop_days(database)
    assert database.execute(wanted, [events]).fetchone() == (3_000,)
    append_entry(database, events, Kind.ACTION, json.dumps({"action": "gap", "was": "silent"}))
    for day in (5, 6, 7):
        at_second(database, events, LATER + day * 86_400)
        append_entry(database, events, Kind.TICK)
        dead.step()
        dead.checkpoint()
    drop_days(database)
    assert database.execute(wanted, [events]).fetchone() == (0,)


def test_the_feed_gives_its_word_and_people_say_what_a_gap_was(
    database: psycopg.Connection, stream: int, events: int, service: Running
) -> None:
    path, until = "/v1/streams/events", "2026-05-01T12:00:00Z"
    for body, accepted in (
        ({"outcomes": [], "complete": until}, 0), ({"complete": until}, 0),
        ({"outcomes": [{"id": "a", "outcome": 1}], "complete": until}, 1),
        ({"outcomes": [{"id": "a", "outcome": 1, "at": moment(-80_000)}]}, 1),
    ):  # fmt: skip
        answer = service.client.post(f"{path}/outcomes", json=body)
        assert (answer.status_code, answer.json()["accepted"]) == (200, accepted)
    one = [{"id": "a", "outcome": 1}]
    for body, argument in (
        ({"outcomes": [], "complete": moment(1_000)}, "complete"), ({"complete": "now"}, "complete"), ({}, "outcomes"),
        ({"complete": until, "more": 1}, "outcomes"), ({"outcomes": one, "complete": 5}, "complete"),
    ):  # fmt: skip
        answer = service.client.post(f"{path}/outcomes", json=body)
        assert (answer.status_code, answer.json()["error"]["argument"]) == (422, argument)
    service.post("outcomes", {"complete": until}, 422)  # silence is unknown there
    given: list[tuple[dict[str, Any], int]] = [
        ({"was": "silent"}, 202), ({"was": "lost", "from": until, "until": "2026-05-01T13:00:00Z"}, 202),
        ({"was": "lost", "from": "2026-05-01T13:00:00Z", "until": until}, 422), ({"was": "gone"}, 422), ({}, 422),
    ]  # fmt: skip
    for body, status in given:
        assert service.client.post(f"{path}/gap", json=body).status_code == status
    entries = read(database, events, 1, 0, 100)
    said = [json.loads(text) for text in entries.documents.values()]
    at = 1_777_636_800 * SECOND
    assert said[:3] == [{"action": "complete", "until": at}] * 3
    assert said[3:] == [
        {"action": "gap", "was": "silent", "from": None, "until": None},
        {"action": "gap", "was": "lost", "from": at, "until": at + 3_600 * SECOND},
    ]


def test_the_page_says_since_when_and_takes_the_decision(
    database: psycopg.Connection, events: int, dead: Learner, stream: int, service: Running
) -> None:
    with log_in(service.url, database, "read", "admin") as browser:
        page = browser.get("/streams/events").text
        assert 'action="/streams/events/gap"' in page
        sent = {"csrf": csrf(page), "was": "lost", "from": "2033-05-18T03:00", "until": ""}
        assert browser.post("/streams/events/gap", data=sent | {"from": "noon"}).status_code == 422
        assert browser.post("/streams/events/gap", data=sent | {"was": "gone"}).status_code == 422
        assert browser.post("/streams/events/gap", data=sent).status_code == 200
    view = next(each for each in read_overviews(database) if each.name == "events")
    said = about(replace(view, behind_seconds=0.0))  # the log is ahead of the clock here
    assert said.tone == "bad"
    assert "No outcomes since 2033-05-18 03:33 UTC" in said.text
    metrics = service.client.get("/metrics").text
    assert 'calibrant_feed_held{stream="events"} 1.0' in metrics
    assert 'calibrant_last_outcome_timestamp_seconds{stream="events"} 2.000000034e+09' in metrics
    assert re.search(r'calibrant_rows_past_due\{stream="events"\} [1-9]', metrics)
    last = json.loads(list(read(database, events, 1, 0, 100_000).documents.values())[-1])
    assert last == {"action": "gap", "was": "lost", "from": 1_999_998_000 * SECOND, "until": None}
