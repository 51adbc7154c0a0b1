"""Each mistake of a new user is answered by one sentence with the fix, in terms of options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import command_line, write

from calibrant.cli.app import ABOUT
from calibrant.cli.input.files import READ_KINDS
from calibrant.cli.options import FORMATS, READABLE

PYTHON = ("=True", "score_type=", "positive=", "weight_type=", "calibrant.", "astype", "predict_proba", "Traceback")
"""What only a reader of Python would understand."""


@pytest.fixture(scope="module")
def made_mistakes(tmp_path_factory, columns):
    """Files with something wrong in each."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("mistakes")
        patch.chdir(folder)
        make_mistakes(columns)
        return folder


@pytest.fixture
def mistakes(here, made_mistakes):
    """The same, in the folder of the test."""
    shutil.copytree(made_mistakes, here, dirs_exist_ok=True)
    os.mkfifo(here / "pipe.csv")


def make_mistakes(columns):

    def changed(path: str, **new: object) -> None:
        write({name: columns[name] for name in ("score", "label", "land")} | new, path)

    score, label = columns["score"], columns["label"]
    gaps = score.copy()
    gaps[[3, 5, 8]] = np.nan
    changed("text.csv", score=np.array([f"about {value:.2f}" for value in score]))
    changed("comma.csv", score=np.array([f"{1 + value:.3f}".replace(".", ",") for value in score]))
    changed("percent.csv", score=100 * score)
    changed("logits.csv", score=np.log(score / (1 - score)))
    changed("gaps.csv", score=gaps)
    changed("unlabeled.csv", label=np.where(np.arange(len(label)) < 7, np.nan, label))
    changed("one-two.csv", label=label + 1)
    changed("three.csv", label=np.arange(len(label)) % 3)
    changed("one-class.csv", label=np.zeros_like(label))
    write({"score": score, "bad": label}, "renamed.csv")
    Path("empty.csv").write_text("", encoding="utf-8")
    Path("empty.parquet").write_text("", encoding="utf-8")
    Path("header.csv").write_text("score,label\n", encoding="utf-8")
    Path("text.parquet").write_text("score,label\n0.1,1\n", encoding="utf-8")
    Path("ragged.csv").write_text("score,label\n0.5,1\n0.4,1,3,4\n0.3,0\n", encoding="utf-8")
    Path("latin.csv").write_bytes(b"score,label,name\n0.1,1,\x81\n")
    Path("plain.csv.gz").write_text("score,label\n0.1,1\n", encoding="utf-8")
    Path("late.csv").write_text("score,label\n" + "0.1,1\n0.2,0\n" * 20_000 + "0.5,n/a\n", encoding="utf-8")
    Path("na.csv").write_text("score,other,words,label\n0.3,0.1,0.5,1\nNA,0.2,half,0\n1,0.3,0.5,1\n", encoding="utf-8")
    write({"score": np.array(["0.3", "0.5"]), "label": np.array([1, 0])}, "words.parquet")
    Path("nameless.csv").write_text("0.3,1\n0.1,0\n", encoding="utf-8")
    Path("rows.ods").write_text("x", encoding="utf-8")
    Path("rows.tsv").write_text("score\tlabel\n0.1\t1\n", encoding="utf-8")
    Path("folder").mkdir()
    Path("sheets").mkdir()
    Path("sheets/quarter.xlsx").write_bytes(b"PK")
    Path("folder/rows.csv").write_text("score,label\n0.1,1\n", encoding="utf-8")
    Path("damaged.json").write_text('{"format": 1', encoding="utf-8")


COLUMNS = "'id', 'score', 'label', 'bad', 'mixed', 'outcome', 'land', 'day', 'patient', 'w', 'new'"

