"""Discrimination: the accuracy ratio (Gini coefficient), and its change against development."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from calibrant.messages import InputError
from calibrant.metrics.binary.scores import auc
from calibrant.metrics.estimates import TWO_SIDED, Estimate


def accuracy_ratio(scores: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Estimate:
    r"""Accuracy ratio, also called Gini coefficient or Somers' D: twice the AUC minus one.

    .. math:: \mathrm{AR} = 2\,\mathrm{AUC} - 1 = P(s^+ > s^-) - P(s^+ < s^-),

    where :math:`s^+` and :math:`s^-` are the scores of a random defaulter and of a random non-defaulter.

    Parameters
    ----------
    scores
        PDs or scores, or a tally; higher is riskier.
    y
        1 for a default, 0 otherwise.
    sample_weight
        Weights of the rows.

    Returns
    -------
    Estimate
        Value with standard error and 95 % interval.

    Notes
    -----
    Edges: not defined with one class.
    Guarantee: no finite-sample guarantee; the interval is that of the AUC (DeLong, DeLong and Clarke-Pearson 1988), and
    too short with few defaults. It says nothing about calibration.
    Cost: one sort. Reference: Engelmann, Hayden and Tasche (2003), Testing rating accuracy.

    Examples
    --------
    >>> float(accuracy_ratio([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]))
    0.5
    """
    area = auc(scores, y, sample_weight)
    low, high = (None if end is None else 2.0 * end - 1.0 for end in (area.low, area.high))
    se = None if area.se is None else 2.0 * area.se
    return Estimate("accuracy ratio", 2.0 * area.value - 1.0, se, low, high, notes=area.notes)


def accuracy_ratio_change(now: Estimate, before: Estimate | float, before_se: float = 0.0) -> Estimate:
    r"""Change of the accuracy ratio against an earlier, independent sample, such as that of development.

    .. math:: \mathrm{AR}_1 - \mathrm{AR}_0 \pm 1.96 \sqrt{\mathrm{se}_1^2 + \mathrm{se}_0^2}.

    Parameters
    ----------
    now
        Result of :func:`accuracy_ratio`.
    before
        The same for the earlier sample, or its value.
    before_se
        Standard error of the earlier value if it is a number; 0 if unknown, and then the interval is too short.

    Returns
    -------
    Estimate
        Difference with standard error and 95 % interval.

    Notes
    -----
    Guarantee: no finite-sample guarantee; normal approximation for two samples without common borrowers.
    Reference: ECB (2019), Instructions for reporting the validation results of internal models, section 2.5.

    Examples
    --------
    >>> now = Estimate("accuracy ratio", 0.60, se=0.03)
    >>> print(accuracy_ratio_change(now, 0.66, 0.02))
    change of the accuracy ratio: -0.0600 (95 % CI -0.1307 to 0.0107)
    """
    if not isinstance(now, Estimate):
        raise InputError("now", f"must be the result of accuracy_ratio, got {type(now).__name__}")
    first = float(before)
    other = before.se if isinstance(before, Estimate) else before_se
    change = now.value - first
    if now.se is None or other is None or not math.isfinite(change):
        return Estimate("change of the accuracy ratio", change)
    se = math.hypot(now.se, other)
    return Estimate("change of the accuracy ratio", change, se, change - TWO_SIDED * se, change + TWO_SIDED * se)
