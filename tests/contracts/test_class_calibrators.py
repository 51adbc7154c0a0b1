"""What every calibrator of several classes keeps, whatever its method: generated over all classes and their options."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.cases import in_subtests

import calibrant.calibrators
from calibrant import HistogramBinning, InputError, PlattScaling, load
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.multiclass.segments import MulticlassSegmentCalibrator
from calibrant.calibrators.trees import TreeCalibrator
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.maps import MulticlassMap
from calibrant.maps.paths import PathMap
from calibrant.maps.taxonomy import Taxonomy
from calibrant.messages import CalibrantWarning
from calibrant.notions import TopKLabel

CLASSES = ("ant", "bee", "cat")
TREE = Taxonomy({"insect": None, "ant": "insect", "bee": "insect", "cat": None})

# Every option away from its default at least once, which `test_the_table_is_complete` checks. A calibrator that is not
# listed is tested with its default options.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "MulticlassAutoCalibrator": [
        {"cv": 3},
        {"candidates": ["temperature", "vector"], "loss": "brier", "cv": 3, "random_state": 1},
    ],
    "ClasswiseHistogramBinning": [
        {},
        {"points_per_bin": 60, "extremes": "mean", "alpha": 0.2},
        {"n_bins": 4, "bins_from": "split", "random_state": 1},
    ],
    "DirichletScaling": [{"cv": 3}, {"strength": 3.0, "intercept": 2.0, "clamp": 1e-3, "random_state": 1}],
    "MatrixScaling": [{}, {"off_diagonal": 3.0, "intercept": 5.0, "clamp": 1e-3, "on": "log-probability"}],
    "OneAgainstOne": [{}, {"ridge": 3.0, "clamp": 1e-3}],
    "PathCalibrator": [
        {"taxonomy": TREE},
        {"taxonomy": TREE, "points_per_bin": 60, "bins_on": "path", "borrow": True, "strength": 5.0, "alpha": 0.2},
        {"taxonomy": TREE, "n_bins": 3, "rare": "refuse", "min_rows": 10},
    ],
    "Reduction": [
        {},
        {"notion": "class-wise", "calibrator": PlattScaling(), "normalized": True},
        {"notion": TopKLabel(2), "calibrator": HistogramBinning(n_bins=3), "rare": "refuse", "min_rows": 10},
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
        {"points_per_bin": 60, "extremes": "mean", "alpha": 0.2, "rare": "refuse", "min_rows": 10},
        {"n_bins": 3, "bins_from": "split", "random_state": 1},
    ],
    "VectorScaling": [{}, {"ridge": 5.0, "clamp": 1e-3, "on": "log-probability"}],
}

#: Calibrators of one score that take a matrix too: their options are in the table of calibrators of one score.
BOTH = {"TemperatureScaling"}


NEED_COLUMNS = (MulticlassSegmentCalibrator, TreeCalibrator)
"""Their fit takes segments or features too: tests/unit/test_combinations.py and tests/unit/test_class_trees.py."""


def _members() -> dict[str, type[Any]]:
    package = calibrant.calibrators
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    found: dict[str, type[Any]] = {name: getattr(calibrant.calibrators, name) for name in BOTH}
    waiting: list[type[Any]] = [MulticlassCalibrator]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {
            cls.__name__: cls
            for cls in below
            if "__init__" in vars(cls)
            and cls.__module__.startswith(package.__name__)
            and not issubclass(cls, NEED_COLUMNS)
        }
    return found


MEMBERS = _members()
LISTED = set(OPTIONS)
OPTIONS |= {name: [{}] for name in sorted(set(MEMBERS) - LISTED)}


@functools.cache
def sample(n: int = 600, *, tied: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three classes and labels that are less sure than the rows say."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 0.7], n)
    if tied:
        p = p.round(2)
        p[:, 2] = 1.0 - p[:, 0] - p[:, 1]
        p = np.clip(p, 0.0, 1.0)
    truth = 0.6 * p + 0.4 / 3
    truth /= truth.sum(axis=1, keepdims=True)
    y = np.array(CLASSES)[[rng.choice(3, p=row) for row in truth]]
    p.flags.writeable = y.flags.writeable = False
    return p, y


@dataclass(frozen=True, eq=False)
class Case:
    """One class with one set of options."""

    name: str
    options: dict[str, Any]

    def new(self) -> Any:
        return MEMBERS[self.name](**self.options)

    def fit(self, *rows: Any, **given: Any) -> Any:
        """A new fit; what it warns about is another test's matter."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            return self.new().fit(*rows, **({"classes": CLASSES} | given))

    @functools.cached_property
    def fitted(self) -> Any:
        """Fitted to `sample()`, once for all tests that only read it."""
        return self.fit(*sample())

    @property
    def certified(self) -> bool:
        """Whether independent rows carry a certificate."""
        plain = isinstance(self.options.get("calibrator"), PlattScaling)
        return not plain and self.name in {
            "ClasswiseHistogramBinning",
            "PathCalibrator",
            "Reduction",
            "SimplexBinning",
            "TopLabelHistogramBinning",
        }


