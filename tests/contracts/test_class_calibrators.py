"""What every calibrator of several classes keeps, whatever its method: generated over all classes and their options."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import calibrant.calibrators
from calibrant import HistogramBinning, InputError, PlattScaling, load
from calibrant.calibrators.multiclass.base import ClassCalibrator
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.refusal import Refusal
from calibrant.maps import ClassMap
from calibrant.maps.paths import PathMap
from calibrant.maps.taxonomy import Taxonomy
from calibrant.messages import CalibrantWarning
from calibrant.notions import TopKLabel

CLASSES = ("ant", "bee", "cat")
TREE = Taxonomy({"insect": None, "ant": "insect", "bee": "insect", "cat": None})

# Every option away from its default at least once; `test_the_table_is_complete` sees to it.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "ClassAutoCalibrator": [
        {"cv": 3},
        {"candidates": ["temperature", "vector"], "loss": "brier", "cv": 3, "random_state": 1},
    ],
    "ClassWiseHistogramBinning": [
        {},
        {"points_per_bin": 60, "extremes": "mean", "alpha": 0.2},
        {"n_bins": 4, "bins_from": "part", "random_state": 1},
    ],
    "DirichletScaling": [{"cv": 3}, {"strength": 3.0, "intercept": 2.0, "clamp": 1e-3, "random_state": 1}],
    "MatrixScaling": [{}, {"off_diagonal": 3.0, "intercept": 5.0, "clamp": 1e-3}],
    "PathCalibrator": [
        {"taxonomy": TREE},
        {"taxonomy": TREE, "points_per_bin": 60, "bins_on": "path", "borrow": True, "strength": 5.0, "alpha": 0.2},
        {"taxonomy": TREE, "n_bins": 3, "rare": "refuse", "least": 10},
    ],
    "Reduction": [
        {},
        {"notion": "class-wise", "calibrator": PlattScaling(), "normalised": True},
        {"notion": TopKLabel(2), "calibrator": HistogramBinning(n_bins=3), "rare": "refuse", "least": 10},
        {"notion": "confidence"},
    ],
    "SimplexBinning": [
        {},
        {"scheme": "sierpinski", "depth": 2, "extremes": "mean"},
        {"scheme": "grid", "cells": 3, "alpha": 0.2},
        {"n_bins": 6, "directions": "random", "random_state": 3},
    ],
    "StructuredScaling": [{"cv": 3}, {"strength": 2.0, "clamp": 1e-3, "random_state": 1}],
    "TemperatureScaling": [{}, {"soft_targets": True}],
    "TopLabelHistogramBinning": [
        {},
        {"points_per_bin": 60, "extremes": "mean", "alpha": 0.2, "rare": "refuse", "least": 10},
        {"n_bins": 3, "bins_from": "part", "random_state": 1},
    ],
    "VectorScaling": [{}, {"ridge": 5.0, "clamp": 1e-3}],
}

#: Calibrators of one score that take a matrix too: their options are in the table of calibrators of one score.
BOTH = {"TemperatureScaling"}


def _members() -> dict[str, type[Any]]:
    package = calibrant.calibrators
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    found: dict[str, type[Any]] = {name: getattr(calibrant, name) for name in BOTH}
    waiting: list[type[Any]] = [ClassCalibrator]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {
            cls.__name__: cls
            for cls in below
            if "__init__" in vars(cls) and cls.__module__.startswith(package.__name__)
        }
    return found


MEMBERS = _members()


def sample(n: int = 600, seed: int = 0, *, tied: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three classes and labels that are less sure than the rows say."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 1.0, 0.7], n)
    if tied:
        p = p.round(2)
        p[:, 2] = 1.0 - p[:, 0] - p[:, 1]
        p = np.clip(p, 0.0, 1.0)
    truth = 0.6 * p + 0.4 / 3
    truth /= truth.sum(axis=1, keepdims=True)
    return p, np.array(CLASSES)[[rng.choice(3, p=row) for row in truth]]


def build(name: str, options: dict[str, Any]) -> Any:
    return MEMBERS[name](**options)


def fit(calibrator: Any, *rows: Any, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return calibrator.fit(*rows, **({"classes": CLASSES} | given))


#: Whose result may depend on how the classes are numbered: parts are drawn by a hash of the row, or cuts take turns.
IN_TURN = {"ClassAutoCalibrator", "DirichletScaling", "SimplexBinning", "StructuredScaling"}

EACH = [pytest.param(name, each, id=f"{name}-{i}") for name in OPTIONS for i, each in enumerate(OPTIONS[name])]
FIRST = [pytest.param(name, OPTIONS[name][0], id=name) for name in OPTIONS]


def close(a: Any, b: Any, atol: float = 0.0) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=atol, equal_nan=True)


# ---------------------------------------------------------------------------------------------------------------------


def test_the_table_is_complete():
    assert set(OPTIONS) == set(MEMBERS)
    for name in set(MEMBERS) - BOTH:
        parameters = inspect.signature(MEMBERS[name].__init__).parameters
        named = {key for each in OPTIONS[name] for key in each}
        assert named == set(parameters) - {"self"}, name


@pytest.mark.parametrize(("name", "options"), EACH)
def test_it_gives_probabilities_for_the_classes_in_their_order(name, options):
    p, y = sample()
    cal = fit(build(name, options), p, y)
    out = cal.transform(p)
    assert isinstance(cal.map_, ClassMap)
    assert cal.classes_.tolist() == list(CLASSES)
    assert out.shape == (len(p), len(cal.map_.outputs))
    known = out[~np.isnan(out)] if isinstance(cal.map_, PathMap) else out
    assert ((known >= 0) & (known <= 1)).all()
    assert set(cal.predict(p)) <= set(CLASSES)
    assert len(cal.predict_proba(p)) == len(p)


@pytest.mark.parametrize(("name", "options"), EACH)
def test_it_is_the_same_after_saving(name, options, tmp_path):
    p, y = sample()
    cal = fit(build(name, options), p, y)
    cal.save(tmp_path / "map.json")
    again = load(tmp_path / "map.json")
    close(again.transform(p), cal.transform(p))
    assert again.predict(p).tolist() == cal.predict(p).tolist()
    assert str(again.certificate) == str(cal.certificate())


@pytest.mark.parametrize(("name", "options"), EACH)
def test_a_promise_is_made_of_independent_rows_only(name, options):
    p, y = sample()
    promise = fit(build(name, options), p, y).certificate()
    assert isinstance(promise, Certificate | Refusal)
    for given in ({"sampling": "out-of-fold"}, {"groups": np.arange(len(y)) // 3}):
        assert isinstance(fit(build(name, options), p, y, **given).certificate(), Refusal)
    weighted = fit(build(name, options), p, y, sample_weight=np.linspace(0.5, 1.5, len(y)))
    assert isinstance(weighted.certificate(), Refusal)


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_counts_mean_repetition(name, options):
    p, y = sample(400)
    times = np.random.default_rng(1).integers(0, 3, len(y))
    counted = fit(build(name, options), p, y, sample_weight=times, weights="counts")
    repeated = fit(build(name, options), np.repeat(p, times, axis=0), np.repeat(y, times))
    close(counted.transform(p), repeated.transform(p), 1e-9)


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_the_order_of_rows_does_not_matter(name, options):
    p, y = sample(400)
    order = np.random.default_rng(2).permutation(len(y))
    turned = fit(build(name, options), p[order], y[order])
    close(turned.transform(p), fit(build(name, options), p, y).transform(p), 1e-9)


@pytest.mark.parametrize(("name", "options"), [each for each in FIRST if each.id not in IN_TURN])
def test_the_numbering_of_classes_does_not_matter(name, options):
    p, y = sample(400, tied=False)  # among equal scores the earlier class comes first
    cal = fit(build(name, options), p, y)
    turned = fit(build(name, options), p[:, ::-1], y, classes=CLASSES[::-1])
    a, b = cal.transform(p), turned.transform(p[:, ::-1])
    close(b if a.shape[1] == 1 or isinstance(cal.map_, PathMap) else b[:, ::-1], a, 1e-6)


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_frames_keep_their_names(name, options):
    pd = pytest.importorskip("pandas")
    p, y = sample()
    frame = pd.DataFrame(p, columns=list(CLASSES), index=np.arange(len(y)) + 7)
    cal = fit(build(name, options), frame, pd.Series(y, index=frame.index), classes=None)
    out = cal.transform(frame[list(CLASSES[::-1])])
    assert list(out.columns) == list(cal.map_.outputs)
    assert out.index.equals(frame.index)
    close(out.to_numpy(), fit(build(name, options), p, y).transform(p))


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_it_clones_and_must_be_fitted(name, options):
    cal = build(name, options)
    assert str(clone(cal)) == str(cal)
    assert "not fitted" in str(cal)
    with pytest.raises(NotFittedError):
        cal.transform(sample(5)[0])


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_a_mistake_is_answered_in_a_sentence(name, options):
    p, y = sample(50)
    for scores, labels, given in (
        (p, y[:-1], {}),
        (p, np.where(y == "cat", "dog", y), {}),
        (np.where(p > 0.5, np.nan, p), y, {}),
        (p * 0.5, y, {}),
        (p, y, {"classes": CLASSES[:2]}),
        (p, y, {"sample_weight": np.zeros(len(y))}),
    ):
        with pytest.raises(InputError):
            fit(build(name, options), scores, labels, **given)


@pytest.mark.parametrize(("name", "options"), FIRST)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_give_probabilities_or_a_sentence(name, options, rows):
    p, y = sample(rows)
    try:
        out = fit(build(name, options), p, y).transform(p)
    except InputError:
        return
    assert not np.isnan(out).all()
    if name != "PathCalibrator":  # which abstains beside the path
        assert np.isfinite(out).all()


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_a_class_that_no_row_has_is_told(name, options):
    p, y = sample()
    there = y != "bee"
    cal = fit(build(name, options), p[there], y[there])
    assert ["bee"] in [list(note.values["classes"]) for note in cal.notes_ if note.code == "absent-classes"]
    out = cal.transform(p)
    assert np.isfinite(out).all() or name == "PathCalibrator"


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_float32_in_gives_float32_out(name, options):
    p, y = sample()
    cal = fit(build(name, options), p.astype(np.float32), y)
    assert cal.transform(p.astype(np.float32)).dtype == np.float32
    assert cal.transform(p).dtype == np.float64


@pytest.mark.parametrize(("name", "options"), FIRST)
def test_it_prints_what_was_fitted(name, options):
    p, y = sample()
    told = str(fit(build(name, options), p, y))
    assert "600 rows of 3 classes" in told
