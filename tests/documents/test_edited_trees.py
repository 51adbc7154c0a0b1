"""The certificate of a tree that was edited in its document is refused: table, tree and halves must agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.calibration import Calibration
from calibrant.calibrators.trees import CalibrationTree
from calibrant.export.errors import DocumentError
from calibrant.guarantees.bounds import BOUNDS

Document = dict[str, Any]
COLUMNS = ("outputs", "lower", "upper", "rows", "events")
HONEST = json.loads((Path(__file__).parent / "golden/v1/fitted.tree-honest.json").read_text())


def refused(document: Document) -> bool:
    try:
        Calibration.from_json(json.dumps(document))
    except DocumentError:
        return True
    return False


def trees(document: Document) -> tuple[Document, Document]:
    """The tree that is applied, and that of the certificate."""
    return document["map"], document["certificate"]["about"]["map"]


def with_epsilon(certificate: Document) -> None:
    """Epsilon computed again, so that only what was edited can be the reason for a refusal."""
    outputs, lower, upper, rows, _ = (np.array(certificate[name]) for name in COLUMNS)
    certificate["epsilon"] = float(np.maximum(outputs - lower, upper - outputs)[rows > 0].max())


def with_intervals(certificate: Document) -> None:
    """Intervals and epsilon computed again from the counts."""
    rows, events = np.array(certificate["rows"]), np.array(certificate["events"])
    filled = rows > 0
    lower, upper = BOUNDS["clopper-pearson"](events, np.maximum(rows, 1), certificate["alpha"] / filled.sum())
    certificate["lower"] = np.where(filled, lower, 0.0).tolist()
    certificate["upper"] = np.where(filled, upper, 1.0).tolist()
    with_epsilon(certificate)


# ----------------------------------------------------------------------------------------------------------------------
# Forgeries, each of which is consistent as far as its forger thought of it
# ----------------------------------------------------------------------------------------------------------------------


def another_output(document: Document) -> None:
    """One probability, in both trees and in the table."""
    for tree in trees(document):
        tree["maps"][1]["values"] = [0.15]
    document["certificate"]["outputs"][1] = 0.15
    with_epsilon(document["certificate"])


def another_output_in_the_tree(document: Document) -> None:
    for tree in trees(document):
        tree["maps"][1]["values"] = [0.15]


def another_output_in_the_map(document: Document) -> None:
    document["map"]["maps"][1]["values"] = [0.15]


def narrower_intervals(document: Document) -> None:
    certificate = document["certificate"]
    outputs = np.array(certificate["outputs"])
    for end in ("lower", "upper"):
        certificate[end] = (outputs + 0.9 * (np.array(certificate[end]) - outputs)).tolist()
    with_epsilon(certificate)


def counts_of_two_leaves_exchanged(document: Document) -> None:
    """Intervals, rows and events of leaves with nearly the same rate, in each other's place."""
    certificate = document["certificate"]
    for name in COLUMNS[1:]:
        column = certificate[name]
        column[4], column[5] = column[5], column[4]
    with_epsilon(certificate)


def leaves_in_another_order(document: Document) -> None:
    certificate = document["certificate"]
    for name in COLUMNS:
        certificate[name].reverse()


def tree_in_another_order(document: Document) -> None:
    """The leaves of the certificate, but not those that are applied."""
    document["certificate"]["about"]["map"]["maps"].reverse()
    leaves_in_another_order(document)


def ten_times_the_rows(document: Document) -> None:
    """Rows, events, intervals and provenance, but not the rows that chose the splits."""
    certificate = document["certificate"]
    for name in ("rows", "events"):
        certificate[name] = [10 * count for count in certificate[name]]
    certificate["n"] *= 10
    document["provenance"] |= {"n": certificate["n"] + certificate["about"]["chose"], "events": 2_400}
    with_intervals(certificate)


def rows_that_chose_counted_too(document: Document) -> None:
    """All rows fill the leaves, and all but one of them are said not to have chosen the splits."""
    certificate = document["certificate"]
    for name in ("rows", "events"):
        certificate[name] = [2 * count for count in certificate[name]]
    certificate["rows"][2] -= 1
    certificate["events"][2] -= 1
    certificate["n"], certificate["about"]["chose"] = 999, 1
    for tree in trees(document):
        tree["maps"][2]["values"] = [221 / 279]
        tree["maps"][0]["values"] = [1 / 190]
    certificate["outputs"][2], certificate["outputs"][0] = 221 / 279, 1 / 190
    document["provenance"]["events"] = 422
    with_intervals(certificate)


def events_moved(document: Document) -> None:
    """One event from a leaf to another, with the intervals of the new counts."""
    certificate = document["certificate"]
    certificate["events"][3] -= 1
    certificate["events"][4] += 1
    with_intervals(certificate)


