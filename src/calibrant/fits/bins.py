"""Edges and counts of bins: equal masses and widths, edges between cells, and random splits of the rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.arrays.columns import is_whole
from calibrant.guarantees.issuing import Bins
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.origins import OWN_ROWS, Assumption, BinRule
from calibrant.guarantees.weighted import WeightTable
from calibrant.maps import LARGEST, Map, StepMap
from calibrant.messages import InputError, Phrase, Setting
from calibrant.numerics import Floats, Guide, Ints, first_double
from calibrant.tallies import Counts, Tally

HEAVY_ROWS = 30
"""Expected rows that a tied score needs to be a separate bin."""

ROWS_BY_BIN_ROOT, MOST_BINS = 6.3, 100
"""By default there are sqrt(rows) over the first number of bins, at most the second."""

ROUNDING = 1e-12
"""Relative rounding error allowed in sums of real weights."""


def check_bins(count: object, name: str = "n_bins") -> None:
    """Check a number of bins, or of rows."""
    if not isinstance(count, Integral) or not is_whole(count) or count < 1:
        raise InputError(name, f"must be an integer of at least 1, got {count!r}")


def equal_masses(reached: NDArray[Any], count: int) -> NDArray[np.intp]:
    """First cell of each of about ``count`` bins of equal mass, given the rows up to each cell; cells are never split.

    A bin ends with the cell in which k / ``count`` of the rows are reached, so ties reduce the number of bins.

    Examples
    --------
    >>> equal_masses(np.cumsum([1, 1, 1, 1, 4]), 2).tolist()
    [0, 4]
    """
    marks = reached[-1] * np.arange(1, count) / count * (1.0 - ROUNDING)
    starts = np.unique(np.append(0, np.searchsorted(reached, marks, side="left") + 1))
    return np.asarray(starts[starts < len(reached)])


def mass_edges(tally: Tally, count: int, rows_to_come: float) -> Floats:
    """Inner edges of about ``count`` bins of equal mass; cells are not cut, and heavy values are separate bins.

    A value is heavy with half the share of a bin and at least 30 of the ``rows_to_come``. Between heavy values, a bin
    begins with the cell in which its cumulative mass is passed.

    Examples
    --------
    >>> mass_edges(Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]), 2, 4).tolist()
    [0.3]
    """
    n, begins = tally.n, tally.lower_edges
    if not len(n):
        return np.zeros(0)
    total = n.sum()
    share = n / total
    heavy = (share >= 0.5 / count) & (share * rows_to_come >= HEAVY_ROWS)
    cuts = [begins[heavy], tally.upper_edges[heavy]]
    bounds = np.concatenate([[-1], np.flatnonzero(heavy), [len(n)]])
    for before, behind in pairwise(bounds.tolist()):
        piece = slice(before + 1, behind)
        mass = n[piece].sum()
        inside = max(round(count * mass / total), 1) if mass > 0 else 0
        if inside > 1:
            targets = mass * np.arange(1, inside) / inside * (1.0 + ROUNDING)
            cuts.append(begins[piece][np.searchsorted(np.cumsum(n[piece]), targets, side="right")])
    inner = np.unique(np.concatenate(cuts))
    return np.asarray(inner[(inner > begins[0]) & np.isfinite(inner)])


def default_bins(rows: float) -> int:
    r"""Default number of bins: :math:`\sqrt n / 6.3`, at most 100, the trend of Gupta (2023), Figure 4.2.

    Examples
    --------
    >>> [default_bins(n) for n in (1, 1_000, 5_000, 20_000, 10_000_000)]
    [1, 5, 11, 22, 100]
    """
    return int(np.clip(np.sqrt(rows) / ROWS_BY_BIN_ROOT, 1, MOST_BINS))


def both_sides(tally: Tally, begins: Floats, ends: Floats) -> tuple[float, Floats]:
    """The lowest possible score, and where cells begin and end, if scores can lie on both sides.

    Examples
    --------
    >>> tally = Tally.from_arrays([0.0, 0.5], [0, 1])
    >>> both_sides(tally, tally.lower_edges, tally.upper_edges)[1].round(9).tolist()
    [0.0, 0.5, 0.5]
    """
    lowest, highest = (0.0, 1.0) if tally.score_type == "probability" else (-np.inf, np.finfo(np.float64).max)
    knots = np.unique(np.concatenate([begins, ends]))
    return lowest, np.asarray(knots[(knots > lowest) & (knots <= highest)])


def width_edges(tally: Tally, count: int) -> Floats:
    """Inner edges that cut [0, 1] into ``count`` pieces, moved to the nearest cell below on a grid.

    Examples
    --------
    >>> width_edges(Tally.from_arrays([0.1, 0.9], [0, 1]), 4).tolist()
    [0.25, 0.5, 0.75]
    """
    if tally.score_type != "probability":
        raise InputError(
            Setting("strategy", "width"),
            f"cuts [0, 1] and needs probabilities, not {tally.score_type} scores",
            Phrase("pass {mass}", mass=Setting("strategy", "mass")),
        )
    edges = np.arange(1, count) / count
    return edges if tally.grid is None else np.unique(tally.grid.lower_edges(tally.grid.codes(edges)))


def pulled_back(fitted: Map, levels: Floats, tally: Tally) -> Floats:
    """Smallest score at which a non-decreasing map reaches each level, for levels inside the range of the map.

    On a grid, or in user-defined bins, it is moved down to the start of its cell.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> tally = Tally.from_arrays([0.2, 0.7], [0, 1])
    >>> pulled_back(LogitAffineMap(1.0, 0.0), np.array([0.25, 0.5]), tally).round(12).tolist()
    [0.25, 0.5]
    """
    lowest, highest = (0.0, 1.0) if tally.score_type == "probability" else (-LARGEST, LARGEST)
    below, above = (float(fitted.apply(np.array([end]))[0]) for end in (lowest, highest))
    levels = levels[(levels > below) & (levels <= above)]
    ends = np.full(len(levels), lowest), np.full(len(levels), highest)
    return _between_cells(np.unique(first_double(lambda s: np.asarray(fitted.apply(s) >= levels), *ends)), tally)


def _between_cells(edges: Floats, tally: Tally) -> Floats:
    """The edges, each moved down to the start of its cell."""
    if tally.grid is not None:
        inside = edges[(edges > tally.grid.low) & (edges <= tally.grid.high)]
        begins = np.unique(tally.grid.lower_edges(tally.grid.codes(inside)))
        return np.asarray(begins[begins > tally.grid.low])
    if tally.edges is not None:
        index = np.searchsorted(tally.edges, edges, side="right") - 1
        return np.asarray(tally.edges[np.unique(index[index >= 0])])
    return edges


def parted(tally: Tally, size: float, random_state: int | None) -> tuple[Tally, Tally]:
    """A random split of the rows, ``size`` of them or this share, and the rest; importance weights are not split.

    Examples
    --------
    >>> part, rest = parted(Tally.from_arrays([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]), 0.5, 0)
    >>> part.total, rest.total
    (2, 2)
    """
    if isinstance(size, bool) or not isinstance(size, Real):
        raise InputError("split_size", f"must be a number of rows or a share of them, got {size!r}")
    if not tally.counts:
        return tally, tally
    rows = float(size if isinstance(size, Integral) else size * tally.total)
    if not 0.5 < rows < tally.total - 0.5:
        raise InputError(
            "split_size", f"asks for {rows:g} of {tally.total:g} rows", "leave some rows on both sides of the split"
        )
    return tally.split(round(rows), random_state)


def counted(
    tally: Tally,
    edges: Floats,
    rule: BinRule,
    source: str,
    assumption: Assumption | None = None,
    *,
    fixed: bool = False,
    succession: bool = True,
    refusal: NoCertificate | None = None,
) -> Bins:
    """Bins whose edges do not depend on these rows: every row counts, every score is covered.

    The outputs are :func:`rates`. ``fixed`` means that the edges were not drawn at random either; ``refusal`` is the
    reason why they have no certificate, if they have none.

    Examples
    --------
    >>> rows = Tally.from_arrays([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 1])
    >>> counted(rows, np.array([0.5, 0.95]), BinRule.TABLE, OWN_ROWS).outputs.tolist()
    [0.25, 0.5, 0.5]
    """
    n, events = (cast(Ints, column) for column in tally.partition(edges))
    outputs, nothing = rates(n, events, succession=succession), np.zeros(len(n), dtype=bool)
    return Bins(
        edges, outputs, n, events, rule, source, uncovered=nothing, fixed=fixed, assumption=assumption, refusal=refusal
    )


def own_row_bins(tally: Tally, count: int, *, succession: bool = True, edge_rows: bool = False) -> Bins:
    """About ``count`` bins of equal mass whose edges are rows of the tally itself (Gupta 2023, Algorithm 4.1).

    Heavy edges are separate bins; see ``docs/certificates/own-rows.md``. With ``edge_rows`` the rows on a light edge
    also count in the mean of the bin below it.

    Examples
    --------
    >>> own_row_bins(Tally.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 1]), 2).n.tolist()
    [2, 0, 2]
    """
    total = int(tally.total)
    ranks = -(-np.arange(1, count) * (total + 1) // count)  # ceil(b (n + 1) / B)
    begins, ends = tally.cell_at(ranks)
    lowest, knots = both_sides(tally, begins, ends)
    n, events = (cast(Ints, column) for column in tally.partition(knots))
    on_edge = np.isin(np.append(lowest, knots), begins)
    heavy = n >= max(min(max(HEAVY_ROWS, total / (10 * count)), total / (2 * count)), 2)
    light = on_edge & ~heavy
    used = _with_light_edges(n, events, on_edge, np.flatnonzero(light), edge_rows=edge_rows)
    return Bins(
        knots,
        rates(*used, succession=succession),
        np.where(light, 0, n),
        np.where(light, 0, events),
        BinRule.OWN_MASSES,
        OWN_ROWS,
        uncovered=light,
        uncovered_rows=int(n[light].sum()),
        fixed=False,
    )


def _with_light_edges(
    n: Ints, events: Ints, on_edge: NDArray[np.bool_], light: NDArray[np.intp], *, edge_rows: bool
) -> tuple[Ints, Ints]:
    """Rows and events behind the outputs: a light edge uses those of the bin above it, if it has rows."""
    used_n, used_events = n.copy(), events.copy()
    if edge_rows:
        joins = light[(light > 0) & ~on_edge[light - 1]]
        used_n[joins - 1] += n[joins]
        used_events[joins - 1] += events[joins]
    follows = light[light + 1 < len(n)]
    follows = follows[~on_edge[follows + 1] & (n[follows + 1] > 0)]
    used_n[follows], used_events[follows] = used_n[follows + 1], used_events[follows + 1]
    return used_n, used_events


def weighted(bins: Bins, rows: Rows, *, succession: bool = True) -> Bins:
    """Bins of source rows with the weighted rates of rows whose weights are a density ratio.

    The edges stay. A light edge has the output of the bin above it, if that has weight. With ``succession`` a bin with
    no event, or only events, counts with its effective sample size.

    Examples
    --------
    >>> from calibrant.arrays import check_rows
    >>> from calibrant.arrays.sides import known_weights
    >>> rows = check_rows([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1], known_weights([1.5, 0.5, 1.0, 1.0], upper=2))
    >>> source = Tally.from_arrays([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1])
    >>> weighted(counted(source, np.array([0.5]), BinRule.TABLE, OWN_ROWS), rows).outputs.tolist()
    [0.25, 0.5]
    """
    if rows.ratio is None or rows.weights is None:
        raise ValueError("rows must have a density ratio")
    index, size = Guide(bins.knots).locate(rows.scores), len(bins.knots) + 1
    weights = rows.weights.astype(np.float64)
    mass, squares, hits = (
        np.bincount(index, each, size) for each in (weights, weights**2, np.where(rows.labels == 1, weights, 0.0))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        n = np.nan_to_num(mass**2 / squares)
        events = np.where(hits == mass, n, n * np.nan_to_num(hits / mass))
    light = np.flatnonzero(bins.uncovered[:-1] & ~bins.uncovered[1:] & (n[1:] > 0.0))
    n[light], events[light] = n[light + 1], events[light + 1]
    table = WeightTable.of(weights, rows.labels == 1, rows.ratio.upper, index, size).at(~bins.uncovered)
    return replace(bins, outputs=rates(n, events, succession=succession), weights=table)


def scaled_means(scaling: Map, tally: Tally, n_bins: int) -> StepMap:
    """Means of a non-decreasing scaling map in about ``n_bins`` bins of equal mass.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> rows = Tally.from_arrays([0.1, 0.2, 0.6, 0.8], [0, 0, 0, 1])
    >>> scaled_means(LogitAffineMap(1.0, 0.0), rows, 2).values.round(9).tolist()
    [0.15, 0.7]
    """
    starts = equal_masses(np.cumsum(tally.n), n_bins)
    scaled = scaling.apply(tally.scores)
    means = np.add.reduceat(scaled * tally.n, starts) / np.add.reduceat(tally.n, starts)
    values = np.maximum.accumulate(np.clip(means, scaled.min(), scaled.max()))  # rounding must not leave the range
    return StepMap(tally.lower_edges[starts[1:]], values).merged()


def rates(n: Counts, events: Counts, *, succession: bool = True) -> Floats:
    """Event rate of each bin; bins without rows get the pooled rate of their nearest neighbors with rows.

    With ``succession`` a rate of 0 or 1 is replaced by (k + 1) / (n + 2).

    Examples
    --------
    >>> rates(np.array([2, 0, 4, 0]), np.array([1, 0, 1, 0])).round(3).tolist()  # 2 of 6 in between
    [0.5, 0.333, 0.25, 0.25]
    """
    n, events = n.astype(np.float64), events.astype(np.float64)
    filled = np.flatnonzero(n > 0)
    if len(filled) < len(n):
        left = filled[np.maximum(np.searchsorted(filled, np.arange(len(n)), side="right") - 1, 0)]
        right = filled[np.minimum(np.searchsorted(filled, np.arange(len(n)), side="left"), len(filled) - 1)]
        share = np.where(left == right, 0.5, 1.0)
        n, events = share * (n[left] + n[right]), share * (events[left] + events[right])
    plain = events / n
    extreme = (events == 0) | (events == n)
    return np.where(extreme, (events + 1) / (n + 2), plain) if succession else plain
