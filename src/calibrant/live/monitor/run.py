"""One run of the alarm: e-processes of level, slope and bins since the last restart, on one sub-stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from calibrant.live.monitor.rows import Labeled
from calibrant.live.monitor.wealth import Wealth, advance_one, log_add, log_ratios, running
from calibrant.numerics import Floats

SHIFTS = np.array([sign * size for size in (0.1, 0.2, 0.4, 0.8, 1.6) for sign in (-1.0, 1.0)])
"""Alternatives of level and bins: shifts of the log-odds."""

SLOPES = np.array([0.5, 0.65, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0])
"""Alternatives of the slope, about the center of the log-odds so far."""

AROUND = SLOPES - 1.0

PLACES = [slice(0, 10), slice(10, 20), slice(20, 28)]
LAYOUT = (np.repeat([0, 1, 2], [10, 10, 8]), np.array([0, 10, 20]), PLACES, np.log([10.0, 10.0, 8.0]))
"""How the alternatives of level, a bin and slope lie in one array."""

SHARES = {"level": 0.4, "slope": 0.4, "bins": 0.2}
"""Shares of the level, in the proportions of :func:`calibrant.check`."""

LOG_SHARES = np.log(list(SHARES.values()))


def centers(before: Floats, rows: Labeled) -> Floats:
    """Sums of weight, which is p (1 - p), and of weight times log-odds after each row; their ratio is the center."""
    w = rows.sizes * np.maximum(rows.p * (1.0 - rows.p), 1e-9)
    return running(before, np.column_stack([w, w * rows.x]))[1:]


def center_after(before: Floats, rows: Labeled) -> tuple[Floats, float]:
    """The sums after one row, and the center."""
    p, x = float(rows.p[0]), float(rows.x[0])
    w = max(p * (1.0 - p), 1e-9)
    weight, product = float(before[0]) + w, float(before[1]) + w * x
    return np.array([weight, product]), product / weight


@dataclass
class Run:
    """E-processes of one sub-stream; their weighted mean is an e-process."""

    center: Floats
    level: Wealth
    slope: Wealth
    bins: list[Wealth]
    highest: float = 0.0
    """Largest log e-value so far."""
    of_bins: Floats = field(default_factory=lambda: np.zeros(0))
    """Log e-value of each bin now, kept since a row changes one of them."""

    def __post_init__(self) -> None:
        if not len(self.of_bins):
            self.of_bins = np.array([each.log_e for each in self.bins])

    @classmethod
    def new(cls, bins: int) -> Run:
        """Without rows."""
        of_bins = [Wealth.new(len(SHIFTS)) for _ in range(bins)]
        return cls(np.zeros(2), Wealth.new(len(SHIFTS)), Wealth.new(len(SLOPES)), of_bins)

    def copy(self) -> Run:
        """A copy, whose arrays are its own."""
        bins = [each.copy() for each in self.bins]
        return Run(self.center.copy(), self.level.copy(), self.slope.copy(), bins, self.highest, self.of_bins.copy())

    def advance(self, rows: Labeled, reach: tuple[float, float] | None) -> Floats:
        """Take rows in order; log e-values of level, slope, bins and all of them after each row."""
        if len(rows) == 1 and rows.n is None:
            return self._advance_one(rows, reach)
        sums = centers(self.center, rows)
        self.center = sums[-1]
        away = rows.x - sums[:, 1] / sums[:, 0]
        room = None if reach is None else reach[0] + reach[1] * np.abs(away)
        shifts = ratios_of(rows, np.broadcast_to(SHIFTS, (len(rows), len(SHIFTS))), room)
        slopes = ratios_of(rows, AROUND * away[:, None], room)
        parts = np.column_stack(
            [self.level.advance(shifts, rows.n), self.slope.advance(slopes, rows.n), self._bins(rows, shifts)]
        )
        mean = log_add(parts + LOG_SHARES)
        self.highest = max(self.highest, float(mean.max()))
        return np.column_stack([parts, mean])

    def _advance_one(self, rows: Labeled, reach: tuple[float, float] | None) -> Floats:
        """The same for one row, bit for bit, with the alternatives of all parts in one array."""
        self.center, middle = center_after(self.center, rows)
        away, place = rows.x - middle, int(rows.bins[0])
        room = None if reach is None else reach[0] + reach[1] * np.abs(away)
        tilts = np.concatenate([SHIFTS, SHIFTS, AROUND * away])
        ratios = log_ratios(rows.p, rows.events, tilts[None], room)[0]
        level, self.of_bins[place], slope = advance_one([self.level, self.bins[place], self.slope], ratios, LAYOUT)
        parts = np.array([level, slope, self.log_e_of_bins()])
        mean = float(log_add(parts + LOG_SHARES))
        self.highest = max(self.highest, mean)
        return np.array([[level, slope, parts[2], mean]])

    def day(self, rows: Labeled, reach: tuple[float, float] | None) -> Floats:
        """Take the cells of one tally as one entry, since their rows have no order; log e-values after it."""
        self.center = centers(self.center, rows)[-1]
        away = rows.x - self.center[1] / self.center[0]
        room = None if reach is None else reach[0] + reach[1] * np.abs(away)
        shifts = ratios_of(rows, np.broadcast_to(SHIFTS, (len(rows), len(SHIFTS))), room)
        slopes = ratios_of(rows, AROUND * away[:, None], room)
        total = rows.sizes.sum()[None]
        level, slope = (
            each.advance(ratios.sum(axis=0)[None], total)[0]
            for each, ratios in ((self.level, shifts), (self.slope, slopes))
        )
        for place in np.unique(rows.bins):
            own = rows.bins == place
            entry, size = shifts[own].sum(axis=0)[None], rows.sizes[own].sum()[None]
            self.of_bins[place] = self.bins[place].advance(entry, size)[0]
        parts = np.array([level, slope, self.log_e_of_bins()])
        mean = float(log_add(parts + LOG_SHARES))
        self.highest = max(self.highest, mean)
        return np.append(parts, mean)

    def _bins(self, rows: Labeled, shifts: Floats) -> Floats:
        """Log of the mean e-value of the bins after each row."""
        now = self.of_bins
        table = np.broadcast_to(now, (len(rows), len(now))).copy()
        for place in np.unique(rows.bins):
            own = np.flatnonzero(rows.bins == place)
            found = self.bins[place].advance(shifts[own])
            latest = np.searchsorted(own, np.arange(len(rows)), side="right") - 1
            table[:, place] = np.where(latest >= 0, found[np.maximum(latest, 0)], now[place])
        self.of_bins = table[-1].copy()
        return np.asarray(log_add(table) - math.log(len(now)))

    def log_e_of_bins(self) -> float:
        """Log of the mean e-value of the bins now."""
        return float(log_add(self.of_bins) - math.log(len(self.bins)))

    @property
    def log_e(self) -> Floats:
        """Log e-values of level, slope, bins and all of them now."""
        parts = np.array([self.level.log_e, self.slope.log_e, self.log_e_of_bins()])
        return np.append(parts, log_add(parts + LOG_SHARES))


def ratios_of(rows: Labeled, tilts: Floats, room: Floats | None) -> Floats:
    """Log-likelihood ratios of entries; those of a cell are at its mean score, which makes them smaller, not larger."""
    if rows.n is None:
        return log_ratios(rows.p, rows.events, tilts, room)
    return np.asarray(
        rows.events[:, None] * tilts + rows.n[:, None] * log_ratios(rows.p, np.zeros(len(rows)), tilts, room)
    )
