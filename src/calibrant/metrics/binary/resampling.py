"""Bootstrap samples and samples of a calibrated model, drawn from the counts by bin and not from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_whole
from calibrant.messages import InputError, Note, note
from calibrant.metrics.binary.bins import Bins, Edges, Strategy
from calibrant.metrics.draws import generator, only_values
from calibrant.numerics import Floats
from calibrant.tallies import GroupedTally, Tally

MAX_BINS = 200
"""Maximum number of bins for resampling; up to it, resampling costs less than reading the rows."""

REPETITIONS = 1_000

_BLOCK = 1 << 20
"""Numbers in memory at once; many repetitions of many bins are drawn in blocks of this size."""

_BOOTSTRAP, _CLUSTERS, _NULL = 1, 2, 3  # streams of random numbers that must differ under one random_state


@dataclass(frozen=True, eq=False)
class Resampled:
    """Bins of many samples: ``n``, ``events`` and ``score_sum`` have one line per sample.

    A statistic works along the last axis, so that one expression gives its value on the data (:meth:`once`), on
    bootstrap samples and on samples of a calibrated model.

    Examples
    --------
    >>> data = Resampled.once(Bins.of([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], n_bins=2))
    >>> (np.abs(data.events - data.score_sum).sum(axis=-1) / data.n.sum(axis=-1)).round(3)
    array([0.25])
    """

    n: Floats
    events: Floats
    score_sum: Floats
    midpoint: Floats
    """Middle of each bin; one line for all samples."""

    @classmethod
    def once(cls, bins: Bins) -> Resampled:
        """The data themselves, as one sample."""
        n, events, score_sum = (_floats(x)[None, :] for x in (bins.n, bins.events, bins.score_sum))
        return cls(n, events, score_sum, bins.midpoint)

    @property
    def rate(self) -> Floats:
        """Share of events in each bin; 0 where the bin is empty."""
        return np.asarray(self.events / np.where(self.n > 0, self.n, 1.0))


Statistic = Callable[[Resampled], Floats]
"""From many samples to one value (or one line of values) per sample."""


def bootstrap(
    data: Bins | Tally | GroupedTally,
    statistic: Statistic,
    *,
    n_bins: int = 15,
    strategy: Strategy = "width",
    edges: Edges = None,
    repetitions: int = REPETITIONS,
    random_state: int = 0,
    max_bins: int = MAX_BINS,
) -> Floats:
    r"""Bootstrap a statistic of binned counts, for rows or for groups of dependent rows.

    .. math:: e_b^* = c_b\, \operatorname{Poisson}(e_b / c_b), \qquad
              n_b^* = e_b^* + c_b\, \operatorname{Poisson}((n_b - e_b) / c_b), \qquad c_b = \sum w^2 / \sum w,

    in bin b with :math:`n_b` rows (or sum of weights w) and :math:`e_b` events: each row is drawn Poisson(1) times.
    Without weights :math:`c_b = 1`; with weights, a bin varies according to its effective sample size. The mean score
    of each bin is kept.

    From a :class:`GroupedTally` whole groups are drawn instead, G out of G with replacement, so that rows of one group
    (a patient, a customer; many of them by :func:`calibrant.tallies.cluster_buckets`) may depend on each other.

    Parameters
    ----------
    data
        Bins, or a tally (by group), which is binned with the same edges in every sample.
    statistic
        Takes a :class:`Resampled`, returns an array whose first axis is the samples.
    max_bins
        More bins raise an error, since the time is about ``repetitions * bins * 0.1`` microseconds.
    n_bins, strategy, edges
        Bins as in :meth:`Bins.of`, for a tally.
    repetitions : int
        Number of samples.
    random_state : int, default=0
        Seed.

    Returns
    -------
    ndarray
        One value, or one line of values, per sample.

    Notes
    -----
    A sample without any row is replaced by the data; this occurs only with very few rows.
    Guarantee: no finite-sample guarantee. The spread of a smooth statistic is estimated consistently; that of a
    calibration error is overestimated when the model is nearly calibrated, since the error then sits at its kink.
    Cost: O(repetitions x bins), or O(repetitions x bins x groups); no pass over rows.
    Reference: Efron and Tibshirani (1993), chapter 6; Chamandy et al. (2012) for the Poisson form.

    Examples
    --------
    >>> bins = Bins.of(np.repeat([0.2, 0.7], 100), np.arange(200) % 10 < np.repeat([3, 7], 100), n_bins=2)
    >>> overall = bootstrap(bins, lambda r: r.events.sum(axis=-1) / r.n.sum(axis=-1))
    >>> round(float(overall.std()), 2)  # the square root of 0.5 * 0.5 / 200 is 0.035
    0.04
    """
    if isinstance(data, GroupedTally):
        return _bootstrap_groups(data, statistic, n_bins, strategy, edges, repetitions, random_state, max_bins)
    bins = data if isinstance(data, Bins) else Bins.of(data, n_bins=n_bins, strategy=strategy, edges=edges)
    _check_cost(len(bins), repetitions, max_bins)
    rng = generator(random_state, _BOOTSTRAP)
    worth = np.where(bins.n > 0, bins.n / np.where(bins.n > 0, bins.effective_n, 1.0), 1.0)
    hits, others = bins.events / worth, np.maximum(bins.n - bins.events, 0.0) / worth
    values = []
    for size in _blocks(repetitions, len(bins)):
        events = _floats(worth * rng.poisson(hits, (size, len(bins))))
        n = events + worth * rng.poisson(others, (size, len(bins)))
        empty = ~(n > 0).any(axis=1)
        n[empty], events[empty] = bins.n, bins.events
        values.append(statistic(Resampled(n, events, n * bins.mean_score, bins.midpoint)))
    return np.concatenate(values)


def null_draws(
    bins: Bins, statistic: Statistic, *, repetitions: int = REPETITIONS, random_state: int = 0, max_bins: int = MAX_BINS
) -> Floats:
    r"""Values of a statistic of bins if the scores were perfectly calibrated.

    .. math:: e_b^* = \frac{n_b}{m_b} \operatorname{Binomial}(m_b, \bar s_b)

    where :math:`\bar s_b` is the mean score of bin b, :math:`n_b` its rows and :math:`m_b` the same, or the effective
    size, rounded, under importance weights.

    Notes
    -----
    The scores and the rows by bin are fixed. Given the scores, the events of a bin vary a little less than a binomial
    count, because scores vary within the bin: by at most 1 % for 15 bins of equal width and ordinary scores, more for
    two or three wide bins. The draws are too wide by as much, never too narrow.
    Guarantee: no finite-sample guarantee, for the reason above; exact when each bin holds one score.
    Cost: O(repetitions x bins).
    Reference: Bröcker and Smith (2007) (consistency resampling).

    Examples
    --------
    >>> bins = Bins.of([0.5] * 100, [0, 1] * 50, n_bins=1)
    >>> errors = null_draws(bins, lambda r: np.abs(r.rate[:, 0] - 0.5))
    >>> round(float(errors.mean()), 2)  # the square root of 2 / pi times 0.05 is 0.04
    0.04
    """
    _check_cost(len(bins), repetitions, max_bins)
    rng = generator(random_state, _NULL)
    sizes = np.where(bins.n > 0, np.maximum(np.rint(bins.effective_n), 1.0), 0.0).astype(np.int64)
    worth = bins.n / np.maximum(sizes, 1)
    chance = np.clip(bins.mean_score, 0.0, 1.0)
    values = []
    for size in _blocks(repetitions, len(bins)):
        events = worth * rng.binomial(sizes, chance, (size, len(bins)))
        n, score_sum = (np.broadcast_to(_floats(x), events.shape) for x in (bins.n, bins.score_sum))
        values.append(statistic(Resampled(n, events, score_sum, bins.midpoint)))
    return np.concatenate(values)


def null_facts(bins: Bins, statistic: Statistic, random_state: int = 0) -> dict[str, Any]:
    """Null value and its 95 % quantile, as fields of an :class:`Estimate`; empty for more than 200 bins."""
    if len(bins) > MAX_BINS or only_values():
        return {}
    null = null_draws(bins, statistic, random_state=random_state)
    return {"null": float(null.mean()), "null_high": float(np.quantile(null, 0.95))}


def uncertainty(bins: Bins, statistic: Statistic, random_state: int = 0) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """Standard error and null value as fields of an :class:`Estimate`, and a note where there are none.

    A single row has no standard error, and more than 200 bins would take too long.
    """
    if only_values():
        return {}, ()
    if len(bins) > MAX_BINS:
        return {}, (too_many_bins_for_uncertainty(MAX_BINS),)
    facts = null_facts(bins, statistic, random_state)
    if bins.effective_n.sum() >= 2.0:
        facts["se"] = float(bootstrap(bins, statistic, random_state=random_state).std(ddof=1))
    return facts, ()


def _bootstrap_groups(
    groups: GroupedTally,
    statistic: Statistic,
    n_bins: int,
    strategy: Strategy,
    edges: Any,
    repetitions: int,
    random_state: int,
    max_bins: int,
) -> Floats:
    if len(groups) < 2:
        raise InputError(
            "data",
            f"must hold at least 2 groups for a bootstrap of groups, got {len(groups)}",
            "pass a GroupedTally with more groups",
        )
    whole = Bins.of(groups.total(), n_bins=n_bins, strategy=strategy, edges=edges)
    _check_cost(len(whole), repetitions, max_bins)
    parts = [Bins.of(tally, edges=whole.edges) for tally in groups.values()]
    table = np.array([[part.n, part.events, part.score_sum] for part in parts], dtype=np.float64)
    rng, size = generator(random_state, _CLUSTERS), len(parts)
    values = []
    for block in _blocks(repetitions, 3 * len(whole) + size):
        times = rng.multinomial(size, np.full(size, 1.0 / size), block).astype(np.float64)
        n, events, score_sum = np.einsum("rg,gcb->crb", times, table)
        values.append(statistic(Resampled(n, events, score_sum, whole.midpoint)))
    return np.concatenate(values)


def _check_cost(bins: int, repetitions: int, max_bins: int) -> None:
    check_whole("repetitions", repetitions)
    if bins > max_bins:
        raise InputError(
            "max_bins",
            f"is {max_bins}, and {repetitions:,} samples of {bins:,} bins would take about "
            f"{repetitions * bins * 1e-07:.2g} s",
            "use fewer bins, or raise max_bins",
        )


def _blocks(repetitions: int, width: int) -> Iterator[int]:
    """Sizes of blocks that add up to ``repetitions`` and keep memory bounded."""
    block = max(1, _BLOCK // max(width, 1))
    for start in range(0, int(repetitions), block):
        yield min(block, int(repetitions) - start)


def _floats(values: NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float64)


too_many_bins_for_uncertainty = note(
    "too-many-bins-for-uncertainty", "No standard error or null value: they are computed for at most {most} bins."
)
