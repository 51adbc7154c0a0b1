"""Scores of overall quality: proper losses, accuracy, AUC and sharpness."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Rows
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Note, Voice, note, plural
from calibrant.metrics.binary.bins import (
    Bins,
    Edges,
    GroupedScores,
    Scores,
    Strategy,
    describe,
    grouped_or_tally,
    rows_or_tally,
    tally_of,
)
from calibrant.metrics.binary.means import Loss, Moments, Part, Parts, logarithmic_loss, moments, parts_of, squared_loss
from calibrant.metrics.estimates import TWO_SIDED, Estimate, metric, no_spread, two_sided, upper_point
from calibrant.metrics.variance import FEWEST_CLUSTERS, Spread, few_groups, spread_of
from calibrant.numerics import Column, Floats
from calibrant.tallies import Clusters, Tally
from calibrant.tallies.cells import mass_below


@metric()
def brier(scores: GroupedScores, y: Column = None, sample_weight: Column = None, *, groups: Column = None) -> Estimate:
    """Brier score of one column of scores; see :func:`~calibrant.metrics.dispatch.brier`.

    Examples
    --------
    >>> round(float(brier([0.2, 0.8, 0.6], [0, 1, 0])), 4)
    0.1467
    """
    if groups is not None or isinstance(scores, Clusters):
        data = grouped_or_tally(scores, y, sample_weight, groups)
        return _grouped_mean(brier(plain_tally(data)), data, squared_loss, 1.0)
    return _mean_estimate("Brier score", rows_or_tally(scores, y, sample_weight), squared_loss)


@metric()
def rmse(scores: Scores, y: Column = None, sample_weight: Column = None) -> Estimate:
    r"""Root mean squared error, the root of the Brier score.

    .. math:: \sqrt{\tfrac{1}{n} \sum_{i=1}^n (s_i - y_i)^2},

    with scores :math:`s_i` and labels :math:`y_i`. Interval and null values are the roots of the Brier score's; the
    standard error is that of the Brier score divided by twice the value, and unknown where the value is 0. The RMSE of
    true probabilities is high too, so compare it with ``null``.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.

    Returns
    -------
    Estimate
        Value, standard error, interval and null values.

    Notes
    -----
    Guarantee: none in finite samples. Cost: one sort of rows, one pass over cells. Reference: Torabian (2023), section
    3.2.1.

    Examples
    --------
    >>> float(rmse([0.5, 0.5], [0, 1]))
    0.5
    """
    square = brier(scores, y, sample_weight)
    value = math.sqrt(square.value)
    se = None if square.se is None or value == 0.0 else square.se / (2.0 * value)
    roots: dict[str, Any] = {
        each: _root(getattr(square, each)) for each in ("low", "high", "null", "null_high", "null_low")
    }
    return replace(square, name="RMSE", value=value, se=se, **roots)


@metric()
def log_loss(
    scores: GroupedScores, y: Column = None, sample_weight: Column = None, *, groups: Column = None
) -> Estimate:
    r"""Log loss of one column of scores; see :func:`~calibrant.metrics.dispatch.log_loss`.

    Examples
    --------
    >>> round(float(log_loss([0.5, 0.25], [1, 0])), 4)
    0.4904
    >>> print(*log_loss([0.0, 0.5], [1, 0]).notes, sep="\n")
    1 row with a score of exactly 0 or 1, not clipped: no loss where the label agrees, infinite loss where it does not
    infinite because of 1 row (events at score 0, or non-events at score 1); without them it is 0.6931
    """
    if groups is not None or isinstance(scores, Clusters):
        clustered = grouped_or_tally(scores, y, sample_weight, groups)
        return _grouped_mean(log_loss(plain_tally(clustered)), clustered, logarithmic_loss, math.inf)
    data = rows_or_tally(scores, y, sample_weight)
    sums = moments(parts_of(data), logarithmic_loss)
    found = _estimate("log loss", sums, math.inf, resolution_notes(data))
    if not sums.on_ends:
        return found
    notes = (*found.notes, _on_ends(float(sums.on_ends), data.counts))
    if not sums.impossible:
        return replace(found, notes=notes)
    rest = sums.total - sums.impossible
    without = float(sums.loss / rest) if rest > 0 else None
    why = infinite_loss(float(sums.impossible), data.counts, rest=float(rest), without=without)
    return replace(found, value=math.inf, se=None, low=None, high=None, notes=(*notes, why))


@metric()
def classification_loss(
    scores: Scores, y: Column = None, sample_weight: Column = None, *, threshold: float = 0.5
) -> Estimate:
    r"""Misclassification rate at a threshold: share of rows on the wrong side.

    .. math:: \frac{1}{n} \sum_{i=1}^n \mathbf{1}\bigl[\mathbf{1}[s_i \ge \theta] \ne y_i\bigr],

    with scores :math:`s_i`, labels :math:`y_i` and threshold :math:`\theta`. A score equal to the threshold is class 1.
    This is the rule of Torabian (2023), section 2.1, under which its theorems hold; section 3.2.2 has class 0.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    threshold : float, default=0.5
        Predict class 1 at this score and above.

    Returns
    -------
    Estimate
        Value, standard error, interval and null values.

    Notes
    -----
    Guarantee: none in finite samples. Cost: one pass. Reference: Torabian (2023), sections 2.1, 2.3.

    Examples
    --------
    >>> float(classification_loss([0.1, 0.5, 0.7, 0.9], [0, 1, 0, 1]))
    0.25
    """
    return _thresholded("classification loss", rows_or_tally(scores, y, sample_weight), threshold, right=0.0)


@metric()
def accuracy(scores: Scores, y: Column = None, sample_weight: Column = None, *, threshold: float = 0.5) -> Estimate:
    """Accuracy of one column of scores; see :func:`~calibrant.metrics.dispatch.accuracy`.

    Examples
    --------
    >>> float(accuracy([0.1, 0.5, 0.7, 0.9], [0, 1, 0, 1]))
    0.75
    """
    return _thresholded("accuracy", rows_or_tally(scores, y, sample_weight), threshold, right=1.0)


@metric()
def auc(scores: GroupedScores, y: Column = None, sample_weight: Column = None, *, groups: Column = None) -> Estimate:
    r"""Area under the ROC curve (AUC): probability that an event has a higher score than a non-event.

    .. math:: A = \frac{1}{PN} \sum_{i: y_i = 1} \sum_{j: y_j = 0}
              \bigl(\mathbf{1}[s_i > s_j] + \tfrac12 \mathbf{1}[s_i = s_j]\bigr),

    with scores :math:`s_i`, labels :math:`y_i`, :math:`P` events and :math:`N` non-events. Rows of one grid cell, or of
    one bin of a table, count as tied. With one class it is not defined: NaN and a note. It does not depend on
    calibration.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y``, ``sample_weight`` and ``groups``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    groups : array-like, optional
        Groups of dependent rows, such as patients or customers.

    Returns
    -------
    Estimate
        Value, standard error and interval.

    Notes
    -----
    Guarantee: none in finite samples; the standard error is DeLong's, and needs two rows of each class. The interval is
    on the log-odds scale, :math:`\operatorname{logit} A \pm t\, \mathrm{se} / (A (1 - A))`, with Student's t for fewer
    than 50 rows of a class and else 1.96; there is none for an AUC of 0 or 1. In simulations with at least 20 rows of
    each class it covered in 94 to 96 %. With ``groups`` of dependent rows it uses sums by group (Obuchowski 1997).
    Cost: one sort of rows, one pass over cells. Reference: DeLong, DeLong and Clarke-Pearson (1988); Torabian (2023),
    section 3.2.3.

    Examples
    --------
    >>> float(auc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1]))
    0.875
    """
    if groups is not None or isinstance(scores, Clusters):
        data = grouped_or_tally(scores, y, sample_weight, groups)
        return _grouped_auc(auc(plain_tally(data)), data)
    tally = tally_of(scores, y, sample_weight)
    events = float(tally.positives)
    others = float(tally.total - events if tally.counts else (tally.n - tally.events).sum())
    if not (events > 0 and others > 0):
        return Estimate("AUC", math.nan, notes=(auc_of_one_class(),))
    sums = np.zeros((2, 4))  # events, non-events: placements, squared weights, these times placements, and squares
    hits_below, others_below = 0.0, 0.0
    for _, n, hits, w2, w2_hits, _ in parts_of(tally):
        rest = n - hits
        above, below = events - mass_below(hits, hits_below), mass_below(rest, others_below)
        sums += [_placements(hits, w2_hits, below / others), _placements(rest, w2 - w2_hits, above / events)]
        hits_below, others_below = hits_below + float(hits.sum()), others_below + float(rest.sum())
    value = float(sums[0, 0] / events)
    parts = [_variance(size, value, *row[1:]) for size, row in zip((events, others), sums, strict=True)]
    se = None if None in parts else math.sqrt(sum(part for part in parts if part is not None))
    notes = resolution_notes(tally) + ((no_spread(),) if se == 0.0 else ())
    rarer = min(size * size / row[1] for size, row in zip((events, others), sums.tolist(), strict=True))
    return Estimate("AUC", value, se, *_logit_interval(value, se, two_sided(rarer)), notes=notes)


@metric()
def sharpness(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    n_bins: int = 10,
    strategy: Strategy = "width",
    edges: Edges = None,
) -> Estimate:
    r"""Sharpness: how much the event rates of bins differ, regardless of the scores themselves.

    .. math:: \frac{1}{n} \sum_b n_b\, \hat y_b^2,

    with :math:`n_b` rows and the share :math:`\hat y_b` of events in bin b; empty bins add nothing. It ranges from the
    squared base rate (all bins have the same event rate) to the base rate (every bin has one class), and is biased
    upward, by up to (bins with rows) / 4n.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    n_bins, strategy, edges
        Bins as in :meth:`Bins.of`.

    Returns
    -------
    Estimate
        Value and standard error.

    Notes
    -----
    Guarantee: none in finite samples; standard error by the delta method. No interval, because of that bias.
    Cost: one pass over rows for given edges. Reference: Gupta (2023), section 6.3.2, eq. 6.12.

    Examples
    --------
    >>> float(sharpness([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], n_bins=2))
    0.125
    """
    bins = Bins.of(scores, y, sample_weight, n_bins=n_bins, strategy=strategy, edges=edges)
    sums = moments(_parts_of_bins(bins), lambda rate: (rate * (2.0 - rate), -(rate**2)))
    return _estimate(f"sharpness, {describe(bins, strategy, edges)}", sums, 1.0, null=False)


@metric()
def refinement(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    n_bins: int = 10,
    strategy: Strategy = "width",
    edges: Edges = None,
) -> Estimate:
    r"""Refinement: the Brier score after every score is replaced by the event rate of its bin.

    .. math:: \frac{1}{n} \sum_b n_b\, \hat y_b (1 - \hat y_b) = \bar y - \text{sharpness},

    with :math:`n_b` rows and the share :math:`\hat y_b` of events in bin b, and the base rate :math:`\bar y`; lower is
    better. Empty bins add nothing. In-sample, so biased downward by up to (bins with rows) / 4n.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    n_bins, strategy, edges
        Bins as in :meth:`Bins.of`.

    Returns
    -------
    Estimate
        Value and standard error.

    Notes
    -----
    Guarantee: none in finite samples; standard error by the delta method. No interval, because of that bias.
    Cost: one pass over rows for given edges. Reference: Gupta (2023), eq. 6.20 and Lemma 6.1.

    Examples
    --------
    >>> float(refinement([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], n_bins=2))
    0.125
    """
    bins = Bins.of(scores, y, sample_weight, n_bins=n_bins, strategy=strategy, edges=edges)
    sums = moments(_parts_of_bins(bins), squared_loss)
    return _estimate(f"refinement, {describe(bins, strategy, edges)}", sums, 1.0, null=False)


# --------------------------------------------------------------------------------------------- Groups of dependent rows


def plain_tally(data: Tally | Clusters) -> Tally:
    """The tally of all rows, with or without groups."""
    return data.tally if isinstance(data, Clusters) else data


def enough_groups(data: Tally | Clusters) -> bool:
    """Whether there are no groups, or enough of them for a standard error."""
    return not isinstance(data, Clusters) or data.size >= FEWEST_CLUSTERS


def _grouped_mean(plain: Estimate, data: Tally | Clusters, loss: Loss, ceiling: float) -> Estimate:
    """A mean loss with an interval that accounts for groups."""
    if not math.isfinite(plain.value):
        return plain
    tally = plain_tally(data)
    total, (hit, miss) = float(tally.total), loss(tally.scores)
    spread = spread_of(data, (hit - plain.value) / total, (miss - plain.value) / total)
    half = spread.quantile(0.95) * spread.sd
    ends = (max(plain.value - half, 0.0), min(plain.value + half, ceiling))
    return _with(plain, data, spread, ends)


def _grouped_auc(plain: Estimate, data: Tally | Clusters) -> Estimate:
    """AUC with an interval that accounts for groups."""
    if math.isnan(plain.value):
        return plain
    tally = plain_tally(data)
    n, hits = np.asarray(tally.n, dtype=np.float64), np.asarray(tally.events, dtype=np.float64)
    rest = n - hits
    events, others = float(hits.sum()), float(rest.sum())
    below, above = mass_below(rest) / others, (events - mass_below(hits)) / events
    spread = spread_of(data, (below - plain.value) / events, (above - plain.value) / others)
    return _with(plain, data, spread, _logit_interval(plain.value, spread.sd, spread.quantile(0.95)))


def _with(plain: Estimate, data: Tally | Clusters, spread: Spread, ends: tuple[float | None, float | None]) -> Estimate:
    if not enough_groups(data):
        notes = (*plain.notes, few_groups(FEWEST_CLUSTERS))
        return replace(plain, se=None, low=None, high=None, null_high=None, null_low=None, notes=notes)
    return replace(plain, se=spread.sd, low=ends[0], high=ends[1], null_high=None, null_low=None)


# ----------------------------------------------------------------------------------------------- From sums to estimates


def _estimate(
    name: str, sums: Moments, ceiling: float, notes: tuple[Note, ...] = (), null: bool = True, right: float = 0.0
) -> Estimate:
    """A mean loss, or a mean gain (of ``right`` = 1), with its interval and null values."""
    value = sums.loss / sums.total
    variance = _variance(sums.total, value, sums.w2, sums.w2_loss, sums.w2_square)
    se = None if variance is None else math.sqrt(variance)
    all_notes = notes + ((no_spread(),) if se == 0.0 else ())
    if not null:
        return Estimate(name, value, se, notes=all_notes)
    expected, spread = sums.null / sums.total, math.sqrt(sums.null_variance)
    skewness = sums.null_third / sums.null_variance / spread if spread > 0.0 else 0.0
    half = two_sided(sums.effective) * (se or 0.0)
    low, high = (max(value - half, 0.0), min(value + half, ceiling)) if se else (None, None)
    below = max(expected - upper_point(-skewness) * spread / sums.total, 0.0)
    beyond = min(expected + upper_point(skewness) * spread / sums.total, ceiling)
    kind: Literal["gain", "loss"] = "gain" if right else "loss"
    return Estimate(name, value, se, low, high, expected, beyond, all_notes, below, kind=kind)


def _mean_estimate(name: str, data: Tally | Rows, loss: Loss, right: float = 0.0) -> Estimate:
    return _estimate(name, moments(parts_of(data), loss), 1.0, resolution_notes(data), right=right)


def _thresholded(name: str, data: Tally | Rows, threshold: float, right: float) -> Estimate:
    if not 0.0 <= threshold <= 1.0:
        raise InputError("threshold", f"must lie in [0, 1], got {threshold!r}", "pass a probability")
    # A gridded score is truncated to 30 bits of its octave: scores on the threshold must not fall below it.
    gridded = isinstance(data, Tally) and data.grid is not None
    least = threshold * (1.0 - 2.0**-29) if gridded else threshold

    def loss(scores: Floats) -> tuple[Floats, Floats]:
        positive = scores >= least
        return np.where(positive, right, 1.0 - right), np.where(positive, 1.0 - right, right)

    found = _mean_estimate(f"{name} at threshold {threshold:g}", data, loss, right)
    if not found.se:
        return found
    size = found.value * (1.0 - found.value) / found.se**2  # equal rows in which the share has this variance
    low, high = (float(end) for end in clopper_pearson(found.value * size, size, 0.05))
    return replace(found, low=low, high=high)


def _variance(total: float, mean: float, w2: float, w2_loss: float, w2_square: float) -> float | None:
    """Variance of a weighted mean; None below an effective sample size of two, 0 if it is only rounding."""
    size = total**2 / w2
    if not size > 1.0 + 1e-9:
        return None
    spread = w2_square - 2.0 * mean * w2_loss + mean**2 * w2
    return 0.0 if spread <= 1e-14 * w2_square else float(spread / total**2 * size / (size - 1.0))


def _placements(rows: NDArray[Any], w2: NDArray[Any], place: Floats) -> tuple[float, ...]:
    """Sums for a mean of ``place`` over one class and for its variance."""
    return float((rows * place).sum()), float(w2.sum()), float((w2 * place).sum()), float((w2 * place * place).sum())


def _logit_interval(value: float, se: float | None, errors: float = TWO_SIDED) -> tuple[float | None, float | None]:
    """Interval of the log-odds of ``value``, ``errors`` standard errors either way, which stays inside (0, 1)."""
    if not se or not 0.0 < value < 1.0:
        return None, None
    middle, half = math.log(value / (1.0 - value)), errors * se / (value * (1.0 - value))
    return float(expit(middle - half)), float(expit(middle + half))


def _parts_of_bins(bins: Bins) -> Parts:
    """Non-empty bins with their event rates in place of scores."""
    filled = bins.n > 0
    squares, rate = squared_mass(bins)[filled], bins.rate[filled]
    return [Part(rate, bins.n[filled], bins.events[filled], squares, squares * rate, squares)]


def squared_mass(bins: Bins) -> NDArray[Any]:
    """Sum of squared weights of each bin, or its rows."""
    return bins.n if bins.w2 is None else bins.w2


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


# ---------------------------------------------------------------------------------------------------------------- Notes


def resolution_notes(data: Tally | Rows) -> tuple[Note, ...]:
    """A note if the data are a table of bins."""
    return (bin_means(),) if isinstance(data, Tally) and data.resolution == "bins" else ()


bin_means = note("bin-means", "computed as if every {nouns.row} had its bin's mean {nouns.score}")


@note("scores-of-0-or-1")
def _on_ends(voice: Voice, rows: float, counts: bool) -> str:
    why = "not clipped: no loss where the label agrees, infinite loss where it does not"
    return f"{_amount(voice, rows, counts)} with a {voice.nouns.score} of exactly 0 or 1, {why}"


@note("infinite-loss")
def infinite_loss(
    voice: Voice, rows: float, counts: bool, rest: float | None = None, without: float | None = None
) -> str:
    """Rows whose label had probability 0; the loss ``without`` them if ``rest`` others remain."""
    words, score = voice.nouns, voice.nouns.score
    ends = f"{words.events} at {score} 0, or {words.others} at {score} 1"
    why = f"infinite because of {_amount(voice, rows, counts)} ({ends})"
    if rest is None:
        return why
    return f"{why}; no other {words.row} is left" if without is None else f"{why}; without them it is {without:.4f}"


auc_of_one_class = note("auc-of-one-class", "not defined: all {nouns.rows} have the same class")


def _amount(voice: Voice, rows: float, counts: bool) -> str:
    """Number of rows in words, or their weight for importance weights."""
    words = voice.nouns
    return plural(int(rows), words.row, words.rows) if counts else f"{words.rows} of weight {rows:.6g}"
