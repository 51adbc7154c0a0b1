"""A short record of a stream: cumulative sums at up to 128 rows, for the onset of a change and for pictures."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field

import numpy as np

from calibrant.live.monitor.boundary import mixture
from calibrant.live.monitor.evidence import Evidence
from calibrant.live.monitor.rows import Labeled
from calibrant.live.monitor.wealth import running
from calibrant.numerics import Floats

MOST, FIRST_STRIDE = 128, 64


@dataclass(frozen=True)
class Point:
    """Sums at a row: since the first row, and since the evidence began."""

    row: int
    at: float
    run: int
    errors: float
    information: float
    n: float
    difference: float
    squares: float
    log_e: float


@dataclass
class History:
    """Points at multiples of a stride, which doubles when there are too many."""

    stride: int = FIRST_STRIDE
    points: list[Point] = field(default_factory=list)
    sums: Floats = field(default_factory=lambda: np.zeros(5))
    """Errors and information since the first row; rows, errors and squares since the evidence began."""

    def add(self, rows: Labeled, before: int, run: int, log_e: Floats) -> None:
        """Add rows to the sums, and write points down; ``before`` is the number of rows so far."""
        if len(rows) == 1 and rows.n is None and (before + 1) % self.stride:
            p, error = float(rows.p[0]), float(rows.events[0] - rows.p[0])
            self.sums = self.sums + np.array([error, p * (1.0 - p), 1.0, error, error * error])
            return
        n, errors = rows.sizes, rows.errors
        values = np.column_stack([errors, n * rows.p * (1.0 - rows.p), n, errors, rows.squares])
        table = running(self.sums, values)[1:]
        self.sums = table[-1]
        if rows.n is not None:  # a tally is one look
            if (before + int(n.sum())) // self.stride > before // self.stride:
                self._note(before + int(n.sum()), float(rows.at[-1]), run, table[-1], float(log_e[-1]))
            return
        row = before
        while (row := (row // self.stride + 1) * self.stride) <= before + len(rows):
            place = row - before - 1
            self._note(row, float(rows.at[place]), run, table[place], float(log_e[place]))

    def forget_evidence(self, kept: Evidence) -> None:
        """Begin the sums of the evidence again with what is kept of it."""
        self.sums = np.append(self.sums[:2], kept.sums[:, :3].sum(axis=0))

    def _note(self, row: int, at: float, run: int, sums: Floats, log_e: float) -> None:
        errors, information, n, difference, squares = sums.tolist()
        self.points.append(Point(row, at, run, errors, information, n, difference, squares, log_e))
        if len(self.points) > MOST:
            self.stride *= 2
            self.points = self.points[1::2]

    def onset(self, run: int, start: tuple[int, float, float]) -> tuple[int, float, float]:
        """Row, time and shift of the most likely change within a run, from sums at its points; an estimate.

        ``start`` is the row of the restart with errors and information there.
        """
        errors, information = self.sums[:2].tolist()
        begins = [(start[0], math.nan, start[1], start[2])]
        begins += [(each.row, each.at, each.errors, each.information) for each in self.points if each.run == run]
        best, found = -1.0, (start[0] + 1, math.nan, 0.0)
        for row, at, before, known in begins:
            excess, weight = errors - before, information - known
            if weight > 0.0 and excess * excess / weight > best:
                best, found = excess * excess / weight, (row + 1, at, excess / weight)
        return found

    def table(self, alpha: float, lag: int) -> dict[str, list[float]]:
        """The points as columns, with the ends of the band of the mean difference at each.

        The band of several sub-streams is the sum of theirs. The boundary is concave in the sum of squares, so that sum
        is at most the number of sub-streams times the boundary at the mean of their sums.
        """
        names = Point.__dataclass_fields__
        columns = list(zip(*map(astuple, self.points), strict=True)) if self.points else [()] * len(names)
        found = {name: list(column) for name, column in zip(names, columns, strict=True)}
        n, total, squares = (np.array(found[name], dtype=np.float64) for name in ("n", "difference", "squares"))
        radius = lag * mixture(squares / lag, alpha / (2.0 * lag)) if len(n) else n
        ends = {"low": np.maximum((total - radius) / n, -1.0), "high": np.minimum((total + radius) / n, 1.0)}
        return found | {name: end.tolist() for name, end in ends.items()}
