"""CalibratedClassifier: the model stays the user's, labels keep their names and order, promises are kept or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import get_tags
from tests import worlds

from calibrant import (
    AutoCalibrator,
    CalibrantWarning,
    CalibratedClassifier,
    Certificate,
    HistogramBinning,
    InputError,
    IsotonicCalibrator,
    NoCertificate,
    PlattScaling,
    SamplingCorrection,
    Tally,
    TemperatureScaling,
    load,
)
from calibrant.maps import StepMap, TopMap
from calibrant.multiclass import (
    MulticlassAutoCalibrator,
    Reduction,
    SimplexBinning,
    TopLabelHistogramBinning,
    VectorScaling,
)
from calibrant.notions import TopKConfidence


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
    wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, y)
    expected = PlattScaling().fit(model.predict_proba(X)[:, 1], y)
    np.testing.assert_array_equal(wrapped.predict_proba(X)[:, 1], expected.transform(model.predict_proba(X)[:, 1]))
    np.testing.assert_allclose(wrapped.predict_proba(X).sum(axis=1), 1.0)
    assert wrapped.calibrator_.map_ == expected.map_
    assert wrapped.n_features_in_ == 3


def test_prefit_is_never_refitted() -> None:
    X, y = worlds.features()
    model = CountsFits().fit(X, y)
    before, CountsFits.fits = model.inner_.coef_.copy(), 0
    wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X[:200], 1 - y[:200])
    wrapped.fit(X, y)
    assert CountsFits.fits == 0
    assert isinstance(wrapped.estimator_, FrozenEstimator)
    np.testing.assert_array_equal(model.inner_.coef_, before)


def test_prefit_asks_about_training_rows() -> None:
    X, y = worlds.features()
    model = RandomForestClassifier(20, random_state=0, n_jobs=1).fit(X[::2], y[::2])
    with pytest.warns(CalibrantWarning, match=r"a slope .*: was it trained on these rows\? .* cv=5"):
        wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X[::2], y[::2])
    assert [note.code for note in wrapped.notes_][:1] == ["fitted-on-training-rows"]
    held_out = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X[1::2], y[1::2])
    assert "fitted-on-training-rows" not in [note.code for note in held_out.notes_]
    html = held_out._repr_mimebundle_()["text/html"]
    assert "PlattScaling() fitted to" in html
    assert "RandomForestClassifier" in html


def test_prefit_survives_clone(model: LogisticRegression) -> None:
    X, y = worlds.features()
    wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit")
    copy = clone(wrapped)
    np.testing.assert_array_equal(copy.fit(X, y).predict_proba(X), wrapped.fit(X, y).predict_proba(X))
    assert not hasattr(clone(wrapped), "calibrator_")


def test_prefit_survives_cross_validation_and_search() -> None:
    X, y = worlds.features()
    model = CountsFits().fit(X, y)
    CountsFits.fits = 0
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=2), cv="prefit")
    assert np.isfinite(cross_val_score(wrapped, X, y, cv=3, scoring="neg_log_loss", error_score="raise")).all()
    search = GridSearchCV(
        wrapped, {"calibrator__n_bins": [2, 5]}, cv=3, scoring="neg_brier_score", error_score="raise"
    ).fit(X, y)
    assert search.best_params_["calibrator__n_bins"] == 5
    GridSearchCV(wrapped, {"calibrator": [PlattScaling(), IsotonicCalibrator()]}, cv=3, error_score="raise").fit(X, y)
    assert CountsFits.fits == 0


def test_a_frozen_model_is_taken_as_it_is(model: LogisticRegression) -> None:
    X, y = worlds.features()
    expected = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, y).predict_proba(X)
    frozen = CalibratedClassifier(FrozenEstimator(model), PlattScaling()).fit(X, y)
    np.testing.assert_array_equal(frozen.predict_proba(X), expected)


def test_prefit_refuses_a_model_that_is_not_fitted() -> None:
    with pytest.raises(NotFittedError, match=r"LogisticRegression is not fitted: fit it first .*, or pass cv=5"):
        CalibratedClassifier(LogisticRegression(), PlattScaling(), cv="prefit").fit(*worlds.features())
    with pytest.raises(NotFittedError, match=r"fit it first .*, or pass cv=5"):
        CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), PlattScaling(), cv="prefit").fit(
            *worlds.features()
        )
    CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=5).fit(*worlds.features())


def test_prefit_takes_a_pipeline_and_whatever_it_takes() -> None:
    X, y = worlds.features()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    wrapped = CalibratedClassifier(pipeline, PlattScaling(), cv="prefit").fit(X.tolist(), y.tolist())
    assert wrapped.predict_proba(X.tolist()).shape == (400, 2)


def test_prefit_refuses_labels_that_the_model_does_not_know(model: LogisticRegression) -> None:
    X, y = worlds.features()
    with pytest.raises(ValueError, match="class"):
        CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, np.where(y == 1, "yes", "no"))


def test_prefit_refuses_a_model_of_three_classes() -> None:
    X, y = worlds.features()
    three = LogisticRegression().fit(X, y + (X[:, 2] > 1))
    with pytest.raises(ValueError, match="binary"):
        CalibratedClassifier(three, PlattScaling(), cv="prefit").fit(X, y)


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
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=1), cv="prefit").fit(X, y)
    p = wrapped.predict_proba(X)
    np.testing.assert_array_equal(p, 0.5)
    np.testing.assert_array_equal(wrapped.predict(X), wrapped.classes_[np.argmax(p, axis=1)])


def test_a_third_class_is_refused_where_the_model_knows_two(model: LogisticRegression) -> None:
    with pytest.raises(InputError, match=r"y has the classes \[0, 1, 2\], but the fitted model has \[0, 1\]"):
        CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(worlds.features()[0], np.arange(400) % 3)


def test_one_class_is_refused_where_the_model_is_fitted() -> None:
    with pytest.raises(ValueError, match="class"):
        CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3).fit(worlds.features()[0], np.zeros(400, int))


def test_one_class_is_warned_about_where_the_model_knows_both(model: LogisticRegression) -> None:
    X, _ = worlds.features()
    with pytest.warns(CalibrantWarning, match="only one class"):
        wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, np.zeros(400, int))
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
    wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, y, sample_weight=weight)
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
    promise = CalibratedClassifier(model, HistogramBinning(n_bins=5), cv="prefit").fit(X, y).certificate(alpha=0.1)
    assert isinstance(promise, Certificate)
    assert promise.alpha == 0.1
    assert 0.0 < promise.epsilon < 0.2


def test_the_calibrators_own_alpha_is_kept(model: LogisticRegression) -> None:
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=4, alpha=0.01), cv="prefit").fit(
        *worlds.features(1_000)
    )
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
    wrapped = CalibratedClassifier(model, HistogramBinning(n_bins=5), cv="prefit").fit(
        X, y, sample_weight=np.full(400, 1.5)
    )
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
    wrapped = CalibratedClassifier(model, PlattScaling(), cv="prefit")
    for call in (wrapped.predict, wrapped.predict_proba, lambda _: wrapped.certificate()):
        with pytest.raises(NotFittedError):
            call(worlds.features()[0])


# --- no calibrator, and a correction ----------------------------------------------------------------------------------


def test_the_default_is_the_automatic_choice(model: LogisticRegression) -> None:
    X, y = worlds.features()
    wrapped = CalibratedClassifier(model, cv="prefit").fit(X, y)
    assert isinstance(wrapped.calibrator_, AutoCalibrator)
    scores = model.predict_proba(X)[:, 1]
    assert wrapped.calibrator_.map_ == AutoCalibrator().fit(scores, y).map_
    assert wrapped.get_params(deep=False)["calibrator"] is None
    assert "calibrator" in clone(wrapped).set_params(calibrator=PlattScaling()).get_params()


def test_a_sampling_correction_is_applied_as_it_is(model: LogisticRegression) -> None:
    X, y = worlds.features()
    fix = SamplingCorrection(kept_negatives=0.1)
    expected = fix.transform(model.predict_proba(X)[:, 1])
    wrapped = CalibratedClassifier(model, fix, cv="prefit").fit(X, y)
    np.testing.assert_array_equal(wrapped.predict_proba(X)[:, 1], expected)
    np.testing.assert_array_equal(clone(wrapped).fit(X, y).predict_proba(X)[:, 1], expected)
    assert wrapped.notes_ == ()
    assert isinstance(wrapped.certificate(), NoCertificate)


def test_with_a_correction_the_model_is_trained_once() -> None:
    X, y = worlds.features()
    CountsFits.fits = 0
    fix = SamplingCorrection(class_weight=3.0)
    wrapped = CalibratedClassifier(CountsFits(), fix, cv=5).fit(X, y)
    assert CountsFits.fits == 1
    plain = LogisticRegression().fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_array_equal(wrapped.predict_proba(X)[:, 1], fix.transform(plain))
    with pytest.raises(InputError, match="needs a model with predict_proba"):
        CalibratedClassifier(RidgeClassifier(), fix, cv=5).fit(X, y)
    with pytest.raises(InputError, match="ensemble needs folds, and does not go with SamplingCorrection"):
        CalibratedClassifier(CountsFits(), fix, cv=5, ensemble=True).fit(X, y)


# --- several classes --------------------------------------------------------------------------------------------------


def three(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three features and three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X + rng.gumbel(size=X.shape)).argmax(axis=1)


MATRIX = [
    VectorScaling(),
    TemperatureScaling(),
    MulticlassAutoCalibrator(),
    Reduction("class-wise", PlattScaling(), normalized=True),
    SimplexBinning(),
]


@pytest.mark.parametrize("calibrator", MATRIX, ids=repr)
def test_a_matrix_is_mapped_as_by_hand(calibrator: Any) -> None:
    X, y = three()
    train, rest = (X[:200], y[:200]), (X[200:], y[200:])
    model = LogisticRegression(C=100.0).fit(*train)
    wrapped = CalibratedClassifier(model, calibrator, cv="prefit").fit(*rest)
    by_hand = clone(calibrator).fit(model.predict_proba(rest[0]), rest[1])
    p = wrapped.predict_proba(X)
    np.testing.assert_array_equal(p, by_hand.predict_proba(model.predict_proba(X)))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(wrapped.predict(X), wrapped.classes_[p.argmax(axis=1)])
    assert wrapped.calibrator_.provenance_.sampling == "independent"


def test_several_classes_out_of_fold() -> None:
    X, y = three()
    words = np.array(["red", "green", "blue"])[y]
    wrapped = CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=3).fit(X, words)
    scores = cross_val_predict(LogisticRegression(), X, words, cv=3, method="predict_proba")
    assert wrapped.classes_.tolist() == ["blue", "green", "red"]
    assert wrapped.calibrator_.map_ == TemperatureScaling().fit(scores, words).map_
    assert wrapped.calibrator_.map_.classes == ("blue", "green", "red")
    assert (wrapped.predict(X) == words).mean() > 0.5
    assert "out-of-fold" in str(wrapped.certificate())


def test_the_default_for_several_classes_is_automatic_too() -> None:
    X, y = three()
    wrapped = CalibratedClassifier(LogisticRegression(), cv=3).fit(X, y)
    assert isinstance(wrapped.calibrator_, MulticlassAutoCalibrator)
    np.testing.assert_allclose(wrapped.predict_proba(X).sum(axis=1), 1.0)


def test_labels_of_every_type(subtests) -> None:
    X, y = three(200)
    for names in [("a", "b", "c"), ("c", "a", "b"), (3, 1, 2), (-1, 0, 7), (2.0, 1.0, 3.0)]:
        with subtests.test(names=names):
            labels = np.array(names)[y]
            wrapped = CalibratedClassifier(LogisticRegression(), VectorScaling(), cv=2).fit(X, labels)
            np.testing.assert_array_equal(wrapped.classes_, np.unique(labels))
            assert wrapped.predict(X).dtype == labels.dtype
            assert (wrapped.predict(X) == labels).mean() > 0.5


def test_two_classes_as_a_matrix(model: LogisticRegression) -> None:
    X, y = worlds.features()
    wrapped = CalibratedClassifier(model, VectorScaling(), cv="prefit").fit(X, y)
    by_hand = VectorScaling().fit(model.predict_proba(X), y)
    np.testing.assert_array_equal(wrapped.predict_proba(X), by_hand.predict_proba(model.predict_proba(X)))


@pytest.mark.parametrize("cv", ["prefit", 3])
def test_decision_functions_of_two_and_more_classes_are_logits(cv: Any) -> None:
    X, y = three()
    for labels in (y, y % 2):
        ridge = RidgeClassifier().fit(X, labels)
        wrapped = CalibratedClassifier(ridge, VectorScaling(), cv=cv).fit(X, labels)
        assert wrapped.calibrator_.provenance_.score_type == "logit"
        assert (wrapped.predict(X) == ridge.predict(X)).mean() > 0.9
    svc = SVC(decision_function_shape="ovo").fit(X[:, :2], np.arange(len(X)) % 4)
    with pytest.raises(InputError, match="estimator returns 6 columns for 4 classes: pass a model with one column"):
        CalibratedClassifier(svc, VectorScaling(), cv="prefit").fit(X[:, :2], np.arange(len(X)) % 4)


def test_a_map_of_the_top_class_keeps_the_models_class_and_shares_the_rest() -> None:
    X, y = three(1_500)
    model = LogisticRegression(C=100.0).fit(X[:300], y[:300])
    wrapped = CalibratedClassifier(model, TopLabelHistogramBinning(n_bins=2), cv="prefit").fit(X[300:], y[300:])
    p, raw = wrapped.predict_proba(X), model.predict_proba(X)
    top = raw.argmax(axis=1)
    np.testing.assert_array_equal(wrapped.predict(X), model.classes_[top])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    rows = np.arange(len(X))
    np.testing.assert_array_equal(p[rows, top], wrapped.calibrator_.transform(raw)[:, 0])
    second, third = np.argsort(raw, axis=1)[:, 1], np.argsort(raw, axis=1)[:, 0]
    np.testing.assert_allclose(p[rows, second] / p[rows, third], raw[rows, second] / raw[rows, third])
    assert isinstance(wrapped.certificate(0.1), Certificate)


def test_shares_of_classes_to_which_the_model_gives_nothing_are_equal() -> None:
    top = TopMap(("a", "b", "c"), 1, (StepMap([], [0.6]),), "probability")
    np.testing.assert_allclose(top.of_every_class([[0.0, 1.0, 0.0]]), [[0.2, 0.6, 0.2]])


def test_maps_of_several_ranks_are_refused_since_they_can_sum_to_more_than_one() -> None:
    both = TopMap(("a", "b"), 2, (StepMap([], [0.8]), StepMap([], [0.6])), "logit")
    with pytest.raises(ValueError, match="2 ranks can sum to more than 1"):
        both.of_every_class([[0.0, 1.0]])
    X, y = three(60)
    with pytest.raises(InputError, match=r"^calibrator has separate maps of the 2 most likely classes"):
        CalibratedClassifier(LogisticRegression(), Reduction(TopKConfidence(2), HistogramBinning()), cv=3).fit(X, y)


def test_a_class_that_some_fold_was_not_trained_on_has_probability_zero_there() -> None:
    X, y = three(60)
    y[y == 2] = 0
    y[:2] = 2
    folds = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]
    wrapped = CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=folds).fit(X, y)
    assert wrapped.classes_.tolist() == [0, 1, 2]
    assert np.isfinite(wrapped.predict_proba(X)).all()
    with pytest.raises(InputError, match=r"cv has a fold whose training rows lack the class 2.*: lower cv"):
        CalibratedClassifier(RidgeClassifier(), TemperatureScaling(), cv=folds).fit(X, y)


def test_weights_and_groups_reach_a_map_of_classes() -> None:
    X, y = three(300)
    model = LogisticRegression().fit(X, y)
    weight, groups = np.random.default_rng(1).uniform(0.5, 2.0, 300), np.arange(300) // 3
    wrapped = CalibratedClassifier(model, VectorScaling(), cv="prefit").fit(X, y, weight, groups=groups)
    by_hand = VectorScaling().fit(model.predict_proba(X), y, weight)
    np.testing.assert_array_equal(wrapped.calibrator_.map_.intercept, by_hand.map_.intercept)
    assert wrapped.calibrator_.provenance_.sampling == "grouped"


def test_several_classes_are_said_to_be_possible_where_they_are() -> None:
    for calibrator, many in ((None, True), (VectorScaling(), True), (PlattScaling(), False)):
        tags = get_tags(CalibratedClassifier(LogisticRegression(), calibrator, cv=3))
        assert tags.classifier_tags.multi_class is many


class AsFirstSeen(CountsFits):
    """A logistic regression that lists its classes in another order for some training rows than for others."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AsFirstSeen:
        super().fit(X, y, sample_weight)
        self.order_ = [1, 0] if self.always or y[0] == 1 else [0, 1]
        self.classes_ = self.inner_.classes_[self.order_]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.inner_.predict_proba(X)[:, self.order_]

    def __init__(self, always: bool = True) -> None:
        self.always = always


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("ensemble", [True, False])
def test_the_order_in_which_a_model_lists_its_classes_does_not_matter(ensemble: bool, always: bool) -> None:
    X, y = worlds.features(400, seed=3)
    y = np.asarray(y).astype(int)
    found = CalibratedClassifier(AsFirstSeen(always), PlattScaling(), cv=KFold(7), ensemble=ensemble).fit(X, y)
    plain = CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=KFold(7), ensemble=ensemble).fit(X, y)
    of_events = found.predict_proba(X)[:, found.classes_.tolist().index(1)]
    np.testing.assert_allclose(of_events, plain.predict_proba(X)[:, 1], atol=1e-6)


