"""Segments that are off, with luck removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from calibrant.metrics.chance import Chance
from calibrant.metrics.multiplicity import holm
from calibrant.tallies import GroupedTally
from calibrant.verdict.inflation import FEWEST_IN_PART


@dataclass(frozen=True)
class Segment:
    """One value of one column: what was predicted there, what happened, and whether chance explains it.

    ``p_value`` is adjusted by Holm's method over all segments of all columns: for independent rows that count alike,
    the chance that even one segment of a calibrated model falls below 5 % is at most 5 %, however the columns overlap.
    With importance weights or clusters it is approximate; a segment with rows from fewer than ten cluster buckets is
    never said to be off.
    """

    column: str
    value: Any
    rows: float
    events: float
    predicted: float
    low: float
    high: float
    p_value: float

    def beyond(self, tolerance: float) -> bool:
        """Whether chance does not explain it and happened over predicted is off by more than the tolerated odds."""
        if self.p_value > 0.05:
            return False
        if not (self.events > 0.0 and self.predicted > 0.0):
            return True
        return bool(abs(np.log(self.events / self.predicted)) > tolerance)

    def __str__(self) -> str:
        """One line."""
        side = "low" if self.events > self.predicted else "high"
        size = f"too {side}, {self.predicted / self.events:.2g} times what happened" if self.events else f"too {side}"
        luck = "could be chance" if self.p_value > 0.05 else "not chance"
        return (
            f"{self.column} = {self.value}: {size} (predicted {self.predicted:,.0f}, happened {self.events:,.0f}, "
            f"chance {self.low:,.0f} to {self.high:,.0f}; {luck}, adjusted p {tell_p(self.p_value)})"
        )


Spreads = Mapping[str, Mapping[Any, tuple[float, int]]]
"""By column and value: variance of the events between cluster buckets, and how many buckets hold rows."""


def scan_segments(columns: Mapping[str, GroupedTally], spreads: Spreads | None = None) -> tuple[Segment, ...]:
    """Every segment, the least explicable by chance first; with ``spreads``, by Student's law over cluster buckets."""
    found, p_values = [], []
    for column, tallies in columns.items():
        for value, tally in tallies.items():
            chance, events = Chance.of(tally), float(tally.positives)
            p_value, ends = chance.p_value(events), chance.interval(0.95)
            if spreads is not None:
                p_value, ends = _between_clusters(chance, events, *spreads[column][value])
            p_values.append(p_value)
            found.append(Segment(column, value, float(tally.total), events, chance.mean, *ends, 1.0))
    adjusted = holm(np.array(p_values))
    far = [abs(np.log((each.events + 0.5) / (each.predicted + 0.5))) for each in found]
    order = np.lexsort((-np.array(far), np.array(p_values)))
    return tuple(replace(found[place], p_value=float(adjusted[place])) for place in order)


def _between_clusters(
    chance: Chance, events: float, variance: float, buckets: int
) -> tuple[float, tuple[float, float]]:
    if buckets < FEWEST_IN_PART:
        return 1.0, (0.0, chance.total)
    sd = float(np.sqrt(max(variance, chance.variance)))
    half = sd * float(special.stdtrit(buckets - 1, 0.975))
    p_value = 2.0 * float(special.stdtr(buckets - 1, -abs(events - chance.mean) / sd)) if sd > 0.0 else 1.0
    return p_value, (max(chance.mean - half, 0.0), min(chance.mean + half, chance.total))


def tell_p(p_value: float) -> str:
    """A p-value as people write it.

    Examples
    --------
    >>> tell_p(0.0321), tell_p(1e-9)
    ('= 0.032', '< 0.0001')
    """
    return "< 0.0001" if p_value < 1e-4 else f"= {p_value:.2g}"
