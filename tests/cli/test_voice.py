"""The voice of the command line, held against what the library really says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import duckdb
import numpy as np
import pytest

import calibrant as cb
from calibrant.cli.input.duckdb_errors import of_duckdb
from calibrant.cli.voice import CommandLine
from calibrant.verdict.input.frames import gain_not_measured

VOICE = CommandLine()
S, Y = [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]
ROWS = "(VALUES (0.1::DOUBLE, 0, DATE '2026-01-01', 'x'), (NULL, 1, DATE '2026-01-02', 'y')) AS t(s, y, d, g)"

SAID: dict[str, tuple[Callable[[], object], str]] = {
    "two labels": (lambda: cb.check(S, ["a", "b", "a", "b"]), "pass --positive b or --positive a"),
    "one label": (lambda: cb.check(S, ["a", "a", "a", "a"]), "pass --positive with the label"),
    "not that label": (lambda: cb.check(S, ["a", "b", "a", "b"], positive="c"), "--positive c is not among the labels"),
    "percent": (lambda: cb.check([10, 40, 60, 90], Y), "divide the column by 100, or pass --score-type real"),
    "real scores": (lambda: cb.check(S, Y, score_type="real"), "(calibrant fit), or pass --score-type logit"),
    "outside": (
        lambda: cb.check([-3.0, 0.4, 0.6, 0.9], Y, score_type="probability"),
        "pass --score-type logit or --score-type real,",
    ),
    "fractions as counts": (
        lambda: cb.check(S, Y, [0.5, 1, 1, 1], weight_type="frequency"),
        "--frequency takes integers below 2**53: repair it, or leave --frequency out",
    ),
    "rows that cannot be counted": (
        lambda: cb.tally(duckdb.sql(f"FROM {ROWS}"), "s", "y"),
        "exclude them with --where",
    ),
    "two of three": (lambda: cb.plan(n=5), "exactly two of --labels, --n-bins and --epsilon"),
    "no error": (lambda: cb.plan(n=5, epsilon=7.5), "--epsilon must lie"),
    "no classes": (lambda: cb.plan(n=5, n_bins=1, notion="top-label"), "--classes is missing, which --notion"),
    "both ways": (lambda: cb.HistogramBinning(n_bins=2, epsilon=0.1).fit(S, Y), "--n-bins and --epsilon both"),
    "the old model": (lambda: cb.compare([2.0, 0.4, 0.6, 0.9], S, Y), "--old holds values"),
    "the new model's labels": (lambda: cb.compare(S, S, [1, 2, 1, 2]), "holds the labels 1 and 2: pass --positive 2"),
    "thresholds": (lambda: cb.compare(S, S, Y, thresholds=[2]), "--threshold must be"),
    "moments as segments": (
        lambda: cb.tally(duckdb.sql("SELECT 0.5 AS s, 1 AS y, TIMESTAMP '2026-01-01' AS d"), "s", "y", by="d"),
        "--by d holds timestamps: use --time d",
    ),
    "a store's segments": (lambda: cb.TallyStore("kept", by=["g", "g"]), "--by g --by g uses the name 'g' twice"),
    "no day yet": (lambda: cb.TallyStore("kept").window(), "pass --from and --to, or add a day"),
    "no day": (lambda: cb.TallyStore("kept").window("soon", "2026-01-01"), "--from soon is not a day"),
    "beta": (lambda: cb.BetaScaling().fit(S, Y, score_type="logit"), "use --method platt"),
}


def test_sentences_of_the_library_speak_of_options(subtests, tmp_path, monkeypatch):
    for fail, expected in SAID.values():
        with subtests.test(fail=fail, expected=expected):
            monkeypatch.chdir(tmp_path)
            with pytest.raises(cb.InputError) as caught:
                fail()
            assert expected in caught.value.say(VOICE)


def test_hints_and_notes_speak_of_options():
    rng = np.random.default_rng(1)
    p = rng.beta(2, 5, 3000)
    verdict = cb.check(np.sqrt(p), rng.random(3000) < p / 4, rng.integers(1, 3, 3000))
    told = " ".join(note.say(VOICE) for note in (*verdict.hints, *verdict.notes, gain_not_measured()))
    assert "In Python, SamplingCorrection corrects it" in told
    assert "calibrant fit FILES --out map.json" in told
    assert "pass --frequency to keep" in told
    assert "pass --time or --groups to define folds" in told
    assert not re.search(r"\b(kind|positive|weights|time|groups|by)=", told)


def test_a_fitted_map_names_the_method_that_has_a_certificate():
    assert "use --method binning if you need" in cb.PlattScaling().fit(S, Y).say(VOICE)
    assert cb.HistogramBinning(n_bins=1).fit(S, Y).say(VOICE).startswith("HistogramBinning(n_bins=1) fitted")


def test_columns_are_written_as_sql_and_the_shell_read_them(subtests):
    for name in ["p", "Score", "the score"]:
        with subtests.test(name=name):
            with pytest.raises(cb.InputError) as caught:
                cb.check([0.5, np.nan], [0, 1])
            told = caught.value.say(CommandLine(name, "y"))
            condition = shlex.split(told.partition("--where ")[2])[0]
            quoted = '"' + name + '"'
            rows = duckdb.sql(f"SELECT unnest([0.5, 'nan'::DOUBLE, NULL]) AS {quoted}")
            assert rows.filter(condition).fetchall() == [(0.5,)]


def test_what_duckdb_says_otherwise_is_told_in_its_first_line():
    assert of_duckdb("Out of Memory Error: could not allocate\n\nPossible solutions:\n* more") == "could not allocate"
