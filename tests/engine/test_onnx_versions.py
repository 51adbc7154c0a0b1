"""ONNX models with a chosen operator set and format, and behind a network that declares them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contracts.test_class_maps import SAMPLES as CLASS_SAMPLES
from tests.contracts.test_maps import SAMPLES

from calibrant.calibration import Calibration
from calibrant.export.onnx.graph import LEAST_OPSET
from calibrant.export.onnx.model import prove_model, session_of, to_onnx
from calibrant.maps import SoftmaxMap, StepMap
from calibrant.messages import InputError

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.engine

NEWEST = 23
"""The newest operator set tested; the onnxruntime at hand may know more."""


@pytest.mark.parametrize("opset", [LEAST_OPSET, 18, 20, NEWEST])
def test_every_kind_of_map_runs_with_every_operator_set(opset: int, subtests: pytest.Subtests) -> None:
    for kind, (map_, *_) in {**SAMPLES, **CLASS_SAMPLES}.items():
        with subtests.test(kind):
            model = to_onnx(map_, opset=opset)
            onnx.checker.check_model(model, full_check=True)
            assert model.opset_import[0].version == opset
            prove_model(map_, session_of(model.SerializeToString()))


def test_a_map_joins_a_network_as_torch_writes_it_today() -> None:
    """Of IR version 10 and opset 20, which `merge_models` refused behind the IR version 8 of a map."""
    network: Any = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20]>
        network (float[n, 3] x) => (float[n, 3] logits) { logits = Gelu(x) }
    """)
    vector = Calibration(SoftmaxMap(("a", "b", "c"), [0.7, 0.8, 0.9], [0.1, 0.0, -0.1], "logit", 1e-9))
    model = vector.to_onnx(opset=network.opset_import[0].version, ir_version=network.ir_version)
    whole = onnx.compose.merge_models(network, model, io_map=[("logits", "scores")])
    onnx.checker.check_model(whole, full_check=True)
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    options = {"providers": ["CPUExecutionProvider"]}
    (logits,) = ort.InferenceSession(network.SerializeToString(), **options).run(None, {"x": x})
    (found,) = ort.InferenceSession(whole.SerializeToString(), **options).run(None, {"x": x})
    np.testing.assert_allclose(found, vector.transform(logits), rtol=1e-6)


def test_the_format_follows_the_operator_set(tmp_path: Any) -> None:
    risk = Calibration(StepMap([0.5], [0.1, 0.8]))
    assert [risk.to_onnx(opset=opset).ir_version for opset in (None, 13, 17, 20, 21)] == [8, 8, 8, 9, 10]
    risk.export_onnx(tmp_path / "risk.onnx", opset=20, ir_version=10)
    stored = onnx.load(tmp_path / "risk.onnx")
    assert (stored.ir_version, stored.opset_import[0].version) == (10, 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset": 12}, "opset must be the version of an operator set, got 12"),
        ({"opset": 1_000}, "opset must be"),
        ({"opset": "17"}, "opset must be"),
        ({"ir_version": 3}, "ir_version must be a version of the format, got 3"),
        ({"opset": 21, "ir_version": 8}, "opset 21 goes with 10 to"),
    ],
)
def test_versions_that_do_not_exist_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Calibration(StepMap([0.5], [0.1, 0.8])).to_onnx(**options)
