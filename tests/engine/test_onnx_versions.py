"""ONNX models with a chosen operator set and format, and behind a network that declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_class_maps import SAMPLES as CLASS_SAMPLES
from tests.contracts.test_maps import SAMPLES

from calibrant import PlattScaling, verify
from calibrant.calibration import Calibration
from calibrant.export.errors import DocumentError
from calibrant.export.languages.onnx_graph import LEAST_OPSET
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


def run(model: Any, name: str, values: Any) -> Any:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run([name], values)[0]


def test_a_map_joins_a_network_by_its_own_versions() -> None:
    """Of IR version 10 and opset 20, as torch writes it; `merge_models` refuses it behind IR version 8."""
    network: Any = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20]>
        network (float[n, 3] x) => (float[n, 3] logits) { logits = Gelu(x) }
    """)
    vector = Calibration(SoftmaxMap(("a", "b", "c"), [0.7, 0.8, 0.9], [0.1, 0.0, -0.1], "logit", 1e-9))
    whole = vector.to_onnx(network=network)
    onnx.checker.check_model(whole, full_check=True)
    assert (whole.ir_version, whole.opset_import[0].version) == (10, 20)
    x = {"x": np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)}
    np.testing.assert_allclose(run(whole, "calibrated", x), vector.transform(run(network, "logits", x)), rtol=1e-6)


@pytest.mark.parametrize(
    ("versions", "kind", "joined"),
    [
        ('5, opset_import: ["" : 9]', "float[n]", (8, 17)),
        ('7, opset_import: ["" : 13]', "double[n, 1]", (8, 13)),
        ('10, opset_import: ["" : 20]', "float[4, 2]", (10, 20)),
    ],
)
def test_a_map_of_one_score_takes_precision_and_shape_of_the_network(
    versions: str, kind: str, joined: tuple[int, int]
) -> None:
    """The second column of two; an operator set that is too old is converted."""
    text = f"<ir_version: {versions}> network ({kind} x) => ({kind} p) {{ p = Sigmoid(x) }}"
    whole = Calibration(StepMap([0.5], [0.1, 0.8])).to_onnx(network=onnx.parser.parse_model(text))
    onnx.checker.check_model(whole, full_check=True)
    assert (whole.ir_version, whole.opset_import[0].version) == joined
    x = np.array([-1.0, 1.0, -2.0, 2.0], dtype=np.float64 if "double" in kind else np.float32)
    shape = {"float[n]": x, "double[n, 1]": x[:, None]}.get(kind, np.stack([-x, x], axis=1))
    found = run(whole, "calibrated", {"x": shape})
    assert found.dtype == x.dtype
    assert found.shape == ((4, 1) if "1]" in kind else (4,))
    np.testing.assert_allclose(found.reshape(-1), [0.1, 0.8, 0.1, 0.8], rtol=1e-6)


def test_a_map_joins_a_booster(tmp_path: Path) -> None:
    """CatBoost writes IR version 3, no usual operator set, and a ZipMap of both classes."""
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(int)
    silent = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    booster = catboost.CatBoostClassifier(iterations=5, **silent).fit(x, y)
    booster.save_model(str(tmp_path / "booster.onnx"), format="onnx")
    p = booster.predict_proba(x)[:, 1]
    cal = PlattScaling().fit(p, y)
    cal.export_onnx(tmp_path / "whole.onnx", network=tmp_path / "booster.onnx")
    whole = onnx.load(tmp_path / "whole.onnx")
    assert [each.name for each in whole.graph.output] == ["label", "probabilities", "calibrated"]
    np.testing.assert_allclose(run(whole, "calibrated", {"features": x}), cal.transform(p), atol=1e-6)
    with pytest.raises(DocumentError, match="has a network before the map"):
        verify(tmp_path / "whole.onnx")


NETWORK = '<ir_version: 8, opset_import: ["" : 17]> network (float[n, 3] x) => (float[n, 3] p, float[n, 3] q)'


@pytest.mark.parametrize(
    ("options", "argument", "problem"),
    [
        ({}, "output", "is needed, since the network has several outputs of numbers: pass 'p' or 'q'"),
        ({"output": "r"}, "output", "is 'r', which is not an output of numbers of the network"),
        ({"output": "p"}, "output", "'p' has 3 columns, and the map is of one score"),
        ({"output": "p", "opset": 17}, "opset", "cannot be combined with a network"),
        ({"output": "p", "network": None}, "output", "names an output of a network"),
        ({"network": "text"}, "network", "text is not an ONNX model"),
        ({"network": 3}, "network", "has the type int"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    options: dict[str, Any], argument: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("no model")
    network = onnx.parser.parse_model(NETWORK + " { p = Sigmoid(x) q = Relu(x) }")
    with pytest.raises(InputError, match=problem) as caught:
        Calibration(StepMap([0.5], [0.1, 0.8])).to_onnx(**{"network": network, **options})
    assert caught.value.argument == argument


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
