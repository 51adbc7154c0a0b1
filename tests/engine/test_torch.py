"""Real tensors of torch and JAX on the CPU: in and out, modules of maps, and a network that torch exports to ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cases import NO_JAX, NO_TORCH
from tests.contracts import test_outside
from tests.contracts.test_class_maps import SAMPLES as CLASS_SAMPLES
from tests.contracts.test_maps import SAMPLES

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.export import torch_modules
from calibrant.maps import BetaMap, LogitAffineMap, PiecewiseLinearMap, SoftmaxMap, StepMap, TopMap
from calibrant.messages import InputError

torch = pytest.importorskip("torch", reason=NO_TORCH)

pytestmark = pytest.mark.engine

RNG = np.random.default_rng(0)
LOGITS = torch.tensor(RNG.normal(size=(300, 4)) * 2.0)
LABELS = torch.distributions.Categorical(logits=LOGITS * 0.6).sample()
RISK = Calibration(LogitAffineMap(0.8, -0.1))
COOLER = Calibration(SoftmaxMap(("a", "b", "c", "d"), [0.6], [], "logit", 1e-300))


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_a_tensor_comes_back_as_a_tensor(given: Any, returned: Any) -> None:
    scores = torch.rand(50, dtype=torch.float64).to(given)
    for calibration, tensor in ((RISK, scores), (COOLER, LOGITS.to(given))):
        found = calibration.transform(tensor)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == returned
        like = tensor.to(returned).numpy()
        np.testing.assert_array_equal(found.numpy(), calibration.transform(like))


def test_fits_read_tensors_of_every_type() -> None:
    expected = cb.TemperatureScaling().fit(LOGITS.numpy(), LABELS.numpy(), score_type="logit")
    for labels in (LABELS, LABELS.to(torch.uint8), LABELS.to(torch.float32), LABELS.to(torch.bfloat16)):
        cal = cb.TemperatureScaling().fit(LOGITS, labels, score_type="logit")
        assert cal.map_ == expected.map_
    half = cb.TemperatureScaling().fit(LOGITS.bfloat16(), LABELS, score_type="logit")
    assert half.map_.slope[0] == pytest.approx(expected.map_.slope[0], rel=0.02)
    both = cb.PlattScaling().fit(torch.rand(99), torch.rand(99) < 0.5).predict_proba(torch.rand(7))
    assert isinstance(both, torch.Tensor)
    assert both.shape == (7, 2)


def test_gradients_are_refused_with_advice() -> None:
    for door in (
        COOLER.transform,
        lambda s: cb.TemperatureScaling().fit(s, LABELS),
        lambda s: cb.metrics.ece(s, LABELS),
    ):
        with pytest.raises(InputError, match=r"scores\.detach\(\)"):
            door(LOGITS.clone().requires_grad_())


def test_masked_logits_are_read() -> None:
    masked = LOGITS.clone()
    masked[::3, 1] = -torch.inf
    assert (COOLER.transform(masked)[::3, 1] < 1e-100).all()


# --- modules ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_every_map_as_a_module_gives_what_apply_gives(subtests: pytest.Subtests) -> None:
    """`to_torch` itself compares with `apply`, on about 100,000 scores; the script of a module gives the same."""
    for kind, maps in {**SAMPLES, **CLASS_SAMPLES}.items():
        for j, map_ in enumerate(maps):
            with subtests.test(f"{kind} {j}"):
                if map_.columns or type(map_) not in torch_modules._module.registry:
                    with pytest.raises(InputError, match="to_onnx"):
                        Calibration(map_).to_torch()
                    continue
                module = Calibration(map_).to_torch()
                scripted = torch.jit.script(module)
                shape = (50, len(map_.inputs)) if len(map_.inputs) > 1 else (50,)
                scores = torch.rand(shape, dtype=torch.float64)
                torch.testing.assert_close(scripted(scores), module(scores), rtol=0.0, atol=0.0, equal_nan=True)
                assert scripted(scores.half()).dtype == torch.float32
                if isinstance(map_, TopMap):
                    assert torch.equal(scripted.labels(scores), module.labels(scores))


def test_a_score_that_is_no_probability_gives_nan(subtests: pytest.Subtests) -> None:
    for place, map_ in enumerate([*test_outside.MAPS, *test_outside.CLASS_MAPS]):
        if not map_.columns and type(map_) in torch_modules._module.registry:
            with subtests.test(map_.kind, place=place):
                test_outside.assert_reads(map_, test_outside.torch)


def test_modules_are_differentiable_where_maps_are() -> None:
    for map_ in (
        LogitAffineMap(0.8, -0.1),
        BetaMap(0.8, 1.1, 0.2),
        PiecewiseLinearMap([0.0, 0.4, 1.0], [0.1, 0.5, 0.8]),
    ):
        x = torch.linspace(0.05, 0.95, 20, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(Calibration(map_).to_torch(), x)
    x = LOGITS[:5].clone().requires_grad_()
    assert torch.autograd.gradcheck(COOLER.to_torch(), x)
    steps = torch.tensor([0.2, 0.7], requires_grad=True)
    assert not Calibration(StepMap([0.5], [0.1, 0.8])).to_torch()(steps).requires_grad


def test_a_module_follows_a_network() -> None:
    module = COOLER.to_torch()
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), module)
    x = torch.rand(6, 3)
    out = network(x)
    assert out.dtype == torch.float32
    out[:, 0].sum().backward()
    assert network[0].weight.grad.abs().sum() > 0
    assert [*module.parameters()] == []
    again = Calibration(SoftmaxMap(("a", "b", "c", "d"), [9.0], [], "logit", 1e-300)).to_torch()
    again.load_state_dict(module.state_dict())
    torch.testing.assert_close(again(LOGITS), module(LOGITS))
    exact = module(LOGITS)
    assert torch.equal(network.half()[1](LOGITS), exact)  # the numbers keep their precision
    torch.testing.assert_close(module(LOGITS.float()), exact.float(), rtol=1e-5, atol=1e-7)


def test_top_classes_have_labels() -> None:
    map_ = TopMap(("a", "b", "c"), 2, tuple(StepMap([0.5], [j / 10, 0.9]) for j in range(2)), "probability")
    module = Calibration(map_).to_torch()
    rows = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    assert module.labels(rows).tolist() == [[0, 1], [2, 0]] == map_.labels(rows.numpy()).tolist()


# --- ONNX -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_a_map_joins_a_network_exported_by_torch(tmp_path: Any) -> None:
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    network, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU()), torch.rand(5, 3)
    batch = torch.export.Dim("n")
    torch.onnx.export(
        network, (x,), tmp_path / "net.onnx", input_names=["x"], output_names=["logits"],
        dynamic_shapes=({0: batch},), dynamo=True, external_data=False,
    )  # fmt: skip
    first = onnx.load(tmp_path / "net.onnx")
    then = COOLER.to_onnx(opset=first.opset_import[0].version, ir_version=first.ir_version)
    whole = onnx.compose.merge_models(first, then, io_map=[("logits", "scores")])
    session = ort.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = torch.rand(8, 3)
    (found,) = session.run(None, {"x": rows.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(found, COOLER.transform(network(rows)).numpy(), rtol=1e-4)


# --- JAX --------------------------------------------------------------------------------------------------------------


def test_arrays_of_jax_come_back_as_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax", reason=NO_JAX)
    for dtype in ("float32", "bfloat16", "float16"):
        given = jax.numpy.asarray(LOGITS.numpy(), dtype=dtype)
        found = COOLER.transform(given)
        assert isinstance(found, jax.Array)
        assert found.dtype == "float32"
        np.testing.assert_array_equal(found, COOLER.transform(np.asarray(given).astype(np.float32)))
