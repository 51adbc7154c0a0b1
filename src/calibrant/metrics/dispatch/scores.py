"""Scores of whole forecasts that take one column of scores or a matrix of class scores: log loss, Brier, accuracy."""

from __future__ import annotations

from typing import Any

from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.metrics.binary import scores as binary_scores
from calibrant.metrics.binary.bins import GroupedScores, Scores
from calibrant.metrics.dispatch.forms import for_classes, of_matrix, one_event
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.multiclass import scores as class_scores
from calibrant.metrics.multiclass.claims import Classes
from calibrant.numerics import Column


def log_loss(
    scores: GroupedScores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    groups: Column = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
) -> Estimate:
    r"""Log loss (cross-entropy) in nats, never clipped.

    .. math:: -\frac1n \sum_{i=1}^n \log p_{i, y_i},

    with the probability :math:`p_{il}` that row i gives class l and its class :math:`y_i`; one column of scores is the
    probability of class 1.

    Parameters
    ----------
    scores, y, sample_weight, classes, score_type
        As in :func:`ece`.
    groups : array-like, optional
        One column of scores: groups of dependent rows; the standard error is then computed between groups.

    Returns
    -------
    Estimate
        Value, standard error, interval, and ``null``: the expected value if labels were drawn from the scores.

    Notes
    -----
    Edge rules: a label that was given probability 0 makes it infinite; a note states the number of such rows and the
    value without them. Another note counts rows of one column at exactly 0 or 1. From logits of a matrix it is computed
    as :math:`\log \sum_l e^{z_l} - z_y` and so stays finite. For rows that do not sum to 1 it is not a proper score,
    with a note. The null value is the mean entropy of the scores; a loss
    below ``null_low`` says that they are underconfident, not that calibration would do harm.
    Guarantee: no finite-sample guarantee; normal interval, none where the value is infinite. For one column its
    coverage was 92 to 96 % with at least 25 events, and 72, 90 and 93 % with 1, 5 and 12 events; ``null_high`` as in
    :func:`brier`.
    Cost: one pass with two logarithms for each row; of a matrix the null value for up to 2,000,000 numbers.
    Reference: Good (1952).

    Examples
    --------
    >>> round(log_loss([0.5, 0.8], [0, 1]).value, 4)
    0.4581
    >>> round(log_loss([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [0, 2], classes=range(3)).value, 4)
    0.602
    """
    given = {"classes": classes, "score_type": score_type}
    scores, y, given = one_event(scores, y, given, logits=groups is not None)
    if for_classes(scores, given, {"groups": (groups, None)}):
        return class_scores.log_loss(scores, y, sample_weight, **of_matrix(given))
    return binary_scores.log_loss(scores, y, sample_weight, groups=groups)


def brier(
    scores: GroupedScores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    groups: Column = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
) -> Estimate:
    r"""Brier score: mean squared distance between probability and label, summed over the classes of a matrix.

    .. math:: \frac1n \sum_{i=1}^n (s_i - y_i)^2, \qquad \frac1n \sum_{i=1}^n \sum_{l=1}^K (p_{il} - [y_i = l])^2.

    Parameters
    ----------
    scores, y, sample_weight, classes, score_type
        As in :func:`ece`.
    groups : array-like, optional
        One column of scores: groups of dependent rows; the standard error is then computed between groups.

    Returns
    -------
    Estimate
        Value, standard error, interval, and ``null``: the expected value if labels were drawn from the scores.

    Notes
    -----
    Edge rules: a matrix of two classes gives twice the score of its second column. For rows that do not sum to 1 the
    Brier scores of the columns are added up, and there is no null value. The null value is
    :math:`\frac1n \sum_i s_i (1 - s_i)`, for a matrix summed over the classes.
    Guarantee: no finite-sample guarantee; normal interval, at the effective sample size for importance weights. For one
    column its coverage is near 95 % with at least 25 events and 25 non-events: 93 to 96 % in each of 12 simulated
    settings. With 2.4 % events it was 72 % for 50 rows (1 event), 90 % for 200 (5) and 93 % for 500 (12). ``null_high``
    is the 95 % quantile of the gamma distribution with the null's variance and skewness, exceeded by 4 to 6 % of
    calibrated samples in each of 15 settings with 50 to 2,000 rows; ``null_low`` is its 5 % quantile. With ``groups``
    of dependent rows the interval uses Student's t distribution and sums by group
    (:func:`~calibrant.metrics.variance.spread_of`), and there is neither.
    Cost: one pass; of a matrix the null value for up to 2,000,000 numbers.
    Reference: Brier (1950); Gupta (2023), eq. 6.21; Torabian (2023), section 2.3.

    Examples
    --------
    >>> round(brier([0.5, 0.8], [0, 1]).value, 3)
    0.145
    >>> round(brier([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [0, 2], classes=range(3)).value, 4)
    0.3075
    """
    given = {"classes": classes, "score_type": score_type}
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {"groups": (groups, None)}):
        return class_scores.brier(scores, y, sample_weight, **of_matrix(given))
    return binary_scores.brier(scores, y, sample_weight, groups=groups)


def accuracy(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    threshold: float | None = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    named: Any = None,
) -> Estimate:
    r"""Share of rows whose class is predicted correctly.

    .. math:: \frac1n \sum_{i=1}^n [y_i = c_i],

    with the class :math:`y_i` of row i and its predicted class :math:`c_i`. One column: class 1 where the score is at
    least ``threshold``; one minus :func:`classification_loss`. A matrix: the class of the largest score, the earliest
    among equals, or the class that is ``named``.

    Parameters
    ----------
    scores, y, sample_weight, classes, score_type, named
        As in :func:`ece`.
    threshold : float, optional
        One column of scores: predict class 1 at this score and above. Default 0.5.

    Returns
    -------
    Estimate
        Value, standard error, interval, and ``null``: the expected accuracy if labels were drawn from the scores.

    Notes
    -----
    A calibrated model is below ``null_low`` in 5 % of samples, and above ``null_high`` in as many: a lower accuracy is
    evidence of overconfident scores, a higher one of underconfident scores.
    Guarantee: no finite-sample guarantee; normal interval. For one column its coverage is near 95 % with at least 25
    wrong and 25 right rows: 93 to 96 % in simulations, but 87 % with 5 wrong rows and 91 % with 12.
    Cost: one pass. Reference: Torabian (2023), section 2.1; Gupta (2023), section 5.2.

    Examples
    --------
    >>> accuracy([0.2, 0.8, 0.6, 0.7], [0, 1, 0, 0]).value
    0.5
    >>> accuracy([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [0, 1], classes=range(3)).value
    0.5
    """
    given = {"classes": classes, "score_type": score_type, "named": named}
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {"threshold": (threshold, None)}):
        return class_scores.accuracy(scores, y, sample_weight, **of_matrix(given))
    return binary_scores.accuracy(scores, y, sample_weight, threshold=0.5 if threshold is None else threshold)
