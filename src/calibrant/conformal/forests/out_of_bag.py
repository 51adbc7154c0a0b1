"""Out-of-bag conformal sets: each row is scored by the trees that have not seen it, so one forest is enough."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.utils.validation import _num_samples, check_is_fitted

from calibrant.arrays.columns import check_option
from calibrant.conformal.aggregated import AGGREGATES, Aggregate, Aggregated
from calibrant.conformal.base import Floats, generator, read_rows, take
from calibrant.conformal.coverage import Coverage, or_none
from calibrant.conformal.forests.leaves import bag_counts, is_forest
from calibrant.conformal.models import check_model, predictions
from calibrant.conformal.nested import Band
from calibrant.conformal.quantiles import check_alpha
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.messages import InputError

MEAN_SLACK = 1e-12
"""Relative rounding of a mean over trees."""

FIXED_NUMBER = NoCertificate(
    NoCertificateCode.NO_THEOREM,
    "Gupta (2023), Theorem 9.2 asks for a number of trees that is drawn at random: leave draw_trees at True",
)


@dataclass(eq=False, repr=False)
class OutOfBag(Aggregated):
    """Base class of out-of-bag methods: the forest, who has seen what, and the number of trees."""

    model: Any = None
    _: KW_ONLY
    alpha: float = 0.1
    aggregate: Aggregate = "set"
    draw_trees: bool = True
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the forest, and score each row by the trees that have not seen it."""
        check_alpha(self.alpha)
        check_option("aggregate", self.aggregate, AGGREGATES)
        n, outcomes = read_rows(X, y, least=2)
        if self.model is not None:
            check_model(self.model)
        model = clone(RandomForestRegressor(100, min_samples_leaf=5) if self.model is None else self.model)
        self._check(model)
        rng = generator(self.random_state)
        asked = int(model.n_estimators)
        draws = _draws(model, n)
        if self.draw_trees:
            left_out = (1.0 - 1.0 / (n + 1.0)) ** draws if model.bootstrap else 1.0 - draws / (n + 1.0)
            asked = int(rng.binomial(round(asked / left_out), left_out)) if left_out > 0.0 else 0
        if model.random_state is None:
            model.set_params(random_state=int(rng.integers(2**31)))
        self.n_trees_ = asked
        # a random order makes models of any kind symmetric in their rows, as the theorem asks; trees are so anyway
        order = np.arange(n) if is_forest(model) else rng.permutation(n)
        self.model_ = model.set_params(n_estimators=max(asked, 1)).fit(take(X, order), outcomes[order])
        counts = np.empty((asked, n))
        counts[:, order] = bag_counts(self.model_, n)[:asked]
        self.unseen_: Floats = (counts == 0.0).astype(np.float64)
        self.sampled_as_drawn_ = bool((counts.sum(axis=1) == draws).all())
        self.scores_: Floats = np.where(self.unseen_.any(axis=0), self._own_scores(X, outcomes), np.inf)
        return self

    def predict(self, X: Any) -> Floats:
        """The forecasts of the whole forest."""
        check_is_fitted(self)
        return predictions(self.model_, X)

    def intervals(self, X: Any) -> tuple[Floats, Floats]:
        """Lower and upper ends of the intervals that the sets are made of: one for each new and each old row.

        An old row that every tree has seen has no score, and its interval is the whole line.
        """
        check_is_fitted(self)
        if not self.unseen_.any():
            shape = (_num_samples(X), self.scores_.size)
            return np.full(shape, -np.inf), np.full(shape, np.inf)
        return self._ends(X)

    def _certificate(self, alpha: float) -> Coverage | NoCertificate:
        if not (self.draw_trees and self.sampled_as_drawn_):
            return FIXED_NUMBER
        return or_none(Coverage(1.0 - 2.0 * alpha, alpha, "Gupta (2023), Theorem 9.2"))

    def _check(self, model: Any) -> None:
        if not ((is_forest(model) and model.bootstrap) or isinstance(model, BaggingRegressor)):
            raise InputError(
                "model",
                f"of type {type(model).__name__} draws no rows for each of its parts",
                "pass a RandomForestRegressor, or a BaggingRegressor around any model",
            )

    @abstractmethod
    def _own_scores(self, X: Any, y: Floats) -> Floats:
        """Score of each old row by the trees that have not seen it."""

    @abstractmethod
    def _ends(self, X: Any) -> tuple[Floats, Floats]:
        """Ends of the level sets: new rows x old rows."""


