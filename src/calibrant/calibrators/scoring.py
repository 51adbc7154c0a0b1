"""Classifiers around a model: its scores, the folds that it is trained on, and the arguments that reach its fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, StratifiedGroupKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from calibrant.arrays.columns import is_whole
from calibrant.arrays.labels import label_column
from calibrant.messages import InputError, note, plural, warn
from calibrant.numerics import Floats

METHODS = ("predict_proba", "decision_function")

Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

weights_for_map_only = note(
    "weights-for-map-only",
    "the fit of {model} takes no sample_weight: weights are used for the map alone, and the model is fitted without",
)


@dataclass(frozen=True, eq=False)
class Target:
    """Labels of the rows.

    Attributes
    ----------
    given
        The labels as they are passed to the model.
    labels
        The same as an array.
    found
        The classes that occur, sorted.
    """

    given: Any
    labels: NDArray[Any]
    found: NDArray[Any]

    @classmethod
    def of(cls, y: Any) -> Target:
        """Check labels; missing ones are rejected. Nullable integers and booleans of pandas become plain ones."""
        dtype = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
        label_column(y, "y")
        given = y.astype(dtype) if isinstance(dtype, np.dtype) and dtype.kind in "biu" else y
        labels = label_column(given, "y")
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return cls(given, labels, np.unique(labels))

    def codes(self, classes: NDArray[Any]) -> NDArray[np.intp]:
        """Index of each row's class; the model's classes may be the same values in another type or order."""
        place = {value: code for code, value in enumerate(classes.tolist())}
        return np.array([place[value] for value in self.found.tolist()], dtype=np.intp)[
            np.searchsorted(self.found, self.labels)
        ]

    def named_by(self, model: Any) -> NDArray[Any]:
        """The classes in the model's order; sorted if it lists none, or others (such as text for booleans)."""
        known = np.asarray(getattr(model, "classes_", self.found))
        return self.typed(known) if set(known.tolist()) == set(self.found.tolist()) else self.found

    def sorted_as(self, model: Any) -> NDArray[Any]:
        """The classes, sorted, in the type of the model's: one order for several models."""
        return np.sort(self.named_by(model))

    def typed(self, classes: NDArray[Any]) -> NDArray[Any]:
        """The classes as integers or booleans, if the labels are, where the model has turned them into floats."""
        return classes.astype(self.labels.dtype) if self._as_floats(classes) else classes

    def _as_floats(self, classes: NDArray[Any]) -> bool:
        return classes.dtype.kind == "f" and self.labels.dtype.kind in "biu"


@dataclass(frozen=True)
class Arguments:
    """Arguments of a fit: for the model, for the splitter, and for the map."""

    model: dict[str, Any]
    splitter: dict[str, Any]
    weight: NDArray[Any] | None
    groups: Any


class Fold(NamedTuple):
    """The held-out rows, the model trained on the other rows, and its scores of the held-out rows."""

    rows: NDArray[np.intp]
    model: Any
    scores: Floats


class ScoringClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base class of calibrated classifiers: named classes, and the scores of the wrapped model.

    The model gets rows, labels and weights as the user passed them and checks them itself: only it knows which
    columns, types and missing values it accepts.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Those of the fitted model, if it has them.
    """

    estimator: Any
    n_jobs: int | None
    classes_: NDArray[Any]

    def _model(self) -> Any:
        """A fitted model."""
        return self.estimator_

    @property
    def n_features_in_(self) -> int:
        """Number of features that the model was fitted to."""
        return cast(int, self._model().n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features that the model was fitted to."""
        return cast("NDArray[Any]", self._model().feature_names_in_)

    # --------------------------------------------------------------------------------------------------------- scores

    def _method(self) -> str:
        found = next((name for name in METHODS if hasattr(self.estimator, name)), None)
        if found is None:
            raise InputError(
                "estimator",
                f"must have {' or '.join(METHODS)}, but {type(self.estimator).__name__} has neither",
                "pass a classifier that returns scores",
            )
        return found

    def _kind(self) -> Any:
        return "probability" if self._method() == "predict_proba" else "real"

    def _scores(self, estimator: Any, X: Any, classes: NDArray[Any] | None = None) -> Floats:
        """Scores of the second of the classes; of the model's own second class, if none are given."""
        scores = np.asarray(getattr(estimator, self._method())(X), dtype=np.float64)
        known = np.asarray(getattr(estimator, "classes_", ())).tolist()
        turned = classes is not None and known == classes.tolist()[::-1]
        if scores.ndim == 2:
            return scores[:, 0 if turned else 1]
        return -scores if turned else scores

    def _matrix(self, estimator: Any, X: Any, classes: NDArray[Any]) -> Floats:
        """Scores of these classes, one column each; a class that is new to the model has probability 0."""
        given = np.asarray(getattr(estimator, self._method())(X), dtype=np.float64)
        if given.ndim == 1:
            given = np.column_stack([-0.5 * given, 0.5 * given])  # softmax of this row is expit of the score
        known = np.asarray(getattr(estimator, "classes_", classes)).tolist()
        if given.shape[1] != len(known):
            raise InputError(
                "estimator",
                f"returns {given.shape[1]} columns for {plural(len(known), 'class', 'classes')}",
                "pass a model with one column per class, such as SVC(decision_function_shape='ovr')",
            )
        place = {value: code for code, value in enumerate(classes.tolist())}
        if not set(known) <= set(place) and len(known) == len(classes):
            return given  # the model writes its classes in another way, such as booleans as text
        if len(known) < len(classes) and self._method() != "predict_proba":
            absent = [value for value in place if value not in known]
            raise InputError(
                "cv",
                f"has a fold whose training rows lack the class {absent[0]!r}, so there is no score of it",
                "lower cv, or stratify",
            )
        out = np.zeros((len(given), len(classes)))
        out[:, [place[value] for value in known]] = given
        return out

    # -------------------------------------------------------------------------------------------------- models in folds

    def _trained(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        return unfitted(self.estimator).fit(X, y, **params)

    def _splits(self, cv: Any, X: Any, target: Target, arguments: Arguments) -> Splits:
        """The folds, checked before any model is trained."""
        whole = arguments.groups is not None and (cv is None or is_whole(cv))  # rows of a group stay together
        splitter = (
            StratifiedGroupKFold(5 if cv is None else int(cv))
            if whole
            else check_cv(cv, target.labels, classifier=True)
        )
        needed = takes_groups(splitter)
        if needed and arguments.groups is None:
            raise InputError("groups", f"is missing, and {type(splitter).__name__} needs it", "pass groups= to fit")
        passes = needed or _may_take_groups(splitter, arguments.groups)
        known = {**arguments.splitter, **({"groups": arguments.groups} if passes else {})}
        rows, answers = indexable(X, target.given)
        splits = list(splitter.split(rows, answers, **known))
        check_splits(splits, target, arguments.groups)
        return splits

    def _folds(
        self, splits: Splits, X: Any, y: Any, params: dict[str, Any], score: Callable[[Any, Any], Floats]
    ) -> Iterator[Fold]:
        """A model for each fold, with its scores. Rows are selected by scikit-learn's functions, without conversion."""
        if self.n_jobs is not None and (not is_whole(self.n_jobs) or self.n_jobs == 0):
            raise InputError(
                "n_jobs",
                f"must be an integer other than 0, got {self.n_jobs!r}",
                "pass 2 for two processes, -1 for all cores, or leave it out",
            )
        rows, answers = indexable(X, y)
        parallel = Parallel(n_jobs=self.n_jobs)
        if parallel.n_jobs in (None, 1):  # None, where it was passed, is by now the number of the context
            for train, test in splits:
                yield self._fold(rows, answers, train, test, params, score)
            return
        tasks = (delayed(self._fold)(rows, answers, train, test, params, score) for train, test in splits)
        yield from parallel(tasks)

    def _fold(
        self,
        rows: Any,
        answers: Any,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        params: dict[str, Any],
        score: Callable[[Any, Any], Floats],
    ) -> Fold:
        """The model of one fold, with its scores of the held-out rows."""
        some, theirs = _safe_split(self.estimator, rows, answers, train)
        model = self._trained(some, theirs, _check_method_params(rows, params, train))
        held, _ = _safe_split(self.estimator, rows, None, test, train)
        return Fold(test, model, score(model, held))

    # ------------------------------------------------------------------------------------------------------ arguments

    def _arguments(
        self, target: Target, sample_weight: Any, groups: Any, others: Mapping[str, Any], *, trains: bool = True
    ) -> Arguments:
        """What the model, the splitter and the map get; by metadata routing, if it is enabled in scikit-learn."""
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, target.labels)
        if groups is not None and len(groups) != len(target.labels):
            raise InputError("groups", f"has {len(groups)} rows but y has {len(target.labels)}", "pass one per row")
        if not trains:
            if others:
                problem = "is for the fit of the model, which is already fitted"
                raise InputError(next(iter(others)), problem, "leave it out")
            return Arguments({}, {}, weight, groups)
        if _routing_enabled():
            given = {"sample_weight": sample_weight, "groups": groups, **others}
            routed = process_routing(self, "fit", **{name: each for name, each in given.items() if each is not None})
            splitter = routed.get("splitter", {}).get("split", {})
            return Arguments(dict(routed["estimator"]["fit"]), dict(splitter), weight, groups)
        params = dict(others)
        if sample_weight is not None:
            name = weight_argument(self.estimator)
            if name is None:
                warn(weights_for_map_only(type(self.estimator).__name__))
            else:
                params[name] = sample_weight
        return Arguments(params, {}, weight, groups)

    def get_metadata_routing(self) -> MetadataRouter:
        """Which arguments of ``fit`` go to the model and to the splitter, for scikit-learn's metadata routing."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(
                splitter=getattr(self, "cv", None),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    # ---------------------------------------------------------------------------------------------------- predictions

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest calibrated probability; the first of several that are equal."""
        p = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(p, axis=1)])

    def __sklearn_tags__(self) -> Any:
        """Two classes; the input that the model accepts."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def unfitted(estimator: Any) -> Any:
    """A copy that is not fitted; made from the parameters where scikit-learn's clone refuses, as with CatBoost."""
    try:
        return clone(estimator)
    except RuntimeError:  # the constructor copies a parameter, such as a list of columns
        return type(estimator)(**estimator.get_params(deep=False))


