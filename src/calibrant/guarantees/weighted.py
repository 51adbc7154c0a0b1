r"""Confidence intervals for the event rate of one bin in a target population, from weighted rows of a source.

Under covariate shift the rate of a bin in the target population is
:math:`\theta = \mathbb{E}[wY] / \mathbb{E}[w]`, with expectations over rows of the source in the bin, and the weight
:math:`w`, the density ratio, lies in :math:`[0, U]`. Proofs: ``docs/certificates/covariate-shift.md``.

The intervals depend on the rows through a table: the number of events and of other rows at each of a few levels of
:math:`u = w / U`. A weight between two levels is split so that its mean is kept. The logarithm of a bet is concave in
u, so that the split can only make an interval wider. The table is what a stored certificate is checked against, with
numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.arrays.sides import RatioWeights, known_weights, refuse_estimated
from calibrant.guarantees.bounds import Flags, Interval
from calibrant.messages import InputError
from calibrant.numerics import Floats

WeightedIntervalName = Literal["betting", "weighted-hoeffding"]

LEVELS = np.concatenate([[0.0], 2.0 ** (-np.arange(24, 4, -1) / 2.0), np.arange(2, 9) / 8.0])
"""Levels of the weight as a share of its upper bound: half octaves up to 1/4, then eighths."""

STAKES, LARGEST_STAKE = 32, 0.99
"""Number of stakes of the betting interval, and the largest of them."""

STEPS = 40
"""Bisection steps to the end of an interval."""


@dataclass(frozen=True, eq=False)
class WeightTable:
    """Rows of each bin by level of the weight: ``events`` and ``others`` have a row per bin, a column per level.

    ``upper`` is the bound of the density ratio, in the unit of the weights.
    """

    upper: float
    events: Floats
    others: Floats

    @classmethod
    def of(
        cls, weights: Floats, events: NDArray[np.bool_], upper: float, index: NDArray[Any] | None = None, bins: int = 1
    ) -> WeightTable:
        """The table of rows with these weights and labels; ``index`` is the bin of each row.

        Examples
        --------
        >>> table = WeightTable.of(np.array([2.0, 1.0, 1.75]), np.array([True, False, False]), upper=2.0)
        >>> table.rows.tolist(), table.rates.round(3).tolist(), table.effective_sizes.round(2).tolist()
        ([3.0], [0.421], [2.8])
        """
        index = np.zeros(len(weights), dtype=np.int64) if index is None else index.astype(np.int64)
        share = weights / upper
        left = np.clip(np.searchsorted(LEVELS, share, side="right") - 1, 0, len(LEVELS) - 2)
        part = (share - LEVELS[left]) / (LEVELS[left + 1] - LEVELS[left])
        cell, size = index * len(LEVELS) + left, bins * len(LEVELS)

        def spread(at: NDArray[np.bool_]) -> Floats:
            both = np.bincount(cell[at], 1.0 - part[at], size) + np.bincount(cell[at] + 1, part[at], size)
            return np.asarray(both.reshape(bins, len(LEVELS)))

        return cls(float(upper), spread(events), spread(~events))

    @property
    def rows(self) -> Floats:
        """Rows by bin."""
        return np.asarray((self.events + self.others).sum(axis=1))

    @property
    def means(self) -> Floats:
        """Mean weight by bin, as a share of the upper bound; 0 without rows."""
        rows = self.rows
        return np.asarray(((self.events + self.others) @ LEVELS) / np.where(rows > 0.0, rows, 1.0))

    @property
    def rates(self) -> Floats:
        """Weighted event rate by bin; NaN without weight."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.events @ LEVELS) / ((self.events + self.others) @ LEVELS))

    @property
    def effective_sizes(self) -> Floats:
        """Effective sample size by bin, slightly too small because weights are split between levels."""
        both = self.events + self.others
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nan_to_num((both @ LEVELS) ** 2 / (both @ LEVELS**2)))

    @property
    def effective_size(self) -> float:
        """Effective sample size of all rows together."""
        both = (self.events + self.others).sum(axis=0)
        return float((both @ LEVELS) ** 2 / max(float(both @ LEVELS**2), np.finfo(np.float64).tiny))

    def flipped(self) -> WeightTable:
        """The same rows with events and others exchanged."""
        return WeightTable(self.upper, self.others, self.events)

    def at(self, bins: NDArray[np.bool_]) -> WeightTable:
        """The table with zeros in all other bins."""
        return WeightTable(self.upper, *(np.where(bins[:, None], each, 0.0) for each in (self.events, self.others)))


