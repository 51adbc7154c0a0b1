"""The Tally: counts of rows and events by score."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.messages import InputError, Phrase, Setting, plural
from calibrant.numerics import Column, Ends, Floats, Grid, Ints, chunks, fingerprint, float_keys
from calibrant.tallies.cells import Cells, Counts, effective_size, exact_cells, grid_cells, segment_sums, table_cells
from calibrant.tallies.sorted_rows import SortedRows

Resolution = Literal["exact", "grid", "bins"]

HYPERGEOMETRIC_LIMIT = 10**9
"""Number of rows from which numpy's hypergeometric sampler raises an error."""


class Tally:
    """Counts of rows and events by score, which metrics and calibrators take in place of raw rows.

    Build one with :meth:`from_arrays` (exact, or on a grid), with :meth:`from_table` from your own bins, or with
    :func:`calibrant.tally` in a database or dataframe. ``a + b`` merges two tallies.

    Parameters
    ----------
    cells
        Counts by cell, or sorted rows. Use the class methods rather than this constructor.
    score_type, grid, resolution, counts, whole, edges, ends
        See the attributes.

    Attributes
    ----------
    score_type
        What the scores are: ``"probability"``, ``"logit"`` or ``"real"``.
    grid
        The grid, when cells are grid cells, else None.
    resolution
        ``"exact"`` (every distinct score), ``"grid"`` or ``"bins"`` (a user's table). Methods that need a finer
        resolution raise an error.
    counts
        Whether ``n`` counts rows. False for importance weights: then ``rows`` and ``w2`` (the sum of squared weights)
        show how much data there is, and no certificate is issued.
    whole
        Whether every weight is an integer, so that fits may read it as repetition.
    edges
        Inner edges of a user's own bins, else None.
    ends
        What scores of exactly 0 and 1 are read as in log-odds.

    Examples
    --------
    >>> morning = Tally.from_arrays([0.2, 0.2, 0.7], [0, 1, 1])
    >>> evening = Tally.from_arrays([0.2, 0.9], [0, 1])
    >>> day = morning + evening
    >>> day.scores.tolist(), day.n.tolist(), day.events.tolist()
    ([0.2, 0.7, 0.9], [3, 1, 1], [1, 1, 1])
    """

    __slots__ = (
        "_cells",
        "_edges",
        "_ends",
        "_fingerprint",
        "_scores",
        "_sorted",
        "counts",
        "grid",
        "resolution",
        "score_type",
        "whole",
    )

    def __init__(
        self,
        cells: Cells | SortedRows,
        *,
        score_type: ScoreType = "probability",
        grid: Grid | None = None,
        resolution: Resolution = "exact",
        counts: bool = True,
        whole: bool = False,
        edges: Floats | None = None,
        ends: Ends | None = None,
    ) -> None:
        self._sorted = cells if isinstance(cells, SortedRows) else None
        self._cells = None if isinstance(cells, SortedRows) else cells
        if self._cells is not None and grid is not None and counts:
            tiny = np.abs(self._cells.keys) == grid.top - 1  # there offsets use all 30 bits, whatever the grid
            if int(self._cells.n.sum()) >> (33 + grid.bits) or int(self._cells.n[tiny].sum()) >> 33:
                raise InputError(
                    "scores", "are too many rows: their sums on this grid exceed 64 bits", "tally them in several parts"
                )
        self._edges = edges
        self._ends = ends
        self._fingerprint: str | None = None
        self._scores: Floats | None = None
        self.score_type: ScoreType = score_type
        self.grid = grid
        self.resolution: Resolution = resolution
        self.counts = counts
        self.whole = counts or whole

    # ------------------------------------------------------------------------------------------------ construction

    @classmethod
    def from_arrays(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        sample_weight: Column = None,
        *,
        weight_type: Literal["importance", "frequency"] = "importance",
        positive: Any = None,
        score_type: ScoreType | None = None,
        grid: Grid | None = None,
    ) -> Tally:
        """Tally of rows: exact by default, on ``grid`` when one is given. Cost: one sort, or one pass for a grid.

        Parameters
        ----------
        scores
            One score per row.
        y
            Labels: 0/1, booleans, -1/1, or two values with ``positive``.
        sample_weight
            Weight of each row.
        weight_type
            ``"importance"``, or ``"frequency"`` for integer weights that repeat a row.
        positive
            The label that counts as the event.
        score_type
            ``"probability"``, ``"logit"`` or ``"real"``; guessed by default.
        grid
            Grid of the cells; None keeps every distinct score.
        """
        return cls.from_rows(
            check_rows(scores, y, sample_weight, weight_type=weight_type, positive=positive, score_type=score_type),
            grid,
        )

    @classmethod
    def from_rows(cls, rows: Rows, grid: Grid | None = None) -> Tally:
        """Tally of rows that :func:`calibrant.arrays.check_rows` has checked."""
        if grid is not None:
            _check_range(rows.scores, rows.score_type, grid)
            return cls(
                grid_cells(rows, grid),
                score_type=rows.score_type,
                grid=grid,
                resolution="grid",
                counts=rows.counts,
                whole=_whole_weights(rows),
            )
        if rows.weights is None and rows.score_type == "probability":
            return cls(SortedRows(rows.scores, rows.labels), score_type=rows.score_type)
        return cls(exact_cells(rows), score_type=rows.score_type, counts=rows.counts, whole=_whole_weights(rows))

    @classmethod
    def from_table(
        cls,
        n: ArrayLike,
        events: ArrayLike,
        *,
        edges: ArrayLike,
        scores: Column = None,
        score_type: ScoreType = "probability",
    ) -> Tally:
        """Tally of a table of bins, in ascending order of the score.

        Parameters
        ----------
        n, events
            Rows and events in each bin.
        edges
            Inner edges, one fewer than bins: bin j holds ``edges[j-1] <= score < edges[j]``.
        scores
            Mean score of each bin. Without it, methods that need a score for each bin raise an error.
        score_type
            What the scores are.
        """
        cells, inner = table_cells(n, events, edges, scores, score_type)
        return cls(cells, score_type=score_type, resolution="bins", edges=inner)

    # ----------------------------------------------------------------------------------------------------- columns

    @property
    def cells(self) -> Cells:
        """Counts by cell; an exact tally of raw rows computes them on first use."""
        if self._cells is None:
            self._cells = cast(SortedRows, self._sorted).cells()
        return self._cells

    @property
    def scores(self) -> Floats:
        """Score of each cell: the distinct score itself, or the cell's mean score."""
        cells = self.cells
        if self.resolution == "exact":
            return cast(Floats, cells.keys)
        if self.grid is not None:
            if self._scores is None:
                self._scores = self.grid.scores(cells.keys, cast(Counts, cells.offset) / cells.n)
            return self._scores
        if cells.scores is None:
            raise InputError("tally", "has no mean scores of its bins", "pass scores= to Tally.from_table")
        return cells.scores

    @property
    def n(self) -> Counts:
        """Rows, or sum of weights, in each cell."""
        return self.cells.n

    @property
    def events(self) -> Counts:
        """Positive rows, or their sum of weights, in each cell."""
        return self.cells.events

    @property
    def lower_edges(self) -> Floats:
        """Smallest score that belongs to each cell; -inf for the first of a user's bins."""
        if self.resolution == "exact":
            return cast(Floats, self.cells.keys)
        if self.grid is not None:
            return self.grid.lower_edges(self.cells.keys)
        return np.asarray(np.append(-np.inf, cast(Floats, self._edges))[self.cells.keys])

    @property
    def upper_edges(self) -> Floats:
        """Smallest score beyond each cell; inf where no score is."""
        if self.resolution == "exact":
            return np.asarray(np.nextafter(self.cells.keys, np.inf))
        if self.grid is not None:
            last = self.cells.keys == self.grid.top
            after = self.grid.lower_edges(np.minimum(self.cells.keys + 1, self.grid.top))
            return np.where(last, np.inf, after)
        return np.asarray(np.append(cast(Floats, self._edges), np.inf)[self.cells.keys])

    @property
    def edges(self) -> Floats | None:
        """Inner edges of a user's own bins, else None."""
        return self._edges

    @property
    def total(self) -> float | int:
        """Rows, or sum of weights, overall."""
        return len(self._sorted) if self._sorted is not None else self.n.sum().item()

    @property
    def positives(self) -> float | int:
        """Events overall."""
        return self._sorted.events if self._sorted is not None else self.events.sum().item()

    @property
    def effective_size(self) -> float:
        r"""Effective sample size: independent rows of weight one that estimate the event rate as precisely.

        .. math:: n_{\mathrm{eff}} = \Bigl(\sum_i w_i\Bigr)^2 \frac{\bar y (1 - \bar y)}{\sum_i w_i^2 (y_i - \bar y)^2},

        with weights :math:`w_i` and the weighted event rate :math:`\bar y`. It is the number of rows for frequency
        weights, and :math:`(\sum w)^2 / \sum w^2` (Kish, 1965) when weights do not depend on the label or there is one
        class only. Down-sampled negatives, which carry large weights and little information, do not lower it.
        """
        cells = self.cells
        if self.counts or cells.w2 is None:
            return float(self.total)
        w2, w2_events = cells.w2, cells.w2_events
        hits = float((w2 * (cells.events / cells.n) if w2_events is None else w2_events).sum())
        return effective_size(float(self.total), float(self.positives), float(w2.sum()), hits)

    def __len__(self) -> int:
        if self._cells is None and self._sorted is not None:
            return self._sorted.distinct
        return len(self.cells.n)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal hash of the counts: the same for equal data in any order, number of shards or repetition."""
        if self._fingerprint is None:
            body = self._sorted.fingerprint() if self._sorted is not None else self._cells_fingerprint()
            text = f"{self.score_type}|{self.resolution}|{self.grid}|{self.total!r}|{self.positives!r}|{body:032x}"
            if self._edges is not None:
                means = self.cells.scores
                text += self._edges.tobytes().hex() + ("" if means is None else means.tobytes().hex())
            self._fingerprint = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._fingerprint

    def _cells_fingerprint(self) -> int:
        cells = self.cells
        keys = float_keys(cells.keys) if self.resolution == "exact" else cells.keys.astype(np.int64)
        body = fingerprint(keys, cells.n, cells.events)
        return body if cells.offset is None else body << 64 | fingerprint(keys, cells.offset, cells.n)

    # --------------------------------------------------------------------------------------------------- questions

    @property
    def ends(self) -> Ends:
        """How log-odds read scores of exactly 0 and 1: as set by :meth:`with_ends`, else by the rule of :class:`Ends`.

        On a grid, and for a user's own bins, the rule uses the mean score of each cell.
        """
        return self.own_ends if self._ends is None else self._ends

    @property
    def own_ends(self) -> Ends:
        """The ends of these scores by the rule of :class:`Ends`, regardless of :meth:`with_ends`."""
        return Ends.of(self._outer_scores()) if self.score_type == "probability" else Ends()

    def with_ends(self, ends: Ends) -> Tally:
        """The same tally with the ends of another one, such as that of all rows.

        They are kept when tallies with equal ends are added, and on a coarser grid. A random split gets its own ends,
        since a fit to it must not use the other rows.
        """
        other = copy(self)
        other._ends = ends
        return other

    @property
    def has_interior(self) -> bool:
        """Whether some score has finite log-odds: for probabilities, whether one lies strictly between 0 and 1."""
        if self.score_type != "probability":
            return True
        scores = self._outer_scores()
        return bool(((scores > 0.0) & (scores < 1.0)).any())

    def on_ends(self) -> tuple[float | int, float | int]:
        """Rows, or sum of weights, with a score of exactly 0, and with one of exactly 1."""
        if self._sorted is not None:
            zeros, _, ones = self._sorted.partition(np.array([np.nextafter(0.0, 1.0), 1.0]))[0].tolist()
            return zeros, ones
        scores = self.scores
        return self.n[scores == 0.0].sum().item(), self.n[scores == 1.0].sum().item()

    def _outer_scores(self) -> Floats:
        """Scores among which are the lowest, the highest, and the lowest above 0 and highest below 1."""
        if self._sorted is None or not len(self._sorted):
            return self.scores
        zeros, ones = self.on_ends()
        rows = len(self._sorted)
        return self._sorted.score_at(np.clip(np.array([1, zeros + 1, rows - ones, rows]), 1, rows))

    def pieces(self) -> Iterator[tuple[Floats, Counts, Counts]]:
        """Scores, rows and events in pieces that fit into the cache, without computing all cells."""
        if self._sorted is not None:
            yield from self._sorted.pieces()
            return
        scores, n, events = self.scores, self.n, self.events
        for part in chunks(len(scores)):
            yield scores[part], n[part], events[part]

    def for_fitting(self) -> Tally:
        """The tally for fits: importance weights count as repetition if integer, else sum to the effective sample size.

        Fits that count rows (pseudo-rows, soft targets, numbers of bins) would otherwise depend on the weights' unit.
        """
        if self.counts:
            return self
        cells = self.cells
        if self.whole and float(cells.n.sum()) < 2.0**53:
            whole = {name: getattr(cells, name).astype(np.int64) for name in ("n", "events")}
            offset = None if cells.offset is None else cells.offset.astype(np.int64)
            return self._with(Cells(cells.keys, **whole, offset=offset, scores=cells.scores), counts=True)
        return self.in_effective_rows()

    def in_effective_rows(self) -> Tally:
        """The same tally with importance weights rescaled to sum to the effective sample size."""
        return self.scaled(self.effective_size / float(self.total))

    def in_event_rows(self) -> Tally:
        """The same tally with importance weights rescaled so that weights of events sum to the number of event rows.

        Without events, the weights of all rows sum to the number of rows.
        """
        return self.scaled(self.event_unit)

    @property
    def event_unit(self) -> float:
        """Factor after which importance weights of events sum to the number of event rows; 1 for frequency weights."""
        cells = self.cells
        if self.counts or cells.rows is None or cells.row_events is None:
            return 1.0
        rows, weight = (cells.row_events, self.events) if self.positives else (cells.rows, self.n)
        return float(rows.sum()) / float(weight.sum())

    def scaled(self, factor: float) -> Tally:
        """The same tally with importance weights multiplied by a factor; counts are not changed."""
        if self.counts:
            return self
        cells = self.cells
        powers = {"n": factor, "events": factor, "offset": factor, "w2": factor**2, "w2_events": factor**2}
        scaled: dict[str, Any] = {
            name: getattr(cells, name) * power for name, power in powers.items() if getattr(cells, name) is not None
        }
        return self._with(replace(cells, **scaled), counts=False)

    def unlabeled(self) -> Tally:
        """The same scores without events."""
        cells = self.cells
        return self._with(replace(cells, events=0 * cells.events), counts=self.counts, whole=self.whole)

    def score_at(self, weight: NDArray[Any]) -> Floats:
        """Smallest score up to which at least ``weight`` rows (or sum of weights) lie, for each entry."""
        if self._sorted is not None:
            return self._sorted.score_at(np.ceil(weight).astype(np.int64))
        return self.scores[self._cell_index(weight)]

    def cell_at(self, weight: NDArray[Any]) -> tuple[Floats, Floats]:
        """Start of the cell that holds the row of each rank (from 1), and start of the next cell; inf at the end."""
        if self._sorted is not None:
            values = self._sorted.score_at(np.asarray(weight, dtype=np.int64))
            return values, np.nextafter(values, np.inf)
        index = self._cell_index(weight)
        return self.lower_edges[index], self.upper_edges[index]

    def _cell_index(self, weight: NDArray[Any]) -> NDArray[np.intp]:
        if not self.counts:  # sums of real weights may be slightly too small by rounding
            weight = weight * (1.0 - 1e-12)
        return np.minimum(np.searchsorted(np.cumsum(self.n), weight, side="left"), len(self) - 1)

    def partition(self, knots: Floats) -> tuple[Counts, Counts]:
        """Rows and events between inner ``knots``, each bin closed on the left; knots must not split a cell."""
        if self._sorted is not None:
            return self._sorted.partition(knots)
        split = self._splits_a_cell(knots)
        if split.any():
            raise InputError(
                "edges",
                f"holds {float(knots[split][0])!r}, which lies inside a cell of this tally",
                "use an exact tally, or an edge between two cells",
            )
        starts = np.append(0, np.searchsorted(self.lower_edges, knots, side="left"))
        return segment_sums(self.n, starts), segment_sums(self.events, starts)

    def _splits_a_cell(self, knots: Floats) -> NDArray[np.bool_]:
        if self.grid is not None:
            return np.asarray(self.grid.lower_edges(self.grid.codes(knots)) != knots)
        return np.zeros(len(knots), dtype=bool) if self._edges is None else ~np.isin(knots, self._edges)

    def runs(self) -> tuple[Floats, Counts, Counts]:
        """Lower edge, rows and events of runs that every isotonic regression pools, at most one per cell.

        Neighboring cells whose event rate does not increase belong to one block of every isotonic regression, so they
        can be joined before it; on raw rows these are ones followed by zeros.
        """
        if self._sorted is not None:
            runs = self._sorted.runs()
            return runs.keys, runs.n, runs.events
        return self.lower_edges, self.n, self.events

    # ------------------------------------------------------------------------------------------------------ algebra

    def __add__(self, other: Tally) -> Tally:
        return self.merged([other]) if isinstance(other, Tally) else NotImplemented

    def merged(self, others: Sequence[Tally]) -> Tally:
        """The sum with several tallies at once, which is faster than one after the other."""
        for other in others:
            self._check_alike(other)
        parts = (self, *others)
        whole, counts = all(part.whole for part in parts), all(part.counts for part in parts)
        joined = self._with(self.cells.joined(*(part.cells for part in others)), counts=counts, whole=whole)
        joined._ends = self._ends if all(part._ends == self._ends for part in others) else None
        return joined

    def _with(self, cells: Cells, counts: bool, whole: bool = False) -> Tally:
        return Tally(
            cells,
            score_type=self.score_type,
            grid=self.grid,
            resolution=self.resolution,
            counts=counts,
            whole=whole,
            edges=self._edges,
            ends=self._ends,
        )

    def _check_alike(self, other: Tally) -> None:
        if self.score_type != other.score_type:
            raise InputError(
                "other", f"must be a tally of {self.score_type} scores to be added, got {other.score_type} scores"
            )
        if self.resolution != other.resolution or self.grid != other.grid:
            raise InputError(
                "other",
                f"has a different resolution ({other._resolution_text()}, not {self._resolution_text()})",
                "bring both to one grid with .coarsen()",
            )
        if self._edges is not None and not np.array_equal(self._edges, cast(Floats, other._edges)):
            raise InputError("other", "has different bins", "use the same edges for both tallies")

    def _resolution_text(self) -> str:
        return f"grid of {self.grid.bits} bits" if self.grid is not None else self.resolution

    def coarsen(self, grid: Grid | int) -> Tally:
        """The same rows on a coarser grid, given as a :class:`Grid` or by its bits; exact tallies go to any grid."""
        if self.resolution == "bins":
            raise InputError("tally", "is a table of bins and cannot be put on a grid", "make it from the scores")
        target = grid if isinstance(grid, Grid) else Grid(grid, *((self.grid.low, self.grid.high) if self.grid else ()))
        if self._sorted is not None:
            gridded = Tally.from_rows(self._sorted.unsorted(self.score_type), target)
            return gridded if self._ends is None else gridded.with_ends(self._ends)
        cells = self.cells
        if self.grid is None:
            _check_range(cast(Floats, cells.keys), self.score_type, target)
            codes, inside = target.cells(cast(Floats, cells.keys))
            offset: NDArray[Any] = inside * cells.n
        elif target.bits <= self.grid.bits and (target.low, target.high) == (self.grid.low, self.grid.high):
            codes, offset = self.grid.coarsen(cells.keys, cast(Counts, cells.offset), cells.n, target.bits)
        else:
            raise InputError("grid", f"must have the range of {self.grid} and at most as many bits, got {target}")
        merged = cells.merged(codes.astype(np.int32), offset)
        alike: dict[str, Any] = {"counts": self.counts, "whole": self.whole, "ends": self._ends}
        return Tally(merged, score_type=self.score_type, grid=target, resolution="grid", **alike)

    def split(self, size: int, random_state: int | None = None) -> tuple[Tally, Tally]:
        """A random split: ``size`` rows without replacement, and the rest.

        The counts are drawn from the multivariate hypergeometric distribution over (cell, label), which is the
        distribution of the tally of rows that are drawn without replacement. Without ``random_state`` every draw is
        new. A seed is combined with the tally's fingerprint, so that the draw is a function of the tally;
        ``calibrant.guarantees.seeds`` explains what this means for guarantees. With 10^9 rows or more, which numpy's
        sampler does not support, each row is drawn independently: a random split too, of random size.
        """
        if not self.counts:
            counts = Setting("weight_type", "frequency")
            fix = Phrase("pass {counts} if the weights are repetition counts", counts=counts)
            raise InputError("tally", "has importance weights and cannot be split into rows", fix)
        if not 0 <= size <= self.total:
            raise InputError("size", f"must be between 0 and {self.total:,}, the number of rows, got {size}")
        seed = None if random_state is None else [random_state, int(self.fingerprint, 16)]
        rng = np.random.default_rng(seed)
        events = cast(Ints, self.events)
        colors = np.concatenate([events, self.n - events])
        total = int(colors.sum())
        if total < HYPERGEOMETRIC_LIMIT:
            drawn = rng.multivariate_hypergeometric(colors, size, method="marginals")
        else:
            drawn = rng.binomial(colors, size / total)
        part_events, part_others = drawn[: len(events)], drawn[len(events) :]
        part_n = part_events + part_others
        return self._thinned(part_n, part_events), self._thinned(self.n - part_n, events - part_events)

    def _thinned(self, n: NDArray[Any], events: NDArray[Any]) -> Tally:
        keep = n > 0
        cells = self.cells
        offset = None
        if cells.offset is not None:  # the position of a drawn row in its cell is unknown: use the cell's mean
            offset = np.rint(cells.offset / cells.n * n).astype(np.int64)[keep]
        means = None if cells.scores is None else cells.scores[keep]
        part = self._with(Cells(cells.keys[keep], n[keep], events[keep], offset=offset, scores=means), counts=True)
        part._ends = None  # the ends of all rows depend on rows outside this split
        return part

    def __repr__(self) -> str:
        unit = "rows" if self.counts else "weight"
        cells = "" if self._cells is None else f", {len(self):,} cells"
        return (
            f"Tally({self.total:,} {unit}, {self.positives:,} events{cells}, "
            f"{self._resolution_text()}, score_type={self.score_type!r})"
        )


def _check_range(scores: Floats, score_type: ScoreType, grid: Grid) -> None:
    if score_type == "probability":
        if not grid.unit:
            raise InputError(
                "grid", "must have the range [0, 1] for probabilities", "leave low and high out of Grid(...)"
            )
        return
    outside = int(np.count_nonzero((scores < grid.low) | (scores > grid.high)))
    if outside:
        raise InputError(
            "grid",
            f"has the range [{grid.low}, {grid.high}], and {plural(outside, 'score lies', 'scores lie')} outside",
            "widen it with Grid(low=..., high=...)",
        )


def _whole_weights(rows: Rows) -> bool:
    return rows.weights is None or bool((rows.weights == np.floor(rows.weights)).all())
