"""Calibration errors of class probabilities: every notion, with and without bias, and class by class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.messages import Note, note
from calibrant.metrics.binary.errors import check_power, no_two_rows, root_of, single_rows_left_out, with_order
from calibrant.metrics.estimates import Estimate, plain
from calibrant.metrics.multiclass.bins import ClassBins, ClassStrategy, Statistic, by_class, overall
from calibrant.metrics.multiclass.claims import AskedKind, Claims, Classes, read_claims
from calibrant.metrics.multiclass.covariance import debiased_spread, draws_for, first_order_se, null_draws, null_facts
from calibrant.notions import Canonical, ClassWise, Notion, notion_by_class
from calibrant.numerics import Column, Floats


def class_ece(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    kind: AskedKind = None,
    named: Any = None,
    notion: Notion | str = "top-label",
    p: float = 1,
    n_bins: int = 15,
    strategy: ClassStrategy = "width",
    edges: Any = None,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Expected calibration error of class probabilities, in any of the senses of multiclass calibration.

    .. math:: \Bigl(\frac1A \sum_c \sum_b \frac{n_{cb}}{n}\, |\bar y_{cb} - \bar s_{cb}|^p\Bigr)^{1/p}, \qquad
              \max_{c, b:\, n_{cb} > 0} |\bar y_{cb} - \bar s_{cb}| \text{ for } p = \infty,

    over the claims c = 1 .. A of the notion and the bins b of each, where bin b of claim c holds :math:`n_{cb}` of n
    rows, a share :math:`\bar y_{cb}` of them is of the class that the claim names, and the mean probability it claims
    is :math:`\bar s_{cb}`.

    ============================  ===================================================  ===============================
    notion                        claims                                               bins
    ============================  ===================================================  ===============================
    ``"confidence"``              the class of the largest score                       of the score
    ``"top-label"``               the same                                             of the score, for each class
    ``"class-wise"``              each class                                           of its score
    ``TopKConfidence(k)``         the classes of the k largest scores, rank by rank    of the score
    ``TopKLabel(k)``              the same                                             of the score, for each class
    ``"canonical"``               the whole row, its classes summed and not averaged   distinct rows, or ``edges``
    ============================  ===================================================  ===============================

    Parameters
    ----------
    scores, y, classes, kind
        A matrix or frame of class scores and the class of each row, as
        :func:`~calibrant.arrays.multiclass.rows.check_class_rows` takes them.
        Logits go through softmax. Numbers in [0, 1]
        whose rows do not sum to 1 are measured as they are, with a note unless ``kind="independent"``.
    named
        The class that each row names, where ``scores`` holds its probability alone, as a top-label calibrator gives
        both; k columns of either for the k most likely classes.
    strategy
        ``"width"``: n_bins bins [0, 1/B), [1/B, 2/B), ..., the last closed. ``"mass"``: in each problem about equally
        many rows in each bin, a tied score never split. ``"distinct"``: each distinct score, as binning calibrators
        give few (002 Remark 5.1).
    edges
        Inner edges of your own instead. For canonical, a map with ``regions``, which says where each row lies.
    uncertainty
        Whether to compute standard error and null value. By default it is done for claims about the largest scores,
        and for claims about every class up to 20,000,000 rows times classes.

    Notes
    -----
    Edge rules: among equal scores the earlier class is the top one. An empty bin, and a class that no row names, add
    nothing. A class that no label has counts as any other. Zero weight is no row.
    Guarantee: no finite-sample guarantee. Biased upwards, the more so the more bins there are for the rows: read it
    beside ``null``, what labels drawn from the rows' own probabilities show. That is 200 draws, fewer beyond 100,000
    rows, and 20 beyond 1,000,000 rows or, for claims about every class, 2,000,000 rows times classes; of fewer than
    100 draws ``null_high`` is that of the normal law.
    ``se`` is of first order, with the bins held fixed; it is too wide near the null value, and for p = inf it is that
    of the worst bin alone. The largest error is that of the class and bin where it is worst, as 002 eq. 5.17 defines
    it; the tables of 002 print the largest mean over classes of a bin, which is smaller.
    Cost: one pass over the matrix, without a copy of it; one sort of each column for mass and distinct. Uncertainty
    takes one pass over the claims more, and one over the rows for each draw.
    Reference: 002 eq. 5.3, 5.4, 5.16, 5.17, section 5.4 and section 5.G; Guo et al. 2017; Kull et al. 2019.

    Examples
    --------
    Two classes that err in opposite directions (002 Example 5.1):

    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], 5, axis=0)
    >>> y = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]  # class 0 comes true in 1 of 5 rows that name it, class 1 in all
    >>> round(class_ece(p, y, notion="confidence").value, 9), round(class_ece(p, y).value, 9)
    (0.0, 0.4)
    """
    check_power(p)
    claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, kind=kind, named=named)
    draws, notes = draws_for(claims, uncertainty)
    bins = ClassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, keep=draws > 0)
    statistic = overall(claims, bins, p)
    name = f"{with_order(f'{_called(claims.notion)} ECE', p)}, {bins.chosen}"
    value = float(statistic(bins.events))
    notes = claims.notes + notes
    if not draws:
        return Estimate(name, value, notes=notes)
    facts = null_facts(null_draws(claims, bins, statistic, random_state, draws))
    return Estimate(name, value, first_order_se(claims, bins, p), **_floats(facts), notes=notes)


