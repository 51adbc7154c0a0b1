"""``calibrant backtest`` on files and on a tally store, from end to end."""

from __future__ import annotations

import json

import numpy as np
from pyarrow import csv
from tests.cli.conftest import write

from calibrant import live
from calibrant.cli.commands.backtest import NAMES
from calibrant.live.replay.backtest import NAMED

ROWS = ["backtest", "rows.csv", "--label", "bad", "--time", "day"]


def test_rows_of_a_file(run, columns):
    done = run(*ROWS, "--delay", "2", "--policy", "never", "--policy", "week", "--policy", "on-alarm", "--json")
    found = json.loads(done.stdout)
    expected = live.backtest(
        columns["score"], columns["bad"], columns["day"], ["never", "week", "on-alarm"], delay=2
    ).to_dict()
    assert done.exit_code == 0
    assert found["rows"] == 4_000
    assert [each["policy"] for each in found["policies"]] == ["never", "every week", "on alarm"]
    assert found["policies"] == expected["policies"]


def test_the_help_names_every_policy():
    assert sorted(NAMES.split(", ")) == sorted(NAMED)


def test_the_table_and_the_sentence_are_printed(run):
    done = run(*ROWS, "--reference", "week", "--warm-up", "10")
    assert done.exit_code == 0
    assert "Back-test of " in done.stdout
    assert "never loses 0.0" in done.stdout
    assert "to every week" in done.stdout


def test_keys_and_times_of_labels_are_columns(run, here, columns):
    late = columns["day"] + np.arange(len(columns["day"])) % 5
    write({**columns, "known": late}, "late.csv")
    assert "known" in csv.read_csv("late.csv").column_names
    words = ["backtest", "late.csv", "--label", "bad", "--time", "day", "--label-time", "known", "--key", "land"]
    done = run(*words, "--policy", "bank-by-key", "--policy", "online-platt", "--json")
    expected = live.backtest(
        columns["score"],
        columns["bad"],
        columns["day"],
        ["bank-by-key", "online-platt"],
        delay=late - columns["day"],
        keys=columns["land"],
    )
    assert json.loads(done.stdout)["policies"] == expected.to_dict()["policies"]


def test_a_tally_store(run):
    assert run("tally", "rows.csv", "--label", "bad", "--store", "kept", "--time", "day").exit_code == 0
    done = run("backtest", "kept", "--delay", "1", "--policy", "never", "--policy", "day", "--json")
    found = json.loads(done.stdout)
    assert (found["rows"], found["first_day"], found["last_day"]) == (4_000, "2026-01-01", "2026-02-09")
    assert [each["status"] for each in found["policies"]] == ["as good", "better"]


def test_mistakes_name_the_option(run, subtests):
    run("tally", "rows.csv", "--label", "bad", "--store", "kept", "--time", "day")
    cases = {
        ("rows.csv",): "--time is missing",
        ("rows.csv", "--time", "day", "--policy", "weekly"): "did you mean 'week'",
        ("rows.csv", "--time", "day", "--policy", "bank-by-key"): "--key is missing",
        ("rows.csv", "--time", "day", "--delay", "1", "--label-time", "day"): "pass one of them",
        ("rows.csv", "--time", "day", "--warm-up", "99"): "--warm-up 99 leaves none",
        ("kept", "--policy", "tracking"): "--policy has one that learns row by row",
        ("kept", "--time", "day"): "leave --time out",
    }
    for words, message in cases.items():
        with subtests.test(message):
            done = run("backtest", *words)
            assert done.exit_code == 1
            assert message in done.stderr
