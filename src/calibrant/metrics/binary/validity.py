"""Validity curves: the share of rows whose score is within epsilon of the event rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.messages import Drawn
from calibrant.metrics.binary.bins import Bins, Edges, Scores, Strategy, tally_of
from calibrant.metrics.estimates import Result
from calibrant.numerics import Column, Floats
from calibrant.tallies import Tally

SLACK = 1e-12
"""Tolerance for rounding when an error is compared with epsilon: 0.8 - 0.6 counts as 0.2."""


@dataclass(frozen=True, eq=False)
class ValidityCurve(Drawn, Result):
    r"""Validity curve :math:`V(\epsilon)`, a right-continuous step function, and the area under it.

    Attributes
    ----------
    name
        How the event rate was estimated.
    epsilon
        The errors at which the curve increases, ascending.
    share
        :math:`V` there: the share of the rows whose error is at most that.
    parts
        The share of the bins (or distinct scores), each counted once, whose error is at most that.
    auc
        Area under the curve on [0, 1]: one minus the l1 calibration error.
    """

    name: str
    epsilon: Floats
    share: Floats
    parts: Floats
    auc: float

    def at(self, epsilon: ArrayLike) -> Floats:
        """Share of the rows with an error of at most ``epsilon``: marginal validity."""
        return self._read(self.share, epsilon)

    def parts_at(self, epsilon: ArrayLike) -> Floats:
        """Share of the bins with an error of at most ``epsilon``, each bin counted once."""
        return self._read(self.parts, epsilon)

    def conditional(self, epsilon: ArrayLike) -> Floats:
        """Conditional validity: 1 where every bin has an error of at most ``epsilon``, else 0.

        See Gupta (2023), section 4.4. The average over several data sets is the conditional validity plot; it never
        exceeds :meth:`at`.
        """
        return np.asarray(np.asarray(epsilon) + SLACK >= self.epsilon[-1], dtype=np.float64)

    def _read(self, heights: Floats, epsilon: ArrayLike) -> Floats:
        place = np.searchsorted(self.epsilon, np.asarray(epsilon) + SLACK, side="right")
        return np.asarray(np.append(0.0, heights)[place])

    def __str__(self) -> str:
        at_half, at_most = (self.epsilon[np.searchsorted(self.share, part - SLACK)] for part in (0.5, 0.9))
        return (
            f"{self.name}: the error is at most {at_half:.4f} for half of the rows, {at_most:.4f} for 90 % and "
            f"{self.epsilon[-1]:.4f} for all (area {self.auc:.4f})"
        )


def validity_curve(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    method: Literal["bins", "neighbors"] = "bins",
    n_bins: int = 15,
    strategy: Strategy = "width",
    edges: Edges = None,
    k: int = 10,
) -> ValidityCurve:
    """Validity curve of one column of scores; see :func:`~calibrant.metrics.dispatch.validity_curve`.

    Examples
    --------
    >>> validity_curve([0.2, 0.2, 0.8, 0.8], [0, 1, 1, 1], n_bins=2).at([0.2, 0.3]).tolist()
    [0.5, 1.0]
    """
    check_option("method", method, ("bins", "neighbors"))
    if method == "neighbors":
        check_whole("k", k)
        tally = tally_of(scores, y, sample_weight).for_fitting()
        gap = np.abs(tally.scores - neighbor_rate(tally, int(k)))
        return curve_of(f"validity by {int(k)} nearest neighbors", gap, tally.n)
    bins = Bins.of(scores, y, sample_weight, n_bins=n_bins, strategy=strategy, edges=edges)
    filled = bins.n > 0
    gap = np.abs(bins.events - bins.score_sum)[filled] / bins.n[filled]
    return curve_of(f"validity by {int(filled.sum()):,} non-empty bins", gap, bins.n[filled])


def curve_of(name: str, gap: Floats, n: NDArray[Any]) -> ValidityCurve:
    """The curve of bins with these errors and rows."""
    share = n / n.sum()
    order = np.argsort(gap, kind="stable")
    epsilon, first = np.unique(gap[order], return_index=True)
    last = np.append(first[1:], len(gap)) - 1
    rows = np.cumsum(share[order])[last]
    rows[-1] = 1.0  # a sum of shares
    return ValidityCurve(name, epsilon, rows, (last + 1) / len(gap), 1.0 - float((share * gap).sum()))


def neighbor_rate(tally: Tally, k: int) -> Floats:
    r"""Share of events among the k rows nearest in score to each cell of a tally.

    Cells l, ..., h around a cell c at score p are nearest to it. Going left from c, cell l is reached together with all
    cells up to the mirror score :math:`2p - s_l`; the largest l whose window has k rows is found by bisection. Rows
    missing from the window of l + 1 are taken from the cells on the right that are nearer than l, else from l itself.

    Notes
    -----
    Guarantee: none; a local mean. Cost: O(cells x log k x log cells), vectorized.
    Reference: Torabian (2023), Definition 7.

    Examples
    --------
    >>> neighbor_rate(Tally.from_arrays([0.1, 0.2, 0.4, 0.9], [0, 1, 1, 1]), 2).tolist()
    [0.5, 0.5, 1.0, 1.0]
    """
    scores, n = tally.scores, np.append(0.0, np.cumsum(tally.n))
    events = np.append(0.0, np.cumsum(tally.events))
    need = min(float(k), float(n[-1]))
    left = _reach(scores, n, need)
    beyond = _mirror(scores, left)  # cells up to the mirror of the left end, as an exclusive end
    tied = (beyond - 1 > np.arange(len(scores))) & (scores[beyond - 1] == 2.0 * scores - scores[np.maximum(left, 0)])
    tied &= left >= 0
    nearer = beyond - tied
    right = np.searchsorted(n, n[left + 1] + need * (1.0 - 1e-12))  # exclusive end that holds enough with l + 1
    by_right = (right <= nearer) | (left < 0)
    right = np.clip(right, 1, len(scores))
    inner = np.where(by_right, right - 1, nearer)
    rows, hits = n[inner] - n[left + 1], events[inner] - events[left + 1]
    edge = np.where(by_right, right - 1, np.maximum(left, 0))
    edge_rows, edge_hits = tally.n[edge].astype(np.float64), tally.events[edge].astype(np.float64)
    both = tied & ~by_right
    edge_rows += np.where(both, tally.n[beyond - 1], 0.0)
    edge_hits += np.where(both, tally.events[beyond - 1], 0.0)
    return np.asarray((hits + (need - rows) * edge_hits / edge_rows) / need)


def _reach(scores: Floats, n: Floats, need: float) -> NDArray[np.intp]:
    """The largest l for each cell whose window to its mirror holds ``need`` rows; -1 where none does."""
    here = np.arange(len(scores))
    enough = need * (1.0 - 1e-12)
    # The cells on the left alone hold enough from `low` on down, so the answer lies in [low, here].
    low = np.searchsorted(n, n[1:] - enough, side="right") - 1
    high = here + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        inside = n[_mirror(scores, middle)] - n[np.maximum(middle, 0)] >= enough
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low


def _mirror(scores: Floats, left: NDArray[np.intp]) -> NDArray[np.intp]:
    """One past the last cell that is no farther to the right of each cell than ``left`` is to its left."""
    far = 2.0 * scores - scores[np.maximum(left, 0)]
    return np.where(left < 0, len(scores), np.maximum(np.searchsorted(scores, far, side="right"), 1))