BOTH = {
    "a column nearly right": (
        "rows.csv --score Scor",
        f"rows.csv has no column 'Scor' (--score): did you mean 'score'? Columns: {COLUMNS}",
    ),
    "a column that is not there": (
        "rows.csv --label y",
        f"rows.csv has no column 'y' (--label): pass --label with one of {COLUMNS}",
    ),
    "scores and labels swapped": (
        "rows.csv --score bad --label score",
        "the column 'bad' and the column 'score' look swapped: pass --score score --label bad",
    ),
    "scores of text": ("text.csv", "the column 'score' (--score) contains text such as 'about 0."),
    "a word for a missing score": (
        "na.csv",
        "the column 'score' (--score) contains 'NA' among numbers: find out why, then exclude these rows with "
        "--where \"score <> 'NA'\"",
    ),
    "a word for a missing label": (
        "na.csv --score other --label score --where isfinite(other)",
        "the column 'score' (--label) contains 'NA' among labels: find out why, then exclude these rows with "
        "--where \"score <> 'NA'\"",
    ),
    "a number in words": (
        "na.csv --score words",
        "the column 'words' (--score) contains text such as 'half': pass a numeric column with --score, or fix it",
    ),
    "numbers as text in Parquet": (
        "words.parquet",
        "the column 'score' (--score) contains numbers stored as text: store it as numbers",
    ),
    "counts of nothing": (
        "rows.csv --frequency",
        "--frequency needs weights: pass their column with --weight, or leave --frequency out",
    ),
    "thousands or decimals": ("comma.csv", "which can mean 1"),
    "labels of text": (
        "rows.csv --label outcome",
        "the column 'outcome' holds the labels 'good' and 'very bad': pass --positive 'very bad' or --positive good, "
        "whichever counts as the event",
    ),
    "an event that is no label": (
        "rows.csv --label outcome --positive worse",
        "--positive worse is not among the labels of the column 'outcome', which are 'good' and 'very bad': "
        "pass one of these",
    ),
    "an event of another type": (
        "rows.csv --positive worse",
        "--positive worse cannot be a label: the column 'label' has the type DOUBLE",
    ),
    "no bytes": ("empty.csv", "empty.csv is empty (0 bytes): write it again, or leave it out"),
    "no bytes in Parquet": ("empty.parquet", "empty.parquet is empty (0 bytes): write it again, or leave it out"),
    "no rows": ("header.csv", "header.csv has a header but no rows: check how it was written"),
    "no file": ("row.csv", "row.csv does not exist: did you mean rows.csv?"),
    "no file, and others of its kind": ("llm.parquet", "llm.parquet does not exist: check the path"),
    "no file, one of another kind": ("few.parquet", "few.parquet does not exist: did you mean few.csv?"),
    "no file, one of a kind that is read": ("few.xlsx", "few.xlsx does not exist: did you mean few.csv?"),
    "no file and nothing like it": ("nothing/at-all.csv", "nothing/at-all.csv does not exist: check the path"),
    "no match": ("q*.csv", "q*.csv matches no file: check the folder and the pattern"),
    "a folder": ("folder", "folder is a folder, not a tally store: pass the files in it, as in 'folder/*.csv'"),
    "a folder of sheets": ("sheets", "pass the files in it, as in 'sheets/*.xlsx'"),
    "an address": ("https://x.org/a.csv", "https://x.org/a.csv is a URL, and only local files are supported"),
    "text called Parquet": (
        "text.parquet",
        "text.parquet is not a valid Parquet file: write it again, or rename it if it is CSV",
    ),
    "labels 1 and 2": (
        "one-two.csv",
        "the column 'label' holds the labels 1 and 2: pass --positive 2 or --positive 1, whichever counts as the event",
    ),
    "three classes": (
        "three.csv",
        "the column 'label' has more than two distinct values (0, 1, 2, ...): labels must have two classes: create a "
        "column that is 1 for one class and 0 for the rest; for several classes pass one --score per class",
    ),
    "percentages": (
        "percent.csv",
        "the column 'score' holds values that look like percentages",
    ),
    "CSV and Parquet": (
        "rows.csv rows.parquet",
        "rows.csv is CSV and rows.parquet is Parquet: pass files of one format",
    ),
    "CSV and TSV": ("rows.csv rows.tsv", "rows.csv is CSV and rows.tsv is TSV: pass files of one format"),
    "other columns": (
        "rows.csv renamed.csv",
        "renamed.csv has no column 'label' (--label), which other files have: leave this file out or rename its column",
    ),
    "an unknown kind of file": (
        "rows.ods",
        "rows.ods has an unknown file extension: use one of .csv .tsv .csv.gz .tsv.gz .parquet .pq .xlsx",
    ),
    "uneven lines": ("ragged.csv", "its lines have different numbers of columns"),
    "another encoding": ("latin.csv", "latin.csv is encoded neither in UTF-8 nor in Windows-1252: save it as UTF-8"),
    "no gzip": ("plain.csv.gz", "plain.csv.gz is not a gzip file: rename it to end in .csv, or compress it"),
    "a word among numbers": (
        "late.csv",
        "late.csv, line 40002: the column 'label' contains 'n/a', expected numbers: fix the value, or pass "
        "another column",
    ),
    "weights of text": ("rows.csv --weight land", "the column 'land' (--weight) contains text such as '"),
    "a condition that is none": (
        "rows.csv --where scor>0",
        "--where 'scor>0' is not a valid condition on these columns",
    ),
    "a condition on another type": (
        "rows.csv --where label='a'",
        "--where \"label='a'\" is not a valid condition on these columns: Could not convert string 'a' to DOUBLE",
    ),
    "standard input": ("-", "standard input cannot be read: write the rows to a file first"),
    "a pipe": ("pipe.csv", "pipe.csv is not a regular file and cannot be read: write the rows to a file first"),
    "no names": (
        "nameless.csv",
        "nameless.csv has no column 'score' (--score): it has no header line: add the column names as the first line",
    ),
    "a condition that nothing meets": (
        "rows.csv --where score>2",
        "rows.csv has no row that satisfies --where 'score>2': relax the condition",
    ),
    "days of files": (
        "rows.csv --from 2026-01-01",
        "--from and --to apply to a tally store, and these are files: use --where",
    ),
}

