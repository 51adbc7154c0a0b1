"""Trees of several classes: shares of the classes in each leaf, or softmax maps, with rules, certificates, exports."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibrant.calibration import Calibration
from calibrant.calibrators.trees import CalibrationTree, ProbabilityCalibrationTree
from calibrant.export.errors import DocumentError
from calibrant.export.kinds import samples, trees
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.maps import ClassTreeMap, SoftmaxMap
from calibrant.messages import InputError

NAMES = np.array(["no", "maybe", "yes"])
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")


def drawn(n: int, seed: int = 0) -> tuple[Any, Any, dict[str, Any]]:
    """Class scores that are wrong above the age of 41."""
    rng = np.random.default_rng(seed)
    age, job = rng.integers(20, 80, n).astype(float), rng.choice(["a", "b"], n)
    p = rng.dirichlet([2, 2, 2], n)
    true = p * np.where((age > 41)[:, None], [1.0, 3.0, 1.0], [2.0, 1.0, 1.0])
    true /= true.sum(axis=1, keepdims=True)
    y = NAMES[(rng.random(n)[:, None] > np.cumsum(true, axis=1)[:, :2]).sum(axis=1)]
    return p, y, {"age": age, "job": job}


P, Y, BESIDE = drawn(3_000)


def fitted(method: Any, scores: Any = P, **options: Any) -> Any:
    return method(**options).fit(scores, Y, BESIDE, classes=list(NAMES))


@pytest.mark.parametrize("method", [CalibrationTree, ProbabilityCalibrationTree])
def test_a_tree_finds_where_the_classes_are_off(method: Any) -> None:
    cal = fitted(method, split_on_score=False)
    assert isinstance(cal.map_, ClassTreeMap)
    assert cal.map_.columns == ("age",)
    young, old = cal.transform([[1 / 3] * 3] * 2, features={"age": [30, 60]})
    assert young.argmax() == 0
    assert old.argmax() == 1
    np.testing.assert_allclose(cal.transform(P, features=BESIDE).sum(axis=1), 1.0)
    assert cal.predict([[1 / 3] * 3] * 2, {"age": [30, 60]}).tolist() == ["no", "maybe"]
    frame = pd.DataFrame({"no": [1 / 3], "maybe": [1 / 3], "yes": [1 / 3], "age": [60]})
    np.testing.assert_allclose(cal.transform(frame[["no", "maybe", "yes"]], features=frame).to_numpy()[0], old)
    json_again = Calibration.from_json(cal.calibration_.to_json())
    np.testing.assert_array_equal(json_again.transform(P, by={"age": BESIDE["age"]}), cal.transform(P, features=BESIDE))


def test_shares_of_leaves_by_hand() -> None:
    p = [[0.4, 0.3, 0.3]] * 10
    cal = CalibrationTree(5, 2, pruning_alpha=0.0, split_on_score=False)
    cal.fit(p, ["a"] * 5 + ["b"] * 3 + ["c"] * 2, {"x": [1.0] * 5 + [2.0] * 5}, classes=["a", "b", "c"])
    left, right = cal.transform(p[:2], features={"x": [1.0, 2.0]})
    np.testing.assert_allclose(left, np.array([5, 0, 0]) / 7 + 2 / 21)
    np.testing.assert_allclose(right, np.array([0, 3, 2]) / 7 + 2 / 21)
    lines = str(cal.rules()).splitlines()
    assert lines[0].startswith("x <= 1: 81 % a, 9.5 % b, 9.5 % c (95 % CI 48 to 100, 0 to 52, 0 to 52), 5 rows")
    assert cal.rules().to_frame()["events of b"].tolist() == [0.0, 3.0]


def test_two_columns_are_the_tree_of_one_score() -> None:
    rng = np.random.default_rng(1)
    s, x = rng.random(2_000), rng.random(2_000)
    y = (rng.random(2_000) < np.where(x > 0.5, s, s / 3)).astype(int)
    one = CalibrationTree(50).fit(s, y, {"x": x})
    two = CalibrationTree(50).fit(np.column_stack([1 - s, s]), y, {"x": x}, classes=[0, 1])
    np.testing.assert_allclose(
        np.sort(np.unique(one.transform(s, features={"x": x}))),
        np.sort(np.unique(two.transform(np.column_stack([1 - s, s]), features={"x": x})[:, 1])),
        atol=0.05,
    )


@pytest.mark.parametrize("method", [CalibrationTree, ProbabilityCalibrationTree])
def test_logits_give_what_their_probabilities_give(method: Any) -> None:
    from_p, from_z = (fitted(method, s, pruning_alpha=0.001) for s in (P, np.log(P) + 3.0))
    np.testing.assert_allclose(
        from_z.transform(np.log(P) + 3.0, features=BESIDE), from_p.transform(P, features=BESIDE), atol=1e-6
    )


@pytest.mark.parametrize("method", [CalibrationTree, ProbabilityCalibrationTree])
def test_edges_of_few_rows_and_one_class(method: Any) -> None:
    for n, labels in ((1, ["a"]), (2, ["a", "b"]), (6, ["c"] * 6)):
        cal = method(1).fit([[0.5, 0.3, 0.2]] * n, labels, {"x": np.arange(n)}, classes=["a", "b", "c"])
        found = cal.transform([[0.5, 0.3, 0.2]], features={"x": [0.0]})
        assert np.isfinite(found).all()
        assert str(cal)
    single = fitted(method, pruning_alpha=0.0).transform(
        P[:5].astype(np.float32), features={k: v[:5] for k, v in BESIDE.items()}
    )
    assert single.dtype == np.float32
    weights, few = np.where(np.arange(300) % 3, 1.0, 2.0), {name: each[:300] for name, each in BESIDE.items()}
    for kind in ("importance", "frequency"):
        cal = method(30).fit(P[:300], Y[:300], few, weights, classes=list(NAMES), weight_type=kind)
        assert "No certificate" in str(cal)
        assert str(cal.rules())


def test_frequency_weights_are_repetitions() -> None:
    counts = np.arange(300) % 3
    p, y, beside = P[:300], Y[:300], {name: each[:300] for name, each in BESIDE.items()}
    options: dict[str, Any] = {"min_rows": 30, "pruning_alpha": 0.0}
    weighed = CalibrationTree(**options).fit(p, y, beside, counts, classes=list(NAMES), weight_type="frequency")
    many = np.repeat(np.arange(300), counts)
    repeated = CalibrationTree(**options).fit(
        p[many], y[many], {name: each[many] for name, each in beside.items()}, classes=list(NAMES)
    )
    assert weighed.map_ == repeated.map_


def test_errors_name_the_argument() -> None:
    with pytest.raises(InputError, match="positive is for one score"):
        CalibrationTree().fit(P, Y, BESIDE, positive="yes")
    with pytest.raises(InputError, match="classes is for a matrix"):
        CalibrationTree().fit(P[:, 0], Y == "no", BESIDE, classes=["a", "b"])
    with pytest.raises(InputError, match="features are missing"):
        fitted(CalibrationTree).transform(P[:2])


def test_curves_are_softmax_maps_that_lean_on_their_parent() -> None:
    cal = fitted(ProbabilityCalibrationTree)
    assert all(isinstance(part, SoftmaxMap) and part.slope[0] >= 0.0 for part in cal.map_.maps)
    assert "becomes" in str(cal.rules())
    assert "observed" in str(cal.rules())
    assert isinstance(cal.certificate(), NoCertificate)
    by_residuals = fitted(ProbabilityCalibrationTree, split_by="residuals", pruning_alpha=0.005)
    assert "age" in by_residuals.map_.columns


# --------------------------------------------------------------------------------------------------------- certificates


def honest() -> Any:
    return fitted(CalibrationTree, honest=True, random_state=0, split_on_score=False)


def test_the_certificate_is_that_of_the_counts_of_every_class() -> None:
    cal = honest()
    promise = cal.certificate(alpha=0.1)
    leaves, size = cal.leaves_.events.shape
    assert isinstance(promise, Certificate)
    assert size == 3
    assert promise.n == 1_500
    rows = np.repeat(cal.leaves_.rows, 3).astype(int)
    lower, upper = BOUNDS["clopper-pearson"](cal.leaves_.events.ravel().astype(int), rows, 0.1 / (3 * leaves))
    np.testing.assert_array_equal(promise.lower, lower)
    np.testing.assert_array_equal(promise.upper, upper)
    assert "the true frequency of every class" in str(promise)
    p, y, beside = drawn(4_000, 9)
    assert promise.check(p, y, by=beside)
    broken = promise.check(p, np.full(4_000, "yes"), by=beside)
    assert not broken
    assert "of 'yes'" in str(broken)
    assert cal.certificate(alpha=0.1, coverage="marginal").epsilon < promise.epsilon


def test_who_gets_no_certificate() -> None:
    tied = CalibrationTree(2, honest=True, random_state=0)
    tied.fit([[0.5, 0.3, 0.2]] * 40, [0, 1, 2, 0] * 10, {"x": np.arange(40)}, classes=[0, 1, 2])
    for cal in (fitted(CalibrationTree), tied):
        assert isinstance(cal.certificate(), NoCertificate)


FORGERIES: dict[str, Any] = {
    "an output": lambda d: d["certificate"]["outputs"].__setitem__(0, 0.5),
    "a count": lambda d: d["certificate"]["events"].__setitem__(0, 1),
    "alpha": lambda d: d["certificate"].__setitem__("alpha", 0.05),
    "an interval": lambda d: d["certificate"]["upper"].__setitem__(1, d["certificate"]["outputs"][1] + 1e-6),
    "the tree that is applied": lambda d: d["map"]["thresholds"].__setitem__(0, 30.0),
    "the rows that chose": lambda d: d["certificate"]["about"].__setitem__("chose", 10),
    "the classes": lambda d: d["certificate"]["about"]["map"]["classes"].reverse(),
    "a statement left out": lambda d: [d["certificate"][name].pop() for name in ("outputs", "lower", "upper", "rows")],
    "rows of the provenance": lambda d: d["provenance"].__setitem__("n", 30.0),
    "rows of a class": lambda d: d["provenance"].__setitem__("class_mass", [1.0, 1.0, 2_998.0]),
    "no provenance": lambda d: d.__setitem__("provenance", None),
    "another kind of statement": lambda d: d["certificate"]["about"].__setitem__("is", "tree-leaves"),
    "a leaf of curves": lambda d: d["map"]["maps"].__setitem__(0, {"is": "identity"}),
    "an assumption struck out": lambda d: d["certificate"]["assumptions"].pop(),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_document_is_refused(what: str) -> None:
    body = json.loads(honest().calibration_.to_json())
    assert Calibration.from_json(json.dumps(body)).certificate is not None
    FORGERIES[what](body)
    with pytest.raises(DocumentError):
        Calibration.from_json(json.dumps(body))


# -------------------------------------------------------------------------------------------------------------- exports


def test_sql_and_onnx_are_proven(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(samples, "RANDOM_ROWS", 500)
    monkeypatch.setattr(trees, "RANDOM_CLASS_ROWS", 1_000)
    for method in (CalibrationTree, ProbabilityCalibrationTree):
        cal = fitted(method)
        assert cal.export_sql(tmp_path / "map.sql").unit == "rows"
        assert cal.export_onnx(tmp_path / "map.onnx").unit == "rows"
    assert 'WHEN "age" <= 41' in fitted(CalibrationTree, split_on_score=False).to_sql(["a", "b", "c"])["yes"]
