"""What a stored calibration of several classes gives back, and how its promises print."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import worlds

import calibrant
from calibrant import TemperatureScaling
from calibrant.arrays.multiclass.rows import check_class_rows
from calibrant.calibration import Calibration
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.multiclass.hierarchy import PathCalibrator
from calibrant.calibrators.multiclass.reduction import Reduction
from calibrant.export.errors import DocumentError
from calibrant.export.sql.expressions import MAX_CHARACTERS, score_columns, to_sql
from calibrant.export.verify import verify
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.issuing import PathBins, issue_paths
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import SoftmaxMap
from calibrant.maps.paths import PathMap
from calibrant.maps.taxonomy import Taxonomy
from calibrant.messages import InputError
from calibrant.notions import TopKConfidence, TopKLabel

TREE = Taxonomy({"animal": None, "cat": "animal", "dog": "animal", "ship": None})


def draw(n: int = 900, classes: int = 3, seed: int = 0) -> worlds.Rows:
    return worlds.classes(n, classes, seed)


def again(fitted: Any, path: Path) -> Calibration:
    fitted.save(path / "map.json")
    loaded = calibrant.load(path / "map.json")
    assert isinstance(loaded, Calibration)
    return loaded


# --------------------------------------------------------------------------------------------------------------- labels


def test_labels_keep_their_type_after_a_round_trip(tmp_path: Path, subtests) -> None:
    for labels, form, kind in [
        (np.array([0, 1, 2]), "whole", "i"),
        (np.array([-5, 7, 12], dtype=np.int16), "whole", "i"),
        (np.array([0.0, 1.0, 2.0]), "whole", "i"),
        (np.array([3, 10, 20], dtype=object), "whole", "i"),
        (np.array(["0", "1", "2"]), "text", "U"),
        (np.array(["cat", "dog", "owl"]), "text", "U"),
    ]:
        with subtests.test(labels=labels, form=form, kind=kind):
            p, y = draw()
            fitted = TemperatureScaling().fit(p, labels[y])
            loaded = again(fitted, tmp_path)
            assert loaded.provenance is not None
            assert loaded.provenance.labels == form
            assert loaded.classes_.dtype.kind == loaded.predict(p).dtype.kind == kind
            assert loaded.classes_.tolist() == fitted.classes_.tolist() == labels.tolist()
            assert loaded.predict(p).tolist() == fitted.predict(p).tolist()
            assert loaded.classes == tuple(str(int(each)) if form == "whole" else each for each in labels)


def test_truth_values_come_back_as_truth_values(tmp_path: Path) -> None:
    p, y = draw(classes=2)
    fitted = TopLabelHistogramBinning(100).fit(p, y == 1)
    loaded = again(fitted, tmp_path)
    assert loaded.classes_.tolist() == [False, True]
    assert loaded.predict(p).dtype == np.bool_
    assert (loaded.predict(p) == fitted.predict(p)).all()


def test_a_frame_whose_columns_are_digits_gives_the_numbers_of_its_labels(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    p, y = draw()
    frame = pd.DataFrame(p, columns=[0, 1, 2])
    fitted = TemperatureScaling().fit(frame, y)
    loaded = again(fitted, tmp_path)
    assert loaded.predict(frame).tolist() == fitted.predict(frame).tolist()
    assert loaded.predict(frame).dtype.kind == fitted.predict(frame).dtype.kind == "i"


def test_a_document_without_a_form_of_labels_means_text() -> None:
    p, y = draw()
    body = json.loads(TemperatureScaling().fit(p, y).calibration_.to_json())
    assert body["provenance"].pop("labels") == "whole"
    old = Calibration.from_json(json.dumps(body))
    assert old.predict(p[:4]).tolist() == [str(each) for each in p[:4].argmax(axis=1)]
    assert "labels" not in json.loads(old.to_json())["provenance"]


def test_classes_that_labels_of_the_form_cannot_have_are_refused(subtests) -> None:
    for form, classes in [
        ("whole", ["0", "1", "x"]),
        ("whole", ["0", "1", "02"]),
        ("whole", ["0", "1", "²"]),
        ("whole", ["0", "1", "1_0"]),
        ("whole", ["0", "1", "-0"]),
        ("whole", ["0", "1", "-"]),
        ("truth", ["0", "1", "2"]),
        ("number", ["0", "1", "2"]),
    ]:
        with subtests.test(form=form, classes=classes):
            p, y = draw()
            body = json.loads(TemperatureScaling().fit(p, y).calibration_.to_json())
            body["map"]["classes"], body["provenance"]["labels"] = classes, form
            with pytest.raises(DocumentError, match="label"):
                Calibration.from_json(json.dumps(body))


def test_names_that_do_not_lead_back_to_the_labels_are_kept_as_text() -> None:
    p, y = draw()
    rows = check_class_rows(p, y, classes=[0, 1, 2])
    assert MulticlassProvenance.of("x", rows).labels == "whole"
    assert MulticlassProvenance.of("x", replace(rows, classes=("0", "1", "02"))).labels == "text"
    assert MulticlassProvenance.of("x", replace(rows, values=np.array([0, 1, "b"], dtype=object))).labels == "text"


# ----------------------------------------------------------------------------------------------- what is applied


def test_what_was_loaded_has_the_methods_of_the_calibrator(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    p, y = draw()
    fitted = TemperatureScaling().fit(p, np.array(["a", "b", "c"])[y])
    loaded = again(fitted, tmp_path)
    told = loaded.predict_proba(pd.DataFrame(p, columns=["a", "b", "c"]))
    assert isinstance(told, np.ndarray)
    assert told.tobytes() == fitted.predict_proba(p).tobytes()
    with pytest.raises(InputError, match="forecast needs a map of a taxonomy, but this is a SoftmaxMap: use transform"):
        loaded.forecast(p)
    assert Calibration(fitted.map_).predict(p[:3]).tolist() == fitted.predict(p[:3]).tolist()


def paths(n: int = 3_000) -> tuple[Any, Any, Any]:
    p, y = draw(n)
    labels = np.array(TREE.leaves)[y]
    return PathCalibrator(TREE, n_bins=4).fit(p, labels, classes=TREE.leaves), p, labels


def test_a_stored_map_of_paths_forecasts(tmp_path: Path) -> None:
    fitted, p, _ = paths()
    loaded = again(fitted, tmp_path)
    assert str(loaded.forecast(p[:5])) == str(fitted.forecast(p[:5]))
    assert loaded.predict(p[:5]).tolist() == fitted.predict(p[:5]).tolist()


# ----------------------------------------------------------------------------------------------- what is printed


def test_certificates_are_one_short_line_as_values() -> None:
    p, y = draw(5_000, 50)
    promise = ClasswiseHistogramBinning(500).fit(p, y).certificate()
    assert isinstance(promise, Certificate)
    line = r"Certificate\(class-wise, 50 classes, epsilon 0\.\d{3}, confidence 90 %, simultaneous, 5,000 rows\)"
    assert re.fullmatch(line, repr(promise))
    told = paths()[0].certificate()
    assert isinstance(told, Certificate)
    line = r"Certificate\(path, 3 classes, epsilon .*, confidence 90 %, simultaneous, .* rows\)"
    assert re.fullmatch(line, repr(told))
    assert len(repr(told)) < 120


def test_half_of_the_classes_are_told_only_where_they_do_better() -> None:
    """Rows of the same three scores: every class has the same bins and the same counts."""
    p = np.tile(np.eye(3) * 0.4 + 0.2, (300, 1))
    y = np.tile(np.arange(3), 300)
    y[:90] = (y[:90] + 1) % 3
    promise = TopLabelHistogramBinning(100).fit(p, y).certificate()
    assert isinstance(promise, Certificate)
    assert len({f"{each:.3f}" for each in promise.about.epsilons(promise).values()}) == 1
    assert re.search(r"Worst: class '\d'\.", str(promise))
    p, y = draw(900)
    uneven = TopLabelHistogramBinning(50).fit(p, y).certificate()
    assert len({f"{each:.3f}" for each in uneven.about.epsilons(uneven).values()}) > 1  # type: ignore[union-attr]
    assert "2 of 3 are within" in str(uneven)


def test_a_broken_promise_names_classes_and_counts_promised_bins(subtests) -> None:
    for notion, units in [
        ("class-wise", "3 of 3 classes; the worst, class '"),
        ("confidence", "1 of 1 rank; the worst, rank 1 in bin"),
        (TopKConfidence(2), "2 ranks; the worst, rank "),
        (TopKLabel(2), "6 classes and ranks; the worst, class '"),
    ]:
        with subtests.test(notion=notion, units=units):
            p, y = draw(3_000)
            promise = Reduction(notion, HistogramBinning(4)).fit(p, y).certificate()
            assert isinstance(promise, Certificate)
            assert any(part.uncovered.any() for part in promise.about.parts)  # cells that are no bins to a reader
            fresh, _ = draw(6_000, seed=1)
            found = promise.check(fresh, (fresh.argmin(axis=1)), by_bin=True)
            text = str(found)
            assert text.startswith("6,000 rows: contradicted in ")
            assert units in text
            place, whole = map(int, re.search(r"in bin (\d+) of (\d+), guaranteed rate", text).groups())  # type: ignore[union-attr]
            assert 1 <= place <= whole == 4
            assert text.endswith("\n  This is valid only if these rows were not used in the fit.")


def test_the_bin_that_is_named_is_the_one_that_broke() -> None:
    """Events moved in the third promised bin of class 1 alone."""
    p, y = draw(3_000)
    fitted = ClasswiseHistogramBinning(n_bins=4).fit(p, y)
    promise = fitted.certificate()
    assert isinstance(promise, Certificate)
    fresh, labels = draw(6_000, seed=2)
    bins = np.flatnonzero(promise.covered[promise.about.slices[1]])
    inside = np.searchsorted(promise.about.parts[1].knots, fresh[:, 1], side="right") == bins[2]
    labels = np.where(inside, 1, labels)
    assert "class '1' in bin 3 of 4, guaranteed rate" in str(promise.check(fresh, labels))


def test_checks_of_paths_count_promised_bins_too() -> None:
    fitted, _, _ = paths()
    promise = fitted.certificate()
    assert isinstance(promise, Certificate)
    assert promise.about.uncovered.any()
    fresh, y = draw(6_000, seed=1)
    right = promise.check(fresh, np.array(TREE.leaves)[y])
    assert str(right).endswith(
        "no contradiction with the certificate.\n  This is valid only if these rows were not used in the fit."
    )
    names = [promise.about.unit_name(promise, place) for place in np.flatnonzero(promise.covered)]
    assert {int(each) for name in names for each in re.findall(r"in bin (\d+)", name)} == {1, 2, 3, 4}
    assert (right.rows > 0).tolist() == promise.covered.tolist()
    wrong = promise.check(fresh, np.array(TREE.leaves)[(y + 2) % 3])
    assert re.search(r"; the worst, '\w+' in bin [1-4] of '\w+', guaranteed rate", str(wrong))
    assert str(promise.check(fresh[:1], TREE.leaves[:1])).startswith("1 row: too few")


def test_a_promise_of_paths_that_says_nothing_is_refused() -> None:
    """One row that is right, with the output 1: the interval reaches down to alpha / 2, so 1 - 0.0005 > 0.999."""
    tree = Taxonomy({"a": None, "b": None})
    told = PathMap(tree.leaves, tree.nodes, tree.parents, tree.root, [0, 1], [0, 0], [], [], [1.0, 1.0], "probability")
    one = np.array([1, 1])
    bins = PathBins(told, "probability", one, one, np.zeros(2, dtype=bool), one, "a book, a place")
    refusal = issue_paths(bins, 0.001, "clopper-pearson", "marginal")
    assert isinstance(refusal, NoCertificate)
    assert "use more rows or fewer bins" in str(refusal)
    assert issue_paths(bins, 0.1, "clopper-pearson", "marginal")


# ----------------------------------------------------------------------------------------------------------- exports


def test_what_is_no_export_is_not_verified() -> None:
    fitted = TemperatureScaling().fit(*draw())
    for each in (fitted, fitted.calibration_):
        with pytest.raises(InputError, match=r"export has the type \w+, which is not an export: pass a file"):
            verify(each, "v.sql")  # type: ignore[arg-type]


def test_a_wrong_class_among_the_columns_is_named() -> None:
    map_ = SoftmaxMap(("a", "b", "c"), [1.5], [], "probability", 1e-9)
    with pytest.raises(
        InputError, match="contains 'x', which is not a class of the map: the classes are 'a', 'b', 'c'"
    ):
        score_columns(map_, {"x": "p"})
    with pytest.raises(InputError, match="no column for the class 'c': pass one for each class"):
        score_columns(map_, {"a": "p", "b": "q"})


def test_long_text_is_refused_in_favour_of_a_model() -> None:
    names = tuple(f"class {j}" for j in range(100))
    for many in (names, names[:60]):
        with pytest.raises(
            InputError, match=rf"more than {MAX_CHARACTERS:,} characters for this map: use to_onnx instead$"
        ):
            to_sql(SoftmaxMap(many, [1.5], [], "logit", 1e-9))
    assert len(to_sql(SoftmaxMap(names[:30], [1.5], [], "logit", 1e-9))) == 30
