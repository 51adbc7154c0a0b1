"""Rows, events and scores by bin, for every claim of a notion of multiclass calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.arrays.multiclass.rows import BLOCK, Matrix
from calibrant.messages import InputError, plural
from calibrant.metrics.binary.bins import check_edges, even_edges, refuse_both
from calibrant.metrics.binary.errors import deviations
from calibrant.metrics.multiclass.claims import Claims, steps
from calibrant.notions import Canonical
from calibrant.numerics import Floats, Guide

MulticlassStrategy = Literal["width", "mass", "distinct"]
Codes = NDArray[np.int32]
Binning = Callable[[int], tuple[Codes, NDArray[np.intp]]]
"""From the index of a claim to the bin of each row, from 0, and the class of each bin."""

Statistic = Callable[[Floats], Floats]
"""From events by bin to one number, or one for each class."""


@dataclass(frozen=True, eq=False)
class MulticlassBins:
    """Counts of rows and true claims by bin, claim after claim; bins may be empty.

    Attributes
    ----------
    n, events, score_sum
        Rows (or sum of weights), claims that came true, and sum of scores in each bin.
    w2
        Sum of squared weights in each bin; None without weights.
    place, column
        Claim and class of each bin; class -1 if the bin has rows of all classes.
    total
        Rows, or sum of weights, overall.
    index : ndarray of shape (n, C), optional
        Bin of each row for each claim, if ``keep`` was set.
    chosen
        How the bins were chosen, for the name of a metric.
    spread, own, inner
        From one pass over a matrix, in place of ``index``: variance of the events of each bin if every score were
        right, the bin of each row's own class, and the inner edges of the bins.

    Examples
    --------
    >>> from calibrant.metrics.multiclass.claims import read_claims
    >>> claims = read_claims([[0.9, 0.1], [0.6, 0.4]], ["a", "b"], notion="class-wise")
    >>> bins = MulticlassBins.of(claims, n_bins=2)
    >>> bins.n.tolist(), bins.events.tolist(), bins.column.tolist()
    ([0.0, 2.0, 2.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0, 0, 1, 1])
    """

    n: Floats
    events: Floats
    score_sum: Floats
    w2: Floats | None
    place: NDArray[np.intp]
    column: NDArray[np.intp]
    total: float
    index: Codes | None
    chosen: str
    spread: Floats | None = None
    own: Codes | None = None
    inner: Floats | None = None

    @classmethod
    def of(
        cls,
        claims: Claims,
        *,
        n_bins: int = 15,
        strategy: MulticlassStrategy = "width",
        edges: Any = None,
        regions: NDArray[np.intp] | None = None,
        keep: bool = True,
    ) -> MulticlassBins:
        """Bin the scores of claims.

        Parameters
        ----------
        claims
            Claims of the rows, as :func:`~calibrant.metrics.multiclass.claims.read_claims` returns them.
        n_bins, strategy, edges
            Bins as in :func:`calibrant.metrics.ece`.
        regions
            Region of each row, as integers from 0, to be the bins instead.
        keep
            Whether to store the bin of each row.
        """
        check_option("strategy", strategy, get_args(MulticlassStrategy))
        check_whole("n_bins", n_bins)
        if regions is not None:
            if edges is not None:
                refuse_both()
            count = int(regions.max()) + 1
            return cls._by_claim(claims, _by_given_region(claims, regions, count), plural(count, "region"), keep)
        if isinstance(claims.notion, Canonical):
            binning, chosen = _by_region(claims, edges)
            return cls._by_claim(claims, binning, chosen, keep)
        if edges is not None or strategy == "width":
            inner = even_edges(n_bins) if edges is None else check_edges(edges)
            chosen = _bins(len(inner) + 1, "of equal width" if edges is None else "of given edges")
            if not keep and claims.named is None and claims.weights is None and len(inner):
                return cls._by_block(claims, inner, chosen)
            return cls._by_claim(claims, _by_edges(claims, inner), chosen, keep)
        chosen = _bins(n_bins, "of equal mass") if strategy == "mass" else "distinct scores"
        return cls._by_claim(claims, _by_order(claims, n_bins if strategy == "mass" else None), chosen, keep)

    @classmethod
    def _by_claim(cls, claims: Claims, binning: Binning, chosen: str, keep: bool) -> MulticlassBins:
        """Claim after claim, each in one pass over its column."""
        mass, weighted = claims.mass, claims.weights is not None
        hits, places = claims.true()
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(claims.count + 1))
        parts, index, start = [], np.empty((len(claims), claims.count if keep else 0), dtype=np.int32), 0
        for place in range(claims.count):
            codes, columns = binning(place)
            true = hits[order[ends[place] : ends[place + 1]]]
            size = len(columns)
            parts.append(
                (
                    np.bincount(codes, mass if weighted else None, size).astype(np.float64),
                    np.bincount(codes[true], mass[true] if weighted else None, size).astype(np.float64),
                    np.bincount(codes, claims.scores[:, place] * mass if weighted else claims.scores[:, place], size),
                    np.bincount(codes, mass**2, size) if weighted else np.zeros(0),
                    np.full(size, place, dtype=np.intp),
                    columns,
                )
            )
            if keep:
                np.add(codes, start, out=index[:, place], casting="unsafe")
            start += size
        n, events, score_sum, w2, at, columns = (np.concatenate(each) for each in zip(*parts, strict=True))
        total = float(mass.sum())
        return cls(n, events, score_sum, w2 if weighted else None, at, columns, total, index if keep else None, chosen)

    @classmethod
    def _by_block(cls, claims: Claims, inner: Floats, chosen: str) -> MulticlassBins:
        """One pass over a matrix in which most scores are below the first edge: only the others are located."""
        p, size, count = claims.scores, len(inner) + 1, claims.count
        n, score_sum, squares = np.zeros(count * size), np.zeros(count * size), np.zeros(count * size)
        low, low_squares = np.zeros(count), np.zeros(count)
        for _, block, _, cells, scores in _high_scores(claims, inner):
            low += block.sum(axis=0)
            low_squares += np.einsum("nk,nk->k", block, block)
            n += np.bincount(cells, minlength=count * size)
            score_sum += np.bincount(cells, scores, count * size)
            squares += np.bincount(cells, scores * scores, count * size)
        n[::size] = len(p) - n.reshape(count, size).sum(axis=1)
        score_sum[::size], squares[::size] = low, low_squares
        given = np.take_along_axis(p, claims.labels[:, None], axis=1)[:, 0].astype(np.float64)
        own = claims.labels * size + Guide(inner).locate(given)
        events = np.bincount(own, minlength=count * size).astype(np.float64)
        at = np.repeat(np.arange(count), size)
        spread = np.maximum(score_sum - squares, 0.0)
        return cls(n, events, score_sum, None, at, at, float(len(p)), None, chosen, spread, own, inner)

    def row_sums(self, claims: Claims, fixed: Floats, slope: Floats) -> Floats:
        """Sum over the claims of each row of ``fixed - slope * score``, both taken from the bin of the claim.

        Parameters
        ----------
        claims
            The claims from which the bins were made.
        fixed, slope
            One number for each bin.
        """
        found = np.empty(len(claims))
        if self.inner is None:
            assert self.index is not None
            for part in steps(claims.scores):
                bins = self.index[part]
                found[part] = np.einsum("nc->n", fixed[bins] - slope[bins] * claims.scores[part])
            return found
        size = len(self.inner) + 1
        first, total = slope[::size], float(fixed[::size].sum())
        for part, block, at, cells, scores in _high_scores(claims, self.inner):
            column = at % claims.count
            more = fixed[cells] - fixed[column * size] - slope[cells] * scores
            rows = part.stop - part.start
            found[part] = total - block @ first + np.bincount(at // claims.count, more, rows)
        return found

    def slopes_of_true(self, claims: Claims, slope: Floats) -> Floats:
        """Sum, over the claims of each row that came true, of the slope of their bin.

        Parameters
        ----------
        claims
            The claims from which the bins were made.
        slope
            One number for each bin.
        """
        if self.own is not None:
            return np.asarray(slope[self.own])
        assert self.index is not None
        rows, places = claims.true()
        return np.asarray(np.bincount(rows, slope[self.index[rows, places]], len(claims)), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which bins have rows."""
        return np.asarray(self.n > 0)

    @property
    def effective_n(self) -> Floats:
        r"""Effective sample size of each bin: :math:`(\sum w)^2 / \sum w^2`."""
        return self.n if self.w2 is None else np.where(self.n > 0, self.n**2 / np.where(self.w2 > 0, self.w2, 1.0), 0.0)


