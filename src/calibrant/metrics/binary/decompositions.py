"""Decompositions of a proper loss into miscalibration, discrimination and uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_option
from calibrant.messages import Note, Shown
from calibrant.metrics.binary.bins import Bins, Edges, Scores, Strategy, tally_of
from calibrant.metrics.binary.means import Moments, Part, logarithmic_loss, moments, parts_of, squared_loss
from calibrant.metrics.binary.scores import infinite_loss, resolution_notes
from calibrant.metrics.estimates import plain
from calibrant.numerics import Column, Floats
from calibrant.solvers import pool_adjacent
from calibrant.tallies import Tally

LossName = Literal["brier", "log"]
Method = Literal["isotonic", "bins"]

LOSSES = {"brier": squared_loss, "log": logarithmic_loss}
TITLES = {"brier": "Brier score", "log": "log loss"}


class VarianceForm(NamedTuple):
    r"""The Brier score as :math:`\mathrm{Var}(Y) - \mathrm{Var}(t(f(X))) + E(t(f(X)) - f(X))^2` plus a remainder.

    The remainder is 0 if :math:`t(p)` is the event rate at the score p itself. With event rates of blocks or bins it is
    :math:`2 E(Y - t)(t - f)`, because scores vary within them (Rosenberg 2021, decomposition of the Brier score).
    """

    outcome: float
    recalibrated: float
    squared_gap: float
    remainder: float


@dataclass(frozen=True)
class Decomposition(Shown):
    """Decomposition of a mean loss: ``loss == miscalibration - discrimination + uncertainty + within``, up to rounding.

    Attributes
    ----------
    name
        Which loss, and how the scores were recalibrated.
    loss
        Mean loss of the scores.
    miscalibration
        Reduction of the loss by recalibration, 0 or more.
    discrimination
        Difference of the losses of the base rate and of the recalibrated scores, 0 or more.
    uncertainty
        Mean loss of the base rate, which depends on the labels alone.
    within
        With bins: change of the loss when each score is replaced by its bin's mean. 0 for isotonic recalibration.
    squared_gap
        For the Brier score, the mean squared distance of scores and recalibrated scores.
    notes
        Notes for the reader.
    """

    name: str
    loss: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    within: float = 0.0
    squared_gap: float | None = None
    notes: tuple[Note, ...] = ()

    @property
    def fixable(self) -> float:
        """Miscalibration as a share of the loss; NaN where the loss is infinite but the miscalibration is not."""
        if math.isinf(self.loss):
            return 1.0 if math.isinf(self.miscalibration) else math.nan
        return self.miscalibration / self.loss if self.loss > 0.0 else 0.0

    @property
    def variance_form(self) -> VarianceForm | None:
        """The Brier score in variances; None for other losses."""
        if self.squared_gap is None:
            return None
        remainder = self.loss - (self.uncertainty - self.discrimination + self.squared_gap)
        return VarianceForm(self.uncertainty, self.discrimination, self.squared_gap, remainder)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; unknown entries are omitted, and a number that is not finite is None."""
        known = {key: value for key, value in vars(self).items() if value is not None and value != ()}
        return {key: plain(value) for key, value in known.items()} | {"fixable": plain(self.fixable)}

    def __str__(self) -> str:
        """The terms, and how much of the loss recalibration could remove."""
        within = f" + within bins {self.within:.4f}" if abs(self.within) > 1e-12 else ""
        equation = (
            f"{self.name}: {self.loss:.4f} = miscalibration {self.miscalibration:.4f} "
            f"- discrimination {self.discrimination:.4f} + uncertainty {self.uncertainty:.4f}{within}"
        )
        share = f"recalibration could remove at most {100 * self.fixable:.1f} % of the loss"
        fixable = [] if math.isnan(self.fixable) else [f"  {share} (in-sample, so optimistic)"]
        return "\n".join([equation, *fixable, *(f"  {note}" for note in self.notes)])


