"""Every door answers every kind of data: it works, or it refuses in a sentence; no other library's error escapes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "door_table.py"
RENEW = "if this is meant, run `python tools/door_table.py --full --store`, and again with torch"


@pytest.fixture(scope="module")
def doors() -> ModuleType:
    spec = importlib.util.spec_from_file_location("door_table", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["door_table"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_no_error_of_another_library_escapes(doors: ModuleType, full_size: bool) -> None:
    cells = doors.run(quick=not full_size, full=full_size)
    assert not cells.foreign, "\n".join(cells.foreign)
    assert "| metrics.ece | yes | yes |" in doors.page(cells)
    assert cells.works > cells.refused
    for text in cells.reasons:
        assert ": " in text, f"says no alternative: {text}"
    stored = doors.Stored.read().cells.given
    for key, told in cells.given.items():
        answers = told == doors.YES, told == doors.ABSENT
        assert answers == (stored[key] == doors.YES, stored[key] == doors.ABSENT), f"{key}: {told}; {RENEW}"


def test_refusals_name_an_alternative(doors: ModuleType) -> None:
    array, matrix = next(iter(doors.libraries())), doors.samples()["matrix"]
    found = {door.name: doors.trial(door, array, matrix) for door in doors.doors(quick=True)}
    for name, outcome in found.items():
        if outcome.refusal is not None:
            assert ": " in outcome.refusal, name


def test_an_error_of_another_library_is_recognized(doors: ModuleType) -> None:
    with pytest.raises(doors.Foreign, match="ZeroDivisionError"):
        doors.attempt(lambda: 1 / 0)


def test_the_page_shows_stored_calls_of_libraries_that_are_not_there(doors: ModuleType) -> None:
    array = next(iter(doors.libraries()))
    cells = doors.Cells()
    cells.make(doors.doors(quick=True)[0], array, doors.samples()["binary"])
    stored = doors.Stored.read()
    page = doors.page(cells, stored)
    assert "| check | yes | yes |" in page
    for package in ("pyspark", "torch"):
        assert f"{package} {stored.versions[package]}" in page
    assert "Spark | torch |" in page
    assert not stored.cells.foreign
