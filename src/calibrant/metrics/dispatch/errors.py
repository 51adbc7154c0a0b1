"""Calibration errors that take one column of scores or a matrix of class scores."""

from __future__ import annotations

from typing import Any, Literal

from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.metrics.binary import errors, kernel, validity
from calibrant.metrics.binary.bins import Edges, Scores, Strategy
from calibrant.metrics.binary.validity import ValidityCurve
from calibrant.metrics.dispatch.forms import for_classes, of_matrix, one_event
from calibrant.metrics.draws import generator
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.multiclass import errors as class_errors
from calibrant.metrics.multiclass import kernel as class_kernel
from calibrant.metrics.multiclass.claims import Classes
from calibrant.metrics.regions import Regions
from calibrant.notions import Notion
from calibrant.numerics import Column


def ece(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    notion: Notion | str | None = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    named: Any = None,
    p: float = 1,
    n_bins: int = 15,
    strategy: Strategy = "width",
    edges: Edges | Any = None,
    regions: Regions = None,
    against: Literal["mean", "midpoint"] = "mean",
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Expected calibration error (ECE), the plug-in estimate that is usually reported.

    .. math:: \Bigl(\sum_{b} w_b\, |\bar y_b - \bar s_b|^p\Bigr)^{1/p}, \qquad
              \max_{b:\, w_b > 0} |\bar y_b - \bar s_b| \text{ for } p = \infty,

    where bin b holds the share :math:`w_b` of the rows, :math:`\bar y_b` is the observed frequency of the event and
    :math:`\bar s_b` the mean score. For a matrix the sum runs over the claims of ``notion`` and their bins, divided by
    the number of claims.

    ===============================  ================================================  ===============================
    notion (matrix)                  claims                                            bins
    ===============================  ================================================  ===============================
    ``"confidence"``, the default    the class of the largest score                    of the score
    ``"top-label"``                  the class of the largest score                    of the score, for each class
    ``"class-wise"``                 each class                                        of its score
    ``TopKConfidence(k)``            the classes of the k largest scores, by rank      of the score
    ``TopKLabel(k)``                 the classes of the k largest scores, by rank      of the score, for each class
    ``"canonical"``                  the whole row, its classes summed, not averaged   distinct rows, or ``edges``
    ===============================  ================================================  ===============================

    The default is what most papers and libraries call the ECE of a classifier (Guo et al. 2017).

    Parameters
    ----------
    scores : array-like, Tally or matrix
        One score per row, or one column per class (array or data frame); two columns are one event, unless ``notion``
        is passed.
    y : array-like
        Label of each row: 0 or 1 for one column of scores, the class for a matrix. Not needed with a tally.
    sample_weight : array-like, optional
        Importance weight of each row.
    notion : Notion or str, optional
        Matrix: the sense in which several classes are calibrated.
    classes : sequence, optional
        Matrix: names of the classes in the order of the columns.
    score_type : {"probability", "logit", "independent"}, optional
        Matrix: what the scores are. Logits go through softmax. Rows in [0, 1] that do not sum to 1 are measured as they
        are, with a note unless ``"independent"`` is given.
    named : array-like, optional
        The predicted class of each row, if ``scores`` has only its probability, as top-label calibrators return both;
        k columns of each for the k most likely classes.
    p : float, default=1
        Order of the error; ``numpy.inf`` for the maximum calibration error.
    n_bins : int, default=15
        Number of bins.
    strategy : {"width", "mass", "distinct", "auto"}, default="width"
        Equal widths, equal numbers of rows (ties are never split), or each distinct score by itself.
    edges : array-like or map, optional
        Inner edges of the bins instead; a step map gives its own bins. For canonical, a map with ``regions``.
    regions : array-like, optional
        Region of each row, to be the bins instead: segments, or the leaves of a tree by :func:`tree_regions`. They must
        not be chosen by the labels that are judged.
    against : {"mean", "midpoint"}, default="mean"
        One column of scores: compare with the mean score of the bin or with its mid-point.
    uncertainty : bool, optional
        Matrix: whether to compute standard error and null value. By default for claims about the largest scores, and
        for claims about every class up to 20,000,000 rows times classes.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Estimate
        Value, bootstrap standard error, and ``null``: what a perfectly calibrated model would show.

    Notes
    -----
    Edge rules: bins of equal width are (k/B, (k+1)/B], and the first has 0 too. An empty bin adds nothing, nor does a
    class that no row predicts. A class without labels counts like any other. A constant score equal to the base rate
    has error 0. Among equal class scores the earlier class is the top one. Without binning (``"distinct"``), scores
    with fewer than 50 rows cause a note. Rows of weight zero are ignored.
    Guarantee: no finite-sample guarantee. Biased upward, more so with few rows or many bins: compare it with ``null``,
    the value for labels drawn from the probabilities themselves. With binning, the error of the binned score is
    estimated. Where a bin is represented by its mean score, this error never exceeds that of the score; by its
    mid-point, it may. There is no interval. The standard error is too wide near the null value: a bootstrap for one
    column; for a matrix it is of first order with fixed bins, and for p = inf that of the worst bin alone. For a matrix
    ``null`` uses 200 draws, fewer above 100,000 rows, and 20 above 1,000,000 rows or, for claims about every class,
    2,000,000 rows times classes; with fewer than 100 draws ``null_high`` is the normal quantile. For the class-wise
    error with ``p=1``, bins of equal width and no weights it is a closed form without draws, with at least 1,000 rows
    or above 16 classes, with a normal ``null_high``, which was within 3 % of that of draws. The maximum of a matrix is
    that of the worst class and bin, as Gupta (2023), eq. 5.17 defines it; the tables there show the largest mean over
    classes of a bin, which is smaller.
    Cost: one pass over rows for equal width or given edges, one sort otherwise; then about 5 ms for one column. For a
    matrix, uncertainty takes one more pass over the claims, and one over the rows for each draw.
    Reference: Naeini et al. (2015); Guo et al. (2017); Kull et al. (2019); Gupta (2023), section 1.4.1, Definition 4.3,
    eq. 5.3, 5.4, 5.16, 5.17, sections 5.4 and 5.G; Torabian (2023), section 3.2.5.

    Examples
    --------
    >>> ece([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0]).value
    0.25
    >>> p = [[0.6, 0.4], [0.6, 0.4], [0.4, 0.6], [0.4, 0.6]]
    >>> round(ece(p, ["a", "b", "b", "b"], classes=["a", "b"], notion="confidence").value, 3)
    0.15
    """
    given = {"notion": notion, "classes": classes, "score_type": score_type, "named": named, "uncertainty": uncertainty}
    shared: dict[str, Any] = {"p": p, "n_bins": n_bins, "strategy": strategy, "edges": edges, "regions": regions}
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {"against": (against, "mean")}):
        return class_errors.ece(scores, y, sample_weight, random_state=random_state, **shared, **of_matrix(given))
    return errors.ece(scores, y, sample_weight, against=against, random_state=random_state, **shared)


def adaptive_ece(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    notion: Notion | str | None = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    n_bins: int = 15,
    random_state: int = 0,
) -> Estimate:
    r"""Adaptive ECE: bins with equal numbers of rows instead of equal widths.

    .. math:: \sum_b w_b\, |\bar y_b - \bar s_b|

    with the bins b of about equal mass, of which a tied score is never split. The same as :func:`ece` with
    ``strategy="mass"``: for a matrix the confidence of the predicted class, with ``notion="class-wise"`` every class.

    Parameters
    ----------
    scores, y, sample_weight, notion, classes, score_type, n_bins, random_state
        As in :func:`ece`.

    Returns
    -------
    Estimate
        Value, standard error and null value.

    Notes
    -----
    Edge rules, guarantee (no finite-sample guarantee) and cost: those of :func:`ece`.
    Reference: Nguyen and O'Connor (2015); Nixon et al. (2019), whose adaptive error is that of every class; Mukhoti et
    al. (2020), that of the confidence.

    Examples
    --------
    >>> adaptive_ece([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], n_bins=2).value
    0.25
    """
    given: dict[str, Any] = {"notion": notion, "classes": classes, "score_type": score_type, "n_bins": n_bins}
    return ece(scores, y, sample_weight, strategy="mass", random_state=random_state, **given)


def pde(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    notion: Notion | str | None = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    named: Any = None,
    p: float = 1,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    edges: Edges | Any = None,
    regions: Regions = None,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Probability deviation error (PDE): distance of each score from the event rate of its bin.

    .. math:: \Bigl(\sum_b w_b\, \mathrm{PPD}_b^p\Bigr)^{1/p}, \qquad
              \mathrm{PPD}_b = \frac{1}{n_b} \sum_{j \in b} |s_j - \bar y_b|, \qquad
              \bar y_b = \frac{1}{n_b} \sum_{j \in b} y_j,

    with the rows :math:`n_b`, share of the rows :math:`w_b`, scores :math:`s_j` and labels :math:`y_j` of bin b (the
    label inside the sum, where Torabian (2023) has it in front); the largest :math:`\mathrm{PPD}_b` for p = inf. For a
    matrix the sum runs over the claims of ``notion`` and their bins as in :func:`ece`, divided by their number.

    Parameters
    ----------
    scores, y, sample_weight, notion, classes, score_type, named, p, n_bins, edges, regions, uncertainty
        As in :func:`ece`.
    strategy : {"mass", "width", "distinct", "auto"}, default="mass"
        How bins are made.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Estimate
        Value and null value; for one column also a bootstrap standard error.

    Notes
    -----
    Edge rules: an empty bin adds nothing. The rows of a gridded cell count with its mean score. Scores that vary inside
    a bin count as error even if they are right, so the value of a perfect model is above 0, also with many rows: see
    ``null``. In bins of one score each it equals :func:`ece`. So it favors models that are constant in the bins: do not
    compare two models each in its own regions (``docs/guide/tree-study.md``).
    Guarantee: no finite-sample guarantee; never below :func:`ece` with the same bins.
    Cost: one sort, then O(log n) per bin and bootstrap sample; for a matrix one sort of all its scores.
    Reference: Torabian (2023), sections 3.2.6 and 3.4.3.

    Examples
    --------
    >>> s, y = [0.35, 0.35, 0.65, 0.65], [0, 1, 0, 1]
    >>> round(pde(s, y, n_bins=1).value, 3), ece(s, y, n_bins=1).value
    (0.15, 0.0)
    >>> pde([0.25, 0.25, 0.75, 0.75], [0, 0, 0, 1], regions=["left", "left", "right", "right"]).value
    0.25
    """
    given = {"notion": notion, "classes": classes, "score_type": score_type, "named": named, "uncertainty": uncertainty}
    shared: dict[str, Any] = {"p": p, "n_bins": n_bins, "strategy": strategy, "edges": edges, "regions": regions}
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {}):
        return class_errors.pde(scores, y, sample_weight, random_state=random_state, **shared, **of_matrix(given))
    return errors.pde(scores, y, sample_weight, random_state=random_state, **shared)


