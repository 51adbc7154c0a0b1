"""A table of bins, as a user has it, checked and read as cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import ScoreType
from calibrant.messages import InputError
from calibrant.numerics import Column, Floats, Ints
from calibrant.tallies.cells import Cells


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


def _whole(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(name, "must be a non-empty, one-dimensional array of counts")
    if not ((array >= 0) & (array < 2.0**53) & (array == np.floor(array))).all():
        raise InputError(name, "must hold integers from 0 to 2**53")
    return array.astype(np.int64)
