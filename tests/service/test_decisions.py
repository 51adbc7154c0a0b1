"""What is promoted, rolled back, pinned and learned faster, on logs that are made here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from benchmarks.service_month import Writer, begun

from calibrant import Calibration
from calibrant.live.snapshots import pack, unpack
from calibrant.maps import BetaMap, ByGroupMap, LogitAffineMap
from calibrant.messages import InputError
from calibrant.numerics import Floats, logit
from calibrant.service.learning.canary import Tried
from calibrant.service.learning.decisions import Promotion, check_document
from calibrant.service.learning.figures import ARRAYS, date_of, days_of
from calibrant.service.learning.publishing import ServedMap, candidate
from calibrant.service.learning.report import report, text_of
from calibrant.service.learning.state import KIND, StreamState
from calibrant.service.learning.trial import Paired
from calibrant.service.settings import Settings

START, ROWS = 1_900_000_000, 40


class World:
    """A stream in which every second has 40 rows, whose outcomes come at once; the horizon is 5 seconds."""

    def __init__(self, seed: int = 0, **settings: Any) -> None:
        given: dict[str, Any] = {
            "silence": "unknown",
            "horizon": 5.0,
            "publish_rows": 200,
            "publish_seconds": 1e6,
            "cool_down": 20.0,
        }
        self.writer, self.rng, self.second = Writer(), np.random.default_rng(seed), 0
        self.state = begun(Settings(**(given | settings)), self.writer, START)
        self.documents: dict[int, str] = {}
        self.promotions: list[Promotion] = []
        self.served: list[Floats] = []
        self.tried: list[Tried] = []
        self.answered = 1.0

    def go(
        self, seconds: int, bias: float = 0.0, actions: Any = (), shift: Callable[[Any], Any] = lambda key: 0.0
    ) -> None:
        """Some seconds: log-odds of events are those of the score minus the bias, plus the shift of the key."""
        for second in range(seconds):
            self.second += 1
            z, key = self.rng.normal(-0.5, 1.0, ROWS), self.rng.integers(1, 4, ROWS)
            score = _expit(z + bias)
            number, document = self.state.served, self.documents.get(self.state.served)
            p = ServedMap.read(document).apply(score, key)
            ids = 1 + ROWS * self.second + np.arange(ROWS)
            number = np.full(ROWS, number)
            canary = self.state.decisions.canary
            if canary is not None and canary.is_tried:
                own = ids % 10 < 10 * canary.share  # in place of the salted hash
                tried = ServedMap.read(self.documents[canary.version]).apply(score, key)
                number, p = np.where(own, canary.version, number), np.where(own, tried, p)
            rows = {"id": ids, "score": score, "probability": p, "version": number, "key": key}
            y = self.rng.random(ROWS) < _expit(z + shift(key))
            done = actions if second == 0 else ()
            self.state.find = self.documents.__getitem__
            known = np.arange(ROWS) < self.answered * ROWS
            decided = self.state.apply(self.writer.block(START + self.second, rows, ids[known], y[known], done))
            self.documents |= {version.number: version.document for version in decided.versions}
            self.promotions += decided.promotions
            self.tried += decided.tried
            self.served.append(p)

    def numbered(self, document: str) -> int:
        return next(number for number, text in self.documents.items() if text == document)

    def causes(self) -> list[str]:
        return [each.cause for each in self.promotions]

    def act(self, **action: Any) -> None:
        """One second with an action, in a world without bias."""
        self.go(1, actions=[action])


def _expit(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def bad_map(intercept: float = 1.5) -> str:
    return Calibration(LogitAffineMap(1.0, intercept)).to_json()


@pytest.mark.parametrize("forecaster", ["platt", "beta"])
def test_versions_move_in_steps_that_are_capped(forecaster: str) -> None:
    world = World(forecaster=forecaster, max_step=0.3)
    world.go(60, bias=1.5)
    scores = np.quantile(world.state.figures.window.scores, [0.05, 0.5, 0.95])
    before, keys, steps = scores, np.zeros(3, dtype=np.int64), []
    for each in world.promotions:
        after = ServedMap.read(world.documents[each.version]).apply(scores, keys)
        steps.append(np.abs(logit(after) - logit(before)).max())
        before = after
    assert len(steps) > 4
    assert max(steps) <= 0.3 + 0.02  # quantiles move a little as rows come
    assert steps[0] > 0.25
    assert abs(float((logit(before) - logit(scores))[1]) + 1.5) < 0.4


def test_the_first_version_waits_for_rows_or_time_as_later_ones_do() -> None:
    for settings, seconds in (({}, 10), ({"publish_rows": 10**6, "publish_seconds": 8.0}, 8)):
        world = World(**settings)  # rows are released 5 seconds after their prediction, 40 each second
        world.go(seconds - 1)
        assert (world.state.forecaster.n_rows > 0, world.state.version) == (True, 0)
        world.go(2)
        assert world.state.version == 1


def test_a_bad_version_is_rolled_back_and_nothing_is_promoted_until_a_person_resumes() -> None:
    world = World()
    world.go(30)
    world.go(1, actions=[{"action": "publish", "document": bad_map()}])
    served, bad = world.state.served, world.numbered(bad_map())
    world.act(action="promote", version=bad)
    world.go(24)
    assert world.causes().count("rolled back") == 1
    assert world.promotions[-1].version == world.state.served == served
    assert world.state.decisions.paused
    newest = world.state.version
    world.go(20)
    assert world.state.version > newest  # versions are published, and wait
    assert world.state.served == served
    assert world.state.decisions.held == "paused"
    world.act(action="resume")
    world.go(12)
    assert world.state.served > newest
    assert world.causes().count("rolled back") == 1


def test_what_a_person_decides_in_the_second_of_a_roll_back_counts() -> None:
    def until_promoted() -> World:
        world = World()
        world.go(30)
        world.go(1, actions=[{"action": "publish", "document": bad_map()}])
        world.act(action="promote", version=world.numbered(bad_map()))
        return world

    first, again = until_promoted(), until_promoted()
    while first.state.served == again.state.served:
        first.go(1)
    again.go(first.second - again.second - 1)
    again.go(1, actions=[{"action": "promote", "version": 1}, {"action": "resume"}])
    assert again.causes()[-2:] == ["rolled back", "person"]
    last = max(again.promotions, key=lambda each: (each.position, each.place))  # what is served, by the table
    assert last.version == again.state.served == 1


def test_a_change_of_what_a_trial_rests_on_begins_another_trial() -> None:
    world = World(publish_rows=200)
    world.go(20)
    assert world.state.decisions.served > 1
    world.act(action="canary", version=1, share=0.0)
    world.go(1)
    before = world.state.decisions.watch
    assert before is not None
    assert before.paired.rows > 0
    for name, value in (("tolerance", 0.05), ("trial_level", 0.5)):
        world.act(action="settings", settings=world.state.settings.document() | {name: value})
        watch = world.state.decisions.watch
        assert watch is not None
        assert (watch.version, watch.before, watch.paired.rows) == (before.version, before.before, 0)
        assert watch.since == START + world.second
        assert world.state.decisions.canary is not None
        assert world.state.decisions.canary.watch.since == START + world.second
    assert world.state.decisions.trials_of_people == 1 + 4


def test_a_break_of_the_world_is_an_alarm_and_faster_learning_and_not_a_roll_back() -> None:
    world = World(publish_rows=400)
    world.go(60)
    versions = world.state.version
    assert world.state.alarms == 0
    world.go(15, shift=lambda key: -1.5)
    assert world.state.alarms == 1
    found = report(world.state)["monitor"]
    assert (found["holds"], [each["kind"] for each in found["latest"]]) == (True, ["level"])
    assert found["latest"][0]["shift"] < -1.0
    assert world.state.version - versions >= 4  # one for each 400 rows would be 1
    world.go(30, shift=lambda key: -1.5)
    assert world.state.alarms == 1
    found = report(world.state)["monitor"]
    assert (found["holds"], found["latest"][0]["ended_by"]) == (False, "restart")
    assert "rolled back" not in world.causes()
    served = ServedMap.read(world.documents[world.state.served])
    moved = logit(served.apply(np.array([0.4]), np.zeros(1, dtype=np.int64))) - logit(np.array([0.4]))
    assert abs(float(moved[0]) + 1.5) < 0.4
    assert report(world.state)["monitor"]["last_alarm"].startswith("2030-03-17T")


def test_an_alarm_is_kept_with_what_it_saw() -> None:
    world = World(publish_rows=400)
    world.go(60)
    while not world.state.alarms:
        world.go(1, shift=lambda key: -1.5)
    world.state = StreamState.from_bytes(world.state.to_bytes())
    (found,) = report(world.state)["monitor"]["latest"]
    alarm = world.state.monitor.alarms[0]
    assert found["at"] == report(world.state)["monitor"]["last_alarm"]
    assert found["since"] < found["at"]
    assert found["band"]["rows"] == alarm.start
    assert found["band"]["low"] < found["band"]["difference"] < found["band"]["high"]
    assert alarm.start - alarm.onset_row < found["rows"] < 0.1 * alarm.start
    assert found["observed"] < 0.7 * found["predicted"]
    assert (found["advice"]["code"], found["ended_by"], found["until"]) == ("alarm-holds", None, None)
    world.act(action="settings", settings=world.state.settings.document() | {"alarm_level": 1e-9})
    world.go(1, shift=lambda key: -1.5)
    assert report(world.state)["monitor"]["latest"][0] | {"until": None} == found | {"ended_by": "settings"}


def test_a_state_that_was_stored_without_findings_goes_on() -> None:
    world = World()
    world.go(10)
    head, arrays = unpack(world.state.to_bytes(), KIND, {"ledger": np.uint8, "bank": np.uint8} | ARRAYS)
    del head["findings"], head["coverage"]
    world.state = StreamState.from_bytes(pack(KIND, head, arrays))
    world.go(10)
    assert report(world.state)["coverage_last_horizon"] == 1.0


def test_coverage_is_that_of_the_last_horizon() -> None:
    world = World(silence="unknown")
    world.go(20)
    assert report(world.state)["coverage_last_horizon"] == 1.0
    world.answered = 0.25
    world.go(12)
    assert report(world.state)["coverage"] > 0.6
    assert abs(report(world.state)["coverage_last_horizon"] - 0.25) < 0.1
    world.answered = 0.0
    world.go(12)
    assert report(world.state)["coverage_last_horizon"] == 0.0


def test_a_pinned_version_stays() -> None:
    world = World()
    world.go(20)
    world.act(action="pin", version=1)
    world.go(20, bias=2.0)
    assert world.state.served == 1
    assert world.state.decisions.held == "pinned"
    world.act(action="pin", version=None)
    world.go(12)
    assert world.state.served > 1


def test_a_person_rolls_back() -> None:
    world = World()
    world.go(20)
    served, before = world.state.served, world.state.decisions.before
    world.act(action="roll-back")
    assert (world.promotions[-1].version, world.promotions[-1].cause) == (before, "person rolled back")
    world.act(action="roll-back")  # there is nothing before
    world.act(action="promote", version=99)  # nor such a version
    world.go(10)
    assert world.state.served == before
    world.act(action="promote", version=served)
    assert world.state.served == served


def test_a_version_of_a_person_is_judged_on_rows_that_were_predicted_after_it() -> None:
    world = World()
    world.go(20)
    world.go(1, actions=[{"action": "publish", "document": bad_map(0.02)}])
    world.act(action="promote", version=world.numbered(bad_map(0.02)))
    world.go(4)
    watch = world.state.decisions.watch
    assert watch is not None
    assert watch.paired.rows == 0
    world.go(3)
    assert world.state.decisions.watch is not None
    assert world.state.decisions.watch.paired.rows == 3 * ROWS
    assert world.state.decisions.held == "waiting"


def test_versions_wait_for_a_person_if_promotion_is_manual() -> None:
    world = World(promotion="manual")
    world.go(20)
    assert world.state.version > 1
    assert (world.state.served, world.state.decisions.held) == (0, "manual")


def test_settings_hold_from_their_block_on_and_impossible_ones_change_nothing() -> None:
    world = World()
    world.go(10)
    new = world.state.settings.document() | {"horizon": 2.0, "publish_rows": 80, "tolerance": 0.3}
    world.act(action="settings", settings=new)
    world.go(10)
    assert world.state.ledger.horizon == 2.0
    assert world.state.ledger.counts.open == 2 * ROWS
    assert world.state.monitor.tolerance == (0.3, 0.3)
    for wrong in ({"horizon": -1.0}, {"keyed": True}, {"mode": "returned", "silence": "unknown"}):
        world.act(action="settings", settings=new | wrong)
        assert world.state.settings.document() == new
    assert StreamState.from_bytes(world.state.to_bytes()).to_bytes() == world.state.to_bytes()


def test_keys_whose_maps_reverse_the_order_move_to_the_global_map() -> None:
    reverse, pooled = LogitAffineMap(-1.0, 0.0), LogitAffineMap(1.0, 0.1)
    served = ByGroupMap("key", ("1", "2"), (LogitAffineMap(1.0, 2.0), pooled), pooled)
    new = ByGroupMap("key", ("1", "2"), (reverse, reverse), pooled)
    found = candidate(new, served, np.linspace(0.1, 0.9, 50), max_step=0.5)
    assert found.may_serve
    moved = ServedMap(found.map).apply(np.full(3, 0.5), np.array([1, 2, 3]))
    np.testing.assert_allclose(logit(moved), [1.5, 0.1, 0.1])  # the first a step of the way


@pytest.mark.slow
def test_days_are_those_of_the_time_zone() -> None:
    for name, begin, hours in (
        ("Europe/Berlin", datetime(2026, 3, 28, 23, tzinfo=UTC), 23),
        ("Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC), 25),
        ("Asia/Kolkata", datetime(2026, 1, 1, 18, 30, tzinfo=UTC), 24),
    ):
        at = begin.timestamp() + np.array([-0.001, 0.0, 3_600.0 * hours - 0.001, 3_600.0 * hours])
        assert np.diff(days_of(at, ZoneInfo(name))).tolist() == [1, 0, 1]
    world = World(time_zone="Asia/Tokyo")  # the test begins at 17:46 UTC
    world.go(8)
    assert date_of(world.state.figures.day) == "2030-03-18"
    world.act(action="settings", settings=world.state.settings.document() | {"time_zone": "UTC"})
    world.go(8)
    assert world.state.settings.time_zone == "UTC"
    assert date_of(world.state.figures.day) == "2030-03-18"  # days do not go back
    for name in ("localtime", "../UTC", "", None):
        with pytest.raises(InputError, match="is not a name"):
            Settings(horizon=1.0, silence="negative", time_zone=name)
    unknown = Settings(horizon=1.0, silence="negative", time_zone="Mars/Olympus")
    with pytest.raises(InputError, match="not known on this machine"):
        _ = unknown.zone


def test_keys_have_their_own_maps() -> None:
    world = World(keyed=True)
    shifts = np.array([0.0, 1.0, 0.0, -1.0])
    world.go(80, shift=lambda key: shifts[key])
    served = ServedMap.read(world.documents[world.state.served])
    assert isinstance(served.map, ByGroupMap)
    assert served.map.groups == ("1", "2", "3")
    found = logit(served.apply(np.full(4, 0.4), np.array([1, 2, 3, 77]))) - logit(np.array(0.4))
    assert np.abs(found - [1.0, 0.0, -1.0, 0.0]).max() < 0.45
    again = StreamState.from_bytes(world.state.to_bytes())
    assert again.to_bytes() == world.state.to_bytes()
    told = report(world.state, {1: "north"})
    assert {each["key"] for each in told["worst_keys"]} == {"north", "2", "3"}
    assert text_of(told) == text_of(report(again, {1: "north"}))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_bad_canary_ends_and_what_is_served_stays(share: float) -> None:
    world = World()
    world.go(30)
    world.go(1, actions=[{"action": "publish", "document": bad_map()}])
    bad = world.numbered(bad_map())
    world.act(action="canary", version=bad, share=share)
    assert [(each.version, each.share) for each in world.tried] == [(bad, share)]
    served = world.state.served
    world.go(24)
    found = report(world.state)["canary"]
    assert (found["version"], found["ended"]) == (bad, "worse")
    assert found["difference"] > found["margin"]
    assert [(each.version, each.cause) for each in world.tried[1:]] == [(None, "worse")]
    assert world.state.served > served  # promotions went on meanwhile
    assert set(world.causes()) == {"published"}
    assert not world.state.decisions.paused
    assert world.state.alarms == 0  # also not by the rows of the canary that are released after its end


def test_a_canary_changes_its_share_and_ends_by_people() -> None:
    world = World()
    world.go(30)
    world.act(action="canary", version=1, share=0.1)
    world.go(8)
    rows = report(world.state)["canary"]["rows"]
    assert rows > 0
    world.act(action="canary", version=1, share=0.5)
    (first, second) = world.tried
    assert (first.share, second.share, first.salt == second.salt) == (0.1, 0.5, True)
    assert report(world.state)["canary"]["rows"] >= rows  # the same trial
    for share in (0.6, -0.1, float("nan"), True, None):
        world.act(action="canary", version=1, share=share)
    world.act(action="canary", version=world.state.served, share=0.1)
    world.act(action="canary", version=10_000, share=0.1)
    assert world.tried == [first, second]  # none of these makes sense
    world.act(action="canary", version=None)
    world.act(action="canary", version=2, share=0.0)
    world.act(action="promote", version=2)
    world.act(action="canary", version=1, share=0.1)
    world.act(action="roll-back")
    assert [(each.version, each.cause) for each in world.tried[2:]] == [
        (None, "person"), (2, "person"), (None, "promoted"), (1, "person"), (None, "person"),
    ]  # fmt: skip


def test_a_state_goes_on_with_the_same_bits() -> None:
    world = World(seed=3)
    world.go(12, bias=0.5)
    world.go(1, actions=[{"action": "publish", "document": bad_map()}])
    world.act(action="canary", version=world.numbered(bad_map()), share=0.25)
    world.act(action="promote", version=1)
    world.act(action="canary", version=world.numbered(bad_map()), share=0.5)
    other = World(seed=3)
    other.__dict__.update(world.__dict__)
    block = world.writer.block(START + world.second + 4.5, {"id": [5], "score": [0.3], "probability": [0.3]})
    again = StreamState.from_bytes(world.state.to_bytes())
    assert again.to_bytes() == world.state.to_bytes()
    again.find = world.state.find
    assert again.apply(block) == world.state.apply(block)
    assert again.to_bytes() == world.state.to_bytes()


def test_a_map_that_cannot_be_served_is_refused() -> None:
    by_key = ByGroupMap("key", ("1",), (BetaMap(1.0, 1.0, 0.0),), None)
    for document, keyed in ((Calibration(by_key).to_json(), False), (Calibration(by_key).to_json(), True), ("{", True)):
        with pytest.raises(ValueError, match=r"document|read|groups|map"):
            check_document(document, keyed=keyed)
    world = World()
    world.go(3, actions=[{"action": "publish", "document": "{}"}])
    assert world.state.version == 0


@pytest.mark.slow
def test_a_version_that_is_not_worse_is_rarely_called_worse(full_size: bool) -> None:
    rng, runs, alpha, false = np.random.default_rng(0), 2_000 if full_size else 100, 0.2, 0
    for _ in range(runs):
        p = rng.uniform(0.02, 0.4, 1_500)
        new, old = p * 1.2, p * 0.8  # the truth is in the middle: the expected losses are equal
        y = (rng.random(len(p)) < p).astype(float)
        paired = Paired()
        for start in range(0, len(p), 50):
            part = slice(start, start + 50)
            paired.add(new[part], old[part], y[part], tolerance=1e-3)
            if paired.worse(alpha):
                false += 1
                break
    assert false <= alpha * runs


def test_a_version_that_is_worse_is_found() -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.02, 0.4, 5_000)
    paired = Paired()
    paired.add(p * 1.5, p, (rng.random(len(p)) < p).astype(float), tolerance=0.2)
    assert paired.worse(1e-4)
    assert 0.5 < paired.ratio < 1.5
    beyond = Paired()
    beyond.add(p * 1.05, p, (rng.random(len(p)) < 0.3 * p).astype(float), tolerance=0.2)
    assert beyond.ratio > 10.0  # both are far off: the world changed
