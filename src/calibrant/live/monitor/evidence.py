"""Sums from which the bands are read: observed minus predicted, overall, by bin and along the log-odds."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from calibrant.live.monitor.boundary import mixture
from calibrant.live.monitor.rows import FAR, Labeled
from calibrant.live.monitor.run import center_after, centers
from calibrant.live.monitor.wealth import running
from calibrant.messages import Shown, plural
from calibrant.numerics import Floats, Ints

CELL = 0.25
"""Width in log-odds of the cells in which the predictions are counted."""

CELLS = round(2.0 * FAR / CELL)

LEVER = 4.0
"""Distance from the center, in log-odds, at which a row has full weight in the sum for the slope."""


@dataclass(frozen=True)
class Band(Shown):
    """Observed minus predicted, per row, with an interval that holds at every look.

    Attributes
    ----------
    rows
        Number of rows.
    predicted, observed
        Sums of the predictions and of the outcomes.
    difference
        Observed minus predicted, per row.
    low, high
        The interval of the mean difference between the true and the predicted probabilities.
    confidence
        Probability with which the interval holds at all looks together.
    """

    rows: int
    predicted: float
    observed: float
    difference: float
    low: float
    high: float
    confidence: float

    @property
    def off(self) -> bool:
        """Whether 0 is outside."""
        return self.low > 0.0 or self.high < 0.0

    def __str__(self) -> str:
        """The figures."""
        return (
            f"{plural(self.rows, 'row')}: predicted {self.predicted:,.1f}, observed {self.observed:,.1f}; difference "
            f"{self.difference:+.4f} per row ({self.low:+.4f} to {self.high:+.4f})"
        )


@dataclass
class Evidence:
    """Sums since the last restart; the first axis is the sub-stream."""

    sums: Floats
    """Rows, errors, squared errors, errors along the log-odds and their squares, by sub-stream."""
    by_bin: Floats
    """Rows, errors, squared errors and predictions, by sub-stream and bin."""
    cells: Floats
    """Rows, predictions and levers by cell of log-odds."""
    center: Floats

    @classmethod
    def new(cls, lag: int, bins: int) -> Evidence:
        """Without rows."""
        return cls(np.zeros((lag, 5)), np.zeros((lag, bins, 4)), np.zeros((CELLS, 3)), np.zeros(2))

    def since(self, before: Evidence) -> Evidence:
        """What came after an earlier copy."""
        return Evidence(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(Evidence)))

    def add(self, rows: Labeled, streams: Ints) -> None:
        """Add rows in order; the center of the log-odds is that of the rows up to each."""
        if len(rows) == 1 and rows.n is None:
            self._add_one(rows, int(streams[0]))
            return
        if rows.n is None:
            sums = centers(self.center, rows)
            middle = sums[:, 1] / sums[:, 0]
            self.center = sums[-1]
        else:
            self.center = centers(self.center, rows)[-1]
            middle = np.full(len(rows), self.center[1] / self.center[0])
        lever = np.clip((rows.x - middle) / LEVER, -1.0, 1.0)
        n, errors, squares = rows.sizes, rows.errors, rows.squares
        values = np.column_stack([n, errors, squares, errors * lever, squares * lever * lever])
        for stream in np.unique(streams):
            self.sums[stream] = running(self.sums[stream], values[streams == stream])[-1]
        np.add.at(self.by_bin, (streams, rows.bins), np.column_stack([n, errors, squares, n * rows.p]))
        place = np.clip(np.floor((rows.x + FAR) / CELL).astype(np.int64), 0, CELLS - 1)
        np.add.at(self.cells, place, np.column_stack([n, n * rows.p, n * lever]))

    def _add_one(self, rows: Labeled, stream: int) -> None:
        """The same for one row, bit for bit, in plain numbers."""
        self.center, middle = center_after(self.center, rows)
        p, x, error = float(rows.p[0]), float(rows.x[0]), float(rows.events[0] - rows.p[0])
        lever, square = min(max((x - middle) / LEVER, -1.0), 1.0), error * error
        self.sums[stream] += (1.0, error, square, error * lever, square * lever * lever)
        self.by_bin[stream, rows.bins[0]] += (1.0, error, square, p)
        self.cells[min(max(math.floor((x + FAR) / CELL), 0), CELLS - 1)] += (1.0, p, lever)

    @property
    def rows(self) -> int:
        """Rows since the restart."""
        return int(self.sums[:, 0].sum())

    def total(self, alpha: float) -> tuple[float, float]:
        """Sum of the errors, and its boundary, at all looks with error probability alpha."""
        return float(self.sums[:, 1].sum()), _radius(self.sums[:, 2], alpha)

    def along(self, alpha: float) -> tuple[float, float]:
        """Sum of the errors along the log-odds, and its boundary."""
        return float(self.sums[:, 3].sum()), _radius(self.sums[:, 4], alpha)

    def band(self, alpha: float) -> Band:
        """Observed minus predicted, overall."""
        error, radius = self.total(alpha)
        return band_of(self.rows, float(self.cells[:, 1].sum()), error, radius, 1.0 - alpha)

    def bins(self, alpha: float) -> list[Band]:
        """Observed minus predicted by bin; all hold together with error probability alpha."""
        found, each = self.by_bin.sum(axis=0), alpha / self.by_bin.shape[1]
        return [
            band_of(int(n), p, error, _radius(self.by_bin[:, place, 2], each), 1.0 - alpha)
            for place, (n, error, _, p) in enumerate(found.tolist())
        ]


def _radius(squares: Floats, alpha: float) -> float:
    """Boundary of a sum over sub-streams, two-sided: the sum of their boundaries, each with its share of alpha."""
    return float(mixture(squares, alpha / (2.0 * len(squares))).sum())


def band_of(rows: int, predicted: float, error: float, radius: float, confidence: float) -> Band:
    """A band from sums; without rows it is everything."""
    if not rows:
        return Band(0, 0.0, 0.0, 0.0, -1.0, 1.0, confidence)
    low, high = max((error - radius) / rows, -1.0), min((error + radius) / rows, 1.0)
    return Band(rows, predicted, predicted + error, error / rows, low, high, confidence)
