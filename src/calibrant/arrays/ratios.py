"""Weights that are a density ratio: known exactly with an upper bound, or estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import read_floats, refuse_empty, refuse_not_finite, value_range
from calibrant.messages import InputError

ROUNDING = 1e-9
"""Relative amount by which a weight may exceed the upper bound; it is then set to the bound."""


class Ratio(NamedTuple):
    """What is known about weights that are a density ratio: their upper bound, and whether they are exact."""

    upper: float
    known: bool


@dataclass(frozen=True, eq=False)
class RatioWeights:
    r"""Density ratio :math:`w(x) = d\tilde P(x) / dP(x)` of target and source population, one value per row.

    Pass it as ``sample_weight`` wherever weights are taken; it converts to a plain array. Calibrators with a
    certificate also read whether the ratio is known. Made by :func:`calibrant.shift.known_weights` and by
    :meth:`calibrant.shift.DensityRatio.weights`.

    Attributes
    ----------
    values
        The weights.
    upper
        Upper bound of the density ratio, in the same unit as the weights.
    known
        Whether the ratio is exact; False for an estimate.

    Examples
    --------
    >>> import numpy as np
    >>> weights = RatioWeights(np.array([0.5, 2.0, 0.5]), upper=4.0, known=True)
    >>> len(weights), np.asarray(weights).sum().item(), weights[:2].values.tolist()
    (3, 3.0, [0.5, 2.0])
    >>> weights
    RatioWeights(3 rows, 2 effective, known, at most 4)
    """

    values: NDArray[np.float64]
    upper: float
    known: bool

    @property
    def meaning(self) -> Ratio:
        """Upper bound, and whether the ratio is known."""
        return Ratio(self.upper, self.known)

    @property
    def effective_size(self) -> float:
        r"""Effective sample size :math:`(\sum w)^2 / \sum w^2` (Kish 1965)."""
        return kish_size(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The weights as a plain array."""
        return np.array(self.values, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> RatioWeights:
        """The weights of some of the rows."""
        return RatioWeights(np.atleast_1d(self.values[rows]), self.upper, self.known)

    def __repr__(self) -> str:
        """One line."""
        kind = "known" if self.known else "estimated"
        return f"RatioWeights({len(self):,} rows, {self.effective_size:,.0f} effective, {kind}, at most {self.upper:g})"


def kish_size(weights: NDArray[np.float64]) -> float:
    """Effective sample size of weights (Kish 1965); 0 if all are 0.

    Examples
    --------
    >>> kish_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    largest = float(weights.max(initial=0.0))
    if not largest > 0.0:
        return 0.0
    scaled = weights / largest
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


def known_weights(
    weights: ArrayLike | Callable[[Any], ArrayLike], features: Any = None, *, upper: float
) -> RatioWeights:
    r"""Declare weights that are the exact density ratio of target and source population, with its upper bound.

    Parameters
    ----------
    weights
        One weight per row, :math:`w(x) = d\tilde P(x) / dP(x)`, or a function of the features that returns them. They
        may have any unit, such as relative odds of selection: the guarantee uses only ratios of weights.
    features
        Features of the rows, if ``weights`` is a function.
    upper
        A number that the density ratio never exceeds, in the same unit, for any possible row and not only for these. It
        must not be the largest observed weight: that is too small for the rows that were not seen.

    Returns
    -------
    RatioWeights
        Pass it as ``sample_weight``. :class:`~calibrant.HistogramBinning` then issues certificates for the target
        population.

    Notes
    -----
    Nothing can check this declaration. A ratio that was estimated, even on other rows, is not known; see
    :func:`estimate_density_ratio`.

    Examples
    --------
    >>> known_weights([0.5, 1.5, 3.0], upper=4)
    RatioWeights(3 rows, 2 effective, known, at most 4)
    >>> import numpy as np
    >>> known_weights(lambda x: 2 * x, np.array([0.1, 0.6]), upper=2).values.tolist()
    [0.2, 1.2]
    """
    if callable(weights):
        if features is None:
            raise InputError("features", "is missing", "pass the features that the function of weights takes")
        weights = weights(features)
    elif features is not None:
        raise InputError("features", "is only used if weights is a function", "leave it out")
    values = read_floats(weights, "weights")
    if not values.size:
        refuse_empty("weights")
    low, high = value_range(values)
    if not np.isfinite([low, high]).all():
        refuse_not_finite(values, "weights", "drop these rows, or repair the weights")
    if low < 0.0 or not high > 0.0:
        raise InputError("weights", "must be at least 0, and above 0 in some row", "pass a density ratio")
    if not (np.isfinite(upper) and upper > 0.0):
        raise InputError("upper", f"must be a positive number, got {upper!r}", "pass a bound of the density ratio")
    if high > upper * (1.0 + ROUNDING):
        raise InputError(
            "upper",
            f"is {upper:g}, but a row has the weight {high:.6g}",
            "pass a number that the density ratio never exceeds, in the same unit",
        )
    return RatioWeights(np.minimum(values, upper), float(upper), known=True)
