"""Calibration errors of class probabilities: for every notion, plug-in and debiased, and by class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_whole
from calibrant.messages import Drawn, InputError, Note, Shown, note
from calibrant.metrics.binary.errors import check_power, no_two_rows, root_of, single_rows_left_out, with_order
from calibrant.metrics.binary.validity import ValidityCurve, curve_of
from calibrant.metrics.estimates import Deferred, Estimate, plain
from calibrant.metrics.multiclass.bins import (
    MulticlassBins,
    MulticlassStrategy,
    Statistic,
    by_class,
    deviation,
    overall,
)
from calibrant.metrics.multiclass.claims import AskedScoreType, Claims, Classes, read_claims
from calibrant.metrics.multiclass.covariance import (
    closed_null,
    debiased_spread,
    draws_for,
    first_order_se,
    has_closed_null,
    null_draws,
    null_facts,
)
from calibrant.metrics.regions import Regions, region_codes
from calibrant.notebook import table_block
from calibrant.notions import Canonical, Classwise, Notion, notion_by_class
from calibrant.numerics import Column, Floats


def ece(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
    notion: Notion | str = "confidence",
    p: float = 1,
    n_bins: int = 15,
    strategy: MulticlassStrategy = "width",
    edges: Any = None,
    regions: Regions = None,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    """Expected calibration error of class probabilities; see :func:`~calibrant.metrics.dispatch.ece`.

    Examples
    --------
    Two classes that err in opposite directions (Gupta 2023, Example 5.1):

    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], 5, axis=0)
    >>> y = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]  # class 0 comes true in 1 of 5 rows that name it, class 1 in all
    >>> round(ece(p, y).value, 9), round(ece(p, y, notion="top-label").value, 9)
    (0.0, 0.4)
    """
    check_power(p)
    claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, score_type=score_type, named=named)
    in_one_pass = edges is None and regions is None and strategy == "width" and n_bins != 1
    closed = p == 1 and uncertainty is not False and in_one_pass and has_closed_null(claims)
    draws, notes = (0, ()) if closed else draws_for(claims, uncertainty)
    given = _codes(regions, y, sample_weight)
    bins = MulticlassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, regions=given, keep=draws > 0)
    statistic = overall(claims, bins, p)
    name = f"{with_order(f'{_called(claims.notion)} ECE', p)}, {bins.chosen}"
    value = float(statistic(bins.events))
    notes = claims.notes + notes
    if not draws and not closed:
        return Estimate(name, value, notes=notes)

    def rest() -> dict[str, Any]:
        null = (
            closed_null(claims, bins)
            if closed
            else null_facts(null_draws(claims, bins, statistic, random_state, draws))
        )
        return {"se": first_order_se(claims, bins, p), **_floats(null), "notes": notes}

    check_whole("random_state", random_state, 0)
    return Deferred(name, value, rest)


def classwise_ece(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    n_bins: int = 15,
    strategy: MulticlassStrategy = "width",
    random_state: int = 0,
) -> Estimate:
    r"""Class-wise ECE: the mean over classes of the ECE of each class against the rest.

    .. math:: \frac1K \sum_{k=1}^K \sum_b w_{kb}\, |\bar y_{kb} - \bar s_{kb}|

    with the bins b of the scores of class k, their shares of the rows :math:`w_{kb}`, the observed frequency of the
    class and its mean score. The same as :func:`ece` with ``notion="class-wise"``.

    Parameters
    ----------
    scores, y, sample_weight, classes, score_type, n_bins, strategy, random_state
        As in :func:`calibrant.metrics.ece`, for a matrix.

    Returns
    -------
    Estimate
        Value, standard error and null value.

    Notes
    -----
    Edge rules, guarantee (no finite-sample guarantee) and cost: those of :func:`ece`.
    Reference: Kull et al. (2019), eq. 3; Nixon et al. (2019), who call it static calibration error.

    Examples
    --------
    >>> p = [[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]]
    >>> round(classwise_ece(p, ["a", "b"], classes=["a", "b", "c"]).value, 3)
    0.133
    """
    return ece(
        scores, y, sample_weight, notion="class-wise", classes=classes, score_type=score_type, n_bins=n_bins,
        strategy=strategy, random_state=random_state,
    )  # fmt: skip


def pde(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
    notion: Notion | str = "confidence",
    p: float = 1,
    n_bins: int = 15,
    strategy: MulticlassStrategy = "mass",
    edges: Any = None,
    regions: Regions = None,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    """Probability deviation error of class probabilities; see :func:`~calibrant.metrics.dispatch.pde`.

    Examples
    --------
    >>> p = np.repeat([[0.7, 0.3], [0.5, 0.5]], 5, axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [3, 2, 3, 2])  # 6 of 10 rows are of class 0
    >>> one = {"notion": "class-wise", "n_bins": 1}
    >>> round(pde(p, y, **one).value, 3), round(ece(p, y, **one).value, 3)
    (0.1, 0.0)
    """
    check_power(p)
    claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, score_type=score_type, named=named)
    draws, notes = draws_for(claims, uncertainty)
    given = _codes(regions, y, sample_weight)
    bins = MulticlassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, regions=given)
    statistic = deviation(claims, bins, p)
    name = f"{with_order(f'{_called(claims.notion)} PDE', p)}, {bins.chosen}"
    facts = _floats(null_facts(null_draws(claims, bins, statistic, random_state, draws))) if draws else {}
    return Estimate(name, float(statistic(bins.events)), **facts, notes=claims.notes + notes)


def validity_curve(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
    notion: Notion | str = "confidence",
    n_bins: int = 15,
    strategy: MulticlassStrategy = "width",
    edges: Any = None,
) -> ValidityCurve:
    """Validity curve of class probabilities; see :func:`~calibrant.metrics.dispatch.validity_curve`.

    Examples
    --------
    Two classes that err in opposite directions (Gupta 2023, Example 5.1):

    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], 5, axis=0)
    >>> curve = validity_curve(p, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1], notion="top-label")
    >>> curve.at([0.3, 0.4]).tolist(), round(curve.auc, 9)
    ([0.0, 1.0], 0.6)
    """
    claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, score_type=score_type, named=named)
    if isinstance(claims.notion, Canonical):
        fix = "pass 'top-label', 'class-wise' or 'confidence', or use displays.CanonicalValidityDisplay"
        raise InputError("notion", "must make claims about one probability at a time", fix)
    bins = MulticlassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, keep=False)
    filled = bins.n > 0
    gap = np.abs(bins.events - bins.score_sum)[filled] / bins.n[filled]
    name = f"{_called(claims.notion)} validity by {int(filled.sum()):,} non-empty bins"
    return curve_of(name, gap, bins.n[filled])


def debiased_ece(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
    notion: Notion | str = "confidence",
    n_bins: int = 15,
    strategy: MulticlassStrategy = "mass",
    edges: Any = None,
    regions: Regions = None,
    squared: bool = False,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    """Debiased l2 error of class probabilities; see :func:`~calibrant.metrics.dispatch.debiased_ece`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1.0, 1.0, 1.0], 2000)
    >>> y = [int(rng.choice(3, p=row)) for row in p]
    >>> found = debiased_ece(p, y)
    >>> round(ece(p, y, p=2).value, 3), round(found.value, 3), found.low
    (0.021, 0.0, 0.0)
    """
    claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, score_type=score_type, named=named)
    draws, notes = draws_for(claims, uncertainty, dear=True)
    given = _codes(regions, y, sample_weight)
    bins = MulticlassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, regions=given, keep=draws > 0)
    size = bins.n if claims.whole else bins.effective_n
    name = f"debiased l2 {_called(claims.notion)} error{' squared' if squared else ''}, {bins.chosen}"
    share, lost = _kept_shares(claims, bins, size)
    notes = claims.notes + notes + lost
    if not (share > 0.0).any():
        return Estimate(name, float("nan"), notes=(*claims.notes, no_two_rows()))
    statistic = _debiased(bins, share, size)
    square = float(statistic(bins.events))
    se = low = high = None
    null: dict[str, Any] = {}
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
    score_type: AskedScoreType = None,
    n_bins: int = 15,
    strategy: MulticlassStrategy = "mass",
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Marginal calibration error: root mean square over classes of the debiased l2 error of each class.

    .. math:: \sqrt{\frac1K \sum_{k=1}^K \widehat{E_k^2}}

    with the debiased squared error :math:`\widehat{E_k^2}` of the k-th of K columns against the rest.

    Parameters
    ----------
    scores, y, sample_weight, classes, score_type, n_bins, strategy, uncertainty, random_state
        As in :func:`calibrant.metrics.ece`, for a matrix.

    Returns
    -------
    Estimate
        Value, standard error, interval and null values.

    Notes
    -----
    Edge rules, guarantee (no finite-sample guarantee) and cost: those of :func:`debiased_ece`, of which it is
    the class-wise form.
    Reference: Kumar, Liang and Ma (2019), section 2.2, with all classes given the same weight; Rosenberg (2021).

    Examples
    --------
    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], 50, axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [20, 30, 0, 50])  # 20 of 50 and 0 of 50 in class 0: gaps 0.2 and 0.4
    >>> round(marginal_error(p, y, strategy="distinct").value, 3)
    0.312
    """
    found = debiased_ece(
        scores, y, sample_weight, classes=classes, score_type=score_type, notion=Classwise(), n_bins=n_bins,
        strategy=strategy, uncertainty=uncertainty, random_state=random_state,
    )  # fmt: skip
    return replace(found, name=found.name.replace("debiased l2 class-wise error", "marginal calibration error"))


