"""Pages and metrics: what they show, to whom, and without scripts."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import psycopg
import pytest
from tests.service.live_service import Running

from calibrant.service.api.metrics import Streams
from calibrant.service.api.pages import charts
from calibrant.service.api.pages.sentences import HELD, about, decision
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import issue_token
from calibrant.service.store.log import SECOND
from calibrant.service.store.overview import Overview, read_overviews

NOW = datetime(2026, 5, 20, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"


def report(**changed: Any) -> dict[str, Any]:
    """A document as the learner writes it."""
    alarms = {"alarms": 0, "last_alarm": None, "holds": False, "latest": [ALARM | {"ended_by": "restart"}]}
    monitor = alarms | {
        "advice": "nothing to do",
        "advice_code": "nothing-to-do",
        "level_low": -0.01,
        "level_high": 0.02,
    }
    return {
        "rows_learned": 1_234, "open": 56, "label_lag_seconds": {"p50": 70.0, "p90": 7_300.0}, "coverage": 0.9,
        "coverage_last_horizon": 0.125,
        "counts": {"released": 1_234}, "served": 1, "newest": 1, "monitor": monitor | {"rows": 1_234},
        "reliability": [{"low": 0.0, "high": 0.5, "n": 1_234, "predicted": 0.21, "observed": 0.2}],
        "worst_keys": [{"key": HOSTILE, "n": 7, "predicted": 0.1, "observed": 0.5}], "trial": None, "paused": False,
    } | changed  # fmt: skip


CANARY = {"version": 1, "share": 0.05, "ended": None, "rows": 99, "difference": -0.0125, "margin": 0.0, "ratio": 0.0}
ALARM = {
    "since": "2026-05-01T10:00:00Z", "until": "2026-05-01T11:30:00Z", "onset": None, "kind": "slope", "shift": 0.25,
    "ended_by": None, "at": "2026-05-01T10:10:00Z", "rows": 640, "observed": 0.25, "predicted": 0.1875, "served": 3,
    "band": {"low": 0.0123, "high": 0.0877, "rows": 9_640}, "advice": {"code": "refit", "text": "advice of that time"},
}  # fmt: skip
DAY = {"n": 9, "predicted": 0.2, "observed": 0.3, "brier": 0.2, "monitor_low": -0.1, "monitor_high": 0.1}


@pytest.fixture
def filled(database: psycopg.Connection, stream: int) -> int:
    """The stream with a report, two versions and days, and another stream that only some may see."""
    database.execute("select create_stream('secret', %s)", [first_entry(Settings(horizon=2.0, silence="negative"))])
    database.execute("insert into report values (%s, 1, 0, %s)", [stream, json.dumps(report(canary=CANARY))])
    for number in (1, 2):
        database.execute("insert into version values (%s, %s, 1, %s, '{}')", [stream, number, number * SECOND])
        database.execute("insert into promotion values (%s, 1, %s, %s, 'published')", [stream, number, number])
        database.execute("insert into daily values (%s, %s, %s)", [stream, f"2026-05-0{number}", json.dumps(DAY)])
    return stream


@contextmanager
def log_in(
    address: str, database: psycopg.Connection, *scopes: str, streams: list[str] | None = None
) -> Iterator[httpx.Client]:
    """A browser that is logged in."""
    _, token = issue_token(database, None, f"reader {'-'.join(scopes)}", scopes, streams)
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        browser.post("/login", data={"token": token})
        yield browser


def csrf(text: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', text)
    assert found
    return found.group(1)


def test_pages_show_streams_to_those_who_may_read_them(
    service: Running, database: psycopg.Connection, filled: int
) -> None:
    with httpx.Client(base_url=service.url) as stranger:
        for path in ("/", "/streams/clicks"):
            answer = stranger.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert stranger.get("/login").status_code == 200
        assert stranger.get("/style.css").headers["content-type"].startswith("text/css")
    with log_in(service.url, database, "read", streams=["clicks"]) as browser:
        listed = browser.get("/")
        assert "clicks" in listed.text
        assert "secret" not in listed.text
        assert browser.get("/streams/secret").status_code == 403
        assert browser.get("/streams/nothing").status_code == 403
        shown = browser.get("/streams/clicks?refresh=5")
        assert shown.status_code == 200
        for words in ("1,234", "Reliability now", "Label lag, median", "version 2", "<svg", 'content="5"'):
            assert words in shown.text
        assert "Version 1 answers 5.00 % of the ids as a canary. On 99 rows" in shown.text
        assert "is -0.01250" in shown.text
        assert "<script" not in shown.text
        assert "&lt;script&gt;" in shown.text
        assert "<button>Roll back" not in shown.text
        assert "default-src 'none'" in shown.headers["content-security-policy"]
    with log_in(service.url, database, "predict") as browser:
        assert browser.get("/").status_code == 403


def test_a_roll_back_needs_the_scope_and_the_form(service: Running, database: psycopg.Connection, filled: int) -> None:
    with log_in(service.url, database, "read") as browser:
        value = csrf(browser.get("/streams/clicks").text)
        assert browser.post("/streams/clicks/roll-back", data={"csrf": value}).status_code == 403
    with log_in(service.url, database, "read", "admin") as browser:
        text = browser.get("/streams/clicks").text
        assert "<button>Roll back" in text
        assert browser.post("/streams/clicks/roll-back").status_code == 403
        assert browser.post("/streams/clicks/roll-back", data={"csrf": "0" * 32}).status_code == 403
        assert "<button>Pin what is served" in text
        for action, version in (("roll-back", "1"), ("promote", "1"), ("resume", "1"), ("pin", "2"), ("pin", "")):
            form = {"csrf": csrf(text), "version": version}
            assert browser.post(f"/streams/clicks/{action}", data=form).status_code == 200
        database.execute("update report set document = %s", [json.dumps(report(pinned=True, held="pinned"))])
        text = browser.get("/streams/clicks").text
        assert "<button>End the pin" in text
        for page in (text, browser.get("/").text):
            assert "A person pinned version 2: nothing else is served until the pin ends." in page
        for action, version in (("drop", "1"), ("promote", "x"), ("promote", ""), ("pin", "x"), ("pin", "3")):
            form = {"csrf": csrf(text), "version": version}
            assert browser.post(f"/streams/clicks/{action}", data=form).status_code in (404, 422)
    rows = database.execute("select document from log where stream = %s and kind = 5 order by position", [filled])
    found = [json.loads(document) for (document,) in rows.fetchall()][1:]
    assert [(each["action"], each.get("version", "")) for each in found] == [
        ("roll-back", ""), ("promote", 1), ("resume", ""), ("pin", 2), ("pin", None),
    ]  # fmt: skip


def test_metrics_need_a_token_and_say_what_the_tables_say(
    service: Running, database: psycopg.Connection, filled: int
) -> None:
    _, token = issue_token(database, None, "prometheus", ["read"], ["clicks"])
    with httpx.Client(base_url=service.url) as client:
        assert client.get("/metrics").status_code == 401
        service.post("predict", {"id": "a", "score": 0.2})
        text = client.get("/metrics", headers={"authorization": f"Bearer {token}"}).text
        for line in (
            'calibrant_rows_learned{stream="clicks"} 1234.0',
            'calibrant_monitor_difference{end="high",stream="clicks"} 0.02',
            'calibrant_monitor_alarm{stream="clicks"} 0.0',
            'calibrant_label_coverage_last_horizon{stream="clicks"} 0.125',
            'calibrant_label_lag_seconds{share="0.9",stream="clicks"} 7300.0',
            'calibrant_served_version{stream="clicks"} 2.0',
            'calibrant_promotion_paused{stream="clicks"} 0.0',
            "calibrant_database_up 1.0",
            'calibrant_request_seconds_count{route="/metrics",status="401"} 1.0',
            'calibrant_events_total{kind="predictions",stream="clicks",what="logged"} 1.0',
        ):
            assert line in text
        assert "secret" not in text


def test_promtool_accepts_all_metrics(service: Running, filled: int) -> None:
    service.post("predict", {"id": "a", "score": 0.2})
    text = service.client.get("/metrics").text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_learner_is_behind_by_the_age_of_the_oldest_entry(database: psycopg.Connection, stream: int) -> None:
    database.execute("update learner set position = 1 where stream = %s", [stream])
    assert read_overviews(database)[0].behind_seconds == 0.0
    database.execute("select append_entry(%s, 4::smallint, null)", [stream])
    found = read_overviews(database, ["clicks"])[0]
    assert (found.behind, found.behind_seconds) == (1, 0.0)  # a tick does not count
    database.execute("select append_entry(%s, 5::smallint, '{}')", [stream])
    database.execute("update log set time = time - 60000000 where position = 3")
    found = read_overviews(database, ["clicks"])[0]
    assert found.behind == 2
    assert 60.0 <= found.behind_seconds < 600.0
    assert read_overviews(database, ["nothing"]) == []


def test_the_learner_is_behind_when_the_clock_went_back(database: psycopg.Connection, stream: int) -> None:
    database.execute("update learner set position = 1")
    database.execute("update head set time = time + 3600000000")  # an hour ahead of the clock
    database.execute("select append_entry(%s, 5::smallint, '{}')", [stream])
    found = read_overviews(database)
    assert 3_500.0 <= found[0].behind_seconds <= 3_600.0
    metrics = {each.name: each for each in Streams(found).collect()}
    assert metrics["calibrant_learner_lag_seconds"].samples[0].value == found[0].behind_seconds


def test_each_stream_has_one_sentence(subtests: pytest.Subtests) -> None:
    monitor = report()["monitor"]
    recent, old = ((NOW - timedelta(hours=hours)).isoformat() for hours in (3, 121))
    ended = monitor | {"last_alarm": recent, "advice": "A"}
    cases = {
        "none: No outcome has been learned yet; the score itself is served.": Overview(1, "a", NOW),
        "bad: The learner is 1 hour behind: 7 entries of the log wait. If the number falls, it is": Overview(
            1, "a", NOW, position=9, learned=2, behind_seconds=4_000.0, report=report()
        ),
        "bad: The monitor raised an alarm 3 hours ago, which still holds: of the last 640 rows, 25.0 %": Overview(
            1, "a", NOW, report=report(monitor=monitor | {"last_alarm": recent, "holds": True, "advice": "refit"})
        ),
        "bad: The monitor raised an alarm 5 days ago, which still holds. The stream learns": Overview(
            1, "a", NOW, report=report(monitor=monitor | {"last_alarm": old, "holds": True, "latest": []})
        ),
        "warn: The monitor raised an alarm 3 hours ago, which has ended, but the rows since then are off": Overview(
            1, "a", NOW, report=report(monitor=ended | {"advice_code": "level-moved"})
        ),
        "recovering: The monitor raised an alarm 3 hours ago, which has ended: the stream has learned": Overview(
            1, "a", NOW, report=report(monitor=ended | {"advice_code": "not-enough"})
        ),
        "good: Served by the score itself: of 1,234 rows,": Overview(1, "a", NOW, report=report(monitor=ended)),
        "warn: A version was rolled back; version 3 is served": Overview(1, "a", NOW, 3, report=report(paused=True)),
        "warn: Served by version 3: of 1,234 rows, 20.0 % were events, and 21.0 % were predicted. Predictions are too"
        " high": Overview(1, "a", NOW, 3, report=report(monitor=monitor | {"level_low": -0.03, "level_high": -0.01})),
        "good: Served by the score itself: of 1,234 rows": Overview(1, "a", NOW, report=report()),
    }
    for expected, view in cases.items():
        with subtests.test(expected):
            found = about(view)
            assert f"{found.tone}: {found.text}".startswith(expected)
    for held in HELD:  # each reason of the learner is said, and after a pause that it is one
        assert HELD[held] in decision(Overview(1, "a", NOW, 3, newest=4, report=report(held=held)))
    assert "until somebody resumes" in decision(Overview(1, "a", NOW, 3, newest=4, report=report(paused=True)))
    assert decision(Overview(1, "a", NOW, 3, newest=3, report=report(held=None))) == ""


def test_the_picture_marks_each_alarm_at_its_time_with_its_band() -> None:
    days = [(NOW.date() + timedelta(days=n), DAY) for n in range(4)]
    noon = ALARM | {"since": "2026-05-21T11:00:00Z"}
    picture = charts.band(days, [noon, ALARM | {"since": None}, ALARM], ZoneInfo("Etc/GMT-1"))
    assert picture.count('<polygon class="alarm"') == 1  # the others are on no day of the picture
    assert "2026-05-21 12:00: +1.23 to +8.77 percentage points, 9,640 rows" in picture
    found = re.search(r'<line class="alarm" x1="([^"]*)" y1="([^"]*)" x2="[^"]*" y2="([^"]*)"', picture)
    assert found
    place, low, high = map(float, found.groups())
    assert place == charts.LEFT + charts.WIDTH * 1.5 / 4
    assert low > high


def test_a_day_without_evidence_leaves_the_scale_of_the_picture() -> None:
    days = [(NOW.date() + timedelta(days=n), DAY) for n in range(4)]
    unknown = DAY | {"monitor_low": -1.0, "monitor_high": 1.0}
    labels = [re.findall(r">([^<]*)</text>", charts.band([*days, (NOW.date(), each)])) for each in (DAY, unknown)]
    assert labels[0] == labels[1]


def test_older_versions_are_on_other_pages(service: Running, database: psycopg.Connection, filled: int) -> None:
    for number in range(3, 46):
        database.execute("insert into version values (%s, %s, 1, %s, '{}')", [filled, number, number * SECOND])
    shown, place = [], "?"
    with log_in(service.url, database, "read") as browser:
        while place:
            page = browser.get(f"/streams/clicks{place}").text
            table = page[page.index('id="versions"') : page.index("What was served")]
            rows = re.findall(r'<th scope="row">(\d+)</th><td>1970-01-01 00:00:(\d+)</td>', table)
            shown.append([int(number) for number, second in rows if number.zfill(2) == second])
            older = re.search(r'href="([^"]*)#versions">Older', table)
            place = older[1] if older else ""
        assert browser.get("/streams/clicks?before=0").status_code == 422
    assert [len(each) for each in shown] == [20, 20, 5]
    assert [number for each in shown for number in each] == list(range(45, 0, -1))


def test_the_page_and_the_json_of_a_stream_list_its_alarms(
    service: Running, database: psycopg.Connection, filled: int
) -> None:
    with log_in(service.url, database, "read") as browser:
        page = browser.get("/streams/clicks").text
    for words in (
        "2026-05-01 10:10",
        "2026-05-01 11:30",
        "the slope",
        "25.0 %",
        "18.8 %",
        "+1.23 to +8.77",
        "of that time",
    ):
        assert words in page
    assert "12.5 %" in page  # coverage of the last horizon
    assert page.count('<polygon class="alarm"') == 1
    (alarm,) = service.client.get("/v1/streams/clicks").json()["report"]["monitor"]["latest"]
    assert alarm == ALARM | {"ended_by": "restart"}


def test_pictures_have_finite_coordinates(subtests: pytest.Subtests) -> None:
    days = [(NOW.date() + timedelta(days=n), DAY | {"observed": n % 2}) for n in range(40)]
    zero = [(NOW.date(), DAY | {"predicted": 0.0, "observed": 0.0, "monitor_low": 0.0, "monitor_high": 0.0})]
    groups = [{"n": n, "predicted": p, "observed": o} for n, p, o in [(1, 0.0, 0.0), (5, 1.0, 1.0), (0, 0.5, 0.5)]]
    pictures = {
        "reliability": [charts.reliability(each) for each in (groups, groups[:1], [])],
        "means": [charts.means(each) for each in (days, days[:1], zero, [])],
        "band": [charts.band(each, [ALARM | {"since": NOW.isoformat()}]) for each in (days, days[:1], zero)],
    }
    for name, texts in pictures.items():
        with subtests.test(name):
            for text in texts:
                numbers = re.findall(r' (?:x|y|cx|cy|r|x1|y1|x2|y2)="([^"]*)"', text)
                assert numbers
                assert all(math.isfinite(float(each)) for each in numbers)
                assert "nan" not in text
