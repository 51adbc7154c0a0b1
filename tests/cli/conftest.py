"""Files as a new user has them, made once, and a way to run commands on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner, Result

from calibrant.cli.app import app

Run = Callable[..., Result]


def made(n: int = 4000, seed: int = 7) -> dict[str, Any]:
    """Columns of ``n`` rows: calibrated for ``label``, too high for ``bad``, too high in Italy alone for ``mixed``."""
    rng = np.random.default_rng(seed)
    p, land = rng.beta(2, 5, n), rng.choice(["de", "fr", "it", "es"], n)
    bad = rng.random(n) < p**1.6
    days = np.datetime64("2026-01-01") + rng.integers(0, 40, n)
    return {
        "id": np.array([f"{i:05d}" for i in range(n)]),
        "score": p,
        "label": (rng.random(n) < p).astype(np.int64),
        "bad": bad.astype(np.int64),
        "mixed": (rng.random(n) < np.where(land == "it", p**1.8, p)).astype(np.int64),
        "outcome": np.where(bad, "very bad", "good"),
        "land": land,
        "day": days,
        "patient": rng.integers(0, 300, n),
        "w": rng.integers(1, 4, n),
        "new": p**1.6,
    }


def write(columns: dict[str, Any], path: str) -> None:
    """Write columns as CSV or Parquet, by the end of the name."""
    table = pa.table(columns)
    if path.endswith(".parquet"):
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path)


@pytest.fixture(scope="session")
def columns() -> dict[str, Any]:
    """What the files hold."""
    return made()


@pytest.fixture(scope="session")
def made_files(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, Any]) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write(columns, str(folder / "rows.csv"))
    write(columns, str(folder / "rows.parquet"))
    write({name: column[:150] for name, column in columns.items()}, str(folder / "few.csv"))
    return folder


@pytest.fixture
def here(made_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with the files, as the current one, 80 columns wide."""
    shutil.copytree(made_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def run(here: Path) -> Run:
    """Run a command in this process, in the folder of the files."""

    def run_command(*words: Any) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words])

    return run_command


def command_line(*words: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    command = [sys.executable, "-m", "calibrant.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"}, **options)
