"""What all conformal regressors share: reading rows, and sets with their certificate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from calibrant.arrays.columns import check_length, read_floats, refuse_not_finite
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.quantiles import check_alpha, fewest_rows
from calibrant.conformal.sets import PredictionSets
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import InputError, note, warn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BLOCK = 2_000_000  # entries of a matrix of interval ends that are held at once

too_few_rows = note(
    "too-few-calibration-rows",
    "{n:,} rows to calibrate are too few for alpha = {alpha:g}, so every set is the whole line: at least {needed:,} "
    "are needed",
)


class ConformalRegressor(ABC, BaseEstimator):
    """Base class of regressors that predict sets: what each of them adds is ``fit`` and three short methods."""

    alpha: float

    def predict_sets(self, X: Any, alpha: float | None = None) -> PredictionSets:
        """Prediction sets of new rows, with the certificate for this alpha."""
        check_is_fitted(self)
        level = check_alpha(self.alpha if alpha is None else alpha)
        if self._rows_needed(level) > self._calibration_rows():
            warn(too_few_rows(n=self._calibration_rows(), alpha=level, needed=self._rows_needed(level)))
        n = _num_samples(X)
        if n == 0:
            raise InputError("X", "is empty", "pass at least one row")
        step = max(BLOCK // max(self._ends_of_a_row(), 1), 1)
        if n <= step:
            return replace(self._sets(X, level), certificate=self.certificate(level))
        parts = [self._sets(take(X, np.arange(at, min(at + step, n))), level) for at in range(0, n, step)]
        return PredictionSets.concatenate(parts, self.certificate(level))

    def certificate(self, alpha: float | None = None) -> Coverage | NoCertificate:
        """Which coverage is guaranteed, or why none is."""
        check_is_fitted(self)
        return self._certificate(check_alpha(self.alpha if alpha is None else alpha))

    def _rows_needed(self, alpha: float) -> int:
        """Fewest calibration rows with which a set can have an end."""
        return fewest_rows(alpha)

    def _ends_of_a_row(self) -> int:
        """Number of intervals that a new row has before they are aggregated."""
        return self._calibration_rows()

    @abstractmethod
    def _calibration_rows(self) -> int:
        """Number of rows whose scores are compared with a new one."""

    @abstractmethod
    def _sets(self, X: Any, alpha: float) -> PredictionSets:
        """Sets of some new rows, without the certificate."""

    @abstractmethod
    def _certificate(self, alpha: float) -> Coverage | NoCertificate:
        """The certificate of the fitted method."""


class MeanOfModels(ConformalRegressor):
    """Base class of methods that fit several models, each to some of the rows."""

    learned_: list[Any]

    def predict(self, X: Any) -> Floats:
        """The mean of the forecasts of all models."""
        check_is_fitted(self)
        return np.asarray(np.mean([learned.center(X) for learned in self.learned_], axis=0), dtype=np.float64)


def take(X: Any, rows: Ints) -> Any:
    """Rows of an array or a data frame, by position."""
    return _safe_indexing(X, rows)


def read_rows(X: Any, y: ArrayLike, least: int = 1) -> tuple[int, Floats]:
    """Number of rows, and the outcomes as finite numbers."""
    n = _num_samples(X)
    outcomes = read_floats(y, "y")
    check_length(outcomes, "y", n, "X")
    if not np.isfinite(outcomes).all():
        refuse_not_finite(outcomes, "y", "drop these rows")
    if n < least:
        raise InputError("X", f"has {n} rows", f"pass at least {least}")
    return n, outcomes


def is_number(value: Any) -> bool:
    """Whether a setting is a real number, and no boolean."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def generator(seed: Any) -> np.random.Generator:
    """A generator of random numbers from a ``random_state``."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError("random_state", f"is {seed!r}", "pass an integer of at least 0, or None") from None
