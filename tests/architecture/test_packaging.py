"""The package file, the lowest versions, the Makefile and the CI script agree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = {"narwhals", "numpy", "scikit-learn", "scipy"}
EXTRAS = {"cli", "service", "duckdb", "excel", "fast", "onnx", "plot", "spark", "sql", "store"}
STEPS = ["venv", "lint", "types", "layers", "bench", "test"]
OTHERS = [
    "fast",
    "nightly",
    "lowest",
    "torch",
    "studies",
    "papers",
    "docs",
    "dist",
    "installed",
    "extras",
    "audit",
    "release",
]


@pytest.fixture(scope="module")
def project() -> dict:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


@pytest.fixture(scope="module")
def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def commands(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def test_core_dependencies_are_four_with_the_tested_lower_bounds(project):
    allowed = dict(requirement.split(">=") for requirement in project["dependencies"])
    tested = dict(line.split("==") for line in commands(ROOT / "requirements" / "lowest.txt"))
    assert set(allowed) == CORE
    assert allowed == tested


def test_extra_all_is_every_extra(project):
    extras = project["optional-dependencies"]
    assert set(extras) == EXTRAS | {"all"}
    (everything,) = extras["all"]
    assert set(re.fullmatch(r"calibrant\[(.*)\]", everything)[1].split(",")) == EXTRAS


def test_citation_has_the_version_and_licence(project):
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation


def test_changelog_starts_with_the_version(project):
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)[1] in {project["version"], "Unreleased"}


def test_check_is_every_target_with_the_tests_last(makefile):
    budgets = dict(part.split("=") for part in re.search(r"^BUDGETS := (.*)$", makefile, re.MULTILINE)[1].split())
    steps = list(budgets)
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert steps == STEPS
    assert sorted(phony) == sorted(["check", *STEPS, *OTHERS])
    assert sum(map(float, budgets.values())) <= 38  # minutes


def test_minutes_are_printed_before_the_last_part_and_a_failure_ends_the_check():
    script = [sys.executable, ROOT / "tools" / "parts.py"]
    done = subprocess.run([*script, "true", "lint=1", "test=2"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines() if line] == ["part", "lint", "sum", "test:"]
    done = subprocess.run([*script, "false", "lint=1", "test=2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_ci_runs_make_check_and_nothing_of_its_own():
    script = commands(ROOT / ".ci" / "run")
    assert script[0] == "set -euo pipefail"
    assert script[-1] == "make check"
    assert not [line for line in script if re.search(r"\b(pip|pytest|ruff|mypy|lint-imports|benchmarks)\b", line)]


def test_each_benchmark_with_a_limit_on_speed_runs_on_every_change(makefile):
    bench = re.search(r"^bench: venv\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    studies = re.search(r"^studies: venv\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    assert all("--gate" in line for line in bench.splitlines())
    assert not set(bench.splitlines()) & set(studies.splitlines())
    assert " studies" in re.search(r"^nightly: ((?!export).*)$", makefile, re.MULTILINE)[1]
