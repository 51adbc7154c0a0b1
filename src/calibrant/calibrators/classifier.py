"""A calibrator around a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _clone_parametrized, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import BaseCrossValidator, cross_val_predict
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from calibrant.calibrators.base import BinaryCalibrator
from calibrant.guarantees.certificates import Certificate, Refusal
from calibrant.guarantees.provenance import Sampling, Weighting
from calibrant.tallies import Tally

INDEPENDENT: Sampling = "independent"
OUT_OF_FOLD: Sampling = "out-of-fold"
SPARSE = ["csr", "csc", "coo"]


class ScoringClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """What classifiers around a classifier share: two named classes, and the scores of the model inside."""

    estimator: Any
    classes_: NDArray[Any]

    def _refitted(self, X: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        """Rows and labels for a model that is fitted here."""
        rows, labels = validate_data(self, X, y, accept_sparse=SPARSE, dtype=None)
        return rows, _two_labels(labels)

    def _new(self, X: ArrayLike) -> Any:
        """Rows for a model that was fitted here."""
        return validate_data(self, X, accept_sparse=SPARSE, dtype=None, reset=False)

    def _method(self) -> str:
        return "predict_proba" if hasattr(self.estimator, "predict_proba") else "decision_function"

    def _kind(self) -> Any:
        return "probability" if self._method() == "predict_proba" else "real"

    def _scores(self, estimator: Any, X: Any) -> NDArray[np.float64]:
        return _column(getattr(estimator, self._method())(X))

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the larger calibrated probability; the first one at exactly one half."""
        p = self.predict_proba(X)[:, 1]
        return np.asarray(self.classes_[(p > 0.5).astype(np.intp)])

    def __sklearn_tags__(self) -> Any:
        """Two classes; sparse input where the estimator takes it."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


class CalibratedClassifier(ScoringClassifier):
    """A binary classifier whose probabilities pass through one calibration map.

    Parameters
    ----------
    estimator
        The classifier; its ``predict_proba`` (else ``decision_function``) gives the score.
    calibrator
        Any binary calibrator.
    cv : "prefit", int or splitter
        ``"prefit"`` (default): ``estimator`` is fitted already and is never refitted; the rows given to ``fit`` must be
        new to it. Otherwise scores come out of fold, one map is fitted to all of them, and the estimator is refitted on
        all rows: one model and one map, not one per fold. No certificate is then issued, since the out-of-fold scores
        come from other models than the one in use.
    weights : {"importance", "counts"}
        What ``sample_weight`` means to the map; see :meth:`BinaryCalibrator.fit`.

    Attributes
    ----------
    classes_, estimator_, calibrator_
        Labels in sorted order, the classifier and the fitted calibrator.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant.calibrators.parametric import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0, "yes", "no")
    >>> model = CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X[:2]).shape
    (['no', 'yes'], (2, 2))
    """

    def __init__(
        self,
        estimator: Any,
        calibrator: BinaryCalibrator,
        *,
        cv: Literal["prefit"] | int | BaseCrossValidator = "prefit",
        weights: Weighting = "importance",
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.weights = weights

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map, and the estimator unless it is prefit."""
        X, y = self._checked(X, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        self.classes_ = self._class_labels(y)
        labels = y == self.classes_[1]
        if self.cv == "prefit":
            _check_prefit(self.estimator)
            self.estimator_ = FrozenEstimator(self.estimator)
            scores, sampling = self._scores(self.estimator_, X), INDEPENDENT
        else:
            params = {} if weight is None else {"sample_weight": weight}
            scores, sampling = self._out_of_fold(X, y, params), OUT_OF_FOLD
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
        tally = Tally.from_arrays(scores, labels, weight, weights=self.weights, kind=self._kind())
        self.calibrator_ = clone(self.calibrator).fit_tally(tally, sampling=sampling)
        return self

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        if self.cv == "prefit":  # a fitted pipeline checks its own input, and may take columns that are not numbers
            if hasattr(self.estimator, "n_features_in_"):
                self.n_features_in_ = self.estimator.n_features_in_
            return X, _two_labels(np.asarray(y))
        return self._refitted(X, y)

    def _class_labels(self, y: NDArray[Any]) -> NDArray[Any]:
        """The two labels in sorted order: those that a prefit model knows, else those of ``y``."""
        found = np.unique(y)
        classes = np.asarray(self.estimator.classes_) if self._knows_classes() else found
        check_two(classes)
        if not set(found.tolist()) <= set(classes.tolist()):
            raise ValueError(f"y has the classes {found.tolist()}, but the fitted model has {classes.tolist()}")
        return classes

    def _knows_classes(self) -> bool:
        return self.cv == "prefit" and hasattr(self.estimator, "classes_")

    def __sklearn_clone__(self) -> Self:
        """A clone keeps a prefit model fitted, so that it survives cross-validation and grid searches."""
        if self.cv != "prefit":
            return cast(Self, _clone_parametrized(self))
        frozen = self.estimator if isinstance(self.estimator, FrozenEstimator) else FrozenEstimator(self.estimator)
        return type(self)(frozen, clone(self.calibrator), cv=self.cv, weights=self.weights)

    def _out_of_fold(self, X: Any, y: NDArray[Any], params: dict[str, Any]) -> NDArray[np.float64]:
        return _column(cross_val_predict(self.estimator, X, y, cv=self.cv, method=self._method(), params=params))

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        check_is_fitted(self, "calibrator_")
        if self.cv != "prefit":
            X = self._new(X)
        return np.asarray(self.calibrator_.predict_proba(self._scores(self.estimator_, X)))

    def certificate(self, alpha: float | None = None) -> Certificate | Refusal:
        """What is promised about the fitted map; ``alpha`` is by default the calibrator's own."""
        check_is_fitted(self, "calibrator_")
        return cast(BinaryCalibrator, self.calibrator_).certificate(alpha)


def _check_prefit(estimator: Any) -> None:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise NotFittedError(
            f"{type(estimator).__name__} is not fitted: fit it first on other rows, or pass cv=5 to have it fitted here"
        ) from None


def _two_labels(y: NDArray[Any]) -> NDArray[Any]:
    check_classification_targets(y)
    if type_of_target(y, input_name="y") == "multiclass":
        raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
    return y


def check_two(classes: NDArray[Any]) -> None:
    """Refuse another number of classes than two."""
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported, but there {'is' if len(classes) == 1 else 'are'} "
            f"{len(classes)} class{'' if len(classes) == 1 else 'es'}"
        )


def _column(scores: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(scores[:, 1] if scores.ndim == 2 else scores, dtype=np.float64)
