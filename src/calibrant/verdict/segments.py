"""Predicted and observed events by segment and period, with p-values adjusted for multiple testing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.messages import InputError, Shown, plural
from calibrant.metrics.chance import Chance, Units
from calibrant.metrics.multiplicity import holm, holm_log
from calibrant.metrics.tolerance import LIMIT
from calibrant.metrics.variance import FEWEST_CLUSTERS, Spread, ratio_rates
from calibrant.progress import progress
from calibrant.tallies import GroupedTally, Tally, scores_of
from calibrant.verdict.figures import amount, p_text
from calibrant.verdict.input.evidence import Parts
from calibrant.visible import visible

CONFIDENCE = 0.95
"""Confidence level of the expected range and of the interval of the ratio, for each segment alone."""

ALPHA = 0.05
"""Significance level for adjusted p-values."""

ALPHA_SIDE = 0.02
"""Significance level for adjusted p-values of the direction."""

ALPHA_BEYOND = 0.01
"""Significance level for adjusted p-values that a segment is within the limit: what a headline says of segments."""

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
        95 % interval of observed over predicted events, for this segment alone. It is right when the model is wrong:
        Clopper and Pearson's at the effective sample size (:class:`~calibrant.metrics.variance.Rates`).
    p_value
        Adjusted by Holm's method over all segments of all columns: for independent rows of equal weight, the
        probability that any segment of a calibrated model falls below 5 % is at most 5 %, however the columns overlap.
        Approximate with importance weights or clusters. NaN if the segment cannot be tested.
    clusters
        With groups: how many of them have rows here. With fewer than ten the segment cannot be tested.
    mixed
        With groups: whether at least two have an event, and two something else. If not, the variance between groups is
        unknown, and the segment cannot be tested.
    side
        1 if the predictions are shown to be too low, -1 if too high, 0 if neither: a difference may be significant for
        a calibrated model although an interval that is right for any model contains a ratio of 1. Adjusted by Holm's
        method, at 2 %.
    p_within
        P-value that the log-odds of the observed rate and of the mean score differ by no more than the limit of the
        verdict, right for any model and adjusted by Holm's method.
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
    side: int = 0
    mixed: bool = True
    p_within: float = 1.0

    @property
    def name(self) -> str:
        """Column and value, as they are shown."""
        return visible(f"{self.column} = {self.value}")

    @property
    def judged(self) -> bool:
        """Whether the segment can be tested: with groups, whether enough of them have rows and events here."""
        return self.clusters is None or (self.clusters >= FEWEST_CLUSTERS and self.mixed)

    @property
    def off(self) -> bool:
        """Whether the difference is significant after adjustment for all segments."""
        return self.judged and self.p_value <= ALPHA

    @property
    def direction(self) -> str:
        """Too low, too high, or off without a direction that is established; empty if not significantly off."""
        return ("off, direction not established", "too low", "too high")[self.side] if self.off else ""

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

    @property
    def beyond(self) -> bool:
        """Whether the segment is shown to be beyond the limit, at 1 % after adjustment for all segments."""
        return self.judged and self.p_within <= ALPHA_BEYOND

    def __str__(self) -> str:
        """One line."""
        counts = (
            f"predicted {amount(self.predicted)}, observed {amount(self.events)}, 95 % expected range "
            f"{amount(self.low)} to {amount(self.high)}"
        )
        if not self.judged:
            why = "" if self.mixed else ", nearly all with the same outcome"
            return f"{self.name}: not testable with {plural(self.clusters or 0, 'group')}{why} ({counts})"
        if not self.off:
            return f"{self.name}: not significantly off ({counts}; adjusted p {p_text(self.p_value)})"
        ratio = f"observed / predicted {self.events / self.predicted:.2f}, " if self.predicted > 0.0 else ""
        ends = f"95 % CI {self.ratio_low:.2f} to {self.ratio_high:.2f}" if ratio else ""
        return f"{self.name}: {self.direction}, {ratio}{ends} ({counts}; adjusted p {p_text(self.p_value)})"


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
    columns: Mapping[str, GroupedTally],
    parts: Parts | None = None,
    units: Units | None = None,
    limit: float = LIMIT,
) -> tuple[Segment, ...]:
    """All segments: those significantly off first, ordered by the least effect within their interval; then the others.

    ``parts`` holds the variance of events between clusters; ``units`` the mean weights of an event and of a non-event.
    A segment is judged by its mean, against the same ``limit`` of log-odds as the curve of all rows: few segments have
    rows enough for a curve of their own.
    """
    found, logs, sides, within = list[Segment](), [], [], []
    for column, tallies in columns.items():
        inside = None if parts is None else parts[column]
        small = [_few_cells(tally) for tally in tallies.values()]
        chances = _chances(small, None if inside is None else [inside[value].spread for value in tallies], units)
        parts_of = None if inside is None else [inside[value] for value in tallies]
        dependent = () if parts_of is None else ([each.around for each in parts_of], [each.units for each in parts_of])
        rates = ratio_rates(small, *dependent)
        ratios = np.transpose(rates.ratios(CONFIDENCE)).tolist()
        each_value = zip(tallies, tallies.values(), chances, ratios, strict=True)
        for value, tally, chance, ratio in progress(each_value, f"check: segments of {column}", len(tallies)):
            clusters, events = None if inside is None else inside[value].clusters, float(tally.positives)
            counts, ends = (float(tally.total), events, chance.mean), chance.interval(CONFIDENCE)
            mixed = inside is None or inside[value].mixed
            segment = Segment(column, value, *counts, *ends, ratio[0], ratio[1], math.nan, clusters, mixed=mixed)
            found.append(segment)
            logs.append(chance.log_p_value(events) if segment.judged else math.nan)
        sides += rates.p_values.tolist()
        within += rates.p_within(limit).tolist()
    judged = [each.judged for each in found]
    adjusted, shown = np.exp(holm_log(np.array(logs))), holm(np.where(judged, sides, math.nan)) <= ALPHA_SIDE
    found = [
        replace(each, p_value=float(p), side=int(np.sign(each.excess)) if known else 0, p_within=float(near))
        for each, p, known, near in zip(found, adjusted, shown, holm(np.where(judged, within, math.nan)), strict=True)
    ]
    log_ps = dict(zip(map(id, found), logs, strict=True))

    def rank(segment: Segment) -> tuple[bool, bool, float, float]:
        return not segment.off, not segment.judged, -segment.bound if segment.off else 0.0, log_ps[id(segment)]

    return tuple(sorted(found, key=rank))


def _chances(tallies: Sequence[Tally], spreads: Sequence[Spread] | None, units: Units | None) -> list[Chance]:
    """Distribution of the events of each segment if the model is calibrated."""
    if spreads is None and tallies and all(tally.counts and len(tally) for tally in tallies):
        sizes = np.array([len(tally) for tally in tallies])
        n = np.concatenate([tally.n for tally in tallies]).astype(np.float64)
        return Chance.by_part(scores_of(tallies), n, np.cumsum(sizes) - sizes)
    return [
        Chance(
            tally.scores,
            np.asarray(tally.n, dtype=np.float64),
            units=None if tally.counts else units,
            spread=None if spreads is None else spreads[place],
        )
        for place, tally in enumerate(tallies)
    ]


def _few_cells(tally: Tally) -> Tally:
    return tally.coarsen(2) if len(tally) > MAX_CELLS and tally.resolution != "bins" else tally