@pytest.mark.parametrize("cv", ["prefit", 3])
@pytest.mark.parametrize("names", [["b", "a"], ["c", "a", "b"]])
def test_a_correction_by_class_finds_its_classes_in_the_model(names: list[str], cv: Any) -> None:
    X, y = three(200)
    labels = np.array(sorted(names))[y % len(names)]
    weights = {name: 1.0 + 4.0 * place for place, name in enumerate(names)}
    model = LogisticRegression().fit(X, labels)
    wrapped = CalibratedClassifier(model, SamplingCorrection(class_weight=weights), cv=cv).fit(X, labels)
    expected = model.predict_proba(X) / [weights[name] for name in model.classes_]
    np.testing.assert_allclose(wrapped.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-8)
    assert get_tags(wrapped).classifier_tags.multi_class
    with pytest.raises(InputError, match=r"^calibrator is for the classes x, y, but the model has a, b"):
        CalibratedClassifier(model, SamplingCorrection(class_weight={"x": 1.0, "y": 2.0}), cv=cv).fit(X, labels)


def test_folds_are_trained_in_parallel_with_the_same_result(subtests):
    from joblib import parallel_config

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, "yes", "no")
    for ensemble in (False, True):
        with subtests.test(ensemble=ensemble):
            how = {"cv": 3, "ensemble": ensemble}
            one = CalibratedClassifier(LogisticRegression(), PlattScaling(), **how).fit(X, y)
            with parallel_config(backend="threading"):
                two = CalibratedClassifier(LogisticRegression(), PlattScaling(), **how, n_jobs=2).fit(X, y)
            np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
            listed = CalibratedClassifier(LogisticRegression(), PlattScaling(), **how).fit(X, y.tolist())
            assert listed.classes_.dtype == one.classes_.dtype, "as the bare model has it, not object"
    for wrong in (0, 1.5, "all"):
        with pytest.raises(InputError, match="n_jobs must be an integer other than 0"):
            CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3, n_jobs=wrong).fit(X, y)


