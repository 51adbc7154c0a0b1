"""A calibrator around a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _clone_parametrized, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted

from calibrant.arrays.labels import label_column
from calibrant.calibrators.base import BinaryCalibrator, check_calibrator
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import Sampling
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats
from calibrant.tallies import Tally

INDEPENDENT: Sampling = "independent"
OUT_OF_FOLD: Sampling = "out-of-fold"
METHODS = ("predict_proba", "decision_function")

Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
Scored = tuple[Any, NDArray[Any], Floats]  # the model in use, its classes, and scores for fitting the map


class Fold(NamedTuple):
    """The held-out rows, the model trained on the other rows, and its scores of the held-out rows."""

    rows: NDArray[np.intp]
    model: Any
    scores: Floats


class ScoringClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base class of calibrated classifiers: two named classes, and the scores of the wrapped model.

    The model gets rows, labels and weights as the user passed them and checks them itself: only it knows which
    columns, types and missing values it accepts.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Those of the fitted model, if it has them.
    """

    estimator: Any
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

    def _scores(self, estimator: Any, X: Any) -> Floats:
        scores = np.asarray(getattr(estimator, self._method())(X), dtype=np.float64)
        return scores[:, 1] if scores.ndim == 2 else scores

    def _trained(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        return clone(self.estimator).fit(X, y, **params)

    def _folds(
        self, cv: Any, X: Any, y: Any, labels: NDArray[Any], params: dict[str, Any], *, once: bool = False
    ) -> Iterator[Fold]:
        """The folds, checked before any model is trained; with ``once``, each row must be in exactly one of them.

        Rows are selected by scikit-learn's own functions, without conversion.
        """
        rows, answers = indexable(X, y)
        splits = list(check_cv(cv, labels, classifier=True).split(rows, answers))
        check_splits(splits, labels, once=once)
        for train, test in splits:
            some, theirs = _safe_split(self.estimator, rows, answers, train)
            model = self._trained(some, theirs, _check_method_params(rows, params, train))
            held, _ = _safe_split(self.estimator, rows, None, test, train)
            yield Fold(test, model, self._scores(model, held))

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the larger calibrated probability; the first class at exactly one half."""
        p = self.predict_proba(X)[:, 1]
        return np.asarray(self.classes_[(p > 0.5).astype(np.intp)])

    def __sklearn_tags__(self) -> Any:
        """Two classes; the input that the model accepts."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


@dataclass(eq=False, repr=False)
class CalibratedClassifier(ScoringClassifier):
    """A binary classifier with calibrated probabilities.

    Parameters
    ----------
    estimator
        The classifier; its ``predict_proba`` (else ``decision_function``) gives the score.
    calibrator
        Any binary calibrator, such as ``PlattScaling()`` or ``AutoCalibrator()``.
    cv : "prefit", int or splitter
        ``"prefit"`` (default): ``estimator`` is already fitted and is never refitted; rows passed to ``fit`` must be
        new to it. Otherwise one map is fitted to out-of-fold scores of all rows, and the estimator is refitted on all
        rows: one model and one map, not one per fold. No certificate is then issued, because the out-of-fold scores
        come from other models than the one in use.
    weight_type : {"importance", "frequency"}
        Meaning of ``sample_weight`` for the map; see :meth:`BinaryCalibrator.fit`.

    Attributes
    ----------
    classes_, estimator_, calibrator_
        Labels in the order of the classifier's columns, the classifier and the fitted calibrator.
    n_features_in_, feature_names_in_
        Those of the classifier, if it has them.

    Notes
    -----
    Guarantee: with ``"prefit"`` that of the calibrator; otherwise no finite-sample guarantee.
    Cost: one fit of the map; with ``cv``, also one fit of the model per fold and one on all rows.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant.calibrators.binary.scaling import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0, "yes", "no")
    >>> model = CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X[:2]).shape
    (['no', 'yes'], (2, 2))
    """

    estimator: Any
    calibrator: BinaryCalibrator
    _: KW_ONLY
    cv: Literal["prefit"] | int | BaseCrossValidator = "prefit"
    weight_type: Literal["importance", "frequency"] = "importance"

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map, and the estimator unless it is prefit.

        Parameters
        ----------
        X, y, sample_weight
            Rows, labels and weights. The estimator gets them as they are passed: frames stay frames, and the estimator
            decides about missing values.

        Returns
        -------
        self
            The fitted classifier.
        """
        check_calibrator(self.calibrator)
        kind, labels = self._kind(), two_labels(y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, labels)
        params = {} if sample_weight is None else {"sample_weight": sample_weight}
        model, classes, scores = self._prefit(X, labels) if self._is_prefit() else self._refitted(X, y, labels, params)
        tally = Tally.from_arrays(scores, labels == classes[1], weight, weight_type=self.weight_type, score_type=kind)
        sampling = INDEPENDENT if self._is_prefit() else OUT_OF_FOLD
        self.calibrator_ = clone(self.calibrator).fit_tally(tally, sampling=sampling)
        self.classes_, self.estimator_ = classes, model
        return self

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _prefit(self, X: Any, labels: NDArray[Any]) -> Scored:
        _check_prefit(self.estimator)
        model = FrozenEstimator(self.estimator)
        classes = self._known_classes(labels)
        return model, classes, self._scores(model, X)

    def _known_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """The two classes of the prefit model, else those of ``y`` in sorted order."""
        found = np.unique(labels)
        classes = np.asarray(getattr(self.estimator, "classes_", found))
        check_two(classes)
        if not set(found.tolist()) <= set(classes.tolist()):
            raise InputError(
                "y", f"has the classes {found.tolist()}, but the fitted model has {classes.tolist()}", "pass its labels"
            )
        return classes

    def _refitted(self, X: Any, y: Any, labels: NDArray[Any], params: dict[str, Any]) -> Scored:
        """The model fitted to all rows, and the out-of-fold score of each row."""
        scores = np.empty(len(labels))
        for fold in self._folds(self.cv, X, y, labels, params, once=True):
            scores[fold.rows] = fold.scores
        model = self._trained(X, y, params)
        return model, class_names(model, labels), scores

    def __sklearn_clone__(self) -> Self:
        """A clone keeps a prefit model fitted, as cross-validation and grid searches need."""
        if not self._is_prefit():
            return cast(Self, _clone_parametrized(self))
        frozen = self.estimator if isinstance(self.estimator, FrozenEstimator) else FrozenEstimator(self.estimator)
        return type(self)(frozen, clone(self.calibrator, safe=False), cv=self.cv, weight_type=self.weight_type)

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        check_is_fitted(self, "calibrator_")
        return np.asarray(self.calibrator_.predict_proba(self._scores(self.estimator_, X)))

    def certificate(self, alpha: float | None = None) -> Certificate | NoCertificate:
        """The guarantee of the fitted map, or the reason why there is none; ``alpha`` defaults to the calibrator's."""
        check_is_fitted(self, "calibrator_")
        return cast(BinaryCalibrator, self.calibrator_).certificate(alpha)


def _check_prefit(estimator: Any) -> None:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise NotFittedError(
            f"{type(estimator).__name__} is not fitted: fit it first on other rows, or pass cv=5 to fit it here"
        ) from None


def two_labels(y: Any) -> NDArray[Any]:
    """Labels of at most two classes."""
    labels = label_column(y, "y")
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    if type_of_target(labels, input_name="y") == "multiclass":
        raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
    return labels


def check_two(classes: NDArray[Any]) -> None:
    """Raise an error unless there are two classes."""
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported, but there {'is' if len(classes) == 1 else 'are'} "
            f"{plural(len(classes), 'class', 'classes')}"
        )


def class_names(model: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """The classes in the model's order; sorted if it lists none, or others (such as text for booleans)."""
    found = np.unique(labels)
    known = np.asarray(getattr(model, "classes_", found))
    return known if set(known.tolist()) == set(found.tolist()) else found


def check_splits(splits: Splits, labels: NDArray[Any], *, once: bool) -> None:
    """Reject folds that cannot be used to train or calibrate; with ``once``, also those that are not a partition."""
    check_two(np.unique(labels))
    if not splits:
        raise InputError("cv", "has no folds", "pass a number of folds, such as 5")
    for train, test in splits:
        if np.intersect1d(train, test).size:
            raise InputError("cv", "uses some rows both for a model and for its calibrator", "use disjoint sets")
        if len(np.unique(labels[train])) < 2:
            raise InputError("cv", "has a fold whose training rows have only one class", "lower cv, or stratify")
    times = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(labels))
    if once and (times != 1).any():
        raise InputError(
            "cv",
            f"must leave out every row exactly once, but {np.count_nonzero(times != 1):,} of {len(labels):,} rows are "
            "left out never or several times",
            "pass a number of folds, or a splitter such as StratifiedKFold",
        )
