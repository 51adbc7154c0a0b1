"""Repeated splits: the mean p-value over many subsamples or bootstrap samples."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import floor
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option, check_whole
from calibrant.conformal.base import MeanOfModels, generator, is_number, read_rows, take
from calibrant.conformal.coverage import Coverage, or_none
from calibrant.conformal.depth import held_by, held_by_weight
from calibrant.conformal.families import Family, family_of
from calibrant.conformal.models import check_model
from calibrant.conformal.quantiles import check_alpha, exact
from calibrant.conformal.sets import PredictionSets
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import InputError


@dataclass(eq=False, repr=False)
class RepeatedSplitConformal(MeanOfModels):
    r"""Prediction sets from the mean p-value over K random splits, by subsampling or the bootstrap.

    Split k fits a model to random rows, and the other rows :math:`R_k` give a p-value of each value y. The set is

    .. math:: C(x) = \Bigl\{y : \frac1K \sum_{k=1}^K
        \frac{\#\{i \in R_k : r_k(x, y) \le r_k(X_i, Y_i)\} + 1}{\lvert R_k \rvert + 1} > \alpha\Bigr\}.

    Parameters
    ----------
    model
        A regressor; see :class:`SplitConformal`.
    alpha
        Threshold of the mean p-value.
    family : str or Family
        Shape of the sets; see :class:`SplitConformal`.
    splits
        Number of splits K.
    resample : {"subsample", "bootstrap"}
        Rows that fit: drawn without replacement, or with it.
    fit_share
        Number of draws as a share of the rows; for the bootstrap usually 1.
    random_state
        Seed of the draws.

    Attributes
    ----------
    scores_
        Scores of the rows that were left out, one array for each split.

    Notes
    -----
    Guarantee: finite-sample. If old and new rows are exchangeable, a new outcome is in its set with probability at
    least :math:`1 - \min\{2, K\} \alpha`. In practice sets are larger than those of :class:`CrossConformal`.
    References: Carlsson et al. (2014); Vovk (2015); Gupta (2023), Theorems 9.4 and 9.5.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1))
    >>> y = X[:, 0] + rng.normal(size=100)
    >>> sets = RepeatedSplitConformal(LinearRegression(), alpha=0.1, splits=5).fit(X, y).predict_sets([[0.0]])
    >>> round(sets.certificate.level, 2), len(sets)
    (0.8, 1)
    """

    model: Any
    _: KW_ONLY
    alpha: float = 0.1
    family: str | Family = "residual"
    splits: int = 10
    resample: Literal["subsample", "bootstrap"] = "subsample"
    fit_share: float | None = None
    random_state: int | None = 0

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit one model for each split, and score the rows that it has not seen."""
        check_alpha(self.alpha)
        check_option("resample", self.resample, ("subsample", "bootstrap"))
        check_whole("splits", self.splits)
        check_model(self.model, family_of(self.family))
        n, outcomes = read_rows(X, y, least=2)
        share = {"subsample": 0.7, "bootstrap": 1.0}[self.resample] if self.fit_share is None else self.fit_share
        if not is_number(share) or not 0.0 < share <= 1.0:
            raise InputError("fit_share", f"must be above 0 and at most 1, got {share!r}")
        size = max(round(n * share), 1)
        rng = generator(self.random_state)
        self.learned_, self.scores_ = [], []
        for _ in range(self.splits):
            drawn = rng.choice(n, size, replace=self.resample == "bootstrap")
            left = np.setdiff1d(np.arange(n), drawn)
            learned = family_of(self.family).fit(self.model, take(X, drawn), outcomes[drawn])
            none = np.zeros(0)
            scores = learned.nested(take(X, left)).score(outcomes[left]) if left.size else none
            self.learned_.append(learned)
            self.scores_.append(scores)
        return self

    def _calibration_rows(self) -> int:
        return sum(scores.size for scores in self.scores_)

    def _rows_needed(self, alpha: float) -> int:
        return 0  # a mean p-value has no such number

    def _sets(self, X: Any, alpha: float) -> PredictionSets:
        ends = [
            learned.nested(X).level(scores[None, :])
            for learned, scores in zip(self.learned_, self.scores_, strict=True)
        ]
        lower, upper = (np.concatenate([pair[side] for pair in ends], axis=1) for side in (0, 1))
        sizes = [scores.size for scores in self.scores_]
        splits = len(sizes)
        if len(set(sizes)) == 1:  # integers, compared exactly
            return held_by(lower, upper, floor(splits * (exact(alpha) * (sizes[0] + 1) - 1)) + 1)
        weights = np.repeat([1.0 / (size + 1.0) for size in sizes], sizes)
        least = float(splits * exact(alpha)) - sum(1.0 / (size + 1.0) for size in sizes)
        return held_by_weight(lower, upper, weights, least)

    def _certificate(self, alpha: float) -> Coverage | NoCertificate:
        theorem = {"subsample": "9.4", "bootstrap": "9.5"}[self.resample]
        splits = len(self.learned_)
        return or_none(Coverage(1.0 - min(2, splits) * alpha, alpha, f"Gupta (2023), Theorem {theorem}"))
