"""Rows, events and scores by bin, from which binned metrics are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.columns import check_option, check_whole
from calibrant.arrays.labels import without_positive
from calibrant.maps import StepMap
from calibrant.messages import Advice, Argument, InputError, Phrase, plural
from calibrant.metrics.regions import Regions, region_codes
from calibrant.numerics import Column, Floats, Guide, chunks, expit
from calibrant.reading import read
from calibrant.tallies import Clusters, Tally

Strategy = Literal["width", "mass", "distinct", "auto"]
Edges = ArrayLike | StepMap | None
"""Inner edges of bins, or a step map whose knots they are; None to choose them by strategy."""

Scores = ArrayLike | Tally
"""First argument of a metric; a tally is passed without labels and weights."""

GroupedScores = Scores | Clusters
"""The same, for metrics whose intervals can account for groups of dependent rows."""

ENOUGH_ROWS = 50
"""Minimum rows of every distinct score without binning (Gupta 2023, section 1.4.1)."""


_CHOSEN: dict[Strategy, tuple[str, str]] = {
    "width": ("bin of equal width", "bins of equal width"),
    "mass": ("bin of equal mass", "bins of equal mass"),
    "distinct": ("distinct score", "distinct scores"),
    "auto": ("bin chosen by the number of rows", "bins chosen by the number of rows"),
}


def tally_of(scores: Scores, y: Column = None, sample_weight: Column = None) -> Tally:
    """The tally of a metric: the given one, or an exact one of the given rows.

    For other options (frequency weights, the positive label, a grid) build the tally with :meth:`Tally.from_arrays`.
    Logits and other scores that are not probabilities are refused.
    """
    data = rows_or_tally(scores, y, sample_weight)
    return data if isinstance(data, Tally) else Tally.from_rows(data)


def grouped_or_tally(scores: GroupedScores, y: Column, sample_weight: Column, groups: Column) -> Tally | Clusters:
    """The tally, or counts by cluster, for a metric whose intervals account for groups of dependent rows."""
    if isinstance(scores, Clusters):
        if any(given is not None for given in (y, sample_weight, groups)):
            raise InputError(
                "scores", "is a tally, which holds its labels, weights and groups already", "pass it alone"
            )
        return scores
    if groups is None:
        return tally_of(scores, y, sample_weight)
    if isinstance(scores, Tally) or y is None:
        names = {name: Argument(name) for name in ("scores", "y", "groups")}
        fix = Phrase("pass {scores}, {y} and {groups} as arrays", **names)
        raise InputError("groups", "cannot be combined with a tally", fix)
    return Clusters.of_rows(_rows(scores, y, sample_weight, groups))


def rows_or_tally(scores: Scores, y: Column, sample_weight: Column) -> Tally | Rows:
    """The checked input of a metric: the tally, or unsorted rows of probabilities."""
    if isinstance(scores, Tally):
        if y is not None or sample_weight is not None:
            raise InputError("scores", "is a tally, which holds its labels and weights already", "pass it alone")
        _need_probabilities(scores.score_type)
        if not scores.total > 0:
            raise InputError("scores", "is an empty tally", "pass one that has rows")
        return scores
    if y is None:
        raise InputError("y", "is missing", "pass the labels after the scores, or a Tally alone")
    return _rows(scores, y, sample_weight)


def _rows(scores: Any, y: Column, sample_weight: Column, groups: Column = None) -> Rows:
    """Checked rows of probabilities; metrics have no argument for the label of an event, nor for the type of scores."""
    try:
        given = read(scores, y, sample_weight, call="metrics.ece", groups=groups, most=None)
        rows = given.rows()
    except InputError as error:
        if isinstance(error.fix, Phrase) and "instead" in error.fix.values:
            fix: Any = error.fix.values["instead"]  # nor is there an argument for real scores
            raise InputError(error.subject, error.problem, fix) from None
        raise without_positive(error) from None
    return as_probabilities(rows)


def as_probabilities(rows: Rows) -> Rows:
    """The rows with probabilities in place of log-odds; an error for other scores."""
    if rows.score_type == "logit":
        return replace(rows, scores=expit(rows.scores), score_type="probability")
    _need_probabilities(rows.score_type)
    return rows


def _need_probabilities(score_type: ScoreType) -> None:
    if score_type != "probability":
        fix = Phrase("{fit}, or apply expit to logits", fit=Advice.FIT_FIRST)
        raise InputError("scores", f"are {score_type} scores, but metrics need probabilities", fix)


@dataclass(frozen=True, eq=False)
class Bins:
    """Counts of rows and events by bin of the score; bin b holds ``edges[b-1] <= score < edges[b]``.

    Attributes
    ----------
    edges
        Inner edges, one fewer than bins; NaN for regions, which are not ranges of the score.
    n, events, score_sum
        Rows (or sum of weights), events and sum of scores in each bin.
    w2
        Sum of squared weights in each bin; None when ``n`` counts rows.

    Examples
    --------
    >>> bins = Bins.of([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], n_bins=2)
    >>> bins.n.tolist(), bins.events.tolist(), bins.mean_score.tolist()
    ([2, 2], [0, 1], [0.1, 0.9])
    """

    edges: Floats
    n: NDArray[Any]
    events: NDArray[Any]
    score_sum: Floats
    w2: Floats | None = None

    @classmethod
    def of(
        cls,
        scores: Scores,
        y: Column = None,
        sample_weight: Column = None,
        *,
        n_bins: int = 15,
        strategy: Strategy = "width",
        edges: Edges = None,
        regions: Regions = None,
    ) -> Bins:
        """Bin a tally or rows; empty bins are kept.

        Parameters
        ----------
        scores, y, sample_weight
            Probabilities, labels and importance weights; or a tally alone.
        n_bins
            Number of bins; with equal mass, ties can make it fewer.
        strategy
            ``"width"``: [0, 1/B], (1/B, 2/B], ..., as in Guo et al. (2017). ``"mass"``: about equally
            many rows in each; a tied score is never split. ``"distinct"``: one bin per distinct score (or per cell of a
            gridded tally, or per bin of a table). ``"auto"``: distinct when each has at least 50 rows (Gupta 2023,
            section 1.4.1), else mass.
        edges
            Inner edges, or a step map whose knots they are; ``n_bins`` and ``strategy`` are then unused.
        regions
            Region of each row, such as the leaf of a tree: one bin for each region, and the other options unused.

        Notes
        -----
        A gridded cell goes to the bin of its mean score. Cost: one pass over rows for edges known beforehand; one sort
        for the others; O(cells) from a tally.
        """
        check_option("strategy", strategy, get_args(Strategy))
        check_whole("n_bins", n_bins)
        if regions is not None:
            return cls._from_regions(*region_rows(scores, y, sample_weight, regions, edges))
        data = rows_or_tally(scores, y, sample_weight)
        if edges is not None:
            inner = check_edges(edges)
        elif strategy == "width":
            inner = even_edges(n_bins)
        else:
            data = data if isinstance(data, Tally) else Tally.from_rows(data)
            if strategy == "distinct" or (strategy == "auto" and float(data.n.min()) >= ENOUGH_ROWS):
                return cls._by_cell(data)
            inner = _equal_mass(data, n_bins)
        return cls._from_tally(data, inner) if isinstance(data, Tally) else cls._from_rows(data, inner)

    @classmethod
    def _by_cell(cls, tally: Tally) -> Bins:
        return cls(tally.lower_edges[1:], tally.n, tally.events, tally.scores * tally.n, _w2(tally))

    @classmethod
    def _from_tally(cls, tally: Tally, inner: Floats) -> Bins:
        size = len(inner) + 1
        dtype = np.int64 if tally.counts else np.float64
        n, events, score_sum = np.zeros(size, dtype=dtype), np.zeros(size, dtype=dtype), np.zeros(size)
        # A gridded score is truncated to 30 bits of its octave: tied scores on an edge must not cross it.
        closed = np.array_equal(inner, even_edges(size))
        knots = inner if tally.grid is None else inner * (1.0 + (2.0**-29 if closed else -(2.0**-29)))
        for scores, rows, hits in tally.pieces():
            index = np.searchsorted(knots, scores, side="right")
            n += np.bincount(index, rows, minlength=size).astype(dtype)
            events += np.bincount(index, hits, minlength=size).astype(dtype)
            score_sum += np.bincount(index, scores * rows, minlength=size)
        if tally.counts:
            return cls(inner, n, events, score_sum)
        index = np.searchsorted(knots, tally.scores, side="right")
        return cls(inner, n, events, score_sum, np.bincount(index, tally.cells.w2, minlength=size).astype(np.float64))

    @classmethod
    def _from_rows(cls, rows: Rows, inner: Floats) -> Bins:
        """One pass without sorting: each chunk is located, then counted by (bin, label)."""
        size, guide = len(inner) + 1, Guide(inner)
        by_label = np.zeros(2 * size, dtype=np.int64 if rows.counts else np.float64)
        score_sum, w2 = np.zeros(size), np.zeros(size)
        for part in chunks(len(rows.scores)):
            scores = rows.scores[part]
            index = guide.locate(scores).astype(np.intp)
            both = 2 * index + rows.labels[part]
            if rows.weights is None:
                by_label += np.bincount(both, minlength=2 * size)
                score_sum += np.bincount(index, scores, minlength=size)
                continue
            weights = rows.weights[part]
            np.add.at(by_label, both, weights)
            score_sum += np.bincount(index, scores * weights, minlength=size)
            if not rows.counts:
                w2 += np.bincount(index, weights * weights, minlength=size)
        n, events = by_label[0::2] + by_label[1::2], by_label[1::2]
        return cls(inner, n, events, score_sum, None if rows.counts else w2)

    @classmethod
    def _from_regions(cls, rows: Rows, codes: NDArray[np.intp]) -> Bins:
        size = int(codes.max()) + 1
        w = np.ones(len(codes), dtype=np.int64) if rows.weights is None else rows.weights
        dtype = np.int64 if rows.counts else np.float64
        n, events = (np.bincount(codes, each, size).astype(dtype) for each in (w, w * rows.labels))
        w2 = None if rows.counts else np.bincount(codes, w * w, size).astype(np.float64)
        score_sum = np.bincount(codes, w * rows.scores, size).astype(np.float64)
        return cls(np.full(size - 1, np.nan), n, events, score_sum, w2)

    def merged(self, min_rows: float) -> Bins:
        """Neighboring bins joined until each has at least ``min_rows`` rows, or effective rows of weights.

        The bin with the fewest rows is joined with the neighbor that has fewer, again and again; labels play no part.

        Examples
        --------
        >>> bins = Bins.of([0.1] * 50 + [0.3] * 3 + [0.5] * 2 + [0.9] * 60, [0] * 55 + [1] * 60, n_bins=5).merged(30)
        >>> bins.edges.round(3).tolist(), bins.n.tolist()
        ([0.8], [55, 60])
        """
        if not min_rows >= 0.0:
            raise InputError("min_rows", f"must be a number of rows of at least 0, got {min_rows!r}")
        if np.isnan(self.edges).any():
            raise InputError("bins", "are regions, which have no neighbors", "merge bins of scores")
        parts = [[place] for place in range(len(self))]
        sizes = self.effective_n.tolist()
        while len(parts) > 1 and min(sizes) < min_rows:
            at = sizes.index(min(sizes))
            below = at > 0 and (at == len(parts) - 1 or sizes[at - 1] <= sizes[at + 1])
            first = at - 1 if below else at
            parts[first : first + 2] = [parts[first] + parts[first + 1]]
            sizes[first : first + 2] = [_effective(self, parts[first])]
        starts = [part[0] for part in parts]
        n, events, score_sum = (np.add.reduceat(column, starts) for column in (self.n, self.events, self.score_sum))
        w2 = None if self.w2 is None else np.add.reduceat(self.w2, starts)
        return Bins(self.edges[np.array(starts[1:], dtype=np.intp) - 1], n, events, score_sum, w2)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def total(self) -> float:
        """Rows, or sum of weights, overall."""
        return float(self.n.sum())

    @property
    def share(self) -> Floats:
        """Share of the rows in each bin."""
        return np.asarray(self.n / self.n.sum())

    @property
    def mean_score(self) -> Floats:
        """Mean score of each bin; the mid-point where the bin is empty (Gupta 2023, section 1.4.1)."""
        return np.where(self.n > 0, self.score_sum / np.maximum(self.n, np.finfo(float).tiny), self.midpoint)

    @property
    def rate(self) -> Floats:
        """Share of events in each bin; the mid-point where the bin is empty, so that it has no error."""
        return np.where(self.n > 0, self.events / np.maximum(self.n, np.finfo(float).tiny), self.midpoint)

    @property
    def midpoint(self) -> Floats:
        """Middle of each bin on [0, 1]."""
        return np.asarray((np.append(0.0, self.edges) + np.append(self.edges, 1.0)).round(15) / 2.0)

    @property
    def effective_n(self) -> Floats:
        r"""Effective sample size of each bin: :math:`(\sum w)^2 / \sum w^2`, or ``n`` itself when it counts rows."""
        if self.w2 is None:
            return self.n.astype(np.float64)
        return np.asarray(np.where(self.n > 0, self.n**2 / np.where(self.w2 > 0, self.w2, 1.0), 0.0))


def even_edges(n_bins: int) -> Floats:
    """Inner edges of bins of equal width: the next double after k/B, so that [a, b) holds (k/B, (k + 1)/B].

    Examples
    --------
    >>> np.searchsorted(even_edges(5), [0.2, 0.4, 0.6, 0.8, 1.0], side="right").tolist()
    [0, 1, 2, 3, 4]
    """
    return np.nextafter(np.arange(1, n_bins) / n_bins, 2.0)


def refuse_both() -> NoReturn:
    """Refuse bins that are given twice."""
    raise InputError("regions", Phrase("cannot be combined with {edges}", edges=Argument("edges")), "pass one of them")


def region_rows(
    scores: Scores, y: Column, sample_weight: Column, regions: Any, edges: Any = None
) -> tuple[Rows, NDArray[np.intp]]:
    """Checked rows and their regions as integers from 0; a tally has no regions."""
    if edges is not None:
        refuse_both()
    if isinstance(scores, Tally):
        raise InputError("regions", "cannot be combined with a tally", "pass scores, labels and regions as arrays")
    rows = rows_or_tally(scores, y, sample_weight)
    assert isinstance(rows, Rows)
    return rows, region_codes(regions, y, sample_weight)


def _effective(bins: Bins, places: list[int]) -> float:
    """Effective sample size of several bins together."""
    n = float(bins.n[places].sum())
    if bins.w2 is None:
        return n
    squares = float(bins.w2[places].sum())
    return n * n / squares if squares > 0.0 else 0.0


def describe(bins: Bins, strategy: Strategy, edges: Edges, regions: Regions = None) -> str:
    """Number of bins and how they were chosen, for the name of a metric."""
    if regions is not None:
        return plural(len(bins), "region")
    return plural(
        len(bins), *(("bin of given edges", "bins of given edges") if edges is not None else _CHOSEN[strategy])
    )


def check_edges(edges: ArrayLike | StepMap) -> Floats:
    """Given inner edges of bins, or those of a step map: finite, increasing, above 0 and up to 1."""
    inner = np.asarray(edges.knots if isinstance(edges, StepMap) else edges, dtype=np.float64)
    if inner.ndim != 1 or not np.isfinite(inner).all() or not (np.diff(inner) > 0).all():
        raise InputError("edges", "must be the inner edges of the bins, finite and increasing")
    if len(inner) and not (inner[0] > 0.0 and inner[-1] <= 1.0):
        raise InputError("edges", "must be inner edges, above 0 and up to 1", "leave out the 0 at the lower end")
    return inner


def _equal_mass(tally: Tally, n_bins: int) -> Floats:
    """Edges after the cells that reach k/B of the rows; cells are never split."""
    marks = tally.total * np.arange(1, n_bins) / n_bins
    ranks = np.ceil(marks - 1e-9 * tally.total) if tally.counts else marks
    after = np.unique(tally.cell_at(np.maximum(ranks, 1) if tally.counts else ranks)[1])
    last = tally.cell_at(np.array([tally.total]))[1]
    return np.asarray(after[after < last])


def _w2(tally: Tally) -> Floats | None:
    return None if tally.counts else tally.cells.w2
