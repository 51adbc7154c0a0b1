"""Models inside conformal methods: which of them can be used, and their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import _num_samples

from calibrant.messages import InputError

Floats = NDArray[np.float64]


def predictions(model: Any, X: Any) -> Floats:
    """Predictions of a model as finite numbers, one for each row."""
    found = np.asarray(model.predict(X), dtype=np.float64)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (_num_samples(X),):
        raise InputError("model", f"predicts an array of shape {found.shape}", "pass a regressor of one outcome")
    if not np.isfinite(found).all():
        raise InputError("model", "predicts values that are missing or infinite", "repair the model or its inputs")
    return found


def is_frozen(model: Any) -> bool:
    """Whether a model, one of several, or a part of it is a ``FrozenEstimator``, which ``fit`` leaves as it is.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> is_frozen(make_pipeline(FrozenEstimator(DummyRegressor()))), is_frozen(DummyRegressor())
    (True, False)
    """
    if isinstance(model, tuple | list):
        return any(is_frozen(each) for each in model)
    if isinstance(model, FrozenEstimator):
        return True
    parts = model.get_params(deep=True) if hasattr(model, "get_params") and not isinstance(model, type) else {}
    return any(isinstance(part, FrozenEstimator) for part in parts.values())


def check_model(model: Any, family: object = None, *, prefit: bool = False) -> None:
    """Refuse a model that cannot predict, or, unless it is prefit, one that is not fitted again to other rows.

    Parameters
    ----------
    model, family
        The regressor or several of them, and the family, which may have a model of its own.
    prefit
        Whether the model is fitted already, to other rows.
    """
    for each in model if isinstance(model, tuple | list) else (model,):
        if isinstance(each, type):
            raise InputError("model", f"is the class {each.__name__}", f"pass a regressor: {each.__name__}()")
        if not all(callable(getattr(each, name, None)) for name in (("predict",) if prefit else ("fit", "predict"))):
            what = "predict" if prefit else "fit and predict"
            raise InputError("model", f"of type {type(each).__name__} has no {what}", "pass a regressor")
    if prefit:
        return
    for name, each in (("model", model), ("family", getattr(family, "spread", None))):
        if is_frozen(each):
            raise InputError(
                name,
                "is frozen, so it is not fitted again without the rows it is judged on",
                "pass it unfitted, or use SplitConformal(prefit=True) with rows that it has not seen",
            )