# ------------------------------------------------------------------------------------------------------------- betting


def _stakes(rows: Floats) -> Floats:
    """Stakes by bin, from 1/rows to 0.99: they may depend on the number of rows, but not on weights or labels."""
    first = np.minimum(1.0 / np.maximum(rows, 1.0), 0.5)
    steps = np.linspace(0.0, 1.0, STAKES)
    return np.asarray(first[:, None] * (LARGEST_STAKE / first[:, None]) ** steps)


def _log_wealth(table: WeightTable, rate: Floats) -> Floats:
    r"""Logarithm of the mean wealth over the stakes, if the true rate were ``rate``; it decreases in the rate.

    A stake :math:`\gamma` multiplies the wealth by :math:`1 - \gamma u` for a row without event, and by
    :math:`1 + \gamma u (1 - \theta) / \theta` for an event; at the true rate these have mean 1.
    """
    stakes = _stakes(table.rows)
    return _log_mean(_log_wins(table, stakes, rate) + _log_losses(table, stakes))


def _log_wins(table: WeightTable, stakes: Floats, rate: Floats) -> Floats:
    used = table.events.any(axis=0)
    odds = (1.0 - rate) / np.maximum(rate, np.finfo(np.float64).tiny)
    factors = np.log1p((stakes * odds[:, None])[:, :, None] * LEVELS[used])
    return np.asarray(np.einsum("bsl,bl->bs", factors, table.events[:, used]))


def _log_losses(table: WeightTable, stakes: Floats) -> Floats:
    used = table.others.any(axis=0)
    return np.asarray(np.einsum("bsl,bl->bs", np.log1p(-stakes[:, :, None] * LEVELS[used]), table.others[:, used]))


def _log_mean(logs: Floats) -> Floats:
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.mean(np.exp(logs - top[:, None]), axis=1)))


def _lowest_rate(table: WeightTable, alpha: Floats) -> Floats:
    """Lower end: where the wealth reaches 2 / alpha, rounded down; 0 without events."""
    outside, inside = np.zeros(len(alpha)), np.ones(len(alpha))
    stakes = _stakes(table.rows)
    losses = _log_losses(table, stakes)
    for _ in range(STEPS):
        middle = 0.5 * (outside + inside)
        refuted = _log_mean(_log_wins(table, stakes, middle) + losses) >= np.log(2.0 / alpha)
        outside, inside = np.where(refuted, middle, outside), np.where(refuted, inside, middle)
    return np.where((table.events @ LEVELS) > 0.0, outside, 0.0)


def _betting(table: WeightTable, alpha: Floats) -> Interval:
    return _lowest_rate(table, alpha), 1.0 - _lowest_rate(table.flipped(), alpha)


def _supports_betting(table: WeightTable, alpha: Floats, end: Floats) -> Flags:
    return np.asarray(_log_wealth(table, end) >= np.log(2.0 / alpha) - 1e-9)


# ----------------------------------------------------------------------------------------------------------- Hoeffding


def _hoeffding_radius(table: WeightTable, alpha: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(np.log(2.0 / alpha) / (2.0 * table.rows)) / table.means)


def _hoeffding(table: WeightTable, alpha: Floats) -> Interval:
    rates, radius = np.nan_to_num(table.rates), _hoeffding_radius(table, alpha)
    return np.clip(rates - radius, 0.0, 1.0), np.clip(rates + radius, 0.0, 1.0)


def _supports_hoeffding(table: WeightTable, alpha: Floats, end: Floats) -> Flags:
    return np.asarray(end <= table.rates - _hoeffding_radius(table, alpha) + 1e-12)


@dataclass(frozen=True)
class WeightedMethod:
    """A method that turns the table of a bin into an interval, and what it asks of a stored lower end."""

    interval: Callable[[WeightTable, Floats], Interval]
    supports: Callable[[WeightTable, Floats, Floats], Flags]

    def __call__(self, table: WeightTable, alpha: float | Floats) -> Interval:
        """Interval of each bin; [0, 1] for bins without weight."""
        low, high = self.interval(table, np.broadcast_to(np.asarray(alpha, dtype=np.float64), table.rows.shape))
        there = table.means > 0.0
        return np.where(there, low, 0.0), np.where(there, high, 1.0)


