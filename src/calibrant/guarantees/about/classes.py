"""Statements about every class and bin of a map that is made of binary ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.multiclass.rows import check_fresh_rows
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, Terms, first_few, round_up
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps import ClassMap, Map, PerClassMap, StepMap, TopMap
from calibrant.messages import InputError, plural
from calibrant.notions import NOTIONS, Certified, Notion
from calibrant.numerics import Floats, Ints


def certified(notion: str) -> Certified | None:
    """What a certificate of a notion says; None where there is none."""
    return NOTIONS[notion].certified if notion in NOTIONS else None


@dataclass(frozen=True, eq=False)
class ClassBins(About):
    r"""Bins of every class or rank that a notion makes claims about.

    .. math:: |P(Y = l \mid \text{bin } b \text{ of } l) - \text{output}_{l,b}| \le \epsilon_{l,b},

    where a bin of l holds rows that name l (top-label) or all rows (class-wise). Each class (class-wise) or rank has
    the same share of alpha, and in a simultaneous promise each of its bins (002 section 5.H.2); a marginal one holds
    for all classes, or ranks, of the new row at once. ``n`` of the certificate counts all calibration rows, also those
    of classes without a promise.

    Attributes
    ----------
    notion, k
        Name of the notion, and how many ranks it is about, 0 where it says so itself.
    classes
        In the order of the columns.
    ranks, columns
        Rank and class that each part is about; rank 0: it plays no part; class -1: all classes together.
    parts
        The bins of each part, in the order of the statements.
    named_rows, least
        Rows that name each class, rank by rank, where a class is asked for among the rows that name it; those that
        fewer than ``least`` rows name share a map and are promised nothing.
    frame_columns
        What the columns of a frame were called at fit, where not as the classes.

    Notes
    -----
    Guarantee: for every distribution of independent rows; docs/certificates/classes.md has the proof.
    Reference: 002 Theorems 5.1 and 5.2.
    """

    notion: str
    k: int
    classes: tuple[str, ...]
    ranks: Ints
    columns: Ints
    parts: tuple[ScoreBins, ...]
    named_rows: Ints
    least: int
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    key: ClassVar[str] = "class-bins"

    def sense(self) -> str:
        """The notion."""
        return f"{self.notion}, {len(self.classes):,} classes"

    @property
    def aim(self) -> Notion:
        """The notion itself."""
        kind = NOTIONS[self.notion]
        return kind(self.k) if fields(kind) else kind()  # type: ignore[call-arg]

    @property
    def slices(self) -> list[slice]:
        """Which statements are those of each part."""
        ends = np.cumsum([len(part.knots) + 1 for part in self.parts]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def claims(self) -> list[tuple[int, int]]:
        """What the claim of each part is known by: its rank, or its class where there is none."""
        return [(rank, -1) if rank else (0, column) for rank, column in self._places()]

    @property
    def names(self) -> list[str]:
        """What each part is about, in words."""
        return [part_name(rank, column, self.classes) for rank, column in self._places()]

    def _places(self) -> list[tuple[int, int]]:
        return list(zip(self.ranks.tolist(), self.columns.tolist(), strict=True))

    @property
    def claimed_places(self) -> list[tuple[int, int]]:
        """Rank and class of everything that the notion makes claims about."""
        size = len(self.classes)
        return [
            (claim.rank or 0, -1 if column is None else column)
            for claim in self.aim.claims(size)
            for column in (range(size) if claim.by_label else (claim.column,))
        ]

    @property
    def pooled(self) -> set[tuple[int, int]]:
        """Ranks and classes that share a map."""
        ranks, columns = np.nonzero(self.named_rows.reshape(-1, len(self.classes)) < self.least)
        return set(zip((ranks + 1).tolist(), columns.tolist(), strict=True))

    def left_out(self) -> Iterator[str]:
        """Classes and ranks that the certificate does not cover, and why, in words."""
        for rank, rows in enumerate(self.named_rows.reshape(-1, len(self.classes)), 1):
            if rows.min() < self.least:
                yield few_rows(rank, self.least, dict(zip(self.classes, rows.tolist(), strict=True)))
        missing = set(self.claimed_places) - set(self._places()) - self.pooled
        if missing:
            names = [part_name(*place, self.classes) for place in sorted(missing)]
            yield f"{first_few(names)}: no bin holds a row besides those on the edges"

    @property
    def uncovered_rows(self) -> int:  # type: ignore[override]
        """Rows on uncovered edges, in all parts together."""
        return sum(part.uncovered_rows for part in self.parts)

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Every claim has the same share of alpha, and within a claim every bin.

        Claims share rows, so that what one of them costs must not depend on the counts of another.
        """
        sizes = [int((rows[at] > 0).sum()) for at in self.slices]
        by_claim: Counter[tuple[int, int]] = Counter()
        for claim, size in zip(self.claims, sizes, strict=True):
            by_claim[claim] += size
        count, out = len(self.aim.claims(len(self.classes))), np.ones(len(rows))
        for at, part, claim, size in zip(self.slices, self.parts, self.claims, sizes, strict=True):
            whole = terms.mode == "marginal" or not size
            share = 1.0 if whole else size / by_claim[claim]
            out[at] = terms.alpha * share / count * part.share / (1 if whole else size)
        return out

    def epsilons(self, promise: Certificate) -> dict[str, float]:
        """The largest deviation of each part, by the name of what it is about."""
        widths = np.where(promise.promised, promise.half_widths, 0.0)
        return {name: float(widths[at].max()) for name, at in zip(self.names, self.slices, strict=True)}

    def error_bound(self, promise: Certificate) -> float:
        r"""What the expected calibration error of the notion is at most, as surely, where all is covered.

        .. math:: \text{TL-ECE} \le \max_l \epsilon_l, \qquad
                  \text{CW-ECE} \le \tfrac{1}{L} \textstyle\sum_l \epsilon_l

        and for k ranks the mean of the largest deviation of each (002 Theorems 5.1 and 5.2, eq. 5.4).
        """
        worst: dict[tuple[int, int], float] = {}
        for claim, epsilon in zip(self.claims, self.epsilons(promise).values(), strict=True):
            worst[claim] = max(worst.get(claim, 0.0), epsilon)
        return sum(worst.values()) / len(worst)

    def reach(self, promise: Certificate) -> Floats:
        """The largest deviation of the part of each statement."""
        sizes = [len(part.knots) + 1 for part in self.parts]
        return np.repeat(list(self.epsilons(promise).values()), sizes)

    # ------------------------------------------------------------------------------------------------------- validity

    def validate(self, promise: Certificate) -> None:
        """Refuse a table that is not about these classes and bins."""
        places = self._places()
        if not self.parts or len(places) != len(self.parts) or len(set(places)) != len(places):
            raise ValueError("a certificate of classes needs one rank and class for each part, and a part")
        if certified(self.notion) is None or (self.k > 0) != bool(fields(NOTIONS[self.notion])) or self.k < 0:
            raise ValueError("the notion is not known, or does not go with its number of ranks")
        size, claims = len(self.classes), self.aim.claims(len(self.classes))
        if not set(places) <= set(self.claimed_places):
            raise ValueError("the parts must be about what the notion is about")
        if (
            len(self.named_rows) != size * sum(claim.by_label for claim in claims)
            or (self.named_rows < 0).any()
            or self.least < 1
        ):
            raise ValueError("each class needs the number of rows that name it, by rank, and least be at least 1")
        if len(promise.rows) != self.slices[-1].stop:
            raise ValueError("every bin of every part needs an entry in every column")
        for part, at in zip(self.parts, self.slices, strict=True):
            part.check_bins(promise.rows[at])
            if not promise.promised[at].any() or part.odds != 1.0:
                raise ValueError("every part needs a bin with rows, and rows as they are")
        if not self._accounts(promise):
            raise ValueError("n must be that of the parts")
        if (self.named_rows.reshape(-1, len(self.classes)).sum(axis=1) != promise.n).any() or self.pooled & set(places):
            raise ValueError("the rows that name the classes must be all rows, and no part be about a pooled class")

    def _accounts(self, promise: Certificate) -> bool:
        """Whether the parts of no claim have more rows than there are, nor fewer where every row speaks."""
        seen: Counter[tuple[int, int]] = Counter()
        for claim, part, at in zip(self.claims, self.parts, self.slices, strict=True):
            seen[claim] += int(promise.rows[at].sum()) + part.uncovered_rows
        whole = not any(self.left_out()) and all(part.rule.takes_every_row for part in self.parts)
        astray = any(part.uncovered_rows and not part.uncovered.any() for part in self.parts)
        return not astray and all(rows == promise.n if whole else rows <= promise.n for rows in seen.values())

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether the map has these classes, and these bins and outputs where something is promised."""
        if not isinstance(map_, ClassMap) or map_.classes != self.classes or (map_.on == "logit") != (kind == "logit"):
            return False
        return all(
            StepMap(part.knots, outputs[at]).merged() == _part_of(map_, rank, column)
            for (rank, column), part, at in zip(self._places(), self.parts, self.slices, strict=True)
        )

    def rests_on(self, promise: Certificate, provenance: ClassProvenance) -> bool:
        """Whether the rows are counted, as many, and their columns were called so."""
        told = (promise.n, promise.kind, self.frame_columns, "counts")
        return told == (provenance.n, provenance.kind, provenance.columns, provenance.weights)

    # ---------------------------------------------------------------------------------------------------- fresh rows

    def count(self, promise: Certificate, scores: Any, y: Any, positive: Any) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by bin, part by part."""
        refuse_positive(positive)
        rows = check_fresh_rows(scores, y, self.classes, cast(ClassKind, promise.kind), self.frame_columns)
        places, claims = self._places(), self.aim.claims(len(self.classes))
        n, events = np.zeros((2, len(promise.rows)), dtype=np.int64)
        for problem in self.aim.row_problems(rows):
            place = (claims[problem.claim].rank or 0, -1 if problem.column is None else problem.column)
            if place in places:
                j = places.index(place)
                n[self.slices[j]], events[self.slices[j]] = self.parts[j].counted(
                    problem.scores, problem.events(rows.labels)
                )
        return n, events, len(rows)

    def unit_name(self, promise: Certificate, place: int) -> str:
        """Class or rank, and which of its promised bins."""
        part = next(j for j, at in enumerate(self.slices) if place < at.stop)
        counted = np.cumsum(promise.promised[self.slices[part]])
        return f"{self.names[part]} in bin {counted[place - self.slices[part].start]:,} of {counted[-1]:,}"

    def broken_units(self, broken: Ints) -> str:
        """In how many classes or ranks there is a contradiction."""
        hit = sum(bool(((broken >= at.start) & (broken < at.stop)).any()) for at in self.slices)
        return f"{hit:,} of {plural(len(self.parts), *self._words.unit)}"

    # --------------------------------------------------------------------------------------------------------- words

    def sentences(self, promise: Certificate) -> Iterator[str]:
        """What is promised, how it is spread, what it rests on and leaves out."""
        words = self._words
        head = promise.head(f"{words.every}: {words.among}", f": {words.meets}")
        yield f"{head} differs from the probability by at most {round_up(promise.epsilon)}."
        yield from self._spread(promise)
        bins = plural(int(promise.promised.sum()), "bin")
        yield f"  Basis: {plural(promise.n, 'row')}, {promise.bound} intervals in {bins}; {promise.source}."
        yield from (f"  Not covered: {sentence}." for sentence in (*self.left_out(), *self._edges(promise)))

    @property
    def _words(self) -> Certified:
        words = certified(self.notion)
        assert words is not None  # asked when it was made
        return words

    def _spread(self, promise: Certificate) -> Iterator[str]:
        """Which part is the worst, where parts differ, and what follows for the error."""
        epsilons = self.epsilons(promise)
        if len(epsilons) > 1:
            widths = sorted(epsilons.values())
            half, worst = widths[(len(widths) - 1) // 2], max(epsilons, key=lambda name: epsilons[name])
            more = f"; {(len(widths) + 1) // 2} of {len(widths)} hold within {round_up(half)}"
            told = round_up(half) != round_up(promise.epsilon) and (promise.epsilon > UNEVEN * half or len(widths) > 2)
            yield f"  Worst: {worst}{more if told else ''}."
        if promise.mode == "simultaneous":
            covered = " on what is covered" if any(self.left_out()) or any(self._edges(promise)) else ""
            bound = round_up(self.error_bound(promise))
            yield f"  The {self.notion} calibration error is then at most {bound}{covered}."

    def _edges(self, promise: Certificate) -> Iterator[str]:
        edges = sum(int(part.uncovered.sum()) for part in self.parts)
        if edges:
            aside = self.uncovered_rows
            unit = "row" if len(self.aim.claims(len(self.classes))) == 1 else "score"
            share = f"{aside:,} of {plural(aside + int(promise.rows.sum()), unit)}"
            yield f"scores on a bin edge ({plural(edges, 'edge')}, {share})"
        empty = len(promise.rows) - int(promise.promised.sum()) - edges
        if empty:
            yield f"{plural(empty, 'bin')} without a row"


def part_name(rank: int, column: int, classes: tuple[str, ...]) -> str:
    """What a part is about, in words."""
    if column < 0:
        return f"rank {rank}"
    return f"class {classes[column]!r}" + (f" at rank {rank}" if rank > 1 else "")


def few_rows(rank: int, least: int, rows: Mapping[str, float], noun: str = "rows") -> str:
    """The classes that fewer than ``least`` rows name at a rank, in words."""
    names = [f"{name!r} ({size:,.6g})" for name, size in rows.items() if size < least]
    return f"classes {named_as(rank)} in fewer than {least} {noun}, {first_few(names)}"


def named_as(rank: int) -> str:
    """How a row names its class of a rank, in words."""
    return "predicted" if rank == 1 else f"ranked {rank}"


def refuse_positive(positive: Any) -> None:
    """Several classes have no event of their own."""
    if positive is not None:
        raise InputError("positive", "has no meaning for several classes", "leave it out")


def _part_of(map_: ClassMap, rank: int, column: int) -> Map | None:
    """The map of one score behind a rank and class; None where there is none."""
    if isinstance(map_, PerClassMap):
        return None if map_.normalised or rank or column < 0 else map_.maps[column]
    if not isinstance(map_, TopMap) or not 1 <= rank <= map_.ranks or map_.by_label != (column >= 0):
        return None
    return map_.maps[(rank - 1) * len(map_.classes) + column] if map_.by_label else map_.maps[rank - 1]
