"""CalibratedClassifier: the model stays the user's, labels keep their names and order, promises are kept or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests import worlds

from calibrant import (
    CalibrantWarning,
    CalibratedClassifier,
    Certificate,
    HistogramBinning,
    IsotonicCalibrator,
    NoCertificate,
    PlattScaling,
    Tally,
)


@pytest.fixture(scope="module")
def model() -> LogisticRegression:
    return LogisticRegression(C=100.0).fit(*worlds.features(100, seed=9))


class CountsFits(ClassifierMixin, BaseEstimator):
    """A logistic regression that counts how often any copy of it is fitted, and with which weights."""

    fits = 0
    weights: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CountsFits:
        type(self).fits += 1
        type(self).weights = sample_weight
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.inner_.predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        return self.inner_.predict(X)


# --- prefit -----------------------------------------------------------------------------------------------------------


def test_prefit_maps_the_scores_of_the_model(model: LogisticRegression) -> None:
    X, y = worlds.features()
    wrapped = CalibratedClassifier(model, PlattScaling()).fit(X, y)
    expected = PlattScaling().fit(model.predict_proba(X)[:, 1], y)
    np.testing.assert_array_equal(wrapped.predict_proba(X)[:, 1], expected.transform(model.predict_proba(X)[:, 1]))
    np.testing.assert_allclose(wrapped.predict_proba(X).sum(axis=1), 1.0)
    assert wrapped.calibrator_.map_ == expected.map_
    assert wrapped.n_features_in_ == 3


def test_prefit_is_never_refitted() -> None:
    X, y = worlds.features()
    model = CountsFits().fit(X, y)
    before, CountsFits.fits = model.inner_.coef_.copy(), 0
    wrapped = CalibratedClassifier(model, PlattScaling()).fit(X[:200], 1 - y[:200])
    wrapped.fit(X, y)
    assert CountsFits.fits == 0
    assert isinstance(wrapped.estimator_, FrozenEstimator)
    np.testing.assert_array_equal(model.inner_.coef_, before)


def test_prefit_survives_clone(model: LogisticRegression) -> None:
    X, y = worlds.features()
    wrapped = CalibratedClassifier(model, PlattScaling())
    copy = clone(wrapped)
    np.testing.assert_array_equal(copy.fit(X, y).predict_proba(X), wrapped.fit(X, y).predict_proba(X))
    assert not hasattr(clone(wrapped), "calibrator_")


def test_prefit_survives_cross_validation_and_search() -> None:
    X, y = worlds.features()
    model = CountsFits().fit(X, y)
    CountsFits.fits = 0
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=2))
    assert np.isfinite(cross_val_score(wrapped, X, y, cv=3, scoring="neg_log_loss", error_score="raise")).all()
    search = GridSearchCV(
        wrapped, {"calibrator__n_bins": [2, 5]}, cv=3, scoring="neg_brier_score", error_score="raise"
    ).fit(X, y)
    assert search.best_params_["calibrator__n_bins"] == 5
    GridSearchCV(wrapped, {"calibrator": [PlattScaling(), IsotonicCalibrator()]}, cv=3, error_score="raise").fit(X, y)
    assert CountsFits.fits == 0


def test_a_frozen_model_is_taken_as_it_is(model: LogisticRegression) -> None:
    X, y = worlds.features()
    expected = CalibratedClassifier(model, PlattScaling()).fit(X, y).predict_proba(X)
    frozen = CalibratedClassifier(FrozenEstimator(model), PlattScaling()).fit(X, y)
    np.testing.assert_array_equal(frozen.predict_proba(X), expected)


def test_prefit_refuses_a_model_that_is_not_fitted() -> None:
    with pytest.raises(NotFittedError, match=r"LogisticRegression is not fitted: fit it first .*, or pass cv=5"):
        CalibratedClassifier(LogisticRegression(), PlattScaling()).fit(*worlds.features())
    with pytest.raises(NotFittedError, match=r"fit it first .*, or pass cv=5"):
        CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), PlattScaling()).fit(
            *worlds.features()
        )
    CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=5).fit(*worlds.features())


def test_prefit_takes_a_pipeline_and_whatever_it_takes() -> None:
    X, y = worlds.features()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    wrapped = CalibratedClassifier(pipeline, PlattScaling()).fit(X.tolist(), y.tolist())
    assert wrapped.predict_proba(X.tolist()).shape == (400, 2)


def test_prefit_refuses_labels_that_the_model_does_not_know(model: LogisticRegression) -> None:
    X, y = worlds.features()
    with pytest.raises(ValueError, match="class"):
        CalibratedClassifier(model, PlattScaling()).fit(X, np.where(y == 1, "yes", "no"))


def test_prefit_refuses_a_model_of_three_classes() -> None:
    X, y = worlds.features()
    three = LogisticRegression().fit(X, y + (X[:, 2] > 1))
    with pytest.raises(ValueError, match="binary"):
        CalibratedClassifier(three, PlattScaling()).fit(X, y)


# --- labels -----------------------------------------------------------------------------------------------------------


def test_labels_keep_their_names_and_order(subtests) -> None:
    X, y = worlds.features()
    every = [("no", "yes"), ("yes", "no"), (1, 0), (-1, 1), (False, True), (7.0, 3.0)]
    for cv, names in [*(("prefit", names) for names in every), *((3, names) for names in every[1::2])]:
        with subtests.test(cv=cv, names=names):
            labels = np.array(names)[y]
            model = LogisticRegression().fit(X, labels)
            wrapped = CalibratedClassifier(model, PlattScaling(), cv=cv).fit(X, labels)
            np.testing.assert_array_equal(wrapped.classes_, np.unique(labels))
            p = wrapped.predict_proba(X)
            predicted = wrapped.predict(X)
            assert predicted.dtype == labels.dtype
            np.testing.assert_array_equal(predicted, wrapped.classes_[np.argmax(p, axis=1)])
            assert (predicted == labels).mean() > 0.65
            event = int(np.flatnonzero(wrapped.classes_ == names[1])[0])
            assert p[y == 1, event].mean() > p[y == 0, event].mean()


def test_a_tie_at_one_half_goes_where_argmax_goes(model: LogisticRegression) -> None:
    X, _ = worlds.features(40)
    y = np.arange(40) % 2
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=1)).fit(X, y)
    p = wrapped.predict_proba(X)
    np.testing.assert_array_equal(p, 0.5)
    np.testing.assert_array_equal(wrapped.predict(X), wrapped.classes_[np.argmax(p, axis=1)])


@pytest.mark.parametrize("cv", ["prefit", 3])
def test_three_classes_are_refused(model: LogisticRegression, cv: Any) -> None:
    with pytest.raises(ValueError, match="binary"):
        CalibratedClassifier(model, PlattScaling(), cv=cv).fit(worlds.features()[0], np.arange(400) % 3)


def test_one_class_is_refused_where_the_model_is_fitted() -> None:
    with pytest.raises(ValueError, match="class"):
        CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3).fit(worlds.features()[0], np.zeros(400, int))


def test_one_class_is_warned_about_where_the_model_knows_both(model: LogisticRegression) -> None:
    X, _ = worlds.features()
    with pytest.warns(CalibrantWarning, match="only one class"):
        wrapped = CalibratedClassifier(model, PlattScaling()).fit(X, np.zeros(400, int))
    np.testing.assert_array_equal(wrapped.classes_, [0, 1])
    assert wrapped.predict_proba(X)[:, 1].max() < 0.01


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weights_reach_model_and_map() -> None:
    X, y = worlds.features()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 400)
    wrapped = CalibratedClassifier(CountsFits(), PlattScaling(), cv=3).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(CountsFits.weights, weight)  # the last fit is the one on all rows
    plain = CalibratedClassifier(CountsFits(), PlattScaling(), cv=3).fit(X, y)
    assert CountsFits.weights is None
    assert wrapped.calibrator_.map_ != plain.calibrator_.map_


def test_weights_reach_the_map_of_a_prefit_model(model: LogisticRegression) -> None:
    X, y = worlds.features()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 400)
    wrapped = CalibratedClassifier(model, PlattScaling()).fit(X, y, sample_weight=weight)
    tally = Tally.from_arrays(model.predict_proba(X)[:, 1], y, weight)
    assert wrapped.calibrator_.map_ == PlattScaling().fit_tally(tally).map_


# --- out of fold ------------------------------------------------------------------------------------------------------


def test_one_map_and_one_model_on_all_rows() -> None:
    X, y = worlds.features()
    CountsFits.fits = 0
    wrapped = CalibratedClassifier(CountsFits(), PlattScaling(), cv=3).fit(X, y)
    assert CountsFits.fits == 3 + 1
    np.testing.assert_allclose(wrapped.estimator_.inner_.coef_, LogisticRegression().fit(X, y).coef_)
    assert wrapped.calibrator_.provenance_.n == len(y)


def test_a_splitter_may_be_given() -> None:
    X, y = worlds.features()
    splitter = KFold(4, shuffle=True, random_state=0)
    scores = np.empty(400)
    for train, test in splitter.split(X):
        scores[test] = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    wrapped = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=splitter).fit(X, y)
    assert wrapped.calibrator_.map_ == IsotonicCalibrator().fit(scores, y).map_


def test_it_repairs_an_overconfident_model() -> None:
    X, y = worlds.features(3_000)
    X = np.repeat(X, 4, axis=1)  # naive Bayes counts every feature four times
    raw = GaussianNB().fit(X, y).predict_proba(X)[:, 1]
    wrapped = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=3).fit(X, y)
    assert wrapped.calibrator_.map_.slope < 0.5
    assert np.mean((wrapped.predict_proba(X)[:, 1] - y) ** 2) < np.mean((raw - y) ** 2)


# --- promises ---------------------------------------------------------------------------------------------------------


def test_prefit_binning_carries_a_certificate(model: LogisticRegression) -> None:
    X, y = worlds.features(1_000)
    promise = CalibratedClassifier(model, HistogramBinning(n_bins=5)).fit(X, y).certificate(alpha=0.1)
    assert isinstance(promise, Certificate)
    assert promise.alpha == 0.1
    assert 0.0 < promise.epsilon < 0.2


def test_the_calibrators_own_alpha_is_kept(model: LogisticRegression) -> None:
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=4, alpha=0.01)).fit(*worlds.features(1_000))
    assert wrapped.certificate().alpha == 0.01
    assert wrapped.certificate(0.2).alpha == 0.2


def test_out_of_fold_scores_carry_none() -> None:
    wrapped = CalibratedClassifier(LogisticRegression(), HistogramBinning(n_bins=5), cv=3).fit(*worlds.features())
    refusal = wrapped.certificate()
    assert isinstance(refusal, NoCertificate)
    assert "out-of-fold" in str(refusal)
    assert wrapped.calibrator_.provenance_.sampling == "out-of-fold"


def test_weighted_rows_carry_none(model: LogisticRegression) -> None:
    X, y = worlds.features()
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=5)).fit(X, y, sample_weight=np.full(400, 1.5))
    assert "weights" in str(wrapped.certificate())


# --- models without probabilities -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", ["prefit", 3])
def test_a_decision_function_is_enough(cv: Any) -> None:
    X, y = worlds.features()
    ridge = RidgeClassifier().fit(X, y)
    wrapped = CalibratedClassifier(ridge, PlattScaling(), cv=cv).fit(X, y)
    p = wrapped.predict_proba(X)[:, 1]
    assert wrapped.calibrator_.provenance_.score_type == "real"
    assert ((p > 0.0) & (p < 1.0)).all()
    np.testing.assert_array_equal(np.argsort(p, kind="stable"), np.argsort(ridge.decision_function(X), kind="stable"))


def test_nothing_is_fitted_before_fit(model: LogisticRegression) -> None:
    wrapped = CalibratedClassifier(model, PlattScaling())
    for call in (wrapped.predict, wrapped.predict_proba, lambda _: wrapped.certificate()):
        with pytest.raises(NotFittedError):
            call(worlds.features()[0])
