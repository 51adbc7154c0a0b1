"""Forecasters behind models of scikit-learn and river."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from tests.cases import every

from calibrant import InputError
from calibrant.online import (
    CalibratedRegression,
    Foster99,
    Hedging,
    MultiExpert,
    OnlineClassifier,
    OnlinePlatt,
    OnlineTemperature,
    Tracking,
)
from calibrant.online.base import Forecaster
from calibrant.online.games.hedging import FIRST, KEY


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


@every("model", [LogisticRegression(), SGDClassifier(loss="log_loss", random_state=0)])
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
    with pytest.raises(
        InputError, match=r"estimator has the type LogisticRegression, which has no partial_fit.*prefit=True"
    ):
        OnlineClassifier(LogisticRegression()).partial_fit(X, y)
    with pytest.raises(ValueError, match="there is 1 class"):
        OnlineClassifier(SGDClassifier()).partial_fit(X, np.repeat("no", 1200))
    for given, told in (
        (OnlinePlatt, r"not the class OnlinePlatt: pass OnlinePlatt\(\)"),
        ("OPS", "must be a forecaster of calibrant.online, not 'OPS'"),
        (OnlineTemperature(2), "must take one score, but OnlineTemperature takes class probabilities"),
        (CalibratedRegression(2), "CalibratedRegression needs features"),
    ):
        with pytest.raises(InputError, match=told):
            OnlineClassifier(SGDClassifier(), given).partial_fit(X, y)
    model = OnlineClassifier(SGDClassifier(loss="log_loss")).partial_fit(X, y)
    with pytest.raises(InputError, match=r"outside the classes.*perhaps"):
        model.partial_fit(X, np.where(y == "yes", "perhaps", "no"))


def test_parameters_of_the_classifier_can_be_set_though_settings_of_a_forecaster_stay() -> None:
    X, y = rows()
    model = OnlineClassifier(SGDClassifier(loss="log_loss", random_state=0), OnlinePlatt())
    model.set_params(forecaster=Tracking(OnlinePlatt(), epsilon=0.2), prefit=False)
    assert clone(model).partial_fit(X, y).partial_fit(X, y).forecaster_.epsilon == 0.2
    with pytest.raises(AttributeError, match=r"Tracking\.epsilon is read-only: create a new Tracking"):
        model.forecaster.epsilon = 0.1


class Fussy(SGDClassifier):  # type: ignore[misc]
    """It learns no batch of seven rows."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Fussy:
        if len(y) == 7:
            raise ValueError("seven")
        return super().partial_fit(X, y, classes=classes)  # type: ignore[no-any-return]


def test_after_a_first_batch_that_was_refused_the_next_one_is_learned() -> None:
    X, y = rows()
    broken = np.where(np.arange(1200) == 5, np.nan, X[:, 0])
    model = OnlineClassifier(SGDClassifier(loss="log_loss"))
    for bad, labels, told in (
        (np.column_stack([broken, X[:, 1:]]), y, "NaN"),
        (X, np.where(y == "yes", "perhaps", y), "outside the classes"),
        (X, y[:9], "inconsistent"),
    ):
        with pytest.raises(ValueError, match=told):
            model.partial_fit(bad, labels, classes=["no", "yes"])
        assert not hasattr(model, "forecaster_")
        assert not hasattr(model, "classes_")
    assert model.partial_fit(X, y).partial_fit(X, y).forecaster_.n_rows == 1200


def test_a_batch_that_the_model_or_the_scores_refuse_is_learned_by_nobody() -> None:
    X, y = rows()
    model = OnlineClassifier(Fussy(loss="log_loss")).partial_fit(X, y).partial_fit(X, y)
    before, weights = model.forecaster_.state, model.estimator_.coef_.copy()
    with pytest.raises(ValueError, match="seven"):
        model.partial_fit(X[:7], y[:7])
    with pytest.raises(InputError, match="labels has 5 rows but scores has 6"):
        model.partial_fit(X[:6], y[:5])
    with pytest.raises(ValueError, match="seven"):
        model.fit(X[:7], y[:7])
    assert model.forecaster_.state == before
    assert (model.estimator_.coef_ == weights).all()
    model.estimator_.coef_ *= np.nan
    with pytest.raises(InputError, match="scores must be probabilities"):
        model.partial_fit(X[:6], y[:6])
    assert model.estimator_.t_ == 2401  # of the batches that it learned


