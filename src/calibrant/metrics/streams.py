"""Calibration errors of sequential forecasts, which need rows in order and not a tally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, check_rows
from calibrant.arrays.columns import check_whole
from calibrant.messages import InputError, Shown
from calibrant.metrics.binary.bins import Edges, check_edges
from calibrant.numerics import Floats, Guide
from calibrant.tallies import Tally


@dataclass(frozen=True, eq=False)
class ErrorOverTime(Shown):
    """A calibration error after every row; ``float(...)`` is the last one.

    Attributes
    ----------
    name
        What was computed.
    error
        The error of rows 1 to t, for t = 1, ..., T.
    sharpness
        The sharpness of the same rows (Gupta 2023, eq. 6.12), between the square of the share of events and that share.
    """

    name: str
    error: Floats
    sharpness: Floats

    def __float__(self) -> float:
        return float(self.error[-1])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "error": self.error.tolist(), "sharpness": self.sharpness.tolist()}

    def __str__(self) -> str:
        rows = len(self.error)
        return f"{self.name}: {float(self):.4f} after {rows:,} rows (sharpness {self.sharpness[-1]:.4f})"


def error_over_time(
    forecasts: ArrayLike, outcomes: ArrayLike, *, n_bins: int = 10, edges: Edges = None
) -> ErrorOverTime:
    r"""Calibration error and sharpness of the first t forecasts, for every t.

    .. math:: \mathrm{CE}_t = \frac{1}{t} \sum_{b=1}^{m} N_b\, |\hat p_b - \hat y_b|, \qquad
              \mathrm{SHP}_t = \frac{1}{t} \sum_{b=1}^{m} N_b\, \hat y_b^2,

    where :math:`N_b` of the first t forecasts lie in bin b of m = ``n_bins`` of equal width (the last closed), their
    mean is :math:`\hat p_b` and their share of events :math:`\hat y_b`.

    Parameters
    ----------
    forecasts : array-like
        Probabilities in order of time.
    outcomes : array-like
        Labels, 0 or 1, in the same order.
    n_bins : int, default=10
        Number of bins of equal width.
    edges : array-like or map, optional
        Inner edges of the bins instead, as in :func:`calibrant.metrics.ece`; a step map gives its own bins. A forecast
        equal to an edge lies in the bin above it. Choose them before the outcomes are known.

    Returns
    -------
    ErrorOverTime
        Error and sharpness after every row.

    Notes
    -----
    Needs rows in order, so a tally is refused. Edge rules: an empty bin adds nothing.
    Guarantee: it describes these rows and is not an estimate, so none is needed. After the last row it equals the
    plug-in ECE with the same bins.
    Cost: O(T) after a stable sort by bin: each row changes only the terms of its own bin.
    Reference: Gupta (2023), eq. 6.12 and 6.15.

    Examples
    --------
    >>> error_over_time([0.2, 0.2, 0.9], [1, 0, 1], n_bins=2).error.round(3)
    array([0.8  , 0.3  , 0.233])
    >>> error_over_time([0.02, 0.02, 0.9], [1, 0, 1], edges=[0.01, 0.05]).error.round(3)
    array([0.98 , 0.48 , 0.353])
    """
    check_whole("n_bins", n_bins)
    rows = _in_order(forecasts, outcomes)
    if edges is None:
        inner, chosen = np.arange(1, int(n_bins)) / int(n_bins), f"{int(n_bins)} bins of equal width"
    else:
        inner = check_edges(edges)
        chosen = f"{len(inner) + 1} bins of given edges"
    paths = _Paths(Guide(inner).locate(rows.scores))
    name = f"calibration error over time, {chosen}"
    return ErrorOverTime(name, paths.error(rows.scores - rows.labels), paths.sharpness(rows.labels))


def epsilon_error(forecasts: ArrayLike, outcomes: ArrayLike, *, epsilon: float) -> ErrorOverTime:
    r"""Calibration error of a calibration game beyond epsilon, the half-width of its bins.

    .. math:: \epsilon\text{-}\mathrm{CE}_t = \max(\mathrm{CE}_t - \epsilon, 0), \qquad
              \mathrm{CE}_t = \sum_{i=1}^{m} \Bigl|\frac{1}{t} \sum_{s \le t:\, p_s \in I_i} (M_i - y_s)\Bigr|,

    for :math:`\epsilon = 1/(2m)` and the m intervals :math:`I_i` of equal width (the last closed) with mid-points
    :math:`M_i`; a forecast :math:`p_s` elsewhere in its interval counts as the mid-point. (Epsilon is half the width
    of a bin here, and the whole width in chapter 6 of Gupta 2023.)

    Parameters
    ----------
    forecasts, outcomes : array-like
        As in :func:`error_over_time`.
    epsilon : float
        Half the width of a bin: 1/(2m) for an integer m of at least 2.

    Returns
    -------
    ErrorOverTime
        Error and sharpness after every row.

    Notes
    -----
    Needs rows in order, so a tally is refused. Edge rules: an epsilon that is not 1/(2m) for an integer m of at least 2
    is refused; an interval without forecasts adds nothing.
    Guarantee: it describes these rows; see each forecaster for a guarantee about it.
    Cost: O(T) after a stable sort by interval.
    Reference: Gupta (2023), section 8.1.1 and eq. 8.1; Foster (1999).

    Examples
    --------
    >>> epsilon_error([0.1, 0.1, 0.9, 0.9], [0, 1, 1, 1], epsilon=0.1).error.round(3)
    array([0.  , 0.3 , 0.2 , 0.15])
    """
    intervals = _intervals(epsilon)
    rows = _in_order(forecasts, outcomes)
    index = _bin(rows.scores, intervals)
    paths = _Paths(index)
    error = paths.error((index + 0.5) / intervals - rows.labels)
    name = f"calibration error beyond epsilon = {epsilon:g}, {intervals} intervals"
    return ErrorOverTime(name, np.maximum(error - epsilon, 0.0), paths.sharpness(rows.labels))


def _intervals(epsilon: float) -> int:
    m = 0.5 / epsilon if isinstance(epsilon, (int, float)) and epsilon > 0 else 0.0
    if not 1.5 <= m < 2.0**31 or abs(m - round(m)) > 1e-9 * m:
        must = "must be 1/(2m) for an integer m of at least 2, such as 0.1 or 0.05"
        raise InputError("epsilon", f"{must}, got {epsilon!r}")
    return round(m)


def _in_order(forecasts: ArrayLike, outcomes: ArrayLike) -> Rows:
    if isinstance(forecasts, Tally):
        raise InputError(
            "forecasts", "must be rows in order, which a tally does not keep", "pass forecasts and outcomes"
        )
    return check_rows(forecasts, outcomes, score_type="probability")


def _bin(forecasts: Floats, m: int) -> NDArray[np.int32]:
    return Guide(np.arange(1, m) / m).locate(forecasts)


class _Paths:
    """Rows sorted by (bin, time), where running sums of each bin are plain cumulative sums."""

    def __init__(self, index: NDArray[np.int32]) -> None:
        self.order = np.argsort(index, kind="stable")
        ordered = index[self.order]
        self.starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self.sizes = np.diff(self.starts, append=len(index))

    def error(self, surplus: Floats) -> Floats:
        """Sum over bins of the absolute running sum, over t."""
        return self._over_time(np.abs(self._running(surplus)))

    def sharpness(self, labels: NDArray[np.uint8]) -> Floats:
        """Sum over bins of squared events by rows, over t."""
        events = self._running(labels.astype(np.float64))
        return self._over_time(events * events / self._running(np.ones(len(labels))))

    def _running(self, values: Floats) -> Floats:
        total = np.cumsum(values[self.order])
        before = np.where(self.starts > 0, total[self.starts - 1], 0.0)
        return np.asarray(total - np.repeat(before, self.sizes))

    def _over_time(self, term: Floats) -> Floats:
        """Sum of the bins' terms at each t, over t: a row changes only the term of its own bin."""
        change = np.diff(term, prepend=0.0)
        change[self.starts] = term[self.starts]
        in_time = np.empty_like(change)
        in_time[self.order] = change
        # The sum of terms is never below 0, but rounding errors could make it so.
        return np.asarray(np.maximum(np.cumsum(in_time), 0.0) / np.arange(1, len(term) + 1))
