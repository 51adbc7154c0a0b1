"""Online calibration of scikit-learn classifiers, prefit or with ``partial_fit``."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.labels import label_column
from calibrant.calibrators.scoring import ScoringClassifier, check_two
from calibrant.messages import InputError
from calibrant.numerics import expit
from calibrant.online.base import Forecaster, one_score_forecaster, own_copy
from calibrant.online.experts.newton import OnlinePlatt
from calibrant.online.guards import Guard, learning, reading, watching
from calibrant.online.inputs import many_labels, many_scores


class OnlineClassifier(ScoringClassifier):
    """A binary scikit-learn classifier with online calibration of its probabilities, batch by batch.

    Each batch is first scored by the current model, then its outcomes are learned by the forecaster, and only then by
    the model, so the forecaster never sees a score of a row that the model was fitted on. Threads may share it, like a
    forecaster.

    Parameters
    ----------
    estimator
        The classifier. Its ``predict_proba``, or else the expit of its ``decision_function``, gives the score.
    forecaster
        Any forecaster of one score; by default :class:`OnlinePlatt`. It is copied. Copies of a randomized forecaster,
        also those of clones, have separate secret draws; with the same ``random_state``, two classifiers make the same
        draws, so one reveals the other.
    prefit : bool, default=False
        Whether the model is already fitted and does not change. Otherwise it needs ``partial_fit``. A model in
        scikit-learn's ``FrozenEstimator`` is always prefit; use it if this classifier is cloned, as in
        cross-validation, since a clone of the bare model is not fitted.

    Attributes
    ----------
    classes_, estimator_, forecaster_
        Labels in sorted order, the classifier and the forecaster that has learned.

    Notes
    -----
    Edge cases: the first batch has no scores, since nothing is fitted yet, so only the model learns it. A prefit model
    can forecast before the first outcome, with the initial forecaster. A batch that is rejected, also by the model,
    changes nothing.
    Guarantee: that of the forecaster if batches are single rows, each learned before the next is forecast. In larger
    batches all rows are forecast before any is learned, which no certificate covers.
    Cost: one score of the model and one forecast per row and call.
    Reference: Gupta (2023), section 6.1, with a model that learns too.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2))
    >>> y = X[:, 0] + rng.normal(size=900) > 0
    >>> model = OnlineClassifier(SGDClassifier(loss="log_loss", random_state=0))
    >>> for rows in np.split(np.arange(900), 9):
    ...     model = model.partial_fit(X[rows], y[rows], classes=[False, True])
    >>> model.predict_proba(X[:2]).shape, model.forecaster_.n_rows
    ((2, 2), 800)
    """

    def __init__(self, estimator: Any, forecaster: Forecaster | None = None, *, prefit: bool = False) -> None:
        self.estimator = estimator
        self.forecaster = forecaster
        self.prefit = prefit

    @property
    def _guard(self) -> Guard:
        """Created on first use: scikit-learn estimators set only their parameters in ``__init__``."""
        found: Guard | None = self.__dict__.get("_own_guard")
        return self.__dict__.setdefault("_own_guard", Guard()) if found is None else found

    @reading
    def __getstate__(self) -> dict[str, Any]:
        """State for pickling and copying: model and forecaster after the same batch."""
        found = {name: value for name, value in super().__getstate__().items() if name != "_own_guard"}
        moving = ("forecaster_",) if self._frozen else ("estimator_", "forecaster_")
        return found | {name: copy.deepcopy(found[name]) for name in moving if name in found}

    @learning
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Start over with one batch; a prefit model is not refitted, only its calibration learns."""
        return self._begin(X, y, None)

    @learning
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn a batch: score it with the current model, then learn its outcomes.

        Parameters
        ----------
        X
            Features of the rows.
        y
            Labels of two classes.
        classes
            Both classes; needed in the first call if ``y`` lacks one of them.

        Returns
        -------
        OnlineClassifier
            The classifier itself.
        """
        if not hasattr(self, "forecaster_"):
            return self._begin(X, y, classes)
        rows = self._rows(self.estimator_, X, _binary(y, self.classes_))
        if not self._frozen:
            self.estimator_.partial_fit(X, y)
        self.forecaster_.learn_many(*rows)
        return self

    def _begin(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None) -> Self:
        """The first batch; if it is rejected, nothing changes."""
        known, forecaster = self._classes(y, classes), copy.deepcopy(self._start())
        labels = _binary(y, known)
        if self._frozen:
            estimator = self.estimator
            forecaster.learn_many(*self._rows(estimator, X, labels))
        else:
            estimator = clone(self.estimator)
            estimator.partial_fit(X, y, classes=known)
        self.classes_, self.estimator_, self.forecaster_ = known, estimator, forecaster
        del self._given
        return self

    @property
    def _frozen(self) -> bool:
        return self.prefit or isinstance(self.estimator, FrozenEstimator)

    def _classes(self, y: ArrayLike | None, classes: ArrayLike | None) -> NDArray[Any]:
        self._method()  # a model without scores is rejected before it learns
        if self._frozen:
            check_is_fitted(self.estimator)
            named = self.estimator.classes_
        else:
            if not hasattr(self.estimator, "partial_fit"):
                problem = f"has the type {type(self.estimator).__name__}, which has no partial_fit"
                raise InputError("estimator", problem, "fit it first and pass prefit=True, or use another model")
            given, name = (y, "y") if classes is None else (classes, "classes")
            label_column(given, name)  # no label may be missing
            named = np.unique(np.asarray(given))
        found = np.asarray(named)
        check_two(found)
        return found

    def _start(self) -> Forecaster:
        """The initial forecaster, the same object until the first outcome, so that its draws are the ones learned."""
        held = self.__dict__.get("_given")
        if held is None or held[0] is not self.forecaster:
            given = OnlinePlatt() if self.forecaster is None else own_copy(one_score_forecaster(self.forecaster))
            if held is not None:
                del self._given
            held = self.__dict__.setdefault("_given", (self.forecaster, given))  # the first of several threads wins
        return held[1]  # type: ignore[no-any-return]

    def _rows(self, estimator: Any, X: ArrayLike, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores and labels, validated before anything learns."""
        scores = many_scores(self._probabilities(estimator, X))
        return scores, many_labels(labels, scores, bounded=False)

    def _probabilities(self, estimator: Any, X: ArrayLike) -> NDArray[np.float64]:
        scores = self._scores(estimator, X)
        return scores if self._kind() == "probability" else np.asarray(expit(scores), dtype=np.float64)

    @watching
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        _, p = self._forecasts(X)
        return np.asarray(np.column_stack([1.0 - p, p]))

    @watching
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the larger calibrated probability; the first one at exactly 1/2."""
        classes, p = self._forecasts(X)
        return np.asarray(classes[(p > 0.5).astype(np.intp)])

    def _forecasts(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The classes, and the calibrated probability of the second one.

        A prefit model has them before the first outcome, which may come weeks later, from the initial forecaster.
        """
        if self._frozen and not hasattr(self, "forecaster_"):
            classes, estimator, forecaster = self._classes(None, None), self.estimator, self._start()
        else:
            check_is_fitted(self, "forecaster_")
            classes, estimator, forecaster = self.classes_, self.estimator_, self.forecaster_
        return classes, forecaster.predict_many(self._probabilities(estimator, X))


def _binary(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.float64]:
    found = label_column(y, "y")
    unknown = set(np.unique(found).tolist()) - set(classes.tolist())
    if unknown:
        problem = f"has labels outside the classes {classes.tolist()}, such as {min(unknown)!r}"
        raise InputError("y", problem, "leave these rows out")
    return np.asarray(found == classes[1], dtype=np.float64)
