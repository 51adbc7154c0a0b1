"""The tree of the package can be read: folders of a size to survey, and names that can be told apart."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "calibrant"
FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")})
MOST_FILES = 15
MOST_LINES = 600

DATA = {".csv", ".parquet", ".json", ".sql", ".onnx", ".png", ".html", ".txt", ".db", ".duckdb"}
"""Endings of files that examples write, none of which belongs to the root."""

ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "er", "ed", "es", "s", "e")


def stem(name: str) -> str:
    """The first word of a module's name without its ending."""
    word = name.split("_")[0]
    ending = next((each for each in ENDINGS if word.endswith(each) and len(word) - len(each) >= 3), "")
    return word.removesuffix(ending)


def test_names_in_a_folder_can_be_told_apart(subtests: pytest.Subtests) -> None:
    for folder in FOLDERS:
        with subtests.test(folder.relative_to(SOURCE.parent).as_posix()):
            names = defaultdict(list)
            for path in folder.iterdir():
                if path.name != "__init__.py" and (path.suffix == ".py" or (path / "__init__.py").exists()):
                    names[stem(path.stem)].append(path.stem)
            assert not [group for group in names.values() if len(group) > 1]


def test_a_folder_can_be_surveyed(subtests: pytest.Subtests) -> None:
    for folder in FOLDERS:
        with subtests.test(folder.relative_to(SOURCE.parent).as_posix()):
            files = [path for path in folder.iterdir() if path.suffix == ".py" and path.name != "__init__.py"]
            assert len(files) <= MOST_FILES


def test_a_module_can_be_read_at_once() -> None:
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    sizes = {name: len(text.splitlines()) for name, text in texts.items()}
    assert not {name: lines for name, lines in sizes.items() if lines > MOST_LINES}


def test_names_that_differ_by_an_ending_have_one_stem(subtests: pytest.Subtests) -> None:
    for name in ["spline splines", "venn venn_abers", "segments segmenting"]:
        with subtests.test(name=name):
            first, second = name.split()
            assert stem(first) == stem(second)


def test_the_root_holds_no_data() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    tracked = listed.stdout.splitlines() or [path.name for path in ROOT.iterdir()]
    assert not [name for name in tracked if "/" not in name and Path(name).suffix in DATA]


def test_generated_lists_are_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "module_list.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout
