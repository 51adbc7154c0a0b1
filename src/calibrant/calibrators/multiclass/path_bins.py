"""Bins of rows that share a predicted leaf: where they are cut, what they hold, and what other leaves say of them."""

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
"""How many rows the word of other leaves may be worth."""


@dataclass(frozen=True, eq=False)
class PathRows:
    """Rows by predicted leaf: what the model says about each node of the path, and which of them it got right.

    ``paths`` are node codes by row, the broadest first and -1 behind the end; ``scores`` and ``right`` go with them.
    ``mass`` are rows, or importance weights in the unit in which they add up to their effective size.
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
        """Of one yes-or-no problem; no warning where all answers are the same."""
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
    """Classes that share their bins: one each, but rare ones together with rare siblings, or else with all such.

    A leaf is rare with fewer than ``least`` rows predicted as it. Rare siblings with that many together share a list;
    those left share one with the others that are as deep.

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
    """Bins by the score of the predicted leaf, exactly those of histogram binning (000 section 4.3.2, step 2)."""
    level = depth - 1
    tally = rows.tally(rows.scores[:, level], rows.right[:, level], rows.mass)
    bins = HistogramBinning(count)._fit_part(tally).bins_
    return CutList(np.full(len(bins.knots), level, dtype=np.int64), bins.knots, bins.uncovered)


def path_cuts(rows: PathRows, depth: int, count: int) -> CutList:
    """About ``count`` bins of equal mass by a list of cuts on the levels in turn, the leaf's first.

    Each cut takes off the rows whose score at its level is smallest, among those that are left (as in 002 Algorithm
    5.10). Rows on a cut stay out of the bins on both sides; a heavy edge becomes a bin of its own.

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
    """The score at which the first of so many parts of equal mass ends."""
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(mass[order])
    total = reached[-1]
    rank = -(-(total + 1) // parts) if counts else total / parts * (1.0 - ROUNDING)
    return float(score[order[min(int(np.searchsorted(reached, rank, side="left")), len(order) - 1)]])


@dataclass(frozen=True, eq=False)
class PathList:
    """A list of cuts with what its bins hold: rows, rows that belong to each node, what other leaves say of them."""

    cuts: CutList
    n: NDArray[Any]
    hits: NDArray[Any]
    others: Floats | None

    @classmethod
    def of(cls, cuts: CutList, rows: PathRows, depth: int, others: Floats | None) -> PathList:
        """Count the rows of a list; ``others`` is what :func:`said_by_others` gives for them."""
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

        A light edge puts out what the bin above it does, where that has rows of its own.
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
    """How often the node of each level is right, over all rows whose path is that long; never rising."""
    there = rows.paths >= 0
    n, hits = (rows.mass[:, None] * there).sum(axis=0), (rows.mass[:, None] * rows.right).sum(axis=0)
    return np.minimum.accumulate((hits + 1.0) / (n + 2.0))


def path_rates(n: NDArray[Any], hits: NDArray[Any]) -> Floats:
    """Share of each bin's rows that belong to each node, never exactly 0 or 1 and never rising along the path.

    k of n rows give k/n, or (k + 1)/(n + 2) where k is 0 or n; both keep the order of k. Bins without rows take the
    rate of their neighbours.

    Examples
    --------
    >>> path_rates(np.array([4, 0]), np.array([[4, 3, 0], [0, 0, 0]])).round(3).tolist()
    [[0.833, 0.75, 0.167], [0.833, 0.75, 0.167]]
    """
    shares = np.stack([rates(n, hits[:, level]) for level in range(hits.shape[1])], axis=1)
    return rising(shares)


def rising(shares: Floats) -> Floats:
    """Each node at least as likely as the next narrower one; rounding and tiny weights could upset it."""
    return np.maximum.accumulate(shares[:, ::-1], axis=1)[:, ::-1]


def shrunk(n: NDArray[Any], hits: NDArray[Any], others: Floats, strength: float) -> Floats:
    r""":math:`(k + t\,m) / (n + t)` with m what other leaves say and t what that is worth, in rows."""
    return rising((hits + strength * others) / (n[:, None] + strength))


def best_strength(lists: Sequence[PathList]) -> float:
    """The strength under which the hits of all bins and nodes are most likely, if they are beta-binomial."""
    known = [(each, each.others, each.n > 0) for each in lists if each.others is not None]
    k = np.concatenate([each.hits[filled].ravel() for each, _, filled in known])
    size = np.concatenate([np.repeat(each.n[filled], each.hits.shape[1]) for each, _, filled in known])
    said = np.concatenate([others[filled].ravel() for _, others, filled in known])
    m = np.clip(said, 1e-9, 1.0 - 1e-9)
    likelihoods = [
        (special.betaln(k + t * m, size - k + t * (1.0 - m)) - special.betaln(t * m, t * (1.0 - m))).sum()
        for t in STRENGTHS.tolist()
    ]
    return float(STRENGTHS[int(np.argmax(likelihoods))])


def said_by_others(rows: PathRows, least: float) -> Floats:
    r"""What all leaves beneath a node together say about it, row by row and level by level.

    .. math:: m_v = \prod_{u \in a(v)} q_u\bigl(s_u / s_{p(u)}\bigr), \qquad
              q_u \approx P\bigl(u \in a(Y) \mid p(u) \in a(Y),\ s_u / s_{p(u)}\bigr)

    with s the scores of the nodes and p the parent. Each q is a Platt map, fitted to all rows predicted beneath its
    node, or for leaves to those of all its siblings; where these are fewer than ``least``, to all of the level. A
    product of probabilities never rises along the path.
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
