"""Forecasters behind models of scikit-learn and river."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier

from calibrant import InputError
from calibrant.online import CalibratedRegression, OnlineClassifier, OnlinePlatt, OnlineTemperature, Tracking


def rows(n: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.5, "yes", "no")


def test_a_batch_is_scored_before_the_model_learns_it() -> None:
    X, y = rows()
    model = OnlineClassifier(SGDClassifier(loss="log_loss", random_state=0))
    plain = SGDClassifier(loss="log_loss", random_state=0)
    by_hand = OnlinePlatt()
    for i, part in enumerate(np.split(np.arange(1200), 12)):
        if i:
            by_hand.learn_many(plain.predict_proba(X[part])[:, 1], y[part] == "yes")
        plain.partial_fit(X[part], y[part], classes=["no", "yes"])
        model.partial_fit(X[part], y[part], classes=["no", "yes"])
    assert model.forecaster_.state == by_hand.state
    want = by_hand.predict_many(plain.predict_proba(X)[:, 1])
    assert model.predict_proba(X)[:, 1].tolist() == want.tolist()
    assert set(model.predict(X)) == {"no", "yes"}


def test_a_prefit_model_stays_as_it_is() -> None:
    X, y = rows()
    fitted = LogisticRegression().fit(X[:300], y[:300])
    before = fitted.coef_.copy()
    forecaster = Tracking(OnlinePlatt())
    model = OnlineClassifier(fitted, forecaster, prefit=True).fit(X[300:600], y[300:600]).partial_fit(X[600:], y[600:])
    assert model.forecaster_.n_rows == 900
    assert forecaster.n_rows == 0
    assert (fitted.coef_ == before).all()
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(X) == model.predict_proba(X)).all()


def test_a_prefit_model_answers_before_the_first_outcome() -> None:
    X, y = rows()
    fitted = LogisticRegression().fit(X[:300], y[:300])
    model = OnlineClassifier(fitted, prefit=True)
    np.testing.assert_allclose(model.predict_proba(X), fitted.predict_proba(X), atol=1e-12)
    assert (model.predict(X) == fitted.predict(X)).all()
    assert not hasattr(model, "forecaster_")
    with pytest.raises(NotFittedError):
        OnlineClassifier(SGDClassifier()).predict_proba(X)
    with pytest.raises(NotFittedError):
        OnlineClassifier(LogisticRegression(), prefit=True).predict_proba(X)


@pytest.mark.parametrize("model", [LogisticRegression(), SGDClassifier(loss="log_loss", random_state=0)])
def test_a_frozen_model_is_prefit_and_survives_a_clone(model) -> None:  # type: ignore[no-untyped-def]
    X, y = rows()
    frozen = FrozenEstimator(model.fit(X[:300], y[:300]))
    before = model.coef_.copy()
    calibrated = clone(OnlineClassifier(frozen)).fit(X[300:], y[300:])
    assert calibrated.forecaster_.n_rows == 900
    assert (model.coef_ == before).all()


def test_margins_enter_as_their_expit() -> None:
    X, y = rows()
    model = OnlineClassifier(SGDClassifier(loss="hinge", random_state=0))
    for part in np.split(np.arange(1200), 12):
        model.partial_fit(X[part], y[part], classes=["no", "yes"])
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_mistakes_are_told() -> None:
    X, y = rows()
    with pytest.raises(InputError, match=r"LogisticRegression has no partial_fit.*prefit=True"):
        OnlineClassifier(LogisticRegression()).partial_fit(X, y)
    with pytest.raises(ValueError, match="there is 1 class"):
        OnlineClassifier(SGDClassifier()).partial_fit(X, np.repeat("no", 1200))
    for given, told in (
        (OnlinePlatt, r"OnlinePlatt is a class: pass OnlinePlatt\(\)"),
        ("OPS", "must be one of calibrant.online, not 'OPS'"),
        (OnlineTemperature(2), "OnlineTemperature takes rows of classes"),
        (CalibratedRegression(2), "CalibratedRegression needs features"),
    ):
        with pytest.raises(InputError, match=told):
            OnlineClassifier(SGDClassifier(), given).partial_fit(X, y)
    model = OnlineClassifier(SGDClassifier(loss="log_loss")).partial_fit(X, y)
    with pytest.raises(InputError, match=r"not among the classes.*perhaps"):
        model.partial_fit(X, np.where(y == "yes", "perhaps", "no"))


def test_a_clone_has_learned_nothing() -> None:
    X, y = rows()
    model = OnlineClassifier(SGDClassifier(loss="log_loss"), OnlinePlatt(rho=25.0)).partial_fit(X, y).partial_fit(X, y)
    assert not hasattr(clone(model), "forecaster_")
    assert clone(model).forecaster.n_rows == 0


def test_river_streams_are_scored_before_the_model_learns_them() -> None:
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    X, y = rows(300)
    plain, by_hand = linear_model.LogisticRegression(), OnlinePlatt()
    model = RiverClassifier(linear_model.LogisticRegression())
    for values, label in zip(X.tolist(), (y == "yes").tolist(), strict=True):
        row = dict(enumerate(values))
        p = plain.predict_proba_one(row)[True]
        assert model.predict_proba_one(row)[True] == by_hand.predict_one(p)
        by_hand.learn_one(p, label)
        plain.learn_one(row, label)
        model.learn_one(row, label)
    assert model.forecaster.state == by_hand.state


def test_river_mistakes_are_told() -> None:
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    with pytest.raises(InputError, match="SGDClassifier; one of scikit-learn goes into OnlineClassifier"):
        RiverClassifier(SGDClassifier())
    with pytest.raises(InputError, match="OnlinePlatt is a class"):
        RiverClassifier(linear_model.LogisticRegression(), OnlinePlatt)
    model = RiverClassifier(linear_model.LogisticRegression())
    for label in ("yes", "no", None, 2, [1]):
        with pytest.raises(InputError, match="label must be 0 or 1"):
            model.learn_one({"x": 1.0}, label)
    assert model.forecaster.n_rows == 0


def test_river_accepts_it_as_one_of_its_own() -> None:
    checks = pytest.importorskip("river.checks")
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    model = RiverClassifier(linear_model.LogisticRegression(), Tracking(OnlinePlatt()))
    for check in checks.yield_checks(model):
        check(model.clone())
