"""Effect of a map on the ranking of the scores: unchanged, ties, reversed or mixed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.maps import LARGEST, BetaMap, Direction, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.messages import Shown
from calibrant.numerics import Floats
from calibrant.tallies import Tally
from calibrant.tallies.cells import Counts, mass_below

Piece = tuple[Floats, Counts, Counts]
"""Scores or probabilities, with their rows and events."""

Order = Literal["unchanged", "ties", "reversed", "mixed", "lost"]


@dataclass(frozen=True)
class Ranking(Shown):
    """The order of the scores under a map, on the rows that it was fitted to.

    Attributes
    ----------
    order
        ``"unchanged"``: a higher score gets a higher probability. ``"ties"``: some different scores get the same
        probability. ``"reversed"``: no higher score gets a higher probability. ``"mixed"``: the map increases and
        decreases. ``"lost"``: all scores get the same probability.
    before, after
        Area under the ROC curve of the scores, and of the probabilities; NaN if it was not needed, or with one class.
    """

    order: Order
    before: float = math.nan
    after: float = math.nan

    @classmethod
    def of(cls, fitted: Map, tally: Tally) -> Ranking:
        """Compare the order on the cells of a tally, unless the map keeps it by construction.

        Examples
        --------
        >>> from calibrant.maps import StepMap
        >>> tally = Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
        >>> print(Ranking.of(StepMap([0.25], [0.1, 0.6]), tally))
        Ties lower the AUC by 0.2500 (0.7500 -> 0.5000).
        >>> print(Ranking.of(LogitAffineMap(0.8, -0.2), tally))
        Ranking unchanged.
        """
        if _keeps_order(fitted, tally):
            return cls("unchanged")
        values, n, events = _joined(fitted, tally)
        if len(values) == len(tally) and (values[1:] > values[:-1]).all():
            return cls("unchanged")
        return cls(_order(values), _area(_pieces(tally)), _area([_in_order(values, n, events)]))

    @classmethod
    def of_rows(cls, scores: Floats, p: Floats, labels: ArrayLike, weights: Floats | None = None) -> Ranking:
        """Compare the order on rows, for a map that needs more than the score.

        Examples
        --------
        >>> Ranking.of_rows(np.array([0.1, 0.1, 0.2, 0.4]), np.array([0.1, 0.7, 0.1, 0.7]), [0, 1, 0, 1]).order
        'mixed'
        """
        n = np.ones(len(scores)) if weights is None else weights
        events = n * np.asarray(labels, dtype=np.float64)
        areas = (_area([_in_order(each, n, events)]) for each in (scores, p))
        if p.size == 0 or (p == p[0]).all():
            return cls("lost", *areas)
        order = np.lexsort((p, scores))
        s, rate = scores[order], p[order]
        same, change = s[1:] == s[:-1], rate[1:] - rate[:-1]
        if (change >= 0.0).all() and not (same & (change > 0.0)).any():
            return cls("ties", *areas) if (~same & (change == 0.0)).any() else cls("unchanged")
        return cls("mixed", *areas)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; unknown areas are None."""
        return {key: None if value != value else value for key, value in asdict(self).items()}

    def __str__(self) -> str:
        """One sentence."""
        areas = f"AUC {self.before:.4f} -> {self.after:.4f}" if self.before == self.before else "one class, so no AUC"
        if self.order == "ties" and self.before == self.before:
            return self._ties()
        return {
            "unchanged": "Ranking unchanged.",
            "ties": f"Some different scores get the same probability ({areas}).",
            "reversed": f"Ranking reversed: higher scores get lower probabilities ({areas}).",
            "mixed": f"Ranking changed: some higher scores get lower probabilities ({areas} on the fitted rows).",
            "lost": f"Ranking lost: all scores get the same probability ({areas}).",
        }[self.order]

    def _ties(self) -> str:
        change = self.after - self.before
        areas = f"({self.before:.4f} -> {self.after:.4f})"
        if abs(change) < 5e-5:
            return f"Ties do not change the AUC {areas}."
        if change < 0.0:
            return f"Ties lower the AUC by {-change:.4f} {areas}."
        return f"Ties raise the AUC on the fitted rows by {change:.4f} {areas}; expect no gain on other rows."


def _keeps_order(fitted: Map, tally: Tally) -> bool:
    """Whether the parameters alone show that the map is strictly increasing over the scores, except for rounding."""
    if fitted.direction is not Direction.STRICTLY_RISING:
        return False
    if isinstance(fitted, PiecewiseLinearMap) and tally.resolution != "bins":
        ends = tally.score_at(np.array([1.0, float(tally.total)]))
        return bool(fitted.knots[0] <= ends[0] and ends[1] <= fitted.knots[-1])
    if isinstance(fitted, LogitAffineMap) and fitted.on == "score":
        return True
    if not isinstance(fitted, LogitAffineMap | BetaMap) or (tally.resolution == "bins" and tally.cells.scores is None):
        return False
    own = tally.own_ends
    return fitted.low <= own.low and own.high <= fitted.high


def _pieces(tally: Tally) -> Iterable[Piece]:
    """Scores, rows and events; bins without mean scores are represented by their lower edges."""
    if tally.resolution == "bins" and tally.cells.scores is None:
        return [(np.maximum(tally.lower_edges, -LARGEST), tally.n, tally.events)]
    return tally.pieces()


def _joined(fitted: Map, tally: Tally) -> Piece:
    """Probabilities with their rows and events, in order of the score; equal neighbors are merged."""
    if isinstance(fitted, StepMap) and tally.resolution == "exact":
        n, events = tally.partition(fitted.knots)
        parts = [(fitted.values[n > 0], n[n > 0], events[n > 0])]
    else:
        parts = [
            _runs(np.asarray(fitted.apply(scores), dtype=np.float64), n, events) for scores, n, events in _pieces(tally)
        ]
    values, n, events = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _runs(values, n, events)


def _runs(values: Floats, n: Counts, events: Counts) -> Piece:
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[starts], np.add.reduceat(n, starts), np.add.reduceat(events, starts)


def _order(values: Floats) -> Order:
    if len(values) == 1:
        return "lost"
    rising = values[1:] > values[:-1]
    return "ties" if rising.all() else "mixed" if rising.any() else "reversed"


def _in_order(values: Floats, n: Counts, events: Counts) -> Piece:
    """The same in ascending order of probability, with equal ones merged."""
    if (values[1:] > values[:-1]).all():
        return values, n, events
    distinct, place = np.unique(values, return_inverse=True)
    sums = [np.bincount(place, column, minlength=len(distinct)) for column in (n, events)]
    return distinct, sums[0], sums[1]


def _area(pieces: Iterable[Piece]) -> float:
    """Area under the ROC curve of cells in ascending order; NaN with one class."""
    below, hits, area = 0.0, 0.0, 0.0
    for _, n, events in pieces:
        others = n - events
        area += float((events * mass_below(others, below)).sum())
        below, hits = below + float(others.sum()), hits + float(events.sum())
    return area / below / hits if below > 0.0 and hits > 0.0 else math.nan
