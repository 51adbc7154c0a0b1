"""What a calibrator by segment found, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.needs import SHRUNKEN_ROWS
from calibrant.messages import Advice, Voice, count_text, plural
from calibrant.selection.comparison import decimals_of
from calibrant.selection.losses import NAMES
from calibrant.selection.segments.losses import too_few_to_judge
from calibrant.selection.segments.table import differences, worth

if TYPE_CHECKING:
    from calibrant.calibrators.segments import SegmentCalibrator

MAX_SHOWN_SEGMENTS, MAX_SHOWN_SOURCES = 5, 10
"""Segments and sources that are printed; the table ``segments_`` has more."""


def describe(cal: SegmentCalibrator, voice: Voice) -> str:
    """The global map, the corrections, and the change in loss on held-out rows."""
    first = [] if cal.global_ is None else [f"Global map: {_in_words(cal.global_)}."]
    return "\n  ".join([*first, *_found(cal), *_elsewhere(cal), _honest(cal, voice), _where_to_look(cal, voice)])


def _found(cal: SegmentCalibrator) -> list[str]:
    if cal.segment_method == "separate":
        lines = [_source(cal, name) for name in list(cal.sources_)[:MAX_SHOWN_SOURCES]]
        more = len(cal.sources_) - len(lines)
        return [*lines, *([f"and {more:,} more sources."] if more else []), *_left_out(cal)]
    if not len(cal.segments_):
        return ["No row has a segment: all get the global map."]
    if cal.segment_method == "shrink":
        lines = [differences(name, scales, cal.segments_.of_column(name)) for name, scales in cal.scales_.items()]
        title = "Observed events, and events predicted by scores, global map and final map (largest corrections first):"
        table = [title, cal.segments_.head(MAX_SHOWN_SEGMENTS)]
        return [*lines, *"\n".join(table).splitlines()] if cal.map_.columns else lines
    count = f"{len(cal.segments_):,} segments tested"
    level = f"family-wise significance level {cal.alpha:g}"
    if not cal.changes_:
        return [f"No change: {count}, none differs significantly from the global map ({level})."]
    common = [f"All rows: intercept {cal._common:+z.3f}, so that predicted and observed events agree in total."]
    common = common if cal._common else []
    unfinished = [] if cal._settled else ["Stopped at the limit on rounds: some segments still differ significantly."]
    head = f"{plural(len(cal.changes_), 'change')}, {count} against the global map ({level}):"
    return [head, *map(str, cal.changes_), *common, *unfinished]


def _source(cal: SegmentCalibrator, name: str) -> str:
    """The map of one source, its rows, and its change in loss."""
    fitted, (before, after, change) = cal.sources_[name], cal._worth[name]
    data = fitted.provenance_
    source = f"{name}: {_in_words(fitted)}; {count_text(data.n)} rows, {count_text(data.events)} events"
    if np.isnan(change.value):
        return f"{source}."
    return f"{source}; {NAMES[cal._loss]} {before.value:.4f} -> {after.value:.4f} ({change.value:+z.4f})."


def _elsewhere(cal: SegmentCalibrator) -> list[str]:
    """What rows of unseen segments get."""
    what, where = ("sources", "no probability") if cal.segment_method == "separate" else ("segments", "the global map")
    where += " and the intercept of all rows" if cal.changes_ and cal._common else ""
    return [f"Unseen and missing {what} get {where}."] if cal.map_.columns else []


def _where_to_look(cal: SegmentCalibrator, voice: Voice) -> str:
    if cal.sources_:
        return voice.advice(Advice.SEE_SEGMENTS_AND_SOURCES)
    chosen = isinstance(cal.global_, AutoCalibrator)
    return voice.advice(Advice.SEE_SEGMENTS_AND_COMPARISON if chosen else Advice.SEE_SEGMENTS)


def _left_out(cal: SegmentCalibrator) -> list[str]:
    if not cal.uncalibrated_:
        return []
    named = ", ".join(cal.uncalibrated_)
    if cal._guarantee is not None:
        return [f"Uncalibrated (guarantee not met, no probability): {named}."]
    return [f"Uncalibrated (fewer than {SHRUNKEN_ROWS} minority-class rows, no probability): {named}."]


def _honest(cal: SegmentCalibrator, voice: Voice) -> str:
    name, change = NAMES[cal._loss], cal.change_
    if np.isnan(change.value):
        return f"Cross-validation: {name} not known ({too_few_to_judge().say(voice)})."
    unjudged = [*cal.uncalibrated_, *(each for each, worth in cal._worth.items() if np.isnan(worth[2].value))]
    named = ", ".join(unjudged) if len(unjudged) <= MAX_SHOWN_SEGMENTS else f"{len(unjudged):,} sources"
    without = f" (without {named})" if unjudged else ""
    places = decimals_of(max(abs(change.low or 0.0), abs(change.high or 0.0)))
    numbers = [f"{each.value:.{places}f}" for each in (cal.before_, cal.after_)]
    ends = [f"{value:+z.{places}f}" for value in (change.value, change.low, change.high)]
    return (
        f"Cross-validation{without}: {name} {numbers[0]} -> {numbers[1]} "
        f"({ends[0]}, 95 % CI {ends[1]} to {ends[2]}).{worth(cal.gain_)}"
    )


def _in_words(fitted: BinaryCalibrator) -> str:
    if not isinstance(fitted, AutoCalibrator):
        return fitted.map_.words
    return "original model" if fitted.choice_ == "identity" else fitted.choice_
