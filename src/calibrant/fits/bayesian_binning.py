"""Bayesian binning into quantiles: a posterior average of equal-mass binnings with many numbers of bins."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from calibrant.fits.bins import equal_masses
from calibrant.maps import StepMap
from calibrant.messages import InputError
from calibrant.numerics import CLAMP, Floats
from calibrant.tallies import Tally

NEGLIGIBLE_POSTERIOR = 1e-6
"""Binnings that together have at most this share of the posterior are left out: no output changes by more."""


@dataclass(frozen=True, eq=False)
class Averaged:
    """The averaged map, and the posterior weight of every number of bins that was tried."""

    map: StepMap
    counts: NDArray[np.intp]
    weights: Floats


@dataclass(frozen=True, eq=False)
class _Binning:
    """One binning: the first cell of each bin, the outputs, and the log marginal likelihood."""

    starts: NDArray[np.intp]
    values: Floats
    evidence: float


def fit_averaged(tally: Tally, spread: float = 10.0, prior_rows: float = 2.0) -> Averaged:
    """Average of equal-mass binnings; see :class:`~calibrant.calibrators.binary.bayesian.BayesianBinning`.

    Examples
    --------
    >>> fitted = fit_averaged(Tally.from_arrays([0.2] * 4 + [0.8] * 4, [0, 0, 0, 1, 0, 1, 1, 1]))
    >>> fitted.counts.tolist(), fitted.weights.round(3).tolist()
    ([1, 2], [0.649, 0.351])
    >>> fitted.map.apply([0.2, 0.8]).round(3).tolist()
    [0.423, 0.598]
    """
    if tally.score_type != "probability":
        raise InputError("scores", f"must be probabilities, not {tally.score_type} scores", "use HistogramBinning")
    reached, hits = (np.cumsum(column, dtype=np.float64) for column in (tally.n, tally.events))
    begins = tally.lower_edges
    root = float(np.cbrt(tally.effective_size))
    sizes = range(max(floor(root / spread), 1), max(ceil(root * spread), 1) + 1)
    found = {}
    for size in sizes:
        if size <= len(begins):
            starts = equal_masses(reached, size)
            found[starts.tobytes()] = starts  # with ties, two numbers of bins can give the same binning
    binnings = [_binning(starts, begins, reached, hits, prior_rows) for starts in found.values()]
    if not binnings:  # fewer cells than the smallest size
        binnings = [_binning(np.arange(len(begins)), begins, reached, hits, prior_rows)]
    evidence = np.array([binning.evidence for binning in binnings])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    counts = np.array([len(binning.starts) for binning in binnings])
    return Averaged(_average(binnings, weights, begins), counts, weights)


def _binning(
    starts: NDArray[np.intp], begins: Floats, reached: NDArray[Any], hits: NDArray[Any], prior_rows: float
) -> _Binning:
    ends = np.append(starts[1:], len(begins)) - 1
    n = np.diff(reached[ends], prepend=0).astype(np.float64)
    events = np.clip(np.diff(hits[ends], prepend=0), 0.0, n)  # rounding of real sums may leave this range
    edges = np.concatenate([[0.0], begins[starts[1:]], [1.0]])
    middle = np.clip((edges[1:] + edges[:-1]) / 2.0, CLAMP, 1.0 - CLAMP)
    rows = prior_rows / len(starts)
    a, b = rows * middle, rows * (1.0 - middle)
    terms = gammaln(events + a) - gammaln(a) + gammaln(n - events + b) - gammaln(b) + gammaln(rows) - gammaln(n + rows)
    return _Binning(starts, np.clip((events + a) / (n + rows), CLAMP, 1.0 - CLAMP), float(terms.sum()))


def _average(binnings: list[_Binning], weights: Floats, begins: Floats) -> StepMap:
    order = np.argsort(-weights, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(weights[order]), 1.0 - NEGLIGIBLE_POSTERIOR)) + 1]
    starts = np.unique(np.concatenate([binnings[index].starts for index in kept]))
    values = np.zeros(len(starts))
    for index in kept:
        binning = binnings[index]
        values += weights[index] * binning.values[np.searchsorted(binning.starts, starts, side="right") - 1]
    return StepMap(begins[starts[1:]], np.clip(values / weights[kept].sum(), CLAMP, 1.0 - CLAMP)).merged()
