"""Rows as a tree reads them: one score and two classes, or a score for each of several classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.arrays import Rows
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.multiclass.base import absent_notes
from calibrant.fits.bins import rates
from calibrant.fits.trees.class_curves import ClassCurves
from calibrant.fits.trees.curves import Curves
from calibrant.fits.trees.features import Features, Table, take_columns
from calibrant.fits.trees.growth import Tree, to_map
from calibrant.fits.trees.leaves import LeafCounts, LeafModel, rate_map
from calibrant.guarantees.about.trees import class_shares
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import MulticlassProvenance, Provenance, Sampling, Status
from calibrant.guarantees.seeds import pairs_refusal, seed_refusal
from calibrant.maps import ClassAxis, ClassTreeMap, Map, PerClassMap, StepMap, TreeMap
from calibrant.maps.classes import softmax
from calibrant.messages import InputError, Note
from calibrant.numerics import Floats, Ints, row_fingerprint, row_hashes
from calibrant.selection.folds import FOLDS, dependent_folds, shuffled, take_rows
from calibrant.tallies import Tally, repeat_notes

MAX_REPEATED = 50_000_000
"""Rows that frequency weights may stand for: a tree reads them one by one."""


class Sample(ABC):
    """Checked rows, and what depends on how many classes there are."""

    rows: Any

    def __len__(self) -> int:
        return len(self.rows.labels)

    @property
    def weights(self) -> Floats | None:
        """Weight of each row; None for equal ones."""
        return None if self.rows.weights is None else self.rows.weights.astype(np.float64)

    def repeated(self, table: Table) -> tuple[Self, Table]:
        """Rows of frequency weights, each as often as it counts; others unchanged."""
        weights = self.rows.weights
        if weights is None or not self.rows.counts:
            return self, table
        total = int(weights.sum())
        if total > MAX_REPEATED:
            raise InputError(
                "sample_weight",
                f"stands for {total:,} rows, and a tree reads at most {MAX_REPEATED:,}",
                "pass a sample",
            )
        places = np.repeat(np.arange(len(self)), weights.astype(np.int64))
        more = self.take(places)
        return replace(more, rows=replace(more.rows, weights=None)), take_columns(table, places)  # type: ignore[type-var]

    def folds(self, seed: int) -> list[tuple[Ints, Ints]]:
        """Rows to fit and rows held out."""
        if self.rows.groups is not None or self.rows.time is not None:
            return list(dependent_folds(self.rows, FOLDS, seed))
        fold = shuffled(self.rows, min(FOLDS, len(self)), seed)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(fold.max()) + 1)]

    @abstractmethod
    def take(self, places: Ints) -> Self:
        """Some of the rows."""

    @property
    @abstractmethod
    def fingerprint(self) -> int:
        """A number of the scores and labels of all rows."""

    @property
    @abstractmethod
    def score_columns(self) -> dict[str, Floats]:
        """What nodes compare, one column for each score, by names that no feature can have."""

    @property
    @abstractmethod
    def targets(self) -> Floats:
        """What leaves predict, one column for the event or one for each class."""

    @abstractmethod
    def notes(self, sampling: Sampling) -> tuple[Note, ...]:
        """What to know about the rows."""

    @abstractmethod
    def seed_refusal(self, random_state: int | None) -> NoCertificate | None:
        """Why halves that are drawn by this seed have no certificate; None if they can have one."""

    @abstractmethod
    def provenance(self, method: str, sampling: Sampling, status: Status) -> Any:
        """Where a map of these rows comes from."""

    @abstractmethod
    def counted(self, leaf: Ints, size: int, chose: int) -> LeafCounts:
        """What is in the leaves."""

    @abstractmethod
    def skeleton(self, tree: Tree, features: Features) -> Any:
        """The tree as a map whose leaves are still to be filled."""

    @abstractmethod
    def rates(self, counts: LeafCounts) -> Floats:
        """The probability, or probabilities, of each leaf with rows."""

    @abstractmethod
    def constant(self, p: Any) -> Map:
        """The map of a leaf that has this probability, or these, whatever the scores."""

    @abstractmethod
    def curves(self) -> tuple[Any, tuple[Note, ...]]:
        """The curves of nodes, and notes on that of all rows."""


@dataclass(frozen=True, eq=False)
class OneScore(Sample):
    """Rows of one score and two classes."""

    rows: Rows
    tally: Tally

    @classmethod
    def of(cls, rows: Rows) -> OneScore:
        """The sample of checked rows."""
        return cls(rows, Tally.from_rows(rows))

    def take(self, places: Ints) -> OneScore:
        """Some of the rows."""
        return replace(self, rows=take_rows(self.rows, places))

    @property
    def fingerprint(self) -> int:
        """That of the tally."""
        return int(self.tally.fingerprint, 16)

    @property
    def score_columns(self) -> dict[str, Floats]:
        """The score."""
        return {"": self.rows.scores}

    @property
    def targets(self) -> Floats:
        """The labels."""
        return self.rows.labels.astype(np.float64)[:, None]

    def notes(self, sampling: Sampling) -> tuple[Note, ...]:
        """What was guessed, and whether rows look like copies."""
        return (*self.rows.notes, *(() if sampling == "grouped" else repeat_notes(self.tally)))

    def seed_refusal(self, random_state: int | None) -> NoCertificate | None:
        """That of the tally."""
        return seed_refusal(self.tally, random_state) if self.tally.counts else None

    def provenance(self, method: str, sampling: Sampling, status: Status) -> Provenance:
        """That of the tally."""
        return Provenance.of(method, self.tally, sampling, status)

    def counted(self, leaf: Ints, size: int, chose: int) -> LeafCounts:
        """Rows and events of each leaf."""
        return LeafCounts.of(leaf, size, self.rows, chose)

    def skeleton(self, tree: Tree, features: Features) -> TreeMap:
        """The tree with one probability everywhere."""
        return to_map(tree, features, [rate_map(0.5)] * len(tree.leaves))

    def rates(self, counts: LeafCounts) -> Floats:
        """Event rates."""
        return rates(counts.rows, counts.events)

    def constant(self, p: Any) -> Map:
        """One step without knots."""
        return rate_map(float(p))

    def curves(self) -> tuple[Curves, tuple[Note, ...]]:
        """Logistic curves of the score."""
        return Curves.of(self.rows)


@dataclass(frozen=True, eq=False)
class ClassScores(Sample):
    """Rows of a score for each of several classes."""

    rows: MulticlassRows

    def take(self, places: Ints) -> ClassScores:
        """Some of the rows."""
        return replace(self, rows=self.rows.take(places))

    @property
    def on(self) -> ClassAxis:
        """Type of the scores."""
        return "logit" if self.rows.score_type == "logit" else "probability"

    @property
    def fingerprint(self) -> int:
        """That of the rows."""
        return int(row_fingerprint(self.rows.scores, self.rows.labels, self.rows.mass))

    @property
    def probabilities(self) -> Floats:
        """The scores as probabilities."""
        scores = self.rows.scores.astype(np.float64, copy=False)
        return softmax(scores) if self.on == "logit" else scores

    @property
    def score_columns(self) -> dict[str, Floats]:
        """The probability of each class."""
        return {f"\0{j}": column for j, column in enumerate(self.probabilities.T)}

    @property
    def targets(self) -> Floats:
        """Whether each class is the label."""
        return np.asarray(self.rows.labels[:, None] == np.arange(len(self.rows.classes)), dtype=np.float64)

    def notes(self, sampling: Sampling) -> tuple[Note, ...]:
        """What was guessed, and which classes have no rows."""
        return (*self.rows.notes, *absent_notes(self.rows))

    def seed_refusal(self, random_state: int | None) -> NoCertificate | None:
        """That of the counts of equal rows."""
        if not self.rows.counts:
            return None
        codes = np.unique(row_hashes(self.rows.scores, self.rows.labels), return_inverse=True)[1]
        return pairs_refusal(np.bincount(codes, self.rows.weights).astype(np.float64), random_state)

    def provenance(self, method: str, sampling: Sampling, status: Status) -> MulticlassProvenance:
        """That of the rows."""
        return MulticlassProvenance.of(method, self.rows, sampling, status)

    def counted(self, leaf: Ints, size: int, chose: int) -> LeafCounts:
        """Rows of each leaf and class."""
        return LeafCounts.of_classes(leaf, size, self.probabilities, self.targets, self.weights, chose)

    def skeleton(self, tree: Tree, features: Features) -> ClassTreeMap:
        """The tree with equal shares everywhere."""
        size = len(self.rows.classes)
        leaf = self.constant(np.full(size, 1.0 / size))
        return to_map(tree, features, [leaf] * len(tree.leaves), self.rows.classes, self.on)

    def rates(self, counts: LeafCounts) -> Floats:
        """Shares of the classes."""
        return class_shares(counts.rows, counts.events)

    def constant(self, p: Any) -> PerClassMap:
        """One step without knots for each class."""
        steps = tuple(StepMap(np.empty(0), np.array([each])) for each in p)
        return PerClassMap(self.rows.classes, steps, self.on, False)

    def curves(self) -> tuple[LeafModel, tuple[Note, ...]]:
        """Softmax maps of the scores."""
        return ClassCurves.of(self.rows)
