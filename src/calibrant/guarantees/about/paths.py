"""Statements about every node on the paths of predicted leaves of a taxonomy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.multiclass.rows import check_class_rows, check_class_scores
from calibrant.guarantees.about.classes import refuse_positive
from calibrant.guarantees.about.scores import on_edges
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, AboutMap, Certificate, Terms, first_few, round_up
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps.paths import PathMap
from calibrant.maps.taxonomy import refuse_several
from calibrant.messages import plural
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True, eq=False)
class PathNodes(AboutMap):
    r"""Nodes of the path of every bin of a path map, bin by bin, the broadest node first.

    .. math:: |P(v \in a(Y) \mid c(X) = l, X \in \text{bin } b) - h_v| \le \epsilon

    for every predicted leaf l, each of its promised bins b and every node v of its path; in a marginal promise for all
    nodes of the path in the bin that a new row falls in. Leaves that share bins are promised nothing: which leaves do
    depends on how many rows each has drawn, so their rows are no draws of the pool. See ``docs/certificates/paths.md``.

    Attributes
    ----------
    map
        The map that is spoken of.
    uncovered, uncovered_rows
        By bin, whether it is an edge without a promise; the rows on such edges.
    leaf_rows
        Rows predicted as each class, also those without a promise.
    borrowed
        Rows that the other leaves count as in the outputs; 0 where these are of a bin's own rows alone.
    """

    map: PathMap
    uncovered: Flags
    uncovered_rows: int
    leaf_rows: Ints
    borrowed: float

    key: ClassVar[str] = "path-nodes"
    notion: ClassVar[str] = "path"
    unit: ClassVar[str] = "statement"

    @property
    def depths(self) -> Ints:
        """How many nodes the paths of each bin have."""
        return np.repeat(self.map.list_depths, self.map.sizes + 1)

    @property
    def steps(self) -> Ints:
        """How deep the node of each statement lies, 0 for the broadest."""
        depths = self.depths
        return np.arange(depths.sum()) - np.repeat(np.cumsum(depths) - depths, depths)

    @property
    def pooled(self) -> Flags:
        """Leaves that share bins with others."""
        return np.asarray(self.map.shared[self.map.first_bins[self.map.groups]])

    def per_bin(self, column: Any) -> Any:
        """A column that is the same for all nodes of a bin, by bin."""
        return column[np.cumsum(self.depths) - self.depths]

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """All promised statements share alpha, or the nodes of the one bin that a new row falls in."""
        if terms.mode == "simultaneous":
            return np.full(len(rows), terms.alpha / int((rows > 0).sum()))
        return np.asarray(terms.alpha / np.repeat(self.depths, self.depths))

    def by_depth(self, promise: Certificate) -> Floats:
        """The widest promise at each level of the tree, the broadest first."""
        widths, steps = promise.half_widths[promise.promised], self.steps[promise.promised]
        return np.array([widths[steps == each].max() for each in np.unique(steps)])

    # ------------------------------------------------------------------------------------------------------- validity

    def validate(self, promise: Certificate) -> None:
        """Refuse a table that is not about these nodes."""
        bins = int(self.map.first_bins[-1])
        if len(self.uncovered) != bins or len(self.leaf_rows) != len(self.classes):
            raise ValueError(f"{bins} bins need as many flags, and each leaf a number of rows")
        if len(promise.rows) != len(self.map.rates):
            raise ValueError("every bin needs an entry for each node of its path")
        if self.borrowed < 0.0:
            raise ValueError("borrowed rows must not be below 0")
        if (promise.outputs != self.map.rates).any() or (promise.kind == "logit") != (self.map.on == "logit"):
            raise ValueError("outputs and the kind of scores must be those of the map")
        self._check_rows(promise)
        self._check_events(promise)

    def _check_rows(self, promise: Certificate) -> None:
        """Every row of a leaf with bins of its own lies in one of these, or on an edge without a promise."""
        rows = self.per_bin(promise.rows)
        if (np.repeat(rows, self.depths) != promise.rows).any():
            raise ValueError("all nodes of a bin have the rows of the bin")
        if (self.leaf_rows < 0).any() or promise.n != rows.sum():
            raise ValueError("rows must not be below 0, and n be their sum")
        if (rows > 0)[self.uncovered | self.map.shared].any() or (self.uncovered & self.map.shared).any():
            raise ValueError("edges without a promise and leaves that share bins have no rows that speak for them")
        firsts, alone = self.map.first_bins[:-1], ~self.map.shared[self.map.first_bins[:-1]]
        aside = np.bincount(self.map.groups, self.leaf_rows) - np.add.reduceat(rows, firsts)
        may = np.logical_or.reduceat(self.uncovered, firsts)
        if (aside < 0)[alone].any() or (aside > 0)[alone & ~may].any() or aside[alone].sum() != self.uncovered_rows:
            raise ValueError("the rows of the bins and of the edges must be those of their leaf")

    def _check_events(self, promise: Certificate) -> None:
        broader = np.where(self.steps > 0, np.roll(promise.events, 1), promise.rows)
        if (promise.events > broader).any():
            raise ValueError("events must not rise along a path")
        share = promise.events / np.maximum(promise.rows, 1)
        if ((share < promise.lower - 1e-9) | (share > promise.upper + 1e-9))[promise.promised].any():
            raise ValueError("intervals must hold the share that the rows show")
        if ((promise.lower > 0.0) | (promise.upper < 1.0))[~promise.promised].any():
            raise ValueError("where no rows speak for a bin its interval is [0, 1]")

    def rests_on(self, promise: Certificate, provenance: ClassProvenance) -> bool:
        """Whether these are the rows of the fit, by their kind and number."""
        told = (self.leaf_rows.sum(), promise.kind, "counts")
        return told == (provenance.n, provenance.kind, provenance.weights)

    # ---------------------------------------------------------------------------------------------------- fresh rows

    def count(self, promise: Certificate, scores: Any, y: Any, positive: Any) -> tuple[Ints, Ints, int]:
        """Fresh rows by bin, and those that belong to each node of its path."""
        refuse_positive(positive)
        tree, kind = self.map.taxonomy, cast(ClassKind, promise.kind)
        refuse_several(y)
        matrix, _ = check_class_scores(scores, self.classes, kind)
        inner = [name for name in (*tree.nodes, tree.root) if name not in set(self.classes)]
        rows = check_class_rows(matrix, y, classes=self.classes, kind=kind, others=inner)
        labels = np.array([tree.code(name) for name in (*self.classes, *inner)])[rows.labels]
        top, found = self.map.bins(rows.scores)
        paths = tree.paths[self.map.leaf_codes[top]]
        right = tree.belongs(labels[:, None], paths) & (paths >= 0)
        bins, depths = len(self.uncovered), self.depths
        hits = np.stack([np.bincount(found[each], minlength=bins) for each in right.T], axis=1)
        n = np.bincount(found, minlength=bins)
        size = int(n[self.per_bin(promise.promised)].sum())
        return np.repeat(n, depths), hits[np.arange(tree.depth) < depths[:, None]], size

    def unit_name(self, promise: Certificate, place: int) -> str:
        """Node, bin and leaf; promised bins are counted from 1, pooled leaves named by their first."""
        where = int(np.searchsorted(np.cumsum(self.depths), place, side="right"))
        group = int(np.searchsorted(self.map.first_bins, where, side="right")) - 1
        leaf = self.classes[int(np.flatnonzero(self.map.groups == group)[0])]
        counted = self.per_bin(promise.promised)[self.map.first_bins[group] : where + 1].sum()
        return f"{self.map.taxonomy.path(leaf)[self.steps[place]]!r} in bin {counted} of {leaf!r}"

    # --------------------------------------------------------------------------------------------------------- words

    def sentences(self, promise: Certificate) -> Iterator[str]:
        """What is promised, what it rests on and what it leaves out."""
        head = promise.head(
            "for each predicted leaf, each of its bins and every node on its path",
            ", for every node on the path of its predicted leaf and in the bin that it falls in",
        )
        widths, bins = promise.half_widths[promise.promised], int(self.per_bin(promise.promised).sum())
        yield (
            f"{head}, the true share of rows that belong to the node differs from the calibrated probability by at "
            f"most {round_up(promise.epsilon)}."
        )
        yield f"  By level, the broadest first: {', '.join(map(round_up, self.by_depth(promise).tolist()))}."
        yield (
            f"  Basis: {plural(promise.n, 'row')} in {plural(bins, 'bin')}, {plural(len(widths), 'statement')}, "
            f"{promise.bound} intervals; {promise.source}."
        )
        if promise.epsilon > UNEVEN * np.median(widths):
            half = round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            yield f"  Half of the statements hold within {half}."
        yield from self._not_covered(promise)
        if self.borrowed:
            yield (
                f"  Outputs are shrunk toward the rates of other leaves, worth {self.borrowed:.3g} rows; the intervals "
                "are of each bin's own rows."
            )

    def _not_covered(self, promise: Certificate) -> Iterator[str]:
        edges = int(self.uncovered.sum())
        if edges:
            yield on_edges(promise, edges, " Use fewer bins to cover them.")
        empty = int((~self.per_bin(promise.promised) & ~self.uncovered & ~self.map.shared).sum())
        if empty:
            yield f"  Not covered: {plural(empty, 'bin')} without a row."
        if self.pooled.any():
            share = f"{int(self.leaf_rows[self.pooled].sum()):,} of {int(self.leaf_rows.sum()):,} rows"
            yield f"  Not covered: pooled leaves ({share}): {with_rows(self.classes, self.leaf_rows, self.pooled)}."


def with_rows(names: tuple[str, ...], rows: Ints, which: Flags) -> str:
    """Some leaves, each with its rows."""
    return first_few([f"{names[j]!r} ({rows[j]:,})" for j in np.flatnonzero(which).tolist()])
