"""Certificate statements about the true event rates of the leaves of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays import ScoreType, check_rows
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, Terms, round_up
from calibrant.guarantees.origins import Assumption
from calibrant.guarantees.provenance import Provenance
from calibrant.maps import Map, TreeMap
from calibrant.maps.trees import Limit
from calibrant.messages import plural
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True, eq=False)
class TreeLeaves(About):
    r"""Leaves of a tree: statement l is about :math:`\mathbb{E}[Y \mid (S, X) \in \text{leaf } l]`.

    Attributes
    ----------
    map
        The tree, with one probability in each leaf.
    chose
        Rows that chose the splits, none of which is counted in a leaf.
    """

    map: TreeMap
    chose: int

    key: ClassVar[str] = "tree-leaves"
    unit: ClassVar[str] = "leaf"
    needs_provenance: ClassVar[bool] = True
    uncovered_rows: ClassVar[int] = 0  # type: ignore[misc]

    def sense(self) -> str:
        """One score and features."""
        return "event rate by leaf"

    @property
    def assumed(self) -> frozenset[Assumption]:
        """Independent rows, halves that were drawn once, and a fit that was not tuned on the labels."""
        return frozenset({Assumption.INDEPENDENT, Assumption.NOT_TUNED, Assumption.ONE_DRAW})

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Equal shares of alpha for all leaves with rows; all of alpha for the leaf of a new row."""
        return np.full(len(rows), terms.alpha / terms.union(rows > 0))

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match the leaves."""
        if len(certificate.rows) != len(self.map.maps) or self.map.constants is None:
            raise ValueError("a certificate of a tree needs one statement, and one probability, for each leaf")
        if certificate.n != certificate.rows.sum() or self.chose < 1 or certificate.n - self.chose not in (0, 1):
            raise ValueError("n must be the rows of all leaves, and as many other rows must have chosen the splits")
        if not np.array_equal(certificate.outputs, self.map.constants):
            raise ValueError("outputs must be the probabilities of the leaves of the tree")
        rows, events = certificate.rows[certificate.covered], certificate.events[certificate.covered]
        rates = np.where((events == 0) | (events == rows), (events + 1) / (rows + 2), events / rows)
        if not np.array_equal(certificate.outputs[certificate.covered], rates):
            raise ValueError("the probability of a leaf must be the event rate of its rows")
        if certificate.covered[[not self._reached(leaf, certificate.score_type) for leaf in self.map.limits]].any():
            raise ValueError("a leaf that no row can reach has rows")

    @staticmethod
    def _reached(limits: tuple[Limit, ...], score_type: str) -> bool:
        """Whether some row can fulfill the limits of a leaf; a probability lies in [0, 1]."""
        outside = (each for each in limits if each.column is None and score_type == "probability")
        if any(each.above >= 1.0 or each.upto < 0.0 for each in outside):
            return False
        return not any(each.is_empty and not each.missing for each in limits)

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether it is the same tree, with these probabilities."""
        return self.map == map_ and bool(np.array_equal(self.map.constants, outputs))  # type: ignore[arg-type]

    def rests_on(self, certificate: Certificate, provenance: Provenance) -> bool:
        """Whether the rows are unweighted, and there are enough rows of each label beside those that chose."""
        rows, events = certificate.n, int(certificate.events.sum())
        enough = events <= provenance.events and rows - events <= provenance.n - provenance.events
        return enough and provenance.weight_type == "frequency" and rows + self.chose == provenance.n

    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by leaf."""
        rows = check_rows(scores, y, positive=positive, score_type=cast(ScoreType, certificate.score_type))
        leaf, size = self.map.route(rows.scores, by if self.map.columns else None), len(self.map.maps)
        n, events = np.bincount(leaf, minlength=size), np.bincount(leaf[rows.labels == 1], minlength=size)
        return n, events, int(n[certificate.covered].sum())

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its basis, and what is not covered."""
        leaves = int(certificate.covered.sum())
        every = len(certificate.rows)
        where = f"in each of the {leaves:,} leaves" if leaves > 1 else "in the one leaf"
        if leaves < every:
            where = f"in {'each of ' if leaves > 1 else ''}{leaves:,} of the {every:,} leaves"
        head = certificate.head(f"{where} the true event rate", ", the true event rate of its leaf")
        yield f"{head} differs from the calibrated probability by at most {round_up(certificate.epsilon)}."
        yield (
            f"  Basis: {plural(certificate.n, 'row')}, {certificate.interval} intervals; {certificate.reference}. "
            f"{plural(self.chose, 'other row')} chose the splits."
        )
        widths = certificate.half_widths[certificate.covered]
        if certificate.epsilon > UNEVEN * np.median(widths):
            half = round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            yield f"  By leaf: {(len(widths) + 1) // 2} of the {len(widths)} are within {half}."
        if leaves < len(certificate.rows):
            yield f"  Not covered: {plural(len(certificate.rows) - leaves, 'leaf', 'leaves')} without a row."

    def unit_name(self, certificate: Certificate, place: int) -> str:
        """The leaf, by its rule."""
        return " and ".join(map(str, self.map.limits[place])) or "the one leaf"

    def broken_units(self, broken: Ints) -> str:
        """Number of contradicted leaves, in words."""
        return plural(len(broken), "leaf", "leaves")
