"""Shift and slope in log-odds that agree with the bands, and how they lie to the tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.live.monitor.evidence import Evidence
from calibrant.messages import Shown
from calibrant.metrics.binary.curves.likelihood import MIN_LOG_ODDS_SPREAD
from calibrant.numerics import Floats

WIDEST = 8.0
"""Largest shift that is searched, in log-odds."""

SLOPE_ENDS = (-1.0, 4.0)
"""Slopes that are searched."""

HALVINGS, GRID = 45, 41


@dataclass(frozen=True)
class Range(Shown):
    """An estimate and the values that agree with the bands at every look; infinite ends are not settled.

    Attributes
    ----------
    value, low, high
        The estimate and the ends.
    """

    value: float
    low: float
    high: float

    def inside(self, low: float, high: float) -> bool:
        """Whether all of it lies within these limits."""
        return low <= self.low and self.high <= high

    def excludes(self, value: float) -> bool:
        """Whether a value is outside."""
        return value < self.low or value > self.high

    def __str__(self) -> str:
        """Value and ends."""
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


NOTHING = Range(0.0, -math.inf, math.inf)


class Curve:
    """Predictions by cell of log-odds, and what shift and slope would change of their sums."""

    def __init__(self, evidence: Evidence) -> None:
        n, predicted, levers = evidence.cells.T
        kept = n > 0.0
        self.n, self.predicted, self.levers = n[kept], predicted[kept], levers[kept] / n[kept]
        p = np.clip(self.predicted / self.n, 1e-12, 1.0 - 1e-12)
        self.x = np.log(p / (1.0 - p))
        weight, product = evidence.center
        self.away = self.x - (product / weight if weight > 0.0 else 0.0)
        """Distance from the center."""

    @property
    def spread(self) -> float:
        """Root mean square of the log-odds about their center; 0 for nearly constant scores, which have no slope."""
        total = float(self.n.sum())
        found = math.sqrt(float((self.n * self.away**2).sum()) / total) if total else 0.0
        return found if found > MIN_LOG_ODDS_SPREAD else 0.0

    def changes(self, shift: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """Change of the sum of predictions, and of that along the log-odds, for pairs of shift and slope."""
        z = self.x + shift[..., None] + (slope[..., None] - 1.0) * self.away
        moved = self.n / (1.0 + np.exp(-z)) - self.predicted
        return moved.sum(axis=-1), (moved * self.levers).sum(axis=-1)

    def shift_for(self, change: Floats, slope: Floats) -> Floats:
        """The shift that changes the sum of predictions by this much; the ends of the search if none does."""
        low, high = np.full(np.shape(change), -WIDEST), np.full(np.shape(change), WIDEST)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            more = self.changes(middle, slope)[0] < change
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        return np.asarray(0.5 * (low + high))


def level_set(evidence: Evidence, alpha: float) -> Range:
    """The shift of all log-odds at which predictions and outcomes agree in total (calibration in the large)."""
    if not evidence.rows:
        return NOTHING
    error, radius = evidence.total(alpha)
    found = Curve(evidence).shift_for(np.array([error, error - radius, error + radius]), np.ones(3))
    return Range(*_open(found, WIDEST))


def changes_by(evidence: Evidence, shift: float) -> tuple[float, float] | None:
    """Change of the mean prediction if all log-odds move down or up by this much; None without rows."""
    if not evidence.rows:
        return None
    low, high = (Curve(evidence).changes(np.array([-shift, shift]), np.ones(2))[0] / evidence.rows).tolist()
    return low, high


def slope_set(evidence: Evidence, alpha: float, alpha_level: float) -> Range:
    """Slopes for which some shift agrees with both bands; its error probability is the sum of both.

    For each slope, the shifts that agree with the total are an interval, and so is the sum along the log-odds over it.
    The slope agrees if that interval meets the band of the sum.
    """
    curve = Curve(evidence)
    if not evidence.rows or curve.spread == 0.0:
        return Range(1.0, -math.inf, math.inf)
    (error, room), (along, radius) = evidence.total(alpha_level), evidence.along(alpha)

    def agrees(slopes: Floats) -> NDArray[np.bool_]:
        totals = (error + side * room + 0.0 * slopes for side in (-1, 1))
        ends = [curve.changes(curve.shift_for(total, slopes), slopes)[1] for total in totals]
        return np.asarray((np.minimum(*ends) <= along + radius) & (np.maximum(*ends) >= along - radius))

    def estimate(slopes: Floats) -> Floats:
        return curve.changes(curve.shift_for(error + 0.0 * slopes, slopes), slopes)[1] - along

    least, most = SLOPE_ENDS
    for _ in range(4):  # increasing in the slope: narrow a grid around the root
        grid = np.linspace(least, most, GRID)
        place = int(np.clip(np.searchsorted(estimate(grid) >= 0.0, True), 1, GRID - 1))
        least, most = grid[place - 1], grid[place]
    value = 0.5 * (least + most)
    low, high = _end(agrees, value, SLOPE_ENDS[0]), _end(agrees, value, SLOPE_ENDS[1])
    return Range(value, low, high)


def _end(agrees: Callable[[Floats], NDArray[np.bool_]], inside: float, far: float) -> float:
    """Where slopes stop to agree, between an estimate and the end of the search; infinite if they do not stop."""
    near, end = inside, far
    for _ in range(3):
        grid = np.linspace(near, end, GRID)
        right = agrees(grid)
        if end == far and right[-1]:
            return math.copysign(math.inf, far - inside)
        last = int(np.flatnonzero(right)[-1]) if right.any() else 0
        near, end = grid[last], grid[min(last + 1, GRID - 1)]
    return float(end)


def _open(found: Floats, widest: float) -> tuple[float, float, float]:
    """Ends at the end of the search are infinite."""
    value, low, high = found.tolist()
    margin = widest - 1e-6
    return value, -math.inf if low < -margin else low, math.inf if high > margin else high
