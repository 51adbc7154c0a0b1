"""The example of a gate does what its README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GATE = Path(__file__).parents[2] / "examples" / "gate"


def shell(script: list[str], here: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(script, cwd=here, capture_output=True, text=True, env=os.environ | {"PATH": path} | variables)


STATES = [
    (["rows.csv"], 0, "gate: open\n"),
    (["rows.csv", "--label", "bad"], 1, "gate: closed, the probabilities are off by more than the tolerance\n"),
    (["rows.csv", "--label", "mixed"], 1, "gate: closed, the probabilities are significantly off\n"),
    (
        ["rows.csv", "--label", "mixed", "--by", "land", "--tolerance", "0.5", "--fail-on", "segments"],
        1,
        "gate: closed, the probabilities of a segment or a period are off\n",
    ),
    (["rows.csv", "--label", "mixed", "--by", "land", "--tolerance", "0.5"], 0, "gate: open\n"),
    (["few.csv"], 0, "gate: open, but more labels are needed to tell\n"),
    (["nothing.csv"], 1, "gate: the check did not run (exit code 1)\n"),
]


@pytest.mark.parametrize(("words", "code", "told"), STATES)
def test_the_shell_gate(here, words, code, told):
    done = shell(["sh", "-e", str(GATE / "gate.sh"), *words], here)
    assert done.returncode == code
    assert (done.stdout + done.stderr).endswith(told)


def step_of_the_workflow() -> str:
    """The script of the step that checks."""
    text = (GATE / "calibration.yml").read_text(encoding="utf-8")
    script = re.search(r"name: Is it calibrated\?\n.*?run: \|\n(.*)", text, re.DOTALL)[1]
    return re.sub(r"^ {10}", "", script, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("label", "where", "code", "told"),
    [
        ("label", "rows.csv", 0, "::notice::"),
        ("bad", "rows.csv", 1, "::error::the prob"),
        ("label", "few.csv", 0, "::warning::"),
    ],
)
def test_the_step_of_the_workflow(here, label, where, code, told):
    """GitHub runs it with ``bash -eo pipefail``."""
    variables = {
        "PREDICTIONS": where,
        "SCORE": "score",
        "LABEL": label,
        "SEGMENT": "land",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    done = shell(["bash", "-eo", "pipefail", "-c", step_of_the_workflow()], here, **variables)
    assert done.returncode == code, done.stderr
    assert told in done.stdout
    summary = (here / "summary.md").read_text(encoding="utf-8")
    assert re.fullmatch(r"```\n(CALIBRATED|MISCALIBRATED|CANNOT TELL).*\n```\n", summary, re.DOTALL)


def test_the_workflow_uses_commands_and_options_that_exist(here):
    """The line that writes the report runs as it stands."""
    text = (GATE / "calibration.yml").read_text(encoding="utf-8")
    (line,) = re.findall(r"run: (calibrant report .*)", text)
    variables = {"PREDICTIONS": "rows.csv", "SCORE": "score", "LABEL": "bad", "SEGMENT": "land"}
    assert shell(["bash", "-c", line], here, **variables).returncode == 0
    assert (here / "report.html").exists()
