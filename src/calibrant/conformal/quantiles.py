"""The finite-sample quantile of scores: exact ranks, ties, weights, and p-values."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, read_floats, refuse_missing
from calibrant.messages import InputError

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Relative error allowed when sums of weights are compared; counts are compared exactly."""


def check_alpha(alpha: Any, name: str = "alpha") -> float:
    """A miscoverage level strictly between 0 and 1.

    Examples
    --------
    >>> check_alpha(0.1)
    0.1
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number) or not 0.0 < alpha < 1.0:
        raise InputError(name, f"must be strictly between 0 and 1, got {alpha!r}", "0.1 asks for coverage 90 %")
    return float(alpha)


def exact(alpha: float) -> Fraction:
    """The decimal that a user wrote, as a fraction: 0.1 is 1/10, not the nearest binary number.

    Examples
    --------
    >>> exact(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(alpha)))


def rank(n: int, alpha: float) -> int:
    r"""Rank of the threshold among n scores, :math:`\lceil (1 - \alpha)(n + 1) \rceil`; n + 1 stands for infinity.

    Examples
    --------
    >>> rank(9, 0.1), rank(8, 0.1), rank(99, 0.05)
    (9, 9, 95)
    """
    return ceil((1 - exact(alpha)) * (n + 1))


def votes_needed(n: int, alpha: float) -> int:
    r"""How many of n sets must hold a value, :math:`\lfloor \alpha (n + 1) \rfloor`; 0 means that every value is held.

    Examples
    --------
    >>> votes_needed(9, 0.1), votes_needed(8, 0.1)
    (1, 0)
    """
    return floor(exact(alpha) * (n + 1))


def fewest_rows(alpha: float) -> int:
    """Fewest calibration rows with which a threshold is finite.

    Examples
    --------
    >>> fewest_rows(0.1), fewest_rows(0.05), fewest_rows(0.3)
    (9, 19, 3)
    """
    return ceil(1 / exact(alpha) - 1)


def check_ratios(weights: Floats, name: str) -> None:
    """Refuse weights that are not finite or negative."""
    if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise InputError(name, "must be finite and not negative", "pass density ratios, or leave it out")


def conformal_quantile(
    scores: ArrayLike, alpha: float, sample_weight: ArrayLike | None = None, test_weight: ArrayLike = 1.0
) -> Any:
    r"""The smallest threshold that a new score exceeds with probability at most alpha.

    Without weights it is the :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest of n scores, and infinity if that
    rank is n + 1. With weights it is the smallest score t with

    .. math:: \sum_{r_i \le t} w_i \ge (1 - \alpha) \Bigl(\sum_i w_i + w\Bigr),

    where w is the weight of the new row, and infinity if there is none.

    Parameters
    ----------
    scores
        Scores of calibration rows; infinities are allowed.
    alpha
        Miscoverage level.
    sample_weight
        Weights of the calibration rows, such as density ratios.
    test_weight
        Weight of each new row.

    Returns
    -------
    float or array
        One threshold, or one for each weight of a new row.

    Notes
    -----
    Guarantee: finite-sample. If old and new scores are exchangeable, a new one is at most the threshold with
    probability at least 1 - alpha, and at most 1 - alpha + 1/(n + 1) if scores have no ties. With weights this holds
    if they are the known density ratio of new rows to old ones.
    References: Gupta (2023), Proposition 9.1, with the rank corrected; Tibshirani et al. (2019) for weights.

    Examples
    --------
    >>> conformal_quantile([1.0, 2.0, 3.0, 4.0], alpha=0.4)
    3.0
    >>> conformal_quantile([1.0, 2.0, 3.0, 4.0], alpha=0.1)
    inf
    """
    level = check_alpha(alpha)
    values = read_floats(scores, "scores")
    refuse_missing(values, "scores", "drop these rows")
    if sample_weight is None:
        at = rank(values.size, level)
        return float(np.partition(values, at - 1)[at - 1]) if at <= values.size else np.inf
    weights, new = read_floats(sample_weight, "sample_weight"), np.asarray(test_weight, dtype=np.float64)
    check_length(weights, "sample_weight", values.size)
    check_ratios(weights, "sample_weight")
    check_ratios(new, "test_weight")
    order = np.argsort(values, kind="stable")
    with np.errstate(over="ignore"):
        total = np.cumsum(weights[order])
        largest = new.max(initial=0.0) + (total[-1] if total.size else 0.0)
    if not np.isfinite(largest):
        raise InputError("sample_weight", "has a sum that is not finite", "divide all weights by the largest one")
    asked = (1.0 - level) * (new + (total[-1] if total.size else 0.0)) * (1.0 - ROUNDING)
    found = np.append(values[order], np.inf)[np.searchsorted(total, asked, side="left")]
    return float(found) if new.ndim == 0 else found


def p_values(scores: ArrayLike, new: ArrayLike) -> Floats:
    r"""Conformal p-value of each new score, :math:`(1 + \#\{i : r_i \ge r\}) / (n + 1)`.

    Parameters
    ----------
    scores
        Scores of calibration rows; infinities are allowed.
    new
        Scores of new rows; infinities are allowed.

    Returns
    -------
    array
        A p-value for each new score.

    Notes
    -----
    Guarantee: finite-sample. If old and new scores are exchangeable, a p-value is at most alpha with probability at
    most alpha. Reference: Vovk et al. (2005).

    Examples
    --------
    >>> p_values([1.0, 2.0, 3.0], [2.0, 9.0]).tolist()
    [0.75, 0.25]
    """
    ordered, fresh = np.sort(read_floats(scores, "scores")), np.asarray(new, dtype=np.float64)
    for each, name in ((ordered, "scores"), (fresh.ravel(), "new")):
        refuse_missing(each, name, "drop these rows")
    below = np.searchsorted(ordered, fresh, side="left")
    return np.asarray((1.0 + ordered.size - below) / (ordered.size + 1.0), dtype=np.float64)
