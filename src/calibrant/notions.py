"""Which binary claims a multiclass notion of calibration makes.

A forecaster that gives a row of class probabilities can be calibrated in several senses (002 Table 5.1). Each sense
here is one small value. It says which claims "the label is class c, with probability g" are to hold, and on what they
are conditioned; metrics, calibrators, certificates and pictures all read it, so that each sense is written down once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import InputError
from calibrant.arrays.columns import is_whole
from calibrant.maps.classes import top_labels


@dataclass(frozen=True)
class Claim:
    """One binary claim about every row: the class that it names, and how likely it says that class is.

    Attributes
    ----------
    rank
        The class of the rank-th largest score, from 1; None where the class is the same in all rows.
    column
        That class; None where it depends on the row.
    by_label
        Whether the claim is to hold among the rows of each named class separately.
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


@dataclass(frozen=True, eq=False)
class Problem:
    """One binary calibration problem: rows, the probability claimed in each, and the class that it is about.

    Attributes
    ----------
    claim
        Place of its claim among those of the notion.
    column
        The class whose rows these are; None where rows of all classes are together.
    rows
        Indices of the rows, increasing; None for all.
    scores
        The probability claimed in each of these rows.
    named
        The class that it is claimed for.
    """

    claim: int
    column: int | None
    rows: NDArray[np.intp] | None
    scores: NDArray[Any]
    named: NDArray[np.intp]

    def events(self, labels: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether the claim came true, by row of the problem."""
        return np.asarray(self.pick(labels) == self.named)

    def pick(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the rows of the problem."""
        return values if self.rows is None else values[self.rows]


@dataclass(frozen=True)
class Notion:
    """A sense in which rows of class probabilities can be calibrated.

    An error of the notion is the mean over its claims; the error of a claim that holds by label is the mean over rows,
    that is, over named classes by how often they are named (002 eq. 5.4).
    """

    name: ClassVar[str]

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """The binary claims that it makes about rows of so many classes."""
        raise NotImplementedError

    def problems(self, p: NDArray[Any]) -> Iterator[Problem]:
        """The binary data sets of a matrix of probabilities, claim by claim and class by class (002 Algorithm 5.5).

        A class that no row names has a problem without rows.
        """
        for place, claim in enumerate(self.claims(p.shape[1])):
            named, scores = claim.read(p)
            if not claim.by_label:
                yield Problem(place, claim.column, None, scores, named)
                continue
            order = np.argsort(named, kind="stable")
            ends = np.cumsum(np.bincount(named, minlength=p.shape[1]))
            for j in range(p.shape[1]):
                rows = order[ends[j - 1] if j else 0 : ends[j]]
                yield Problem(place, j, rows, scores[rows], named[rows])

    def __str__(self) -> str:
        """Its name."""
        return self.name


@dataclass(frozen=True)
class Confidence(Notion):
    r"""Among all rows with top probability r, whatever their class, a share r is right (002 eq. 5.1).

    .. math:: P(Y = c(X) \mid h(X)) = h(X)

    The weakest notion: classes that err in opposite directions hide each other (002 Example 5.1).

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in Confidence().problems(p)]
    [[0.6, 0.7]]
    """

    name: ClassVar[str] = "confidence"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """One claim, for all classes together."""
        return (Claim(1, None, False),)


@dataclass(frozen=True)
class TopLabel(Notion):
    r"""Among rows where class l is predicted with probability r, a share r is of class l (002 eq. 5.2).

    .. math:: P(Y = c(X) \mid h(X), c(X)) = h(X)

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in TopLabel().problems(p)]
    [[0.6], [0.7]]
    """

    name: ClassVar[str] = "top-label"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """One claim, to hold for each predicted class."""
        return (Claim(1, None, True),)


@dataclass(frozen=True)
class ClassWise(Notion):
    r"""For every class l: among rows that give it probability r, a share r is of class l (002 eq. 5.5).

    .. math:: P(Y = l \mid h_l(X)) = h_l(X) \quad\text{for every } l

    Examples
    --------
    >>> p = np.array([[0.6, 0.4], [0.3, 0.7]])
    >>> [problem.scores.tolist() for problem in ClassWise().problems(p)]
    [[0.6, 0.3], [0.4, 0.7]]
    """

    name: ClassVar[str] = "class-wise"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """A claim for each class."""
        return tuple(Claim(None, column, False) for column in range(classes))


@dataclass(frozen=True)
class TopKConfidence(Notion):
    r"""Confidence for each of the k most likely classes (002 eq. 5.6)."""

    k: int = 3

    name: ClassVar[str] = "top-k-confidence"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """A claim for each rank."""
        return tuple(Claim(rank, None, False) for rank in range(1, _ranks(self.k, classes) + 1))


@dataclass(frozen=True)
class TopKLabel(Notion):
    r"""Top-label for each of the k most likely classes (002 eq. 5.7)."""

    k: int = 3

    name: ClassVar[str] = "top-k-label"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """A claim for each rank, to hold for each class."""
        return tuple(Claim(rank, None, True) for rank in range(1, _ranks(self.k, classes) + 1))


@dataclass(frozen=True)
class Canonical(Notion):
    r"""Among rows with the probabilities r, classes are distributed as r says, all at once (002 section 5.G).

    .. math:: E[\mathbf Y \mid \mathbf h(X)] = \mathbf h(X)

    The strongest notion, and no set of binary claims: it implies the class-wise one (002 Proposition 5.1), not the
    other way round. It can be reached and measured for few classes only.
    """

    name: ClassVar[str] = "canonical"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        """None: whoever needs binary claims cannot use it."""
        raise InputError(
            "canonical calibration is about whole rows and makes no binary claims: use the notion 'class-wise', which "
            "it implies, or SimplexBinning for few classes"
        )


NOTIONS: dict[str, type[Notion]] = {
    cls.name: cls for cls in (Confidence, TopLabel, ClassWise, TopKConfidence, TopKLabel, Canonical)
}
"""Every notion, by name."""


def as_notion(given: Notion | str) -> Notion:
    """A notion, or the one of that name.

    Examples
    --------
    >>> as_notion("top-label"), as_notion(TopKLabel(5))
    (TopLabel(), TopKLabel(k=5))
    """
    if isinstance(given, Notion):
        return given
    if given not in NOTIONS:
        raise InputError(f"notion must be one of {', '.join(map(repr, NOTIONS))}, got {given!r}")
    return NOTIONS[given]()


def _ranks(k: int, classes: int) -> int:
    if not is_whole(k) or not 1 <= k <= classes:
        raise InputError(f"k must be a whole number from 1 to the number of classes, {classes}, got {k!r}")
    return int(k)