# --- by default -------------------------------------------------------------------------------------------------------


def test_the_default_is_five_folds_and_works_where_a_classifier_does() -> None:
    X, y = worlds.features(300)
    bare = CalibratedClassifier(CountsFits(), PlattScaling())
    CountsFits.fits = 0
    fitted = bare.fit(X, y)
    assert CountsFits.fits == 6
    assert len(cross_val_score(CalibratedClassifier(LogisticRegression(), PlattScaling()), X, y, cv=3)) == 3
    same = CalibratedClassifier(CountsFits(), PlattScaling(), cv=5).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), same.predict_proba(X))
    grid = GridSearchCV(bare, {"calibrator": [PlattScaling(), IsotonicCalibrator()]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0.5
    inside = make_pipeline(StandardScaler(), clone(bare)).fit(X, y)
    assert inside.predict_proba(X).shape == (300, 2)


def test_a_fitted_model_is_trained_again_by_default_with_a_warning(model: LogisticRegression) -> None:
    X, y = worlds.features(300)
    with pytest.warns(CalibrantWarning) as caught:
        fitted = CalibratedClassifier(model, PlattScaling()).fit(X, y)
    assert [each.message.note.code for each in caught] == ["fitted-model-retrained"]
    assert fitted.notes_[0].code == "fitted-model-retrained"
    assert not np.array_equal(fitted.estimator_.coef_, model.coef_)
    for kept in (CalibratedClassifier(FrozenEstimator(model)), CalibratedClassifier(model, cv="prefit")):
        np.testing.assert_array_equal(kept.fit(X, y).estimator_.coef_, model.coef_)
    assert CalibratedClassifier(model, PlattScaling(), cv=5).fit(X, y).notes_ == ()


def test_the_map_of_a_classifier_is_saved(model: LogisticRegression, tmp_path: Any) -> None:
    X, y = worlds.features(300)
    fitted = CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, y)
    fitted.save(tmp_path / "map.json")
    scores = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(load(tmp_path / "map.json").transform(scores), fitted.predict_proba(X)[:, 1])
    several = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=3, ensemble=True).fit(X, y)
    with pytest.raises(InputError) as refused:
        several.save(tmp_path / "maps.json")
    assert refused.value.argument == "path"
