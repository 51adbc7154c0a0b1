"""Boosters with missing values, categories, names of features and labels of many types, inside classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from tests import worlds

from calibrant import CalibrantWarning, CalibratedClassifier, PlattScaling, TemperatureScaling
from calibrant.calibrators import CrossVennAbers


def _lightgbm() -> Any:
    made = pytest.importorskip("lightgbm").LGBMClassifier
    return made(n_estimators=4, num_leaves=4, n_jobs=1, verbose=-1, random_state=0)


def _xgboost() -> Any:
    made = pytest.importorskip("xgboost").XGBClassifier
    return made(n_estimators=4, max_depth=2, n_jobs=1, enable_categorical=True, random_state=0)


def _catboost() -> Any:
    made = pytest.importorskip("catboost").CatBoostClassifier
    return made(
        iterations=4, depth=2, thread_count=1, verbose=0, allow_writing_files=False, cat_features=["job"], random_seed=0
    )


def _scikit_learn() -> Any:
    return HistGradientBoostingClassifier(
        max_iter=4, max_leaf_nodes=4, categorical_features="from_dtype", early_stopping=False, random_state=0
    )


BOOSTERS = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost, "scikit-learn": _scikit_learn}
CODED = ("xgboost",)
"""Boosters that refuse labels other than 0, 1, ..., with or without a wrapper."""


@pytest.fixture(params=BOOSTERS)
def booster(request: pytest.FixtureRequest) -> Callable[[], Any]:
    BOOSTERS[request.param]()  # skips where it is not installed
    return BOOSTERS[request.param]


@pytest.fixture(autouse=True)
def _their_warnings() -> Any:
    """Warnings of the boosters' own code about newer versions of other packages are not ours."""
    with warnings.catch_warnings():
        for package in ("lightgbm", "xgboost", "catboost"):
            warnings.filterwarnings("ignore", module=package)
        yield


def rows(n: int = 300, classes: int = 2) -> tuple[Any, np.ndarray]:
    """Numbers with missing values and a category, and labels 0, 1, ..."""
    pd = pytest.importorskip("pandas")
    X, y = worlds.features(n, weights=(1.0, 0.5, 0.0))
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, X[:, 0]),
            "job": pd.Categorical(np.where(X[:, 1] > 0, "cook", "pilot")),
        },
        index=rng.permutation(n),
    )
    return frame, y + (X[:, 2] > 0.5) * (classes > 2)


def wrapped(model: Any) -> list[Any]:
    """Every way around a booster that trains it."""
    return [
        CalibratedClassifier(model, PlattScaling(), cv=2),
        CalibratedClassifier(model, PlattScaling(), cv=2, ensemble=True),
        CrossVennAbers(model, cv=2),
    ]


def test_missing_values_categories_and_names(booster: Callable[[], Any]) -> None:
    frame, y = rows()
    bare = booster().fit(frame, y)
    for classifier in wrapped(booster()):
        p = classifier.fit(frame, y).predict_proba(frame)
        assert p.shape == (300, 2)
        assert np.isfinite(p).all()
        if hasattr(bare, "feature_names_in_"):  # CatBoost has them under another name
            assert list(classifier.feature_names_in_) == ["amount", "job"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # these are training rows, and four trees have a steep slope
        prefit = CalibratedClassifier(bare, PlattScaling(), cv="prefit").fit(frame, y)
    np.testing.assert_array_equal(
        prefit.predict_proba(frame)[:, 1],
        prefit.calibrator_.transform(np.asarray(bare.predict_proba(frame)[:, 1], dtype=np.float64)),
    )


def test_several_classes(booster: Callable[[], Any]) -> None:
    frame, y = rows(classes=3)
    for ensemble in (False, True):
        classifier = CalibratedClassifier(booster(), TemperatureScaling(), cv=2, ensemble=ensemble).fit(frame, y)
        p = classifier.predict_proba(frame)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert classifier.classes_.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(classifier.predict(frame), p.argmax(axis=1))


def test_labels_of_many_types(booster: Callable[[], Any], request: pytest.FixtureRequest, subtests: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame, y = rows()
    words = pd.Series(np.where(y == 1, "yes", "no"), index=frame.index)
    coded = {"int": pd.Series(y, index=frame.index), "Int64": pd.Series(y, index=frame.index, dtype="Int64")}
    named = {"text": words, "category": words.astype("category"), "string": words.astype("string"), "list": [*words]}
    expected = CalibratedClassifier(booster(), PlattScaling(), cv=2).fit(frame, y).predict_proba(frame)
    for sort, labels in (coded if request.node.callspec.params["booster"] in CODED else coded | named).items():
        with subtests.test(sort):
            classifier = CalibratedClassifier(booster(), PlattScaling(), cv=2).fit(frame, labels)
            np.testing.assert_allclose(classifier.predict_proba(frame), expected, atol=1e-6)
            assert classifier.classes_.tolist() == ([0, 1] if sort in coded else ["no", "yes"])
            assert set(classifier.predict(frame).tolist()) <= set(classifier.classes_.tolist())


def test_weights(booster: Callable[[], Any]) -> None:
    frame, y = rows()
    weight = np.where(y == 1, 3.0, 1.0)
    plain = CalibratedClassifier(booster(), PlattScaling(), cv=2).fit(frame, y)
    heavy = CalibratedClassifier(booster(), PlattScaling(), cv=2).fit(frame, y, sample_weight=weight)
    assert heavy.predict_proba(frame)[:, 1].mean() > plain.predict_proba(frame)[:, 1].mean() + 0.1
