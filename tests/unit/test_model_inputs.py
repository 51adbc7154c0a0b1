"""What a model inside a classifier receives: rows, labels and weights as they were given, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import coo_array, coo_matrix, csc_matrix, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from tests import worlds

from calibrant import CalibratedClassifier, InputError, PlattScaling
from calibrant.calibrators import CrossVennAbers
from calibrant.online import OnlineClassifier

Wrapper = Callable[[Any], Any]

FITTING: dict[str, Wrapper] = {
    "CalibratedClassifier": lambda model: CalibratedClassifier(model, PlattScaling(), cv=3),
    "CrossVennAbers": lambda model: CrossVennAbers(model, cv=3),
}


@pytest.fixture(params=FITTING)
def wrapper(request: pytest.FixtureRequest) -> Wrapper:
    """A classifier that fits the model inside it."""
    return FITTING[request.param]


class Keeps(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what every copy of it was given; its score is the mean of a row's numbers."""

    given: ClassVar[list[tuple[Any, Any, Any]]] = []
    asked: ClassVar[list[Any]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Keeps:
        self.classes_ = np.unique(np.asarray(y))
        self.given.append((X, y, sample_weight))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        self.asked.append(X)
        p = 1.0 / (1.0 + np.exp(-np.asarray(X, dtype=float).mean(axis=1)))
        return np.column_stack([1.0 - p, p])


@pytest.fixture(autouse=True)
def _forget() -> None:
    Keeps.given.clear()
    Keeps.asked.clear()


def numbers(n: int = 300, seed: int = 0) -> worlds.Rows:
    return worlds.features(n, seed, weights=(1.0, 0.0, 0.0))


def mixed(pd: Any, n: int = 300) -> tuple[Any, np.ndarray]:
    """Numbers with missing values, text and categories, with an index that is not in order."""
    X, y = numbers(n)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, X[:, 0]),
            "job": rng.choice(["clerk", "cook", "pilot"], n),
            "grade": pd.Categorical(np.where(X[:, 1] > 0, "f", "g")),
        },
        index=rng.permutation(n),
    )
    return frame, y


def encoded(model: Any) -> Any:
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["job", "grade"]), ("passthrough", ["x"])), model)


def boosting() -> HistGradientBoostingClassifier:
    """A small model that takes missing values and categories."""
    return HistGradientBoostingClassifier(
        max_iter=2, max_leaf_nodes=4, categorical_features="from_dtype", early_stopping=False, random_state=0
    )


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_frame_reaches_the_model_as_a_frame(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.random.default_rng(2).permutation(300))
    wrapper(Keeps()).fit(frame, y).predict_proba(frame)
    assert all(given.columns.tolist() == ["a", "b", "c"] for given, _, _ in Keeps.given)
    assert {len(given) for given, _, _ in Keeps.given} <= {200, 300}
    assert all(type(asked) is pd.DataFrame for asked in Keeps.asked)
    assert Keeps.asked[-1] is frame


def test_columns_are_found_by_name_in_pandas(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    frame, y = mixed(pd)
    frame = frame.assign(x=frame["amount"].fillna(0.0))
    model = wrapper(encoded(LogisticRegression())).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["amount", "job", "grade", "x"]
    assert model.n_features_in_ == 4
    assert model.predict_proba(frame[["x", "grade", "job"]]).shape == (300, 2)  # as the pipeline alone


def test_columns_are_found_by_name_in_polars(wrapper: Wrapper) -> None:
    pl = pytest.importorskip("polars")
    X, y = numbers()
    jobs = np.random.default_rng(1).choice(["clerk", "cook"], 300)
    frame = pl.DataFrame({"x": X[:, 0], "job": jobs, "grade": np.where(X[:, 1] > 0, "f", "g")})
    model = wrapper(encoded(LogisticRegression())).fit(frame, pl.Series(y))
    assert model.feature_names_in_.tolist() == ["x", "job", "grade"]
    assert model.predict_proba(frame.head(5)).shape == (5, 2)


def test_missing_values_and_categories_reach_a_model_that_takes_them(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    frame, y = mixed(pd)
    frame["job"] = frame["job"].astype("category")
    boosted = boosting()
    model = wrapper(boosted).fit(frame, y)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    inner = getattr(model, "estimator_", None) or model.estimators_[0]
    np.testing.assert_array_equal(inner.is_categorical_, [False, True, True])
    assert model.predict_proba(frame).shape == (300, 2)  # no warning about names either


def test_a_map_is_fitted_to_the_scores_of_the_model_alone() -> None:
    pd = pytest.importorskip("pandas")
    frame, y = mixed(pd)
    frame, tree = frame[["amount"]], DecisionTreeClassifier(max_depth=3, random_state=0)
    model = CalibratedClassifier(tree, PlattScaling(), cv=3).fit(frame, y)
    scores = cross_val_predict(tree, frame, y, cv=3, method="predict_proba")[:, 1]
    assert model.calibrator_.map_ == PlattScaling().fit(scores, y).map_
    p = clone(tree).fit(frame, y).predict_proba(frame)[:, 1]
    np.testing.assert_array_equal(model.predict_proba(frame)[:, 1], model.calibrator_.transform(p))


def test_missing_values_in_an_array_are_the_models_to_refuse(wrapper: Wrapper) -> None:
    X, y = numbers()
    X[::7, 1] = np.nan
    p = wrapper(DecisionTreeClassifier(max_depth=3)).fit(X, y).predict_proba(X)
    assert np.isfinite(p).all()
    with pytest.raises(ValueError, match="LogisticRegression does not accept missing values"):
        wrapper(LogisticRegression()).fit(X, y)


def test_text_is_counted(wrapper: Wrapper) -> None:
    _, y = numbers()
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(["good", "fine", "bad"], 4, p=[0.4 * k + 0.2, 0.3, 0.5 - 0.4 * k])) for k in y]
    model = wrapper(make_pipeline(CountVectorizer(), LogisticRegression())).fit(texts, y)
    assert (model.predict(["good good good good", "bad bad bad bad"]) == [1, 0]).all()
    assert not hasattr(model, "n_features_in_")


