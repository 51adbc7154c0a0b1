"""The workflows of the forge and the commit hooks call make targets, and do nothing of their own."""

import re
from pathlib import Path

from tools import pins

ROOT = Path(__file__).parents[2]
WORKFLOWS = {"fast": "make fast", "engines": "make check", "nightly": "make nightly", "release": "make release"}


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def runs(name: str) -> list[str]:
    return re.findall(r"^ +- run: (.*)$", text_of(f".github/workflows/{name}.yml"), re.MULTILINE)


def test_there_is_no_other_workflow():
    assert {path.stem for path in (ROOT / ".github" / "workflows").iterdir()} == set(WORKFLOWS)


def test_a_workflow_installs_packages_of_the_system_and_runs_one_target(subtests):
    for name, command in WORKFLOWS.items():
        with subtests.test(name):
            *before, last = runs(name)
            assert last == command
            assert all(run.startswith("sudo apt-get ") for run in before) or before == ["make pinned"]


def test_a_workflow_has_the_engines_that_ci_installs(subtests):
    for name in ["engines", "nightly"]:
        with subtests.test(name=name):
            wanted = {"openjdk-17-jre-headless", "postgresql", "prometheus"}
            installed = {word for run in runs(name) if " install " in run for word in run.split()[3:] if word[0] != "-"}
            assert installed == wanted
            assert all(f"missing+=({package})" in text_of(".ci/run") for package in wanted)


def test_a_workflow_may_only_read_and_ends(subtests):
    for name in WORKFLOWS:
        with subtests.test(name=name):
            text = text_of(f".github/workflows/{name}.yml")
            assert "\npermissions:\n  contents: read\n" in text
            assert "\nconcurrency:\n" in text
            assert text.count("timeout-minutes:") == text.count("runs-on:") == (2 if name == "release" else 1)


def test_a_release_is_published_without_a_stored_password():
    text = text_of(".github/workflows/release.yml")
    build, publish = text.split("\n  publish:\n")
    assert "id-token: write" not in build
    assert "\n    permissions:\n      id-token: write" in publish
    assert "\n    needs: build\n" in publish
    assert "\n    environment: pypi\n" in publish
    assert "run:" not in publish
    assert "secrets." not in text
    assert "password:" not in text
    assert re.findall(r"^ +tags: (.*)$", text, re.MULTILINE) == ['["v*"]']


def test_x7_a_release_is_published_by_pinned_actions_alone():
    text = text_of(".github/workflows/release.yml")
    assert text.index("run: make pinned") < text.index("run: make release") < text.index("gh-action-pypi-publish")
    assert "@release/" not in text
    step = "      - uses: actions/checkout@v6\n"
    assert list(pins.loose(step)) == ["actions/checkout@v6"]
    assert list(pins.loose("FROM python:3.11-slim AS build\n")) == ["python:3.11-slim"]
    known = {"actions/checkout@v6": "a" * 40, "python:3.11-slim": "sha256:" + "b" * 64}
    for line in (step, "FROM python:3.11-slim AS build\n", "FROM python:3.11-slim\n"):
        fixed = pins.filled(line, known.__getitem__)
        assert not list(pins.loose(fixed))
        assert pins.filled(fixed, {"actions/checkout@v6": "c" * 40, "python:3.11-slim": "d"}.__getitem__) != fixed


def test_hooks_call_make():
    text = text_of(".pre-commit-config.yaml")
    assert re.findall(r"repo: (.*)", text) == ["local"]
    assert re.findall(r"entry: (.*)", text) == ["make lint", "make types"]