def debiased_class_ece(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    kind: AskedKind = None,
    named: Any = None,
    notion: Notion | str = "top-label",
    n_bins: int = 15,
    strategy: ClassStrategy = "mass",
    edges: Any = None,
    squared: bool = False,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""The l2 calibration error of class probabilities without the upward bias of the plug-in estimate.

    .. math:: \widehat{E^2} = \frac1A \sum_c \sum_b w_{cb}
              \Bigl[(\bar s_{cb} - \bar y_{cb})^2 - \frac{\bar y_{cb} (1 - \bar y_{cb})}{m_{cb} - 1}\Bigr]

    with the symbols of :func:`class_ece`, the share :math:`w_{cb}` of claim c's rows and the rows :math:`m_{cb}` of
    the bin: the effective size under weights, unless these are whole numbers and so mean repetition. The result is the
    root, or with ``squared=True`` the signed number itself.

    Notes
    -----
    Edge rules: a bin of one row has no estimate of its variance; it is left out, the shares of the others of its claim
    are taken among themselves, and a note says how many rows it costs. NaN when no bin is left. A negative square, as
    chance gives a calibrated model, has root 0 and a note. Weights bring no null value, and a note.
    Guarantee: the square is unbiased for the binned probabilities when each bin holds one score. The interval has no
    finite-sample guarantee: it is a normal one, its skewness corrected, that knows how the claims of a row depend on
    each other; the share of samples in which it covers is tested by simulation.
    Cost: as :func:`class_ece` without draws of labels where weights are given.
    Reference: Kumar, Liang and Ma 2019, sections 2.2 and 4; 002 section 5.4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1.0, 1.0, 1.0], 2000)
    >>> y = [int(rng.choice(3, p=row)) for row in p]
    >>> found = debiased_class_ece(p, y)
    >>> round(class_ece(p, y, p=2).value, 3), round(found.value, 3), found.low
    (0.039, 0.0, 0.0)
    """
    claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, kind=kind, named=named)
    draws, notes = draws_for(claims, uncertainty, dear=True)
    bins = ClassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, keep=draws > 0)
    size = bins.n if claims.whole else bins.effective_n
    name = f"debiased l2 {_called(claims.notion)} error{' squared' if squared else ''}, {bins.chosen}"
    share, lost = _kept_shares(claims, bins, size)
    notes = claims.notes + notes + lost
    if not (share > 0.0).any():
        return Estimate(name, float("nan"), notes=(*claims.notes, no_two_rows()))
    statistic = _debiased(bins, share, size)
    square = float(statistic(bins.events))
    se = low = high = None
    null: dict[str, float] = {}
    if draws:
        se, low, high = debiased_spread(claims, bins, share, square, random_state)
        if claims.weights is None:
            drawn = null_draws(claims, bins, statistic, random_state, draws)
            null = _floats(null_facts(drawn if squared else np.sqrt(np.maximum(drawn, 0.0))))
        else:
            notes += (no_null_under_weights(),)
    found = Estimate(name, square, se, low, high, **null, notes=notes)
    return found if squared else root_of(found)


def marginal_error(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    kind: AskedKind = None,
    n_bins: int = 15,
    strategy: ClassStrategy = "mass",
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Marginal calibration error: the debiased l2 error of each class, joined by their root mean square.

    .. math:: \sqrt{\frac1K \sum_{k=1}^K \widehat{E_k^2}}

    with the debiased squared error :math:`\widehat{E_k^2}` of the k-th of K columns against the rest.

    Notes
    -----
    Edge rules, guarantee (no finite-sample guarantee) and cost: those of :func:`debiased_class_ece`, of which it is
    the class-wise form.
    Reference: Kumar, Liang and Ma 2019, section 2.2, with all classes given the same weight; 004.

    Examples
    --------
    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], 50, axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [20, 30, 0, 50])  # 20 of 50 and 0 of 50 in class 0: gaps 0.2 and 0.4
    >>> round(marginal_error(p, y, strategy="distinct").value, 3)
    0.312
    """
    found = debiased_class_ece(
        scores, y, sample_weight, classes=classes, kind=kind, notion=ClassWise(), n_bins=n_bins, strategy=strategy,
        uncertainty=uncertainty, random_state=random_state,
    )  # fmt: skip
    return replace(found, name=found.name.replace("debiased l2 class-wise error", "marginal calibration error"))


