"""Bins of rows with the same predicted leaf: their cuts, their counts, and shrinkage toward other leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays.rows import Rows
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.fits.bins import HEAVY_ROWS, ROUNDING, rates
from calibrant.fits.scaling import fit_platt
from calibrant.guarantees.bounds import Flags
from calibrant.maps import IdentityMap, Map
from calibrant.maps.paths import first_above
from calibrant.maps.taxonomy import Taxonomy
from calibrant.numerics import Floats, Ints
from calibrant.tallies import Tally

STRENGTHS = np.geomspace(1.0, 10_000.0, 33)
"""Prior weights of other leaves that are tried, in rows."""


@dataclass(frozen=True, eq=False)
class PathRows:
    """Rows by predicted leaf: the model's score of each node of the path, and whether the label belongs to it.

    ``paths`` are node codes by row, the broadest first and -1 after the end; ``scores`` and ``right`` have the same
    shape. ``mass`` are rows, or importance weights scaled to add up to their effective sample size.
    """

    taxonomy: Taxonomy
    paths: NDArray[np.intp]
    scores: Floats
    right: Flags
    mass: NDArray[Any]
    counts: bool

    def take(self, rows: NDArray[Any]) -> PathRows:
        """Some of the rows, by index."""
        parts = (self.paths[rows], self.scores[rows], self.right[rows], self.mass[rows])
        return PathRows(self.taxonomy, *parts, self.counts)

    def tally(self, scores: Floats, right: Flags, mass: NDArray[Any]) -> Tally:
        """Tally of one binary problem; no warning if all labels are the same."""
        labels = right.astype(np.uint8)
        inside = np.clip(scores, 0.0, 1.0)  # sums of probabilities may exceed 1 by rounding
        return Tally.from_rows(Rows(inside, labels, mass, self.counts, None, None, "probability", ()))


@dataclass(frozen=True, eq=False)
class CutList:
    """Cuts, each on a level of the path, and which of their bins are an edge with too few rows on it."""

    levels: Ints
    cuts: Floats
    light: Flags


def pooled_lists(taxonomy: Taxonomy, leaf_codes: NDArray[Any], rows: NDArray[Any], least: float) -> list[list[int]]:
    """Groups of classes that share bins: one class each, but rare ones with rare siblings or all rare ones of a depth.

    A leaf is rare if it is predicted in fewer than ``least`` rows. Rare siblings with that many rows together share a
    list; the others share one with the remaining rare leaves of the same depth.

    Examples
    --------
    >>> tree = Taxonomy({"a": None, "b": None, "a1": "a", "a2": "a", "b1": "b", "b2": "b"})
    >>> pooled_lists(tree, np.array([2, 3, 4, 5]), np.array([50, 3, 15, 9]), 20)
    [[0], [2, 3], [1]]
    """
    rare = [j for j, n in enumerate(rows.tolist()) if n < least]
    lists = [[j] for j, n in enumerate(rows.tolist()) if not n < least]
    left: list[list[int]] = []
    for siblings in _grouped(rare, taxonomy.parents[leaf_codes]):
        (lists if rows[siblings].sum() >= least else left).append(siblings)
    rest = sorted(j for siblings in left for j in siblings)
    return [*lists, *_grouped(rest, taxonomy.depths[leaf_codes])]


def _grouped(members: Sequence[int], keys: NDArray[Any]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for j in members:
        found.setdefault(int(keys[j]), []).append(j)
    return list(found.values())


def leaf_cuts(rows: PathRows, depth: int, count: int) -> CutList:
    """Bins by the score of the predicted leaf, equal to those of histogram binning (Gupta 2022, section 4.3.2)."""
    level = depth - 1
    tally = rows.tally(rows.scores[:, level], rows.right[:, level], rows.mass)
    bins = HistogramBinning(count)._fit_part(tally).bins_
    return CutList(np.full(len(bins.knots), level, dtype=np.int64), bins.knots, bins.uncovered)


def path_cuts(rows: PathRows, depth: int, count: int) -> CutList:
    """About ``count`` bins of equal mass by a list of cuts on the levels in turn, the leaf's first.

    Each cut splits off the rows with the smallest scores at its level, among those that are left (as in Gupta 2023,
    Algorithm 5.10). Rows on a cut are not in the bins on either side; an edge with many rows becomes a separate bin.

    Examples
    --------
    >>> tree = Taxonomy({"a": None, "b": None})
    >>> s = np.array([[0.9], [0.5], [0.7], [0.8], [0.6]])
    >>> rows = PathRows(tree, np.zeros((5, 1), dtype=int), s, s > 0.6, np.ones(5, dtype=int), True)
    >>> found = path_cuts(rows, 1, 2)
    >>> found.cuts.round(6).tolist(), found.light.tolist()
    ([0.7, 0.7], [False, True, False])
    """
    total, left = rows.mass.sum(), np.arange(len(rows.mass))
    heavy = max(min(max(HEAVY_ROWS, total / (10 * count)), total / (2 * count)), 2)
    levels: list[int] = []
    cuts: list[float] = []
    light: list[bool] = []
    for step in range(count - 1):
        level = depth - 1 - step % depth
        score, mass = rows.scores[left, level], rows.mass[left]
        if not len(left):
            break
        cut = _at_rank(score, mass, count - step, rows.counts)
        on = score == cut
        levels += [level, level]
        cuts += [cut, float(np.nextafter(cut, np.inf))]
        light += [False, bool(mass[on].sum() < heavy)]
        left = left[score > cut]
    return CutList(np.array(levels, dtype=np.int64), np.array(cuts), np.array([*light, False]))


def _at_rank(score: Floats, mass: NDArray[Any], parts: int, counts: bool) -> float:
    """The score at which the first of ``parts`` parts of equal mass ends."""
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(mass[order])
    total = reached[-1]
    rank = -(-(total + 1) // parts) if counts else total / parts * (1.0 - ROUNDING)
    return float(score[order[min(int(np.searchsorted(reached, rank, side="left")), len(order) - 1)]])


@dataclass(frozen=True, eq=False)
class PathList:
    """A list of cuts with the counts of its bins: rows, rows that belong to each node, rates of other leaves."""

    cuts: CutList
    n: NDArray[Any]
    hits: NDArray[Any]
    others: Floats | None

    @classmethod
    def of(cls, cuts: CutList, rows: PathRows, depth: int, others: Floats | None) -> PathList:
        """Count the rows of a list; ``others`` is the result of :func:`rates_of_others` for them."""
        bins = len(cuts.light)
        index = first_above(rows.scores, cuts.levels, cuts.cuts)

        def sums(values: NDArray[Any]) -> Floats:
            columns = [np.bincount(index, rows.mass * values[:, level], minlength=bins) for level in range(depth)]
            return np.stack(columns, axis=1)

        n, hits = np.bincount(index, rows.mass, minlength=bins), sums(rows.right)
        if others is not None:
            mean = (rows.mass[:, None] * others[:, :depth]).sum(axis=0) / max(rows.mass.sum(), 1e-300)
            others = np.where(n[:, None] > 0, sums(others) / np.where(n > 0, n, 1.0)[:, None], mean)
        if rows.counts:
            n, hits = np.rint(n).astype(np.int64), np.rint(hits).astype(np.int64)
        return cls(cuts, n, hits, others)

    def rates(self, strength: float | None, otherwise: Floats) -> Floats:
        """Probabilities by bin and level; ``otherwise`` where the list has no rows.

        A light edge gets the output of the bin above it, if that bin has rows.
        """
        if not self.n.any():
            return np.broadcast_to(otherwise[: self.hits.shape[1]], self.hits.shape)
        own, light = np.arange(len(self.n)), self.cuts.light
        follows = np.flatnonzero(light[:-1] & ~light[1:] & (self.n[1:] > 0))
        own[follows] = follows + 1
        if self.others is None or strength is None:
            return path_rates(self.n[own], self.hits[own])
        return shrunk(self.n[own], self.hits[own], self.others[own], strength)


def rates_of_all(rows: PathRows) -> Floats:
    """Share of rows whose label belongs to the node of each level, over rows with a path that long; non-increasing."""
    there = rows.paths >= 0
    n, hits = (rows.mass[:, None] * there).sum(axis=0), (rows.mass[:, None] * rows.right).sum(axis=0)
    return np.minimum.accumulate((hits + 1.0) / (n + 2.0))


def path_rates(n: NDArray[Any], hits: NDArray[Any]) -> Floats:
    """Share of each bin's rows that belong to each node, never exactly 0 or 1 and non-increasing along the path.

    k of n rows give k/n, or (k + 1)/(n + 2) if k is 0 or n; both preserve the order of k. Bins without rows get the
    rate of their neighbors.

    Examples
    --------
    >>> path_rates(np.array([4, 0]), np.array([[4, 3, 0], [0, 0, 0]])).round(3).tolist()
    [[0.833, 0.75, 0.167], [0.833, 0.75, 0.167]]
    """
    shares = np.stack([rates(n, hits[:, level]) for level in range(hits.shape[1])], axis=1)
    return rising(shares)


def rising(shares: Floats) -> Floats:
    """Make each node at least as likely as the next narrower one, also after rounding and with tiny weights."""
    return np.maximum.accumulate(shares[:, ::-1], axis=1)[:, ::-1]


def shrunk(n: NDArray[Any], hits: NDArray[Any], others: Floats, strength: float) -> Floats:
    r"""Shrunken rates :math:`(k + t\,m) / (n + t)`, with m the rates of other leaves and t their weight in rows."""
    return rising((hits + strength * others) / (n[:, None] + strength))


def best_strength(lists: Sequence[PathList]) -> float:
    """The strength of highest beta-binomial likelihood of the hits of all bins and nodes."""
    known = [(each, each.others, each.n > 0) for each in lists if each.others is not None]
    k = np.concatenate([each.hits[filled].ravel() for each, _, filled in known])
    size = np.concatenate([np.repeat(each.n[filled], each.hits.shape[1]) for each, _, filled in known])
    means = np.concatenate([others[filled].ravel() for _, others, filled in known])
    m = np.clip(means, 1e-9, 1.0 - 1e-9)
    likelihoods = [
        (special.betaln(k + t * m, size - k + t * (1.0 - m)) - special.betaln(t * m, t * (1.0 - m))).sum()
        for t in STRENGTHS.tolist()
    ]
    return float(STRENGTHS[int(np.argmax(likelihoods))])


def rates_of_others(rows: PathRows, least: float) -> Floats:
    r"""Rates of a node from all leaves beneath it together, by row and level.

    .. math:: m_v = \prod_{u \in a(v)} q_u\bigl(s_u / s_{p(u)}\bigr), \qquad
              q_u \approx P\bigl(u \in a(Y) \mid p(u) \in a(Y),\ s_u / s_{p(u)}\bigr)

    with s the scores of the nodes and p the parent. Each q is a Platt map, fitted to all rows predicted beneath its
    node, or for leaves to those of all its siblings; if these are fewer than ``least``, to all rows of the level. A
    product of probabilities never increases along the path.
    """
    out: Floats = np.ones(rows.scores.shape)
    before, held = np.ones(len(rows.mass)), np.ones(len(rows.mass), dtype=bool)
    for level in range(out.shape[1]):
        there = rows.paths[:, level] >= 0
        share = np.where(there, rows.scores[:, level] / np.where(before > 0.0, before, 1.0), 0.0)
        step = _steps(rows, level, share, there, held, least)
        out[:, level] = np.where(there, (out[:, level - 1] if level else 1.0) * step, np.nan)
        before, held = rows.scores[:, level], rows.right[:, level]
    return out


def _steps(rows: PathRows, level: int, share: Floats, there: Flags, held: Flags, least: float) -> Floats:
    """Probability of the node of a level given that of its parent."""
    nodes = rows.paths[:, level]
    leaf = np.append(~np.isin(np.arange(len(rows.taxonomy.nodes)), rows.taxonomy.parents), False)
    pools = np.where(leaf[nodes], -2 - np.append(rows.taxonomy.parents, -1)[nodes], nodes)
    out, common = np.ones(len(nodes)), _fitted(rows, share, level, np.flatnonzero(there & held))
    for pool in np.unique(pools[there]).tolist():
        at = np.flatnonzero(there & (pools == pool))
        known = at[held[at]]
        enough = rows.mass[known].sum() >= least
        out[at] = (_fitted(rows, share, level, known) if enough else common).apply(np.clip(share[at], 0.0, 1.0))
    return out


def _fitted(rows: PathRows, share: Floats, level: int, at: NDArray[Any]) -> Map:
    if not len(at):
        return IdentityMap()
    return fit_platt(rows.tally(share[at], rows.right[at, level], rows.mass[at]))[0]
