"""Everything a verdict looks at, as tallies: the whole, its folds, clusters, segments and periods."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import CalibrantWarning, InputError, Kind, Rows, check_rows
from calibrant.arrays.sides import side_column
from calibrant.numerics import Floats, Grid, expit
from calibrant.tallies import CLUSTER_BUCKETS, GroupedTally, Tally, cluster_buckets
from calibrant.verdict.gain import FOLDS, random_folds
from calibrant.verdict.inflation import between_buckets
from calibrant.verdict.segments import Spreads

MOST_ROWS = 1 << 17
"""More rows than this are counted on the grid of 65,536 cells: scores that agree to a thousandth share a cell."""

PERIODS = 8
SIDES: tuple[tuple[Literal["left", "right"], int], ...] = (("left", 0), ("right", 1))
"""How the first and the last moment of a stretch are found."""


@dataclass(frozen=True)
class Evidence:
    """Tallies of probabilities: all rows, and the same rows cut in the ways that the questions need."""

    tally: Tally
    folds: tuple[Tally, ...] = ()
    forward: bool = False
    clusters: GroupedTally | None = None
    segments: Mapping[str, GroupedTally] = field(default_factory=dict)
    periods: GroupedTally | None = None
    period_ends: Mapping[Any, Any] = field(default_factory=dict)
    """Last moment of each period, by its first."""
    groups: int | None = None
    """Distinct groups behind the cluster buckets."""
    spreads: Spreads | None = None
    period_spreads: Spreads | None = None
    """With groups: how events vary between cluster buckets, by segment and by period."""
    notes: tuple[str, ...] = ()


def read_evidence(
    scores: Any,
    y: ArrayLike | None,
    sample_weight: Any,
    *,
    score: str | None,
    label: str | None,
    by: Any,
    time: Any,
    groups: Any,
    weights: Literal["importance", "counts"],
    positive: Any,
    kind: Kind | None,
    random_state: int,
) -> Evidence:
    """Tallies of arrays, of the named columns of a frame, of a tally, or of tallies by group."""
    if isinstance(scores, (Tally, GroupedTally)):
        if any(given is not None for given in (y, sample_weight, score, label, by, time, groups)):
            raise InputError("a tally holds its labels, weights and groups already: pass it alone")
        return _from_tallies(scores, random_state)
    if score is not None or label is not None:
        if score is None or label is None:
            raise InputError("a frame needs both score= and label=, the names of its columns")
        if y is not None:
            raise InputError("y and label= both name the labels: pass a frame with label=, or arrays with y")
        names = [*_names(by), *(name for name in (time, groups, sample_weight) if isinstance(name, str))]
        columns = _columns(scores, [score, label, *names])
        by = {name: columns[name] for name in _names(by)} if by is not None else None
        time, groups, sample_weight = (
            columns[given] if isinstance(given, str) else given for given in (time, groups, sample_weight)
        )
        scores, y = columns[score], columns[label]
    else:
        _refuse_names(y=y, sample_weight=sample_weight, by=by, time=time, groups=groups)
        if y is None:
            raise InputError("y is missing: pass check(scores, y), or check(frame, score=..., label=...)")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        rows = check_rows(
            scores, y, sample_weight, weights=weights, groups=groups, time=time, positive=positive, kind=kind
        )
    said = tuple(str(warning.message) for warning in caught if "one class" not in str(warning.message))
    kept = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64) != 0
    segments = {} if by is None else _segments(by, len(np.asarray(y)), kept)
    return evidence_of_rows(_as_probabilities(rows), segments, said, random_state=random_state)


def _from_tallies(given: Tally | GroupedTally, random_state: int) -> Evidence:
    tally = given.total() if isinstance(given, GroupedTally) else given
    if tally.kind != "probability":
        raise InputError(f"a verdict needs probabilities, not {tally.kind} scores: fit a calibrator first")
    if not tally.total > 0:
        raise InputError("the tally is empty: there is nothing to judge")
    segments = {}
    if isinstance(given, GroupedTally):
        segments = {"group": GroupedTally({key: each.in_effective_rows() for key, each in given.items()})}
    folds = random_folds(tally, random_state) if tally.counts else ()
    return Evidence(tally.in_effective_rows(), folds, segments=segments)


def evidence_of_rows(
    rows: Rows, segments: Mapping[str, NDArray[Any]] | None = None, said: tuple[str, ...] = (), *, random_state: int = 0
) -> Evidence:
    """Tallies of checked rows of probabilities, by their groups, their time and the given segments."""
    rows = _in_effective_rows(rows)
    grid = Grid() if len(rows.scores) > MOST_ROWS else None
    tally = Tally.from_rows(rows, grid)
    buckets = None if rows.groups is None else cluster_buckets(rows.groups)
    clusters = None if buckets is None else _grouped(rows, buckets, grid)
    starts, ends = (None, {}) if rows.time is None else _periods(rows.time, rows.weights)
    periods = None if starts is None else _grouped(rows, starts, grid)
    if periods is not None:
        folds, forward = tuple(periods.values()), True
    elif clusters is not None:
        folds, forward = _joined(clusters), False
    elif tally.counts:
        folds, forward = random_folds(tally, random_state), False
    else:
        folds, forward = tuple(_grouped(rows, _shuffled(rows, random_state), grid).values()), False
    by = {name: _grouped(rows, column, Grid(4) if grid else None) for name, column in (segments or {}).items()}
    groups = None if rows.groups is None else len(np.unique(rows.groups))
    spreads = period_spreads = None
    if buckets is not None:
        spreads = {name: _spreads(rows, column, buckets) for name, column in (segments or {}).items()}
        period_spreads = {} if starts is None else {"time": _spreads(rows, starts, buckets)}
    notes = (*rows.notes[1:], *said)
    return Evidence(tally, folds, forward, clusters, by, periods, ends, groups, spreads, period_spreads, notes)


def _in_effective_rows(rows: Rows) -> Rows:
    """Importance weights in the unit in which they add up to the effective size."""
    if rows.counts or rows.weights is None:
        return rows
    weights = rows.weights / float(rows.weights.max())  # so that squares neither overflow nor vanish
    return replace(rows, weights=weights * float(weights.sum() / (weights * weights).sum()))


def _spreads(rows: Rows, column: NDArray[Any], buckets: NDArray[np.int64]) -> dict[Any, tuple[float, int]]:
    """Variance of each value's events between cluster buckets, around its own ratio, and the buckets it has."""
    values, index = np.unique(column, return_inverse=True)
    place, size = index * CLUSTER_BUCKETS + buckets, len(values) * CLUSTER_BUCKETS
    w = np.ones(len(place)) if rows.weights is None else rows.weights.astype(np.float64)
    sums = [np.bincount(place, part, minlength=size) for part in (w, w * rows.labels, w * rows.scores)]
    total, events, predicted = (part.reshape(len(values), CLUSTER_BUCKETS) for part in sums)
    variance, filled = between_buckets(total, events, predicted)
    return dict(zip(values.tolist(), zip(variance.tolist(), filled.tolist(), strict=True), strict=True))