def debiased_ece(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    notion: Notion | str | None = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    named: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    edges: Edges | Any = None,
    regions: Regions = None,
    squared: bool = False,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""The l2 calibration error without the upward bias of the plug-in estimate.

    .. math:: \widehat{E^2} = \sum_b w_b \Bigl[(\bar y_b - \bar s_b)^2 - \frac{\bar y_b (1 - \bar y_b)}{m_b - 1}\Bigr]

    with the symbols of :func:`ece` and the rows :math:`m_b` of the bin: the effective sample size for importance
    weights, unless these are integers and so mean repetition. For a matrix the sum runs over the claims of ``notion``
    and their bins, divided by the number of claims. The result is the root, or with ``squared=True`` the signed square.

    Parameters
    ----------
    scores, y, sample_weight, notion, classes, score_type, named, n_bins, edges, regions, uncertainty
        As in :func:`ece`.
    strategy : {"mass", "width", "distinct", "auto"}, default="mass"
        How bins are made; the correction needs bins with several rows each.
    squared : bool, default=False
        Return the signed square, which may be negative, instead of its root.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Estimate
        Value, standard error, interval, and ``null`` where weights permit it.

    Notes
    -----
    Edge rules: the variance in a bin of one row cannot be estimated; such bins are left out, the shares of the others
    are renormalized, and a note reports the share of rows left out. NaN when no bin is left. A negative square, which
    is common for a calibrated model, has root 0 and a note. With importance weights of one column, or any weights of a
    matrix, there is no null value, with a note.
    Guarantee: the square is unbiased for the binned score when each bin holds one score; where scores vary inside a
    bin, it is too small for a calibrated model, by their variance over :math:`m_b`. The root is not unbiased. The
    interval has no finite-sample guarantee: it is a normal one with its skewness corrected. For one column it covered
    in at least 96 % of samples in each of 90 simulated settings with 100 to 5,000 rows and 1 to 15 bins. For a matrix
    it accounts for the dependence of the claims of a row.
    Cost: as :func:`ece`.
    Reference: Kumar, Liang and Ma (2019), sections 2.2 and 4; Bröcker (2012); Rosenberg (2021); Gupta (2023), section
    5.4.

    Examples
    --------
    >>> s, y = [0.2] * 5 + [0.8] * 5, [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]
    >>> debiased_ece(s, y, n_bins=2).value
    0.0
    """
    given = {"notion": notion, "classes": classes, "score_type": score_type, "named": named, "uncertainty": uncertainty}
    shared: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "edges": edges, "regions": regions}
    shared["squared"] = squared
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {}):
        return class_errors.debiased_ece(
            scores, y, sample_weight, random_state=random_state, **shared, **of_matrix(given)
        )
    return errors.debiased_ece(scores, y, sample_weight, random_state=random_state, **shared)


def validity_curve(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    notion: Notion | str | None = None,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    named: Any = None,
    method: Literal["bins", "neighbors"] = "bins",
    n_bins: int = 15,
    strategy: Strategy = "width",
    edges: Edges | Any = None,
    k: int = 10,
) -> ValidityCurve:
    r"""Validity curve: for each epsilon, the share of rows whose score is within epsilon of the local event rate.

    .. math:: \hat V(\epsilon) = \frac{1}{n} \sum_{i=1}^{n}
              \mathbb 1\bigl\{|\hat\eta(s_i) - s_i| \le \epsilon\bigr\}

    where :math:`s_i` are the scores. With ``method="bins"``, :math:`\hat\eta` is the share of events in the score's
    bin and the bin's mean score stands for :math:`s_i`; bins are chosen as in :meth:`Bins.of`. With ``"neighbors"``,
    :math:`\hat\eta(s)` is the share of events among the k rows with scores nearest to s, the row itself included. For
    a matrix, bins are those of the claims of ``notion``: for ``"top-label"`` the probability of the predicted class is
    compared with how often that class is right, separately for each predicted class (Gupta 2023, eq. 5.8).

    Parameters
    ----------
    scores : array-like, Tally or matrix
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``; or one column per class.
    y : array-like
        Labels, 0 or 1; the class for a matrix.
    sample_weight : array-like, optional
        Importance weight of each row.
    notion, classes, score_type, named
        Matrix: as in :func:`ece`; ``"canonical"`` is refused.
    method : {"bins", "neighbors"}
        How the event rate near a score is estimated; a matrix has bins.
    n_bins, strategy, edges
        Bins as in :meth:`Bins.of`.
    k : int
        Number of neighbors, for one column.

    Returns
    -------
    ValidityCurve
        The curve and the area under it.

    Notes
    -----
    Edge rules: neighbors are chosen by distance, all rows of one distance together; if the last distance has more rows
    than are needed, its rows share the remaining weight. So rows with the same score come first, and the order of rows
    does not matter. k is at most the number of rows. Integer weights count as repetition; others are rescaled to the
    effective sample size first, so that k counts rows. Empty bins are not included. Errors are compared with epsilon up
    to 1e-12.
    Guarantee: no finite-sample guarantee; because of noise in the rates the curve is on average too low.
    Cost: as :func:`calibrant.metrics.binary.errors.ece` for bins; O(n log n) for neighbors.
    Reference: Gupta (2023), section 4.2.1, eq. 4.6, section 4.4, and section 5.B for a matrix; Torabian (2023), section
    3.2.4, Definition 7.

    Examples
    --------
    >>> curve = validity_curve([0.2] * 90 + [0.8] * 10, [1] * 27 + [0] * 63 + [1] * 6 + [0] * 4)
    >>> curve.at([0.05, 0.1, 0.2]).tolist(), curve.conditional([0.1, 0.2]).tolist(), round(curve.auc, 3)
    ([0.0, 0.9, 1.0], [0.0, 1.0], 0.89)
    """
    given = {"notion": notion, "classes": classes, "score_type": score_type, "named": named}
    shared: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "edges": edges}
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {"method": (method, "bins"), "k": (k, 10)}):
        return class_errors.validity_curve(scores, y, sample_weight, **shared, **of_matrix(given))
    return validity.validity_curve(scores, y, sample_weight, method=method, k=k, **shared)


def skce(
    scores: Scores | Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    bandwidth: float = 0.1,
    classes: Classes = None,
    score_type: MulticlassScoreType | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Squared kernel calibration error (SKCE), unbiased in finite samples.

    .. math:: \mathrm{SKCE} = \frac{1}{n(n-1)} \sum_{i \ne j} (y_i - s_i)(y_j - s_j)\, e^{-|s_i - s_j| / h},

    where h is the bandwidth. Its expectation is 0 for a calibrated model and positive for any other, at any n, so it
    can be negative by chance. For a matrix of class probabilities the residuals are the vectors :math:`e_{y_i} - s_i`,
    of which the product is the inner one, and :math:`|s_i - s_j|` is the total variation distance, half the l1
    distance. So the value of two columns is twice that of one.

    Parameters
    ----------
    scores : array-like, Tally or matrix
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``; or one column per class.
    y : array-like
        Labels, 0 or 1; the class for a matrix.
    sample_weight : array-like, optional
        Importance weight of each row.
    bandwidth
        Bandwidth h of the kernel, at least 0.005. The default 0.1 is a convention of this package: it makes values of
        different models comparable, which a bandwidth that depends on the scores would not.
    classes, score_type
        Matrix: as in :func:`ece`.
    random_state
        Matrix: seed of draws and of blocks.

    Returns
    -------
    Estimate
        Value, which may be negative, standard error and null values.

    Notes
    -----
    Edges: NaN for a single row. Integer weights count as repetition; other weights enter as
    :math:`\sum_{i \ne j} w_i w_j (\dots) / ((\sum w)^2 - \sum w^2)`, where the squared weights of a cell are assumed
    to be the same for both labels.
    Standard error: that of the U-statistic's projection. It is right for a miscalibrated model; for a calibrated one
    the projection vanishes, the error is of order 1/n, and the value should be compared with ``null_high``.
    Null: mean 0 exactly. Given the scores, variance and skewness of a calibrated model's value follow from sums like
    the one above; ``null_high`` is the 95 % quantile of a shifted gamma distribution with these three moments. The
    variance is exact for distinct rows; the skewness and the gamma shape are approximations for many rows. With
    importance weights, of which a few may dominate, there is no ``null_high``, with a note. With integer weights there
    is no null mean either, since the value takes them for repetition.
    Matrix: pairs are those of random blocks of rows, if there are more rows than can be compared with each other (about
    700 of 10 classes); the value is their mean, and still unbiased. ``null_high`` comes from 200 draws of labels of one
    block, or for several blocks from the exact variance and the skewness of these draws.
    Guarantee: unbiased in finite samples; no finite-sample guarantee for the standard error or ``null_high``.
    Cost: for one column O(cells), since the exponential kernel of a sorted sum decays from cell to cell; for a
    matrix O(n) blocks of a fixed size.
    References: Widmann, Lindsten and Zachariah (2019), Calibration tests in multi-class classification (their
    SKCE_uq, and for blocks of rows SKCE_ul); Gupta (2023), section 1.4.1.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < scores**1.5).astype(int)
    >>> estimate = skce(scores, y)
    >>> round(estimate.value, 5), round(estimate.se, 5), round(estimate.null_high, 5)
    (0.00227, 0.00041, 8e-05)
    """
    given = {"classes": classes, "score_type": score_type}
    generator(random_state, 0)  # checked for one column too, which needs no draws
    scores, y, given = one_event(scores, y, given)
    if for_classes(scores, given, {}):
        return class_kernel.skce(
            scores, y, sample_weight, bandwidth=bandwidth, random_state=random_state, **of_matrix(given)
        )
    return kernel.skce(scores, y, sample_weight, bandwidth=bandwidth)
