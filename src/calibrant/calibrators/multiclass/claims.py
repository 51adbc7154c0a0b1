"""Solve the binary problems of a notion one after the other, and collect notes and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Literal

import numpy as np
from sklearn.base import clone

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.arrays.rows import Rows
from calibrant.calibrators.base import DEFAULT_ALPHA
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.guarantees.about.classes import few_rows, named_as
from calibrant.guarantees.certificate import first_few
from calibrant.guarantees.issuing import Bins, Evidence
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.maps import Map
from calibrant.messages import InputError, Note, Phrase, Setting, Voice, count_text, note
from calibrant.notions import Notion, Problem
from calibrant.tallies import Tally

Rare = Literal["pool", "refuse"]


@note("pooled-classes")
def pooled_classes(voice: Voice, rank: int, min_rows: int, classes: tuple[str, ...], rows: tuple[float, ...]) -> str:
    """Note on classes that share a map."""
    total = sum(rows)
    nouns = voice.nouns
    of = f"their {count_text(total)} {nouns.rows} together" if total >= min_rows else f"the {nouns.rows} of all classes"
    few = few_rows(rank, min_rows, dict(zip(classes, rows, strict=True)), nouns.rows)
    return f"{few}: they share one map, fitted to {of}"


@note("of-classes")
def of_classes(voice: Voice, classes: tuple[str, ...], about: Note) -> str:
    """A note of the binary fits of some classes."""
    return f"{first_few(classes, 3)}: {about.say(voice)}"


class Solver:
    """Fits a binary calibrator to each problem of a notion; tallies are not kept after the fit.

    Attributes
    ----------
    evidence : list of Evidence
        The bins of each problem that can have a certificate; pooled classes are not among them.
    named : dict
        By rank, the number of rows that name each class; for notions that treat each named class separately.
    refusal : NoCertificate or None
        Why the calibrator has no certificate, if it has no bins.
    """

    def __init__(
        self,
        binary: BinaryCalibrator,
        rows: MulticlassRows,
        rare: Rare,
        min_rows: int,
        settled: Callable[[Bins, Tally], Bins],
    ) -> None:
        self.binary, self.rows, self.rare, self.min_rows, self.settled = binary, rows, rare, min_rows, settled
        self.evidence: list[Evidence] = []
        self.named: dict[int, dict[str, float]] = {}
        self.refusal: NoCertificate | None = None
        self._notes_by_code: dict[str, tuple[Note, list[str]]] = {}

    def maps(self, notion: Notion) -> tuple[Map, ...]:
        """A map for each claim of the notion, or for each claim and class."""
        claims = notion.claims(len(self.rows.classes))
        found: list[Map] = []
        for place, group in groupby(notion.row_problems(self.rows), lambda problem: problem.claim):
            rank = claims[place].rank or 0
            solve = self._by_label if claims[place].by_label else self._in_turn
            found += solve(list(group), rank)
        return tuple(found)

    def pooled(self, rank: int) -> dict[str, float]:
        """Classes of a rank that share a map, with the rows that name them."""
        return {name: size for name, size in self.named[rank].items() if size < self.min_rows}

    def notes(self) -> Iterator[Note]:
        """Notes on pooled classes, and the notes of the binary fits."""
        for rank in self.named:
            pooled = self.pooled(rank)
            if pooled:
                yield pooled_classes(rank, self.min_rows, tuple(pooled), tuple(pooled.values()))
        for found, about in self._notes_by_code.values():
            yield of_classes(tuple(about), found)

    def _solve(self, problem: Problem, rank: int, *, certified: bool = True) -> Map:
        about = "all classes" if problem.column is None else f"class {self.rows.classes[problem.column]!r}"
        tally = tally_of(problem, self.rows)
        try:
            fitted: BinaryCalibrator = clone(self.binary)._fit_part(tally)
        except InputError as wrong:
            where = Phrase("{problem} ({about})", problem=wrong.problem, about=about)
            raise InputError(wrong.subject, where, wrong.fix) from None
        for found in fitted.notes_:
            self._notes_by_code.setdefault(found.code, (found, []))[1].append(about)  # one note per code
        bins = getattr(fitted, "bins_", None)
        if isinstance(bins, Bins):
            bins = self.settled(bins, tally.for_fitting())
            if certified:
                self.evidence.append(Evidence(rank, -1 if problem.column is None else problem.column, bins))
            return bins.to_map()
        if self.refusal is None:
            certificate = fitted._certify(DEFAULT_ALPHA, "clopper-pearson", "simultaneous")
            self.refusal = certificate if isinstance(certificate, NoCertificate) else None
        return fitted.map_

    def _in_turn(self, problems: Sequence[Problem], rank: int) -> list[Map]:
        return [self._solve(problem, rank) for problem in problems]

    def _by_label(self, problems: Sequence[Problem], rank: int) -> list[Map]:
        """A map for each class; classes named by too few rows share one."""
        sizes = [_size(problem, self.rows) for problem in problems]
        self.named[rank] = dict(zip(self.rows.classes, sizes, strict=True))
        rare = [problem for problem, size in zip(problems, sizes, strict=True) if size < self.min_rows]
        shared = self._shared(rare, problems, rank) if rare else None
        return [
            shared if shared is not None and size < self.min_rows else self._solve(problem, rank)
            for problem, size in zip(problems, sizes, strict=True)
        ]

    def _shared(self, rare: Sequence[Problem], problems: Sequence[Problem], rank: int) -> Map:
        """The map of rare classes: fitted to their rows together, or to all rows if even these are few."""
        if self.rare == "refuse":
            name, size = next(iter(self.pooled(rank).items()))
            raise InputError(
                Setting("rare", "refuse"),
                f"needs {self.min_rows} rows of each class, "
                f"but class {name!r} is {named_as(rank)} in {count_text(size)}",
                "pass more rows, a smaller min_rows, or rare='pool'",
            )
        together = _joined(rare)
        enough = _size(together, self.rows) >= self.min_rows
        return self._solve(together if enough else _joined(problems), rank, certified=False)


def tally_of(problem: Problem, rows: MulticlassRows) -> Tally:
    """The tally of a binary problem of checked rows."""
    weights = None if rows.weights is None else problem.pick(rows.weights)
    events = problem.events(rows.labels).view(np.uint8)
    scores = np.ascontiguousarray(problem.scores)
    return Tally.from_rows(Rows(scores, events, weights, rows.counts, None, None, "probability", ()))


def _size(problem: Problem, rows: MulticlassRows) -> float:
    """Rows of a problem, or the effective sample size of its importance weights."""
    if rows.weights is None:
        return float(len(problem.scores))
    weights = problem.pick(rows.weights)
    if rows.counts or not len(weights):
        return float(weights.sum())
    return float(weights.sum() ** 2 / (weights * weights).sum())


def _joined(problems: Sequence[Problem]) -> Problem:
    """The rows of several classes as one problem, about the class that each row names."""
    rows = np.concatenate([problem.rows for problem in problems if problem.rows is not None])
    scores = np.concatenate([problem.scores for problem in problems])
    return Problem(problems[0].claim, None, rows, scores, np.concatenate([problem.named for problem in problems]))