def _grouped(rows: Rows, keys: NDArray[Any], grid: Grid | None) -> GroupedTally:
    return GroupedTally.from_rows(replace(rows, groups=keys, time=None), grid)


def _joined(clusters: GroupedTally) -> tuple[Tally, ...]:
    """Whole clusters, dealt to five folds."""
    folds: dict[int, Tally] = {}
    for place, tally in enumerate(clusters.values()):
        fold = place % FOLDS
        folds[fold] = folds[fold] + tally if fold in folds else tally
    return tuple(folds.values())


def _shuffled(rows: Rows, random_state: int) -> NDArray[Any]:
    """A fold for each row, by a draw that does not depend on the order of the rows."""
    order = np.lexsort((cast(Floats, rows.weights), rows.labels, rows.scores))
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.random.default_rng(random_state).permutation(len(order)) % FOLDS
    return fold


def _periods(time: NDArray[Any], weights: NDArray[Any] | None) -> tuple[NDArray[Any], dict[Any, Any]]:
    """First moment of each row's stretch of time, and the last by the first; about equally many rows in each.

    Rows of one moment are never split.
    """
    moments, when = np.unique(time, return_inverse=True)
    counts = np.cumsum(np.bincount(when, weights))
    cuts = np.unique(np.searchsorted(counts, counts[-1] * np.arange(1, PERIODS) / PERIODS, side="left") + 1)
    stretch = np.searchsorted(cuts, np.arange(len(moments)), side="right")
    places = np.arange(stretch[-1] + 1)
    first, last = (moments[np.searchsorted(stretch, places, side=side) - after] for side, after in SIDES)
    return np.asarray(first[stretch][when]), dict(zip(first.tolist(), last.tolist(), strict=True))


def _as_probabilities(rows: Rows) -> Rows:
    if rows.kind == "logit":
        return replace(rows, scores=expit(rows.scores), kind="probability")
    if rows.kind == "real":
        raise InputError("scores are not probabilities: fit a calibrator first, or pass kind='logit' for log-odds")
    return rows


def _names(by: Any) -> list[str]:
    if by is None:
        return []
    names = [by] if isinstance(by, str) else list(by)
    if not all(isinstance(name, str) for name in names):
        raise InputError("by must name columns of the frame")
    return names


def _columns(frame: Any, names: list[str]) -> dict[str, Any]:
    try:
        rows = nw.from_native(frame)
    except TypeError:
        raise InputError(
            f"score= and label= name columns of a frame, and {type(frame).__name__} is none: pass a pandas, polars, "
            "pyarrow or DuckDB frame, or arrays without them"
        ) from None
    there = rows.collect_schema().names()
    missing = [name for name in names if name not in there]
    if missing:
        raise InputError(f"the frame has no column {missing[0]!r}: it has {', '.join(map(repr, there))}")
    kept = rows.select(*dict.fromkeys(names))
    collected = kept.collect() if isinstance(kept, nw.LazyFrame) else kept
    return {name: collected[name].to_numpy() for name in names}


def _refuse_names(**given: Any) -> None:
    for argument, value in given.items():
        if isinstance(value, str):
            raise InputError(
                f"{argument}={value!r} looks like the name of a column: names need a frame, as in "
                "check(frame, score=..., label=..., by=...)"
            )


def _keys(column: NDArray[Any], name: str) -> NDArray[Any]:
    if column.dtype == object and len({type(value) for value in column.tolist()}) > 1:
        raise InputError(f"by[{name!r}] mixes values of several types: turn them into text first")
    return column


def _segments(by: Any, length: int, kept: NDArray[np.bool_] | None) -> dict[str, NDArray[Any]]:
    columns = dict(by) if isinstance(by, Mapping) else {getattr(by, "name", None) or "segment": by}
    read = {
        str(name): _keys(side_column(column, f"by[{name!r}]", length), str(name)) for name, column in columns.items()
    }
    return read if kept is None else {name: column[kept] for name, column in read.items()}