def no_row_chose(document: Document) -> None:
    document["certificate"]["about"]["chose"] = 0
    document["provenance"]["n"] = 500


def other_rows_chose(document: Document) -> None:
    document["certificate"]["about"]["chose"] = 499


def threshold_of_the_map(document: Document) -> None:
    document["map"]["thresholds"][0] = 0.6


def threshold_by_a_bit(document: Document) -> None:
    document["map"]["thresholds"][0] = float(np.nextafter(0.532, 1.0))


def threshold_that_empties_a_leaf(document: Document) -> None:
    """In both trees: no score is above 0.532 and up to 0.5, but rows were counted there."""
    for tree in trees(document):
        tree["thresholds"][2] = 0.5


def threshold_beyond_a_probability(document: Document) -> None:
    for tree in trees(document):
        tree["thresholds"][2] = 1.0


def level_of_the_map(document: Document) -> None:
    document["map"]["levels"][7] = "student"


def feature_of_the_map(document: Document) -> None:
    document["map"]["names"] = ["age"]


def feature_as_numbers(document: Document) -> None:
    document["map"] |= {"text": [False], "levels": [""] * 11}


def missing_values_elsewhere(document: Document) -> None:
    document["map"]["missing_left"][7] = False


def children_exchanged(document: Document) -> None:
    tree = document["map"]
    tree["left"][1], tree["right"][1] = tree["right"][1], tree["left"][1]


def curve_in_a_leaf(document: Document) -> None:
    for tree in trees(document):
        tree["maps"][0] = {"is": "identity"}


def smaller_alpha(document: Document) -> None:
    document["certificate"]["alpha"] = 0.01


def another_seed_or_draw(document: Document) -> None:
    """The halves may have been drawn until the result pleased."""
    document["certificate"]["assumptions"].remove("one-draw")


def tuned_on_labels(document: Document) -> None:
    document["certificate"]["assumptions"].remove("fit-not-tuned-on-labels")


def always_valid(document: Document) -> None:
    document["certificate"]["interval"] = "betting"


def weighted_rows(document: Document) -> None:
    document["provenance"]["weight_type"] = "importance"


def dependent_rows(document: Document) -> None:
    document["provenance"]["sampling"] = "grouped"


def rows_of_an_empty_leaf_promised(document: Document) -> None:
    """A leaf without rows, with an interval."""
    certificate = document["certificate"]
    certificate["n"] -= certificate["rows"][5]
    certificate["rows"][5] = certificate["events"][5] = 0
    certificate["about"]["chose"] = certificate["n"]
    document["provenance"]["n"] = 2 * certificate["n"]
    with_epsilon(certificate)


EDITS: list[Callable[[Document], None]] = [
    another_output,
    another_output_in_the_tree,
    another_output_in_the_map,
    narrower_intervals,
    counts_of_two_leaves_exchanged,
    leaves_in_another_order,
    tree_in_another_order,
    ten_times_the_rows,
    rows_that_chose_counted_too,
    events_moved,
    no_row_chose,
    other_rows_chose,
    threshold_of_the_map,
    threshold_by_a_bit,
    threshold_that_empties_a_leaf,
    threshold_beyond_a_probability,
    level_of_the_map,
    feature_of_the_map,
    feature_as_numbers,
    missing_values_elsewhere,
    children_exchanged,
    curve_in_a_leaf,
    smaller_alpha,
    another_seed_or_draw,
    tuned_on_labels,
    always_valid,
    weighted_rows,
    dependent_rows,
    rows_of_an_empty_leaf_promised,
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edited_certificate_of_a_tree_is_refused(edit: Callable[[Document], None]) -> None:
    document = copy.deepcopy(HONEST)
    edit(document)
    assert document != HONEST
    assert refused(document)


def test_what_edits_leave_alone_is_read() -> None:
    """The helpers above change nothing that would be refused by itself."""
    document = copy.deepcopy(HONEST)
    with_intervals(document["certificate"])
    assert not refused(document)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("n", [2, 3, 41, 200])
@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5, 1.0])
def test_what_a_fit_issues_is_read_again(n: int, rate: float) -> None:
    """Also leaves without rows, of one class, and odd numbers of rows."""
    rng = np.random.default_rng(n)
    scores, age = rng.random(n).round(2), np.where(rng.random(n) < 0.1, np.nan, rng.integers(20, 80, n))
    tree = CalibrationTree(2, 12, pruning_alpha=0.0, honest=True)
    tree.fit(scores, rng.random(n) < rate, {"age": age}, positive=True, score_type="probability")
    text = Calibration(tree.map_, tree.provenance_, tree.certificate(alpha=0.3)).to_json()
    assert Calibration.from_json(text).to_json() == text