CHECK = {
    "missing scores": (
        "gaps.csv",
        "the column 'score' has 3 missing values (NaN), the first at row 3 counted from 0: fix them, or exclude "
        "them with --where 'isfinite(score)'",
    ),
    "missing labels": (
        "unlabeled.csv",
        "exclude these rows with --where 'label IS NOT NULL'; a label that has not arrived is not a negative",
    ),
    "times of text": ("rows.csv --time land", "--time holds text that is not an ISO 8601 date"),
    "groups of fractions": (
        "rows.csv --groups score",
        "--groups must be integers or strings, got float64: convert them to text first",
    ),
    "groups of dates": ("rows.csv --groups day", "--groups must be integers or strings, got datetime64["),
    "parts of rows": ("na.csv --score other --weight other --frequency", "repair it, or leave --frequency out"),
    "scores that are no probabilities": (
        "rows.csv --score-type real",
        "fit a map first (calibrant fit), or pass --score-type logit for log-odds",
    ),
}

FIT = {
    "missing scores": (
        "gaps.csv",
        "3 of 4,000 rows cannot be used (score 'score' missing in 3): find out why, then exclude them with "
        "--where 'isfinite(score)'",
    ),
    "log-odds": ("logits.csv", "if they are log-odds, pass --score-type logit"),
    "bins without binning": (
        "rows.csv --n-bins 5",
        "--n-bins needs --method binning or scaling-binning: add that, or leave --n-bins out",
    ),
    "a loss without a choice": (
        "rows.csv --method isotonic --loss brier",
        "--loss needs --method auto: add that, or leave --loss out",
    ),
    "a guarantee of another method": (
        "rows.csv --method binning --guarantee 0.1",
        "--guarantee needs --method auto: add that, or leave --guarantee out",
    ),
    "a confidence of nothing": (
        "rows.csv --alpha 0.1",
        "--alpha needs --guarantee or --method binning: add one of them, or leave --alpha out",
    ),
    "a guarantee that is none": (
        "rows.csv --guarantee 2",
        "--guarantee must be epsilon or (epsilon, alpha), all between 0 and 1",
    ),
    "a guarantee beyond the labels": (
        "rows.csv --guarantee 0.001",
        "--guarantee 0.001 cannot be met with 4,000 labels: even two bins are not within 0.001",
    ),
    "a look at no guarantee": ("rows.csv --look 2", "--look needs --guarantee"),
    "a look before the first": ("rows.csv --guarantee 0.2 --look 0", "--look must be an integer of at least 1"),
    "a guarantee for rows that depend on each other": (
        "rows.csv --guarantee 0.1 --groups patient",
        "--guarantee cannot be met: rows of the same group (--groups) may depend on each other",
    ),
    "two ways to say how many bins": (
        "rows.csv --method binning --n-bins 5 --epsilon 0.1",
        "--n-bins and --epsilon both set the number of bins: pass one of them",
    ),
    "an impossible confidence": (
        "rows.csv --method binning --alpha 2",
        "--alpha must lie strictly between 0 and 1, got 2",
    ),
    "an error out of reach": ("rows.csv --method binning --epsilon 0.001", "even one bin needs"),
    "beta on log-odds": (
        "logits.csv --score-type logit --method beta",
        "the column 'score' must be probabilities, not logit scores: use --method platt",
    ),
}

