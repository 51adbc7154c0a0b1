"""One run of the alarm: e-processes of level, slope and bins since the last restart, on one sub-stream."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.live.monitor.rows import Labeled
from calibrant.live.monitor.wealth import Wealth, log_ratios, log_sum, running
from calibrant.numerics import Floats

SHIFTS = np.array([sign * size for size in (0.1, 0.2, 0.4, 0.8, 1.6) for sign in (-1.0, 1.0)])
"""Alternatives of level and bins: shifts of the log-odds."""

SLOPES = np.array([0.5, 0.65, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0])
"""Alternatives of the slope, about the center of the log-odds so far."""

SHARES = {"level": 0.4, "slope": 0.4, "bins": 0.2}
"""Shares of the level, in the proportions of :func:`calibrant.check`."""

LOG_SHARES = np.log(list(SHARES.values()))


def centers(before: Floats, rows: Labeled) -> Floats:
    """Sums of weight, which is p (1 - p), and of weight times log-odds after each row; their ratio is the center."""
    w = rows.sizes * np.maximum(rows.p * (1.0 - rows.p), 1e-9)
    return running(before, np.column_stack([w, w * rows.x]))[1:]


@dataclass
class Run:
    """E-processes of one sub-stream; their weighted mean is an e-process."""

    center: Floats
    level: Wealth
    slope: Wealth
    bins: list[Wealth]
    highest: float = 0.0
    """Largest log e-value so far."""

    @classmethod
    def new(cls, bins: int) -> Run:
        """Without rows."""
        of_bins = [Wealth.new(len(SHIFTS)) for _ in range(bins)]
        return cls(np.zeros(2), Wealth.new(len(SHIFTS)), Wealth.new(len(SLOPES)), of_bins)

    def copy(self) -> Run:
        """A copy, whose arrays are its own."""
        return Run(
            self.center.copy(), self.level.copy(), self.slope.copy(), [each.copy() for each in self.bins], self.highest
        )

    def advance(self, rows: Labeled, reach: tuple[float, float] | None) -> Floats:
        """Take rows in order; log e-values of level, slope, bins and all of them after each row."""
        sums = centers(self.center, rows)
        self.center = sums[-1]
        away = rows.x - sums[:, 1] / sums[:, 0]
        room = None if reach is None else reach[0] + reach[1] * np.abs(away)
        shifts = ratios_of(rows, np.broadcast_to(SHIFTS, (len(rows), len(SHIFTS))), room)
        slopes = ratios_of(rows, (SLOPES - 1.0) * away[:, None], room)
        parts = np.column_stack(
            [self.level.advance(shifts, rows.n), self.slope.advance(slopes, rows.n), self._bins(rows, shifts)]
        )
        mean = log_sum(parts + LOG_SHARES)
        self.highest = max(self.highest, float(mean.max()))
        return np.column_stack([parts, mean])

    def day(self, rows: Labeled, reach: tuple[float, float] | None) -> Floats:
        """Take the cells of one tally as one entry, since their rows have no order; log e-values after it."""
        self.center = centers(self.center, rows)[-1]
        away = rows.x - self.center[1] / self.center[0]
        room = None if reach is None else reach[0] + reach[1] * np.abs(away)
        shifts = ratios_of(rows, np.broadcast_to(SHIFTS, (len(rows), len(SHIFTS))), room)
        slopes = ratios_of(rows, (SLOPES - 1.0) * away[:, None], room)
        total = rows.sizes.sum()[None]
        level, slope = (
            each.advance(ratios.sum(axis=0)[None], total)[0]
            for each, ratios in ((self.level, shifts), (self.slope, slopes))
        )
        for place in np.unique(rows.bins):
            own = rows.bins == place
            self.bins[place].advance(shifts[own].sum(axis=0)[None], rows.sizes[own].sum()[None])
        parts = np.array([level, slope, self.log_e_of_bins()])
        mean = float(log_sum(parts + LOG_SHARES))
        self.highest = max(self.highest, mean)
        return np.append(parts, mean)

    def _bins(self, rows: Labeled, shifts: Floats) -> Floats:
        """Log of the mean e-value of the bins after each row."""
        now = np.array([each.log_e for each in self.bins])
        table = np.broadcast_to(now, (len(rows), len(now))).copy()
        for place in np.unique(rows.bins):
            own = np.flatnonzero(rows.bins == place)
            found = self.bins[place].advance(shifts[own])
            latest = np.searchsorted(own, np.arange(len(rows)), side="right") - 1
            table[:, place] = np.where(latest >= 0, found[np.maximum(latest, 0)], now[place])
        return np.asarray(log_sum(table) - math.log(len(now)))

    def log_e_of_bins(self) -> float:
        """Log of the mean e-value of the bins now."""
        return float(log_sum(np.array([each.log_e for each in self.bins])) - math.log(len(self.bins)))

    @property
    def log_e(self) -> Floats:
        """Log e-values of level, slope, bins and all of them now."""
        parts = np.array([self.level.log_e, self.slope.log_e, self.log_e_of_bins()])
        return np.append(parts, log_sum(parts + LOG_SHARES))


def ratios_of(rows: Labeled, tilts: Floats, room: Floats | None) -> Floats:
    """Log-likelihood ratios of entries; those of a cell are at its mean score, which makes them smaller, not larger."""
    if rows.n is None:
        return log_ratios(rows.p, rows.events, tilts, room)
    return np.asarray(
        rows.events[:, None] * tilts + rows.n[:, None] * log_ratios(rows.p, np.zeros(len(rows)), tilts, room)
    )
