"""Docstrings, messages and documentation use the terms of the field, in American spelling."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "plain_words.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False)


def test_no_phrase_of_the_list_is_used() -> None:
    done = run()
    assert done.returncode == 0, done.stdout


def test_phrases_are_found_across_lines_strings_and_comments(tmp_path: Path, subtests: pytest.Subtests) -> None:
    sources = {
        "docstring.py": '"""A row of the rarer\nclass."""\n',
        "pieces.py": 'text = (\n    f"it is the {1} rarer "\n    f"class"\n)\n',
        "comment.py": "x = 1  # of the rarer class\n",
        "page.md": "One row\nof the rarer class\n",
        "spelling.md": "Colour\n",
        "citation.md": "See 002, section 4.\n",
    }
    for name, source in sources.items():
        with subtests.test(name):
            (tmp_path / name).write_text(source, encoding="utf-8")
            assert run(str(tmp_path / name)).returncode == 1


def test_data_and_ordinary_words_are_not_found(tmp_path: Path, subtests: pytest.Subtests) -> None:
    sources = {
        "key.py": 'KEY = "normalised"\n',
        "name.py": "told = 1\n",
        "page.md": "There is no interval. It is no longer needed. 1,000 rows and 0.002.\n",
    }
    for name, source in sources.items():
        with subtests.test(name):
            (tmp_path / name).write_text(source, encoding="utf-8")
            done = run(str(tmp_path / name))
            assert done.returncode == 0, done.stdout
