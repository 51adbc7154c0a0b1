"""Certificate statements about every class and bin of a multiclass map made of binary maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, cast

import numpy as np

from calibrant.arrays.multiclass.rows import check_fresh_rows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import UNEVEN, About, Certificate, Terms, first_few, round_up
from calibrant.guarantees.origins import Assumption
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import Map, MulticlassMap, PerClassMap, StepMap, TopMap
from calibrant.messages import InputError, count_text, plural
from calibrant.notions import NOTIONS, Certified, Notion
from calibrant.numerics import Floats, Ints


def certified(notion: str) -> Certified | None:
    """Wording of a certificate for a notion of calibration; None if it has no certificate."""
    return NOTIONS[notion].certified if notion in NOTIONS else None


@dataclass(frozen=True, eq=False)
class MulticlassBins(About):
    r"""Bins of every class or rank that a notion of calibration makes claims about.

    .. math:: |P(Y = l \mid \text{bin } b \text{ of } l) - \text{output}_{l,b}| \le \epsilon_{l,b},

    where a bin of l holds the rows that predict l (top-label) or all rows (class-wise). Each class (class-wise) or rank
    has the same share of alpha, and with simultaneous coverage so has each of its bins (Gupta 2023, section 5.H.2). A
    marginal certificate holds for all classes, or ranks, of the new row at once. ``n`` of the certificate counts all
    calibration rows, also those of classes that are not covered.

    Attributes
    ----------
    notion, k
        Name of the notion, and its number of ranks; 0 if the notion fixes it.
    classes
        In the order of the columns.
    ranks, columns
        Rank and class of each part; rank 0: ranks do not matter; class -1: all classes together.
    parts
        The bins of each part, in the order of the statements.
    named_rows, min_rows
        Rows that predict each class, rank by rank, if the notion conditions on the predicted class. Classes predicted
        in fewer than ``min_rows`` rows share a map and are not covered.
    frame_columns
        Column names of the frame passed to fit, if they differ from the classes.

    Notes
    -----
    Guarantee: for every distribution of independent rows; docs/certificates/classes.md has the proof.
    Reference: Gupta (2023), Theorems 5.1 and 5.2.
    """

    notion: str
    k: int
    classes: tuple[str, ...]
    ranks: Ints
    columns: Ints
    parts: tuple[ScoreBins, ...]
    named_rows: Ints
    min_rows: int
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    key: ClassVar[str] = "class-bins"

    def sense(self) -> str:
        """The notion and the number of classes."""
        return f"{self.notion}, {len(self.classes):,} classes"

    @property
    def assumed(self) -> frozenset[Assumption]:
        """What the bins of any part assume."""
        return super().assumed.union(*(part.assumed for part in self.parts))

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        """The theorem of the notion, and the reference of most bins."""
        ((bins_by, _),) = Counter(part.source for part in self.parts).most_common(1)
        return (f"Gupta 2023, {self._words.theorem}; bins by {bins_by.partition(', ')[2]}",)

    @property
    def aim(self) -> Notion:
        """The notion of calibration."""
        kind = NOTIONS[self.notion]
        return kind(self.k) if fields(kind) else kind()  # type: ignore[call-arg]

    @property
    def slices(self) -> list[slice]:
        """Slice of the statements of each part."""
        ends = np.cumsum([len(part.knots) + 1 for part in self.parts]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def claims(self) -> list[tuple[int, int]]:
        """Key of the claim of each part: its rank, or its class if ranks do not matter."""
        return [(rank, -1) if rank else (0, column) for rank, column in self._places()]

    @property
    def names(self) -> list[str]:
        """Name of each part."""
        return [part_name(rank, column, self.classes) for rank, column in self._places()]

    def _places(self) -> list[tuple[int, int]]:
        return list(zip(self.ranks.tolist(), self.columns.tolist(), strict=True))

    @property
    def claimed_places(self) -> list[tuple[int, int]]:
        """Rank and class of every claim of the notion."""
        size = len(self.classes)
        return [
            (claim.rank or 0, -1 if column is None else column)
            for claim in self.aim.claims(size)
            for column in (range(size) if claim.by_label else (claim.column,))
        ]

    @property
    def pooled(self) -> set[tuple[int, int]]:
        """Ranks and classes that share a map."""
        ranks, columns = np.nonzero(self.named_rows.reshape(-1, len(self.classes)) < self.min_rows)
        return set(zip((ranks + 1).tolist(), columns.tolist(), strict=True))

    def left_out(self) -> Iterator[str]:
        """Classes and ranks that are not covered, and why, in words."""
        for rank, rows in enumerate(self.named_rows.reshape(-1, len(self.classes)), 1):
            if rows.min() < self.min_rows:
                yield few_rows(rank, self.min_rows, dict(zip(self.classes, rows.tolist(), strict=True)))
        missing = set(self.claimed_places) - set(self._places()) - self.pooled
        if missing:
            names = [part_name(*place, self.classes) for place in sorted(missing)]
            yield f"{first_few(names)}: no bin has rows other than those on its edges"

    @property
    def uncovered_rows(self) -> int:  # type: ignore[override]
        """Rows on uncovered edges, summed over all parts."""
        return sum(part.uncovered_rows for part in self.parts)

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Every claim has the same share of alpha, and within a claim every bin.

        Claims share rows, so the share of one claim must not depend on the counts of another.
        """
        sizes = [int((rows[at] > 0).sum()) for at in self.slices]
        by_claim: Counter[tuple[int, int]] = Counter()
        for claim, size in zip(self.claims, sizes, strict=True):
            by_claim[claim] += size
        count, out = len(self.aim.claims(len(self.classes))), np.ones(len(rows))
        for at, part, claim, size in zip(self.slices, self.parts, self.claims, sizes, strict=True):
            whole = terms.coverage == "marginal" or not size
            share = 1.0 if whole else size / by_claim[claim]
            out[at] = terms.alpha * share / count * part.share / (1 if whole else size)
        return out

    def epsilons(self, certificate: Certificate) -> dict[str, float]:
        """The largest deviation of each part, by its name."""
        widths = np.where(certificate.covered, certificate.half_widths, 0.0)
        return {name: float(widths[at].max()) for name, at in zip(self.names, self.slices, strict=True)}

    def error_bound(self, certificate: Certificate) -> float:
        r"""Bound on the expected calibration error of the notion, with the same confidence, if everything is covered.

        .. math:: \text{TL-ECE} \le \max_l \epsilon_l, \qquad
                  \text{CW-ECE} \le \tfrac{1}{L} \textstyle\sum_l \epsilon_l

        and for k ranks the mean of their largest deviations (Gupta 2023, Theorems 5.1 and 5.2, eq. 5.4).
        """
        worst: dict[tuple[int, int], float] = {}
        for claim, epsilon in zip(self.claims, self.epsilons(certificate).values(), strict=True):
            worst[claim] = max(worst.get(claim, 0.0), epsilon)
        return sum(worst.values()) / len(worst)

    def reach(self, certificate: Certificate) -> Floats:
        """The largest deviation of the part of each statement."""
        sizes = [len(part.knots) + 1 for part in self.parts]
        return np.repeat(list(self.epsilons(certificate).values()), sizes)

    # ------------------------------------------------------------------------------------------------------- validity

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match these classes and bins."""
        places = self._places()
        if not self.parts or len(places) != len(self.parts) or len(set(places)) != len(places):
            raise ValueError("a multiclass certificate needs at least one part, and one rank and class for each")
        if certified(self.notion) is None or (self.k > 0) != bool(fields(NOTIONS[self.notion])) or self.k < 0:
            raise ValueError("the notion is unknown, or does not match its number of ranks")
        size, claims = len(self.classes), self.aim.claims(len(self.classes))
        if not set(places) <= set(self.claimed_places):
            raise ValueError("the parts do not match the claims of the notion")
        if (
            len(self.named_rows) != size * sum(claim.by_label for claim in claims)
            or (self.named_rows < 0).any()
            or self.min_rows < 1
        ):
            raise ValueError("named_rows needs a number of rows for each class and rank, and min_rows at least 1")
        if len(certificate.rows) != self.slices[-1].stop:
            raise ValueError("every bin of every part needs an entry in every column")
        for part, at in zip(self.parts, self.slices, strict=True):
            part.check_bins(certificate.rows[at])
            if not certificate.covered[at].any() or part.odds != 1.0:
                raise ValueError("every part needs a bin with rows, and unweighted rows")
        if not self._accounts(certificate):
            raise ValueError("n must match the rows of the parts")
        if (self.named_rows.reshape(-1, len(self.classes)).sum(axis=1) != certificate.n).any() or self.pooled & set(
            places
        ):
            raise ValueError("named_rows must add up to all rows, and no part may be about a pooled class")

    def _accounts(self, certificate: Certificate) -> bool:
        """Whether no claim has more rows than there are, nor fewer if every row counts for it."""
        seen: Counter[tuple[int, int]] = Counter()
        for claim, part, at in zip(self.claims, self.parts, self.slices, strict=True):
            seen[claim] += int(certificate.rows[at].sum()) + part.uncovered_rows
        whole = not any(self.left_out()) and all(part.rule.takes_every_row for part in self.parts)
        astray = any(part.uncovered_rows and not part.uncovered.any() for part in self.parts)
        return not astray and all(rows == certificate.n if whole else rows <= certificate.n for rows in seen.values())

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether the map has these classes, and these bins and outputs where the certificate covers them."""
        if (
            not isinstance(map_, MulticlassMap)
            or map_.classes != self.classes
            or (map_.on == "logit") != (kind == "logit")
        ):
            return False
        return all(
            StepMap(part.knots, outputs[at]).merged() == _part_of(map_, rank, column)
            for (rank, column), part, at in zip(self._places(), self.parts, self.slices, strict=True)
        )

    def rests_on(self, certificate: Certificate, provenance: MulticlassProvenance) -> bool:
        """Whether the rows are unweighted, and their number and column names match."""
        stated = (certificate.n, certificate.score_type, self.frame_columns, "frequency")
        return stated == (provenance.n, provenance.score_type, provenance.columns, provenance.weight_type)

    # ---------------------------------------------------------------------------------------------------- fresh rows

    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by bin, part by part."""
        refuse_positive(positive)
        rows = check_fresh_rows(
            scores, y, self.classes, cast(MulticlassScoreType, certificate.score_type), self.frame_columns
        )
        places, claims = self._places(), self.aim.claims(len(self.classes))
        n, events = np.zeros((2, len(certificate.rows)), dtype=np.int64)
        for problem in self.aim.row_problems(rows):
            place = (claims[problem.claim].rank or 0, -1 if problem.column is None else problem.column)
            if place in places:
                j = places.index(place)
                n[self.slices[j]], events[self.slices[j]] = self.parts[j].counted(
                    problem.scores, problem.events(rows.labels)
                )
        return n, events, len(rows)

    def unit_name(self, certificate: Certificate, place: int) -> str:
        """Class or rank, and which of its covered bins."""
        part = next(j for j, at in enumerate(self.slices) if place < at.stop)
        counted = np.cumsum(certificate.covered[self.slices[part]])
        return f"{self.names[part]} in bin {counted[place - self.slices[part].start]:,} of {counted[-1]:,}"

    def broken_units(self, broken: Ints) -> str:
        """Number of classes or ranks with a contradiction."""
        hit = sum(bool(((broken >= at.start) & (broken < at.stop)).any()) for at in self.slices)
        return f"{hit:,} of {plural(len(self.parts), *self._words.unit)}"

    # --------------------------------------------------------------------------------------------------------- words

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its spread over the classes, its basis, and what is not covered."""
        words = self._words
        head = certificate.head(f"{words.every}: {words.among}", f": {words.meets}")
        yield f"{head} differs from the probability by at most {round_up(certificate.epsilon)}."
        yield from self._spread(certificate)
        bins = plural(int(certificate.covered.sum()), "bin")
        basis = f"{plural(certificate.n, 'row')}, {certificate.interval} intervals in {bins}"
        yield f"  Basis: {basis}; {certificate.reference}."
        yield from (f"  Not covered: {sentence}." for sentence in (*self.left_out(), *self._edges(certificate)))

    @property
    def _words(self) -> Certified:
        words = certified(self.notion)
        assert words is not None  # checked when the certificate was made
        return words

    def _spread(self, certificate: Certificate) -> Iterator[str]:
        """The worst part, if parts differ, and the bound on the calibration error."""
        epsilons = self.epsilons(certificate)
        if len(epsilons) > 1:
            widths = sorted(epsilons.values())
            half, worst = widths[(len(widths) - 1) // 2], max(epsilons, key=lambda name: epsilons[name])
            more = f"; {(len(widths) + 1) // 2} of {len(widths)} are within {round_up(half)}"
            told = round_up(half) != round_up(certificate.epsilon) and (
                certificate.epsilon > UNEVEN * half or len(widths) > 2
            )
            yield f"  Worst: {worst}{more if told else ''}."
        if certificate.coverage == "simultaneous":
            covered = " on what is covered" if any(self.left_out()) or any(self._edges(certificate)) else ""
            bound = round_up(self.error_bound(certificate))
            yield f"  The {self.notion} calibration error is then at most {bound}{covered}."

    def _edges(self, certificate: Certificate) -> Iterator[str]:
        edges = sum(int(part.uncovered.sum()) for part in self.parts)
        if edges:
            aside = self.uncovered_rows
            unit = "row" if len(self.aim.claims(len(self.classes))) == 1 else "score"
            share = f"{aside:,} of {plural(aside + int(certificate.rows.sum()), unit)}"
            yield f"scores on a bin edge ({plural(edges, 'edge')}, {share})"
        empty = len(certificate.rows) - int(certificate.covered.sum()) - edges
        if empty:
            yield f"{plural(empty, 'bin')} without a row"


def part_name(rank: int, column: int, classes: tuple[str, ...]) -> str:
    """Name of a part."""
    if column < 0:
        return f"rank {rank}"
    return f"class {classes[column]!r}" + (f" at rank {rank}" if rank > 1 else "")


def few_rows(rank: int, min_rows: int, rows: Mapping[str, float], noun: str = "rows") -> str:
    """Classes predicted at a rank in fewer than ``min_rows`` rows, in words."""
    names = [f"{name!r} ({count_text(size)})" for name, size in rows.items() if size < min_rows]
    return f"classes {named_as(rank)} in fewer than {min_rows} {noun}, {first_few(names)}"


def named_as(rank: int) -> str:
    """How a class of this rank is predicted, in words."""
    return "predicted" if rank == 1 else f"ranked {rank}"


def refuse_positive(positive: Any) -> None:
    """Reject ``positive`` for several classes, which have no single event."""
    if positive is not None:
        raise InputError("positive", "has no meaning for several classes", "leave it out")


def _part_of(map_: MulticlassMap, rank: int, column: int) -> Map | None:
    """The map of one score behind a rank and class, or None."""
    if isinstance(map_, PerClassMap):
        return None if map_.normalized or rank or column < 0 else map_.maps[column]
    if not isinstance(map_, TopMap) or not 1 <= rank <= map_.ranks or map_.by_label != (column >= 0):
        return None
    return map_.maps[(rank - 1) * len(map_.classes) + column] if map_.by_label else map_.maps[rank - 1]