# -------------------------------------------------------------------------------------------------- From bins to errors


def overall(claims: Claims, bins: MulticlassBins, p: float) -> Statistic:
    """Error of order p of all claims together."""
    filled = bins.filled
    n, score_sum = bins.n[filled], bins.score_sum[filled]
    share, zeros = n / (bins.total * claims.averaged), np.zeros(len(n), dtype=np.intp)

    def statistic(events: Floats) -> Floats:
        return np.asarray(_norms(np.abs(events[filled] - score_sum) / n, share, zeros, 1, p)[0])

    return statistic


def deviation(claims: Claims, bins: MulticlassBins, p: float) -> Statistic:
    """Deviation of order p of scores from the rate of their bin, of all claims together; needs ``bins.index``."""
    assert bins.index is not None
    place, scores = bins.index.reshape(-1), claims.scores.astype(np.float64, copy=False).reshape(-1)
    order = np.lexsort((scores, place))
    mass = np.repeat(claims.mass, claims.count)[order]
    mean_distance, _ = deviations(scores[order], mass, place[order].astype(np.intp), len(bins))
    n, share = np.where(bins.filled, bins.n, 1.0), bins.n / (bins.total * claims.averaged)
    zeros = np.zeros(len(n), dtype=np.intp)

    def statistic(events: Floats) -> Floats:
        gap = np.where(bins.filled, mean_distance(np.asarray(events / n)), 0.0)
        return np.asarray(_norms(gap, share, zeros, 1, p)[0])

    return statistic