OTHERS = {
    "no map": (
        "apply rows.csv --map no.json --out o.csv",
        "the map no.json does not exist: create it with calibrant fit ... --out no.json",
    ),
    "a folder as a map": (
        "apply rows.csv --map folder --out o.csv",
        "the map folder is a folder: pass the file that calibrant fit saved",
    ),
    "a damaged map": (
        "apply rows.csv --map damaged.json --out o.csv",
        "damaged.json is damaged or is not a map saved by calibrant",
    ),
    "no such folder": (
        "apply rows.csv --map m.json --out no/o.csv",
        "--out no/o.csv is in the folder no, which does not exist: create it with mkdir -p no",
    ),
    "an output that is an input": (
        "apply rows.csv --map m.json --out ./rows.csv --force",
        "--out ./rows.csv is one of the inputs: write to another file",
    ),
    "counts in place of their rows": (
        "tally rows.csv --out ./rows.csv --force",
        "--out ./rows.csv is one of the inputs: write to another file",
    ),
    "a map that is there": ("fit rows.csv --out m.json", "--out m.json exists: pass --force to overwrite it"),
    "a report that is there": ("report rows.csv --out m.json", "--out m.json exists: pass --force to overwrite it"),
    "force without a file": ("tally rows.csv --force", "--force needs --out: pass the file to overwrite"),
    "a word for a missing score": (
        "apply na.csv --map m.json --out o.csv",
        "contains 'NA' among numbers: find out why",
    ),
    "the same for Parquet": ("apply na.csv --map m.json --out o.parquet", "contains 'NA' among numbers: find out why"),
    "an output that is there": (
        "apply rows.csv --map m.json --out few.csv",
        "--out few.csv exists: pass --force to overwrite it, or another file name",
    ),
    "an output of no kind": (
        "apply rows.csv --map m.json --out o.xlsx",
        "--out o.xlsx has an unknown file extension",
    ),
    "a column that is there": (
        "apply rows.csv --map m.json --out o.csv --name land",
        "--name is 'land', and the frame already has this column: pass another name",
    ),
    "a report of no kind": (
        "report rows.csv --out r.docx",
        "--out r.docx has an unknown file extension: use one of .html .md .json",
    ),
    "a map of no kind": (
        "fit rows.csv --out map.pkl",
        "--out map.pkl has an unknown file extension: use one of .json",
    ),
    "a folder as output": (
        "tally rows.csv --out folder/.csv/../../folder",
        "has an unknown file extension",
    ),
    "a plan of one": (
        "plan --labels 50",
        "--n-bins is missing: pass exactly two of --labels, --n-bins and --epsilon; the third is computed",
    ),
    "a plan with a whole error": ("plan --labels 50 --epsilon 5", "--epsilon must lie strictly between 0 and 1, got 5"),
    "a plan for no labels": ("plan --labels 0 --n-bins 5", "--labels must be an integer of at least 1, got 0"),
    "a plan with scores of text": ("plan --labels 50 --n-bins 2 --scores text.csv", "contains text such as 'about"),
    "a score of no file": (
        "plan --epsilon 0.05 --n-bins 10 --score nope",
        "--score needs a file of scores: pass it with --scores, or leave --score out",
    ),
    "a condition on no file": ("plan --epsilon 0.05 --n-bins 10 --where x", "--where needs a file of scores"),
    "a new model of text": (
        "compare rows.csv --old score --new land",
        "the column 'land' (--new) contains text such as",
    ),
    "a new model that is not there": ("compare rows.csv --old score --new p", "rows.csv has no column 'p' (--new)"),
    "a new model in percent": (
        "compare rows.csv --old score --new w",
        "--new holds values that look like a scale",
    ),
    "a comparison with labels of text": (
        "compare rows.csv --old score --new new --label outcome",
        "the column 'outcome' holds the labels 'good' and 'very bad': pass --positive 'very bad' or --positive good",
    ),
    "a threshold beyond 1": (
        "compare rows.csv --old score --new new --threshold 20",
        "--threshold must be probabilities between 0 and 1",
    ),
    "a store without a day": (
        "tally rows.csv --store kept",
        "--store needs the day of the rows: pass --day 2026-03-01, or --time with a column of days",
    ),
    "a store with two days": (
        "tally rows.csv --store kept --day 2026-03-01 --time day",
        "--day and --time both give the day of the rows: pass one of them",
    ),
    "a store by the hour": (
        "tally rows.csv --store kept --time day --every 1h",
        "--store always uses periods of one day: leave --every out",
    ),
    "a store of log-odds": (
        "tally rows.csv --store kept --day 2026-01-01 --score-type logit",
        "--store accepts probabilities, not logit scores",
    ),
    "no day": (
        "tally rows.csv --store kept --day tomorrow",
        "--day tomorrow is not a day: pass a date, or text like '2026-03-01'",
    ),
    "a day without a store": (
        "tally rows.csv --day 2026-01-01",
        "--day needs --store: pass the folder of a tally store",
    ),
    "an hour of nothing": ("tally rows.csv --every 1h", "--every needs --time: pass the time column"),
    "time as a segment": (
        "tally stamps.csv --by at",
        "--by at holds timestamps: use --time at, which splits them into days, hours or months",
    ),
    "text as time": (
        "tally rows.csv --time land",
        "--time land is of type String, and only dates and timestamps can be split into periods: use --by land",
    ),
}


