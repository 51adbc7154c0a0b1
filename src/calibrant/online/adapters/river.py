"""Online calibration of river classifiers; needs ``river``."""

from __future__ import annotations

import copy
from typing import Any

from river import base

from calibrant.messages import InputError
from calibrant.online.base import Forecaster, one_score_forecaster, own_copy
from calibrant.online.experts.newton import OnlinePlatt
from calibrant.online.guards import Guard, learning, reading, watching
from calibrant.online.inputs import one_label, one_score


class RiverClassifier(base.Wrapper[base.Classifier], base.Classifier):
    """A binary river classifier with online calibration of its probabilities.

    Each row is scored by the current model; then the model learns its outcome, and the forecaster learns the outcome
    with that score. A row that the model rejects is not learned by either. Threads may share it, like a forecaster.

    Parameters
    ----------
    model
        Any binary river classifier with ``predict_proba_one``, or a pipeline.
    forecaster
        Any forecaster of one score; by default :class:`OnlinePlatt`. It is copied. Copies of a randomized forecaster
        have separate secret draws; with the same ``random_state``, two classifiers make the same draws, so one reveals
        the other.

    Attributes
    ----------
    forecaster_
        The forecaster that has learned.

    Notes
    -----
    Edge cases: the probability of a label that the model does not return is 1 minus that of the other; a model without
    probabilities yet gives 1/2. Labels are True and False, or 1 and 0. A clone has learned nothing.
    Guarantee: that of the forecaster, if each outcome is learned before the next forecast.
    Cost: two scores of the model per row, one to forecast and one to learn, and that of the forecaster.
    Reference: Gupta (2023), section 6.1, with a model that learns too.

    Examples
    --------
    >>> from river import linear_model
    >>> model = RiverClassifier(linear_model.LogisticRegression())
    >>> for i in range(100):
    ...     model.learn_one({"x": i % 3}, i % 3 == 2)
    >>> sorted(model.predict_proba_one({"x": 2})), model.forecaster_.n_rows
    ([False, True], 100)
    """

    def __init__(self, model: base.Classifier, forecaster: Forecaster | None = None) -> None:
        if not (hasattr(model, "predict_proba_one") and hasattr(model, "learn_one")):
            raise InputError(
                "model",
                f"must be a river classifier with predict_proba_one, not {type(model).__name__}",
                "for a scikit-learn classifier use OnlineClassifier",
            )
        self._guard = Guard()
        self.model = model
        self.forecaster = forecaster  # unchanged: river clones from it
        self.forecaster_ = OnlinePlatt() if forecaster is None else own_copy(one_score_forecaster(forecaster))

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.model

    @property
    def _multiclass(self) -> bool:
        return False

    @classmethod
    def _unit_test_params(cls) -> Any:
        from river import linear_model

        yield {"model": linear_model.LogisticRegression()}

    @reading
    def __getstate__(self) -> dict[str, Any]:
        """State for pickling and copying: model and forecaster after the same row."""
        return copy.deepcopy(self.__dict__)

    def _score(self, x: dict[Any, Any]) -> float:
        given = self.model.predict_proba_one(x)
        return float(given[True] if True in given else 1.0 - given.get(False, 0.5))

    @watching
    def predict_proba_one(self, /, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The calibrated probability of each label."""
        p = self.forecaster_.predict_one(self._score(x))
        return {False: 1.0 - p, True: p}

    @learning
    def learn_one(self, /, x: dict[Any, Any], y: Any, **kwargs: Any) -> None:
        """Learn one outcome: the model, and the forecaster with the score that the model gave before."""
        score, label = one_score(self._score(x)), one_label(y, bounded=False)
        self.model.learn_one(x, y)  # if it raises, the forecaster has not changed
        self.forecaster_.learn_one(score, label)
