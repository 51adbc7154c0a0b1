"""Cross Venn-Abers: the merge by hand, folds of its own and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from tests import worlds

from calibrant import Calibration, InputError, NoCertificate, VennAbers, load
from calibrant.calibrators.cross_venn_abers import CrossVennAbers
from calibrant.fits.venn_abers import merged_pairs


class FirstColumn(ClassifierMixin, BaseEstimator):
    """A model that gives out the first column, whatever it is fitted to."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FirstColumn:
        self.classes_ = np.unique(y)
        self.weight_ = sample_weight
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        first = np.asarray(X)[:, 0]
        return np.column_stack([1.0 - first, first])


def test_pairs_are_merged_by_geometric_means():
    # folds (0.2, 0.5) and (0.6, 0.8): q0 = sqrt(0.8 * 0.4), p1 = sqrt(0.5 * 0.8), p = p1 / (q0 + p1)
    p0, p1, point = merged_pairs(np.array([[0.2], [0.6]]), np.array([[0.5], [0.8]]))
    assert p0[0] == pytest.approx(1 - 0.32**0.5, abs=1e-15)
    assert p1[0] == pytest.approx(0.4**0.5, abs=1e-15)
    assert point[0] == pytest.approx(0.4**0.5 / (0.32**0.5 + 0.4**0.5), abs=1e-15)


def test_folds_that_agree_give_the_inductive_forecast():
    # both folds hold the rows 0, 1, 0, 1 at 0.1 to 0.4, for which 0.25 has the pair 1/3, 2/3
    X = np.tile([[0.1], [0.2], [0.3], [0.4]], (2, 1))
    y = np.tile([0, 1, 0, 1], 2)
    model = CrossVennAbers(FirstColumn(), cv=KFold(2)).fit(X, y)
    alone = VennAbers().fit(X[:4, 0], y[:4])
    probes = np.linspace(0.0, 1.0, 41)[:, np.newaxis]
    np.testing.assert_allclose(model.predict_proba(probes)[:, 1], alone.transform(probes[:, 0]), rtol=0, atol=1e-15)
    for merged, one in zip(model.pair(probes), alone.interval(probes[:, 0]), strict=True):
        np.testing.assert_allclose(merged, one, rtol=0, atol=1e-15)
    assert model.pair([[0.25]])[0][0] == pytest.approx(1 / 3, abs=1e-15)


def test_each_fold_calibrates_the_model_that_did_not_see_it():
    X, y = worlds.features()
    model = CrossVennAbers(GaussianNB(), cv=3).fit(X, y)
    pairs = []
    for train, test in StratifiedKFold(3).split(X, y):
        inner = GaussianNB().fit(X[train], y[train])
        held = VennAbers().fit(inner.predict_proba(X[test])[:, 1], y[test])
        pairs.append(held.interval(inner.predict_proba(X)[:, 1]))
    p0, p1 = (np.array(each) for each in zip(*pairs, strict=True))
    q0, q1 = (1 - p0).prod(axis=0) ** (1 / 3), p1.prod(axis=0) ** (1 / 3)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], q1 / (q0 + q1), rtol=0, atol=1e-12)
    assert len(model.estimators_) == len(model.calibrators_) == 3


def test_counts_are_repetition_for_models_and_maps():
    X, y = worlds.features(120)
    counts = np.random.default_rng(3).integers(0, 4, 120)
    groups = np.arange(120) % 3
    repeated = np.repeat(np.arange(120), counts)
    whole = CrossVennAbers(GaussianNB(), cv=list(GroupKFold(3).split(X, y, groups)), weight_type="frequency")
    again = clone(whole).set_params(cv=list(GroupKFold(3).split(X[repeated], y[repeated], groups[repeated])))
    weighted = whole.fit(X, y, counts).predict_proba(X)[:, 1]
    np.testing.assert_allclose(weighted, again.fit(X[repeated], y[repeated]).predict_proba(X)[:, 1], atol=1e-9)


def test_weights_of_the_training_rows_reach_the_model():
    X, y = worlds.features(60)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    X[:, 0] = np.random.default_rng(2).random(60)
    model = CrossVennAbers(FirstColumn(), cv=KFold(2)).fit(X, y, weight)
    np.testing.assert_array_equal(model.estimators_[0].weight_, weight[30:])
    assert model.calibrators_[0].provenance_.n == pytest.approx(weight[:30].sum())
    assert CrossVennAbers(FirstColumn(), cv=KFold(2)).fit(X, y).estimators_[0].weight_ is None


