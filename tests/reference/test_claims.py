"""The table of printed claims: verdicts follow from the values, and a named subset is worked out again."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

TABLE = Path(__file__).parents[2] / "benchmarks" / "papers" / "table"
WORKED_OUT = ("formulas", "ch1", "ch4", "estimators", "data", "rain", "reused")
"""What is worked out anew, in under a minute: formulas, chapters 1 and 4, the study of estimators, small studies."""
READ = (
    "adversaries",
    "bias",
    "ch5",
    "ch6",
    "ch7",
    "ch9",
    "ch9_figures",
    "covariate_shift",
    "groups",
    "paths",
    "trees",
)
"""Outputs of benchmarks that are stored, and read anew. `benchmarks/papers/table/rerun.py` makes them again."""


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    sys.path.insert(0, str(TABLE))
    try:
        import compare
    finally:
        sys.path.remove(str(TABLE))
    return compare


def test_there_are_at_least_180_claims_and_each_is_there_once(compare: ModuleType) -> None:
    claims = compare.stored()
    assert len(claims) >= 180
    assert len({(claim.page, claim.place, claim.what) for claim in claims}) == len(claims)


def test_the_table_has_the_printed_values_and_tolerances_that_were_stated(compare: ModuleType) -> None:
    names = ("page", "place", "what", "printed", "rule", "tolerance", "basis", "key")
    stated = [tuple(row[name] for name in names) for row in compare.printed_rows()]
    assert [tuple(getattr(claim, name) for name in names) for claim in compare.stored()] == stated


def test_no_verdict_contradicts_its_tolerance_and_each_other_than_agrees_has_a_reason(compare: ModuleType) -> None:
    for claim in compare.stored():
        ours, spread = (float(text) if text else None for text in (claim.ours, claim.spread))
        assert claim.verdict == compare.verdict(claim.printed, claim.rule, claim.tolerance, ours, spread), claim
        assert (claim.why != "") == (claim.verdict != "agrees"), claim
        assert (claim.command != "") == (claim.date != "") == (claim.verdict != "no data"), claim


def test_a_tolerance_above_a_fifth_of_the_printed_value_has_a_basis(compare: ModuleType) -> None:
    wide = [row for row in compare.printed_rows() if compare.needs_basis(row)]
    assert len(wide) >= 10
    assert [row for row in wide if not row["basis"]] == []
    assert compare.needs_basis({"rule": "equals", "printed": "-0.5", "tolerance": "0.11"})
    assert not compare.needs_basis({"rule": "equals", "printed": "-0.5", "tolerance": "0.1"})
    assert compare.needs_basis({"rule": "same", "printed": "0", "tolerance": "5"})


def test_every_reason_is_that_of_a_claim(compare: ModuleType) -> None:
    assert {claim.why for claim in compare.stored()} >= set(compare.notes().values())


@pytest.mark.parametrize("source", READ)
def test_values_of_stored_outputs_are_those_of_the_table(compare: ModuleType, source: str) -> None:
    same_values(compare, source)


@pytest.mark.slow
@pytest.mark.parametrize("source", WORKED_OUT)
@pytest.mark.filterwarnings("ignore")
def test_values_that_are_worked_out_anew_are_those_of_the_table(
    compare: ModuleType, data_folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.syspath_prepend(TABLE)
    same_values(compare, source)


def same_values(compare: ModuleType, source: str) -> None:
    found = compare.values([source])
    rows = [claim for claim in compare.stored() if compare.source(claim.key) == source]
    assert rows
    for claim in rows:
        assert float(claim.ours) == pytest.approx(found[claim.key].value, rel=1e-5, abs=1e-12), claim.key


@pytest.mark.parametrize(
    ("printed", "rule", "tolerance", "ours", "spread", "word"),
    [
        ("0.63", "equals", "0.03", 0.66, 0.5, "agrees"),
        ("0.63", "equals", "0.03", 0.6601, None, "differs"),
        ("0.1", "at most", "0", 0.1, None, "agrees"),
        ("0.1", "at most", "0", 0.10026, None, "differs"),
        ("1", "at least", "0.1", 0.9, None, "agrees"),
        ("1", "at least", "0.1", 0.89, None, "differs"),
        ("+", "sign", "0", 0.0, None, "differs"),
        ("-0.5", "sign", "0.1", -0.2, None, "agrees"),
        ("-0.5", "sign", "0.1", -0.05, None, "differs"),
        ("-", "sign", "0", 0.3, None, "differs"),
        ("-", "sign", "0", -0.3, 0.16, "not distinguishable"),
        ("-", "sign", "0", 0.3, 0.16, "not distinguishable"),
        ("-", "sign", "0", -0.3, 0.14, "agrees"),
        ("-", "sign", "0", 0.3, 0.14, "differs"),
        ("+", "sign", "0.1", 1.0, 0.0, "agrees"),
        ("0", "same", "5", 1.6, 1.0, "agrees"),
        ("0", "same", "5", 1.6, 6.0, "not distinguishable"),
        ("0", "same", "5", -9.0, 2.5, "not distinguishable"),
        ("0", "same", "5", -9.0, 1.0, "differs"),
        ("0", "same", "0", 0.0, 0.0, "agrees"),
        ("0.5", "", "", None, None, "no data"),
    ],
)
def test_verdicts_by_rule(
    compare: ModuleType,
    printed: str,
    rule: str,
    tolerance: str,
    ours: float | None,
    spread: float | None,
    word: str,
) -> None:
    assert compare.verdict(printed, rule, tolerance, ours, spread) == word


def test_a_rule_that_is_not_known_is_refused(compare: ModuleType) -> None:
    with pytest.raises(ValueError, match="no rule 'about'"):
        compare.verdict("1", "about", "0", 1.0)


def test_pages_are_those_of_the_table(compare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.insert(0, str(TABLE))
    try:
        import pages
    finally:
        sys.path.remove(str(TABLE))
    kept = {path.name: path.read_text(encoding="utf-8") for path in pages.FOLDER.glob("*.md")}
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    pages.write_pages(compare.stored())
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md")} == kept