def answer(run, words: str) -> str:
    done = run(*words.split())
    assert done.exit_code == 1, done.output
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not [word for word in PYTHON if word in done.stderr]
    return done.stderr.removeprefix("error: ").rstrip("\n")


def test_check_says_what_to_do(subtests, run, mistakes):
    for name, (words, expected) in (BOTH | CHECK).items():
        with subtests.test(name):
            assert expected in answer(run, f"check {words}")


def test_fit_says_what_to_do(subtests, run, mistakes):
    for name, (words, expected) in (BOTH | FIT).items():
        with subtests.test(name):
            assert expected in answer(run, f"fit --out map.json {words}")
            assert not Path("map.json").exists()


@pytest.fixture
def more(mistakes, run):
    run("fit", "rows.csv", "--label", "bad", "--out", "m.json")
    Path("stamps.csv").write_text(
        "score,label,at\n0.1,0,2026-01-01 10:00:00\n0.2,1,2026-01-02 11:00:00\n", encoding="utf-8"
    )


def test_the_other_commands_say_what_to_do(subtests, run, more):
    for name, (words, expected) in OTHERS.items():
        with subtests.test(name):
            assert expected in answer(run, words)


STORE = {
    "another column": ("check kept --score p", "kept is a tally store, whose columns are fixed: leave --score out"),
    "files beside it": ("check kept rows.csv", "kept is a tally store: pass it alone"),
    "no day": ("check kept --from soon", "--from soon is not a day"),
    "days that it lacks": (
        "check kept --from 2027-01-01 --to 2027-01-31",
        "--from 2027-01-01 and --to 2027-01-31 select no day of the store 'kept'",
    ),
    "other segments": ("tally rows.csv --store kept --by day --day 2026-03-02", "leave --by out"),
    "rows of a store": (
        "tally kept --store other --day 2026-03-02",
        "kept is a tally store, and this command needs rows: pass files of rows",
    ),
}


