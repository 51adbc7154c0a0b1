"""Base class of forecasters by ridge regression: rows, factors and states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.factors import absorb, solve
from calibrant.online.limits import SLACK, changed
from calibrant.online.regression.group_features import group_features, row_features
from calibrant.online.settings import read_only

NO_REGRESSORS = "must be True without features and without the score, since the forecast would always be 0"


class RegressionForecaster(Forecaster):
    """Ridge regression on regressors in [-1, 1], row by row.

    A subclass sets ``_n``, the number of regressors, calls ``_clear``, and defines ``_fitted``: the forecast of a row
    and its regressors. With the score as a regressor the regression starts at it, else at zero.
    """

    n_features: int = read_only()
    feature_names: tuple[str, ...] = read_only()
    include_score: bool = read_only()
    constant: bool = read_only()
    clamp: float = read_only()

    bounded_outcomes = True

    _n: int
    _errors: list[float]

    def _clear(self) -> None:
        n = self._n
        self._seen, self._spent = 0, 0.0
        self._errors, self._theta = [0.0] * self._sums, [0.0] * n
        # The matrix I + sum of f f' with the right-hand side as its last row, as factors: D, and L below its diagonal.
        self._pivots, self._columns = [1.0] * n, [[0.0] * (n - j) for j in range(n)]

    @property
    def _sums(self) -> int:
        """Number of sums of errors that it keeps: one for each regressor, or none."""
        return 0

    @property
    def takes_features(self) -> bool:  # type: ignore[override]
        """Whether rows need features besides the score."""
        return self.n_features > 0

    # ---------------------------------------------------------------------------------------------------- one row

    def _predict_one(self, score: float, features: Any = None) -> float:
        return self._fitted(self._score(score), self._one(features))[0]

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        self._take_in(self._score(score), self._label(label), self._one(features))

    def _step(self, score: float, label: float, features: Any = None) -> float:
        return self._take_in(score, label, self._one(features))

    def _fitted(self, s: float, xs: list[float]) -> tuple[float, list[float]]:
        """The forecast of a row, and its regressors in storage order."""
        raise NotImplementedError

    def _take_in(self, s: float, y: float, xs: list[float]) -> float:
        """Learn a row, and return the forecast before."""
        p, row = self._fitted(s, xs)
        error = p - y
        if self._errors:
            self._errors = [e + error * f for e, f in zip(self._errors, row, strict=True)]
        share = absorb(self._pivots, self._columns, [*row, y - s if self.include_score else y])
        self._spent += error * error * (1.0 - share)
        self._theta = solve(self._columns)
        self._seen += 1
        return p

    # -------------------------------------------------------------------------------------------------- many rows

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        xs = self._scores(scores).tolist()
        rows = zip(xs, self._all(features, len(xs), scores), strict=True)
        return np.array([self._fitted(x, f)[0] for x, f in rows], dtype=np.float64)

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        self._forecast_many(scores, labels, features)

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        xs, ys = self._scores(scores).tolist(), self._labels(labels, scores).tolist()
        rows = zip(xs, ys, self._all(features, len(xs), scores), strict=True)
        return np.array([self._take_in(x, y, f) for x, y, f in rows], dtype=np.float64)

    def _one(self, features: Any) -> list[float]:
        return row_features(features, self.n_features, self.feature_names)

    def _all(self, features: Any, n: int, scores: ArrayLike) -> list[list[float]]:
        return group_features(features, n, self.n_features, self.feature_names, scores)

    # -------------------------------------------------------------------------------------------------- its state

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "n_features": list(self.feature_names) or self.n_features}

    def _numbers(self) -> list[float]:
        factors = [c for column in self._columns for c in column]
        return [float(self._seen), self._spent, *self._errors, *self._pivots, *factors]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        n, seen, at = self._n, numbers[0], 2 + self._sums
        # Values of functions, errors and targets are at most 1, so sums over rows are at most the number of rows, and
        # entries of a factor at most the square root of the diagonal of the matrix over the pivot.
        most = (1.0 + seen) * (1.0 + SLACK)
        errors, pivots = numbers[2:at], numbers[at : at + n]
        columns = self._split(numbers)
        fine = (
            0.0 <= numbers[1] <= n * math.log1p(seen) * (1.0 + SLACK)
            and max(map(abs, errors), default=0.0) <= seen * (1.0 + SLACK)
            and 1.0 <= min(pivots) <= max(pivots) <= most
            and all(abs(x) * abs(x) * p <= most for p, column in zip(pivots, columns, strict=True) for x in column)
            and (seen > 0 or not any(map(any, columns)))
        )
        if not fine:
            raise changed("sums")

    def _split(self, numbers: list[float]) -> list[list[float]]:
        """Columns of the factors."""
        n, at, columns = self._n, 2 + self._sums + self._n, []
        for length in range(n, 0, -1):
            columns.append(numbers[at : at + length])
            at += length
        return columns

    def _resume(self, numbers: list[float]) -> None:
        n, at = self._n, 2 + self._sums
        self._seen, self._spent, self._errors = int(numbers[0]), numbers[1], numbers[2:at]
        self._pivots, self._columns = numbers[at : at + n], self._split(numbers)
        self._theta = solve(self._columns)
