"""`calibrant check --map`: the answer is about calibrated scores, and fitted rows are known again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.cli.conftest import write

import calibrant as cb


def rows(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 5, n)
    return {"score": scores, "label": (rng.random(n) < scores / (scores + 3 * (1 - scores))).astype(int)}


@pytest.fixture
def mapped(here):
    """The folder with rows that a map was fitted to, and others."""
    old, new = rows(6000, 1), rows(20_000, 2)
    write(old, str(here / "old.parquet"))
    write(new, str(here / "new.parquet"))
    cb.PlattScaling().fit(old["score"], old["label"]).save(here / "map.json")
    return new


def test_the_answer_is_about_what_the_map_makes_of_the_scores(run, mapped, here):
    assert run("check", "new.parquet").exit_code == 10
    done = run("check", "new.parquet", "--map", "map.json", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told == cb.check(mapped["score"], mapped["label"], calibration=cb.load(here / "map.json")).to_dict()
    assert told["in_sample"] is False


def test_rows_that_the_map_was_fitted_to_are_not_called_calibrated(run, mapped):
    done = run("check", "old.parquet", "-m", "map.json")
    assert done.exit_code == 11
    assert done.stdout.startswith("In-sample: the map was fitted to about 100 % of these rows")
    assert "CANNOT TELL YET: the map was fitted to these rows; evaluate it on held-out rows." in done.stdout


def test_a_map_that_is_not_there_is_told(run, mapped):
    done = run("check", "new.parquet", "--map", "other.json")
    assert done.exit_code == 1
    assert "the map other.json does not exist" in done.stderr


@pytest.mark.parametrize("n", [150, 2000])
def test_heaped_rows_that_the_map_was_fitted_to_are_known_again(run, here, n):
    rng = np.random.default_rng(0)
    scores = rng.choice([0.2, 0.4, 0.7, 0.9], n)
    write({"score": scores, "label": (rng.random(n) < scores - 0.15).astype(int)}, str(here / "heaped.csv"))
    assert run("fit", "heaped.csv", "--out", "heaped.json").exit_code == 0
    done = run("check", "heaped.csv", "--map", "heaped.json")
    assert done.exit_code == 11
    assert done.stdout.startswith("In-sample: the map was fitted to about 100 % of these rows")


def test_segments_and_periods_that_are_off_change_the_exit_code_when_asked(run):
    words = ["check", "rows.csv", "--label", "mixed", "--by", "land", "--time", "day", "--tolerance", "0.5"]
    assert run(*words).exit_code == 0
    assert run(*words, "--fail-on", "segments").exit_code == 13
    assert run(*words, "--fail-on", "periods").exit_code == 0
    assert run(*words, "--fail-on", "periods", "--fail-on", "segments").exit_code == 13
    plain = " ".join(run("check", "--help").stdout.replace("│", " ").split())
    assert "0 calibrated, 10 miscalibrated, 12 off, 11 cannot tell" in plain
