"""Families of nested sets around a model: Table 9.1 of Gupta (2023), fitted to rows.

A family has ``fit(model, X, y)``, which returns a :class:`Learned`: a function from new rows to nested sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays.columns import check_option
from calibrant.conformal.forests.leaves import LeafDistribution, LeafQuantiles, is_forest
from calibrant.conformal.models import predictions
from calibrant.conformal.nested import Band, Nested
from calibrant.conformal.quantiles import check_alpha
from calibrant.messages import InputError, Setting

Floats = NDArray[np.float64]
SMALLEST_SPREAD = 1e-3
"""Least spread, as a share of the mean absolute residual: a spread of 0 would mean an exact forecast."""


@dataclass(frozen=True)
class Learned:
    """Nested sets and a point forecast, as functions of new rows."""

    nested: Callable[[Any], Nested]
    center: Callable[[Any], Floats]


class Family(ABC):
    """A family of nested sets: how models are fitted for it, and how their predictions become sets."""

    @abstractmethod
    def fit(self, model: Any, X: Any, y: Floats, prefit: bool = False) -> Learned:
        """Fit clones of the model to rows, or take it as it is.

        Parameters
        ----------
        model, X, y
            The regressor, or several of them, and the rows.
        prefit
            Whether the model is fitted already.
        """


@dataclass(frozen=True)
class Residual(Family):
    r"""Intervals of one radius around the forecast, :math:`[\hat\mu(x) - t, \hat\mu(x) + t]`.

    Notes
    -----
    Guarantee: that of the method that uses it. References: Papadopoulos et al. (2002); Lei et al. (2018).

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> X, y = np.zeros((4, 1)), np.array([0.0, 0.0, 2.0, 2.0])
    >>> Residual().fit(DummyRegressor(), X, y).nested(X).score(y).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def fit(self, model: Any, X: Any, y: Floats, prefit: bool = False) -> Learned:
        """Fit the model, or take it as it is.

        Parameters
        ----------
        model, X, y
            The regressor, or several of them, and the rows.
        prefit
            Whether the model is fitted already.
        """
        fitted = model if prefit else clone(model).fit(X, y)
        return Learned(lambda new: Band.around(predictions(fitted, new)), lambda new: predictions(fitted, new))


@dataclass(frozen=True)
class Scaled(Family):
    r"""Intervals whose radius follows a spread, :math:`[\hat\mu(x) - t \hat\sigma(x), \hat\mu(x) + t \hat\sigma(x)]`.

    Parameters
    ----------
    spread : regressor, optional
        Model of the absolute residuals; by default a clone of the model. It is fitted to residuals of the rows on which
        the model was fitted. A fitted model needs a fitted spread.

    Notes
    -----
    Predicted spreads below 0.1 % of the mean absolute residual are raised to it. Guarantee: that of the method that
    uses it, however poor the spread. References: Papadopoulos et al. (2008); Lei et al. (2018).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([-1.0, 1.0, -3.0, 3.0])
    >>> Scaled().fit(DecisionTreeRegressor(), X, y).nested(X).score(y).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    spread: Any = None

    def fit(self, model: Any, X: Any, y: Floats, prefit: bool = False) -> Learned:
        """Fit the model, and the spread to its absolute residuals.

        Parameters
        ----------
        model, X, y
            The regressor, or several of them, and the rows.
        prefit
            Whether the model is fitted already.
        """
        if prefit:
            if self.spread is None:
                raise InputError("family", "needs a fitted model of the spread", "pass Scaled(spread=fitted_model)")
            return _scaled(model, self.spread, 0.0)
        fitted = clone(model).fit(X, y)
        residuals = np.abs(y - predictions(fitted, X))
        spread = clone(model if self.spread is None else self.spread).fit(X, residuals)
        return _scaled(fitted, spread, SMALLEST_SPREAD * float(np.mean(residuals)))


def _scaled(model: Any, spread: Any, least: float) -> Learned:
    def nested(new: Any) -> Nested:
        return Band.around(predictions(model, new), np.maximum(predictions(spread, new), least))

    return Learned(nested, lambda new: predictions(model, new))


Shape = Literal["cqr", "cqr-m", "cqr-r"]


@dataclass(frozen=True)
class Quantiles(Family):
    r"""Intervals between two conditional quantiles that are moved outward or inward by t.

    .. math:: [\hat q_\beta(x) - t c(x), \; \hat q_{1 - \beta}(x) + t d(x)]

    Parameters
    ----------
    beta
        Level of the lower quantile; the upper one has level 1 - beta. By default 0.1. Widths depend on it, the
        guarantee does not.
    shape : {"cqr", "cqr-m", "cqr-r"}
        How fast the ends move: c = d = 1; the distances from the median; or the distance of the two quantiles.

    Notes
    -----
    The model is one of: a regressor with a quantile loss, which is fitted once for each level; a forest of
    scikit-learn, whose leaves give the quantiles (Meinshausen 2006); a tuple of two regressors (lower,
    upper), or three with the median in the middle. Guarantee: that of the method that uses it, also for poor quantiles.
    References: Romano et al. (2019) for ``"cqr"``; Kivaranovic et al. (2020) for ``"cqr-m"``; Sesia and Candès (2020)
    for ``"cqr-r"``.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> ends = tuple(DummyRegressor(strategy="quantile", quantile=level) for level in (0.25, 0.75))
    >>> X, y = np.zeros((5, 1)), np.arange(5.0)
    >>> Quantiles(0.25).fit(ends, X, y).nested(X).score(y).tolist()
    [1.0, 0.0, -1.0, 0.0, 1.0]
    """

    beta: float = 0.1
    shape: Shape = "cqr"

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels of the quantiles that are needed."""
        beta = check_alpha(self.beta, "beta")
        if beta > 0.5:
            raise InputError(Setting("beta", beta), "is above 0.5", "pass the level of the lower quantile")
        return (beta, 0.5, 1.0 - beta) if self.shape == "cqr-m" else (beta, 1.0 - beta)

    def fit(self, model: Any, X: Any, y: Floats, prefit: bool = False) -> Learned:
        """Fit the models of the quantiles, or take them as they are.

        Parameters
        ----------
        model, X, y
            The regressor, or several of them, and the rows.
        prefit
            Whether the model is fitted already.
        """
        check_option("shape", self.shape, ("cqr", "cqr-m", "cqr-r"))
        ends = quantile_function(model, self.levels, X, y, prefit)
        shapes: dict[str, Callable[..., Band]] = {
            "cqr": Band.of_quantiles,
            "cqr-m": Band.of_median,
            "cqr-r": Band.of_ratio,
        }
        make = shapes[self.shape]
        return Learned(lambda new: make(*ends(new)), lambda new: np.mean(ends(new), axis=0))


