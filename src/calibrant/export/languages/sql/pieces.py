"""A map split into pieces on each of which it is monotone and has a simple formula.

SQL has no names for intermediate results: written naively, a table after a curve repeats the curve in every comparison,
and a table after a table multiplies their lengths. Split into pieces of the raw score, a composition needs only
comparisons with numbers, and its length is the sum of the lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.numerics import LARGEST_DOUBLE, Floats, first_double

Template = Callable[..., str]
"""Function of the dialect, the text of the score and the text of each number that returns the text of the result."""


@dataclass(frozen=True)
class Formula:
    """Templates with their numbers, in the order of application."""

    steps: tuple[tuple[Template, tuple[float, ...]], ...]

    @property
    def shape(self) -> tuple[tuple[Template, int], ...]:
        """The formula without its numbers: templates, and how many numbers each needs."""
        return tuple((template, len(numbers)) for template, numbers in self.steps)

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers in their order."""
        return tuple(number for _, numbers in self.steps for number in numbers)


Leaf = Formula | float

MAX_CROSSINGS = 100_000
"""Largest number of pieces; more would give a text that no engine accepts, and take hours for a small document."""

NEGLIGIBLE = 1e-290
"""Terms below this do not change a probability; in some engines their underflow is an error."""


@dataclass(frozen=True)
class Pieces:
    """Leaf j where j knots are at or below the score: a formula, or a constant."""

    knots: Floats
    leaves: Sequence[Leaf]

    @property
    def numbers(self) -> int:
        """Total number of numbers."""
        return len(self.knots) + sum(len(leaf.numbers) if isinstance(leaf, Formula) else 1 for leaf in self.leaves)

    def merged(self) -> Pieces:
        """The same function without knots between equal leaves."""
        last = [*(a != b for a, b in zip(self.leaves, self.leaves[1:], strict=False)), True]
        leaves = [leaf for leaf, kept in zip(self.leaves, last, strict=True) if kept]
        return Pieces(self.knots[np.array(last[:-1], dtype=bool)], leaves)


def chained(first: Pieces, first_map: Map, then: Pieces, then_map: Map) -> Pieces:
    r"""The second function after the first, in pieces of the first one's score.

    Inside a piece of the first map f, which is monotone there, a knot k of the second is crossed at one score: the
    smallest double s with :math:`f(s) \ge k`, or :math:`f(s) < k` if f decreases, found by bisection over the doubles
    with f as numpy computes it. So a step map after a curve gives the values of ``apply``, except if f(s) is within
    rounding of k.

    Cost: 64 evaluations of f on as many scores as there are crossings.
    """
    low = np.append(-LARGEST_DOUBLE, first.knots)
    high = np.append(np.nextafter(first.knots, -np.inf), LARGEST_DOUBLE)
    start, end = first_map.apply(low), first_map.apply(high)
    constant = np.array([isinstance(leaf, float) for leaf in first.leaves])
    least, most = np.minimum(start, end), np.maximum(start, end)
    begin = np.searchsorted(then.knots, np.where(constant, start, least), side="right")
    crossed = np.where(constant, 0, np.searchsorted(then.knots, most, side="right") - begin)
    if crossed.sum() > MAX_CROSSINGS:
        raise InputError("map", f"needs {crossed.sum():,} pieces in SQL", "use coarser parts before exporting it")
    piece = np.repeat(np.arange(len(low)), crossed)
    within = np.arange(len(piece)) - np.repeat(np.cumsum(crossed) - crossed, crossed)
    falls = (start > end)[piece]
    which = np.where(falls, begin[piece] + crossed[piece] - 1 - within, begin[piece] + within)
    marks = then.knots[which]
    places = first_double(lambda s: (first_map.apply(s) >= marks) != falls, low[piece], high[piece])
    knots: list[float] = []
    leaves: list[Leaf] = []
    place = 0
    for j, leaf in enumerate(first.leaves):
        if j:
            knots.append(first.knots[j - 1].item())
        if isinstance(leaf, float):
            leaves.append(then_map.apply(leaf).item())
            continue
        count, step = int(crossed[j]), -1 if start[j] > end[j] else 1
        index = int(begin[j]) + (count if step < 0 else 0)
        leaves.append(_after(leaf, then.leaves[index]))
        for crossing in places[place : place + count].tolist():
            index += step
            if knots and crossing == knots[-1]:  # f jumps over two knots between neighboring doubles
                leaves.pop()
            else:
                knots.append(crossing)
            leaves.append(_after(leaf, then.leaves[index]))
        place += count
    return Pieces(np.array(knots), leaves)


def _after(first: Formula, then: Leaf) -> Leaf:
    if isinstance(then, float):
        return then
    return Formula(first.steps + then.steps)