@dataclass(eq=False, repr=False)
class OutOfBagConformal(OutOfBag):
    r"""Prediction sets around the mean of the trees that have not seen a row: one forest, no folds.

    .. math:: F_t^{-i}(x) = [\hat\mu_{-i}(x) - t \hat\sigma_{-i}(x), \; \hat\mu_{-i}(x) + t \hat\sigma_{-i}(x)],

    where :math:`\hat\mu_{-i}` is the mean forecast of the trees that have not drawn row i. The set of a new row holds
    the values that are in enough of the sets of all i, as in :class:`CrossConformal`.

    Parameters
    ----------
    model
        A ``RandomForestRegressor``, or a ``BaggingRegressor`` around any regressor. By default a forest of 100 trees
        with at least 5 rows in a leaf.
    alpha
        Miscoverage level.
    family : {"residual", "scaled"}
        One radius (:math:`\hat\sigma = 1`), or a radius by the standard deviation of the trees' forecasts.
    aggregate : {"set", "hull", "plus"}
        See :class:`CrossConformal`.
    draw_trees
        Whether the number of trees is drawn at random around ``n_estimators``, which the guarantee needs.
    random_state
        Seed of the number of trees, and of the forest if it has none; fresh by default. The guarantee averages over
        these draws, so do not pick a seed by its result.

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
    old and new rows are exchangeable; in practice near 1 - alpha. With a fixed number of trees no theorem applies, and
    there is no finite-sample guarantee. docs/certificates/conformal.md has the proof.
    References: Johansson et al. (2014); Boström et al. (2017); Kim et al. (2020); Gupta (2023), Theorem 9.2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1))
    >>> y = X[:, 0] + rng.normal(size=100)
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    >>> sets = OutOfBagConformal(forest, random_state=0).fit(X, y).predict_sets([[0.0]])
    >>> sets.certificate.level, len(sets)
    (0.8, 1)
    """

    _: KW_ONLY
    family: Literal["residual", "scaled"] = "residual"

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the forest, and score each row by the trees that have not seen it."""
        check_option("family", self.family, ("residual", "scaled"))
        return super().fit(X, y)

    def _own_scores(self, X: Any, y: Floats) -> Floats:
        self.center_ = float(y.mean())  # around a common center, so that squares lose few digits
        shifted = _forecasts(self.model_, X)[: self.n_trees_] - self.center_
        size = np.maximum(self.unseen_.sum(axis=0), 1.0)
        mean = (self.unseen_ * shifted).sum(axis=0) / size
        square = (self.unseen_ * shifted**2).sum(axis=0) / size
        return self._band(mean, square).score(y - self.center_)

    def _ends(self, X: Any) -> tuple[Floats, Floats]:
        shifted = _forecasts(self.model_, X)[: self.n_trees_] - self.center_
        size = self.unseen_.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = shifted.T @ self.unseen_ / size
            square = np.square(shifted).T @ self.unseen_ / size if self.family == "scaled" else mean
        band = self._band(mean.ravel(), square.ravel())
        scores = np.broadcast_to(self.scores_, mean.shape)
        lower, upper = (end.reshape(mean.shape) + self.center_ for end in band.level(scores.ravel()))
        whole = np.isinf(scores) | (size == 0.0)
        return np.where(whole, -np.inf, lower), np.where(whole, np.inf, upper)

    def _band(self, mean: Floats, square: Floats) -> Band:
        """Nested sets from the mean and the mean square of the forecasts; a spread below rounding is none."""
        if self.family == "residual":
            return Band.around(mean, slack=MEAN_SLACK)
        with np.errstate(invalid="ignore"):
            spread = np.sqrt(np.maximum(square - mean**2, 0.0))
            return Band.around(mean, np.where(spread < 1e-7 * np.abs(mean), 0.0, spread), MEAN_SLACK)


def _forecasts(model: Any, X: Any) -> Floats:
    """Forecast of each tree or model for each row (trees x rows)."""
    if is_forest(model):
        leaves = model.apply(X)
        return np.stack([tree.tree_.value[leaves[:, j], 0, 0] for j, tree in enumerate(model.estimators_)])
    rows = np.asarray(X)
    parts = zip(model.estimators_, model.estimators_features_, strict=True)
    return np.stack([predictions(each, rows[:, columns]) for each, columns in parts])


def _draws(model: Any, n: int) -> int:
    """Number of rows that each tree draws."""
    most = model.max_samples
    if most is None:
        return n
    if isinstance(most, int | np.integer) and not isinstance(most, bool):
        return int(most)
    return max(round(n * most), 1) if is_forest(model) else max(int(most * n), 1)
