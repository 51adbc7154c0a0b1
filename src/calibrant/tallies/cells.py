"""Columns of a tally by cell: how they are computed from rows or a table, and merged; rows that weights are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType
from calibrant.messages import InputError
from calibrant.numerics import Column, Floats, Grid, Ints, chunks

Counts = NDArray[np.int64] | NDArray[np.float64]

SUMS = ("n", "events", "offset", "rows", "row_events", "w2", "w2_events")
"""Columns that add up when cells merge."""


@dataclass(frozen=True, eq=False)
class Cells:
    """One entry per cell with rows, in ascending order of the score."""

    keys: NDArray[Any]
    """Distinct scores (float64), grid codes (int32) or bin numbers (int32), by the tally's resolution."""
    n: Counts
    events: Counts
    offset: Counts | None = None
    """Sum of in-cell offsets, on a grid."""
    rows: Ints | None = None
    row_events: Ints | None = None
    """Physical rows, and events among them, under importance weights; otherwise ``n`` and ``events`` are these."""
    w2: Floats | None = None
    w2_events: Floats | None = None
    """Sum of squared weights, of all rows and of events, under importance weights; otherwise ``n`` and ``events``."""
    scores: Floats | None = None
    """Mean score by bin, where a table of bins came with one."""

    def merged(self, keys: NDArray[Any], offset: NDArray[Any] | None) -> Cells:
        """The same rows with new ``keys`` and offsets; cells with equal keys are merged."""
        order = np.argsort(keys, kind="stable")
        starts, distinct = distinct_starts(keys[order])
        columns = {name: getattr(self, name) for name in SUMS} | {"offset": offset}
        sums = {name: segment_sums(column[order], starts) for name, column in columns.items() if column is not None}
        means = None
        if self.scores is not None:
            means = segment_sums((self.scores * self.n)[order], starts) / np.maximum(sums["n"], 1)
        return Cells(distinct, scores=means, **sums)

    def joined(self, *others: Cells) -> Cells:
        """Cells of all; cells with equal keys are merged."""
        parts = (self, *others)
        columns: dict[str, Any] = {}
        for name in SUMS:
            if any(getattr(part, name) is not None for part in parts):
                columns[name] = np.concatenate([part._stated(name) for part in parts])
        means = [part.scores for part in parts if part.scores is not None]
        if len(means) == len(parts):
            columns["scores"] = np.concatenate(means)
        every = Cells(np.concatenate([part.keys for part in parts]), **columns)
        return every.merged(every.keys, every.offset)

    def _stated(self, name: str) -> NDArray[Any]:
        """A column, or what replaces it for frequency weights: n rows, each of weight one."""
        value = getattr(self, name)
        counted = self.events if name in ("row_events", "w2_events") else self.n
        return cast(NDArray[Any], counted if value is None else value)


def mass_below(counts: NDArray[Any], before: float = 0.0) -> Floats:
    """Counts of all lower cells plus half of the cell's own count, as the area under the ROC curve counts ties.

    Examples
    --------
    >>> mass_below(np.array([2, 4, 1]), before=10.0).tolist()
    [11.0, 14.0, 16.5]
    """
    return np.asarray(np.cumsum(counts) - 0.5 * counts + before)


def exact_cells(rows: Rows) -> Cells:
    """Distinct scores of rows with any weights, by a stable sort."""
    order = np.argsort(rows.scores, kind="stable")
    starts, keys = distinct_starts(rows.scores[order])
    labels = rows.labels[order]
    sizes = np.diff(starts, append=len(labels))
    if rows.weights is None:
        return Cells(keys, sizes, segment_sums(labels.astype(np.int64), starts))
    weights = rows.weights[order]
    n, events = segment_sums(weights, starts), segment_sums(weights * labels, starts)
    if rows.counts:
        return Cells(keys, n, events)
    squares = weights * weights
    return Cells(
        keys,
        n,
        events,
        rows=sizes,
        row_events=segment_sums(labels.astype(np.int64), starts),
        w2=segment_sums(squares, starts),
        w2_events=segment_sums(squares * labels, starts),
    )


