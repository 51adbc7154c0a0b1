"""Commands on a tally store: parts of a day, and ranges that lack days."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import command_line

from calibrant import TallyStore

STORE = ["--by", "land", "--store", "kept", "--day", "2026-11-01"]


def of(land: str) -> list[str]:
    return ["tally", "rows.csv", "--where", f"land = '{land}'", *STORE]


# ------------------------------------------------------------------------------------------------------ parts of a day


def test_two_jobs_write_parts_of_a_day(run):
    done = run(*of("de"), "--part", "de")
    assert done.exit_code == 0
    assert "Store kept, written, part de: 2026-11-01." in done.stdout
    told = json.loads(run(*of("it"), "--part", "it", "--json").stdout)
    assert (told["part"], told["days"]) == ("it", {"written": ["2026-11-01"], "already there": []})
    assert list(TallyStore("kept").window()) == ["de", "it"]
    assert "already there, part it: 2026-11-01." in run(*of("it"), "--part", "it").stdout
    assert run(*of("fr"), "--part", "it").exit_code == 0  # other content replaces that part alone
    assert list(TallyStore("kept").window()) == ["de", "fr"]


def test_parts_of_several_days(run):
    words = ["tally", "rows.csv", "--by", "land", "--store", "kept", "--time", "day", "--part", "all"]
    assert "written, part all: 40 days" in run(*words).stdout
    assert {tuple(TallyStore("kept").parts(day)) for day in TallyStore("kept").days} == {("all",)}


def test_the_refusal_says_what_replace_would_lose(run):
    """BUG 5: following the advice deleted the other job's country, and nothing said so."""
    run(*of("de"))
    rows = TallyStore("kept").window()["de"].total
    done = run(*of("it"))
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "error: tallies of 2026-11-01 differ from those in the store. --replace would replace "
    )
    assert (
        f"segments that are missing from the new tallies would be lost: 'de' ({rows:,} rows): pass --replace"
        in done.stderr
    )
    assert "rows with rm -r kept/days/day=2026-11-01, and add every part under its own name with --part" in done.stderr
    assert "replace=True" not in done.stderr
    assert list(TallyStore("kept").window()) == ["de"]


def test_mixing_whole_days_and_parts_is_refused(run):
    run(*of("de"))
    done = run(*of("it"), "--part", "it")
    assert done.exit_code == 1
    assert "--part it may repeat rows of 2026-11-01, which is stored whole" in done.stderr
    assert "with --replace and without --part, or delete it with rm -r kept/days/day=2026-11-01" in done.stderr
    run("tally", "rows.csv", "--by", "land", "--store", "kept", "--day", "2026-11-02", "--part", "a")
    done = run("tally", "rows.csv", "--by", "land", "--store", "kept", "--day", "2026-11-02", "--replace")
    assert done.exit_code == 1
    assert "tallies of 2026-11-02 may repeat rows of the day, which is stored in parts: 'a' (4,000 rows)" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--part", "a"], "--part needs --store"),
        (["--store", "kept", "--day", "2026-11-01", "--part", "a/b"], "--part a/b is not a valid name of a file"),
    ],
)
def test_mistakes_with_parts(run, words, expected):
    done = run("tally", "rows.csv", *words)
    assert done.exit_code == 1
    assert expected in done.stderr
    assert not Path("kept").exists()


# -------------------------------------------------------------------------------------------------------- missing days

READERS = {
    "check": ["check", "kept"],
    "fit": ["fit", "kept", "--method", "platt", "--out", "m.json", "--force"],
    "report": ["report", "kept", "--out", "r.md", "--force"],
}
RANGE = ["--from", "2026-11-08", "--to", "2026-11-30"]


@pytest.fixture
def kept(run):
    """Three of 23 days."""
    for day in ("08", "09", "10"):
        run("tally", "rows.csv", "--by", "land", "--store", "kept", "--day", f"2026-11-{day}")


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_missing_days_are_noted(run, kept, words):
    """BUG 6: these were judged without a word."""
    done = run(*words, *RANGE)
    expected = "20 of the 23 days from 2026-11-08 to 2026-11-30 are missing (2026-11-11 to 2026-11-30)"
    assert done.stderr == f"note: the store 'kept' is incomplete: {expected}; the result has only the stored rows\n"
    assert done.exit_code in (0, 10, 11, 12)
    assert run(*words, "--from", "2026-11-08", "--to", "2026-11-10", "--require-all-days").stderr == ""


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_all_days_may_be_required(run, kept, words):
    done = run(*words, *RANGE, "--require-all-days", *(["--json"] if words[0] == "check" else []))
    assert (done.exit_code, done.stdout) == (1, "")
    expected = "20 of the 23 days from 2026-11-08 to 2026-11-30 are missing (2026-11-11 to 2026-11-30)"
    fix = "add the missing days, or leave it out"
    assert done.stderr == f"error: --require-all-days does not hold for the store 'kept': {expected}: {fix}\n"
    assert not Path("m.json").exists()
    assert not Path("r.md").exists()


def test_json_on_stdout_stays_json(run, kept, here):
    done = command_line("check", "kept", *RANGE, "--json", cwd=here)
    assert json.loads(done.stdout)["rows"] == 12_000
    assert done.stderr.startswith("note: the store 'kept' is incomplete: 20 of the 23 days")


@pytest.mark.parametrize("words", [["check", "rows.csv"], ["fit", "rows.csv", "--out", "m.json"]])
def test_files_have_no_days(run, words):
    done = run(*words, "--require-all-days")
    assert done.exit_code == 1
    assert "--require-all-days applies to a tally store, and these are files: leave it out" in done.stderr