WEIGHTED_BOUNDS: dict[WeightedIntervalName, WeightedMethod] = {
    "betting": WeightedMethod(_betting, _supports_betting),
    "weighted-hoeffding": WeightedMethod(_hoeffding, _supports_hoeffding),
}
"""Every interval method of weighted rows, by the name that a certificate prints; the default first."""

WEIGHTED_NAMES: dict[str, WeightedIntervalName] = {
    "clopper-pearson": "betting",
    "betting": "betting",
    "hoeffding": "weighted-hoeffding",
    "weighted-hoeffding": "weighted-hoeffding",
}
"""The method that is used for weighted rows, by the name that was requested."""


def weights_support(
    name: WeightedIntervalName, table: WeightTable, alpha: Floats, lower: Floats, upper: Floats, rounding: float
) -> bool:
    """Whether no interval is narrower than its method gives for this table; without weight it must be [0, 1]."""
    there = table.means > 0.0
    if ((lower > 0.0) | (upper < 1.0))[~there].any():
        return False
    for side, end in ((table, lower), (table.flipped(), 1.0 - upper)):
        low = np.maximum(end - rounding, 0.0)
        fine = (end <= 0.0) | (WEIGHTED_BOUNDS[name].supports(side, alpha, low) & (end <= side.rates + rounding))
        if not fine[there].all():
            return False
    return True


# ---------------------------------------------------------------------------------------------------------- functions


def _checked(weights: ArrayLike | RatioWeights, y: ArrayLike, upper: float | None) -> tuple[RatioWeights, Flags]:
    from calibrant.arrays import check_labels

    refuse_estimated(weights)
    if isinstance(weights, RatioWeights) and upper is None:
        found = weights
    elif upper is None:
        raise InputError("upper", "is missing", "pass a number that the density ratio never exceeds")
    else:
        found = known_weights(np.asarray(weights), upper=upper)
    labels, _ = check_labels(y)
    if len(labels) != len(found):
        raise InputError("y", f"has {len(labels)} rows but weights has {len(found)}", "pass one value per row in both")
    return found, np.asarray(labels == 1)


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie strictly between 0 and 1, got {alpha}", "0.1 gives a 90 % interval")


def weighted_interval(
    weights: ArrayLike | RatioWeights,
    y: ArrayLike,
    *,
    upper: float | None = None,
    alpha: float = 0.1,
    method: WeightedIntervalName = "betting",
) -> tuple[float, float]:
    r"""Confidence interval for the event rate of a target population, from weighted rows of one bin of the source.

    Parameters
    ----------
    weights, y
        Known density ratio and label of each row of the bin; the rows must be independent.
    upper
        A number that the density ratio never exceeds; not needed if ``weights`` is made by ``known_weights``.
    alpha
        Probability with which the interval may fail. For B bins simultaneously, pass alpha / B.
    method
        ``"betting"``, or ``"weighted-hoeffding"``: the weighted rate plus or minus
        :math:`(U / \bar w) \sqrt{\ln(2/\alpha) / 2N}`, a sharper form of Gupta (2023), Theorem 3.7.

    Returns
    -------
    tuple of float
        Lower and upper end.

    Notes
    -----
    Guarantee: the true rate :math:`\mathbb{E}[wY] / \mathbb{E}[w]` lies inside with probability at least 1 - alpha, for
    every distribution of (w, Y) with :math:`0 \le w \le U` and every number of rows. The betting interval multiplies,
    over the rows, :math:`1 - \gamma w / U` for a row without event and
    :math:`1 + \gamma (w / U) (1 - \theta) / \theta` for an event. At the true rate the product has mean 1, so by
    Markov's inequality rates at which the mean over 32 stakes :math:`\gamma` exceeds :math:`2 / \alpha` are excluded.
    Reference: Waudby-Smith and Ramdas (2024) for bets; Gupta (2023), section 3.4.4 for the setting.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.random(2_000)
    >>> y = rng.random(2_000) < x  # source rate 1/2; the target has density 2x, so its rate is 2/3
    >>> [round(end, 3) for end in weighted_interval(2 * x, y, upper=2)]
    [0.638, 0.711]
    >>> [round(end, 3) for end in weighted_interval(2 * x, y, upper=2, method="weighted-hoeffding")]
    [0.621, 0.731]
    """
    check_option("method", method, tuple(WEIGHTED_BOUNDS))
    _check_alpha(alpha)
    found, events = _checked(weights, y, upper)
    low, high = WEIGHTED_BOUNDS[method](WeightTable.of(found.values, events, found.upper), alpha)
    return float(low[0]), float(high[0])