def decompose(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    loss: LossName = "brier",
    method: Method = "isotonic",
    n_bins: int = 15,
    strategy: Strategy = "mass",
    edges: Edges = None,
) -> Decomposition:
    r"""Decompose a proper loss into miscalibration, discrimination and uncertainty.

    .. math:: \bar S = \underbrace{(\bar S - \bar S_c)}_{\text{miscalibration}}
              - \underbrace{(\bar S_0 - \bar S_c)}_{\text{discrimination}}
              + \underbrace{\bar S_0}_{\text{uncertainty}},

    where :math:`\bar S` is the mean loss of the scores, :math:`\bar S_c` that of recalibrated scores and
    :math:`\bar S_0` that of the base rate.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    loss
        ``"brier"`` or ``"log"``.
    method
        ``"isotonic"``: recalibrated by isotonic regression, which needs no choice of bins (CORP). ``"bins"``: by the
        event rates of bins, for scores replaced by their bins' means; ``within`` is what this replacement changes.
    n_bins, strategy, edges
        Bins as in :class:`Bins`; unused by ``"isotonic"``.

    Returns
    -------
    Decomposition
        The mean loss and its terms.

    Notes
    -----
    Edge rules: 0 log 0 is 0; an event at score 0, or another row at score 1, makes log loss and miscalibration
    infinite, with a note (with bins, ``within`` instead if the bin has other scores too). With one class, uncertainty
    and discrimination are 0. Recalibration is fitted and assessed on the same rows, so miscalibration and
    discrimination are biased upward.

    Guarantee: miscalibration and discrimination are not negative; none for the population in finite samples.
    Cost: one sort of rows, two passes over cells, linear pooling.
    Reference: Dimitriadis, Gneiting and Jordan (2021); Stephenson, Coelho and Jolliffe (2008) for bins; Rosenberg
    (2021).

    Examples
    --------
    >>> parts = decompose([0.2, 0.2, 0.9, 0.9], [0, 0, 1, 0])
    >>> print(parts)
    Brier score, isotonic: 0.2250 = miscalibration 0.1000 - discrimination 0.0625 + uncertainty 0.1875
      recalibration could remove at most 44.4 % of the loss (in-sample, so optimistic)
    """
    check_option("loss", loss, get_args(LossName))
    check_option("method", method, get_args(Method))
    tally = tally_of(scores, y, sample_weight)
    if method == "isotonic":
        return _isotonic(tally, loss)
    return _binned(tally, loss, Bins.of(tally, n_bins=n_bins, strategy=strategy, edges=edges))


def _isotonic(tally: Tally, loss: LossName) -> Decomposition:
    lower, n, events = tally.runs()
    starts = pool_adjacent(n, events)
    n, events = np.add.reduceat(n, starts), np.add.reduceat(events, starts)
    total, rates = float(n.sum()), events / n
    base = float(events.sum()) / total
    raw, best, plain = (moments(parts, LOSSES[loss]) for parts in (parts_of(tally), *_one(rates, base, n, events)))
    found = _decomposition(tally, loss, "isotonic", total, raw, raw, best, plain)
    return found if loss == "log" else replace(found, squared_gap=_squared_gap(tally, lower[starts], rates))


def _binned(tally: Tally, loss: LossName, bins: Bins) -> Decomposition:
    filled = bins.n > 0
    n, events, means = bins.n[filled], bins.events[filled], bins.mean_score[filled]
    total, rates = float(n.sum()), events / n
    base = float(events.sum()) / total
    raw = moments(parts_of(tally), LOSSES[loss])
    middle = moments([Part(means, n, events, n, events, n)], LOSSES[loss])
    best, plain = (moments(parts, LOSSES[loss]) for parts in _one(rates, base, n, events))
    # Rows that are impossible at their own score and at their bin's mean are infinite in both: their difference is 0.
    apart = loss == "log" and raw.impossible != middle.impossible
    found = _decomposition(tally, loss, f"{len(n)} bins", total, raw, middle, best, plain)
    gap = float((n * (rates - means) ** 2).sum()) / total if loss == "brier" else None
    return replace(found, within=math.inf if apart else (raw.loss - middle.loss) / total, squared_gap=gap)


def _decomposition(
    tally: Tally, loss: LossName, method: str, total: float, raw: Moments, judged: Moments, best: Moments, base: Moments
) -> Decomposition:
    """Decomposition from the mean losses of raw scores, binned scores, recalibrated scores and the base rate."""
    return Decomposition(
        f"{TITLES[loss]}, {method}",
        _mean(raw, loss),
        math.inf if loss == "log" and judged.impossible else max(judged.loss - best.loss, 0.0) / total,
        max(base.loss - best.loss, 0.0) / total,
        base.loss / total,
        notes=_notes(tally, loss, raw),
    )


def _one(rates: Floats, base: float, n: NDArray[Any], events: NDArray[Any]) -> tuple[list[Part], list[Part]]:
    """Blocks with their event rates as scores, and with the base rate as score."""
    return [Part(rates, n, events, n, events, n)], [Part(np.full(len(n), base), n, events, n, events, n)]


def _squared_gap(tally: Tally, lower: Floats, rates: Floats) -> float:
    """Mean squared distance of scores and isotonic rates; ``lower`` is where each block begins."""
    gaps = 0.0
    for scores, n, _ in tally.pieces():
        block = np.searchsorted(lower, scores, side="right") - 1
        gaps += float((n * (rates[block] - scores) ** 2).sum())
    return gaps / float(tally.total)


def _mean(sums: Moments, loss: LossName) -> float:
    return math.inf if loss == "log" and sums.impossible else sums.loss / sums.total


def _notes(tally: Tally, loss: LossName, raw: Moments) -> tuple[Note, ...]:
    notes = resolution_notes(tally)
    if loss == "brier" or not raw.impossible:
        return notes
    return (*notes, infinite_loss(float(raw.impossible), tally.counts))
