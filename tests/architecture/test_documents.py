"""The page of documents: names import, files are there, and nothing is left out without a reason."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "document_pages.py"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("document_pages", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["document_pages"] = module
    spec.loader.exec_module(module)
    return module


def test_every_item_has_a_place_that_is_shown_or_a_reason(pages: ModuleType, subtests: pytest.Subtests) -> None:
    for row in pages.rows():
        with subtests.test(document=row.document, section=row.section, item=row.item):
            assert row.document in pages.DOCUMENTS
            assert row.section
            assert row.item
            if row.where:
                assert row.shown, "no test, benchmark or proof is named"
                assert not row.missing, f"not there: {row.missing}"
                assert not row.reason, "a reason is for what is left out"
            else:
                assert row.reason, "left out without a reason"


def test_no_item_is_listed_twice(pages: ModuleType) -> None:
    items = [(row.document, row.section, row.item) for row in pages.rows()]
    assert len(items) == len(set(items))


def test_names_that_lead_nowhere_are_found(pages: ModuleType) -> None:
    assert pages.imports("calibrant.PlattScaling")
    assert pages.imports("calibrant.guarantees.planning.Plan.validity")
    assert not pages.imports("calibrant.NoSuchThing")
    assert not pages.imports("no_such_package.Thing")


def test_the_page_lists_what_is_left_out(pages: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "documents.md"
    pages.write(page)
    text = page.read_text(encoding="utf-8")
    assert "## Left out on purpose" in text
    assert "| 4.2 | Reductions of multiclass to binary calibration | `multiclass.Reduction` |" in text
    assert all(document in text for document in {row.document for row in pages.rows()})
