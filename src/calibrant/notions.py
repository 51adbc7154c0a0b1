"""Notions of multiclass calibration, and the binary claims that each of them makes.

Class probabilities can be calibrated in several senses (Gupta 2023, Table 5.1). Each notion here is one small value. It
defines which claims "the label is class c, with probability g" must hold, and on what they are conditioned. Metrics,
calibrators, certificates and displays all use it, so that each notion is defined once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import is_whole
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.maps.classes import blocks, held, softmax, top_labels
from calibrant.messages import InputError, Setting, listed, public_names
from calibrant.numerics import Floats

__all__ = [
    "NOTIONS",
    "Canonical",
    "Claim",
    "Classwise",
    "Confidence",
    "Notion",
    "TopKConfidence",
    "TopKLabel",
    "TopLabel",
]

__dir__ = public_names(__all__)

COLUMN_BLOCK = 16
"""Number of columns of a matrix that are transposed together, for full use of cache lines."""


@dataclass(frozen=True)
class Claim:
    """One binary claim about every row: a class and its claimed probability.

    Attributes
    ----------
    rank
        The claim is about the class of the rank-th largest score, from 1; None if the class is the same in all rows.
    column
        That class; None if it depends on the row.
    by_label
        Whether the claim must hold among the rows of each named class separately.

    Examples
    --------
    >>> Confidence().claims(3)
    (Claim(rank=1, column=None, by_label=False),)
    """

    rank: int | None
    column: int | None
    by_label: bool

    def read(self, p: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """The named class and its probability in each row of ``p``."""
        if self.rank is None:
            assert self.column is not None
            return np.full(len(p), self.column, dtype=np.intp), p[:, self.column]
        named = top_labels(p, self.rank)[:, -1]
        return named, np.take_along_axis(p, named[:, None], axis=1)[:, 0]

    def problems(self, place: int, named: NDArray[np.intp], scores: NDArray[Any], classes: int) -> Iterator[Problem]:
        """The binary data sets of the result of :meth:`read`: one, or one for each class.

        Parameters
        ----------
        place
            Index of this claim among those of the notion, stored in each problem.
        named, scores
            The result of :meth:`read`.
        classes
            Number of classes.
        """
        if not self.by_label:
            yield Problem(place, self.column, None, scores, named)
            return
        order = np.argsort(named, kind="stable")
        ends = np.cumsum(np.bincount(named, minlength=classes))
        for j in range(classes):
            rows = order[ends[j - 1] if j else 0 : ends[j]]
            yield Problem(place, j, rows, scores[rows], named[rows])


@dataclass(frozen=True, eq=False)
class Problem:
    """One binary calibration problem: rows, the claimed probability of each, and the class that it refers to.

    Attributes
    ----------
    claim
        Index of its claim among those of the notion.
    column
        The class named by these rows; None if rows of all classes are together.
    rows
        Indices of the rows, ascending; None for all.
    scores
        The claimed probability in each of these rows.
    named
        The class to which it refers.
    """

    claim: int
    column: int | None
    rows: NDArray[np.intp] | None
    scores: NDArray[Any]
    named: NDArray[np.intp]

    def events(self, labels: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether the claim is true, for each row of the problem."""
        return np.asarray(self.pick(labels) == self.named)

    def pick(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the rows of the problem."""
        return values if self.rows is None else values[self.rows]


class Certified(NamedTuple):
    """The theorem behind a certificate of a notion (docs/certificates/classes.md), and its wording."""

    theorem: str
    among: str
    """The rows to which the share refers."""
    meets: str
    """The same for one new row."""
    every: str = "for every class and each of its bins"
    unit: tuple[str, str] = ("class", "classes")
    """Name of the parts of the certificate, singular and plural."""


@dataclass(frozen=True)
class Notion(ABC):
    """Base class of notions of multiclass calibration.

    The error of a notion is the mean over its claims. The error of a claim by label is the mean over rows, that is,
    over named classes weighted by how often they are named (Gupta 2023, eq. 5.4).
    """

    name: ClassVar[str]
    certified: ClassVar[Certified | None] = None
    """None if no theorem here covers it."""
    class_axis: ClassVar[str | None] = None
    """Axis label of the classes in displays of the error by class; None if classes have no separate error."""

    @abstractmethod
    def claims(self, classes: int) -> tuple[Claim, ...]:
        """The binary claims that it makes about rows of this many classes."""

    def supported_claims(self, classes: int) -> tuple[Claim, ...]:
        """The claims, if maps and metrics support them: about ranks 1 to k in order, or about every class in order."""
        claims = self.claims(classes)
        k = len(claims)
        by_rank = claims in [tuple(Claim(rank + 1, None, each) for rank in range(k)) for each in (False, True)]
        by_class = claims == tuple(Claim(None, column, False) for column in range(classes))
        if not claims or not (by_rank or by_class):
            raise InputError(
                Setting("notion", self.name),
                "makes claims of a form that maps and metrics do not support",
                "claim ranks 1 to k in order, or every class in order",
            )
        return claims

    def problems(self, p: NDArray[Any]) -> Iterator[Problem]:
        """The binary data sets of a matrix of probabilities, by claim and class (Gupta 2023, Algorithm 5.5).

        A class that no row names has a problem without rows.
        """
        for place, claim in enumerate(self.claims(p.shape[1])):
            yield from claim.problems(place, *claim.read(p), p.shape[1])

    def row_problems(self, rows: MulticlassRows) -> Iterator[Problem]:
        """Like :meth:`problems`, for checked rows and in float64, without a copy of the matrix of probabilities.

        Logits go through softmax, and classes are ranked by the original scores, both as in a multiclass map, so that
        knots of the map are exactly these doubles. Columns are read in blocks. Cost: one pass over the matrix, and one
        sort of each row if there are two ranks or more.
        """
        size = len(rows.classes)
        claims = self.supported_claims(size)
        if claims[0].rank is None:
            wanted = [claim.column or 0 for claim in claims]
            for place, scores in enumerate(_columns(rows, wanted)):
                yield Problem(place, wanted[place], None, scores, np.full(len(rows), wanted[place], dtype=np.intp))
            return
        named, values = _tops(rows, max(claim.rank or 1 for claim in claims))
        for place, claim in enumerate(claims):
            at = (claim.rank or 1) - 1
            yield from claim.problems(place, named[:, at], values[:, at], size)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Confidence(Notion):
    r"""Confidence calibration: of all rows with top probability r, whatever their class, a share r is right.

    .. math:: P(Y = c(X) \mid h(X)) = h(X)

    (Gupta 2023, eq. 5.1). This is the weakest notion: errors of classes in opposite directions cancel (Example 5.1
    there).

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in Confidence().problems(p)]
    [[0.6, 0.7]]
    """

    name: ClassVar[str] = "confidence"
    certified: ClassVar[Certified | None] = Certified(
        "Algorithm 5.1",
        "among rows whose most likely class has that probability, the share for which it is right",
        "in the bin that it falls in, the share of rows whose most likely class is right",
        every="in every bin",
        unit=("rank", "ranks"),
    )

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """One claim, for all classes together."""
        return (Claim(1, None, False),)


@dataclass(frozen=True)
class TopLabel(Notion):
    r"""Top-label calibration: of rows where class l is predicted with probability r, a share r is of class l.

    .. math:: P(Y = c(X) \mid h(X), c(X)) = h(X)

    Reference: Gupta (2023), eq. 5.2.

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in TopLabel().problems(p)]
    [[0.6], [0.7]]
    """

    name: ClassVar[str] = "top-label"
    class_axis: ClassVar[str | None] = "Class named"
    certified: ClassVar[Certified | None] = Certified(
        "Theorem 5.1",
        "among rows predicted as that class with that probability, the true share of the class",
        "in the bin of its predicted class that it falls in, the true share of that class",
    )

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """One claim, to hold for each predicted class."""
        return (Claim(1, None, True),)


@dataclass(frozen=True)
class Classwise(Notion):
    r"""Class-wise calibration: for every class l, of rows that give it probability r, a share r is of class l.

    .. math:: P(Y = l \mid h_l(X)) = h_l(X) \quad\text{for every } l

    Reference: Gupta (2023), eq. 5.5.

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in Classwise().problems(p)]
    [[0.6, 0.3], [0.4, 0.7]]
    """

    name: ClassVar[str] = "class-wise"
    class_axis: ClassVar[str | None] = "Class"
    certified: ClassVar[Certified | None] = Certified(
        "Theorem 5.2",
        "among rows that give that class that probability, the true share of the class",
        "for all classes at once, in the bin of a class that it falls in, the true share of that class",
    )

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """A claim for each class."""
        return tuple(Claim(None, column, False) for column in range(classes))


@dataclass(frozen=True)
class TopK(Notion):
    """A claim for each of the k most likely classes."""

    k: int = 3

    by_label: ClassVar[bool]
    """Whether each claim must hold for each class separately."""

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """A claim for each rank."""
        if not is_whole(self.k) or not 1 <= self.k <= classes:
            problem = f"must be an integer from 1 to the number of classes, {classes}, got {self.k!r}"
            raise InputError("k", problem)
        return tuple(Claim(rank, None, self.by_label) for rank in range(1, int(self.k) + 1))


class TopKConfidence(TopK):
    r"""Confidence calibration for each of the k most likely classes (Gupta 2023, eq. 5.6).

    Parameters
    ----------
    k : int
        Number of classes per row, from 1 to the number of classes.

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in TopKConfidence(2).problems(p)]
    [[0.6, 0.7], [0.4, 0.3]]
    """

    by_label: ClassVar[bool] = False
    name: ClassVar[str] = "top-k-confidence"
    certified: ClassVar[Certified | None] = Certified(
        "Algorithm 5.7",
        "among rows whose class of that rank has that probability, the share for which it is right",
        "for all ranks at once, in the bin of a rank that it falls in, the share of rows whose class of that rank is "
        "right",
        every="for every rank and each of its bins",
        unit=("rank", "ranks"),
    )


class TopKLabel(TopK):
    r"""Top-label calibration for each of the k most likely classes (Gupta 2023, eq. 5.7).

    Parameters
    ----------
    k : int
        Number of classes per row, from 1 to the number of classes.

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in TopKLabel(2).problems(p)]
    [[0.6], [0.7], [0.3], [0.4]]
    """

    by_label: ClassVar[bool] = True
    name: ClassVar[str] = "top-k-label"
    certified: ClassVar[Certified | None] = Certified(
        "Theorem 5.1 for each rank",
        "among rows where that class has that rank and that probability, the true share of the class",
        "for all ranks at once, in the bin of its class of a rank that it falls in, the true share of that class",
        every="for every rank and class and each of its bins",
        unit=("class and rank", "classes and ranks"),
    )


@dataclass(frozen=True)
class Canonical(Notion):
    r"""Canonical calibration: of rows with the probabilities r, the joint class distribution is r.

    .. math:: E[\mathbf Y \mid \mathbf h(X)] = \mathbf h(X)

    The strongest notion, and not a set of binary claims. It implies class-wise calibration (Gupta 2023, Proposition
    5.1 and section 5.G), but not conversely. It can be achieved and measured only for few classes.

    Examples
    --------
    >>> str(as_notion("canonical"))
    'canonical'
    """

    name: ClassVar[str] = "canonical"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """Raises an error: it cannot be used where binary claims are needed."""
        raise InputError(
            Setting("notion", self.name),
            "refers to all classes jointly and has no binary claims",
            "use 'class-wise', which it implies, or SimplexBinning for few classes",
        )


NOTIONS: dict[str, type[Notion]] = {
    cls.name: cls for cls in (Confidence, TopLabel, Classwise, TopKConfidence, TopKLabel, Canonical)
}
"""Every notion, by name."""


def as_notion(given: Notion | str) -> Notion:
    """A notion, from itself or from its name.

    Examples
    --------
    >>> as_notion("top-label"), as_notion(TopKLabel(5))
    (TopLabel(), TopKLabel(k=5))
    """
    if isinstance(given, Notion):
        return given
    if given not in NOTIONS:
        raise InputError("notion", f"must be one of {', '.join(map(repr, NOTIONS))}, got {given!r}")
    return NOTIONS[given]()


def notion_by_class(given: Notion | str) -> Notion:
    """A notion in which each class has a separate error; an error for other notions."""
    notion = as_notion(given)
    if notion.class_axis is None:
        known = listed([repr(name) for name, kind in NOTIONS.items() if kind.class_axis is not None], "or")
        raise InputError(Setting("notion", notion.name), "has no error by class", f"use {known}")
    return notion


def _columns(rows: MulticlassRows, wanted: list[int]) -> Iterator[Floats]:
    """The wanted columns as probabilities, one after the other."""
    sums = _softmax_sums(rows) if rows.score_type == "logit" else None
    for start in range(0, len(wanted), COLUMN_BLOCK):
        block = np.array(rows.scores[:, wanted[start : start + COLUMN_BLOCK]].T, dtype=np.float64, order="C")
        for column in block:
            column += 0.0  # a negative zero is zero
            yield column if sums is None else np.exp(held(column) - sums[0]) / sums[1]


def _softmax_sums(rows: MulticlassRows) -> tuple[Floats, Floats]:
    """Largest logit of each row, and the sum that :func:`softmax` divides by."""
    largest, total = np.empty(len(rows)), np.empty(len(rows))
    for part in blocks(rows.scores):
        z = held(rows.scores[part].astype(np.float64, copy=False))
        largest[part] = z.max(axis=1)
        total[part] = np.exp(z - largest[part, None]).sum(axis=1)
    return largest, total


def _tops(rows: MulticlassRows, ranks: int) -> tuple[NDArray[np.intp], Floats]:
    """The classes of the largest scores of each row, and their probabilities."""
    named, values = np.empty((len(rows), ranks), dtype=np.intp), np.empty((len(rows), ranks))
    for part in blocks(rows.scores):
        s = rows.scores[part].astype(np.float64, copy=False)
        named[part] = top_labels(s, ranks)
        p = softmax(s) if rows.score_type == "logit" else s
        values[part] = np.take_along_axis(p, named[part], axis=1) + 0.0
    return named, values