def test_labels_keep_their_names_and_order(subtests):
    for names in [("no", "yes"), ("yes", "no"), (-1, 1), (False, True)]:
        with subtests.test(names=names):
            X, y = worlds.features()
            labels = np.array(names)[y]
            model = CrossVennAbers(LogisticRegression()).fit(X, labels)
            np.testing.assert_array_equal(model.classes_, np.unique(labels))
            p = model.predict_proba(X)
            assert ((p > 0.0) & (p < 1.0)).all()
            np.testing.assert_allclose(p.sum(axis=1), 1.0)
            assert (model.predict(X) == labels).mean() > 0.65


def test_a_decision_function_and_sparse_rows_are_enough():
    X, y = worlds.features()
    dense = CrossVennAbers(RidgeClassifier()).fit(X, y)
    assert dense.calibrators_[0].provenance_.score_type == "real"
    for sparse in (csr_matrix, csc_matrix):
        p = CrossVennAbers(LogisticRegression()).fit(sparse(X), y).predict_proba(sparse(X))
        assert p.shape == (400, 2)


def test_folds_that_disagree_cross_their_pair():
    # two heaps in which the halves see opposite labels: each half is sure of the other's opposite
    X = np.full((200, 1), 0.5)
    y = np.r_[np.zeros(90), np.ones(10), np.ones(90), np.zeros(10)].astype(int)
    p0, p1 = CrossVennAbers(FirstColumn(), cv=KFold(2)).fit(X, y).pair([[0.5]])
    assert p0[0] > p1[0]


def test_what_cannot_be_fitted_is_refused():
    X = worlds.features(40)[0]
    with pytest.raises(InputError, match=r"y has 3 classes, .* binary .*: pass the model to CalibratedClassifier"):
        CrossVennAbers(LogisticRegression()).fit(X, np.arange(40) % 3)
    with pytest.raises(ValueError, match="only one class"):
        CrossVennAbers(LogisticRegression()).fit(X, np.zeros(40, int))
    with pytest.raises(ValueError, match="lower cv"):
        CrossVennAbers(LogisticRegression(), cv=KFold(2)).fit(X, np.repeat([0, 1], 20))
    for call in (CrossVennAbers(LogisticRegression()).predict, CrossVennAbers(LogisticRegression()).pair):
        with pytest.raises(NotFittedError):
            call(X)


def test_no_certificate_is_issued():
    refusal = CrossVennAbers(LogisticRegression()).fit(*worlds.features()).certificate(0.1)
    assert isinstance(refusal, NoCertificate)
    assert "loses the guarantee of each fold" in str(refusal)


def test_either_probability_of_an_inductive_forecast_can_be_stored(tmp_path):
    cal = VennAbers().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    for name, step in (("p0", cal.p0_), ("p1", cal.p1_)):
        Calibration(step, cal.provenance_).save(tmp_path / f"{name}.json")
    found = [load(tmp_path / f"{name}.json").transform([0.25, 0.4]) for name in ("p0", "p1")]
    np.testing.assert_array_equal(found, cal.interval([0.25, 0.4]))


def test_a_fold_that_calibrates_on_rows_of_its_model_is_refused():
    rng = np.random.default_rng(0)
    X, y, ids = rng.normal(size=(60, 2)), np.arange(60) % 2, np.arange(60)
    with pytest.raises(ValueError, match="use disjoint sets"):
        CrossVennAbers(LogisticRegression(), cv=[(ids, ids)]).fit(X, y)


class Moody(ClassifierMixin, BaseEstimator):
    """A model that lists its classes in another order at every other fit."""

    fits = 0

    def fit(self, X, y):
        Moody.fits += 1
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = np.unique(y)[:: 1 if Moody.fits % 2 else -1]
        return self

    def predict_proba(self, X):
        p = self.inner_.predict_proba(X)
        return p if self.classes_[0] == self.inner_.classes_[0] else p[:, ::-1]


def test_models_of_folds_may_list_their_classes_in_different_orders():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    moody, plain = (CrossVennAbers(one, cv=4).fit(X, y) for one in (Moody(), LogisticRegression()))
    assert {tuple(model.classes_) for model in moody.estimators_} == {("no", "yes"), ("yes", "no")}
    assert moody.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(moody.predict_proba(X), plain.predict_proba(X))
