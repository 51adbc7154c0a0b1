"""``calibrant accept`` on files of graded answers: the numbers of the library, exit codes and mistakes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.cli.conftest import write

from calibrant.abstention import Acceptance, accept, accept_models


@pytest.fixture
def answers(here):
    rng = np.random.default_rng(1)
    stated, model = rng.choice([0.5, 0.8, 0.9, 0.95], 900), np.repeat(["a", "b", "c"], 300)
    right = rng.random(900) < np.where(stated >= 0.9, 0.97, 0.7) - np.where(model == "b", 0.3, 0.0)
    found = {
        "model": model,
        "prompt": rng.choice(["x", "y"], 900),
        "question": np.arange(900) // 2,
        "confidence": stated,
        "correct": right.astype(np.int64),
        "grade": np.where(right, "right", "wrong"),
        "all": np.ones(900, dtype=np.int64),
    }
    write(found, "answers.csv")
    return found


NAMES = ("accept", "answers.csv", "--score", "confidence", "--label", "correct")


def test_the_threshold_is_that_of_the_library_and_so_is_the_file(answers, run):
    one = answers["model"] == "a"
    expected = accept(answers["confidence"][one], answers["correct"][one])
    words = (*NAMES, "--where", "model = 'a'")
    done = run(*words, "--out", "rule.json")
    assert done.exit_code == 0
    assert "Answer if the score is at least 0.9: with confidence 95 %" in " ".join(done.stdout.split())
    assert json.loads(run(*words, "--json").stdout) == expected.to_dict()
    with open("rule.json", encoding="utf-8") as file:
        assert Acceptance.from_dict(json.load(file)).decide([0.8, 0.95]).tolist() == [False, True]
    assert "exists" in run(*words, "--out", "rule.json").stderr


def test_every_model_gets_a_threshold_at_its_share_of_alpha(answers, run):
    parts = {name: answers["model"] == name for name in ("a", "b", "c")}
    split = [{name: answers[column][at] for name, at in parts.items()} for column in ("confidence", "correct")]
    done = run(*NAMES, "--by", "model", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == accept_models(*split).to_dict()
    both = json.loads(run(*NAMES, "--by", "model", "--by", "prompt", "--error", "0.3", "--json").stdout)
    assert list(both["models"]) == ["a, x", "a, y", "b, x", "b, y", "c, x", "c, y"]
    assert both["models"]["a, x"]["alpha"] == pytest.approx(0.05 / 6)


def test_labels_in_words_and_several_samples_of_a_question(answers, run):
    words = ("accept", "answers.csv", "--score", "confidence", "--label", "grade", "--error", "0.3")
    assert "pass --positive wrong or --positive right" in run(*words).stderr
    done = run(*words, "--positive", "right", "--groups", "question", "--json", "--seed", "3")
    found = json.loads(done.stdout)
    same = accept(answers["confidence"], answers["correct"], error=0.3, groups=answers["question"], random_state=3)
    assert found == same.to_dict()
    assert found["groups"] == 450


def test_percentages_are_noticed_and_may_be_scores_as_they_are(answers, run):
    write(answers | {"confidence": 100 * answers["confidence"]}, "percent.csv")
    words = ("accept", "percent.csv", "--score", "confidence", "--label", "correct", "--where", "model = 'a'")
    assert "look like percentages" in run(*words).stderr
    assert json.loads(run(*words, "--score-type", "real", "--json").stdout)["threshold"] == 90.0


def test_exit_codes(answers, run):
    assert run(*NAMES, "--error", "0.01").exit_code == 11
    assert run(*NAMES, "--by", "model", "--error", "0.01").exit_code == 11
    everything = run("accept", "answers.csv", "--score", "confidence", "--label", "all")
    assert everything.exit_code == 0
    assert everything.stdout.startswith("Answer everything")
    assert everything.stderr == ""
    wrong = run(*NAMES, "--error", "2")
    assert wrong.exit_code == 1
    assert "--error must be strictly between 0 and 1" in wrong.stderr
    assert "--label" in run("accept", "answers.csv", "--score", "confidence").stderr


def test_a_model_without_a_name_and_two_with_one_name_are_refused(run, here):
    columns = {"score": [0.9, 0.8, 0.7], "label": [1, 0, 1], "model": ["a, b", "a", "a"], "prompt": ["c", "b, c", "d"]}
    write(columns, "names.csv")
    assert "give two models one name" in run("accept", "names.csv", "--by", "model", "--by", "prompt").stderr
    write(columns | {"model": ["a", None, "b"]}, "names.csv")
    assert "is empty in 1 row:" in run("accept", "names.csv", "--by", "model").stderr
