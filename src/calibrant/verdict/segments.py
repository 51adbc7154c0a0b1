"""Predicted and observed events by segment and period, with p-values adjusted for multiple testing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from calibrant.arrays.columns import check_option
from calibrant.messages import InputError, Shown, plural
from calibrant.metrics.chance import Chance, Units
from calibrant.metrics.multiplicity import holm_log
from calibrant.metrics.variance import FEWEST_CLUSTERS
from calibrant.progress import progress
from calibrant.tallies import GroupedTally, Tally, scores_of
from calibrant.verdict.figures import amount, p_text
from calibrant.verdict.input.evidence import Part, Parts

CONFIDENCE = 0.95
"""Confidence level of the expected range and of the interval of the ratio, for each segment alone."""

ALPHA = 0.05
"""Significance level for adjusted p-values."""

NORMAL_QUANTILE = float(special.ndtri((1.0 + CONFIDENCE) / 2.0))

MAX_CELLS = 160
"""Cells for the distribution of the events of a segment: its mean is exact, its variance to a thousandth."""


@dataclass(frozen=True)
class Segment(Shown):
    """One segment (a value of a column): predicted and observed events, and whether the difference is significant.

    Attributes
    ----------
    low, high
        Expected range: the central 95 % of the number of events of a calibrated model.
    ratio_low, ratio_high
        95 % interval of observed over predicted events, for this segment alone.
    p_value
        Adjusted by Holm's method over all segments of all columns: for independent rows of equal weight, the
        probability that any segment of a calibrated model falls below 5 % is at most 5 %, however the columns overlap.
        Approximate with importance weights or clusters. NaN if the segment cannot be tested.
    clusters
        With groups: how many of them have rows here. With fewer than ten the segment cannot be tested.
    """

    column: str
    value: Any
    rows: float
    events: float
    predicted: float
    low: float
    high: float
    ratio_low: float
    ratio_high: float
    p_value: float
    clusters: int | None = None

    @property
    def judged(self) -> bool:
        """Whether the segment can be tested: with groups, whether at least ten have rows here."""
        return self.clusters is None or self.clusters >= FEWEST_CLUSTERS

    @property
    def off(self) -> bool:
        """Whether the difference is significant after adjustment for all segments."""
        return self.judged and self.p_value <= ALPHA

    @property
    def bound(self) -> float:
        """Least distance of the log ratio from 0 within its interval; 0 if the interval contains a ratio of 1."""
        return max(math.log(self.ratio_low) if self.ratio_low > 0.0 else -math.inf, -math.log(self.ratio_high), 0.0)

    @property
    def excess(self) -> float:
        """Observed minus predicted events."""
        return self.events - self.predicted

    @property
    def least_excess(self) -> float:
        """Least number of events that predictions are off by, within the interval of the ratio; 0 if it contains 1."""
        above, below = self.ratio_low - 1.0, 1.0 - self.ratio_high
        return self.predicted * max(above, below, 0.0) if self.judged else 0.0

    def beyond(self, tolerance: float) -> bool:
        """Whether the difference is significant and the log of observed over predicted exceeds the tolerance."""
        if not self.off:
            return False
        if not (self.events > 0.0 and self.predicted > 0.0):
            return True
        return bool(abs(math.log(self.events / self.predicted)) > tolerance)

    def __str__(self) -> str:
        """One line."""
        counts = (
            f"predicted {amount(self.predicted)}, observed {amount(self.events)}, 95 % expected range "
            f"{amount(self.low)} to {amount(self.high)}"
        )
        name = f"{self.column} = {self.value}"
        if not self.judged:
            return f"{name}: not testable with {plural(self.clusters or 0, 'group')} ({counts})"
        if not self.off:
            return f"{name}: not significantly off ({counts}; adjusted p {p_text(self.p_value)})"
        side = "low" if self.events > self.predicted else "high"
        ratio = f"observed / predicted {self.events / self.predicted:.2f}, " if self.predicted > 0.0 else ""
        ends = f"95 % CI {self.ratio_low:.2f} to {self.ratio_high:.2f}" if ratio else ""
        return f"{name}: too {side}, {ratio}{ends} ({counts}; adjusted p {p_text(self.p_value)})"


Order = Literal["effect", "events", "rows", "stake"]
"""How segments are sorted."""

ORDERS: Mapping[str, str] = {
    "effect": "largest effect first (the least in its 95 % CI)",
    "events": "most events first",
    "rows": "most rows first",
    "stake": "most events at stake first",
}
"""The same in words."""


def sort_segments(
    segments: Sequence[Segment], order: Order = "effect", value: Mapping[Any, float] | None = None
) -> list[Segment]:
    """Segments in another order than that of :func:`scan_segments`, which is ``"effect"``.

    Parameters
    ----------
    segments
        As in :attr:`calibrant.Verdict.segments`.
    order
        ``"effect"``, ``"events"``, ``"rows"``, or ``"stake"``: segments that are significantly off first, by the number
        of events that predictions are off by, at least, within the interval of the ratio, times ``value``.
    value
        For ``"stake"``: what one event is worth, by segment; 1 by default.

    Examples
    --------
    >>> one = Segment("country", "de", 900.0, 30.0, 10.0, 4.0, 17.0, 2.1, 4.3, 0.001)
    >>> two = Segment("country", "fr", 90_000.0, 1_300.0, 1_000.0, 939.0, 1_062.0, 1.2, 1.4, 0.001)
    >>> [each.value for each in sort_segments([one, two], "stake")]
    ['fr', 'de']
    """
    check_option("sort", order, get_args(Order))
    lacking = [each.value for each in segments if value is not None and each.value not in value]
    if lacking:
        raise InputError("value", f"lacks the segment {lacking[0]!r}", "pass the value of an event for each segment")
    if order == "effect":
        return list(segments)
    if order == "stake":
        return sorted(segments, key=lambda each: (not each.off, -stake(each, value), -abs(each.excess)))
    return sorted(segments, key=lambda each: -(each.events if order == "events" else each.rows))


def stake(segment: Segment, value: Mapping[Any, float] | None = None) -> float:
    """Least number of events that predictions are off by, times the value of one event."""
    return segment.least_excess * (1.0 if value is None else float(value[segment.value]))


def scan_segments(
    columns: Mapping[str, GroupedTally], parts: Parts | None = None, units: Units | None = None
) -> tuple[Segment, ...]:
    """All segments: those significantly off first, ordered by the least effect within their interval; then the others.

    ``parts`` holds the variance of events between clusters; ``units`` the mean weights of an event and of a non-event.
    """
    found, logs = [], []
    for column, tallies in columns.items():
        chances = _chances(tallies, None if parts is None else parts[column], units)
        pairs = zip(tallies.items(), chances, strict=True)
        for (value, tally), chance in progress(pairs, f"check: segments of {column}", len(tallies)):
            part = None if parts is None else parts[column][value]
            segment = _segment(column, value, tally, part, chance)
            found.append(segment)
            logs.append(chance.log_p_value(segment.events) if segment.judged else math.nan)
    adjusted = np.exp(holm_log(np.array(logs)))
    found = [replace(each, p_value=float(p)) for each, p in zip(found, adjusted, strict=True)]
    log_ps = dict(zip(map(id, found), logs, strict=True))

    def rank(segment: Segment) -> tuple[bool, bool, float, float]:
        return not segment.off, not segment.judged, -segment.bound if segment.off else 0.0, log_ps[id(segment)]

    return tuple(sorted(found, key=rank))


def _chances(tallies: GroupedTally, parts: Mapping[Any, Part] | None, units: Units | None) -> list[Chance]:
    """Distribution of the events of each segment if the model is calibrated."""
    small = [_few_cells(tally) for tally in tallies.values()]
    if parts is None and small and all(tally.counts and len(tally) for tally in small):
        sizes = np.array([len(tally) for tally in small])
        n = np.concatenate([tally.n for tally in small]).astype(np.float64)
        return Chance.by_part(scores_of(small), n, np.cumsum(sizes) - sizes)
    return [
        Chance(
            each.scores,
            np.asarray(each.n, dtype=np.float64),
            units=None if tally.counts else units,
            spread=None if parts is None else parts[value].spread,
        )
        for (value, tally), each in zip(tallies.items(), small, strict=True)
    ]


def _few_cells(tally: Tally) -> Tally:
    return tally.coarsen(2) if len(tally) > MAX_CELLS and tally.resolution != "bins" else tally


def _segment(column: str, value: Any, tally: Tally, part: Part | None, chance: Chance) -> Segment:
    events = float(tally.positives)
    ends = chance.interval(CONFIDENCE)
    z = NORMAL_QUANTILE if part is None else part.spread.quantile(CONFIDENCE)
    ratios = ratio_interval(events, chance.mean, chance.variance, z)
    clusters = None if part is None else part.clusters
    return Segment(column, value, float(tally.total), events, chance.mean, *ends, *ratios, math.nan, clusters)


def ratio_interval(events: float, predicted: float, variance: float, z: float) -> tuple[float, float]:
    r"""Interval of observed over predicted: ratios r with :math:`(O - r E)^2 \le z^2 r V`.

    E and V are the mean and the variance of the number of events of a calibrated model; for rare events both scale with
    r. The interval has a closed form, is never negative, and contains 0 if no event was observed.

    Examples
    --------
    >>> [round(end, 3) for end in ratio_interval(10.0, 10.0, 10.0, 1.96)]
    [0.543, 1.841]
    """
    if not predicted > 0.0:
        return (0.0, math.inf)
    half = events * predicted + z * z * variance / 2.0
    root = math.sqrt(max(half * half - (events * predicted) ** 2, 0.0))
    return max(half - root, 0.0) / predicted**2, (half + root) / predicted**2
