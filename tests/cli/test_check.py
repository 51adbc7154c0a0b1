"""`calibrant check`: the answer of `calibrant.check`, in words, in JSON and in the exit code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import command_line, made, write

import calibrant as cb


def test_the_exit_code_is_the_answer(subtests, run):
    for words, code, head in [
        (["rows.csv"], 0, "CALIBRATED within the limit of 1.22"),
        (["rows.csv", "--label", "bad"], 10, "MISCALIBRATED beyond the limit of 1.22: "),
        (["rows.csv", "--label", "mixed"], 12, "OFF, more than chance explains: too high (14 % fewer"),
        (["rows.csv", "--by", "land", "--fail-on", "segments"], 0, "CALIBRATED within the limit of 1.22"),
        (["rows.csv", "--fail-on", "segments"], 1, ""),
        (["rows.csv", "--by", "land", "--fail-on", "periods"], 1, ""),
        (["few.csv"], 11, "CANNOT TELL YET: "),
        (["rows.csv", "--score", "nothing"], 1, ""),
        (["rows.csv", "--tolerance", "much"], 2, ""),
        (["rows.csv", "--score-type", "odd"], 2, ""),
        ([], 2, ""),
    ]:
        with subtests.test(words=words, code=code, head=head):
            done = run("check", *words)
            assert done.exit_code == code
            assert done.stdout.startswith(head)
            assert bool(done.stderr) == (code in (1, 2))


def test_a_process_ends_with_the_same_codes(here):
    assert command_line("check", "rows.csv", cwd=here).returncode == 0
    done = command_line("check", "rows.csv", "--label", "bad", cwd=here)
    assert (done.returncode, done.stderr) == (10, "")
    assert command_line("check", "rows.csv", "--score", "no", cwd=here).returncode == 1


@pytest.mark.parametrize("path", ["rows.csv", "rows.parquet"])
def test_json_is_what_the_library_says_about_the_arrays(run, columns, path):
    done = run(
        "check", path, "--label", "mixed", "--by", "land", "--groups", "patient", "--tolerance", "0.2,0.3", "--json"
    )
    told = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    verdict = cb.check(
        columns["score"],
        columns["mixed"],
        by={"land": columns["land"]},
        groups=columns["patient"],
        tolerance=(0.2, 0.3),
    )
    assert told == verdict.to_dict()
    assert done.stderr == ""


def test_weights_time_and_the_event_reach_the_library(run, columns):
    words = ["--label", "outcome", "--positive", "very bad", "--weight", "w", "--frequency", "--time", "day", "--json"]
    told = json.loads(run("check", "rows.parquet", *words).stdout)
    verdict = cb.check(
        columns["score"],
        columns["outcome"],
        columns["w"],
        weight_type="frequency",
        time=columns["day"],
        positive="very bad",
    )
    assert told == verdict.to_dict()
    assert len(told["periods"]) > 2


def test_log_odds_are_read_as_such(run, columns):
    p = columns["score"]
    write({"x": np.log(p / (1 - p)), "label": columns["label"]}, "logits.csv")
    told = json.loads(run("check", "logits.csv", "--score", "x", "--score-type", "logit", "--json").stdout)
    assert told["status"] == "calibrated"
    assert told["predicted"] == pytest.approx(p.sum())


def test_files_are_joined_by_the_names_of_their_columns(run, columns):
    """DuckDB joins CSV files by position, which would take scores for labels here."""
    for number, order in enumerate((["score", "bad"], ["bad", "score"])):
        write({name: columns[name][number::2] for name in order}, f"part-{number}.csv")
        write({name: columns[name][number::2] for name in order}, f"part-{number}.parquet")
    whole = json.loads(run("check", "rows.csv", "--label", "bad", "--json").stdout)
    for pattern in ("part-*.csv", "part-*.parquet"):
        told = json.loads(run("check", pattern, "--label", "bad", "--json").stdout)
        assert (told["rows"], told["events"]) == (whole["rows"], whole["events"])
        assert told["slope"]["value"] == pytest.approx(whole["slope"]["value"])


def test_a_file_that_two_patterns_find_is_read_once(run):
    assert json.loads(run("check", "rows.csv", "r*.csv", "./rows.csv", "--json").stdout)["rows"] == 4000


def test_a_fraction_after_many_whole_numbers_is_not_rounded(run):
    """DuckDB guesses types from the first 20,480 rows, and would read the last score as 1."""
    Path("late.csv").write_text("score,label\n" + "1,1\n0,0\n" * 15_000 + "0.25,0\n" * 1000, encoding="utf-8")
    assert json.loads(run("check", "late.csv", "--json").stdout)["predicted"] == pytest.approx(15_250)


def test_tabs_and_gzip_are_read(run):
    text = Path("rows.csv").read_text(encoding="utf-8")
    Path("rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    Path("rows.tsv").write_text(text.replace(",", "\t"), encoding="utf-8")
    told = [run("check", path, "--json").stdout for path in ("rows.csv", "rows.csv.gz", "rows.tsv")]
    assert told[0] == told[1] == told[2]


def test_more_rows_than_fit_into_arrays_are_counted_in_the_engine(run):
    columns = made(140_000, seed=3)
    write({name: columns[name] for name in ("score", "bad", "land")}, "many.parquet")
    done = run("check", "many.parquet", "--label", "bad", "--by", "land", "--json")
    assert done.exit_code == 10
    assert json.loads(done.stdout)["rows"] == 140_000


def test_where_chooses_rows(run, columns):
    told = json.loads(run("check", "rows.csv", "--where", "land <> 'it' AND score > 0.1", "--json").stdout)
    assert told["rows"] == ((columns["land"] != "it") & (columns["score"] > 0.1)).sum()


def test_words_are_wrapped_and_tables_fit_a_terminal(run):
    done = run("check", "rows.csv", "--label", "mixed", "--by", "land", "--time", "day")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("    ") for line in lines)  # a sentence that goes on hangs deeper than it began
    assert "Segments: 1 of 4 significantly off" in lines
    italy = next(line for line in lines if line.startswith("  land = it"))
    assert "too high" in italy
    assert sum(line.startswith("  2026-") for line in lines) == 8


def test_only_the_worst_of_many_segments_are_shown(run):
    done = run("check", "rows.csv", "--by", "patient")
    assert sum(" patient = " in line for line in done.stdout.splitlines()) == 8, "300 numbers are cut into ranges"


def test_the_segments_left_out_are_counted(run, columns):
    """14 of 20 are off and 12 are shown: two more of the eight left out are off."""
    segment = np.arange(len(columns["score"])) % 20
    label = np.where(segment < 14, columns["label"] * (np.arange(len(segment)) % 3 == 0), columns["label"])
    write({"score": columns["score"], "label": label, "segment": segment}, "many.csv")
    out = run("check", "many.csv", "--by", "segment").stdout
    assert "Segments: 14 of 20 significantly off" in out
    assert "and 8 more, 2 of them significantly off" in out


def test_hints_speak_of_commands(run, columns):
    write({"score": np.sqrt(columns["score"]), "label": columns["label"] * (columns["id"] < "01000")}, "high.csv")
    done = run("check", "high.csv")
    assert "calibrant fit FILES --out map.json" in " ".join(done.stdout.split())
    assert "PlattScaling()" not in done.stdout


def test_a_store_takes_the_place_of_files(run, columns):
    assert (
        run("tally", "rows.parquet", "--label", "mixed", "--by", "land", "--time", "day", "--store", "kept").exit_code
        == 0
    )
    done = run("check", "kept", "--from", "2026-01-11", "--to", "2026-01-20", "--json")
    told = json.loads(done.stdout)
    first, last = np.datetime64("2026-01-11"), np.datetime64("2026-01-20")
    inside = (columns["day"] >= first) & (columns["day"] <= last)
    assert (told["rows"], told["events"]) == (inside.sum(), columns["mixed"][inside].sum())
    assert {(each["column"], each["value"]) for each in told["segments"]} == {
        ("land", x) for x in ("de", "fr", "it", "es")
    }
    assert "land = it" in run("check", "kept").stdout


@pytest.mark.parametrize("command", ["check", "fit"])
def test_repeated_rows_are_noted(run, columns, command):
    write({name: np.tile(columns[name][:300], 5) for name in ("score", "label", "id")}, "copies.csv")
    out = () if command == "check" else ("-o", "map.json")
    assert "the rows look repeated" in " ".join(run(command, "copies.csv", *out).stdout.split())
    assert "look repeated" not in " ".join(run(command, "copies.csv", "--groups", "id", *out).stdout.split())
