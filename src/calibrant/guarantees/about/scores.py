"""Certificate statements about the true event rates of bins of one score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays import ScoreType, check_rows
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, Terms, round_up
from calibrant.guarantees.origins import BinRule
from calibrant.guarantees.provenance import Provenance
from calibrant.maps import Map, StepMap
from calibrant.messages import plural
from calibrant.numerics import Floats, Guide, Ints, multiply_odds

MUCH_UNCOVERED = 0.05
"""A certificate gives advice if at least this share of the rows lies on uncovered edges."""


@dataclass(frozen=True, eq=False)
class ScoreBins(About):
    r"""Bins of one score: statement b is about :math:`\mathbb{E}[Y \mid X \in \text{bin } b]`.

    Attributes
    ----------
    knots
        Bin j holds ``knots[j-1] <= score < knots[j]``.
    uncovered, uncovered_rows
        Which bins are an edge chosen by the rows, with too few rows on it for a guarantee; the rows on these edges.
    rule
        How the bin edges were chosen.
    share, look
        Share of alpha used by the intervals if the number of bins was chosen using the labels; the rest is spent on
        the numbers that were not chosen and on other looks. How many times the guarantee was requested on growing rows.
    odds
        Weight of an event relative to a negative if rows were sampled by class. ``rows`` and ``events`` count the rows
        as sampled; outputs and intervals are for the population that the weights restore.
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
        """Whether no bin edge was chosen by the rows."""
        return not self.uncovered.any()

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Equal shares of alpha for all covered bins; all of alpha for the bin of a new row."""
        return np.full(len(rows), terms.alpha * self.share / terms.union(rows > 0))

    def as_sampled(self, rates: Floats) -> Floats:
        """Rates converted to those of the rows as sampled by class."""
        return multiply_odds(rates, 1.0 / self.odds)

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match these bins."""
        self.check_bins(certificate.rows)
        if certificate.n != certificate.rows.sum():
            raise ValueError("n and epsilon must be those of the covered bins")

    def check_bins(self, rows: Ints) -> None:
        """Reject bins that are inconsistent, or inconsistent with their rows."""
        bins = len(rows)
        if len(self.knots) != bins - 1 or len(self.uncovered) != bins:
            raise ValueError(f"a certificate of {bins} bins needs {bins - 1} knots and {bins} entries in every column")
        if not (np.isfinite(self.knots).all() and (self.knots[1:] > self.knots[:-1]).all()):
            raise ValueError("knots must be finite and strictly increasing")
        if (self.uncovered & (rows > 0)).any() or self.uncovered_rows < 0:
            raise ValueError("uncovered bins must have 0 rows, and uncovered_rows must not be negative")
        if not 0.0 < self.share <= 1.0 or self.look < 1:
            raise ValueError("share must lie in (0, 1], and look must be at least 1")
        if not (self.odds > 0.0 and np.isfinite(self.odds)):
            raise ValueError("odds must be positive and finite")

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether the map is this step function."""
        return StepMap(self.knots, outputs).merged() == map_

    def rests_on(self, certificate: Certificate, provenance: Provenance) -> bool:
        """Whether the rows are unweighted, and there are enough rows of each label."""
        events, rows = int(certificate.events.sum()), certificate.n + self.uncovered_rows
        counted = provenance.weight_type == "by-class" or (provenance.weight_type == "frequency" and self.odds == 1.0)
        others = provenance.n - provenance.events
        return counted and rows <= provenance.n and events <= provenance.events and certificate.n - events <= others

    def count(self, certificate: Certificate, scores: Any, y: Any, positive: Any) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by bin."""
        rows = check_rows(scores, y, positive=positive, score_type=cast(ScoreType, certificate.score_type))
        n, events = self.counted(rows.scores, rows.labels == 1)
        return n, events, int(n[certificate.covered].sum())

    def counted(self, scores: Floats, events: Flags) -> tuple[Ints, Ints]:
        """Rows and events of validated rows by bin."""
        index, bins = Guide(self.knots).locate(scores), len(self.knots) + 1
        return np.bincount(index, minlength=bins), np.bincount(index[events], minlength=bins)

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its basis, and what is not covered."""
        bins = int(certificate.covered.sum())
        where = f"in each of the {bins:,} bins" if bins > 1 else "in the one bin"
        head = certificate.head(f"{where} the true event rate", ", the true event rate of its bin")
        yield f"{head} differs from the calibrated probability by at most {round_up(certificate.epsilon)}."
        yield f"  Basis: {plural(certificate.n, 'row')}, {certificate.interval} intervals; {certificate.reference}."
        if self.odds != 1.0:
            yield (
                f"  Population: as restored by the class weights, in which an event counts {self.odds:.6g} times as "
                "much as a negative; not the rows as sampled."
            )
        if self.share < 1.0:
            yield (
                f"  Alpha: these bins use {100 * self.share:.3g} % of it; the rest is spent on choosing the number of "
                "bins and on further looks."
            )
        widths = certificate.half_widths[certificate.covered]
        if certificate.epsilon > UNEVEN * np.median(widths):
            half = round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            yield f"  By bin: {(len(widths) + 1) // 2} of the {len(widths)} are within {half}."
        edges = int(self.uncovered.sum())
        if edges:
            yield on_edges(certificate, edges, ' Use bins_from="split" or fewer bins to cover them.')
        empty = len(certificate.rows) - bins - edges
        if empty:
            yield f"  Not covered: {plural(empty, 'bin')} without a row."


def on_edges(certificate: Certificate, edges: int, advice: str) -> str:
    """The line about rows on uncovered edges, with advice if there are many."""
    aside = certificate.uncovered_rows
    share = f"{aside:,} of {certificate.n + aside:,} rows"
    told = f"  Not covered: scores on a bin edge ({plural(edges, 'edge')}, {share})."
    return told + (advice if aside > MUCH_UNCOVERED * certificate.n else "")