@dataclass(frozen=True, eq=False)
class MulticlassErrors(Drawn, Shown):
    """Calibration error of each class, the most frequent first.

    Attributes
    ----------
    name
        What was computed.
    classes
        Names of the classes.
    rows, share
        Rows (or sum of weights) that predict the class, or for class-wise those with this label; and their share.
    error
        Error of the class; NaN where no row predicts it.
    null, null_high
        What a calibrated model would show for these rows: on average, and exceeded in 5 % of samples. None if unknown.
    notes
        Notes for the reader.
    notion
        ``"top-label"`` or ``"class-wise"``.
    """

    name: str
    classes: tuple[str, ...]
    rows: Floats
    share: Floats
    error: Floats
    null: Floats | None
    null_high: Floats | None
    notes: tuple[Note, ...]
    notion: str = "top-label"

    def __len__(self) -> int:
        return len(self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one record for each class; a number that is not finite is None."""
        numbers = {key: getattr(self, key) for key in ("rows", "share", "error", "null", "null_high")}
        columns = {"class": self.classes} | {key: values for key, values in numbers.items() if values is not None}
        records = [dict(zip(columns, row, strict=True)) for row in zip(*map(plain, columns.values()), strict=True)]
        return {"name": self.name, "classes": records, "notes": plain(self.notes)}

    def __str__(self) -> str:
        """A table with a line for each class: all of them up to 30, else the 20 most frequent."""
        head, rows, more = self._table()
        width = max(len(name) for name, *_ in (head, *rows))
        lines = [
            f"{name:<{width}}{count:>12}{''.join(f'{each:>9}' for each in others)}"
            for name, count, *others in (head, *rows)
        ]
        return "\n".join([self.name, *lines, *more, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the same table."""
        head, rows, more = self._table()
        return table_block(head, rows, title=self.name, notes=[*more, *(f"  {note}" for note in self.notes)])

    def _table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Names of the columns, their entries as text, and a line on the classes that are left out."""
        shown = len(self) if len(self) <= 30 else 20
        columns = [self.share, self.error, *([] if self.null is None else [self.null])]
        rows = [
            [name, f"{self.rows[j]:,.10g}", *(f"{column[j]:.4f}" for column in columns)]
            for j, name in enumerate(self.classes[:shown])
        ]
        more = [f"... and {len(self) - shown:,} less frequent classes"] if shown < len(self) else []
        return ["class", "rows", "share", "error", "null"][: 2 + len(columns)], rows, more


def errors_by_class(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
    notion: Notion | str = "top-label",
    p: float = 1,
    n_bins: int = 15,
    strategy: MulticlassStrategy = "width",
    edges: Any = None,
    uncertainty: bool | None = None,
    random_state: int = 0,
) -> MulticlassErrors:
    r"""Calibration error by class, which shows whether rare classes are as well calibrated as common ones.

    .. math:: E_l = \Bigl(\sum_b \frac{n_{lb}}{n_l}\, |\bar y_{lb} - \bar s_{lb}|^p\Bigr)^{1/p}

    with the bins b of class l as in :func:`ece`, :math:`n_{lb}` of :math:`n_l` rows in bin b. For top-label,
    :math:`n_l` rows predict the class and :math:`\sum_l (n_l/n) E_l` is the top-label ECE; for class-wise all rows
    count for every class and the mean of :math:`E_l` is the class-wise ECE.

    Parameters
    ----------
    scores, y, sample_weight, classes, score_type, named, notion, p, n_bins, strategy, edges, uncertainty, random_state
        As in :func:`calibrant.metrics.ece`, for a matrix.

    Returns
    -------
    MulticlassErrors
        Rows, error and null values of each class; it prints as a table.

    Notes
    -----
    Edge rules: the error of a class that no row predicts is NaN. Classes of the same frequency keep their order.
    Guarantee: no finite-sample guarantee; the bias is larger for rare classes: compare with ``null``.
    Cost: as :func:`ece`. Reference: Gupta (2023), section 5.B.2 and Figure 5.4.

    Examples
    --------
    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], [10, 5], axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [6, 4, 3, 2])
    >>> print(errors_by_class(p, y, uncertainty=False))
    top-label ECE by class, 15 bins of equal width
    class        rows    share    error
    0              10   0.6667   0.0000
    1               5   0.3333   0.2000
    """
    check_power(p)
    sense = notion_by_class(notion)
    claims = read_claims(scores, y, sample_weight, notion=sense, classes=classes, score_type=score_type, named=named)
    draws, notes = draws_for(claims, uncertainty)
    bins = MulticlassBins.of(claims, n_bins=n_bins, strategy=strategy, edges=edges, keep=draws > 0)
    statistic = by_class(claims, bins, p)
    about = claims.labels if claims.named is None else claims.named[:, 0]
    rows = np.bincount(about, claims.weights, len(claims.classes)).astype(np.float64)
    order = np.argsort(-rows, kind="stable")
    null: dict[str, Any] = {"null": None, "null_high": None}
    if draws:
        null = null_facts(null_draws(claims, bins, statistic, random_state, draws)[:, order])
    return MulticlassErrors(
        f"{with_order(f'{_called(sense)} ECE', p)} by class, {bins.chosen}",
        tuple(claims.classes[j] for j in order.tolist()),
        rows[order],
        rows[order] / bins.total,
        statistic(bins.events)[order],
        **null,
        notes=claims.notes + notes,
        notion=sense.name,
    )


# ------------------------------------------------------------------------------------------------- From bins to numbers


def _kept_shares(claims: Claims, bins: MulticlassBins, size: Floats) -> tuple[Floats, tuple[Note, ...]]:
    """Share of each bin with at least two rows, within its claim; and a note on bins left out."""
    kept = size > 1.0
    total = np.bincount(bins.place, np.where(kept, bins.n, 0.0), claims.count)
    # A claim without such bins is left out of the mean over claims; canonical sums over its classes instead.
    averaged = claims.averaged if isinstance(claims.notion, Canonical) else max(int(np.count_nonzero(total)), 1)
    share = np.where(kept, bins.n, 0.0) / np.where(total > 0.0, total, 1.0)[bins.place] / averaged
    lost = 1.0 - float(bins.n[kept].sum() / bins.n.sum())
    return share, (single_rows_left_out(lost),) if lost > 0 else ()


def _debiased(bins: MulticlassBins, share: Floats, size: Floats) -> Statistic:
    kept = share > 0.0
    n, score_sum, weight, spare = bins.n[kept], bins.score_sum[kept], share[kept], size[kept] - 1.0

    def statistic(events: Floats) -> Floats:
        rate = events[kept] / n
        term = ((score_sum - events[kept]) / n) ** 2 - rate * (1.0 - rate) / spare
        return np.asarray((weight * term).sum())

    return statistic


def _codes(regions: Regions, y: Column, sample_weight: Column) -> NDArray[np.intp] | None:
    return None if regions is None else region_codes(regions, y, sample_weight)


def _called(notion: Notion) -> str:
    k = getattr(notion, "k", None)
    return notion.name if k is None else notion.name.replace("top-k", f"top-{k}")


def _floats(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) for name, value in facts.items()}


no_null_under_weights = note(
    "no-null-under-weights",
    "No null value with weights, because integer weights may mean repeated {nouns.rows}.",
)