def key(forecaster: Forecaster) -> tuple[float, ...]:
    return tuple(forecaster.state["numbers"][KEY:FIRST])


def test_classifiers_on_one_template_draw_under_keys_of_their_own() -> None:
    X, y = rows()
    fitted = LogisticRegression().fit(X, y)
    template = Hedging(OnlinePlatt())
    models = [OnlineClassifier(fitted, template, prefit=True) for _ in range(2)]
    models.append(OnlineClassifier(FrozenEstimator(fitted), template))
    models += [clone(models[2]), clone(models[2])]
    found = {key(model.partial_fit(X[:9], y[:9]).forecaster_) for model in models}
    many = OneVsRestClassifier(OnlineClassifier(SGDClassifier(loss="log_loss"), template)).fit(X, np.arange(1200) % 3)
    found |= {key(each.forecaster_) for each in many.estimators_}
    assert len(found | {key(template)}) == 9


def test_draws_below_other_forecasters_are_secret_too_and_a_seed_is_kept() -> None:
    X, y = rows()
    fitted = LogisticRegression().fit(X, y)
    template = MultiExpert(Foster99(random_state=3), Tracking(Foster99()))
    one, two = (OnlineClassifier(fitted, template, prefit=True).fit(X[:9], y[:9]).forecaster_ for _ in range(2))
    assert key(one.experts[0]) == key(two.experts[0]) == key(template.experts[0])
    assert len({key(each.experts[1].expert) for each in (one, two, template)}) == 3


def test_what_was_forecast_before_the_first_outcome_is_what_is_learned() -> None:
    X, y = rows()
    fitted = LogisticRegression().fit(X, y)
    template = Foster99()
    while len(template.predict_distribution(0.5)) == 1:  # outcomes that make it draw
        template.learn_one(0.5, float(template.predict_one(0.5) < 0.5))
    told_once = set()
    for _ in range(40):
        model = OnlineClassifier(fitted, template, prefit=True)
        told = model.predict_proba(X[:1])[0, 1]
        assert pickle.loads(pickle.dumps(model)).predict_proba(X[:1])[0, 1] == told
        counts = np.array(model.fit(X[:1], y[:1]).forecaster_.state["numbers"][FIRST : FIRST + 10])
        drawn = int(np.argmax(counts - template.state["numbers"][FIRST : FIRST + 10]))
        assert told == (drawn + 0.5) / 10
        told_once.add(told)
    assert len(told_once) == 2  # drawn by halves
    model.set_params(forecaster=OnlinePlatt()).fit(X[:1], y[:1])
    assert isinstance(model.forecaster_, OnlinePlatt)


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
    assert model.forecaster_.state == by_hand.state


def test_river_mistakes_are_told() -> None:
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    with pytest.raises(InputError, match="not SGDClassifier: for a scikit-learn classifier use OnlineClassifier"):
        RiverClassifier(SGDClassifier())
    with pytest.raises(InputError, match="not the class OnlinePlatt"):
        RiverClassifier(linear_model.LogisticRegression(), OnlinePlatt)
    model = RiverClassifier(linear_model.LogisticRegression())
    for label in ("yes", "no", None, 2, [1]):
        with pytest.raises(InputError, match="label must be 0 or 1"):
            model.learn_one({"x": 1.0}, label)
    assert model.forecaster_.n_rows == 0


