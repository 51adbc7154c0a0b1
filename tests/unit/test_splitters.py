"""Folds, ensembles, groups and arguments of CalibratedClassifier and CrossVennAbers, as in scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests import worlds

from calibrant import (
    AutoCalibrator,
    CalibrantWarning,
    CalibratedClassifier,
    HistogramBinning,
    InputError,
    IsotonicCalibrator,
    NoCertificate,
    PlattScaling,
    TemperatureScaling,
)
from calibrant.calibrators import CrossVennAbers
from calibrant.multiclass import VectorScaling


class Recorder(ClassifierMixin, BaseEstimator):
    """Naive Bayes that keeps the arguments of every fit."""

    given: ClassVar[list[dict[str, Any]]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, mode: Any = None) -> Recorder:
        self.given.append({"n": len(X), "weight": sample_weight, "offset": offset, "mode": mode})
        self.inner_ = GaussianNB().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.inner_.predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        return self.inner_.predict(X)


@pytest.fixture(autouse=True)
def _forget() -> None:
    Recorder.given.clear()


# --- splitters --------------------------------------------------------------------------------------------------------


def test_rows_before_the_first_period_have_no_score_and_are_left_out() -> None:
    X, y = worlds.features(400)
    splitter = TimeSeriesSplit(3)
    scores, held = np.empty(400), []
    for train, test in splitter.split(X):
        scores[test] = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        held.append(test)
    rows = np.concatenate(held)
    model = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=splitter).fit(X, y)
    assert model.calibrator_.map_ == PlattScaling().fit(scores[rows], y[rows]).map_
    assert model.calibrator_.provenance_.n == 300
    assert model.notes_[0].code == "rows-without-score"
    assert str(model.notes_[0]).startswith("100 of 400 rows are never held out by cv")
    assert "out-of-fold" in str(model.certificate())
    np.testing.assert_allclose(model.estimator_.theta_, GaussianNB().fit(X, y).theta_)  # the model has all rows


def test_periods_of_several_classes_and_with_the_default() -> None:
    p, y = worlds.classes(600)
    model = CalibratedClassifier(LogisticRegression(), cv=TimeSeriesSplit(4)).fit(np.log(p), y)
    assert model.notes_[0].values["left_out"] == 120
    assert model.predict_proba(np.log(p)).shape == (600, 3)


def test_no_row_without_a_score_means_no_note() -> None:
    assert not CalibratedClassifier(GaussianNB(), PlattScaling(), cv=3).fit(*worlds.features()).notes_


def test_groups_reach_the_splitter() -> None:
    X, y = worlds.features()
    groups = np.arange(400) // 4
    by_hand = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    model = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert model.calibrator_.map_ == by_hand.calibrator_.map_
    folds = list(StratifiedGroupKFold(3).split(X, y, groups))
    stratified = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=folds).fit(X, y)
    model = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=3).fit(X, y, groups=groups)
    assert model.calibrator_.map_ == stratified.calibrator_.map_
    venn = CrossVennAbers(GaussianNB(), cv=GroupKFold(3)).fit(X, y, groups=groups.tolist())
    assert len(venn.estimators_) == 3


def test_groups_reach_the_folds_of_an_automatic_choice() -> None:
    X, y = worlds.features()
    groups = np.arange(400) // 4
    folds = list(GroupKFold(3).split(X, y, groups))
    scores = np.empty(400)
    for train, test in folds:
        scores[test] = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    model = CalibratedClassifier(GaussianNB(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    by_hand = AutoCalibrator().fit(scores, y, groups=groups)
    assert model.calibrator_.after_ == by_hand.after_
    assert model.calibrator_.map_ == by_hand.map_


def test_groups_take_the_certificate_of_a_prefit_model() -> None:
    X, y = worlds.features()
    model = LogisticRegression().fit(*worlds.features(100, seed=9))
    binned = CalibratedClassifier(model, HistogramBinning(n_bins=4), cv="prefit")
    assert binned.fit(X, y).certificate()
    assert "same group" in str(binned.fit(X, y, groups=np.arange(400) // 4).certificate())


def test_groups_that_cannot_be_used_are_refused_before_anything_is_trained() -> None:
    X, y = worlds.features()
    model = CalibratedClassifier(Recorder(), PlattScaling(), cv=GroupKFold(3))
    with pytest.raises(InputError, match="groups is missing, and GroupKFold needs it: pass groups= to fit"):
        model.fit(X, y)
    with pytest.raises(InputError, match="groups has 3 rows but y has 400"):
        model.fit(X, y, groups=[1, 2, 3])
    with pytest.raises(InputError, match="cv uses rows of one group both for a model and for its calibrator"):
        model.set_params(cv=KFold(3, shuffle=True, random_state=0)).fit(X, y, groups=np.arange(400) // 4)
    assert Recorder.given == []


# --- ensembles --------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_the_mean_of_calibrated_models() -> None:
    X, y = worlds.features()
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=3, ensemble=True).fit(X, y)
    parts = []
    for train, test in StratifiedKFold(3).split(X, y):
        inner = GaussianNB().fit(X[train], y[train])
        held = IsotonicCalibrator().fit(inner.predict_proba(X[test])[:, 1], y[test])
        parts.append(held.transform(inner.predict_proba(X)[:, 1]))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], np.mean(parts, axis=0), atol=1e-15)
    assert len(model.estimators_) == len(model.calibrators_) == 3
    assert not hasattr(model, "estimator_")
    assert model.n_features_in_ == 3
    assert isinstance(model.certificate(), NoCertificate)
    assert "means over several models" in str(model.certificate())
    assert "out-of-fold" in str(model.calibrators_[0].certificate())


def test_an_ensemble_is_close_to_that_of_scikit_learn() -> None:
    X, y = worlds.features()
    ours = CalibratedClassifier(LogisticRegression(), PlattScaling(soft_targets=True), cv=5, ensemble=True).fit(X, y)
    theirs = CalibratedClassifierCV(LogisticRegression(), method="sigmoid", cv=5, ensemble=True).fit(X, y)
    # theirs fits the log-odds, as ours does, with the same soft targets
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize(
    "cv", [ShuffleSplit(3, random_state=0), RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)]
)
def test_rows_may_be_held_out_several_times_by_an_ensemble(cv: Any) -> None:
    X, y = worlds.features()
    model = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=cv, ensemble=True).fit(X, y)
    assert len(model.estimators_) == cv.get_n_splits()


def test_an_ensemble_of_several_classes() -> None:
    p, y = worlds.classes(500)
    words = np.array(["b", "c", "a"])[y]
    model = CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=3, ensemble=True).fit(np.log(p), words)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict_proba(np.log(p)).sum(axis=1), 1.0)
    assert (model.predict(np.log(p)) == words).mean() > 0.5


def test_an_ensemble_needs_folds() -> None:
    X, y = worlds.features()
    with pytest.raises(InputError, match="ensemble needs folds, and does not go with a fitted model: leave it out"):
        CalibratedClassifier(GaussianNB().fit(X, y), PlattScaling(), ensemble=True, cv="prefit").fit(X, y)


def test_a_second_fit_forgets_the_first() -> None:
    X, y = worlds.features()
    model = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=3, ensemble=True).fit(X, y)
    model.set_params(ensemble=False).fit(X, y)
    assert not hasattr(model, "estimators_")
    assert clone(model).get_params()["ensemble"] is False


# --- weights and other arguments --------------------------------------------------------------------------------------


def test_weights_go_to_the_last_step_of_a_pipeline() -> None:
    X, y = worlds.features()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 400)
    for model in (
        make_pipeline(StandardScaler(), Recorder()),
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Recorder())),
        GridSearchCV(make_pipeline(Recorder()), {}, cv=2),
    ):
        Recorder.given.clear()
        CalibratedClassifier(model, PlattScaling(), cv=2).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(Recorder.given[-1]["weight"], weight)


def test_a_model_without_weights_is_fitted_without_and_it_is_said() -> None:
    X, y = worlds.features()
    weight = np.where(y == 1, 3.0, 1.0)
    for model in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        wrapped = CalibratedClassifier(model, PlattScaling(), cv=3)
        with pytest.warns(CalibrantWarning, match="takes no sample_weight: weights are used for the map alone"):
            wrapped.fit(X, y, sample_weight=weight)
        assert wrapped.calibrator_.provenance_.weight_type == "importance"


def test_further_arguments_reach_the_model_and_are_split_with_the_rows() -> None:
    X, y = worlds.features()
    offset = np.arange(400)
    CalibratedClassifier(Recorder(), PlattScaling(), cv=KFold(2)).fit(X, y, offset=offset, mode="slow")
    np.testing.assert_array_equal(Recorder.given[0]["offset"], offset[200:])
    np.testing.assert_array_equal(Recorder.given[-1]["offset"], offset)
    assert {each["mode"] for each in Recorder.given} == {"slow"}
    with pytest.raises(InputError, match="mode is for the fit of the model, which is already fitted: leave it out"):
        CalibratedClassifier(Recorder().fit(X, y), PlattScaling(), cv="prefit").fit(X, y, mode="slow")


def test_metadata_is_routed() -> None:
    X, y = worlds.features()
    weight, groups = np.random.default_rng(1).uniform(0.5, 2.0, 400), np.arange(400) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        inner = make_pipeline(StandardScaler(), Recorder().set_fit_request(sample_weight=True, offset=True))
        inner[0].set_fit_request(sample_weight=False)
        model = CalibratedClassifier(inner, PlattScaling(), cv=GroupKFold(3))
        model.fit(X, y, sample_weight=weight, groups=groups, offset=np.arange(400))
        np.testing.assert_array_equal(Recorder.given[-1]["weight"], weight)
        np.testing.assert_array_equal(Recorder.given[-1]["offset"], np.arange(400))
        assert model.calibrator_.provenance_.weight_type == "importance"
        routed = model.set_fit_request(sample_weight=True, groups=True)
        found = cross_validate(
            clone(routed),
            X,
            y,
            cv=GroupKFold(2),
            params={"sample_weight": weight, "groups": groups},
            scoring=get_scorer("accuracy").set_score_request(sample_weight=False),
            error_score="raise",
        )
        assert (found["test_score"] > 0.6).all()
        refused = CalibratedClassifier(Recorder(), PlattScaling(), cv=3)
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            refused.fit(X, y, sample_weight=weight)


def test_a_clone_of_a_prefit_model_keeps_its_requests() -> None:
    X, y = worlds.features()
    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedClassifier(GaussianNB().fit(X, y), VectorScaling(), cv="prefit").set_fit_request(
            sample_weight=True
        )
        assert clone(model).get_metadata_routing()._self_request.fit.requests["sample_weight"] is True
