"""Statements about the true event rates of bins of one score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays import Kind, check_rows
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, Terms, round_up
from calibrant.guarantees.origins import BinRule
from calibrant.guarantees.provenance import Provenance
from calibrant.maps import Map, StepMap
from calibrant.messages import plural
from calibrant.numerics import Floats, Guide, Ints, multiply_odds

MUCH_UNCOVERED = 0.05
"""Share of rows on uncovered edges from which on a certificate says how to do better."""


@dataclass(frozen=True, eq=False)
class ScoreBins(About):
    r"""Bins of one score: statement b is about :math:`\mathbb{E}[Y \mid X \in \text{bin } b]`.

    Attributes
    ----------
    knots
        Bin j holds ``knots[j-1] <= score < knots[j]``.
    uncovered, uncovered_rows
        Bins that are an edge chosen by the rows, with too few rows on it to be promised anything; all rows on these.
    rule
        What decided where bins end.
    share, look
        Share of alpha that the intervals spend, where the number of bins was chosen by their labels; the rest pays for
        the numbers that were not chosen and for other looks. How often the guarantee was asked for on growing rows.
    odds
        Weight of an event relative to a negative row, where rows were sampled by class. ``rows`` and ``events`` count
        the rows as sampled; outputs and intervals are of the population that the weights restore.
    """

    knots: Floats
    uncovered: Flags
    uncovered_rows: int
    rule: BinRule
    share: float = field(default=1.0, metadata={"optional": True})
    look: int = field(default=1, metadata={"optional": True})
    odds: float = field(default=1.0, metadata={"optional": True})

    key: ClassVar[str] = "score-bins"
    unit: ClassVar[str] = "bin"

    def sense(self) -> str:
        """One score."""
        return "event rate"

    @property
    def stays(self) -> bool:
        """Whether no edge is a row."""
        return not self.uncovered.any()

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """The same for all bins that are promised, which share alpha; all of it for the bin of a new row."""
        return np.full(len(rows), terms.alpha * self.share / terms.union(rows > 0))

    def as_sampled(self, rates: Floats) -> Floats:
        """Rates of the rows as they were sampled, by class."""
        return multiply_odds(rates, 1.0 / self.odds)

    def validate(self, promise: Certificate) -> None:
        """Refuse a table that is not about these bins."""
        self.check_bins(promise.rows)
        if promise.n != promise.rows.sum():
            raise ValueError("n and epsilon must be those of the promised bins")

    def check_bins(self, rows: Ints) -> None:
        """Refuse bins that contradict themselves or their rows."""
        bins = len(rows)
        if len(self.knots) != bins - 1 or len(self.uncovered) != bins:
            raise ValueError(f"a certificate of {bins} bins needs {bins - 1} knots and {bins} entries in every column")
        if not (np.isfinite(self.knots).all() and (self.knots[1:] > self.knots[:-1]).all()):
            raise ValueError("knots must be finite and strictly increasing")
        if (self.uncovered & (rows > 0)).any() or self.uncovered_rows < 0:
            raise ValueError("uncovered bins have no rows that speak for them, and uncovered_rows are not below 0")
        if not 0.0 < self.share <= 1.0 or self.look < 1:
            raise ValueError("share must lie above 0 and up to 1, and look be at least 1")
        if not (self.odds > 0.0 and np.isfinite(self.odds)):
            raise ValueError("odds must be above 0 and finite")

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether the map has these steps."""
        return StepMap(self.knots, outputs).merged() == map_

    def rests_on(self, promise: Certificate, provenance: Provenance) -> bool:
        """Whether the rows are counted, and enough of them have either label."""
        events, rows = int(promise.events.sum()), promise.n + self.uncovered_rows
        counted = provenance.weights == "by-class" or (provenance.weights == "counts" and self.odds == 1.0)
        others = provenance.n - provenance.events
        return counted and rows <= provenance.n and events <= provenance.events and promise.n - events <= others

    def count(self, promise: Certificate, scores: Any, y: Any, positive: Any) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by bin."""
        rows = check_rows(scores, y, positive=positive, kind=cast(Kind, promise.kind))
        n, events = self.counted(rows.scores, rows.labels == 1)
        return n, events, int(n[promise.promised].sum())

    def counted(self, scores: Floats, events: Flags) -> tuple[Ints, Ints]:
        """Rows and events of checked rows by bin."""
        index, bins = Guide(self.knots).locate(scores), len(self.knots) + 1
        return np.bincount(index, minlength=bins), np.bincount(index[events], minlength=bins)

    def sentences(self, promise: Certificate) -> Iterator[str]:
        """What is promised, what it rests on and what it leaves out."""
        bins = int(promise.promised.sum())
        where = f"in each of the {bins:,} bins" if bins > 1 else "in the one bin"
        head = promise.head(f"{where} the true event rate", ", the true event rate of its bin")
        yield f"{head} differs from the calibrated probability by at most {round_up(promise.epsilon)}."
        yield f"  Basis: {plural(promise.n, 'row')}, {promise.bound} intervals; {promise.source}."
        if self.odds != 1.0:
            yield (
                f"  Population: the one that the class weights restore, where an event counts {self.odds:.6g} times as "
                "much as a negative row; not the rows as sampled."
            )
        if self.share < 1.0:
            yield (
                f"  Alpha: these bins spend {100 * self.share:.3g} % of it; the rest pays for the choice of the number "
                "of bins and for further looks."
            )
        widths = promise.half_widths[promise.promised]
        if promise.epsilon > UNEVEN * np.median(widths):
            half = round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            yield f"  By bin: {(len(widths) + 1) // 2} of the {len(widths)} hold within {half}."
        edges = int(self.uncovered.sum())
        if edges:
            yield on_edges(promise, edges, ' Use bins_from="part" or fewer bins to cover them.')
        empty = len(promise.rows) - bins - edges
        if empty:
            yield f"  Not covered: {plural(empty, 'bin')} without a row."


def on_edges(promise: Certificate, edges: int, advice: str) -> str:
    """The line about rows on uncovered edges; with advice where these are many."""
    aside = promise.uncovered_rows
    share = f"{aside:,} of {promise.n + aside:,} rows"
    told = f"  Not covered: scores on a bin edge ({plural(edges, 'edge')}, {share})."
    return told + (advice if aside > MUCH_UNCOVERED * promise.n else "")