def test_a_row_that_a_river_model_refuses_is_learned_by_nobody() -> None:
    base = pytest.importorskip("river.base")
    from calibrant.online import RiverClassifier

    class Fails(base.Classifier):  # type: ignore[misc, name-defined]
        def __init__(self, score: float = 0.7) -> None:
            self.score, self.fails, self.learned = score, False, 0

        def learn_one(self, x: Any, y: Any) -> None:
            if self.fails:
                raise RuntimeError
            self.score, self.learned = 0.9, self.learned + 1

        def predict_proba_one(self, x: Any) -> dict[bool, float]:
            return {True: self.score}

    model, by_hand = RiverClassifier(Fails()), OnlinePlatt()
    model.learn_one({}, True)
    assert model.forecaster_.state == by_hand.learn_one(0.7, 1).state  # the score before the model learned
    model.model.fails = True
    with pytest.raises(RuntimeError):
        model.learn_one({}, True)
    assert model.forecaster_.state == by_hand.state
    model.model.fails, model.model.score = False, float("nan")
    for label in (True, "yes"):  # nor does the model learn what the forecaster would refuse
        with pytest.raises(InputError, match="score must be a probability"):
            model.learn_one({}, label)
    assert (model.model.learned, model.forecaster_.n_rows) == (1, 1)


def test_a_river_clone_has_learned_nothing() -> None:
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    template = OnlinePlatt(rho=25.0)
    for given in (None, template):
        model = RiverClassifier(linear_model.LogisticRegression(), given)
        for i in range(100):
            model.learn_one({"x": i % 3}, i % 3 == 2)
        assert model.forecaster_.n_rows == 100
        fresh = model.clone()
        assert fresh.forecaster_.n_rows == 0
        assert fresh.forecaster_.state["parameters"] == model.forecaster_.state["parameters"]
        assert not fresh.model.weights
    assert template.n_rows == 0


def test_a_river_model_that_knows_no_event_is_believed() -> None:
    base = pytest.importorskip("river.base")
    tree = pytest.importorskip("river.tree")
    from calibrant.online import Identity, RiverClassifier

    class Says(base.Classifier):  # type: ignore[misc, name-defined]
        def __init__(self, told: dict[bool, float]) -> None:
            self.told = told

        def learn_one(self, x: Any, y: Any) -> None: ...

        def predict_proba_one(self, x: Any) -> dict[bool, float]:
            return self.told

    for told, want in (({False: 1.0}, 0.0), ({False: 0.75}, 0.25), ({True: 0.9}, 0.9), ({}, 0.5)):
        assert RiverClassifier(Says(told), Identity()).predict_proba_one({})[True] == want
    model = RiverClassifier(tree.HoeffdingTreeClassifier(), Identity())
    for i in range(50):
        model.learn_one({"x": float(i % 7)}, False)
    assert model.predict_proba_one({"x": 1.0})[True] == 0.0


def test_river_models_on_one_template_draw_under_keys_of_their_own() -> None:
    linear_model = pytest.importorskip("river.linear_model")
    ensemble = pytest.importorskip("river.ensemble")
    from calibrant.online import RiverClassifier

    template = Hedging(OnlinePlatt())
    models = [RiverClassifier(linear_model.LogisticRegression(), template) for _ in range(2)]
    models.append(models[0].clone())
    models += list(ensemble.BaggingClassifier(models[0], n_models=3, seed=0))
    assert len({key(model.forecaster_) for model in models} | {key(template)}) == 7
    seeded = Hedging(OnlinePlatt(), random_state=1)
    assert key(RiverClassifier(linear_model.LogisticRegression(), seeded).clone().forecaster_) == key(seeded)


def test_river_accepts_it_as_one_of_its_own() -> None:
    checks = pytest.importorskip("river.checks")
    linear_model = pytest.importorskip("river.linear_model")
    from calibrant.online import RiverClassifier

    model = RiverClassifier(linear_model.LogisticRegression(), Tracking(OnlinePlatt()))
    for check in checks.yield_checks(model):
        check(model.clone())
