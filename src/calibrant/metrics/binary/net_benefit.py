"""Net benefit by threshold: the decision curve of one column of scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import read_floats
from calibrant.messages import Drawn, InputError
from calibrant.metrics.binary.bins import Bins, GroupedScores, grouped_or_tally
from calibrant.metrics.binary.scores import enough_groups, plain_tally, squared_mass
from calibrant.metrics.estimates import Result
from calibrant.metrics.variance import spread_of
from calibrant.notebook import table_block
from calibrant.numerics import Column, Floats
from calibrant.tallies import Clusters, Tally

MAX_INTERVALS = 4
"""Maximum number of threshold intervals in a printout."""


@dataclass(frozen=True, eq=False)
class DecisionCurve(Drawn, Result):
    """Net benefit per row by threshold, in true positives: of the model, of treating all and of treating none.

    ``se`` is the standard error of ``model`` at each threshold, NaN where rows are too few.
    """

    thresholds: Floats
    model: Floats
    se: Floats
    treat_all: Floats
    treat_none: float = 0.0

    @property
    def useful(self) -> NDArray[np.bool_]:
        """Where the model beats both treating all and treating none."""
        return np.asarray(self.model > np.maximum(self.treat_all, self.treat_none))

    def __str__(self) -> str:
        rows = (f"{at:>9}{model:>11}{treated:>11}" for at, model, treated in self._rows())
        return "\n".join([self._headline(), f"{'threshold':>9}{'model':>11}{'treat all':>11}", *rows])

    def _repr_html_(self) -> str:
        """For notebooks: where the model is useful, and some points of the curve."""
        return table_block(("threshold", "model", "treat all"), self._rows(), title=self._headline())

    def _headline(self) -> str:
        edges = np.flatnonzero(np.diff(self.useful, prepend=False, append=False)).reshape(-1, 2)
        ends = [(self.thresholds[start], self.thresholds[stop - 1]) for start, stop in edges]
        named = [f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}" for low, high in ends[:MAX_INTERVALS]]
        count = int(np.count_nonzero(self.useful))
        title = f"Net benefit: the model beats treating all and none at {count} of {len(self.model)} thresholds"
        where = f": {', '.join(named)}{', ...' if len(ends) > MAX_INTERVALS else ''}" if named else ""
        return title + where

    def _rows(self) -> list[tuple[str, str, str]]:
        """Threshold, net benefit of the model and of treating all at up to nine thresholds, as text."""
        shown = np.unique(np.linspace(0, len(self.model) - 1, 9).round().astype(int))
        return [(f"{self.thresholds[i]:.4g}", f"{self.model[i]:.4f}", f"{self.treat_all[i]:.4f}") for i in shown]


def net_benefit(
    scores: GroupedScores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    thresholds: Column = None,
    groups: Column = None,
) -> DecisionCurve:
    r"""Decision curve: net benefit of acting on scores at or above each threshold.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}(t)}{n} - \frac{\mathrm{FP}(t)}{n} \cdot \frac{t}{1 - t},

    with :math:`\mathrm{TP}(t)` events and :math:`\mathrm{FP}(t)` non-events among the rows of score at least :math:`t`;
    at threshold t one false positive costs as much as t / (1 - t) true positives gain. Treating all has
    :math:`\mathrm{TP}` and :math:`\mathrm{FP}` of all rows, treating none has 0.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y``, ``sample_weight`` and ``groups``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    thresholds : array-like, optional
        Probabilities inside (0, 1), increasing; by default 0.01, 0.02, ..., 0.99.
    groups : array-like, optional
        Groups of dependent rows, such as patients or customers.

    Returns
    -------
    DecisionCurve
        Net benefit of the model, of treating all and of treating none, at each threshold.

    Notes
    -----
    Guarantee: none in finite samples. Cost: one pass over rows. Reference: Vickers and Elkin (2006).

    Examples
    --------
    >>> curve = net_benefit([0.1, 0.3, 0.6, 0.8], [0, 0, 1, 1], thresholds=[0.2, 0.5])
    >>> curve.model.tolist(), curve.treat_all.tolist()
    ([0.4375, 0.5], [0.375, 0.0])
    """
    at = np.arange(1, 100) / 100.0 if thresholds is None else read_floats(np.atleast_1d(thresholds), "thresholds")
    if not (len(at) and ((at > 0.0) & (at < 1.0)).all() and (np.diff(at) > 0.0).all()):
        raise InputError("thresholds", "must be increasing probabilities inside (0, 1)", "pass 0.5 for 50 %")
    if groups is not None or isinstance(scores, Clusters):
        data = grouped_or_tally(scores, y, sample_weight, groups)
        return _grouped_curve(net_benefit(plain_tally(data), thresholds=at), data)
    bins = Bins.of(scores, y, sample_weight, edges=at)
    others, share = bins.n - bins.events, squared_mass(bins) / np.maximum(bins.n, np.finfo(float).tiny)
    hits, alarms = _from_above(bins.events) / bins.total, _from_above(others) / bins.total
    w2_hits, w2_alarms = _from_above(bins.events * share), _from_above(others * share)
    cost = at / (1.0 - at)
    model = hits[1:] - cost * alarms[1:]
    total, w2 = bins.total, float(squared_mass(bins).sum())
    squares = w2_hits[1:] + cost**2 * w2_alarms[1:]
    spread = squares - 2.0 * model * (w2_hits[1:] - cost * w2_alarms[1:]) + model**2 * w2
    size = total**2 / w2
    se = np.sqrt(np.maximum(spread, 0.0) / total**2 * size / (size - 1.0)) if size > 1.0 else np.full(len(at), np.nan)
    return DecisionCurve(at, model, se, hits[0] - cost * alarms[0])


def _grouped_curve(plain: DecisionCurve, data: Tally | Clusters) -> DecisionCurve:
    """A decision curve with standard errors that account for groups."""
    tally, total = plain_tally(data), float(plain_tally(data).total)
    se = np.full(len(plain.model), np.nan)
    for place, (at, value) in enumerate(zip(plain.thresholds, plain.model, strict=True)):
        acted = tally.scores >= at
        hit, miss = np.where(acted, 1.0, 0.0), np.where(acted, -at / (1.0 - at), 0.0)
        if enough_groups(data):
            se[place] = spread_of(data, (hit - value) / total, (miss - value) / total).sd
    return replace(plain, se=se)


def _from_above(values: NDArray[Any]) -> NDArray[Any]:
    """Sum of each bin and all bins above it."""
    return np.cumsum(values[::-1])[::-1]