CASES = {name: {f"{name}-{i}": Case(name, each) for i, each in enumerate(OPTIONS[name])} for name in OPTIONS}
FIRST = {name: next(iter(CASES[name].values())) for name in OPTIONS}

#: Whose result may depend on how the classes are numbered: parts are drawn by a hash of the row, or cuts take turns.
IN_TURN = {"MulticlassAutoCalibrator", "DirichletScaling", "SimplexBinning", "StructuredScaling"}

#: Calibrators that prove what the base class does for all: one with bins, one with parameters, one of both bases.
BASE = {"ClasswiseHistogramBinning", "VectorScaling", "TemperatureScaling"}

#: It fits a dozen maps at each fit.
SLOW = {"MulticlassAutoCalibrator": pytest.mark.slow}

every_case = in_subtests("case", CASES, SLOW)


def of(names: Any) -> Any:
    """The first options of these calibrators."""
    chosen = [pytest.param(FIRST[name], id=name, marks=SLOW.get(name, ())) for name in OPTIONS if name in names]
    return pytest.mark.parametrize("case", chosen)


def close(a: Any, b: Any, atol: float = 0.0) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=atol, equal_nan=True)


# ---------------------------------------------------------------------------------------------------------------------


def test_the_table_is_complete():
    assert set(OPTIONS) == set(MEMBERS)
    assert set(OPTIONS) >= IN_TURN | BASE | set(SLOW)
    for name in LISTED - BOTH:
        parameters = inspect.signature(MEMBERS[name].__init__).parameters
        named = {key for each in OPTIONS[name] for key in each}
        assert named == set(parameters) - {"self"}, name


@every_case
def test_it_gives_probabilities_for_the_classes_in_their_order(case):
    p, _ = sample()
    cal = case.fitted
    out = cal.transform(p)
    assert isinstance(cal.map_, MulticlassMap)
    assert cal.classes_.tolist() == list(CLASSES)
    assert out.shape == (len(p), len(cal.map_.outputs))
    known = out[~np.isnan(out)] if isinstance(cal.map_, PathMap) else out
    assert ((known >= 0) & (known <= 1)).all()
    assert set(cal.predict(p)) <= set(CLASSES)
    assert len(cal.predict_proba(p)) == len(p)


@every_case
def test_it_is_the_same_after_saving(case, tmp_path):
    p, _ = sample()
    cal = case.fitted
    cal.save(tmp_path / "map.json")
    again = load(tmp_path / "map.json")
    close(again.transform(p), cal.transform(p))
    assert again.predict(p).tolist() == cal.predict(p).tolist()
    assert str(again.certificate) == str(cal.certificate())


@every_case
def test_it_clones_and_prints_itself(case):
    cal = case.new()
    assert str(clone(cal)) == str(cal)
    assert "not fitted" in str(cal)
    assert "600 rows of 3 classes" in str(case.fitted)


@every_case
def test_a_certificate_or_the_reason_why_not(case):
    assert isinstance(case.fitted.certificate(), Certificate if case.certified else NoCertificate)


