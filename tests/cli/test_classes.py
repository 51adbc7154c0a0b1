"""Several classes on the command line: a column for each, the class of each row in --label."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.cli.conftest import write

import calibrant as cb
from calibrant.cli.commands.check import FailOn, _exit

NAMES = ["ant", "bee", "cat"]


@pytest.fixture
def rows(here):
    """Rows of three classes, with sharper probabilities in ``q_*``; written as classes.csv."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([2.0, 1.0, 1.0], 1_500)
    y = np.array(NAMES)[(rng.random((1_500, 1)) > p.cumsum(axis=1)).sum(axis=1)]
    q = p**1.8 / (p**1.8).sum(axis=1, keepdims=True)
    columns = {f"p_{name}": p[:, j] for j, name in enumerate(NAMES)}
    columns |= {f"q_{name}": q[:, j] for j, name in enumerate(NAMES)}
    columns |= {"species": y, "part": np.array(["x", "y"])[np.arange(1_500) % 2], "code": np.arange(1_500) % 3}
    write(columns, str(here / "classes.csv"))
    return p, q, y


def test_check_takes_a_column_for_each_class_or_a_glob(run, rows):
    _p, q, y = rows
    expected = cb.check(q, y, classes=NAMES)
    done = run("check", "classes.csv", "--score", "q_*", "--label", "species", "--json")
    assert done.exit_code == 10
    told = json.loads(done.stdout)
    assert (told["notion"], told["headline"]) == ("confidence", expected.headline)
    assert told["predicted"] == pytest.approx(expected.predicted)
    assert set(told["classes"]) == set(NAMES)
    named = [word for name in NAMES for word in ("--score", f"q_{name}")]
    assert json.loads(run("check", "classes.csv", *named, "--label", "species", "--json").stdout) == told
    text = run("check", "classes.csv", "--score", "q_*", "--label", "species", "--by", "part").stdout
    assert "Judged: confidence" in text
    assert "Classes: 3 of 3 significantly off" in text
    assert "part = x" in text
    joint = run("check", "classes.csv", "--score", "q_*", "--label", "species", "--notion", "class-wise")
    assert joint.stdout.startswith("MISCALIBRATED beyond the limit in ")
    assert joint.exit_code == 10


def test_a_class_that_is_off_can_fail_the_command(run, rows):
    plain = ["check", "classes.csv", "--score", "p_*", "--label", "species", "--tolerance", "0.5"]
    assert run(*plain, "--fail-on", "classes").exit_code == run(*plain).exit_code == 0
    _p, q, y = rows
    verdict = replace(cb.check(q, y, classes=NAMES), status="calibrated")
    assert _exit(verdict, [FailOn.classes]) == 13
    assert _exit(verdict, []) == 0
    wrong = run("check", "classes.csv", "--score", "p_ant", "--label", "species", "--fail-on", "classes")
    assert wrong.exit_code == 1
    assert "--fail-on classes needs several classes: pass a column for each with --score" in wrong.stderr


def test_mistakes_are_explained(run, rows, subtests):
    for words, text in (
        (["--score", "r_*", "--label", "species"], "--score 'r_*' matches no column"),
        (["--score", "p_ant", "--score", "p_dog", "--label", "species"], "has no column 'p_dog' (--score (p_dog))"),
        (["--score", "p_*", "--label", "code"], "which has no column in"),
        (["--score", "p_*", "--score", "part", "--label", "species"], "part"),
    ):
        with subtests.test(words=words):
            done = run("check", "classes.csv", *words)
            assert done.exit_code == 1
            assert text in done.stderr.replace("\n", " ").replace("  ", " ")
    fit = run("fit", "classes.csv", "--score", "p_ant", "--score", "p_bee", "--label", "species", "--out", "map.json")
    assert fit.exit_code == 1


def test_compare_and_report(run, rows, here):
    p, q, y = rows
    both = [word for name in NAMES for word in ("--old", f"q_{name}", "--new", f"p_{name}")]
    done = run("compare", "classes.csv", *both, "--label", "species", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)["differences"]
    expected = cb.compare(q, p, y, classes=NAMES).differences
    assert [each["name"] for each in told] == ["Squared calibration error", "Log loss", "Brier score", "Accuracy"]
    assert told[0]["change"] == pytest.approx(expected[0].change)
    assert "Accuracy" in run("compare", "classes.csv", *both, "--label", "species").stdout
    wrote = run("report", "classes.csv", "--score", "q_*", "--label", "species", "--out", "r.md")
    assert wrote.exit_code == 0
    assert "## By class" in (here / "r.md").read_text()
