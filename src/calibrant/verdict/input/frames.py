"""Evidence from a frame that is too large for memory, counted by its own engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import narwhals as nw
import numpy as np

from calibrant.arrays import ScoreType
from calibrant.arrays.frames import Rows, collect_frame
from calibrant.calibration import Calibration
from calibrant.engine.columns import apply, fresh_name, on_local_clock, plain_names, read_frame
from calibrant.engine.frames import tally, totals
from calibrant.maps import LogitAffineMap
from calibrant.messages import InputError, Setting, Voice, note
from calibrant.numerics import Floats, Grid
from calibrant.reading import Given
from calibrant.selection.folds import PERIODS, Folds, cut_time, deal
from calibrant.tallies import CLUSTER_BUCKETS, Clusters, GroupedTally, Tally
from calibrant.verdict.input.evidence import (
    NO_FOLDS,
    NOT_SEEN,
    Evidence,
    Part,
    Seen,
    Unseen,
    forward_folds,
    not_probabilities,
    part_of,
    physical_rows,
    range_names,
)

FINE_GRID = Grid()
"""Grid of the whole and of the cluster buckets, which must have the same cells."""

MAX_TIMESTAMPS = 10_000
"""More distinct timestamps than this are not counted one by one."""

TRUNCATIONS = ("1d", "1h", "1m", "1s")
"""Timestamps are truncated to the first of these that leaves at least twice as many values as there are periods."""


@note("gain-not-measured")
def gain_not_measured(voice: Voice) -> str:
    """Importance weights, for which an engine returns only sums."""
    return (
        "the gain from recalibration was not measured: in a frame of this size only sums of importance weights are "
        f"available; pass {voice.argument('time')} or {voice.argument('groups')} to define folds"
    )


@dataclass(frozen=True)
class Engine:
    """A frame with the options of every pass."""

    frame: Any
    score: str
    label: str
    options: Mapping[str, Any]

    def whole(self) -> Tally:
        """All rows."""
        return cast(Tally, tally(self.frame, self.score, self.label, grid=FINE_GRID, **self.options))

    def parts(self, **keys: Any) -> GroupedTally:
        """Rows by key."""
        return cast(GroupedTally, tally(self.frame, self.score, self.label, **keys, **self.options))

    def sums(self, **keys: Any) -> dict[Any, Floats]:
        """Rows, events, predicted events and their variance in each cluster bucket, by the first key."""
        made: dict[Any, Floats] = defaultdict(lambda: np.zeros((4, CLUSTER_BUCKETS)))
        names, *columns = totals(self.frame, self.score, self.label, **keys, **self.options)
        for (*values, bucket), *sums in zip(names, *(column.tolist() for column in columns), strict=True):
            made[values[0] if len(values) == 1 else tuple(values)][:, bucket] += sums
        return dict(made)


def evidence_of_frame(given: Given, random_state: int, calibration: Calibration | None = None) -> Evidence:
    """Tallies of a frame by segment, time and group; one pass of the engine for each."""
    by = given.names["by"]
    frame, score = _as_probabilities(given.scores, given.names["score"], given.score_type, calibration)
    options = {name: getattr(given, name) for name in ("sample_weight", "weight_type", "positive")}
    engine = Engine(frame, score, given.names["label"], options)
    whole = engine.whole()
    groups = None if given.groups is None else _count_distinct(frame, given.groups)
    by_group = (
        None if groups is None or groups == physical_rows(whole) else given.groups
    )  # otherwise groups are single rows
    unit = whole.event_unit
    counted: dict[str, Any] = {name: engine.parts(by=name) for name in by}
    words = {name: _words_of(each) for name, each in counted.items()}
    if len(by) > 1 and not given.names["alone"]:
        counted = {", ".join(by): engine.parts(by=by), **counted}
    segments = {name: _scaled(_named(each, words.get(name) or words), unit) for name, each in counted.items()}
    buckets = None if by_group is None else _scaled(engine.parts(groups=by_group, grid=FINE_GRID), unit)
    time = None if given.time is None else _tallies_by_time(engine, given.time)
    periods = Periods.of(_scaled(time[1], unit)) if time is not None else None
    folds = NO_FOLDS
    if periods is not None:
        folds = forward_folds(periods.tallies, whole.in_event_rows())
    elif buckets is not None:
        worth = whole.effective_size / (float(whole.total) * unit)
        dealt = tuple(part for part in deal([each.scaled(worth) for each in buckets.values()]) if part)
        folds = Folds(tuple(reduce(Tally.__add__, part) for part in dealt), clusters=dealt)
    elif whole.counts:
        folds = Folds.at_random(whole, random_state=random_state)
    parts = period_parts = None
    if by_group is not None:
        keys = {name: by if name not in words else name for name in counted}
        summed = {name: engine.sums(by=key, groups=by_group) for name, key in keys.items()}
        parts = {name: _parts(_added(each, words.get(name) or words), unit) for name, each in summed.items()}
        period_parts = {}
        if time is not None and periods is not None:
            period_parts = {"time": _parts(periods.added(engine.sums(groups=by_group, **time[0])), unit)}
    return Evidence(
        whole.in_event_rows(),
        folds,
        None if buckets is None else Clusters.of_buckets(buckets),
        segments,
        None if periods is None else periods.tallies,
        {} if periods is None else periods.ends,
        None if by_group is None else groups,
        parts,
        period_parts,
        () if folds.parts else (gain_not_measured(),),
        NOT_SEEN if calibration is None or calibration.provenance is None else Seen(unseen=Unseen.FRAME),
    )


def _words_of(tallies: GroupedTally) -> dict[Any, Any]:
    """The name of each value of a column: itself, or the range that it is in."""
    numbers = all(isinstance(key, int | float) and not isinstance(key, bool) for key in tallies)
    keys = sorted(tallies) if numbers else list(tallies)
    rows = np.array([float(tallies[key].total) for key in keys])
    return dict(zip(keys, range_names(np.array(keys), rows).tolist() if numbers else keys, strict=True))


def _name(key: Any, words: Mapping[Any, Any]) -> Any:
    """The name of a value; of a cell, the names of its values by column."""
    if not isinstance(key, tuple):
        return words[key]
    return ", ".join(str(of[value]) for value, of in zip(key, words.values(), strict=True))


def _named(tallies: GroupedTally, words: Mapping[Any, Any]) -> GroupedTally:
    made: dict[Any, list[Tally]] = defaultdict(list)
    for key, each in tallies.items():
        made[_name(key, words)].append(each)
    return GroupedTally({name: reduce(Tally.__add__, parts) for name, parts in made.items()})


def _added(sums: Mapping[Any, Floats], words: Mapping[Any, Any]) -> dict[Any, Floats]:
    made: dict[Any, Floats] = {}
    for key, each in sums.items():
        name = _name(key, words)
        made[name] = made[name] + each if name in made else each
    return made


def _as_probabilities(
    frame: Any, score: str, score_type: ScoreType | None, calibration: Calibration | None
) -> tuple[Any, str]:
    if calibration is not None:
        name = fresh_name(frame, "calibrated probability")
        return apply(calibration, frame, score, name=name), name
    if score_type == "real":
        raise not_probabilities()
    if score_type != "logit":
        return frame, score
    name = fresh_name(frame, "probability of these log-odds")
    return apply(LogitAffineMap(1.0, 0.0, on="score"), frame, score, name=name, score_type="logit"), name


# -------------------------------------------------------------------------------------------------------- time


@dataclass(frozen=True)
class Periods:
    """Periods of about equal numbers of rows, by their first timestamp."""

    tallies: GroupedTally
    ends: Mapping[Any, Any]
    start_of: Mapping[Any, Any]
    """First timestamp of the period of each timestamp."""

    @classmethod
    def of(cls, timestamps: GroupedTally) -> Periods:
        """Merge neighboring timestamps into periods."""
        names = sorted(timestamps)
        rows = np.array([float(timestamps[name].total) for name in names])
        first, last, place = cut_time(np.array(names, dtype=object), rows)
        start_of = {name: first[j] for name, j in zip(names, place.tolist(), strict=True)}
        parts: dict[Any, list[Tally]] = defaultdict(list)
        for name in names:
            parts[start_of[name]].append(timestamps[name])
        tallies = GroupedTally({start: reduce(Tally.__add__, each) for start, each in parts.items()})
        return cls(tallies, dict(zip(first.tolist(), last.tolist(), strict=True)), start_of)

    def added(self, sums: Mapping[Any, Floats]) -> dict[Any, Floats]:
        """Sums by timestamp added up by period."""
        made: dict[Any, Floats] = {}
        for timestamp, each in sums.items():
            start = self.start_of[timestamp]
            made[start] = made[start] + each if start in made else each
        return made


def _tallies_by_time(engine: Engine, time: str) -> tuple[dict[str, Any], GroupedTally]:
    """The query by time and its tallies: values as given, or timestamps truncated to days or less."""
    source, place = plain_names(engine.frame, [time])
    column = nw.col(place[time])
    rows = read_frame(on_local_clock(source, place[time]))
    dtype = rows.collect_schema()[place[time]]
    ways: list[dict[str, Any]] = [{"by": time}]
    if isinstance(dtype, nw.Datetime):
        ways = [{"time": time, "every": every} for every in TRUNCATIONS]
    for way in ways:
        value = column.dt.truncate(way["every"]) if "every" in way else column
        count = _rows_of(rows.select(value.alias("timestamp")).unique().head(MAX_TIMESTAMPS + 1))
        if count > MAX_TIMESTAMPS:
            raise InputError(
                Setting("time", time),
                f"has more than {MAX_TIMESTAMPS:,} distinct values",
                "truncate it to days or months",
            )
        if count >= 2 * PERIODS:
            break
    return way, engine.parts(**way)


def _rows_of(rows: Rows) -> int:
    return int(collect_frame(rows.select(nw.len().alias("rows")))["rows"].item())


# ---------------------------------------------------------------------------------------------------- clusters


def _parts(sums: Mapping[Any, Floats], unit: float) -> dict[Any, Part]:
    """Variance of the events between cluster buckets, by value; a bucket is never treated as a single row."""
    return {value: part_of(*(unit * each), counts=False) for value, each in sums.items()}


def _scaled(tallies: GroupedTally, unit: float) -> GroupedTally:
    return tallies.each(lambda tally: tally.scaled(unit))


def _count_distinct(frame: Any, name: str) -> int:
    source, place = plain_names(frame, [name])
    return _rows_of(read_frame(source).select(nw.col(place[name])).unique())