@in_subtests(
    "case",
    {
        name: {i: case for i, case in cases.items() if case.certified}
        for name, cases in CASES.items()
        if FIRST[name].certified
    },
)
def test_a_certificate_is_of_independent_rows_only(case):
    p, y = sample()
    for given in (
        {"sampling": "out-of-fold"},
        {"groups": np.arange(len(y)) // 3},
        {"sample_weight": np.linspace(0.5, 1.5, len(y))},
    ):
        assert isinstance(case.fit(p, y, **given).certificate(), NoCertificate), given


@of(name for name in OPTIONS if not FIRST[name].certified)
def test_importance_weights_are_taken(case):
    p, y = sample()
    weighted = case.fit(p, y, sample_weight=np.linspace(0.5, 1.5, len(y)))
    assert weighted.provenance_.weight_type == "importance"
    assert isinstance(weighted.certificate(), NoCertificate)


@of(OPTIONS)
def test_counts_mean_repetition(case):
    p, y = sample(400)
    times = np.random.default_rng(1).integers(0, 3, len(y))
    counted = case.fit(p, y, sample_weight=times, weight_type="frequency")
    repeated = case.fit(np.repeat(p, times, axis=0), np.repeat(y, times))
    close(counted.transform(p), repeated.transform(p), 1e-9)


@of(OPTIONS)
def test_the_order_of_rows_does_not_matter(case):
    p, y = sample()
    order = np.random.default_rng(2).permutation(len(y))
    close(case.fit(p[order], y[order]).transform(p), case.fitted.transform(p), 1e-9)


@of(set(OPTIONS) - IN_TURN)
def test_the_numbering_of_classes_does_not_matter(case):
    p, y = sample(400, tied=False)  # among equal scores the earlier class comes first
    cal = case.fit(p, y)
    turned = case.fit(p[:, ::-1], y, classes=CLASSES[::-1])
    a, b = cal.transform(p), turned.transform(p[:, ::-1])
    close(b if a.shape[1] == 1 or isinstance(cal.map_, PathMap) else b[:, ::-1], a, 1e-6)


@of({*BASE, "PathCalibrator", "Reduction"})  # whose outputs are not the classes, too
def test_frames_keep_their_names(case):
    pd = pytest.importorskip("pandas")
    p, y = sample()
    frame = pd.DataFrame(p, columns=list(CLASSES), index=np.arange(len(y)) + 7)
    cal = case.fit(frame, pd.Series(y, index=frame.index), classes=None)
    out = cal.transform(frame[list(CLASSES[::-1])])
    assert list(out.columns) == list(cal.map_.outputs)
    assert out.index.equals(frame.index)
    close(out.to_numpy(), case.fitted.transform(p))


@of(BASE)
def test_it_must_be_fitted(case):
    with pytest.raises(NotFittedError):
        case.new().transform(sample(5)[0])


MISTAKES = {
    "a label is missing": lambda p, y: (p, y[:-1], {}),
    "a label is of no class": lambda p, y: (p, np.where(y == "cat", "dog", y), {}),
    "a score is missing": lambda p, y: (np.where(p > 0.5, np.nan, p), y, {}),
    "rows do not add up": lambda p, y: (p * 0.5, y, {}),
    "a class is missing": lambda p, y: (p, y, {"classes": CLASSES[:2]}),
    "all weights are 0": lambda p, y: (p, y, {"sample_weight": np.zeros(len(y))}),
}


@of(BASE)
def test_a_mistake_is_answered_in_a_sentence(case, subtests):
    for name, make in MISTAKES.items():
        scores, labels, given = make(*sample(50))
        with subtests.test(name), pytest.raises(InputError):
            case.fit(scores, labels, **given)


@of(OPTIONS)
def test_few_rows_give_probabilities(case):
    for rows in (1, 2, 5):
        p, y = sample(rows)
        out = case.fit(p, y).transform(p)
        assert not np.isnan(out).all(), rows
        assert np.isfinite(out).all() or case.name == "PathCalibrator", rows  # which abstains beside the path


@of(OPTIONS)
def test_a_class_that_no_row_has_is_reported(case):
    p, y = sample()
    there = y != "bee"
    cal = case.fit(p[there], y[there])
    assert ["bee"] in [list(note.values["classes"]) for note in cal.notes_ if note.code == "absent-classes"]
    out = cal.transform(p)
    assert np.isfinite(out).all() or case.name == "PathCalibrator"


@of(BASE)
def test_float32_in_gives_float32_out(case):
    p, y = sample()
    cal = case.fit(p.astype(np.float32), y)
    assert cal.transform(p.astype(np.float32)).dtype == np.float32
    assert cal.transform(p).dtype == np.float64
