"""``calibrant watch`` on a tally store: day by day, with a state file, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import PlattScaling, Tally, TallyStore


def add(day: int, shift: float = 0.0, rows: int = 1_500) -> None:
    rng = np.random.default_rng(day)
    x = rng.normal(-0.5, 1.3, rows)
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-(x + shift)))).astype(int)
    store = TallyStore("kept", by=())
    store.add(f"2026-11-{day:02d}", Tally.from_arrays(1.0 / (1.0 + np.exp(-x)), y, grid=store.grid))


def test_the_next_day_goes_on_where_the_last_call_was(run):
    for day in (1, 2, 3):
        add(day)
    done = run("watch", "kept", "--state", "kept.json")
    assert done.exit_code == 0, done.stderr
    assert "3 new days, 2026-11-01 to 2026-11-03" in done.stdout
    assert "no new day" in run("watch", "kept", "--state", "kept.json").stdout
    add(4, shift=0.9)
    done = run("watch", "kept", "--state", "kept.json", "--json")
    assert done.exit_code == 12
    found = json.loads(done.stdout)
    assert [each["day"] for each in found["days"]] == ["2026-11-04"]
    assert [found["alarms"][0][name] for name in ("kind", "start", "end")] == ["level", "2026-11-04", None]
    again = run("watch", "kept", "--state", "kept.json")  # no new day, and the alarm still holds
    assert again.exit_code == 12
    assert "2026-11-04, still" in again.stdout
    add(5, rows=40_000)
    done = run("watch", "kept", "--state", "kept.json", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["alarms"][0]["end"] == "2026-11-05"
    assert json.loads(run("watch", "kept", "--state", "kept.json", "--json").stdout)["alarms"] == []
    whole = json.loads(run("watch", "kept", "--json").stdout)
    assert whole["band"] == json.loads(done.stdout)["band"]


def test_days_before_the_last_one_are_an_error_and_not_ignored(run):
    add(3)
    run("watch", "kept", "--state", "kept.json")
    add(2)
    done = run("watch", "kept", "--state", "kept.json")
    assert done.exit_code == 1
    assert "2026-11-02" in done.stderr


def test_a_map_is_applied_and_must_stay_the_same(run):
    rng = np.random.default_rng(0)
    scores = rng.random(2_000)
    PlattScaling().fit(scores, rng.random(2_000) < scores**2).calibration_.save("map.json")
    add(1)
    assert run("watch", "kept", "--map", "map.json", "--state", "kept.json").exit_code == 12
    done = run("watch", "kept", "--state", "kept.json")
    assert done.exit_code == 1
    assert "--map" in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "watch"}', "null"])
def test_other_files_are_no_state(run, text: str):
    add(1)
    Path("kept.json").write_text(text)
    done = run("watch", "kept", "--state", "kept.json")
    assert done.exit_code == 1
    assert "is not a state" in done.stderr
    assert Path("kept.json").read_text() == text


def test_other_options_need_another_state(run):
    add(1)
    run("watch", "kept", "--state", "kept.json")
    done = run("watch", "kept", "--state", "kept.json", "--level", "0.01")
    assert done.exit_code == 1
    assert "other options" in done.stderr
    assert run("watch", "kept", "--level", "2").exit_code == 1
