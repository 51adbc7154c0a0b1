"""Files as they are found: time zones, yes and no, folders with meaning, words among numbers, labels -1 and 1."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.cli.conftest import command_line, made, write

FULL = pytest.mark.full
MANY = 140_000
"""Rows that are counted in DuckDB, and not read into arrays."""


def told_about(done) -> tuple[int, int]:
    told = json.loads(done.stdout)
    return told["rows"], told["events"]


# ------------------------------------------------------------------------------------------------------------- moments


@pytest.fixture
def zoned(here, columns):
    """Moments with a time zone, of which nothing is asked in some tests."""
    moments = pa.array(columns["day"].astype("datetime64[us]"), pa.timestamp("us", "UTC"))
    write({"score": columns["score"], "label": columns["label"], "at": moments}, "zoned.csv")
    write({"score": columns["score"], "label": columns["label"], "at": moments}, "zoned.parquet")
    nanoseconds = moments.cast(pa.timestamp("ns", "UTC"))
    write({"score": columns["score"], "label": columns["label"], "at": nanoseconds}, "nano.parquet")
    return here


@pytest.mark.parametrize(
    "path", ["nano.parquet", *(pytest.param(f"zoned.{end}", marks=FULL) for end in ("csv", "parquet"))]
)
@pytest.mark.parametrize(
    "words",
    ["check", "check --time at", "tally --time at", "fit --method platt --out m.json", "fit --time at -o m.json"],
)
def test_moments_with_a_zone_do_not_need_pytz(zoned, path, words):
    """Python objects of such moments do, and the package does not ask for it."""
    code = "import sys; sys.modules['pytz'] = None; from calibrant.cli import main; main()"
    name, *more = words.split()
    done = subprocess.run([sys.executable, "-c", code, name, path, *more], cwd=zoned, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_nanoseconds_with_a_zone_are_cut_into_days(run, zoned):
    told = [
        json.loads(run("tally", path, "--time", "at", "--json").stdout) for path in ("nano.parquet", "zoned.parquet")
    ]
    assert len(told[0]["segments"]) == 40
    assert told[0] == told[1]


# ------------------------------------------------------------------------------------------------------------ labels


def test_yes_and_no_are_labels_to_every_command(subtests, run, columns):
    for command, no, yes in [
        *(("check", no, yes) for no, yes in (("no", "yes"), ("false", "true"), ("FALSE", "TRUE"))),
        *((command, "No", "Yes") for command in ("check", "tally", "fit", "report", "compare")),
    ]:
        with subtests.test(command=command, no=no, yes=yes):
            write({"score": columns["score"], "label": np.where(columns["label"] == 1, yes, no)}, "said.csv")
            out = {
                "fit": ["--out", "m.json"],
                "report": ["--out", "r.json"],
                "compare": ["--old", "score", "--new", "score"],
            }
            force = ["--force"] if command in ("fit", "report") else []
            said, plain = (
                run(command, path, *out.get(command, []), *force, "--json") for path in ("said.csv", "rows.csv")
            )
            assert said.exit_code == 0, said.stderr
            if command == "fit":  # whose document says when it was made
                assert json.loads(said.stdout)["map"] == json.loads(plain.stdout)["map"]
            else:
                assert said.stdout == plain.stdout


def test_yes_and_no_are_labels_in_many_rows(run):
    columns = made(MANY, seed=3)
    write({"score": columns["score"], "label": np.where(columns["bad"] == 1, "Yes", "No")}, "said.csv")
    done = run("check", "said.csv", "--json")
    assert done.exit_code == 10, done.stderr
    assert told_about(done) == (MANY, columns["bad"].sum())


@pytest.mark.parametrize("n", [4000, MANY])
@pytest.mark.parametrize("command", ["check", "tally", "fit"])
def test_labels_minus_one_and_one_are_read_with_a_note(run, n, command):
    columns = made(n, seed=3)
    write({"score": columns["score"], "label": 2 * columns["bad"] - 1}, "signs.parquet")
    done = run(command, "signs.parquet", *(["--out", "m.json"] if command == "fit" else []))
    assert done.exit_code == (10 if command == "check" else 0), done.stderr
    assert "labels -1/1 read as 0/1" in done.output
    if command == "tally":
        assert f"{columns['bad'].sum():,}" in done.stdout


def test_a_third_label_beside_minus_one_and_one_is_refused(run):
    Path("signs.csv").write_text("score,label\n" + "0.1,-1\n0.2,1\n" * 6000 + "0.3,7\n", encoding="utf-8")
    done = run("fit", "signs.csv", "--out", "m.json")
    assert done.exit_code == 1
    assert "more than two distinct values" in done.stderr


# ----------------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("end", [pytest.param("csv", marks=FULL), "parquet"])
@pytest.mark.parametrize("folder", ["label=1", "score=0.9", "day=2026-01-01"])
def test_the_name_of_a_folder_is_no_column(run, folder, end):
    Path(folder).mkdir()
    Path(f"rows.{end}").rename(f"{folder}/rows.{end}")
    done = run("check", f"{folder}/rows.{end}", "--json")
    assert done.exit_code == 0, done.stderr
    run("fit", f"{folder}/rows.{end}", "--method", "platt", "--out", "m.json")
    run("apply", f"{folder}/rows.{end}", "--map", "m.json", "--out", f"out.{end}")
    assert len(duckdb.sql(f"FROM 'out.{end}'").columns) == 12


# ------------------------------------------------------------------------------------------ advice that can be followed


def followed(run, *words: str):
    """The command once more, with the condition that it asked for."""
    done = run(*words)
    assert done.exit_code == 1, done.output
    condition = shlex.split(re.search(r"--where (.*)", done.stderr)[1])[0]
    return run(*words, "--where", condition)


GAPS = "score,label,w,group,Land\n0.1,0,1,a,x\n0.3,1,,a,x\n0.2,,1,a,x\n,1,1,a,x\n0.5,1,1,,x\n0.6,0,1,b,\n0.7,1,2,b,y\n"


def test_the_condition_leaves_out_what_the_sentence_names(subtests, run):
    for words in ["--weight w", "--by group", "--by Land", "--by group --weight w --by Land"]:
        with subtests.test(words=words):
            Path("gaps.csv").write_text(GAPS, encoding="utf-8")
            done = followed(run, "tally", "gaps.csv", *words.split())
            assert done.exit_code == 0, done.stderr


def test_rows_with_a_word_for_a_missing_score_can_be_left_out(subtests, run):
    for command in [
        "check",
        "fit -o m.json",
        "tally",
        "apply --map map.json -o o.csv",
        "apply --map map.json -o o.parquet",
    ]:
        with subtests.test(command=command):
            run("fit", "rows.csv", "--method", "platt", "--out", "map.json")
            text = Path("rows.csv").read_text(encoding="utf-8").splitlines()
            Path("na.csv").write_text(
                "score,label\n" + "0.1,0\nNA,1\n0.3,1\n0.2,0\n" * (len(text) // 4), encoding="utf-8"
            )
            name, *more = command.split()
            assert followed(run, name, "na.csv", *more).exit_code in (0, 10, 11)


def test_rows_with_a_word_for_a_missing_label_can_be_left_out(run):
    Path("na.csv").write_text("score,label\n0.1,0\n0.2,NA\n0.3,1\n", encoding="utf-8")
    done = followed(run, "tally", "na.csv", "--json")
    assert told_about(done) == (2, 1)


# ------------------------------------------------------------------------------------------------------- as written


def test_scores_stay_as_they_are_written(run):
    run("fit", "rows.csv", "--method", "platt", "--out", "map.json")
    written = ["0.10", "1", "1e-3", "0.123456789012345678", ".5"]
    Path("digits.csv").write_text("\n".join(["score", *written, '""']), encoding="utf-8")
    done = run("apply", "digits.csv", "--map", "map.json", "--out", "out.csv", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["missing"] == 1
    lines = Path("out.csv").read_text(encoding="utf-8").splitlines()[1:-1]
    assert [line.split(",")[0] for line in lines] == written
    run("apply", "digits.csv", "--map", "map.json", "--out", "out.parquet")
    doubles = duckdb.sql("SELECT calibrated FROM 'out.parquet' WHERE score IS NOT NULL").fetchall()
    assert [float(line.split(",")[1]) for line in lines] == [value for (value,) in doubles]


def test_an_option_without_a_value_is_no_default(subtests, run):
    """As a variable of the shell that is not set would make it."""
    for option in ["--score", "--label", "--weight", "--by", "--time", "--groups", "--positive", "--where"]:
        with subtests.test(option=option):
            done = run("check", "rows.csv", option, "")
            assert done.exit_code == 2
            assert "value is empty" in done.stderr


def test_a_variable_that_is_not_set_stops_the_other_commands(run):
    assert run("plan", "--epsilon", "0.05", "--n-bins", "10", "--score", "").exit_code == 2
    assert run("apply", "rows.csv", "--map", "m.json", "--out", "o.csv", "--score", "").exit_code == 2
    assert run("compare", "rows.csv", "--old", "", "--new", "new").exit_code == 1


# ----------------------------------------------------------------------------------------------------------- printed


@pytest.mark.parametrize(("label", "code"), [("label", 0), ("bad", 10)])
def test_the_exit_code_stands_when_nobody_reads_on(here, label, code):
    """As in ``calibrant check | head -1``: here the pipe is closed before anything is written."""
    words = [sys.executable, "-m", "calibrant.cli", "check", "rows.csv", "--label", label, "--by", "land"]
    with subprocess.Popen(words, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (code, "")


@pytest.fixture
def heavy(here):
    """Counts of 10^9 by segment."""
    columns = made(4000)
    write(
        {name: columns[name] for name in ("score", "mixed", "new", "land")} | {"w": columns["w"] * 10**6},
        "heavy.parquet",
    )


@pytest.mark.parametrize("command", ["check", "tally", "compare"])
def test_numbers_are_never_cut(run, heavy, monkeypatch, command):
    words = ["--label", "mixed", "--weight", "w", "--frequency"]
    words += ["--old", "score", "--new", "new"] if command == "compare" else ["--by", "land"]
    monkeypatch.setenv("COLUMNS", "1000")
    wide = set(re.findall(r"[\d,.e+-]*\d", run(command, "heavy.parquet", *words).stdout))
    for width in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        done = run(command, "heavy.parquet", *words)
        assert max(map(len, done.stdout.splitlines())) <= width
        assert set(re.findall(r"[\d,.e+-]*\d", done.stdout)) == wide
        if command != "compare":
            assert all(re.search(rf"\b{land}\b", done.stdout) for land in ("de", "fr", "it", "es"))


def test_numbers_stand_one_below_the_other(run):
    lines = run("tally", "rows.csv", "--by", "land").stdout.splitlines()
    ends = {re.match(r" *[a-z]* +(rows|[\d,]+)", line).end() for line in lines}
    assert len(lines) == 6
    assert len(ends) == 1


# ------------------------------------------------------------------------------------------------------------ extras


@pytest.mark.parametrize(
    ("module", "words", "expected"),
    [
        ("matplotlib", "report rows.csv --out r.html", 'pip install "calibrant[plot]"'),
        (
            "sqlglot",
            "export m.json --dialect postgres",
            'cannot be checked without sqlglot: pip install "calibrant[sql]"',
        ),
    ],
)
def test_what_is_not_installed_is_told_with_the_line_that_installs_it(run, here, module, words, expected):
    run("fit", "rows.csv", "--method", "platt", "--out", "m.json")
    code = f"import sys; sys.modules[{module!r}] = None; from calibrant.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words.split()], cwd=here, capture_output=True, text=True)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "connection=" not in done.stderr


def test_the_help_of_report_says_what_html_needs():
    assert 'pip install "calibrant[plot]"' in " ".join(command_line("report", "--help").stdout.split())
