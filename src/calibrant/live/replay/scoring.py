"""How good what a policy served was, and how two policies differ, with intervals by blocks of days."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from calibrant.live.replay.history import History, line_tally
from calibrant.metrics import debiased_ece, sharpness
from calibrant.numerics import Ends, Floats, Ints
from calibrant.selection.losses import row_losses

BLOCK = 7
"""Days of a block, if there are ten such blocks: days of a week differ, and days next to each other are alike."""

BLOCKS = 10
"""Blocks are shorter if there would be fewer than this."""

FEWEST_BLOCKS = 5
"""With fewer blocks there is no interval."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows that count, and their sums by day.

    Attributes
    ----------
    history
        All lines.
    n, events
        Rows and events of each line that count; 0 during the warm-up.
    """

    history: History
    n: Ints
    events: Ints

    @classmethod
    def of(cls, history: History, warm_up: int) -> Judged:
        """Rows from the day ``warm_up`` on."""
        counts = history.day >= warm_up
        return cls(history, history.n * counts, history.events * counts)

    def by_day(self, values: Floats | Ints) -> Floats:
        """Sums over the lines of each day."""
        return np.bincount(self.history.day, values, self.history.days).astype(np.float64)

    def log_losses(self, p: Floats, ends: Ends | None) -> Floats:
        """Sum of log losses of each day, of forecasts clipped to ``ends``."""
        hit, miss = row_losses(p, "log", ends)
        return self.by_day(self.events * hit + (self.n - self.events) * miss)

    def briers(self, p: Floats) -> Floats:
        """Sum of squared errors of each day."""
        return self.by_day(self.events * (1.0 - p) ** 2 + (self.n - self.events) * p**2)

    def calibration(self, p: Floats) -> tuple[float, float]:
        """Debiased calibration error, and sharpness."""
        tally = line_tally(p, self.n, self.events)
        return float(debiased_ece(tally).value), float(sharpness(tally).value)


@dataclass(frozen=True)
class Difference:
    """A mean difference per row, with a 95 % interval.

    Attributes
    ----------
    value
        The mean over rows.
    low, high
        Ends of the interval; NaN with fewer than 5 blocks of days.
    blocks
        Blocks of days with rows.
    block_days
        Days of a block.

    Notes
    -----
    The sums of blocks of consecutive days are taken as independent of each other, with equal means per row; the
    standard error of the ratio of sums is that of blocks, and the quantile is that of Student's t. This ignores
    dependence that is longer than a block. No finite-sample guarantee. Measured on 4,000 simulated histories of 15
    blocks: 94 to 95 % cover the truth, with uneven days and with dependence from day to day; 61 % do if days share a
    draw with others of their month. Reference: Conway (1963), Some tactical problems in digital simulation, for batch
    means.

    Examples
    --------
    >>> Difference.of(np.array([1.0, 3.0, 2.0, 1.0, 3.0, 2.0]), np.full(6, 10.0)).value
    0.2
    """

    value: float
    low: float
    high: float
    blocks: int
    block_days: int

    @classmethod
    def of(cls, sums: Floats, rows: Floats) -> Difference:
        """From sums and rows by day."""
        length = max(1, min(BLOCK, int(np.count_nonzero(rows)) // BLOCKS))
        starts = np.arange(0, len(rows), length)
        totals, sizes = np.add.reduceat(sums, starts), np.add.reduceat(rows, starts)
        totals, sizes = totals[sizes > 0], sizes[sizes > 0]
        blocks, all_rows = len(sizes), float(sizes.sum())
        value = float(totals.sum()) / all_rows if all_rows else math.nan
        if blocks < FEWEST_BLOCKS:
            return cls(value, math.nan, math.nan, blocks, length)
        spread = float(((totals - value * sizes) ** 2).sum()) * blocks / (blocks - 1)
        half = float(stdtrit(blocks - 1, 0.975)) * math.sqrt(spread) / all_rows
        return cls(value, value - half, value + half, blocks, length)
