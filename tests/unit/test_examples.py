"""The scripts in `examples` run as they stand."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
def test_boosters_are_better_after_calibration() -> None:
    lines = [line.split() for line in run("boosters.py").splitlines() if "log loss" in line]
    assert lines
    for words in lines:
        before, after = (float(word) for word in words if word.startswith("0."))
        assert after < before


@pytest.mark.full
def test_the_picture_of_the_readme_is_small(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("readme_picture.py", str(tmp_path / "readme.png"))
    assert 10_000 < (tmp_path / "readme.png").stat().st_size < 60_000


def test_pictures_of_the_papers_show_printed_values_beside_ours(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.syspath_prepend(EXAMPLES / "papers")
    for path in sorted((EXAMPLES / "papers").glob("plot_*.py")):
        with subtests.test(path.stem):
            figure = runpy.run_path(str(path))["figure"]
            figure.canvas.draw()
            assert sum(len(ax.lines) + len(ax.patches) for ax in figure.axes) >= 4
            plt.close(figure)
    monkeypatch.delitem(sys.modules, "table")


def test_the_desk_of_survival_finds_the_higher_risk_of_the_other_hospitals() -> None:
    printed = run("desks/survival.py")
    lines = [line.split() for line in printed.splitlines() if line.startswith("observed over expected (O/E)")]
    low = float(lines[-1][5])  # the first such line is that of the plan
    assert "Aalen-Johansen" in printed
    assert low > 1.0


def test_the_desk_of_an_ads_engineer_runs_to_its_end() -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    printed = run("desks/ads.py")
    assert "counted-repeatedly" in printed
    assert float(printed.split()[-1]) < 1e-12


@pytest.mark.full
@pytest.mark.parametrize("name", ["data_scientist.py", "deep_learning.py"])
def test_a_first_hour_runs_to_its_end(name: str) -> None:
    printed = run(f"first_hours/{name}")
    assert "MISCALIBRATED" in printed
    assert "Traceback" not in printed


def test_the_desk_of_an_evaluation_engineer() -> None:
    printed = run("desks/llm.py")
    assert "With confidence 95 % for all models together" in printed
    assert "Keep the cheap answer if its score is at least" in printed


@pytest.mark.slow
def test_the_desk_of_a_clinical_epidemiologist_runs_to_its_end(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    printed = run("desks/clinic.py", str(tmp_path))
    assert "Missing outcomes are refused: y has" in printed
    assert "95 % PI, new cluster" in printed
    assert "TRIPOD+AI, items on evaluation: 6 of 10 complete" in printed
    for name in ("calibration.pdf", "hospitals.pdf", "use.pdf"):
        page = (tmp_path / name).read_bytes()
        assert page.startswith(b"%PDF")
        assert b"/Type3" not in page


def test_a_pd_validators_year_runs_to_its_end() -> None:
    printed = run("desks/credit.py")
    for words in ("lights by grade and year", "asset correlation 0.05", "Long-run average", "score from", "PSI", "HHI"):
        assert words in printed
