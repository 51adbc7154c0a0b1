"""The data behind a verdict as tallies: all rows, folds, clusters, segments and periods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.messages import Advice, InputError, Note, Phrase, Setting, Voice, note
from calibrant.metrics.variance import Spread, between, kish
from calibrant.numerics import Ends, Floats, Grid, expit
from calibrant.selection.folds import Folds, cut_time, periods_of
from calibrant.tallies import SEGMENT_GRID, Clusters, GroupedTally, Tally
from calibrant.tallies.grouped import check_ids

Columns = Mapping[str, NDArray[Any]]

MAX_EXACT_ROWS = 1 << 16
"""More rows than this are counted on the grid of 65,536 cells, where scores that agree to a thousandth share a cell;
their segments and periods on about 1,000 cells."""


MANY_VALUES = 20
"""A column of numbers with more values than this is cut into ranges of about equally many rows."""

NO_FOLDS = Folds(())
"""No folds can be made."""


class Unseen(StrEnum):
    """Why it is unknown whether a map was fitted to these rows."""

    FRAME = "large frame"
    GRID = "grid"
    TIES = "ties"


_WHY = {
    Unseen.FRAME: "a frame of this size is counted on a grid",
    Unseen.GRID: "the {scores} were counted on a grid",
    Unseen.TIES: "the {scores} are few or have many ties",
}


@note("overlap-unknown")
def overlap_unknown(voice: Voice, why: Unseen) -> str:
    """The rows that a map was fitted to are documented, but these rows cannot be compared with them."""
    nouns = voice.nouns
    return (
        f"cannot check whether the map was fitted to these {nouns.rows} "
        f"({_WHY[why].format(scores=nouns.scores)}): evaluate it on held-out {nouns.rows}"
    )


@dataclass(frozen=True)
class Seen:
    """What is known about whether the map was fitted to these rows.

    Attributes
    ----------
    share
        Estimated share of the rows that the map was fitted to; None if unknown.
    crossfitted
        Whether the map was fitted to all of them, and was therefore cross-fitted.
    unseen
        Why the share is unknown although the map documents its rows; otherwise None.
    """

    share: float | None = None
    crossfitted: bool = False
    unseen: Unseen | None = None


NOT_SEEN = Seen()
"""Nothing is known, or there is no map."""


@dataclass(frozen=True)
class Part:
    """Variance of the events of a segment or period between clusters, and the number of clusters with rows there."""

    spread: Spread
    """If the model is calibrated: a cluster of one row has the variance of its score."""
    clusters: int
    around: Spread
    """Whatever the model is: a cluster of one row has the square of its residual."""
    units: float = 0.0
    """Clusters of equal size that are worth as much as these."""
    mixed: bool = True
    """Whether at least two clusters have an event, and two something else, as a variance between them needs."""


Parts = Mapping[str, Mapping[Any, Part]]
"""By column and value."""


@dataclass(frozen=True)
class Evidence:
    """Tallies of probabilities: all rows, and the same rows by fold, cluster, segment and period."""

    tally: Tally
    folds: Folds = NO_FOLDS
    clusters: Clusters | None = None
    """The rows by group, or by hash bucket of the groups if an engine counted them."""
    segments: Mapping[str, GroupedTally] = field(default_factory=dict)
    periods: GroupedTally | None = None
    period_ends: Mapping[Any, Any] = field(default_factory=dict)
    """Last timestamp of each period, by its first timestamp."""
    n_groups: int | None = None
    """Number of distinct groups."""
    parts: Parts | None = None
    period_parts: Parts | None = None
    """With groups: variance of the events between clusters, by segment and by period."""
    notes: tuple[Note, ...] = ()
    seen: Seen = NOT_SEEN
    """Whether the map was fitted to these rows."""

    @property
    def cells(self) -> str | None:
        """Which of the segments are the cells of all the others; None if each column is judged by itself."""
        first, *columns = self.segments or ("",)
        return first if columns and first == ", ".join(columns) else None

    def with_ends(self, ends: Ends) -> Evidence:
        """The same rows, with scores clipped to these ends where log-odds are computed."""
        tally = self.tally.with_ends(ends)
        clusters = None if self.clusters is None else replace(self.clusters, tally=tally)
        return replace(self, tally=tally, clusters=clusters, folds=self.folds.with_ends(ends))


def evidence_of_rows(
    rows: Rows, segments: Columns | None = None, said: tuple[Note, ...] = (), *, random_state: int = 0
) -> Evidence:
    """Tallies of checked rows of probabilities by group, time and segment."""
    rows = in_event_rows(without_single_groups(rows))
    grid, part = (Grid(), SEGMENT_GRID) if len(rows.scores) > MAX_EXACT_ROWS else (None, None)
    clusters = None if rows.groups is None else Clusters.of_rows(rows, grid)
    if clusters is not None and rows.fractional:
        clusters = replace(clusters, tally=_whole(clusters.tally))
    tally = Tally.from_rows(rows, grid) if clusters is None else clusters.tally
    starts, ends = (None, {}) if rows.time is None else periods_of(rows.time, rows.weights)
    periods = None if starts is None else _grouped(rows, starts, part)
    if periods is None:
        folds = Folds.of_rows(rows, grid=grid, random_state=random_state, tally=tally)
    else:
        folds = forward_folds(periods, tally)
    by = {name: _grouped(rows, column, part) for name, column in (segments or {}).items()}
    found = period_found = None
    if clusters is not None:
        found = {name: _parts(rows, column, clusters) for name, column in (segments or {}).items()}
        period_found = {} if starts is None else {"time": _parts(rows, starts, clusters)}
    return Evidence(
        tally,
        folds,
        clusters,
        by,
        periods,
        ends,
        None if clusters is None else clusters.size,
        found,
        period_found,
        (*rows.other_notes, *said),
    )


def range_names(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """The range of each of many distinct numbers in ascending order, as text; few values, and others, as they are."""
    numbers = np.asarray(values.tolist()) if values.dtype == object else values
    if len(values) <= MANY_VALUES or numbers.dtype.kind not in "iuf":
        return values
    first, last, place = cut_time(numbers, rows)
    names: list[str] = []
    for digits in (6, 9, 12, 17):  # as many as tell the ranges apart
        ends = [[f"{end:.{digits}g}" for end in each] for each in zip(first, last, strict=True)]
        names = [" to ".join(dict.fromkeys(each)) for each in ends]
        if len(set(names)) == len(names):
            break
    return np.array(names, dtype=object)[place]


def _whole(tally: Tally) -> Tally:
    """Halves of rows counted as rows of weight one are, so that only clusters tell how much they vary."""
    cells = tally.cells
    events = np.asarray(cells.events, dtype=np.float64)
    cells = replace(cells, w2=cells.n.astype(np.float64), w2_events=events)
    how = {name: getattr(tally, name) for name in ("grid", "resolution", "counts", "whole")}
    return Tally(cells, score_type=tally.score_type, **how)


def physical_rows(tally: Tally) -> float:
    """Number of rows, regardless of their weights."""
    rows = tally.cells.rows
    return float(tally.total if tally.counts or rows is None else rows.sum())


def in_event_rows(rows: Rows) -> Rows:
    """Importance weights scaled so that those of the events sum to their number (without events: those of all rows)."""
    if rows.counts or rows.weights is None or (rows.fractional and rows.groups is not None):
        return rows  # halves of rows add up to the rows as they are
    if rows.weights.min() == rows.weights.max():  # equal weights have no effect
        return replace(rows, weights=None, counts=True)
    counted = rows.labels == 1 if rows.labels.any() else np.ones(len(rows.labels), dtype=bool)
    unit = float(counted.sum()) / float(rows.weights[counted].sum())
    return replace(rows, weights=rows.weights.astype(np.float64) * unit)


def forward_folds(periods: GroupedTally, whole: Tally) -> Folds:
    """Periods as walk-forward folds; weights are scaled to the effective sample size of all rows."""
    unit = whole.effective_size / float(whole.total)
    return Folds(tuple(period.scaled(unit) for period in periods.values()), forward=True).with_ends(whole.ends)


def without_single_groups(rows: Rows) -> Rows:
    """Drop groups of one row each: such rows are independent."""
    if rows.groups is None:
        return rows
    check_ids(rows.groups)
    total = len(rows.groups) if rows.weights is None or not rows.counts else int(rows.weights.sum())
    return replace(rows, groups=None) if len(np.unique(rows.groups)) == total else rows


def _parts(rows: Rows, column: NDArray[Any], clusters: Clusters) -> dict[Any, Part]:
    """Variance of the events between clusters, by value of a column."""
    values, value = np.unique(column, return_inverse=True)
    pairs, place = np.unique(value * clusters.size + clusters.cluster, return_inverse=True)
    w = np.ones(len(place)) if rows.weights is None else rows.weights.astype(np.float64)
    s = rows.scores
    sums = np.array([np.bincount(place, each, len(pairs)) for each in (w, w * rows.labels, w * s, w * s * (1.0 - s))])
    starts = np.searchsorted(pairs // clusters.size, np.arange(len(values) + 1))
    return {
        name: part_of(*sums[:, starts[j] : starts[j + 1]], counts=rows.counts) for j, name in enumerate(values.tolist())
    }


def part_of(n: Floats, events: Floats, predicted: Floats, variance: Floats, *, counts: bool) -> Part:
    """Variance of the events of one part, from sums by cluster, around its own ratio of observed to predicted."""
    due = float(predicted.sum())
    ratio = float(events.sum()) / due if due > 0.0 else 1.0
    there = n > 0.0
    alone = n[there] == 1.0 if counts else np.zeros(int(there.sum()), dtype=bool)
    residuals, own = (events - ratio * predicted)[there], variance[there]
    spreads = [between(residuals, own, each) for each in (alone, np.zeros_like(alone))]
    mixed = min(int((events > 0.0).sum()), int((events < n).sum())) >= 2
    return Part(spreads[0], len(alone), spreads[1], kish(n), mixed)


def not_probabilities() -> InputError:
    """The error for scores that are neither probabilities nor log-odds."""
    logit = Setting("score_type", "logit")
    return InputError(
        "scores",
        "contains real numbers, not probabilities",
        Phrase("{fit}, or pass {logit} for log-odds", fit=Advice.FIT_FIRST, logit=logit),
    )


def as_probabilities(rows: Rows) -> Rows:
    """The rows with probabilities in place of log-odds; an error for other scores."""
    if rows.score_type == "real":
        raise not_probabilities()
    return replace(rows, scores=expit(rows.scores), score_type="probability") if rows.score_type == "logit" else rows


def _grouped(rows: Rows, keys: NDArray[Any], grid: Grid | None) -> GroupedTally:
    return GroupedTally.from_rows(replace(rows, groups=keys, time=None), grid)