@dataclass(frozen=True)
class Distribution(Family):
    r"""Intervals from the quantile of level t to that of level 1 - t, by the leaves of a forest.

    The sets shrink in t, so the score is 1/2 - t for the largest t whose interval holds the outcome.

    Notes
    -----
    The model is a forest of scikit-learn that is not fitted. Sets are unbounded where the threshold is 1/2: when more
    than a share alpha of outcomes lie outside all leaves. Guarantee: that of the method that uses it. References:
    Chernozhukov et al. (2021); Gupta (2023), Table 9.1, where the nest is said to grow in t.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0])
    >>> forest = RandomForestRegressor(3, bootstrap=False)
    >>> Distribution().fit(forest, X, y).nested(X).score(np.array([1.0, 2.0, 2.5, 9.0])).tolist()
    [0.25, 0.0, 0.0, 0.5]
    """

    def fit(self, model: Any, X: Any, y: Floats, prefit: bool = False) -> Learned:
        """Fit the forest, and read its leaves.

        Parameters
        ----------
        model, X, y
            The regressor, or several of them, and the rows.
        prefit
            Whether the model is fitted already.
        """
        leaves = _leaves(model, X, y, prefit)
        return Learned(lambda new: LeafDistribution(leaves, new), lambda new: leaves.quantiles(new, (0.5,))[0])


def quantile_function(
    model: Any, levels: tuple[float, ...], X: Any, y: Floats, prefit: bool
) -> Callable[[Any], list[Floats]]:
    """A function from rows to their quantiles, one array for each level."""
    if isinstance(model, tuple | list):
        if len(model) != len(levels):
            raise InputError(
                "model", f"has {len(model)} regressors", f"pass {len(levels)}: of the levels {list(levels)}"
            )
        fitted = [each if prefit else clone(each).fit(X, y) for each in model]
        return lambda new: [predictions(each, new) for each in fitted]
    if is_forest(model):
        leaves = _leaves(model, X, y, prefit)
        return lambda new: list(leaves.quantiles(new, levels))
    settings = _quantile_settings(model)
    if settings is None or prefit:
        raise InputError(
            "model",
            f"of type {type(model).__name__} has no quantile loss that can be set",
            f"pass a tuple of {len(levels)} regressors, of the levels {list(levels)}",
        )
    loss, name = settings
    models = [clone(model).set_params(**loss, **{name: level}).fit(X, y) for level in levels]
    return lambda new: [predictions(each, new) for each in models]


def _leaves(model: Any, X: Any, y: Floats, prefit: bool) -> LeafQuantiles:
    if prefit:
        raise InputError("model", "is a fitted forest, whose rows are not known", "pass it unfitted, without prefit")
    if not is_forest(model):
        raise InputError("model", f"is a {type(model).__name__}", "pass a RandomForestRegressor")
    return LeafQuantiles(clone(model).fit(X, y), X, y)


def _quantile_settings(model: Any) -> tuple[dict[str, str], str] | None:
    """The loss to set, and the name of the parameter with the level."""
    names = set(model.get_params()) if hasattr(model, "get_params") else set()
    loss = {"loss": "quantile"} if "loss" in names else {}
    if "quantile" in names:
        return loss, "quantile"
    if loss and "alpha" in names and type(model).__name__ == "GradientBoostingRegressor":
        return loss, "alpha"
    return None


NAMES: dict[str, Family] = {
    "residual": Residual(),
    "scaled": Scaled(),
    "cqr": Quantiles(),
    "cqr-m": Quantiles(shape="cqr-m"),
    "cqr-r": Quantiles(shape="cqr-r"),
    "distribution": Distribution(),
}


def family_of(family: str | Family) -> Family:
    """A family by its name, or as it is.

    Examples
    --------
    >>> family_of("residual")
    Residual()
    """
    if isinstance(family, Family):
        return family
    check_option("family", family, tuple(NAMES))
    return NAMES[family]
