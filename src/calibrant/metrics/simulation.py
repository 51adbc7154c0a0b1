"""Measures for simulations, where the true probability of every row is known."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, read_floats, refuse_empty
from calibrant.messages import Advice, Argument, InputError, Phrase, note, plural
from calibrant.metrics.binary.bins import Scores
from calibrant.metrics.estimates import Estimate, Result
from calibrant.numerics import Column, Floats
from calibrant.tallies import Tally

SLACK = 1e-12
"""Distances are compared up to this."""

Weights = NDArray[np.int64] | NDArray[np.float64]


def probabilistic_count(scores: Scores, sample_weight: Column = None) -> Estimate:
    r"""Probabilistic count: the effective number of distinct scores of a model.

    .. math:: \mathrm{PC} = \frac{1}{P[f(x) = f(x')]} = \frac{1}{\sum_i p_i^2},

    where :math:`p_i` is the share of the weight at the i-th distinct score and :math:`x, x'` are drawn independently.
    It is at most the number of distinct scores, with equality only when all are equally frequent. Scores may be any
    finite numbers. For a tally the cells count as scores: exact for an exact tally, lower on a grid that merges scores.

    Parameters
    ----------
    scores : array-like or Tally
        Scores, any finite numbers.
    sample_weight : array-like, optional
        Probability or count of each row.

    Returns
    -------
    Estimate
        The value; no uncertainty.

    Notes
    -----
    Guarantee: exact for the given distribution; as an estimate from a sample of rows it is biased downward.
    Cost: one sort, or O(cells) from a tally. Reference: Torabian (2023), Definition 5, Theorem 7.

    Examples
    --------
    >>> round(float(probabilistic_count([0.1, 0.4, 0.8], [0.25, 0.25, 0.5])), 4)
    2.6667
    """
    if isinstance(scores, Tally):
        if sample_weight is not None:
            raise InputError("scores", "is a tally, which holds its weights already", "pass it alone")
        mass: NDArray[Any] = scores.n
    else:
        values = _finite(scores, "scores")
        weight = _weights(sample_weight, len(values))
        values, weight = values[weight > 0], weight[weight > 0]
        mass = np.bincount(np.unique(values, return_inverse=True)[1], weight)
    if not len(mass):
        raise InputError("scores", "is an empty tally", "pass one that has rows")
    shares = mass / mass.sum()
    return Estimate("probabilistic count", float(1.0 / (shares**2).sum()))


def kendall_tau(scores: ArrayLike, truth: ArrayLike, sample_weight: Column = None) -> Estimate:
    r"""Probabilistic Kendall's tau: rank agreement of scores and true probabilities.

    .. math:: \mathrm{KT} = 1 - 2\, P\bigl[(\eta(x) - \eta(x'))(f(x) - f(x')) < 0 \bigm| x \ne x'\bigr],

    where :math:`f` are the scores, :math:`\eta` the true probabilities and :math:`x, x'` independent draws of rows by
    weight. Each row is a separate point of the domain, so a row of weight 2 is not the same as two rows, whose pair
    would count as concordant. Ties in either are not discordant: a constant score has tau 1, unlike in scipy. With a
    single row of weight above 0 it is not defined: NaN and a note.

    Parameters
    ----------
    scores : array-like
        Scores.
    truth : array-like
        True probabilities.
    sample_weight : array-like, optional
        Probability or count of each row.

    Returns
    -------
    Estimate
        The value; no uncertainty.

    Notes
    -----
    Guarantee: exact for the given distribution; without weights, pairs are counted exactly.
    Cost: O(n log n). Reference: Torabian (2023), Definition 6.

    Examples
    --------
    >>> round(float(kendall_tau([0.1, 0.2, 0.3], [0.2, 0.1, 0.9])), 4)
    0.3333
    """
    values, chances = _finite(scores, "scores"), _probabilities(truth, "truth")
    check_length(chances, "truth", len(values))
    mass = _weights(sample_weight, len(values))
    order = np.lexsort((chances, values))
    order = order[mass[order] > 0]
    ranks, mass = np.unique(chances[order], return_inverse=True)[1].astype(np.int64), mass[order]
    pairs = float((_before(mass) * mass).sum())
    if not pairs > 0.0:
        return Estimate("probabilistic Kendall's tau", math.nan, notes=(no_pair_of_points(),))
    return Estimate("probabilistic Kendall's tau", 1.0 - 2.0 * _inversions(ranks, mass) / pairs)


def theoretical_error(scores: ArrayLike, truth: ArrayLike, sample_weight: Column = None, *, p: float = 1.0) -> Estimate:
    r"""Theoretical calibration error: mean distance between scores and known true probabilities.

    .. math:: \Bigl(\sum_i w_i\, |f(x_i) - \eta(x_i)|^p \Big/ \sum_i w_i\Bigr)^{1/p},

    with scores :math:`f(x_i)`, true probabilities :math:`\eta(x_i)`, weights :math:`w_i` (1 by default) and
    :math:`p \ge 1`; the reference has p = 1, and ``math.inf`` gives the largest distance. It is stricter than
    calibration: a calibrated score that ignores x has an error too.

    Parameters
    ----------
    scores, truth, sample_weight : array-like
        As in :func:`kendall_tau`.
    p : float, default=1
        Order of the error, at least 1; ``math.inf`` for the largest distance.

    Returns
    -------
    Estimate
        The value; no uncertainty.

    Notes
    -----
    Guarantee: exact for the given rows. Cost: one pass. Reference: Torabian (2023), Definition 8.

    Examples
    --------
    >>> round(float(theoretical_error([0.2, 0.5], [0.1, 0.8])), 6)
    0.2
    """
    if not p >= 1.0:
        raise InputError("p", f"must be 1 or more, got {p!r}")
    values, chances = _probabilities(scores, "scores"), _probabilities(truth, "truth")
    check_length(chances, "truth", len(values))
    mass = _weights(sample_weight, len(values))
    gaps = np.abs(values - chances)[mass > 0]
    mass = mass[mass > 0]
    largest = float(gaps.max())
    name = f"theoretical calibration error, p = {p:g}"
    if math.isinf(p) or largest == 0.0:
        return Estimate(name, largest)
    # Relative to the largest gap, since a high power of a small number is 0 in floating point.
    mean = float((mass * (gaps / largest) ** p).sum() / mass.sum())
    return Estimate(name, largest * mean ** (1.0 / p))


@dataclass(frozen=True)
class Closeness(Result):
    """How close scores are to the true probabilities, and what follows from it for calibration and classification.

    Attributes
    ----------
    epsilon, delta
        All rows but a share ``delta`` have a score within ``epsilon`` of the true probability.
    largest
        Largest distance of any row.
    calibration_bound
        Upper bound of the l1 calibration error that follows.
    loss_bound
        Upper bound of the classification loss at threshold 1/2 beyond that of the best classifier; None for an epsilon
        above 1/2, about which the theorem says nothing.
    """

    epsilon: float
    delta: float
    largest: float
    calibration_bound: float
    loss_bound: float | None

    def __str__(self) -> str:
        bounds = f"the calibration error is at most {self.calibration_bound:.4f}"
        if self.loss_bound is not None:
            bounds += f", and the classification loss at most {self.loss_bound:.4f} above the least possible"
        return f"{self.short()}: {bounds}"

    def short(self) -> str:
        """The shares and distances, without the bounds."""
        close = f"{100.0 * (1.0 - self.delta):.2f} % of the rows are within {self.epsilon:.4g} of the true probability"
        return f"{close} (largest distance {self.largest:.4f})"


def closeness(
    scores: ArrayLike,
    truth: ArrayLike,
    sample_weight: Column = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Closeness:
    r"""Whether scores are :math:`(\epsilon, \delta)`-close to the true probabilities, and the errors this permits.

    .. math:: P\bigl[\,|f(x) - \eta(x)| \le \epsilon\,\bigr] \ge 1 - \delta

    for scores :math:`f` and true probabilities :math:`\eta`. Then the l1 calibration error is at most
    :math:`(1 - \delta)\epsilon + \delta`, and the classification loss at threshold 1/2 at most :math:`2 \epsilon
    p_\epsilon (1 - \delta) + \delta` above the least possible, where :math:`p_\epsilon` is the share of rows with
    :math:`\eta` in :math:`[1/2 - \epsilon, 1/2 + \epsilon)` among those that are close.

    Parameters
    ----------
    scores, truth, sample_weight : array-like
        Probabilities, as in :func:`kendall_tau`.
    epsilon : float, optional
        Allowed distance; the smallest delta is returned.
    delta : float, optional
        Share of rows that may be further away; the smallest epsilon is returned. Pass one of the two.

    Returns
    -------
    Closeness
        Both numbers, and the bounds.

    Notes
    -----
    Guarantee: exact for the given distribution. From a sample of rows delta is an estimate, and the bounds hold for the
    rows, not for the population. Distances are compared with epsilon up to 1e-12.
    Cost: one sort. Reference: Torabian (2023), Definition 4, Theorems 16 and 18.

    Examples
    --------
    >>> print(closeness([0.2, 0.5, 0.9], [0.25, 0.5, 0.6], epsilon=0.1))
    66.67 % of the rows are within 0.1 of the true probability (largest distance 0.3000): the calibration error is at
    most 0.4000, and the classification loss at most 0.4000 above the least possible
    """
    if (epsilon is None) == (delta is None):
        problem = Phrase("or {delta} must be given, and not both", delta=Argument("delta"))
        raise InputError("epsilon", problem, "pass epsilon=0.05, or delta=0.1")
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is not None and not (isinstance(value, numbers.Real) and 0.0 <= value <= 1.0):
            raise InputError(name, f"must lie in [0, 1], got {value!r}", "pass a number in [0, 1]")
    f, eta = _probabilities(scores, "scores"), _probabilities(truth, "truth")
    check_length(eta, "truth", len(f))
    mass = _weights(sample_weight, len(f))
    kept = mass > 0
    gap, eta, share = np.abs(f - eta)[kept], eta[kept], mass[kept] / mass.sum()
    if epsilon is None:
        order = np.argsort(gap)
        covered = np.cumsum(share[order])
        place = min(int(np.searchsorted(covered, 1.0 - float(delta or 0.0) - SLACK)), len(gap) - 1)
        epsilon = float(gap[order][place])
    near = gap <= epsilon + SLACK
    far = min(float(share[~near].sum()), 1.0)  # shares sum to 1 up to rounding
    inside = (eta >= 0.5 - epsilon - SLACK) & (eta < 0.5 + epsilon + SLACK)
    # With everything close, p_epsilon (1 - delta) is the share of rows that are close and not sure.
    loss = 2.0 * epsilon * float(share[near & inside].sum()) + far if epsilon <= 0.5 else None
    return Closeness(float(epsilon), far, float(gap.max()), (1.0 - far) * epsilon + far, loss)


def metric_bias(metric_values: Sequence[SupportsFloat], theoretical_errors: Sequence[SupportsFloat]) -> Estimate:
    r"""Mean absolute deviation of a metric from the theoretical error, over repeated experiments.

    .. math:: \frac{1}{m} \sum_{i=1}^m |\mu_i - \mathrm{TCE}_i|,

    where :math:`\mu_i` is the metric and :math:`\mathrm{TCE}_i` the theoretical error in experiment i. The reference
    calls it the metric's bias; positive and negative deviations do not cancel here, so it is not a bias in the usual
    sense and is never negative.

    Parameters
    ----------
    metric_values : sequence of float or Estimate
        The metric in each experiment.
    theoretical_errors : sequence of float or Estimate
        The theoretical error in each experiment.

    Returns
    -------
    Estimate
        Value and standard error.

    Notes
    -----
    Guarantee: none in finite samples; the standard error is that of a mean of m experiments, for m of at least two.
    Cost: O(m). Reference: Torabian (2023), Definition 9.

    Examples
    --------
    >>> round(float(metric_bias([0.10, 0.14], [0.12, 0.13])), 6)
    0.015
    """
    values = np.array([float(value) for value in metric_values])
    errors = np.array([float(value) for value in theoretical_errors])
    if not len(values) or len(values) != len(errors):
        sizes = f"has {plural(len(values), 'value')}, and theoretical_errors has {len(errors):,}"
        raise InputError("metric_values", sizes, "pass one value of each per experiment, and at least one experiment")
    gaps = np.abs(values - errors)
    se = float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else None
    return Estimate("mean absolute deviation from the theoretical error", float(gaps.mean()), se)


def _inversions(ranks: NDArray[np.int64], mass: Weights) -> float:
    """Sum of ``mass[i] * mass[j]`` over i < j with ``ranks[i] > ranks[j]``.

    Bit by bit from the highest: ``ranks`` stay grouped by the bits already processed, in their old order inside a
    group, so an inversion appears at the first bit in which two ranks differ, as a 1 before a 0 of the same group.
    """
    total = 0.0
    place = np.arange(len(ranks))
    for bit in reversed(range(int(ranks.max()).bit_length())):
        one, seen = (ranks >> bit & 1).astype(bool), ranks >> bit + 1
        starts = np.flatnonzero(np.append(True, seen[1:] != seen[:-1]))
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(seen)))
        ones, zeros = _before(mass * one), _before((~one).astype(np.int64))
        total += float(((ones - ones[starts][group]) * mass)[~one].sum())
        zeros -= zeros[starts][group]
        zeros_in_all = np.add.reduceat((~one).astype(np.int64), starts)[group]
        moved = np.where(one, place + zeros_in_all - zeros, starts[group] + zeros)
        ranks, mass = _moved(ranks, moved), _moved(mass, moved)
    return total


def _before(values: NDArray[Any]) -> NDArray[Any]:
    """Sum of the entries before each."""
    return np.append(values.dtype.type(0), np.cumsum(values)[:-1])


def _moved(values: NDArray[Any], to: NDArray[np.intp]) -> NDArray[Any]:
    out = np.empty_like(values)
    out[to] = values
    return out


def _finite(values: ArrayLike, name: str) -> Floats:
    column = read_floats(values, name)
    if not len(column):
        refuse_empty(name)
    if not np.isfinite(column).all():
        raise InputError(name, "holds values that are missing or infinite", Advice.DROP_ROWS)
    return np.asarray(column + 0.0)


def _probabilities(values: ArrayLike, name: str) -> Floats:
    column = _finite(values, name)
    if not ((column >= 0.0) & (column <= 1.0)).all():
        raise InputError(name, "must hold probabilities in [0, 1]", "pass the probabilities themselves")
    return column


def _weights(sample_weight: Column, size: int) -> Weights:
    if sample_weight is None:
        return np.ones(size, dtype=np.int64)
    column = _finite(sample_weight, "sample_weight")
    check_length(column, "sample_weight", size)
    if not ((column >= 0.0).all() and (column > 0.0).any()):
        raise InputError(
            "sample_weight", "must not be negative, and one must be above 0", "pass probabilities or counts"
        )
    # Scaled by a power of two, which changes no ratio, so that squares and sums do not overflow.
    return np.asarray(np.ldexp(column, -math.frexp(float(column.max()))[1]))


no_pair_of_points = note("no-pair-of-points", "not defined: at least two points are needed")