@dataclass(frozen=True, eq=False)
class ClassErrors:
    """Calibration error of each class, the most frequent first.

    Attributes
    ----------
    name
        What was computed.
    classes
        Names of the classes.
    rows, share
        Rows (or sum of weights) that name the class, or for class-wise those whose label it is; and their share of all.
    error
        The class's own error; NaN where no row names it.
    null, null_high
        What a calibrated model would show at these rows: on average, and exceeded in 5 % of samples. None without.
    notes
        What the reader must know.
    """

    name: str
    classes: tuple[str, ...]
    rows: Floats
    share: Floats
    error: Floats
    null: Floats | None
    null_high: Floats | None
    notes: tuple[Note, ...]

    def __len__(self) -> int:
        return len(self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one record for each class; what is not finite is None."""
        numbers = {key: getattr(self, key) for key in ("rows", "share", "error", "null", "null_high")}
        columns = {"class": self.classes} | {key: values for key, values in numbers.items() if values is not None}
        records = [dict(zip(columns, row, strict=True)) for row in zip(*map(plain, columns.values()), strict=True)]
        return {"name": self.name, "classes": records, "notes": plain(self.notes)}

    def __str__(self) -> str:
        """A table, a line for each class: all of them up to 30, else the 20 most frequent and how many follow."""
        shown = len(self) if len(self) <= 30 else 20
        width = max(len("class"), *(len(name) for name in self.classes[:shown]))
        head = f"{'class':<{width}}{'rows':>12}{'share':>9}{'error':>9}"
        lines = [self.name, head if self.null is None else f"{head}{'null':>9}"]
        for j, name in enumerate(self.classes[:shown]):
            null = "" if self.null is None else f"{self.null[j]:>9.4f}"
            lines.append(f"{name:<{width}}{self.rows[j]:>12,.10g}{self.share[j]:>9.4f}{self.error[j]:>9.4f}{null}")
        if shown < len(self):
            lines.append(f"... and {len(self) - shown:,} classes that are less frequent")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def class_errors(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    kind: AskedKind = None,
    named: Any = None,
    notion: Notion | str = "top-label",
    p: float = 1,
    n_bins: int = 15,
    strategy: ClassStrategy = "width",
    edges: Any = None,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> ClassErrors:
    r"""Calibration error class by class: whether rare classes are as well calibrated as common ones.

    .. math:: E_l = \Bigl(\sum_b \frac{n_{lb}}{n_l}\, |\bar y_{lb} - \bar s_{lb}|^p\Bigr)^{1/p}

    with the bins b of class l as in :func:`class_ece`, :math:`n_{lb}` of :math:`n_l` rows in bin b. For top-label,
    :math:`n_l` rows name the class and :math:`\sum_l (n_l/n) E_l` is the top-label ECE; for class-wise all rows speak
    of every class and the mean of :math:`E_l` is the class-wise ECE.

    Notes
    -----
    Edge rules: a class that no row names has no error, NaN. Classes of the same frequency keep their order.
    Guarantee: no finite-sample guarantee; rare classes show more error by chance alone: compare with ``null``.
    Cost: as :func:`class_ece`. Reference: 002 section 5.B.2 and Figure 5.4.

    Examples
    --------
    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], [10, 5], axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [6, 4, 3, 2])
    >>> print(class_errors(p, y, uncertainty=False))
    top-label ECE by class, 15 bins of equal width
    class        rows    share    error
    0              10   0.6667   0.0000
    1               5   0.3333   0.2000
    """
    check_power(p)
    sense = notion_by_class(notion)
    claims = read_claims(scores, y, sample_weight, notion=sense, classes=classes, kind=kind, named=named)
    draws, notes = draws_for(claims, uncertainty)
    bins = ClassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, keep=draws > 0)
    statistic = by_class(claims, bins, p)
    about = claims.labels if claims.named is None else claims.named[:, 0]
    rows = np.bincount(about, claims.weights, len(claims.classes)).astype(np.float64)
    order = np.argsort(-rows, kind="stable")
    null: dict[str, Any] = {"null": None, "null_high": None}
    if draws:
        null = null_facts(null_draws(claims, bins, statistic, random_state, draws)[:, order])
    return ClassErrors(
        f"{with_order(f'{_called(sense)} ECE', p)} by class, {bins.chosen}",
        tuple(claims.classes[j] for j in order.tolist()),
        rows[order],
        rows[order] / bins.total,
        statistic(bins.events)[order],
        **null,
        notes=claims.notes + notes,
    )


# ------------------------------------------------------------------------------------------------- From bins to numbers


def _kept_shares(claims: Claims, bins: ClassBins, size: Floats) -> tuple[Floats, tuple[Note, ...]]:
    """Share of each bin that has a variance, among those of its claim; and what is left out."""
    kept = size > 1.0
    total = np.bincount(bins.place, np.where(kept, bins.n, 0.0), claims.count)
    # A claim without such a bin is left out of the mean over claims; canonical sums over its classes instead.
    averaged = claims.averaged if isinstance(claims.notion, Canonical) else max(int(np.count_nonzero(total)), 1)
    share = np.where(kept, bins.n, 0.0) / np.where(total > 0.0, total, 1.0)[bins.place] / averaged
    lost = 1.0 - float(bins.n[kept].sum() / bins.n.sum())
    return share, (single_rows_left_out(lost),) if lost > 0 else ()


def _debiased(bins: ClassBins, share: Floats, size: Floats) -> Statistic:
    kept = share > 0.0
    n, score_sum, weight, spare = bins.n[kept], bins.score_sum[kept], share[kept], size[kept] - 1.0

    def statistic(events: Floats) -> Floats:
        rate = events[kept] / n
        term = ((score_sum - events[kept]) / n) ** 2 - rate * (1.0 - rate) / spare
        return np.asarray((weight * term).sum())

    return statistic


def _called(notion: Notion) -> str:
    k = getattr(notion, "k", None)
    return notion.name if k is None else notion.name.replace("top-k", f"top-{k}")


def _floats(facts: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in facts.items()}


no_null_under_weights = note(
    "no-null-under-weights",
    "No null value under weights: the value takes whole weights for repetition, and a draw by {nouns.row} would not.",
)
