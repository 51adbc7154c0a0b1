r"""Density ratio from a classifier that distinguishes target rows from source rows.

.. math:: \hat w(x) = \frac{n}{\tilde n} \cdot \frac{p(x)}{1 - p(x)},

where p is the predicted probability that a row is of the target, among n source and :math:`\tilde n` target rows
(Bickel, Brueckner and Scheffer 2009). Rows are predicted by models that were not trained on them.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.messages import InputError
from calibrant.numerics import Floats, expit
from calibrant.solvers import fit_logistic

FOLDS = 5
"""Number of folds; as many as rows if there are fewer."""


class LogisticModel:
    """Logistic regression in the features, shrunk by two pseudo-rows per feature so that it always has a solution.

    Examples
    --------
    >>> model = LogisticModel().fit(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]))
    >>> model.predict_proba(np.array([[1.5]])).round(6).tolist()
    [[0.5, 0.5]]
    """

    classes_ = np.array([0, 1])
    coefficients: Floats
    center: Floats
    scale: Floats

    def fit(self, matrix: Floats, labels: Any) -> LogisticModel:
        """Fit to rows with labels 0 and 1."""
        self.center = matrix.mean(axis=0)
        spread = matrix.std(axis=0)
        self.scale = np.where(spread > 0.0, spread, 1.0)
        rows, size = self._design(matrix), matrix.shape[1]
        pseudo = np.concatenate([np.eye(size), -np.eye(size)])
        design = np.concatenate([rows, np.column_stack([pseudo, np.zeros(2 * size)])])
        n = np.ones(len(design))
        events = np.concatenate([np.asarray(labels, dtype=np.float64), np.full(2 * size, 0.5)])
        self.coefficients = fit_logistic(lambda: [(design.T, n, events)], size + 1).coefficients
        return self

    def predict_proba(self, matrix: Floats) -> Floats:
        """Probabilities of source and target."""
        p = expit(self._design(matrix) @ self.coefficients)
        return np.column_stack([1.0 - p, p])

    def _design(self, matrix: Floats) -> Floats:
        return np.column_stack([(matrix - self.center) / self.scale, np.ones(len(matrix))])


@dataclass(frozen=True, eq=False)
class OddsRatio:
    """Models of the folds; the ratio is the mean of theirs. ``factors`` correct for the numbers of rows."""

    models: tuple[Any, ...]
    factors: tuple[float, ...]
    upper: float

    def __call__(self, matrix: Floats) -> Floats:
        """The ratio at each row."""
        found = [_ratio(model, matrix, factor) for model, factor in zip(self.models, self.factors, strict=True)]
        return np.asarray(np.minimum(np.mean(found, axis=0), self.upper))


def _ratio(model: Any, matrix: Floats, factor: float) -> Floats:
    p = np.asarray(model.predict_proba(matrix), dtype=np.float64)[:, list(model.classes_).index(1)]
    return np.asarray(factor * p / np.maximum(1.0 - p, np.finfo(np.float64).tiny))


def fit_odds(source: Floats, target: Floats, estimator: Any, random: np.random.Generator) -> tuple[OddsRatio, Floats]:
    """Fit by folds: the ratio as a function, and out-of-fold ratios of the source rows.

    A ratio above n times that of equal populations is set to n, the number of source rows: one row cannot show more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio, at_source = fit_odds(rng.normal(0, 1, (500, 1)), rng.normal(1, 1, (500, 1)), None, rng)
    >>> ratio(np.array([[0.5]])).round(1).tolist()  # the densities are equal there
    [1.0]
    """
    if estimator is not None and not (hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")):
        raise InputError(
            "method", f"is {estimator!r}, which is not a classifier", 'pass "ulsif", "logistic" or a classifier'
        )
    folds = min(FOLDS, len(source), len(target))
    parts = [random.permutation(np.arange(len(each)) % folds) for each in (source, target)]
    rows, labels = np.concatenate([source, target]), np.repeat([0, 1], [len(source), len(target)])
    part, models, factors, held = np.concatenate(parts), [], [], np.zeros(len(source))
    for fold in range(folds):
        seen = part != fold
        model = LogisticModel() if estimator is None else deepcopy(estimator)
        model.fit(rows[seen], labels[seen])
        models.append(model)
        factors.append(float((labels[seen] == 0).sum() / (labels[seen] == 1).sum()))
        apart = parts[0] == fold
        held[apart] = _ratio(model, source[apart], factors[-1])
    upper = float(len(source))
    return OddsRatio(tuple(models), tuple(factors), upper), np.minimum(held, upper)
