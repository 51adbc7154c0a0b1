"""Certificate statements about the true event rates of the leaves of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays import ScoreType, check_rows
from calibrant.arrays.multiclass.rows import check_fresh_rows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.about.classes import refuse_positive
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, CertificateCheck, Terms, first_few, round_up
from calibrant.guarantees.origins import HONEST_TREE, Assumption
from calibrant.guarantees.provenance import Provenance
from calibrant.maps import ClassTreeMap, Map, TreeMap
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
    references: ClassVar[tuple[str, ...]] = (HONEST_TREE,)  # type: ignore[misc]
    unit: ClassVar[str] = "leaf"
    needs_provenance: ClassVar[bool] = True
    uncovered_rows: ClassVar[int] = 0  # type: ignore[misc]

    def sense(self) -> str:
        """One score and features."""
        return "event rate by leaf"

    @property
    def assumed(self) -> frozenset[Assumption]:
        """Independent rows, halves that were drawn once, and a fit that was not tuned on the labels."""
        return super().assumed | {Assumption.ONE_DRAW}

    @property
    def size(self) -> int:
        """Statements about each leaf: one, or one for each class."""
        return 1

    def by_leaf(self, column: Any) -> Any:
        """A column of the table as a matrix, leaves by statements."""
        return column.reshape(-1, self.size)

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Equal shares of alpha for all leaves with rows, and classes; all of alpha for the leaf of a new row.

        The shares of two classes add up to 1, so that one interval is enough for both.
        """
        tests = self.size if self.size > 2 else 1
        return np.full(len(rows), terms.alpha / terms.union(self.by_leaf(rows)[:, 0] > 0) / tests)

    def expected(self, rows: Ints, events: Ints) -> Floats:
        """The probabilities of leaves with rows that these counts give, leaves by statements."""
        return np.asarray(np.where((events == 0) | (events == rows), (events + 1) / (rows + 2), events / rows))

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match the leaves."""
        if len(certificate.rows) != len(self.map.maps) * self.size or self.map.constants is None:
            raise ValueError("a certificate of a tree needs a statement for each probability of its leaves")
        rows, events, outputs = map(self.by_leaf, (certificate.rows, certificate.events, certificate.outputs))
        covered = rows[:, 0] > 0
        if certificate.n != rows[:, 0].sum() or self.chose < 1 or certificate.n - self.chose not in (0, 1):
            raise ValueError("n must be the rows of all leaves, and as many other rows must have chosen the splits")
        if self.size > 1 and ((rows != rows[:, :1]).any() or (events.sum(axis=1) != rows[:, 0]).any()):
            raise ValueError("the rows of the classes must sum to the rows of their leaf")
        if not np.array_equal(outputs, self.by_leaf(self.map.constants)):
            raise ValueError("outputs must be the probabilities of the leaves of the tree")
        if not np.array_equal(outputs[covered], self.expected(rows[covered], events[covered])):
            raise ValueError("the probability of a leaf must be the rate of its rows")
        if covered[[not self._reached(leaf, certificate.score_type) for leaf in self.map.limits]].any():
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
        constants = self.map.constants
        return self.map == map_ and constants is not None and bool(np.array_equal(constants.ravel(), outputs))

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

    @property
    def what(self) -> str:
        """What a statement is about, in words."""
        return "the true event rate"

    @property
    def of_what(self) -> str:
        """What it is compared with, in words."""
        return "the calibrated probability"

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its basis, and what is not covered."""
        covered = self.by_leaf(certificate.covered)[:, 0]
        leaves, every = int(covered.sum()), len(covered)
        where = f"in each of the {leaves:,} leaves" if leaves > 1 else "in the one leaf"
        if leaves < every:
            where = f"in {'each of ' if leaves > 1 else ''}{leaves:,} of the {every:,} leaves"
        head = certificate.head(f"{where} {self.what}", f", {self.what} of its leaf")
        yield f"{head} differs from {self.of_what} by at most {round_up(certificate.epsilon)}."
        yield (
            f"  Basis: {plural(certificate.n, 'row')}, {certificate.interval} intervals; {certificate.reference}. "
            f"{plural(self.chose, 'other row')} chose the splits."
        )
        widths = self.by_leaf(certificate.half_widths)[covered].max(axis=1)
        if certificate.epsilon > UNEVEN * np.median(widths):
            half = round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            yield f"  By leaf: {(len(widths) + 1) // 2} of the {len(widths)} are within {half}."
        if leaves < every:
            yield f"  Not covered: {plural(every - leaves, 'leaf', 'leaves')} without a row."

    def unit_name(self, certificate: Certificate, place: int) -> str:
        """The leaf, by its rule."""
        return " and ".join(map(str, self.map.limits[place])) or "the one leaf"

    def broken_units(self, broken: Ints) -> str:
        """Number of contradicted leaves, in words."""
        return plural(len(broken), "leaf", "leaves")


