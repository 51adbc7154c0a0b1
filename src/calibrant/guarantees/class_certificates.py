"""Certificates of maps of several classes that are made of binary ones: one promise for all classes and bins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import InputError
from calibrant.arrays.multiclass.rows import ClassKind, check_fresh_rows
from calibrant.guarantees.certificates import (
    UNEVEN,
    Bound,
    Certificate,
    CertificateCheck,
    Mode,
    Refusal,
    _count,
    _round_up,
)
from calibrant.guarantees.class_promise import ClassPromise
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps import ClassMap, PerClassMap, StepMap, TopMap
from calibrant.notions import NOTIONS, Notion
from calibrant.numerics import Guide, Ints

THEOREMS = {
    "confidence": "Algorithm 5.1",
    "top-label": "Theorem 5.1",
    "class-wise": "Theorem 5.2",
    "top-k-confidence": "Algorithm 5.7",
    "top-k-label": "Theorem 5.1 for each rank",
}
"""What the promise of each notion rests on; see docs/certificates/classes.md."""

_AMONG = {
    "confidence": "among rows whose most likely class has that probability, the share for which it is right",
    "top-label": "among rows predicted as that class with that probability, the true share of the class",
    "class-wise": "among rows that give that class that probability, the true share of the class",
    "top-k-confidence": "among rows whose class of that rank has that probability, the share for which it is right",
    "top-k-label": "among rows where that class has that rank and that probability, the true share of the class",
}
_MEETS = {
    "confidence": "in the bin that it falls in, the share of rows whose most likely class is right",
    "top-label": "in the bin of its predicted class that it falls in, the true share of that class",
    "class-wise": "for all classes at once, in the bin of a class that it falls in, the true share of that class",
    "top-k-confidence": "for all ranks at once, in the bin of a rank that it falls in, the share of rows whose class "
    "of that rank is right",
    "top-k-label": "for all ranks at once, in the bin of its class of a rank that it falls in, the true share of that "
    "class",
}
_EVERY = {
    "confidence": "in every bin",
    "top-k-confidence": "for every rank and each of its bins",
    "top-k-label": "for every rank and class and each of its bins",
}

_UNITS = {"confidence": "rank", "top-k-confidence": "rank", "top-k-label": "class and rank"}

NOTHING = 0.999
"""Share of the largest deviation that there can be, from which on a promise says nothing."""

WHOLE = ("equal masses of the rows themselves", "equal widths")
"""Rules by which each row of a problem lies in a bin or on an edge."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassCertificate(ClassPromise):
    r"""A promise about every class and bin of a map that is made of binary ones.

    Simultaneous: with probability at least :math:`1 - \alpha` over the calibration rows,

    .. math:: |P(Y = l \mid \text{bin } b \text{ of } l) - \text{output}_{l,b}| \le \epsilon_{l,b}
              \quad\text{for every promised bin b of every promised class } l,

    where a bin of l holds rows that name l (top-label) or all rows (class-wise). Marginal: for one new row, the same of
    the bins that it falls in, with probability at least :math:`1 - \alpha` over the calibration rows and that row; of
    all classes, or ranks, at once. Each class (class-wise) or rank has the same share of alpha, and in a simultaneous
    promise each of its bins (002 section 5.H.2).

    Attributes
    ----------
    epsilon
        Largest :math:`\epsilon_{l,b}`.
    ranks, columns
        Rank and class that each part is about; rank 0: it plays no part; class -1: all classes together.
    parts
        The binary certificates, each at its share of alpha.
    n
        Calibration rows, also those of classes without a promise.
    left_out
        What there is no promise about, as sentences.
    frame_columns
        What the columns of a frame were called at fit, where not as the classes.

    Notes
    -----
    Guarantee: for every distribution of independent rows; docs/certificates/classes.md has the proof.
    Reference: 002 Theorems 5.1 and 5.2.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: Bound
    notion: str
    kind: ClassKind
    classes: tuple[str, ...]
    ranks: Ints
    columns: Ints
    parts: tuple[Certificate, ...]
    n: int
    left_out: tuple[str, ...]
    assumptions: tuple[str, ...]
    source: str
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other; a document may hold anything."""
        about = list(zip(self.ranks.tolist(), self.columns.tolist(), strict=True))
        if not self.parts or len(about) != len(self.parts) or len(set(about)) != len(about):
            raise ValueError("a certificate of classes needs one rank and class for each part, and a part")
        if self.notion not in THEOREMS or any(
            (part.mode, part.bound) != (self.mode, self.bound) for part in self.parts
        ):
            raise ValueError("notion, mode and bound must be those of the parts")
        if any(not 0 <= rank <= len(self.classes) or not -1 <= j < len(self.classes) for rank, j in about):
            raise ValueError("the parts must be about classes and ranks that there are")
        if not all(self._belongs(rank, j) for rank, j in about):
            raise ValueError("the parts must be about what the notion is about")
        if self.epsilon != max(part.epsilon for part in self.parts) or not self._accounts():
            raise ValueError("epsilon and n must be those of the parts")
        if not 0.0 < self.alpha < 1.0 or self._spent() > self.alpha * (1.0 + 1e-9):
            raise ValueError("the parts spend more than alpha")

    def _belongs(self, rank: int, column: int) -> bool:
        """Whether the notion makes a claim about this rank and class."""
        if self.notion == "class-wise":
            return rank == 0 and column >= 0
        ranked = rank >= 1 if self.notion.startswith("top-k") else rank == 1
        return ranked and self.notion.endswith("label") == (column >= 0)

    def _accounts(self) -> bool:
        """Whether the parts of no claim have more rows than there are, nor fewer where every row speaks."""
        seen: dict[tuple[int, int], int] = {}
        for rank, column, part in self._each():
            claim = (rank, -1 if rank else column)
            seen[claim] = seen.get(claim, 0) + part.n + part.uncovered_rows
        whole = not self.left_out and all(part.rule in WHOLE for part in self.parts)
        astray = any(part.uncovered_rows and not part.uncovered.any() for part in self.parts)
        return not astray and all(rows == self.n if whole else rows <= self.n for rows in seen.values())

    def _spent(self) -> float:
        """What the parts cost together: a new row meets one part of each rank, and every part that has none."""
        if self.mode == "simultaneous":
            return sum(part.alpha for part in self.parts)
        dearest: dict[tuple[int, int], float] = {}
        for rank, column, part in self._each():
            claim = (rank, -1 if rank else column)
            dearest[claim] = max(dearest.get(claim, 0.0), part.alpha)
        return sum(dearest.values())

    def _each(self) -> Iterator[tuple[int, int, Certificate]]:
        return zip(self.ranks.tolist(), self.columns.tolist(), self.parts, strict=True)

    @property
    def epsilons(self) -> dict[str, float]:
        """The largest deviation of each part, by the name of what it is about."""
        return {part_name(rank, j, self.classes): part.epsilon for rank, j, part in self._each()}

    @property
    def error_bound(self) -> float:
        r"""What the expected calibration error of the notion is at most, as surely, where all is covered.

        .. math:: \text{TL-ECE} \le \max_l \epsilon_l, \qquad
                  \text{CW-ECE} \le \tfrac{1}{L} \textstyle\sum_l \epsilon_l

        and for k ranks the mean of the largest deviation of each (002 Theorems 5.1 and 5.2, eq. 5.4).
        """
        worst: dict[tuple[int, int], float] = {}
        for rank, column, part in self._each():
            claim = (rank, -1 if rank else column)
            worst[claim] = max(worst.get(claim, 0.0), part.epsilon)
        return sum(worst.values()) / len(worst)

    def about(self, map_: ClassMap) -> bool:
        """Whether the map has these classes, and these bins and outputs where something is promised."""
        if map_.classes != self.classes or isinstance(map_, PerClassMap) != (self.notion == "class-wise"):
            return False
        if (map_.on == "logit") != (self.kind == "logit"):
            return False
        return all(
            StepMap(part.knots, part.outputs).merged() == _part_of(map_, rank, column)
            for rank, column, part in self._each()
        )

    def rests_on(self, provenance: ClassProvenance) -> bool:
        """Whether number and kind of the rows agree, and what their columns were called."""
        told = (self.n, self.kind, self.frame_columns)
        return told == (provenance.n, provenance.kind, provenance.columns)

    def check(
        self, scores: ArrayLike, y: ArrayLike, *, level: float = 0.01, by_bin: bool = False
    ) -> ClassCertificateCheck:
        """Hold the promise against fresh rows that played no part in the fit; as :meth:`Certificate.check`.

        Each part is held to its own largest deviation, or, with ``by_bin``, each bin to its own interval. All bins of
        all parts share ``level``: a promise that holds is called broken with probability at most ``level``.
        """
        if self.mode == "marginal":
            raise InputError("a marginal certificate speaks of one new row: ask for mode='simultaneous' to check bins")
        rows = check_fresh_rows(scores, y, self.classes, self.kind, self.frame_columns)
        parts = {(rank, column): part for rank, column, part in self._each()}
        bins = sum(int(part.promised.sum()) for part in self.parts)
        found, counted = {}, []
        for problem in self._notion().row_problems(rows):
            about = (
                0 if self.notion == "class-wise" else problem.claim + 1,
                -1 if problem.column is None else problem.column,
            )
            part = parts.get(about)
            if part is None:
                continue
            index = Guide(part.knots).locate(problem.scores)
            n = np.bincount(index, minlength=len(part.rows))
            events = np.bincount(index[problem.events(rows.labels)], minlength=len(part.rows))
            share = level * int(part.promised.sum()) / bins
            found[part_name(*about, self.classes)] = part.check_counts(n, events, level=share, by_bin=by_bin)
            counted.append(np.cumsum(part.promised, dtype=np.int64))
        unit = _UNITS.get(self.notion, "class")
        return ClassCertificateCheck(len(rows), tuple(found), tuple(found.values()), tuple(counted), unit)

    def _notion(self) -> Notion:
        kind = NOTIONS[self.notion]
        return kind(**{field.name: int(self.ranks.max()) for field in fields(kind)})

    def __repr__(self) -> str:
        """One short line; ``print`` tells the whole promise."""
        return short(self, self.notion, self.n, len(self.classes))

    def __str__(self) -> str:
        """The promise in one sentence; then how it is spread, what it rests on, leaves out and assumes."""
        percent = f"{100 * (1 - self.alpha):.6g} %"
        if self.mode == "marginal":
            head = f"For a new row, with probability at least {percent}: {_MEETS[self.notion]}"
        else:
            every = _EVERY.get(self.notion, "for every class and each of its bins")
            head = f"With confidence {percent}, {every}: {_AMONG[self.notion]}"
        lines = [f"{head} differs from the probability by at most {_round_up(self.epsilon)}.", *self._spread()]
        bins = sum(int(part.promised.sum()) for part in self.parts)
        lines.append(
            f"  Basis: {_count(self.n, 'row')}, {self.bound} intervals in {_count(bins, 'bin')}; {self.source}."
        )
        lines += [f"  Not covered: {sentence}." for sentence in (*self.left_out, *self._edges())]
        return "\n".join([*lines, "  Assumes: " + "; ".join(self.assumptions) + "."])

    def _spread(self) -> Iterator[str]:
        """Which part is the worst, where parts differ, and what follows for the error."""
        widths = np.sort([part.epsilon for part in self.parts])
        if len(self.parts) > 1:
            names, half = list(self.epsilons), float(widths[(len(widths) - 1) // 2])
            worst = names[int(np.argmax([part.epsilon for part in self.parts]))]
            more = f"; {(len(widths) + 1) // 2} of {len(widths)} hold within {_round_up(half)}"
            told = _round_up(half) != _round_up(self.epsilon) and (self.epsilon > UNEVEN * half or len(widths) > 2)
            yield f"  Worst: {worst}{more if told else ''}."
        if self.mode == "simultaneous":
            covered = " on what is covered" if self.left_out or any(self._edges()) else ""
            yield f"  The {self.notion} calibration error is then at most {_round_up(self.error_bound)}{covered}."

    def _edges(self) -> Iterator[str]:
        edges = sum(int(part.uncovered.sum()) for part in self.parts)
        if edges:
            rows = sum(part.uncovered_rows for part in self.parts)
            whole = rows + sum(part.n for part in self.parts)
            unit = "row" if self.notion in ("confidence", "top-label") else "score"
            yield f"scores on a bin edge ({_count(edges, 'edge')}, {rows:,} of {_count(whole, unit)})"
        empty = sum(int((~part.promised & ~part.uncovered).sum()) for part in self.parts)
        if empty:
            yield f"{_count(empty, 'bin')} without a row"


@dataclass(frozen=True, eq=False)
class ClassCertificateCheck:
    """Result of holding a certificate of classes against fresh rows; true when nothing contradicts it.

    ``counted`` are, for each part and entry of its columns, the promised bins up to there; ``unit`` is what a part is.
    """

    n: int
    names: tuple[str, ...]
    parts: tuple[CertificateCheck, ...]
    counted: tuple[Ints, ...]
    unit: str

    @property
    def holds(self) -> bool:
        """Whether no bin of any part contradicts the promise."""
        return all(part.holds for part in self.parts)

    @property
    def telling(self) -> bool:
        """False when no outcome of so few rows could have contradicted the promise."""
        return any(part.telling for part in self.parts)

    def __bool__(self) -> bool:
        """Whether the promise stands."""
        return self.holds

    def __str__(self) -> str:
        """The verdict, with the worst part when the promise is contradicted."""
        if self.holds or not self.telling:
            return unbroken(self.n, self.telling)
        broken = [(float(part.p_values.min()), j) for j, part in enumerate(self.parts) if not part.holds]
        worst = min(broken)[1]
        part, counted = self.parts[worst], self.counted[worst]
        at = int(np.argmin(part.p_values))
        return (
            f"{_count(self.n, 'row')}: contradicted in {len(broken):,} of {_units(len(self.parts), self.unit)}; the "
            f"worst, {self.names[worst]} in bin {counted[at]:,} of {counted[-1]:,}, promised a share between "
            f"{part.lower[at]:.4g} and {part.upper[at]:.4g}, shows {part.events[at]:,} of "
            f"{_count(int(part.rows[at]), 'row')} (p = {part.p_values[at]:.2g}).{IF_FRESH}"
        )


def _part_of(map_: ClassMap, rank: int, column: int) -> Any:
    """The map of one score behind a rank and class; None where there is none."""
    if isinstance(map_, PerClassMap):
        return None if map_.normalised or rank or column < 0 else map_.maps[column]
    if not isinstance(map_, TopMap) or not 1 <= rank <= map_.ranks or map_.by_label != (column >= 0):
        return None
    return map_.maps[(rank - 1) * len(map_.classes) + column] if map_.by_label else map_.maps[rank - 1]


def part_name(rank: int, column: int, classes: tuple[str, ...]) -> str:
    """What a part is about, in words."""
    if column < 0:
        return f"rank {rank}"
    return f"class {classes[column]!r}" + (f" at rank {rank}" if rank > 1 else "")


IF_FRESH = "\n  This holds if these rows played no part in the fit."
"""The line below every verdict on a promise that rows could contradict."""


def unbroken(n: int, telling: bool) -> str:
    """What rows say that do not contradict a promise."""
    if not telling:
        return f"{_count(n, 'row')}: too few to contradict the certificate, whatever they had shown."
    return f"{_count(n, 'row')}: no contradiction to the certificate.{IF_FRESH}"


def _units(number: int, unit: str) -> str:
    """How many parts there are, by what they are."""
    return f"{number:,} {unit if number == 1 else unit.replace('class', 'classes').replace('rank', 'ranks')}"


def short(promise: ClassPromise, notion: str, rows: int, classes: int) -> str:
    """A promise in one line that stays short however many classes there are."""
    return (
        f"{type(promise).__name__}({notion}, epsilon {_round_up(promise.epsilon)}, confidence "
        f"{100 * (1 - promise.alpha):.6g} %, {promise.mode}, {_count(rows, 'row')}, {classes:,} classes)"
    )


def empty_promise(epsilon: float, most: float, what: str) -> Refusal | None:
    """The refusal of a promise that every map would keep: ``most`` is as far as anything can be off.

    Examples
    --------
    >>> print(empty_promise(0.9995, 1.0, "bin"))
    No certificate: the rows promise no more than a deviation of at most 1.000 in the worst bin, which is always so: use
    more rows or fewer bins.
    >>> empty_promise(0.9, 1.0, "bin") is None
    True
    """
    if epsilon <= NOTHING * most:
        return None
    return Refusal(
        f"the rows promise no more than a deviation of at most {_round_up(most)} in the worst {what}, which is always "
        f"so: use more rows or fewer {what}s"
    )


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few of some names, and how many there are beyond.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