def test_mistakes_with_a_store_say_what_to_do(subtests, run):
    assert run("tally", "rows.csv", "--by", "land", "--day", "2026-03-01", "--store", "kept").exit_code == 0
    for name, (words, expected) in STORE.items():
        with subtests.test(name):
            assert expected in answer(run, words)


def test_a_damaged_store_is_told(run):
    run("tally", "rows.csv", "--day", "2026-03-01", "--store", "kept")
    Path("kept/days/day=2026-03-01/tally.parquet").write_bytes(b"PAR1 or what")
    assert "tally.parquet is damaged" in answer(run, "check kept")


def test_one_class_is_no_mistake(run, mistakes):
    done = run("check", "one-class.csv")
    assert done.exit_code == 11
    assert "have all labels arrived" in done.stdout


def test_files_that_lack_a_column_nobody_asked_for_are_noted(run):
    write({"score": np.array([0.5, 0.2]), "label": np.array([1, 0])}, "short.csv")
    done = run("check", "rows.csv", "short.csv")
    assert done.exit_code == 0
    assert done.stderr == "note: short.csv has no column 'id', which other files have\n"


def test_an_error_leaves_stdout_empty_for_json(here):
    done = command_line("check", "rows.csv", "--score", "no", "--json", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_folder_that_must_not_be_written_is_told(run, monkeypatch):
    def refuse(*words: object) -> None:
        raise PermissionError(13, "Permission denied", "map.json")

    monkeypatch.setattr("calibrant.calibration.Calibration.save", refuse)
    assert answer(run, "fit rows.csv --out map.json") == "map.json: Permission denied"


def test_a_folder_that_is_not_ours_is_told_before_the_work(run, monkeypatch):
    monkeypatch.setattr("os.access", lambda *words: False)
    assert answer(run, "fit rows.csv --out map.json") == (
        "--out map.json is in the folder ., which is read-only: pass a file in another folder"
    )


def test_the_help_lists_every_format_that_is_read():
    assert READABLE.partition("(")[2].partition(")")[0].split() == list(READ_KINDS)
    assert all(kind in FORMATS for kind in set(READ_KINDS.values()) - {"TSV"})
    assert FORMATS in ABOUT


def test_columns_that_are_called_like_arguments_keep_their_names(run):
    """The rewrites are for the library's words, not for the user's."""
    Path("named.csv").write_text("sample_weight,n_bins,label\n0.1,0.2,1\n0.3,,0\n", encoding="utf-8")
    assert answer(run, "check named.csv").endswith("pass --score with one of 'sample_weight', 'n_bins', 'label'")
    assert "(score 'n_bins' missing in 1)" in answer(run, "fit named.csv --score n_bins --out map.json")


def test_without_duckdb_the_install_line_is_printed(here):
    code = "import sys; sys.modules['duckdb'] = None; from calibrant.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "check", "rows.csv"], cwd=here, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert 'pip install "calibrant[cli]"' in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "rows.csv", "--out", "map.json", "--method", "plat"], "unknown value 'plat': did you mean 'platt'?"),
        (["check", "rows.csv", "--score-type", "logits"], "unknown value 'logits': did you mean 'logit'?"),
        (["report", "rows.csv", "--style", "xyz"], "unknown value 'xyz': pass one of general"),
    ],
)
def test_an_unknown_value_suggests_the_nearest(words, said, here):
    done = command_line(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Value error" not in done.stderr
