"""A release can be made: the archives are reproducible and hold what they should, and their checks can fail."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools import build_check

HEAD = f"calibrant-{build_check.version()}"
FILES = ["src/calibrant/__init__.py", "src/calibrant/py.typed", "README.md", "tests/conftest.py"]


def wheel(folder: Path, names: list[str]) -> Path:
    path = folder / f"{HEAD}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def source(folder: Path, names: list[str]) -> Path:
    path = folder / f"{HEAD}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"{HEAD}/{name}"), io.BytesIO())
    return path


GOOD = ["calibrant/__init__.py", "calibrant/py.typed", *(f"{HEAD}.dist-info/{name}" for name in build_check.METADATA)]


@pytest.mark.slow
def test_two_builds_have_the_same_bits_and_hold_the_package_alone(capsys):
    assert build_check.main([]) == 0, capsys.readouterr().out


def test_a_wheel_with_more_or_less_than_the_package_is_refused(tmp_path, monkeypatch):
    assert not list(build_check.wheel_problems(wheel(tmp_path, GOOD), FILES))
    (more,) = build_check.wheel_problems(wheel(tmp_path, [*GOOD, "tests/conftest.py"]), FILES)
    (less,) = build_check.wheel_problems(wheel(tmp_path, GOOD[1:]), FILES)
    assert "tests/conftest.py" in more
    assert "calibrant/__init__.py" in less
    monkeypatch.setattr(build_check, "MOST_BYTES", 10)
    assert list(build_check.wheel_problems(wheel(tmp_path, GOOD), FILES))


def test_a_source_archive_with_other_files_is_refused(tmp_path):
    needed = sorted(build_check.NEEDED)
    assert not list(build_check.source_problems(source(tmp_path, [*needed, "PKG-INFO"]), needed))
    (more,) = build_check.source_problems(source(tmp_path, [*needed, "notes.txt"]), needed)
    (less,) = build_check.source_problems(source(tmp_path, needed[1:]), needed)
    assert "notes.txt" in more
    assert needed[0] in less


def test_builds_that_differ_are_refused(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a")
    second.write_text("b")
    assert not list(build_check.differences({"a": first}, {"a": first}))
    assert list(build_check.differences({"a": first}, {"a": second}))
    assert list(build_check.differences({"a": first}, {}))