def weight_argument(estimator: Any) -> str | None:
    """Name under which ``fit`` passes sample weights on to the model; in a pipeline, to its last step.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_argument(make_pipeline(StandardScaler(), LogisticRegression()))
    'logisticregression__sample_weight'
    >>> weight_argument(KNeighborsClassifier()) is None
    True
    """
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        inner = weight_argument(last)
        return None if inner is None else f"{step}__{inner}"
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return weight_argument(estimator.estimator)
    accepted = signature(estimator.fit).parameters
    anything = any(each.kind is Parameter.VAR_KEYWORD for each in accepted.values())
    return "sample_weight" if anything or "sample_weight" in accepted else None


def takes_groups(splitter: Any) -> bool:
    """Whether a splitter of scikit-learn needs the groups of the rows.

    Examples
    --------
    >>> from sklearn.model_selection import GroupKFold, KFold
    >>> takes_groups(GroupKFold(3)), takes_groups(KFold(3))
    (True, False)
    """
    routing = getattr(splitter, "get_metadata_routing", None)
    return routing is not None and bool(routing().split.requests.get("groups"))


def _may_take_groups(splitter: Any, groups: Any) -> bool:
    """Whether groups are passed to a splitter of another library, which does not say whether it needs them."""
    other = groups is not None and not hasattr(splitter, "get_metadata_routing")
    return other and "groups" in signature(splitter.split).parameters


def check_two(classes: NDArray[Any]) -> None:
    """Raise an error unless there are two classes."""
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported, but there {'is' if len(classes) == 1 else 'are'} "
            f"{plural(len(classes), 'class', 'classes')}"
        )


def refuse_many(problem: str, fix: str) -> InputError:
    """The error of more than two classes where two are needed; its middle is what scikit-learn's checks look for."""
    return InputError(
        "y",
        f"{problem}. Only binary classification is supported. The type of the target is multiclass",
        fix,
    )


def check_splits(splits: Splits, target: Target, groups: Any = None) -> None:
    """Reject folds that cannot be used to train or calibrate."""
    if len(target.found) < 2:
        raise InputError("y", "has only one class", "pass rows of two or more classes")
    if not splits:
        raise InputError("cv", "has no folds", "pass a number of folds, such as 5")
    keys = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    for train, test in splits:
        if np.intersect1d(train, test).size:
            raise InputError("cv", "uses some rows both for a model and for its calibrator", "use disjoint sets")
        if len(np.unique(target.labels[train])) < 2:
            raise InputError("cv", "has a fold whose training rows have only one class", "lower cv, or stratify")
        if keys is not None and np.intersect1d(keys[train], keys[test]).size:
            raise InputError(
                "cv",
                "uses rows of one group both for a model and for its calibrator",
                "pass a number of folds, or a splitter by groups such as GroupKFold",
            )


def times_left_out(splits: Splits, n: int) -> NDArray[np.intp]:
    """In how many folds each of n rows is held out."""
    return np.bincount(np.concatenate([test for _, test in splits]), minlength=n)
