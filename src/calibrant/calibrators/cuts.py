"""Where bins end and what they hold: equal masses, edges between whole cells, a part of the rows set aside.

Nothing here is an estimator, so that a verdict can try a map without loading scikit-learn.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import InputError
from calibrant.arrays.columns import is_whole
from calibrant.guarantees.issuing import Bins
from calibrant.maps import LARGEST, Map
from calibrant.numerics import Floats, Ints, first_double
from calibrant.tallies import Tally

ROUNDING = 1e-12
"""Sums of real weights that ought to meet a mark may miss it by this much of themselves."""


def check_bins(n_bins: object) -> None:
    """Refuse a number of bins that is none."""
    if not isinstance(n_bins, Integral) or not is_whole(n_bins) or n_bins < 1:
        raise InputError(f"n_bins must be a whole number of at least 1, got {n_bins!r}")


def equal_masses(reached: NDArray[Any], count: int) -> NDArray[np.intp]:
    """First cell of each of about ``count`` bins of equal mass, given the rows up to each cell; cells are never split.

    A bin ends with the cell in which k / ``count`` of the rows are reached, so heaps make bins fewer.

    Examples
    --------
    >>> equal_masses(np.cumsum([1, 1, 1, 1, 4]), 2).tolist()
    [0, 4]
    """
    marks = reached[-1] * np.arange(1, count) / count * (1.0 - ROUNDING)
    starts = np.unique(np.append(0, np.searchsorted(reached, marks, side="left") + 1))
    return np.asarray(starts[starts < len(reached)])


def pulled_back(fitted: Map, levels: Floats, tally: Tally) -> Floats:
    """Smallest score at which a map that never falls reaches each level, where some scores do and others do not.

    On a grid, or in a user's own bins, it is moved down to where its cell begins.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> tally = Tally.from_arrays([0.2, 0.7], [0, 1])
    >>> pulled_back(LogitAffineMap(1.0, 0.0), np.array([0.25, 0.5]), tally).round(12).tolist()
    [0.25, 0.5]
    """
    lowest, highest = (0.0, 1.0) if tally.kind == "probability" else (-LARGEST, LARGEST)
    below, above = (float(fitted.apply(np.array([end]))[0]) for end in (lowest, highest))
    levels = levels[(levels > below) & (levels <= above)]
    ends = np.full(len(levels), lowest), np.full(len(levels), highest)
    return _between_cells(np.unique(first_double(lambda s: np.asarray(fitted.apply(s) >= levels), *ends)), tally)


def _between_cells(edges: Floats, tally: Tally) -> Floats:
    """The edges, each moved down to where the cell that holds it begins."""
    if tally.grid is not None:
        inside = edges[(edges > tally.grid.low) & (edges <= tally.grid.high)]
        begins = np.unique(tally.grid.lower_edges(tally.grid.codes(inside)))
        return np.asarray(begins[begins > tally.grid.low])
    if tally.edges is not None:
        index = np.searchsorted(tally.edges, edges, side="right") - 1
        return np.asarray(tally.edges[np.unique(index[index >= 0])])
    return edges


def parted(tally: Tally, size: float, random_state: int | None) -> tuple[Tally, Tally]:
    """A random part of the rows, ``size`` of them or this share, and the rest; importance weights stay together.

    Examples
    --------
    >>> part, rest = parted(Tally.from_arrays([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]), 0.5, 0)
    >>> part.total, rest.total
    (2, 2)
    """
    if isinstance(size, bool) or not isinstance(size, Real):
        raise InputError(f"part_size must be a number of rows or a share of them, got {size!r}")
    if not tally.counts:
        return tally, tally
    rows = float(size if isinstance(size, Integral) else size * tally.total)
    if not 0.5 < rows < tally.total - 0.5:
        raise InputError(f"part_size asks for {rows:g} of {tally.total:g} rows: leave some for either part")
    return tally.split(round(rows), random_state)


def counted(tally: Tally, edges: Floats, rule: str, source: str, assumption: str) -> Bins:
    """Bins whose edges come from other rows, drawn at random: every row counts, every score is covered.

    A bin puts out its event rate; (k + 1) / (n + 2) where that is 0 or 1; what the nearest bin below with rows does
    (above, at the lower end) where it has none.

    Examples
    --------
    >>> rows = Tally.from_arrays([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 1])
    >>> counted(rows, np.array([0.5, 0.95]), "halves", "", "").outputs.tolist()
    [0.25, 0.5, 0.5]
    """
    n, events = (cast(Ints, column) for column in tally.partition(edges))
    filled = np.flatnonzero(n > 0)
    like = filled[np.maximum(np.searchsorted(filled, np.arange(len(n)), side="right") - 1, 0)]
    extreme = (events == 0) | (events == n)
    outputs = ((events + extreme) / (n + 2 * extreme))[like]
    nothing = np.zeros(len(n), dtype=bool)
    return Bins(edges, outputs, n, events, rule, source, uncovered=nothing, fixed=False, assumption=assumption)
