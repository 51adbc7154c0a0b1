"""Maps of several classes as ONNX models: many classes, files, labels; every kind is run in the contracts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_class_maps import ABC, SAMPLES, mixed, some_rows, steps

from calibrant.calibration import Calibration
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.export.errors import DocumentError, ExportMismatchError
from calibrant.export.onnx.model import prove_model, session_of, to_onnx
from calibrant.export.verify import verify
from calibrant.maps import IdentityMap, PerClassMap, SoftmaxMap, StepMap, TopMap
from calibrant.messages import InputError

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.engine


def run(model: Any, scores: Any, groups: Any = None) -> Any:
    return session_of(model.SerializeToString()).run(None, {"scores": scores, **(groups or {})})


def test_top_classes_come_with_their_labels() -> None:
    map_ = TopMap(ABC, 2, (IdentityMap(), StepMap([0.3], [0.1, 0.2])), "probability")
    rows = np.array([[0.4, 0.4, 0.2], [0.0, 0.5, 0.5], [0.1, 0.1, 0.8], [np.nan, 0.5, 0.5]])
    calibrated, label = run(to_onnx(map_, "float64"), rows)
    np.testing.assert_array_equal(calibrated, [[0.4, 0.2], [0.5, 0.2], [0.8, 0.1], [np.nan] * 2])
    assert label.dtype == np.int64
    np.testing.assert_array_equal(label, [[0, 1], [1, 2], [2, 0], [-1, -1]])
    np.testing.assert_array_equal(label[:3], map_.labels(rows[:3]))


def test_a_missing_score_empties_its_row_and_no_other() -> None:
    for map_ in (SAMPLES["softmax"][3], SAMPLES["per-class"][5], SAMPLES["simplex-bins"][0]):
        rows = some_rows(map_, 6).copy()
        rows[::2, 1] = np.nan
        (found,) = run(to_onnx(map_, "float64"), rows)
        assert np.isnan(found[::2]).all()
        assert not np.isnan(found[1::2]).any()
        np.testing.assert_allclose(found, map_.apply(rows), rtol=1e-12)


def test_any_number_of_rows(subtests: pytest.Subtests) -> None:
    for rows in [0, 1, 2, 1000]:
        with subtests.test(rows=rows):
            for kind in SAMPLES:
                map_ = SAMPLES[kind][0]
                given = np.resize(some_rows(map_), (rows, len(map_.classes))).astype(np.float32)
                groups = {
                    name: np.ones(rows, np.float32) if name in map_.numbers else np.full(rows, "x", dtype=object)
                    for name in map_.columns
                }
                found = run(to_onnx(map_), given, groups)[0]
                assert found.shape == (rows, len(map_.outputs))
                assert found.dtype == np.float32


def test_a_thousand_classes_share_their_nodes() -> None:
    names = tuple(f"c{j}" for j in range(1000))
    for map_ in (
        PerClassMap(names, tuple(steps(20) for _ in names), "probability", False),
        TopMap(names, 5, (mixed() * 625), "logit"),
        SoftmaxMap(names, np.linspace(0.5, 1.5, 1000), np.linspace(-1, 1, 1000), "logit", 1e-300),
    ):
        start = time.process_time()
        model = to_onnx(map_)
        assert len(model.graph.node) < 200
        rows = some_rows(map_, 100).astype(np.float32)
        found = run(model, rows)[0]
        assert time.process_time() - start < 20
        np.testing.assert_allclose(found, map_.apply(rows), rtol=3e-7)


def test_maps_of_one_structure_share_their_nodes_and_each_keeps_its_own_numbers() -> None:
    few, many = (PerClassMap(tuple(map(str, range(8 * k))), mixed() * k, "probability", True) for k in (2, 20))
    assert len(to_onnx(few).graph.node) == len(to_onnx(many).graph.node)


def test_a_file_carries_its_proof_and_is_verified(tmp_path: Path) -> None:
    for kind in SAMPLES:
        path = tmp_path / f"{kind}.onnx"
        calibration = Calibration(SAMPLES[kind][0])
        made = calibration.export_onnx(path, "float64")
        assert made.unit == "rows"
        assert made.engine.startswith("onnxruntime ")
        assert verify(path) == made
        assert verify(calibration.to_onnx("float64")) == made
        assert verify(path, ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])) == made
        stored = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
        assert stored["calibrant.document"] == calibration.to_json()


def test_a_model_that_is_off_does_not_pass(tmp_path: Path) -> None:
    right, other = SAMPLES["softmax"][0], SoftmaxMap(("a", "b"), [2.0 + 1e-9], [], "probability", 1e-9)
    with pytest.raises(ExportMismatchError, match=r"gives .* for '[ab]' of the scores .* rows differ"):
        prove_model(right, session_of(to_onnx(other, "float64").SerializeToString()))
    top = TopMap(("a", "b"), 1, (StepMap([], [0.5]),), "probability")
    turned = to_onnx(top)
    for node in turned.graph.node:
        for attribute in node.attribute:
            if node.op_type == "TopK" and attribute.name == "largest":
                attribute.i = 0
    with pytest.raises(ExportMismatchError, match="the class of 'top 1'"):
        prove_model(top, session_of(turned.SerializeToString()))
    with pytest.raises(InputError, match="another model"):
        verify(Calibration(right).to_onnx(), session_of(Calibration(other).to_onnx().SerializeToString()))
    with pytest.raises(DocumentError, match="contains no calibration"):
        verify(to_onnx(right))
    mixed_up = to_onnx(StepMap([0.5], [0.1, 0.8]))
    entry = mixed_up.metadata_props.add()
    entry.key, entry.value = "calibrant.document", Calibration(right).to_json()
    with pytest.raises(DocumentError, match="lacks the input 'scores' of its document"):
        verify(mixed_up)


def test_what_is_no_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="float32, float64"):
        to_onnx(SAMPLES["softmax"][0], "float16")  # type: ignore[arg-type]


def test_a_fitted_calibrator_exports_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), 600)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=row) for row in p]]

    class Cooler(MulticlassCalibrator):
        def _fit_classes(self, rows: Any) -> Any:
            return Fit(SoftmaxMap(rows.classes, [1.3], [], "probability", 1e-9))

    fitted = Cooler().fit(p, y)
    assert list(fitted.to_sql()) == ["a", "b", "c"]
    assert "not run" not in fitted.export_sql(tmp_path / "x.sql").engine
    fitted.export_onnx(tmp_path / "x.onnx")
    np.testing.assert_allclose(run(fitted.to_onnx("float64"), p)[0], fitted.transform(p), rtol=1e-12)
