"""Calibration errors: binned, debiased, and with respect to a test function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.messages import InputError, Note, Setting, Voice, note, plural
from calibrant.metrics.binary.bins import ENOUGH_ROWS, Bins, Edges, Scores, Strategy, describe, region_rows, tally_of
from calibrant.metrics.binary.resampling import Resampled, Statistic, null_facts, uncertainty
from calibrant.metrics.draws import only_values
from calibrant.metrics.estimates import TWO_SIDED, Deferred, Estimate, Ideal, metric
from calibrant.metrics.regions import Regions
from calibrant.numerics import Column, Floats
from calibrant.tallies import Tally


@metric(Ideal.ZERO)
def ece(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    p: float = 1,
    n_bins: int = 15,
    strategy: Strategy = "width",
    edges: Edges = None,
    regions: Regions = None,
    against: Literal["mean", "midpoint"] = "mean",
    random_state: int = 0,
) -> Estimate:
    """Expected calibration error of one column of scores; see :func:`~calibrant.metrics.dispatch.ece`.

    Examples
    --------
    >>> ece([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0]).value
    0.25
    """
    check_power(p)
    check_option("against", against, ("mean", "midpoint"))
    if against == "midpoint" and (regions is not None or (edges is None and strategy in ("distinct", "auto"))):
        raise InputError(Setting("against", against), "needs bins", "pass strategy='width' or 'mass', or edges")
    bins = Bins.of(scores, y, sample_weight, n_bins=n_bins, strategy=strategy, edges=edges, regions=regions)
    notes = _few(bins) if strategy == "distinct" and edges is None and regions is None else ()
    chosen = describe(bins, strategy, edges, regions)
    name = f"{with_order('ECE', p)}, {chosen}{', mid-points' if against == 'midpoint' else ''}"
    return _plug_in(name, bins, _gap_norm(p, against), random_state, notes)


@metric(Ideal.ZERO)
def debiased_ece(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    edges: Edges = None,
    regions: Regions = None,
    squared: bool = False,
    random_state: int = 0,
) -> Estimate:
    """Debiased l2 calibration error of one column; see :func:`~calibrant.metrics.dispatch.debiased_ece`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> y = rng.random(5000) < 0.9 * s  # the true error is the root of the mean of (s / 10)^2, 0.058
    >>> round(ece(s, y, p=2).value, 3), round(debiased_ece(s, y).value, 3)
    (0.061, 0.056)
    """
    weighted = sample_weight is not None or isinstance(scores, Tally)
    tally = tally_of(scores, y, sample_weight) if weighted else None  # only a tally knows whether weights are integers
    if regions is None and tally is not None:
        bins = Bins.of(tally, n_bins=n_bins, strategy=strategy, edges=edges)
    else:
        bins = Bins.of(scores, y, sample_weight, n_bins=n_bins, strategy=strategy, edges=edges, regions=regions)
    size = bins.n if tally is None or tally.whole else bins.effective_n
    chosen = describe(bins, strategy, edges, regions)
    name = f"debiased l2 calibration error{' squared' if squared else ''}, {chosen}"
    kept = size > 1.0
    if not kept.any():
        return Estimate(name, float("nan"), notes=(no_two_rows(),))
    statistic = _debiased(size)
    square = float(statistic(Resampled.once(bins))[0])
    se, low, high = _debiased_spread(bins, kept, square)
    null: dict[str, Any] = {}
    notes = _left_out(bins, kept)
    if tally is None or tally.counts:
        null = null_facts(bins, statistic if squared else lambda sample: _root(statistic(sample)), random_state)
    else:
        notes += (_no_null(),)
    found = Estimate(name, square, se, low, high, **null, notes=notes)
    return found if squared else root_of(found)


@metric(Ideal.ZERO)
def sweep_ece(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    p: float = 1,
    max_bins: int = 500,
    random_state: int = 0,
) -> Estimate:
    r"""ECE with as many bins of equal mass as keep the event rates monotone (ECE sweep).

    .. math:: B^* = \max\{B : \bar y_1 \le \dots \le \bar y_{B'} \text{ for every } B' \le B\}

    where :math:`\bar y_1, \dots` are the shares of events in B' bins of equal mass, lowest scores first; the value is
    the error :func:`ece` gives with :math:`B^*` bins.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    p : float, default=1
        Order of the error; ``numpy.inf`` for the largest error of a bin.
    max_bins : int
        Largest number of bins.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Estimate
        Value and bootstrap standard error; no null value.

    Notes
    -----
    Edge rules: B grows by one and stops at the first decrease, as in the paper, even if a larger B would be monotone
    again; at the number of distinct scores; or at ``max_bins``, with a note. A tied score is never split, so ties can
    reduce the number of bins. Equal rates count as monotone.
    Guarantee: no finite-sample guarantee. The standard error treats the bins as fixed. There is no null value, since
    the number of bins depends on the labels.
    Cost: one sort, then O(log n) for each bin of each B tried: about as much again when 500 bins of 10^6 rows are
    monotone, and little otherwise.
    Reference: Roelofs et al. (2022), section 5.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(2000)
    >>> print(sweep_ece(s, rng.random(2000) < s))
    ECE, 12 bins of equal mass by sweep: 0.0241 (standard error 0.0064)
    """
    check_power(p)
    check_whole("max_bins", max_bins)
    tally = tally_of(scores, y, sample_weight)
    starts, capped = _sweep(tally, int(max_bins))
    n, events, score_sum = (np.add.reduceat(x, starts) for x in (tally.n, tally.events, tally.scores * tally.n))
    w2 = None if tally.counts else np.add.reduceat(np.asarray(tally.cells.w2), starts)
    bins = Bins(tally.lower_edges[starts[1:]], n, events, score_sum, w2)
    notes = (sweep_ended(int(max_bins)),) if capped else ()
    name = f"{with_order('ECE', p)}, {plural(len(bins), 'bin')} of equal mass by sweep"
    found = _plug_in(name, bins, _gap_norm(p, "mean"), random_state, notes)
    return Estimate(name, found.value, se=found.se, notes=found.notes)


@metric(Ideal.UNKNOWN)
def pde(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    p: float = 1,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    edges: Edges = None,
    regions: Regions = None,
    random_state: int = 0,
) -> Estimate:
    """Probability deviation error of one column of scores; see :func:`~calibrant.metrics.dispatch.pde`.

    Examples
    --------
    >>> s, y = [0.35, 0.35, 0.65, 0.65], [0, 1, 0, 1]
    >>> round(pde(s, y, n_bins=1).value, 3), ece(s, y, n_bins=1).value
    (0.15, 0.0)
    """
    check_power(p)
    if regions is not None:
        rows, place = region_rows(scores, y, sample_weight, regions, edges)
        order = np.lexsort((rows.scores, place))
        mass = np.ones(len(place)) if rows.weights is None else rows.weights[order].astype(np.float64)
        bins = Bins.of(scores, y, sample_weight, regions=regions)
        statistic = deviation_norm(rows.scores[order], mass, place[order], len(bins), p)
    else:
        tally = tally_of(scores, y, sample_weight)
        bins = Bins.of(tally, n_bins=n_bins, strategy=strategy, edges=edges)
        place = np.searchsorted(np.cumsum(bins.n), np.cumsum(tally.n) - tally.n / 2.0)  # cells of a bin are neighbors
        statistic = deviation_norm(tally.scores, tally.n, place, len(bins), p)
    name = f"{with_order('PDE', p)}, {describe(bins, strategy, edges, regions)}"
    return _plug_in(name, bins, statistic, random_state, ())


@dataclass(frozen=True)
class WeakError(Estimate):
    """Calibration error with respect to a test function, and the gain of a correction by it.

    Attributes
    ----------
    beta
        The best multiple of the test function to add to the scores, in hindsight.
    gain
        By how much that lowers the mean square loss (Brier score).
    """

    beta: float = 0.0
    gain: float = 0.0

    def __str__(self) -> str:
        gain = f"  Adding {self.beta:+.4f} times the function would have lowered the Brier score by {self.gain:.6f}."
        return f"{super().__str__()}\n{gain}"


def weak_error(
    scores: Scores, y: Column = None, sample_weight: Column = None, *, function: Callable[[Floats], NDArray[Any]]
) -> WeakError:
    r"""Weak calibration error: calibration error with respect to a test function.

    .. math:: \frac{1}{n} \Bigl|\sum_j f(s_j) (s_j - y_j)\Bigr| = \frac{|R|}{n}, \qquad
              \beta = \frac{R}{\tau}, \qquad \text{gain} = \frac{R^2}{\tau n},

    with scores :math:`s_j`, labels :math:`y_j`, :math:`R = -\sum_j f(s_j)(s_j - y_j)` and
    :math:`\tau = \sum_j f(s_j)^2`. Predicting :math:`s + \beta f(s)` changes the summed square loss by
    :math:`\beta^2 \tau - 2 \beta R`, which is least, :math:`-R^2/\tau`, at this :math:`\beta`.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    function
        Vectorized, from scores to numbers in [0, 1].

    Returns
    -------
    WeakError
        An :class:`Estimate` with the correction ``beta`` and its ``gain``.

    Notes
    -----
    Edge rules: a function that is 0 on every score has error, beta and gain 0. A gridded cell is judged at its mean
    score.
    Guarantee: no finite-sample guarantee. ``se`` belongs to the sum before its absolute value is taken; ``null`` and
    ``null_high`` are those of the normal distribution.
    Cost: one sort, then one pass over distinct scores.
    Reference: Foster and Kakade (2006), eq. 3 and footnote 3, which bounds the gain with n in place of tau.

    Examples
    --------
    >>> found = weak_error([0.2, 0.2, 0.8, 0.8], [0, 1, 1, 1], function=lambda s: s < 0.5)
    >>> round(found.value, 3), round(found.beta, 3), round(found.gain, 3)
    (0.15, 0.3, 0.045)
    """
    tally = tally_of(scores, y, sample_weight)
    sums = np.zeros(4)
    for s, n, events in tally.pieces():
        f = _checked(function(s), s)
        error = n * s - events
        spread = f * f * (events * (1.0 - s) ** 2 + (n - events) * s**2)
        sums += [-(f * error).sum(), (n * f * f).sum(), spread.sum(), (n * f * f * s * (1.0 - s)).sum()]
    r, tau, second, calibrated = (float(x) / float(tally.total) for x in sums)
    beta = r / tau if tau > 0 else 0.0
    size = tally.effective_size
    null_sd = np.sqrt(calibrated / size)
    return WeakError(
        "calibration error against the test function",
        abs(r),
        se=float(np.sqrt(max(second - r * r, 0.0) / (size - 1.0))) if size >= 2.0 else None,
        null=float(null_sd * np.sqrt(2.0 / np.pi)),
        null_high=float(TWO_SIDED * null_sd),
        beta=beta,
        gain=beta * r,
    )


def _plug_in(name: str, bins: Bins, statistic: Statistic, random_state: int, notes: tuple[Note, ...]) -> Estimate:
    value = float(statistic(Resampled.once(bins))[0])
    if only_values():
        return Estimate(name, value, notes=notes)

    def rest() -> dict[str, Any]:
        facts, more = uncertainty(bins, statistic, random_state)
        return {**facts, "notes": notes + more}

    check_whole("random_state", random_state, 0)
    return Deferred(name, value, rest)


def _gap_norm(p: float, against: str) -> Statistic:
    def statistic(sample: Resampled) -> Floats:
        expected = sample.score_sum if against == "mean" else sample.midpoint * sample.n
        return _norm(np.abs(sample.events - expected) / np.where(sample.n > 0, sample.n, 1.0), sample.n, p)

    return statistic


def _norm(gap: Floats, n: Floats, p: float) -> Floats:
    """The p-norm of gaps by bin, weighted by rows; gaps are divided by the largest first to avoid underflow."""
    gap, share = np.where(n > 0, gap, 0.0), n / n.sum(axis=-1, keepdims=True)
    if p == 1:
        return np.asarray((share * gap).sum(axis=-1))
    top = gap.max(axis=-1)
    if np.isinf(p):
        return np.asarray(top)
    relative = gap / np.where(top > 0, top, 1.0)[..., None]
    return np.asarray(top * (share * relative**p).sum(axis=-1) ** (1.0 / p))


def _debiased(size: NDArray[Any]) -> Statistic:
    kept = size > 1.0
    spare = size[kept] - 1.0

    def statistic(sample: Resampled) -> Floats:
        n, events, score_sum = (x[..., kept] for x in (sample.n, sample.events, sample.score_sum))
        rate = events / n
        term = ((score_sum - events) / n) ** 2 - rate * (1.0 - rate) / spare
        return np.asarray((n * term).sum(axis=-1) / n.sum(axis=-1))

    return statistic


def _root(square: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def root_of(square: Estimate) -> Estimate:
    """The root of a debiased square, and of its interval; the null values are roots already."""
    notes = (*square.notes, negative_square(square.value)) if square.value < 0 else square.notes
    value, low, high = (None if x is None else math.sqrt(max(x, 0.0)) for x in (square.value, square.low, square.high))
    assert value is not None
    se = square.se / (2.0 * value) if square.se is not None and value > 0 else None
    return replace(square, value=value, se=se, low=low, high=high, notes=notes)


def _left_out(bins: Bins, kept: NDArray[np.bool_]) -> tuple[Note, ...]:
    lost = 1.0 - float(bins.n[kept].sum() / bins.n.sum())
    return (single_rows_left_out(lost),) if lost > 0 else ()


def _debiased_spread(bins: Bins, kept: NDArray[np.bool_], square: float) -> tuple[float, float, float]:
    r"""Standard error and interval of the debiased square :math:`v`, whose variance grows with the truth :math:`t`.

    With the noise :math:`c_b` of a bin's rate, :math:`\operatorname{Var}(v) \approx a t + \sum_b 2 w_b^2 c_b^2` plus
    a term for the bin sizes; :math:`a` is evaluated at the observed gaps. The interval contains each t with
    :math:`(v - t)^2 \le z^2 \operatorname{Var}(v)`, as Wilson's does for a rate. Its lower end accounts for the
    skewness of squares (Cornish and Fisher 1938). Half a row is added for each label, so that a bin of one class has a
    positive variance.
    """
    size = np.maximum(bins.effective_n[kept], 1.0)
    rate = (bins.rate[kept] * size + 0.5) / (size + 1.0)
    noise, share = rate * (1.0 - rate) / size, bins.n[kept] / bins.n[kept].sum()
    gap = (bins.mean_score[kept] - bins.rate[kept]) ** 2
    signal, seen = np.maximum(gap - noise, 0.0), np.maximum(gap, noise)
    slope = 4.0 * (share**2 * noise * seen).sum() / (share * seen).sum()
    part = (share * noise) ** 2
    between = ((share * signal**2).sum() - (share * signal).sum() ** 2) / size.sum()
    base = 2.0 * part.sum() + max(between, 0.0)
    skewness = 8.0 * (share * noise * part).sum() / (2.0 * part.sum()) ** 1.5
    ends = []
    for z in (-TWO_SIDED - (TWO_SIDED**2 - 1.0) * skewness / 6.0, TWO_SIDED):
        root = np.sqrt(max(slope * square + (z * slope) ** 2 / 4.0 + base, 0.0))
        ends.append(float(square + z * z * slope / 2.0 + z * root))
    # The truth is at least 0, and the interval must contain the estimate; both only widen it.
    return float(np.sqrt(slope * max(square, 0.0) + base)), min(ends[0], square), max(ends[1], 0.0)


def _sweep(tally: Tally, max_bins: int) -> tuple[NDArray[np.intp], bool]:
    """First cell of each bin of the last monotone partition, and whether the sweep ended at ``max_bins``."""
    # As floats once: a search for floats among integers would convert all of them, for every B.
    n, events = np.cumsum(tally.n).astype(np.float64), np.cumsum(tally.events).astype(np.float64)
    most = min(max_bins, len(n))
    best = np.array([len(n) - 1])
    for count in range(2, most + 1):
        marks = n[-1] * np.arange(1, count) / count
        # Sums of real weights have rounding errors, and so have the rates.
        ends = np.unique(np.append(np.searchsorted(n, marks * (1.0 - 1e-12)), len(n) - 1))
        rate = np.diff(events[ends], prepend=0) / np.diff(n[ends], prepend=0)
        if (np.diff(rate) < -1e-12).any():
            return np.append(0, best[:-1] + 1), False
        best = ends
    return np.append(0, best[:-1] + 1), most < len(n)


def deviations(
    scores: Floats, n: NDArray[Any], place: NDArray[np.intp], size: int
) -> tuple[Callable[[Floats], Floats], Floats]:
    """Mean distance of a bin's scores from any rate, by prefix sums over its cells; and the rows of each bin.

    Parameters
    ----------
    scores, n, place
        Score, rows and bin of each cell, ordered by bin and then by score.
    size
        Number of bins.
    """
    first, last = (np.searchsorted(place, np.arange(size), side=side) for side in ("left", "right"))
    rows, sums = np.append(0.0, np.cumsum(n)), np.append(0.0, np.cumsum(n * scores))
    all_rows, all_sum = rows[last] - rows[first], sums[last] - sums[first]
    # Bins that are not ranges of the score are laid side by side, so that one search finds the place in each of them.
    apart = 2.0 if (np.diff(scores) < 0.0).any() else 0.0
    keys, start = scores + apart * place, apart * np.arange(size)

    def mean_distance(rate: Floats) -> Floats:
        cut = np.clip(np.searchsorted(keys, rate + start, side="right"), first, last)
        below, below_sum = rows[cut] - rows[first], sums[cut] - sums[first]
        total = rate * (2.0 * below - all_rows) + all_sum - 2.0 * below_sum
        return np.asarray(np.maximum(total, 0.0) / np.where(all_rows > 0, all_rows, 1.0))

    return mean_distance, all_rows


def deviation_norm(scores: Floats, n: NDArray[Any], place: NDArray[np.intp], size: int, p: float) -> Statistic:
    """The p-norm of the mean distances of scores from the rate of their bin."""
    mean_distance, _ = deviations(scores, n, place, size)
    return lambda sample: _norm(mean_distance(sample.rate), sample.n, p)


def _checked(values: NDArray[Any], scores: Floats) -> Floats:
    f = np.asarray(values, dtype=np.float64)
    if f.shape != scores.shape or not ((f >= 0.0) & (f <= 1.0)).all():
        raise InputError("function", "must return one number in [0, 1] for each score of the array it is given")
    return f


def check_power(p: float) -> None:
    """Check the order of an error."""
    if isinstance(p, bool) or not isinstance(p, Real) or not p >= 1:
        raise InputError("p", f"must be at least 1, or np.inf for the largest error, got {p!r}")


@note("few-rows-per-score")
def _few_rows(voice: Voice, few: int, scores: int, enough: int) -> str:
    distinct = plural(scores, f"distinct {voice.nouns.score}", f"distinct {voice.nouns.scores}")
    advice = "binning is advised (Gupta 2023, section 1.4.1)."
    return f"{few:,} of {distinct} have fewer than {enough} {voice.nouns.rows} each: {advice}"


def _few(bins: Bins) -> tuple[Note, ...]:
    few = int((bins.n < ENOUGH_ROWS).sum())
    return (_few_rows(few, len(bins), ENOUGH_ROWS),) if few else ()


def with_order(name: str, p: float) -> str:
    """The name of an error with its order, unless that is 1."""
    if p == 1:
        return name
    return f"largest {name}" if np.isinf(p) else f"l{p:g} {name}"


# ---------------------------------------------------------------------------------------------------------------- Notes


no_two_rows = note("no-two-rows", "Not defined: every bin has fewer than two {nouns.rows}.")
single_rows_left_out = note(
    "single-rows-left-out", "Bins with a single {nouns.row} are left out: {share:.2%} of the {nouns.rows}."
)
negative_square = note(
    "negative-square", "The estimate of the squared error is negative ({square:.2g}) by chance: shown as 0."
)


@note("no-null-under-importance-weights")
def _no_null(voice: Voice) -> str:
    counts = voice.setting("weight_type", "frequency")
    return f"No null value with importance weights: build the tally with {counts} if weights are repetition counts."


sweep_ended = note("sweep-ended", "The sweep ended at max_bins = {max_bins:,} while rates were still monotone.")
