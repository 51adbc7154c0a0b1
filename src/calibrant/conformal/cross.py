"""Cross-conformal sets: K folds, leave-one-out, CV+ and jackknife+."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.columns import check_option, check_whole
from calibrant.conformal.aggregated import AGGREGATES, Aggregate, Aggregated
from calibrant.conformal.base import Floats, MeanOfModels, generator, read_rows, take
from calibrant.conformal.coverage import Coverage, or_none
from calibrant.conformal.families import Family, family_of
from calibrant.conformal.models import check_model
from calibrant.conformal.quantiles import check_alpha
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import InputError


@dataclass(eq=False, repr=False)
class CrossConformal(MeanOfModels, Aggregated):
    r"""Prediction sets in which every row both fits and calibrates: K-fold cross-conformal, CV+ and jackknife+.

    Row i is in one fold, and its score :math:`r_i` comes from a model of the other folds. A value y is in the set of a
    new row x if at most a share :math:`1 - \alpha` of the rows score lower than (x, y) does with their own model,

    .. math:: C(x) = \Bigl\{y : \sum_{i=1}^n 1\{r_i(X_i, Y_i) < r_i(x, y)\} < (1 - \alpha)(n + 1)\Bigr\}.

    Parameters
    ----------
    model
        A regressor; see :class:`SplitConformal`.
    alpha
        Miscoverage level.
    family : str or Family
        Shape of the sets; see :class:`SplitConformal`.
    folds : int or "leave-one-out"
        Number of folds K. K models are fitted, one for each row with ``"leave-one-out"``.
    aggregate : {"set", "hull", "plus"}
        ``"set"``: the set above, a union of intervals. ``"hull"``: the smallest interval around it. ``"plus"``: the
        larger CV+ interval, for ``"leave-one-out"`` the jackknife+ interval.
    random_state
        Seed of the folds, and of the order in which rows are passed to the model; fresh by default. For a model that
        depends on the order of its rows the guarantee averages over this draw, so do not pick a seed by its result.

    Attributes
    ----------
    scores_
        Score of each row, by the model that has not seen it.
    fold_
        Fold of each row.

    Notes
    -----
    Guarantee: finite-sample. If old and new rows are independent draws from one population, a new outcome is in its set
    with probability at least :math:`1 - 2\alpha - \min\{(1 - K/n)/(K + 1), 2(K - 1)(1 - \alpha)/(n + K)\}`, and
    at least :math:`1 - 2\alpha` for ``"leave-one-out"``. In practice coverage is near 1 - alpha. The first term of
    the minimum asks for folds of equal size; rows that are exchangeable only have the second one.
    docs/certificates/conformal.md has the proofs. Cost: K fits, and for each new row one sort of 2n numbers.
    References: Vovk (2015); Barber et al. (2021); Gupta (2023), Theorems 9.1 and 9.3, Algorithm 9.1.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1))
    >>> y = X[:, 0] + rng.normal(size=100)
    >>> cross = CrossConformal(LinearRegression(), folds=10, random_state=0).fit(X, y)
    >>> print(cross.predict_sets([[0.0]]))
    1 prediction set, mean width 3.069.
      A new outcome is in its set with probability at least 71.81 % (Gupta (2023), Theorem 9.3),
      if old and new rows are independent draws from one population.
      row 0: -1.591 to 1.478
    """

    model: Any
    _: KW_ONLY
    alpha: float = 0.1
    family: str | Family = "residual"
    folds: int | str = 10
    aggregate: Aggregate = "set"
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit one model for each fold to the rows of the other folds."""
        check_alpha(self.alpha)
        check_option("aggregate", self.aggregate, AGGREGATES)
        check_model(self.model, family_of(self.family))
        n, outcomes = read_rows(X, y, least=2)
        folds = self._folds(n)
        rng = generator(self.random_state)
        fold = np.empty(n, dtype=np.int64)
        fold[rng.permutation(n)] = np.arange(n) % folds
        scores = np.empty(n)
        self.learned_ = []
        for k in range(folds):
            # a random order makes every model a symmetric function of its rows, up to chance, as the theorems ask
            others = rng.permutation(np.flatnonzero(fold != k))
            held = np.flatnonzero(fold == k)
            learned = family_of(self.family).fit(self.model, take(X, others), outcomes[others])
            scores[held] = learned.nested(take(X, held)).score(outcomes[held])
            self.learned_.append(learned)
        self.scores_, self.fold_ = scores, fold
        return self

    def _folds(self, n: int) -> int:
        if self.folds == "leave-one-out":
            return n
        check_whole("folds", self.folds, 2)
        if int(self.folds) > n:
            raise InputError("folds", f"is {self.folds}, and there are {n} rows", "pass at most one fold for each row")
        return int(self.folds)

    def intervals(self, X: Any) -> tuple[Floats, Floats]:
        """Lower and upper ends of the intervals that the sets are made of: one for each new and each old row."""
        check_is_fitted(self)
        ends = [learned.nested(X).level(self.scores_[None, self.fold_ == k]) for k, learned in enumerate(self.learned_)]
        return np.concatenate([low for low, _ in ends], axis=1), np.concatenate([high for _, high in ends], axis=1)

    def _certificate(self, alpha: float) -> Coverage | NoCertificate:
        return or_none(cross_coverage(alpha, self.scores_.size, len(self.learned_)))


def cross_coverage(alpha: float, n: int, folds: int) -> Coverage:
    """The guaranteed coverage of cross-conformal sets.

    Examples
    --------
    >>> cross_coverage(0.05, 100, 100).level, round(cross_coverage(0.05, 100, 10).level, 4)
    (0.9, 0.8182)
    """
    if folds == n:
        return Coverage(1.0 - 2.0 * alpha, alpha, "Gupta (2023), Theorem 9.1")
    by_p_values = 2.0 * (folds - 1.0) * (1.0 - alpha) / (n + folds)
    by_pairs = (1.0 - folds / n) / (folds + 1.0) if n % folds == 0 else np.inf
    independent = by_pairs < by_p_values
    return Coverage(
        1.0 - 2.0 * alpha - min(by_p_values, by_pairs),
        alpha,
        "Gupta (2023), Theorem 9.3",
        "independent" if independent else "exchangeable",
    )
