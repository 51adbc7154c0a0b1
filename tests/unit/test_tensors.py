"""Tensors of other libraries in and out: the array API's strict implementation, and tensors that pretend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.arrays.columns import is_tensor
from calibrant.arrays.tensors import read_tensor
from calibrant.calibration import Calibration
from calibrant.maps import GroupedSoftmaxMap, LogitAffineMap, PerClassMap, SoftmaxMap, StepMap, TopMap
from calibrant.messages import InputError

xp = pytest.importorskip("array_api_strict")

RISK = Calibration(LogitAffineMap(0.8, -0.1))
COOLER = Calibration(SoftmaxMap(("a", "b", "c"), [0.5], [], "logit", 1e-300))
FULL = Calibration(SoftmaxMap(("a", "b", "c"), np.eye(3).ravel(), np.zeros(3), "logit", 1e-300))
RNG = np.random.default_rng(0)
SCORES = RNG.random(200)
LABELS = (RNG.random(200) < SCORES).astype(np.int64)
LOGITS = RNG.normal(size=(200, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
def test_a_tensor_comes_back_in_its_library_type_and_device(dtype: str, device: str) -> None:
    for calibration, scores in ((RISK, SCORES), (COOLER, LOGITS)):
        given = scores.astype(dtype)
        tensor = xp.asarray(given, device=xp.Device(device))
        found = calibration.transform(tensor)
        assert (type(found), found.dtype, found.device) == (type(tensor), tensor.dtype, tensor.device)
        np.testing.assert_array_equal(np.from_dlpack(found), calibration.transform(given))


def test_a_calibrator_fits_and_returns_tensors() -> None:
    scores, labels = xp.asarray(SCORES), xp.asarray(LABELS)
    cal = cb.PlattScaling().fit(scores, labels)
    like = cb.PlattScaling().fit(SCORES, LABELS)
    assert cal.map_ == like.map_
    both = cal.predict_proba(scores)
    assert is_tensor(both)
    np.testing.assert_array_equal(np.asarray(both), like.predict_proba(SCORES))
    classes = cb.TemperatureScaling().fit(xp.asarray(LOGITS), xp.asarray(LABELS), classes=[0, 1, 2], score_type="logit")
    assert is_tensor(classes.predict_proba(xp.asarray(LOGITS)))
    assert is_tensor(classes.calibration_.predict_proba(xp.asarray(LOGITS)))
    assert isinstance(classes.predict(xp.asarray(LOGITS)), np.ndarray)


def test_metrics_weights_and_checks_read_tensors() -> None:
    weights = xp.asarray(np.arange(1.0, 201.0))
    found = cb.metrics.log_loss(xp.asarray(SCORES), xp.asarray(LABELS == 1), weights)
    assert found.value == cb.metrics.log_loss(SCORES, LABELS, np.arange(1.0, 201.0)).value
    assert str(cb.check(xp.asarray(SCORES), xp.asarray(LABELS))) == str(cb.check(SCORES, LABELS))


def test_zero_and_one_rows() -> None:
    for rows in (0, 1):
        assert RISK.transform(xp.asarray(SCORES[:rows])).shape == (rows,)
        assert COOLER.transform(xp.asarray(LOGITS[:rows])).shape == (rows, 3)


class Pretended:
    """A tensor as torch has it, as far as it matters here."""

    __dlpack_device__ = staticmethod(lambda: (1, 0))

    def __init__(self, values: Any, dtype: str = "torch.float32", requires_grad: bool = False) -> None:
        self.values, self.dtype, self.requires_grad = np.asarray(values), dtype, requires_grad
        self.shape = self.values.shape

    def detach(self) -> Pretended:
        return Pretended(self.values, self.dtype)

    cpu = detach

    def float(self) -> Pretended:
        return Pretended(self.values.astype(np.float32))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        if self.dtype == "torch.strange":
            raise RuntimeError("no such kernel")
        return self.values


def test_half_precision_is_read_as_float32() -> None:
    assert read_tensor(Pretended([0.5, 0.25], "torch.bfloat16"), "scores").dtype == np.float32
    assert read_tensor(xp.asarray(np.array([0.5], dtype=np.float32)), "scores").dtype == np.float32


def test_gradients_are_refused_with_advice() -> None:
    for door in (RISK.transform, lambda s: cb.PlattScaling().fit(s, LABELS), lambda s: cb.metrics.ece(s, LABELS)):
        with pytest.raises(InputError, match=r"gradients.*scores\.detach\(\)"):
            door(Pretended(SCORES, requires_grad=True))
    with pytest.raises(InputError, match="to_torch"):
        COOLER.transform(Pretended(LOGITS, requires_grad=True))


def test_what_a_library_cannot_convert_is_refused_with_its_words() -> None:
    with pytest.raises(InputError, match=r"cannot be read as an array \(no such kernel\)"):
        RISK.transform(Pretended(SCORES, "torch.strange"))


def test_numpy_and_frames_are_not_tensors() -> None:
    assert not any(map(is_tensor, (SCORES, SCORES[0], [0.1], None, "text", 0.5)))
    assert type(RISK.transform(SCORES)) is np.ndarray


# --- masked classes ---------------------------------------------------------------------------------------------------


def test_a_masked_class_has_no_probability() -> None:
    rows = LOGITS.copy()
    rows[::2, 1] = -np.inf
    finite = np.where(np.isinf(rows), -1e6, rows)
    for dtype in (np.float32, np.float64):
        found = COOLER.transform(rows.astype(dtype))
        np.testing.assert_array_equal(found, COOLER.transform(finite.astype(dtype)))
        assert (found[::2, 1] < 1e-40).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)
    maps = tuple(StepMap([0.4], [0.1 + j / 10, 0.7]) for j in range(3))
    shifts = np.zeros(6)
    for given in (
        PerClassMap(("a", "b", "c"), maps, "logit", True),
        TopMap(("a", "b", "c"), 2, maps[:2], "logit"),
        SoftmaxMap(("a", "b", "c"), [0.5], [], "logit", 1e-9),
        SoftmaxMap(("a", "b", "c"), [0.05], [], "logit", 1e-300),
        GroupedSoftmaxMap(("a", "b", "c"), [1.0], [], "logit", 1e-300, "s", ("u", "v"), [1.0, 0.01], shifts),
    ):
        with pytest.raises(InputError, match="holds -inf, and this map may give such a class a probability above 0"):
            Calibration(given).predict_proba(rows)


def test_other_infinities_are_refused_with_true_advice(subtests: pytest.Subtests) -> None:
    masked, infinite, empty = LOGITS.copy(), LOGITS.copy(), LOGITS.copy()
    masked[3, 1], infinite[3, 1], empty[3] = -np.inf, np.inf, -np.inf
    cases = {
        "+inf": (lambda: COOLER.transform(infinite), "infinities: repair"),
        "all classes": (lambda: COOLER.transform(empty), "no class left in row 3"),
        "every class enters every other": (lambda: FULL.transform(masked), "pass the softmax"),
        "fit": (lambda: cb.TemperatureScaling().fit(masked, LABELS, classes=range(3)), "-inf, first in row 3.*softmax"),
        "fit, +inf": (lambda: cb.TemperatureScaling().fit(infinite, LABELS, classes=range(3)), "NaN or infinities"),
    }
    for name, (door, message) in cases.items():
        with subtests.test(name), pytest.raises(InputError, match=message):
            door()


def test_the_advice_on_masked_classes_works() -> None:
    masked = LOGITS.copy()
    masked[LABELS != 1, 1] = -np.inf
    e = np.exp(masked)
    cal = cb.TemperatureScaling().fit(e / e.sum(axis=1, keepdims=True), LABELS, classes=range(3))
    assert np.isfinite(cal.map_.slope).all()
