"""Certificate statements about the true event rates of bins of one score."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays import ScoreType, check_rows
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, Terms, round_up
from calibrant.guarantees.origins import FIXED_BINS, KNOWN_WEIGHTS, OWN_ROWS, Assumption, BinRule
from calibrant.guarantees.provenance import Provenance
from calibrant.guarantees.weighted import LEVELS, WEIGHTED_BOUNDS, WeightTable
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
    in_bin: ClassVar[str] = "of its bin"
    weighted: ClassVar[str] = ""

    def sense(self) -> str:
        """One score."""
        return "event rate"

    @property
    def assumed(self) -> frozenset[Assumption]:
        """That rows are independent, and what the choice of the bins and class weights add."""
        found = super().assumed | ({Assumption.ONE_DRAW} if self.rule.draws else set())
        if self.rule is BinRule.OTHER_MASSES:
            found |= {Assumption.OTHER_ROWS}
        if self.rule is BinRule.TABLE:
            found |= {Assumption.BINS_BEFORE}
        if self.odds != 1.0:
            found |= {Assumption.SAMPLED_BY_CLASS}
        if self.share < 1.0 or self.look > 1:
            found |= {Assumption.FIRST_LOOK if self.look == 1 else Assumption.LATER_LOOK}
        return found

    @property
    def source(self) -> str:
        """Where it is proved: by the rule that chose the bins."""
        return OWN_ROWS if self.rule in (BinRule.OWN_MASSES, BinRule.WEIGHTS) else FIXED_BINS

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        """That of the bins, and of their weights."""
        return (f"{self.source}{self.weighted}",)

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

    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
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
        rate = f"the true {self.sense()}"
        head = certificate.head(f"{where} {rate}", f", {rate} {self.in_bin}")
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


@dataclass(frozen=True, eq=False)
class WeightedBins(ScoreBins):
    r"""Bins of one score with weighted rows: statement b is about :math:`\tilde{\mathbb{E}}[Y \mid \text{bin } b]`.

    The rate is that of the target population; ``rows`` and ``events`` of the certificate count the rows of the source.

    Attributes
    ----------
    upper
        Upper bound of the density ratio, in the unit of the weights.
    event_levels, other_levels
        Events and other rows of each bin by level of the weight (:data:`calibrant.guarantees.weighted.LEVELS`), bin
        after bin. Intervals are recomputed from them when a document is read.
    """

    upper: float = field(kw_only=True)
    event_levels: Floats = field(kw_only=True)
    other_levels: Floats = field(kw_only=True)

    key: ClassVar[str] = "weighted-score-bins"
    intervals: ClassVar[Collection[str]] = WEIGHTED_BOUNDS.keys()
    in_bin: ClassVar[str] = "in its bin"
    weighted: ClassVar[str] = KNOWN_WEIGHTS

    def sense(self) -> str:
        """One score, in the target population."""
        return "event rate of the target population"

    @property
    def assumed(self) -> frozenset[Assumption]:
        """As for rows without weights, of the source; the weights must be the known ratio of a covariate shift."""
        of_ratio = {Assumption.INDEPENDENT_SOURCE, Assumption.COVARIATE_SHIFT, Assumption.KNOWN_RATIO}
        return super().assumed - {Assumption.INDEPENDENT} | of_ratio

    @property
    def table(self) -> WeightTable:
        """Rows of each bin by level of the weight."""
        shape = (len(self.knots) + 1, len(LEVELS))
        return WeightTable(self.upper, self.event_levels.reshape(shape), self.other_levels.reshape(shape))

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match these bins, and weights that do not match the table."""
        super().validate(certificate)
        size = len(certificate.rows) * len(LEVELS)
        if len(self.event_levels) != size or len(self.other_levels) != size:
            raise ValueError(f"a bin needs {len(LEVELS)} entries in event_levels and in other_levels")
        if (self.event_levels < 0.0).any() or (self.other_levels < 0.0).any() or not self.upper > 0.0:
            raise ValueError("event_levels and other_levels must not be negative, and upper must be positive")
        counts = certificate.events, certificate.rows - certificate.events
        for levels, rows in zip((self.table.events, self.table.others), counts, strict=True):
            slack = 1e-9 * (rows + 1.0)
            too_many = (levels.max(axis=1) > rows + slack).any()  # first: a sum of huge numbers overflows
            if too_many or (np.abs(levels.sum(axis=1) - rows) > slack).any():
                raise ValueError("event_levels and other_levels must sum to the events and to the other rows of a bin")
        if self.odds != 1.0 or self.share != 1.0:
            raise ValueError("odds and share must be 1 for weighted rows")

    def rests_on(self, certificate: Certificate, provenance: Provenance) -> bool:
        """Whether the weights are a known density ratio, and there are enough rows of each label."""
        rows, events = certificate.n, int(certificate.events.sum())
        enough = events <= provenance.events and rows - events <= provenance.n - provenance.events
        return enough and provenance.weight_type == "known-ratio" and rows + self.uncovered_rows <= provenance.n

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its basis, and what is not covered."""
        first, basis, *rest = super().sentences(certificate)
        yield from (first, basis)
        yield (
            f"  Weights: known density ratio of at most {self.upper:g}; the rows are as informative as "
            f"{self.table.effective_size:,.0f} rows of the target population."
        )
        yield from rest