def test_sparse_rows(wrapper: Wrapper, subtests) -> None:
    X, y = numbers()
    expected = wrapper(LogisticRegression()).fit(X, y).predict_proba(X)
    for sparse in [csr_matrix, csc_matrix, coo_matrix, coo_array]:
        with subtests.test(sparse.__name__):
            model = wrapper(LogisticRegression()).fit(sparse(X), y)
            np.testing.assert_allclose(model.predict_proba(sparse(X)), expected, atol=1e-4)


def test_lists(wrapper: Wrapper) -> None:
    X, y = numbers()
    expected = wrapper(LogisticRegression()).fit(X, y).predict_proba(X)
    model = wrapper(LogisticRegression()).fit(X.tolist(), y.tolist())
    np.testing.assert_array_equal(model.predict_proba(X.tolist()), expected)


def test_kernels_are_cut_in_both_directions() -> None:
    X, y = numbers(90)
    made = CalibratedClassifier(SVC(kernel="precomputed"), PlattScaling(), cv=3).fit(X @ X.T, y)
    plain = CalibratedClassifier(SVC(kernel="linear"), PlattScaling(), cv=3).fit(X, y)
    np.testing.assert_allclose(made.predict_proba(X @ X.T), plain.predict_proba(X), atol=1e-6)


