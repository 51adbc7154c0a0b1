"""Certificate statements about every node on the paths of predicted leaves of a taxonomy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays.multiclass.rows import check_class_rows, check_class_scores
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.about.classes import refuse_positive
from calibrant.guarantees.about.scores import on_edges
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, AboutMap, Certificate, Terms, first_few, round_up
from calibrant.guarantees.origins import OWN_ROWS, PATH_LISTS
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps.paths import PathMap
from calibrant.maps.taxonomy import refuse_several
from calibrant.messages import plural
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True, eq=False)
class PathNodes(AboutMap):
    r"""Nodes of the path of every bin of a path map, bin by bin, the broadest node first.

    .. math:: |P(v \in a(Y) \mid c(X) = l, X \in \text{bin } b) - h_v| \le \epsilon

    for every predicted leaf l, each of its covered bins b and every node v of its path; with marginal coverage for all
    nodes of the path in the bin of a new row. Leaves that share bins are not covered: which leaves share bins depends
    on how many rows each has, so their rows are not independent draws from the pool. See
    ``docs/certificates/paths.md``.

    Attributes
    ----------
    map
        The certified map.
    uncovered, uncovered_rows
        By bin, whether it is an uncovered edge; the number of rows on such edges.
    leaf_rows
        Rows predicted as each class, also those that are not covered.
    borrowed
        Number of rows that the other leaves count for in the outputs (shrinkage); 0 if outputs are based on a bin's own
        rows only.
    """

    map: PathMap
    uncovered: Flags
    uncovered_rows: int
    leaf_rows: Ints
    borrowed: float

    key: ClassVar[str] = "path-nodes"
    references: ClassVar[tuple[str, ...]] = (OWN_ROWS, PATH_LISTS)  # type: ignore[misc]
    notion: ClassVar[str] = "path"
    unit: ClassVar[str] = "statement"

    @property
    def depths(self) -> Ints:
        """Number of nodes on the path of each bin."""
        return np.repeat(self.map.list_depths, self.map.sizes + 1)

    @property
    def steps(self) -> Ints:
        """Depth of the node of each statement, 0 for the broadest."""
        depths = self.depths
        return np.arange(depths.sum()) - np.repeat(np.cumsum(depths) - depths, depths)

    @property
    def pooled(self) -> Flags:
        """Which leaves share bins with others."""
        return np.asarray(self.map.shared[self.map.first_bins[self.map.groups]])

    def per_bin(self, column: Any) -> Any:
        """The values by bin of a column that is the same for all nodes of a bin."""
        return column[np.cumsum(self.depths) - self.depths]

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Equal shares of alpha for all covered statements, or for the nodes of the bin of a new row."""
        if terms.coverage == "simultaneous":
            return np.full(len(rows), terms.alpha / int((rows > 0).sum()))
        return np.asarray(terms.alpha / np.repeat(self.depths, self.depths))

    def by_depth(self, certificate: Certificate) -> Floats:
        """The largest deviation at each depth of the tree, the broadest first."""
        widths, steps = certificate.half_widths[certificate.covered], self.steps[certificate.covered]
        return np.array([widths[steps == each].max() for each in np.unique(steps)])

    # ------------------------------------------------------------------------------------------------------- validity

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match these nodes."""
        bins = int(self.map.first_bins[-1])
        if len(self.uncovered) != bins or len(self.leaf_rows) != len(self.classes):
            raise ValueError(f"uncovered must have {bins} entries, one for each bin, and leaf_rows one for each leaf")
        if len(certificate.rows) != len(self.map.rates):
            raise ValueError("every bin needs an entry for each node of its path")
        if self.borrowed < 0.0:
            raise ValueError("borrowed must not be negative")
        if (certificate.outputs != self.map.rates).any() or (certificate.score_type == "logit") != (
            self.map.on == "logit"
        ):
            raise ValueError("outputs and score type must be those of the map")
        self._check_rows(certificate)
        self._check_events(certificate)

    def _check_rows(self, certificate: Certificate) -> None:
        """Check that every row of a leaf that is not pooled lies in one of its bins or on an uncovered edge."""
        rows = self.per_bin(certificate.rows)
        if (np.repeat(rows, self.depths) != certificate.rows).any():
            raise ValueError("all nodes of a bin must have the rows of the bin")
        if (self.leaf_rows < 0).any() or certificate.n != rows.sum():
            raise ValueError("rows must not be negative, and n must be their sum")
        if (rows > 0)[self.uncovered | self.map.shared].any() or (self.uncovered & self.map.shared).any():
            raise ValueError("uncovered edges and leaves that share bins must have 0 rows")
        firsts, alone = self.map.first_bins[:-1], ~self.map.shared[self.map.first_bins[:-1]]
        aside = np.bincount(self.map.groups, self.leaf_rows) - np.add.reduceat(rows, firsts)
        may = np.logical_or.reduceat(self.uncovered, firsts)
        if (aside < 0)[alone].any() or (aside > 0)[alone & ~may].any() or aside[alone].sum() != self.uncovered_rows:
            raise ValueError("the rows of the bins and of the edges must be those of their leaf")

    def _check_events(self, certificate: Certificate) -> None:
        broader = np.where(self.steps > 0, np.roll(certificate.events, 1), certificate.rows)
        if (certificate.events > broader).any():
            raise ValueError("events must not increase along a path")
        share = certificate.events / np.maximum(certificate.rows, 1)
        if ((share < certificate.lower - 1e-9) | (share > certificate.upper + 1e-9))[certificate.covered].any():
            raise ValueError("intervals must contain the observed share")
        if ((certificate.lower > 0.0) | (certificate.upper < 1.0))[~certificate.covered].any():
            raise ValueError("the interval of a bin without rows must be [0, 1]")

    def rests_on(self, certificate: Certificate, provenance: MulticlassProvenance) -> bool:
        """Whether these are the rows of the fit, by their type and number."""
        told = (self.leaf_rows.sum(), certificate.score_type, "frequency")
        return told == (provenance.n, provenance.score_type, provenance.weight_type)

    # ---------------------------------------------------------------------------------------------------- fresh rows

    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
        """Fresh rows by bin, and those that belong to each node of its path."""
        refuse_positive(positive)
        tree, kind = self.map.taxonomy, cast(MulticlassScoreType, certificate.score_type)
        refuse_several(y)
        matrix, _ = check_class_scores(scores, self.classes, kind)
        inner = [name for name in (*tree.nodes, tree.root) if name not in set(self.classes)]
        rows = check_class_rows(matrix, y, classes=self.classes, score_type=kind, others=inner)
        labels = np.array([tree.code(name) for name in (*self.classes, *inner)])[rows.labels]
        top, found = self.map.bins(rows.scores)
        paths = tree.paths[self.map.leaf_codes[top]]
        right = tree.belongs(labels[:, None], paths) & (paths >= 0)
        bins, depths = len(self.uncovered), self.depths
        hits = np.stack([np.bincount(found[each], minlength=bins) for each in right.T], axis=1)
        n = np.bincount(found, minlength=bins)
        size = int(n[self.per_bin(certificate.covered)].sum())
        return np.repeat(n, depths), hits[np.arange(tree.depth) < depths[:, None]], size

    def unit_name(self, certificate: Certificate, place: int) -> str:
        """Node, bin and leaf; covered bins are numbered from 1, pooled leaves are named by the first of them."""
        where = int(np.searchsorted(np.cumsum(self.depths), place, side="right"))
        group = int(np.searchsorted(self.map.first_bins, where, side="right")) - 1
        leaf = self.classes[int(np.flatnonzero(self.map.groups == group)[0])]
        counted = self.per_bin(certificate.covered)[self.map.first_bins[group] : where + 1].sum()
        return f"{self.map.taxonomy.path(leaf)[self.steps[place]]!r} in bin {counted} of {leaf!r}"

    # --------------------------------------------------------------------------------------------------------- words

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its basis, and what is not covered."""
        head = certificate.head(
            "for each predicted leaf, each of its bins and every node on its path",
            ", for every node on the path of its predicted leaf and in the bin that it falls in",
        )
        widths, bins = certificate.half_widths[certificate.covered], int(self.per_bin(certificate.covered).sum())
        yield (
            f"{head}, the true share of rows that belong to the node differs from the calibrated probability by at "
            f"most {round_up(certificate.epsilon)}."
        )
        yield f"  By depth, the broadest first: {', '.join(map(round_up, self.by_depth(certificate).tolist()))}."
        yield (
            f"  Basis: {plural(certificate.n, 'row')} in {plural(bins, 'bin')}, {plural(len(widths), 'statement')}, "
            f"{certificate.interval} intervals; {certificate.reference}."
        )
        if certificate.epsilon > UNEVEN * np.median(widths):
            half = round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            yield f"  Half of the statements are within {half}."
        yield from self._not_covered(certificate)
        if self.borrowed:
            yield (
                f"  Outputs are shrunk toward the rates of other leaves, with the weight of {self.borrowed:.3g} rows; "
                "the intervals use only each bin's own rows."
            )

    def _not_covered(self, certificate: Certificate) -> Iterator[str]:
        edges = int(self.uncovered.sum())
        if edges:
            yield on_edges(certificate, edges, " Use fewer bins to cover them.")
        empty = int((~self.per_bin(certificate.covered) & ~self.uncovered & ~self.map.shared).sum())
        if empty:
            yield f"  Not covered: {plural(empty, 'bin')} without a row."
        if self.pooled.any():
            share = f"{int(self.leaf_rows[self.pooled].sum()):,} of {int(self.leaf_rows.sum()):,} rows"
            yield f"  Not covered: pooled leaves ({share}): {with_rows(self.classes, self.leaf_rows, self.pooled)}."


def with_rows(names: tuple[str, ...], rows: Ints, which: Flags) -> str:
    """The selected leaves, each with its number of rows."""
    return first_few([f"{names[j]!r} ({rows[j]:,})" for j in np.flatnonzero(which).tolist()])