def by_class(claims: Claims, bins: MulticlassBins, p: float) -> Statistic:
    """Error of order p of each class, NaN for one without rows."""
    filled, groups = bins.filled, len(claims.classes)
    n, score_sum, column = bins.n[filled], bins.score_sum[filled], bins.column[filled]
    total = np.bincount(column, n, groups)
    share = n / total[column]

    def statistic(events: Floats) -> Floats:
        found = _norms(np.abs(events[filled] - score_sum) / n, share, column, groups, p)
        return np.where(total > 0.0, found, np.nan)

    return statistic


def _norms(gap: Floats, share: Floats, group: NDArray[np.intp], groups: int, p: float) -> Floats:
    """The p-norm of the gaps of each group; gaps are divided by the largest first to avoid underflow."""
    if p == 1:
        return np.bincount(group, share * gap, groups).astype(np.float64)
    top = np.zeros(groups)
    np.maximum.at(top, group, gap)
    if np.isinf(p):
        return top
    relative = gap / np.where(top > 0.0, top, 1.0)[group]
    return np.asarray(top * np.bincount(group, share * relative**p, groups) ** (1.0 / p))


# ------------------------------------------------------------------------------------------------------------ Which bin


def _high_scores(
    claims: Claims, inner: Floats
) -> Iterator[tuple[slice, Matrix, NDArray[np.intp], NDArray[np.intp], Floats]]:
    """Blocks of rows: a copy in which scores from the first edge on are 0, their places, their bins and themselves."""
    p, size, count = claims.scores, len(inner) + 1, claims.count
    above = inner[0] if p.dtype == np.float64 else _float32_from(inner[0])
    guide = Guide(inner)
    scratch = np.empty((max(BLOCK // count, 1), count), dtype=p.dtype)
    for part in steps(p):
        block = scratch[: part.stop - part.start]
        np.copyto(block, p[part])
        flat = block.reshape(-1)
        at = np.flatnonzero(flat >= above)
        scores = flat[at].astype(np.float64)
        flat[at] = 0.0
        yield part, block, at, (at % count) * size + guide.locate(scores), scores


def _by_edges(claims: Claims, inner: Floats) -> Binning:
    guide, size = Guide(inner), len(inner) + 1

    def binning(place: int) -> tuple[Codes, NDArray[np.intp]]:
        problem, columns = claims.problem(place)
        codes = guide.locate(np.ascontiguousarray(claims.scores[:, place], dtype=np.float64))
        if problem is not None:
            codes += (problem * size).astype(np.int32)
        return codes, np.repeat(columns, size)

    return binning


def _by_order(claims: Claims, n_bins: int | None) -> Binning:
    """One bin per distinct score, or, in each problem, bins of about equal mass that never split a tied score."""

    def binning(place: int) -> tuple[Codes, NDArray[np.intp]]:
        problem, columns = claims.problem(place)
        scores = claims.scores[:, place]
        group = np.zeros(len(claims), dtype=np.intp) if problem is None else problem
        order = np.lexsort((scores, group))
        s, g = scores[order], group[order]
        new = np.append(True, (s[1:] != s[:-1]) | (g[1:] != g[:-1]))
        first = np.flatnonzero(new)
        if n_bins is not None:
            cells = np.add.reduceat(claims.mass[order], first)
            new[first[1:]] = np.diff(_equal_mass(cells, g[first], n_bins)) != 0
        codes = np.empty(len(claims), dtype=np.int32)
        codes[order] = np.cumsum(new) - 1
        return codes, columns[g[new]]

    return binning


def _equal_mass(cells: Floats, group: NDArray[np.intp], n_bins: int) -> NDArray[np.intp]:
    """Bin of each cell: the number of thresholds k/B of its group's rows before it, and the group."""
    before = np.cumsum(cells) - cells
    start = np.append(True, group[1:] != group[:-1])
    run = np.cumsum(start) - 1
    before = before - before[start][run]
    total = np.bincount(run, cells)[run]
    # Sums of real weights have rounding errors.
    reached = np.minimum(np.floor(n_bins * before / total + 1e-9), n_bins - 1).astype(np.intp)
    return np.asarray(run * n_bins + reached)


def _by_region(claims: Claims, edges: Any) -> tuple[Binning, str]:
    """Bins of rows with the same probabilities, or in the same region; one for each region and class."""
    if edges is None:
        codes = np.unique(claims.scores, axis=0, return_inverse=True)[1].reshape(-1)
        chosen = "distinct rows"
    elif hasattr(edges, "regions"):
        wants_logits = claims.on == "logit" and getattr(edges, "on", None) == "logit"
        codes = np.asarray(edges.regions(claims.given if wants_logits else claims.scores))
        chosen = "given regions"
    else:
        raise InputError(
            "edges", "must be a map with regions for the notion 'canonical'", "pass such a map, or leave it out"
        )
    found, region = np.unique(codes, return_inverse=True)
    region = region.reshape(-1)

    def binning(place: int) -> tuple[Codes, NDArray[np.intp]]:
        return region.astype(np.int32), np.full(len(found), place, dtype=np.intp)

    return binning, chosen


def _by_given_region(claims: Claims, regions: NDArray[np.intp], count: int) -> Binning:
    """One bin per region; for notions by label, one per region and class."""

    def binning(place: int) -> tuple[Codes, NDArray[np.intp]]:
        problem, columns = claims.problem(place)
        codes = regions if problem is None else regions + problem * count
        return codes.astype(np.int32), np.repeat(columns, count)

    return binning


def _float32_from(edge: float) -> np.float32:
    """The smallest float32 that is not below a double."""
    near = np.float32(edge)
    return near if float(near) >= edge else np.nextafter(near, np.float32(2.0))


def _bins(count: int, how: str) -> str:
    return f"{plural(count, 'bin')} {how}"