def test_a_splitter_may_look_at_the_frame(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(year=np.arange(300) % 3)

    class ByYear:
        """Leaves out one year after the other."""

        def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
            return 3

        def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
            for year in range(3):
                yield np.flatnonzero(X["year"] != year), np.flatnonzero(X["year"] == year)

    model = wrapper(Keeps()).set_params(cv=ByYear()).fit(frame, y)
    assert [sorted(given["year"].unique()) for given, _, _ in Keeps.given[:3]] == [[1, 2], [0, 2], [0, 1]]
    assert model.classes_.tolist() == [0, 1]


# --- what is known of the features ------------------------------------------------------------------------------------


def test_names_and_number_of_features_are_the_models(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = wrapper(LogisticRegression())
    assert not hasattr(model, "n_features_in_")
    assert model.fit(frame, y).feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_proba(frame.rename(columns={"c": "d"}))
    assert not hasattr(model.fit(X, y), "feature_names_in_")  # an array has none, also after a frame
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict_proba(X[:, :2])


def test_names_are_known_of_prefit_and_online_models() -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = LogisticRegression().fit(frame, y)
    online = OnlineClassifier(SGDClassifier(loss="log_loss", random_state=0)).partial_fit(frame, y)
    for model in (
        CalibratedClassifier(fitted, PlattScaling(), cv="prefit").fit(frame, y),
        CalibratedClassifier(FrozenEstimator(fitted), PlattScaling()).fit(frame, y),
        OnlineClassifier(fitted, prefit=True).fit(frame, y),
        online.partial_fit(frame, y),
    ):
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert model.n_features_in_ == 3


def test_what_the_model_takes_is_what_the_classifier_says_it_takes(wrapper: Wrapper, subtests) -> None:
    for model, missing, sparse, pairwise in [
        (LogisticRegression(), False, True, False),
        (HistGradientBoostingClassifier(), True, False, False),
        (GaussianNB(), False, False, False),
        (SVC(kernel="precomputed"), False, False, True),
    ]:
        with subtests.test(model=model, missing=missing, sparse=sparse, pairwise=pairwise):
            tags = get_tags(wrapper(model)).input_tags
            assert (tags.allow_nan, tags.sparse, tags.pairwise) == (missing, sparse, pairwise)


# --- labels -----------------------------------------------------------------------------------------------------------


def labels_of(pd: Any, y: np.ndarray) -> dict[str, Any]:
    """Labels of many types, with an index that is not in order."""
    index = np.random.default_rng(5).permutation(len(y))
    words = pd.Series(np.where(y == 1, "yes", "no"), index=index)
    return {
        "text": words,
        "category": words.astype("category"),
        "string": words.astype("string"),
        "Int64": pd.Series(y, index=index).astype("Int64"),
        "boolean": pd.Series(y == 1, index=index).astype("boolean"),
        "int": pd.Series(y, index=index),
        "list": words.tolist(),
    }


def test_labels_are_those_of_the_bare_model(wrapper: Wrapper, subtests) -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    expected = wrapper(LogisticRegression()).fit(X, y).predict_proba(X)
    for sort, labels in labels_of(pd, y).items():
        with subtests.test(sort):
            bare = LogisticRegression().fit(X, labels)
            model = wrapper(LogisticRegression()).fit(X, labels)
            assert model.classes_.tolist() == bare.classes_.tolist()
            nullable = {"Int64": np.dtype("int64"), "boolean": np.dtype("bool")}  # which a bare model makes floats
            assert model.classes_.dtype == nullable.get(sort, bare.classes_.dtype)
            np.testing.assert_array_equal(model.predict_proba(X), expected)
            assert (np.asarray(model.predict(X) == np.asarray(labels), dtype=bool)).mean() > 0.6
            Keeps.given.clear()
            wrapper(Keeps()).fit(X, labels)
            assert {type(given) for _, given, _ in Keeps.given} == {type(labels)}


def test_labels_of_polars(wrapper: Wrapper) -> None:
    pl = pytest.importorskip("polars")
    X, y = numbers()
    words = pl.Series(np.where(y == 1, "yes", "no"))
    expected = wrapper(LogisticRegression()).fit(X, y).predict_proba(X)
    for labels in (words, words.cast(pl.Categorical), pl.Series(y == 1)):
        bare = LogisticRegression().fit(X, labels)
        model = wrapper(LogisticRegression()).fit(X, labels)
        np.testing.assert_array_equal(model.classes_, bare.classes_)
        np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_weights_of_classes_are_named_by_label(wrapper: Wrapper) -> None:
    X, y = numbers()
    words = np.where(y == 1, "yes", "no")
    named = wrapper(LogisticRegression(class_weight={"no": 1.0, "yes": 3.0})).fit(X, words)
    coded = wrapper(LogisticRegression(class_weight={0: 1.0, 1: 3.0})).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), coded.predict_proba(X))


