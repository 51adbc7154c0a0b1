"""Rows for repeated fits in constant memory: the last rows, or all rows on a grid."""

from __future__ import annotations

from collections import deque
from typing import Self

import numpy as np

from calibrant.numerics import Floats, Grid
from calibrant.online.limits import SLACK, changed
from calibrant.online.states import finite
from calibrant.tallies import Cells, Tally

GRID = Grid(6)
"""Cells of at most 1/32 in log-odds, each with its mean score: the error of fits is far below the sampling error."""

FARTHEST_INSIDE = 2.0**30
"""Positions inside a cell are below this."""

LIGHTEST = 1e-12
"""A cell with less than this share of the weight is dropped."""


class Latest:
    """The last ``size`` rows.

    Examples
    --------
    >>> pool = Latest(2)
    >>> for row in ((0.1, 0.0), (0.5, 1.0), (0.5, 0.0)):
    ...     pool.add(*row)
    >>> pool.tally()
    Tally(2 rows, 1 events, 1 cells, exact, score_type='probability')
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.scores: deque[float] = deque(maxlen=size)
        self.labels: deque[float] = deque(maxlen=size)

    def add(self, score: float, label: float) -> None:
        """Add one row, and drop the oldest if the pool is full."""
        self.scores.append(score)
        self.labels.append(label)

    def with_row(self, score: float, label: float) -> Self:
        """A copy with one more row."""
        found = type(self)(self.size)
        found.scores.extend(self.scores)
        found.labels.extend(self.labels)
        found.add(score, label)
        return found

    def tally(self) -> Tally:
        """Tally of the rows."""
        keys, place = np.unique(np.array(self.scores), return_inverse=True)
        n = np.bincount(place, minlength=len(keys))
        events = np.bincount(place, np.array(self.labels), minlength=len(keys)).astype(np.int64)
        return Tally(Cells(keys, n, events))

    def clear(self) -> None:
        """Drop all rows."""
        self.scores.clear()
        self.labels.clear()

    def numbers(self) -> list[float]:
        """Number of rows, their scores, and their labels."""
        return [float(len(self.scores)), *self.scores, *self.labels]

    def check(self, numbers: list[float], seen: int, last_fit: int) -> None:
        """Reject numbers that cannot be those of the last rows of a stream of this length."""
        n = min(seen, self.size)
        scores, labels = numbers[1 : 1 + n], numbers[1 + n :]
        right = numbers[:1] == [n] and len(labels) == n and finite(numbers)
        if not right or not all(0.0 <= x <= 1.0 for x in scores) or not all(y in (0.0, 1.0) for y in labels):
            raise changed("rows")

    def resume(self, numbers: list[float]) -> None:
        """Set the rows from stored numbers."""
        n = int(numbers[0])
        self.clear()
        self.scores.extend(numbers[1 : 1 + n])
        self.labels.extend(numbers[1 + n :])


class Gridded:
    """All rows so far, on a grid; with a half-life, a row counts half after this many later rows.

    Rows are kept in a list until the next tally, which must come after at most ``most`` of them.

    Examples
    --------
    >>> pool = Gridded(4, half_life=1.0)
    >>> for row in ((0.1, 0.0), (0.5, 1.0), (0.5, 0.0)):  # with weights 1/4, 1/2 and 1
    ...     pool.add(*row)
    >>> tally = pool.tally()
    >>> (tally.events / tally.n).round(6).tolist(), round(tally.effective_size, 6)
    ([0.0, 0.333333], 2.333333)
    """

    def __init__(self, most: int, half_life: float | None = None) -> None:
        self.half_life = half_life
        self.waiting = Latest(most)
        self.columns = np.zeros((3, 2 * GRID.top + 1))  # sums of weight, of events, and of position in the cell
        self.squares = 0.0

    def add(self, score: float, label: float) -> None:
        """Add one row."""
        self.waiting.add(score, label)

    def with_row(self, score: float, label: float) -> Self:
        """A copy with one more row."""
        found = type(self)(self.waiting.size, self.half_life)
        found.waiting, found.squares = self.waiting.with_row(score, label), self.squares
        found.columns[:] = self.columns
        return found

    def tally(self) -> Tally:
        """Tally of the rows, with weights scaled to add up to the effective sample size."""
        self._sort_in()
        weight, events, inside = self.columns
        kept = np.flatnonzero(weight)
        unit = float(weight.sum()) / self.squares
        cells = Cells((kept - GRID.top).astype(np.int32), weight[kept] * unit, events[kept] * unit, inside[kept] * unit)
        return Tally(cells, grid=GRID, resolution="grid", counts=False)

    def _sort_in(self) -> None:
        scores, labels = np.array(self.waiting.scores), np.array(self.waiting.labels)
        code, inside = GRID.cells(scores)
        weights, fade = self._ages(len(scores))
        size = self.columns.shape[1]
        self.columns *= fade
        for column, values in zip(self.columns, (weights, weights * labels, weights * inside), strict=True):
            column += np.bincount(code + GRID.top, values, minlength=size)
        self.squares = self.squares * fade * fade + float((weights * weights).sum())
        self.columns[:, self.columns[0] < LIGHTEST * self.columns[0].sum()] = 0.0
        self.waiting.clear()

    def _ages(self, n: int) -> tuple[Floats, float]:
        """Weights of this many new rows, and the factor for the weights of earlier rows."""
        if self.half_life is None:
            return np.ones(n), 1.0
        return np.exp2(-np.arange(n - 1.0, -1.0, -1.0) / self.half_life), float(np.exp2(-n / self.half_life))

    def clear(self) -> None:
        """Drop all rows."""
        self.waiting.clear()
        self.columns[:] = 0.0
        self.squares = 0.0

    def numbers(self) -> list[float]:
        """Sum of squared weights, rows in the list, and nonempty cells with their indices."""
        kept = np.flatnonzero(self.columns[0])
        return [self.squares, *self.waiting.numbers(), *kept.tolist(), *self.columns[:, kept].ravel().tolist()]

    def check(self, numbers: list[float], seen: int, last_fit: int) -> None:
        """Reject numbers that do not match this many rows, on the grid up to the last fit, or invalid cells."""
        split = 2 + 2 * (seen - last_fit)
        self.waiting.check(numbers[1:split], seen - last_fit, 0)
        if len(numbers[split:]) % 4 or not finite([numbers[0], *numbers[split:]]):
            raise changed("cells")
        squares, (place, weight, events, inside) = numbers[0], self._cells(numbers)
        more = 1.0 + SLACK
        if not ((weight > 0.0) & (weight <= last_fit * more)).all():
            raise changed("cells")
        right = (events >= 0.0) & (events <= weight * more)
        right &= (inside >= 0.0) & (inside <= weight * FARTHEST_INSIDE * more) & (place == np.floor(place))
        right &= (place >= 0.0) & (place < self.columns.shape[1])
        if not right.all() or not (np.diff(place) > 0.0).all():
            raise changed("cells")
        total = float(weight.sum())
        # A row weighs at most 1, so weights sum to at least their squares; Cauchy-Schwarz gives the upper bound.
        sums = squares <= total * more and total <= last_fit * more and total * total <= squares * last_fit * more
        if not sums or (total > 0.0) != (last_fit > 0):
            raise changed("cells")

    @staticmethod
    def _cells(numbers: list[float]) -> Floats:
        """Indices of cells, and their columns."""
        return np.array(numbers[2 + 2 * int(numbers[1]) :], dtype=np.float64).reshape(4, -1)

    def resume(self, numbers: list[float]) -> None:
        """Set the rows from stored numbers."""
        place, *columns = self._cells(numbers)
        self.clear()
        self.squares = float(numbers[0])
        self.waiting.resume(numbers[1 : 2 + 2 * int(numbers[1])])
        self.columns[:, place.astype(np.intp)] = columns