def grid_cells(rows: Rows, grid: Grid) -> Cells:
    """Counts of rows by grid cell, in one pass; integers unless weights are real numbers."""
    size, base = 2 * grid.top + 1, grid.top
    dtype = np.int64 if rows.counts else np.float64
    by_label: NDArray[Any] = np.zeros(2 * size, dtype=dtype)
    offset: NDArray[Any] = np.zeros(size, dtype=dtype)
    sizes, squares = np.zeros(2 * size, dtype=np.int64), np.zeros(2 * size)
    for part in chunks(len(rows.scores), 1 << 17):
        code, inside = grid.cells(rows.scores[part])
        code += base
        both = code * 2 + rows.labels[part]
        if rows.weights is None:  # sums of a chunk stay far below 2^53, where bincount's doubles are exact
            by_label += np.bincount(both, minlength=2 * size)
            offset += np.bincount(code, inside, minlength=size).astype(np.int64)
            continue
        weights = rows.weights[part]
        np.add.at(by_label, both, weights)
        np.add.at(offset, code, weights * inside)
        if not rows.counts:
            sizes += np.bincount(both, minlength=2 * size)
            squares += np.bincount(both, weights * weights, minlength=2 * size)
    n = by_label[0::2] + by_label[1::2]
    keep = np.flatnonzero(n)
    cells = Cells((keep - base).astype(np.int32), n[keep], by_label[1::2][keep], offset=offset[keep])
    if rows.counts:
        return cells
    row_events, w2_events = sizes[1::2][keep], squares[1::2][keep]
    rows_of, w2 = row_events + sizes[0::2][keep], w2_events + squares[0::2][keep]
    return replace(cells, rows=rows_of, row_events=row_events, w2=w2, w2_events=w2_events)


def table_cells(
    n: ArrayLike, events: ArrayLike, edges: ArrayLike, scores: Column, score_type: ScoreType
) -> tuple[Cells, Floats]:
    """Cells of the bins that have rows, and the inner edges; see :meth:`Tally.from_table`."""
    counts, hits = _whole(n, "n"), _whole(events, "events")
    inner = np.asarray(edges, dtype=np.float64)
    if len(hits) != len(counts):
        raise InputError("events", f"must have one entry for each of the {len(counts)} bins, got {len(hits)}")
    if len(inner) != len(counts) - 1:
        raise InputError("edges", f"must be the {len(counts) - 1} edges between {len(counts)} bins, got {len(inner)}")
    if (hits > counts).any():
        wrong = int(np.argmax(hits > counts))
        raise InputError("events", f"exceed n in bin {wrong}", "check whether the two columns are swapped")
    if not (np.isfinite(inner).all() and (np.diff(inner) > 0).all()):
        raise InputError("edges", "must be finite and increase from bin to bin", "sort the table by score")
    filled = np.flatnonzero(counts)
    means = None if scores is None else np.asarray(scores, dtype=np.float64)
    if means is not None:
        ends = (0.0, 1.0) if score_type == "probability" else (-np.inf, np.inf)
        low, high = np.append(ends[0], inner), np.append(inner, ends[1])
        if means.shape != counts.shape or not ((means >= low) & (means <= high) & np.isfinite(means))[filled].all():
            raise InputError("scores", "must hold the mean score of each bin, between its edges, or be left out")
        means = means[filled]
    return Cells(filled.astype(np.int32), counts[filled], hits[filled], scores=means), inner


def effective_size(total: float, events: float, w2: float, w2_events: float) -> float:
    """:attr:`Tally.effective_size` from sums of weights and of their squares, of all rows and of events.

    Examples
    --------
    >>> round(effective_size(10.0, 4.0, 10.0, 4.0), 6)  # weights of one
    10.0
    >>> round(effective_size(100 + 20 * 500, 100, 100 + 400 * 500, 100))  # 500 negatives stand for 10,000
    8501
    """
    rate = events / total
    variance = w2_events * (1.0 - rate) ** 2 + (w2 - w2_events) * rate**2
    if not 0.0 < rate < 1.0 or not variance > 0.0:
        return total**2 / w2
    return total**2 * rate * (1.0 - rate) / variance


def in_effective_rows(rows: Rows) -> Rows:
    """Importance weights rescaled to sum to the effective sample size.

    Integer weights too: a row of weight 20 is one row, and must not count as 20 when rows are split.
    """
    if rows.counts or rows.weights is None:
        return rows
    weights = rows.weights / float(rows.weights.max())  # so that squares neither overflow nor vanish
    squares, events = weights * weights, rows.labels == 1
    sums = (float(part.sum()) for part in (weights, weights[events], squares, squares[events]))
    return replace(rows, weights=weights * (effective_size(*sums) / float(weights.sum())))


def distinct_starts(ordered: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Where each distinct value of a sorted array starts, and the distinct values."""
    first = np.append(np.ones(min(1, len(ordered)), dtype=bool), ordered[1:] != ordered[:-1])
    starts = np.flatnonzero(first)
    return starts, ordered[starts]


def segment_sums(values: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    """Sum of each segment that begins at ``starts`` and ends where the next begins; empty segments give 0."""
    if not len(starts):
        return np.zeros(0, dtype=values.dtype)
    sums = np.add.reduceat(np.append(values, values.dtype.type(0)), starts)
    sums[np.diff(starts, append=len(values)) <= 0] = 0
    return np.asarray(sums)


def _whole(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(name, "must be a non-empty, one-dimensional array of counts")
    if not ((array >= 0) & (array < 2.0**53) & (array == np.floor(array))).all():
        raise InputError(name, "must hold integers from 0 to 2**53")
    return array.astype(np.int64)
