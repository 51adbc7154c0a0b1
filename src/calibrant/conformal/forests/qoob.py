"""QOOB: out-of-bag conformal sets between the quantiles of a forest."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option, refuse_without_numba
from calibrant.conformal.base import Floats
from calibrant.conformal.forests.leaves import LeafQuantiles, is_forest
from calibrant.conformal.forests.out_of_bag import OutOfBag
from calibrant.conformal.forests.walk import compiled_walk
from calibrant.conformal.nested import Band
from calibrant.conformal.quantiles import check_alpha
from calibrant.messages import InputError


@dataclass(eq=False, repr=False)
class QOOB(OutOfBag):
    r"""Quantile out-of-bag conformal sets: quantiles of a forest, corrected by the trees that have not seen a row.

    .. math:: F_t^{-i}(x) = [\hat q_\beta^{-i}(x) - t, \; \hat q_{1 - \beta}^{-i}(x) + t],

    where :math:`\hat q^{-i}` are the quantiles of the outcomes in the leaves of the trees that have not drawn row i.
    The set of a new row holds the values that are in enough of the sets of all i, as in :class:`CrossConformal`.

    Parameters
    ----------
    model
        A ``RandomForestRegressor``; by default with 100 trees and at least 5 rows in a leaf.
    alpha
        Miscoverage level.
    beta
        Level of the lower quantile; by default 2 alpha, as the author advises. It is fixed when the forest is fitted.
    family : {"quantiles", "distribution"}
        ``"distribution"`` is QOOB-D: from the quantile of level t to that of level 1 - t, without beta.
    aggregate : {"set", "hull", "plus"}
        ``"set"``: a union of intervals. ``"hull"``: the smallest interval around it. ``"plus"``: the larger interval of
        jackknife+ style.
    draw_trees
        Whether the number of trees is drawn at random around ``n_estimators``, which the guarantee needs.
    random_state
        As in :class:`OutOfBagConformal`.

    Attributes
    ----------
    model_
        The fitted forest.
    n_trees_
        Its number of trees.
    scores_
        Score of each row by the trees that have not seen it; infinite if there is none.

    Notes
    -----
    Guarantee: finite-sample, if ``draw_trees``. A new outcome is in its set with probability at least 1 - 2 alpha, if
    old and new rows are exchangeable; in practice near or above 1 - alpha. With a fixed number of trees no theorem
    applies, and there is no finite-sample guarantee. Cost: for each new row, quantiles by n groups of trees;
    :meth:`compile` makes it a quarter. References: Gupta (2023), Algorithm 9.2 and Theorem 9.2; Meinshausen (2006) for
    the quantiles; Chernozhukov et al. (2021) for ``"distribution"``.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1))
    >>> y = X[:, 0] + rng.normal(size=100)
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    >>> sets = QOOB(forest, alpha=0.1, random_state=0).fit(X, y).predict_sets([[0.0]])
    >>> sets.certificate.level, len(sets)
    (0.8, 1)
    """

    _: KW_ONLY
    beta: float | None = None
    family: Literal["quantiles", "distribution"] = "quantiles"

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the forest, and score each row by the trees that have not seen it."""
        check_option("family", self.family, ("quantiles", "distribution"))
        check_alpha(self.alpha)
        self.beta_ = min(2.0 * self.alpha, 0.5) if self.beta is None else check_alpha(self.beta, "beta")
        if self.beta_ > 0.5:
            raise InputError("beta", f"is {self.beta_}", "pass the level of the lower quantile, at most 0.5")
        return super().fit(X, y)

    def compile(self) -> Self:
        """Compile the search for quantiles now, so that few rows are fast too; sets stay bit-identical.

        Notes
        -----
        Cost: about five seconds once a process. Afterwards sets take about a quarter of the time. Without this call it
        is compiled for many rows alone: new rows times old ones at least 4,000,000. Needs numba:
        ``pip install "calibrant[fast]"``.

        Examples
        --------
        >>> forest_sets = QOOB(alpha=0.1)
        >>> forest_sets = forest_sets.compile()  # doctest: +SKIP
        """
        if compiled_walk() is None:
            refuse_without_numba("compile()")
        return self

    def _check(self, model: Any) -> None:
        if not (is_forest(model) and model.bootstrap):
            raise InputError(
                "model",
                f"of type {type(model).__name__} has no leaves whose rows were drawn",
                "pass a RandomForestRegressor",
            )

    def _own_scores(self, X: Any, y: Floats) -> Floats:
        self.leaves_ = LeafQuantiles(self.model_, X, y)
        groups = self._groups()
        if self.family == "distribution":
            return self.leaves_.own_rank_scores(groups, y)
        lower, upper = self.leaves_.own_quantiles(groups, self.beta_, 1.0 - self.beta_)
        with np.errstate(invalid="ignore"):
            return Band.of_quantiles(lower, upper).score(y)

    def _groups(self) -> Floats:
        """Old rows x trees of the forest: 1 where a tree has not seen a row; unused trees are in no group."""
        unused = len(self.model_.estimators_) - self.n_trees_
        return np.pad(self.unseen_, ((0, unused), (0, 0))).T.copy()

    def _ends(self, X: Any) -> tuple[Floats, Floats]:
        groups, n = self._groups(), self.scores_.size
        quantiles = self.family == "quantiles"
        scores = np.where(np.isinf(self.scores_), 0.5, self.scores_)
        low = np.full(n, self.beta_) if quantiles else 0.5 - scores
        high = np.full(n, 1.0 - self.beta_) if quantiles else 0.5 + scores
        lower, upper = self.leaves_.group_quantiles(self.leaves_.leaves(X), groups, low, high)
        if quantiles:
            band = Band.of_quantiles(lower.ravel(), upper.ravel())
            moved = band.level(np.broadcast_to(self.scores_, lower.shape).ravel())
            lower, upper = (end.reshape(lower.shape) for end in moved)
        whole = np.isinf(self.scores_)
        return np.where(whole, -np.inf, lower), np.where(whole, np.inf, upper)