def weighted_bernstein(
    weights: ArrayLike | RatioWeights,
    y: ArrayLike,
    mass_ratio: float,
    *,
    upper: float | None = None,
    alpha: float = 0.1,
) -> tuple[float, float, float]:
    r"""Estimate and interval of Gupta (2023), Theorem 3.9, for a bin whose masses in both populations are known.

    .. math:: \hat\pi = \frac1N \sum_i m\, w_i Y_i, \qquad
              |\hat\pi - \theta| \le \sqrt{\frac{2 \hat V \ln(3/\alpha)}{N}} + \frac{3 m U \ln(3/\alpha)}{N},

    where m is the mass of the bin in the source divided by its mass in the target, :math:`\hat V` the variance of the
    terms :math:`m w_i Y_i`, and the second term is outside the root, as in the proof.

    Parameters
    ----------
    weights, y
        Known density ratio, normalized to mean 1 on the source, and label of each row of the bin.
    mass_ratio
        The known m; an estimate of it is not covered.
    upper
        A number that the density ratio never exceeds; not needed if ``weights`` is made by ``known_weights``.
    alpha
        Probability with which the interval may fail. For B bins simultaneously, pass alpha / B.

    Returns
    -------
    tuple of float
        Estimate, lower end and upper end; the ends are clipped to [0, 1], the estimate is not.

    Notes
    -----
    Guarantee: finite-sample, for independent rows. The interval of :func:`weighted_interval` needs no masses and is
    shorter in almost every case. Reference: Gupta (2023), Theorem 3.9; Audibert, Munos and Szepesvari (2009).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.random(2_000)
    >>> y = rng.random(2_000) < x
    >>> [round(each, 3) for each in weighted_bernstein(2 * x, y, 1.0, upper=2)]
    [0.674, 0.62, 0.728]
    """
    _check_alpha(alpha)
    if not (np.isfinite(mass_ratio) and mass_ratio > 0.0):
        raise InputError("mass_ratio", f"must be a positive number, got {mass_ratio!r}", "pass mass in source / target")
    found, events = _checked(weights, y, upper)
    terms, n, log = mass_ratio * found.values * events, len(found), math.log(3.0 / alpha)
    estimate = float(terms.mean())
    radius = math.sqrt(2.0 * float(terms.var()) * log / n) + 3.0 * mass_ratio * found.upper * log / n
    return estimate, max(estimate - radius, 0.0), min(estimate + radius, 1.0)


def weighted_epsilon(n: int, n_bins: int, alpha: float, spread: float) -> float:
    r"""Worst-case epsilon of uniform-mass binning under covariate shift, before any label is seen.

    .. math:: \epsilon = \frac{U}{L} \sqrt{\frac{\ln(2B/\alpha)}{2(\lfloor n/B \rfloor - 1)}}

    for a density ratio between L and U. It is Theorem 3.7 of Gupta (2023) with explicit constants and U / L in place of
    its square; ``docs/certificates/covariate-shift.md`` proves it. Infinite below n = 2B.

    Parameters
    ----------
    n, n_bins, alpha
        Rows, bins B of equal mass, and probability of failure.
    spread
        U / L, at least 1.

    Returns
    -------
    float
        The bound, which may exceed 1.

    Notes
    -----
    Guarantee: finite-sample, for independent rows without ties and a known density ratio.

    Examples
    --------
    >>> round(weighted_epsilon(10_000, 10, 0.1, spread=3), 3)
    0.154
    """
    _check_alpha(alpha)
    check_whole("n", n, 0)
    check_whole("n_bins", n_bins)
    if not spread >= 1.0:
        raise InputError("spread", f"must be at least 1, got {spread!r}", "pass upper bound / lower bound")
    if n < 2 * n_bins:
        return math.inf
    return spread * math.sqrt(math.log(2.0 * n_bins / alpha) / (2.0 * (n // n_bins - 1)))