@dataclass(frozen=True, eq=False)
class ClassLeaves(TreeLeaves):
    r"""Classes of the leaves of a tree, leaf by leaf.

    The statements of leaf l are about :math:`\mathbb{P}(Y = c \mid (S, X) \in \text{leaf } l)` for each class c.

    Attributes
    ----------
    map
        The tree, with one probability for each class in each leaf.
    chose
        Rows that chose the splits, none of which is counted in a leaf.
    frame_columns
        Column names of the frame passed to fit, if they differ from the classes.
    """

    map: ClassTreeMap  # type: ignore[assignment]
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    key: ClassVar[str] = "class-leaves"

    def sense(self) -> str:
        """The number of classes."""
        return f"class frequencies by leaf, {len(self.map.classes):,} classes"

    @property
    def size(self) -> int:
        """One statement for each class."""
        return len(self.map.classes)

    def expected(self, rows: Ints, events: Ints) -> Floats:
        """Shares of the classes."""
        return class_shares(rows[:, 0].astype(np.float64), events.astype(np.float64))

    def rests_on(self, certificate: Certificate, provenance: Any) -> bool:
        """Whether the rows are unweighted, and there are enough rows of each class beside those that chose."""
        enough = bool((self.by_leaf(certificate.events).sum(axis=0) <= provenance.class_mass).all())
        stated = certificate.n + self.chose, certificate.score_type, self.frame_columns, "frequency"
        kept = provenance.n, provenance.score_type, provenance.columns, provenance.weight_type
        return enough and stated == kept

    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
        """Fresh rows by leaf, and those of each class among them."""
        refuse_positive(positive)
        kind = cast(MulticlassScoreType, certificate.score_type)
        rows = check_fresh_rows(scores, y, self.map.classes, kind, self.frame_columns)
        leaf = self.map.route(rows.scores, by if self.map.columns else None)
        counts = np.zeros((len(self.map.maps), self.size), dtype=np.int64)
        np.add.at(counts, (leaf, rows.labels), 1)
        n = np.repeat(counts.sum(axis=1), self.size)
        return n, counts.ravel(), int(counts[self.by_leaf(certificate.covered)[:, 0]].sum())

    def tests(self, certificate: Certificate, n: Ints, events: Ints, by_bin: bool) -> tuple[Ints, Ints, Floats, Floats]:
        """Every class of a leaf against epsilon, or against its own interval."""
        n, events, lower, upper = super().tests(certificate, n, events, by_bin)
        return self.by_leaf(n), self.by_leaf(events), self.by_leaf(lower), self.by_leaf(upper)

    def seen(self, check: CertificateCheck, place: int) -> str:
        """The rows of a leaf by class, the most frequent first."""
        counts = self.by_leaf(check.events)[place]
        seen = sorted(zip(counts.tolist(), self.map.classes, strict=True), key=lambda each: -each[0])
        shown = first_few([f"{rows:,} of {name!r}" for rows, name in seen])
        return f"observed {plural(int(counts.sum()), 'row')}: {shown}"

    @property
    def what(self) -> str:
        """What a statement is about, in words."""
        return "the true frequency of every class"

    @property
    def of_what(self) -> str:
        """What it is compared with, in words."""
        return "its calibrated probability"


def class_shares(rows: Floats, counts: Floats) -> Floats:
    """Shares of the classes in each leaf; one that lacks a class gets two further rows, equal parts of every class.

    So no share is 0 or 1, and with two classes they are the rates of leaves of one score.

    Examples
    --------
    >>> class_shares(np.array([4.0, 8.0]), np.array([[1.0, 1.0, 2.0], [4.0, 4.0, 0.0]])).round(3).tolist()
    [[0.25, 0.25, 0.5], [0.467, 0.467, 0.067]]
    """
    size = counts.shape[1]
    lacking = (counts <= 0.0).any(axis=1, keepdims=True)
    more = np.where(lacking, 2.0, 0.0)
    return np.asarray((counts + more / size) / (rows[:, None] + more))