def test_labels_of_a_model_that_lists_its_classes_in_another_order(wrapper: Wrapper) -> None:
    class Backwards(ClassifierMixin, BaseEstimator):
        """Naive Bayes with its classes, and the columns of its probabilities, in falling order."""

        def fit(self, X: Any, y: Any) -> Backwards:
            self.inner_ = GaussianNB().fit(X, y)
            self.classes_ = self.inner_.classes_[::-1]
            return self

        def predict_proba(self, X: Any) -> np.ndarray:
            return self.inner_.predict_proba(X)[:, ::-1]

    X, y = numbers()
    model = wrapper(Backwards()).fit(X, y)
    plain = wrapper(GaussianNB()).fit(X, y)
    several = isinstance(model, CrossVennAbers)  # whose models may differ in their order: its own is sorted
    assert model.classes_.tolist() == ([0, 1] if several else [1, 0])
    turned = model.predict_proba(X)[:, :: 1 if several else -1]
    np.testing.assert_allclose(turned, plain.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_missing_labels_are_refused_before_anything_is_trained(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    for sort in ("text", "string", "Int64", "boolean"):
        labels = labels_of(pd, y)[sort].mask(y == 1)
        with pytest.raises(ValueError, match=r"y has .* missing values"):
            wrapper(Keeps()).fit(X, labels)
    assert Keeps.given == []


def test_labels_of_batches() -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    for labels in labels_of(pd, y).values():
        bare = SGDClassifier(loss="log_loss", random_state=0).fit(X, labels)
        model = OnlineClassifier(SGDClassifier(loss="log_loss", random_state=0)).fit(X, labels).partial_fit(X, labels)
        np.testing.assert_array_equal(model.classes_, bare.classes_)
        assert model.forecaster_.n_rows == 300
    with pytest.raises(InputError, match=r"y has .* missing values"):
        model.partial_fit(X, labels_of(pd, y)["string"].mask(y == 1))
    with pytest.raises(InputError, match=r"y has .* missing values"):
        OnlineClassifier(SGDClassifier()).partial_fit(X, labels_of(pd, y)["text"].mask(y == 1))
    assert model.forecaster_.n_rows == 300


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weights_reach_the_model_as_given(wrapper: Wrapper) -> None:
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    index = np.random.default_rng(6).permutation(300)
    weight = pd.Series(np.random.default_rng(7).uniform(0.5, 2.0, 300), index=index, name="w")
    labels = pd.Series(y, index=index[::-1])
    model = wrapper(Keeps()).fit(X, labels, weight)
    assert {type(given) for _, _, given in Keeps.given} == {pd.Series}
    for rows, _, given in Keeps.given:
        places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows]
        np.testing.assert_array_equal(given, weight.to_numpy()[places])
    expected = wrapper(Keeps()).fit(X, y, weight.to_numpy())
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


# --- folds ------------------------------------------------------------------------------------------------------------


def test_folds_that_leave_a_row_out_twice_are_refused_before_anything_is_trained() -> None:
    X, y = numbers()
    with pytest.raises(InputError, match=r"^cv holds out .* rows several times.*: pass ensemble=True"):
        CalibratedClassifier(Keeps(), PlattScaling(), cv=ShuffleSplit(3, random_state=0)).fit(X, y)
    assert Keeps.given == []


def test_folds_of_one_class_are_refused_before_anything_is_trained(wrapper: Wrapper) -> None:
    X, _ = numbers()
    model = wrapper(Keeps()).set_params(cv=KFold(2))
    with pytest.raises(ValueError, match="lower cv"):
        model.fit(X, np.repeat([0, 1], 150))
    assert Keeps.given == []


def test_no_folds_are_refused(wrapper: Wrapper) -> None:
    with pytest.raises(ValueError, match="cv has no folds"):
        wrapper(Keeps()).set_params(cv=[]).fit(*numbers())


def test_folds_that_keep_a_row_for_the_model_and_the_map_are_refused(wrapper: Wrapper) -> None:
    X, y = numbers()
    rows = np.arange(300)
    with pytest.raises(ValueError, match="use disjoint sets"):
        wrapper(Keeps()).set_params(cv=[(rows, rows[:150]), (rows, rows[150:])]).fit(X, y)
    assert Keeps.given == []


def test_it_is_cross_validated_on_a_frame() -> None:
    pd = pytest.importorskip("pandas")
    frame, y = mixed(pd)
    model = CalibratedClassifier(DecisionTreeClassifier(max_depth=2), PlattScaling(), cv=2)
    losses = cross_val_score(model, frame[["amount"]], y, cv=2, scoring="neg_log_loss", error_score="raise")
    assert np.isfinite(losses).all()


def test_a_model_without_scores_is_refused_before_it_is_trained(wrapper: Wrapper) -> None:
    X, y = numbers()
    votes = VotingClassifier([("one", Keeps())], voting="hard")
    for model in (
        wrapper(votes),
        CalibratedClassifier(votes, PlattScaling(), cv="prefit"),
        OnlineClassifier(SGDRegressor()),
    ):
        with pytest.raises(InputError, match=r"estimator must have predict_proba or decision_function, but \w+ has"):
            model.fit(X, y)
    assert Keeps.given == []


def test_scores_in_a_frame_are_read() -> None:
    pd = pytest.importorskip("pandas")

    class Framed(DecisionTreeClassifier):
        """A tree that gives its probabilities as a frame."""

        def predict_proba(self, X: Any, check_input: bool = True) -> Any:
            return pd.DataFrame(super().predict_proba(X), columns=self.classes_)

    X, y = numbers()
    for wrap in FITTING.values():
        found = wrap(Framed(max_depth=2, random_state=0)).fit(X, y).predict_proba(X)
        expected = wrap(DecisionTreeClassifier(max_depth=2, random_state=0)).fit(X, y).predict_proba(X)
        np.testing.assert_array_equal(found, expected)
